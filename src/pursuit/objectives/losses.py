"""Convex losses: one class per loss of a prediction, and what hulls make of them.

**A new loss is one subclass of** :class:`RowLoss`, the loss ℓ(f, y) of a prediction f for a target
y. It must define

- ``value(f, y)``, ``gradient(f, y)`` and ``curvature(f, y)``: ℓ and its first two derivatives in f,
  for arrays of one shape;
- ``most_curved``: the largest curvature that there is, ``np.inf`` where it has no bound;

and it should define, where it differs from what is inherited,

- ``checked(y)``: refuses targets for which ℓ is not defined (finite numbers are the default;
  :class:`MarginLoss` wants -1 and 1);
- ``largest_curvature(reach)``: the largest curvature for |f| ≤ reach, where that is finite;
- ``conjugate(slope, y)``: max_f sf - ℓ(f, y), from which dual bounds are made;
- ``derivatives(f, y)``: gradient and curvature together, where they share an expensive part;
- ``piecewise_quadratic = True``, where Newton's method ends after finitely many steps.

Newton's method, matching pursuit, support vector machines and regression over an l1 ball take a
`RowLoss` as it is. Hulls and boosting minimise a :class:`HullLoss`, a function of all predictions
at once; :class:`MeanLoss` is the weighted mean of a row loss, so that a public hull loss needs no
more than a constructor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from pursuit._types import Floats

_LARGEST_EXPONENT = 700.0


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

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """ℓ*(s, y) = max_f sf - ℓ(f, y), for slopes s that ℓ has."""
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


class HullLoss(ABC):
    """f(v), a convex and differentiable function of a vector with one value per row.

    A loss of your own defines :meth:`value`, :meth:`gradient` and :meth:`curvature`. Override
    :meth:`slope` where a second derivative is cheap, which saves evaluations in line searches, and
    :meth:`second` where f is a sum over rows with few pieces, so that corrective steps can be
    Newton's.
    """

    @abstractmethod
    def value(self, v: Floats) -> float:
        """f(v)."""

    @abstractmethod
    def gradient(self, v: Floats) -> Floats:
        """∇f(v), one entry per row."""

    @abstractmethod
    def curvature(self, vertices: Floats) -> float:
        """An upper bound on M = sup v'∇²f(v')v over v, v' in the hull (Z02 Lemma 3.1).

        The hull is that of the columns of ``vertices``; Z02 is Zhang 2002.
        """

    def slope(self, v: Floats, direction: Floats, t: float) -> tuple[float, float | None]:
        """First and, if known, second derivative of f(v + t direction) in t."""
        return float(self.gradient(v + t * direction) @ direction), None

    def second(self, v: Floats) -> Floats | None:
        """Second derivatives per row, where ∇²f is diagonal and Newton's steps are wanted."""
        return None


class MeanLoss(HullLoss):
    """The weighted mean of a row loss, Σ_i w_i ℓ(A v_i, y_i) with Σw = 1.

    M is at most A² max mean p² times the largest curvature that ℓ has on the hull.

    Parameters
    ----------
    row_loss : RowLoss
        ℓ.
    y : array of shape (n_rows,)
        Targets.
    scale : float
        A, by which the points of the hull are multiplied.
    sample_weight : array of shape (n_rows,), optional
        Weights of the rows; they are divided by their sum.
    """

    def __init__(
        self, row_loss: RowLoss, y: ArrayLike, scale: float, sample_weight: ArrayLike | None
    ) -> None:
        self.row_loss, self.y = row_loss, row_loss.checked(y)
        self.scale = _positive("scale", scale)
        self.weights = mean_weights(len(self.y), sample_weight)

    def value(self, v: Floats) -> float:
        """Mean loss."""
        return float(self.weights @ self.row_loss.value(self.scale * v, self.y))

    def gradient(self, v: Floats) -> Floats:
        """A w ℓ'."""
        return self.scale * self.weights * self.row_loss.gradient(self.scale * v, self.y)

    def curvature(self, vertices: Floats) -> float:
        """A² max ℓ'' max mean p²."""
        bend = self.row_loss.largest_curvature(self.scale * float(np.abs(vertices).max()))
        return bend * self.scale**2 * float((self.weights @ vertices**2).max())

    def slope(self, v: Floats, direction: Floats, t: float) -> tuple[float, float]:
        """Both derivatives along a line."""
        step = self.scale * direction
        first, second = self.row_loss.derivatives(self.scale * (v + t * direction), self.y)
        weighted = self.weights * step
        return float(weighted @ first), float((weighted * step) @ second)

    def second(self, v: Floats) -> Floats | None:
        """A² w ℓ'' of a piecewise quadratic loss."""
        if not self.row_loss.piecewise_quadratic:
            return None
        bend = self.row_loss.curvature(self.scale * v, self.y)
        return np.asarray(self.scale**2 * self.weights * bend)

    def derivatives(self, v: Floats) -> tuple[float, Floats, Floats]:
        """The value, and the first and second derivatives per row."""
        f = self.scale * v
        first, second = self.row_loss.derivatives(f, self.y)
        value = float(self.weights @ self.row_loss.value(f, self.y))
        weights = self.scale * self.weights
        return value, weights * first, self.scale * weights * second


