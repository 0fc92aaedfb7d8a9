"""From what a user passes to a row source.

Imports numpy, scipy.sparse and the rest of this room only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from pursuit.rows.base import RowSource
from pursuit.rows.daskkinds import is_dask
from pursuit.rows.files import as_table
from pursuit.rows.memory import ArrayRows, IndexRows, ListRows, SparseRows
from pursuit.rows.selected import SelectedRows


def as_rows(X: Any) -> RowSource:
    """Source for whatever `X` is; a row source is returned as it is.

    Parameters
    ----------
    X : ndarray, CSR matrix or array, sequence, range, table or RowSource
        A 2-D array or CSR gives one item a row. A list, tuple or 1-D array of objects or strings
        gives its elements. ``range(m)`` stands for the row numbers of an m x m precomputed kernel
        matrix. A table is anything that `open_table` takes, paths included.

    Returns
    -------
    source : RowSource
        Nothing of `X` is copied but the references held by a 1-D array of objects.

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


def in_memory(source: RowSource) -> RowSource:
    """The same rows in memory, for algorithms that come back to all of them at every step."""
    behind = source
    while isinstance(behind, SelectedRows):
        behind = behind.source
    if isinstance(behind, ArrayRows | SparseRows | ListRows | IndexRows):
        return source
    return as_rows(source.take(np.arange(source.n_rows)))
