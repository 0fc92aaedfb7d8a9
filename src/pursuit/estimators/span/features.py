"""Rows in the coordinates of a span: V = k(rows, points) R⁻ᵀ, and a column of ones behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import solve_triangular

from pursuit._types import Floats, Indices
from pursuit.gram import kernel_features
from pursuit.greedy import Pool, Problem, kernel_matrix
from pursuit.kernels import Kernel
from pursuit.linalg import NotPositiveDefiniteError, Workers, robust_cholesky
from pursuit.rows import RowSource, len_items

STORED_BYTES = 1 << 30
"""Features of at most this size are kept in memory."""
_DOUBLE_BYTES = 1 << 27
"""Features of at most this size are kept in float64 where the user leaves the choice open."""


@dataclass(frozen=True)
class Span:
    """Basis functions that are independent to working precision, and R⁻¹ of K_SS = RR'."""

    pool: Pool
    whitener: Floats

    @classmethod
    def of(cls, pool: Pool, problem: Problem) -> Span:
        """Leave out points that depend on earlier ones."""
        K = kernel_matrix(problem.kernel, pool.items, problem.workers)
        try:
            R, kept = robust_cholesky(K, rounding=problem.kernel.rounding)
        except NotPositiveDefiniteError as error:
            raise NotPositiveDefiniteError(int(pool.index[error.index]), error.pivot) from error
        return cls(pool.take(kept), solve_triangular(R, np.eye(len(R)), lower=True))

    def __len__(self) -> int:
        return len(self.whitener)

    def coefficients(self, coordinates: Floats) -> Floats:
        """β = R⁻ᵀu: on the kernel functions, from coordinates on the orthonormal ones."""
        return np.asarray(self.whitener.T @ coordinates)


class SpanFeatures:
    """[V, 1] for slices of rows: stored, or computed whenever it is asked for.

    Parameters
    ----------
    rows : RowSource
        m rows.
    kernel : Kernel
        k.
    span : Span
        n basis functions.
    workers : Workers
        Threads.
    dtype : "auto", float32 or float64
        Type of V; ``"auto"`` is float64 up to 128 MB, float32 beyond.
    stored_bytes : int
        Most that is stored.
    """

    def __init__(
        self,
        rows: RowSource,
        kernel: Kernel,
        span: Span,
        workers: Workers,
        dtype: Any = "auto",
        stored_bytes: int = STORED_BYTES,
    ) -> None:
        self.n_rows, self.n = rows.n_rows, len(span)
        numbers = self.n_rows * (self.n + 1)
        self.dtype: DTypeLike = dtype
        if isinstance(dtype, str) and dtype == "auto":
            self.dtype = np.float64 if 8 * numbers <= _DOUBLE_BYTES else np.float32
        self._rows, self._whitener = rows, span.whitener
        self._columns = kernel.columns(span.pool.items) if self.n else None
        self.stored: NDArray[Any] | None = None
        if np.dtype(self.dtype).itemsize * numbers <= stored_bytes:
            stored = np.ones((self.n_rows, self.n + 1), dtype=self.dtype)
            if self.n:
                kernel_features(
                    rows,
                    kernel,
                    span.pool.items,
                    workers,
                    whitener=span.whitener,
                    out=stored[:, : self.n],
                )
            self.stored = stored

    def __call__(self, rows: slice) -> NDArray[Any]:
        """[V, 1] of some rows."""
        if self.stored is not None:
            return self.stored[rows]
        return self._computed(np.arange(rows.start, rows.stop))

    def _computed(self, rows: Indices) -> NDArray[Any]:
        items = self._rows.take(rows)
        features = np.ones((len_items(items), self.n + 1), dtype=self.dtype)
        if self._columns is not None:
            features[:, : self.n] = self._columns(items) @ self._whitener.T
        return features

    def span_only(self, rows: slice) -> NDArray[Any]:
        """V of some rows."""
        return self(rows)[:, : self.n]

    def span_rows(self, rows: Indices) -> NDArray[Any] | Callable[[slice], NDArray[Any]]:
        """V of these rows, increasing: an array where it is stored, else for slices of them."""
        everything = len(rows) == self.n_rows
        if self.stored is not None:
            V = self.stored[:, : self.n]
            return V if everything else V[rows]
        if everything:
            return self.span_only
        return lambda some: self._computed(rows[some])[:, : self.n]

    def squares(self, workers: Workers) -> Floats:
        """‖V_i‖² for every row."""

        def part(rows: slice) -> Floats:
            V = self.span_only(rows).astype(np.float64, copy=False)
            return np.asarray(np.einsum("ij,ij->i", V, V))

        return np.concatenate(workers.map(part, Workers.slices(self.n_rows, 1024)))
