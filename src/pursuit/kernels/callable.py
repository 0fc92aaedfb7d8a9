"""Kernels that are called: functions of two blocks, `pairwise`, and users' kernel classes.

The values returned are checked for shape and finiteness once per tile. Imports NumPy only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pursuit._types import Floats
from pursuit.kernels.base import Items, Kernel, Pullback, Tile, Tiles, Vector, is_sparse, n_items

DIAGONAL_TILE = 64
"""Side of the tiles off which the diagonal of a function of blocks is read. Larger tiles evaluate
more entries in vain; smaller ones call the function more often."""


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
class CallableKernel(Kernel):
    """A kernel we know nothing about except how to call it.

    Parameters
    ----------
    function : callable
        k(A, B) -> block of shape (len(A), len(B)).
    name : str
        What error messages call it.
    diagonal : callable or None, default None
        A -> k(a, a) for every item. Without it, the diagonal of arrays and sparse matrices is read
        off tiles of 64 x 64, because calls of a function of whole blocks are expensive and entries
        are cheap; lists of objects are taken one by one, because there entries are expensive.
    """

    function: Callable[[Items, Items], Any]
    name: str
    diagonal: Callable[[Items], Any] | None = None

    @property
    def positive_definite(self) -> bool:
        """False: not known."""
        return False

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> CallableColumns:
        """Bind the kernel to the items Z."""
        return CallableColumns(self, Z, dtype)

    def block(self, A: Items, B: Items) -> Tile:
        """Call the function and check what it returns."""
        shape = n_items(A), n_items(B)
        try:
            block = self.function(A, B)
        except (TypeError, ValueError) as error:
            error.add_note(
                f"kernel {self.name} was called with blocks of {shape[0]} and {shape[1]} items: if "
                "it is a function of two items, wrap it in pursuit.pairwise."
            )
            raise
        return self._checked(block, shape)

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


@dataclass(frozen=True, eq=False)
class ObjectKernel(CallableKernel):
    """A scikit-learn kernel object of a class we do not know, learned by its `eval_gradient`.

    ``function`` is the object. Its derivatives come for all pairs of a block at once, so they are
    asked for as seldom as possible.
    """

    function: Any

    has_theta = True
    in_blocks = False

    @property
    def n_free(self) -> int:
        """How many hyper-parameters are free."""
        return len(self.function.theta)

    def theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return ΣW∘∂k/∂θ, for two blocks from all pairs of both."""
        if A is B:
            return self.evaluated(A)[1](W)
        weights = np.zeros((len(A) + len(B),) * 2)
        weights[: len(A), len(A) :] = W
        return self.evaluated(np.vstack([A, B]))[1](weights)

    def evaluated(self, X: Floats) -> tuple[Tile, Pullback]:
        """Return values and derivatives, of one call."""
        if not self.n_free:
            return self.tile(X, X), lambda W: np.empty(0)
        values, slopes = self._called(X)

        def pullback(W: Tile) -> Floats:
            return np.tensordot(W, slopes, 2)

        return values, pullback

    def _called(self, X: Floats) -> tuple[Tile, Floats]:
        shape = len(X), len(X), self.n_free
        kind = type(self.function).__name__
        wanted = (
            f"{kind}.__call__(X, eval_gradient=True) must return k(X, X) of shape {shape[:2]} and "
            f"its derivatives by the logarithms of free hyper-parameters, of shape {shape}"
        )
        remedy = "Give its hyper-parameters the bounds 'fixed' to keep them."
        try:
            values, slopes = self.function(X, eval_gradient=True)
        except Exception as error:
            raise TypeError(f"{wanted}; it failed: {error}. {remedy}") from error
        slopes = np.asarray(slopes)
        if slopes.shape != shape:
            raise TypeError(f"{wanted}, not {slopes.shape}. {remedy}")
        if not np.isfinite(slopes).all():
            raise TypeError(f"{wanted}, got NaN or infinite derivatives. {remedy}")
        return self._checked(values, shape[:2]).astype(np.float64, copy=False), slopes


class BlockKernel(Protocol):
    """What `CallableColumns` needs of a kernel."""

    def block(self, A: Items, B: Items) -> Tile:
        """Return the block k(A, B)."""
        ...


class CallableColumns(Tiles):
    """Tiles of a kernel that returns whole blocks, copied to the type of the tile."""

    def __init__(self, kernel: BlockKernel, Z: Items, dtype: npt.DTypeLike) -> None:
        super().__init__(n_items(Z), dtype)
        self._kernel, self._Z = kernel, Z

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the block k(A, Z)."""
        out = self.buffer(n_items(A), out)
        np.copyto(out, self._kernel.block(A, self._Z), casting="same_kind")
        return out
