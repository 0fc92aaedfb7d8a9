"""Kernels that are called: any function of two blocks, and `pairwise` for functions of two items.

What comes back is checked for shape and finiteness once per tile. Imports NumPy only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pursuit.kernels.base import (
    Items,
    Kernel,
    Tile,
    Vector,
    is_sparse,
    n_items,
    tile_buffer,
    tile_dtype,
)

DIAGONAL_TILE = 64


class PairFunction:
    """A function of two items, looped over blocks; made by `pairwise`."""

    def __init__(self, fn: Callable[..., float]) -> None:
        if not callable(fn):
            raise TypeError(f"fn must be a function of two items, got {type(fn).__name__}.")
        self.fn = fn

    def __call__(self, A: Items, B: Items, **params: Any) -> Tile:
        """Return the block of fn(a, b)."""
        block = np.empty((n_items(A), n_items(B)))
        for i, a in enumerate(A):
            for j, b in enumerate(B):
                block[i, j] = self.fn(a, b, **params)
        return block

    def diag(self, A: Items, **params: Any) -> Vector:
        """Return fn(a, a) for every item."""
        return np.asarray([self.fn(a, a, **params) for a in A], dtype=np.float64)

    def __repr__(self) -> str:
        return f"pairwise({function_name(self.fn)})"


def pairwise(fn: Callable[..., float]) -> PairFunction:
    """Turn a function of two items into a kernel on blocks.

    Parameters
    ----------
    fn : callable
        k(a, b) -> float, symmetric.

    Returns
    -------
    PairFunction
        A callable k(A, B) -> array of shape (len(A), len(B)), to be passed as ``kernel=``. It can
        be pickled when `fn` can.

    Examples
    --------
    >>> from pursuit import pairwise
    >>> def shared_letters(a, b):
    ...     return float(len(set(a) & set(b)))
    >>> kernel = pairwise(shared_letters)
    >>> kernel
    pairwise(shared_letters)
    >>> kernel(["cat", "dog"], ["act", "god", "cow"])
    array([[3., 0., 1.],
           [0., 3., 1.]])
    """
    return PairFunction(fn)


def function_name(function: Any) -> str:
    """Return the name of a function, or how an object without one prints."""
    return str(getattr(function, "__name__", None) or repr(function))


@dataclass(frozen=True, eq=False)
class Called(Kernel):
    """A kernel we know nothing about except how to call it.

    Parameters
    ----------
    function : callable
        k(A, B) -> block of shape (len(A), len(B)).
    name : str
        What error messages call it.
    diagonal : callable or None, default None
        A -> k(a, a) for every item. Without it, the diagonal of arrays and sparse matrices is read
        off tiles of 64 x 64, because a function of whole blocks is cheap per entry and dear per
        call; lists of objects are taken one by one, because there every entry is dear.
    """

    function: Callable[[Items, Items], Any]
    name: str
    diagonal: Callable[[Items], Any] | None = None

    @property
    def positive_definite(self) -> bool:
        """False: not known."""
        return False

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> CalledColumns:
        """Bind the kernel to the items Z."""
        return CalledColumns(self, Z, tile_dtype(dtype))

    def block(self, A: Items, B: Items) -> Tile:
        """Call the function and check what it returns."""
        block = self.function(A, B)
        return self._checked(block, (n_items(A), n_items(B)))

    def diag(self, A: Items) -> Vector:
        """Return k(a, a) for every item of A."""
        n = n_items(A)
        if self.diagonal is not None:
            return self._checked(self.diagonal(A), (n,)).astype(np.float64, copy=False)
        numeric = is_sparse(A) or (isinstance(A, np.ndarray) and A.dtype.kind != "O")
        step = DIAGONAL_TILE if numeric else 1
        diagonal = np.empty(n)
        for start in range(0, n, step):
            items = A[start : start + step]
            diagonal[start : start + step] = np.diagonal(self.block(items, items))
        return diagonal

    def _checked(self, values: Any, shape: tuple[int, ...]) -> Tile:
        dense: Tile = values.toarray() if is_sparse(values) else np.asarray(values)
        if dense.shape != shape:
            raise ValueError(
                f"kernel {self.name} returned shape {dense.shape} where {shape} was expected: it "
                "must map blocks A, B to an array of shape (len(A), len(B)). "
                "Wrap a function of two items in pursuit.pairwise."
            )
        if dense.dtype.kind not in "fiub":
            raise TypeError(
                f"kernel {self.name} returned an array of dtype {dense.dtype}: it must be real."
            )
        if not np.isfinite(dense).all():
            raise ValueError(
                f"kernel {self.name} returned NaN or infinite values in a block of shape {shape}: "
                "check its parameters and the data."
            )
        return dense


class CalledColumns:
    """Tiles of a called kernel: its blocks, copied to the type asked for."""

    def __init__(self, kernel: Called, Z: Items, dtype: np.dtype[Any]) -> None:
        self.n_columns = n_items(Z)
        self._kernel = kernel
        self._Z = Z
        self._dtype = dtype

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the block k(A, Z)."""
        out = tile_buffer(out, n_items(A), self.n_columns, self._dtype)
        np.copyto(out, self._kernel.block(A, self._Z), casting="same_kind")
        return out
