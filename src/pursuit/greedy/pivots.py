"""Block pivots: many landmarks per pass, drawn by what the landmarks so far miss (Formulas §3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.gram import Block, chunked, gram_statistics, kernel_diagonal, list_pass
from pursuit.greedy.loop import CostMeter, Path, PathRecorder, Pursuit, draw_in_proportion
from pursuit.greedy.pool import Pool, kernel_matrix
from pursuit.greedy.stopping import MaxSize
from pursuit.kernels import CountingKernel, Kernel
from pursuit.linalg import (
    INDEFINITE,
    NotPositiveDefiniteError,
    PivotedCholesky,
    Workers,
    robust_cholesky,
)
from pursuit.objectives import GramResidual
from pursuit.objectives.base import TRUST
from pursuit.rows import (
    DistributedRows,
    Sample,
    concat,
    in_order,
    in_tree,
)

_CHUNK_ROWS = 512  # Rows per task of a pass. Larger: fewer tasks, more memory.
# Only after pivots above this part does a negative residual tell of an indefinite kernel.
_LARGE_PIVOT = 1e-6


_ROUNDS = 5  # Rounds that a choice takes about. More: better landmarks, more passes.
_BLOCK = 10, 200  # Least and most landmarks per round.
_MIX = 0.1  # Share of candidates that are drawn by weight alone.
_CANDIDATES, _ROWS = 4, 4  # Candidates and rows drawn per landmark. More: better landmarks, slower.


@dataclass(frozen=True)
class Pivots:
    """Landmarks S in the order of choice, and the residual of the kernel matrix.

    Attributes
    ----------
    pool : Pool
        The landmarks with their row numbers.
    factor : array of shape (n, n)
        R, lower triangular, K_SS = RR'.
    diagonal : array of shape (n_rows,)
        d_i = k(x_i, x_i) - ‖R⁻¹k_S(x_i)‖².
    residual : float
        τ = Σ w_i d_i.
    trace : float
        Σ w_i k(x_i, x_i).
    path : Path
        τ after each landmark, and the costs; ``stop_reason`` is n_basis, tol, rank, or what
        ``stop`` returned.
    features : array of shape (n_rows, n) or None
        V = K_S R⁻ᵀ if it was kept in memory.
    """

    pool: Pool
    factor: Floats
    diagonal: Floats
    residual: float
    trace: float
    path: Path
    features: Floats | None


class LandmarkSpan:
    """The span of the landmarks so far: R, the residual diagonal d, and V if it fits in memory."""

    def __init__(
        self,
        sample: Sample,
        kernel: Kernel,
        n: int,
        workers: Workers,
        meter: CostMeter | None,
        caution: float = 1.0,
    ) -> None:
        m = sample.n_rows
        self.sample, self.kernel, self.workers = sample, kernel, workers
        counted = kernel if isinstance(kernel, CountingKernel) else CountingKernel(kernel)
        self.meter = meter or CostMeter(counted)
        self.recorder = PathRecorder(self.meter)
        self.diagonal = kernel_diagonal(sample.rows, kernel)
        self._start = self.diagonal
        self._squared_error = (caution * kernel.rounding * self.diagonal) ** 2
        self.trace = self.residual = float(sample.weights @ self.diagonal)
        self.pool = Pool.of_rows(sample, np.empty(0, dtype=np.intp))
        self._R = np.zeros((n, n))
        stored = m * n <= limits.STORED_NUMBERS and not isinstance(sample.rows, DistributedRows)
        self._V = np.empty((m, n)) if stored else None
        self._W = np.zeros((n, n)) if self._V is None else None

    @property
    def rank(self) -> int:
        """Number of landmarks."""
        return len(self.pool)

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Rows whose residual is more than rounding."""
        error = TRUST * np.sqrt(self._squared_error)
        return self.diagonal > np.maximum(limits.PIVOT_TOLERANCE * self._start, error)

    def rounding(self, index: Indices) -> Floats:
        """Relative rounding error of some residuals."""
        return np.asarray(np.sqrt(self._squared_error[index]) / self.diagonal[index])

    def features(self, pool: Pool) -> Floats:
        """V at some points: R⁻¹k_S for each, as rows."""
        n = self.rank
        if n == 0:
            return np.empty((len(pool), 0))
        if self._V is not None:
            return self._V[pool.index, :n]
        assert self._W is not None
        return np.asarray(self.kernel.tile(pool.items, self.pool.items) @ self._W[:n, :n].T)

    def extend(self, pool: Pool, factor: PivotedCholesky, target: float = -np.inf) -> None:
        """Take points, given the factor of their residual kernel matrix, up to the target of τ."""
        V, R, inherited = self.features(pool), factor.triangle(), factor.inherited
        squares, diagonal, error = self._pass(pool, V, R, inherited)
        values = self.residual - np.cumsum(squares)
        met = np.flatnonzero(values <= target)
        if len(met) and met[0] + 1 < len(pool):
            k = int(met[0]) + 1
            pool, values, V, R = pool.take(np.arange(k)), values[:k], V[:k], R[:k, :k]
            _, diagonal, error = self._pass(pool, V, R, inherited[:k])
        self._check(diagonal, error, R)
        n, k = self.rank, len(pool)
        self._R[n : n + k, :n], self._R[n : n + k, n : n + k] = V, R
        if self._W is not None:
            self._W[n : n + k, : n + k] = self._whitener(V, R)
        diagonal[pool.index[pool.index >= 0]] = 0.0
        self.diagonal = np.maximum(diagonal, 0.0, out=diagonal)
        self._squared_error = error
        self.residual = float(self.sample.weights @ self.diagonal)
        self.pool = pool if n == 0 else self.pool + pool
        for row, value in zip(pool.index.tolist(), values.tolist(), strict=True):
            # Rounding in the sum of squares is not a decrease.
            self.recorder.record(row, max(value, self.residual))

    def pivots(self, reason: str) -> Pivots:
        """The landmarks taken so far."""
        n = self.rank
        return Pivots(
            self.pool,
            self._R[:n, :n].copy(),
            self.diagonal,
            self.residual,
            self.trace,
            self.recorder.path(reason),
            None if self._V is None else self._V[:, :n],
        )

    def _pass(
        self, pool: Pool, V: Floats, R: Floats, inherited: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Σ_i w_i v_i² for every new column v of V, and the diagonal and its error after them."""
        n, k, points, weights = self.rank, len(R), pool.items, self.sample.weights
        rows, kernel, workers = self.sample.rows, self.kernel, self.workers
        self.meter.passes += 1.0
        if self._V is not None:
            inverse = solve_triangular(R, np.eye(k), lower=True).T
            task = partial(_added_to_stored, points, V, inverse, inherited)
            aligned: list[Any] = [weights, self._V[:, : n + k]]
        else:
            everyone = points if n == 0 else concat(self.pool.items, points)
            task = partial(_formed_anew, everyone, self._whitener(V, R).T, inherited)
            aligned = [weights]
        squares, less, more = zip(*list_pass(rows, kernel, task, workers, *aligned), strict=True)
        return (
            in_tree(squares),
            self.diagonal - np.concatenate(less),
            self._squared_error + np.concatenate(more),
        )

    def _whitener(self, V: Floats, R: Floats) -> Floats:
        """The new rows of R⁻¹: -R_bb⁻¹ V W, R_bb⁻¹."""
        n, k = self.rank, len(R)
        assert self._W is not None
        inverse = solve_triangular(R, np.eye(k), lower=True)
        return np.hstack([-inverse @ (V @ self._W[:n, :n]), inverse])

    def _check(self, diagonal: Floats, error: Floats, R: Floats) -> None:
        """Refuse residuals that are negative beyond their rounding after large pivots."""
        scale = float(self._start.max())
        slack = np.maximum(INDEFINITE * scale, TRUST * np.sqrt(error))
        worst = int((diagonal + slack).argmin())
        if diagonal[worst] >= -slack[worst] or self.kernel.positive_definite:
            return
        if np.all(np.diag(R) ** 2 > _LARGE_PIVOT * scale):
            raise NotPositiveDefiniteError(worst, float(diagonal[worst]))


Decrease = tuple[Floats, Floats, Floats]
"""Σ_i w_i v_i² for every new column v of V; Σ_v v_i² and Σ_v v_i² times its error for every row."""


def _added_to_stored(
    points: Any,
    V: Floats,
    inverse: Floats,
    inherited: Floats,
    kernel: Kernel,
    workers: Workers,
) -> Block[Decrease]:
    """New columns (k(x, points) - V_old V') R⁻ᵀ, written next to the stored ones."""
    columns, n = kernel.columns(points), V.shape[1]

    def part(items: Any, weights: Floats, stored: Floats) -> Decrease:
        tile = columns(items)
        tile -= stored[:, :n] @ V.T
        return _decrease(np.matmul(tile, inverse, out=stored[:, n:]), weights, inherited)

    return chunked(part, _CHUNK_ROWS, workers, combine=_joined)


def _formed_anew(
    points: Any, whitener: Floats, inherited: Floats, kernel: Kernel, workers: Workers
) -> Block[Decrease]:
    """New columns k(x, points) @ whitener, if V is not stored."""
    columns = kernel.columns(points)

    def part(items: Any, weights: Floats) -> Decrease:
        return _decrease(columns(items) @ whitener, weights, inherited)

    return chunked(part, _CHUNK_ROWS, workers, combine=_joined)


def _decrease(new_columns: Any, weights: Floats, inherited: Floats) -> Decrease:
    squares = new_columns * new_columns
    return weights @ squares, squares.sum(axis=1), squares @ inherited


def _joined(chunks: list[Decrease]) -> Decrease:
    squares, less, more = zip(*chunks, strict=True)
    return in_order(squares), np.concatenate(less), np.concatenate(more)


def block_pivots(
    sample: Sample,
    kernel: Kernel,
    n: int,
    *,
    workers: Workers,
    rng: np.random.Generator,
    greedy: bool = True,
    tol: float = 0.0,
    meter: CostMeter | None = None,
    stop: Callable[[int], str | None] = lambda n: None,
    caution: float = 1.0,
) -> Pivots:
    """Choose at most n landmarks in about ten passes over the rows.

    With d the residual diagonal, a round draws candidates in proportion to w_i d_i. If greedy, it
    draws from π = .9 wd/τ + .1 w/Σw four candidates per landmark and the same number of rows,
    weighted w/(tπ). On these rows and on the candidates the decrease ‖e_i‖²/d_i of τ is estimated,
    and the best candidates are kept one after the other. If not greedy, a candidate is kept with
    probability (residual given those kept before it) / (residual at its draw), which gives the
    distribution of random pivots chosen one at a time.

    The time is O(m n²) in matrix products. V = K_S R⁻ᵀ (m x n) is kept if it has at most
    ``limits.STORED_NUMBERS`` numbers. Above that, every round forms the columns it needs from the
    kernel again: memory is O(m + n²), and each kernel entry is evaluated several times.

    Parameters
    ----------
    sample : Sample
        Rows and weights; targets are not looked at.
    kernel : Kernel
        k.
    n : int
        Largest number of landmarks. There are fewer if the rows have a smaller rank.
    workers : Workers
        Threads; their number does not change a bit of the result.
    rng : numpy Generator
        Source of the draws.
    greedy : bool, default True
        Whether the best candidates are kept, or random ones.
    tol : float, default 0
        Stop at the first landmark that brings τ to at most ``tol`` times its start.
    meter : CostMeter, optional
        Cost so far, for the path.
    stop : callable, optional
        Called with the number of landmarks after every round; it may return a reason to stop.
    caution : float, default 1
        The kernel's rounding is taken to be so many times larger than it says.

    Returns
    -------
    pivots : Pivots
    """
    span = LandmarkSpan(sample, kernel, min(n, sample.n_rows), workers, meter, caution)
    low, high = _BLOCK
    block = min(max(low, n // _ROUNDS), high)
    choose = _greedy_block if greedy else _random_block
    target = tol * span.trace if tol > 0 else -np.inf
    reason = None
    while reason is None:
        size = min(block, n - span.rank)
        block_of = choose(span, size, rng)
        if block_of is None:
            reason = "rank"
            break
        rows, factor = block_of
        span.extend(Pool.of_rows(sample, rows[factor.chosen]), factor, target)
        reason = "tol" if span.residual <= target else stop(span.rank)
        if reason is None and span.rank == n:
            reason = "n_basis"
    return span.pivots(reason)


def given_pivots(
    sample: Sample,
    kernel: Kernel,
    pool: Pool,
    *,
    workers: Workers,
    meter: CostMeter | None = None,
    reason: str = "n_basis",
) -> Pivots:
    """Take these points in their order, except those that depend on earlier ones; one pass."""
    K = kernel_matrix(kernel, pool.items, workers)
    try:
        R, kept = robust_cholesky(K, limits.PIVOT_TOLERANCE, rounding=kernel.rounding)
    except NotPositiveDefiniteError as error:
        raise NotPositiveDefiniteError(int(pool.index[error.index]), error.pivot) from error
    span = LandmarkSpan(sample, kernel, len(kept), workers, meter)
    if len(kept):
        factor = PivotedCholesky(
            np.diag(K)[kept], len(kept), workers, trust=TRUST, rounding=kernel.rounding
        )
        for i, row in enumerate(R.T):
            factor.append(i, row)
        span.extend(pool.take(kept), factor)
    return span.pivots(reason)


def rearranged(
    pivots: Pivots, sample: Sample, kernel: Kernel, *, workers: Workers, meter: CostMeter
) -> Pivots:
    """The same landmarks by importance: each one lowers τ most after those before it.

    A greedy choice from a few candidates per step may find late a landmark that is worth more than
    earlier ones (SS00 §2.3, Smola and Schölkopf 2000); two passes put them in order.
    """
    pool = pivots.pool
    K = kernel_matrix(kernel, pool.items, workers)
    statistics = gram_statistics(sample, kernel, pool.items, workers=workers)
    meter.passes += 1.0
    objective = GramResidual(K, statistics.gram, pivots.trace, capacity=len(pool), workers=workers)
    Pursuit(objective, meter, labels=pool.index).run([])
    # Where the Gram form has no digits left, the order stays as it was.
    rest = np.setdiff1d(np.arange(len(pool)), objective.chosen)
    ordered = pool.take(np.concatenate([objective.chosen, rest]))
    reason = pivots.path.stop_reason
    return given_pivots(sample, kernel, ordered, workers=workers, meter=meter, reason=reason)


def _greedy_block(
    span: LandmarkSpan, size: int, rng: np.random.Generator
) -> tuple[Indices, PivotedCholesky] | None:
    """Rows drawn by their residuals, and a factor whose pivots are those that lower τ most."""
    d, w = span.diagonal, span.sample.weights
    alive = np.flatnonzero(span.alive)
    if not len(alive):
        return None
    weighted = w[alive]
    share = weighted * d[alive]
    share = (1 - _MIX) * share / share.sum() + _MIX * weighted / weighted.sum()
    if len(alive) <= _CANDIDATES * size:
        candidates, rows, scale = alive, alive[:0], np.empty(0)
    else:
        candidates = alive[np.unique(draw_in_proportion(share, _CANDIDATES * size, rng))]
        rest = ~np.isin(alive, candidates)
        if rest.sum() <= _ROWS * size:
            rows, scale = alive[rest], weighted[rest]
        else:
            drawn, counts = np.unique(
                draw_in_proportion(share, _ROWS * size, rng), return_counts=True
            )
            counts, drawn = counts[rest[drawn]], drawn[rest[drawn]]
            rows = alive[drawn]
            scale = counts * weighted[drawn] / (_ROWS * size * share[drawn])
    K, G = _residual_statistics(span, candidates, rows, scale)
    objective = GramResidual(
        K,
        G,
        span.residual,
        capacity=size,
        workers=span.workers,
        rounding=span.rounding(candidates),
    )
    Pursuit(objective, span.meter, labels=candidates).run([MaxSize(size)])
    return (candidates, objective.factor) if objective.factor.rank else None


def _residual_statistics(
    span: LandmarkSpan, candidates: Indices, rows: Indices, scale: Floats
) -> tuple[Floats, Floats]:
    """The residual kernel matrix E of the candidates and Σ E_ji E_jl over them and the rows."""
    pool = Pool.of_rows(span.sample, candidates)
    V = span.features(pool)
    K = kernel_matrix(span.kernel, pool.items, span.workers)
    K -= V @ V.T
    root = np.sqrt(span.sample.weights[candidates])[:, None]
    weighted = K * root
    G: Floats = weighted.T @ weighted
    if not len(rows):
        return K, G
    columns = span.kernel.columns(pool.items)
    others = Pool.of_rows(span.sample, rows)
    at_rows = span.features(others)

    def part(chunk: slice) -> Floats:
        E = columns(others.items[chunk])
        E -= at_rows[chunk] @ V.T
        E *= np.sqrt(scale[chunk])[:, None]
        product: Floats = E.T @ E
        return product

    for product in span.workers.map(part, Workers.slices(len(rows), -(-len(rows) // 4))):
        G += product
    return K, G


def _random_block(
    span: LandmarkSpan, size: int, rng: np.random.Generator
) -> tuple[Indices, PivotedCholesky] | None:
    """Random pivots: drawn together by their residuals, and thinned by those left later."""
    share = span.sample.weights * np.where(span.alive, span.diagonal, 0.0)
    if not share.any():
        return None
    drawn = draw_in_proportion(share, size, rng)
    luck = rng.random(size)
    pool = Pool.of_rows(span.sample, drawn)
    V = span.features(pool)
    E = kernel_matrix(span.kernel, pool.items, span.workers) - V @ V.T
    factor = PivotedCholesky(np.diag(E), size, span.workers, 1, TRUST, span.rounding(drawn))
    for i in range(size):
        if factor.trusted[i] and factor.residual[i] > luck[i] * factor.diagonal[i]:
            row = E[i] - factor.rows[:, i] @ factor.rows
            factor.append(i, row / np.sqrt(row[i]))
    return (drawn, factor) if factor.rank else None
