"""Weights of given atoms on the simplex: the corrective step of the hull algorithms."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from pursuit.linalg import line_search
from pursuit.objectives import HullLoss, SquaredLoss
from pursuit.solvers.activeset import bounded_least_squares

Floats = NDArray[np.float64]

_SMALL = 1e-12


def reweight(loss: HullLoss, atoms: Floats, weights: Floats, max_steps: int = 50) -> Floats:
    """Better weights for the columns of ``atoms``, ≥ 0 and with the same sum.

    Exact for the squared loss. For others, pairwise steps: weight moves from the atom that f
    would most like to leave (the away step) to the one it would most like to reach, as far as f
    falls, until no pair is worth a step.

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
