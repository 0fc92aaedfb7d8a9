"""The fit of all rows in the span of chosen points."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import qr

from pursuit._types import Floats, Indices
from pursuit.gram import GramStatistics, residual_products
from pursuit.greedy.all_rows import AllRows, fit_all_rows
from pursuit.greedy.loop import Path, Pursuit
from pursuit.greedy.pool import Choice, Pool, Problem, kernel_matrix
from pursuit.linalg import (
    LOST_DIGITS,
    SINGLE_DIGITS,
    NotPositiveDefiniteError,
    SpanSolution,
    gram_rounding,
    invert_lower,
    reordered,
    robust_cholesky,
    single_threaded_blas,
)
from pursuit.objectives import gram_pursuit

_DOUBLE = np.dtype(np.float64)
_MARGIN = 4.0
"""Sums over rows are expected to be this many times what the basis shows. Larger: more passes are
whitened that need not be, and take twice the time; smaller: more passes have to be repeated."""

_REFINEMENTS = 4
"""Most passes that refine coefficients found from float32 tiles. Each gains as many digits as those
tiles have left, five or more."""

_REFINED = 1e-9  # Refinement ends at a step of this part of the solution. Less: one pass more.


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
    true; the fit is then to the rows read so far. Whether K_S'WK_S keeps enough digits is decided
    before the pass; if it was decided wrongly, a second, whitened pass may read as many rows as
    the first one. Tiles are of type ``dtype`` where their rounding is negligible, else float64;
    coefficients from float32 tiles are refined.
    """
    pool, statistics = choice.pool, choice.statistics
    K = kernel_matrix(problem.kernel, pool.items, problem.workers)
    try:
        R, kept = robust_cholesky(K, rounding=problem.kernel.rounding)
    except NotPositiveDefiniteError as error:
        raise NotPositiveDefiniteError(int(pool.index[error.index]), error.pivot) from error
    owners = pool.owners(problem.sample)
    all_rows = None if owners is None else AllRows.of(owners, len(pool), problem.sample)
    if all_rows is not None and statistics is None:
        statistics = all_rows.statistics(K)
    whole, whole_K = pool, K
    if len(kept) < len(pool):
        pool, K = pool.take(kept), K[np.ix_(kept, kept)]
        statistics = statistics.restricted(kept) if statistics is not None else None
    whitener, tiles = None, _DOUBLE
    if statistics is None:
        whitener, tiles = _resolved(problem, pool.items, K, R, np.dtype(dtype))
        statistics = problem.statistics(
            pool.items,
            dtype=tiles,
            whitener=whitener,
            after_block=after_block,
            enough=lambda _: enough(),
        )
    if choice.ordered and pool is whole:
        path, order = choice.path, np.arange(len(pool))
    else:
        known = statistics if whitener is None else _in_functions(statistics, R)
        path, order = _in_order(problem, pool, known, K, reorder=reorder)
    found = None
    if whitener is None:
        R, statistics = reordered(K, R, order), statistics.restricted(order)
    else:
        R, statistics = _rotated(statistics, R, order)
    if all_rows is not None:
        found = fit_all_rows(
            all_rows, whole.items, whole_K, R, kept[order], problem.kernel, problem.noise
        )
    if found is not None:
        solution, order = found
        pool, final = whole.take(order), statistics
    else:
        pool = pool.take(order)
        solution, final = _solve(
            problem, pool, R, statistics, tiles, whitened=whitener is not None, enough=enough
        )
    path = replace(path.extended(pool.index[len(path) :]), index=pool.index)
    value = solution.values(final.target_norms)
    stopped = "rank" if len(pool) < len(choice.pool) else choice.path.stop_reason
    n_rows = final.n_rows if final.n_rows < problem.sample.n_rows else None
    if n_rows is not None:
        stopped = "interrupted"
    same = np.array_equal(path.index, choice.path.index)
    gap = choice.path.gap if same else path.gap
    path = replace(path, value=value, gap=gap, stop_reason=stopped)
    return SpanFit(pool, solution, path, final.trace, n_rows, tiles == _DOUBLE)


def _in_order(
    problem: Problem, pool: Pool, statistics: GramStatistics, K: Floats, *, reorder: bool
) -> tuple[Path, Indices]:
    """The pool in the order of a pursuit on its statistics, or as it is, and the path of that."""
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
    return path, np.concatenate([objective.chosen, rest])


