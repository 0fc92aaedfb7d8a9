"""Products with blocks k(rows, points) that are never stored: per row, and summed over rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.gram.engine import Block, TileTask, chunked, list_pass, row_pass, sum_pass
from pursuit.kernels import BoundKernel, Kernel
from pursuit.kernels.base import piece_rows
from pursuit.linalg import Workers
from pursuit.rows import (
    BLOCK_ROWS,
    DistributedRows,
    IndexRows,
    RowSource,
    Sample,
    StreamedRows,
    Table,
    len_items,
)

T = TypeVar("T")

_PIECES = 8
"""Pieces per task of a product per row. More of them cost fewer calls, and leave threads idle."""

_CHUNK_ROWS = 1024
"""Rows per chunk of the sums over rows below; part of their last bits."""

_FEATURE_ROWS = 512
"""Rows per chunk of features in a span; part of the last bits of sums of them."""

_BLOCK_ROWS = 1024
"""Rows and columns per task of a product with the whole matrix."""

_TILE_ROWS = 96
_FEW_COLUMNS = 8
"""Rows per tile, which stays in the cache, where at most so many vectors are multiplied. More of
them are multiplied with all rows of a task at once. All these sizes are part of the last bits."""

_WAVE_NUMBERS = 1 << 22
"""Numbers that wait to be added up at a time: 32 MB, however many vectors there are."""


# One value per row


def kernel_times(
    rows: RowSource, kernel: Kernel, points: Any, coefficients: Floats, workers: Workers
) -> Floats:
    """k(rows, points) @ coefficients, tile by tile: shape (n_rows, n_outputs)."""
    step = _PIECES * piece_rows(len_items(points), limits.PIECE_ENTRIES)
    part = partial(BoundKernel.times, coefficients=coefficients, entries=limits.PIECE_ENTRIES)
    task = TileTask(part, (points,), step, np.concatenate)
    out = np.empty((rows.n_rows, coefficients.shape[1]))
    return row_pass(rows, kernel, task, workers, out=out)


def expansion_gradient(
    rows: RowSource, kernel: Kernel, points: Floats, coefficients: Floats, workers: Workers
) -> Floats:
    """∂/∂x of k(x, points) @ coefficients: shape (n_rows, n_features, n_outputs).

    For rows and points of numbers, and kernels that have derivatives by points. Sparse rows become
    dense, one chunk after the other.
    """
    step = max(16, limits.TILE_ENTRIES // max(len(points), 1))
    task = partial(_gradient_task, points, coefficients, step)
    out = np.empty((rows.n_rows, points.shape[1], coefficients.shape[1]))
    return row_pass(rows, kernel, task, workers, out=out)


def _gradient_task(
    points: Floats, coefficients: Floats, step: int, kernel: Kernel, workers: Workers
) -> Block[NDArray[Any]]:
    part = partial(_gradient, kernel, points, coefficients)
    return chunked(part, step, workers, combine=np.concatenate)


def _gradient(kernel: Kernel, points: Floats, coefficients: Floats, items: Any) -> Floats:
    rows = items.toarray() if hasattr(items, "toarray") else items
    gradient = np.empty((*rows.shape, coefficients.shape[1]))
    for output, column in enumerate(coefficients.T):
        weights = np.broadcast_to(column[:, None], (len(points), len(rows)))
        gradient[:, :, output] = kernel.points(points, rows, weights)
    return gradient


def kernel_features(
    rows: RowSource,
    kernel: Kernel,
    points: Any,
    workers: Workers,
    *,
    whitener: NDArray[Any] | None = None,
    scale: Floats | None = None,
    dtype: DTypeLike = np.float64,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """k(rows, points), or V = k(rows, points) R⁻ᵀ for ``whitener`` R⁻¹, as a stored array.

    Rows are multiplied by ``scale``. Kernel values are float64, the product with R⁻ᵀ has the type
    of ``whitener``, and the result is rounded to ``dtype``, or to the type of ``out``, which is
    filled if it is given.
    """
    if out is None:
        out = np.empty((rows.n_rows, len_items(points)), dtype=dtype)
    aligned = [] if scale is None else [scale]
    part = partial(_features, whitener, out.dtype)
    task = TileTask(part, (points,), _FEATURE_ROWS, np.concatenate)
    return row_pass(rows, kernel, task, workers, *aligned, out=out)


def _features(
    whitener: NDArray[Any] | None,
    dtype: DTypeLike,
    bound: BoundKernel,
    items: Any,
    scale: Floats | None = None,
) -> NDArray[Any]:
    tile = bound(items)
    if scale is not None:
        tile *= scale[:, None]
    if whitener is None:
        return np.asarray(tile, dtype=dtype)
    tile = tile.astype(whitener.dtype, copy=False)
    features = np.empty(tile.shape, dtype=dtype)
    for panel in Workers.slices(tile.shape[1], limits.PANEL):
        features[:, panel] = tile[:, : panel.stop] @ whitener[panel, : panel.stop].T
    return features


def over_span(
    rows: RowSource,
    kernel: Kernel,
    points: Any,
    whitener: Floats,
    measure: Callable[[Floats, Any, slice], T],
    workers: Workers,
) -> list[T]:
    """List ``measure(V, items, where)`` for one chunk of rows after the other.

    V holds R⁻¹k_S(x) for the items of the chunk, one per row; ``where`` says which rows they are.
    """
    task = TileTask(partial(_spanned, whitener, measure), (points,), _FEATURE_ROWS, list)
    return list(chain(*list_pass(rows, kernel, task, workers, IndexRows(rows.n_rows))))


def _spanned(
    whitener: Floats,
    measure: Callable[[Floats, Any, slice], T],
    bound: BoundKernel,
    items: Any,
    numbers: Indices,
) -> T:
    where = slice(int(numbers[0]), int(numbers[-1]) + 1)
    return measure(bound(items) @ whitener.T, items, where)


def kernel_diagonal(rows: RowSource, kernel: Kernel) -> Floats:
    """k(x, x) for every row."""
    return row_pass(rows, kernel, _diagonal, Workers(1))


def _diagonal(kernel: Kernel, workers: Workers) -> Block[NDArray[Any]]:
    return kernel.diag


# Sums over rows


def kernel_transpose_times(
    rows: RowSource, kernel: Kernel, points: Any, vectors: Floats, workers: Workers
) -> Floats:
    """k(points, rows) @ vectors: shape (n_points, n_columns)."""
    empty = np.zeros((len_items(points), vectors.shape[1]))
    task = TileTask(_transpose_times, (points,), _CHUNK_ROWS)
    return sum_pass(rows, kernel, task, workers, vectors, empty=empty)


def _transpose_times(bound: BoundKernel, items: Any, vectors: Floats) -> Floats:
    product: Floats = bound(items).T @ vectors
    return product


def residual_products(
    sample: Sample, kernel: Kernel, points: Any, coefficients: Floats, workers: Workers
) -> Floats:
    """K_S'W(y - K_Sβ): shape (n_points, n_outputs)."""
    task = TileTask(partial(_residual_products, coefficients), (points,), _CHUNK_ROWS)
    empty = np.zeros_like(coefficients)
    aligned = sample.targets, sample.weights
    return sum_pass(sample.rows, kernel, task, workers, *aligned, empty=empty)


