"""Running error bounds: values, each with a bound on how far rounding has moved it.

After Higham, Accuracy and Stability of Numerical Algorithms (2002), chapter 3, and Rump,
Verification methods (2010). With u = 2⁻⁵³, one operation has a relative error of at most u, and
a sum of n products, in whatever order and with whatever fused operations, one of at most

    γ_n Σ|a_i||b_i|,    γ_n = nu/(1 - nu).

Errors are themselves computed in floating point, and therefore each is raised by a few units.
Gradual underflow adds at most 2⁻¹⁰⁷⁴ per product. What goes through this module is true in the
arithmetic of the computer; what is assumed of kernels stands in `Kernel.error`.

Imports NumPy only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pursuit._types import Floats

UNIT = 2.0**-53
"""Relative error of one operation."""

_TINY = 2.0**-1074
_RAISED = 1.0 + 16.0 * UNIT
"""What an error is multiplied by for the rounding of its own computation."""


def gamma(n: float) -> float:
    """γ_n, the relative error of n operations one after the other."""
    return n * UNIT / (1.0 - n * UNIT) if n * UNIT < 0.5 else np.inf
