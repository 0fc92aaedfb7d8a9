"""Lower bounds on what a stump can reach, for all stumps at once, from sums over their leaves.

A step from v to (1 - α)v + c, c being constant on each leaf and abs(c) ≤ α, lowers a convex loss
to some g(α) at best. As f is jointly convex in α and both values of c, g is convex; the curves in
this module are convex functions below it, which touch it at the point where their sums were taken.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_ROUNDS = 60
_INNER_ROUNDS = 30
_INNER = 1e-13
_MOST = 600.0


class Curves(Protocol):
    """Convex functions of α in [0, 1], one per stump."""

    def take(self, index: Indices) -> Self:
        """Some of them."""
        ...

    def __call__(self, alpha: Floats) -> tuple[Floats, Floats, Floats]:
        """Values, slopes and second derivatives, each at its own α."""
        ...


def lower_bounds(
    curves: Curves, start: Floats, value: float, slopes: Floats, target: float | None, tight: float
) -> tuple[Floats, Floats]:
    """Lower bounds on the minima of the curves, and where the minima are about.

    Every bound is where two tangents cross, one that falls and one that rises, so it holds however
    early the search for the minimum ends.

    Parameters
    ----------
    curves : Curves
        Convex functions of α.
    start : array of shape (n,)
        Where to look first.
    value, slopes : float, array of shape (n,)
        A common value at α = 0 and slopes there: tangents that hold for what the curves bound.
    target : float or None
        A curve is left alone once its bound is at least this; None: once it cannot have the least
        minimum of all.
    tight : float
        Also once its bound is off by no more than this part of the decrease.

    Returns
    -------
    lower, alpha : arrays of shape (n,)
    """
    n = len(start)
    lower, found = np.full(n, value), start.copy()
    index = np.flatnonzero(slopes < 0)
    low = np.array([np.zeros(len(index)), np.full(len(index), value), slopes[index]])
    high = np.array([np.ones(len(index)), np.full(len(index), -np.inf), np.zeros(len(index))])
    alpha, least = np.clip(start[index], 1e-12, 1.0), np.inf
    part = curves if len(index) == n else curves.take(index)
    for turn in range(_ROUNDS):
        if not len(index):
            break
        values, first, second = part(alpha)
        least = min(least, float(values.min()))
        here = np.array([alpha, values, first])
        falls = first < 0
        low, high = np.where(falls, here, low), np.where(falls, high, here)
        crossing = _crossing(low, high)
        bound = low[1] + low[2] * (crossing - low[0])
        at_end = falls & (alpha >= 1.0)
        bound = np.where(at_end, values, bound)
        lower[index], found[index] = np.minimum(bound, value), alpha
        wanted = least if target is None else target
        going = (bound < wanted) & ~at_end & (values - bound > tight * (value - bound))
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = alpha - first / second
        inside = (newton > low[0]) & (newton < high[0])
        open_end = np.isinf(high[1]) & (newton >= 1.0)
        alpha = np.where(inside & (turn % 4 != 3), newton, np.where(open_end, 1.0, crossing))
        stuck = (alpha <= low[0]) | ((alpha >= high[0]) & ~np.isinf(high[1]))
        alpha = np.where(stuck, 0.5 * (low[0] + high[0]), alpha)
        if not going.all():
            kept = np.flatnonzero(going)
            index, alpha, low, high = index[kept], alpha[kept], low[:, kept], high[:, kept]
            part = part.take(kept)
    return lower, found


def _crossing(low: Floats, high: Floats) -> Floats:
    """Where a falling and a rising tangent meet; 1 where none that rises is known."""
    with np.errstate(divide="ignore", invalid="ignore"):
        at = (low[1] - low[2] * low[0] - high[1] + high[2] * high[0]) / (high[2] - low[2])
    return np.where(np.isinf(high[1]), 1.0, np.clip(at, low[0], high[0]))


class _PerStump:
    """A dataclass of numbers, and of arrays whose last axis is that of the stumps."""

    shared: ClassVar[frozenset[str]] = frozenset()

    def take(self, index: Indices) -> Self:
        """Some of them."""
        changed = {
            field.name: getattr(self, field.name)[..., index]
            for field in fields(cast(Any, self))
            if field.name not in self.shared
        }
        return cast(Self, replace(cast(Any, self), **changed))


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
        logs = np.log(np.maximum(mass, 1e-300))
        return cls(scale, base, mass, np.clip(drift, -1.0, 1.0), 0.5 * (logs[:, 0] - logs[:, 1]))

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
            (P_terms + N_terms).sum(axis=0),
            (first[0] + first[1]).sum(axis=0),
            (first[0] * P_rates + first[1] * N_rates).sum(axis=0),
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
        left = sums - b * self.mass
        flat = np.divide(self.drift**2, self.mass, out=np.zeros_like(sums), where=self.mass > 0)
        bend = np.where(clipped, 4.0 * rate * self.drift - 2.0 * rate**2 * self.mass, 2.0 * flat)
        constant, linear, square = self.whole
        return (
            constant + alpha * (linear + alpha * square) - (b * (sums + left)).sum(axis=0),
            linear + 2.0 * alpha * square - 2.0 * (b * self.drift + rate * left).sum(axis=0),
            2.0 * square - bend.sum(axis=0),
        )


@dataclass(frozen=True)
class LogisticCurves(_PerStump):
    """Below the mean of ln(1 + exp(-A y z)), z = (1 - α)v + c, near one α and one c per leaf.

    ln(1 + exp(x + h)) ≥ ln(1 + exp x) + ph + p(1 - p)(exp(-abs h) + abs h - 1), p being the slope
    at x, since its second derivative cannot fall faster than exp(-abs h) (Bach 2010, Self-concordant
    analysis for logistic regression, Lemma 1). The last factor is convex in h, so it is at least
    its value at a mean of h.

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
            with np.errstate(divide="ignore", invalid="ignore"):
                newton = c - force / stiff
            newton = np.where(force < 0, np.minimum(newton, alpha), np.maximum(newton, -alpha))
            inside = (newton >= low) & (newton <= high)
            c = np.where(at_end, c, np.where(inside, newton, 0.5 * (low + high)))
        size = np.abs(h)
        linear = move * self.slope_moment - A * signs * (c - self.center)[:, None] * self.slope
        gained = (linear + self.bend * (decay + size - 1.0)).sum(axis=(0, 1))
        # What an unfinished search for c may have left.
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
