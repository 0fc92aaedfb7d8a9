"""Rates of convergence as numbers: theorems of Z03, SB01 and Z02.

Z03 is Zhang 2002b, Z02 is Zhang 2002a and SB01 is Smola and Bartlett 2001.

In units of P = m R: with σ² = mλ and M² = max_i w_i k(x_i, x_i), Z03's constants only appear as
λ = σ²/m and M². Rows with different weights are rows √w_i x_i with targets √w_i y_i, which the
proofs allow. Several outputs that share a basis obey the same bounds for the sum of their
objectives, because Δ²/(R̂M² + λΔ), the decrease that a step guarantees, is subadditive in (Δ, R̂).

For hulls: Z02 Theorem 3.1, and its equations (6) and (8) for boosting.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from pursuit._types import Floats, Indices
from pursuit.bounds.certificate import Bound

DISTANCE = "P(f) - min P"
IN_EXPECTATION = "on average over the random draws"

_BISECTIONS = 60
_LARGEST_EXCESS = 1e9


def greedy_rate_bound(
    size: ArrayLike,
    *,
    initial_gap: float,
    minimum: float,
    largest: float,
    noise: float,
    n_rows: int,
    steps: ArrayLike | None = None,
    trivial: float | Floats = np.inf,
    caveat: str = "",
) -> Bound:
    """P(f_k) - P_min after k steps of Z03's Algorithms 1 to 4 (Theorem 5.1).

    ΔP_k ≤ ΔP₀(M² + λ) / ( λ²ΔP₀k/(P_min M² + λΔP₀) + M² + λ ); on average for Algorithms 2 and 3.
    The bound increases in both P_min and ΔP₀, so upper bounds on them may be passed, such as P of
    any function and P(0).

    Parameters
    ----------
    size : array of int
        Numbers of basis functions n.
    initial_gap, minimum : float
        ΔP₀ = P(0) - P_min and P_min, or upper bounds of them.
    largest : float
        M² = max_i w_i k(x_i, x_i).
    noise : float
        σ² = mλ.
    n_rows : int
        m.
    steps : array of int, optional
        k for each size, where functions were taken more than once; by default k = n.
    trivial : float or array, optional
        What is known of the distance without the theorem.
    caveat : str, optional
        Assumptions to print with the bound.

    Returns
    -------
    bound : Bound
    """
    ridge = noise / n_rows
    k = np.asarray(size if steps is None else steps, dtype=np.float64)
    share = _share(ridge, largest)
    # Both divided by M² + λ, which may be too large to be multiplied.
    scale = minimum * (1.0 - share) + share * initial_gap
    speed = share**2 * (initial_gap / scale) if scale > 0 else 0.0
    value = initial_gap / (speed * k + 1.0)
    return _bound("Zhang 2002b, Theorem 5.1", size, value, trivial, caveat)


def simple_rate_bound(
    size: ArrayLike,
    *,
    initial: float,
    largest: float,
    noise: float,
    n_rows: int,
    steps: ArrayLike | None = None,
    trivial: float | Floats = np.inf,
    caveat: str = "",
) -> Bound:
    """The same from P(0) = ½y'Wy alone (Z03 Corollary 5.1).

    ΔP_k ≤ P(0)(M² + λ)² / (λ²k + (M² + λ)²). Arguments are those of :func:`greedy_rate_bound`, with
    ``initial`` = P(0).
    """
    ridge = noise / n_rows
    k = np.asarray(size if steps is None else steps, dtype=np.float64)
    value = initial / (_share(ridge, largest) ** 2 * k + 1.0)
    return _bound("Zhang 2002b, Corollary 5.1", size, value, trivial, caveat)


def _share(ridge: float, largest: float) -> float:
    """λ/(M² + λ)."""
    return ridge / (largest + ridge) if ridge > 0 else 0.0


def orthogonalities(H: Floats, sets: Sequence[ArrayLike]) -> Floats:
    """ρ of the functions of each index set against all others.

    ρ = λ_max(D^½(H⁻¹)_JJ D^½) for the set J, with D = diag(H)_J and H = KWK + σ²K (Z03 Definition
    6.1): 1 when functions are H-orthogonal, infinite when H is singular to working precision. The
    rounding of the eigenvalues of H is taken off them, so that ρ is not understated. ρ of all
    functions is λ₁⁻² for the smallest singular value λ₁ of the column-normalised H^½ (SB01
    Theorem 2).
    """
    unknown = np.full(len(sets), np.inf)
    scale = np.sqrt(np.maximum(np.diag(H), 0.0))
    if not np.all(scale > 0):
        return unknown
    eigenvalues, U = np.linalg.eigh(H / np.outer(scale, scale))
    eigenvalues -= len(H) * np.finfo(np.float64).eps * eigenvalues[-1]
    if eigenvalues[0] <= 0:
        return unknown
    rows = U / np.sqrt(eigenvalues)
    parts = [rows[np.asarray(J, np.intp)] for J in sets]
    return np.array([np.linalg.eigvalsh(B @ B.T)[-1] if len(B) else 1.0 for B in parts])


def span_rate_bound(
    size: ArrayLike,
    *,
    n_terms: ArrayLike,
    rho: ArrayLike,
    initial_gap: float,
    gaps: ArrayLike,
    trivial: float | Floats = np.inf,
    caveat: str = "",
) -> Bound:
    """P(f_n) - P_min for Algorithm 4, beside any sparse functions f̄ (Z03 Theorem 6.1).

    ΔP_n ≤ max{(1 + γ)²ΔP(f̄), [1 - γ²/(N(2 + γ)²ρ)]ⁿ ΔP₀} for every γ > 0 and every f̄ of N terms;
    each n uses the best γ and the best of the given f̄. Upper bounds of ΔP(f̄), ρ and ΔP₀
    may be passed. Several outputs that share a basis obey it for the sums of their objectives, N
    being the number of functions in use for any of them.

    Parameters
    ----------
    size : array of int
        Numbers of basis functions n.
    n_terms, rho, gaps : arrays with one entry per f̄
        N, ρ of its terms (:func:`orthogonalities`) and ΔP(f̄).
    initial_gap : float
        ΔP₀.
    trivial : float or array, optional
        What is known of the distance without the theorem.
    caveat : str, optional
        Assumptions to print with the bound.

    Returns
    -------
    bound : Bound
    """
    n = np.asarray(size, dtype=np.float64)[:, None]
    N, ratio, gap = (np.asarray(x, dtype=np.float64) for x in (n_terms, rho, gaps))

    def terms(gamma: Floats) -> tuple[Floats, Floats]:
        slope = (gamma / (2 + gamma)) ** 2 / (N * ratio)
        return (1 + gamma) ** 2 * gap, (1 - slope) ** n * initial_gap

    # The first term rises in γ, the second falls: they are equal at the best γ.
    low, high = np.zeros((len(n), len(N))), np.full((len(n), len(N)), _LARGEST_EXCESS)
    for _ in range(_BISECTIONS):
        middle = np.sqrt((low + 1e-9) * high)
        first, second = terms(middle)
        low, high = np.where(first < second, middle, low), np.where(first < second, high, middle)
    value = np.maximum(*terms(high)).min(axis=1, initial=np.inf)
    value = np.minimum(value, initial_gap)
    return _bound("Zhang 2002b, Theorem 6.1", size, value, trivial, caveat)


def natarajan_step_bound(
    n_terms: ArrayLike,
    *,
    rho: float,
    initial_gap: float,
    tolerance: ArrayLike,
    n_rows: int,
    caveat: str = "",
) -> Bound:
    """Steps of SB01's Algorithm 1 with full search until ΔP ≤ ε (its Theorem 2, corrected).

    n ≤ ⌈18 n*(ε/4) λ₁⁻² ln(‖b‖/√(2ε))⌉, with ‖b‖² = 2ΔP₀ and ρ = λ₁⁻² of all functions
    (:func:`orthogonalities`); the paper prints ln(‖b‖/ε).

    Parameters
    ----------
    n_terms : array of int
        n*(ε/4), the fewest functions that come within ε/4 of the minimum, or more, for each ε.
    rho, initial_gap : float
        λ₁⁻² and ΔP₀.
    tolerance : array
        ε.
    n_rows : int
        m: a bound of m steps or more is vacuous.
    caveat : str, optional
        Assumptions to print with the bound.

    Returns
    -------
    bound : Bound
    """
    N, eps = np.asarray(n_terms, dtype=np.float64), np.asarray(tolerance, dtype=np.float64)
    return Bound(
        "Smola and Bartlett 2001, Theorem 2",
        "number of steps to within ε where n* functions come within ε/4",
        np.asarray(n_terms, dtype=np.intp),
        _steps(9 * N * rho, initial_gap, eps),
        trivial=float(n_rows),
        caveat=caveat,
    )


def _steps(factor: Floats, initial_gap: float, reached: Floats) -> Floats:
    """⌈factor · ln(ΔP₀/reached)⌉; 0 where that is reached before any step."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        steps = np.ceil(factor * np.log(initial_gap / reached))
    return np.where(reached >= initial_gap, 0.0, steps)


