"""Duality of support vector machines with an intercept (Formulas §6).

With slacks ξ_i = max(0, 1 - y_i f(x_i)) for classes, or max(0, |y_i - f(x_i)| - ε), costs c_i and
the loss ξ or ξ²,

    P(f, b) = ½‖f‖² + Σ c_i ℓ(ξ_i)   ≥   D(a) = y'a - ε‖a‖₁ - ½a'(K + diag δ)a

for every a with 1'a = 0 that is feasible: δ = 0 and |a_i| ≤ c_i for ξ, δ_i = 1/(2c_i) for ξ², and
y_i a_i ≥ 0 for classes. Arrays have one column an output.
"""

from __future__ import annotations

import numpy as np

from pursuit._types import Floats


def balanced(a: Floats) -> Floats:
    """The dual point with its heavier side scaled down, so that 1'a = 0 and a stays feasible."""
    up = np.where(a > 0, a, 0.0).sum(axis=0)
    down = -np.where(a < 0, a, 0.0).sum(axis=0)
    least = np.minimum(up, down)
    share = [np.divide(least, side, out=np.zeros_like(side), where=side > 0) for side in (up, down)]
    result: Floats = a * np.where(a > 0, share[0], share[1])
    return result


def scaled_machine_bound(linear: Floats, quadratic: Floats, limit: Floats) -> Floats:
    """max of D(ta) over 0 ≤ t ≤ limit, from y'a - ε‖a‖₁ and a'(K + diag δ)a, or more than that."""
    # Without curvature, D rises as far as the limit lets it.
    curved = quadratic > 0
    best = np.where(curved, np.maximum(linear, 0.0) / np.where(curved, quadratic, 1.0), np.inf)
    t = np.where(linear > 0, np.minimum(best, limit), 0.0)
    t = np.where(np.isfinite(t), t, 0.0)
    bound: Floats = t * (linear - 0.5 * t * np.maximum(quadratic, 0.0))
    return bound


def diagonal_quadratic(inner: Floats, a: Floats, residual: Floats) -> Floats:
    """a'Ka ≤ ‖V'a‖² + (Σ|a_i|√d_i)² for K = VV' + E and d = diag E."""
    missed = np.sqrt(np.maximum(residual, 0.0)) @ np.abs(a)
    bound: Floats = inner + missed**2
    return bound
