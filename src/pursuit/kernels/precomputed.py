"""Kernels whose items are numbers: rows of a given matrix, or atoms of a dictionary.

Imports NumPy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pursuit._types import Indices
from pursuit.kernels.base import (
    EPS,
    BoundKernel,
    Extent,
    Items,
    Kernel,
    Tile,
    Tiles,
    Vector,
    is_sparse,
    n_items,
)

_COMPARED = 512
"""Rows of a matrix whose values are compared with those on the other side of the diagonal."""

_SINGLE = float(np.finfo(np.float32).eps)


class PrecomputedKernel(Kernel):
    """k(a, z) = matrix[a, z].

    Parameters
    ----------
    matrix : array or sparse matrix of shape (n_rows, n_columns)
        The kernel values; square, except where only blocks are asked for.
    diagonal : array of shape (n_rows,), optional
        k(a, a) of every row, for rows that are not the columns; else read off the matrix.
    """

    def __init__(self, matrix: Any, diagonal: Vector | None = None) -> None:
        values: Any = matrix.tocsr() if is_sparse(matrix) else np.asanyarray(matrix)
        if values.ndim != 2 or values.dtype.kind not in "fiub":
            raise ValueError(
                f"matrix must be a 2-D array of real numbers, got dtype {values.dtype} and "
                f"{values.ndim} dimension(s)."
            )
        self.matrix, self.diagonal = values, diagonal

    @property
    def positive_definite(self) -> bool:
        """False: not known."""
        return False

    @property
    def rounding(self) -> float:
        """That of the matrix's own type."""
        single = self.matrix.dtype.kind == "f" and self.matrix.dtype.itemsize < 8
        return float(np.finfo(self.matrix.dtype if single else np.float64).eps)

    def error(self, extent: Extent) -> float:
        """Return 0 for a symmetric float64 matrix, which is taken as exact and psd.

        One in float32, or of float32 numbers that are not whole, cannot be: it is taken to be
        within 16 of its units of such a matrix. What is not symmetric is known no better than its
        two halves agree. Some of the rows are looked at.
        """
        n_rows, n_columns = self.matrix.shape
        if n_rows != n_columns or not n_rows:
            return 16.0 * self.rounding if self.rounding > EPS else 0.0
        some = np.unique(np.linspace(0, n_rows - 1, _COMPARED).astype(np.intp))
        block = self.matrix[np.ix_(some, some)]
        block = block.toarray() if is_sparse(block) else np.asarray(block)
        block = block.astype(np.float64)
        with np.errstate(over="ignore"):
            single = np.array_equal(block, block.astype(np.float32))
        rounded = single and not np.array_equal(block, np.rint(block))
        apart, roots = np.abs(block - block.T), np.sqrt(np.maximum(np.diag(block), 0.0))
        scale = np.multiply.outer(roots, roots)
        shares = np.divide(apart, scale, out=np.zeros_like(apart), where=scale > 0)
        return max(16.0 * _SINGLE if rounded else 0.0, float(shares.max()))

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> PrecomputedColumns:
        """Bind the kernel to the columns numbered Z."""
        return PrecomputedColumns(self.matrix, Z, dtype)

    def diag(self, A: Items) -> Vector:
        """Return k(a, a) for every row number a."""
        n_rows, n_columns = self.matrix.shape
        if self.diagonal is not None:
            return np.asarray(self.diagonal[_numbers(A, n_rows)])
        if n_rows != n_columns:
            raise ValueError(f"the diagonal needs a square matrix, got shape {self.matrix.shape}.")
        rows = _numbers(A, n_rows)
        return np.asarray(self.matrix.diagonal()[rows], dtype=np.float64)


class PrecomputedColumns(Tiles):
    """Tiles read off the matrix; the columns of a sparse one are picked once."""

    def __init__(self, matrix: Any, Z: Items, dtype: npt.DTypeLike) -> None:
        numbers = _numbers(Z, matrix.shape[1])
        super().__init__(len(numbers), dtype)
        self._n_rows, self._numbers = matrix.shape[0], numbers
        self._matrix = matrix[:, numbers].tocsr() if is_sparse(matrix) else matrix

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the block matrix[A][:, Z]."""
        rows = _numbers(A, self._n_rows)
        out = self.buffer(len(rows), out)
        if is_sparse(self._matrix):
            block = self._matrix[rows].toarray()
        else:
            block = self._matrix[np.ix_(rows, self._numbers)]
        np.copyto(out, block, casting="same_kind")
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


@dataclass(frozen=True, eq=False)
class AtomKernel(Kernel):
    """Functions to choose from: several kernels at P fixed centres, known by their numbers.

    Atom a is kernel a // P at centre a % P: k(x, a) = k_(a // P)(x, c_(a % P)). This is no kernel
    between items, but it has the same tiles, with rows on the left and atoms on the right.
    """

    kernels: tuple[Kernel, ...]
    centers: Items

    @property
    def n_atoms(self) -> int:
        """Kernels times centres."""
        return len(self.kernels) * n_items(self.centers)

    @property
    def positive_definite(self) -> bool:
        """False: a dictionary has no matrix of its own."""
        return False

    @property
    def rounding(self) -> float:
        """The largest of its kernels."""
        return max(kernel.rounding for kernel in self.kernels)

    def error(self, extent: Extent) -> float:
        """Return the largest of its kernels, for rows within the extent and all centres.

        It is relative to √(k(x, x) k(c, c)) of the kernel of each atom.
        """
        joined = extent.joined(Extent.of(self.centers))
        return max(kernel.error(joined) for kernel in self.kernels)

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> BoundKernel:
        """Bind the dictionary to the atoms numbered Z."""
        atoms = np.asarray(Z, dtype=np.intp)
        kernel_of, center_of = np.divmod(atoms, max(n_items(self.centers), 1))
        parts: list[tuple[Indices, BoundKernel]] = []
        for number in np.unique(kernel_of):
            where = np.flatnonzero(kernel_of == number)
            bound = self.kernels[number].columns(_take(self.centers, center_of[where]), dtype)
            parts.append((where, bound))
        if len(parts) == 1:
            return parts[0][1]
        return DictionaryColumns(parts, len(atoms), dtype)

    def diag(self, A: Items) -> Vector:
        """Return zeros: an item has no value with itself here."""
        return np.zeros(n_items(A))


class DictionaryColumns(Tiles):
    """Tiles put together from those of several kernels."""

    def __init__(
        self, parts: Sequence[tuple[Indices, BoundKernel]], n_columns: int, dtype: npt.DTypeLike
    ) -> None:
        super().__init__(n_columns, dtype)
        self._parts = parts

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the block k(A, Z)."""
        out = self.buffer(n_items(A), out)
        for where, columns in self._parts:
            out[:, where] = columns(A)
        return out


def _take(items: Items, index: Indices) -> Items:
    return [items[i] for i in index] if isinstance(items, list) else items[index]
