"""Which rows are repeats of earlier ones.

Imports numpy, scipy.sparse and the rest of this room only. Meant for small data, where every
distinct row is a candidate, and for some rows of large data: it keeps one key a row.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pursuit._types import Indices
from pursuit.rows.base import RowSource
from pursuit.rows.items import CSR, Items


def distinct_rows(source: RowSource) -> Indices:
    """Row numbers of first occurrences, increasing; see :func:`row_groups`."""
    groups = row_groups((items for _, items in source.blocks()), source.n_rows)
    return np.unique(groups, return_index=True)[1]


def row_groups(blocks: Iterable[Items], n_rows: int) -> Indices:
    """Number of the group of identical rows that a row belongs to, by first occurrence.

    Two rows of numbers are the same when all their values are (0.0 and -0.0 are the same value, a
    stored zero of a CSR row is the same as a missing one); two objects, when they are equal and
    hash alike. With an object that cannot be hashed nothing can be said cheaply, so every row
    counts as distinct.
    """
    numbers: dict[Hashable, int] = {}
    groups = np.empty(n_rows, dtype=np.intp)
    for row, key in enumerate(itertools.chain.from_iterable(map(_keys, blocks))):
        try:
            groups[row] = numbers.setdefault(key, len(numbers))
        except TypeError:
            return np.arange(n_rows, dtype=np.intp)
    return groups


def _keys(items: Items) -> Iterable[Hashable]:
    """One key per item; keys are equal when the items are."""
    if sparse.issparse(items):
        return _sparse_keys(items)
    if isinstance(items, np.ndarray) and items.ndim == 2:
        # Bytes stand for values only in types without padding; others are compared as objects.
        if items.dtype.kind in "biuf" and items.dtype.itemsize <= 8:
            return (row.tobytes() for row in _without_negative_zero(items))
        return map(tuple, items.tolist())
    return items


def _sparse_keys(items: CSR) -> Iterable[Hashable]:
    canonical = items.copy()
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    values = _without_negative_zero(canonical.data)
    for begin, end in zip(canonical.indptr[:-1], canonical.indptr[1:], strict=True):
        yield canonical.indices[begin:end].tobytes(), values[begin:end].tobytes()


def _without_negative_zero(values: NDArray[Any]) -> NDArray[Any]:
    """`values` plus zero of their type, which turns -0.0 into 0.0 and changes nothing else."""
    positive: NDArray[Any] = values + values.dtype.type(0)
    return positive
