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
- ``conjugate(slope, y)``: max_f sf - ℓ(f, y), from which dual bounds are made, infinite outside
  ``slopes``; the one that is inherited is numeric, and rounded upwards;
- ``size(f, y)`` and ``conjugate_size(slope, y)``: how large the terms are that ℓ and its conjugate
  are sums of. Both are computed to a share ``rounding`` of these, 64 units by default, which
  certificates count on; what is inherited looks at how values change with f and y, and is an
  estimate;
- ``predicted(f)``: what the loss elicits of y where f is best: the mean, a quantile, an expectile;
- ``spread(f)`` and ``target_range``: by what errors are measured there, and where targets lie, for
  intervals;
- ``largest_curvature(reach)``: the largest curvature for |f| ≤ reach, where that is finite;
- ``derivatives(f, y)``: gradient and curvature together, where they share an expensive part;
- ``constant(y, weights, offset)``: the best prediction that is the same for all rows, where there
  is a formula;
- ``piecewise_quadratic = True``, where Newton's method ends after finitely many steps;
- ``kinked = True``, where ℓ consists of two straight lines that meet at f = y, so that Newton's
  method cannot be used.

`pursuit.testing.check_loss` checks all of it.

Newton's method, matching pursuit, support vector machines, generalised linear models and regression
over an l1 ball take a `RowLoss` as it is. Hulls and boosting minimise a function of all predictions
at once, made of row losses by `objectives.hull_losses`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import expit, exprel, xlog1py, xlogy

from pursuit._types import Floats
from pursuit.objectives.conjugates import conjugate_above
from pursuit.rounding import UNIT, Rounded

_ROUNDING = 4.0 * float(np.finfo(np.float64).eps)
_SHIFT = 1e-6
_SAFE = 8.0 * float(np.finfo(np.float64).eps)
"""Conjugates that are computed by iteration are raised by this share of their terms."""
_FEW = 8.0 * UNIT
"""That share where there are no elementary functions and at most five operations."""
_NEWTON_STEPS = 50
_TIED = 1e-12
"""Shares of the weights that differ by less than this count as equal."""


