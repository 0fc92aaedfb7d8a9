"""Tables that come as Arrow record batches, in memory or in a file of their own.

pyarrow is imported when a table is made; otherwise numpy and the rest of this room only.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import itertools
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
from pursuit.rows.base import BLOCK_ROWS, checked_index
from pursuit.rows.items import Items
from pursuit.rows.rechunk import in_blocks
from pursuit.rows.table import (
    TableShape,
    check_columns,
    check_distinct,
    check_finite,
    listed,
    not_finite,
)

BATCH_ROWS = 8 * BLOCK_ROWS


def require_pyarrow(what: str, module: str = "pyarrow") -> Any:
    """The pyarrow module, or an error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f'{what} needs pyarrow: pip install "pursuit[parquet]".') from error


class BatchedTable(TableShape):
    """A table cut into parts, each of which is read as a sequence of record batches.

    Subclasses know the parts: row groups of Parquet files, batches of an Arrow table.

    Parameters
    ----------
    schema : pyarrow.Schema
        Names and types of all columns. What pandas has noted to be the index of a data frame is
        none of the table's: it is no feature of the data frame either.
    part_rows : sequence of int
        Number of rows of each part.
    name : str
        What error messages call the table.
    """

    columns: tuple[str, ...]

    def __init__(self, schema: Any, part_rows: Sequence[int], name: str) -> None:
        self.name = name
        self.schema = schema
        self._ends = np.cumsum(np.asarray(part_rows, dtype=np.intp))
        self.n_rows = int(self._ends[-1]) if len(self._ends) else 0
        check_distinct(schema.names, name)
        index = _pandas_index(schema)
        self.columns = tuple(column for column in schema.names if column not in index)

    @abstractmethod
    def _batches(self, part: int, columns: Sequence[str]) -> Iterator[Any]:
        """Record batches of one part, in row order, with these columns."""

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return len(self.columns)

    @property
    def dtype(self) -> np.dtype[Any]:
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
        index = checked_index(index, self.n_rows)
        rows, places = np.unique(index, return_inverse=True)
        result = np.empty((len(rows), self.n_features), dtype=self.dtype)
        of_row = np.searchsorted(self._ends, rows, side="right")
        for part in np.unique(of_row).tolist():
            start, last = self._start(part), int(np.searchsorted(of_row, part, side="right"))
            for batch in self._batches(part, self.columns):
                here = slice(*np.searchsorted(rows, [start, start + batch.num_rows]))
                if here.stop > here.start:
                    result[here] = self._matrix(batch, start, rows[here] - start)
                start += batch.num_rows
                if here.stop == last:
                    break
        return result[places]

    def read(self, columns: Sequence[str]) -> list[NDArray[Any]]:
        """Whole columns, numbers or not, in one pass that reads nothing else."""
        check_columns(columns, self.columns, self.name)
        found: list[NDArray[Any]] = []
        start = 0
        for batch in self.batches(columns):
            pieces = []
            for column, array in zip(columns, batch.columns, strict=True):
                self._check_plain(column, array.type)
                self._check_present(column, array, start, "y")
                pieces.append(array.to_numpy(zero_copy_only=False))
            found = found or [np.empty(self.n_rows, dtype=piece.dtype) for piece in pieces]
            for whole, piece in zip(found, pieces, strict=True):
                whole[start : start + len(piece)] = piece
            start += batch.num_rows
        return found or [np.empty(0) for _ in columns]

    def _arrays(self) -> Iterator[NDArray[Any]]:
        self._check_types()
        start = 0
        for batch in self.batches(self.columns):
            yield self._matrix(batch, start)
            start += batch.num_rows

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Record batches with these columns, in row order, whatever they hold."""
        return itertools.chain.from_iterable(
            self._batches(part, columns) for part in range(len(self._ends))
        )

    def _start(self, part: int) -> int:
        return int(self._ends[part - 1]) if part else 0

    def _matrix(self, batch: Any, start: int, rows: Indices | slice = slice(None)) -> NDArray[Any]:
        """Rows of a batch that starts at row ``start``, as an array of finite numbers."""
        numbers = start + np.arange(batch.num_rows)[rows]
        matrix = np.empty((len(numbers), self.n_features), dtype=self.dtype)
        for j, (column, array) in enumerate(zip(self.columns, batch.columns, strict=True)):
            self._check_present(column, array, start)
            matrix[:, j] = array.to_numpy(zero_copy_only=False)[rows]
        try:
            check_finite(matrix, self.columns, self.name, 0)
        except ValueError:
            # Rows that were picked out do not follow each other: said again, one by one.
            for i, row in enumerate(numbers.tolist()):
                check_finite(matrix[i : i + 1], self.columns, self.name, row)
            raise
        return matrix

    def _check_present(self, column: str, array: Any, start: int, argument: str = "X") -> None:
        if array.null_count:
            row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
            raise not_finite(True, f"column {column!r}", self.name, start + row, argument)

    def _check_plain(self, column: str, kind: Any) -> None:
        if require_pyarrow(self.name).types.is_nested(kind):
            raise ValueError(
                f"column {column!r} of {self.name} holds {kind}: targets and weights are one value "
                "a row; make a column of each of its values."
            )

    def check_numeric(self) -> None:
        """Refuse columns that are not numbers, and, where they are counted, missing values."""
        self._check_types()
        for part in range(len(self._ends)):
            for column in self._with_nulls(part):
                start = self._start(part)
                for batch in self._batches(part, [column]):
                    self._check_present(column, batch.columns[0], start)
                    start += batch.num_rows

    def _with_nulls(self, part: int) -> list[str]:
        """Columns that are known, without a look, to have missing values in this part."""
        return []

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
                f"{self.name} has columns that are not numbers: {listed(other)}. Encode them, for "
                "instance with scikit-learn's TargetEncoder or OneHotEncoder, and write the file "
                "anew; or leave them out, with pursuit.open_table(path).select(columns) for X."
            )


class ArrowTable(BatchedTable):
    """Record batches in memory, or mapped into it."""

    def __init__(self, table: Any, name: str) -> None:
        self._held = table.to_batches()
        super().__init__(table.schema, [batch.num_rows for batch in self._held], name)

    def _batches(self, part: int, columns: Sequence[str]) -> Iterator[Any]:
        yield self._held[part].select(list(columns))


def spooled(schema: Any, batches: Iterable[Any], name: str) -> ArrowTable:
    """A table of batches that come only once, kept in a temporary file as long as the table lives.

    Rows are then always the same and in the same order, and can be fetched by number.
    """
    pa = require_pyarrow(name)
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
    # Selections share the list of batches, so that the file lives as long as any of them.
    table._held = _Held(table._held)
    weakref.finalize(table._held, _remove, path)
    return table


def _pandas_index(schema: Any) -> set[str]:
    """Columns that pandas, or dask, has written the index of a data frame to."""
    noted = (schema.pandas_metadata or {}).get("index_columns", [])
    # An index that only counts rows is noted as a dict, and is no column.
    return {column for column in noted if isinstance(column, str)}


class _Held(list[Any]):
    """A list that can be referred to weakly."""


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        Path(path).unlink()
