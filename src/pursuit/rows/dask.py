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

from pursuit.rows.base import BLOCK_ROWS, RowSource, checked_index
from pursuit.rows.daskkinds import as_collection, compute, described, import_dask
from pursuit.rows.items import Items, join
from pursuit.rows.partitions import (
    Form,
    Pieces,
    Place,
    Shared,
    add,
    pick,
    read_columns,
    run,
)
from pursuit.rows.rechunk import in_blocks
from pursuit.rows.table import TableShape, check_columns

T = TypeVar("T")
Indices = NDArray[np.intp]

_FAN_IN = 8
"""Results that are added up at a time; part of the result's last bits, as partitions are."""
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
        """What the task gives for each partition, in row order."""
        return self._compute(self._tasks(task, aligned))

    def reduce(self, task: Callable[..., T], *aligned: Any) -> T:
        """What the task gives for the partitions, added up in a tree of fixed shape."""
        nodes, together = self._tasks(task, aligned), self._delayed(add)
        while len(nodes) > 1:
            groups = [nodes[i : i + _FAN_IN] for i in range(0, len(nodes), _FAN_IN)]
            nodes = [together(group) if len(group) > 1 else group[0] for group in groups]
        total: T = self._compute(nodes)[0]
        return total

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
            place = Place(number, start, length)
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
        picked, form = self._delayed(pick), self._form
        nodes = []
        for (place, block), first, stop in zip(
            self._parts, self._stops[:-1], self._stops[1:], strict=True
        ):
            low, high = np.searchsorted(ordered, [first, stop])
            if low < high:
                local = ordered[low:high] - first
                keep = local if place.keep is None else place.keep[local]
                nodes.append(picked(block, replace(place, keep=keep), form))
        return nodes

    def _stream(self) -> Iterator[Any]:
        for i in range(0, len(self._parts), _AHEAD):
            first, stop = self._stops[i], self._stops[min(i + _AHEAD, len(self._parts))]
            yield from self._compute(self._pick(np.arange(first, stop)))

    def _tasks(self, task: Callable[..., T], aligned: Sequence[Any]) -> list[Any]:
        """A node a partition."""
        # A node that all others refer to is sent once, and again by dask if it is lost.
        shared = import_dask().delayed(Shared(task, self._form), pure=False, traverse=False)
        one = self._delayed(run)
        spans = [slice(*pair) for pair in zip(self._stops[:-1], self._stops[1:], strict=True)]
        return [
            one(block, place, shared, *(self._cut(other, span) for other in aligned))
            for (place, block), span in zip(self._parts, spans, strict=True)
        ]

    def _cut(self, other: Any, rows: slice) -> Any:
        """What belongs to some rows of an array, or of another source."""
        if not isinstance(other, RowSource):
            return np.ascontiguousarray(other[rows])
        index = np.arange(rows.start, rows.stop)
        if isinstance(other, DaskTable):
            return self._delayed(Pieces)(other._pick(index))
        return Pieces([other.take(index)])

    def _compute(self, nodes: Iterable[Any]) -> list[Any]:
        return compute(self._collection, nodes, self._lengths[0] if self._lengths else None)
