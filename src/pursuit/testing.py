"""Conformance checks for people who add a part to this package.

Each check raises AssertionError with a sentence that says what the part got wrong. Nothing in
this package imports this module; at import it needs numpy only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pursuit.rows import Items, RowSource


def check_row_source(source: RowSource, items: Items) -> None:
    """Check that `source` keeps the contract of `pursuit.rows.RowSource`.

    Parameters
    ----------
    source : RowSource
        The source to check.
    items : ndarray, CSR matrix or array, or list
        All its rows in order, as its blocks should hold them. At least two rows, so that order
        can be seen.

    Raises
    ------
    AssertionError
        If blocks do not cover all rows once and in order, if `take` disagrees with them, or if a
        nonsensical size or row number is accepted.
    """
    # Not at the top, so that this module stays light for those who check something else.
    from pursuit.rows import BLOCK_ROWS

    n_rows = _length(items)
    _require(n_rows >= 2, "items must hold at least two rows for this check")
    _require(source.n_rows == n_rows, f"n_rows is {source.n_rows}, expected {n_rows}")
    for size in (1, 2, n_rows - 1, n_rows, n_rows + 1):
        _check_blocks(f"blocks({size})", source.blocks(size), items, size)
    _check_blocks("blocks()", source.blocks(), items, BLOCK_ROWS)
    _check_take(source, items, n_rows)
    _check_refusals(source, n_rows)


def _check_blocks(call: str, blocks: Iterator[tuple[int, Items]], items: Items, size: int) -> None:
    covered = 0
    for start, block in blocks:
        _require(start == covered, f"{call}: a block starts at row {start}, expected {covered}")
        expected = items[start : start + size]
        _require(_same(block, expected), f"{call}: the block at row {start} differs")
        covered += _length(expected)
    _require(covered == _length(items), f"{call} cover {covered} rows of {_length(items)}")


def _check_take(source: RowSource, items: Items, n_rows: int) -> None:
    for name, numbers in {
        "all rows": range(n_rows),
        "all rows backwards": range(n_rows - 1, -1, -1),
        "a repeated row": (n_rows - 1, 0, n_rows - 1),
        "no rows": (),
    }.items():
        index = np.array(numbers, dtype=np.intp)
        given = index.copy()
        taken = source.take(index)
        _require(_same(taken, _at(items, given)), f"take of {name} gives the wrong items")
        _require(bool(np.array_equal(index, given)), f"take of {name} changed its index")


def _check_refusals(source: RowSource, n_rows: int) -> None:
    for row in (-1, n_rows):
        try:
            source.take(np.array([0, row], dtype=np.intp))
        except ValueError:
            continue
        raise AssertionError(f"take accepts row number {row}; it must raise ValueError")
    try:
        list(source.blocks(0))
    except ValueError:
        return
    raise AssertionError("blocks(0) must raise ValueError")


def _length(items: Items) -> int:
    return len(items) if isinstance(items, list) else int(items.shape[0])


def _at(items: Items, index: NDArray[np.intp]) -> Any:
    return [items[i] for i in index] if isinstance(items, list) else items[index]


def _same(got: Any, expected: Any) -> bool:
    """Whether two collections of items are of one kind and hold the same values."""
    if type(got) is not type(expected):
        return False
    if isinstance(expected, list):
        pairs = zip(got, expected, strict=True)
        return len(got) == len(expected) and all(bool(np.all(a == b)) for a, b in pairs)
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return False
    if isinstance(expected, np.ndarray):
        return bool(np.array_equal(got, expected))
    return bool((got != expected).nnz == 0)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)
