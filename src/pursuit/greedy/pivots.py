"""Block pivots: many landmarks a pass, drawn by what is still missed (Formulas §3)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.gram import gram_statistics
from pursuit.greedy.candidates import draw_in_proportion
from pursuit.greedy.landmarks import PIVOT_TOLERANCE, TRUST, LandmarkSpan, Pivots
from pursuit.greedy.loop import Pursuit
from pursuit.greedy.path import Meter
from pursuit.greedy.pool import Pool, kernel_matrix
from pursuit.greedy.stopping import MaxSize
from pursuit.kernels import Kernel
from pursuit.linalg import NotPositiveDefiniteError, PivotedCholesky, Workers, robust_cholesky
from pursuit.objectives import GramResidual
from pursuit.rows import Sample

_ROUNDS = 5
_BLOCK = 10, 200
_MIX = 0.1
_CANDIDATES, _ROWS = 4, 4


def block_pivots(
    sample: Sample,
    kernel: Kernel,
    n: int,
    *,
    workers: Workers,
    rng: np.random.Generator,
    greedy: bool = True,
    tol: float = 0.0,
    meter: Meter | None = None,
    stop: Callable[[int], str | None] = lambda n: None,
) -> Pivots:
    """Choose at most n landmarks in about ten passes over the rows.

    With d the residual diagonal, a round draws candidates in proportion to w_i d_i. Greedy: from
    π = .9 wd/τ + .1 w/Σw four candidates for each to be kept and as many rows, weighted w/(tπ); on
    those rows and on the candidates' own the decrease ‖e_i‖²/d_i of τ is estimated, and the best
    are kept one after the other. Not greedy: a candidate is kept with probability (residual
    given those kept before it) / (residual at its draw), which gives the distribution of random
    pivots chosen one at a time.

    Time O(m n²) in matrix products. V = K_S R⁻ᵀ (m x n) is held while it has at most 2²⁶
    numbers; beyond, every round forms the columns it needs from the kernel again, so that memory
    is O(m + n²) at the price of evaluating each kernel entry several times.

    Parameters
    ----------
    sample : Sample
        Rows and weights; targets are not looked at.
    kernel : Kernel
        k.
    n : int
        Most landmarks. Fewer are chosen where the rows have no more to give.
    workers : Workers
        Threads; their number does not change a bit of the result.
    rng : numpy Generator
        Source of the draws.
    greedy : bool, default True
        Whether the best of those drawn are kept, or random ones.
    tol : float, default 0
        Stop at the first landmark that brings τ to at most ``tol`` times its start.
    meter : Meter, optional
        Cost so far, for the path.
    stop : callable, optional
        Called with the number of landmarks after every round; may give a reason to stop.

    Returns
    -------
    pivots : Pivots
    """
    span = LandmarkSpan(sample, kernel, min(n, sample.n_rows), workers, meter)
    low, high = _BLOCK
    block = min(max(low, n // _ROUNDS), high)
    choose = _greedy_block if greedy else _random_block
    target = tol * span.trace if tol > 0 else -np.inf
    reason = None
    while reason is None:
        size = min(block, n - span.rank)
        kept, R = choose(span, size, rng)
        if not len(kept):
            reason = "rank"
            break
        span.extend(Pool.of_rows(sample, kept), R, target)
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
    meter: Meter | None = None,
    reason: str = "n_basis",
) -> Pivots:
    """Take these points in their order, but those that depend on earlier ones; one pass."""
    K = kernel_matrix(kernel, pool.items, workers)
    try:
        R, kept = robust_cholesky(K, PIVOT_TOLERANCE, rounding=kernel.rounding)
    except NotPositiveDefiniteError as error:
        raise NotPositiveDefiniteError(int(pool.index[error.index]), error.pivot) from error
    span = LandmarkSpan(sample, kernel, len(kept), workers, meter)
    if len(kept):
        span.extend(pool.take(kept), R)
    return span.pivots(reason)


def rearranged(
    pivots: Pivots, sample: Sample, kernel: Kernel, *, workers: Workers, meter: Meter
) -> Pivots:
    """The same landmarks by importance: each the one that lowers τ most after those before it.

    A greedy choice from a few candidates a step may find a landmark late that it would have wanted
    early (SS00 §2.3); two passes put them in order.
    """
    pool = pivots.pool
    K = kernel_matrix(kernel, pool.items, workers)
    statistics = gram_statistics(sample, kernel, pool.items, workers=workers)
    meter.passes += 1.0
    objective = GramResidual(K, statistics.gram, pivots.trace, capacity=len(pool), workers=workers)
    Pursuit(objective, meter, labels=pool.index).run([])
    # Where the Gram form has no digits left the order stays as it was.
    rest = np.setdiff1d(np.arange(len(pool)), objective.chosen)
    ordered = pool.take(np.concatenate([objective.chosen, rest]))
    reason = pivots.path.stop_reason
    return given_pivots(sample, kernel, ordered, workers=workers, meter=meter, reason=reason)


def _greedy_block(
    span: LandmarkSpan, size: int, rng: np.random.Generator
) -> tuple[Indices, Floats]:
    """Of candidates drawn by what they miss, those that lower τ most."""
    d, w = span.diagonal, span.sample.weights
    alive = np.flatnonzero(span.alive)
    if not len(alive):
        return alive, np.empty((0, 0))
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
    return candidates[objective.chosen], objective.factor.triangle()


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
) -> tuple[Indices, Floats]:
    """Random pivots, drawn at once by what they miss now, and thinned by what they miss then."""
    share = span.sample.weights * np.where(span.alive, span.diagonal, 0.0)
    if not share.any():
        return np.empty(0, dtype=np.intp), np.empty((0, 0))
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
    return drawn[factor.pivots], factor.triangle()
