"""Forward selection for -b'β + ½β'Hβ: Algorithm 1 of SB01 (Smola and Bartlett 2001)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.gram import GramStatistics
from pursuit.kernels import Kernel
from pursuit.linalg import EPS, PivotedCholesky, Workers
from pursuit.objectives.base import TRUST, FactorObjective
from pursuit.rows import RowSource, in_memory

_LOOK_AHEAD = 16, 256

_SINGLE_TRUST = 10.0
"""The same as `TRUST` for a matrix of float32, whose choice is a proposal: one digit is enough.
Larger: such a choice ends sooner; at 3 scores begin to be rounding."""


class QuadraticPursuit(FactorObjective):
    """min over β supported on the chosen set of -Σ_o b_o'β_o + ½β_o'Hβ_o, H psd (SB01 eq. 12).

    Pivoted Cholesky of H with a target-driven pivot. With gradient g = b - H[:, S]β and Schur
    complements h, candidate i lowers the value by Σ_o ½ g_io² / h_i.

    Parameters
    ----------
    diagonal : array of shape (P,) or callable
        diag H, or a function that returns its entries for an index array when first needed.
    linear : array of shape (P, n_outputs)
        b.
    columns : array of shape (P, P) or callable
        H itself, which is overwritten, or a function that returns its rows for an index array.
    capacity : int
        Largest number of candidates to take; a guess is fine.
    workers : Workers
        Threads.
    look_ahead : bool
        Whether to ask a function for the columns of several likely candidates at once. It is
        faster where a column is looked up, and wasteful where it must be computed.
    offset : float
        Constant added to the value.
    rounding : float
        Relative rounding error of H.
    trust : float
        How far a pivot must exceed its accumulated rounding error.
    known_psd : bool
        Whether H is known to be psd. Where it is not, a choice that leaves a negative pivot raises
        `NotPositiveDefiniteError`.
    """

    def __init__(
        self,
        diagonal: Floats | Callable[[Indices], Floats],
        linear: Floats,
        columns: Floats | Callable[[Indices], Floats],
        *,
        capacity: int,
        workers: Workers,
        look_ahead: bool = False,
        offset: float = 0.0,
        rounding: float = EPS,
        trust: float = TRUST,
        known_psd: bool = True,
    ) -> None:
        self._look_ahead, prepared = _LOOK_AHEAD if look_ahead else (1, 1)
        self._entries = diagonal if callable(diagonal) else None
        known = np.full(len(linear), np.nan) if callable(diagonal) else diagonal
        self.factor = PivotedCholesky(
            known,
            capacity,
            workers,
            prepared,
            trust,
            rounding,
            limits.GRAM_PIVOT_TOLERANCE,
            lazy=callable(diagonal),
            stored=None if callable(columns) else columns,
        )
        self._known_psd = known_psd
        if not known_psd:
            self.factor.refuse_negative(np.flatnonzero(~np.isnan(known)))
        self._gradient = np.array(linear.T, dtype=np.float64, order="C")
        self._columns = columns
        self._z: list[Floats] = []
        self._offset, self._decrease = offset, 0.0

    def restarted(self, linear: Floats) -> QuadraticPursuit:
        """The same choice so far, for another b: V does not depend on it, z = L⁻¹b_S."""
        other = copy.copy(self)
        other.factor = self.factor.copied()
        z: Floats = np.empty((0, linear.shape[1]))
        if self.factor.rank:
            z = solve_triangular(self.factor.triangle(), linear[self.chosen], lower=True)
        other._z = list(z)
        other._gradient = np.ascontiguousarray((linear - self.factor.rows.T @ z).T)
        other._decrease = 0.5 * float((z**2).sum())
        return other

    @property
    def value(self) -> float:
        """The offset less ½‖z‖², summed over outputs."""
        return self._offset - self._decrease

    @property
    def primal(self) -> float:
        """The value: in `gram_pursuit` it is P(f) of the best f in the span."""
        return self.value

    @property
    def z(self) -> Floats:
        """z = L⁻¹b_S, one row per chosen candidate; ½z² is the decrease that each brought."""
        return np.array(self._z).reshape(len(self._z), len(self._gradient))

    def coefficients(self) -> Floats:
        """β on the chosen candidates: L'β = z."""
        triangle = self.factor.triangle()
        solution: Floats = solve_triangular(triangle, self.z, lower=True, trans="T")
        return solution

    def score(self, candidates: Indices) -> Floats:
        """Σ_o ½g²/h."""
        if self._entries is not None:
            unknown = candidates[np.isnan(self.factor.diagonal[candidates])]
            if len(unknown):
                self.factor.reveal(unknown, self._entries(unknown))
        g, h = self._gradient[:, candidates], self.factor.residual[candidates]
        gain: Floats = 0.5 * np.einsum("oi,oi->i", g, g)
        usable = h > self.factor.floor[candidates]
        return np.divide(gain, h, out=np.zeros_like(gain), where=usable)

    def add(self, candidate: int) -> bool:
        """Take a candidate, or drop it when its pivot, formed from scratch, is rounding."""
        if not self.factor.is_reduced(np.array([candidate]))[0]:
            self._reduce_likely(candidate)
        column = self.factor.reduced_column(candidate)
        row = self.factor.scaled_row(candidate, column)
        if row is None or not (
            self._known_psd or self.factor.keeps_definite(candidate, row, known_psd=False)
        ):
            return False
        z = self._gradient[:, candidate] / np.sqrt(column[candidate])
        self.factor.append(candidate, row)
        for output, step in zip(self._gradient, z, strict=True):
            output -= step * row
        self._z.append(z)
        self._decrease += 0.5 * float(z @ z)
        return True

    def account_for(self, output: int, column: Floats, square: float, linear: float) -> None:
        """Take a direction v that is not a candidate into account in the gradient of one output.

        ``column`` is Hv, ``square`` v'Hv and ``linear`` b'v. The part of the gradient that v
        explains beyond the span of the chosen is removed, so that the next choices explain the
        rest. The pivots stay as they are, since other outputs have other directions.
        """
        chosen = self.chosen
        border = solve_triangular(self.factor.triangle(), column[chosen], lower=True)
        rest = square - float(border @ border)
        if rest > limits.GRAM_PIVOT_TOLERANCE * square:
            step = (linear - float(border @ self.z[:, output])) / rest
            self._gradient[output] -= step * (column - border @ self.factor.rows)

    def _reduce_likely(self, candidate: int) -> None:
        """Prepare the candidate and those with the best scores: many of them will be next."""
        likely = np.array([candidate], dtype=np.intp)
        if self._look_ahead > 1:
            free = np.flatnonzero(self.available)
            free = free[~self.factor.is_reduced(free) & (free != candidate)]
            if len(free) >= self._look_ahead:
                top = np.argpartition(self.score(free), 1 - self._look_ahead)
                free = free[top[1 - self._look_ahead :]]
            likely = np.concatenate([likely, np.sort(free)])
        assert callable(self._columns)
        self.factor.reduce(likely, self._columns(likely))


