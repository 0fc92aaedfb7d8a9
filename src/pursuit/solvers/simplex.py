"""Weights of given atoms on the simplex: the corrective step of the hull algorithms."""

from __future__ import annotations

from functools import partial

import numpy as np

from pursuit._types import Floats
from pursuit.linalg import line_search
from pursuit.objectives import HullLoss, SquaredLoss
from pursuit.solvers.activeset import bounded_least_squares

_SMALL = 1e-12
_NEWTON_STEPS = 30
"""Huber's loss needs about five; weights that need more are left as they are then."""


def reweight(loss: HullLoss, atoms: Floats, weights: Floats, max_steps: int = 50) -> Floats:
    """Better weights for the columns of ``atoms``, ≥ 0 and with the same sum.

    Exact for the squared loss. Where second derivatives are known, Newton steps: to the least value
    of f's second-order expansion over the simplex, as far as f falls. Else pairwise steps: weight
    moves from the atom that f would most like to leave (the away step) to the one it
    would most like to reach, as far as f falls, until no pair is worth a step.

    Parameters
    ----------
    loss : HullLoss
        f.
    atoms : array of shape (n_rows, n)
        Values of the atoms.
    weights : array of shape (n,)
        Where to start.
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
        held = np.flatnonzero(weights > 0)
        to, away = int(edges.argmin()), int(held[edges[held].argmax()])
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
