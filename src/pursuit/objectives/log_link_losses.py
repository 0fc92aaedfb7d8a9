"""Losses of amounts and counts y ≥ 0 whose mean is exp(f)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, exprel, xlog1py, xlogy

from pursuit._types import Floats
from pursuit.objectives.row_loss import RowLoss, log_size
from pursuit.rounding import UNIT

_SAFE = 8.0 * float(np.finfo(np.float64).eps)
"""Conjugates that are computed by iteration are raised by this share of their terms."""
_NEWTON_STEPS = 50


class LogLinkRows(RowLoss):
    """A loss of targets y ≥ 0 whose mean is exp(f)."""

    most_curved = np.inf
    target_range = 0.0, np.inf
    _name: ClassVar[str]

    def predicted(self, f: Floats) -> Floats:
        """exp(f), the mean."""
        return _exp(f)

    def spread(self, f: Floats) -> Floats:
        """exp(f)/√ℓ''(f, exp(f)): √mean for counts, the mean for amounts."""
        mean = _exp(f)
        return np.asarray(mean / np.sqrt(self.curvature(f, mean)))

    def checked(self, y: ArrayLike) -> Floats:
        """Targets, none of them negative."""
        array = super().checked(y)
        if array.min() < 0:
            raise ValueError(
                f"y must not be negative for the {self._name} loss, got {array.min():g}. "
                "Use loss='huber' or SparseGPRegressor for numbers of any sign."
            )
        return array

    def _positive(self, y: ArrayLike) -> Floats:
        """Targets, all of them positive."""
        array = LogLinkRows.checked(self, y)
        if array.min() == 0:
            raise ValueError(
                f"y must be positive for the {self._name} loss, got 0. Use loss='tweedie' with a "
                "power between 1 and 2 for amounts with zeros, or loss='poisson' for counts."
            )
        return array


def _exp(x: Floats) -> Floats:
    """exp(x); infinite, without a warning, where that overflows."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(x))


