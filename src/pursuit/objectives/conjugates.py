"""Conjugates of convex functions that are known by values and slopes alone, from above."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pursuit._types import Floats

Derivatives = Callable[[Floats], tuple[Floats, Floats, Floats]]
"""Gives a function's value, slope and curvature at every entry of an array."""

_EPSILON = float(np.finfo(np.float64).eps)
_ROUNDING = 8.0 * _EPSILON
"""Values and slopes are trusted to this share of their sizes; conjugates are raised by as much."""
_REACHES = tuple(2.0 ** (2.0**k) for k in range(10)) + (1e300,)
"""Distances from 0 at which a slope on the other side of the wanted one is looked for."""
_STEPS = 160
"""Most evaluations after that. Every second one halves a bracket of asinh f, at most 1400 wide."""


def conjugate_above(
    derivatives: Derivatives, size: Callable[[Floats], Floats], slope: Floats
) -> Floats:
    """An upper bound of max_f sf - ℓ(f) for every s, tight up to rounding.

    If l ≤ f* ≤ h holds for a maximiser f*, then a convex ℓ lies above its tangent at any t in
    [l, h], so that the maximum is at most st - ℓ(t) + |s - ℓ'(t)| max(h - t, t - l). The smallest
    such bound of all t that Newton's method and bisection visit is returned.

    Parameters
    ----------
    derivatives : callable
        ℓ, ℓ' and ℓ'' at an array of the shape of `slope`. A kink is allowed: any slope between its
        two sides will do there.
    size : callable
        The size of the terms that ℓ is a sum of, at such an array. They may cancel in ℓ, and their
        rounding does not.
    slope : array
        s.

    Returns
    -------
    bound : array of the same shape
        Infinite where ℓ' does not pass s, beyond rounding, on both sides.
    """
    # Far out ℓ may overflow; infinite values and slopes are right there.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        low = _reached(derivatives, slope, -1.0)
        high = _reached(derivatives, slope, 1.0)
        closed = np.isfinite(low) & np.isfinite(high)
        low, high = np.where(closed, low, 0.0), np.where(closed, high, 0.0)
        return np.where(closed, _least_bound(derivatives, size, slope, low, high), np.inf)


def _reached(derivatives: Derivatives, slope: Floats, side: float) -> Floats:
    """A point on one side of the maximiser, or ±∞ if none is reached."""
    point = np.full_like(slope, side * np.inf)
    for reach in _REACHES:
        _, first, _ = derivatives(np.full_like(slope, side * reach))
        beyond = side * (first - slope) >= _margin(first, slope)
        point = np.where(np.isinf(point) & beyond, side * reach, point)
        if np.isfinite(point).all():
            break
    return point


def _margin(first: Floats, slope: Floats) -> Floats:
    """The rounding that a difference of slopes may suffer from; 0 where one is infinite."""
    size = np.abs(first) + np.abs(slope)
    return np.where(np.isfinite(size), _ROUNDING * size, 0.0)


def _least_bound(
    derivatives: Derivatives,
    size: Callable[[Floats], Floats],
    slope: Floats,
    low: Floats,
    high: Floats,
) -> Floats:
    """The smallest bound by tangents inside brackets of the maximisers."""
    bound, reached = np.full_like(slope, np.inf), np.full_like(slope, -np.inf)
    t = ahead = _middle(low, high)
    for step in range(_STEPS):
        value, first, second = derivatives(t)
        margin = _margin(first, slope)
        gain, rounding = slope * t - value, _ROUNDING * (np.abs(slope * t) + size(t))
        excess = (np.abs(slope - first) + margin) * np.maximum(high - t, t - low)
        # Where the value overflows, comparisons with NaN are false and the bound stays.
        better = gain + rounding + excess < bound
        bound = np.where(better, gain + rounding + excess, bound)
        ahead = np.where(better, t + (slope - first) / second, ahead)
        reached = np.fmax(reached, gain - rounding)
        low = np.where(first <= slope - margin, t, low)
        high = np.where(first >= slope + margin, t, high)
        if np.all(bound - reached <= 4.0 * rounding):
            break
        inside = (ahead > low) & (ahead < high) & (step % 2 == 0)
        t = np.where(inside, ahead, _middle(low, high))
    return bound


def _middle(low: Floats, high: Floats) -> Floats:
    """The middle of asinh f: near the geometric mean of large numbers, the mean of small ones."""
    return np.clip(np.sinh(0.5 * (np.arcsinh(low) + np.arcsinh(high))), low, high)
