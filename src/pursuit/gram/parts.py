"""Passes over rows that lie elsewhere: the same pass on every part, on one thread, where it lies.

What a pass adds up, parts add up in the same tree of blocks; what it finds for every row is put
together in row order. Kernel entries that were evaluated elsewhere are counted here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from pursuit.kernels import CountingKernel, Kernel
from pursuit.linalg import Workers
from pursuit.rows import DistributedRows, RowSource, TreeSum

T = TypeVar("T")

Pass = Callable[..., T]
"""Takes the rows of a part, the kernel, workers, and what is aligned to the rows."""


@dataclass(frozen=True)
class _Counted(Generic[T]):
    """What a pass found, and how many kernel entries it took."""

    value: T
    entries: int

    def __add__(self, other: _Counted[T]) -> _Counted[T]:
        total: Any = self.value
        return _Counted(total + other.value, self.entries + other.entries)


def _counted(task: Pass[T], kernel: Kernel, rows: RowSource, *aligned: Any) -> _Counted[T]:
    counter = CountingKernel(kernel)
    with Workers(1) as workers:
        return _Counted(task(rows, counter, workers, *aligned), counter.entries)


def sum_subtrees(
    rows: DistributedRows, kernel: Kernel, task: Pass[T], *aligned: Any, start: int = 0
) -> Iterator[list[tuple[int, T]]]:
    """What a pass gives for one group of subtrees of blocks after the other, with their levels."""
    plain, counter = _apart(kernel)
    for group in rows.sums(partial(_counted, task, plain), *aligned, start=start):
        counter(sum(found.entries for _, found in group))
        yield [(level, found.value) for level, found in group]


def sum_parts(rows: DistributedRows, kernel: Kernel, task: Pass[T], *aligned: Any) -> T:
    """Add up what a pass gives for the parts."""
    tree: TreeSum[T] = TreeSum()
    for group in sum_subtrees(rows, kernel, task, *aligned):
        for level, value in group:
            tree.add(value, level)
    return tree.total()


def map_parts(rows: DistributedRows, kernel: Kernel, task: Pass[T], *aligned: Any) -> list[T]:
    """What a pass gives for each part, in row order."""
    plain, counter = _apart(kernel)
    found = rows.map(partial(_counted, task, plain), *aligned)
    counter(sum(part.entries for part in found))
    return [part.value for part in found]


def join_parts(
    rows: DistributedRows, kernel: Kernel, task: Pass[NDArray[Any]], *aligned: Any
) -> NDArray[Any]:
    """Put together what a pass gives for every row."""
    return np.concatenate(map_parts(rows, kernel, task, *aligned))


def _apart(kernel: Kernel) -> tuple[Kernel, Callable[[int], None]]:
    """The kernel that does the work, and who counts what it costs."""
    if isinstance(kernel, CountingKernel):
        return kernel.kernel, kernel.add
    return kernel, lambda entries: None
