"""How fast greedy steps over a convex hull approach the minimum, and what it means for margins.

Z02 Theorem 3.1, and its equations (6) and (8) for boosting.
"""

from __future__ import annotations

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.bounds.bound import Bound


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
    # Written so that an infinite M says what is known without it.
    return np.asarray(excess / (1.0 + k * (excess / (8.0 * curvature))))


def hull_rate_bound(n_steps: int, curvature: float, excess: float) -> Bound:
    """The smaller of both forms after 1, …, n steps, beside what is known without them.

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
        "Zhang 2002, Theorem 3.1",
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
    """Share of the rows whose margin is at most γ after 1, …, n rounds.

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
        "Zhang 2002, equation (8)",
        f"the share of training rows with a margin of at most {margin:.4g}",
        steps,
        margin_tail(steps, scale, margin),
        trivial=1.0,
        caveat=f"if some vote has a margin of {2 * margin:.4g} on every row; scale {scale:.4g}; "
        "one size is one round",
    )
