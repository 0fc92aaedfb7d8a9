"""Running error bounds: values, each with a bound on how far rounding has moved it.

After Higham, Accuracy and Stability of Numerical Algorithms (2002), chapter 3, and Rump,
Verification methods (2010). With u = 2⁻⁵³, one operation has a relative error of at most u, and
a sum of n products, in whatever order and with whatever fused operations, one of at most

    γ_n Σ|a_i||b_i|,    γ_n = nu/(1 - nu).

Errors are themselves computed in floating point, and therefore each is raised by a few units.
Gradual underflow adds at most 2⁻¹⁰⁷⁴ per product. What goes through this module is true in the
arithmetic of the computer; what is assumed of kernels stands in `Kernel.error`.

Imports NumPy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pursuit._types import Floats

UNIT = 2.0**-53
"""Relative error of one operation."""

_TINY = 2.0**-1074
_RAISED = 1.0 + 16.0 * UNIT
"""What an error is multiplied by for the rounding of its own computation."""


def gamma(n: float) -> float:
    """γ_n, the relative error of n operations one after the other."""
    return n * UNIT / (1.0 - n * UNIT) if n * UNIT < 0.5 else np.inf


def _raised(error: Any) -> Floats:
    """An error as it was computed, raised by the rounding of that; infinite where undefined."""
    raised = np.asarray(error * _RAISED)
    unknown = np.isnan(raised)
    return np.where(unknown, np.inf, raised) if unknown.any() else raised


@dataclass(frozen=True)
class Rounded:
    """Numbers, each with a bound on its distance from what it stands for.

    Attributes
    ----------
    value, error : arrays of one shape
        What was computed, and a bound on its distance from the exact number.
    """

    value: Floats
    error: Floats

    # Beside an array, this class says what + and * mean.
    __array_ufunc__ = None

    @classmethod
    def of(cls, number: Any) -> Rounded:
        """A number that is exact, or one with an error."""
        if isinstance(number, Rounded):
            return number
        value = np.asarray(number, dtype=np.float64)
        return cls(value, np.zeros(value.shape))

    @property
    def low(self) -> Floats:
        """Not above the exact number."""
        return np.where(self.error > 0, np.nextafter(self.value - self.error, -np.inf), self.value)

    @property
    def high(self) -> Floats:
        """Not below the exact number."""
        return np.where(self.error > 0, np.nextafter(self.value + self.error, np.inf), self.value)

    @property
    def size(self) -> Floats:
        """Not below the exact number's absolute value."""
        return np.asarray(np.abs(self.value) + self.error)

    def __neg__(self) -> Rounded:
        return Rounded(-self.value, self.error)

    def __add__(self, other: Any) -> Rounded:
        other = Rounded.of(other)
        with np.errstate(over="ignore", invalid="ignore"):
            value = self.value + other.value
            return _finite(value, self.error + other.error + UNIT * np.abs(value))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Rounded:
        return self + -Rounded.of(other)

    def __rsub__(self, other: Any) -> Rounded:
        return Rounded.of(other) + -self

    def __mul__(self, other: Any) -> Rounded:
        other = Rounded.of(other)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            value = self.value * other.value
            moved = np.abs(self.value) * other.error + np.abs(other.value) * self.error
            moved = moved + self.error * other.error
            some = (self.value != 0) & (other.value != 0)
            return _finite(value, moved + UNIT * np.abs(value) + _TINY * some)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Rounded:
        """Quotient; its error is infinite where the divisor may be zero."""
        other = Rounded.of(other)
        least = np.abs(other.value) - other.error
        with np.errstate(all="ignore"):
            value = np.asarray(self.value / other.value)
            moved = (self.error + np.abs(value) * other.error) / least
            moved = moved + UNIT * np.abs(value) + _TINY * (self.value != 0)
            error = np.where(least > 0, moved, np.inf)
            return _finite(value, error)

    def __rtruediv__(self, other: Any) -> Rounded:
        return Rounded.of(other) / self

    def __getitem__(self, where: Any) -> Rounded:
        return Rounded(np.asarray(self.value[where]), np.asarray(self.error[where]))

    def sum(self, axis: int = 0) -> Rounded:
        """Sum along an axis."""
        n = self.value.shape[axis]
        value, size = self.value.sum(axis=axis), np.abs(self.value).sum(axis=axis)
        # Sums of errors round, too: by a share of themselves that `_RAISED` holds for few terms.
        return _finite(
            value, (self.error.sum(axis=axis) + gamma(n) * size) * (1.0 + 2.0 * gamma(n))
        )

    def widened(self, by: Any) -> Rounded:
        """The same value with more error."""
        return Rounded(self.value, _raised(self.error + by))


