"""Losses of all rows at once, which hulls and boosting minimise.

:class:`MeanLoss` is the weighted mean of a row loss, so that a public hull loss needs no
more than a constructor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pursuit._types import Floats
from pursuit.objectives.class_losses import Exponential, LogisticRows
from pursuit.objectives.difference_losses import HuberRows, SquaredRows
from pursuit.objectives.row_loss import RowLoss
from pursuit.rounding import UNIT, Rounded, dots, gamma

_LARGEST_EXPONENT = 700.0
_AWAY = 16.0 * UNIT
"""Share of the ends of their range that slopes keep away from it, whatever their rounding."""
_ESTIMATED = 8.0
"""Units of rounding per row that a loss of the user's own is taken to have."""


class HullLoss(ABC):
    """f(v), a convex and differentiable function of a vector with one value per row.

    A loss of your own defines :meth:`value`, :meth:`gradient` and :meth:`curvature`. Override
    :meth:`slope` where a second derivative is cheap, which saves evaluations in line searches, and
    :meth:`second` where f is a sum over rows with few pieces, so that corrective steps can be
    Newton's. ``unit`` is 1 where f is a logarithm, so that f = 0 does not mean that f is small.
    """

    unit: ClassVar[float] = 0.0

    @abstractmethod
    def value(self, v: Floats) -> float:
        """f(v)."""

    @abstractmethod
    def gradient(self, v: Floats) -> Floats:
        """∇f(v), one entry per row."""

    @abstractmethod
    def curvature(self, vertices: Floats) -> float:
        """An upper bound on M = sup v'∇²f(v')v over v, v' in the hull (Z02 Lemma 3.1).

        The hull is that of the columns of ``vertices``; Z02 is Zhang 2002a.
        """

    def evaluated(self, v: Rounded) -> Rounded:
        """f of a point that is known up to an error.

        Here the error of f is estimated: f is convex, and its values are taken to be as exact as
        sums of m numbers of their size are.
        """
        value = self.value(v.value)
        reach = float(np.abs(self.gradient(v.value)) @ (v.error + UNIT * np.abs(v.value)))
        error = 2.0 * reach + _ESTIMATED * gamma(len(v.value) + 64) * abs(value)
        return Rounded(np.array(value), np.array(error))

    def dual(self, v: Floats) -> Floats:
        """A vector g near ∇f(v) for :meth:`lower_bound`: where the conjugate of f is finite."""
        return self.gradient(v)

    def lower_bound(self, g: Floats, least: Rounded, v: Floats) -> Rounded:
        """A lower bound on f over a hull, from ``least``, the minimum of g'u over it.

        Here f(v) + least - g'v, as far as g is the gradient at v, with an error that is estimated.
        """
        return self.evaluated(Rounded.of(v)) + least - dots(g, v)

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

    def evaluated(self, v: Rounded) -> Rounded:
        """Mean loss; the rounding of the weights, which sum to one, is part of its error."""
        losses = self.row_loss.evaluated(self.scale * v, self.y)
        return _of_means(dots(self.weights, losses), len(self.y))

    def dual(self, v: Floats) -> Floats:
        """A w s for slopes s near ℓ' that keep away from the ends of their range."""
        least, most = self.row_loss.slopes(self.y)
        with np.errstate(invalid="ignore"):
            ends = least + _AWAY * np.abs(least), most - _AWAY * np.abs(most)
        inside = np.nan_to_num(ends[0], nan=-np.inf), np.nan_to_num(ends[1], nan=np.inf)
        slopes = np.clip(self.row_loss.gradient(self.scale * v, self.y), *inside)
        return np.asarray(self.scale * self.weights * slopes)

    def lower_bound(self, g: Floats, least: Rounded, v: Floats) -> Rounded:
        """Returns -f*(g) + least, f*(g) = Σ_i w_i ℓ*(g_i/(A w_i), y_i)."""
        seen = self.weights > 0
        w, y = self.weights[seen], self.y[seen]
        slopes = g[seen] / (self.scale * w)
        bound = least - dots(w, self.row_loss.conjugate_evaluated(slopes, y))
        return _of_means(bound, len(self.y))

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
    """Mean of (y - Av)² (Zhang 2002a, §4.1); M = 2A² max mean p².

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
    """ln mean exp(-A y v), the loss of boosting (Zhang 2002a, equation 3); M ≤ A² max p².

    Parameters
    ----------
    y : array of shape (n_rows,)
        Classes, -1 or 1.
    scale : float, default 1.0
        A. The minimum is finite whatever the data, because the hull is bounded.
    sample_weight : array of shape (n_rows,), optional
        Weights of the rows.
    """

    unit = 1.0

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

    def evaluated(self, v: Rounded) -> Rounded:
        """The same; it changes by no more than the exponents do."""
        exponents = self._slopes * v
        value = self._tilted(v.value)[1]
        most = float((exponents.error + 4.0 * UNIT * np.abs(exponents.value)).max(initial=0.0))
        units = 2.0 * gamma(2 * len(self.y) + 64) + 16.0 * UNIT * abs(value)
        return Rounded(np.array(value), np.array(1.01 * most + units))

    def dual(self, v: Floats) -> Floats:
        """The gradient."""
        return self.gradient(v)

    def lower_bound(self, g: Floats, least: Rounded, v: Floats) -> Rounded:
        """(least - Σ q log(q/w))/Q + log Q for q = -gy/A and Q = Σq, which is near 1."""
        q = np.maximum(-g * self.y, 0.0)
        q, w = q[q > 0] / self.scale, self.weights[q > 0]
        logs = np.log(q / w)
        entropy = Rounded(q * logs, 16.0 * UNIT * q * (1.0 + np.abs(logs))).sum()
        total = Rounded(q, 2.0 * UNIT * q).sum()
        size = float(total.value)
        if not size > 0.0:
            return Rounded(np.array(0.0), np.array(np.inf))
        log = Rounded(np.array(np.log(size)), np.array(8.0 * UNIT + 2.0 * total.error / size))
        bound = (least - entropy) / total + log
        return bound.widened(2.0 * gamma(len(self.y) + 4))

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
    """-mean ln v for atoms that are densities at the rows (Zhang 2002a, §4.3).

    M is the largest mean of p²/q² over pairs of atoms, which is beyond all use unless the
    densities are bounded below.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    sample_weight : array of shape (n_rows,), optional
        Weights of the rows.
    """

    unit = 1.0

    def __init__(self, n_rows: int, sample_weight: ArrayLike | None = None) -> None:
        self.weights = mean_weights(n_rows, sample_weight)

    def value(self, v: Floats) -> float:
        """-mean ln v; infinite where a density vanishes."""
        seen = self.weights > 0
        if not np.all(v[seen] > 0):
            return np.inf
        return -float(self.weights[seen] @ np.log(v[seen]))

    def evaluated(self, v: Rounded) -> Rounded:
        """The same; a logarithm changes by the relative error of its argument."""
        seen = self.weights > 0
        w, v = self.weights[seen], v[seen]
        if not np.all(v.low > 0):
            return Rounded(np.array(0.0), np.array(np.inf))
        logs = np.log(v.value)
        error = (
            v.error / v.low + 8.0 * UNIT * (1.0 + np.abs(logs)) + gamma(len(w) + 4) * np.abs(logs)
        )
        return -dots(w, Rounded(logs, error))

    def lower_bound(self, g: Floats, least: Rounded, v: Floats) -> Rounded:
        """Σw log(λ/S), λ = -g/w and S = -least.

        -log v ≥ 1 + log λ - λv for every λ, and as well for λ/S.
        """
        seen = (self.weights > 0) & (g < 0)
        w, most = self.weights[seen], -float(least.low)
        if np.any(self.weights[~seen] > 0) or not most > 0.0:
            return Rounded(np.array(0.0), np.array(np.inf))
        logs = np.log(-g[seen] / w) - np.log(most)
        size = 1.0 + np.abs(np.log(-g[seen] / w)) + abs(float(np.log(most)))
        return dots(w, Rounded(logs, (16.0 * UNIT + gamma(len(w) + 4)) * size))

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


def _of_means(value: Rounded, n_rows: int) -> Rounded:
    """A mean whose weights were divided by their sum, each rounded by as much as that.

    For losses that are not negative, this changes the mean, and bounds on it, by the same share.
    """
    return value.widened(2.0 * gamma(n_rows + 4) * np.abs(value.value))


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
