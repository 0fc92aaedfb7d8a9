"""Evidence maximised over the hyper-parameters of one kernel, from one start or several."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import Bounds, minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from pursuit._types import Floats
from pursuit.tuning.evidence import Evidence
from pursuit.tuning.periods import theta_units
from pursuit.tuning.report import FAMILIES, LEARNED, SearchStep, Stage

_MOST_STEPS = 25  # Most steps of L-BFGS. More: slower, hardly better.
ENOUGH = 1e-5  # Relative decrease, and largest slope, at which L-BFGS stops.
_LINE_SEARCH = 8  # Most evaluations along a line. More: wasted where rounding hides the decrease.
_GAVE_UP = 2  # What L-BFGS reports where such a search has failed.
_FLATTER = 0.1
"""L-BFGS that has given up begins again where its slope is at most this part of that at its start.
More: begins again in vain where rounding hides the decrease. Less: ends on its way."""
SINGLE_FROM, _SINGLE_ENOUGH = 500, 1e-5
"""float32 serves from so many rows, where steps need not resolve less than this per row. Fewer rows
cost little in float64."""
_PATIENCE, _LEAST_GAIN = 3, 1e-5
"""Where rows are drawn from more, a run ends when so many evaluations together gain less than this
per row: other rows would differ by far more, and float32 hides what line searches look for there.
More: slower, hardly better."""
_SCORING_STEPS, _PREDICTED_GAIN = 5, 2e-5
"""Most evaluations of a search with the information, and the gain per row that a step must promise.
More: slower, and closer to the rows drawn: 8 gave protein higher evidence and worse densities."""
_LONGEST_STEP, _SOFTENED = 1.0, 1e-4
"""Of such a search: its longest step in a logarithm, and what is added to the information per row:
next to nothing, except for length scales of features that do not matter."""
_LEAST_CURVED, _MOST_CURVED = 0.5, 10.0
"""Range of the curvature along a step, as a part of the information, that is believed."""
_UNBOUNDED = 3.0  # Restarts draw θ without a bound within this distance of the first start.


@dataclass
class Learned:
    """A kernel and noise, their evidence on a subset, and the stages that led to them.

    ``factor`` is what kernel and noise have been multiplied by because few rows leave them unknown.
    """

    kernel: Any
    noise: float
    evidence_per_row: float
    stages: list[Stage] = field(default_factory=list)
    family: str = LEARNED
    path: list[SearchStep] = field(default_factory=list)
    factor: float = 1.0


@dataclass(frozen=True)
class NoiseRange:
    """Start and range of the noise; ``fixed`` if it is not learned."""

    start: float
    low: float
    high: float
    fixed: bool = False


@dataclass(frozen=True)
class LogPrior:
    """Independent Gaussians of the kernel's θ and, last, of the logarithm of the noise.

    Attributes
    ----------
    centre, deviation : arrays
        Means and standard deviations.
    """

    centre: Floats
    deviation: Floats

    def value_and_gradient(self, point: Floats) -> tuple[float, Floats]:
        """Log density, without its constant, and its gradient."""
        z = (point - self.centre) / self.deviation
        return -0.5 * float(z @ z), -z / self.deviation


def never() -> bool:
    """Default time check: never out of time."""
    return False


def noise_evidence(data: Evidence) -> float:
    """Evidence per row of the best model that explains the targets by noise alone."""
    power = float((data.weights @ data.y**2).sum() / data.n_values)
    logs = float(np.log(2 * np.pi * max(power, 1e-300))) + 1.0
    return float(-0.5 * data.n_values / data.weights.sum() * logs)


def maximise(
    data: Evidence,
    kernel: Any,
    noise: NoiseRange,
    family: str,
    *,
    steps: int = _MOST_STEPS,
    enough: float = ENOUGH,
    restarts: int = 0,
    rng: np.random.Generator | None = None,
    late: Callable[[], bool] = never,
    prior: LogPrior | None = None,
    near: bool = False,
) -> Learned:
    """L-BFGS on the logarithms of the free hyper-parameters, from the kernel's own values.

    The best point seen is kept even if the optimiser fails. ``restarts`` further runs start at
    points drawn uniformly between the bounds of θ, as scikit-learn draws them; where there is no
    bound, within _UNBOUNDED of the first start. A run ends after so many ``steps``, or when a step
    or the slope is at most ``enough`` per row; where the rows are drawn from more, that of one of
    the families also when a few evaluations gain next to nothing. No step begins once ``late()`` is
    true. With a ``prior`` its log density is part of the evidence. Matrices are in float32 as long
    as its rounding does not show beside ``enough``, and in float64 from there on. From a start that
    is ``near`` the maximum on rows drawn from more, a family is learned by scoring (`_score`).
    """
    start_time = time.perf_counter()
    kernel = clone(kernel)
    run: list[float] = []  # the best value after each evaluation of a run
    brief = data.drawn and family in FAMILIES  # a given kernel may rise slowly for long
    n, best = float(data.weights.sum()), _Best(kernel.theta.copy(), noise.start)
    if len(data.X) >= SINGLE_FROM and enough >= _SINGLE_ENOUGH:
        best.dtype = np.float32
    floor = noise_evidence(data)
    free = len(kernel.theta)
    bounds = np.vstack([kernel.bounds.reshape(free, 2), np.log([[noise.low, noise.high]])])
    if noise.fixed:
        bounds[-1] = np.log(noise.start)
    lower, upper = bounds.T
    units = np.append(theta_units(kernel, data.X), 1.0)

    def evaluated(evaluate: Callable[..., Any], point: Floats) -> Any:
        """What a method of the evidence returns at a point; None where there is no number."""
        kernel.theta = point[:free]
        found = evaluate(kernel, float(np.exp(point[free])), best.dtype)
        best.evaluations += 1
        if found is None and best.dtype is np.float32:
            best.dtype = np.float64
            return evaluated(evaluate, point)
        return None if found is None or not np.isfinite(found[0]) else found

    def remember(point: Floats, value: float) -> None:
        if value > best.value:
            best.value, best.theta, best.noise = value, point[:free].copy(), np.exp(point[free])

    def informed(point: Floats) -> tuple[float, Floats, Floats] | None:
        found = evaluated(data.with_information, point)
        if found is None:
            return None
        value, gradient, information = found
        remember(point, float(value / n))
        return float(value / n), gradient / n, information / n

    def objective(point: Floats) -> tuple[float, Floats]:
        found = evaluated(data.value_and_gradient, point)
        if found is None:
            return 1e10, np.zeros_like(point)
        value, gradient = found
        if prior is not None:
            penalty, slope = prior.value_and_gradient(point)
            value, gradient = value + penalty, gradient + slope
        value, gradient = float(value / n), gradient / n
        remember(point, value)
        run.append(max([value, *run[-1:]]))
        if brief and len(run) > _PATIENCE and run[-1] < run[-1 - _PATIENCE] + _LEAST_GAIN:
            raise _NoGainError
        # Relative to pure noise, so that the stopping rule does not depend on units.
        return floor - value, -gradient

    scoring = near and brief and prior is None and data.knows_information(kernel)
    starts = [np.append(kernel.theta, np.log(noise.start))]
    if restarts and rng is not None:
        low = np.where(np.isfinite(lower), lower, starts[0] - _UNBOUNDED)
        high = np.where(np.isfinite(upper), upper, starts[0] + _UNBOUNDED)
        starts += [rng.uniform(low, high) for _ in range(restarts)]
    for start in starts:
        if best.evaluations and late():
            break
        run.clear()
        try:
            inside = np.clip(start, lower, upper)
            if scoring:
                _score(informed, inside, lower, upper, late)
                continue
            _descend(objective, inside, lower, upper, units, steps, enough, late)
        except _NoGainError:
            continue
        except (ArithmeticError, RuntimeError, ValueError) as error:
            warnings.warn(
                f"the optimiser of the evidence failed ({error}): the best hyper-parameters seen "
                "so far are kept.",
                ConvergenceWarning,
                stacklevel=2,
            )
    if not np.isfinite(best.value):
        warnings.warn(
            "the evidence could not be evaluated at any hyper-parameters tried: the starting "
            "values are kept. Check the kernel's bounds.",
            ConvergenceWarning,
            stacklevel=2,
        )
    kernel.theta = best.theta
    stage = Stage(
        family, len(data.X), best.value, best.evaluations, time.perf_counter() - start_time
    )
    return Learned(kernel, float(best.noise), best.value, [stage], family)


def _descend(
    objective: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    lower: Floats,
    upper: Floats,
    units: Floats,
    steps: int,
    enough: float,
    late: Callable[[], bool],
) -> None:
    """L-BFGS within a box, the first step at most one unit per coordinate.

    Its own first step is the whole gradient. From a start that fits badly this leads to the end of
    the box, where the evidence may be better than at the start, and flat.

    With little noise such a start may be steeper than all else by many orders of magnitude. Steps
    by the curvature found there are then so short that the line search gives up: the search begins
    again where it is, from the slope that it has come to.
    """

    def end_when_late(xk: Floats) -> None:
        if late():
            raise StopIteration

    value, gradient = objective(start)
    origin, slope, before = start / units, gradient * units, np.inf
    # At least as steep as 1, so that this ends.
    while (steepest := max(1.0, float(np.abs(slope).max()))) <= _FLATTER * before:
        found = minimize(
            _scaled(objective, units, steepest, (origin, value, slope)),
            origin,
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(lower / units, upper / units),
            callback=end_when_late,
            options={
                "maxiter": steps,
                "maxls": _LINE_SEARCH,
                "ftol": enough / steepest,
                "gtol": enough / steepest,
            },
        )
        steps -= found.nit
        origin, value, slope = found.x, found.fun * steepest, found.jac * steepest
        if found.status != _GAVE_UP or steps < 1 or late():
            return
        before = steepest


def _scaled(
    objective: Callable[[Floats], tuple[float, Floats]],
    units: Floats,
    steepest: float,
    known: tuple[Floats, float, Floats],
) -> Callable[[Floats], tuple[float, Floats]]:
    """The objective over points in these units, divided by a slope; ``known`` at one of them."""
    origin, value, slope = known

    def scaled(point: Floats) -> tuple[float, Floats]:
        if np.array_equal(point, origin):
            return value / steepest, slope / steepest
        f, g = objective(units * point)
        return f / steepest, g * units / steepest

    return scaled


def _score(
    evaluate: Callable[[Floats], tuple[float, Floats, Floats] | None],
    start: Floats,
    lower: Floats,
    upper: Floats,
    late: Callable[[], bool],
) -> None:
    """Newton's method within a box, the information in place of the Hessian.

    The curvature along a step, which values and slope at its ends tell, is that of the information
    times a factor, by which the next step is divided. A step that loses is repeated with it. Ends
    where a step promises next to nothing.
    """
    found, point, factor = evaluate(start), start, 1.0
    for _ in range(_SCORING_STEPS - 1):
        if found is None or late():
            return
        value, gradient, information = found
        free = np.where(gradient < 0, point > lower, point < upper)
        if not free.any():
            return
        curvature = factor * information + _SOFTENED * np.eye(len(point))
        step = np.zeros_like(point)
        step[free] = cho_solve(cho_factor(curvature[np.ix_(free, free)]), gradient[free])
        step *= min(1.0, _LONGEST_STEP / max(float(np.abs(step).max()), 1e-300))
        step = np.clip(point + step, lower, upper) - point
        rise, bend = float(gradient @ step), float(step @ information @ step)
        if rise - 0.5 * factor * bend < _PREDICTED_GAIN:
            return
        trial = evaluate(point + step)
        gain = -np.inf if trial is None else trial[0] - value
        factor = float(np.clip(2.0 * (rise - gain) / bend, _LEAST_CURVED, _MOST_CURVED))
        if gain > 0.0:
            found, point = trial, point + step


class _NoGainError(Exception):
    """Raised where further evaluations gain nothing."""


@dataclass
class _Best:
    """The best point that the optimiser has seen, and the type in which it evaluates."""

    theta: Floats
    noise: float
    value: float = -np.inf
    evaluations: int = 0
    dtype: type[np.floating[Any]] = np.float64
