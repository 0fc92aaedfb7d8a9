"""Constants, sums, products and powers of kernels. Imports NumPy only.

`sum_of`, `product_of` and `power_of` build the smallest tree: constants are folded, and a positive
factor of a stationary kernel becomes its variance, which costs its tiles nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from pursuit.kernels.base import (
    Columns,
    Items,
    Kernel,
    Tile,
    Vector,
    n_items,
    tile_buffer,
    tile_dtype,
)
from pursuit.kernels.stationary import Stationary


@dataclass(frozen=True)
class Constant(Kernel):
    """k(a, b) = value."""

    value: float

    @property
    def positive_definite(self) -> bool:
        """True when the value is not negative."""
        return self.value >= 0

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> ConstantColumns:
        """Bind the kernel to the items Z."""
        return ConstantColumns(self.value, n_items(Z), tile_dtype(dtype))

    def diag(self, A: Items) -> Vector:
        """Return the value, once per item."""
        return np.full(n_items(A), float(self.value))


@dataclass(frozen=True, eq=False)
class Sum(Kernel):
    """Σ_j k_j(a, b) + offset."""

    terms: tuple[Kernel, ...]
    offset: float = 0.0

    @property
    def positive_definite(self) -> bool:
        """True when every term is and the offset is not negative."""
        return self.offset >= 0 and all(term.positive_definite for term in self.terms)

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> CombinedColumns:
        """Bind every term to the items Z."""
        parts = [term.columns(Z, dtype) for term in self.terms]
        return CombinedColumns(np.add, parts, self.offset, tile_dtype(dtype))

    def diag(self, A: Items) -> Vector:
        """Return the sum of the diagonals."""
        return reduce(np.add, [term.diag(A) for term in self.terms]) + self.offset


@dataclass(frozen=True, eq=False)
class Product(Kernel):
    """factor · Π_j k_j(a, b)."""

    factors: tuple[Kernel, ...]
    factor: float = 1.0

    @property
    def positive_definite(self) -> bool:
        """True when every factor is and the number is not negative."""
        return self.factor >= 0 and all(kernel.positive_definite for kernel in self.factors)

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> CombinedColumns:
        """Bind every factor to the items Z."""
        parts = [kernel.columns(Z, dtype) for kernel in self.factors]
        return CombinedColumns(np.multiply, parts, self.factor, tile_dtype(dtype))

    def diag(self, A: Items) -> Vector:
        """Return the product of the diagonals."""
        return reduce(np.multiply, [kernel.diag(A) for kernel in self.factors]) * self.factor


@dataclass(frozen=True, eq=False)
class Power(Kernel):
    """k(a, b)^exponent."""

    base: Kernel
    exponent: float

    @property
    def positive_definite(self) -> bool:
        """True for a whole positive power of a positive definite kernel."""
        return self.base.positive_definite and self.exponent >= 1 and self.exponent % 1 == 0

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> PowerColumns:
        """Bind the base to the items Z."""
        return PowerColumns(self.base.columns(Z, dtype), self.exponent)

    def diag(self, A: Items) -> Vector:
        """Return the power of the diagonal."""
        diagonal: Vector = np.power(self.base.diag(A), self.exponent)
        return diagonal


def sum_of(kernels: Iterable[Kernel]) -> Kernel:
    """Return the sum of kernels as the smallest tree."""
    terms: list[Kernel] = []
    offset = 0.0
    for kernel in kernels:
        if isinstance(kernel, Constant):
            offset += kernel.value
        elif isinstance(kernel, Sum):
            terms.extend(kernel.terms)
            offset += kernel.offset
        else:
            terms.append(kernel)
    if not terms:
        return Constant(offset)
    if len(terms) == 1 and offset == 0:
        return terms[0]
    return Sum(tuple(terms), offset)


def product_of(kernels: Iterable[Kernel]) -> Kernel:
    """Return the product of kernels as the smallest tree."""
    factors: list[Kernel] = []
    number = 1.0
    for kernel in kernels:
        if isinstance(kernel, Constant):
            number *= kernel.value
        elif isinstance(kernel, Product):
            factors.extend(kernel.factors)
            number *= kernel.factor
        else:
            factors.append(kernel)
    if not factors:
        return Constant(number)
    for position, kernel in enumerate(factors):
        # A logarithm carries the factor, so only a positive one can be a variance.
        if isinstance(kernel, Stationary) and 0 < kernel.variance * number < np.inf:
            factors[position] = replace(kernel, variance=kernel.variance * number)
            number = 1.0
            break
    if len(factors) == 1 and number == 1:
        return factors[0]
    return Product(tuple(factors), number)


def power_of(kernel: Kernel, exponent: float) -> Kernel:
    """Return the power of a kernel as the smallest tree."""
    if isinstance(kernel, Constant):
        return Constant(float(np.power(kernel.value, exponent)))
    return kernel if exponent == 1 else Power(kernel, exponent)


class ConstantColumns:
    """Tiles that hold one number."""

    def __init__(self, value: float, n_columns: int, dtype: np.dtype[Any]) -> None:
        self.n_columns = n_columns
        self._value = value
        self._dtype = dtype

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the block."""
        out = tile_buffer(out, n_items(A), self.n_columns, self._dtype)
        out.fill(self._value)
        return out


class CombinedColumns:
    """Tiles of several kernels joined entry by entry, with one scratch tile."""

    def __init__(
        self, join: np.ufunc, parts: list[Columns], number: float, dtype: np.dtype[Any]
    ) -> None:
        self.n_columns = parts[0].n_columns
        self._join = join
        self._parts = parts
        self._number = number
        self._dtype = dtype

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the joined block."""
        first, *others = self._parts
        out = first(A, out)
        scratch = np.empty_like(out) if others else None
        for part in others:
            self._join(out, part(A, scratch), out=out)
        if self._number != self._join.identity:
            self._join(out, self._number, out=out)
        return out


class PowerColumns:
    """Tiles raised to a power, whole powers by repeated squaring."""

    def __init__(self, base: Columns, exponent: float) -> None:
        self.n_columns = base.n_columns
        self._base = base
        self._exponent = exponent

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the block of powers."""
        out = self._base(A, out)
        if self._exponent >= 1 and self._exponent % 1 == 0:
            _whole_power(out, int(self._exponent))
        else:
            np.power(out, self._exponent, out=out)
        return out


def _whole_power(tile: Tile, exponent: int) -> None:
    """Raise to a whole power >= 1 in place; ten times faster than `np.power` for a cube."""
    base = tile.copy()
    for bit in bin(exponent)[3:]:  # the leading one is the tile itself
        np.square(tile, out=tile)
        if bit == "1":
            tile *= base
