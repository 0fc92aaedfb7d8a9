"""Products with kernel matrices that are never stored, and the few columns that are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pursuit._types import Floats
from pursuit.gram.engine import Block, chunked, row_pass
from pursuit.kernels import Kernel
from pursuit.linalg import Workers
from pursuit.rows import BLOCK_ROWS, DistributedRows, RowSource, StreamedRows, Table, len_items

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
    result = np.empty((rows.n_rows, coefficients.shape[1]))
    return row_pass(rows, kernel, partial(_times, points, coefficients), workers, out=result)


def _times(
    points: Any, coefficients: Floats, kernel: Kernel, workers: Workers
) -> Block[NDArray[Any]]:
    columns = kernel.columns(points)
    step = max(16, _TILE_ENTRIES // max(columns.n_columns, 1))

    def part(items: Any) -> Floats:
        product: Floats = columns(items) @ coefficients
        return product

    return chunked(part, step, workers, combine=np.concatenate)


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
    if out is None:
        out = np.empty((rows.n_rows, len_items(points)), dtype=dtype)
    aligned = [] if scale is None else [scale]
    task = partial(_features, points, whitener, out.dtype)
    return row_pass(rows, kernel, task, workers, *aligned, out=out)


def _features(
    points: Any, whitener: Floats | None, dtype: DTypeLike, kernel: Kernel, workers: Workers
) -> Block[NDArray[Any]]:
    columns = kernel.columns(points)
    panels = Workers.slices(columns.n_columns, _PANEL)

    def part(items: Any, scale: Floats | None = None) -> NDArray[Any]:
        tile = columns(items)
        if scale is not None:
            tile *= scale[:, None]
        if whitener is None:
            return np.asarray(tile, dtype=dtype)
        features = np.empty(tile.shape, dtype=dtype)
        for panel in panels:
            features[:, panel] = tile[:, : panel.stop] @ whitener[panel, : panel.stop].T
        return features

    return chunked(part, _FEATURE_ROWS, workers, combine=np.concatenate)


def kernel_diagonal(rows: RowSource, kernel: Kernel) -> Floats:
    """k(x, x) for every row."""
    with Workers(1) as workers:
        return row_pass(rows, kernel, _diagonal, workers)


def _diagonal(kernel: Kernel, workers: Workers) -> Block[NDArray[Any]]:
    return kernel.diag


def _in_range(vectors: Floats, dtype: np.dtype[Any]) -> tuple[Floats | float, NDArray[Any]]:
    """The vectors in the type of the tiles; float32 ones with entries of at most 1."""
    if dtype == np.float64:
        return 1.0, vectors
    scale = np.abs(vectors).max(axis=0, initial=0.0)
    scale[scale == 0.0] = 1.0
    return scale, (vectors / scale).astype(dtype)
