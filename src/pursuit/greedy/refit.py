"""The final fit: all rows are fitted in the span of the chosen points."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import solve_triangular

from pursuit._types import Floats
from pursuit.gram import GramStatistics
from pursuit.greedy.loop import Path, Pursuit
from pursuit.greedy.pool import Choice, Pool, Problem, kernel_matrix
from pursuit.linalg import (
    LOST_DIGITS,
    NotPositiveDefiniteError,
    SpanSolution,
    gram_rounding,
    reordered,
    robust_cholesky,
)
from pursuit.objectives import gram_pursuit


@dataclass(frozen=True)
class SpanFit:
    """A fitted model: basis in the order of choice, solution in its span, path, and trace."""

    pool: Pool
    solution: SpanSolution
    path: Path
    trace: float
    """tr(WK) over the rows it is fitted to, for bounds on the evidence."""
    n_rows: int | None = None
    """Number of rows, from the first one on, that it is fitted to; None is all of them."""
    exact: bool = True
    """Whether all its sums come from float64 tiles, so that its value can be certified."""

    def truncated(self, n: int, stop_reason: str) -> SpanFit:
        """The model of the first n basis functions."""
        path = replace(self.path.truncated(n), stop_reason=stop_reason)
        pool = self.pool.take(np.arange(n))
        return replace(self, pool=pool, solution=self.solution.truncated(n), path=path)


def refit(
    choice: Choice,
    problem: Problem,
    *,
    dtype: DTypeLike = np.float64,
    reorder: bool = True,
    after_block: Callable[[int], None] | None = None,
    enough: Callable[[], bool] = lambda: False,
) -> SpanFit:
    """Fit all rows in the span of the chosen points.

    Unless ``reorder`` is False, the points are put in the order in which a pursuit on the final
    statistics takes them, so that the first n of them are a good model of size n for every n.
    Dependent points are left out. A pass ends after the first block for which ``enough()`` is
    true; the fit is then to the rows read so far. If digits were lost and a second pass follows,
    it may read as many rows as the first one.
    """
    pool, statistics = choice.pool, choice.statistics
    K = kernel_matrix(problem.kernel, pool.items, problem.workers)
    try:
        R, kept = robust_cholesky(K, rounding=problem.kernel.rounding)
    except NotPositiveDefiniteError as error:
        raise NotPositiveDefiniteError(int(pool.index[error.index]), error.pivot) from error
    if len(kept) < len(pool):
        pool, K = pool.take(kept), K[np.ix_(kept, kept)]
        statistics = statistics.restricted(kept) if statistics is not None else None
    exact = statistics is not None or np.dtype(dtype) == np.float64
    if statistics is None:
        statistics = problem.statistics(
            pool.items, dtype=dtype, after_block=after_block, enough=lambda _: enough()
        )
    objective = gram_pursuit(
        statistics,
        K.copy(),
        problem.noise,
        capacity=len(pool),
        workers=problem.workers,
        rounding=problem.kernel.rounding,
    )
    pursuit = Pursuit(objective, problem.meter, labels=pool.index)
    if not reorder:
        pursuit.take(range(len(pool)))
    path = pursuit.run([])
    # Points that the Gram form cannot resolve follow in the order of the search.
    rest = np.setdiff1d(np.arange(len(pool)), objective.chosen)
    order = np.concatenate([objective.chosen, rest])
    path = path.extended(pool.index[rest])
    pool = pool.take(order)
    R = reordered(K, R, order)
    solution, final = _solve(problem, pool, R, statistics.restricted(order), dtype, enough)
    half_norm = 0.5 * float(final.target_norms.sum())
    value = half_norm - np.cumsum(solution.gains().sum(axis=1))
    stopped = "rank" if len(order) < len(choice.pool) else choice.path.stop_reason
    n_rows = final.n_rows if final.n_rows < problem.sample.n_rows else None
    if n_rows is not None:
        stopped = "interrupted"
    same = np.array_equal(path.index, choice.path.index)
    gap = choice.path.gap if same else path.gap
    path = replace(path, value=value, gap=gap, stop_reason=stopped)
    return SpanFit(pool, solution, path, final.trace, n_rows, exact)


def solve_in_span(problem: Problem, points: Any) -> tuple[Any, SpanSolution]:
    """Fit all rows in the span of given points, in their order, without dependent points."""
    pool = Pool.of_points(points)
    K = kernel_matrix(problem.kernel, points, problem.workers)
    R, kept = robust_cholesky(K, rounding=problem.kernel.rounding)
    pool = pool.take(kept)
    return pool.items, _solve(problem, pool, R, problem.statistics(pool.items))[0]


def _solve(
    problem: Problem,
    pool: Pool,
    R: Floats,
    statistics: GramStatistics,
    dtype: DTypeLike = np.float64,
    enough: Callable[[], bool] = lambda: False,
) -> tuple[SpanSolution, GramStatistics]:
    """Solve from the pool's statistics, or from a second, whitened pass if digits were lost."""
    largest = float(np.diag(statistics.gram).max(initial=0.0))
    if gram_rounding(R, largest, problem.noise, dtype) <= LOST_DIGITS:
        with contextlib.suppress(ArithmeticError):
            solution = SpanSolution.from_gram(R, statistics.gram, statistics.cross, problem.noise)
            return solution, statistics
    whitener = solve_triangular(R, np.eye(len(R)), lower=True)
    # The first pass may have ended early: this one may read as many rows.
    least = statistics.n_rows if enough() else 0
    final = problem.statistics(
        pool.items, whitener=whitener, enough=lambda done: done >= least and enough()
    )
    return SpanSolution.from_whitened(R, final.gram, final.cross, problem.noise), final
