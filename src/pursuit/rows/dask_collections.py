"""What dask collections have in common: partitions of rows, their columns, and how long they are.

Imports numpy and the rest of this room; dask and pandas when a collection is passed.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from pursuit.rows.base import len_items
from pursuit.rows.table import check_columns, check_distinct, listed, no_names


@dataclass(frozen=True)
class Collection:
    """Partitions of rows in columns.

    Parameters
    ----------
    name : str
        What error messages call it.
    X : dask array, dask data frame, or list of delayed blocks
        The partitions.
    types : dict of str to list of dtype
        For each column, the types that occur; keys are numbers if columns have no names.
    named : bool
        Whether columns have names.
    lengths : list of int or None
        Number of rows of each partition, None if only a pass can count them.
    """

    name: str
    X: Any
    types: dict[str, list[Any]]
    named: bool
    lengths: list[int] | None = None

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, None if they have no names."""
        return tuple(self.types) if self.named else None

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.types)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """float32 if all columns are, float64 otherwise."""
        kinds = {str(one).lower().partition("[")[0] for each in self.types.values() for one in each}
        return np.dtype(np.float32 if kinds in ({"float32"}, {"float"}) else np.float64)

    def blocks(self) -> list[Any]:
        """The partitions as delayed values."""
        if isinstance(self.X, list):
            return self.X
        blocks = self.X.to_delayed()
        return list(blocks) if self.named else list(blocks.ravel())

    def project(self, columns: Sequence[str]) -> Self:
        """The same rows with these columns only; of a data frame, no other is read."""
        if not self.named:
            raise no_names(self.name, columns, "use data frames")
        check_columns(columns, tuple(self.types), self.name)
        check_distinct(columns, "the selection")
        X = self.X
        if not isinstance(X, list):
            labels = dict(zip(self.types, X.columns, strict=True))
            X = X[[labels[column] for column in columns]]
        return replace(self, X=X, types={column: self.types[column] for column in columns})

    def check_numeric(self) -> None:
        """Refuse columns that are not numbers."""
        other = [
            f"{column} ({one})"
            for column, types in self.types.items()
            for one in types
            if one.kind not in "biuf"
        ]
        if other:
            raise ValueError(
                f"{self.name} has columns that are not numbers: {listed(other)}. Take some rows "
                "into a data frame, whose categories kernel=None and pursuit.Categorical compare; "
                "or encode them, for instance with categorize() and dask.dataframe.get_dummies; or "
                "leave them out."
            )


def as_collection(X: Any) -> Collection:
    """The partitions of a dask array, a dask data frame or a list of delayed blocks."""
    if isinstance(X, list | tuple):
        return _of_blocks(list(X))
    if isinstance(X, importlib.import_module("dask.delayed").Delayed):
        raise TypeError("X is a single delayed value: pass a list of delayed blocks, [X] for one.")
    if hasattr(X, "chunks") and hasattr(X, "rechunk"):
        return _of_array(X)
    if hasattr(X, "npartitions") and hasattr(X, "columns"):
        return _of_frame(X)
    raise TypeError(
        f"X of type {type(X).__name__} is not a dask collection of rows: pass a dask array, a dask "
        "data frame, or a list of delayed blocks."
    )


def _of_array(X: Any) -> Collection:
    if X.ndim != 2:
        raise ValueError(
            f"X must be 2-D (rows, features), got a dask array of {X.ndim} dimension(s): use "
            "X.reshape(-1, 1) for a single feature."
        )
    if math.isnan(X.shape[1]):
        raise ValueError(
            "the number of columns of X is not known: call X.compute_chunk_sizes() first."
        )
    # Several chunks of columns would make a partition of several pieces.
    X = X if len(X.chunks[1]) <= 1 else X.rechunk({1: -1})
    types = {str(j): [X.dtype] for j in range(X.shape[1])}
    known = not any(math.isnan(length) for length in X.chunks[0])
    lengths = [int(length) for length in X.chunks[0]] if known else None
    return Collection("the dask array", X, types, False, lengths)


def _of_frame(X: Any) -> Collection:
    name = "the dask data frame"
    if X.ndim != 2:
        raise ValueError("X is a single column: use X.to_frame() for one feature.")
    columns = [str(column) for column in X.columns]
    check_distinct(columns, name)
    types = {column: [one] for column, one in zip(columns, X._meta.dtypes, strict=True)}
    return Collection(name, X, types, True)


def _of_blocks(X: list[Any]) -> Collection:
    """One pass finds out what the blocks are."""
    name, describe = "the delayed blocks", import_dask().delayed(described, pure=False)
    blocks = compute(Collection(name, X, {}, False), [describe(block) for block in X])
    full = [block for block in blocks if block[0]] or [(0, (), {})]
    _, columns, first = full[0]
    for number, (length, names, types) in enumerate(blocks):
        if length and (names, len(types)) != (columns, len(first)):
            raise ValueError(
                f"delayed block {number} has {_looks(names, len(types))}, but others have "
                f"{_looks(columns, len(first))}: all blocks need the same columns."
            )
    types = {column: list({types[column] for _, _, types in full}) for column in first}
    return Collection(name, X, types, columns is not None, [length for length, *_ in blocks])


def described(block: Any) -> tuple[int, tuple[str, ...] | None, dict[str, Any]]:
    """Number of rows of a block, names of its columns if they have any, and their types."""
    if hasattr(block, "columns") and hasattr(block, "dtypes"):
        names = tuple(str(column) for column in block.columns)
        return len(block), names, dict(zip(names, block.dtypes, strict=True))
    if getattr(block, "ndim", 0) != 2:
        raise TypeError(
            "a delayed block must be a 2-D array, a CSR matrix or a data frame, got "
            f"{type(block).__name__}."
        )
    return block.shape[0], None, {str(j): block.dtype for j in range(block.shape[1])}


