"""Rows of dask arrays, data frames and delayed blocks: partitions that may lie on a cluster.

Work is sent to the partitions as tasks of a dask graph. An active `distributed.Client` runs it on
its workers and repeats what a lost worker had done; without one the local scheduler runs it.

Imports numpy, scipy.sparse and the rest of this room; dask when a collection is passed.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pursuit._types import Indices
from pursuit.rows.base import (
    BLOCK_ROWS,
    Items,
    RowSource,
    checked_index,
    in_blocks,
    join,
    len_items,
)
from pursuit.rows.dask_collections import as_collection, compute, described, import_dask, slots
from pursuit.rows.hashing import Hashes, Witness, row_hashes
from pursuit.rows.memory import FAN_IN, in_order, rows_of_items, subtrees
from pursuit.rows.table import Table, check_columns, check_finite

T = TypeVar("T")

_FEWEST_TASKS = 64
"""A task covers several blocks only if at least this many tasks remain."""
_ROUNDS = 8
"""Tasks per thread, and partitions per group, between two looks at the results. More of them keep
the workers busier; fewer of them are lost when a fit is stopped."""
_AHEAD = 2
"""Partitions that are fetched at a time when rows are streamed."""


class DaskTable(Table):
    """Rows of a dask collection, which stay in its partitions.

    Parameters
    ----------
    X : dask array, dask data frame, or list of delayed blocks
        A two-dimensional array in chunks of rows; a data frame; or blocks that are arrays, CSR
        matrices or data frames. If the lengths of the partitions are not known, one pass over the
        collection counts their rows. Every pass computes the collection anew: call its
        ``persist()`` if the cluster has the memory. A row that is another one in a later pass is
        an error: a hash of every row is kept.
    """

    def __init__(self, X: Any) -> None:
        self._collection = as_collection(X)
        self.name = self._collection.name
        self._lengths: list[list[int]] = []  # at most one; selections of columns share it
        if self._collection.lengths is not None:
            self._lengths.append(self._collection.lengths)
        self._index: Indices | None = None
        self._witness = Witness()  # selections of rows share it

    @property
    def columns(self) -> tuple[str, ...] | None:  # type: ignore[override]
        """Names of the columns, None where they have none."""
        return self._collection.columns

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return self._collection.n_features

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """float32 if all columns are, float64 otherwise."""
        return self._collection.dtype

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return int(self._stops[-1])

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, Items]]:
        """Yield ``size`` rows at a time, in row order, a few partitions being fetched ahead."""
        return in_blocks(self._stream(), size)

    def take(self, index: Indices) -> Items:
        """Fetch the rows at these numbers; no other rows travel."""
        rows, places = np.unique(checked_index(index, self.n_rows), return_inverse=True)
        pieces = self._pieces(rows if len(rows) else range(1))
        items = join(self._compute(self._picked(pieces)))
        self._check_unchanged(rows, row_hashes(items))
        taken: Items = items[places]
        return taken

    def map(self, task: Callable[..., T], *aligned: Any) -> list[T]:
        """The task's value for each run of blocks, in row order."""
        spans = subtrees(0, self._n_blocks, self._level)
        parts = self._compute(self._tasks(task, aligned, [span[1:] for span in spans]))
        return self._checked(parts, 0)

    def sums(
        self, task: Callable[..., T], *aligned: Any, start: int = 0
    ) -> Iterator[list[tuple[int, T]]]:
        """Levels and values of subtrees of blocks from row ``start`` on, a few tasks at a time."""
        level = self._level
        enough = _ROUNDS * max(slots() * FAN_IN**level, self._partition_blocks)
        while FAN_IN ** (level + 1) <= enough:
            level += 1
        waiting: list[tuple[int, int, int]] = []
        for subtree in subtrees(start // BLOCK_ROWS, self._n_blocks, level):
            waiting.append(subtree)
            if subtree[2] - waiting[0][1] >= enough:
                yield self._added(task, aligned, waiting)
                waiting = []
        if waiting:
            yield self._added(task, aligned, waiting)

    def restrict(self, index: Indices) -> Self:
        """Rows of increasing numbers as a source of their own, in the same partitions."""
        index = checked_index(index, self.n_rows)
        if np.any(index[1:] <= index[:-1]):
            raise ValueError("index must hold increasing row numbers.")
        restricted = self._copy()
        restricted._index = index if self._index is None else self._index[index]
        return restricted

    def select(self, columns: Sequence[str]) -> Self:
        """The table with these columns only, in this order; nothing is read."""
        selected = self._copy()
        selected._collection = self._collection.project(columns)
        selected._witness = Witness()
        return selected

    def check_numeric(self) -> None:
        """Refuse columns that are not numbers."""
        self._collection.check_numeric()

    def read(self, columns: Sequence[str]) -> list[NDArray[Any]]:
        """Whole columns, numbers or not, in one pass; the rows are counted on the way."""
        check_columns(columns, self.columns or (), self.name)
        if self._index is not None:
            raise ValueError("read covers all rows: read columns before you select rows.")
        part = self._delayed(read_columns)
        blocks = self._collection.project(columns).blocks()
        parts = self._compute([part(block, tuple(columns)) for block in blocks])
        if not self._lengths:
            self._lengths.append([len(arrays[0]) for arrays in parts])
        return [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]

    @cached_property
    def _parts(self) -> list[tuple[Place, Any]]:
        """Partitions that hold rows, each with its delayed value."""
        self.check_numeric()
        blocks = self._collection.blocks()
        if not self._lengths:
            count = self._delayed(described)
            self._lengths.append([length for length, *_ in self._compute(map(count, blocks))])
        parts, start = [], 0
        for number, (block, length) in enumerate(zip(blocks, self._lengths[0], strict=True)):
            keep: range | Indices = range(length)
            if self._index is not None:
                low, high = np.searchsorted(self._index, [start, start + length])
                keep = self._index[low:high] - start
            if len(keep):
                parts.append((Place(number, start, length, keep), block))
            start += length
        return parts

    @cached_property
    def _stops(self) -> Indices:
        """Number of rows up to the end of each part, and 0 before the first."""
        return np.cumsum([0, *(place.n_rows for place, _ in self._parts)])

    @property
    def _form(self) -> Form:
        return Form(self.columns, self.n_features, self.dtype)

    def _copy(self) -> Self:
        other = copy.copy(self)
        for cached in ("_parts", "_stops"):
            other.__dict__.pop(cached, None)
        return other

    def _delayed(self, function: Callable[..., Any]) -> Any:
        return import_dask().delayed(function, pure=False)

    def _stream(self) -> Iterator[Any]:
        for i in range(0, len(self._parts), _AHEAD):
            for number, items in enumerate(
                self._compute(self._picked(self._parts[i : i + _AHEAD])), start=i
            ):
                rows = np.arange(self._stops[number], self._stops[number + 1])
                self._check_unchanged(rows, row_hashes(items))
                yield items

    @property
    def _n_blocks(self) -> int:
        return -(-self.n_rows // BLOCK_ROWS)

    @property
    def _partition_blocks(self) -> float:
        """Blocks in a partition, on average."""
        return self._n_blocks / max(1, len(self._parts))

    @property
    def _level(self) -> int:
        """Tasks are subtrees of this level: no larger than partitions, and many."""
        level = 0
        while FAN_IN ** (level + 1) <= min(self._partition_blocks, self._n_blocks / _FEWEST_TASKS):
            level += 1
        return level

    def _added(
        self, task: Callable[..., T], aligned: Sequence[Any], wanted: list[tuple[int, int, int]]
    ) -> list[tuple[int, T]]:
        """Levels and values of subtrees, added up where they are computed."""
        together, roots = self._delayed(in_order), []
        for level, first, stop in wanted:
            spans = subtrees(first, stop, min(level, self._level))
            nodes = self._tasks(task, aligned, [span[1:] for span in spans])
            while len(nodes) > 1:
                groups = [nodes[i : i + FAN_IN] for i in range(0, len(nodes), FAN_IN)]
                nodes = [together(group) if len(group) > 1 else group[0] for group in groups]
            roots += nodes
        levels = [level for level, _, _ in wanted]
        values = self._checked(self._compute(roots), wanted[0][1] * BLOCK_ROWS)
        return list(zip(levels, values, strict=True))

    def _checked(self, parts: Sequence[Hashed[T]], start: int) -> list[T]:
        """Values of tasks on one row after the other, once the rows are known to be the same."""
        hashes = [one for part in parts for one in part.hashes]
        if hashes:
            found = np.concatenate(hashes)
            self._check_unchanged(np.arange(start, start + len(found)), found)
        return [part.value for part in parts]

    def _check_unchanged(self, rows: Indices, hashes: Hashes) -> None:
        numbers = rows if self._index is None else self._index[rows]
        row = self._witness.changed(numbers, hashes)
        if row is not None:
            place = next(p for p, _ in self._parts if p.start <= row < p.start + p.length)
            raise ValueError(
                f"X: row {row}, in {place}, is not what it was in an earlier pass: "
                f"{self._collection.name} gives other rows each time it is computed, or what it "
                "reads has changed. Call persist() on it and fit what that returns, or write it to "
                "Parquet first."
            )

    def _tasks(
        self,
        task: Callable[..., T],
        aligned: Sequence[Any],
        blocks: Sequence[tuple[int, int]],
    ) -> list[Any]:
        """A node for each run of blocks, given by its first and its end."""
        # A node that all others refer to is sent once, and again by dask if it is lost.
        shared = import_dask().delayed(Shared(task, self._form), pure=False, traverse=False)
        one, nodes = self._delayed(run), []
        for first, stop in blocks:
            rows = range(first * BLOCK_ROWS, min(stop * BLOCK_ROWS, self.n_rows))
            pieces = self._pieces(rows)
            places = tuple(place for place, _ in pieces)
            # A single partition is picked from within the task; of several, only rows travel.
            values = [block for _, block in pieces] if len(pieces) == 1 else self._picked(pieces)
            beside = (self._cut(other, rows) for other in aligned)
            nodes.append(one(values, places, shared, *beside))
        return nodes

    def _pieces(self, rows: range | Indices) -> list[tuple[Place, Any]]:
        """Partitions that hold some of these increasing rows, and which of their rows these are."""
        first = int(np.searchsorted(self._stops, rows[0], side="right")) - 1
        pieces = []
        for (place, block), start in zip(self._parts[first:], self._stops[first:], strict=False):
            low, high = bisect_left(rows, start), bisect_left(rows, start + place.n_rows)
            if low < high:
                pieces.append((place.part(rows[low:high], int(start)), block))
            if high == len(rows):
                break
        return pieces

    def _picked(self, pieces: Sequence[tuple[Place, Any]]) -> list[Any]:
        """A node for each piece, so that no other rows of its partition travel."""
        picked, form = self._delayed(pick), self._form
        return [picked(block, place, form) for place, block in pieces]

    def _cut(self, other: Any, rows: range) -> Any:
        """The part of an array, or of another source, that belongs to a run of rows."""
        if isinstance(other, DaskTable):
            return self._delayed(_joined)(other._picked(other._pieces(rows)))
        if isinstance(other, RowSource):
            return rows_of_items(other.take(np.arange(rows.start, rows.stop)))
        return np.ascontiguousarray(other[rows.start : rows.stop])

    def _compute(self, nodes: Iterable[Any]) -> list[Any]:
        return compute(self._collection, nodes, self._lengths[0] if self._lengths else None)


# Everything below is called by tasks, on whichever machine they run.


@dataclass(frozen=True)
class Form:
    """What the blocks of all partitions must be turned into."""

    columns: tuple[str, ...] | None
    n_features: int
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Place:
    """A partition: its number, its rows of the collection, and which of these rows are wanted.

    ``keep`` holds the increasing positions of the wanted rows within the partition. It is a range
    if they follow each other.
    """

    number: int
    start: int
    length: int
    keep: range | Indices

    @property
    def n_rows(self) -> int:
        """Number of wanted rows."""
        return len(self.keep)

    def part(self, rows: range | Indices, start: int) -> Place:
        """The same with some of the wanted rows, of which the first has the number ``start``."""
        if isinstance(rows, range):
            return replace(self, keep=self.keep[rows.start - start : rows.stop - start])
        local = rows - start
        keep = self.keep.start + local if isinstance(self.keep, range) else self.keep[local]
        return replace(self, keep=keep)

    def __str__(self) -> str:
        return f"partition {self.number} (rows {self.start} to {self.start + self.length - 1})"


@dataclass(frozen=True)
class Shared:
    """What the tasks of a pass have in common: one node of their graph."""

    task: Callable[..., Any]
    form: Form


@dataclass(frozen=True)
class Hashed(Generic[T]):
    """What a task made of some rows, and the hashes of these rows; sums are of rows in order."""

    value: T
    hashes: tuple[Hashes, ...]

    def __add__(self, other: Hashed[T]) -> Hashed[T]:
        total: Any = self.value
        return Hashed(total + other.value, self.hashes + other.hashes)


def run(values: list[Any], places: Sequence[Place], shared: Shared, *aligned: Any) -> Hashed[Any]:
    """Call a task with some rows, and with what is aligned to them.

    ``values`` holds the partition that has all the rows or, if there are several partitions, the
    rows that were picked from each.
    """
    items = join(values) if len(places) > 1 else pick(values[0], places[0], shared.form)
    try:
        return Hashed(shared.task(rows_of_items(items), *aligned), (row_hashes(items),))
    except Exception as error:
        message = f"{_named(places)}: {type(error).__name__}: {error}"
        raise _same_kind(error, message) from error


def pick(block: Any, place: Place, form: Form) -> Items:
    """Rows of a partition as arrays or CSR of finite numbers; only the rows between are read."""
    length = len(block) if hasattr(block, "columns") else len_items(block)
    if length != place.length:
        raise ValueError(
            f"X: {place} has {length} rows now: the collection gives other rows each time it "
            "is computed. Call persist() on it and fit what that returns, or write it to Parquet "
            "first."
        )
    keep = place.keep
    around = slice(int(keep[0]), int(keep[-1]) + 1) if len(keep) else slice(0, 0)
    try:
        items = _as_items(block, around, form)
    except (TypeError, ValueError) as error:
        raise _same_kind(error, f"{place}: {error}") from error
    if not sparse.issparse(items):
        numbers = place.start + np.arange(around.start, around.stop)
        check_finite(np.asarray(items), form.columns, str(place), numbers)
    elif not np.isfinite(items.data).all():
        raise ValueError(f"Input X contains NaN or infinity, in {place}.")
    return items if isinstance(keep, range) else items[keep - around.start]


def _joined(parts: list[Items]) -> RowSource:
    return rows_of_items(join(parts))


def read_columns(block: Any, columns: tuple[str, ...]) -> list[NDArray[Any]]:
    """Columns of a data frame, numbers or not."""
    names = [str(column) for column in block.columns]
    return [np.asarray(block.iloc[:, names.index(column)]) for column in columns]


def _as_items(block: Any, rows: slice, form: Form) -> Items:
    if hasattr(block, "columns") and hasattr(block, "to_numpy"):
        names = [str(column) for column in block.columns]
        if form.columns is not None and tuple(names) != form.columns:
            block = block.iloc[:, [names.index(column) for column in form.columns]]
        block = block.iloc[rows].to_numpy(dtype=form.dtype, na_value=np.nan)
    else:
        block = block.tocsr()[rows] if hasattr(block, "tocsr") else np.asarray(block)[rows]
    if block.ndim != 2 or block.shape[1] != form.n_features:
        raise ValueError(
            f"it has rows of shape {block.shape[1:]}, but {form.n_features} features are expected."
        )
    items: Items = block.astype(form.dtype, copy=False)
    # Products of rows that lie column by column in memory may round differently.
    return items if sparse.issparse(items) else np.ascontiguousarray(items)


def _named(places: Sequence[Place]) -> str:
    """What error messages call neighbouring partitions."""
    first, last = places[0], places[-1]
    if len(places) == 1:
        return str(first)
    rows = f"rows {first.start} to {last.start + last.length - 1}"
    return f"partitions {first.number} to {last.number} ({rows})"


def _same_kind(error: Exception, message: str) -> Exception:
    """An error of the same general kind, with another message."""
    for kind in (TypeError, ValueError):
        if isinstance(error, kind):
            return kind(message)
    return RuntimeError(message)
