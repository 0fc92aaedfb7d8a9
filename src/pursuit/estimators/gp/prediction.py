"""Spread of predictions in the span of a basis, block by block."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit.kernels import Kernel
from pursuit.linalg import SpanSolution, Spread, Workers
from pursuit.rows import RowSource, len_items

Floats = NDArray[np.float64]

_ROWS = 512


def latent_variance(
    rows: RowSource,
    kernel: Kernel,
    points: Any,
    solution: SpanSolution,
    spread: Spread,
    workers: Workers,
) -> Floats:
    """Variance of f at every row, never negative."""
    columns = kernel.columns(points)
    variance = np.empty(rows.n_rows)
    for start, items in rows.blocks():

        def fill(span: slice, start: int = start, items: Any = items) -> None:
            block = items[span]
            variance[start + span.start : start + span.stop] = spread.variance(
                solution, columns(block), kernel.diag(block)
            )

        workers.map(fill, Workers.slices(len_items(items), _ROWS))
    return variance


def latent_covariance(
    rows: RowSource, kernel: Kernel, points: Any, solution: SpanSolution, spread: Spread
) -> Floats:
    """Joint covariance of f at all rows."""
    items = rows.take(np.arange(rows.n_rows))
    return spread.covariance(solution, kernel.tile(items, points), kernel.tile(items, items))
