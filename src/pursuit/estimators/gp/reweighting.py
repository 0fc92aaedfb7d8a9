"""What fits share whose rows get weights from the model itself: varying noise, and outliers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.estimators.arguments import resolve_search
from pursuit.estimators.fit_run import FitRun
from pursuit.estimators.gp.stages import held_out, learn_or_keep
from pursuit.estimators.span.search import (
    GAUSSIAN_SEARCH,
    RowSplit,
    SearchPlan,
    choose_basis,
    fit_basis,
    timed,
    with_checked_points,
)
from pursuit.greedy import Problem, SpanFit
from pursuit.linalg import SpanSolution, invert_lower
from pursuit.rows import Sample
from pursuit.tuning import LeftOut

_FIRST_BASIS = 256
"""Most basis functions of the first fit, whose errors say how weights begin. More: it takes longer.
"""
_FIRST_SHARE, NOISE_SHARE, LAST_SHARE = 0.15, 0.3, 0.5
"""Shares of a fit's time after which the kernels of the first fit, of the noise and of the last fit
are not learned any further."""
_STREAM = 1
"""Number of the stream of random numbers of the first fit."""
_BLOCK = 4096
"""Rows that are left out together, in memory."""


@dataclass(frozen=True)
class OwnWeights:
    """Noise that a model has found, and what it makes of the weights.

    Attributes
    ----------
    noise : VaryingNoise, StudentNoise or None
        None where it is the same for all rows.
    ratio : array of shape (n_rows,)
        Noise variance of each row relative to the model's.
    counts : array of shape (n_rows,)
        Weights as given.
    sentence : str
        What the report says of it.
    """

    noise: Any
    ratio: Floats
    counts: Floats
    sentence: str = ""

    def posed(self, problem: Problem, targets: Floats | None = None) -> Problem:
        """The problem with these weights; a checkpoint does not hold its sums."""
        sample = replace(problem.sample, weights=self.counts / self.ratio)
        if targets is not None:
            sample = replace(sample, targets=targets)
        return replace(problem, sample=sample, ledgers=None)


def last_rounds(
    own: OwnWeights, fitted: SpanFit, problem: Problem, kernel: Any
) -> tuple[OwnWeights, SpanFit, Problem]:
    """Find the noise again by the errors of the final basis, and fit with its weights.

    ``kernel`` is that of the noise, where it has one.
    """
    for _ in range(own.noise.rounds):
        own = own.noise.again(fitted, problem, own, kernel)
        problem = own.posed(problem)
        fitted = refitted(fitted, problem)
    return own, fitted, problem


def first_fit(estimator: Any, sample: Sample, X: Any, run: FitRun) -> tuple[SpanFit, Problem]:
    """A fit of moderate size to the weights as given, without moves.

    It has random numbers of its own, so that the stages of the fit that follow are those of a fit
    without it.
    """
    rng = np.random.default_rng([*run.seeds, _STREAM])
    learned, kernel = learn_or_keep(estimator, sample, X, rng, run, until=_FIRST_SHARE, pilot=True)
    problem = replace(run.problem(kernel, learned.noise), sample=sample, rng=rng)
    search = with_checked_points(estimator, resolve_search(estimator.search, GAUSSIAN_SEARCH))
    size = _FIRST_BASIS if estimator.n_basis == "auto" else min(estimator.n_basis, _FIRST_BASIS)
    plan = timed(SearchPlan(n_basis=size, search=search), run.clock, problem, moves=True)
    chosen = choose_basis(plan, problem, RowSplit.none_reserved(sample.n_rows), run)
    return fit_basis(chosen, problem, np.float64, run)[0], problem


def refitted(fitted: SpanFit, problem: Problem) -> SpanFit:
    """The fit to a problem in the span of the same functions, in the same order."""
    R = fitted.solution.R
    sums = problem.statistics(fitted.pool.items, whitener=invert_lower(R))
    solution = SpanSolution.from_whitened(R, sums.gram, sums.cross, problem.noise)
    path = replace(fitted.path, value=solution.values(problem.sample.target_norms()))
    return replace(fitted, solution=solution, path=path, trace=sums.trace, exact=True)


def left_out(
    fitted: SpanFit, problem: Problem, rows: Indices, ratio: Floats | None = None
) -> LeftOut:
    """Errors of the given rows, ascending, each left out of the fit in turn.

    A row leaves together with rows identical to it, as far as they are in the same block of 4 096.
    """
    parts = []
    for start in range(0, len(rows), _BLOCK):
        some = held_out(problem, fitted.pool, fitted.solution, rows[start : start + _BLOCK], ratio)
        parts.append(LeftOut.of(some, some.missed(), fitted.solution))
    offsets = np.cumsum([0] + [int(part.group.max()) + 1 for part in parts[:-1]])
    groups = [part.group + offset for part, offset in zip(parts, offsets, strict=True)]
    return LeftOut(
        error=np.concatenate([part.error for part in parts]),
        missed=np.concatenate([part.missed for part in parts]),
        q=np.concatenate([part.q for part in parts]),
        prior=np.concatenate([part.prior for part in parts]),
        weights=np.concatenate([part.weights for part in parts]),
        group=np.concatenate(groups),
        ratio=1.0 if ratio is None else ratio[rows],
    )
