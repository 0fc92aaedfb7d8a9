"""How many basis functions are enough: where the gain on rows left out flattens."""

from __future__ import annotations

import numpy as np

from pursuit._types import Floats
from pursuit.greedy import size_grid
from pursuit.linalg import SpanSolution
from pursuit.tuning.calibration import HeldOut
from pursuit.tuning.confidence import sloped_loss

_ENOUGH = 0.01
LOSS_IS_NOTHING = 1e-3
"""Log loss a row that no further basis function is worth."""


def error_curve(solution: SpanSolution, rows: HeldOut, *, in_fit: bool) -> Floats:
    """Weighted mean square error on the rows with the first 1, 2, …, n basis functions.

    In rotated features U = L⁻¹V_x the fit with n functions is Σ_{j≤n} U_j z_j and its leverage
    w Σ_{j≤n} U_j², so cumulative sums give the whole curve; rows that were part of the fit are left
    out in turn, with all that are identical to them and with their own basis function, as in
    :meth:`HeldOut.leave_out`.
    """
    U = solution.rotated(rows.features)
    weight, means = rows.group_means()
    left: Floats | float = 1.0
    G = None if rows.leaving is None else solution.rotated(rows.leaving)
    if in_fit:
        q = np.cumsum(U**2, axis=0)
        if G is not None:
            squares, products = np.cumsum(G**2, axis=0), np.cumsum(U * G, axis=0)
            along = products / np.where(squares > 0, squares, 1.0)
            q -= along * products
        left = np.maximum(1.0 - weight * q, 1e-10)
    total = np.zeros(solution.size)
    for y, mean, z in zip(rows.targets.T, means.T, solution.z.T, strict=True):
        fitted = np.cumsum(U * z[:, None], axis=0)
        if in_fit and G is not None:
            fitted -= along * np.cumsum(G * z[:, None], axis=0)
        error = y - mean + (mean - fitted) / left
        total += error**2 @ rows.weights
    return np.asarray(total / rows.weights.sum())


def loss_curve(solution: SpanSolution, rows: HeldOut, *, in_fit: bool) -> Floats:
    """Log loss a row of classes ±1 with the first n basis functions; infinite but for some n.

    Those are the sizes of :func:`~pursuit.greedy.size_grid`. Predictions are those of the
    regression on ±1 that :func:`error_curve` judges, as log-odds of the size that suits them best.
    """
    curve = np.full(solution.size, np.inf)
    U = solution.rotated(rows.features)
    for n in size_grid(solution.size):
        if in_fit:
            error, _ = rows.truncated(n).leave_out(solution.truncated(n))
            mean = rows.targets - error
        else:
            mean = U[:n].T @ solution.z[:n]
        curve[n - 1] = sloped_loss(mean, rows.targets, rows.weights)
    return curve


def flat_size(curve: Floats, *, nothing: float = 0.0) -> int:
    """The smallest size whose error is within one percent of the least, or ``nothing`` above it."""
    least = float(curve.min())
    return int(np.argmax(curve <= least + max(_ENOUGH * least, nothing))) + 1
