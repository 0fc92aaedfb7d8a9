"""Tables whose columns of text have become codes, as `pursuit.TableEncoder` makes them.

Imports numpy and the rest of this room only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pursuit._types import Floats, Indices
from pursuit.rows.arrow import BatchedTable
from pursuit.rows.base import BLOCK_ROWS, Items, RowSource, checked_index, in_blocks
from pursuit.rows.memory import SelectedRows
from pursuit.rows.table import Table, check_columns, check_distinct, distinct_names, read_all

Levels: TypeAlias = "list[str | int | float | bool | None]"
"""The values of a category column in the order of their codes; None is a missing value."""


class NumberTable(Table):
    """Named columns of the finite numbers of a source.

    Parameters
    ----------
    rows : RowSource
        Rows of finite numbers.
    columns : sequence of str
        Names of the columns.
    name : str
        What error messages call the table.
    """

    columns: tuple[str, ...]

    def __init__(
        self, rows: RowSource, columns: Sequence[str], name: str = "the encoded table"
    ) -> None:
        check_distinct(columns, name)
        self.name, self.columns = name, tuple(columns)
        self.n_rows, self.n_features = rows.n_rows, len(self.columns)
        self.dtype = np.dtype(np.float64)
        self._rows = rows

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, Items]]:
        """Yield (number of the first row, array), in row order."""
        return self._rows.blocks(size)

    def take(self, index: Indices) -> Items:
        """Rows at these numbers, in this order."""
        return self._rows.take(index)

    def select(self, columns: Sequence[str]) -> Any:
        """The table with these columns only, in this order; nothing is read."""
        check_columns(columns, self.columns, self.name)
        if tuple(columns) == self.columns:
            return self
        at = [self.columns.index(column) for column in columns]
        return self._with(MappedRows(self._rows, lambda rows: rows[:, at]), columns)

    def _with(self, rows: RowSource, columns: Sequence[str]) -> NumberTable:
        return NumberTable(rows, columns, self.name)

    def with_rows(self, rows: Indices) -> NumberTable:
        """The table of the rows with these numbers, in this order; nothing is read."""
        return self._with(SelectedRows(self._rows, rows), self.columns)

    def read(self, columns: Sequence[str]) -> list[NDArray[Any]]:
        """Whole columns, in one pass."""
        return list(np.ascontiguousarray(read_all(self.select(columns)).T))

    def check_numeric(self) -> None:
        """Nothing to refuse: whoever encodes a table gives finite numbers."""

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, key: Any) -> Any:
        """A part of the array of all rows."""
        return np.asarray(self)[key]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return read_all(self).astype(dtype or self.dtype, copy=False)


class CodedTable(NumberTable):
    """Numbers, and codes of categories, which kernels compare for equality.

    The codes of a column are 0, 1, …, the positions in its levels; what is not among them has the
    code that follows the last.

    Parameters
    ----------
    rows, columns, name
        As in :class:`NumberTable`.
    levels : mapping of str to list
        Levels of the columns that hold codes.
    """

    def __init__(
        self,
        rows: RowSource,
        columns: Sequence[str],
        levels: Mapping[str, Levels],
        name: str = "the encoded table",
    ) -> None:
        super().__init__(rows, columns, name)
        self.levels = {column: levels[column] for column in self.columns if column in levels}

    def _with(self, rows: RowSource, columns: Sequence[str]) -> CodedTable:
        return CodedTable(rows, columns, self.levels, self.name)


class EncodedTable(NumberTable):
    """What `pursuit.TableEncoder` makes of a table: numbers, and categories in two forms.

    It is a table of plain numbers, with a column of zeros and ones per level, named
    ``column=level``; ``np.asarray`` gives its array. Its ``coded`` is the same table with one
    column of codes per column of categories, for kernels that compare levels.
    """

    def __init__(self, coded: CodedTable) -> None:
        self.coded = coded
        counts = {coded.columns.index(column): len(coded.levels[column]) for column in coded.levels}
        names = [name for column in coded.columns for name in plain_names(column, coded.levels)]
        super().__init__(
            MappedRows(coded, lambda rows: one_hot(rows, counts)), distinct_names(names), coded.name
        )

    def with_rows(self, rows: Indices) -> EncodedTable:
        """The table of the rows with these numbers, in this order; nothing is read."""
        return EncodedTable(self.coded._with(SelectedRows(self.coded, rows), self.coded.columns))


def plain_names(column: str, levels: Mapping[str, Levels]) -> list[str]:
    """Names of the columns of plain numbers that a column becomes."""
    if column not in levels:
        return [column]
    shown = ["(missing)" if level is None else str(level) for level in levels[column]]
    return [f"{column}={level}" for level in shown]


def one_hot(rows: Floats, codes: Mapping[int, int]) -> Floats:
    """Replace columns of codes, whose numbers of levels are given, by zeros and ones."""
    parts = [
        (rows[:, [j]] == np.arange(codes[j])).astype(rows.dtype) if j in codes else rows[:, [j]]
        for j in range(rows.shape[1])
    ]
    return np.ascontiguousarray(np.hstack(parts))


class MappedRows:
    """The rows of a source, each block of them changed by a function."""

    def __init__(self, rows: RowSource, change: Callable[[Any], Any]) -> None:
        self.n_rows = rows.n_rows
        self._rows, self._change = rows, change

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, Items]]:
        """Yield (number of the first row, items), in row order."""
        return ((start, self._change(block)) for start, block in self._rows.blocks(size))

    def take(self, index: Indices) -> Items:
        """Items at these row numbers, in this order."""
        changed: Items = self._change(self._rows.take(index))
        return changed


class BatchRows:
    """The rows of a file, encoded batch by batch whenever they are read.

    Parameters
    ----------
    table : BatchedTable
        The file.
    encode : callable
        Makes an array of finite numbers of a record batch with all columns of the table, and of the
        numbers of its rows.
    """

    def __init__(self, table: BatchedTable, encode: Callable[[Any, Indices], Floats]) -> None:
        self.n_rows = table.n_rows
        self._table, self._encode = table, encode

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, Items]]:
        """Yield (number of the first row, items), in row order."""
        return in_blocks(self._arrays(), size)

    def _arrays(self) -> Iterator[Floats]:
        start = 0
        for batch in self._table.batches(self._table.columns):
            if batch.num_rows:
                yield self._encode(batch, np.arange(start, start + batch.num_rows))
            start += batch.num_rows

    def take(self, index: Indices) -> Items:
        """Items at these row numbers, in this order."""
        rows, places = np.unique(checked_index(index, self.n_rows), return_inverse=True)
        batches = [self._encode(batch, rows[at]) for batch, at in self._table.batches_at(rows)]
        if not batches:
            empty = self._table.schema.empty_table().select(list(self._table.columns))
            return self._encode(empty, rows)
        taken: Floats = np.concatenate(batches)[places]
        return taken
