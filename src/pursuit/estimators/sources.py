"""Rows that do not lie in memory: paths, tables and other sources, checked without reading them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pursuit.rows import (
    DistributedRows,
    MatrixTable,
    RowSource,
    Table,
    as_table,
    check_columns,
    computed,
    is_dask,
    is_path,
    open_table,
    read_all,
)

SMALL_BYTES = 1 << 27
"""A table of up to this many bytes is read into memory, where everything is faster."""
HELD_BYTES = 1 << 31
"""The most that an estimator which keeps its rows reads from a source."""


def as_source(X: Any) -> RowSource | None:
    """The source behind X, or None where X lies in memory or is a string that is no path."""
    return X if isinstance(X, RowSource) and not is_dask(X) else as_table(X)


def kernel_matrix_of(X: Any) -> Any:
    """A kernel matrix: that of a .npy file mapped into memory, any other as it is."""
    table = open_table(X) if is_path(X) else X
    return table.matrix if isinstance(table, MatrixTable) else X


def n_features(X: Any) -> int | None:
    """Number of features of two-dimensional numeric input, None for other items."""
    if isinstance(X, RowSource) and not hasattr(X, "shape"):
        X = X.take(np.arange(1))
    return int(X.shape[1]) if hasattr(X, "shape") and len(X.shape) == 2 else None


def n_rows(X: Any) -> int:
    """Number of rows of validated input."""
    if isinstance(X, RowSource):
        return X.n_rows
    return len(X) if isinstance(X, list) else int(X.shape[0])


def named_columns(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    target: str | Sequence[str] | None = None,
    weight: str | None = None,
) -> tuple[Any, Any, Any]:
    """X, y and weights, those of them that are columns of X taken from it.

    Columns of a table are read in one pass, and what remains of it is neither read nor copied.
    """
    if isinstance(y, str) and not is_path(y):
        raise TypeError(
            f"y is the string {y!r}: to name the column of X that holds the targets, pass "
            f"target={y!r}."
        )
    for argument, name, value, given in (
        ("target", target, y, "y"),
        ("weight", weight, sample_weight, "sample_weight"),
    ):
        if name is not None and value is not None:
            raise ValueError(
                f"{argument}={name!r} names a column of X, and {given} is passed too: pass one of "
                "them."
            )
    y, sample_weight = computed(y), computed(sample_weight)
    table = as_table(X)
    X = X if table is None else table
    if target is None and weight is None:
        return X, y, sample_weight
    columns = _known_columns(X, target, weight)
    targets, several = _labels(target)
    weights = [] if weight is None else [weight]
    label = getattr(X, "name", "X") if table is not None else "X"
    check_columns(targets, columns, label, "target")
    check_columns(weights, columns, label, "weight")
    taken = [*targets, *weights]
    if len(set(taken)) < len(taken):
        raise ValueError(f"target and weight name a column twice: {taken}.")
    rest = [column for column in columns if column not in taken]
    if not rest:
        raise ValueError(f"{label} has no columns beside target and weight: there are no features.")
    if table is not None:
        X = table.select(rest)
        X.check_numeric()
        found = table.read(taken)
    else:
        found, X = [np.asarray(X[column]) for column in taken], X[rest]
    if targets:
        y = np.column_stack(found[: len(targets)]) if several else found[0]
    return X, y, found[-1] if weights else sample_weight


def _labels(target: Any) -> tuple[list[Any], bool]:
    """The columns that are meant, and whether the targets are a matrix."""
    if target is None:
        return [], False
    if isinstance(target, str) or not isinstance(target, Iterable):
        return [target], False
    return list(target), True


def _known_columns(X: Any, target: Any, weight: Any) -> list[str]:
    """Names of the columns of a table or data frame."""
    argument = "target" if target is not None else "weight"
    columns = getattr(X, "columns", None)
    if columns is None:
        name = getattr(X, "name", type(X).__name__) if isinstance(X, Table) else type(X).__name__
        raise TypeError(
            f"{argument}= names a column, and the columns of X ({name}) have no names: pass "
            "targets and weights as arrays, fit(X, y, sample_weight)."
        )
    return list(columns)


def validate_source(estimator: Any, source: RowSource, *, reset: bool) -> RowSource:
    """The source with the columns that the estimator was fitted to; to be fitted, as it is."""
    label = getattr(source, "name", "X")
    if source.n_rows == 0:
        raise ValueError(f"{label} holds no rows: a minimum of 1 is required.")
    names = getattr(source, "columns", None)
    width = n_features(source)
    if reset:
        for stale in ("n_features_in_", "feature_names_in_"):
            if hasattr(estimator, stale):
                delattr(estimator, stale)
        if width is not None:
            estimator.n_features_in_ = width
        if names is not None:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
    elif names is not None and hasattr(estimator, "feature_names_in_"):
        wanted = [str(name) for name in estimator.feature_names_in_]
        check_columns(wanted, names, label, "X")
        assert isinstance(source, Table)
        source = source.select(wanted)
    elif hasattr(estimator, "n_features_in_") and width != estimator.n_features_in_:
        raise ValueError(
            f"X has {width} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    if isinstance(source, Table):
        source.check_numeric()
    return source


def known_columns(estimator: Any, X: Any) -> Any:
    """A data frame without columns, such as the target's, that the estimator was not fitted to.

    Files and collections are read by name likewise.
    """
    names = getattr(estimator, "feature_names_in_", None)
    columns = getattr(X, "columns", None)
    if names is None or columns is None or len(columns) <= len(names):
        return X
    return X[list(names)] if set(names) <= set(columns) else X


def in_memory_if_small(source: RowSource) -> Any:
    """All rows of a small table as an array; other sources as they are."""
    if isinstance(source, DistributedRows) or not isinstance(source, Table):
        return source
    n_rows, n_columns = source.shape
    small = n_rows * n_columns * source.dtype.itemsize <= SMALL_BYTES
    return read_all(source) if small else source


def held(estimator: Any, X: Any) -> Any:
    """X in memory, for an estimator that needs all rows there: a source is read if it is small."""
    if not isinstance(X, RowSource):
        return X
    width = n_features(X)
    size = X.n_rows * (width or 1) * 8
    if size > HELD_BYTES:
        raise ValueError(
            f"{type(estimator).__name__} holds all rows in memory, and {X.n_rows} rows of {width} "
            f"numbers would take {size / 2**30:.1f} GiB: use rows drawn at random, or an estimator "
            "that reads rows in blocks, such as SparseGPRegressor or SparseKernelRidge."
        )
    if isinstance(X, Table) and not isinstance(X, DistributedRows):
        return read_all(X)
    return X.take(np.arange(X.n_rows))
