"""Low rank plus a multiple of the identity: its inverse times vectors, and what rounding costs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf

from pursuit.linalg.workers import Workers

Floats = NDArray[np.float64]

_BUFFER_ROWS = 2048
_PANEL = 256
_CHUNK_NUMBERS = 1 << 17


class LowRankPlusDiagonal:
    """M = VV' + σ²I for V (m x n), as a preconditioner (SPEC 2.2).

    With LL' = V'V + σ²I it is M⁻¹ρ = (ρ - V (LL')⁻¹ V'ρ) / σ².

    V may be stored in float32; all sums are float64, so that M is symmetric and positive definite
    to float64's rounding for the V as it is stored.

    Parameters
    ----------
    V : array of shape (m, n)
        float64 or float32.
    diagonal : float
        σ².
    workers : Workers
        Threads; their number does not change a bit of the result.
    """

    def __init__(self, V: NDArray[Any], diagonal: float, workers: Workers) -> None:
        self.V, self.diagonal, self._workers = V, diagonal, workers
        gram = self._gram()
        self._trace = float(np.trace(gram))
        gram[np.diag_indices_from(gram)] += diagonal
        L, info = dpotrf(gram, lower=1, clean=1, overwrite_a=1) if len(gram) else (gram, 0)
        if info != 0:
            raise ArithmeticError(
                f"V'V + {diagonal:g} I lost positive definiteness to rounding at column {info - 1}."
            )
        self._L = np.asarray(L)

    @property
    def rank(self) -> int:
        """n."""
        return int(self.V.shape[1])

    @property
    def slack(self) -> float:
        """ε such that M ≤ (1 + ε)(UU' + σ²I), where V is U rounded to its type.

        With V = U + E and ‖E‖² ≤ e² = u² tr VV', u the unit roundoff, VV' ≤ (1 + ε)UU' +
        (1 + 1/ε)e²I for every ε > 0; the ε returned has (1 + 1/ε)e² = εσ².
        """
        roundoff = 0.5 * float(np.finfo(self.V.dtype).eps)
        share = roundoff**2 * self._trace / self.diagonal
        return float(0.5 * (share + np.sqrt(share**2 + 4.0 * share)))

    def solve(self, rhs: Floats) -> Floats:
        """M⁻¹ @ rhs."""
        if self.rank == 0:
            return rhs / self.diagonal
        half = solve_triangular(self._L, self._transposed_times(rhs), lower=True)
        inner = solve_triangular(self._L, half, lower=True, trans="T")
        result = np.empty_like(rhs)

        def subtract(rows: slice) -> None:
            chunk = self.V[rows].astype(np.float64, copy=False)
            np.subtract(rhs[rows], chunk @ inner, out=result[rows])

        self._workers.map(subtract, self._chunks(self.rank, rhs.shape[1]))
        result /= self.diagonal
        return result

    def _transposed_times(self, rhs: Floats) -> Floats:
        """V' @ rhs, a panel of V a task."""
        product = np.zeros((self.rank, rhs.shape[1]))
        chunks = self._chunks(_PANEL, rhs.shape[1])

        def multiply(panel: slice) -> None:
            for rows in chunks:
                chunk = self.V[rows, panel].astype(np.float64, copy=False)
                product[panel] += chunk.T @ rhs[rows]

        self._workers.map(multiply, Workers.slices(self.rank, _PANEL))
        return product

    def _chunks(self, width: int, columns: int) -> list[slice]:
        """Rows of V that are turned to float64 at a time: in cache, but no fewer than columns."""
        return Workers.slices(len(self.V), max(_CHUNK_NUMBERS // width, 2 * columns, 16))

    def _gram(self) -> Floats:
        """V'V, of which the lower triangle is filled."""
        gram = np.zeros((self.rank, self.rank))
        panels = Workers.slices(self.rank, _PANEL)
        for rows in Workers.slices(len(self.V), _BUFFER_ROWS):
            buffer = self.V[rows].astype(np.float64, copy=False)

            def add(panel: slice, buffer: Floats = buffer) -> None:
                gram[panel, : panel.stop] += buffer[:, panel].T @ buffer[:, : panel.stop]

            self._workers.map(add, reversed(panels))
        return gram
