"""The one loop over rows: blocks in row order, chunks over threads, sums in a tree.

A pass takes a task, ``task(kernel, workers)``, which binds once what does not depend on the rows
and returns a function of one block, ``block(items, *aligned)``: ``aligned`` are the entries of
further arrays or row sources that belong to the same rows. `TileTask` is the usual one. Rows that
lie elsewhere receive the task and are worked on there, on one thread. Only what the task returns
travels, and the kernel entries that were evaluated there are counted here. A task must therefore
survive pickling: use module-level functions whose arguments `functools.partial` binds.

BLAS runs on one thread while a block is worked on, and is released while the next one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from pursuit.kernels import CountingKernel, Kernel
from pursuit.linalg import Workers, released_blas, single_threaded_blas
from pursuit.rows import BLOCK_ROWS, DistributedRows, RowSource, TreeSum, in_order, len_items

T = TypeVar("T")

Block = Callable[..., T]
"""``block(items, *aligned)``: what a pass makes of one block of rows."""

Task = Callable[[Kernel, Workers], Block[T]]
"""Binds the kernel to what the task needs, once per pass."""


def chunked(
    function: Callable[..., Any],
    rows_per_chunk: int,
    workers: Workers,
    combine: Callable[[list[Any]], Any] = in_order,
) -> Block[Any]:
    """A block function that cuts its block into chunks, one task of a thread each.

    ``combine`` makes one value of those of the chunks: by default their sum from first to last.
    """

    def block(items: Any, *aligned: Any) -> Any:
        def part(span: slice) -> Any:
            return function(items[span], *(array[span] for array in aligned))

        return combine(workers.map(part, Workers.slices(len_items(items), rows_per_chunk)))

    return block


@dataclass(frozen=True)
class TileTask:
    """A task that calls ``part(*bound, items, *aligned)`` for one chunk of rows after the other.

    Attributes
    ----------
    part : callable
        A module-level function, or a partial of one.
    points : tuple of items
        What the kernel is bound to, once per pass; ``bound(items)`` is the tile k(items, points).
    rows_per_chunk : int
        Rows per chunk. It is part of the last bits of a sum.
    combine : callable
        Makes one value of those of the chunks of a block: by default their sum.
    """

    part: Callable[..., Any]
    points: tuple[Any, ...]
    rows_per_chunk: int
    combine: Callable[[list[Any]], Any] = in_order

    def __call__(self, kernel: Kernel, workers: Workers) -> Block[Any]:
        """Bind the kernel to the points."""
        bound = map(kernel.columns, self.points)
        return chunked(partial(self.part, *bound), self.rows_per_chunk, workers, self.combine)


def block_values(
    rows: RowSource,
    kernel: Kernel,
    task: Task[T],
    workers: Workers,
    *aligned: Any,
    start: int = 0,
) -> Iterator[list[tuple[int, T]]]:
    """Yield groups of (level, value) in row order, from row ``start`` on, as `TreeSum` adds them.

    In memory and on disk a group is one block, of level 0. Rows that lie elsewhere come in larger
    subtrees, added up where they lie.
    """
    if isinstance(rows, DistributedRows):
        plain, count = _uncounted(kernel)
        remote = partial(_remote, sum_pass, task, plain)
        for group in rows.sums(remote, *aligned, start=start):
            count(sum(part.entries for _, part in group))
            yield [(level, part.value) for level, part in group]
        return
    with single_threaded_blas():
        block = task(kernel, workers)
    blocks = _blocks(rows, aligned)
    while True:
        with released_blas():
            read = next(blocks, None)
        if read is None:
            return
        first, items, beside = read
        if first >= start:
            with single_threaded_blas():
                value = block(items, *beside)
            yield [(0, value)]


def sum_pass(
    rows: RowSource,
    kernel: Kernel,
    task: Task[T],
    workers: Workers,
    *aligned: Any,
    empty: T | None = None,
) -> T:
    """Add up what the task makes of all blocks, in a tree that depends on their number only.

    The sum over no rows is ``empty``.
    """
    tree: TreeSum[T] = TreeSum()
    for group in block_values(rows, kernel, task, workers, *aligned):
        for level, value in group:
            tree.add(value, level)
    return tree.total(empty)


def list_pass(
    rows: RowSource, kernel: Kernel, task: Task[T], workers: Workers, *aligned: Any
) -> list[T]:
    """List what the task makes of each block, in row order."""
    if isinstance(rows, DistributedRows):
        return _remote_values(rows, kernel, task, aligned)
    return [value for [(_, value)] in block_values(rows, kernel, task, workers, *aligned)]


def row_pass(
    rows: RowSource,
    kernel: Kernel,
    task: Task[NDArray[Any]],
    workers: Workers,
    *aligned: Any,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Put together the entries that the task makes for every row, in ``out`` if it is given."""
    if out is None or isinstance(rows, DistributedRows):
        values = list_pass(rows, kernel, task, workers, *aligned)
        return np.concatenate(values, out=out)
    start = 0
    for [(_, value)] in block_values(rows, kernel, task, workers, *aligned):
        out[start : start + len(value)] = value
        start += len(value)
    return out


def _remote_values(
    rows: DistributedRows, kernel: Kernel, task: Task[T], aligned: Sequence[Any]
) -> list[T]:
    plain, count = _uncounted(kernel)
    parts = rows.map(partial(_remote, list_pass, task, plain), *aligned)
    count(sum(part.entries for part in parts))
    return [value for part in parts for value in part.value]


def _blocks(rows: RowSource, aligned: Sequence[Any]) -> Iterator[tuple[int, Any, list[Any]]]:
    """First row, items, and the part of everything aligned, block by block."""
    others = [
        other.blocks(BLOCK_ROWS) if isinstance(other, RowSource) else None for other in aligned
    ]
    for first, items in rows.blocks(BLOCK_ROWS):
        span = slice(first, first + len_items(items))
        yield (
            first,
            items,
            [
                array[span] if blocks is None else next(blocks)[1]
                for array, blocks in zip(aligned, others, strict=True)
            ],
        )


# What is sent to rows that lie elsewhere


@dataclass(frozen=True)
class _Counted(Generic[T]):
    """What a pass over some rows returned, and how many kernel entries it evaluated."""

    value: T
    entries: int

    def __add__(self, other: _Counted[T]) -> _Counted[T]:
        total: Any = self.value
        return _Counted(total + other.value, self.entries + other.entries)


def _remote(
    run: Callable[..., T], task: Task[Any], kernel: Kernel, rows: RowSource, *aligned: Any
) -> _Counted[T]:
    counter = CountingKernel(kernel)
    with Workers(1) as workers:
        return _Counted(run(rows, counter, task, workers, *aligned), counter.entries)


def _uncounted(kernel: Kernel) -> tuple[Kernel, Callable[[int], None]]:
    """The kernel that does the work, and the counter of its entries."""
    if isinstance(kernel, CountingKernel):
        return kernel.kernel, kernel.add
    return kernel, lambda entries: None
