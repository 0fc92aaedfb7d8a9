"""Losses of two classes: of probabilities of one of them, and of the margin yf for y = ±1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, xlog1py, xlogy

from pursuit._types import Floats
from pursuit.objectives.row_loss import RowLoss, log_size
from pursuit.rounding import UNIT


@dataclass(frozen=True)
class LogitRows(RowLoss):
    """log(1 + exp(f)) - yf for probabilities y between 0 and 1; f is the log-odds."""

    most_curved = 0.25
    target_range = 0.0, 1.0

    def value(self, f: Floats, y: Floats) -> Floats:
        """(1 - y) log(1 + exp(f)) + y log(1 + exp(-f)), which does not cancel."""
        return np.asarray((1.0 - y) * np.logaddexp(0.0, f) + y * np.logaddexp(0.0, -f))

    def size(self, f: Floats, y: Floats) -> Floats:
        """ℓ itself: nothing cancels."""
        return self.value(f, y)

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """p - y for p = 1 / (1 + exp(-f)), written so that it does not cancel for y = 0 and 1."""
        return np.asarray((1.0 - y) * expit(f) - y * expit(-f))

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """p (1 - p)."""
        return np.asarray(expit(f) * expit(-f))

    def slopes(self, y: Floats) -> tuple[Floats, Floats]:
        """-y and 1 - y."""
        return -y, 1.0 - y

    def conjugate_size(self, slope: Floats, y: Floats) -> Floats:
        """Both terms, and |s| + y times what the derivatives are."""
        return _entropy_size(slope + y, 1.0 - y - slope, np.abs(slope) + y)

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """p log p + (1 - p) log(1 - p) for p = s + y."""
        return self._inside(slope, y, lambda s: _negative_entropy(s + y, 1.0 - y - s))

    def predicted(self, f: Floats) -> Floats:
        """p, the mean."""
        return np.asarray(expit(f))

    def spread(self, f: Floats) -> Floats:
        """√(p (1 - p))."""
        return np.asarray(np.sqrt(self.curvature(f, f)))

    def checked(self, y: ArrayLike) -> Floats:
        """Probabilities between 0 and 1, or False and True."""
        given = np.asarray(y)
        array = super().checked(given.astype(np.float64) if given.dtype == np.bool_ else given)
        if array.min() < 0 or array.max() > 1:
            raise ValueError(
                f"y must lie between 0 and 1 for the logistic loss, got {array.min():g} to "
                f"{array.max():g}: give shares or probabilities, or use SparseGPClassifier for "
                "classes."
            )
        return array


class MarginLoss(RowLoss):
    """A loss of the margin yf, for classes y = ±1, that falls with it."""

    steepest: ClassVar[float] = np.inf

    def slopes(self, y: Floats) -> tuple[Floats, Floats]:
        """-steepest and 0 for y = 1; 0 and steepest for y = -1."""
        return np.where(y > 0, -self.steepest, 0.0), np.where(y > 0, 0.0, self.steepest)

    def checked(self, y: ArrayLike) -> Floats:
        """Classes, -1 and 1 only."""
        array = super().checked(y)
        if not np.isin(array, (-1.0, 1.0)).all():
            raise ValueError("y must hold -1 and 1 only: encode the two classes so.")
        return array


@dataclass(frozen=True)
class LogisticRows(MarginLoss):
    """log(1 + exp(-yf)); f is the log-odds of y = 1."""

    most_curved = 0.25
    steepest = 1.0

    def value(self, f: Floats, y: Floats) -> Floats:
        """log(1 + exp(-yf)), without overflow."""
        return np.asarray(np.logaddexp(0.0, -y * f))

    def size(self, f: Floats, y: Floats) -> Floats:
        """ℓ itself: nothing cancels."""
        return self.value(f, y)

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

    def conjugate_size(self, slope: Floats, y: Floats) -> Floats:
        """Both terms, and |s| times what the derivatives are."""
        return _entropy_size(-slope * y, 1.0 + slope * y, np.abs(slope))

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """p log p + (1 - p) log(1 - p) for p = -sy."""
        return self._inside(slope, y, lambda s: _negative_entropy(-s * y, 1.0 + s * y))


@dataclass(frozen=True)
class Exponential(MarginLoss):
    """exp(-yf), the loss of AdaBoost."""

    most_curved = np.inf

    def value(self, f: Floats, y: Floats) -> Floats:
        """exp(-yf)."""
        return np.asarray(np.exp(-y * f))

    def size(self, f: Floats, y: Floats) -> Floats:
        """ℓ itself: nothing cancels."""
        return self.value(f, y)

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

    def conjugate_size(self, slope: Floats, y: Floats) -> Floats:
        """q(1 + |log q|) for q = -sy."""
        q = np.maximum(-slope * y, 0.0)
        return np.asarray(2.0 * q * log_size(q, UNIT * q))

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """Returns q log q - q for q = -sy."""
        return self._inside(slope, y, lambda s: xlogy(-s * y, -s * y) + s * y)

    def largest_curvature(self, reach: float) -> float:
        """exp(reach); infinite where that overflows."""
        with np.errstate(over="ignore"):
            return float(np.exp(reach))


@dataclass(frozen=True)
class SquaredHinge(MarginLoss):
    """max(0, 1 - yf)²."""

    most_curved = 2.0
    piecewise_quadratic = True

    def value(self, f: Floats, y: Floats) -> Floats:
        """max(0, 1 - yf)²."""
        return np.asarray(np.maximum(1.0 - y * f, 0.0) ** 2)

    def size(self, f: Floats, y: Floats) -> Floats:
        """ℓ itself: nothing cancels."""
        return self.value(f, y)

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """-2y max(0, 1 - yf)."""
        return np.asarray(-2.0 * y * np.maximum(1.0 - y * f, 0.0))

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """2 where yf < 1, else 0."""
        return np.where(y * f < 1.0, 2.0, 0.0)


def _negative_entropy(p: Floats, q: Floats) -> Floats:
    """p log p + q log q for p + q = 1, also where one of them is tiny."""
    terms = [
        np.where(own < 0.5, xlogy(own, own), xlog1py(own, -other))
        for own, other in ((p, q), (q, p))
    ]
    return np.asarray(terms[0] + terms[1])


def _entropy_size(p: Floats, q: Floats, moved: Floats) -> Floats:
    """How large terms of p log p + q log q are if both change by units of ``moved``.

    The larger one of p and q has a logarithm as small as the other one.
    """
    logs = log_size(np.minimum(p, q), UNIT * np.maximum(moved, UNIT))
    return np.asarray((np.minimum(np.minimum(p, q), 1.0).clip(0.0) + moved) * logs)
