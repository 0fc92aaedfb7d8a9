"""Products with kernel matrices that know how far rounding can have moved them.

What certificates are made of: values f(x) of an expansion at all rows, products with the whole
matrix, and squared norms. A kernel says how exact its values are (`Kernel.error`); the rest is
the rounding of sums (`pursuit.rounding`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.gram.engine import Block, list_pass
from pursuit.gram.products import kernel_product, kernel_times, summed_terms
from pursuit.kernels import Extent, Kernel
from pursuit.linalg import Workers
from pursuit.rounding import KernelError, Rounded, dots, sizes, weight
from pursuit.rows import (
    DistributedRows,
    RowSource,
    StreamedRows,
    Table,
    len_items,
)


@dataclass(frozen=True)
class RowArithmetic:
    """Products with k(rows, ·), each with a bound on its rounding.

    Attributes
    ----------
    rows : RowSource
        m rows.
    kernel : Kernel
        k.
    workers : Workers
        Threads.
    diagonal : array of shape (m,)
        k(x, x) of every row as computed.
    extent : Extent
        Where the rows lie.
    """

    rows: RowSource
    kernel: Kernel
    workers: Workers
    diagonal: Floats
    extent: Extent

    @classmethod
    def of(cls, rows: RowSource, kernel: Kernel, workers: Workers) -> RowArithmetic:
        """A pass over the rows, and no kernel entry beyond the diagonal."""
        diagonals, extent = [np.empty(0)], Extent()
        for diagonal, part in list_pass(rows, kernel, _look, workers):
            diagonals.append(diagonal)
            extent = extent.joined(part)
        return cls(rows, kernel, workers, np.concatenate(diagonals), extent)

    def restricted(self, rows: RowSource, index: Indices) -> RowArithmetic:
        """That of some of the rows, given as rows of their own; they lie where all of them do."""
        return replace(self, rows=rows, diagonal=self.diagonal[index])

    @cached_property
    def sizes(self) -> Floats:
        """√k(x, x) of every row, not below its exact value."""
        return sizes(self.diagonal)

    @property
    def error(self) -> KernelError:
        """That of values between rows."""
        return KernelError(self.kernel.error(self.extent))

    def shares(self, items: Any) -> Floats:
        """The share of values between the rows and each of some items.

        Those within reach of the rows have one in common; far ones do not spoil it.
        """
        extent, shares = self.extent, np.empty(len_items(items))
        near: NDArray[np.bool_] = np.ones(len(shares), dtype=bool)
        if isinstance(items, np.ndarray) and extent.low is not None and extent.high is not None:
            width = extent.high - extent.low
            inside = (items >= extent.low - width) & (items <= extent.high + width)
            near = np.asarray(inside.all(axis=1))
            extent = extent.joined(Extent.of(items[near]))
        else:
            extent = extent.joined(Extent.of(items))
        shares[near] = self.kernel.error(extent)
        for i in np.flatnonzero(~near):
            shares[i] = self.kernel.error(extent.joined(Extent.of(items[i : i + 1])))
        return shares

    def among(self, items: Any, out: Floats | None = None) -> ItemArithmetic:
        """The same for some items, with their kernel matrix, written into ``out`` if given."""
        return ItemArithmetic.of(items, self.kernel, self.extent, out)

    def times(self, points: ItemArithmetic, coefficients: Floats) -> Rounded:
        """k(rows, points) @ coefficients."""
        value = kernel_times(self.rows, self.kernel, points.items, coefficients, self.workers)
        reach = weight(points.sizes, coefficients)
        return points.error.product(value, self.sizes, reach, len(points.sizes))

    def product(self, vectors: Floats, after_block: Callable[[int], None] | None = None) -> Rounded:
        """K @ vectors for the kernel matrix of all rows."""
        value = kernel_product(self.rows, self.kernel, vectors, self.workers, after_block)
        reach = weight(self.sizes, vectors)
        return self.error.product(value, self.sizes, reach, summed_terms(self.rows.n_rows))


def kernel_share(rows: RowSource, kernel: Kernel, points: Any) -> float:
    """How exact values between rows and points are; of rows that are not in memory, that of points.

    Reading a file once more would cost more than the answer is worth.
    """
    extent = Extent.of(points)
    if not isinstance(rows, DistributedRows | StreamedRows | Table):
        for part in list_pass(rows, kernel, _where, Workers(1)):
            extent = extent.joined(part)
    return kernel.error(extent)


def _where(kernel: Kernel, workers: Workers) -> Block[Extent]:
    return Extent.of


def _look(kernel: Kernel, workers: Workers) -> Block[tuple[NDArray[Any], Extent]]:
    return lambda items: (kernel.diag(items), Extent.of(items))


@dataclass(frozen=True)
class ItemArithmetic:
    """Some items, their kernel matrix, and how exact values between them and the rows are.

    Attributes
    ----------
    items : items
        z_j.
    K : array of shape (n, n)
        k(z_i, z_j) as computed.
    sizes : array of shape (n,)
        √k(z_j, z_j), not below its exact value.
    error : KernelError
        That of values between the items, and between them and the rows.
    """

    items: Any
    K: Floats
    sizes: Floats
    error: KernelError

    @classmethod
    def of(
        cls, items: Any, kernel: Kernel, extent: Extent, out: Floats | None = None
    ) -> ItemArithmetic:
        """Compute the kernel matrix of the items, in ``out`` if it is given."""
        error, n = KernelError(kernel.error(extent.joined(Extent.of(items)))), len_items(items)
        K = kernel.columns(items)(items, out=out) if n else np.empty((0, 0))
        return cls(items, K, sizes(kernel.diag(items)) if n else np.empty(0), error)

    def first(self, n: int) -> ItemArithmetic:
        """The first n items."""
        return ItemArithmetic(self.items[:n], self.K[:n, :n], self.sizes[:n], self.error)

    def products(self, coefficients: Floats) -> Rounded:
        """Σ_j k(z_i, z_j)β_j at the items."""
        reach = weight(self.sizes, coefficients)
        value = self.K @ coefficients
        return self.error.product(value, self.sizes, reach, len(self.sizes))

    def squared_norms(self, coefficients: Floats) -> Rounded:
        """‖Σ_j β_j k(·, z_j)‖² for every column β."""
        return dots(coefficients, self.products(coefficients))