def import_dask() -> Any:
    """The dask module; whoever passes a dask collection has it."""
    return importlib.import_module("dask")


def slots() -> int:
    """Number of tasks that are computed at a time."""
    with contextlib.suppress(KeyError, ValueError):
        threads = sys.modules["distributed"].default_client().nthreads()
        return max(1, sum(map(int, threads.values())))
    return os.cpu_count() or 1


def compute(
    collection: Any, nodes: Iterable[Any], lengths: Sequence[int] | None = None
) -> list[Any]:
    """Values of nodes; if a partition cannot be computed, the error names it."""
    with warnings.catch_warnings():
        # Targets travel with the tasks: less than the rows, and never lost with a worker.
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        try:
            return list(import_dask().compute(*nodes, traverse=False))
        except Exception as error:
            if not _is_named(error) and not _of_scheduler(error):
                _blame(collection, lengths, error)
            raise


def _blame(collection: Any, lengths: Sequence[int] | None, error: Exception) -> None:
    """Raise an error that names the first partition which cannot be computed by itself."""
    describe = import_dask().delayed(described, pure=False)
    for number, block in enumerate(collection.blocks()):
        try:
            describe(block).compute()
        except Exception as cause:
            which = f"partition {number}"
            if lengths is not None:
                start = sum(lengths[:number])
                which = f"{which} (rows {start} to {start + lengths[number] - 1})"
            raise RuntimeError(
                f"{which} of {collection.name} cannot be computed: {type(cause).__name__}: {cause}"
            ) from error


def _is_named(error: BaseException) -> bool:
    """Whether an error says which partition it comes from."""
    return re.search(r"partitions? \d+ (to \d+ )?\(rows \d+ to \d+\)", str(error)) is not None


def _of_scheduler(error: Exception) -> bool:
    """Whether the scheduler failed, not a partition."""
    return type(error).__module__.partition(".")[0] in ("distributed", "concurrent", "asyncio")


def _looks(columns: tuple[str, ...] | None, n: int) -> str:
    return f"{n} columns" + ("" if columns is None else f" ({listed(columns)})")


def map_lazily(
    function: Callable[[Any], Any], X: Any, columns: Sequence[str] | None, n_features: int | None
) -> Any:
    """Apply a function to every partition of a dask collection, lazily.

    Parameters
    ----------
    function : callable
        Takes a block (an array, CSR matrix or data frame) and returns an array with one entry per
        row, or a tuple of such arrays. It is also called with two and with three rows of ones, to
        see what it returns.
    X : dask array, dask data frame or list of delayed blocks
        The rows.
    columns : sequence of str or None
        Columns of a data frame that the function uses.
    n_features : int or None
        Number of columns of delayed blocks.

    Returns
    -------
    values : dask array or tuple of dask arrays
        In chunks like the partitions of X; a chunk's length is unknown if the partition's is.
    """
    blocks, lengths, ones = _partitions(X, columns, n_features)
    example = function(ones(2))
    of_two, of_three = _tuple(example), _tuple(function(ones(3)))
    pairs = zip(of_two, of_three, strict=True)
    if any(len(a) != 2 or a.shape[1:] != b.shape[1:] for a, b in pairs):
        raise ValueError(
            "this returns values for pairs of rows, which needs all rows at once: compute X, or "
            "pass a part of it in memory."
        )
    metas = [np.empty((0, *value.shape[1:]), dtype=value.dtype) for value in of_two]
    delayed = import_dask().delayed
    call, shared = delayed(_call, pure=False), delayed(_Call(function, metas), traverse=False)
    values = [call(block, shared) for block in blocks]
    da = importlib.import_module("dask.array")

    def joined(place: int, meta: Any) -> Any:
        parts = [
            da.from_delayed(value[place], (length, *meta.shape[1:]), meta=meta)
            for value, length in zip(values, lengths, strict=True)
        ]
        return da.concatenate(parts, allow_unknown_chunksizes=True)

    arrays = tuple(joined(place, meta) for place, meta in enumerate(metas))
    return arrays if isinstance(example, tuple) else arrays[0]


class _Call:
    """The function, and its value for no rows: one node that all others refer to."""

    def __init__(self, function: Callable[[Any], Any], metas: list[Any]) -> None:
        self.function, self.metas = function, metas


def _call(block: Any, shared: _Call) -> tuple[Any, ...]:
    n_rows = len(block) if hasattr(block, "columns") else len_items(block)
    return _tuple(shared.function(block)) if n_rows else tuple(shared.metas)


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _partitions(
    X: Any, columns: Sequence[str] | None, n_features: int | None
) -> tuple[list[Any], list[Any], Callable[[int], Any]]:
    """Delayed blocks, their lengths (or NaN), and a function that makes rows like theirs."""
    if isinstance(X, list | tuple):
        return list(X), [np.nan] * len(X), lambda n: _ones(n, n_features or 1, columns)
    collection = as_collection(X)
    if collection.named and columns is not None:
        collection = collection.project(columns)
    collection.check_numeric()
    blocks = collection.blocks()
    lengths: list[Any] = collection.lengths or [np.nan] * len(blocks)
    if collection.named:
        template = collection.X._meta_nonempty
        return blocks, lengths, lambda n: template.take([0] * n)
    return blocks, lengths, lambda n: np.ones((n, collection.n_features), collection.dtype)


def _ones(n_rows: int, n_features: int, columns: Sequence[str] | None) -> Any:
    ones = np.ones((n_rows, n_features))
    return (
        ones
        if columns is None
        else importlib.import_module("pandas").DataFrame(ones, columns=list(columns))
    )
