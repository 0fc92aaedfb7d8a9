"""The whole m x m kernel matrix: columns on demand, and products; stored, low rank, or streamed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.gram.engine import TileTask, list_pass, sum_pass
from pursuit.gram.products import kernel_product
from pursuit.kernels import BoundKernel, Dot, Kernel, as_dot
from pursuit.linalg import Workers
from pursuit.rows import RowSource, in_memory, len_items

STORED_BYTES = 1 << 30
"""A kernel matrix of at most this size, 1 GiB or 11 585 rows, is kept in memory for products."""

_ROWS = 512
"""Rows per task; part of the last bits of sums over rows."""

_COLUMN_ROWS = 2048
"""Rows per task when a few columns are computed."""

_BLOCK = 1024
"""Columns whose squares are summed at a time."""


class PsdMatrix(Protocol):
    """H, m x m, symmetric and positive semi-definite, as a pivoted Cholesky needs it."""

    @property
    def diagonal(self) -> Floats:
        """The diagonal of H."""
        ...

    @property
    def positive_definite(self) -> bool:
        """Whether H is known to be positive semi-definite."""
        ...

    @property
    def rounding(self) -> float:
        """Relative rounding error of the entries."""
        ...

    def columns(self, index: Indices) -> Floats:
        """Columns of H, one per row of the result."""
        ...

    def times(self, vectors: Floats) -> Floats:
        """H @ vectors."""
        ...

    def squared_columns(self, weights: Floats) -> Floats:
        """Σ_j w_j H_ji² for every column i."""
        ...


class KernelMatrix:
    """K of all rows: its diagonal, columns, products K v, and the norms of all columns.

    Columns are computed on demand. For products K is computed once and kept, at the first of them,
    up to ``stored_bytes``. Beyond, a product with an inner-product kernel goes through its
    features, K v = w X(X'v) + o 1(1'v), at the cost of reading X (sparse rows stay sparse); any
    other kernel is evaluated anew for every product, in O(m) memory. ``after_pass`` is called
    whenever all rows have been read.
    """

    def __init__(
        self,
        rows: RowSource,
        kernel: Kernel,
        workers: Workers,
        stored_bytes: int = STORED_BYTES,
        after_pass: Callable[[], None] = lambda: None,
    ) -> None:
        self._rows, self._kernel, self._workers = in_memory(rows), kernel, workers
        self.positive_definite, self.rounding = kernel.positive_definite, kernel.rounding
        self._m = rows.n_rows
        self._is_stored = 8 * self._m**2 <= stored_bytes
        self._after_pass = after_pass
        self._spans = Workers.slices(self._m, _ROWS)
        self._dot = as_dot(kernel)

    @cached_property
    def diagonal(self) -> Floats:
        """k(x, x) for every row."""
        return self._kernel.diag(self._take(slice(0, self._m)))

    def columns(self, index: Indices) -> Floats:
        """Columns of K, one per row of the result."""
        result = np.empty((len(index), self._m))
        task = TileTask(_copy_tile, (self._rows.take(index),), _COLUMN_ROWS, list)
        list_pass(self._rows, self._kernel, task, self._workers, result.T)
        return result

    def column(self, index: int) -> Floats:
        """Column ``index`` of K."""
        stored = self._is_stored
        column: Floats = self._K[index] if stored else self.columns(np.array([index]))[0]
        return column

    def times(self, vectors: Floats) -> Floats:
        """K @ vectors."""
        if self._is_stored:
            K = self._K
            return np.concatenate(self._workers.map(lambda span: K[span] @ vectors, self._spans))
        self._after_pass()
        if self._dot is not None:
            return self._times_by_features(self._dot, vectors)
        return kernel_product(self._rows, self._kernel, vectors, self._workers)

    def squared_columns(self, weights: Floats) -> Floats:
        """k_i'Wk_i for every column, in one pass over all entries."""
        if self._is_stored:
            K = self._K
            parts = self._workers.map(lambda span: K[span] ** 2 @ weights, self._spans)
            return np.concatenate(parts)
        self._after_pass()
        squares = np.empty(self._m)
        for block in Workers.slices(self._m, _BLOCK):
            task = TileTask(_squares, (self._take(block),), _ROWS)
            squares[block] = sum_pass(self._rows, self._kernel, task, self._workers, weights)
        return squares

    @cached_property
    def _K(self) -> Floats:
        self._after_pass()
        K = np.empty((self._m, self._m))
        task = TileTask(_write_tile, (self._take(slice(0, self._m)),), _ROWS, list)
        list_pass(self._rows, self._kernel, task, self._workers, K)
        return K

    @cached_property
    def _blocks(self) -> list[tuple[slice, Any]]:
        blocks = self._rows.blocks()
        return [(slice(start, start + len_items(items)), items) for start, items in blocks]

    def _times_by_features(self, dot: Dot, vectors: Floats) -> Floats:
        def project(block: tuple[slice, Any]) -> Floats:
            span, items = block
            return np.asarray(items.T @ vectors[span], dtype=np.float64)

        def expand(block: tuple[slice, Any]) -> Floats:
            return np.asarray(block[1] @ features, dtype=np.float64)

        features = dot.weight * np.sum(self._workers.map(project, self._blocks), axis=0)
        product: Floats = np.concatenate(self._workers.map(expand, self._blocks))
        product += dot.offset * vectors.sum(axis=0)
        return product

    def _take(self, span: slice) -> Any:
        return self._rows.take(np.arange(span.start, span.stop))


def _write_tile(bound: BoundKernel, items: Any, out: Floats) -> None:
    bound(items, out=out)


def _copy_tile(bound: BoundKernel, items: Any, out: Floats) -> None:
    out[...] = bound(items)


def _squares(bound: BoundKernel, items: Any, weights: Floats) -> Floats:
    tile = bound(items)
    tile *= tile
    squares: Floats = weights @ tile
    return squares
