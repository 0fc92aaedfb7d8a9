"""Hyper-parameters by exact evidence on nested subsets of the rows, and a report on them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import Bounds, minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from pursuit._types import Floats, Indices
from pursuit.kernels import compile_kernel
from pursuit.printed import printable
from pursuit.tuning.calibration import Calibration, Confidence, sloped_losses
from pursuit.tuning.evidence import Evidence
from pursuit.tuning.periods import at_period, candidate_periods, periodic_parts, theta_units

FAMILIES = ("rbf", "matern52", "matern32", "matern12")
"""Kernels compared when none is given, from the smoothest to the roughest."""

LEARNED, KEPT, PERIODS = "learned", "given", "periods"
"""What stands for a family where a kernel is given: hyper-parameters learned, kept, or tried."""

FIRST_ROWS = 500  # Rows on which families are compared. More: a safer choice, slower.
_FIRST_STEPS, _SECOND_STEPS = 25, 15  # Most steps of L-BFGS. More: slower, hardly better.
_GIVEN_STEPS, _GIVEN_AGAIN = 300, 40  # The same for a given kernel, on few and on more rows.
_TIE = 1e-3  # Evidence per row within which families are ties.
_BRIEF_STEPS, _BEAM = 4, 3  # Steps from every period tried; how many of them are learned from.
_ENOUGH = 1e-5  # Relative decrease, and largest slope, at which L-BFGS stops.
_GIVEN_ENOUGH, _AGAIN_ENOUGH = 1e-8, 1e-6  # For a given kernel: it may rise slowly for long.
_LINE_SEARCH = 8  # Most evaluations along a line. More: wasted where rounding hides the decrease.
_SINGLE_FROM, _SINGLE_ENOUGH = 500, 1e-5
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
_AT_BOUND = 1e-3  # Distance in the logarithm that counts as on the bound.
_UNBOUNDED = 3.0  # Restarts draw θ without a bound within this distance of the first start.
_NOTHING = 0.1  # Evidence per row above noise below which single features are tried.
_PROBED = "matern52"  # The family by which starts are judged.
_PROBES, _PROBE_WIDTHS, _LONG = 20, (0.3, 1.0), 10.0
_SHORT = 8.0, 16.0, 32.0  # Parts of the common length scales tried against fine detail.
_JUDGING_ROWS = 500  # Further rows needed to compare shapes by their log loss.
_FOLDS, _FOLDED_ROWS = 3, 30  # Parts of fewer rows that judge in turn; fewest rows to divide.


@dataclass(frozen=True)
class Stage:
    """One maximisation of the evidence."""

    family: str
    n_rows: int
    evidence_per_row: float
    n_evaluations: int
    seconds: float


@dataclass(frozen=True)
class SearchStep:
    """A kernel that a search has tried.

    Attributes
    ----------
    expression : str
        The kernel in words, or what was changed about the one before.
    evidence_per_row : float
        Its evidence, with all hyper-parameters learned.
    accepted : bool
        Whether the search went on from it.
    """

    expression: str
    evidence_per_row: float
    accepted: bool


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


def family_kernel(
    family: str, scales: Floats, variance: float, starts: Floats | None = None
) -> Any:
    """Constant times a stationary kernel with one length scale per feature; bounds in its units."""
    starts = scales if starts is None else starts
    bounds = np.column_stack([scales * np.exp(-4.0), scales * np.exp(5.0)])
    nu = {"matern52": 2.5, "matern32": 1.5, "matern12": 0.5}
    constant = ConstantKernel(variance, (variance * np.exp(-5.0), variance * np.exp(5.0)))
    if family == "rbf":
        return constant * RBF(starts, bounds)
    return constant * Matern(starts, bounds, nu=nu[family])


def learn_family(
    data: Evidence,
    scales: Floats,
    variance: float,
    noise: NoiseRange,
    late: Callable[[], bool] = never,
    **search: Any,
) -> Learned:
    """Compare the families on the first rows, then learn the best one on more rows.

    Detail that is too fine for the first rows may show on more of them.
    """
    winner = best_family(first_rows(data), scales, variance, noise, late, **search)
    learned = second_stage(data, winner, noise, late)
    if learned is winner or late():
        return learned
    starts = short_scales(data, learned, scales, variance, noise)
    if starts is None:
        return learned
    kernel = family_kernel(learned.family, scales, variance, starts)
    finer = maximise(data, kernel, noise, learned.family, late=late)
    stages = learned.stages + finer.stages
    return replace(max(learned, finer, key=lambda one: one.evidence_per_row), stages=stages)


def best_family(
    first: Evidence,
    scales: Floats,
    variance: float,
    noise: NoiseRange,
    late: Callable[[], bool] = never,
    families: Sequence[str] = FAMILIES,
    **search: Any,
) -> Learned:
    """The family with the largest evidence, with the stages of all families that were tried.

    Families within 1e-3 per row of the best are ties. The roughest of them is taken, since its
    errors are milder if it is wrong.
    """
    learned: list[Learned] = []

    def compare(starts: Floats) -> None:
        for family in families:
            if not (learned and late()):
                kernel = family_kernel(family, scales, variance, starts)
                learned.append(maximise(first, kernel, noise, family, late=late, **search))

    compare(scales)
    evidence = max(candidate.evidence_per_row for candidate in learned)
    if evidence < noise_evidence(first) + _NOTHING and not late():
        compare(probe_features(first, scales, variance, noise))
    if not late():
        # A rough family finds some of the detail from any start, and would hide the better one.
        smooth = [candidate for candidate in learned if candidate.family == _PROBED] or learned
        best = max(smooth, key=lambda one: one.evidence_per_row)
        starts = short_scales(first, best, scales, variance, noise)
        if starts is not None:
            compare(starts)
    return roughest(learned)


def roughest(learned: list[Learned]) -> Learned:
    """The roughest of the families that tie with the best, with the stages of all."""
    best = max(candidate.evidence_per_row for candidate in learned)
    ties = [candidate for candidate in learned if candidate.evidence_per_row >= best - _TIE]
    order = [candidate.family for candidate in learned]
    winner = max(ties, key=lambda one: (order.index(one.family), one.evidence_per_row))
    return replace(winner, stages=[stage for candidate in learned for stage in candidate.stages])


def noise_evidence(data: Evidence) -> float:
    """Evidence per row of the best model that explains the targets by noise alone."""
    power = float((data.weights @ data.y**2).sum() / data.n_values)
    logs = float(np.log(2 * np.pi * max(power, 1e-300))) + 1.0
    return float(-0.5 * data.n_values / data.weights.sum() * logs)


def probe_features(data: Evidence, scales: Floats, variance: float, noise: NoiseRange) -> Floats:
    """Length scales that are short for one feature and long for all others, for the best feature.

    If only a few of many features matter, the common start looks like noise in every direction,
    but a single feature does not.
    """
    best, starts = -np.inf, scales
    shared = np.sqrt(len(scales))
    for feature in np.argsort(-_correlation_ratios(data))[:_PROBES]:
        for width in _PROBE_WIDTHS:
            trial = scales * _LONG
            trial[feature] = scales[feature] / shared * width
            value = data.value(family_kernel(_PROBED, scales, variance, trial), noise.start)
            if value is not None and value > best:
                best, starts = value, trial
    return starts


def short_scales(
    data: Evidence, learned: Learned, scales: Floats, variance: float, noise: NoiseRange
) -> Floats | None:
    """Short length scales whose evidence is above that of what was learned; None if there are none.

    From a common start, fine detail looks like noise, and the optimiser lengthens the scales.
    """
    best, starts = learned.evidence_per_row, None
    single = len(data.X) >= _SINGLE_FROM
    for factor in _SHORT:
        kernel = family_kernel(learned.family, scales, variance, scales / factor)
        value = data.value(kernel, noise.start, np.float32) if single else None
        value = data.value(kernel, noise.start) if value is None else value
        per_row = -np.inf if value is None else value / float(data.weights.sum())
        if per_row > best:
            best, starts = per_row, scales / factor
    return starts


def _correlation_ratios(data: Evidence) -> Floats:
    """Share of the targets' variance that bins of each feature explain."""
    n_bins = max(2, min(20, len(data.X) // 10))
    ranks = np.argsort(np.argsort(data.X, axis=0, kind="stable"), axis=0)
    bins = ranks * n_bins // len(data.X)
    ratios = np.zeros(data.X.shape[1])
    for j in range(data.X.shape[1]):
        counts = np.bincount(bins[:, j], minlength=n_bins)
        for y in data.y.T:
            sums = np.bincount(bins[:, j], y, minlength=n_bins)
            ratios[j] += float((sums**2 / np.maximum(counts, 1)).sum())
    return ratios


def learn_given(
    data: Evidence,
    kernel: Any,
    noise: NoiseRange,
    late: Callable[[], bool] = never,
    **search: Any,
) -> Learned:
    """Learn the free hyper-parameters of a kernel within its own bounds.

    Where it is periodic, periods that a periodogram suggests are further starts.
    """
    first = first_rows(data)
    # A term that few rows do not need would be lost to more rows, if it were learned to its end.
    options: dict[str, Any] = {"late": late}
    if len(data.X) <= FIRST_ROWS:
        options |= {"steps": _GIVEN_STEPS, "enough": _GIVEN_ENOUGH}
    learned = [maximise(first, kernel, noise, LEARNED, **options, **search)]
    for start in starts_at_periods(first, kernel, noise, late):
        again = replace(noise, start=start.noise)
        found = maximise(first, start.kernel, again, LEARNED, **options)
        learned.append(replace(found, stages=start.stages + found.stages))
    best = max(learned, key=lambda one: one.evidence_per_row)
    best = replace(best, stages=[stage for one in learned for stage in one.stages])
    return second_stage(data, best, noise, late, steps=_GIVEN_AGAIN, enough=_AGAIN_ENOUGH)


def starts_at_periods(
    first: Evidence, kernel: Any, noise: NoiseRange, late: Callable[[], bool] = never
) -> list[Learned]:
    """Learn for a few steps from periods that a periodogram suggests; return the best few.

    Several periods are set one after the other. The first has the stage that stands for all.
    """
    trials: list[tuple[Any, Learned]] = []
    best = [kernel]
    for part in periodic_parts(kernel, first.X.shape[1]):
        periods = candidate_periods(first, part)
        for start in [at_period(one, part, period) for one in best for period in periods]:
            if late():
                return []
            trials.append((start, maximise(first, start, noise, PERIODS, steps=_BRIEF_STEPS)))
        trials.sort(key=lambda trial: -trial[1].evidence_per_row)
        best = [start for start, _ in trials[:_BEAM]] or best
    if not trials:
        return []
    stages = [stage for _, found in trials for stage in found.stages]
    total = Stage(
        PERIODS,
        len(first.X),
        max(stage.evidence_per_row for stage in stages),
        sum(stage.n_evaluations for stage in stages),
        sum(stage.seconds for stage in stages),
    )
    learned = [found for _, found in trials[:_BEAM]]
    return [replace(found, stages=[] if k else [total]) for k, found in enumerate(learned)]


def second_stage(
    data: Evidence,
    start: Learned,
    noise: NoiseRange,
    late: Callable[[], bool] = never,
    *,
    steps: int = _SECOND_STEPS,
    enough: float = _ENOUGH,
    prior: LogPrior | None = None,
) -> Learned:
    """Continue with all rows, if there are more than in the first stage, and if there is time."""
    if len(data.X) <= FIRST_ROWS or late():
        return start
    again = replace(noise, start=start.noise)
    options: dict[str, Any] = {"steps": steps, "enough": enough, "late": late, "prior": prior}
    refined = maximise(data, start.kernel, again, start.family, near=True, **options)
    return replace(refined, stages=start.stages + refined.stages, path=start.path)


def first_rows(data: Evidence) -> Evidence:
    """The rows on which families are compared."""
    return data.take(slice(FIRST_ROWS))


def maximise(
    data: Evidence,
    kernel: Any,
    noise: NoiseRange,
    family: str,
    *,
    steps: int = _FIRST_STEPS,
    enough: float = _ENOUGH,
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
    if len(data.X) >= _SINGLE_FROM and enough >= _SINGLE_ENOUGH:
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

    def end_when_late(xk: Floats) -> None:
        if late():
            raise StopIteration

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
            _descend(objective, inside, lower, upper, units, steps, enough, end_when_late)
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
    callback: Any,
) -> None:
    """L-BFGS within a box, the first step at most one unit per coordinate.

    Its own first step is the whole gradient. From a start that fits badly this leads to the end of
    the box, where the evidence may be better than at the start, and flat.
    """
    value, gradient = objective(start)
    steepest = max(1.0, float(np.abs(gradient * units).max()))

    origin = start / units

    def scaled(point: Floats) -> tuple[float, Floats]:
        at_start = np.array_equal(point, origin)
        f, g = (value, gradient) if at_start else objective(units * point)
        return f / steepest, g * units / steepest

    minimize(
        scaled,
        origin,
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(lower / units, upper / units),
        callback=callback,
        options={
            "maxiter": steps,
            "maxls": _LINE_SEARCH,
            "ftol": enough / steepest,
            "gtol": enough / steepest,
        },
    )


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


@dataclass(frozen=True)
class AtBound:
    """A free hyper-parameter that ended on a bound.

    Attributes
    ----------
    parameter : str
        Its name, as in ``kernel.get_params()``.
    dimension : int
        Which of its elements.
    upper : bool
        Whether the bound is the upper one.
    bound : float, optional
        The bound; None where θ is not a logarithm, and the number says nothing to a user.
    single : bool
        Whether it has one element only.
    """

    parameter: str
    dimension: int
    upper: bool
    bound: float | None
    single: bool = True

    @property
    def side(self) -> str:
        """The bound in a word."""
        return "upper" if self.upper else "lower"

    @property
    def note(self) -> str:
        """A line of the report."""
        label = self.parameter if self.single else f"{self.parameter}[{self.dimension}]"
        number = "" if self.bound is None else f" {self.bound:.3g}"
        return f"{label} at its {self.side} bound{number}"

    @property
    def warning(self) -> str:
        """The same as scikit-learn's regressor warns of it."""
        number = "" if self.bound is None else f" {self.bound}"
        change = "Increasing" if self.upper else "Decreasing"
        return (
            f"The optimal value found for dimension {self.dimension} of parameter {self.parameter} "
            f"is close to the specified {self.side} bound{number}. {change} the bound and calling "
            "fit again may find a better value."
        )


def at_bounds(kernel: Any) -> list[AtBound]:
    """The free hyper-parameters that ended on a bound."""
    free = [parameter for parameter in kernel.hyperparameters if not parameter.fixed]
    each = [(parameter, e) for parameter in free for e in range(parameter.n_elements)]
    ends: list[AtBound] = []
    for (parameter, element), value, (low, high) in zip(
        each, kernel.theta, kernel.bounds, strict=True
    ):
        upper = value >= high - _AT_BOUND
        if upper or value <= low + _AT_BOUND:
            # Only θ of numeric hyper-parameters is a logarithm.
            is_log = parameter.value_type == "numeric"
            bound = float(np.reshape(parameter.bounds, (-1, 2))[element, int(upper)])
            single = parameter.n_elements == 1
            name = parameter.name
            ends.append(AtBound(name, element, upper, bound if is_log else None, single))
    return ends


@dataclass(frozen=True)
class Shape:
    """A learned kernel of the features x/u, with one length scale per feature or a common one.

    Attributes
    ----------
    units : array of shape (n_features,)
        u.
    learned : Learned
        Kernel on x/u, and noise.
    learn : callable
        Learns them again, from other rows of x/u.
    """

    units: Floats
    learned: Learned
    learn: Callable[[Evidence], Learned]

    def rescaled(self, data: Evidence) -> Evidence:
        """The data in these units."""
        return replace(data, X=data.X / self.units)

    def in_features(self) -> Learned:
        """The same with the kernel of x itself."""
        kernel = self.learned.kernel
        if np.all(self.units == 1.0):
            return self.learned
        scales, bounds = kernel.k2.length_scale, kernel.k2.length_scale_bounds
        kernel = kernel.clone_with_theta(kernel.theta).set_params(
            k2__length_scale=scales * self.units,
            k2__length_scale_bounds=np.outer(self.units, bounds),
        )
        return replace(self.learned, kernel=kernel)


def learn_shape(
    data: Evidence,
    deviations: Floats,
    variance: float,
    noise: NoiseRange,
    late: Callable[[], bool] = never,
    **search: Any,
) -> Learned:
    """Learn kernel family and length scales for targets of ±1, one column per class.

    The family is the one with the largest evidence if every feature has its own length scale. Many
    length scales can have a large evidence and still mislead. They are compared with one common
    length scale, in units of the features or of their deviations, by the log loss of further rows.
    If there are fewer than 500 of those, each third of the first rows is predicted by what the
    others have learned. Of fewer than 30 rows, or once ``late()`` is true, the evidence decides,
    less ½ log of the number of values per hyper-parameter.
    """
    first = first_rows(data)
    scales = deviations * np.sqrt(len(deviations))
    own = best_family(first, scales, variance, noise, late, **search)
    family, stages = own.family, own.stages

    def separate(some: Evidence) -> Learned:
        return best_family(some, scales, variance, noise, late, families=[family], **search)

    shapes = [Shape(np.ones(len(deviations)), own, separate)]
    if len(deviations) > 1:
        for units in (deviations, np.ones(len(deviations))):
            width = float(np.sqrt(np.sum((deviations / units) ** 2)))
            kernel = common_kernel(family, width, variance)
            common = _learner(kernel, noise, f"{family}, one", late=late, **search)
            learned = common(replace(first, X=first.X / units))
            stages = stages + learned.stages
            shapes.append(Shape(units, replace(learned, family=family), common))
    best = _best(shapes, data, late)
    best = replace(best, learned=replace(best.learned, stages=stages))
    more = second_stage(best.rescaled(data), best.learned, noise, late)
    return replace(best, learned=more).in_features()


def _learner(
    kernel: Any, noise: NoiseRange, family: str, **options: Any
) -> Callable[[Evidence], Learned]:
    return lambda data: maximise(data, kernel, noise, family, **options)


def common_kernel(family: str, width: float, variance: float, start: float = 1.0) -> Any:
    """The family's kernel with a single length scale, which starts at a part of the width."""
    kernel = family_kernel(family, np.array([width]), variance)
    bounds = tuple(np.ravel(kernel.k2.length_scale_bounds))
    constant: ConstantKernel = kernel.k1
    if family == "rbf":
        return constant * RBF(start * width, bounds)
    return constant * Matern(start * width, bounds, nu=kernel.k2.nu)


def _best(shapes: list[Shape], data: Evidence, late: Callable[[], bool]) -> Shape:
    """The best shape, by log loss on rows that it was not learned from where there are enough."""
    if len(shapes) == 1:
        return shapes[0]
    first = first_rows(data)
    if len(data.X) - FIRST_ROWS >= _JUDGING_ROWS:
        further = data.take(slice(FIRST_ROWS, None))

        def loss(shape: Shape) -> float:
            losses = class_losses(shape.learned, shape.rescaled(first), shape.rescaled(further))
            return float(np.average(losses, weights=further.weights))

        return min(shapes, key=loss)
    rows = float(first.weights.sum())
    penalty = 0.5 * float(np.log(rows * data.y.shape[1]))

    def evidence(shape: Shape) -> float:
        return shape.learned.evidence_per_row * rows - penalty * len(shape.learned.kernel.theta)

    best = max(shapes, key=evidence)
    if len(first.X) < _FOLDED_ROWS or late():
        return best
    folds = _folds(first)
    losses = {id(shape): _folded_losses(shape, first, folds) for shape in shapes}

    def gain(shape: Shape) -> float:
        """How much less a shape loses than the one of the largest evidence, in standard errors."""
        gains = losses[id(best)] - losses[id(shape)]
        mean = float(np.average(gains, weights=first.weights))
        spread = float(np.average((gains - mean) ** 2, weights=first.weights))
        return mean / np.sqrt(spread / len(gains)) if spread > 0.0 else 0.0

    return max(shapes, key=gain)


def _folds(data: Evidence) -> Indices:
    """The part that each row belongs to; identical rows are in the same one."""
    _, group = np.unique(data.X, axis=0, return_inverse=True)
    parts: Indices = np.ravel(group) % _FOLDS
    return parts


def _folded_losses(shape: Shape, data: Evidence, folds: Indices) -> Floats:
    """Log losses of the rows of each part, predicted by what the other parts have learned."""
    rescaled, losses = shape.rescaled(data), np.empty(len(folds))
    for part in range(_FOLDS):
        others, own = np.flatnonzero(folds != part), np.flatnonzero(folds == part)
        if not (len(others) and len(own)):  # all rows are in one part: no kernel is any better
            losses[own] = 0.0
            continue
        fitted, judged = rescaled.take(others), rescaled.take(own)
        losses[own] = class_losses(shape.learn(fitted), fitted, judged)
    return losses


def class_losses(learned: Learned, fitted: Evidence, judged: Evidence) -> Floats:
    """Log losses at the best slope, of rows to judge by, of a regression on ±1 to other rows."""
    kernel = compile_kernel(learned.kernel)[0]
    C = kernel.tile(fitted.X, fitted.X)
    C[np.diag_indices_from(C)] += learned.noise / fitted.weights
    dual = cho_solve(cho_factor(C, lower=True), fitted.y)
    return sloped_losses(kernel.tile(judged.X, fitted.X) @ dual, judged.y, judged.weights)


@dataclass(frozen=True)
class LearningReport:
    """What was learned: family and evidence, stages and times, relevance of features, warnings.

    Attributes
    ----------
    family : str
        The kernel family chosen where no kernel is given, "learned" for a given kernel whose
        hyper-parameters were learned, and "given" for a kernel that was kept.
    kept : str
        Why the kernel was kept; empty if it was learned.
    stages : list of Stage
        Every maximisation of the evidence: family, rows, evidence per row, evaluations, seconds.
    seconds : dict
        Time of each stage of the fit.
    relevance : array of shape (n_features,), optional
        Standard deviation of each feature over its length scale: how much of its range matters.
    importance : array of shape (n_features,), optional
        Deviation of the predictions that each feature is responsible for, relative to their own
        deviation, on some of the rows (see the method ``importance``). None for rows that are not
        of numbers, and for more than 2 000 features.
    importance_std : array of shape (n_features,), optional
        Its standard deviation over bootstrap samples of these rows.
    feature_names : list of str
        Names to print both with.
    moved : str
        Whether and how the basis was moved.
    near_rows : str
        How many near rows predictions use, and why, where they can.
    calibration : Calibration or Confidence, optional
        The outcome of leave-one-out calibration.
    warnings : list of str
        Possible problems, and what to do about them.
    search_path : list of SearchStep
        Kernels that ``kernel="search"`` or an additive kernel has tried, in this order.
    noise : str
        What ``noise="varying"`` or ``likelihood="student-t"`` has found.
    few_rows : str
        How much wider error bars are because few rows leave kernel and noise unknown.
    """

    family: str = KEPT
    kept: str = ""
    stages: list[Stage] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    relevance: Floats | None = None
    importance: Floats | None = None
    importance_std: Floats | None = None
    feature_names: list[str] = field(default_factory=list)
    moved: str = "not moved"
    near_rows: str = ""
    calibration: Calibration | Confidence | None = None
    warnings: list[str] = field(default_factory=list)
    search_path: list[SearchStep] = field(default_factory=list)
    noise: str = ""
    few_rows: str = ""

    def __str__(self) -> str:
        lines = [f"kernel family: {self.family}" + (f" ({self.kept})" if self.kept else "")]
        lines += [
            f"  {stage.family:<13} {stage.n_rows:>5} rows  evidence per row "
            f"{stage.evidence_per_row:9.4f}  {stage.n_evaluations:>3} evaluations  "
            f"{stage.seconds:6.2f} s"
            for stage in self.stages
        ]
        if self.importance is not None and self.importance_std is not None:
            lines.append("importance of the features (relative to the predictions' deviation):")
            lines += [
                f"  {printable(self.feature_names[j]):<20} {self.importance[j]:.3g} ± "
                f"{self.importance_std[j]:.2g}"
                for j in np.argsort(-self.importance, kind="stable")[:20]
            ]
        if self.search_path:
            lines.append("kernels tried (evidence per row, accepted or not):")
            lines += [
                f"  {step.evidence_per_row:9.4f}  {'yes' if step.accepted else 'no ':<3}  "
                f"{printable(step.expression)}"
                for step in self.search_path
            ]
        if self.relevance is not None:
            lines.append("relevance of the features (sd / length scale):")
            lines += [
                f"  {printable(self.feature_names[j]):<20} {self.relevance[j]:.3g}"
                for j in np.argsort(-self.relevance)[:20]
            ]
        lines.append(f"basis: {self.moved}")
        if self.noise:
            lines.append(f"noise: {self.noise}")
        if self.few_rows:
            lines.append(f"few rows: {self.few_rows}")
        if self.near_rows:
            lines.append(f"near rows: {self.near_rows}")
        if self.calibration is not None:
            lines.append(f"calibration: {self.calibration}")
        lines.append("seconds: " + ", ".join(f"{k} {v:.2f}" for k, v in self.seconds.items()))
        lines += [f"warning: {printable(text)}" for text in self.warnings]
        return "\n".join(lines)
