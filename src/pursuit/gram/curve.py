"""Sums over rows of what models of many sizes do there, all sizes in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from pursuit._types import Floats
from pursuit.gram.engine import Block, chunked, sum_pass
from pursuit.kernels import Kernel
from pursuit.linalg import Workers
from pursuit.rows import RowSource

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
    task = partial(_measured, points, coefficients, intercepts, measure)
    return sum_pass(rows, kernel, task, workers, *aligned)


def _measured(
    points: Any,
    coefficients: Floats,
    intercepts: Floats,
    measure: Callable[..., Floats],
    kernel: Kernel,
    workers: Workers,
) -> Block[Floats]:
    columns = kernel.columns(points)
    n_points, n_sizes, n_outputs = coefficients.shape
    flat = coefficients.reshape(n_points, -1)

    def part(items: Any, *aligned: NDArray[Any]) -> Floats:
        fitted = (columns(items) @ flat).reshape(-1, n_sizes, n_outputs)
        fitted += intercepts
        return measure(fitted, *aligned)

    return chunked(part, max(16, _TILE_ENTRIES // max(n_points, flat.shape[1], 1)), workers)
