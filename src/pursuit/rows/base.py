"""What every source of rows can do, and what every module of this room shares.

A source knows three things: how many rows it has, how to hand them out block by block in row order,
and how to fetch some of them by number. It hands out *items*, which a kernel compares. There are
four kinds: a 2-D array (one item per row), a CSR matrix or array, a list of any objects, and a 1-D
integer array of row numbers (for precomputed kernels).

Imports numpy and scipy.sparse only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from pursuit._types import Indices

T = TypeVar("T")
CSR: TypeAlias = "sparse.csr_array[Any] | sparse.csr_matrix[Any]"
Items: TypeAlias = "NDArray[Any] | CSR | list[Any]"

BLOCK_ROWS = 8192
"""Rows per block. Sums over rows are taken block by block, so another number changes the last bits
of every result. It is the same on all machines."""


@runtime_checkable
class RowSource(Protocol):
    """Rows that can be streamed in order and fetched by number.

    `pursuit.testing.check_row_source` checks a new source against this contract.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, Items]]:
        """Yield (number of the first row, items), in row order.

        Every block has `size` rows, except the last, which has the remaining rows.
        """
        ...

    def take(self, index: Indices) -> Items:
        """Items at these row numbers, in the order of `index`, repeats included."""
        ...


@runtime_checkable
class DistributedRows(RowSource, Protocol):
    """Rows that lie in parts elsewhere: work is sent to them instead of fetching them.

    A task is called with a run of whole blocks, as a source in memory, and with the matching part
    of every ``aligned`` array. It is sent once for all runs, so it should hold only what it needs.
    ``aligned`` may also contain another source with as many rows: the task then receives the
    matching rows as a source in memory. Runs are subtrees of the tree that `TreeSum` adds up, so
    where the parts end does not change a bit of a sum.
    """

    def map(self, task: Callable[..., T], *aligned: Any) -> list[T]:
        """The task's value for each run, in row order; all runs are subtrees of one level."""
        ...

    def sums(
        self, task: Callable[..., T], *aligned: Any, start: int = 0
    ) -> Iterator[list[tuple[int, T]]]:
        """Levels and sums of subtrees, from row ``start`` on, which must begin a block.

        The task's values for the runs of a subtree are added up by ``+`` as `TreeSum` does. The
        subtrees come in groups that were computed together.
        """
        ...

    def restrict(self, index: Indices) -> DistributedRows:
        """The rows with these increasing numbers, as a source of their own; no row moves."""
        ...


def row_spans(n_rows: int, size: int) -> Iterator[slice]:
    """Slices that cut `n_rows` rows into blocks of `size`; the last may be shorter."""
    _check_size(size)
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


def in_blocks(parts: Iterable[Items], size: int) -> Iterator[tuple[int, Items]]:
    """Cut parts of any size into blocks of ``size`` rows; the last may be shorter.

    Yields (number of the first row, items).
    """
    _check_size(size)
    waiting: list[Items] = []
    n_waiting = start = 0
    for part in parts:
        done, n_rows = 0, len_items(part)
        while n_waiting + n_rows - done >= size:
            needed = size - n_waiting
            waiting.append(part[done : done + needed])
            yield start, join(waiting)
            start, done, waiting, n_waiting = start + size, done + needed, [], 0
        if done < n_rows:
            waiting.append(part[done:])
            n_waiting += n_rows - done
    if waiting:
        yield start, join(waiting)


def checked_index(index: ArrayLike, n_rows: int) -> Indices:
    """`index` as a 1-D integer array of row numbers in [0, n_rows).

    Negative numbers are refused rather than counted from the end: elsewhere in this package -1
    means "not a row", and it must never fetch the last one.
    """
    array: NDArray[Any] = np.asarray(index)
    if array.ndim != 1:
        raise ValueError(f"index must be 1-D, got shape {array.shape}: pass a list of row numbers.")
    if array.size == 0:
        return np.empty(0, dtype=np.intp)
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"index must hold integer row numbers, got dtype {array.dtype}: "
            "use np.flatnonzero on a boolean mask."
        )
    low, high = array.min(), array.max()
    if low < 0 or high >= n_rows:
        raise ValueError(
            f"index must lie in [0, {n_rows}), got row numbers from {low} to {high}: "
            "remove those that are not rows of this source."
        )
    return array.astype(np.intp, copy=False)


def len_items(items: Items) -> int:
    """Number of items."""
    return len(items) if isinstance(items, list) else int(items.shape[0])


def take_items(items: Items, index: Indices) -> Items:
    """The items at these positions, in this order."""
    return [items[i] for i in index.tolist()] if isinstance(items, list) else items[index]


def concat(first: Items, second: Items) -> Items:
    """Join the items of `first` and those of `second`, which must be of the same kind.

    Raises
    ------
    TypeError
        If one is, say, a list and the other an array.
    ValueError
        If their items have different numbers of features.
    """
    same_kind = (
        (isinstance(first, list) and isinstance(second, list))
        or (isinstance(first, np.ndarray) and isinstance(second, np.ndarray))
        or (sparse.issparse(first) and sparse.issparse(second))
    )
    if not same_kind:
        raise TypeError(
            "first and second must be items of the same kind, got "
            f"{type(first).__name__} and {type(second).__name__}: convert one of them."
        )
    shapes = [getattr(items, "shape", ())[1:] for items in (first, second)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"first and second must have items of the same shape, got {shapes[0]} and {shapes[1]}: "
            "select the same features in both."
        )
    return join([first, second])


def join(parts: Sequence[Any]) -> Items:
    """All items of one or more parts, in their order."""
    if len(parts) == 1:
        only: Items = parts[0]
        return only
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    if sparse.issparse(parts[0]):
        stacked: CSR = sparse.vstack(parts, format="csr")
        return stacked
    return [item for part in parts for item in part]


def _check_size(size: int) -> None:
    if size < 1:
        raise ValueError(f"size must be at least 1 row per block, got {size}.")


def is_dask(X: Any) -> bool:
    """Whether X is a dask collection, or a list of them; dask need not be installed to tell."""
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(hasattr(block, "__dask_graph__") for block in X)
    return hasattr(X, "__dask_graph__")


def computed(values: Any) -> Any:
    """Targets or weights as an array if they are a dask collection, anything else unchanged."""
    return np.asarray(values.compute()) if hasattr(values, "__dask_graph__") else values
