"""The whole m x m kernel matrix as something to multiply with: stored, of low rank, or streamed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pursuit._types import Floats
from pursuit.gram.products import kernel_product
from pursuit.kernels import Dot, Kernel, as_dot
from pursuit.linalg import Workers
from pursuit.rows import RowSource, in_memory, len_items

STORED_BYTES = 1 << 30
"""A kernel matrix of at most this size, 1 GiB or 11 585 rows, is kept in memory."""

_ROWS = 512
_BLOCK = 1024


class KernelMatrix:
    """K with products K v, single columns, and the norms of all columns.

    Up to ``stored_bytes`` K is computed once and kept. Beyond, a product with an inner-product
    kernel goes through its features, K v = w X(X'v) + o 1(1'v), at the cost of reading X (sparse
    rows stay sparse); any other kernel is evaluated anew for every product, in O(m) memory.
    ``after_pass`` is called whenever all rows have been read.
    """

    def __init__(
        self,
        rows: RowSource,
        kernel: Kernel,
        workers: Workers,
        stored_bytes: int = STORED_BYTES,
        after_pass: Callable[[], None] = lambda: None,
    ) -> None:
        rows = in_memory(rows)
        self._rows, self._kernel, self._workers = rows, kernel, workers
        self._after_pass = after_pass
        self._spans = Workers.slices(rows.n_rows, _ROWS)
        self._dot = as_dot(kernel)
        self._K: Floats | None = None
        self._blocks: list[tuple[slice, Any]] = []
        if 8 * rows.n_rows**2 <= stored_bytes:
            self._K = self._stored()
        elif self._dot is not None:
            self._blocks = [
                (slice(start, start + len_items(items)), items) for start, items in rows.blocks()
            ]

    def times(self, vectors: Floats) -> Floats:
        """K @ vectors."""
        if self._K is not None:
            K = self._K
            return np.concatenate(self._workers.map(lambda span: K[span] @ vectors, self._spans))
        self._after_pass()
        if self._dot is not None:
            return self._times_by_features(self._dot, vectors)
        return kernel_product(self._rows, self._kernel, vectors, self._workers)

    def column(self, index: int) -> Floats:
        """Column ``index`` of K."""
        if self._K is not None:
            stored: Floats = self._K[index]
            return stored
        columns = self._kernel.columns(self._rows.take(np.array([index], dtype=np.intp)))
        return np.concatenate([columns(items)[:, 0] for _, items in self._rows.blocks()])

    def squared_columns(self, weights: Floats) -> Floats:
        """k_i'Wk_i for every column, in one pass over all entries."""
        if self._K is not None:
            K = self._K
            parts = self._workers.map(lambda span: K[span] ** 2 @ weights, self._spans)
            return np.concatenate(parts)
        self._after_pass()
        squares = np.zeros(self._rows.n_rows)
        for block in Workers.slices(self._rows.n_rows, _BLOCK):
            columns = self._kernel.columns(self._take(block))

            def part(span: slice, columns: Any = columns) -> Floats:
                tile = columns(self._take(span))
                tile *= tile
                square: Floats = weights[span] @ tile
                return square

            for square in self._workers.map(part, self._spans):
                squares[block] += square
        return squares

    def _stored(self) -> Floats:
        self._after_pass()
        m = self._rows.n_rows
        K, columns = np.empty((m, m)), self._kernel.columns(self._take(slice(0, m)))
        self._workers.map(lambda span: columns(self._take(span), out=K[span]), self._spans)
        return K

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
