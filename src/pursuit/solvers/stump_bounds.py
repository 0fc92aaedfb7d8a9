"""Lower bounds on the loss that a stump can reach, for all stumps at once, from sums over leaves.

A step goes from v to (1 - α)v + c, where c is constant on each leaf and abs(c) ≤ α. Let g(α) be
the least loss over c. As f is jointly convex in α and both values of c, g is convex. The curves in
this module are convex functions below g, which touch g at the point where their sums were taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices

_ROUNDS = 60
_INNER_ROUNDS = 30
_INNER = 1e-13
_MOST = 600.0
_LEAST = 1e-12
_EMPTY = 1e-300


class Curves(Protocol):
    """Convex functions of α in [0, 1], one per stump."""

    def take(self, index: Indices) -> Self:
        """Some of them."""

    def __call__(self, alpha: Floats) -> tuple[Floats, Floats, Floats]:
        """Values, slopes and second derivatives, each at its own α."""


def lower_bounds(
    curves: Curves, start: Floats, value: float, slopes: Floats, target: float | None, tight: float
) -> tuple[Floats, Floats]:
    """Lower bounds on the minima of the curves, and the approximate places of the minima.

    Every bound is the crossing of a falling and a rising tangent, so it holds however early the
    search for the minimum ends.

    Parameters
    ----------
    curves : Curves
        Convex functions of α.
    start : array of shape (n,)
        First guess at α.
    value, slopes : float, array of shape (n,)
        The common value at α = 0 and the slopes there: tangents of what the curves bound.
    target : float or None
        A curve is done once its bound is at least this; None: once it cannot have the least minimum
        of all.
    tight : float
        A curve is also done once its bound is off by at most this part of the decrease.

    Returns
    -------
    lower, alpha : arrays of shape (n,)
    """
    lower, places = np.full(len(start), value), start.copy()
    reached = np.full(len(start), np.inf)
    index = np.flatnonzero(slopes < 0)
    if not len(index):
        return lower, places
    part = curves if len(index) == len(start) else curves.take(index)
    n, least = len(index), np.inf
    low = _Tangents(np.zeros(n), np.full(n, value), slopes[index])
    # No tangent that rises is known yet.
    high = _Tangents(np.ones(n), np.full(n, -np.inf), np.full(n, np.inf))
    alpha = np.clip(start[index], _LEAST, 1.0)
    for turn in range(_ROUNDS):
        values, first, second = part(alpha)
        tangents, falls = _Tangents(alpha, values, first), first < 0
        low, high = low.replaced(tangents, falls), high.replaced(tangents, ~falls)
        crossing = low.crossing(high)
        bound = low.value + low.slope * (crossing - low.at)
        at_end = falls & (alpha >= 1.0)
        np.copyto(bound, values, where=at_end)
        lower[index] = np.minimum(bound, value)
        better = values < reached[index]
        places[index[better]], reached[index[better]] = alpha[better], values[better]
        if target is None:
            least = min(least, float(values.min()))
        wanted = least if target is None else target
        going = (bound < wanted) & (values - bound > tight * (value - bound)) & ~at_end
        kept = np.flatnonzero(going)
        if not len(kept):
            break
        index, low, high, part = index[kept], low.take(kept), high.take(kept), part.take(kept)
        alpha, first, second, crossing = alpha[kept], first[kept], second[kept], crossing[kept]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            newton = alpha - first / second
        inside = (newton > low.at) & (newton < high.at)
        # Every fourth time at the crossing of the tangents, which closes in from both ends.
        alpha = np.where(inside & (turn % 4 != 3), newton, crossing)
        stuck = (alpha <= low.at) | ((alpha >= high.at) & (high.slope < np.inf))
        alpha = np.where(stuck, 0.5 * (low.at + high.at), alpha)
    return lower, places


class _Tangents(NamedTuple):
    """Tangents of convex functions: where they touch, and value and slope there."""

    at: Floats
    value: Floats
    slope: Floats

    def take(self, index: Indices) -> _Tangents:
        """Some of them."""
        return _Tangents(self.at[index], self.value[index], self.slope[index])

    def replaced(self, others: _Tangents, where: NDArray[np.bool_]) -> _Tangents:
        """Others in place of some."""
        return _Tangents(*(np.where(where, b, a) for a, b in zip(self, others, strict=True)))

    def crossing(self, rising: _Tangents) -> Floats:
        """Where they meet rising tangents further right; 1 where none is known."""
        ahead = rising.at - self.at
        with np.errstate(invalid="ignore"):
            gap = self.value - rising.value + rising.slope * ahead
            share = gap / (rising.slope - self.slope)
        known = rising.slope < np.inf
        return np.where(known, self.at + np.minimum(np.maximum(share, 0.0), ahead), 1.0)


class _PerStump:
    """A dataclass of numbers, and of arrays whose last axis is that of the stumps."""

    shared: ClassVar[frozenset[str]] = frozenset()

    def take(self, index: Indices) -> Self:
        """Some of them."""
        parts = {
            name: part if name in self.shared else part[..., index]
            for name, part in vars(self).items()
        }
        return type(self)(**parts)


def _both(leaves: Floats) -> Floats:
    """The sum over both leaves; faster than sum(axis=0)."""
    return np.asarray(leaves[0] + leaves[1])


@dataclass(frozen=True)
class ExponentialCurves(_PerStump):
    """Below Σ q exp(-A y z), z = (1 - α)v + c, from sums of q and of q y v.

    A cell is what a leaf holds of one class. At α + δ its sum of q is at least
    Σq exp(Aδ Σq y v/Σq), since the logarithm of a sum of exponentials is convex; c then has a
    closed form in each leaf.

    Attributes
    ----------
    scale, base : float
        A, and the α at which q was taken.
    mass : array of shape (2, 2, n)
        Sums of q: leaves x classes 1 and -1 x stumps.
    drift : array of the same shape
        Means of y v.
    log_ratio : array of shape (2, n)
        ½ln(P/N) of each leaf.
    """

    shared = frozenset({"scale", "base"})

    scale: float
    base: float
    mass: Floats
    drift: Floats
    log_ratio: Floats

    @classmethod
    def of(cls, scale: float, base: float, mass: Floats, moment: Floats) -> ExponentialCurves:
        """From sums of q and of q y v, whose mean is in [-1, 1]."""
        mass = np.maximum(mass, 0.0)
        drift = np.divide(moment, mass, out=np.zeros_like(mass), where=mass > 0)
        np.clip(drift, -1.0, 1.0, out=drift)
        seen = np.maximum(mass, _EMPTY)
        return cls(scale, base, mass, drift, 0.5 * np.log(seen[:, 0] / seen[:, 1]))

    def __call__(self, alpha: Floats) -> tuple[Floats, Floats, Floats]:
        """Values, slopes and second derivatives."""
        A, move = self.scale, self.scale * (alpha - self.base)
        P, N = self.drift[:, 0], self.drift[:, 1]
        turn = 0.5 * (P - N)
        free = self.log_ratio + move * turn
        c = np.clip(free, -A * alpha, A * alpha)
        rate = A * np.where(free == c, turn, np.sign(free))
        P_terms = self.mass[:, 0] * np.exp(np.minimum(move * P - c, _MOST))
        N_terms = self.mass[:, 1] * np.exp(np.minimum(move * N + c, _MOST))
        P_rates, N_rates = A * P - rate, A * N + rate
        first = P_terms * P_rates, N_terms * N_rates
        return (
            _both(P_terms + N_terms),
            _both(first[0] + first[1]),
            _both(first[0] * P_rates + first[1] * N_rates),
        )


@dataclass(frozen=True)
class SquaredCurves(_PerStump):
    """Mean of (y - Az)², z = (1 - α)v + c, exactly: sums of weights and of residuals suffice.

    Attributes
    ----------
    scale : float
        A.
    whole : array of shape (3,)
        Coefficients of 1, α and α² in the mean of (e + αAv)², e = y - Av.
    mass, residual, drift : arrays of shape (2, n)
        Sums of the weights, of e and of Av in each leaf.
    """

    shared = frozenset({"scale", "whole"})

    scale: float
    whole: Floats
    mass: Floats
    residual: Floats
    drift: Floats

    def __call__(self, alpha: Floats) -> tuple[Floats, Floats, Floats]:
        """Values, slopes and second derivatives."""
        limit = self.scale * alpha
        sums = self.residual + alpha * self.drift
        free = np.divide(sums, self.mass, out=np.zeros_like(sums), where=self.mass > 0)
        b = np.clip(free, -limit, limit)
        clipped = free != b
        rate = np.where(clipped, np.sign(free) * self.scale, 0.0)
        rest = sums - b * self.mass
        flat = np.divide(self.drift**2, self.mass, out=np.zeros_like(sums), where=self.mass > 0)
        bend = np.where(clipped, 4.0 * rate * self.drift - 2.0 * rate**2 * self.mass, 2.0 * flat)
        constant, linear, square = self.whole
        return (
            constant + alpha * (linear + alpha * square) - (b * (sums + rest)).sum(axis=0),
            linear + 2.0 * alpha * square - 2.0 * (b * self.drift + rate * rest).sum(axis=0),
            2.0 * square - bend.sum(axis=0),
        )


@dataclass(frozen=True)
class LogisticCurves(_PerStump):
    """Below the mean of ln(1 + exp(-A y z)), z = (1 - α)v + c, near one α and one c per leaf.

    ln(1 + exp(x + h)) ≥ ln(1 + exp x) + ph + p(1 - p)(exp(-abs h) + abs h - 1), p being the slope
    at x, since its second derivative cannot fall faster than exp(-abs h) (F. Bach, Self-concordant
    analysis for logistic regression, 2010, Lemma 1). The last factor is convex in h, so its mean
    is at least its value at a mean of h.

    Attributes
    ----------
    scale, base : float
        A, and the α at which the sums were taken.
    center : array of shape (2, 1)
        c of the left and the right leaf at which they were taken.
    value : array of shape (n,)
        The loss there.
    slope, bend : arrays of shape (2, 2, n)
        Sums of p and of p(1 - p): leaves x classes 1 and -1 x stumps.
    slope_moment, bend_mean : arrays of the same shape
        Sums of p y v, and means of y v with weights p(1 - p).
    """

    shared = frozenset({"scale", "base", "center"})

    scale: float
    base: float
    center: Floats
    value: Floats
    slope: Floats
    slope_moment: Floats
    bend: Floats
    bend_mean: Floats

    @classmethod
    def of(
        cls, scale: float, base: float, center: Floats, value: Floats, sums: Floats
    ) -> LogisticCurves:
        """From sums of p, p y v, p(1 - p) and p(1 - p) y v."""
        bend = np.maximum(sums[2], 0.0)
        mean = np.divide(sums[3], bend, out=np.zeros_like(bend), where=bend > 0)
        mean = np.clip(mean, -1.0, 1.0)
        return cls(scale, base, center, value, sums[0], sums[1], bend, mean)

    def __call__(self, alpha: Floats) -> tuple[Floats, Floats, Floats]:
        """Values, slopes and second derivatives; c by Newton's method in each leaf."""
        A, move = self.scale, self.scale * (alpha - self.base)
        signs = np.array([[[1.0], [-1.0]]])
        drift = move * self.bend_mean
        low, high = np.tile(-alpha, (2, 1)), np.tile(alpha, (2, 1))
        c = np.clip(np.tile(self.center, (1, len(alpha))), low, high)
        pull = -(signs * self.slope).sum(axis=1)
        for turn in range(_INNER_ROUNDS):
            h = drift - A * signs * (c - self.center)[:, None]
            decay = np.exp(-np.abs(h))
            rise = self.bend * np.sign(h) * (1.0 - decay)
            force = A * (pull - (signs * rise).sum(axis=1))
            stiff = A**2 * (self.bend * decay).sum(axis=1)
            at_end = ((force < 0) & (c >= alpha)) | ((force > 0) & (c <= -alpha))
            wrong = np.where(at_end, 0.0, np.abs(force))
            if turn == _INNER_ROUNDS - 1 or float(wrong.max()) <= _INNER * float(self.value.max()):
                break
            low, high = np.where(force < 0, c, low), np.where(force > 0, c, high)
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                newton = c - force / stiff
            newton = np.where(force < 0, np.minimum(newton, alpha), np.maximum(newton, -alpha))
            inside = (newton >= low) & (newton <= high)
            c = np.where(at_end, c, np.where(inside, newton, 0.5 * (low + high)))
        size = np.abs(h)
        linear = move * self.slope_moment - A * signs * (c - self.center)[:, None] * self.slope
        gained = (linear + self.bend * (decay + size - 1.0)).sum(axis=(0, 1))
        # An unfinished search for c may have left this much.
        values = self.value + gained - 2.0 * wrong.sum(axis=0)
        rate = np.where(at_end, -np.sign(force), 0.0)
        along = A * (self.slope_moment + self.bend_mean * rise).sum(axis=1)
        inertia = A**2 * (self.bend * decay * self.bend_mean**2).sum(axis=1)
        mixed = -(A**2) * (self.bend * decay * self.bend_mean * signs).sum(axis=1)
        loose = np.divide(mixed**2, stiff, out=np.zeros_like(stiff), where=stiff > 0)
        second = np.where(at_end, 2.0 * rate * mixed + stiff, -loose)
        return (
            values,
            (along + rate * force).sum(axis=0),
            (inertia + second).sum(axis=0),
        )
