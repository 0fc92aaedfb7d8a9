"""The minimum of a convex function on an interval, from its derivatives."""

from __future__ import annotations

from collections.abc import Callable

from scipy.optimize import brentq

_STEPS = 100
"""Most steps; bisection alone needs about fifty."""

_SMALL = 1e-7
"""Default share of the first derivative at 0 at which Newton's method ends."""


def line_search(
    slope: Callable[[float], tuple[float, float | None]],
    end: float = 1.0,
    guess: float | None = None,
    tolerance: float = _SMALL,
) -> float:
    """The t in [0, end] at which a convex function is smallest.

    Newton's method inside a bracket of the zero of the first derivative, with bisection for steps
    that leave the bracket; Brent's method if no second derivative is known.

    Parameters
    ----------
    slope : callable
        Gives the first and second derivative at t; the second may be None.
    end : float, default 1.0
        End of the interval.
    guess : float, optional
        Where to look first.
    tolerance : float, default 1e-7
        Newton's method ends where the derivative is at most this share of the one at 0; the error
        of the value is then of the order of its square.

    Returns
    -------
    t : float
    """
    first, second = slope(0.0)
    if not first < 0 or end <= 0:
        return 0.0
    if second is None:
        if slope(end)[0] <= 0:
            return end
        return float(brentq(lambda t: slope(t)[0], 0.0, end, xtol=1e-15 * end, rtol=1e-12))
    enough = tolerance * -first
    low, high, end_is_open = 0.0, end, True
    t = guess if guess is not None and 0 < guess < end else _newton(0.0, first, second, end)
    for _ in range(_STEPS):
        if t >= end and end_is_open:
            t, end_is_open = end, False
        elif not low < t < high:
            t = 0.5 * (low + high)
        first, second = slope(t)
        if abs(first) <= enough or (first < 0 and t == end) or high - low <= 1e-15 * end:
            break
        if first < 0:
            low = t
        else:
            high, end_is_open = t, False
        t = _newton(t, first, second, end)
    return t


def _newton(t: float, first: float, second: float | None, end: float) -> float:
    return t - first / second if second else end