class RowLoss(ABC):
    """ℓ(f, y), convex in the prediction f; arrays of one shape. The module says what to define."""

    most_curved: float
    piecewise_quadratic: ClassVar[bool] = False
    kinked: ClassVar[bool] = False
    rounding: ClassVar[float] = 64.0 * UNIT
    """Share of the sizes of their terms to which ℓ and its conjugate are computed: a dozen
    operations and elementary functions, each of these to 4 units in the last place."""

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
        """The largest curvature of all predictions from -reach to reach."""
        return self.most_curved

    def slopes(self, y: Floats) -> tuple[Floats, Floats]:
        """Infimum and supremum of ℓ'(·, y), between which the conjugate is finite."""
        return np.full_like(y, -np.inf), np.full_like(y, np.inf)

    target_range: ClassVar[tuple[float, float]] = -np.inf, np.inf
    """Between which numbers targets lie."""

    def predicted(self, f: Floats) -> Floats:
        """What is predicted of y at f; f itself, unless the loss has a link."""
        return f

    def spread(self, f: Floats) -> Floats:
        """Standard deviation of y at f up to a factor; ones where the loss does not tell."""
        return np.ones_like(f)

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """ℓ*(s, y) = max_f sf - ℓ(f, y); infinite for slopes s outside those of :meth:`slopes`.

        Here it is found by a search, and rounded upwards: dual bounds stay bounds.
        """

        def derivatives(f: Floats) -> tuple[Floats, Floats, Floats]:
            return self.value(f, y), *self.derivatives(f, y)

        def size(f: Floats) -> Floats:
            # |ℓ| + |y dℓ/dy|: what rounding of y changes in ℓ shows terms that cancel in it.
            value = self.value(f, y)
            change = (value - self.value(f, (1.0 - _SHIFT) * y)) / _SHIFT
            return np.asarray(np.abs(value) + np.abs(change))

        return self._inside(slope, y, lambda s: conjugate_above(derivatives, size, s))

    def size(self, f: Floats, y: Floats) -> Floats:
        """What the terms of ℓ(f, y) add up to without their signs."""
        value = self.value(f, y)
        moved = self.value((1.0 + _SHIFT) * f, y), self.value(f, (1.0 - _SHIFT) * y)
        return np.asarray(np.abs(value) + sum(np.abs(other - value) for other in moved) / _SHIFT)

    def conjugate_size(self, slope: Floats, y: Floats) -> Floats:
        """What the terms of ℓ*(s, y) add up to without their signs.

        A change of s by a unit in its last place is part of it: s is itself a quotient.
        """
        value = self.conjugate(slope, y)
        moved = [self.conjugate(slope, (1.0 - _SHIFT) * y)]
        for factor in (1.0 - _SHIFT, 1.0 + _SHIFT):
            near = np.clip(factor * slope, *self.slopes(y))
            moved.append(np.where(near == slope, value, self.conjugate(near, y)))
        changes = sum(np.where(np.isfinite(o), np.abs(o - value), 0.0) for o in moved)
        return np.asarray(np.abs(value) + changes / _SHIFT)

    def evaluated(self, f: Rounded, y: Floats) -> Rounded:
        """ℓ(f, y) of predictions that are known up to an error.

        ℓ is convex: within the error of f it is at most the larger of the values at both ends, and
        not further below ℓ(f) than this is above it.
        """
        with np.errstate(all="ignore"):
            value, rounding = self.value(f.value, y), self.rounding * self.size(f.value, y)
            if f.error.any():
                highest = value
                for end in (f.low, f.high):
                    highest = np.maximum(highest, self.value(end, y))
                    rounding = rounding + self.rounding * self.size(end, y)
                rounding = rounding + (highest - value)
            return _known(value, rounding)

    def conjugate_evaluated(self, slope: Floats, y: Floats) -> Rounded:
        """ℓ*(s, y) for slopes that may be wrong by two units in their last place."""
        with np.errstate(all="ignore"):
            return _known(self.conjugate(slope, y), self.rounding * self.conjugate_size(slope, y))

    def _inside(
        self, slope: Floats, y: Floats, formula: Callable[[Floats], NDArray[Any]]
    ) -> Floats:
        """A formula of the conjugate, infinite outside its domain.

        A slope that rounding has moved out counts as the end of the domain.
        """
        nearest = np.clip(slope, *self.slopes(y))
        outside = np.abs(slope - nearest) > _ROUNDING * np.abs(nearest)
        return np.where(outside, np.inf, formula(nearest))

    def deviance(self, f: Floats, y: Floats) -> Floats:
        """Twice what ℓ(f, y) exceeds min ℓ(·, y) by: the unit deviance of a likelihood."""
        least = -self.conjugate(np.zeros_like(y), y)
        return np.asarray(2.0 * np.maximum(self.value(f, y) - least, 0.0))

    def constant(self, y: Floats, weights: Floats, offset: Floats | float = 0.0) -> float:
        """The b that minimises Σ_i w_i ℓ(b + o_i, y_i).

        Parameters
        ----------
        y, weights : arrays of shape (m,)
            Targets and weights, one of them positive at least.
        offset : array of shape (m,) or float, default 0
            o.

        Returns
        -------
        b : float

        Raises
        ------
        ValueError
            If the loss falls for ever as b goes to -∞ or ∞.
        """
        used = weights > 0
        y, w, o = y[used], weights[used], np.broadcast_to(offset, y.shape)[used]

        def slope(b: float) -> float:
            # Infinite slopes have the right sign, which is all that a bracket needs.
            with np.errstate(over="ignore"):
                return float(np.clip(w @ self.gradient(b + o, y), -1e300, 1e300))

        low, high = self.slopes(y)
        if w @ low >= 0:
            raise ValueError(self._no_constant(y, "-∞"))
        if w @ high <= 0:
            raise ValueError(self._no_constant(y, "∞"))
        least, largest = _first_beyond(slope, -1.0), _first_beyond(slope, 1.0)
        if least is None or largest is None:
            raise ValueError(self._no_constant(y, "-∞" if least is None else "∞"))
        return float(brentq(slope, least, largest, xtol=1e-300, rtol=1e-15, maxiter=3000))

    def _no_constant(self, y: Floats, where: str) -> str:
        targets = f"all targets are {y[0]:g}" if np.all(y == y[0]) else "the targets are extreme"
        return (
            f"{type(self).__name__} has no best constant: the loss falls for ever as f goes to "
            f"{where}, since {targets}. Add rows with other targets."
        )

    def checked(self, y: ArrayLike) -> Floats:
        """The targets as an array, refused where the loss is not defined for them."""
        given = np.asarray(y)
        if given.dtype.kind not in "iuf":
            given = _as_numbers(given)
        if given.ndim != 1 or not len(given):
            raise ValueError(f"y must be a vector of finite numbers, got shape {given.shape}.")
        array = np.asarray(given, dtype=np.float64)
        if not np.isfinite(array).all():
            raise ValueError("y must be finite numbers, got NaN or ∞: leave these rows out.")
        return array


def _known(value: Floats, error: Floats) -> Rounded:
    """Values with errors; what is not finite is not known at all."""
    finite = np.isfinite(value) & np.isfinite(error)
    return Rounded(np.where(finite, value, 0.0), np.where(finite, error, np.inf))


