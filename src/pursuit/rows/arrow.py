"""Tables that come as Arrow record batches.

pyarrow is imported when a table is made; otherwise numpy and the rest of this room only.
"""

from __future__ import annotations

import atexit
import copy
import importlib
import os
import tempfile
import weakref
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Indices
from pursuit.rows.base import BLOCK_ROWS, Items, checked_index, in_blocks
from pursuit.rows.table import (
    Table,
    check_columns,
    check_distinct,
    check_finite,
    listed,
    not_finite,
)

BATCH_ROWS = 8 * BLOCK_ROWS
"""Rows that are decoded at a time. More rows take more memory, and fewer take more time."""


def require_pyarrow(what: str, module: str = "pyarrow") -> Any:
    """The pyarrow module, or an error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f'{what} needs pyarrow: pip install "pursuit[parquet]".') from error


class BatchedTable(Table):
    """A table cut into parts, which are read as record batches.

    Subclasses know the parts: row groups of Parquet files, batches of an Arrow table.

    Parameters
    ----------
    schema : pyarrow.Schema
        Names and types of all columns. If pandas has marked a column as the index of a data frame,
        the table does not have that column, just as the data frame has not.
    part_rows : sequence of int
        Number of rows of each part.
    name : str
        What error messages call the table.
    """

    columns: tuple[str, ...]

    def __init__(self, schema: Any, part_rows: Sequence[int], name: str) -> None:
        self.name = name
        self.schema = schema
        self._ends = np.cumsum([0, *part_rows], dtype=np.intp)  # row where each part starts, and m
        self.n_rows = int(self._ends[-1])
        check_distinct(schema.names, name)
        index = _pandas_index(schema)
        self.columns = tuple(column for column in schema.names if column not in index)

    @abstractmethod
    def _scan(self, parts: Sequence[int], columns: Sequence[str]) -> Iterator[Any]:
        """Record batches of some parts with these columns, in row order."""

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return len(self.columns)

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """float32 if all columns are, float64 otherwise."""
        types = {str(self.schema.field(column).type) for column in self.columns}
        return np.dtype(np.float32 if types == {"float"} else np.float64)

    def select(self, columns: Sequence[str]) -> Self:
        """The table with these columns only, in this order; nothing is read."""
        check_columns(columns, self.columns, self.name)
        check_distinct(columns, "the selection")
        selected = copy.copy(self)
        selected.columns = tuple(columns)
        return selected

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, Items]]:
        """Yield (number of the first row, array), in row order."""
        return in_blocks(self._arrays(), size)

    def take(self, index: Indices) -> NDArray[Any]:
        """Rows at these numbers, in this order; only the parts that hold them are read."""
        self._check_types()
        rows, places = np.unique(checked_index(index, self.n_rows), return_inverse=True)
        result = np.empty((len(rows), self.n_features), dtype=self.dtype)
        for batch, at in self.batches_at(rows):
            result[at] = self._matrix(batch, rows[at])
        return result[places]

    def batches_at(self, rows: Indices) -> Iterator[tuple[Any, slice]]:
        """Record batches of the rows with these increasing numbers, and which of them they are."""
        part_of_row = np.searchsorted(self._ends, rows, side="right") - 1
        parts, order = np.unique(part_of_row, return_inverse=True)
        # Where the rows lie among those of the parts that are read.
        lengths = self._ends[parts + 1] - self._ends[parts]
        local = rows - self._ends[part_of_row] + (np.cumsum(lengths) - lengths)[order]
        done = start = 0
        batches = self._scan(parts.tolist(), self.columns) if len(rows) else iter(())
        for batch in batches:
            stop = int(np.searchsorted(local, start + batch.num_rows))
            if stop > done:
                wanted = require_pyarrow(self.name).array(local[done:stop] - start)
                yield batch.take(wanted), slice(done, stop)
            done, start = stop, start + batch.num_rows
            if done == len(rows):
                break

    def column(self, name: str) -> NDArray[Any]:
        """A whole column of any plain type; what is missing is NaN, NaT or None."""
        pa = require_pyarrow(self.name)
        kind = self.schema.field(name).type
        self._check_plain(name, kind)
        whole = pa.chunked_array([batch.column(0) for batch in self.batches([name])], kind)
        if pa.types.is_dictionary(kind):
            whole = whole.cast(kind.value_type)
        if pa.types.is_decimal(kind):  # Arrow's conversion does not round to the nearest number
            return np.array([*whole.to_pylist(), None], dtype=object)[:-1]
        values: NDArray[Any] = whole.to_numpy()
        return values

    def with_rows(self, rows: Indices) -> ArrowTable:
        """The table of the rows with these increasing numbers, in a temporary file."""
        pa = require_pyarrow(self.name)
        schema = pa.schema([self.schema.field(column) for column in self.columns])
        return spooled(schema, (batch for batch, _ in self.batches_at(rows)), self.name)

    def read(self, columns: Sequence[str]) -> list[NDArray[Any]]:
        """Whole columns, numbers or not, in one pass that reads nothing else."""
        check_columns(columns, self.columns, self.name)
        wholes: list[NDArray[Any]] = []
        start = 0
        for batch in self.batches(columns):
            numbers = np.arange(start, start + batch.num_rows)
            pieces = []
            for column, array in zip(columns, batch.columns, strict=True):
                self._check_plain(column, array.type)
                self._check_present(column, array, numbers, "y")
                pieces.append(array.to_numpy(zero_copy_only=False))
            wholes = wholes or [np.empty(self.n_rows, dtype=piece.dtype) for piece in pieces]
            for whole, piece in zip(wholes, pieces, strict=True):
                whole[start : start + len(piece)] = piece
            start += batch.num_rows
        return wholes or [np.empty(0) for _ in columns]

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Record batches with these columns, in row order, whatever they hold."""
        return self._scan(range(len(self._ends) - 1), columns)

    def check_numeric(self) -> None:
        """Refuse columns that are not numbers, and missing values where the file counts them."""
        self._check_types()
        for part in range(len(self._ends) - 1):
            for column in self._with_nulls(part):
                start = int(self._ends[part])
                for batch in self._scan([part], [column]):
                    numbers = np.arange(start, start + batch.num_rows)
                    self._check_present(column, batch.columns[0], numbers)
                    start += batch.num_rows

    def _with_nulls(self, part: int) -> list[str]:
        """Columns that are known, before they are read, to have missing values in this part."""
        return []

    def _arrays(self) -> Iterator[NDArray[Any]]:
        self._check_types()
        start = 0
        for batch in _merged(self.batches(self.columns), self.name):
            yield self._matrix(batch, np.arange(start, start + batch.num_rows))
            start += batch.num_rows

    def _matrix(self, batch: Any, numbers: Indices) -> NDArray[Any]:
        """The rows of a batch, which have these numbers, as an array of finite numbers."""
        matrix = np.empty((len(numbers), self.n_features), dtype=self.dtype)
        for j, (column, array) in enumerate(zip(self.columns, batch.columns, strict=True)):
            self._check_present(column, array, numbers)
            matrix[:, j] = array.to_numpy(zero_copy_only=False)
        check_finite(matrix, self.columns, self.name, numbers)
        return matrix

    def _check_present(
        self, column: str, array: Any, numbers: Indices, argument: str = "X"
    ) -> None:
        if array.null_count:
            row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
            raise not_finite(True, f"column {column!r}", self.name, int(numbers[row]), argument)

    def _check_plain(self, column: str, kind: Any) -> None:
        if require_pyarrow(self.name).types.is_nested(kind):
            raise ValueError(
                f"column {column!r} of {self.name} holds {kind}: targets and weights are one value "
                "per row; make a column of each of its values."
            )

    def _check_types(self) -> None:
        """Refuse columns that are not numbers."""
        types = require_pyarrow(self.name).types
        tests = types.is_integer, types.is_floating, types.is_boolean, types.is_decimal
        kinds = {column: self.schema.field(column).type for column in self.columns}
        empty = [column for column, kind in kinds.items() if types.is_null(kind)]
        if empty and self.n_rows:
            raise not_finite(True, f"column {empty[0]!r}", self.name, 0)
        other = [
            f"{column} ({kind})"
            for column, kind in kinds.items()
            if not (types.is_null(kind) or any(test(kind) for test in tests))
        ]
        if other:
            raise ValueError(
                f"{self.name} has columns that are not numbers: {listed(other)}. Let "
                "pursuit.TableEncoder turn them into numbers: "
                "pursuit.make_table_pipeline(model).fit(path, target=name); or leave them out, "
                "with pursuit.open_table(path).select(columns) for X."
            )


