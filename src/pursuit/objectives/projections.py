"""Projections inside the greedy loop of SS00 (Smola and Schölkopf 2000, §3), and users' own rules.

A projection approximates K by K̃ = L'C, where L and C have one row per chosen column, and leaves
E = K - K̃ with columns e_i = k_i - L'C_i. W is the diagonal matrix of the weights of the rows. The
three parts of SS00's Algorithm 1 that a user may write are ``pick``, ``project`` and ``bound``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from pursuit._types import Floats, Indices
from pursuit.gram import PsdMatrix
from pursuit.linalg import PivotedCholesky

_VANISHING = 1e-14
"""A column is not taken if at most this part of it lies outside the chosen columns."""


@dataclass(frozen=True)
class GreedyStep:
    """One step of Algorithm 1 of Smola and Schölkopf (2000), before a column is picked.

    Functions passed to :class:`GreedyFeatureMap` as ``rule``, ``projection`` and ``stop`` receive
    it. All arrays are read-only. Rows of weight 0 are left out, and rows are numbered without them.

    Attributes
    ----------
    candidates : array of int of shape (n_candidates,)
        M: the rows drawn at this step; none of them was chosen before.
    columns : array of shape (n_rows, n_candidates)
        K[:, M].
    residuals : array of shape (n_rows, n_candidates)
        Residuals of these columns: K[:, M] - K[:, S] T[M]'.
    chosen : array of int of shape (n,)
        S: the rows chosen so far, in the order of choice.
    chosen_columns : array of shape (n_rows, n)
        K[:, S].
    T : array of shape (n_rows, n)
        Coefficients of the projection so far: K̃ = K[:, S] T'.
    diagonal : array of shape (n_rows,)
        k(x_i, x_i).
    weights : array of shape (n_rows,)
        Weights of the rows.

    Examples
    --------
    The rule "function" of Algorithm 2 as a function, with the projection it is made for:

    >>> import numpy as np
    >>> from pursuit import GreedyFeatureMap
    >>> def pick(step):
    ...     own = step.residuals[step.candidates, np.arange(len(step.candidates))]
    ...     gains = step.weights @ step.residuals**2 / own
    ...     return step.candidates[gains.argmax()]
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> own = GreedyFeatureMap(rule=pick, n_components=10, random_state=0).fit(X)
    >>> named = GreedyFeatureMap(search="fresh", n_components=10, random_state=0).fit(X)
    >>> bool(np.all(own.component_indices_ == named.component_indices_))
    True
    """

    candidates: Indices
    columns: Floats
    residuals: Floats
    chosen: Indices
    chosen_columns: Floats
    T: Floats
    diagonal: Floats
    weights: Floats

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)


Pick = Callable[[GreedyStep], int]
"""``pick(step)`` gives the row number of one of ``step.candidates``."""

Project = Callable[[GreedyStep, int], Floats]
"""``project(step, picked)`` gives T of shape (n_rows, n + 1), the picked column last."""

StepBound = Callable[[GreedyStep, int, Floats], float]
"""``bound(step, picked, T)`` gives a number; T is that after the projection."""


def checked_pick(picked: Any, step: GreedyStep) -> int:
    """The row number that a user's rule returned, if it is a candidate."""
    if not isinstance(picked, Integral) or isinstance(picked, bool):
        raise ValueError(
            f"rule returned {picked!r}, which is not a row number: return one of step.candidates."
        )
    row = int(picked)
    if row in step.chosen:
        raise ValueError(
            f"rule returned row {row}, which is taken already: return one of step.candidates."
        )
    if row not in step.candidates:
        raise ValueError(
            f"rule returned row {row}, which is not among the {len(step.candidates)} candidates "
            "of this step: return one of step.candidates, not a position among them."
        )
    return row


def checked_coefficients(T: Any, step: GreedyStep) -> Floats:
    """T that a user's projection returned, if it is a finite matrix of the right shape."""
    m, n = step.T.shape
    try:
        coefficients = np.array(T, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"projection returned {type(T).__name__}, which is no matrix of numbers: return T as "
            "an array."
        ) from error
    if coefficients.shape != (m, n + 1):
        raise ValueError(
            f"projection returned T of shape {coefficients.shape}, expected ({m}, {n + 1}): return "
            "one row for each training row and one column for each chosen row, the picked one last."
        )
    if not np.all(np.isfinite(coefficients)):
        raise ValueError(
            "projection returned T with NaN or infinite entries: return finite coefficients, 0 "
            "for columns that are not approximated."
        )
    return coefficients


