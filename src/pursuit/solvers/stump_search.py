"""The best stump, its two leaf values and the step, found together (Z02 Algorithm 2.1).

:class:`LeafSums` adds up over the leaves of all stumps at once; :class:`JointSearch` has one
subclass per loss, which says how the loss is bounded from such sums.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.linalg import Workers, line_search
from pursuit.objectives import ExponentialLoss, LogExpLoss, LogisticLoss, MeanLoss, SquaredLoss
from pursuit.solvers.stump_bounds import (
    Curves,
    ExponentialCurves,
    LogisticCurves,
    SquaredCurves,
    lower_bounds,
)

Codes = NDArray[np.uint8]

_FEATURES_PER_TASK = 4  # Larger: fewer tasks.


CERTAIN_SHARE = 0.999
"""Above ``limits.EXHAUSTIVE_ROWS``, a step reaches at least this share of the best decrease."""
_EXACT, _NEAR = 1e-6, 9e-4
"""Part of the best decrease that a step may miss. Larger: the search of a step ends sooner."""
_NEWTON_STEPS = 500  # Most steps for one stump.
_HALVINGS = 40  # Most halvings of one step.
_LEAST = 1e-12  # Smallest α that is tried, as a part of the first.


class LeafSums:
    """Sums over the rows of each class on both sides of every threshold.

    Stump ``feature * n_bins + edge`` has the bins up to the edge on its left.

    Parameters
    ----------
    codes : array of shape (n_features, n_rows)
        Bin of each row.
    n_bins : int
        Largest number of bins of a feature.
    y : array of shape (n_rows,)
        Classes, -1 or 1.
    workers : Workers
        Threads.
    """

    def __init__(self, codes: Codes, n_bins: int, y: Floats, workers: Workers) -> None:
        self.codes, self.n_bins, self._workers = codes, n_bins, workers
        folded = codes.astype(np.uint16) + (n_bins * (y < 0)).astype(np.uint16)
        ones = np.ones(_FEATURES_PER_TASK * len(y))
        slices = Workers.slices(len(codes), _FEATURES_PER_TASK)
        # A product with a matrix of ones takes two thirds of the time of counting bins.
        self._parts = [(part, _indicators(folded[part], 2 * n_bins, ones)) for part in slices]

    def place(self, stump: int) -> tuple[int, int]:
        """Feature and edge of a stump."""
        return divmod(stump, self.n_bins)

    def __call__(self, values: Floats, features: Indices | None = None) -> Floats:
        """Sums of values: leaves x classes x stumps, 0 for features that are left out."""
        both = np.zeros((len(self.codes), 2, self.n_bins))

        def add(task: tuple[slice, Any]) -> None:
            part, rows = task
            if features is None or np.any((features >= part.start) & (features < part.stop)):
                both[part] = (rows @ values).reshape(-1, 2, self.n_bins)

        self._workers.map(add, self._parts)
        sums = np.empty((2, 2, len(both), self.n_bins))
        np.cumsum(both, axis=2, out=sums[0].transpose(1, 0, 2))
        np.subtract(sums[0, :, :, -1:], sums[0], out=sums[1])
        return sums.reshape(2, 2, -1)


def _indicators(codes: NDArray[np.uint16], n_codes: int, ones: Floats) -> sparse.csr_array:
    """Features and codes x rows: 1 where a row has the code."""
    n_features, n_rows = codes.shape
    order = np.argsort(codes, axis=1, kind="stable").astype(np.int32)
    counts = [np.bincount(row, minlength=n_codes) for row in codes]
    starts = np.append(0, np.cumsum(counts)).astype(np.int32)
    shape = n_features * n_codes, n_rows
    return sparse.csr_array((ones[: codes.size], order.ravel(), starts), shape=shape)


class StumpStep(NamedTuple):
    """A stump by its number, the step, c = α times its leaf values, and the loss there."""

    stump: int
    alpha: float
    c: Floats
    value: float


class JointSearch(ABC):
    """The stump, leaf values and α of least loss, over all stumps.

    Lower bounds for all stumps come from a few sums over their leaves. The stump with the lowest
    bound is solved exactly on the rows; new sums at its solution tighten the bounds of the others,
    and so on, until no other stump could lower the loss by more than a thousandth beyond the best
    one (a millionth up to ``limits.EXHAUSTIVE_ROWS`` rows).

    Parameters
    ----------
    loss : MeanLoss
        f, a loss of classes -1 and 1.
    sums : LeafSums
        Adds up over leaves.
    """

    def __init__(self, loss: MeanLoss, sums: LeafSums) -> None:
        self.loss, self.sums = loss, sums
        self.y, self.weights, self.scale = loss.y, loss.weights, loss.scale
        self.tolerance = _EXACT if len(loss.y) <= limits.EXHAUSTIVE_ROWS else _NEAR

    def __call__(self, point: Floats, gradient: Floats, leaves: Floats) -> StumpStep | None:
        """The best step from v, given the gradient of f and its sums; None if no step lowers f."""
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
            solved = self._solve(number, float(alpha[number]), enough)
            if solved.value < (self._value if best is None else best.value):
                best, target = solved, self._target(solved.value)
            alive = alive[(lower[alive] < target) & (alive != number)]
            for fresh in (False, True):
                if not len(alive):
                    break
                if fresh:
                    curves = self._curves_at(solved, alive)
                bound, alpha[alive] = lower_bounds(
                    curves.take(alive), alpha[alive], self._value, slopes[alive], target, tight
                )
                lower[alive] = np.maximum(lower[alive], bound)
                alive = alive[lower[alive] < target]
        return best

    def _move(self, point: Floats, gradient: Floats, leaves: Floats) -> None:
        """Set the point where the search starts."""
        self._point, self._margins, self._leaves = point, self.y * point, leaves
        self._drop = float(gradient @ point)
        self._value, self._unit = 1.0, 1.0

    def _target(self, value: float) -> float:
        """A better stump must have a value below this to be better by more than the tolerance."""
        decrease = (self._value - value) / (1.0 - self.tolerance)
        return self._value - max(decrease, self._value - value + 1e-14 * self._value)

    def _enough(self, lower: float) -> float:
        """A value that no stump beats by more than the tolerance, if none is below ``lower``."""
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

    def _derivatives(self, z: Floats) -> tuple[float, Floats, Floats]:
        """The loss at z, and its first two derivatives per row."""
        return self.loss.derivatives(z)

    def _solve(self, number: int, alpha: float, enough: float) -> StumpStep:
        """α and both leaf values of one stump, by Newton's method on the rows."""
        feature, edge = self.sums.place(number)
        side = (self.sums.codes[feature] <= edge).astype(np.float64)
        v = self._point
        guess = self._guess(number)
        at = alpha
        # A guess at which f is not lower is too far: f falls for every small α.
        while True:
            c = np.clip(guess, -at, at)
            value, first, second = self._derivatives(_moved(v, side, at, c))
            if value < self._value or at <= _LEAST * alpha:
                break
            at *= 0.5
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