def _bound(
    name: str, size: ArrayLike, value: Floats, trivial: float | Floats, caveat: str
) -> Bound:
    return Bound(name, DISTANCE, np.asarray(size, dtype=np.intp), value, trivial, caveat=caveat)


def hull_rate(steps: Indices, curvature: float) -> Floats:
    """Δf(vᵏ) ≤ 8M/(k + 3) for k ≥ 1 (Theorem 3.1, first form); infinite for k = 0."""
    k = np.asarray(steps, dtype=np.float64)
    return np.where(k >= 1, 8.0 * curvature / (k + 3.0), np.inf)


def hull_rate_from(steps: Indices, curvature: float, excess: float) -> Floats:
    """Δf(vᵏ) ≤ 8M/(k + 8M/Δf(v⁰)) if Δf(v⁰) ≤ 4M (Theorem 3.1, second form).

    ``excess`` is Δf(v⁰) or an upper bound on it; infinite where it is above 4M.
    """
    k = np.asarray(steps, dtype=np.float64)
    if excess <= 0:
        return np.zeros(len(k))
    if excess > 4.0 * curvature:
        return np.full(len(k), np.inf)
    # Written so that an infinite M gives ``excess`` itself.
    return np.asarray(excess / (1.0 + k * (excess / (8.0 * curvature))))


