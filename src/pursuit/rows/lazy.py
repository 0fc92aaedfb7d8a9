"""Values of rows of a dask collection, partition by partition and not before they are asked for.

Imports numpy and the rest of this room; dask when a collection is passed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pursuit.rows.daskkinds import ArrayCollection, FrameCollection, as_collection, import_dask
from pursuit.rows.items import len_items


def map_lazily(
    function: Callable[[Any], Any], X: Any, columns: Sequence[str] | None, n_features: int | None
) -> Any:
    """What a function of blocks of rows gives for the rows of a dask collection.

    Parameters
    ----------
    function : callable
        Takes a block (an array, CSR matrix or data frame) and returns an array with one entry a
        row, or a tuple of them. It is also called with two and with three rows of ones, to see
        what it gives.
    X : dask array, dask data frame or list of delayed blocks
        The rows.
    columns : sequence of str or None
        Columns of a data frame that the function wants.
    n_features : int or None
        Number of columns of delayed blocks.

    Returns
    -------
    values : dask array or tuple of dask arrays
        In chunks like the partitions of X, of unknown length where those are.
    """
    blocks, lengths, ones = _partitions(X, columns, n_features)
    example = function(ones(2))
    known, more = _tuple(example), _tuple(function(ones(3)))
    if any(len(a) != 2 or a.shape[1:] != b.shape[1:] for a, b in zip(known, more, strict=True)):
        raise ValueError(
            "this gives values for pairs of rows, which needs all rows at once: compute X, or pass "
            "a part of it in memory."
        )
    metas = [np.empty((0, *value.shape[1:]), dtype=value.dtype) for value in known]
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

    found = tuple(joined(place, meta) for place, meta in enumerate(metas))
    return found if isinstance(example, tuple) else found[0]


class _Call:
    """The function, and what it gives for no rows: one node that all others refer to."""

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
    """Delayed blocks, their lengths or NaN, and rows of ones that look like theirs."""
    if isinstance(X, list | tuple):
        return list(X), [np.nan] * len(X), lambda n: _ones(n, n_features or 1, columns)
    collection = as_collection(X)
    if isinstance(collection, FrameCollection):
        collection = collection if columns is None else collection.project(columns)
        collection.check_numeric()
        blocks = collection.blocks()
        template = collection.template()
        return blocks, [np.nan] * len(blocks), lambda n: template.take([0] * n)
    assert isinstance(collection, ArrayCollection)
    collection.check_numeric()
    blocks = collection.blocks()
    known = collection.lengths
    lengths: list[Any] = [np.nan] * len(blocks) if known is None else list(known)
    return blocks, lengths, lambda n: np.ones((n, collection.n_features), collection.dtype)


def _ones(n_rows: int, n_features: int, columns: Sequence[str] | None) -> Any:
    ones = np.ones((n_rows, n_features))
    return (
        ones
        if columns is None
        else importlib.import_module("pandas").DataFrame(ones, columns=list(columns))
    )