class ExponentialSearch(JointSearch):
    """For the mean exponential and its logarithm, which have the same steps.

    The loss is Σ q exp(-A y (z - v)), where q are the weights of boosting at v; it is 1 at v.
    """

    def _move(self, point: Floats, gradient: Floats, leaves: Floats) -> None:
        super()._move(point, gradient, leaves)
        self._q = np.abs(gradient)
        total = float(self._q.sum())
        self._q /= total
        self._unit = self.scale / total
        self._mass = np.abs(leaves) / total

    def _target(self, value: float) -> float:
        # The same part of the decrease of the logarithm is at least that of the exponential.
        return float(min(value ** (1.0 / (1.0 - self.tolerance)), value - 1e-14))

    def _enough(self, lower: float) -> float:
        return float(lower ** (1.0 - self.tolerance)) if lower > 0 else 0.0

    def _start(self) -> Floats:
        floor = 0.5 / len(self.y)
        mass = self._mass + floor
        ratio = mass[:, 0] / mass[:, 1]
        np.maximum(ratio, 1.0 / ratio, out=ratio)
        most = np.maximum(ratio[0], ratio[1])
        return np.asarray(np.minimum(0.5 * np.log(most) / self.scale, 1.0))

    def _curves_here(self) -> ExponentialCurves:
        if self._point.any():
            moment = self.sums(self._q * self._margins)
        else:
            moment = np.zeros_like(self._mass)
        return ExponentialCurves.of(self.scale, 0.0, self._mass, moment)

    def _curves_at(self, step: StumpStep, stumps: Indices) -> ExponentialCurves:
        features = self._features(stumps)
        q = self._q * np.exp(self.scale * step.alpha * self._margins)
        mass, moment = self.sums(q, features), self.sums(q * self._margins, features)
        return ExponentialCurves.of(self.scale, step.alpha, mass, moment)

    def _derivatives(self, z: Floats) -> tuple[float, Floats, Floats]:
        step = z - self._point
        step *= self.y
        step *= -self.scale
        np.minimum(step, 600.0, out=step)
        q = np.exp(step, out=step)
        q *= self._q
        first = q * self.y
        first *= -self.scale
        value = float(q.sum())
        q *= self.scale**2
        return value, first, q

    def _guess(self, number: int) -> Floats:
        mass = np.maximum(self._mass[:, :, number], 1e-300)
        return np.asarray(0.5 * np.log(mass[:, 0] / mass[:, 1]) / self.scale)


