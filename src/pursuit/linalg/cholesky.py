"""Cholesky factors: growing, of dependent rows, bordered, damped, reordered, and the inverse."""

from __future__ import annotations

import copy
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular
from scipy.linalg.lapack import dpotrf, dpstrf, dtrtri, spotrf, strtri

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.linalg.workers import Workers, single_threaded_blas

Matrix: TypeAlias = NDArray[Any]
"""A matrix of float64 or float32."""

EPS = float(np.finfo(np.float64).eps)

INDEFINITE = 1e-5
"""Negative pivots down to this share of the largest diagonal entry count as rounding, also that of
matrices computed in float32. A smaller share refuses more kernels as indefinite."""

_LARGE_PIVOT = 1e-6
"""Pivots above this share of their diagonal entry do not blow rounding up: a negative pivot after
them proves that the matrix is indefinite."""

_ROUNDING_MARGIN = 1e2
"""A pivot must exceed this many times the rounding of its diagonal entry."""

_COLUMN_CHUNK = 1024
"""Columns per task of a pivoted factor; part of the last bits of its rows."""

_PANEL_ROWS = 64
"""Rows that are reduced by one product after the first dependent row was met."""

_TRAILING_ROWS = 128
"""Pivots whose rows are subtracted from a stored matrix by one product. More: a faster product, and
more rows to subtract from every column until then. Part of the last bits of what is left."""

_TRAILING_PANEL = 256
"""Rows of a stored matrix per task of that product. Larger: fewer tasks, more entries below the
diagonal that nobody reads."""

_INVERSE_PANEL, _FACTOR_ROWS = 128, 512
"""Columns of a panel of a factor or an inverse, and rows per task of a factor; part of its last
bits. Wider panels: fewer and longer products, more that is computed above the diagonal."""

_LEAST_DAMPING, _MOST_DAMPING = 1e-14, 1e-3
"""First and last share of the largest diagonal entry that a damped factor adds."""

_DAMPED_ROUNDINGS = (2.0, 16.0)
"""What a full factor adds to a unit diagonal, in roundings of all its pivots."""


class NotPositiveDefiniteError(ValueError):
    """A pivot is negative beyond rounding: the matrix is not a kernel matrix."""

    def __init__(self, index: int, pivot: float) -> None:
        super().__init__(f"negative pivot {pivot:g} at index {index}: the matrix is not psd.")
        self.index = index
        self.pivot = pivot


