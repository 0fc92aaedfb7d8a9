"""Files of the commands: tables as CSV and Parquet, in and out, and stored models."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pursuit.cli.columns import Column, Encoding, require_columns
from pursuit.cli.console import WrongCallError
from pursuit.rows import file_kind, open_file
from pursuit.store import replacing


class TableFile:
    """A CSV or Parquet file, or a folder of files of one kind.

    Parameters
    ----------
    path : Path
        The file or folder.
    texts : sequence of str
        Columns to read as text, even if all their values in a CSV file look like numbers.
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
        """The rows in the form that an estimator takes, read when needed."""
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

    The complete file appears when the block in which it is written ends without an error.
    """

    def __init__(self, path: str) -> None:
        self._path, self._kind = path, ".csv" if path == "-" else Path(path).suffix.lower()
        self._stack = contextlib.ExitStack()
        self._sink: Any = None
        self._writer: Any = None
        if self._kind not in (".csv", ".parquet"):
            raise WrongCallError(f"{path}: the output must end in .csv or .parquet, or be -.")

    def __enter__(self) -> Output:
        standard_output = contextlib.nullcontext(sys.stdout.buffer) if self._path == "-" else None
        self._sink = self._stack.enter_context(standard_output or replacing(self._path))
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
    """Refuse a path that is neither a CSV or Parquet file nor a folder."""
    if not path.exists():
        raise WrongCallError(f"there is no file {path}.")
    if not path.is_dir() and file_kind(path) in ("", ".npy"):
        raise WrongCallError(f"{path}: a table must be a .csv or .parquet file, or a folder.")


def load_model(path: Path) -> Any:
    """The model in a file."""
    import pursuit

    if not path.exists():
        raise WrongCallError(f"there is no file {path}.")
    return pursuit.load(path)


def encoding_of(model: Any, path: Path) -> Encoding:
    """How the columns of a model's table become features."""
    stored = getattr(model, "table_", None)
    if stored is not None:
        return Encoding.from_json(stored)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise WrongCallError(
            f"{path} does not know the names of its columns: it was not written by pursuit fit, "
            "nor fitted to a table with names."
        )
    return Encoding([Column(str(name), "number") for name in names], "")


def open_for(
    encoding: Encoding, path: Path, *, target: bool = False, classes: bool = False
) -> TableFile:
    """Open a table that must have the columns of a model, and its target if asked for.

    The target is read as text if ``classes`` is true, like all columns that were texts in ``fit``.
    """
    others = [encoding.target] if target else []
    table = TableFile(path, [*encoding.texts, *(others if classes else [])])
    require_columns([*encoding.names, *others], table.columns, path.name, "columns of the model")
    return table
