"""What every kernel of this room offers: values in tiles, derivatives, and a count of its entries.

`Kernel` is a formula k(a, b). `BoundKernel` is that formula bound to a fixed set of items, with
everything that depends on them alone computed once. `Extent` is what bounds of rounding errors need
to know of items. The helpers at the end check and multiply items that are rows of numbers, dense or
CSR. Imports NumPy and SciPy only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from threading import Lock
from typing import Any, NoReturn, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pursuit._types import Floats, Indices
from pursuit.rounding import UNIT, gamma

Items: TypeAlias = Any
"""A 2-D array, a CSR matrix, row numbers, or a list: whatever the kernel understands."""

Tile: TypeAlias = npt.NDArray[Any]
"""A dense block of kernel values, float32 or float64."""

Vector: TypeAlias = Floats

Pullback: TypeAlias = Callable[[Tile], Floats]
"""A function from W = ∂E/∂k to ∂E/∂θ."""


FUNCTION = 8.0 * UNIT
"""Relative error that bounds assume of exp, log, log1p, pow and sin: 4 units in the last place.
Those of NumPy are below one on common platforms. Square roots are rounded correctly."""

PAGE, PADDING = 4096, 16
"""Rows of a matrix that are a multiple of `PAGE` bytes long get `PADDING` columns more: whole pages
apart, they would share the same lines of the cache, and products take up to twice the time."""


@dataclass(frozen=True, eq=False)
class Extent:
    """Where items lie: the least and the largest value of each column.

    Attributes
    ----------
    low, high : arrays of shape (n_features,), or None
        None for items that are not rows of numbers, of which nothing is known.
    sparse : bool, default False
        Whether some of the items are rows in CSR form, which kernels do not shift.
    n_terms : int, default 0
        Most entries of a row that may differ from 0; n_features for dense rows.
    """

    low: Floats | None = None
    high: Floats | None = None
    sparse: bool = False
    n_terms: int = 0

    @classmethod
    def of(cls, items: Items) -> Extent:
        """Return where these items lie; of no rows at all nothing is known."""
        if is_sparse(items):
            return cls._of_csr(items)
        numeric = isinstance(items, np.ndarray) and items.ndim == 2 and items.dtype.kind in "fiub"
        if not numeric or not len(items):
            return cls()
        # Reducing along contiguous numbers is many times as fast where there are few columns.
        columns = np.ascontiguousarray(items.T)
        low, high = (np.asarray(f(axis=1), np.float64) for f in (columns.min, columns.max))
        return cls(low, high, False, items.shape[1])

    @classmethod
    def _of_csr(cls, items: Any) -> Extent:
        if not items.shape[0]:
            return cls()
        bounds = (f(axis=0).toarray().ravel() for f in (items.min, items.max))
        low, high = (np.asarray(bound, np.float64) for bound in bounds)
        most = int(np.diff(items.tocsr().indptr).max())
        return cls(low, high, True, min(most, items.shape[1]))

    def joined(self, other: Extent) -> Extent:
        """Return the extent of the items of both; where nothing is known of one, it is the other's.

        So an empty extent may begin a loop over blocks of rows.
        """
        if self.low is None or self.high is None:
            return other
        if other.low is None or other.high is None:
            return self
        mixed = self.sparse != other.sparse
        return Extent(
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.sparse or other.sparse,
            len(self.low) if mixed else max(self.n_terms, other.n_terms),
        )

    def of_columns(self, positions: Indices) -> Extent:
        """Return the extent of some of the columns."""
        if self.low is None or self.high is None:
            return self
        low, high = self.low[positions], self.high[positions]
        return Extent(low, high, self.sparse, min(self.n_terms, len(low)))

    @property
    def n_features(self) -> int:
        """Number of columns; 0 where it is not known."""
        return 0 if self.low is None else len(self.low)

    def widths(self) -> Floats:
        """Return high - low of each column, not rounded down; infinity where nothing is known."""
        if self.low is None or self.high is None:
            return np.array([np.inf])
        with np.errstate(over="ignore"):
            return np.asarray((self.high - self.low) * (1.0 + 4.0 * UNIT))

    def largest(self) -> Floats:
        """Return the largest magnitude in each column; infinity where nothing is known."""
        if self.low is None or self.high is None:
            return np.array([np.inf])
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def sums(self, times: int = 1, more: int = 0) -> float:
        """Return γ_n, n being `times` the terms of a sum over the columns and `more` operations."""
        return np.inf if self.low is None else gamma(times * self.n_terms + more)


def piece_rows(n_columns: int, entries: int) -> int:
    """Return the rows of a piece of so many kernel values."""
    return max(16, entries // max(n_columns, 1))


def padding_columns(n_columns: int, dtype: npt.DTypeLike) -> int:
    """Return how many columns keep rows of so many numbers from being whole pages apart."""
    return PADDING if n_columns * np.dtype(dtype).itemsize % PAGE == 0 else 0


class BoundKernel(Protocol):
    """A kernel bound to a fixed set of items Z; safe to call from many threads at once."""

    n_columns: int

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the dense C-contiguous block k(A, Z), written into `out` when given."""
        ...

    def pieces(self, A: Items, height: int) -> Iterator[tuple[slice, Tile]]:
        """Yield rows and k(A[rows], Z), `height` rows at a time.

        For those who need one piece after the other and no block: what is done to a piece finds it
        in the cache. The next piece may overwrite the last one.
        """
        for start in range(0, n_items(A), height):
            rows = slice(start, min(start + height, n_items(A)))
            yield rows, self(A[rows])

    def times(self, A: Items, coefficients: Floats, entries: int) -> Floats:
        """Return k(A, Z) @ coefficients, from pieces of so many kernel values."""
        product = np.empty((n_items(A), coefficients.shape[1]))
        for rows, tile in self.pieces(A, piece_rows(len(coefficients), entries)):
            np.matmul(tile, coefficients, out=product[rows])
        return product

    def knows_fall(self, n_outputs: int) -> bool:
        """Return whether `with_fall` and `pull` are known, for so many outputs."""
        return False

    def with_fall(self, A: Floats, out: Tile) -> Tile:
        """Write the block k(A, Z); return what `pull` needs: a tile like it, or `out` itself."""
        return refuse(self, "derivatives")

    def pull(self, A: Floats, fall: Tile, left: Tile, right: Tile) -> Floats:
        """Return ∂E/∂Z from ∂E/∂k(A, Z) = left right' and the tile that `with_fall` returned.

        Where its rows are multiplied by numbers, so is their part of the derivatives.
        """
        return refuse(self, "derivatives")


