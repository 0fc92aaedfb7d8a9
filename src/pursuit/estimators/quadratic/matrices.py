"""A symmetric matrix as columns on demand: an array, a sparse matrix or an operator."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from pursuit._types import Floats, Indices

_BLOCK = 64
"""Columns of an operator that are computed, and kept, at a time."""
_ASYMMETRY = 1e-8
"""Differences between H and H' up to this part of the largest entry are put down to rounding."""


class Columns(Protocol):
    """A symmetric matrix H of n rows."""

    n: int
    n_columns: int
    """How many columns have been read."""
    costly: bool
    """Whether an entry costs as much as its column."""

    def diagonal(self, index: Indices) -> Floats:
        """H_ii for some i."""
        ...

    def columns(self, index: Indices) -> Floats:
        """Columns of H, one per row of the result."""
        ...

    def product(self, vectors: Floats) -> Floats:
        """H @ vectors."""
        ...

    def squared_columns(self, index: Indices, weights: Floats) -> Floats:
        """Σ_j w_j H_ji² for some i."""
        ...

    @property
    def entries(self) -> int:
        """Entries of the columns that have been read."""
        ...


class _Counted:
    """Counts the columns read."""

    n: int
    costly: bool = False

    def __init__(self, n: int) -> None:
        self.n, self.n_columns = n, 0

    @property
    def entries(self) -> int:
        """Entries of the columns that have been read."""
        return self.n * self.n_columns


class DenseColumns(_Counted):
    """An array."""

    def __init__(self, H: Floats) -> None:
        super().__init__(len(H))
        self.matrix = H

    def diagonal(self, index: Indices) -> Floats:
        """H_ii for some i."""
        found: Floats = self.matrix[index, index]
        return found

    def columns(self, index: Indices) -> Floats:
        """Rows of the array, which are its columns."""
        self.n_columns += len(index)
        found: Floats = self.matrix[index]
        return found

    def product(self, vectors: Floats) -> Floats:
        """H @ vectors."""
        return np.asarray(self.matrix @ vectors)

    def squared_columns(self, index: Indices, weights: Floats) -> Floats:
        """Σ_j w_j H_ji² for some i."""
        self.n_columns += len(index)
        rows = self.matrix[index]
        return np.asarray(np.einsum("ij,ij,j->i", rows, rows, weights))


class SparseColumns(_Counted):
    """A sparse matrix, of which only the columns asked for become dense."""

    def __init__(self, H: Any) -> None:
        super().__init__(H.shape[0])
        self.matrix = sparse.csr_array(H, dtype=np.float64)
        self._diagonal: Floats = self.matrix.diagonal()

    def diagonal(self, index: Indices) -> Floats:
        """H_ii for some i."""
        found: Floats = self._diagonal[index]
        return found

    def columns(self, index: Indices) -> Floats:
        """Rows of the matrix, which are its columns."""
        self.n_columns += len(index)
        return np.asarray(self.matrix[index].toarray())

    def product(self, vectors: Floats) -> Floats:
        """H @ vectors."""
        return np.asarray(self.matrix @ vectors)

    def squared_columns(self, index: Indices, weights: Floats) -> Floats:
        """Σ_j w_j H_ji² for some i."""
        self.n_columns += len(index)
        return np.asarray(self.matrix[index].power(2) @ weights)


class OperatorColumns(_Counted):
    """Products alone: a column is the product with a unit vector, and the last ones are kept."""

    costly = True

    def __init__(self, H: LinearOperator) -> None:
        super().__init__(H.shape[0])
        self._operator = H
        self._kept: dict[int, Floats] = {}

    def diagonal(self, index: Indices) -> Floats:
        """H_ii for some i, from their columns."""
        blocks = _blocks(index)
        parts = [self.columns(part)[np.arange(len(part)), part] for part in blocks]
        return np.concatenate([np.empty(0), *parts])

    def columns(self, index: Indices) -> Floats:
        """Products with unit vectors, all that are new in one."""
        new = np.array([i for i in index.tolist() if i not in self._kept], dtype=np.intp)
        known = {i: self._kept[i] for i in index.tolist() if i in self._kept}
        if len(new):
            units = np.zeros((self.n, len(new)))
            units[new, np.arange(len(new))] = 1.0
            block = self.product(units)
            self.n_columns += len(new)
            if not np.all(np.isfinite(block)):
                raise ValueError("H has products that are NaN or infinite: check its matvec.")
            self._kept = {int(i): block[:, j] for j, i in enumerate(new)}
        return np.array([known[i] if i in known else self._kept[i] for i in index.tolist()])

    def product(self, vectors: Floats) -> Floats:
        """H @ vectors."""
        return np.asarray(self._operator @ vectors, dtype=np.float64)

    def squared_columns(self, index: Indices, weights: Floats) -> Floats:
        """Σ_j w_j H_ji² for some i."""
        parts = [self.columns(part) ** 2 @ weights for part in _blocks(index)]
        return np.concatenate([np.empty(0), *parts])


def as_columns(H: Any, name: str = "H") -> DenseColumns | SparseColumns | OperatorColumns:
    """Columns of what a user passed, checked as far as this costs little."""
    operator = isinstance(H, LinearOperator)
    matrix: Any = H if operator or sparse.issparse(H) else np.asarray(H)
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.shape[0]:
        raise ValueError(f"{name} must be a square matrix, got shape {matrix.shape}.")
    kind = np.dtype(matrix.dtype).kind if matrix.dtype is not None else "f"
    if kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers, got dtype {matrix.dtype}.")
    found: DenseColumns | SparseColumns | OperatorColumns
    if operator:
        found = OperatorColumns(matrix)
        _check_operator(found, name)
    elif sparse.issparse(matrix):
        found = SparseColumns(matrix)
        numbers, turned = found.matrix.data, found.matrix - found.matrix.T
        _check_entries(numbers, np.abs(turned.data).max(initial=0.0), name)
    else:
        dense = np.ascontiguousarray(matrix, dtype=np.float64)
        found = DenseColumns(dense)
        with np.errstate(invalid="ignore", over="ignore"):
            _check_entries(dense, float(np.abs(dense - dense.T).max()), name)
    return found


def _check_entries(numbers: Floats, asymmetry: float, name: str) -> None:
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"{name} contains NaN or infinity: leave out such rows and columns.")
    if asymmetry > _ASYMMETRY * float(np.abs(numbers).max(initial=0.0)):
        raise ValueError(
            f"{name} must be symmetric, and differs from its transpose by {asymmetry:.3g}: use "
            f"({name} + {name}.T) / 2, which has the same quadratic form."
        )


def _check_operator(H: OperatorColumns, name: str) -> None:
    """u'Hv = v'Hu for two random vectors: the least that a symmetric operator does."""
    pair = np.random.default_rng(0).standard_normal((H.n, 2))
    products = H.product(pair)
    if products.shape != pair.shape or not np.all(np.isfinite(products)):
        raise ValueError(f"{name} has products that are NaN, infinite or of the wrong shape.")
    one, two = float(pair[:, 0] @ products[:, 1]), float(pair[:, 1] @ products[:, 0])
    size = np.linalg.norm(pair[:, 0]) * np.linalg.norm(products[:, 1])
    if abs(one - two) > _ASYMMETRY * float(size):
        raise ValueError(f"{name} must be symmetric: u'Hv and v'Hu are {one:.6g} and {two:.6g}.")


def _blocks(index: Indices) -> list[Indices]:
    return [index[start : start + _BLOCK] for start in range(0, len(index), _BLOCK)]
