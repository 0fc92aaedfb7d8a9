"""Psd matrices as a pivoted Cholesky wants them: diagonal, columns and products on demand."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.gram.matrix import KernelMatrix
from pursuit.kernels import Kernel
from pursuit.linalg import Workers
from pursuit.rows import RowSource, in_memory

_TILE_ROWS = 2048


class PsdMatrix(Protocol):
    """H, m x m, symmetric and positive semi-definite."""

    diagonal: Floats
    positive_definite: bool
    rounding: float

    def columns(self, index: Indices) -> Floats:
        """Columns of H, one a row of the result."""
        ...

    def times(self, vectors: Floats) -> Floats:
        """H @ vectors."""
        ...

    def squared_columns(self, weights: Floats) -> Floats:
        """Σ_j w_j H_ji² for every column i."""
        ...


class ColumnMatrix:
    """K of all rows: columns are computed as they are asked for, products by a KernelMatrix."""

    def __init__(self, rows: RowSource, kernel: Kernel, workers: Workers) -> None:
        rows = in_memory(rows)
        self._rows, self._kernel, self._workers = rows, kernel, workers
        self._items: Any = rows.take(np.arange(rows.n_rows))
        self.diagonal = kernel.diag(self._items)
        self.positive_definite, self.rounding = kernel.positive_definite, kernel.rounding

    def columns(self, index: Indices) -> Floats:
        """Columns of K, one a row of the result."""
        bound, m = self._kernel.columns(self._rows.take(index)), len(self.diagonal)
        result = np.empty((len(index), m))

        def fill(span: slice) -> None:
            result[:, span] = bound(self._items[span]).T

        self._workers.map(fill, Workers.slices(m, _TILE_ROWS))
        return result

    def times(self, vectors: Floats) -> Floats:
        """K @ vectors."""
        return self._matrix.times(vectors)

    def squared_columns(self, weights: Floats) -> Floats:
        """Σ_j w_j K_ji² for every column i."""
        return self._matrix.squared_columns(weights)

    @cached_property
    def _matrix(self) -> KernelMatrix:
        return KernelMatrix(self._rows, self._kernel, self._workers)
