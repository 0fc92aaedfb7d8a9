"""Some rows of another source, in an order of choice: a sketch, or the rows with weight.

Imports numpy and the rest of this room only.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Indices
from pursuit.rows.base import (
    BLOCK_ROWS,
    DistributedRows,
    RowSource,
    checked_index,
    row_spans,
)
from pursuit.rows.items import Items, len_items
from pursuit.rows.rechunk import in_blocks
from pursuit.rows.table import Table

_MANY_ROWS = 4 * BLOCK_ROWS


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
    """Many rows of a table in their order: blocks are left over from a stream of all rows."""

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, Items]]:
        """Yield (number of the first row, items), in row order."""
        return in_blocks(self._kept(), size)

    def _kept(self) -> Iterator[NDArray[Any]]:
        for start, block in self.source.blocks():
            here = slice(*np.searchsorted(self.index, [start, start + len_items(block)]))
            if here.stop > here.start:
                yield np.asarray(block)[self.index[here] - start]


class FetchedRows(SelectedRows):
    """A few rows of a source that is slow to fetch from: fetched once, when they are first read."""

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, Items]]:
        """Yield (number of the first row, items), in the order of ``index``."""
        for span in row_spans(self.n_rows, size):
            yield span.start, self._items[span]

    def take(self, index: Indices) -> Items:
        """Items at these row numbers, counted within the selection."""
        index = checked_index(index, self.n_rows)
        items = self._items
        return [items[i] for i in index] if isinstance(items, list) else items[index]

    @cached_property
    def _items(self) -> Any:
        return self.source.take(self.index)


def source_numbers(rows: RowSource, index: Indices) -> Indices:
    """Row numbers within a selection as those of the rows that it was made from."""
    while isinstance(rows, SelectedRows):
        index, rows = rows.index[index], rows.source
    return index


def select_rows(source: RowSource, index: Indices) -> RowSource:
    """Rows ``index`` of a source as a source of their own.

    All rows in their order are the source itself. Of rows that lie elsewhere, on disk or on other
    machines, a few are worth fetching; many in their order stay there.
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