def _residual_products(
    coefficients: Floats, bound: BoundKernel, items: Any, y: Floats, w: Floats
) -> Floats:
    tile = bound(items)
    products: Floats = tile.T @ (w[:, None] * (y - tile @ coefficients))
    return products


def cross_statistics(
    sample: Sample, kernel: Kernel, points: Any, queries: Any, workers: Workers
) -> Floats:
    """K_S'WK_T: shape (n_points, n_queries)."""
    empty = np.zeros((len_items(points), len_items(queries)))
    task = TileTask(_cross, (points, queries), _CHUNK_ROWS)
    return sum_pass(sample.rows, kernel, task, workers, sample.weights, empty=empty)


def _cross(basis: BoundKernel, targets: BoundKernel, items: Any, weights: Floats) -> Floats:
    weighted = targets(items) * weights[:, None]
    product: Floats = basis(items).T @ weighted
    return product


def residual_squares(
    sample: Sample,
    kernel: Kernel,
    points: Any,
    coefficients: Floats,
    queries: Any,
    workers: Workers,
) -> Floats:
    """Σ_i w_i (k(x_i, t) - Σ_j k(x_i, z_j) β_jt)² for each query t."""
    task = TileTask(partial(_squares, coefficients), (points, queries), _CHUNK_ROWS)
    empty = np.zeros(len_items(queries))
    return sum_pass(sample.rows, kernel, task, workers, sample.weights, empty=empty)


