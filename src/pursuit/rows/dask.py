"""Rows of dask arrays, data frames and delayed blocks: partitions that may lie on a cluster.

Work is sent to the partitions as tasks of a dask graph, so that an active `distributed.Client` runs
it on its workers and repeats what a lost worker had done; without one the local scheduler runs it.
Imports numpy and the rest of this room; dask when a collection is passed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Indices
from pursuit.rows.base import BLOCK_ROWS, RowSource, checked_index
from pursuit.rows.daskkinds import as_collection, compute, described, import_dask, slots
from pursuit.rows.items import Items, join
from pursuit.rows.partitions import (
    Form,
    Pieces,
    Place,
    Shared,
    pick,
    read_columns,
    run,
)
from pursuit.rows.rechunk import in_blocks
from pursuit.rows.table import TableShape, check_columns
from pursuit.rows.tree import FAN_IN, in_order, subtrees

T = TypeVar("T")

_FEWEST_TASKS = 64
"""Tasks hold several blocks where so many of them remain."""
_ROUNDS = 8
"""Tasks that each of those who compute at a time gets, and partitions that are read, between two
looks at what was found."""
_AHEAD = 2
"""Partitions that are fetched at a time when rows are streamed."""


class DaskTable(TableShape):
    """Rows of a dask collection, which stay in its partitions.

    Parameters
    ----------
    X : dask array, dask data frame, or list of delayed blocks
        A two-dimensional array in chunks of rows; a data frame; or blocks that are arrays, CSR
        matrices or data frames. Where the lengths of partitions are not known, one pass over the
        collection counts their rows. It is computed anew in every pass: call its ``persist()``
        where the cluster has the memory.
    """

    def __init__(self, X: Any) -> None:
        self._collection = as_collection(X)
        self.name = self._collection.name
        self._lengths: list[list[int]] = []  # at most one; selections of columns share it
        if self._collection.lengths is not None:
            self._lengths.append(self._collection.lengths)
        self._index: Indices | None = None

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, None where they have none."""
        return self._collection.columns

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return self._collection.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
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
        picked = self._pick(rows) or self._pick(np.arange(1))
        found: Any = join(self._compute(picked))
        taken: Items = found[places]
        return taken

    def map(self, task: Callable[..., T], *aligned: Any) -> list[T]:
        """What the task gives for one run of blocks after the other."""
        spans = subtrees(0, self._n_blocks, self._level)
        return self._compute(self._tasks(task, aligned, [span[1:] for span in spans]))

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
        return selected

    def check_numeric(self) -> None:
        """Refuse columns that are not numbers."""
        self._collection.check_numeric()

    def read(self, columns: Sequence[str]) -> list[NDArray[Any]]:
        """Whole columns, numbers or not, in one pass; the rows are counted on the way."""
        check_columns(columns, self.columns or (), self.name)
        if self._index is not None:
            raise ValueError("columns are read of all rows: read them before rows are selected.")
        part = self._delayed(read_columns)
        blocks = self._collection.project(columns).blocks()
        found = self._compute([part(block, tuple(columns)) for block in blocks])
        if not self._lengths:
            self._lengths.append([len(arrays[0]) for arrays in found])
        return [np.concatenate(pieces) for pieces in zip(*found, strict=True)]

    @cached_property
    def _parts(self) -> list[tuple[Place, Any]]:
        """Partitions that hold rows, each with its delayed value."""
        self.check_numeric()
        blocks = self._collection.blocks()
        if not self._lengths:
            count = self._delayed(described)
            self._lengths.append([found[0] for found in self._compute(map(count, blocks))])
        parts, start = [], 0
        for number, (block, length) in enumerate(zip(blocks, self._lengths[0], strict=True)):
            place = Place.whole(number, start, length)
            if self._index is not None:
                low, high = np.searchsorted(self._index, [start, start + length])
                place = replace(place, keep=self._index[low:high] - start)
            if place.n_rows:
                parts.append((place, block))
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

    def _pick(self, ordered: Indices) -> list[Any]:
        """Nodes for increasing row numbers, one for each partition that holds some of them."""
        pieces = []
        for (place, block), first, stop in zip(
            self._parts, self._stops[:-1], self._stops[1:], strict=True
        ):
            low, high = np.searchsorted(ordered, [first, stop])
            if low < high:
                pieces.append((place.picked(ordered[low:high] - first), block))
        return self._picked(pieces)

    def _stream(self) -> Iterator[Any]:
        for i in range(0, len(self._parts), _AHEAD):
            yield from self._compute(self._picked(self._parts[i : i + _AHEAD]))

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
        return list(zip(levels, self._compute(roots), strict=True))

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
            rows = slice(first * BLOCK_ROWS, min(stop * BLOCK_ROWS, self.n_rows))
            pieces = self._pieces(rows)
            places = tuple(place for place, _ in pieces)
            found = [block for _, block in pieces] if len(pieces) == 1 else self._picked(pieces)
            nodes.append(one(found, places, shared, *(self._cut(other, rows) for other in aligned)))
        return nodes

    def _pieces(self, rows: slice) -> list[tuple[Place, Any]]:
        """Partitions that hold some rows, and which of their rows these are."""
        first = int(np.searchsorted(self._stops, rows.start, side="right")) - 1
        pieces = []
        for (place, block), start in zip(self._parts[first:], self._stops[first:], strict=False):
            if start >= rows.stop:
                break
            low, high = max(rows.start - start, 0), min(rows.stop - start, place.n_rows)
            pieces.append((place.narrowed(int(low), int(high)), block))
        return pieces

    def _picked(self, pieces: Sequence[tuple[Place, Any]]) -> list[Any]:
        """A node for each piece, so that no other rows of its partition travel."""
        picked, form = self._delayed(pick), self._form
        return [picked(block, place, form) for place, block in pieces]

    def _cut(self, other: Any, rows: slice) -> Any:
        """What belongs to some rows of an array, or of another source."""
        if not isinstance(other, RowSource):
            return np.ascontiguousarray(other[rows])
        if isinstance(other, DaskTable):
            return self._delayed(Pieces)(other._picked(other._pieces(rows)))
        return Pieces([other.take(np.arange(rows.start, rows.stop))])

    def _compute(self, nodes: Iterable[Any]) -> list[Any]:
        return compute(self._collection, nodes, self._lengths[0] if self._lengths else None)