class SquaredSearch(JointSearch):
    """For the mean of (y - Az)²: the bounds are the values themselves."""

    def __init__(self, loss: MeanLoss, sums: LeafSums) -> None:
        super().__init__(loss, sums)
        self._weight_sums = sums(loss.weights).sum(axis=1)
        self._target_sums = sums(loss.weights * loss.y).sum(axis=1)

    def _move(self, point: Floats, gradient: Floats, leaves: Floats) -> None:
        super()._move(point, gradient, leaves)
        self._residual = self.y - self.scale * point
        self._value = float(self.weights @ self._residual**2)

    def _start(self) -> Floats:
        mass = self._weight_sums
        sums = np.abs(self._leaves.sum(axis=1)) / (2.0 * self.scale)
        free = np.divide(sums, mass, out=np.zeros_like(mass), where=mass > 0)
        return np.asarray(np.minimum(free.max(axis=0) / self.scale, 1.0))

    def _curves_here(self) -> SquaredCurves:
        residual = self._leaves.sum(axis=1) / (-2.0 * self.scale)
        v = self.scale * self._point
        weighted = self.weights * v
        whole = np.array([self._value, 2.0 * weighted @ self._residual, weighted @ v])
        drift = self._target_sums - residual
        return SquaredCurves(self.scale, whole, self._weight_sums, residual, drift)

    def _curves_at(self, step: StumpStep, stumps: Indices) -> SquaredCurves:
        return self._curves_here()


class LogisticSearch(JointSearch):
    """For the mean of ln(1 + exp(-A y z))."""

    def _move(self, point: Floats, gradient: Floats, leaves: Floats) -> None:
        super()._move(point, gradient, leaves)
        self._value = self.loss.value(point)

    def _start(self) -> Floats:
        stiff = self.scale * self._here.bend.sum(axis=1)
        pull = np.abs(self._leaves.sum(axis=1)) / self.scale
        free = np.divide(pull, stiff, out=np.zeros_like(stiff), where=stiff > 0)
        return np.asarray(np.minimum(free.max(axis=0), 1.0))

    def _curves_here(self) -> LogisticCurves:
        p = expit(-self.scale * self._margins)
        bend = self.weights * p * (1.0 - p)
        slope = np.abs(self._leaves) / self.scale
        u = self._margins
        sums = [slope, self.sums(self.weights * p * u), self.sums(bend), self.sums(bend * u)]
        value = np.full(slope.shape[-1], self._value)
        self._here = LogisticCurves.of(self.scale, 0.0, np.zeros((2, 1)), value, np.array(sums))
        return self._here

    def _curves_at(self, step: StumpStep, stumps: Indices) -> LogisticCurves:
        features = self._features(stumps)
        sums, value = [], np.zeros(self._leaves.shape[-1])
        for leaf, c in enumerate(step.c):
            x = -self.scale * ((1.0 - step.alpha) * self._margins + self.y * c)
            p = expit(x)
            first, second = self.weights * p, self.weights * p * (1.0 - p)
            value += self.sums(self.weights * np.logaddexp(0.0, x), features)[leaf].sum(axis=0)
            rows = first, first * self._margins, second, second * self._margins
            sums.append([self.sums(row, features)[leaf] for row in rows])
        return LogisticCurves.of(
            self.scale,
            step.alpha,
            step.c[:, None],
            value,
            np.array(sums).transpose(1, 0, 2, 3),
        )


_SEARCHES: dict[type[MeanLoss], type[JointSearch]] = {
    LogExpLoss: ExponentialSearch,
    ExponentialLoss: ExponentialSearch,
    LogisticLoss: LogisticSearch,
    SquaredLoss: SquaredSearch,
}


def joint_search(loss: MeanLoss, sums: LeafSums) -> JointSearch:
    """The search for a loss of classes ±1."""
    return _SEARCHES[type(loss)](loss, sums)
