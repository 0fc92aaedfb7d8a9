"""Tables in files: CSV and Parquet, in and out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pursuit.cli.console import WrongCallError

BATCH_ROWS = 1 << 17
MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"]


def schema_of(path: Path) -> pa.Schema:
    """Names and types of the columns; of a CSV, as far as its first block tells."""
    require_file(path)
    if path.suffix == ".csv":
        with pa.csv.open_csv(path, convert_options=_convert()) as reader:
            return reader.schema
    return pa.parquet.read_schema(_parts(path)[0])


def read_table(path: Path, columns: list[str] | None = None) -> pa.Table:
    """The whole table."""
    require_file(path)
    if path.suffix == ".csv":
        table = pa.csv.read_csv(path, convert_options=_convert())
        return table if columns is None else table.select(columns)
    return pa.concat_tables(pa.parquet.read_table(part, columns=columns) for part in _parts(path))


def batches(path: Path) -> Iterator[pa.Table]:
    """The table in pieces of bounded size, in row order."""
    require_file(path)
    if path.suffix == ".csv":
        # Types that the first block suggests may be wrong further down: read whole, cut after.
        table = read_table(path)
        for start in range(0, table.num_rows, BATCH_ROWS):
            yield table.slice(start, BATCH_ROWS)
        return
    for part in _parts(path):
        for batch in pa.parquet.ParquetFile(part).iter_batches(BATCH_ROWS):
            yield pa.Table.from_batches([batch])


class Output:
    """A CSV or Parquet file, or CSV on standard output where the path is ``-``."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._writer: Any = None
        if path != "-" and Path(path).suffix not in (".csv", ".parquet"):
            raise WrongCallError(f"{path}: the output must end in .csv or .parquet, or be -.")

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        if self._writer is None:
            self._writer = self._opened(table.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()

    def _opened(self, schema: pa.Schema) -> Any:
        if self._path == "-":
            return pa.csv.CSVWriter(pa.PythonFile(sys.stdout.buffer, mode="w"), schema)
        if Path(self._path).suffix == ".csv":
            return pa.csv.CSVWriter(self._path, schema)
        return pa.parquet.ParquetWriter(self._path, schema)


def require_file(path: Path) -> None:
    """A CSV or Parquet file, or a folder of Parquet files, must be there."""
    if not path.exists():
        raise WrongCallError(f"there is no file {path}.")
    if path.is_dir():
        if not _parts(path):
            raise WrongCallError(f"{path} is a folder without .parquet files in it.")
    elif path.suffix not in (".csv", ".parquet"):
        raise WrongCallError(f"{path}: a table must be a .csv or .parquet file, or a folder.")


def _parts(path: Path) -> list[Path]:
    return sorted(path.glob("*.parquet")) if path.is_dir() else [path]


def _convert() -> pa.csv.ConvertOptions:
    return pa.csv.ConvertOptions(null_values=MISSING, strings_can_be_null=True)
