"""Least squares with non-negative coefficients, and weights on a simplex for any convex loss."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrs

from pursuit._types import Floats
from pursuit.linalg import damped_cholesky, line_search
from pursuit.objectives import HullLoss, SquaredLoss

_RIDGE = 1e-13
_ROUNDING = 1e-11


_SMALL = 1e-12
_NEWTON_STEPS = 30
"""Most Newton steps; Huber's loss needs about five."""


def bounded_least_squares(
    gram: Floats, linear: Floats, start: Floats, total: float, *, fixed: bool = False
) -> Floats:
    """Minimise ½u'Gu - b'u over u ≥ 0, Σu ≤ total, from a feasible u.

    Lawson and Hanson's method with one more constraint: on the free coefficients the minimiser is
    G⁻¹(b - λ1), with λ = 0, or such that the sum is ``total``. The step to it ends where a
    coefficient reaches 0, which is then fixed until its gradient asks for it again. Each step
    lowers the value, so the method ends at an optimum.

    Parameters
    ----------
    gram : array of shape (n, n)
        G, psd.
    linear : array of shape (n,)
        b.
    start : array of shape (n,)
        Feasible coefficients. All of them are free at first, even those that are 0.
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
        # A coefficient that was just freed and fixed again gains no more than rounding.
        if entering is not None and not free[entering]:
            slack[entering] = -np.inf
        entering = int(np.argmax(slack))
        if not slack[entering] > rounding:
            break
        free[entering] = True
    # Where G is nearly singular its large solutions cancel, and their sum is off.
    reached = float(u.sum())
    if reached > total or (fixed and reached > 0.0):
        u *= total / reached
    return u


def _minimise_free(
    G: Floats, b: Floats, u: Floats, free: NDArray[np.bool_], total: float, fixed: bool
) -> float:
    """Move the free coefficients to their minimiser, fixing at 0 those in the way; returns λ."""
    while free.any():
        index = np.flatnonzero(free)
        target, multiplier = _solve(G[np.ix_(index, index)], b[index], total, fixed)
        outside = target < 0.0
        if not outside.any():
            u[index] = target
            return multiplier
        now = u[index]
        share = np.full(len(index), np.inf)
        share[outside] = now[outside] / (now[outside] - target[outside])
        t = float(share.min())
        stopped = share <= t * (1.0 + 1e-12)
        moved = np.maximum(now + t * (target - now), 0.0)
        moved[stopped] = 0.0
        u[index] = moved
        free[index[stopped]] = False
    return 0.0


def _solve(G: Floats, b: Floats, total: float, fixed: bool) -> tuple[Floats, float]:
    """G⁻¹(b - λ1), and λ."""
    n = len(b)
    # Without curvature the minimum is at a corner, which a tiny ridge finds.
    flat = not np.any(np.diag(G) > 0)
    L = np.sqrt(_RIDGE) * np.eye(n) if flat else damped_cholesky(G, _RIDGE)
    both, _ = dpotrs(L, np.column_stack([b, np.ones(n)]), lower=1)
    plain, ones = both.T
    excess = float(plain.sum()) - total
    if excess <= 0 and not fixed:
        return plain, 0.0
    multiplier = excess / float(ones.sum())
    return plain - multiplier * ones, multiplier


def reweight(loss: HullLoss, atoms: Floats, weights: Floats, max_steps: int = 50) -> Floats:
    """Better weights for the columns of ``atoms``, ≥ 0 and with the same sum.

    For the squared loss they are the best ones. For losses with known second derivatives, Newton
    steps go to the minimum of the second-order expansion of f over the simplex, as far as f falls.
    For other losses pairwise steps move weight from the atom with the largest slope of f (the away
    step) to the one with the smallest, as far as f falls, until no pair is worth a step.

    Parameters
    ----------
    loss : HullLoss
        f.
    atoms : array of shape (n_rows, n)
        Values of the atoms.
    weights : array of shape (n,)
        Weights to start from.
    max_steps : int, default 50
        Most pairwise steps.

    Returns
    -------
    weights : array of shape (n,)
    """
    if isinstance(loss, SquaredLoss):
        weighted = atoms * loss.weights[:, None]
        total = float(weights.sum())
        return bounded_least_squares(
            weighted.T @ atoms, weighted.T @ loss.y / loss.scale, weights, total, fixed=True
        )
    if loss.second(atoms @ weights) is not None:
        return _newton(loss, atoms, weights)
    weights, point = weights.copy(), atoms @ weights
    first = None
    for _ in range(max_steps):
        edges = loss.gradient(point) @ atoms
        positive = np.flatnonzero(weights > 0)
        to, away = int(edges.argmin()), int(positive[edges[positive].argmax()])
        gain = float(edges[away] - edges[to])
        first = gain if first is None else first
        if gain <= _SMALL * first or to == away:
            break
        direction = atoms[:, to] - atoms[:, away]
        t = line_search(partial(loss.slope, point, direction), end=float(weights[away]))
        weights[to] += t
        weights[away] = 0.0 if t == weights[away] else weights[away] - t
        point = point + t * direction
    return weights


def _newton(loss: HullLoss, atoms: Floats, weights: Floats) -> Floats:
    """Newton steps over the simplex until one is not worth it."""
    point, total = atoms @ weights, float(weights.sum())
    for _ in range(_NEWTON_STEPS):
        second = loss.second(point)
        assert second is not None
        edges = loss.gradient(point) @ atoms
        G = (atoms * second[:, None]).T @ atoms
        ends = bounded_least_squares(G, G @ weights - edges, weights, total, fixed=True)
        direction = ends - weights
        if not -float(edges @ direction) > _SMALL * abs(float(edges @ weights)):
            break
        move = atoms @ direction
        t = line_search(partial(loss.slope, point, move))
        weights, point = np.maximum(weights + t * direction, 0.0), point + t * move
    return weights