def _product(y: Floats, terms: Floats) -> Floats:
    """y times terms that may be infinite; 0 where y = 0."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(y == 0, 0.0, y * terms)


@dataclass(frozen=True)
class PoissonRows(LogLinkRows):
    """exp(f) - yf for counts y ≥ 0; f is the logarithm of their mean."""

    _name = "Poisson"

    def value(self, f: Floats, y: Floats) -> Floats:
        """exp(f) - yf."""
        return np.asarray(_exp(f) - y * f)

    def size(self, f: Floats, y: Floats) -> Floats:
        """exp(f) + y|f|."""
        return np.asarray(_exp(f) + y * np.abs(f))

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """exp(f) - y."""
        return np.asarray(_exp(f) - y)

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """exp(f)."""
        return _exp(f)

    def largest_curvature(self, reach: float) -> float:
        """exp(reach); infinite where that overflows."""
        return float(_exp(np.array(reach)))

    def slopes(self, y: Floats) -> tuple[Floats, Floats]:
        """-y and ∞."""
        return -y, np.full_like(y, np.inf)

    def conjugate_size(self, slope: Floats, y: Floats) -> Floats:
        """(s + y)(1 + |log(s + y)|), and |s| times what the derivative is."""
        mean = np.maximum(slope + y, 0.0)
        return np.asarray((mean + np.abs(slope)) * log_size(mean, UNIT * np.abs(slope)))

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """(s + y) log(s + y) - s - y."""
        return self._inside(slope, y, lambda s: xlogy(s + y, s + y) - (s + y))


@dataclass(frozen=True)
class GammaRows(LogLinkRows):
    """y exp(-f) + f for amounts y > 0; f is the logarithm of their mean."""

    _name = "gamma"

    def value(self, f: Floats, y: Floats) -> Floats:
        """y exp(-f) + f."""
        return np.asarray(y * _exp(-f) + f)

    def size(self, f: Floats, y: Floats) -> Floats:
        """y exp(-f) + |f|."""
        return np.asarray(y * _exp(-f) + np.abs(f))

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """1 - y exp(-f)."""
        return np.asarray(1.0 - y * _exp(-f))

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """y exp(-f)."""
        return np.asarray(y * _exp(-f))

    def slopes(self, y: Floats) -> tuple[Floats, Floats]:
        """-∞ and 1."""
        return np.full_like(y, -np.inf), np.ones_like(y)

    def conjugate_size(self, slope: Floats, y: Floats) -> Floats:
        """(1 - s)(1 + |log(1 - s)| + |log y|), and 1 + |s| times what the derivative is."""
        rest, most = np.maximum(1.0 - slope, 0.0), 1.0 + np.abs(slope)
        return np.asarray((rest + most) * (log_size(rest, UNIT * most) + np.abs(np.log(y))))

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """(1 - s) log((1 - s) / y) - (1 - s)."""
        return self._inside(
            slope, y, lambda s: xlogy(1.0 - s, 1.0 - s) - (1.0 - s) * (np.log(y) + 1.0)
        )

    def checked(self, y: ArrayLike) -> Floats:
        """Amounts, all of them positive."""
        return self._positive(y)


@dataclass(frozen=True)
class TweedieRows(LogLinkRows):
    """y (exp((1-p)f) - 1)/(p - 1) + (exp((2-p)f) - 1)/(2 - p) for amounts y ≥ 0 and 1 ≤ p ≤ 2.

    f is the logarithm of the mean, and the variance is a multiple of its power p. For p = 1 it is
    the Poisson loss, for p = 2 the gamma loss, up to constants.
    """

    power: float

    _name = "Tweedie"

    def __post_init__(self) -> None:
        if not 1.0 <= self.power <= 2.0:
            raise ValueError(
                f"power must be between 1 and 2, got {self.power}: with a logarithmic link the "
                "loss is convex only there."
            )

    def value(self, f: Floats, y: Floats) -> Floats:
        """-yf exprel((1-p)f) + f exprel((2-p)f), exprel x being (exp x - 1)/x."""
        down, up = self._rates
        return np.asarray(f * exprel(up * f) - _product(y, f * exprel(-down * f)))

    def size(self, f: Floats, y: Floats) -> Floats:
        """Both terms; rounding of the argument of exp moves it by as many units as it is large."""
        down, up = self._rates
        reach = 1.0 + np.abs(f)
        return np.asarray(reach * np.abs(f) * (exprel(up * f) + _product(y, exprel(-down * f))))

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """exp((2-p)f) - y exp((1-p)f)."""
        down, up = self._rates
        return np.asarray(_exp(up * f) - _product(y, _exp(-down * f)))

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """(2 - p) exp((2-p)f) + (p - 1) y exp((1-p)f)."""
        down, up = self._rates
        return np.asarray(up * _exp(up * f) + down * _product(y, _exp(-down * f)))

    @property
    def _rates(self) -> tuple[float, float]:
        """p - 1 and 2 - p."""
        return self.power - 1.0, 2.0 - self.power

    def slopes(self, y: Floats) -> tuple[Floats, Floats]:
        """-∞ (-y for p = 1, 0 for y = 0) and ∞ (1 for p = 2)."""
        low = -y if self.power == 1.0 else np.where(y > 0, -np.inf, 0.0)
        return low, np.full_like(y, 1.0 if self.power == 2.0 else np.inf)

    def conjugate_size(self, slope: Floats, y: Floats) -> Floats:
        """Those of the formulas, or the terms of sf - ℓ(f) at the maximiser."""
        if self.power == 1.0:
            return PoissonRows().conjugate_size(slope, y) + 1.0
        if self.power == 2.0:
            return GammaRows().conjugate_size(slope, y) + y
        s = np.where((slope == 0) & (y == 0), np.finfo(np.float64).tiny, slope)
        f, distance = self._maximiser(s, y)
        down, up = self._rates
        steep = np.abs(s) + _exp(up * f) + _product(y, _exp(-down * f))
        size = np.abs(s * f) + self.size(f, y) + steep * distance * (1.0 + np.abs(f))
        return np.where((slope == 0) & (y == 0), 1.0 / up, size)

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """By a formula for p = 1 and p = 2; else by Newton's method, and rounded upwards."""
        if self.power == 1.0:
            return PoissonRows().conjugate(slope, y) + 1.0
        if self.power == 2.0:
            return GammaRows().conjugate(slope, y) + y
        return self._inside(slope, y, lambda s: self._conjugate_above(s, y))

    def _conjugate_above(self, s: Floats, y: Floats) -> Floats:
        """sf - ℓ(f) + |s - ℓ'(f)| h, where the maximiser lies within h of f."""
        # ℓ* is continuous, and has no maximiser at s = y = 0.
        s = np.where((s == 0) & (y == 0), np.finfo(np.float64).tiny, s)
        f, distance = self._maximiser(s, y)
        down, up = self._rates
        rise, fall = _exp(up * f), _product(y, _exp(-down * f))
        terms = f * exprel(up * f), _product(y, f * exprel(-down * f))
        size = np.abs(s * f) + np.abs(terms[0]) + np.abs(terms[1])
        steep = np.abs(s - (rise - fall)) + _SAFE * (np.abs(s) + rise + fall)
        return np.asarray(s * f - (terms[0] - terms[1]) + steep * distance + _SAFE * size)

    def _maximiser(self, s: Floats, y: Floats) -> tuple[Floats, Floats]:
        """The f with ℓ'(f) = s, and a bound on its error.

        It solves (2-p)f = log(s + y exp((1-p)f)) for s ≥ 0, else (p-1)f = log y - log(-s +
        exp((2-p)f)). Both sides are monotone, their difference G is convex or concave, and its
        slope is at least 2 - p or p - 1: Newton's method is safe, and |G| bounds the error.
        """
        rates = self._rates
        with np.errstate(divide="ignore"):
            size, target = np.log(np.abs(s)), np.log(y)
        rises = s >= 0
        own, other = np.where(rises, rates[1], rates[0]), np.where(rises, rates[0], rates[1])
        side = np.where(rises, 1.0, -1.0)
        constant = np.where(rises, 0.0, target)
        # In units of `side`, so that one formula does for both signs of s.
        f = np.maximum((size - constant) / own, side * target)
        for _ in range(_NEWTON_STEPS):
            second = np.where(rises, target, 0.0) - other * f
            total = np.logaddexp(size, second)
            G = own * f - total + constant
            step = G / (own + other * np.exp(second - total))
            if np.all(np.abs(step) <= _SAFE * (1.0 + np.abs(f))):
                break
            f = f - step
        rounding = _SAFE * (np.abs(f) + np.abs(total) + np.abs(constant))
        return side * f, (np.abs(G) + rounding) / own

    def checked(self, y: ArrayLike) -> Floats:
        """Amounts; none negative, and for p = 2 none 0."""
        return self._positive(y) if self.power == 2.0 else super().checked(y)


