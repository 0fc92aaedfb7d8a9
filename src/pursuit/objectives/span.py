"""The objective of SB01 (Smola and Bartlett 2001) from the rows: any row may be a candidate."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.kernels import Kernel
from pursuit.linalg import PivotedCholesky, RowCholesky, SpanSolution, Workers
from pursuit.objectives.base import FactorObjective
from pursuit.rows import Sample, in_memory


class SpanPursuit(FactorObjective):
    """min over f in the span of the chosen k(·, x_i) of ½Σw(y - f)² + ½σ²‖f‖² (Formulas §4).

    V holds the pivoted-Cholesky coordinates of all rows, B = V'WV + σ²I = LL', z = L⁻¹V'Wy. For a
    candidate with residual column e_i = k_i - VV_i' and d_i = K_ii - ‖V_i‖²::

        v = e_i/√d_i,   c = L⁻¹V'Wv,   den = σ² + v'Wv - c'c,   decrease = ½(v'Wy - c'z)²/den

    Time O(κ m n) for κ candidates, memory O(m n). This is the published method, in which every row
    is a candidate; it is stable where the Gram form would square the condition number.
    """

    def __init__(
        self, sample: Sample, kernel: Kernel, noise: float, *, capacity: int, workers: Workers
    ) -> None:
        m, sample = sample.n_rows, replace(sample, rows=in_memory(sample.rows))
        self._sample, self._noise, self._workers, self._kernel = sample, noise, workers, kernel
        self._items: Any = sample.rows.take(np.arange(m))
        self.factor = PivotedCholesky(
            kernel.diag(self._items),
            capacity,
            workers,
            rounding=kernel.rounding,
            tolerance=limits.PIVOT_TOLERANCE,
        )
        self._L = RowCholesky()
        self._z = np.empty((0, sample.n_outputs))
        self._norm = 0.5 * float(sample.target_norms().sum())
        self._decrease = 0.0
        self._scored: dict[int, tuple[Floats, Floats, float, Floats, float]] = {}
        self._chunks = Workers.slices(m, limits.COLUMN_ROWS)

    def restarted(self, targets: Floats) -> SpanPursuit:
        """The same choice so far, for other targets: B does not depend on them, z = L⁻¹V'Wy."""
        other = copy.copy(self)
        other._sample = replace(self._sample, targets=targets)
        other.factor, other._L = self.factor.copied(), self._L.copied()
        other._scored = {}
        weighted = self._sample.weights[:, None] * targets
        other._z = self._L.solve(self.factor.rows @ weighted)
        other._norm = 0.5 * float(other._sample.target_norms().sum())
        other._decrease = 0.5 * float((other._z**2).sum())
        return other

    @property
    def value(self) -> float:
        """P(f) of the best f in the span."""
        return self._norm - self._decrease

    @property
    def primal(self) -> float:
        """P(f) of the best f in the span, from its residuals: O(m n).

        This is the value of an actual function, whatever the rounding of its coordinates u. It
        keeps the digits that ½y'Wy - ½‖z‖² loses where the noise is small and little of y'Wy is
        left.
        """
        if not self.factor.rank:
            return self._norm
        u = solve_triangular(self._L.factor, self._z, lower=True, trans="T")
        residual = self._sample.targets - self.factor.rows.T @ u
        squares = float(self._sample.weights @ np.einsum("io,io->i", residual, residual))
        return 0.5 * (squares + self._noise * float((u**2).sum()))

    def score(self, candidates: Indices) -> Floats:
        """Decrease of the value for each candidate row."""
        V = self.factor.rows
        columns = self._kernel.columns(self._sample.rows.take(candidates))
        at_candidates = V[:, candidates].copy()
        # From scratch: the running residual has accumulated the rounding of every step.
        d = self.factor.diagonal[candidates] - np.einsum("ij,ij->j", at_candidates, at_candidates)
        dependent = d <= self.factor.floor[candidates]
        d = np.where(dependent, 1.0, d)
        y, w = self._sample.targets, self._sample.weights
        v = np.empty((self._sample.n_rows, len(candidates)))

        def project(chunk: slice) -> tuple[Floats, Floats, Floats]:
            part = columns(self._items[chunk])
            part -= V[:, chunk].T @ at_candidates
            part /= np.sqrt(d)
            v[chunk] = part
            weighted = part * w[chunk, None]
            return (
                V[:, chunk] @ weighted,
                np.einsum("ij,ij->j", part, weighted),
                weighted.T @ y[chunk],
            )

        cross = np.zeros((self.factor.rank, len(candidates)))
        square = np.zeros(len(candidates))
        target = np.zeros((len(candidates), y.shape[1]))
        for part_cross, part_square, part_target in self._workers.map(project, self._chunks):
            cross += part_cross
            square += part_square
            target += part_target
        c = self._L.solve(cross)
        den = self._noise + np.maximum(square - np.einsum("ij,ij->j", c, c), 0.0)
        step = (target - c.T @ self._z) / np.sqrt(den)[:, None]
        gains = np.where(dependent, 0.0, self._gains(step, den, square))
        self._scored = {
            int(i): (v[:, j], c[:, j], float(den[j]), step[j], float(gains[j]))
            for j, i in enumerate(candidates)
            if not dependent[j]
        }
        return gains

    def _gains(self, step: Floats, den: Floats, square: Floats) -> Floats:
        """Decreases of the value, from ``step`` = (v'Wy - c'z)/√den and ‖v‖²."""
        decrease: Floats = 0.5 * np.einsum("io,io->i", step, step)
        return decrease

    def add(self, candidate: int) -> bool:
        """Take a candidate, unless it depends on those chosen."""
        if candidate not in self._scored:
            self.score(np.array([candidate], dtype=np.intp))
        self.factor.free[candidate] = False
        if candidate not in self._scored:
            return False
        v, c, den, step, gain = self._scored[candidate]
        if not self.factor.keeps_definite(candidate, v, known_psd=self._kernel.positive_definite):
            return False
        self.factor.append(candidate, v)
        self._L.append(c, den)
        self._z = np.vstack([self._z, step])
        self._decrease += gain
        self._scored = {}
        return True

    def items(self, rows: Indices) -> Any:
        """The items of some rows."""
        return self._sample.rows.take(rows)

    def coefficients(self) -> Floats:
        """β on the chosen rows."""
        return self.solution().coefficients()

    def solution(self) -> SpanSolution:
        """The minimiser in the span of the chosen rows."""
        return SpanSolution(self.factor.triangle(), self._L.factor.copy(), self._z, self._noise)
