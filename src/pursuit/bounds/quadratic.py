"""Lower bounds on the minimum of q(x) = ½x'Hx - b'x for a psd matrix H.

With r = b - Hv, q(v) - min q = ½r'H⁺r wherever b lies in the range of H. Where H - diag(d) is psd
for some d > 0, r'H⁻¹r is at most Σr²/d, so that for every v

    min q ≥ q(v) - ½Σr²/d.

This is SB01's Theorem 1, eq. (8), for K = H - σ²1: the right side is (-½‖b‖² - Q(v))/σ² with
Q(v) = -b'Kv + ½v'(K² + σ²K)v, and q is its Q*.
"""

from __future__ import annotations

import numpy as np

from pursuit._types import Floats


def residual_lower_bound(value: float, residual: Floats, shift: Floats | float) -> float:
    """q(v) - ½Σr²/d, from q(v), the residual r = b - Hv (or more in absolute value) and d."""
    return value - 0.5 * float(np.sum(residual**2 / shift))


def companion_lower_bound(companion_value: float, scale: float, constant: float) -> float:
    """min q ≥ -constant - scale·q*(z) for any z, where min q = -constant - scale·min q*.

    SB01's Theorem 1, eq. (7): q* is Q*, the scale σ² and the constant ½‖y‖².
    """
    return -constant - scale * companion_value


def circle_shift(diagonal: Floats, row_sums: Floats) -> Floats | None:
    """Return d > 0 with H - diag(d) psd, by Gershgorin's circles: H_ii less the rest of its row.

    ``row_sums`` are Σ_j |H_ij|. None where some circle reaches 0.
    """
    rest = row_sums - np.abs(diagonal)
    slack = len(diagonal) * np.finfo(np.float64).eps * row_sums
    shift = diagonal - rest - slack
    return shift if np.all(shift > 0) else None
