"""Spread of predictions in the span of a basis, block by block."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats
from pursuit.gram import Block, chunked, row_pass
from pursuit.kernels import Kernel
from pursuit.linalg import SpanSolution, Spread, Workers
from pursuit.rows import RowSource

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
    task = partial(_variance, points, solution, spread)
    return row_pass(rows, kernel, task, workers)


def _variance(
    points: Any, solution: SpanSolution, spread: Spread, kernel: Kernel, workers: Workers
) -> Block[NDArray[Any]]:
    columns = kernel.columns(points)

    def part(items: Any) -> Floats:
        return spread.variance(solution, columns(items), kernel.diag(items))

    return chunked(part, _ROWS, workers, combine=np.concatenate)


def latent_covariance(
    rows: RowSource, kernel: Kernel, points: Any, solution: SpanSolution, spread: Spread
) -> Floats:
    """Joint covariance of f at all rows."""
    items = rows.take(np.arange(rows.n_rows))
    return spread.covariance(solution, kernel.tile(items, points), kernel.tile(items, items))
