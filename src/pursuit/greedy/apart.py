"""Candidates that others span, and those that lie farthest from a span."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from pursuit._types import Floats, Indices
from pursuit.greedy.pool import Pool, kernel_matrix
from pursuit.kernels import CountingKernel
from pursuit.linalg import Workers, robust_cholesky, single_threaded_blas

_INDEPENDENT = 1e-8  # A residual below this part of its diagonal entry is dependent.


def least_residual(kernel: CountingKernel) -> float:
    """The part of a diagonal entry up to which a residual counts as dependent."""
    return max(_INDEPENDENT, 1e2 * kernel.rounding)


@single_threaded_blas()
def spanning(K: Floats, kernel: CountingKernel, most: int) -> Indices:
    """Numbers of at most so many candidates that span all, but for 1e-8 of their squared norms.

    Candidates of smooth kernels may lie in the span of a few of them. Where all of those can be
    taken there is nothing to choose, and statistics cost the square of the candidates. By a pivoted
    factor of K. All candidates are returned if that takes more of them, as half of them may show,
    and for kernels that are not positive definite.
    """
    everybody = np.arange(len(K))
    if not kernel.positive_definite:
        return everybody
    least = least_residual(kernel)
    for some in (everybody[::2], everybody):
        roots = np.sqrt(np.diag(K)[some])
        roots[roots == 0.0] = np.inf
        _, pivots, rank, _ = dpstrf(K[np.ix_(some, some)] / np.outer(roots, roots), tol=least)
        if rank > most:
            return everybody
    return np.sort(pivots[:rank] - 1)


@single_threaded_blas()
def farthest(
    pool: Pool, chosen: Indices, most: int, kernel: CountingKernel, workers: Workers
) -> Indices:
    """Numbers of at most so many candidates, each the farthest from the span of those before.

    Distances are relative to the norm of a candidate; none is below 1e-4. These are the pivots of
    what K_SS of the chosen S leaves of K. They come from some of the candidates, evenly spaced and
    twice as many, where those have enough of them, else from all.
    """
    rest = np.setdiff1d(np.arange(len(pool)), chosen)
    least = least_residual(kernel)
    for some in (rest[:: max(1, -(-len(rest) // (2 * most)))], rest):
        K = kernel_matrix(kernel, pool.take(np.concatenate([chosen, some])).items, workers)
        roots = np.sqrt(np.diag(K))
        roots[roots == 0.0] = np.inf
        K /= np.outer(roots, roots)
        n = len(chosen)
        R, kept = robust_cholesky(K[:n, :n], rounding=kernel.rounding)
        V = solve_triangular(R, K[:n, n:][kept], lower=True)
        left = K[n:, n:] - V.T @ V
        _, pivots, rank, _ = dpstrf(left, tol=least)
        if rank >= most:
            break
    found: Indices = some[pivots[: min(rank, most)] - 1]
    return found
