"""Sums over rows that pair basis functions with arbitrary vectors or with other points."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pursuit._types import Floats
from pursuit.gram.engine import Block, chunked, sum_pass
from pursuit.kernels import Kernel
from pursuit.linalg import Workers
from pursuit.rows import RowSource, Sample, len_items

_CHUNK_ROWS = 1024


def kernel_transpose_times(
    rows: RowSource, kernel: Kernel, points: Any, vectors: Floats, workers: Workers
) -> Floats:
    """k(points, rows) @ vectors: shape (n_points, n_columns)."""
    empty = np.zeros((len_items(points), vectors.shape[1]))
    task = partial(_transpose_times, points)
    return sum_pass(rows, kernel, task, workers, vectors, empty=empty)


def _transpose_times(points: Any, kernel: Kernel, workers: Workers) -> Block[Floats]:
    columns = kernel.columns(points)

    def part(items: Any, vectors: Floats) -> Floats:
        product: Floats = columns(items).T @ vectors
        return product

    return chunked(part, _CHUNK_ROWS, workers)


def cross_statistics(
    sample: Sample, kernel: Kernel, points: Any, queries: Any, workers: Workers
) -> Floats:
    """K_S'WK_T: shape (n_points, n_queries)."""
    empty = np.zeros((len_items(points), len_items(queries)))
    task = partial(_cross, points, queries)
    return sum_pass(sample.rows, kernel, task, workers, sample.weights, empty=empty)


def _cross(points: Any, queries: Any, kernel: Kernel, workers: Workers) -> Block[Floats]:
    basis, targets = kernel.columns(points), kernel.columns(queries)

    def part(items: Any, weights: Floats) -> Floats:
        weighted = targets(items) * weights[:, None]
        product: Floats = basis(items).T @ weighted
        return product

    return chunked(part, _CHUNK_ROWS, workers)


def residual_squares(
    sample: Sample,
    kernel: Kernel,
    points: Any,
    coefficients: Floats,
    queries: Any,
    workers: Workers,
) -> Floats:
    """Σ_i w_i (k(x_i, t) - Σ_j k(x_i, z_j) β_jt)² for each query t."""
    task = partial(_squares, points, coefficients, queries)
    empty = np.zeros(len_items(queries))
    return sum_pass(sample.rows, kernel, task, workers, sample.weights, empty=empty)


def _squares(
    points: Any, coefficients: Floats, queries: Any, kernel: Kernel, workers: Workers
) -> Block[Floats]:
    basis, targets = kernel.columns(points), kernel.columns(queries)

    def part(items: Any, weights: Floats) -> Floats:
        residual = targets(items)
        residual -= basis(items) @ coefficients
        square: Floats = np.einsum("ij,ij,i->j", residual, residual, weights)
        return square

    return chunked(part, _CHUNK_ROWS, workers)
