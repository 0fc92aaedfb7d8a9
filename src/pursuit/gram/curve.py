"""Sums over rows of what models of many sizes do there, all sizes in one pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit.kernels import Kernel
from pursuit.linalg import Workers
from pursuit.rows import Sample

Floats = NDArray[np.float64]

_TILE_ENTRIES = 1 << 18


def sum_along_path(
    sample: Sample,
    kernel: Kernel,
    points: Any,
    coefficients: Floats,
    intercepts: Floats,
    measure: Callable[[Floats, slice], Floats],
    workers: Workers,
) -> Floats:
    """Σ over rows of ``measure(F, rows)`` for the models f_s = k(·, points) β_s + c_s.

    Parameters
    ----------
    sample : Sample
        The rows.
    kernel, points
        What the coefficients belong to.
    coefficients : array of shape (n_points, n_sizes, n_outputs)
        β_s, zero for points that a model does not have.
    intercepts : array of shape (n_sizes, n_outputs)
        c_s.
    measure : callable
        Takes f_s at some rows, of shape (n_rows, n_sizes, n_outputs), and which rows they are, and
        returns their sums, of shape (n_measures, n_sizes).
    workers : Workers
        Threads.

    Returns
    -------
    sums : array of shape (n_measures, n_sizes)
    """
    columns = kernel.columns(points)
    n_points, n_sizes, n_outputs = coefficients.shape
    flat = coefficients.reshape(n_points, -1)
    step = max(16, _TILE_ENTRIES // max(n_points, flat.shape[1], 1))
    total: Any = 0.0
    start = 0
    for items, _, weights in sample.blocks():

        def part(span: slice, start: int = start, items: Any = items) -> Floats:
            fitted = (columns(items[span]) @ flat).reshape(-1, n_sizes, n_outputs)
            fitted += intercepts
            return measure(fitted, slice(start + span.start, start + span.stop))

        for piece in workers.map(part, Workers.slices(len(weights), step)):
            total = total + piece
        start += len(weights)
    return np.asarray(total)
