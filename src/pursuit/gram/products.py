"""Products with kernel matrices that are never stored, and the few columns that are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pursuit.gram.parts import join_parts
from pursuit.kernels import Kernel
from pursuit.linalg import Workers
from pursuit.rows import BLOCK_ROWS, DistributedRows, RowSource, StreamedRows, Table, len_items

Floats = NDArray[np.float64]

_TILE_ENTRIES = 1 << 18
_TILE_ROWS = 256
_BLOCK_ROWS = 4 * _TILE_ROWS
_WAVE_NUMBERS = 1 << 22
"""Numbers that wait to be added up at a time: 32 MB, however many vectors there are."""

_FEATURE_ROWS = 512
_PANEL = 256


def kernel_times(
    rows: RowSource, kernel: Kernel, points: Any, coefficients: Floats, workers: Workers
) -> Floats:
    """k(rows, points) @ coefficients, tile by tile: shape (n_rows, n_outputs)."""
    if isinstance(rows, DistributedRows):
        return join_parts(rows, kernel, partial(_part_times, points, coefficients))
    columns = kernel.columns(points)
    step = max(16, _TILE_ENTRIES // max(columns.n_columns, 1))
    result = np.empty((rows.n_rows, coefficients.shape[1]))
    for start, items in rows.blocks():

        def multiply(span: slice, start: int = start, items: Any = items) -> None:
            result[start + span.start : start + span.stop] = columns(items[span]) @ coefficients

        workers.map(multiply, Workers.slices(len_items(items), step))
    return result


def _part_times(
    points: Any, coefficients: Floats, rows: RowSource, kernel: Kernel, workers: Workers
) -> Floats:
    return kernel_times(rows, kernel, points, coefficients, workers)


def kernel_product(
    rows: RowSource,
    kernel: Kernel,
    vectors: Floats,
    workers: Workers,
    after_block: Callable[[int], None] | None = None,
    dtype: DTypeLike = np.float64,
) -> Floats:
    """K @ vectors for the whole m x m kernel matrix, in O(m) memory.

    Each tile below the diagonal serves twice, by symmetry. Contributions are added in an order
    that depends on sizes only, so the number of threads does not change the result. Tiles of
    ``dtype`` float32 cost a third; their products are added up in float64, and the result has a
    relative error of about 1e-7 of ‖K‖‖v‖.
    """
    m = rows.n_rows
    result = np.zeros(vectors.shape)
    if m == 0:
        return result
    if isinstance(rows, DistributedRows | StreamedRows | Table):
        # Every part multiplies every block: by symmetry, parts would wait for each other.
        for start, items in rows.blocks(BLOCK_ROWS):
            stop = start + len_items(items)
            result += kernel_times(rows, kernel, items, vectors[start:stop], workers)
            if after_block is not None:
                after_block(stop)
        return result
    scale, factors = _in_range(vectors, np.dtype(dtype))
    wave = _TILE_ROWS * max(8, _WAVE_NUMBERS // (_BLOCK_ROWS * max(vectors.shape[1], 1)))
    for block in Workers.slices(m, _BLOCK_ROWS):
        items = rows.take(np.arange(block.start, block.stop))
        columns = kernel.columns(items, dtype=dtype)

        def multiply(here: slice, block: slice = block, columns: Any = columns) -> Any:
            tile = columns(rows.take(np.arange(here.start, here.stop)))
            result[here] += tile @ factors[block]
            inside_diagonal_block = here.start < block.stop
            return 0.0 if inside_diagonal_block else tile.T @ factors[here]

        for start in range(block.start, m, wave):
            tiles = Workers.slices(min(wave, m - start), _TILE_ROWS)
            here = [slice(start + tile.start, start + tile.stop) for tile in tiles]
            for transposed in workers.map(multiply, here):
                result[block] += transposed
        if after_block is not None:
            after_block(block.stop)
    result *= scale
    return result


def kernel_features(
    rows: RowSource,
    kernel: Kernel,
    points: Any,
    workers: Workers,
    *,
    whitener: Floats | None = None,
    scale: Floats | None = None,
    dtype: DTypeLike = np.float64,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """k(rows, points), or V = k(rows, points) R⁻ᵀ for ``whitener`` R⁻¹, as a stored array.

    Rows are multiplied by ``scale``. Computed in float64, and rounded once to ``dtype``, or to the
    type of ``out``, which is filled where it is given.
    """
    if isinstance(rows, DistributedRows):
        task = partial(_part_features, points, whitener, dtype if out is None else out.dtype)
        found = join_parts(rows, kernel, task, *([] if scale is None else [scale]))
        if out is not None:
            out[:] = found
        return found if out is None else out
    columns = kernel.columns(points)
    result = np.empty((rows.n_rows, columns.n_columns), dtype=dtype) if out is None else out
    panels = Workers.slices(columns.n_columns, _PANEL)
    for start, items in rows.blocks():

        def fill(span: slice, start: int = start, items: Any = items) -> None:
            here = slice(start + span.start, start + span.stop)
            out, tile = result[here], columns(items[span])
            if scale is not None:
                tile *= scale[here, None]
            if whitener is None:
                out[:] = tile
                return
            for panel in panels:
                out[:, panel] = tile[:, : panel.stop] @ whitener[panel, : panel.stop].T

        workers.map(fill, Workers.slices(len_items(items), _FEATURE_ROWS))
    return result


def _part_features(
    points: Any,
    whitener: Floats | None,
    dtype: DTypeLike,
    rows: RowSource,
    kernel: Kernel,
    workers: Workers,
    scale: Floats | None = None,
) -> NDArray[Any]:
    return kernel_features(
        rows, kernel, points, workers, whitener=whitener, scale=scale, dtype=dtype
    )


def kernel_diagonal(rows: RowSource, kernel: Kernel) -> Floats:
    """k(x, x) for every row."""
    if isinstance(rows, DistributedRows):
        return join_parts(rows, kernel, _part_diagonal)
    return np.concatenate([kernel.diag(items) for _, items in rows.blocks()])


def _part_diagonal(rows: RowSource, kernel: Kernel, workers: Workers) -> Floats:
    return kernel_diagonal(rows, kernel)


def _in_range(vectors: Floats, dtype: np.dtype[Any]) -> tuple[Floats | float, NDArray[Any]]:
    """The vectors in the type of the tiles; float32 ones with entries of at most 1."""
    if dtype == np.float64:
        return 1.0, vectors
    scale = np.abs(vectors).max(axis=0, initial=0.0)
    scale[scale == 0.0] = 1.0
    return scale, (vectors / scale).astype(dtype)
