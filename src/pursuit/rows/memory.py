"""Rows in memory, some of the rows of a source, and sums over rows in a tree of fixed shape."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from pursuit._types import Floats, Indices
from pursuit.rows.base import (
    BLOCK_ROWS,
    CSR,
    DistributedRows,
    Items,
    RowSource,
    checked_index,
    in_blocks,
    len_items,
    row_spans,
    take_items,
)
from pursuit.rows.table import Table

T = TypeVar("T")

FAN_IN = 8
"""Neighbours that are added up at a time. Another number changes the last bits of every sum."""


class TreeSum(Generic[T]):
    """The sum of one value per block; the values arrive in row order.

    Up to 8 neighbours are added from the first to the last, then up to 8 of these sums, and so on.
    A value of level l stands for a whole subtree of 8^l blocks, wherever that was added up, or for
    the rest of one at the end. One sum per level is kept in memory. ``plus(left, right)`` adds two
    of them, and may reuse the memory of ``right``, which nobody else has then.
    """

    def __init__(
        self, parts: Iterable[tuple[int, T]] = (), plus: Callable[[T, T], T] = add
    ) -> None:
        self._plus = plus
        self._sums: list[T | None] = []
        self._counts: list[int] = []
        for n_blocks, value in parts:
            level = _level_of(n_blocks)
            self._make_room(level)
            self._sums[level], self._counts[level] = value, n_blocks // FAN_IN**level

    def add(self, value: T, level: int = 0) -> None:
        """Add the value of the next block, or of the next subtree."""
        while True:
            self._make_room(level)
            so_far = self._sums[level]
            value = value if so_far is None else self._plus(so_far, value)
            self._counts[level] += 1
            if self._counts[level] < FAN_IN:
                self._sums[level] = value
                return
            self._sums[level], self._counts[level] = None, 0
            level += 1

    def parts(self) -> list[T]:
        """The sums so far, in row order; a new tree made of them goes on from here."""
        return [value for value in reversed(self._sums) if value is not None]

    def total(self, empty: T | None = None) -> T:
        """The sum of all values, ``empty`` if there are none."""
        parts = self.parts()[::-1]
        if parts:
            return reduce(lambda right, left: add(left, right), parts)
        if empty is None:
            raise ValueError("there is nothing to add up: there are no rows.")
        return empty

    def _make_room(self, level: int) -> None:
        while len(self._sums) <= level:
            self._sums.append(None)
            self._counts.append(0)


def in_order(values: Iterable[T]) -> T:
    """The sum of one or more values, from the first to the last."""
    return reduce(add, values)


def in_tree(values: Iterable[T]) -> T:
    """The sum of one or more values, in a tree."""
    tree: TreeSum[T] = TreeSum()
    for value in values:
        tree.add(value)
    return tree.total()


def subtrees(first: int, n_blocks: int, level: int) -> Iterator[tuple[int, int, int]]:
    """Yield (level, first block, end) of the largest subtrees from block ``first`` on.

    No subtree has a higher level than ``level``.
    """
    while first < n_blocks:
        largest = level
        while first % FAN_IN**largest:
            largest -= 1
        stop = min(first + FAN_IN**largest, n_blocks)
        yield largest, first, stop
        first = stop


def _level_of(n_blocks: int) -> int:
    level = 0
    while FAN_IN ** (level + 1) <= n_blocks:
        level += 1
    return level


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


_MANY_ROWS = 4 * BLOCK_ROWS
"""Up to this many rows of a table are fetched into memory when they are first read; a selection of
more rows is read from the table in every pass."""


class SelectedRows:
    """Rows ``index`` of ``source`` as a source of their own; nothing is copied until it is read."""

    def __init__(self, source: RowSource, index: Indices) -> None:
        self.source = source
        self.index = checked_index(index, source.n_rows)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.index)

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, Items]]:
        """Yield (number of the first row, items), in the order of ``index``."""
        for span in row_spans(self.n_rows, size):
            yield span.start, self.source.take(self.index[span])

    def take(self, index: Indices) -> Items:
        """Items at these row numbers, counted within the selection."""
        return self.source.take(self.index[checked_index(index, self.n_rows)])


class StreamedRows(SelectedRows):
    """Many rows of a table in their order: a pass streams the table and keeps these rows."""

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, Items]]:
        """Yield (number of the first row, items), in row order."""
        return in_blocks(self._kept(), size)

    def _kept(self) -> Iterator[NDArray[Any]]:
        for start, block in self.source.blocks():
            span = slice(*np.searchsorted(self.index, [start, start + len_items(block)]))
            if span.stop > span.start:
                yield np.asarray(block)[self.index[span] - start]


class FetchedRows(SelectedRows):
    """A few rows of a source that is slow to fetch from: fetched once, when they are first read."""

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, Items]]:
        """Yield (number of the first row, items), in the order of ``index``."""
        for span in row_spans(self.n_rows, size):
            yield span.start, self._items[span]

    def take(self, index: Indices) -> Items:
        """Items at these row numbers, counted within the selection."""
        return take_items(self._items, checked_index(index, self.n_rows))

    @cached_property
    def _items(self) -> Any:
        return self.source.take(self.index)


def source_numbers(rows: RowSource, index: Indices) -> Indices:
    """Turn row numbers within a selection into row numbers of the source it was made from."""
    while isinstance(rows, SelectedRows):
        index, rows = rows.index[index], rows.source
    return index


def select_rows(source: RowSource, index: Indices) -> RowSource:
    """Rows ``index`` of a source as a source of their own.

    All rows in their order are the source itself. If the rows lie on disk or on other machines, a
    few are fetched into memory; many rows in their order stay where they are.
    """
    index = checked_index(index, source.n_rows)
    ordered = bool(np.all(index[1:] > index[:-1]))
    if ordered and len(index) == source.n_rows:
        return source
    if isinstance(source, StreamedRows):
        return select_rows(source.source, source.index[index])
    if not isinstance(source, DistributedRows | Table):
        return SelectedRows(source, index)
    if len(index) <= min(_MANY_ROWS, source.n_rows // 2):
        return FetchedRows(source, index)
    if not ordered:
        return SelectedRows(source, index)
    if isinstance(source, DistributedRows):
        return source.restrict(index)
    return StreamedRows(source, index)


@dataclass(frozen=True)
class Sample:
    """Rows x_i with targets y_i (one column per output) and weights w_i.

    Everything that depends on the number of rows goes through :meth:`blocks` or :meth:`take`.
    """

    rows: RowSource
    targets: Floats
    weights: Floats

    @property
    def n_rows(self) -> int:
        """Number of rows m."""
        return self.rows.n_rows

    @property
    def n_outputs(self) -> int:
        """Number of target columns."""
        return int(self.targets.shape[1])

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[Any, Floats, Floats]]:
        """Yield (items, targets, weights) in row order, ``size`` rows at a time."""
        for start, items in self.rows.blocks(size):
            stop = min(start + size, self.n_rows)
            yield items, self.targets[start:stop], self.weights[start:stop]

    def take(self, index: Indices) -> Sample:
        """The sample restricted to these rows, in this order."""
        return Sample(select_rows(self.rows, index), self.targets[index], self.weights[index])

    def target_norms(self) -> Floats:
        """y'Wy for each output."""
        norms: Floats = np.einsum("i,ij,ij->j", self.weights, self.targets, self.targets)
        return norms

    def target_power(self) -> float:
        """Weighted mean square of the targets, over those that were observed."""
        if not has_gaps(self.targets):
            return float(self.target_norms().sum() / (self.weights.sum() * self.n_outputs))
        observed = ~np.isnan(self.targets)
        squares = np.where(observed, self.targets, 0.0) ** 2
        return float((self.weights @ squares).sum() / (self.weights @ observed).sum())


def has_gaps(targets: Floats) -> bool:
    """Whether some targets are NaN, that is, were not observed."""
    return bool(np.isnan(targets).any())
