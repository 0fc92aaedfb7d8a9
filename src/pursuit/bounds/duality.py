"""Lower bounds on minima by duality, for the convex problems of the package.

**Regularised least squares** (Formulas §1 and §10). With A = K + σ²W⁻¹ and any vector v::

    P(f) = ½Σw(y - f)² + ½σ²‖f‖²   ≥   D(v) = σ²( y'v - ½ v'Av )

**Quadratic functions** q(x) = ½x'Hx - b'x with psd H. With r = b - Hv, q(v) - min q = ½r'H⁺r
wherever b lies in the range of H. Where H - diag(d) is psd for some d > 0, r'H⁻¹r is at most
Σr²/d::

    min q ≥ q(v) - ½Σr²/d

This is Theorem 1, eq. (8), of Smola and Bartlett (2001, SB01) for K = H - σ²1: the right side is
(-½‖b‖² - Q(v))/σ² with Q(v) = -b'Kv + ½v'(K² + σ²K)v, and q is its Q*.

**Logistic regression** without an intercept, for y = ±1, weights w and the kernel s·k::

    P(f) = Σ w_i log(1 + exp(-y_i f(x_i))) + ‖f‖²/2s   ≥   D(a) = Σ w_i H(q_i) - ½s a'Ka

for every a_i = w_i y_i q_i with 0 ≤ q ≤ 1, where H(q) = -q log q - (1 - q) log(1 - q): the loss is
at least H(q) - q y f, and the minimum of ‖f‖²/2s - a'f over all functions is -½s a'Ka.

**Support vector machines** with an intercept (Formulas §6). With slacks
ξ_i = max(0, 1 - y_i f(x_i)) for classes, or max(0, |y_i - f(x_i)| - ε), costs c_i and the loss ξ or
ξ²::

    P(f, b) = ½‖f‖² + Σ c_i ℓ(ξ_i)   ≥   D(a) = y'a - ε‖a‖₁ - ½a'(K + diag δ)a

for every a with 1'a = 0 that is feasible: δ = 0 and |a_i| ≤ c_i for ξ, δ_i = 1/(2c_i) for ξ², and
y_i a_i ≥ 0 for classes.

Arguments are sums over rows with one entry per output, or arrays with one column per output.
"""

from __future__ import annotations

import numpy as np

from pursuit._types import Floats, Indices

_HALVINGS = 50
_MOST = 2.0
"""Largest multiple that is tried; at a minimum in a span the best one is at most 1."""


def primal_value(squared_error: Floats, squared_norm: Floats, noise: float) -> Floats:
    """P(f) from Σw(y - f)² and ‖f‖²."""
    return 0.5 * squared_error + 0.5 * noise * squared_norm


def dense_lower_bound(linear: Floats, quadratic: Floats, noise: float) -> Floats:
    """D(v) from y'v and v'Av."""
    return noise * (linear - 0.5 * quadratic)


def scaled_lower_bound(linear: Floats, quadratic: Floats, noise: float) -> Floats:
    """max over c of D(cv) = ½σ²(y'v)² / v'Av: never worse than D(v)."""
    return 0.5 * noise * linear * _ratio(linear, quadratic)


def sparse_lower_bound(z: Floats, noise: float) -> Floats:
    """D of the best v supported on S*: ½σ²‖z‖², z = C⁻¹y_S*, CC' = A_S*S* (SB01 Theorem 1)."""
    bound: Floats = 0.5 * noise * (z**2).sum(axis=0)
    return bound


def sparse_dual_floor(squared_residuals: Floats, chosen: Indices, sizes: Indices) -> Floats:
    """P_min - D(a) ≥ ½Σ_{i not in S*} w_i r_i² for every a supported on S* (Z03 Proposition 3.3).

    ``squared_residuals`` are w_i r_i² of the exact solution, summed over outputs, and S* is the
    first n of ``chosen`` for each n in ``sizes``.
    """
    covered = np.concatenate([[0.0], np.cumsum(squared_residuals[chosen])])
    floor: Floats = 0.5 * (squared_residuals.sum() - covered[np.minimum(sizes, len(chosen))])
    return floor


