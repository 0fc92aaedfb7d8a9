"""Columns of a psd matrix K, chosen by what is left of the others (Smola and Schölkopf 2000, SS00).

:class:`ResidualPursuit` works with columns of K, :class:`GramResidual` with small matrices whose
size does not depend on the number of rows.
"""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
from scipy.linalg import solve_triangular

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.gram import KernelMatrix, PsdMatrix
from pursuit.kernels import Kernel
from pursuit.linalg import EPS, PivotedCholesky, Workers
from pursuit.objectives.base import TRUST, FactorObjective, subtract_product
from pursuit.objectives.projections import (
    ColumnSpace,
    FunctionSpace,
    GreedyStep,
    KroneckerMetric,
    OwnProjection,
    Pick,
    Project,
    PublishedSpace,
    ResidualSpace,
    checked_pick,
)
from pursuit.rows import RowSource

Rule = Literal["function", "frobenius", "column", "diagonal", "feature-analysis"]
ProjectionName = Literal["function", "column", "kronecker"]

_FORM_AGAIN = 1e-4
"""E'WE is formed from scratch when its trace has fallen by this factor. Smaller: a full search by
the Frobenius rule is faster, but its scores have fewer digits."""


class ResidualPursuit(FactorObjective):
    """Columns of a psd matrix K, chosen by what a projection on the chosen ones leaves of the rest.

    With the residual E = K - K̃ of the projection, its column e_i and ‖e_i‖² = Σ_j w_j E_ji²,
    candidate i scores

    =================  =============================  ===========================================
    function           ‖e_i‖²/E_ii                    SS00 eq. 31 (HS08 Alg. 1)
    frobenius          ‖E'We_i‖²/‖e_i‖²               SS00 eq. 27
    column             ‖e_i‖²                         SS00 eq. 32
    diagonal           d_i                            plain pivoted Cholesky
    feature-analysis   ‖e_i‖²/(1 + ‖T_i‖₁)²           SS00 §7.1: the residual function
                                                      k_i - Σ_j T_ij k_j, of unit l1 norm
    =================  =============================  ===========================================

    K̃ is the best approximation in function space, VV' (SS00 §3.2), or in column space (§3.1), or
    chosen columns only (§3.3). The function rule is the decrease of tr WE for the function
    projection, the Frobenius rule that of Σ w_i w_j E_ij² for the column projection. The last two
    rules are defined for the function projection only. Rows that lie in the span of the chosen
    rows, up to rounding, are not candidates, whatever the projection.

    Parameters
    ----------
    matrix : PsdMatrix
        K.
    weights : array of shape (m,)
        w.
    rule : str or callable
        One of the above, or ``pick(step)`` (`GreedyStep`).
    projection : str or callable
        function, column or kronecker, or ``project(step, picked)``.
    capacity : int
        Largest number of candidates to take.
    workers : Workers
        Threads.
    running : bool, default False
        If False, scores are formed from the columns of the candidates at every step: O(m n) time
        and O(m) memory each. If True, sums are kept up to date for all rows at the price of a
        product with K per step, which suits a search over all rows; the Frobenius rule then keeps
        the m x m matrix E'WE. Not for callables.
    recorded : bool, default False
        Whether :attr:`step` is kept although neither the rule nor the projection is a callable.
    """

    def __init__(
        self,
        matrix: PsdMatrix,
        weights: Floats,
        *,
        rule: Rule | Pick = "function",
        projection: ProjectionName | Project = "function",
        capacity: int,
        workers: Workers,
        running: bool = False,
        recorded: bool = False,
    ) -> None:
        self._matrix, self._weights, self._rule, self._workers = matrix, weights, rule, workers
        self.factor = PivotedCholesky(
            matrix.diagonal,
            capacity,
            workers,
            rounding=matrix.rounding,
            tolerance=limits.PIVOT_TOLERANCE,
        )
        self._chunks = Workers.slices(len(weights), limits.COLUMN_ROWS)
        self._scored: tuple[Indices, Floats] | None = None
        self.space = self._space_of(projection, capacity)
        self._in_function_space = isinstance(self.space, FunctionSpace)
        self._running = running and rule != "diagonal"
        self._gram: Floats | None = None
        if self._running and rule == "frobenius":
            self._gram = self._form_gram()
        if self._running and self._gram is None:
            self._published.squares()
        self._recorded = recorded or callable(rule) or callable(projection)
        self.step: GreedyStep | None = None

    @property
    def value(self) -> float:
        """τ = Σ_i w_i d_i with d = diag(K - VV'): what the span of the chosen misses."""
        return float(self._weights @ self.factor.residual)

    @property
    def weighted_residual(self) -> Floats:
        """w_i d_i, the weights with which random pivots are drawn."""
        return self._weights * np.maximum(self.factor.residual, 0.0)

    def score(self, candidates: Indices) -> Floats:
        """By the rule; 0 for candidates that depend on the chosen."""
        if self._recorded:
            self._record(candidates)
        if callable(self._rule):
            assert self.step is not None
            return np.asarray(candidates == checked_pick(self._rule(self.step), self.step), float)
        if self._rule == "diagonal":
            return self.factor.residual[candidates]
        at = self.factor.rows[:, candidates]
        d = self.factor.diagonal[candidates] - np.einsum("ij,ij->j", at, at)
        dependent = d <= self.factor.floor[candidates]
        if self._rule == "frobenius":
            return np.where(dependent, 0.0, self._frobenius(candidates))
        squares = self.squares_of(candidates)
        if self._rule == "function":
            if not self._in_function_space:
                d = self._diagonal_of(candidates)
                dependent |= d <= self.factor.floor[candidates]
            squares = squares / np.where(dependent, 1.0, d)
        elif self._rule == "feature-analysis" and self.factor.rank:
            T = solve_triangular(self.factor.triangle(), at, lower=True, trans="T")
            squares = squares / (1.0 + np.abs(T).sum(axis=0)) ** 2
        return np.where(dependent, 0.0, squares)

    def add(self, candidate: int) -> bool:
        """Take a row, unless its residual, formed from scratch, is rounding."""
        column, e = self._column_and_residual(candidate)
        v, known_psd = self.factor.scaled_row(candidate, e), self._matrix.positive_definite
        if v is None or not self.factor.keeps_definite(candidate, v, known_psd=known_psd):
            return False
        if not self.space.take(candidate, column):
            return False
        if self._gram is not None:
            self._update_gram(self._gram, candidate, v)
        self.factor.append(candidate, v)
        self._scored = None
        if self._gram is not None and self._gram_total() < _FORM_AGAIN * self._formed_total:
            self._gram = self._form_gram()
        elif self._running and self._gram is None:
            self._published.squares()
        return True

    def squares_of(self, candidates: Indices) -> Floats:
        """‖e_i‖² of the candidates."""
        if self._gram is not None:
            return np.diag(self._gram)[candidates]
        if self._running:
            return self._published.squares()[candidates]
        return np.square(self._residual_columns(candidates)) @ self._weights

    @property
    def _published(self) -> PublishedSpace:
        return cast(PublishedSpace, self.space)

    def _space_of(self, projection: ProjectionName | Project, capacity: int) -> ResidualSpace:
        matrix, weights, factor = self._matrix, self._weights, self.factor
        if callable(projection):
            return OwnProjection(matrix, weights, factor, projection)
        if projection == "column":
            return ColumnSpace(matrix, weights, factor, capacity)
        if projection == "kronecker":
            return KroneckerMetric(matrix, weights, factor)
        return FunctionSpace(matrix, weights, factor)

    def _diagonal_of(self, candidates: Indices) -> Floats:
        """E_ii of the candidates."""
        if self._running:
            return self._published.diagonal()[candidates]
        return self._residual_columns(candidates)[np.arange(len(candidates)), candidates]

    def _residual_columns(self, candidates: Indices) -> Floats:
        """e_i of the candidates, one per row; they are kept until a candidate is taken."""
        if self._scored is not None and np.array_equal(self._scored[0], candidates):
            return self._scored[1]
        E = self._matrix.columns(candidates)
        for _ in range(self.space.passes):
            subtract_product(
                E, self.space.coefficients(candidates, E), self.space.left, self._workers
            )
        self._scored = candidates, E
        return E

    def _column_and_residual(self, candidate: int) -> tuple[Floats, Floats]:
        """Column ``candidate`` of K and of K - VV'; the former is not used in function space."""
        index = np.array([candidate], dtype=np.intp)
        if self._in_function_space:
            if self._scored is None or candidate not in self._scored[0]:
                self._residual_columns(index)
            assert self._scored is not None
            e = self._scored[1][np.flatnonzero(self._scored[0] == candidate)[0]]
            return e, e
        column = self._matrix.columns(index)
        e = column.copy()
        V = self.factor.rows
        subtract_product(e, V[:, index].T.copy(), V, self._workers)
        return column[0], e[0]

    def _frobenius(self, candidates: Indices) -> Floats:
        """‖E'We_i‖²/‖e_i‖²."""
        squares = self.squares_of(candidates)
        if self._gram is not None:
            gains = np.concatenate(
                self._workers.map(lambda rows: self._gram_squares(rows), self._chunks)
            )[candidates]
        else:
            E = self._residual_columns(candidates)
            gains = np.square(self.space.products(E)) @ self._weights
        return np.asarray(np.divide(gains, squares, out=np.zeros_like(gains), where=squares > 0))

    def _form_gram(self) -> Floats:
        """E'WE from residual columns that are formed from scratch."""
        m = len(self._weights)
        self._gram = G = np.empty((m, m))
        for stripe in Workers.slices(m, limits.COLUMN_ROWS):
            G[stripe] = self.space.products(
                self._residual_columns(np.arange(stripe.start, stripe.stop))
            )
        self._scored = None
        self._formed_total = self._gram_total()
        return G

    def _gram_total(self) -> float:
        """‖E‖² of the rows not tried yet."""
        assert self._gram is not None
        return float(np.where(self.factor.free, self._weights, 0.0) @ np.diag(self._gram))

    def _gram_squares(self, rows: slice) -> Floats:
        assert self._gram is not None
        return np.square(self._gram[rows]) @ self._weights

    def _update_gram(self, G: Floats, candidate: int, v: Floats) -> None:
        """E'WE for E - s e_p c': G - uc' - cu' with u = s G_p - ½ s² G_pp c."""
        row = G[candidate].copy()
        s, c = self._published.direction(v, row, candidate)
        u = s * row - 0.5 * s**2 * row[candidate] * c

        def update(rows: slice) -> None:
            G[rows] -= np.outer(u[rows], c)
            G[rows] -= np.outer(c[rows], u)

        self._workers.map(update, self._chunks)

    def _record(self, candidates: Indices) -> None:
        """Store the step as users' functions see it."""
        self.step = GreedyStep(
            candidates,
            self._matrix.columns(candidates).T,
            self._residual_columns(candidates).T,
            self.chosen,
            self._matrix.columns(self.chosen).T,
            self.space.expansion(),
            self.factor.diagonal,
            self._weights,
        )
        if isinstance(self.space, OwnProjection):
            self.space.step = self.step