def checked_bound(bound: Any) -> float:
    """The number that a user's bound returned."""
    if not isinstance(bound, Real) or not np.isfinite(float(bound)):
        raise ValueError(
            f"stop returned {bound!r}, which is not a finite number: return a bound on the "
            "residual, which is compared with tol."
        )
    return float(bound)


SquaresOf = Callable[[Indices], Floats]


class ResidualSpace(ABC):
    """A projection inside the greedy loop.

    ``start`` is what each row counts for before the first choice, its weight included, and
    ``passes`` how often a column is projected: twice where one pass leaves rounding.
    """

    passes = 1

    def __init__(self, matrix: PsdMatrix, weights: Floats, factor: PivotedCholesky) -> None:
        self._matrix, self._weights, self._factor = matrix, weights, factor

    @property
    def start(self) -> Floats:
        """w_i K_ii."""
        return self._weights * self._factor.diagonal

    @property
    @abstractmethod
    def left(self) -> Floats:
        """L, one row for each chosen column."""

    @abstractmethod
    def coefficients(self, candidates: Indices, columns: Floats) -> Floats:
        """C' of the candidates, whose columns of K (one per row) may be partly projected."""

    @abstractmethod
    def products(self, residuals: Floats) -> Floats:
        """E'We_i for residual columns e_i, one per row."""

    def take(self, candidate: int, column: Floats) -> bool:
        """Take a column of K, unless it lies in the span of the chosen ones."""
        return True

    @abstractmethod
    def expansion(self) -> Floats:
        """T with K̃ = K_S T'."""

    @abstractmethod
    def total(self) -> float:
        """What the projection leaves of all rows together, in the measure of ``start``."""

    def _times(self, rows: Floats) -> Floats:
        """Products of K with vectors, one per row."""
        return np.ascontiguousarray(self._matrix.times(rows.T.copy()).T)


class PublishedSpace(ResidualSpace):
    """A projection that never leaves more of a column than before, with sums kept for all rows."""

    @abstractmethod
    def squares(self) -> Floats:
        """‖e_i‖² of all rows."""

    @abstractmethod
    def diagonal(self) -> Floats:
        """E_ii of all rows."""

    @abstractmethod
    def direction(self, v: Floats, row: Floats, pivot: int) -> tuple[float, Floats]:
        """s and c with E <- E - s e_p c', given row p of E'WE and the new row v of V."""

    @abstractmethod
    def of_candidates(self, candidates: Indices, squares_of: SquaresOf) -> Floats:
        """What it leaves of each candidate, its weight included; ``squares_of`` gives ‖e_i‖²."""

    @abstractmethod
    def of_others(self, available: NDArray[np.bool_]) -> float:
        """At least what it leaves of all rows that are not available."""

    @cached_property
    def _column_squares(self) -> Floats:
        """‖k_i‖² of all rows, to start from; a projection may bring them up to date in place."""
        return self._matrix.squared_columns(self._weights)


class FunctionSpace(PublishedSpace):
    """K̃ = VV', measured by Σ w_i ‖k_i - k̃_i‖² in function space, which is tr WE (SS00 §3.2)."""

    _known = 0

    @property
    def left(self) -> Floats:
        """V."""
        return self._factor.rows

    def coefficients(self, candidates: Indices, columns: Floats) -> Floats:
        """V of the candidates."""
        return self._factor.rows[:, candidates].T.copy()

    def products(self, residuals: Floats) -> Floats:
        """EWe = KWe - VV'We."""
        weighted, V = residuals * self._weights, self._factor.rows
        return self._times(weighted) - (weighted @ V.T) @ V

    def direction(self, v: Floats, row: Floats, pivot: int) -> tuple[float, Floats]:
        """E - vv' with v = e_p/√d_p."""
        return 1.0 / float(v[pivot]), v

    def expansion(self) -> Floats:
        """T = VR⁻¹."""
        if not self._factor.rank:
            return np.empty((len(self._weights), 0))
        R = self._factor.triangle()
        return np.asarray(solve_triangular(R, self._factor.rows, lower=True, trans="T").T)

    def squares(self) -> Floats:
        """‖e_i - v_i v‖² = ‖e_i‖² - 2 v_i f_i + v_i² v'Wv with f = EWv = KWv - V'VWv."""
        squares, rows = self._column_squares, self._factor.rows
        for known in range(self._known, len(rows)):
            V, v = rows[:known], rows[known]
            weighted = self._weights * v
            f = self._matrix.times(weighted[:, None])[:, 0] - (V @ weighted) @ V
            squares += v * (v * float(v @ weighted) - 2.0 * f)
            np.maximum(squares, 0.0, out=squares)
        self._known = len(rows)
        return squares

    def diagonal(self) -> Floats:
        """d."""
        return self._factor.residual

    def total(self) -> float:
        """τ (SS00 eq. 22)."""
        return float(self._weights @ self._factor.residual)

    def of_candidates(self, candidates: Indices, squares_of: SquaresOf) -> Floats:
        """w_i d_i."""
        return self._weights[candidates] * np.maximum(self._factor.residual[candidates], 0.0)

    def of_others(self, available: NDArray[np.bool_]) -> float:
        """Σ w_i d_i over them."""
        d = np.maximum(self._factor.residual, 0.0)
        return float(self._weights @ np.where(available, 0.0, d))


