"""Least squares with non-negative coefficients of bounded sum, exactly, by an active set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrs

from pursuit._types import Floats
from pursuit.linalg import damped_cholesky

_RIDGE = 1e-13
_ROUNDING = 1e-11


def bounded_least_squares(
    gram: Floats, linear: Floats, start: Floats, total: float, *, fixed: bool = False
) -> Floats:
    """Minimise ½u'Gu - b'u over u ≥ 0, Σu ≤ total, from a feasible u.

    Lawson and Hanson's method with one more constraint: on the free coefficients the minimiser is
    G⁻¹(b - λ1), with λ = 0, or such that the sum is ``total``; the way there is cut where a
    coefficient reaches 0, which is then freed no more until its gradient asks for it. Each step
    lowers the value, so the method ends, at an optimum.

    Parameters
    ----------
    gram : array of shape (n, n)
        G, psd.
    linear : array of shape (n,)
        b.
    start : array of shape (n,)
        Feasible coefficients. All are free at first, also those that are 0.
    total : float
        Bound on the sum.
    fixed : bool, default False
        Whether the sum must be ``total``.

    Returns
    -------
    u : array of shape (n,)
    """
    u = np.array(start, dtype=np.float64)
    free = np.ones(len(u), bool)
    rounding = _ROUNDING * float(np.abs(linear).max())
    entering = None
    for _ in range(10 * len(u) + 10):
        multiplier = _minimise_free(gram, linear, u, free, total, fixed)
        slack = np.where(free, -np.inf, linear - gram @ u - multiplier)
        # One that was just let in and thrown out again has only rounding to offer.
        if entering is not None and not free[entering]:
            slack[entering] = -np.inf
        entering = int(np.argmax(slack))
        if not slack[entering] > rounding:
            break
        free[entering] = True
    # Where G is nearly singular its large solutions cancel, and their sum is off.
    found = float(u.sum())
    if found > total or (fixed and found > 0.0):
        u *= total / found
    return u


def _minimise_free(
    G: Floats, b: Floats, u: Floats, free: NDArray[np.bool_], total: float, fixed: bool
) -> float:
    """Move the free coefficients to their minimiser, fixing at 0 those in the way; gives λ."""
    while free.any():
        index = np.flatnonzero(free)
        target, multiplier = _solve(G[np.ix_(index, index)], b[index], total, fixed)
        outside = target < 0.0
        if not outside.any():
            u[index] = target
            return multiplier
        here = u[index]
        share = np.full(len(index), np.inf)
        share[outside] = here[outside] / (here[outside] - target[outside])
        t = float(share.min())
        stopped = share <= t * (1.0 + 1e-12)
        moved = np.maximum(here + t * (target - here), 0.0)
        moved[stopped] = 0.0
        u[index] = moved
        free[index[stopped]] = False
    return 0.0


def _solve(G: Floats, b: Floats, total: float, fixed: bool) -> tuple[Floats, float]:
    """G⁻¹(b - λ1), and λ."""
    n = len(b)
    # Without curvature the least value is at a corner, which a tiny ridge finds.
    flat = not np.any(np.diag(G) > 0)
    L = np.sqrt(_RIDGE) * np.eye(n) if flat else damped_cholesky(G, _RIDGE)
    both, _ = dpotrs(L, np.column_stack([b, np.ones(n)]), lower=1)
    plain, ones = both.T
    excess = float(plain.sum()) - total
    if excess <= 0 and not fixed:
        return plain, 0.0
    multiplier = excess / float(ones.sum())
    return plain - multiplier * ones, multiplier
