"""The residual trace in Gram form: candidates scored from small matrices, whatever the rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.linalg import EPS, PivotedCholesky, Workers

_PIVOT_TOLERANCE = 1e-10
# Two digits of a pivot are enough to choose by.
_TRUST = 100.0


class GramResidual:
    """τ = Σ_j w_j E_jj for P candidates, from their kernel matrix K and G = Σ_j w_j k_j k_j'.

    Row j of the weighted rows behind G has kernel values k_j with the candidates. With the pivoted
    Cholesky rows v of K and e_i the residual column of candidate i on the rows, taking candidate p
    leaves (Formulas §3 with the function-space score)::

        f = e'We_p / √d_p,   c = f_p / √d_p,   u = f - ½ c v
        e'We <- e'We - u v' - v u',   ‖e_i‖² <- ‖e_i‖² - 2 u_i v_i,   d_i <- d_i - v_i²

    so that a step costs O(P n). K and G may themselves be those of a residual kernel.

    Parameters
    ----------
    kernel_matrix : array of shape (P, P)
        K of the candidates.
    gram : array of shape (P, P)
        G.
    trace : float
        τ before the first choice.
    capacity : int
        Most candidates that will be taken.
    workers : Workers
        Threads.
    rounding : float or array of shape (P,)
        Relative rounding error of K, or of each of its diagonal entries.
    """

    def __init__(
        self,
        kernel_matrix: Floats,
        gram: Floats,
        trace: float,
        *,
        capacity: int,
        workers: Workers,
        rounding: float | Floats = EPS,
    ) -> None:
        self.factor = PivotedCholesky(
            np.diag(kernel_matrix), capacity, workers, trust=_TRUST, rounding=rounding
        )
        self._K, self._G = kernel_matrix, gram
        self._squares = np.diag(gram).copy()
        self._u = np.empty((capacity, len(gram)))
        self._floor = _PIVOT_TOLERANCE * self.factor.diagonal
        self._free = np.ones(len(gram), bool)
        self._trace, self._decrease = trace, 0.0

    @property
    def available(self) -> NDArray[np.bool_]:
        """Candidates neither chosen nor dependent on the chosen."""
        return self._free & self.factor.trusted & (self.factor.residual > self._floor)

    @property
    def value(self) -> float:
        """τ."""
        return self._trace - self._decrease

    @property
    def chosen(self) -> Indices:
        """Candidates in the order of choice."""
        return np.array(self.factor.pivots, dtype=np.intp)

    def score(self, candidates: Indices) -> Floats:
        """‖e_i‖²/d_i."""
        d, squares = self.factor.residual[candidates], self._squares[candidates]
        usable = d > self._floor[candidates]
        return np.divide(squares, d, out=np.zeros_like(d), where=usable)

    def add(self, candidate: int) -> bool:
        """Take a candidate, unless its pivot, formed from scratch, is rounding."""
        self._free[candidate] = False
        V, U = self.factor.rows, self._u[: self.factor.rank]
        v = self._K[candidate] - V[:, candidate] @ V
        if v[candidate] <= self._floor[candidate]:
            return False
        root = np.sqrt(v[candidate])
        v /= root
        u = self._G[candidate] - U[:, candidate] @ V
        u -= V[:, candidate] @ U
        u /= root
        decrease = float(u[candidate] / root)
        u -= 0.5 * decrease * v
        self._u[self.factor.rank] = u
        self.factor.append(candidate, v)
        u *= v
        u *= 2.0
        self._squares -= u
        np.maximum(self._squares, 0.0, out=self._squares)
        self._decrease += decrease
        return True
