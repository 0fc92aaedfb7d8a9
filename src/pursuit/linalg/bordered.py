"""A Cholesky factor to which further rows are appended all at once."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from pursuit._types import Floats, Indices
from pursuit.linalg.cholesky import EPS, robust_cholesky


def bordered_cholesky(
    factor: Floats, cross: Floats, block: Floats, tolerance: float, rounding: float = EPS
) -> tuple[Floats, Indices]:
    """The factor of [[RR', C], [C', B]], leaving out new rows that depend on earlier ones.

    Returns (factor, kept): R on top, and numbers of the new rows that were taken. A row whose pivot
    is at most ``tolerance`` of its diagonal entry is dropped; old rows never are.
    """
    n = len(factor)
    V = solve_triangular(factor, cross, lower=True).T if n else np.empty((len(block), 0))
    E = block - V @ V.T
    least = max(tolerance, 1e2 * rounding)
    alive = np.flatnonzero(np.diag(E) > least * np.diag(block)) if n else np.arange(len(block))
    corner, kept = robust_cholesky(E[np.ix_(alive, alive)], tolerance, rounding=rounding)
    kept = alive[kept]
    size = n + len(kept)
    grown = np.zeros((size, size))
    grown[:n, :n], grown[n:, :n], grown[n:, n:] = factor, V[kept], corner
    return grown, kept
