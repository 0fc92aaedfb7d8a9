"""The two protocols of the room, and the few lines every tile shares.

A kernel answers "how similar are these items?" in dense blocks. `Kernel` is the formula; `Columns`
is that formula bound to a fixed set of items, with everything that depends on them alone computed
once. Imports NumPy and SciPy only.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pursuit._types import Floats

Items: TypeAlias = Any
"""A 2-D array, a CSR matrix, row numbers, or a list: whatever the kernel understands."""

Tile: TypeAlias = npt.NDArray[Any]
"""A dense block of kernel values, float32 or float64."""

Vector: TypeAlias = Floats


class Columns(Protocol):
    """A kernel bound to a fixed set of items Z; safe to call from many threads at once."""

    n_columns: int

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the dense C-contiguous block k(A, Z), written into `out` when given."""
        ...


class Kernel(Protocol):
    """A function k(a, b) of two items, evaluated in blocks."""

    @property
    def positive_definite(self) -> bool:
        """True when positive semi-definite by construction, False when that is not known."""
        ...

    @property
    def rounding(self) -> float:
        """Relative rounding error of its values: that of float64 unless said otherwise."""
        return float(np.finfo(np.float64).eps)

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> Columns:
        """Bind the kernel to the items Z; `dtype` (float32 or float64) is the type of the tiles."""
        ...

    def diag(self, A: Items) -> Vector:
        """Return k(a, a) for every item a of A."""
        ...

    def tile(self, A: Items, B: Items) -> Tile:
        """Return the dense float64 block k(A, B)."""
        return self.columns(B)(A)


def is_sparse(X: Any) -> bool:
    """Return whether X is a SciPy sparse matrix or array."""
    return bool(sparse.issparse(X))


def n_items(A: Items) -> int:
    """Return how many items A holds (a sparse matrix has no `len`)."""
    return int(A.shape[0]) if hasattr(A, "shape") else len(A)


def tile_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Check the type of a tile."""
    checked = np.dtype(dtype)
    if checked not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {checked}.")
    return checked


def tile_buffer(out: Tile | None, n_rows: int, n_columns: int, dtype: np.dtype[Any]) -> Tile:
    """Return `out` after checking that it can hold the tile, or a new array when it is None."""
    if out is None:
        return np.empty((n_rows, n_columns), dtype)
    if out.shape != (n_rows, n_columns) or out.dtype != dtype or not out.flags.c_contiguous:
        raise ValueError(
            f"out must be a C-contiguous {dtype} array of shape {(n_rows, n_columns)}, "
            f"got {out.dtype} of shape {out.shape}."
        )
    return out
