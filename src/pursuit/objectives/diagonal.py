"""Plain pivoted Cholesky of the kernel matrix: the trace of what is missed."""

from __future__ import annotations

import numpy as np

from pursuit.gram import ColumnMatrix
from pursuit.kernels import Kernel
from pursuit.linalg import Workers
from pursuit.objectives.residual import ResidualPursuit
from pursuit.rows import RowSource


class DiagonalPursuit(ResidualPursuit):
    """τ = tr(K - VV') with the largest residual diagonal as pivot (Formulas §3).

    The score d_i is a lower bound on the decrease of τ, which is ‖e_i‖²/d_i, and needs no columns.
    """

    def __init__(self, rows: RowSource, kernel: Kernel, *, capacity: int, workers: Workers) -> None:
        super().__init__(
            ColumnMatrix(rows, kernel, workers),
            np.ones(rows.n_rows),
            rule="diagonal",
            capacity=capacity,
            workers=workers,
        )