class GramResidual(FactorObjective):
    """τ = Σ_j w_j E_jj for P candidates, from their kernel matrix K and G = Σ_j w_j k_j k_j'.

    Row j of the weighted rows behind G has kernel values k_j with the candidates. With the pivoted
    Cholesky rows v of K and e_i the residual column of candidate i on the rows, taking candidate p
    leaves (Formulas §3 with the function-space score)::

        f = e'We_p / √d_p,   c = f_p / √d_p,   u = f - ½ c v
        e'We <- e'We - u v' - v u',   ‖e_i‖² <- ‖e_i‖² - 2 u_i v_i,   d_i <- d_i - v_i²

    so that a step costs O(P n). K and G may be those of a residual kernel.

    Parameters
    ----------
    kernel_matrix : array of shape (P, P)
        K of the candidates.
    gram : array of shape (P, P)
        G.
    trace : float
        τ before the first choice.
    capacity : int
        Largest number of candidates to take.
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
            np.diag(kernel_matrix),
            capacity,
            workers,
            trust=TRUST,
            rounding=rounding,
            tolerance=limits.GRAM_PIVOT_TOLERANCE,
        )
        self._K, self._G = kernel_matrix, gram
        self._squares = np.diag(gram).copy()
        self._u = np.empty((capacity, len(gram)))
        self._trace, self._decrease = trace, 0.0

    @property
    def value(self) -> float:
        """τ."""
        return self._trace - self._decrease

    def score(self, candidates: Indices) -> Floats:
        """‖e_i‖²/d_i."""
        d, squares = self.factor.residual[candidates], self._squares[candidates]
        usable = d > self.factor.floor[candidates]
        return np.divide(squares, d, out=np.zeros_like(d), where=usable)

    def add(self, candidate: int) -> bool:
        """Take a candidate, unless its pivot, formed from scratch, is rounding."""
        V, U = self.factor.rows, self._u[: self.factor.rank]
        column = self._K[candidate] - V[:, candidate] @ V
        v = self.factor.scaled_row(candidate, column)
        if v is None:
            return False
        root = np.sqrt(column[candidate])
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


class DiagonalPursuit(ResidualPursuit):
    """τ = tr(K - VV') with the largest residual diagonal as pivot (Formulas §3).

    The score d_i is a lower bound on the decrease of τ, which is ‖e_i‖²/d_i, and needs no columns.
    """

    def __init__(self, rows: RowSource, kernel: Kernel, *, capacity: int, workers: Workers) -> None:
        super().__init__(
            KernelMatrix(rows, kernel, workers),
            np.ones(rows.n_rows),
            rule="diagonal",
            capacity=capacity,
            workers=workers,
        )
