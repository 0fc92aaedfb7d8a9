"""Duality of regularised least squares with weights (Formulas §1 and §10).

P(f) = ½Σw(y - f)² + ½σ²‖f‖²  and, with A = K + σ²W⁻¹, for any vector v

    D(v) = σ²( y'v - ½ v'Av ) ≤ P_min.

Arguments are sums over rows, one entry an output.
"""

from __future__ import annotations

import numpy as np

from pursuit._types import Floats, Indices


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
    # A rest that is rounding says that v lies in the span of S* already.
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
    ``leftover_value`` is the last term for some u; any u will do, and the value of a sum of
    squares keeps the digits that ρ'Wρ - ‖L⁻¹V'Wρ‖² loses.
    """
    return dense_lower_bound(linear, quadratic, noise) + leftover_value


def l1_lower_bound(linear: float, quadratic: float, largest: float, alpha: float) -> float:
    """D of the best multiple of Wr that is feasible, for ½Σw(y - Ka)² + α‖a‖₁ (Z03 eq. 2).

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
