"""Sums over rows that pair basis functions with arbitrary vectors or with other points."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit.gram.parts import sum_parts
from pursuit.kernels import Kernel
from pursuit.linalg import Workers
from pursuit.rows import DistributedRows, RowSource, Sample, TreeSum, in_order, len_items

Floats = NDArray[np.float64]

_CHUNK_ROWS = 1024


def kernel_transpose_times(
    rows: RowSource, kernel: Kernel, points: Any, vectors: Floats, workers: Workers
) -> Floats:
    """k(points, rows) @ vectors: shape (n_points, n_columns)."""
    if isinstance(rows, DistributedRows):
        return sum_parts(rows, kernel, partial(_part_transpose, points), vectors)
    columns = kernel.columns(points)
    tree: TreeSum[Floats] = TreeSum()
    for start, items in rows.blocks():

        def part(span: slice, start: int = start, items: Any = items) -> Floats:
            here = vectors[start + span.start : start + span.stop]
            product: Floats = columns(items[span]).T @ here
            return product

        chunks = Workers.slices(len_items(items), _CHUNK_ROWS)
        tree.add(in_order(workers.map(part, chunks)))
    return tree.total(np.zeros((columns.n_columns, vectors.shape[1])))


def cross_statistics(
    sample: Sample, kernel: Kernel, points: Any, queries: Any, workers: Workers
) -> Floats:
    """K_S'WK_T: shape (n_points, n_queries)."""
    if isinstance(sample.rows, DistributedRows):
        task = partial(_part_cross, points, queries)
        return sum_parts(sample.rows, kernel, task, sample.weights)
    basis, targets = kernel.columns(points), kernel.columns(queries)
    tree: TreeSum[Floats] = TreeSum()
    for items, _, weights in sample.blocks():

        def part(span: slice, items: Any = items, weights: Floats = weights) -> Floats:
            weighted = targets(items[span]) * weights[span, None]
            product: Floats = basis(items[span]).T @ weighted
            return product

        tree.add(in_order(workers.map(part, Workers.slices(len(weights), _CHUNK_ROWS))))
    return tree.total(np.zeros((basis.n_columns, targets.n_columns)))


def residual_squares(
    sample: Sample,
    kernel: Kernel,
    points: Any,
    coefficients: Floats,
    queries: Any,
    workers: Workers,
) -> Floats:
    """Σ_i w_i (k(x_i, t) - Σ_j k(x_i, z_j) β_jt)² for each query t."""
    if isinstance(sample.rows, DistributedRows):
        task = partial(_part_squares, points, coefficients, queries)
        return sum_parts(sample.rows, kernel, task, sample.weights)
    basis, targets = kernel.columns(points), kernel.columns(queries)
    tree: TreeSum[Floats] = TreeSum()
    for items, _, weights in sample.blocks():

        def part(span: slice, items: Any = items, weights: Floats = weights) -> Floats:
            left = targets(items[span])
            left -= basis(items[span]) @ coefficients
            square: Floats = np.einsum("ij,ij,i->j", left, left, weights[span])
            return square

        tree.add(in_order(workers.map(part, Workers.slices(len(weights), _CHUNK_ROWS))))
    return tree.total(np.zeros(targets.n_columns))


def _part_transpose(
    points: Any, rows: RowSource, kernel: Kernel, workers: Workers, vectors: Floats
) -> Floats:
    return kernel_transpose_times(rows, kernel, points, vectors, workers)


def _part_cross(
    points: Any, queries: Any, rows: RowSource, kernel: Kernel, workers: Workers, weights: Floats
) -> Floats:
    return cross_statistics(_untargeted(rows, weights), kernel, points, queries, workers)


def _part_squares(
    points: Any,
    coefficients: Floats,
    queries: Any,
    rows: RowSource,
    kernel: Kernel,
    workers: Workers,
    weights: Floats,
) -> Floats:
    sample = _untargeted(rows, weights)
    return residual_squares(sample, kernel, points, coefficients, queries, workers)


def _untargeted(rows: RowSource, weights: Floats) -> Sample:
    return Sample(rows, np.empty((len(weights), 0)), weights)
