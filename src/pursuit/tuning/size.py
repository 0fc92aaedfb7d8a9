"""How many basis functions are enough: where the gain on rows left out flattens."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pursuit.linalg import SpanSolution
from pursuit.tuning.calibration import HeldOut

Floats = NDArray[np.float64]

_ENOUGH = 0.01


def error_curve(solution: SpanSolution, rows: HeldOut, *, in_fit: bool) -> Floats:
    """Weighted mean square error on the rows with the first 1, 2, …, n basis functions.

    In rotated features U = L⁻¹V_x the fit with n functions is Σ_{j≤n} U_j z_j and its leverage
    w Σ_{j≤n} U_j², so cumulative sums give the whole curve; rows that were part of the fit are left
    out in turn.
    """
    U = solution.rotated(rows.features)
    leverage = np.minimum(np.cumsum(U**2, axis=0) * rows.weights, 1.0 - 1e-10)
    total = np.zeros(solution.size)
    for y, z in zip(rows.targets.T, solution.z.T, strict=True):
        error = y - np.cumsum(U * z[:, None], axis=0)
        if in_fit:
            error /= 1.0 - leverage
        total += error**2 @ rows.weights
    return np.asarray(total / rows.weights.sum())


def flat_size(curve: Floats) -> int:
    """The smallest size whose error is within one percent of the least."""
    return int(np.argmax(curve <= (1.0 + _ENOUGH) * curve.min())) + 1