class SquaredLoss(MeanLoss):
    """Mean of (y - Av)² (Z02 §4.1); M = 2A² max mean p².

    Parameters
    ----------
    y : array of shape (n_rows,)
        Targets.
    sample_weight : array of shape (n_rows,), optional
        Weights of the rows.
    scale : float, default 1.0
        A, by which the points of the hull are multiplied.
    """

    def __init__(
        self, y: ArrayLike, sample_weight: ArrayLike | None = None, scale: float = 1.0
    ) -> None:
        super().__init__(SquaredRows(), y, scale, sample_weight)


class HuberLoss(MeanLoss):
    """Mean of ½u² where u = abs(y - v) ≤ δ, else δu - ½δ²; M = max mean p².

    Parameters
    ----------
    y : array of shape (n_rows,)
        Targets.
    delta : float, default 1.0
        δ, beyond which errors count linearly.
    sample_weight : array of shape (n_rows,), optional
        Weights of the rows.
    """

    def __init__(
        self, y: ArrayLike, delta: float = 1.0, sample_weight: ArrayLike | None = None
    ) -> None:
        self.delta = _positive("delta", delta)
        super().__init__(HuberRows(self.delta), y, 1.0, sample_weight)


class LogisticLoss(MeanLoss):
    """Mean of ln(1 + exp(-A y v)); M ≤ ¼A² max mean p².

    Parameters
    ----------
    y : array of shape (n_rows,)
        Classes, -1 or 1.
    scale : float, default 1.0
        A.
    sample_weight : array of shape (n_rows,), optional
        Weights of the rows.
    """

    def __init__(
        self, y: ArrayLike, scale: float = 1.0, sample_weight: ArrayLike | None = None
    ) -> None:
        super().__init__(LogisticRows(), y, scale, sample_weight)


class ExponentialLoss(MeanLoss):
    """Mean of exp(-A y v), the loss of AdaBoost; M ≤ A² exp(A max abs p) max mean p².

    Its logarithm is :class:`LogExpLoss`, which has the same minimum and a far smaller M.

    Parameters
    ----------
    y : array of shape (n_rows,)
        Classes, -1 or 1.
    scale : float, default 1.0
        A, at most 700.
    sample_weight : array of shape (n_rows,), optional
        Weights of the rows.
    """

    def __init__(
        self, y: ArrayLike, scale: float = 1.0, sample_weight: ArrayLike | None = None
    ) -> None:
        super().__init__(Exponential(), y, scale, sample_weight)
        check_exponent(self.scale)


