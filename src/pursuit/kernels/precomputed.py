"""Kernels that are a matrix already: items are row numbers. Imports NumPy only."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pursuit.kernels.base import (
    Items,
    Kernel,
    Tile,
    Vector,
    is_sparse,
    tile_buffer,
    tile_dtype,
)


class PrecomputedKernel(Kernel):
    """k(a, z) = matrix[a, z].

    Parameters
    ----------
    matrix : array or sparse matrix of shape (n_rows, n_columns)
        The kernel values; square, except where only blocks are asked for.
    """

    def __init__(self, matrix: Any) -> None:
        values: Any = matrix.tocsr() if is_sparse(matrix) else np.asanyarray(matrix)
        if values.ndim != 2 or values.dtype.kind not in "fiub":
            raise ValueError(
                f"matrix must be a 2-D array of real numbers, got dtype {values.dtype} and "
                f"{values.ndim} dimension(s)."
            )
        self.matrix = values

    @property
    def positive_definite(self) -> bool:
        """False: not known."""
        return False

    @property
    def rounding(self) -> float:
        """That of the matrix's own type."""
        single = self.matrix.dtype.kind == "f" and self.matrix.dtype.itemsize < 8
        return float(np.finfo(self.matrix.dtype if single else np.float64).eps)

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> PrecomputedColumns:
        """Bind the kernel to the columns numbered Z."""
        kind = SparseColumns if is_sparse(self.matrix) else PrecomputedColumns
        return kind(self.matrix, Z, tile_dtype(dtype))

    def diag(self, A: Items) -> Vector:
        """Return matrix[a, a] for every row number a."""
        n_rows, n_columns = self.matrix.shape
        if n_rows != n_columns:
            raise ValueError(f"the diagonal needs a square matrix, got shape {self.matrix.shape}.")
        rows = _numbers(A, n_rows)
        return np.asarray(self.matrix.diagonal()[rows], dtype=np.float64)


class PrecomputedColumns:
    """Tiles read off the matrix."""

    def __init__(self, matrix: npt.NDArray[Any], Z: Items, dtype: np.dtype[Any]) -> None:
        self._matrix = matrix
        self._numbers = _numbers(Z, matrix.shape[1])
        self._dtype = dtype
        self.n_columns = len(self._numbers)

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the block matrix[A][:, Z]."""
        rows = _numbers(A, self._matrix.shape[0])
        out = tile_buffer(out, len(rows), self.n_columns, self._dtype)
        np.copyto(out, self._matrix[np.ix_(rows, self._numbers)], casting="same_kind")
        return out


class SparseColumns(PrecomputedColumns):
    """Tiles of a sparse matrix, whose columns are picked once."""

    def __init__(self, matrix: Any, Z: Items, dtype: np.dtype[Any]) -> None:
        super().__init__(matrix, Z, dtype)
        self._picked = matrix[:, self._numbers].tocsr()

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the block matrix[A][:, Z], dense."""
        rows = _numbers(A, self._matrix.shape[0])
        out = tile_buffer(out, len(rows), self.n_columns, self._dtype)
        np.copyto(out, self._picked[rows].toarray(), casting="same_kind")
        return out


def _numbers(items: Items, size: int) -> npt.NDArray[np.integer]:
    numbers: npt.NDArray[Any] = np.asarray(items)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise TypeError(
            "a precomputed kernel takes row numbers: pass a 1-D array of integers, got dtype "
            f"{numbers.dtype} and {numbers.ndim} dimension(s)."
        )
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < size):
        raise ValueError(
            f"row numbers must lie in 0..{size - 1}, got {numbers.min()}..{numbers.max()}."
        )
    return numbers.astype(np.intp, copy=False)
