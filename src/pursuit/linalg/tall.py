"""A matrix with many more rows than columns, read block by block and never copied whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pursuit._types import Floats
from pursuit.linalg.workers import Workers

Blocks = Callable[[slice], NDArray[Any]]

_BLOCK = 1024
_CHUNK_NUMBERS = 1 << 17
_WAVE_NUMBERS = 1 << 23


class TallMatrix:
    """V (m x n): an array, a memory-mapped file, or a function that computes blocks of rows.

    Sums over rows are taken in float64, block after block, so that neither the number of threads
    nor where V lies changes a bit of them.

    Parameters
    ----------
    V : array of shape (m, n), or callable
        float64 or float32; ``V(rows)`` gives the rows of a slice, and is called by several threads.
    n_rows : int
        m.
    workers : Workers
        Threads.
    """

    def __init__(self, V: NDArray[Any] | Blocks, n_rows: int, workers: Workers) -> None:
        self.n_rows, self.workers = n_rows, workers
        self._block: Blocks = V if callable(V) else V.__getitem__
        self._spans = Workers.slices(n_rows, _BLOCK)
        some = self._block(slice(0, min(1, n_rows)))
        self.n_columns, self.dtype = int(some.shape[1]), some.dtype

    def gram(self, weights: Floats, dtype: DTypeLike = np.float64) -> Floats:
        """V' diag(weights) V for weights ≥ 0, its blocks multiplied in ``dtype``: O(mn²)."""
        n = self.n_columns
        roots = np.sqrt(weights)
        total = np.zeros((n, n))

        def part(rows: slice) -> NDArray[Any]:
            root, block = roots[rows], self._block(rows)
            if not root.all():
                some = np.flatnonzero(root)
                root, block = root[some], block[some]
            scaled = np.multiply(block, root[:, None], dtype=np.dtype(dtype), casting="same_kind")
            return scaled.T @ scaled

        wave = max(self.workers.n_threads, _WAVE_NUMBERS // max(n * n, 1))
        for at in range(0, len(self._spans), wave):
            for product in self.workers.map(part, self._spans[at : at + wave]):
                total += product
        return total

    def times(self, coordinates: Floats) -> Floats:
        """V @ coordinates, for an array of shape (n, k)."""
        result = np.empty((self.n_rows, coordinates.shape[1]))

        def fill(rows: slice) -> None:
            for here, block in self._pieces(rows, coordinates.shape[1]):
                np.matmul(block, coordinates, out=result[here])

        self.workers.map(fill, self._spans)
        return result

    def transposed_times(self, vectors: Floats) -> Floats:
        """V' @ vectors, for an array of shape (m, k)."""
        total = np.zeros((self.n_columns, vectors.shape[1]))

        def part(rows: slice) -> Floats:
            sums = np.zeros_like(total)
            for here, block in self._pieces(rows, vectors.shape[1]):
                sums += block.T @ vectors[here]
            return sums

        wave = max(self.workers.n_threads, _WAVE_NUMBERS // max(total.size, 1))
        for at in range(0, len(self._spans), wave):
            for product in self.workers.map(part, self._spans[at : at + wave]):
                total += product
        return total

    def _pieces(self, rows: slice, columns: int) -> Iterator[tuple[slice, Floats]]:
        """Rows in float64; those that must be turned to it, as many as stay in cache."""
        block = self._block(rows)
        if block.dtype == np.float64:
            yield rows, block
            return
        height = max(_CHUNK_NUMBERS // max(self.n_columns, 1), 2 * columns, 16)
        for piece in Workers.slices(len(block), height):
            here = slice(rows.start + piece.start, rows.start + piece.stop)
            yield here, block[piece].astype(np.float64)
