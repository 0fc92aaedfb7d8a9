"""From a path, or data of other libraries, to a table.

Libraries are recognised by what their objects can do or by the module they come from, and imported
only when one of their objects is passed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pursuit.rows.arrow import ArrowTable, BatchedTable, require_pyarrow, spooled
from pursuit.rows.csv import read_csv
from pursuit.rows.daskkinds import is_dask
from pursuit.rows.matrix import MatrixTable
from pursuit.rows.parquet import ParquetTable
from pursuit.rows.table import Table

_READERS: dict[str, Callable[..., BatchedTable]] = {
    ".parquet": ParquetTable,
    ".parq": ParquetTable,
    ".csv": read_csv,
    ".tsv": read_csv,
}
_COMPRESSED = (".gz", ".bz2")
_KINDS = ".npy, .parquet, .csv, or a folder of Parquet or of CSV files"
_SOME_BATCH = 65_536


def open_table(X: Any) -> Table:
    """The table behind a path or an Arrow object, to look at, select columns of, and fit to.

    Parameters
    ----------
    X : str, PathLike, Arrow table, stream or batch, polars.LazyFrame, DuckDB relation, or dask \
            array, data frame or list of delayed blocks
        A path to a .npy, .parquet or .csv file (.csv.gz too), or to a folder of Parquet or of CSV
        files, which are read in the order of their names, ``part.2`` before ``part.10``. Folders
        named ``key=value`` around Parquet files make a column ``key``. What comes as a stream, CSV
        files and queries included, is written once to a temporary Arrow file, removed with the
        table.

    Returns
    -------
    table : Table
        With ``columns``, ``shape`` and ``select(columns)``; every estimator takes it as X.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pursuit import open_table
    >>> table = open_table(pa.table({"a": [1.0, 2.0], "b": ["x", "y"], "y": [0.5, 0.6]}))
    >>> table.columns
    ('a', 'b', 'y')
    >>> table.select(["a", "y"]).shape
    (2, 2)
    """
    table = as_table(X)
    if table is None:
        raise TypeError(
            f"a table cannot be made of {type(X).__name__}: pass a path ({_KINDS}), an Arrow "
            "table, a polars.LazyFrame or a DuckDB relation."
        )
    return table


def as_table(X: Any) -> Table | None:
    """The table behind X, or None where X lies in memory, as arrays, data frames and lists do."""
    if is_dask(X):  # first: a delayed value claims to be able to do anything
        from pursuit.rows.dask import DaskTable  # which needs this module

        return DaskTable(X)
    if is_path(X):
        if "://" in os.fspath(X):
            raise ValueError(
                f"{os.fspath(X)!r} is no file of this machine: pass what reads it, such as "
                "dask.dataframe.read_parquet, polars.scan_parquet or a DuckDB query."
            )
        return _of_path(Path(X))
    module = type(X).__module__.partition(".")[0]
    if module == "pyarrow":
        return _of_arrow(X)
    if module == "polars" and hasattr(X, "collect_schema") and hasattr(X, "collect"):
        return _of_frames(X)
    if module not in ("pandas", "polars", "dask") and hasattr(X, "__arrow_c_stream__"):
        return _of_stream(X)
    # Last: it looks up attributes, which a lazy frame or a relation would compute.
    return X if isinstance(X, Table) else None


def is_path(X: Any) -> bool:
    """Whether X is, or looks like, a path; other strings are items of a user's own."""
    if isinstance(X, os.PathLike):
        return True
    if not isinstance(X, str) or not X:
        return False
    return os.sep in X or file_kind(Path(X)) != "" or _exists(Path(X))


def open_file(path: Path, texts: Sequence[str] = ()) -> BatchedTable:
    """The table of a Parquet or CSV file, or of a folder of them.

    Parameters
    ----------
    path : Path
        Where it is.
    texts : sequence of str
        Columns that a CSV file holds texts in, even if they all look like numbers.
    """
    files = _files(path) if path.is_dir() else [path]
    name = path.resolve().name
    if _READERS[file_kind(files[0])] is read_csv:
        return read_csv(files, name, texts)
    return ParquetTable(files, name, path if path.is_dir() else None)


def _of_path(path: Path) -> Table:
    if not _exists(path):
        raise FileNotFoundError(
            f"there is no file or folder {str(path)!r}: give the path of a file ({_KINDS})."
        )
    kind = file_kind(path)
    if kind == ".npy" and not path.is_dir():
        return MatrixTable.of_file(path)
    if kind not in _READERS and not path.is_dir():
        raise ValueError(f"{path.name} is of no kind that can be read: use {_KINDS}.")
    return open_file(path)


def _files(folder: Path) -> list[Path]:
    """The Parquet or CSV files in a folder, by name, numbers in names as numbers.

    What is hidden or private to another program is left out, folders of such files included.
    """
    inside = {path: path.relative_to(folder).parts for path in folder.rglob("*")}
    files = sorted(
        (
            path
            for path, parts in inside.items()
            if not any(part[0] in "._" for part in parts)
            and file_kind(path) in _READERS
            and path.is_file()
        ),
        key=lambda path: _natural(path.as_posix()),
    )
    readers = {_READERS[file_kind(path)] for path in files}
    if len(readers) != 1:
        found = "both Parquet and CSV files" if readers else "no Parquet or CSV files"
        raise ValueError(f"the folder {folder.resolve().name} holds {found}: use one kind of file.")
    return files


def _natural(name: str) -> tuple[list[Any], str]:
    """A key to sort names by, as dask does: 'part.2' comes before 'part.10'."""
    pieces = re.split(r"([0-9]+)", name)
    return [int(piece) if i % 2 else piece for i, piece in enumerate(pieces)], name


def _of_arrow(X: Any) -> Table | None:
    pa = require_pyarrow("an Arrow table")
    if isinstance(X, pa.RecordBatch):
        X = pa.Table.from_batches([X])
    if isinstance(X, pa.Table):
        return ArrowTable(X, "the Arrow table")
    if hasattr(X, "scanner"):  # a data set, which is read in the order of its fragments
        return _of_stream(X.scanner().to_reader())
    return _of_stream(X) if hasattr(X, "__arrow_c_stream__") else None


def _of_stream(X: Any) -> Table:
    name = f"the {type(X).__name__}"
    stream = require_pyarrow(name).RecordBatchReader.from_stream(X)
    return spooled(stream.schema, stream, name)


def _of_frames(X: Any) -> Table:
    name = f"the {type(X).__name__}"
    require_pyarrow(name)
    schema = X.collect_schema().to_frame().to_arrow().schema
    frames = (
        X.collect_batches(chunk_size=_SOME_BATCH, maintain_order=True)
        if hasattr(X, "collect_batches")
        else X.collect().iter_slices(_SOME_BATCH)
    )
    batches = (batch.cast(schema) for frame in frames for batch in frame.to_arrow().to_batches())
    return spooled(schema, batches, name)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a long text, or one with a null character, is no path
        return False


def file_kind(path: Path) -> str:
    """The last suffix but that of compression, if it is one that can be read; else nothing."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] and suffixes[-1] in _COMPRESSED:
        suffixes = suffixes[:-1]
    kind = suffixes[-1] if suffixes else ""
    return kind if kind == ".npy" or kind in _READERS else ""
