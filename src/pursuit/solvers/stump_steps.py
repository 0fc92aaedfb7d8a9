"""The best stump, its two leaf values and the step, found together (Z02 Algorithm 2.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.linalg import line_search
from pursuit.solvers.leaf_sums import LeafSums
from pursuit.solvers.stump_bounds import Curves, lower_bounds

EXHAUSTIVE_ROWS = 5000
"""Up to so many rows every stump is ruled out to one part in a million of the decrease."""

CERTAIN_SHARE = 0.999
"""Of more rows, a step reaches at least this share of the largest decrease."""

_EXACT, _NEAR = 1e-6, 9e-4
"""Parts of the decrease that a step may miss; larger ones end the search of a step sooner."""

_NEWTON_STEPS = 500
_HALVINGS = 40
_LEAST = 1e-12


class StumpStep(NamedTuple):
    """A stump by its number, the step, c = α times its leaf values, and the loss there."""

    stump: int
    alpha: float
    c: Floats
    value: float


class JointSearch(ABC):
    """The stump, leaf values and α of least loss, over all stumps.

    Lower bounds for all stumps come from a few sums over their leaves. The stump with the lowest is
    solved exactly, on the rows; new sums at its solution make the bounds of its rivals tight, and
    so on until no rival is left that could lower the loss by more than a thousandth beyond the
    best one found; a millionth up to 5 000 rows.

    Parameters
    ----------
    y, weights : arrays of shape (n_rows,)
        Classes, and weights that sum to one.
    scale : float
        A.
    sums : LeafSums
        Adds up over leaves.
    """

    def __init__(self, y: Floats, weights: Floats, scale: float, sums: LeafSums) -> None:
        self.y, self.weights, self.scale, self.sums = y, weights, scale, sums
        self.tolerance = _EXACT if len(y) <= EXHAUSTIVE_ROWS else _NEAR

    def __call__(self, point: Floats, gradient: Floats, leaves: Floats) -> StumpStep | None:
        """From v, where f has this gradient and these sums of it; None where nothing helps."""
        self._move(point, gradient, leaves)
        # The slope of the best step towards each stump at α = 0.
        totals = np.abs(leaves[:, 0] + leaves[:, 1])
        slopes = -self._unit * (self._drop + totals[0] + totals[1])
        tight = 0.1 * self.tolerance
        curves = self._curves_here()
        lower, alpha = lower_bounds(curves, self._start(), self._value, slopes, None, tight)
        best: StumpStep | None = None
        target = self._value
        alive = np.flatnonzero(lower < target)
        while len(alive):
            number = int(alive[lower[alive].argmin()])
            enough = self._enough(float(lower[number]))
            found = self._solve(number, float(alpha[number]), enough)
            if found.value < (self._value if best is None else best.value):
                best, target = found, self._target(found.value)
            alive = alive[(lower[alive] < target) & (alive != number)]
            for fresh in (False, True):
                if not len(alive):
                    break
                if fresh:
                    curves = self._curves_at(found, alive)
                bound, alpha[alive] = lower_bounds(
                    curves.take(alive), alpha[alive], self._value, slopes[alive], target, tight
                )
                lower[alive] = np.maximum(lower[alive], bound)
                alive = alive[lower[alive] < target]
        return best

    def _move(self, point: Floats, gradient: Floats, leaves: Floats) -> None:
        """Note where the search starts."""
        self._point, self._margins, self._leaves = point, self.y * point, leaves
        self._drop = float(gradient @ point)
        self._value, self._unit = 1.0, 1.0

    def _target(self, value: float) -> float:
        """What a rival must fall below to be better by more than the tolerance."""
        decrease = (self._value - value) / (1.0 - self.tolerance)
        return self._value - max(decrease, self._value - value + 1e-14 * self._value)

    def _enough(self, lower: float) -> float:
        """A value that no stump can beat by more than the tolerance if none falls below lower."""
        return self._value - (1.0 - self.tolerance) * (self._value - lower)

    def _features(self, stumps: Indices) -> Indices:
        return np.unique(stumps // self.sums.n_bins)

    @abstractmethod
    def _start(self) -> Floats:
        """A guess at α for every stump."""

    @abstractmethod
    def _curves_here(self) -> Curves:
        """Lower bounds from sums at v."""

    @abstractmethod
    def _curves_at(self, step: StumpStep, stumps: Indices) -> Curves:
        """Lower bounds from sums at the end of a step; they need to hold for these stumps."""

    @abstractmethod
    def _derivatives(self, z: Floats) -> tuple[float, Floats, Floats]:
        """The loss at z, and its first two derivatives for each row."""

    def _solve(self, number: int, alpha: float, enough: float) -> StumpStep:
        """α and both leaf values of one stump, by Newton's method on the rows."""
        feature, edge = self.sums.place(number)
        side = (self.sums.codes[feature] <= edge).astype(np.float64)
        v = self._point
        guess = self._guess(number)
        at, value = 2.0 * alpha, np.inf
        # A guess from which f does not fall is too far; it falls for every small α.
        while not value < self._value and at > _LEAST:
            at *= 0.5
            c = np.clip(guess, -at, at)
            value, first, second = self._derivatives(_moved(v, side, at, c))
        for _ in range(_NEWTON_STEPS):
            if value <= enough:
                break
            curve = second * v
            H = np.array([[second @ side, second.sum()], [curve @ side, curve.sum()]])
            H[:, 1] -= H[:, 0]
            g = np.array([first @ side, first.sum()])
            g[1] -= g[0]
            model = _Quadratic(at, c, g, -float(first @ v), H[0], -H[1], float(curve @ v))
            goal = line_search(model.slope, guess=at)
            aim = model.leaves(goal)[0]
            expected = -model.change(goal, aim)
            if expected <= 0.01 * self.tolerance * max(self._value - value, 1e-14 * self._value):
                break
            share = 1.0
            for _ in range(_HALVINGS):
                there = at + share * (goal - at), c + share * (aim - c)
                trial = self._derivatives(_moved(v, side, *there))
                if trial[0] <= value - 0.1 * share * expected:
                    break
                share *= 0.5
            else:
                break
            (at, c), (value, first, second) = there, trial
        return StumpStep(number, at, np.clip(c, -at, at), value)

    def _guess(self, number: int) -> Floats:
        """Leaf values to start from, before they are limited to [-α, α]."""
        return np.asarray(np.sign(-self._leaves[:, :, number].sum(axis=1)))


