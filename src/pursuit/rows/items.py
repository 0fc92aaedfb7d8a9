"""Items: what a row source hands out and a kernel compares.

Imports numpy and scipy.sparse only. Four kinds exist: a 2-D array (one item a row), a CSR matrix
or array, a list of any objects, and a 1-D integer array of row numbers (precomputed kernels).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

CSR: TypeAlias = "sparse.csr_array[Any] | sparse.csr_matrix[Any]"
Items: TypeAlias = "NDArray[Any] | CSR | list[Any]"


def len_items(items: Items) -> int:
    """Return the number of items."""
    return len(items) if isinstance(items, list) else int(items.shape[0])


def concat(first: Items, second: Items) -> Items:
    """Join the items of `first` and those of `second`, which must be of the same kind.

    Raises
    ------
    TypeError
        If one is, say, a list and the other an array.
    ValueError
        If their items have different numbers of features.
    """
    if isinstance(first, list) and isinstance(second, list):
        return first + second
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        _check_item_shapes(first.shape[1:], second.shape[1:])
        return np.concatenate([first, second])
    if sparse.issparse(first) and sparse.issparse(second):
        _check_item_shapes(first.shape[1:], second.shape[1:])
        stacked: CSR = sparse.vstack([first, second], format="csr")
        return stacked
    raise TypeError(
        "first and second must be items of the same kind, got "
        f"{type(first).__name__} and {type(second).__name__}: convert one of them."
    )


def join(parts: Sequence[Any]) -> Items:
    """All items of several parts, at least one, in their order."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    if sparse.issparse(parts[0]):
        stacked: CSR = sparse.vstack(parts, format="csr")
        return stacked
    return [item for part in parts for item in part]


def _check_item_shapes(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    if first != second:
        raise ValueError(
            f"first and second must have items of the same shape, got {first} and {second}: "
            "select the same features in both."
        )