def _log_size(x: Floats, error: Floats) -> Floats:
    """1 + |log| of numbers x ≥ 0 that are wrong by up to an error: x log x changes by as much."""
    return np.asarray(2.0 + np.abs(np.log(np.maximum(x, np.maximum(error, 1e-300)))))


def _as_numbers(y: NDArray[Any]) -> NDArray[Any]:
    """Numbers that are stored as objects; labels are refused."""
    if y.dtype.kind == "O" and all(map(_is_number, y.flat)):
        return y.astype(np.float64)
    raise ValueError(
        f"y must hold numbers, got labels of type {y.dtype}: use SparseGPClassifier for classes, "
        "or loss='logistic' for probabilities between 0 and 1."
    )


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def _first_beyond(slope: Callable[[float], float], side: float) -> float | None:
    """A point on one side where the slope points back; None if there is none."""
    reach = 1.0
    while reach < 1e300:
        if side * slope(side * reach) >= 0:
            return side * reach
        reach *= 4.0
    return None


@dataclass(frozen=True)
class SquaredRows(RowLoss):
    """(y - f)²."""

    most_curved = 2.0
    rounding = _FEW
    piecewise_quadratic = True

    def value(self, f: Floats, y: Floats) -> Floats:
        """(y - f)²."""
        return np.square(y - f)

    def size(self, f: Floats, y: Floats) -> Floats:
        """ℓ itself: nothing cancels."""
        return self.value(f, y)

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """2(f - y)."""
        return 2.0 * (f - y)

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """2."""
        return np.full_like(f, 2.0)

    def conjugate_size(self, slope: Floats, y: Floats) -> Floats:
        """|sy| + s²/4."""
        return np.asarray(np.abs(slope * y) + 0.25 * np.square(slope))

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """Returns sy + s²/4."""
        return slope * y + 0.25 * np.square(slope)


@dataclass(frozen=True)
class HuberRows(RowLoss):
    """½u² for u = |y - f| ≤ δ, and δu - ½δ² beyond."""

    delta: float

    most_curved = 1.0
    rounding = _FEW
    piecewise_quadratic = True

    def __post_init__(self) -> None:
        if not self.delta > 0.0:
            raise ValueError(f"delta must be positive, got {self.delta}.")

    def value(self, f: Floats, y: Floats) -> Floats:
        """Huber's function of y - f."""
        size = np.abs(y - f)
        inner = np.minimum(size, self.delta)
        return np.asarray(inner * (size - 0.5 * inner))

    def size(self, f: Floats, y: Floats) -> Floats:
        """ℓ itself: nothing cancels."""
        return self.value(f, y)

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """Returns f - y, clipped at δ."""
        return np.clip(f - y, -self.delta, self.delta)

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """1 where the error is below δ, else 0."""
        return np.where(np.abs(y - f) < self.delta, 1.0, 0.0)

    def slopes(self, y: Floats) -> tuple[Floats, Floats]:
        """-δ and δ."""
        return np.full_like(y, -self.delta), np.full_like(y, self.delta)

    def conjugate_size(self, slope: Floats, y: Floats) -> Floats:
        """|sy| + ½s²."""
        return np.asarray(np.abs(slope * y) + 0.5 * np.square(slope))

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """Returns sy + ½s², for |s| ≤ δ."""
        return self._inside(slope, y, lambda s: s * y + 0.5 * np.square(s))


@dataclass(frozen=True)
class PinballRows(RowLoss):
    """max(low u, high u) of u = y - f for low ≤ 0 ≤ high, with a kink at 0.

    It is |u|, or the loss of a quantile.
    """

    low: float
    high: float

    most_curved = np.inf
    rounding = _FEW
    kinked = True

    def __post_init__(self) -> None:
        if not self.low < 0.0 < self.high:
            raise ValueError(
                f"low must be negative and high positive, got {self.low} and {self.high}: "
                "PinballRows.of_quantile(0.9) is the loss of the 90 % quantile."
            )

    @classmethod
    def absolute(cls) -> PinballRows:
        """|u|."""
        return cls(-1.0, 1.0)

    @classmethod
    def of_quantile(cls, quantile: float) -> PinballRows:
        """τu for u ≥ 0, (τ - 1)u for u < 0."""
        _check_level("quantile", quantile)
        return cls(quantile - 1.0, quantile)

    def value(self, f: Floats, y: Floats) -> Floats:
        """max(low u, high u)."""
        residual = y - f
        return np.maximum(self.low * residual, self.high * residual)

    def size(self, f: Floats, y: Floats) -> Floats:
        """ℓ itself: nothing cancels."""
        return self.value(f, y)

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """-high, 0 or -low."""
        return np.where(y > f, -self.high, np.where(y < f, -self.low, 0.0))

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """0, but at the kink."""
        return np.zeros_like(f)

    def slopes(self, y: Floats) -> tuple[Floats, Floats]:
        """-high and -low."""
        return np.full_like(y, -self.high), np.full_like(y, -self.low)

    def conjugate_size(self, slope: Floats, y: Floats) -> Floats:
        """|sy|."""
        return np.asarray(np.abs(slope * y))

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """Returns sy, for slopes s between -high and -low."""
        return self._inside(slope, y, lambda s: s * y)

    def constant(self, y: Floats, weights: Floats, offset: Floats | float = 0.0) -> float:
        """The weighted quantile of y - o; the middle of the interval if there are several."""
        values = y - offset
        order = np.argsort(values, kind="stable")
        share = np.cumsum(weights[order])
        share /= share[-1]
        level = self.high / (self.high - self.low)
        least = values[order[int(np.argmax(share >= level - _TIED))]]
        largest = values[order[int(np.argmax(share > level + _TIED))]]
        return float(0.5 * (least + largest))


