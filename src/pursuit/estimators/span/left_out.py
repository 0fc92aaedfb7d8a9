"""Predictions of training rows by all the others, from the hat matrix of a span."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats
from pursuit.gram import Block, chunked, row_pass
from pursuit.kernels import Kernel
from pursuit.linalg import SpanSolution, Workers, column_dots
from pursuit.rows import OutputGroup, Sample
from pursuit.tuning import LeftOut

_ROWS = 512
"""Rows whose features are held at once by each thread."""


def left_out(
    sample: Sample, kernel: Kernel, points: Any, solution: SpanSolution, workers: Workers
) -> LeftOut:
    """Each row left out of the sums in turn, in one pass.

    With U = L⁻¹V_x the fit is f = U'z and its leverage h = w‖U‖². Without the row the error y - f
    becomes (y - f)/(1 - h), and ‖U‖² becomes ‖U‖²/(1 - h) (Sherman and Morrison).
    """
    task = partial(_fitted, points, solution)
    found = row_pass(sample.rows, kernel, task, workers)
    prior, missed, squares, fitted = found[:, 0], found[:, 1], found[:, 2], found[:, 3:]
    remaining = 1.0 - sample.weights * squares
    _check_remaining(remaining)
    error = (sample.targets - fitted) / remaining[:, None]
    number = np.arange(sample.n_rows)
    return LeftOut(error, missed, squares / remaining, prior, sample.weights, number)


def with_absent_rows(sample: Sample, group: OutputGroup) -> Sample:
    """The outputs of a group at all rows, with weight 0 where they were not observed."""
    if len(group.rows) == sample.n_rows:
        return group.of(sample)
    weights = np.zeros_like(sample.weights)
    weights[group.rows] = sample.weights[group.rows]
    return Sample(sample.rows, np.nan_to_num(sample.targets[:, group.columns]), weights)


def _check_remaining(remaining: Floats) -> None:
    """Every row of a sum has a leverage below 1."""
    if len(remaining) and remaining.min() <= 0:
        raise ValueError(
            f"row {int(remaining.argmin())} is not one of the rows that the model was fitted to, "
            "or has more weight than it had: leave_one_out takes rows as they were passed to fit."
        )


def _fitted(
    points: Any, solution: SpanSolution, kernel: Kernel, workers: Workers
) -> Block[NDArray[Any]]:
    """Columns k(x, x), k(x, x) - ‖V_x‖², ‖U‖², and f for each output."""
    columns = kernel.columns(points)

    def part(items: Any) -> Floats:
        V, prior = solution.features(columns(items)), kernel.diag(items)
        U = solution.rotated(V)
        missed = np.maximum(prior - column_dots(V, V), 0.0)
        return np.column_stack([prior, missed, column_dots(U, U), U.T @ solution.z])

    return chunked(part, _ROWS, workers, combine=np.concatenate)
