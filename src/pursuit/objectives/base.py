"""What the greedy loop needs of an objective."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.linalg import PivotedCholesky, Workers

TRUST = 100.0
"""In Gram form a residual counts only if it exceeds TRUST times its accumulated rounding error: two
digits are enough to choose by, and what is chosen is fitted again. Larger: smaller rank."""


class Objective(Protocol):
    """A function of a growing set of candidates, which the loop makes as small as possible.

    `pursuit.testing.check_objective` checks a new objective against this contract.
    """

    @property
    def available(self) -> NDArray[np.bool_]:
        """Mask of candidates that may still be chosen."""

    @property
    def value(self) -> float:
        """The objective for the candidates chosen so far."""

    def score(self, candidates: Indices) -> Floats:
        """Decrease of :attr:`value` that each candidate would bring."""

    def add(self, candidate: int) -> bool:
        """Take a candidate; False if it depends on those taken, and it is no longer available."""


class SpanObjective(Objective, Protocol):
    """An objective whose candidates span a space in which rows are fitted."""

    @property
    def primal(self) -> float:
        """P(f) of the best f in the span of the chosen."""

    @property
    def chosen(self) -> Indices:
        """Candidates in the order of choice."""

    def coefficients(self) -> Floats:
        """β of the best f on the chosen candidates, one column per output."""


class FactorObjective:
    """An objective whose candidates are pivots of a growing Cholesky factor."""

    factor: PivotedCholesky

    @property
    def available(self) -> NDArray[np.bool_]:
        """Candidates neither chosen nor dependent on the chosen."""
        return self.factor.available

    @property
    def chosen(self) -> Indices:
        """Candidates in the order of choice."""
        return self.factor.chosen


def subtract_product(columns: Floats, left: Floats, right: Floats, workers: Workers) -> None:
    """Columns (one per row) less left @ right, in place."""

    def subtract(chunk: slice) -> None:
        columns[:, chunk] -= left @ right[:, chunk]

    workers.map(subtract, Workers.slices(columns.shape[1], limits.COLUMN_ROWS))
