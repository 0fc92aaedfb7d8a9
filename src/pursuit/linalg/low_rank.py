"""Tall matrices, and low rank plus a diagonal: products, inverses, and what rounding costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf
from scipy.sparse.linalg import LinearOperator

from pursuit._types import Floats
from pursuit.linalg.workers import Workers, single_threaded_blas

Blocks = Callable[[slice], NDArray[Any]]

_BLOCK = 1024
"""Rows per task; part of the last bits of sums over rows."""

_CHUNK_NUMBERS = 1 << 17
"""Numbers of a float32 matrix that are converted to float64 at a time, so that they stay in cache.
"""

_WAVE_NUMBERS = 1 << 23
"""Numbers of partial sums that wait to be added at a time: 64 MB."""


class TallMatrix:
    """V (m x n): an array, a memory-mapped file, or a function that computes blocks of rows.

    Sums over rows are taken in float64, block after block, so neither the number of threads nor the
    place where V is stored changes a bit of them.

    Parameters
    ----------
    V : array of shape (m, n), or callable
        float64 or float32; ``V(rows)`` gives the rows of a slice, and several threads call it.
    n_rows : int
        m.
    workers : Workers
        Threads.
    """

    def __init__(self, V: NDArray[Any] | Blocks, n_rows: int, workers: Workers) -> None:
        self.n_rows, self.workers = n_rows, workers
        self._block: Blocks = V if callable(V) else V.__getitem__
        self._spans = Workers.slices(n_rows, _BLOCK)
        first = self._block(slice(0, min(1, n_rows)))
        self.n_columns, self.dtype = int(first.shape[1]), first.dtype

    def gram(self, weights: Floats, dtype: DTypeLike = np.float64) -> Floats:
        """V' diag(weights) V for weights ≥ 0, its blocks multiplied in ``dtype``: O(mn²)."""
        roots = np.sqrt(weights)

        def part(rows: slice) -> NDArray[Any]:
            root, block = roots[rows], self._block(rows)
            if not root.all():
                positive = np.flatnonzero(root)
                root, block = root[positive], block[positive]
            scaled = np.multiply(block, root[:, None], dtype=np.dtype(dtype), casting="same_kind")
            return scaled.T @ scaled

        return self._sum(part, (self.n_columns, self.n_columns))

    def times(self, coordinates: Floats) -> Floats:
        """V @ coordinates, for an array of shape (n, k)."""
        result = np.empty((self.n_rows, coordinates.shape[1]))

        def fill(rows: slice) -> None:
            for span, block in self._pieces(rows, coordinates.shape[1]):
                np.matmul(block, coordinates, out=result[span])

        self.workers.map(fill, self._spans)
        return result

    def transposed_times(self, vectors: Floats) -> Floats:
        """V' @ vectors, for an array of shape (m, k)."""
        shape = self.n_columns, vectors.shape[1]

        def part(rows: slice) -> Floats:
            sums = np.zeros(shape)
            for span, block in self._pieces(rows, vectors.shape[1]):
                sums += block.T @ vectors[span]
            return sums

        return self._sum(part, shape)

    def _sum(self, part: Blocks, shape: tuple[int, int]) -> Floats:
        """Add up the parts of all blocks in row order, a wave of blocks at a time."""
        total = np.zeros(shape)
        wave = max(self.workers.n_threads, _WAVE_NUMBERS // max(total.size, 1))
        for at in range(0, len(self._spans), wave):
            for product in self.workers.map(part, self._spans[at : at + wave]):
                total += product
        return total

    def _pieces(self, rows: slice, columns: int) -> Iterator[tuple[slice, Floats]]:
        """Rows in float64; those that must be converted, as many at a time as stay in cache."""
        block = self._block(rows)
        if block.dtype == np.float64:
            yield rows, block
            return
        height = max(_CHUNK_NUMBERS // max(self.n_columns, 1), 2 * columns, 16)
        for piece in Workers.slices(len(block), height):
            span = slice(rows.start + piece.start, rows.start + piece.stop)
            yield span, block[piece].astype(np.float64)


class Factor(Protocol):
    """V (m x n), of which only products are needed; :class:`TallMatrix` is one."""

    @property
    def n_rows(self) -> int:
        """m."""
        ...

    @property
    def n_columns(self) -> int:
        """n."""
        ...

    def gram(self, weights: Floats, dtype: DTypeLike = np.float64) -> Floats:
        """V' diag(weights) V, its blocks multiplied in ``dtype``."""
        ...

    def times(self, coordinates: Floats) -> Floats:
        """V @ coordinates."""
        ...

    def transposed_times(self, vectors: Floats) -> Floats:
        """V' @ vectors."""
        ...


class LowRankPlusDiagonal:
    """M = VV' + D for V (m x n) and a positive diagonal D (Formulas §6).

    With LL' = I + V'D⁻¹V, M⁻¹ρ = D⁻¹(ρ - Vp) where LL'p = V'D⁻¹ρ: O(mn²) once, O(mn) per product.

    V may be stored in float32. All sums are float64, so M is symmetric and positive definite to the
    rounding of float64 for the V that is stored.

    Parameters
    ----------
    V : array of shape (m, n), or Factor
        float64 or float32.
    diagonal : float or array of shape (m,)
        D. An entry ∞ makes its row of M⁻¹ zero.
    workers : Workers
        Threads; their number does not change a bit of the result.
    dtype : float64 or float32
        The type in which V'D⁻¹V is multiplied. With float32 :meth:`solve` is M⁻¹ to a few digits,
        though the same symmetric matrix for every right-hand side; :meth:`refined` is exact.
    """

    def __init__(
        self,
        V: NDArray[Any] | Factor,
        diagonal: float | Floats,
        workers: Workers,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self._V = TallMatrix(V, len(V), workers) if isinstance(V, np.ndarray) else V
        self._inverse = np.broadcast_to(1.0 / np.asarray(diagonal), self._V.n_rows)
        inner = self._V.gram(self._inverse, dtype)
        inner[np.diag_indices_from(inner)] += 1.0
        with single_threaded_blas():
            L, info = dpotrf(inner, lower=1, clean=1, overwrite_a=1) if len(inner) else (inner, 0)
        if info != 0:
            raise ArithmeticError(
                f"I + V'D⁻¹V lost positive definiteness to rounding at column {info - 1}."
            )
        self._L = np.asarray(L)

    @property
    def rank(self) -> int:
        """n."""
        return self._V.n_columns

    def solve(self, rhs: Floats) -> Floats:
        """M⁻¹ @ rhs, for an array of shape (m, k)."""
        return self._expand(rhs, self.coordinates(rhs))

    def coordinates(self, rhs: Floats) -> Floats:
        """The p that minimises (ρ - Vp)'D⁻¹(ρ - Vp) + p'p per column ρ; the minimum is ρ'M⁻¹ρ."""
        return self._inner(self._project(rhs))

    def refined(self, rhs: Floats, tol: float, max_steps: int) -> tuple[Floats, Floats, float]:
        """M⁻¹ @ rhs by iterative refinement.

        Returns x, V'x, and the relative difference of V'x and p: these are equal if x is exact, and
        Vp - VV'x is the residual ρ - Mx. Stops when the difference is at most ``tol``, when it no
        longer halves, or after ``max_steps``.
        """
        p = self.coordinates(rhs)
        x = self._expand(rhs, p)
        share = np.inf
        for step in range(max_steps + 1):
            projected = self._V.transposed_times(x)
            before, share = share, _share(p - projected, p)
            if share <= tol or share > 0.5 * before or step == max_steps:
                break
            p = p - self._inner(p - projected)
            x = self._expand(rhs, p)
        return x, projected, share

    def _project(self, rhs: Floats) -> Floats:
        return self._V.transposed_times(self._inverse[:, None] * rhs)

    @single_threaded_blas()
    def _inner(self, vectors: Floats) -> Floats:
        """(LL')⁻¹ @ vectors."""
        if not self.rank:
            return vectors
        half = solve_triangular(self._L, vectors, lower=True)
        inner: Floats = solve_triangular(self._L, half, lower=True, trans="T")
        return inner

    def _expand(self, rhs: Floats, p: Floats) -> Floats:
        result = rhs - self._V.times(p)
        result *= self._inverse[:, None]
        return result


def _share(part: Floats, whole: Floats) -> float:
    """Largest ratio of norms, column by column."""
    norms = np.linalg.norm(whole, axis=0)
    norms[norms == 0.0] = 1.0
    return float((np.linalg.norm(part, axis=0) / norms).max(initial=0.0))


# As SciPy operators, for solvers that are not ours


def low_rank_operator(V: Floats) -> LinearOperator:
    """VV' (m x m) for V (m x n): O(mn) per product."""

    @single_threaded_blas()
    def multiply(vectors: Floats) -> Floats:
        return np.asarray(V @ (V.T @ vectors))

    return _symmetric(len(V), multiply)


def low_rank_inverse(V: Floats, diagonal: float | Floats) -> LinearOperator:
    """(VV' + D)⁻¹ for V (m x n) and D = diag(diagonal), one number or one per row (Formulas §6)."""
    inverse = LowRankPlusDiagonal(V, diagonal, Workers(1))

    def multiply(vectors: Floats) -> Floats:
        return inverse.solve(vectors.reshape(len(V), -1)).reshape(vectors.shape)

    return _symmetric(len(V), multiply)


def _symmetric(m: int, multiply: Callable[[Floats], Floats]) -> LinearOperator:
    operator: LinearOperator = LinearOperator(
        (m, m),
        matvec=multiply,
        rmatvec=multiply,
        matmat=multiply,
        rmatmat=multiply,
        dtype=np.float64,
    )
    return operator
