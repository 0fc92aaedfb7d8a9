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
  method cannot be used;
- ``of_difference = True``, where ℓ depends on y - f alone, so that an intercept may be taken from
  the targets in place of being added to predictions.

`pursuit.testing.check_loss` checks all of it.

Newton's method, matching pursuit, support vector machines, generalised linear models and regression
over an l1 ball take a `RowLoss` as it is. Hulls and boosting minimise a function of all predictions
at once, made of row losses by `objectives.hull_losses`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from pursuit._types import Floats
from pursuit.objectives.conjugates import conjugate_above
from pursuit.rounding import UNIT, Rounded

_ROUNDING = 4.0 * float(np.finfo(np.float64).eps)
_SHIFT = 1e-6


class RowLoss(ABC):
    """ℓ(f, y), convex in the prediction f; arrays of one shape. The module says what to define."""

    most_curved: float
    piecewise_quadratic: ClassVar[bool] = False
    kinked: ClassVar[bool] = False
    of_difference: ClassVar[bool] = False
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
            f"no constant is best: the loss falls for ever as f goes to {where}, since {targets}. "
            "Add rows with other targets."
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


def log_size(x: Floats, error: Floats) -> Floats:
    """1 + |log| of numbers x ≥ 0 that are wrong by up to an error: x log x changes by as much."""
    return np.asarray(2.0 + np.abs(np.log(np.maximum(x, np.maximum(error, 1e-300)))))