class _Quadratic(NamedTuple):
    """Second-order model of the loss in α and c around (at, c)."""

    at: float
    c: Floats
    c_slopes: Floats
    slope_at: float
    stiff: Floats
    mixed: Floats
    inertia: float

    def leaves(self, alpha: float) -> tuple[Floats, Floats]:
        """Best c for an α, and the slopes of the model in c there."""
        pull = self.c_slopes + self.mixed * (alpha - self.at)
        free = self.c - np.divide(pull, self.stiff, out=np.zeros(2), where=self.stiff > 0)
        c = np.clip(free, -alpha, alpha)
        return c, np.where(free == c, 0.0, pull + self.stiff * (c - self.c))

    def slope(self, alpha: float) -> tuple[float, float]:
        """Of the model with the best c."""
        c, force = self.leaves(alpha)
        rate = -np.sign(force)
        first = self.slope_at + self.inertia * (alpha - self.at) + self.mixed @ (c - self.c)
        loose = np.divide(self.mixed**2, self.stiff, out=np.zeros(2), where=self.stiff > 0)
        bend = np.where(force != 0, 2.0 * rate * self.mixed + self.stiff, -loose)
        return float(first + rate @ force), max(float(self.inertia + bend.sum()), 0.0)

    def change(self, alpha: float, c: Floats) -> float:
        """The model at (alpha, c), less its value at the centre."""
        a, d = alpha - self.at, c - self.c
        bend = 0.5 * (self.inertia * a**2 + self.stiff @ d**2) + a * (self.mixed @ d)
        return float(self.slope_at * a + self.c_slopes @ d + bend)


def _moved(v: Floats, side: Floats, alpha: float, c: Floats) -> Floats:
    """(1 - α)v + c."""
    z = (1.0 - alpha) * v
    z += (c[0] - c[1]) * side
    z += c[1]
    return z
