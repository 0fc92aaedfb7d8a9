"""What every source of rows can do, and the two checks all of them share.

Imports numpy only. A source knows three things: how many rows it has, how to hand them out block
by block in row order, and how to fetch a few of them by number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pursuit._types import Indices
from pursuit.rows.items import Items

T = TypeVar("T")

BLOCK_ROWS = 8192
"""Rows per logical block. Sums over rows are taken block by block, so this number is part of the
result's last bits and does not depend on the machine."""


@runtime_checkable
class RowSource(Protocol):
    """Rows that can be streamed in order and fetched by number.

    `pursuit.testing.check_row_source` checks a new source against this contract.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, Items]]:
        """Yield (number of the first row, items), in row order.

        Every block has `size` rows but the last, which has what remains.
        """
        ...

    def take(self, index: Indices) -> Items:
        """Items at these row numbers, in the order of `index`, repeats included."""
        ...


@runtime_checkable
class DistributedRows(RowSource, Protocol):
    """Rows that lie in parts elsewhere, and to which work is sent instead of fetching them.

    A task is called with the rows of a run of whole blocks, as a source in memory, and with what
    belongs to them of every ``aligned`` array; it is sent once for all of them, so it should hold
    what it needs and no more. Another source of as many rows may be aligned, too: the task receives
    its rows as a source in memory. Runs are subtrees of the tree that `TreeSum` adds up, so that
    where the parts end does not change a bit of a sum.
    """

    def map(self, task: Callable[..., T], *aligned: Any) -> list[T]:
        """What the task gives for each run, in row order; all of them subtrees of one level."""
        ...

    def sums(
        self, task: Callable[..., T], *aligned: Any, start: int = 0
    ) -> Iterator[list[tuple[int, T]]]:
        """Subtrees from row ``start``, a whole number of blocks, on: their levels, and their sums.

        What the task gives for the runs of a subtree is added up by ``+`` as `TreeSum` does. They
        come in groups that were computed together.
        """
        ...

    def restrict(self, index: Indices) -> DistributedRows:
        """Rows of increasing numbers as a source of their own; they stay where they are."""
        ...


def row_spans(n_rows: int, size: int) -> Iterator[slice]:
    """Slices that cut `n_rows` rows into blocks of `size`; the last may be shorter."""
    if size < 1:
        raise ValueError(f"size must be at least 1 row per block, got {size}.")
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


def checked_index(index: ArrayLike, n_rows: int) -> Indices:
    """`index` as a 1-D integer array of row numbers in [0, n_rows).

    Negative numbers are refused rather than counted from the end: -1 marks "not a row" elsewhere
    in this package, and must never fetch the last one.
    """
    array: NDArray[Any] = np.asarray(index)
    if array.ndim != 1:
        raise ValueError(f"index must be 1-D, got shape {array.shape}: pass a list of row numbers.")
    if array.size == 0:
        return np.empty(0, dtype=np.intp)
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"index must hold integer row numbers, got dtype {array.dtype}: "
            "use np.flatnonzero on a boolean mask."
        )
    low, high = array.min(), array.max()
    if low < 0 or high >= n_rows:
        raise ValueError(
            f"index must lie in [0, {n_rows}), got row numbers from {low} to {high}: "
            "remove those that are not rows of this source."
        )
    return array.astype(np.intp, copy=False)