class ArrowTable(BatchedTable):
    """Record batches in memory, or mapped into it."""

    def __init__(self, table: Any, name: str) -> None:
        self._parts = _Batches(table.to_batches())
        super().__init__(table.schema, [batch.num_rows for batch in self._parts.held], name)

    def _scan(self, parts: Sequence[int], columns: Sequence[str]) -> Iterator[Any]:
        return (self._parts.held[part].select(list(columns)) for part in parts)


def spooled(schema: Any, batches: Iterable[Any], name: str) -> ArrowTable:
    """A table of batches that come only once, kept in a temporary file as long as the table lives.

    So the rows are the same and in the same order in every pass, and can be fetched by number.
    """
    pa = require_pyarrow(name)
    _remove_left()
    handle, path = tempfile.mkstemp(suffix=".arrow", prefix="pursuit-")
    os.close(handle)
    try:
        # A stream, not a file: batches may bring dictionaries of their own.
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        with pa.memory_map(path) as source:
            table = ArrowTable(pa.ipc.open_stream(source).read_all(), name)
    except BaseException:
        _remove(path)
        raise
    # Selections of columns share the batches, so the file lives as long as any of them.
    weakref.finalize(table._parts, _remove, path, table._parts.held)
    return table


class _Batches:
    """What selections of columns share: the end of the last one is the end of the batches."""

    def __init__(self, held: list[Any]) -> None:
        self.held = held