def solve_in_span(problem: Problem, points: Any) -> tuple[Any, SpanSolution]:
    """Fit all rows in the span of given points, in their order, without dependent points."""
    pool = Pool.of_points(points)
    K = kernel_matrix(problem.kernel, points, problem.workers)
    R, kept = robust_cholesky(K, rounding=problem.kernel.rounding)
    pool = pool.take(kept)
    K = K[np.ix_(kept, kept)]
    whitener, tiles = _resolved(problem, pool.items, K, R)
    statistics = problem.statistics(pool.items, whitener=whitener)
    return pool.items, _solve(problem, pool, R, statistics, tiles, whitened=whitener is not None)[0]


def _resolved(
    problem: Problem, points: Any, K: Floats, R: Floats, dtype: np.dtype[Any] = _DOUBLE
) -> tuple[Floats | None, np.dtype[Any]]:
    """The whitener of a pass over all rows, None where K_S'WK_S has digits enough; type of tiles.

    Σ_i w_i k(x_i, z)² is not known before the pass. It is taken to be the mean of k(s, z)² over the
    basis points s, times Σw and a margin. How much more than one rounding float32 values of the
    kernel are wrong by is measured among the same points.
    """
    if not len(K):
        return None, _DOUBLE
    noise, largest = problem.noise, float((K**2).mean(axis=0).max())
    largest *= _MARGIN * float(problem.sample.weights.sum())
    if dtype != _DOUBLE and gram_rounding(R, largest, noise, dtype) <= SINGLE_DIGITS:
        error = float(np.abs(problem.kernel.columns(points, dtype)(points) - K).max())
        roundings = max(1.0, error / (float(np.finfo(dtype).eps) * float(np.abs(K).max())))
        if roundings * gram_rounding(R, largest, noise, dtype) <= SINGLE_DIGITS:
            return None, dtype
    lost = gram_rounding(R, largest, noise) > LOST_DIGITS
    return (invert_lower(R) if lost else None), _DOUBLE


@single_threaded_blas()
def _in_functions(whitened: GramStatistics, R: Floats) -> GramStatistics:
    """K_S'WK_S = R V'WV R' and K_S'Wy = R V'Wy, to order the functions by."""
    gram = R @ whitened.gram @ R.T
    return replace(whitened, gram=0.5 * (gram + gram.T), cross=R @ whitened.cross)


@single_threaded_blas()
def _rotated(whitened: GramStatistics, R: Floats, order: Indices) -> tuple[Floats, GramStatistics]:
    """The factor of K_SS in another order, and the statistics of the functions that it whitens.

    With R[order] = L Q', Q orthogonal, L is that factor and V Q are its functions: no digits are
    lost, however small the pivots.
    """
    Q, triangle = qr(R[order].T, check_finite=False)
    signs = np.where(np.diag(triangle) < 0, -1.0, 1.0)
    Q = Q * signs
    gram = Q.T @ whitened.gram @ Q
    statistics = replace(whitened, gram=0.5 * (gram + gram.T), cross=Q.T @ whitened.cross)
    return np.tril((signs[:, None] * triangle).T), statistics


def _solve(
    problem: Problem,
    pool: Pool,
    R: Floats,
    statistics: GramStatistics,
    tiles: np.dtype[Any],
    *,
    whitened: bool,
    enough: Callable[[], bool] = lambda: False,
) -> tuple[SpanSolution, GramStatistics]:
    """Solve from the pool's statistics, or from a second, whitened pass if digits were lost."""
    if not whitened:
        largest = float(np.diag(statistics.gram).max(initial=0.0))
        if gram_rounding(R, largest, problem.noise, tiles) <= LOST_DIGITS:
            with contextlib.suppress(ArithmeticError):
                solution = SpanSolution.from_gram(
                    R, statistics.gram, statistics.cross, problem.noise
                )
                if tiles != _DOUBLE and statistics.n_rows == problem.sample.n_rows:
                    solution = _refined(problem, pool, solution)
                return solution, statistics
        # The first pass may have ended early: this one may read as many rows.
        least = statistics.n_rows if enough() else 0
        statistics = problem.statistics(
            pool.items,
            whitener=invert_lower(R),
            enough=lambda done: done >= least and enough(),
        )
    solution = SpanSolution.from_whitened(R, statistics.gram, statistics.cross, problem.noise)
    return solution, statistics


def _refined(problem: Problem, pool: Pool, solution: SpanSolution) -> SpanSolution:
    """The solution with coefficients that are exact in float64, though its factors are not.

    Each pass gives the gradient K_S'W(y - K_Sβ) - σ²K_SSβ in float64, and the factors at hand the
    step that it asks for.
    """
    sample, norm = problem.sample, np.linalg.norm(solution.z)
    for _ in range(_REFINEMENTS):
        slopes = residual_products(
            sample, problem.kernel, pool.items, solution.coefficients(), problem.workers
        )
        problem.meter.passes += 1
        solution, moved = solution.improved(slopes)
        if moved <= _REFINED * norm:
            break
    return solution
