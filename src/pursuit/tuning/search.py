"""``kernel="search"``: sums and products of kernels grown from the best of the fixed families."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp

from pursuit._types import Floats
from pursuit.kernels import (
    Categorical,
    ColumnNames,
    ColumnsKernel,
    columns_used,
    compile_kernel,
    resolve_columns,
)
from pursuit.tuning.categories import learn_fixed
from pursuit.tuning.evidence import Evidence
from pursuit.tuning.growth import PERIODS, WIDTHS, Candidate, Choice, Growth
from pursuit.tuning.learning import family_kernel
from pursuit.tuning.optimiser import Learned, NoiseRange, maximise, never
from pursuit.tuning.periods import at_period, candidate_periods, periodic_parts
from pursuit.tuning.report import SearchStep

SEARCH_ROWS = 1000
"""Rows on which a search compares kernels. More: structure that is harder to see, slower."""
_BUDGET = 10.0
"""What a search may cost, in units of what the fixed family costs. More: longer searches."""
_JUDGING_SHARE = 4
"""Where no other rows judge, one in so many of those that learn does."""
_SURE = 2.0
"""Standard errors by which the grown kernel must be better. Fewer: worse choices, more often."""
_LAST_STEPS = 15  # Steps of L-BFGS on all rows, once the form is known.
_FEWEST_CYCLES, _MOST_CYCLES, _ROWS_PER_CYCLE = 2, 200, 4
"""Cycles in the range of a column that are looked for, and rows for each."""
_SINE = 3.0
"""First length scale of a periodic kernel: nearly a sine. Shorter ones fit at multiples as well."""
_FURTHER = ("rbf", 1 / 3), ("matern32", 1.0), ("matern12", 1.0)
"""Further kernels of all columns, with their length scales in units of those of the first."""
_SHORT = 2
"""Kernels of one column that are learned in every round, of those added and of factors each."""


def search_kernel(
    data: Evidence,
    others: Evidence | None,
    known: ColumnNames,
    deviations: Floats,
    power: float,
    noise: NoiseRange,
    late: Callable[[], bool] = never,
    **search: Any,
) -> Learned:
    """Grow sums and products of kernels from the best of the fixed families.

    What was grown is taken if squared errors or log densities are better than those of the best
    family by more than two standard errors, and neither is worse: on ``others``, rows with no part
    in learning. If there are none, the last quarter of the rows judges what was learned from the
    first three, and the hyper-parameters of what is taken are then learned from all.
    """
    fixed = learn_fixed(data, known, deviations, power, noise, late, **search)
    seen, judges, before = data, others, fixed
    if judges is None:
        cut = max(len(data.X) - len(data.X) // _JUDGING_SHARE, 1)
        seen, judges = data.take(slice(cut)), data.take(slice(cut, None))
        if len(judges.X) == 0:
            return fixed
        before = maximise(seen, fixed.kernel, _at(noise, fixed), fixed.family, late=late)
    rows = seen.take(slice(SEARCH_ROWS))
    growth = Growth.start(rows, power, _at(noise, before), late, before.kernel)
    most = _BUDGET * max(_cost(fixed), 1.0)
    while _cost(growth.model) < most and growth.take_best(
        shortlist(growth, fixed.kernel, known, deviations)
    ):
        while growth.shorten():
            pass
    if not any(step.accepted for step in growth.model.path[1:]):
        return replace(fixed, stages=fixed.stages + growth.model.stages, path=growth.model.path)
    grown = replace(growth.model, family="search")
    if len(seen.X) > SEARCH_ROWS:
        grown = _with_more_rows(grown, seen, noise, late)
    errors, errors_before = judge(grown, seen, judges), judge(before, seen, judges)
    better = errors.better_than(errors_before)
    path = [
        *grown.path,
        SearchStep(f"fixed family ({errors_before})", before.evidence_per_row, not better),
        SearchStep(f"{growth.expression} ({errors})", grown.evidence_per_row, better),
    ]
    if better and others is None:
        grown = _with_more_rows(grown, data, noise, late)
    best = grown if better else fixed
    return replace(best, stages=fixed.stages + grown.stages, path=path)


def _at(noise: NoiseRange, learned: Learned) -> NoiseRange:
    """The range with the start that was learned."""
    return replace(noise, start=learned.noise)


def _with_more_rows(
    learned: Learned, data: Evidence, noise: NoiseRange, late: Callable[[], bool]
) -> Learned:
    """The same kernel with hyper-parameters learned from more rows."""
    if late():
        return learned
    again = maximise(
        data, learned.kernel, _at(noise, learned), learned.family, steps=_LAST_STEPS, late=late
    )
    return replace(again, stages=learned.stages + again.stages, path=learned.path)


def _cost(learned: Learned) -> float:
    """Evaluations of the evidence, each in proportion to the cube of its rows."""
    return float(sum(s.n_evaluations * (s.n_rows / SEARCH_ROWS) ** 3 for s in learned.stages))


def shortlist(
    growth: Growth, fixed: gp.Kernel, known: ColumnNames, deviations: Floats
) -> list[Choice]:
    """Kernels of all columns of numbers, and the best of one column: added, and as factors.

    A factor of one column is a linear or periodic function, a category, or a smooth function of a
    column that the term does not look at. Score tests compare kernels of one column. For those of
    all columns they mean little: their best factors and length scales are far from the start.
    """
    numbers = known.numbers
    looks = growth.residual(), growth.data
    singles = {j: [Candidate([Categorical([j], "one")])] for j in known.levels or {}}
    for j in numbers:
        singles[j] = [Candidate([_linear(j, deviations[j])]), *_periodic(j, looks)]
    smooth = {j: Candidate([_smooth(j, width, deviations[j]) for width in WIDTHS]) for j in numbers}
    added = [candidate for column in singles.values() for candidate in column]
    added += smooth.values() if known.n_columns > 1 else []
    factors: list[Candidate] = []
    for onto, term in enumerate(growth.terms):
        used = columns_used(term)
        new = [] if used is None else [j for j in singles if j not in used]
        some = [one for j in singles if j in numbers or j in new for one in singles[j]]
        some += [smooth[j] for j in numbers if j in new]
        factors += [replace(one, onto=onto) for one in some]
    best = [
        choice
        for kind in (added, factors)
        for choice in growth.ranked([_named(one, known) for one in kind])[:_SHORT]
    ]
    return [*_of_all(fixed, numbers, known), *best]


def _named(candidate: Candidate, known: ColumnNames) -> Candidate:
    """The same with names and levels of the columns."""
    variants = [resolve_columns(clone(kernel), known) for kernel in candidate.variants]
    return replace(candidate, variants=variants)


def _of_all(fixed: gp.Kernel, numbers: list[int], known: ColumnNames) -> list[Choice]:
    """Further kernels of all columns of numbers."""
    if not numbers:
        return []
    parameters = fixed.get_params().items()
    scales = np.asarray(next(v for name, v in parameters if name.endswith("length_scale")))
    choices = []
    for family, stretch in _FURTHER:
        kernel = family_kernel(family, scales, 1.0, scales * stretch).k2
        candidate = Candidate([ColumnsKernel(kernel, numbers) if known.levels else kernel])
        candidate = _named(candidate, known)
        choices.append(Choice(candidate, candidate.variants[0], 0.0))
    return choices


def _linear(j: int, deviation: float) -> gp.Kernel:
    """A linear function of one column."""
    bounds = float(deviation * np.exp(-5.0)), float(deviation * np.exp(5.0))
    return ColumnsKernel(gp.DotProduct(float(deviation), bounds), [j])


def _smooth(j: int, width: float, deviation: float) -> gp.Kernel:
    """A smooth function of one column, its length scale in units of the deviation."""
    bounds = float(deviation * np.exp(-4.0)), float(deviation * np.exp(5.0))
    return ColumnsKernel(gp.RBF(float(width * deviation), bounds), [j])


def _periodic(j: int, looks: tuple[Evidence, ...]) -> list[Candidate]:
    """A periodic function of one column, at periods that the residual or the targets suggest.

    A smooth kernel may follow a wave so well that nothing is left of it in the residual.
    """
    X = looks[0].X
    span = float(np.ptp(X[:, j]))
    most = min(len(X) // _ROWS_PER_CYCLE, _MOST_CYCLES)
    if span == 0.0 or most < _FEWEST_CYCLES:
        return []
    bounds = span / most, span / _FEWEST_CYCLES
    kernel = ColumnsKernel(gp.ExpSineSquared(_SINE, bounds[1], (0.1, 100.0), bounds), [j])
    [part] = periodic_parts(kernel, X.shape[1])
    periods = [period for look in looks for period in candidate_periods(look, part)[:PERIODS]]
    # Numbers of cycles that differ by half a cycle are periods that can be told apart.
    variants = [at_period(kernel, part, period) for period in periods]
    return [Candidate(variants, choices=2 * most)] if variants else []


@dataclass(frozen=True)
class Judged:
    """Errors of a kernel on rows that it has not seen.

    Attributes
    ----------
    squares, surprise : arrays of shape (n_rows,)
        Squared errors and negative log densities, on average over the outputs.
    weights : array of shape (n_rows,)
        Weights of the rows.
    """

    squares: Floats
    surprise: Floats
    weights: Floats

    def __str__(self) -> str:
        error = np.sqrt(np.average(self.squares, weights=self.weights))
        density = np.average(self.surprise, weights=self.weights)
        n = len(self.weights)
        return f"RMSE {error:.4g}, negative log density {density:.4g} on {n} rows left out"

    def better_than(self, other: Judged) -> bool:
        """Whether squares or log densities are better by two standard errors, and neither worse."""
        share = self.weights / self.weights.sum()
        gains = other.squares - self.squares, other.surprise - self.surprise
        means = [float(share @ gain) for gain in gains]
        errors = [
            float(np.sqrt(share**2 @ (gain - mean) ** 2))
            for gain, mean in zip(gains, means, strict=True)
        ]
        sure = any(mean > _SURE * error for mean, error in zip(means, errors, strict=True))
        return sure and min(means) >= 0.0


def judge(learned: Learned, seen: Evidence, others: Evidence) -> Judged:
    """Errors on other rows of the exact process of the rows seen."""
    kernel = compile_kernel(learned.kernel, n_features=seen.X.shape[1])[0]
    C = kernel.tile(seen.X, seen.X)
    C[np.diag_indices_from(C)] += learned.noise / seen.weights
    factor = cho_factor(C, lower=True)
    K = kernel.tile(others.X, seen.X)
    error = others.y - K @ cho_solve(factor, seen.y)
    explained = np.einsum("ij,ji->i", K, cho_solve(factor, K.T))
    variance = np.maximum(kernel.diag(others.X) - explained, 0.0) + learned.noise
    squares = (error**2).mean(axis=1)
    surprise = 0.5 * (np.log(2 * np.pi * variance) + squares / variance)
    return Judged(squares, surprise, others.weights)