class ColumnSpace(PublishedSpace):
    """K̃ = QQ'WK, Q'WQ = I, measured by the squared Frobenius norm Σ w_i w_j E_ji² (SS00 §3.1).

    Columns of candidates need Q only. The norms of all residual columns and T need QWK, which is a
    product with K for each chosen column; it is formed when it is asked for.
    """

    passes = 2

    def __init__(
        self, matrix: PsdMatrix, weights: Floats, factor: PivotedCholesky, capacity: int
    ) -> None:
        super().__init__(matrix, weights, factor)
        self._Q = np.empty((capacity, len(weights)))
        self._A = np.zeros((capacity, capacity))
        self._C = np.empty((0, len(weights)))

    @property
    def left(self) -> Floats:
        """Q'."""
        return self._Q[: self._factor.rank]

    def coefficients(self, candidates: Indices, columns: Floats) -> Floats:
        """Q'W of the columns."""
        return columns @ (self.left * self._weights).T

    def products(self, residuals: Floats) -> Floats:
        """E'We = KWe, because e is orthogonal to Q."""
        return self._times(residuals * self._weights)

    def direction(self, v: Floats, row: Floats, pivot: int) -> tuple[float, Floats]:
        """E - qq'WE with q = e_p/‖e_p‖."""
        scale = 1.0 / np.sqrt(float(row[pivot]))
        return float(scale), scale * row

    def take(self, candidate: int, column: Floats) -> bool:
        """Orthogonalise the column twice, and keep what is left as a unit vector."""
        n, e = self._factor.rank, column[None].copy()
        norm = float(column**2 @ self._weights)
        A = np.zeros(n)
        for _ in range(self.passes):
            at = self.coefficients(np.array([candidate]), e)
            A += at[0]
            e -= at @ self.left
        square = float(e[0] ** 2 @ self._weights)
        if square <= _VANISHING**2 * norm:
            return False
        self._Q[n] = e[0] / np.sqrt(square)
        self._A[n, :n], self._A[n, n] = A, np.sqrt(square)
        return True

    def expansion(self) -> Floats:
        """T = C'A⁻¹ with C = Q'WK and A = K_S'WQ."""
        n = self._factor.rank
        if n == 0:
            return np.empty((len(self._weights), 0))
        A = self._A[:n, :n]
        return np.asarray(solve_triangular(A, self._right(), lower=True, trans="T").T)

    @property
    def start(self) -> Floats:
        """w_i ‖k_i‖²."""
        return self._weights * self._column_squares

    def squares(self) -> Floats:
        """‖e_i‖² of all rows."""
        C = self._right()
        residual: Floats = self._column_squares - np.einsum("ij,ij->j", C, C)
        return np.maximum(residual, 0.0, out=residual)

    def diagonal(self) -> Floats:
        """E_ii of all rows."""
        diagonal: Floats = self._factor.diagonal - np.einsum("ij,ij->j", self.left, self._right())
        return diagonal

    def total(self) -> float:
        """‖K - K̃‖² (SS00 eq. 12)."""
        return float(self._weights @ self.squares())

    def of_candidates(self, candidates: Indices, squares_of: SquaresOf) -> Floats:
        """w_i ‖e_i‖²."""
        return self._weights[candidates] * squares_of(candidates)

    def of_others(self, available: NDArray[np.bool_]) -> float:
        """At most Σ w_i d_i τ: function space leaves no less of a column, and E_ij² <= d_i d_j."""
        d = np.maximum(self._factor.residual, 0.0)
        return float(self._weights @ np.where(available, 0.0, d)) * float(self._weights @ d)

    def _right(self) -> Floats:
        known = len(self._C)
        if known < self._factor.rank:
            fresh = self._times(self.left[known:] * self._weights)
            self._C = np.concatenate([self._C, fresh])
        return self._C