@dataclass(frozen=True)
class ExpectileRows(RowLoss):
    """τu² of u = y - f ≥ 0, and (1 - τ)u² of u < 0; for τ = ½ it is ½u²."""

    level: float

    rounding = _FEW
    piecewise_quadratic = True

    def __post_init__(self) -> None:
        _check_level("level", self.level)

    @property
    def most_curved(self) -> float:  # type: ignore[override]
        """2 max(τ, 1 - τ)."""
        return 2.0 * max(self.level, 1.0 - self.level)

    def _share(self, above: NDArray[np.bool_]) -> Floats:
        """τ where the target is above the prediction, else 1 - τ."""
        return np.where(above, self.level, 1.0 - self.level)

    def value(self, f: Floats, y: Floats) -> Floats:
        """τu² or (1 - τ)u²."""
        return np.asarray(self._share(y > f) * np.square(y - f))

    def size(self, f: Floats, y: Floats) -> Floats:
        """ℓ itself: nothing cancels."""
        return self.value(f, y)

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """-2τu or -2(1 - τ)u."""
        return np.asarray(2.0 * self._share(y > f) * (f - y))

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """2τ or 2(1 - τ)."""
        return 2.0 * self._share(y > f)

    def conjugate_size(self, slope: Floats, y: Floats) -> Floats:
        """|sy| + s²/4τ or s²/4(1 - τ)."""
        return np.asarray(np.abs(slope * y) + 0.25 * np.square(slope) / self._share(slope < 0))

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """Returns sy + s²/(4τ) for s < 0, and sy + s²/(4(1 - τ)) for s > 0."""
        return np.asarray(slope * y + 0.25 * np.square(slope) / self._share(slope < 0))


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(RowLoss):
    """max(0, |y - f| - ε)²."""

    epsilon: float

    most_curved = 2.0
    rounding = _FEW
    piecewise_quadratic = True

    def value(self, f: Floats, y: Floats) -> Floats:
        """max(0, |y - f| - ε)²."""
        return np.asarray(np.maximum(np.abs(y - f) - self.epsilon, 0.0) ** 2)

    def size(self, f: Floats, y: Floats) -> Floats:
        """(|y - f| - ε)|y - f|, since the difference cancels near the tube."""
        away = np.abs(y - f)
        return np.asarray((np.maximum(away - self.epsilon, 0.0) + UNIT * away) * away)

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """-2 sign(y - f) max(0, |y - f| - ε)."""
        excess = np.maximum(np.abs(y - f) - self.epsilon, 0.0)
        return np.asarray(-2.0 * np.sign(y - f) * excess)

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """2 where |y - f| > ε, else 0."""
        return np.where(np.abs(y - f) > self.epsilon, 2.0, 0.0)

    def conjugate_size(self, slope: Floats, y: Floats) -> Floats:
        """|sy| + ε|s| + s²/4."""
        return np.asarray(np.abs(slope) * (np.abs(y) + self.epsilon) + 0.25 * np.square(slope))

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """Returns sy + ε|s| + s²/4."""
        return np.asarray(slope * y + self.epsilon * np.abs(slope) + 0.25 * np.square(slope))


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
    logs = _log_size(np.minimum(p, q), UNIT * np.maximum(moved, UNIT))
    return np.asarray((np.minimum(np.minimum(p, q), 1.0).clip(0.0) + moved) * logs)


def _check_level(name: str, level: float) -> None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"{name} must be between 0 and 1, got {level}: 0.9 is the 90 % one.")


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
        return np.asarray((mean + np.abs(slope)) * _log_size(mean, UNIT * np.abs(slope)))

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
        return np.asarray((rest + most) * (_log_size(rest, UNIT * most) + np.abs(np.log(y))))

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
        first = _log_size(mean * (self.shape / total), UNIT * moved)
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
        return np.asarray(2.0 * q * _log_size(q, UNIT * q))

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