def _finite(value: Any, error: Any) -> Rounded:
    """A value that overflowed is 0 with an infinite error."""
    value, error = np.asarray(value, dtype=np.float64), _raised(error)
    known = np.isfinite(value)
    if not known.all():
        value, error = np.where(known, value, 0.0), np.where(known, error, np.inf)
    return Rounded(value, error)


def dots(a: Any, b: Any) -> Rounded:
    """Σ_i a_io b_io for every column o."""
    a, b = Rounded.of(a), Rounded.of(b)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        value = np.einsum("i...,i...->...", a.value, b.value)
        left, right = np.abs(a.value), np.abs(b.value)
        n = len(a.value)
        moved = gamma(n + 1) * (1.0 + 2.0 * gamma(n)) * np.einsum("i...,i...->...", left, right)
        some = moved > 0
        if not some.all():
            some = left.any(axis=0) & right.any(axis=0)
        moved = moved + n * _TINY * some
        for one, other in ((a.error, right + b.error), (b.error, left)):
            if one.any():
                moved = moved + np.einsum("i...,i...->...", one, other) * (1.0 + 2.0 * gamma(n))
        return _finite(value, moved)


def highest(bounds: Sequence[Rounded]) -> Rounded:
    """The best of several lower bounds of the same numbers, entry by entry.

    The error is what rounding has cost: the distance of the best bound that holds from the best
    one as computed.
    """
    low = np.maximum.reduce([bound.low for bound in bounds])
    value = np.maximum.reduce([bound.value for bound in bounds])
    with np.errstate(over="ignore"):
        return Rounded(value, _raised(value - low))


def joined(numbers: Sequence[Rounded]) -> Rounded:
    """Several single numbers as one array."""
    return Rounded(
        np.array([float(number.value) for number in numbers]),
        np.array([float(number.error) for number in numbers]),
    )


@dataclass(frozen=True)
class KernelError:
    """How far computed products with a kernel matrix are from exact ones.

    |k(a, b)| ≤ s(a)s(b) with s(a) = √k(a, a), and computed values are within ``share`` s(a)s(b) of
    exact ones. A sum of n products k(x, z_j)β_j is therefore wrong by at most
    (share + γ_n)·s(x)·Σ|β_j|s(z_j), whatever the order of summation.

    Attributes
    ----------
    share : float
        What `Kernel.error` says of the kernel and of the items.
    """

    share: float

    def of_terms(self, n: int) -> float:
        """The factor of s(x)·Σ|β_j|s(z_j) for sums of n products."""
        return (self.share + gamma(n + 2) * (1.0 + self.share)) * _RAISED

    def product(self, value: Floats, sizes: Floats, weight: Floats, n: int) -> Rounded:
        """K β with rows of sizes s(x), from its computed value; ``weight`` is Σ|β_j|s(z_j)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return _finite(value, self.of_terms(n) * np.multiply.outer(sizes, weight))


def weight(sizes: Floats, coefficients: Floats) -> Floats:
    """Σ_j |β_jo| s_j for every column o, not below its exact value."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = sizes @ np.abs(coefficients)
        return _raised(total * (1.0 + 2.0 * gamma(len(sizes) + 2)))


def sizes(diagonal: Floats) -> Floats:
    """s(a) = √k(a, a) from computed values k(a, a), not below its exact value.

    The kernel's own error moves k(a, a) by a share that `KernelError` is multiplied with: one
    part in a million covers any share for which a bound says something.
    """
    return np.asarray(np.sqrt(np.maximum(diagonal, 0.0)) * (1.0 + 1e-6))