class PivotedCholesky:
    """H ≈ V'V for a psd matrix H (P x P), grown one pivot at a time in the caller's order.

    After k pivots S, ``rows`` is V (k x P) and ``residual`` is diag(H - V'V), the Schur complement
    that a further pivot would have (Formulas §2). Adding pivot i needs only column i of H::

        l = (H[:, i] - V' V[:, i]) / sqrt(residual_i),     V <- [V; l'],     residual -= l * l

    :meth:`reduce` forms H[:, i] - V'V[:, i] for several likely pivots with one matrix product, so
    that a caller who guesses well replaces memory-bound products with a vector by a few large ones;
    at most ``prepared`` of them are kept. Where H is ``stored``, all of them are prepared by and by
    (`_SchurComplement`), and it is overwritten; V has its type, float64 or float32. A residual
    counts as ``trusted`` while it exceeds ``trust`` times its accumulated rounding error, which
    starts from ``rounding`` times its diagonal entry (one number, or one per entry). With ``lazy``,
    entries of ``diagonal`` that are NaN are not known yet: their residuals are NaN until
    :meth:`reveal` sets them.

    ``available`` are the candidates that may still become pivots: not tried before, trusted, and
    with a residual above ``floor``, which is ``tolerance`` of the diagonal entry.
    """

    def __init__(
        self,
        diagonal: Floats,
        capacity: int,
        workers: Workers,
        prepared: int = 1,
        trust: float = 1e4,
        rounding: float | Floats = EPS,
        tolerance: float = 0.0,
        lazy: bool = False,
        stored: Matrix | None = None,
    ) -> None:
        self.diagonal = np.array(diagonal, dtype=np.float64)
        self.residual = self.diagonal.copy()
        self.free = np.ones(len(self.diagonal), bool)
        self.floor = tolerance * self.diagonal
        self._tolerance, self._lazy = tolerance, lazy
        self.pivots: list[int] = []
        self._scale = float(np.fmax.reduce(np.abs(self.diagonal), initial=0.0))
        self._rounding, self._inherited = rounding, list[float]()
        with np.errstate(over="ignore"):  # rows of vanishing weight have no bound on their error
            self._squared_error = (rounding * self.diagonal) ** 2
        self._trust = trust
        dtype = np.dtype(np.float64) if stored is None else stored.dtype
        self._store: Matrix = np.empty((max(1, min(capacity, 64)), len(self.diagonal)), dtype)
        self._capacity = capacity
        self._workers = workers
        # An even number of equal chunks, whatever the number of threads.
        n_chunks = 2 * -(-len(self.diagonal) // (2 * _COLUMN_CHUNK))
        self._chunks = Workers.slices(
            len(self.diagonal), -(-len(self.diagonal) // max(n_chunks, 1)) or 1
        )
        self._reduced = np.empty((prepared, len(self.diagonal)))
        self._reduced_at = np.zeros(prepared, dtype=np.intp)
        self._pivot_in = np.full(prepared, -1, dtype=np.intp)
        self._slot_of = np.full(len(self.diagonal), -1, dtype=np.intp)
        self._next_slot = 0
        self._complement = None if stored is None else _SchurComplement(stored, workers)

    @property
    def rank(self) -> int:
        """Number of pivots taken."""
        return len(self.pivots)

    @property
    def rows(self) -> Floats:
        """V, one row per pivot."""
        return self._store[: self.rank]

    @property
    def chosen(self) -> Indices:
        """The pivots in the order of choice."""
        return np.array(self.pivots, dtype=np.intp)

    @property
    def available(self) -> NDArray[np.bool_]:
        """Candidates neither tried nor dependent on the pivots; also those not known yet."""
        usable = self.trusted & (self.residual > self.floor)
        return self.free & (usable | np.isnan(self.diagonal) if self._lazy else usable)

    @property
    def inherited(self) -> Floats:
        """Squared share of the rounding in its row that each pivot hands on to all residuals."""
        return np.array(self._inherited) ** 2

    def scaled_row(self, pivot: int, column: Floats) -> Floats | None:
        """The row that ``pivot`` would append, from its column of H - V'V.

        None where the column's own entry is rounding. The pivot is not available afterwards.
        """
        self.free[pivot] = False
        if column[pivot] <= self.floor[pivot]:
            return None
        row: Floats = column / np.sqrt(column[pivot])
        return row

    def is_reduced(self, pivots: Indices) -> NDArray[np.bool_]:
        """Which of these pivots :meth:`reduce` has prepared; all of them where H is stored."""
        if self._complement is not None:
            return np.ones(len(pivots), bool)
        return self._slot_of[pivots] >= 0

    def reduce(self, pivots: Indices, columns: Floats) -> None:
        """Prepare columns of H (one per row, for ``pivots``) as columns of H - V'V.

        They replace the oldest prepared ones.
        """
        slots = (self._next_slot + np.arange(len(pivots))) % len(self._reduced)
        self._next_slot = int(slots[-1] + 1)
        replaced = self._pivot_in[slots]
        self._slot_of[replaced[replaced >= 0]] = -1
        self._pivot_in[slots], self._slot_of[pivots] = pivots, slots
        self._reduced_at[slots] = self.rank
        V, weights, E = self.rows, self.rows[:, pivots].T.copy(), self._reduced

        def subtract(chunk: slice) -> None:
            E[slots, chunk] = columns[:, chunk] - weights @ V[:, chunk]

        self._workers.map(subtract, self._chunks)

    def reduced_column(self, pivot: int) -> Floats:
        """Column ``pivot`` of H - V'V as it is now; the pivot must have been reduced."""
        if self._complement is not None:
            return self._complement.column(pivot, self.rows)
        slot = int(self._slot_of[pivot])
        column: Floats = self._reduced[slot]
        start = int(self._reduced_at[slot])
        if start == self.rank:
            return column.copy()
        V, weights, out = self.rows[start:], self.rows[start:, pivot].copy(), np.empty_like(column)

        def subtract(chunk: slice) -> None:
            np.subtract(column[chunk], weights @ V[:, chunk], out=out[chunk])

        self._workers.map(subtract, self._chunks)
        return out

    def append(self, pivot: int, row: Floats) -> None:
        """Add ``pivot``: ``row`` is its column of H - V'V over the root of its own entry."""
        self._next_row()[:] = row
        # A pivot divides the rounding of its column by its root and passes it on to all others.
        # Such errors compound where pivots are far below the largest residual.
        with np.errstate(over="ignore", under="ignore"):
            square = row * row
            inherited = np.sqrt(self._squared_error[pivot]) / row[pivot]
            self._squared_error += (row * inherited) ** 2
        self._inherited.append(float(inherited))
        self.residual -= square
        self.residual[pivot] = 0.0
        self.pivots.append(pivot)

    def reveal(self, index: Indices, diagonal: Floats) -> None:
        """Set entries of the diagonal, and compute what the pivots so far leave of them."""
        V = self.rows[:, index]
        self.diagonal[index], self.floor[index] = diagonal, self._tolerance * diagonal
        self.residual[index] = diagonal - np.einsum("ij,ij->j", V, V)
        gathered = (V * np.array(self._inherited)[:, None]) ** 2
        start = np.broadcast_to(self._rounding, len(self.diagonal))[index]
        self._squared_error[index] = (start * diagonal) ** 2 + gathered.sum(axis=0)
        self._scale = max(self._scale, float(np.abs(diagonal).max(initial=0.0)))
        self.refuse_negative(index)

    def refuse_negative(self, index: Indices) -> None:
        """Raise an error if one of these residuals is negative beyond rounding."""
        if not len(index):
            return
        worst = int(index[self.residual[index].argmin()])
        if self.residual[worst] < -INDEFINITE * self._scale:
            raise NotPositiveDefiniteError(worst, float(self.residual[worst]))

    @property
    def trusted(self) -> NDArray[np.bool_]:
        """Which residuals exceed their accumulated rounding error by far."""
        return self.residual > self._trust * np.sqrt(self._squared_error)

    def keeps_definite(self, pivot: int, row: Floats, *, known_psd: bool) -> bool:
        """Whether ``row`` leaves every residual non-negative but for rounding.

        If it does not, a large pivot proves that H is not psd, and an error is raised, unless H is
        known to be psd. Otherwise it is magnified rounding, and the pivot should be skipped.
        """
        after = np.where(np.isnan(self.residual), np.inf, self.residual - row * row)
        worst = int(after.argmin())
        if after[worst] >= -INDEFINITE * self._scale:
            return True
        if not known_psd and row[pivot] ** 2 > _LARGE_PIVOT * self.diagonal[pivot]:
            raise NotPositiveDefiniteError(worst, float(after[worst]))
        return False

    def copied(self) -> PivotedCholesky:
        """A copy that grows on its own; both share V until one of them grows."""
        other = copy.copy(self)
        other.residual, other.pivots = self.residual.copy(), list(self.pivots)
        other.diagonal, other._inherited = self.diagonal.copy(), list(self._inherited)
        other._squared_error = self._squared_error.copy()
        other.free, other.floor = self.free.copy(), self.floor.copy()
        # A store that is full is replaced by a larger one before anything is written to it.
        other._store = self.rows
        other._capacity = self._capacity + self.rank
        other._reduced = np.empty_like(self._reduced)
        other._reduced_at = np.zeros_like(self._reduced_at)
        other._pivot_in = np.full_like(self._pivot_in, -1)
        other._slot_of = np.full_like(self._slot_of, -1)
        other._next_slot = 0
        other._complement = None if self._complement is None else self._complement.copied()
        return other

    def triangle(self) -> Floats:
        """R with R R' = H[S, S]: V at the pivots, lower triangular in the order of choice."""
        triangle: Floats = np.tril(self.rows[:, self.pivots].T)
        return triangle

    def _next_row(self) -> Floats:
        if self.rank == len(self._store):
            size = min(max(2 * self.rank, 1), max(self._capacity, self.rank + 1))
            grown = np.empty((size, self._store.shape[1]), self._store.dtype)
            grown[: self.rank] = self._store
            self._store = grown
        row: Floats = self._store[self.rank]
        return row


class _SchurComplement:
    """H - V'V for a symmetric H (P x P) in memory, which it overwrites, while V grows by rows.

    A right-looking factor: after every 128 rows one product subtracts what they explain from all of
    H, on and above the diagonal panels. A column then needs the rows since. In all n pivots cost
    P²n multiplications, nearly all of them in large products, whichever pivots are taken.
    """

    def __init__(self, matrix: Matrix, workers: Workers) -> None:
        self._matrix, self._workers, self._n_subtracted = matrix, workers, 0

    def column(self, index: int, rows: Matrix) -> Matrix:
        """A column of H - V'V for these rows V, of which the first were passed before."""
        if len(rows) - self._n_subtracted >= _TRAILING_ROWS:
            self._subtract(rows[self._n_subtracted :])
            self._n_subtracted = len(rows)
        start, recent = index - index % _TRAILING_PANEL, rows[self._n_subtracted :]
        column = np.empty(len(self._matrix), self._matrix.dtype)
        column[:start], column[start:] = self._matrix[:start, index], self._matrix[index, start:]
        if len(recent):
            column -= recent[:, index] @ recent
        return column

    @single_threaded_blas()
    def _subtract(self, rows: Floats) -> None:
        """Subtract rows'rows on and above the diagonal panels."""

        def subtract(panel: slice) -> None:
            self._matrix[panel, panel.start :] -= rows[:, panel].T @ rows[:, panel.start :]

        self._workers.map(subtract, Workers.slices(len(self._matrix), _TRAILING_PANEL))

    def copied(self) -> _SchurComplement:
        """A copy that loses its own rows."""
        other = copy.copy(self)
        other._matrix = self._matrix.copy()
        return other


class RowCholesky:
    """Lower-triangular L of a matrix that grows by a row and column: L <- [[L, 0], [c', d]]."""

    def __init__(self) -> None:
        self._store = np.zeros((16, 16))
        self.size = 0

    @property
    def factor(self) -> Floats:
        """The factor so far."""
        return self._store[: self.size, : self.size]

    def copied(self) -> RowCholesky:
        """A copy that grows on its own."""
        other = copy.copy(self)
        other._store = self._store.copy()
        return other

    @single_threaded_blas()
    def solve(self, rhs: Floats) -> Floats:
        """L⁻¹ rhs."""
        if self.size == 0:
            return np.zeros_like(rhs)
        solution: Floats = solve_triangular(self.factor, rhs, lower=True, check_finite=False)
        return solution

    def append(self, row: Floats, pivot: float) -> None:
        """Append the row [row', sqrt(pivot)]."""
        n = self.size
        if n == len(self._store):
            grown = np.zeros((2 * n, 2 * n))
            grown[:n, :n] = self._store
            self._store = grown
        self._store[n, :n] = row
        self._store[n, n] = np.sqrt(pivot)
        self.size = n + 1


@single_threaded_blas()
def robust_cholesky(
    matrix: Floats, tolerance: float | None = None, rounding: float = EPS
) -> tuple[Floats, Indices]:
    """Factor a psd matrix, leaving out rows that depend on earlier ones.

    Returns (R, kept) with R R' = matrix[kept, kept]. A row is dropped if its pivot is at most
    ``tolerance`` of its diagonal entry, by default ``limits.BASIS_TOLERANCE``, or not well above
    the ``rounding`` of the entries. LAPACK factors the rows before the first such row. From there
    on panels of rows are reduced by the rows that were kept, in O(n³) however many are dropped.
    """
    tolerance = limits.BASIS_TOLERANCE if tolerance is None else tolerance
    tolerance = max(tolerance, _ROUNDING_MARGIN * rounding)
    diagonal, n = np.diag(matrix), len(matrix)
    R, info = dpotrf(matrix, lower=1, clean=1)
    good = n if info == 0 else info - 1
    weak = np.flatnonzero(np.diag(R)[:good] ** 2 <= tolerance * diagonal[:good])
    first = int(weak[0]) if len(weak) else good
    if first == n:
        return np.asarray(R), np.arange(n)
    factor = np.zeros((n, n))
    factor[:first, :first] = R[:first, :first]
    kept = np.arange(n)
    size = first
    least, large = -INDEFINITE * float(diagonal.max()), _LARGE_PIVOT * diagonal
    # A negative pivot proves an indefinite matrix only if all pivots before it were large.
    trusted = bool(np.all(np.diag(R)[:first] ** 2 > large[:first]))
    for panel in Workers.slices(n, _PANEL_ROWS):
        start = max(panel.start, first)
        if start >= panel.stop:
            continue
        before, rows = kept[:size], np.arange(start, panel.stop)
        known = solve_triangular(factor[:size, :size], matrix[np.ix_(before, rows)], lower=True).T
        schur = matrix[np.ix_(rows, rows)] - known @ known.T
        columns = np.zeros_like(schur)
        taken: list[int] = []
        for i, row in enumerate(rows):
            pivot = float(schur[i, i])
            if not pivot > tolerance * diagonal[row]:
                if trusted and pivot < least:
                    raise NotPositiveDefiniteError(int(row), pivot)
                continue
            trusted = trusted and pivot > large[row]
            column = schur[i:, i] / np.sqrt(pivot)
            schur[i:, i:] -= np.outer(column, column)
            columns[i:, len(taken)] = column
            taken.append(i)
        stop = size + len(taken)
        factor[size:stop, :size] = known[taken]
        factor[size:stop, size:stop] = columns[taken, : len(taken)]
        kept[size:stop] = rows[taken]
        size = stop
    return factor[:size, :size].copy(), kept[:size]


@single_threaded_blas()
def damped_cholesky(
    matrix: Floats,
    damping: float = 0.0,
    *,
    diagonal: Floats | float = 0.0,
    out: Floats | None = None,
    beside_others: bool = False,
) -> Floats:
    """Lower factor of matrix + diag(diagonal) + s I, for the least s that makes it definite.

    s starts at ``damping`` times the largest diagonal entry and is raised a hundredfold at a time,
    up to 1e-3 of that entry: dependent directions need no more. For solvers whose steps may be
    damped, never for a result. The factor is stored in ``out``, of Fortran's order, if it is given.
    SciPy's wrapper of LAPACK stops all other threads: ``beside_others`` has panels in place of it,
    a tenth slower, and does not set what is above the diagonal.

    Raises
    ------
    ArithmeticError
        If that does not help: the matrix is indefinite, or not finite.
    """
    # LAPACK reads columns, and rows of a symmetric matrix are columns: nothing is turned round.
    columns = matrix if matrix.flags.f_contiguous else matrix.T
    factor = np.empty(matrix.shape, order="F") if out is None else out
    entries = np.diag(matrix) + diagonal
    scale = float(entries.max(initial=0.0))
    while damping <= _MOST_DAMPING:
        factor[...] = columns
        factor[np.diag_indices_from(factor)] = entries + damping * scale
        if beside_others:
            done = panel_cholesky(factor, Workers(1)) is not None
        else:
            done = dpotrf(factor, lower=1, clean=1, overwrite_a=1)[1] == 0
        if done and np.isfinite(factor[-1:, -1:]).all():
            return factor
        damping = max(100.0 * damping, _LEAST_DAMPING)
    raise ArithmeticError(
        f"a {len(matrix)} x {len(matrix)} system is not positive definite, or not finite."
    )


@single_threaded_blas()
def extended_cholesky(matrix: Floats, R: Floats) -> tuple[Floats, Indices]:
    """Continue the factor R of the first rows of a psd matrix by the largest pivots of the others.

    Returns (V, order): row i of V (P x n) has the coordinates of row ``order[i]`` in the span of
    the first n, and V[:n] is their factor. It ends where pivots, relative to the diagonal entries,
    are rounding.
    """
    n = len(R)
    across = solve_triangular(R, matrix[:n, n:], lower=True).T
    roots = np.sqrt(np.diag(matrix)[n:])
    left = (matrix[n:, n:] - across @ across.T) / np.outer(roots, roots)
    corner, pivots, rank, _ = dpstrf(left, tol=len(matrix) * EPS, lower=1)
    pivots = pivots - 1
    V = np.zeros((len(matrix), n + rank))
    V[:n, :n], V[n:, :n] = R, across[pivots]
    V[n:, n:] = roots[pivots, None] * np.tril(corner)[:, :rank]
    return V, np.concatenate([np.arange(n), n + pivots])


@single_threaded_blas()
def full_cholesky(matrix: Floats) -> Floats | None:
    """R with RR' = matrix to rounding, however dependent the rows of a psd matrix are.

    The diagonal is raised by a multiple of its rounding in n steps, so that pivots are positive,
    and with them what a further row would leave: RR' and its border stay psd. None where that is
    not enough, so that the matrix is not psd to rounding.
    """
    roots, n = np.sqrt(np.diag(matrix)), len(matrix)
    unit = matrix / np.outer(roots, roots)
    for roundings in _DAMPED_ROUNDINGS:
        damping = roundings * n * EPS
        factor, info = dpotrf(unit + damping * np.eye(n), lower=1, clean=1)
        if info == 0 and float(np.diag(factor).min()) ** 2 > 0.5 * damping:
            return np.asarray(roots[:, None] * factor)
    return None


@single_threaded_blas()
def reordered(K: Floats, R: Floats, order: Indices) -> Floats:
    """The factor of K = RR' in another order.

    If K[order, order] cannot be factored although K just could, the factor is made from R:
    R[order] = LQ gives K[order, order] = LL'.
    """
    if np.array_equal(order, np.arange(len(R))):
        return R
    direct, info = dpotrf(K[np.ix_(order, order)], lower=1, clean=1)
    if info == 0:
        return np.asarray(direct)
    (triangle,) = qr(R[order].T, mode="r", check_finite=False)
    signs = np.where(np.diag(triangle) < 0, -1.0, 1.0)
    lower: Floats = np.tril((signs[:, None] * triangle[: len(R)]).T)
    return lower


@single_threaded_blas()
def bordered_cholesky(
    factor: Floats, cross: Floats, block: Floats, tolerance: float, rounding: float = EPS
) -> tuple[Floats, Indices]:
    """The factor of [[RR', C], [C', B]], leaving out new rows that depend on earlier ones.

    Returns (factor, kept): the factor, whose first rows are R, and the numbers of the new rows that
    were kept. A new row is dropped if its pivot is at most ``tolerance`` of its diagonal entry; old
    rows are never dropped.
    """
    n = len(factor)
    V = solve_triangular(factor, cross, lower=True).T if n else np.empty((len(block), 0))
    E = block - V @ V.T
    least = max(tolerance, _ROUNDING_MARGIN * rounding)
    alive = np.flatnonzero(np.diag(E) > least * np.diag(block)) if n else np.arange(len(block))
    corner, kept = robust_cholesky(E[np.ix_(alive, alive)], tolerance, rounding=rounding)
    kept = alive[kept]
    size = n + len(kept)
    grown = np.zeros((size, size))
    grown[:n, :n], grown[n:, :n], grown[n:, n:] = factor, V[kept], corner
    return grown, kept


@single_threaded_blas()
def panel_cholesky(C: Matrix, workers: Workers) -> list[Matrix] | None:
    """Overwrite the lower triangle of C with its factor L; return the inverses of diagonal panels.

    What lies above the diagonal is neither read nor meant. Works in the type of C, float64 or
    float32, and returns None if C is not positive definite in it. Left looking: every entry is
    written once, after one long product. Fixed panels are shared out to the threads, which LAPACK
    does not offer without results that depend on their number.
    """
    factor_of, inverse_of = (spotrf, strtri) if C.dtype == np.float32 else (dpotrf, dtrtri)
    inverses: list[Matrix] = []
    for panel in Workers.slices(len(C), _INVERSE_PANEL):
        done = slice(panel.start)
        factor, info = factor_of(
            C[panel, panel] - C[panel, done] @ C[panel, done].T, lower=1, clean=1
        )
        if info != 0:
            return None
        C[panel, panel] = factor
        inverse = np.asarray(inverse_of(factor, lower=1)[0])
        inverses.append(inverse)
        _factor_below(C, panel, inverse, workers)
    return inverses


def _factor_below(C: Matrix, panel: slice, inverse: Matrix, workers: Workers) -> None:
    """Subtract what the columns before a panel explain of the rows below it, and divide by it."""
    done = slice(panel.start)

    def divide(rows: slice) -> None:
        rows = slice(panel.stop + rows.start, panel.stop + rows.stop)
        left = C[rows, panel] - C[rows, done] @ C[panel, done].T
        C[rows, panel] = left @ inverse.T

    workers.map(divide, Workers.slices(len(C) - panel.stop, _FACTOR_ROWS))


@single_threaded_blas()
def invert_spd(C: Matrix, workers: Workers) -> tuple[Matrix, float] | None:
    """C⁻¹ and log|C| for symmetric positive definite C, which is overwritten by its inverse.

    Works in the type of C, float64 or float32. Returns None if C is not positive definite in it.
    C = LL', N = L⁻¹ by columns, C⁻¹ = N'N. Memory: C and one more of its size.
    """
    panels = Workers.slices(len(C), _INVERSE_PANEL)
    inverses = panel_cholesky(C, workers)
    if inverses is None:
        return None
    log_determinant = 2.0 * float(np.log(np.diag(C), dtype=np.float64).sum())
    N = np.zeros_like(C)

    def invert_columns(j: int) -> None:
        columns = panels[j]
        N[columns, columns] = inverses[j]
        for i in range(j + 1, len(panels)):
            rows = panels[i]
            done = slice(columns.start, rows.start)
            N[rows, columns] = -inverses[i] @ (C[rows, done] @ N[done, columns])

    workers.map(invert_columns, range(len(panels)))

    def multiply(rows: slice) -> None:
        np.matmul(N[rows.start :, rows].T, N[rows.start :, : rows.stop], out=C[rows, : rows.stop])

    workers.map(multiply, reversed(panels))
    for panel in panels:
        own = np.tril(C[panel, panel])
        C[panel, panel] = own + np.tril(own, -1).T
        C[panel, panel.stop :] = C[panel.stop :, panel].T
    return C, log_determinant
