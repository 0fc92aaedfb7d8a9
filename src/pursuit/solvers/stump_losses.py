"""Joint stump steps for each loss: what bounds it from sums over leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from pursuit._types import Floats, Indices
from pursuit.objectives import ExponentialLoss, HullLoss, LogExpLoss, LogisticLoss, SquaredLoss
from pursuit.solvers.leaf_sums import LeafSums
from pursuit.solvers.stump_bounds import ExponentialCurves, LogisticCurves, SquaredCurves
from pursuit.solvers.stump_steps import JointSearch, StumpStep


class ExponentialSearch(JointSearch):
    """For the mean exponential, and its logarithm, whose steps are the same.

    The loss is Σ q exp(-A y (z - v)), q being the weights of boosting at v: 1 at v.
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

    def __init__(self, y: Floats, weights: Floats, scale: float, sums: LeafSums) -> None:
        super().__init__(y, weights, scale, sums)
        self._weight_sums = sums(weights).sum(axis=1)
        self._target_sums = sums(weights * y).sum(axis=1)

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

    def _derivatives(self, z: Floats) -> tuple[float, Floats, Floats]:
        residual = self.y - self.scale * z
        weighted = self.weights * residual
        second = 2.0 * self.scale**2 * self.weights
        return float(weighted @ residual), -2.0 * self.scale * weighted, second


class LogisticSearch(JointSearch):
    """For the mean of ln(1 + exp(-A y z))."""

    def _move(self, point: Floats, gradient: Floats, leaves: Floats) -> None:
        super()._move(point, gradient, leaves)
        self._value = self._derivatives(point)[0]

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

    def _derivatives(self, z: Floats) -> tuple[float, Floats, Floats]:
        x = -self.scale * self.y * z
        p = expit(x)
        first = self.weights * p
        value = float(self.weights @ np.logaddexp(0.0, x))
        return value, -self.scale * self.y * first, self.scale**2 * first * (1.0 - p)


_SEARCHES: dict[type[HullLoss], type[JointSearch]] = {
    LogExpLoss: ExponentialSearch,
    ExponentialLoss: ExponentialSearch,
    LogisticLoss: LogisticSearch,
    SquaredLoss: SquaredSearch,
}


def joint_search(loss: Any, sums: LeafSums) -> JointSearch:
    """The search for a loss of classes ±1."""
    return _SEARCHES[type(loss)](loss.y, loss.weights, loss.scale, sums)
