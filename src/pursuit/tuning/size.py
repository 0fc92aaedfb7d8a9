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
    out in turn, with all that are identical to them.
    """
    U = solution.rotated(rows.features)
    weight, means = rows.group_means()
    left = np.maximum(1.0 - weight * np.cumsum(U**2, axis=0), 1e-10) if in_fit else 1.0
    total = np.zeros(solution.size)
    for y, mean, z in zip(rows.targets.T, means.T, solution.z.T, strict=True):
        fitted = np.cumsum(U * z[:, None], axis=0)
        error = y - mean + (mean - fitted) / left
        total += error**2 @ rows.weights
    return np.asarray(total / rows.weights.sum())


def flat_size(curve: Floats) -> int:
    """The smallest size whose error is within one percent of the least."""
    return int(np.argmax(curve <= (1.0 + _ENOUGH) * curve.min())) + 1
