"""Hyper-parameters by exact evidence on nested subsets of the rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import Bounds, minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from pursuit._types import Floats
from pursuit.tuning.evidence import Evidence

FAMILIES = ("rbf", "matern52", "matern32", "matern12")
"""Kernels compared when none is given, from the smoothest to the roughest."""

FIRST_ROWS, SECOND_ROWS = 500, 2000
_FIRST_STEPS, _SECOND_STEPS = 25, 15
_TIE = 1e-3
_ENOUGH = 1e-5
_AT_BOUND = 1e-3
_NOTHING = 0.1
_PROBES, _PROBE_WIDTHS, _LONG = 20, (0.3, 1.0), 10.0


@dataclass(frozen=True)
class Stage:
    """One maximisation of the evidence."""

    family: str
    n_rows: int
    evidence_per_row: float
    n_evaluations: int
    seconds: float


@dataclass
class Learned:
    """A kernel and noise with the evidence they reach on a subset, and how they were found."""

    kernel: Any
    noise: float
    evidence_per_row: float
    stages: list[Stage] = field(default_factory=list)
    family: str = "given"


@dataclass(frozen=True)
class NoiseRange:
    """Where the noise may go; ``fixed`` where it must stay."""

    start: float
    low: float
    high: float
    fixed: bool = False


def never() -> bool:
    """There is time."""
    return False


def family_kernel(
    family: str, scales: Floats, variance: float, starts: Floats | None = None
) -> Any:
    """Constant x a stationary kernel with a length scale a feature, bounds in their units."""
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
    """Compare the families on the first rows, then learn the winner on more, until it is late."""
    winner = best_family(first_rows(data), scales, variance, noise, late, **search)
    return second_stage(data, winner, noise, late)


def best_family(
    first: Evidence,
    scales: Floats,
    variance: float,
    noise: NoiseRange,
    late: Callable[[], bool] = never,
    **search: Any,
) -> Learned:
    """The family with most evidence, with the stages of all that there was time for.

    Families within 1e-3 a row of the best are ties, and the roughest of them is taken: it fails
    more gently.
    """
    found: list[Learned] = []

    def compare(starts: Floats) -> None:
        for family in FAMILIES:
            if not (found and late()):
                kernel = family_kernel(family, scales, variance, starts)
                found.append(maximise(first, kernel, noise, family, late=late, **search))

    compare(scales)
    evidence = max(candidate.evidence_per_row for candidate in found)
    if evidence < _noise_evidence(first) + _NOTHING and not late():
        compare(probe_features(first, scales, variance, noise))
    best = max(candidate.evidence_per_row for candidate in found)
    ties = [candidate for candidate in found if candidate.evidence_per_row >= best - _TIE]
    winner = max(ties, key=lambda one: (FAMILIES.index(one.family), one.evidence_per_row))
    return replace(winner, stages=[stage for candidate in found for stage in candidate.stages])


def _noise_evidence(data: Evidence) -> float:
    """Evidence a row of the best model that sees nothing but noise."""
    power = float(np.average((data.y**2).mean(axis=1), weights=data.weights))
    logs = float(np.log(2 * np.pi * max(power, 1e-300))) + 1.0
    return float(-0.5 * data.y.shape[1] * logs)


def probe_features(data: Evidence, scales: Floats, variance: float, noise: NoiseRange) -> Floats:
    """Length scales with one feature short and all others long, for the feature that does best.

    Where few of many features matter, the common start looks like noise in every direction; a
    feature on its own does not.
    """
    best, starts = -np.inf, scales
    shared = np.sqrt(len(scales))
    for feature in np.argsort(-_correlation_ratios(data))[:_PROBES]:
        for width in _PROBE_WIDTHS:
            trial = scales * _LONG
            trial[feature] = scales[feature] / shared * width
            found = data.value_and_gradient(
                family_kernel("matern52", scales, variance, trial), noise.start
            )
            if found is not None and found[0] > best:
                best, starts = found[0], trial
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
    """Learn the free hyper-parameters of a kernel within its own bounds, until it is late."""
    first = maximise(first_rows(data), kernel, noise, "given", late=late, **search)
    return second_stage(data, first, noise, late)


def second_stage(
    data: Evidence, start: Learned, noise: NoiseRange, late: Callable[[], bool] = never
) -> Learned:
    """Go on with all rows, if there are more than have been seen, and time."""
    if len(data.X) <= FIRST_ROWS or late():
        return start
    again = NoiseRange(start.noise, noise.low, noise.high, noise.fixed)
    found = maximise(data, start.kernel, again, start.family, steps=_SECOND_STEPS, late=late)
    return replace(found, stages=start.stages + found.stages)


def first_rows(data: Evidence) -> Evidence:
    """The rows on which families are compared."""
    n = FIRST_ROWS
    return Evidence(data.X[:n], data.y[:n], data.weights[:n], data.workers)


def maximise(
    data: Evidence,
    kernel: Any,
    noise: NoiseRange,
    family: str,
    *,
    steps: int = _FIRST_STEPS,
    restarts: int = 0,
    rng: np.random.Generator | None = None,
    late: Callable[[], bool] = never,
) -> Learned:
    """L-BFGS on the logarithms of the free hyper-parameters, from the kernel's own values.

    The best point seen is kept whatever becomes of the optimiser; ``restarts`` more runs start at
    random points within the bounds. No step is begun when it is ``late``.
    """
    start_time = time.perf_counter()
    kernel = clone(kernel)
    n, best = float(data.weights.sum()), _Best(kernel.theta.copy(), noise.start)
    floor = _noise_evidence(data)
    free = len(kernel.theta)
    bounds = np.vstack([kernel.bounds.reshape(free, 2), np.log([[noise.low, noise.high]])])
    if noise.fixed:
        bounds[-1] = np.log(noise.start)
    lower, upper = bounds.T

    def objective(point: Floats) -> tuple[float, Floats]:
        kernel.theta = point[:free]
        found = data.value_and_gradient(kernel, float(np.exp(point[free])))
        best.evaluations += 1
        if found is None or not np.isfinite(found[0]):
            return 1e10, np.zeros_like(point)
        value, gradient = float(found[0] / n), found[1] / n
        if value > best.value:
            best.value, best.theta, best.noise = value, point[:free].copy(), np.exp(point[free])
        # Measured from pure noise, so that the stopping rule does not depend on units.
        return floor - value, -gradient

    def end_when_late(xk: Floats) -> None:
        if late():
            raise StopIteration

    starts = [np.append(kernel.theta, np.log(noise.start))]
    if restarts and rng is not None:
        wide = np.clip(lower, starts[0] - 3.0, None), np.clip(upper, None, starts[0] + 3.0)
        starts += [rng.uniform(*wide) for _ in range(restarts)]
    for start in starts:
        if best.evaluations and late():
            break
        try:
            minimize(
                objective,
                np.clip(start, lower, upper),
                jac=True,
                method="L-BFGS-B",
                bounds=Bounds(lower, upper),
                callback=end_when_late,
                options={"maxiter": steps, "ftol": _ENOUGH},
            )
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


@dataclass
class _Best:
    """The best point that the optimiser has seen."""

    theta: Floats
    noise: float
    value: float = -np.inf
    evaluations: int = 0


def at_bounds(kernel: Any) -> list[str]:
    """Names of free hyper-parameters that ended on a bound."""
    names: list[str] = []
    position = 0
    for parameter in kernel.hyperparameters:
        if parameter.fixed:
            continue
        for element in range(parameter.n_elements):
            low, high = kernel.bounds[position]
            value = kernel.theta[position]
            end = (
                "lower"
                if value <= low + _AT_BOUND
                else "upper"
                if value >= high - _AT_BOUND
                else ""
            )
            if end:
                label = parameter.name + (f"[{element}]" if parameter.n_elements > 1 else "")
                names.append(
                    f"{label} at its {end} bound {np.exp(low if end == 'lower' else high):.3g}"
                )
            position += 1
    return names