class KernelGradient(Protocol):
    """Derivatives of a number E from its derivatives W = ∂E/∂k(A, B) by the kernel's values.

    They are contracted with W at once: no array of tile size times the number of features is made.
    """

    def theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return ∂E/∂θ, θ being the free hyper-parameters as in scikit-learn's `kernel.theta`."""
        ...

    def points(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return ∂E/∂B, of the shape of B."""
        ...

    def diag_points(self, B: Floats, weights: Vector) -> Floats:
        """Return ∂E/∂B from weights = ∂E/∂k(b, b), of the shape of B."""
        ...


class Kernel(KernelGradient, Protocol):
    """A function k(a, b) of two items, evaluated in blocks.

    A kernel that knows its derivatives says so: in `has_theta` that it overrides `theta`, in
    `has_points` that it overrides `points` and, where k(b, b) varies, `diag_points`. Its
    hyper-parameters are those that scikit-learn's kernel object has, in their order.
    """

    @property
    def positive_definite(self) -> bool:
        """True when positive semi-definite by construction, False when that is not known."""
        ...

    @property
    def rounding(self) -> float:
        """Relative rounding error of the values; that of float64 by default."""
        return EPS

    def error(self, extent: Extent) -> float:
        """Return a proven bound ε on the rounding error of values in float64.

        For all items a, b within the extent, the value k̂ that tiles and `diag` return (not `among`)
        has

            |k̂(a, b) - k(a, b)| ≤ ε √(k(a, a) k(b, b)),

        k being the exact function of the numbers as they are stored, those of the items and those
        of the kernel. A finite ε also says that |k(a, b)| ≤ √(k(a, a) k(b, b)), as it is for every
        positive semi-definite kernel; so ε of sums, products and powers follows from those of their
        parts. It is infinite where that fails, or where no bound is known.

        Assumed are the arithmetic of IEEE 754; sums of products in any order, with fused operations
        or without; elementary functions accurate to 4 units in the last place (`FUNCTION`), and
        Bessel functions as in `matern.py`; whole numbers below 2⁵³. Values outside the range of
        float64 are excepted: they overflow, or underflow adds a multiple of 2⁻¹⁰⁷⁴. Values of a
        user's function or matrix are taken as exact and positive semi-definite: 0, the default.
        """
        return 0.0

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> BoundKernel:
        """Bind the kernel to the items Z; `dtype` (float32 or float64) is the type of the tiles."""
        ...

    def diag(self, A: Items) -> Vector:
        """Return k(a, a) for every item a of A."""
        ...

    def tile(self, A: Items, B: Items) -> Tile:
        """Return the dense float64 block k(A, B)."""
        return self.columns(B)(A)

    def among(self, items: Items, size: int) -> Tile:
        """Return the float64 blocks k(group, group) of `size` consecutive items each.

        Their shape is (n_items / size, size, size).
        """
        groups = [items[start : start + size] for start in range(0, n_items(items), size)]
        blocks = [self.tile(group, group) for group in groups]
        return np.stack(blocks) if blocks else np.empty((0, size, size))

    @property
    def length_scales(self) -> float | Vector | None:
        """The shortest length scales at which values change; None where there are none.

        A column that values do not depend on has an infinite one. NaN stands for a column whose
        distances do not tell how values change, such as one of categories.
        """
        return None

    def simplified(self) -> Kernel:
        """Return a kernel of the same values that is cheaper to evaluate; not for `theta`."""
        return self

    @property
    def has_theta(self) -> bool:
        """Whether derivatives by hyper-parameters are known."""
        return False

    @property
    def has_points(self) -> bool:
        """Whether derivatives by points are known."""
        return False

    @property
    def in_blocks(self) -> bool:
        """Whether `theta` costs what its block has entries; False where a call gives all of it."""
        return True

    def theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return ∂E/∂θ from W = ∂E/∂k(A, B), θ being the logarithms of free hyper-parameters."""
        return refuse(self, "derivatives")

    @property
    def has_theta_times(self) -> bool:
        """Whether `theta_times` is known."""
        return False

    def theta_times(self, A: Floats, B: Floats, v: Vector) -> Floats:
        """Return ∂k(A, B)/∂θ_j v, one column for every free hyper-parameter."""
        return refuse(self, "products with derivatives")

    def evaluated(self, X: Floats) -> tuple[Tile, Pullback]:
        """Return k(X, X) and the function from W = ∂E/∂k(X, X) to ∂E/∂θ.

        A kernel that is called is called once for both.
        """
        return self.tile(X, X), partial(self.theta, X, X)

    def points(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return ∂E/∂B from W = ∂E/∂k(A, B)."""
        return refuse(self, "derivatives")

    def diag_points(self, B: Floats, weights: Vector) -> Floats:
        """Return ∂E/∂B from weights = ∂E/∂k(b, b): zeros, where k(b, b) is the same for all b."""
        return np.zeros(B.shape)


class CountingKernel(Kernel):
    """The same kernel, with a counter.

    Parameters
    ----------
    kernel : Kernel
        The kernel that does the work.

    Attributes
    ----------
    entries : int
        Values returned so far, in tiles and diagonals together.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.entries = 0
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[CountingKernel], tuple[Kernel]]:
        """Return how to copy it; a copy counts from 0."""
        return CountingKernel, (self.kernel,)

    @property
    def positive_definite(self) -> bool:
        """What the kernel says."""
        return self.kernel.positive_definite

    @property
    def rounding(self) -> float:
        """What the kernel says."""
        return self.kernel.rounding

    def error(self, extent: Extent) -> float:
        """What the kernel says."""
        return self.kernel.error(extent)

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> BoundKernel:
        """Bind the kernel to the items Z; its tiles are counted."""
        bound = self.kernel.columns(Z, dtype)
        if not isinstance(bound, Tiles):
            return CountedTiles(bound, self)
        bound.counters += (self,)
        return bound

    def diag(self, A: Items) -> Vector:
        """Return the diagonal; one entry per item."""
        diagonal = self.kernel.diag(A)
        self.add(diagonal.size)
        return diagonal

    def among(self, items: Items, size: int) -> Tile:
        """Return the blocks of consecutive items; their entries are counted."""
        blocks = self.kernel.among(items, size)
        self.add(blocks.size)
        return blocks

    @property
    def length_scales(self) -> float | Vector | None:
        """What the kernel says."""
        return self.kernel.length_scales

    @property
    def has_points(self) -> bool:
        """What the kernel says."""
        return self.kernel.has_points

    def points(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return those of the kernel; as many entries as W has are counted."""
        self.add(W.size)
        return self.kernel.points(A, B, W)

    def diag_points(self, B: Floats, weights: Vector) -> Floats:
        """Return those of the kernel."""
        return self.kernel.diag_points(B, weights)

    def add(self, entries: int) -> None:
        """Count entries, from any thread."""
        with self._lock:
            self.entries += entries


class Tiles(BoundKernel):
    """What the bound kernels of this room share: the tile that is written, and who counts it."""

    counters: tuple[CountingKernel, ...] = ()

    def __init__(self, n_columns: int, dtype: npt.DTypeLike) -> None:
        self.n_columns, self.dtype = n_columns, tile_dtype(dtype)

    def buffer(self, n_rows: int, out: Tile | None) -> Tile:
        """Return `out` after checking that it can hold the tile, or a new array when it is None."""
        shape = n_rows, self.n_columns
        self.count(n_rows)
        if out is None:
            return np.empty(shape, self.dtype)
        if out.shape != shape or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise ValueError(
                f"out must be a C-contiguous {self.dtype} array of shape {shape}, "
                f"got {out.dtype} of shape {out.shape}."
            )
        return out

    def count(self, n_rows: int) -> None:
        """Count the values of a tile."""
        for counter in self.counters:
            counter.add(n_rows * self.n_columns)


class CountedTiles(BoundKernel):
    """Counts the tiles of a bound kernel that is not of this room."""

    def __init__(self, bound: BoundKernel, counter: CountingKernel) -> None:
        self.n_columns, self._bound, self._counter = bound.n_columns, bound, counter

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the block k(A, Z)."""
        block = self._bound(A, out)
        self._counter.add(block.size)
        return block


def refuse(owner: object, what: str) -> NoReturn:
    """Say that a kernel or profile does not have something."""
    raise NotImplementedError(f"{type(owner).__name__} has no {what}.")


EPS = float(np.finfo(np.float64).eps)


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


def shortest(scales: Iterable[float | Vector | None]) -> float | Vector | None:
    """Return the shortest of several kernels' length scales, per feature where one has them."""
    known = [scale for scale in scales if scale is not None]
    return reduce(np.minimum, known) if known else None


def join_entries(entries: list[Any]) -> Floats:
    """Return one vector of the entries of θ that several parts of a kernel have."""
    return np.concatenate([np.atleast_1d(entry) for entry in entries] or [np.empty(0)])


def compounded(*errors: float, operations: int = 0) -> float:
    """Return Π(1 + ε_j) (1 + γ_n) - 1: the error of a product of n operations, not rounded down."""
    if not np.isfinite(errors).all():
        return np.inf
    total = float(np.sum(np.log1p(errors))) + gamma(operations + 1)
    return float(np.expm1(min(total, 700.0)))


# Items that are rows of numbers


def as_points(X: Items) -> Any:
    """Return X as a 2-D numeric array or a canonical CSR matrix, or say why it is neither."""
    if not isinstance(X, np.ndarray) and is_sparse(X):
        X = X.tocsr()
        if not X.has_canonical_format:
            # Entries stored twice would be squared one by one in the norms.
            X = X.copy()
            X.sum_duplicates()
    elif not isinstance(X, np.ndarray):
        raise TypeError(
            f"this kernel compares rows of numbers, got {type(X).__name__}: pass a 2-D array or "
            "a CSR matrix, or a callable kernel for strings and other objects."
        )
    if X.dtype.kind not in "fiub":
        raise TypeError(
            f"this kernel compares rows of numbers, got an array of dtype {X.dtype}: "
            "pass a callable kernel for strings and other objects."
        )
    if X.ndim != 2:
        raise ValueError(
            f"this kernel needs a 2-D array, got {X.ndim} dimension(s): "
            "use reshape(-1, 1) for one feature and reshape(1, -1) for one row."
        )
    return X


def check_same_features(A: Any, n_features: int) -> None:
    """Check that A has as many features as the items it is compared with."""
    if A.shape[1] != n_features:
        raise ValueError(
            f"the two sides of a kernel must have the same features: "
            f"{A.shape[1]} columns against {n_features}."
        )


def squared_norms(X: Any) -> Vector:
    """Return |x|² for every row of an array or a CSR matrix, added up in float64."""
    if is_sparse(X):
        sums = np.zeros(X.shape[0])
        filled = np.flatnonzero(np.diff(X.indptr))
        sums[filled] = np.add.reduceat(np.square(X.data, dtype=np.float64), X.indptr[filled])
        return sums
    norms: Vector = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    return norms


def product_into(A: Any, right: Any, out: Tile) -> None:
    """Write the matrix product A @ right into the dense `out`; either side may be sparse."""
    if is_sparse(A):
        product = A @ right
        if is_sparse(product):
            product.toarray(out=out)
        else:
            np.copyto(out, product)
    elif is_sparse(right):
        np.copyto(out, (right.T @ A.T).T)
    else:
        np.matmul(A, right, out=out)
