"""Kernel functions that vary together in two views (Hussain and Shawe-Taylor 2008, HS08 §4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.gram import PsdMatrix
from pursuit.linalg import PivotedCholesky, Workers
from pursuit.objectives.base import subtract_product


class CorrelationPursuit:
    """Choose rows by how alike their residual columns are in both views (Formulas §9).

    With e_i column i of E = K - VV', V the pivoted Cholesky rows of a view, row i scores::

        ρ_i = |Σ_j w_j E^x_ji E^y_ji| / (‖e^x_i‖ ‖e^y_i‖)

    and taking it deflates both views. Where every row depends on the chosen ones in one of the
    views, as when that view has few dimensions, rows of the other view are taken by the share of
    its trace that they explain, ‖e_i‖²/(d_i tr K).

    The score is this quotient and not the decrease of :attr:`value`.

    Parameters
    ----------
    views : pair of PsdMatrix
        K of each view.
    weights : array of shape (m,)
        w.
    capacity : int
        Most rows that will be taken.
    workers : Workers
        Threads.
    running : bool, default False
        If False, ρ is formed from the columns of the candidates at every step. If True, it is kept
        up to date for all rows, at the price of two products with each K per step.
    """

    def __init__(
        self,
        views: tuple[PsdMatrix, PsdMatrix],
        weights: Floats,
        *,
        capacity: int,
        workers: Workers,
        running: bool = False,
    ) -> None:
        self._views, self._weights, self._workers = views, weights, workers
        self.factors = tuple(
            PivotedCholesky(
                K.diagonal,
                capacity,
                workers,
                rounding=K.rounding,
                tolerance=max(limits.PIVOT_TOLERANCE, 1e2 * K.rounding),
            )
            for K in views
        )
        self._traces = [max(float(weights @ factor.diagonal), 1e-300) for factor in self.factors]
        self._chosen: list[int] = []
        self._sums: Floats | None = self._all_sums() if running else None

    @property
    def available(self) -> NDArray[np.bool_]:
        """Rows independent of the chosen in both views; where there are none, in either."""
        left, right = (factor.available for factor in self.factors)
        both = left & right
        return both if both.any() else left | right

    @property
    def value(self) -> float:
        """The share of the traces that is left, summed over the views."""
        return sum(
            float(self._weights @ np.maximum(factor.residual, 0.0)) / trace
            for factor, trace in zip(self.factors, self._traces, strict=True)
        )

    @property
    def chosen(self) -> Indices:
        """Rows in the order of choice."""
        return np.array(self._chosen, dtype=np.intp)

    def score(self, candidates: Indices) -> Floats:
        """ρ, or the share of a trace where only one view is left."""
        squares = self._sums_of(candidates)
        alive = [factor.available[candidates] for factor in self.factors]
        norms = np.sqrt(squares[0] * squares[1])
        both = alive[0] & alive[1]
        usable = both & (norms > 0)
        quotient = np.divide(np.abs(squares[2]), norms, out=np.zeros_like(norms), where=usable)
        share = np.zeros_like(norms)
        for v, factor in enumerate(self.factors):
            d = np.where(alive[v], factor.residual[candidates], np.inf)
            share += squares[v] / (d * self._traces[v])
        return np.asarray(np.where(both, quotient, share))

    def add(self, candidate: int) -> bool:
        """Take a row in every view in which its residual, formed from scratch, is not rounding."""
        rows: list[Floats | None] = [None, None]
        for v, factor in enumerate(self.factors):
            e = self._residual_columns(v, np.array([candidate], dtype=np.intp))[0]
            row, known = factor.scaled_row(candidate, e), self._views[v].positive_definite
            if row is not None and factor.keeps_definite(candidate, row, known_psd=known):
                rows[v] = row
        if rows[0] is None and rows[1] is None:
            return False
        if self._sums is not None:
            self._update(self._sums, rows)
        for factor, row in zip(self.factors, rows, strict=True):
            if row is not None:
                factor.append(candidate, row)
        self._chosen.append(candidate)
        return True

    def _sums_of(self, candidates: Indices) -> Floats:
        """‖e^x‖², ‖e^y‖² and Σ w e^x e^y of the candidates."""
        if self._sums is not None:
            return self._sums[:, candidates]
        left, right = (self._residual_columns(v, candidates) for v in range(2))
        return self._inner(left, right)

    def _all_sums(self) -> Floats:
        sums = np.empty((3, len(self._weights)))
        for chunk in Workers.slices(len(self._weights), limits.COLUMN_ROWS // 8):
            index = np.arange(chunk.start, chunk.stop)
            left, right = (K.columns(index) for K in self._views)
            sums[:, chunk] = self._inner(left, right)
        return sums

    def _inner(self, left: Floats, right: Floats) -> Floats:
        pairs = (left, left), (right, right), (left, right)
        return np.stack([(a * b) @ self._weights for a, b in pairs])

    def _residual_columns(self, view: int, candidates: Indices) -> Floats:
        """Columns of E, one per row."""
        E, V = self._views[view].columns(candidates), self.factors[view].rows
        subtract_product(E, V[:, candidates].T.copy(), V, self._workers)
        return E

    def _update(self, sums: Floats, rows: list[Floats | None]) -> None:
        """The sums for E^x - vv' and E^y - uu', v or u being zero where a view stays as it is.

        ‖e^x_i‖² changes by v_i² v'Wv - 2 v_i (E^xWv)_i, and Σ_j w_j E^x_ji E^y_ji by
        v_i u_i v'Wu - u_i (E^xWu)_i - v_i (E^yWv)_i.
        """
        m, w = len(self._weights), self._weights
        vectors = np.stack([np.zeros(m) if row is None else row for row in rows])
        weighted = w * vectors
        inner = weighted @ vectors.T
        products = []
        for K, factor in zip(self._views, self.factors, strict=True):
            V = factor.rows
            products.append(K.times(weighted.T).T - (weighted @ V.T) @ V)
        for v in range(2):
            sums[v] += vectors[v] * (vectors[v] * inner[v, v] - 2.0 * products[v][v])
            np.maximum(sums[v], 0.0, out=sums[v])
        sums[2] += (
            vectors[0] * vectors[1] * inner[0, 1]
            - vectors[1] * products[0][1]
            - vectors[0] * products[1][0]
        )