def hull_rate_bound(n_steps: int, curvature: float, excess: float) -> Bound:
    """The smaller of both forms after 1, …, n steps.

    Parameters
    ----------
    n_steps : int
        Steps taken.
    curvature : float
        M.
    excess : float
        Δf(v⁰), or an upper bound on it such as the Frank-Wolfe gap there.

    Returns
    -------
    bound : Bound
    """
    steps = np.arange(1, n_steps + 1)
    value = np.minimum(hull_rate(steps, curvature), hull_rate_from(steps, curvature, excess))
    return Bound(
        "Zhang 2002a, Theorem 3.1",
        "the distance of f from its minimum over the hull",
        steps,
        value,
        trivial=excess,
        caveat=f"M = {curvature:.3g}; one size is one step",
    )


def margin_tail(steps: Indices, scale: float, margin: float) -> Floats:
    """P(margin ≤ γ) ≤ exp(-Aγ + 8A²/(k + 3)) if some v has margin 2γ everywhere (before (8))."""
    k = np.asarray(steps, dtype=np.float64)
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(8.0 * scale**2 / (k + 3.0) - scale * margin))


def margin_scale(n_steps: int, margin: float) -> float:
    """A = γ(k + 3)/16, which makes the bound exp(-γ²(k + 3)/32) (equation 8)."""
    return margin * (n_steps + 3) / 16.0


def margin_bound(n_steps: int, scale: float, margin: float) -> Bound:
    """The share of rows whose margin is at most γ, after 1, …, n rounds.

    Parameters
    ----------
    n_steps : int
        Rounds of boosting.
    scale : float
        A. With ``margin_scale(n_steps, margin)`` the last value is that of equation (8).
    margin : float
        γ.

    Returns
    -------
    bound : Bound
    """
    steps = np.arange(1, n_steps + 1)
    return Bound(
        "Zhang 2002a, equation (8)",
        f"the share of training rows with a margin of at most {margin:.4g}",
        steps,
        margin_tail(steps, scale, margin),
        trivial=1.0,
        caveat=f"if some vote has a margin of {2 * margin:.4g} on every row; scale {scale:.4g}; "
        "one size is one round",
    )
