"""Hyper-parameters by exact evidence on nested subsets of the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from pursuit._types import Floats
from pursuit.tuning.evidence import Evidence
from pursuit.tuning.optimiser import (
    ENOUGH,
    SINGLE_FROM,
    Learned,
    LogPrior,
    NoiseRange,
    maximise,
    never,
    noise_evidence,
)
from pursuit.tuning.periods import at_period, candidate_periods, periodic_parts
from pursuit.tuning.report import FAMILIES, LEARNED, PERIODS, Stage

FIRST_ROWS = 500  # Rows on which families are compared. More: a safer choice, slower.
_SECOND_STEPS = 15  # Most steps on more rows. More: slower, hardly better.
_GIVEN_STEPS, _GIVEN_AGAIN = 300, 40  # The same for a given kernel, on few and on more rows.
_TIE = 1e-3  # Evidence per row within which families are ties.
_BRIEF_STEPS, _BEAM = 4, 3  # Steps from every period tried; how many of them are learned from.
_GIVEN_ENOUGH, _AGAIN_ENOUGH = 1e-8, 1e-6  # For a given kernel: it may rise slowly for long.
_NOTHING = 0.1  # Evidence per row above noise below which single features are tried.
_PROBED = "matern52"  # The family by which starts are judged.
_PROBES, _PROBE_WIDTHS, _LONG = 20, (0.3, 1.0), 10.0
_SHORT = 8.0, 16.0, 32.0  # Parts of the common length scales tried against fine detail.


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


def common_kernel(family: str, width: float, variance: float, start: float = 1.0) -> Any:
    """The family's kernel with a single length scale, which starts at a part of the width."""
    kernel = family_kernel(family, np.array([width]), variance)
    bounds = tuple(np.ravel(kernel.k2.length_scale_bounds))
    constant: ConstantKernel = kernel.k1
    if family == "rbf":
        return constant * RBF(start * width, bounds)
    return constant * Matern(start * width, bounds, nu=kernel.k2.nu)


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
    single = len(data.X) >= SINGLE_FROM
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
    enough: float = ENOUGH,
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
