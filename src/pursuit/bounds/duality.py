"""Duality of regularised least squares with weights (SPEC 1 and 6b).

P(f) = ½Σw(y - f)² + ½σ²‖f‖²  and, for any vector a,

    D(a) = σ²( y'a - ½ a'(K + σ²W⁻¹)a ) ≤ P_min.

All arguments are sums over rows, one entry an output.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def primal_value(squared_error: Floats, squared_norm: Floats, noise: float) -> Floats:
    """P(f) from Σw(y - f)² and ‖f‖²."""
    return 0.5 * squared_error + 0.5 * noise * squared_norm


def dense_lower_bound(linear: Floats, quadratic: Floats, noise: float) -> Floats:
    """D(a) from y'a and a'(K + σ²W⁻¹)a."""
    return noise * (linear - 0.5 * quadratic)


def scaled_lower_bound(linear: Floats, quadratic: Floats, noise: float) -> Floats:
    """max over c of D(ca) = ½σ²(y'a)² / a'(K + σ²W⁻¹)a: never worse than D(a)."""
    safe = np.where(quadratic > 0, quadratic, 1.0)
    return np.where(quadratic > 0, 0.5 * noise * linear**2 / safe, 0.0)
