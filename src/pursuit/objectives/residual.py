"""Primitive B of the specification: pivoted Cholesky of a psd matrix, pivots by any rule."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from pursuit.gram import PsdMatrix
from pursuit.linalg import PivotedCholesky, Workers
from pursuit.objectives.base import Floats, Indices

Rule = Literal["function", "column", "diagonal", "feature-analysis"]

_PIVOT_TOLERANCE = 1e-12
_ROW_CHUNK = 2048


class ResidualPursuit:
    """τ = Σ_i w_i d_i, d the diagonal of E = H - VV', for a psd matrix H (SPEC 2.0, primitive B).

    With e_i column i of E and ‖e_i‖² = Σ_j w_j E_ji², candidate i scores

    =================  =============================  ===========================================
    function           ‖e_i‖²/d_i                     the decrease of τ (SS00 eq. 31; HS08 Alg. 1)
    column             ‖e_i‖²                         SS00 eq. 32
    diagonal           d_i                            plain pivoted Cholesky
    feature-analysis   ‖e_i‖²/(1 + ‖T_i‖₁)²           SS00 §7.1: the residual function
                                                      k_i - Σ_j T_ij k_j, of unit l1 norm
    =================  =============================  ===========================================

    The function rule on H = KWK is the Frobenius rule on K (SS00 eq. 27).

    Parameters
    ----------
    matrix : PsdMatrix
        H.
    weights : array of shape (m,)
        w.
    rule : str
        One of the above.
    capacity : int
        Most candidates that will be taken.
    workers : Workers
        Threads.
    running : bool, default False
        How ‖e_i‖² is known: formed from columns of the candidates at every step, O(m n) time each
        and O(m) memory; or kept up to date for all rows at the price of a product with H a step,
        which is what a search over all rows wants.
    """

    def __init__(
        self,
        matrix: PsdMatrix,
        weights: Floats,
        *,
        rule: Rule = "function",
        capacity: int,
        workers: Workers,
        running: bool = False,
    ) -> None:
        self._matrix, self._weights, self._rule, self._workers = matrix, weights, rule, workers
        self.factor = PivotedCholesky(matrix.diagonal, capacity, workers, rounding=matrix.rounding)
        self._floor = _PIVOT_TOLERANCE * self.factor.diagonal
        self._free = np.ones(len(weights), bool)
        self._chunks = Workers.slices(len(weights), _ROW_CHUNK)
        self._columns: dict[int, Floats] = {}
        self._squares: Floats | None = None
        if running and rule != "diagonal":
            self._squares = matrix.squared_columns(weights)

    @property
    def available(self) -> NDArray[np.bool_]:
        """Rows not in the span of the chosen."""
        return self._free & self.factor.trusted & (self.factor.residual > self._floor)

    @property
    def value(self) -> float:
        """τ."""
        return float(self._weights @ self.factor.residual)

    @property
    def chosen(self) -> Indices:
        """Rows in the order of choice."""
        return np.array(self.factor.pivots, dtype=np.intp)

    @property
    def weighted_residual(self) -> Floats:
        """w_i d_i, to draw random pivots by."""
        return self._weights * np.maximum(self.factor.residual, 0.0)

    def score(self, candidates: Indices) -> Floats:
        """By the rule; 0 for candidates that depend on the chosen."""
        if self._rule == "diagonal":
            return self.factor.residual[candidates]
        at = self.factor.rows[:, candidates]
        d = self.factor.diagonal[candidates] - np.einsum("ij,ij->j", at, at)
        dependent = d <= self._floor[candidates]
        squares = self._squares_of(candidates)
        if self._rule == "function":
            squares = squares / np.where(dependent, 1.0, d)
        elif self._rule == "feature-analysis" and self.factor.rank:
            T = solve_triangular(self.factor.triangle(), at, lower=True, trans="T")
            squares = squares / (1.0 + np.abs(T).sum(axis=0)) ** 2
        return np.where(dependent, 0.0, squares)

    def add(self, candidate: int) -> bool:
        """Take a row, unless its residual, formed from scratch, is rounding."""
        self._free[candidate] = False
        if candidate not in self._columns:
            self._residual_columns(np.array([candidate], dtype=np.intp))
        e = self._columns[candidate]
        if e[candidate] <= self._floor[candidate]:
            return False
        v = e / np.sqrt(e[candidate])
        known_psd = self._matrix.positive_definite
        if not self.factor.keeps_definite(candidate, v, known_psd=known_psd):
            return False
        if self._squares is not None:
            self._update_squares(self._squares, v)
        self.factor.append(candidate, v)
        self._columns = {}
        return True

    def _squares_of(self, candidates: Indices) -> Floats:
        """‖e_i‖² of the candidates."""
        if self._squares is not None:
            return self._squares[candidates]
        return np.square(self._residual_columns(candidates)) @ self._weights

    def _residual_columns(self, candidates: Indices) -> Floats:
        """e_i of the candidates, one a row; remembered until one of them is taken."""
        E, V = self._matrix.columns(candidates), self.factor.rows
        at = V[:, candidates].T.copy()

        def project(chunk: slice) -> None:
            E[:, chunk] -= at @ V[:, chunk]

        self._workers.map(project, self._chunks)
        self._columns = dict(zip(candidates.tolist(), E, strict=True))
        return E

    def _update_squares(self, squares: Floats, v: Floats) -> None:
        """‖e_i - v_i v‖² = ‖e_i‖² - 2 v_i f_i + v_i² v'Wv with f = EWv = HWv - V'VWv."""
        V, weighted = self.factor.rows, self._weights * v
        f = self._matrix.times(weighted[:, None])[:, 0] - (V @ weighted) @ V
        squares += v * (v * float(v @ weighted) - 2.0 * f)
        np.maximum(squares, 0.0, out=squares)
