"""Tables in files: CSV and Parquet, in and out."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pursuit.cli.console import WrongCallError
from pursuit.rows import file_kind, open_file
from pursuit.store import replacing


class TableFile:
    """A CSV or Parquet file, or a folder of one kind of them.

    Parameters
    ----------
    path : Path
        Where it is.
    texts : sequence of str
        Columns that hold texts, even if those of a CSV file all look like numbers.
    """

    def __init__(self, path: Path, texts: Sequence[str] = ()) -> None:
        require_file(path)
        self.path = path
        self._table = open_file(path, texts)
        self.columns = list(self._table.columns)
        self.n_rows = self._table.n_rows

    @property
    def bytes(self) -> int:
        """Size on disk."""
        parts = self.path.rglob("*") if self.path.is_dir() else [self.path]
        return sum(part.stat().st_size for part in parts if part.is_file())

    def type_of(self, column: str) -> pa.DataType:
        """Type of a column."""
        return self._table.schema.field(column).type

    def rows(self, columns: Sequence[str]) -> Any:
        """The rows as an estimator takes them, read when needed."""
        return self._table.select(columns)

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Whole columns."""
        schema = pa.schema([self._table.schema.field(column) for column in columns])
        return pa.Table.from_batches(self._table.batches(columns), schema)

    def pieces(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The columns in pieces of bounded size, in row order."""
        for batch in self._table.batches(columns):
            yield pa.Table.from_batches([batch])


class Output:
    """A CSV or Parquet file, or CSV on standard output where the path is ``-``.

    The file appears, whole, when the block in which it is written is left without an error.
    """

    def __init__(self, path: str) -> None:
        self._path, self._kind = path, ".csv" if path == "-" else Path(path).suffix.lower()
        self._stack = contextlib.ExitStack()
        self._sink: Any = None
        self._writer: Any = None
        if self._kind not in (".csv", ".parquet"):
            raise WrongCallError(f"{path}: the output must end in .csv or .parquet, or be -.")

    def __enter__(self) -> Output:
        there = contextlib.nullcontext(sys.stdout.buffer) if self._path == "-" else None
        self._sink = self._stack.enter_context(there or replacing(self._path))
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stack.__exit__(*raised)

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        if self._writer is None:
            kind = pa.csv.CSVWriter if self._kind == ".csv" else pa.parquet.ParquetWriter
            self._writer = self._stack.enter_context(kind(self._sink, table.schema))
        self._writer.write_table(table)


def require_file(path: Path) -> None:
    """A CSV or Parquet file, or a folder, must be there."""
    if not path.exists():
        raise WrongCallError(f"there is no file {path}.")
    if not path.is_dir() and file_kind(path) in ("", ".npy"):
        raise WrongCallError(f"{path}: a table must be a .csv or .parquet file, or a folder.")