def _squares(
    coefficients: Floats, basis: BoundKernel, targets: BoundKernel, items: Any, weights: Floats
) -> Floats:
    residual = targets(items)
    residual -= basis(items) @ coefficients
    squares: Floats = np.einsum("ij,ij,i->j", residual, residual, weights)
    return squares


def sum_along_path(
    rows: RowSource,
    kernel: Kernel,
    points: Any,
    coefficients: Floats,
    intercepts: Floats,
    measure: Callable[..., Floats],
    aligned: Sequence[NDArray[Any]],
    workers: Workers,
) -> Floats:
    """Σ over rows of ``measure(F, *aligned)`` for the models f_s = k(·, points) β_s + c_s.

    All models are evaluated in one pass.

    Parameters
    ----------
    rows : RowSource
        The rows.
    kernel, points
        What the coefficients belong to.
    coefficients : array of shape (n_points, n_sizes, n_outputs)
        β_s, zero for points that a model does not have.
    intercepts : array of shape (n_sizes, n_outputs)
        c_s.
    measure : callable
        Takes f_s at some rows, of shape (n_rows, n_sizes, n_outputs), and the entries of every
        aligned array that belong to these rows, and returns sums over them, of shape (n_measures,
        n_sizes).
    aligned : sequence of arrays
        What else the measure needs, one entry per row.
    workers : Workers
        Threads.

    Returns
    -------
    sums : array of shape (n_measures, n_sizes)
    """
    n_points, n_sizes, n_outputs = coefficients.shape
    step = max(16, limits.TILE_ENTRIES // max(n_points, n_sizes * n_outputs, 1))
    task = TileTask(partial(_measured, coefficients, intercepts, measure), (points,), step)
    return sum_pass(rows, kernel, task, workers, *aligned)


def _measured(
    coefficients: Floats,
    intercepts: Floats,
    measure: Callable[..., Floats],
    bound: BoundKernel,
    items: Any,
    *aligned: NDArray[Any],
) -> Floats:
    n_points, n_sizes, n_outputs = coefficients.shape
    fitted = (bound(items) @ coefficients.reshape(n_points, -1)).reshape(-1, n_sizes, n_outputs)
    fitted += intercepts
    return measure(fitted, *aligned)


@dataclass(frozen=True)
class SpannedView:
    """Rows of one view, and the span they are expressed in: points S and R⁻¹ with K_SS = RR'."""

    rows: RowSource
    kernel: Kernel
    points: Any
    whitener: Floats


def paired_moments(views: Sequence[SpannedView], weights: Floats, workers: Workers) -> Floats:
    """Σ_i w_i z_i z_i' with z = [V_x, V_y, …, 1] for rows known by several views."""
    first, others = views[0], [view.rows for view in views[1:]]
    # Rows go separately: those of the other views follow those of the first to where they lie.
    spans = [replace(view, rows=IndexRows(0)) for view in views]
    return sum_pass(first.rows, first.kernel, partial(_moments, spans), workers, weights, *others)


def _moments(spans: Sequence[SpannedView], kernel: Kernel, workers: Workers) -> Block[Floats]:
    kernels = [kernel, *(span.kernel for span in spans[1:])]
    bound = [k.columns(span.points) for k, span in zip(kernels, spans, strict=True)]

    def part(items: Any, weights: Floats, *others: Any) -> Floats:
        features = [
            columns(item) @ span.whitener.T
            for span, columns, item in zip(spans, bound, [items, *others], strict=True)
        ]
        Z = np.column_stack([*features, np.ones(len(weights))])
        Z *= np.sqrt(weights[:, None])
        product: Floats = Z.T @ Z
        return product

    return chunked(part, _FEATURE_ROWS, workers)


# The whole kernel matrix


def kernel_product(
    rows: RowSource,
    kernel: Kernel,
    vectors: Floats,
    workers: Workers,
    after_block: Callable[[int], None] | None = None,
    dtype: DTypeLike = np.float64,
) -> Floats:
    """K @ vectors for the whole m x m kernel matrix, in O(m) memory.

    Each tile below the diagonal is used twice, by symmetry. Contributions are added in an order
    that depends on sizes only, so the number of threads does not change the result. Tiles of
    ``dtype`` float32 cost half; their products are added up in float64, and the result has a
    relative error of about 1e-7 of ‖K‖‖v‖.
    """
    m = rows.n_rows
    result = np.zeros(vectors.shape)
    if m == 0:
        return result
    if isinstance(rows, DistributedRows | StreamedRows | Table):
        # Every part multiplies every block: with symmetry, parts would wait for each other.
        for start, items in rows.blocks(BLOCK_ROWS):
            stop = start + len_items(items)
            result += kernel_times(rows, kernel, items, vectors[start:stop], workers)
            if after_block is not None:
                after_block(stop)
        return result
    scale, factors = _in_range(vectors, np.dtype(dtype))
    height = _TILE_ROWS if vectors.shape[1] <= _FEW_COLUMNS else _BLOCK_ROWS
    wave = _BLOCK_ROWS * max(8, _WAVE_NUMBERS // (_BLOCK_ROWS * max(vectors.shape[1], 1)))
    for block in Workers.slices(m, _BLOCK_ROWS):
        items = rows.take(np.arange(block.start, block.stop))
        columns = kernel.columns(items, dtype=dtype)

        def multiply(span: slice, block: slice = block, columns: BoundKernel = columns) -> Floats:
            above, inside = np.zeros(vectors[block].shape), span.start < block.stop
            items = rows.take(np.arange(span.start, span.stop))
            for piece, tile in columns.pieces(items, height):
                part = slice(span.start + piece.start, span.start + piece.stop)
                result[part] += tile @ factors[block]
                if not inside:
                    above += tile.T @ factors[part]
            return above

        for start in range(block.start, m, wave):
            tasks = Workers.slices(min(wave, m - start), _BLOCK_ROWS)
            spans = [slice(start + task.start, start + task.stop) for task in tasks]
            for above in workers.map(multiply, spans):
                result[block] += above
        if after_block is not None:
            after_block(block.stop)
    result *= scale
    return result


def summed_terms(m: int) -> int:
    """A bound on the chains of additions behind an entry of `kernel_product`, wherever rows lie.

    Products of blocks are added up one after the other, as many as there are blocks.
    """
    return min(m, BLOCK_ROWS + -(-m // _TILE_ROWS))


def _in_range(vectors: Floats, dtype: np.dtype[Any]) -> tuple[Floats | float, NDArray[Any]]:
    """The vectors in the type of the tiles; float32 ones with entries of at most 1."""
    if dtype == np.float64:
        return 1.0, vectors
    scale = np.abs(vectors).max(axis=0, initial=0.0)
    scale[scale == 0.0] = 1.0
    return scale, (vectors / scale).astype(dtype)