def gram_pursuit(
    statistics: GramStatistics,
    kernel_matrix: Floats,
    noise: float,
    *,
    capacity: int,
    workers: Workers,
    rounding: float = EPS,
) -> QuadraticPursuit:
    """SB01's P on the pool: H = G + σ²K_ZZ, b = K_Z'Wy. Overwrites ``kernel_matrix``.

    H has the type of ``kernel_matrix``, float64, or float32 for a choice that only proposes.
    """
    H = kernel_matrix
    single = H.dtype == np.float32
    H *= noise
    H += statistics.gram
    return QuadraticPursuit(
        np.diag(H),
        statistics.cross,
        H,
        capacity=capacity,
        workers=workers,
        offset=0.5 * float(statistics.target_norms.sum()),
        rounding=max(rounding, float(np.finfo(H.dtype).eps)),
        trust=_SINGLE_TRUST if single else TRUST,
    )


def dual_pursuit(
    rows: RowSource,
    targets: Floats,
    weights: Floats,
    kernel: Kernel,
    noise: float,
    *,
    capacity: int,
    workers: Workers,
) -> QuadraticPursuit:
    """SB01's Q*: H = K + σ²W⁻¹, b = y, over the given rows; columns on demand.

    Columns of likely candidates are computed a few at a time. Some are computed in vain, but a
    tile is cheaper than the same number of single columns.
    """
    rows = in_memory(rows)
    items: Any = rows.take(np.arange(rows.n_rows))
    diagonal = kernel.diag(items) + noise / weights
    steps = Workers.slices(rows.n_rows, limits.COLUMN_ROWS)

    def columns(index: Indices) -> Floats:
        bound = kernel.columns(rows.take(index))
        block = np.concatenate(workers.map(lambda span: bound(items[span]), steps)).T.copy()
        block[np.arange(len(index)), index] += noise / weights[index]
        return block

    return QuadraticPursuit(
        diagonal,
        targets,
        columns,
        capacity=capacity,
        workers=workers,
        look_ahead=True,
        rounding=kernel.rounding,
    )