def _merged(batches: Iterable[Any], name: str) -> Iterator[Any]:
    """Small batches, such as those of small row groups, put together up to `BATCH_ROWS` rows."""
    waiting: list[Any] = []
    n_waiting = 0
    for batch in (batch for batch in batches if batch.num_rows):
        if waiting and n_waiting + batch.num_rows > BATCH_ROWS:
            yield _one_batch(waiting, name)
            waiting, n_waiting = [], 0
        waiting.append(batch)
        n_waiting += batch.num_rows
    if waiting:
        yield _one_batch(waiting, name)


def _one_batch(batches: list[Any], name: str) -> Any:
    if len(batches) == 1:
        return batches[0]
    [whole] = require_pyarrow(name).Table.from_batches(batches).combine_chunks().to_batches()
    return whole


def _pandas_index(schema: Any) -> set[str]:
    """Columns to which pandas, or dask, has written the index of a data frame."""
    noted = (schema.pandas_metadata or {}).get("index_columns", [])
    # An index that only counts rows is noted as a dict, and is not a column.
    return {column for column in noted if isinstance(column, str)}


_LEFT: set[str] = set()
"""Files that could not be removed yet: Windows removes none that is mapped into memory."""


def _remove(path: str, held: list[Any] | None = None) -> None:
    """Remove a file, and before it the batches that map it; arrays made of them may be left."""
    if held is not None:
        held.clear()
    try:
        Path(path).unlink(missing_ok=True)
        _LEFT.discard(path)
    except OSError:
        _LEFT.add(path)


@atexit.register
def _remove_left() -> None:
    """Try again."""
    for path in tuple(_LEFT):
        _remove(path)
