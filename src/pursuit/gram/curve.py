"""Sums over rows of what models of many sizes do there, all sizes in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit.gram.parts import sum_parts
from pursuit.kernels import Kernel
from pursuit.linalg import Workers
from pursuit.rows import DistributedRows, RowSource, TreeSum, in_order, len_items

Floats = NDArray[np.float64]

_TILE_ENTRIES = 1 << 18


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
        Takes f_s at some rows, of shape (n_rows, n_sizes, n_outputs), and what belongs to them of
        every aligned array, and returns their sums, of shape (n_measures, n_sizes).
    aligned : sequence of arrays
        What else the measure needs to know, one entry a row.
    workers : Workers
        Threads.

    Returns
    -------
    sums : array of shape (n_measures, n_sizes)
    """
    if isinstance(rows, DistributedRows):
        task = partial(_part, points, coefficients, intercepts, measure)
        return sum_parts(rows, kernel, task, *aligned)
    columns = kernel.columns(points)
    n_points, n_sizes, n_outputs = coefficients.shape
    flat = coefficients.reshape(n_points, -1)
    step = max(16, _TILE_ENTRIES // max(n_points, flat.shape[1], 1))
    tree: TreeSum[Floats] = TreeSum()
    for start, items in rows.blocks():

        def part(span: slice, start: int = start, items: Any = items) -> Floats:
            fitted = (columns(items[span]) @ flat).reshape(-1, n_sizes, n_outputs)
            fitted += intercepts
            here = slice(start + span.start, start + span.stop)
            return measure(fitted, *(array[here] for array in aligned))

        tree.add(in_order(workers.map(part, Workers.slices(len_items(items), step))))
    return tree.total()


def _part(
    points: Any,
    coefficients: Floats,
    intercepts: Floats,
    measure: Callable[..., Floats],
    rows: RowSource,
    kernel: Kernel,
    workers: Workers,
    *aligned: NDArray[Any],
) -> Floats:
    return sum_along_path(rows, kernel, points, coefficients, intercepts, measure, aligned, workers)