class KroneckerMetric(PublishedSpace):
    """Chosen columns are removed and the others left as they are (SS00 §3.3, eq. 23).

    Measured by Σ w_i ‖k_i - k̃_i‖² in function space: the trace of the columns not chosen.
    """

    @property
    def left(self) -> Floats:
        """Nothing is taken off the columns of candidates."""
        return np.empty((0, len(self._weights)))

    def coefficients(self, candidates: Indices, columns: Floats) -> Floats:
        """None."""
        return np.empty((len(candidates), 0))

    def products(self, residuals: Floats) -> Floats:
        """KWe_i at the rows not chosen."""
        product = self._times(residuals * self._weights)
        product[:, self._factor.pivots] = 0.0
        return product

    def direction(self, v: Floats, row: Floats, pivot: int) -> tuple[float, Floats]:
        """Column p becomes 0."""
        return 1.0, (np.arange(len(row)) == pivot).astype(np.float64)

    def expansion(self) -> Floats:
        """T_ij = 1 where i is the j-th chosen."""
        rows, chosen = np.arange(len(self._weights)), np.array(self._factor.pivots, dtype=np.intp)
        return np.asarray(rows[:, None] == chosen, dtype=np.float64)

    def squares(self) -> Floats:
        """‖k_i‖² of all rows."""
        return self._column_squares

    def diagonal(self) -> Floats:
        """K_ii of all rows."""
        return self._factor.diagonal

    def total(self) -> float:
        """Σ w_i K_ii of those not chosen."""
        return float(self.start.sum() - self.start[self._factor.pivots].sum())

    def of_candidates(self, candidates: Indices, squares_of: SquaresOf) -> Floats:
        """w_i K_ii."""
        return self.start[candidates]

    def of_others(self, available: NDArray[np.bool_]) -> float:
        """Σ w_i K_ii of those neither available nor chosen."""
        others = np.where(available, 0.0, self.start)
        others[self._factor.pivots] = 0.0
        return float(others.sum())


class OwnProjection(ResidualSpace):
    """T as a user's function returns it, measured by Σ w_i ‖k_i - k̃_i‖² in function space."""

    def __init__(
        self, matrix: PsdMatrix, weights: Floats, factor: PivotedCholesky, project: Project
    ) -> None:
        super().__init__(matrix, weights, factor)
        self._project = project
        self._columns = np.empty((0, len(weights)))
        self._T = np.empty((len(weights), 0))
        self.step: GreedyStep | None = None

    @property
    def left(self) -> Floats:
        """K_S'."""
        return self._columns

    def coefficients(self, candidates: Indices, columns: Floats) -> Floats:
        """T of the candidates."""
        return self._T[candidates]

    def products(self, residuals: Floats) -> Floats:
        """E'We = KWe - T K_S'We."""
        weighted = residuals * self._weights
        return self._times(weighted) - (weighted @ self._columns.T) @ self._T.T

    def take(self, candidate: int, column: Floats) -> bool:
        """Ask the user's function for the new T."""
        assert self.step is not None
        self._T = checked_coefficients(self._project(self.step, candidate), self.step)
        self._columns = np.concatenate([self._columns, column[None]])
        return True

    def expansion(self) -> Floats:
        """T."""
        return self._T

    def residuals(self) -> Floats:
        """‖k_i - k̃_i‖² = K_ii - 2 T_i k_Si + T_i K_SS T_i' in function space."""
        S = self._factor.pivots
        at = 2.0 * self._columns.T - self._T @ self._columns[:, S]
        residual: Floats = self._factor.diagonal - np.einsum("ij,ij->i", self._T, at)
        return np.maximum(residual, 0.0, out=residual)

    def total(self) -> float:
        """Σ w_i ‖k_i - k̃_i‖²."""
        return float(self._weights @ self.residuals())
