"""Some rows of another source, and samples: rows with their targets and weights.

Imports numpy and the rest of this room only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.rows.base import (
    BLOCK_ROWS,
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
