"""Products with kernel matrices that are never stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit.kernels import Kernel
from pursuit.linalg import Workers
from pursuit.rows import RowSource, len_items

Floats = NDArray[np.float64]

_TILE_ENTRIES = 1 << 18
_TILE_ROWS = 256
_BLOCK_ROWS = 4 * _TILE_ROWS


def kernel_times(
    rows: RowSource, kernel: Kernel, points: Any, coefficients: Floats, workers: Workers
) -> Floats:
    """k(rows, points) @ coefficients, tile by tile: shape (n_rows, n_outputs)."""
    columns = kernel.columns(points)
    step = max(16, _TILE_ENTRIES // max(columns.n_columns, 1))
    result = np.empty((rows.n_rows, coefficients.shape[1]))
    for start, items in rows.blocks():

        def multiply(span: slice, start: int = start, items: Any = items) -> None:
            result[start + span.start : start + span.stop] = columns(items[span]) @ coefficients

        workers.map(multiply, Workers.slices(len_items(items), step))
    return result


def kernel_product(
    rows: RowSource,
    kernel: Kernel,
    vectors: Floats,
    workers: Workers,
    after_block: Callable[[int], None] | None = None,
) -> Floats:
    """K @ vectors for the whole m x m kernel matrix, in O(m) memory.

    Each tile below the diagonal serves twice, by symmetry. Contributions are added in an order
    that depends on sizes only, so the number of threads does not change the result.
    """
    m = rows.n_rows
    result = np.zeros(vectors.shape)
    for block in Workers.slices(m, _BLOCK_ROWS):
        columns = kernel.columns(rows.take(np.arange(block.start, block.stop)))

        def multiply(tile_rows: slice, block: slice = block, columns: Any = columns) -> Any:
            here = slice(block.start + tile_rows.start, block.start + tile_rows.stop)
            tile = columns(rows.take(np.arange(here.start, here.stop)))
            result[here] += tile @ vectors[block]
            inside_diagonal_block = here.start < block.stop
            return 0.0 if inside_diagonal_block else tile.T @ vectors[here]

        for transposed in workers.map(multiply, Workers.slices(m - block.start, _TILE_ROWS)):
            result[block] += transposed
        if after_block is not None:
            after_block(block.stop)
    return result
