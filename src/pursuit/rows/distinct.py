"""Which rows are repeats of earlier ones.

Imports numpy, scipy.sparse and the rest of this room only. Meant for small data, where every
distinct row is a candidate: it keeps one key a row.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pursuit.rows.base import RowSource
from pursuit.rows.items import CSR, Items


def distinct_rows(source: RowSource) -> NDArray[np.intp]:
    """Row numbers of first occurrences, increasing.

    Two rows of numbers are the same when all their values are (0.0 and -0.0 are the same value, a
    stored zero of a CSR row is the same as a missing one); two objects, when they are equal and
    hash alike. With an object that cannot be hashed nothing can be said cheaply, so every row
    counts as distinct.
    """
    first: dict[Hashable, int] = {}
    for start, items in source.blocks():
        for row, key in enumerate(_keys(items), start):
            try:
                first.setdefault(key, row)
            except TypeError:
                return np.arange(source.n_rows, dtype=np.intp)
    return np.fromiter(first.values(), dtype=np.intp, count=len(first))


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
