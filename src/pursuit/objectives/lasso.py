"""Squared loss with an l1 penalty on the coefficients of kernel functions (Z03 eq. 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.bounds import l1_lower_bound
from pursuit.linalg import EPS

_SATISFIED = 1e-10
"""A correlation above α by at most this part of it counts as α: smaller is later, and finer."""

Solve = Callable[[Floats, Floats, Floats, float], Floats]
"""``solve(G, b, u, total)``: the least ½u'Gu - b'u over u ≥ 0, Σu ≤ total, from a feasible u."""


class Matrix(Protocol):
    """K, whose columns are the candidates' values on the rows."""

    def times(self, vectors: Floats) -> Floats:
        """K @ vectors."""
        ...

    def column(self, index: int) -> Floats:
        """One column."""
        ...


class LassoPursuit:
    """P(a) = ½Σw(y - Ka)² + α‖a‖₁ over all coefficient vectors a, from few that are not zero.

    Every step takes the row j whose correlation |c_j|, c = K'Wr with r = y - Ka, exceeds α most,
    and moves to the minimum over all coefficients that are not zero and a_j, each on its side of
    zero. One that becomes zero may be taken again. a is optimal where no |c_j| exceeds α.

    All correlations are known after every step, by a product with K. They price all rows: with
    s at most α/max|c|, the dual point sWr gives a lower bound on the minimum over all vectors.

    Parameters
    ----------
    matrix : Matrix
        K, symmetric and psd.
    diagonal : array of shape (m,)
        diag K; by it the rounding of products is bounded.
    targets, weights : arrays of shape (m,)
        y and w.
    alpha : float
        α.
    solve : callable
        How a step finds the coefficients.
    """

    def __init__(
        self,
        matrix: Matrix,
        diagonal: Floats,
        targets: Floats,
        weights: Floats,
        alpha: float,
        *,
        solve: Solve,
    ) -> None:
        self._matrix, self._roots = matrix, np.sqrt(diagonal)
        self._y, self._w, self._alpha, self._solve = targets, weights, alpha, solve
        self.coefficients = np.zeros(len(targets))
        self.held = np.empty(0, dtype=np.intp)
        self._columns = np.empty((0, len(targets)))
        self._gram, self._linear = np.empty((0, 0)), np.empty(0)
        self._useless = np.zeros(len(targets), bool)
        self.lower = 0.0
        self._look(targets)

    @property
    def available(self) -> NDArray[np.bool_]:
        """Rows whose coefficient is zero and that have not just failed to help."""
        return np.asarray((self.coefficients == 0) & ~self._useless)

    @property
    def n_terms(self) -> int:
        """Coefficients that are not zero."""
        return int(np.count_nonzero(self.coefficients))

    def score(self, candidates: Indices) -> Floats:
        """|c_j| - α where that is more than rounding, else 0."""
        excess = np.abs(self._c[candidates]) - self._alpha
        return np.where(excess > _SATISFIED * self._alpha, excess, 0.0)

    def add(self, candidate: int) -> bool:
        """Take a row, and minimise over all that are not zero; False where P does not fall."""
        held = np.append(self.held, candidate)
        columns = np.vstack([self._columns, self._matrix.column(candidate)])
        new = columns @ (self._w * columns[-1])
        gram = np.block([[self._gram, new[:-1, None]], [new]])
        linear = np.append(self._linear, columns[-1] @ (self._w * self._y))
        signs = np.where(self.coefficients[held] != 0, self.coefficients[held], self._c[held])
        signs = np.where(signs < 0, -1.0, 1.0)
        start = np.abs(self.coefficients[held])
        turned = gram * np.outer(signs, signs)
        u = self._solve(turned, signs * linear - self._alpha, start, np.inf)
        residual = self._y - (signs * u) @ columns
        value = self._value(residual, float(u.sum()))
        if len(self.held) and not value < self.value:
            self._useless[candidate] = True
            return False
        self._useless[:] = False
        self.coefficients = np.zeros(len(self._y))
        self.coefficients[held] = signs * u
        # The first row stays even at zero, so that a model has a basis.
        kept = u > 0 if u.any() else np.arange(len(u)) == 0
        self.held, self._columns = held[kept], columns[kept]
        self._gram, self._linear = gram[np.ix_(kept, kept)], linear[kept]
        self._look(residual)
        return True

    def partial_values(self) -> Floats:
        """P of the sums of the first 1, 2, … terms, each term as it is."""
        a = self.coefficients[self.held]
        residuals = self._y - np.cumsum(a[:, None] * self._columns, axis=0)
        return 0.5 * residuals**2 @ self._w + self._alpha * np.cumsum(np.abs(a))

    def _value(self, residual: Floats, size: float) -> float:
        return 0.5 * float(self._w @ residual**2) + self._alpha * size

    def _look(self, residual: Floats) -> None:
        """Price all rows, and keep the best lower bound."""
        weighted = self._w * residual
        self._c = self._matrix.times(weighted[:, None])[:, 0]
        self.value = self._value(residual, float(np.abs(self.coefficients).sum()))
        # |K_ij| ≤ √(K_ii K_jj) bounds the terms of every sum, and so its rounding.
        share = (len(residual) + 8) * EPS
        error = share * self._roots * float(self._roots @ np.abs(weighted))
        largest = float((np.abs(self._c) + error).max())
        if not self.coefficients.any() and largest <= self._alpha:
            # Wy is feasible as it is, and its value that of a = 0: nothing is lost in rounding.
            self.lower = self.value
            return
        linear, quadratic = float(weighted @ self._y), float(weighted @ residual)
        found = l1_lower_bound(linear, quadratic, largest, self._alpha)
        found -= share * float(np.abs(weighted) @ (np.abs(self._y) + np.abs(residual)))
        self.lower = max(self.lower, found)