class LogExpLoss(MeanLoss):
    """ln mean exp(-A y v), the loss of boosting (Z02 equation 3); M ≤ A² max p².

    Parameters
    ----------
    y : array of shape (n_rows,)
        Classes, -1 or 1.
    scale : float, default 1.0
        A. The minimum is finite whatever the data, because the hull is bounded.
    sample_weight : array of shape (n_rows,), optional
        Weights of the rows.
    """

    def __init__(
        self, y: ArrayLike, scale: float = 1.0, sample_weight: ArrayLike | None = None
    ) -> None:
        super().__init__(Exponential(), y, scale, sample_weight)
        self._slopes = -self.scale * self.y
        self._last: tuple[Floats, tuple[Floats, float]] | None = None

    def _at(self, v: Floats) -> tuple[Floats, float]:
        """What :meth:`_tilted` gives; value, gradient and slope at one point compute it once."""
        if self._last is None or not np.array_equal(self._last[0], v):
            self._last = np.array(v), self._tilted(v)
        return self._last[1]

    def _tilted(self, v: Floats) -> tuple[Floats, float]:
        """q ∝ w exp(-A y v), which sums to one, and the logarithm of what it was divided by."""
        q = self._slopes * v
        shift = float(q.max())
        q -= shift
        np.exp(q, out=q)
        q *= self.weights
        total = float(q.sum())
        q /= total
        return q, shift + float(np.log(total))

    def value(self, v: Floats) -> float:
        """Log of the mean exponential, without overflow."""
        return self._at(v)[1]

    def gradient(self, v: Floats) -> Floats:
        """-A q y, q being the weights of boosting."""
        return self._at(v)[0] * self._slopes

    def curvature(self, vertices: Floats) -> float:
        """A² max p²."""
        return self.scale**2 * float((vertices**2).max())

    def slope(self, v: Floats, direction: Floats, t: float) -> tuple[float, float]:
        """-A E_q[y d] and A² Var_q[y d]."""
        q, _ = self._tilted(v + t * direction) if t else self._at(v)
        step = self._slopes * direction
        weighted = q * step
        first = float(weighted.sum())
        return first, max(float(weighted @ step) - first**2, 0.0)


class NegativeLogLikelihood(HullLoss):
    """-mean ln v for atoms that are densities at the rows (Z02 §4.3).

    M is the largest mean of p²/q² over pairs of atoms, which is beyond all use unless the
    densities are bounded below.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    sample_weight : array of shape (n_rows,), optional
        Weights of the rows.
    """

    def __init__(self, n_rows: int, sample_weight: ArrayLike | None = None) -> None:
        self.weights = mean_weights(n_rows, sample_weight)

    def value(self, v: Floats) -> float:
        """-mean ln v; infinite where a density vanishes."""
        seen = self.weights > 0
        if not np.all(v[seen] > 0):
            return np.inf
        return -float(self.weights[seen] @ np.log(v[seen]))

    def gradient(self, v: Floats) -> Floats:
        """-w/v."""
        return -np.divide(self.weights, v, out=np.zeros_like(v), where=v > 0)

    def curvature(self, vertices: Floats) -> float:
        """Max over pairs of mean p²/q²: the supremum over the hull is attained at its corners."""
        seen = self.weights > 0
        squares = vertices[seen] ** 2
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            pairs = (squares.T * self.weights[seen]) @ (1.0 / squares)
        return float(np.nan_to_num(pairs, nan=np.inf).max())

    def slope(self, v: Floats, direction: Floats, t: float) -> tuple[float, float]:
        """-mean d/v and mean (d/v)²."""
        now = v + t * direction
        ratio = np.divide(direction, now, out=np.zeros_like(v), where=now > 0)
        return -float(self.weights @ ratio), float(self.weights @ ratio**2)


def mean_weights(n_rows: int, sample_weight: ArrayLike | None) -> Floats:
    """Weights that sum to one; equal ones for None."""
    if sample_weight is None:
        return np.full(n_rows, 1.0 / n_rows)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n_rows,) or not np.all(weights >= 0) or not weights.sum() > 0:
        raise ValueError(
            f"sample_weight must hold {n_rows} non-negative numbers, one per row, not all zero."
        )
    return np.asarray(weights / weights.sum())


def _positive(name: str, value: float) -> float:
    if not 0 < value < np.inf:
        raise ValueError(f"{name} must be a positive number, got {value!r}.")
    return float(value)


def check_exponent(scale: float) -> None:
    """Refuse a scale at which the exponential loss overflows."""
    if scale > _LARGEST_EXPONENT:
        raise ValueError(
            f"scale must be at most {_LARGEST_EXPONENT:g} for the exponential loss, got {scale!r}: "
            "beyond, its values overflow. The log-exp loss has the same minimum and takes any "
            "scale."
        )
