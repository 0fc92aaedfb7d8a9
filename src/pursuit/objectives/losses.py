"""Convex losses: one class per loss ℓ(f, y) of a prediction f for a target y.

**A new loss is one subclass of** :class:`RowLoss`. It must define

- ``value(f, y)``, ``gradient(f, y)`` and ``curvature(f, y)``: ℓ and its first two derivatives in f,
  for arrays of one shape;
- ``most_curved``: the largest curvature that there is, ``np.inf`` where it has no bound;

and it should define, where it differs from what is inherited,

- ``checked(y)``: refuses targets for which ℓ is not defined (finite numbers are the default;
  :class:`MarginLoss` wants -1 and 1);
- ``slopes(y)``: the smallest and the largest slope that ℓ(·, y) comes near to, between which the
  conjugate is finite;
- ``conjugate(slope, y)``: max_f sf - ℓ(f, y), from which dual bounds are made;
- ``predicted(f)``: what the loss elicits of y where f is best: the mean, a quantile, an expectile;
- ``largest_curvature(reach)``: the largest curvature for |f| ≤ reach, where that is finite;
- ``derivatives(f, y)``: gradient and curvature together, where they share an expensive part;
- ``piecewise_quadratic = True``, where Newton's method ends after finitely many steps.

Newton's method, matching pursuit, support vector machines, generalised linear models and regression
over an l1 ball take a `RowLoss` as it is. Hulls and boosting minimise a function of all predictions
at once, made of row losses by `objectives.hull_losses`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, xlogy

from pursuit._types import Floats


class RowLoss(ABC):
    """ℓ(f, y), convex in the prediction f; arrays of one shape. The module says what to define."""

    most_curved: float
    piecewise_quadratic: ClassVar[bool] = False

    @abstractmethod
    def value(self, f: Floats, y: Floats) -> Floats:
        """ℓ(f, y)."""

    @abstractmethod
    def gradient(self, f: Floats, y: Floats) -> Floats:
        """ℓ'(f, y), or the slope nearest to 0 where ℓ has a kink."""

    @abstractmethod
    def curvature(self, f: Floats, y: Floats) -> Floats:
        """ℓ''(f, y)."""

    def derivatives(self, f: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Gradient and curvature."""
        return self.gradient(f, y), self.curvature(f, y)

    def largest_curvature(self, reach: float) -> float:
        """The largest curvature of all predictions with |f| ≤ reach."""
        return self.most_curved

    def slopes(self, y: Floats) -> tuple[Floats, Floats]:
        """Infimum and supremum of ℓ'(·, y), between which the conjugate is finite."""
        return np.full_like(y, -np.inf), np.full_like(y, np.inf)

    def predicted(self, f: Floats) -> Floats:
        """What is predicted of y at f; f itself, unless the loss has a link."""
        return f

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """ℓ*(s, y) = max_f sf - ℓ(f, y), for slopes s between those of :meth:`slopes`."""
        raise NotImplementedError(f"the conjugate of {type(self).__name__} is not known.")

    def checked(self, y: ArrayLike) -> Floats:
        """The targets as an array, refused where the loss is not defined for them."""
        array = np.asarray(y, dtype=np.float64)
        if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
            raise ValueError(f"y must be a vector of finite numbers, got shape {array.shape}.")
        return array


@dataclass(frozen=True)
class SquaredRows(RowLoss):
    """(y - f)²."""

    most_curved = 2.0
    piecewise_quadratic = True

    def value(self, f: Floats, y: Floats) -> Floats:
        """(y - f)²."""
        return np.square(y - f)

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """2(f - y)."""
        return 2.0 * (f - y)

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """2."""
        return np.full_like(f, 2.0)

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """Returns sy + s²/4."""
        return slope * y + 0.25 * np.square(slope)


@dataclass(frozen=True)
class HuberRows(RowLoss):
    """½u² for u = |y - f| ≤ δ, and δu - ½δ² beyond."""

    delta: float

    most_curved = 1.0
    piecewise_quadratic = True

    def value(self, f: Floats, y: Floats) -> Floats:
        """Huber's function of y - f."""
        size = np.abs(y - f)
        inner = np.minimum(size, self.delta)
        return np.asarray(inner * (size - 0.5 * inner))

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """Returns f - y, clipped at δ."""
        return np.clip(f - y, -self.delta, self.delta)

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """1 where the error is below δ, else 0."""
        return np.where(np.abs(y - f) < self.delta, 1.0, 0.0)

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """Returns sy + ½s², for |s| ≤ δ."""
        return slope * y + 0.5 * np.square(slope)


@dataclass(frozen=True)
class PinballRows(RowLoss):
    """max(low u, high u) of u = y - f for low ≤ 0 ≤ high, with a kink at 0.

    It is |u|, or the loss of a quantile.
    """

    low: float
    high: float

    most_curved = np.inf

    @classmethod
    def absolute(cls) -> PinballRows:
        """|u|."""
        return cls(-1.0, 1.0)

    @classmethod
    def of_quantile(cls, quantile: float) -> PinballRows:
        """τu for u ≥ 0, (τ - 1)u for u < 0."""
        return cls(quantile - 1.0, quantile)

    def value(self, f: Floats, y: Floats) -> Floats:
        """max(low u, high u)."""
        residual = y - f
        return np.maximum(self.low * residual, self.high * residual)

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """-high, 0 or -low."""
        return np.where(y > f, -self.high, np.where(y < f, -self.low, 0.0))

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """0, but at the kink."""
        return np.zeros_like(f)

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """Returns sy, for slopes s between -high and -low."""
        return slope * y


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(RowLoss):
    """max(0, |y - f| - ε)²."""

    epsilon: float

    most_curved = 2.0
    piecewise_quadratic = True

    def value(self, f: Floats, y: Floats) -> Floats:
        """max(0, |y - f| - ε)²."""
        return np.asarray(np.maximum(np.abs(y - f) - self.epsilon, 0.0) ** 2)

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """-2 sign(y - f) max(0, |y - f| - ε)."""
        excess = np.maximum(np.abs(y - f) - self.epsilon, 0.0)
        return np.asarray(-2.0 * np.sign(y - f) * excess)

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """2 where |y - f| > ε, else 0."""
        return np.where(np.abs(y - f) > self.epsilon, 2.0, 0.0)


class PoissonRows(RowLoss):
    """exp(f) - yf for counts y ≥ 0; f is the logarithm of their mean."""

    most_curved = np.inf

    def value(self, f: Floats, y: Floats) -> Floats:
        """exp(f) - yf."""
        return np.asarray(np.exp(f) - y * f)

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """exp(f) - y."""
        return np.asarray(np.exp(f) - y)

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """exp(f)."""
        return np.asarray(np.exp(f))

    def largest_curvature(self, reach: float) -> float:
        """exp(reach); infinite where that overflows."""
        with np.errstate(over="ignore"):
            return float(np.exp(reach))

    def slopes(self, y: Floats) -> tuple[Floats, Floats]:
        """-y and ∞."""
        return -y, np.full_like(y, np.inf)

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """(s + y) log(s + y) - s - y."""
        mean = slope + y
        return np.asarray(xlogy(mean, mean) - mean)

    def predicted(self, f: Floats) -> Floats:
        """exp(f), the mean."""
        return np.asarray(np.exp(f))

    def checked(self, y: ArrayLike) -> Floats:
        """Counts, or rates: none of them negative."""
        array = super().checked(y)
        if array.min() < 0:
            raise ValueError(
                f"y must not be negative for the Poisson loss, got {array.min():g}: it is for "
                "counts. Use loss='huber' or SparseGPRegressor for numbers of any sign."
            )
        return array


class MarginLoss(RowLoss):
    """A loss of the margin yf, for classes y = ±1."""

    def checked(self, y: ArrayLike) -> Floats:
        """Classes, -1 and 1 only."""
        array = super().checked(y)
        if not np.isin(array, (-1.0, 1.0)).all():
            raise ValueError("y must hold -1 and 1 only: encode the two classes so.")
        return array


class LogisticRows(MarginLoss):
    """log(1 + exp(-yf)); f is the log-odds of y = 1."""

    most_curved = 0.25

    def value(self, f: Floats, y: Floats) -> Floats:
        """log(1 + exp(-yf)), without overflow."""
        return np.asarray(np.logaddexp(0.0, -y * f))

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """-y / (1 + exp(yf))."""
        return np.asarray(-y * expit(-y * f))

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """p(1 - p) for p = 1 / (1 + exp(-f))."""
        p = expit(f)
        return np.asarray(p * (1.0 - p))

    def derivatives(self, f: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Both from the same probabilities."""
        p = expit(-y * f)
        return np.asarray(-y * p), np.asarray(p * (1.0 - p))


class Exponential(MarginLoss):
    """exp(-yf), the loss of AdaBoost."""

    most_curved = np.inf

    def value(self, f: Floats, y: Floats) -> Floats:
        """exp(-yf)."""
        return np.asarray(np.exp(-y * f))

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """-y exp(-yf)."""
        return np.asarray(-y * np.exp(-y * f))

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """exp(-yf)."""
        return self.value(f, y)

    def derivatives(self, f: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Both from the same exponentials."""
        terms = self.value(f, y)
        return np.asarray(-y * terms), terms

    def largest_curvature(self, reach: float) -> float:
        """exp(reach); infinite where that overflows."""
        with np.errstate(over="ignore"):
            return float(np.exp(reach))


class SquaredHinge(MarginLoss):
    """max(0, 1 - yf)²."""

    most_curved = 2.0
    piecewise_quadratic = True

    def value(self, f: Floats, y: Floats) -> Floats:
        """max(0, 1 - yf)²."""
        return np.asarray(np.maximum(1.0 - y * f, 0.0) ** 2)

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """-2y max(0, 1 - yf)."""
        return np.asarray(-2.0 * y * np.maximum(1.0 - y * f, 0.0))

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """2 where yf < 1, else 0."""
        return np.where(y * f < 1.0, 2.0, 0.0)