def hybrid_lower_bound(
    linear: Floats, quadratic: Floats, border: Floats, z: Floats, noise: float
) -> Floats:
    """max of D over span{v, e_i : i in S*}: the sparse bound and what v adds to it.

    ``border`` is C⁻¹(Av)_S*. With s = v'Av - ‖border‖² and t = y'v - border'z the bound is
    ½σ²(‖z‖² + t²/s): never below the sparse one on S*, nor below the scaled one for v.
    """
    rest = quadratic - (border**2).sum(axis=0)
    step = linear - (border * z).sum(axis=0)
    # If the rest is rounding, v lies in the span of S*.
    safe = np.where(rest > 1e-12 * np.abs(quadratic), rest, 0.0)
    gain: Floats = 0.5 * noise * step * _ratio(step, safe)
    return sparse_lower_bound(z, noise) + gain


def shifted_lower_bound(target_norm: Floats, explained: Floats) -> Floats:
    """½(y'Wy - explained) for K replaced by a larger matrix of low rank plus diagonal."""
    return 0.5 * (target_norm - explained)


def minimum_upper_bound(
    linear: Floats, quadratic: Floats, leftover_value: Floats, noise: float
) -> Floats:
    """P_min ≤ D(v) + min_u ½Σw(ρ - Vu)² + ½σ²‖u‖², ρ = y - Av (CGLB).

    Artemev, Burt and van der Wilk, 2021: A⁻¹ is at most (VV' + σ²W⁻¹)⁻¹ because VV' ≤ K.
    ``leftover_value`` is the last term for some u. Any u is valid, and a sum of squares keeps the
    digits that ρ'Wρ - ‖L⁻¹V'Wρ‖² loses.
    """
    return dense_lower_bound(linear, quadratic, noise) + leftover_value


def l1_lower_bound(linear: float, quadratic: float, largest: float, alpha: float) -> float:
    """D of the best feasible multiple of Wr, for ½Σw(y - Ka)² + α‖a‖₁ (Zhang 2003, Z03 eq. 2).

    For every v with |K'v| ≤ α the minimum is at least y'v - ½v'W⁻¹v. ``linear`` is y'Wr,
    ``quadratic`` r'Wr and ``largest`` max|K'Wr|, or more: v = sWr with s ≤ α/largest.
    """
    if quadratic <= 0:
        return 0.0
    best = linear / quadratic
    limit = alpha / largest if largest > 0 else abs(best)
    s = min(max(best, -limit), limit)
    return s * linear - 0.5 * s**2 * quadratic


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Quotient, 0 where the denominator vanishes."""
    positive = denominator > 0
    return np.where(positive, numerator / np.where(positive, denominator, 1.0), 0.0)


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


def logistic_lower_bound(q: Floats, weights: Floats, quadratic: Floats) -> Floats:
    """max of D(ta) over t, from q, w and s·a'Ka or an upper bound on it.

    D(ta) is concave: the zero of its slope Σ w q log((1 - tq)/tq) - t s·a'Ka is found by bisection
    between 0 and the largest t with tq ≤ 1. Every t on the way gives a true bound.
    """
    low, quadratic = np.zeros(q.shape[1]), np.maximum(quadratic, 0.0)
    largest = np.maximum(q.max(axis=0, initial=0.0), 1.0 / _MOST)
    high = 1.0 / largest
    for _ in range(_HALVINGS):
        t = 0.5 * (low + high)
        slope = weights @ (q * (_log(1.0 - t * q) - _log(t * q))) - t * quadratic
        low, high = np.where(slope > 0, t, low), np.where(slope > 0, high, t)
    bound: Floats = weights @ _entropy(low * q) - 0.5 * low**2 * quadratic
    return bound


def _entropy(q: Floats) -> Floats:
    """H(q)."""
    return np.asarray(-q * _log(q) - (1.0 - q) * _log(1.0 - q))


def _log(x: Floats) -> Floats:
    """The logarithm of a number in [0, 1], and 0 for 0, as it is only multiplied by that number."""
    return np.log(np.where(x > 0, x, 1.0))


def balanced(a: Floats) -> Floats:
    """The dual point with its heavier side scaled down, so that 1'a = 0 and a stays feasible."""
    up = np.where(a > 0, a, 0.0).sum(axis=0)
    down = -np.where(a < 0, a, 0.0).sum(axis=0)
    least = np.minimum(up, down)
    share = [np.divide(least, side, out=np.zeros_like(side), where=side > 0) for side in (up, down)]
    result: Floats = a * np.where(a > 0, share[0], share[1])
    return result


def scaled_machine_bound(linear: Floats, quadratic: Floats, limit: Floats) -> Floats:
    """max of D(ta) over 0 ≤ t ≤ limit, from y'a - ε‖a‖₁ and an upper bound on a'(K + diag δ)a."""
    # Without curvature, D rises up to the limit.
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
