"""Plain pivoted Cholesky of the kernel matrix: the trace of what is missed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit.kernels import Kernel
from pursuit.linalg import PivotedCholesky, Workers
from pursuit.objectives.base import Floats, Indices
from pursuit.rows import RowSource

_PIVOT_TOLERANCE = 1e-12


class DiagonalPursuit:
    """τ = tr(K - VV') with the largest residual diagonal as pivot (SPEC 2.0, primitive B).

    The score d_i is a lower bound on the decrease of τ, which is ‖e_i‖²/d_i, and needs no columns.
    """

    def __init__(self, rows: RowSource, kernel: Kernel, *, capacity: int, workers: Workers) -> None:
        self._rows, self._kernel = rows, kernel
        self._items: Any = rows.take(np.arange(rows.n_rows))
        self.factor = PivotedCholesky(
            kernel.diag(self._items), capacity, workers, rounding=kernel.rounding
        )
        self._floor = _PIVOT_TOLERANCE * self.factor.diagonal
        self._free = np.ones(rows.n_rows, bool)

    @property
    def available(self) -> NDArray[np.bool_]:
        """Rows not in the span of the chosen."""
        return self._free & self.factor.trusted & (self.factor.residual > self._floor)

    @property
    def value(self) -> float:
        """τ."""
        return float(self.factor.residual.sum())

    def score(self, candidates: Indices) -> Floats:
        """d_i."""
        return self.factor.residual[candidates]

    def add(self, candidate: int) -> bool:
        """Take a row, unless its residual, formed from scratch, is rounding."""
        index = np.array([candidate], dtype=np.intp)
        column = self._kernel.tile(self._items, self._rows.take(index)).T
        self.factor.reduce(index, np.ascontiguousarray(column))
        reduced = self.factor.reduced_column(candidate)
        self._free[candidate] = False
        if reduced[candidate] <= self._floor[candidate]:
            return False
        row = reduced / np.sqrt(reduced[candidate])
        if not self.factor.keeps_definite(candidate, row, known_psd=self._kernel.positive_definite):
            return False
        self.factor.append(candidate, row)
        return True
