"""Row sources in memory, and two questions about rows: which are repeats, and which to draw.

A source in memory does not copy the data it is given; a dense block is a view where the rows lie
one after the other.

Imports numpy, scipy.sparse and the base of this room only.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from pursuit._types import Indices
from pursuit.rows.base import BLOCK_ROWS, CSR, Items, RowSource, checked_index, row_spans


class _MemoryRows:
    """Rows that are cut from what is passed, and fetched from it, by Python's brackets."""

    def __init__(self, X: Any) -> None:
        self._X = X

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._X.shape[0]) if hasattr(self._X, "shape") else len(self._X)

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, Any]]:
        """Yield `size` rows at a time, in row order."""
        spans = row_spans(self.n_rows, size)
        return ((span.start, self._as_items(self._X[span])) for span in spans)

    def take(self, index: Indices) -> Any:
        """Copy the rows at these numbers."""
        return self._as_items(self._X[checked_index(index, self.n_rows)])

    def _as_items(self, rows: Any) -> Any:
        return rows


class ArrayRows(_MemoryRows):
    """Rows of a 2-D NumPy array, memory-mapped arrays included.

    Blocks are in C order, and views where the array is in C order. The last bits of a product
    depend on the order of its operands in memory; they must not depend on whether a data frame
    keeps its numbers by column.
    """

    def __init__(self, X: NDArray[Any]) -> None:
        if X.ndim != 2:
            raise ValueError(
                f"X must be 2-D (rows, features), got shape {X.shape}: "
                "use X.reshape(-1, 1) for a single feature."
            )
        super().__init__(X)

    def _as_items(self, rows: Any) -> Any:
        return np.ascontiguousarray(rows)


class SparseRows(_MemoryRows):
    """Rows of a SciPy CSR matrix or array; blocks and takes are CSR of the same class."""


class ListRows(_MemoryRows):
    """A sequence of any objects (strings, graphs, arrays), one per row; items come as lists."""

    def take(self, index: Indices) -> list[Any]:
        """List the objects at these numbers; the objects themselves are not copied."""
        return [self._X[i] for i in checked_index(index, self.n_rows).tolist()]

    def _as_items(self, rows: Any) -> Any:
        return list(rows)


class IndexRows(_MemoryRows):
    """Rows known by number only: an item is its row number, for precomputed kernels."""

    def __init__(self, n_rows: int) -> None:
        n_rows = operator.index(n_rows)
        if n_rows < 0:
            raise ValueError(f"n_rows must not be negative, got {n_rows}.")
        super().__init__(range(n_rows))

    def take(self, index: Indices) -> Indices:
        """Return the row numbers themselves, checked."""
        return checked_index(index, self.n_rows)

    def _as_items(self, rows: Any) -> Any:
        return np.arange(rows.start, rows.stop, dtype=np.intp)


def rows_of_items(items: Items) -> RowSource:
    """The source of items that lie in memory."""
    if isinstance(items, list):
        return ListRows(items)
    return SparseRows(items) if sparse.issparse(items) else ArrayRows(items)


def draw_rows(
    n_rows: int,
    size: int,
    rng: np.random.Generator,
    exclude: ArrayLike | None = None,
) -> Indices:
    """Uniform sample of row numbers without replacement, sorted.

    Rows are drawn from all row numbers, so the way the data is cut into blocks does not matter.
    Memory is O(size + number excluded), also when `n_rows` is 10^8: NumPy's unshuffled choice
    uses Floyd's hash-set method until `size` exceeds a fiftieth of the rows.

    Parameters
    ----------
    n_rows : int
        Rows are numbered 0 .. n_rows - 1.
    size : int
        How many to draw; all allowed rows are returned when there are no more than that.
    rng : numpy.random.Generator
        Source of randomness; not touched when all allowed rows are returned.
    exclude : array of int, optional
        Row numbers never to draw.

    Returns
    -------
    index : ndarray of intp
        Increasing row numbers, ``min(size, n_rows - number excluded)`` of them.
    """
    if size < 0:
        raise ValueError(f"size must not be negative, got {size}.")
    excluded = np.unique(checked_index([] if exclude is None else exclude, n_rows))
    n_allowed = n_rows - len(excluded)
    if size >= n_allowed:
        rank = np.arange(n_allowed, dtype=np.intp)
    else:
        rank = np.sort(rng.choice(n_allowed, size, replace=False, shuffle=False))
    # excluded[j] has excluded[j] - j allowed rows below it, so the allowed row of this rank has
    # as many excluded rows below it as there are j with excluded[j] - j <= rank.
    allowed_below = excluded - np.arange(len(excluded))
    return rank + np.searchsorted(allowed_below, rank, side="right")


def distinct_rows(source: RowSource) -> Indices:
    """Row numbers of first occurrences, increasing; see :func:`row_groups`."""
    groups = row_groups((items for _, items in source.blocks()), source.n_rows)
    return np.unique(groups, return_index=True)[1]


def row_groups(blocks: Iterable[Items], n_rows: int) -> Indices:
    """For each row, the number of its group of identical rows; groups count by first occurrence.

    Two rows of numbers are the same when all their values are (0.0 and -0.0 are the same value, a
    stored zero of a CSR row is the same as a missing one); two objects are the same when they are
    equal and hash alike. If an object cannot be hashed, every row counts as distinct. This keeps
    one key per row in memory, so it is meant for small data or for some rows of large data.
    """
    numbers: dict[Hashable, int] = {}
    groups = np.empty(n_rows, dtype=np.intp)
    for row, key in enumerate(itertools.chain.from_iterable(map(_keys, blocks))):
        try:
            groups[row] = numbers.setdefault(key, len(numbers))
        except TypeError:
            return np.arange(n_rows, dtype=np.intp)
    return groups


def _keys(items: Items) -> Iterable[Hashable]:
    """One key per item; keys are equal when the items are."""
    if sparse.issparse(items):
        return _sparse_keys(items)
    if isinstance(items, np.ndarray) and items.ndim == 2:
        # Bytes stand for values only in types without padding; others are compared as objects.
        if items.dtype.kind in "biuf" and items.dtype.itemsize <= 8:
            return (row.tobytes() for row in _without_negative_zero(items))
        return map(tuple, items.tolist())
    return items


def _sparse_keys(items: CSR) -> Iterable[Hashable]:
    canonical = items.copy()
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    values = _without_negative_zero(canonical.data)
    for begin, end in zip(canonical.indptr[:-1], canonical.indptr[1:], strict=True):
        yield canonical.indices[begin:end].tobytes(), values[begin:end].tobytes()


def _without_negative_zero(values: NDArray[Any]) -> NDArray[Any]:
    """`values` plus zero of their type, which turns -0.0 into 0.0 and changes nothing else."""
    positive: NDArray[Any] = values + values.dtype.type(0)
    return positive
