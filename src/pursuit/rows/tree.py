"""Sums over blocks of rows in a tree of fixed shape, so that every bit is the same everywhere.

Imports nothing of this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import add
from typing import Generic, TypeVar

T = TypeVar("T")

FAN_IN = 8
"""Neighbours that are added up at a time. Another number changes the last bits of every sum."""


class TreeSum(Generic[T]):
    """The sum of one value per block; the values arrive in row order.

    Up to 8 neighbours are added from the first to the last, then up to 8 of these sums, and so on.
    A value of level l stands for a whole subtree of 8^l blocks, wherever that was added up, or for
    the rest of one at the end. One sum per level is kept in memory.
    """

    def __init__(self, parts: Iterable[tuple[int, T]] = ()) -> None:
        self._sums: list[T | None] = []
        self._counts: list[int] = []
        for n_blocks, value in parts:
            level = _level_of(n_blocks)
            self._make_room(level)
            self._sums[level], self._counts[level] = value, n_blocks // FAN_IN**level

    def add(self, value: T, level: int = 0) -> None:
        """Add the value of the next block, or of the next subtree."""
        while True:
            self._make_room(level)
            so_far = self._sums[level]
            value = value if so_far is None else add(so_far, value)
            self._counts[level] += 1
            if self._counts[level] < FAN_IN:
                self._sums[level] = value
                return
            self._sums[level], self._counts[level] = None, 0
            level += 1

    def parts(self) -> list[T]:
        """The sums so far, in row order; a new tree made of them goes on from here."""
        return [value for value in reversed(self._sums) if value is not None]

    def total(self, empty: T | None = None) -> T:
        """The sum of all values, ``empty`` if there are none."""
        parts = self.parts()[::-1]
        if parts:
            return reduce(lambda right, left: add(left, right), parts)
        if empty is None:
            raise ValueError("there is nothing to add up: there are no rows.")
        return empty

    def _make_room(self, level: int) -> None:
        while len(self._sums) <= level:
            self._sums.append(None)
            self._counts.append(0)


def in_order(values: Iterable[T]) -> T:
    """The sum of one or more values, from the first to the last."""
    return reduce(add, values)


def in_tree(values: Iterable[T]) -> T:
    """The sum of one or more values, in a tree."""
    tree: TreeSum[T] = TreeSum()
    for value in values:
        tree.add(value)
    return tree.total()


def subtrees(first: int, n_blocks: int, level: int) -> Iterator[tuple[int, int, int]]:
    """Yield (level, first block, end) of the largest subtrees from block ``first`` on.

    No subtree has a higher level than ``level``.
    """
    while first < n_blocks:
        largest = level
        while first % FAN_IN**largest:
            largest -= 1
        stop = min(first + FAN_IN**largest, n_blocks)
        yield largest, first, stop
        first = stop


def _level_of(n_blocks: int) -> int:
    level = 0
    while FAN_IN ** (level + 1) <= n_blocks:
        level += 1
    return level
