"""From what a user passes to a source of rows.

Libraries are recognised by what their objects can do or by the module they come from, and imported
only when one of their objects is passed.

Imports numpy, scipy.sparse and the rest of this room only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from pursuit.rows.arrow import BATCH_ROWS, ArrowTable, require_pyarrow, spooled
from pursuit.rows.base import RowSource, is_dask
from pursuit.rows.dask import DaskTable
from pursuit.rows.files import KINDS, is_path, open_path
from pursuit.rows.memory import ArrayRows, IndexRows, ListRows, SelectedRows, SparseRows
from pursuit.rows.table import Table


def open_table(X: Any) -> Table:
    """The table behind a path or an Arrow object, to look at, select columns of, and fit to.

    Parameters
    ----------
    X : str, PathLike, Arrow table, stream or batch, polars.LazyFrame, DuckDB relation, or dask \
            array, data frame or list of delayed blocks
        A path of a .npy, .parquet or .csv file (.csv.gz too), or of a folder of Parquet or of CSV
        files, which are read in the order of their names, ``part.2`` before ``part.10``. Folders
        named ``key=value`` around Parquet files make a column ``key``. Addresses of object stores,
        such as ``s3://bucket/folder``, are read by pyarrow, and others, such as ``https://…``, by
        fsspec if it is installed. Streams, including CSV files and queries, are written once to a
        temporary Arrow file, which is removed with the table.

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
            f"a table cannot be made of {type(X).__name__}: pass a path ({KINDS}), an Arrow "
            "table, a polars.LazyFrame or a DuckDB relation."
        )
    return table


def as_table(X: Any) -> Table | None:
    """The table behind X, or None where X lies in memory, as arrays, data frames and lists do."""
    if isinstance(X, Table):
        return X
    if isinstance(X, np.ndarray):
        return None
    if is_dask(X):  # before others: a delayed value claims to be able to do anything
        return DaskTable(X)
    if is_path(X):
        return open_path(X)
    module = type(X).__module__.partition(".")[0]
    if module == "pyarrow":
        return _of_arrow(X)
    if module == "polars" and hasattr(X, "collect_schema") and hasattr(X, "collect"):
        return _of_frames(X)
    if module not in ("pandas", "polars", "dask") and hasattr(X, "__arrow_c_stream__"):
        return _of_stream(X)
    return None


def as_rows(X: Any) -> RowSource:
    """Source for whatever `X` is; a row source is returned as it is.

    Parameters
    ----------
    X : ndarray, CSR matrix or array, sequence, range, table or RowSource
        A 2-D array or CSR gives one item per row. A list, tuple or 1-D array of objects or strings
        gives its elements. ``range(m)`` stands for the row numbers of an m x m precomputed kernel
        matrix. A table is anything that `open_table` takes, paths included.

    Returns
    -------
    source : RowSource
        `X` is not copied, except for the references in a 1-D array of objects.

    Raises
    ------
    TypeError
        If `X` is none of these.
    ValueError
        If `X` is an array of numbers that is not 2-D, or a range other than 0, 1, 2, ...
    """
    if isinstance(X, RowSource) and not is_dask(X):
        return X
    if isinstance(X, np.ndarray):
        if X.ndim == 1 and X.dtype.kind in "OSUT":
            return ListRows(X.tolist())
        return ArrayRows(X)
    if isinstance(X, sparse.csr_array | sparse.csr_matrix):
        return SparseRows(X)
    if sparse.issparse(X):
        raise TypeError(f"X must be sparse in CSR format, got {type(X).__name__}: use X.tocsr().")
    if isinstance(X, range):
        if (X.start, X.step) != (0, 1):
            raise ValueError(f"X must be range(n_rows) to stand for row numbers, got {X}.")
        return IndexRows(len(X))
    if isinstance(X, Sequence) and not isinstance(X, str | bytes) and not is_dask(X):
        return ListRows(X)
    table = as_table(X)
    if table is not None:
        return table
    raise TypeError(
        f"X of type {type(X).__name__} is not a source of rows: pass a 2-D array, a CSR matrix, a "
        "list of items, or an object with n_rows, blocks and take."
    )


def is_in_memory(source: RowSource) -> bool:
    """Whether all rows of a source lie in memory."""
    while isinstance(source, SelectedRows):
        source = source.source
    return isinstance(source, ArrayRows | SparseRows | ListRows | IndexRows)


def in_memory(source: RowSource) -> RowSource:
    """The same rows in memory, for algorithms that read all of them at every step."""
    return source if is_in_memory(source) else as_rows(source.take(np.arange(source.n_rows)))


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
    schema = X.clear().collect().to_arrow().schema
    frames = (
        X.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True)
        if hasattr(X, "collect_batches")
        else X.collect().iter_slices(BATCH_ROWS)
    )
    batches = (batch.cast(schema) for frame in frames for batch in frame.to_arrow().to_batches())
    return spooled(schema, batches, name)