@dataclass(frozen=True)
class NegativeBinomialRows(LogLinkRows):
    """(y + k) log(1 + exp(f)/k) - yf for counts y ≥ 0 with mean μ = exp(f), variance μ + μ²/k.

    For k → ∞ it is the Poisson loss.
    """

    shape: float

    _name = "negative binomial"

    def __post_init__(self) -> None:
        if not 0.0 < self.shape < np.inf:
            raise ValueError(f"shape must be positive and finite, got {self.shape}.")

    def value(self, f: Floats, y: Floats) -> Floats:
        """(y + k) log(1 + exp(f)/k) - yf, written so that it cancels little and never overflows."""
        x = f - np.log(self.shape)
        rise = np.logaddexp(0.0, x)
        fall = np.where(x < 0, rise - f, np.logaddexp(0.0, -x) - np.log(self.shape))
        return np.asarray(self.shape * rise + y * fall)

    def size(self, f: Floats, y: Floats) -> Floats:
        """Both terms, and what the rounding of f - log k moves in them."""
        x, reach = f - np.log(self.shape), np.abs(f) + np.abs(np.log(self.shape))
        rise = np.logaddexp(0.0, x) + expit(x) * reach
        return np.asarray(self.shape * rise + y * (1.0 + reach))

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """(y + k) p - y for p = μ / (μ + k)."""
        return self.derivatives(f, y)[0]

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """(y + k) p (1 - p)."""
        return self.derivatives(f, y)[1]

    def derivatives(self, f: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Both from the same shares."""
        shift = f - np.log(self.shape)
        p, q = expit(shift), expit(-shift)
        # (y + k)p - y, written so that it does not cancel for large y.
        return np.asarray(self.shape * p - y * q), np.asarray((y + self.shape) * p * q)

    def slopes(self, y: Floats) -> tuple[Floats, Floats]:
        """-y and k."""
        return -y, np.full_like(y, self.shape)

    def conjugate_size(self, slope: Floats, y: Floats) -> Floats:
        """Both terms, s + y, and |s| times what the derivatives are."""
        total, moved = y + self.shape, np.abs(slope)
        mean, rest = np.maximum(slope + y, 0.0), np.maximum(self.shape - slope, 0.0)
        first = log_size(mean * (self.shape / total), UNIT * moved)
        share = np.maximum(rest, UNIT * (moved + self.shape)) / total
        last = np.abs(np.log1p(-np.minimum(mean / total, 1.0 - share)))
        near = np.where(mean < 0.5 * total, mean, rest * (1.0 + last))
        return np.asarray((mean + moved) * first + near + moved * (2.0 + last))

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """(s + y) log((s + y) k / (y + k)) + (k - s) log((k - s) / (y + k))."""

        def formula(s: Floats) -> Floats:
            total, mean, rest = y + self.shape, s + y, self.shape - s
            # The second logarithm is near 0 for large k, and far from it for s near k.
            near = mean < 0.5 * total
            last = np.where(near, xlog1py(rest, -mean / total), xlogy(rest, rest / total))
            return np.asarray(xlogy(mean, mean * (self.shape / total)) + last)

        return self._inside(slope, y, formula)
