"""Conformance checks for people who add a row source or an objective.

Each check raises AssertionError with a sentence that says what is wrong. Nothing in this package
imports this module; at import it needs numpy only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices

if TYPE_CHECKING:
    from pursuit.objectives import Objective
    from pursuit.rows import Items, RowSource

_ROUNDING = 1e-8
"""Numbers that differ by less than this share of the largest one count as equal."""


def check_row_source(source: RowSource, items: Items) -> None:
    """Check that `source` fulfils the contract of `pursuit.rows.RowSource`.

    Parameters
    ----------
    source : RowSource
        The source to check.
    items : ndarray, CSR matrix or array, or list
        All its rows in order, as its blocks should hold them. At least two rows, so that their
        order can be checked.

    Raises
    ------
    AssertionError
        If blocks do not cover all rows once and in order, if `take` disagrees with them, or if an
        invalid size or row number is accepted.
    """
    # Imported here, so that importing this module stays cheap.
    from pursuit.rows import BLOCK_ROWS

    n_rows = _length(items)
    _require(n_rows >= 2, "items must hold at least two rows for this check")
    _require(source.n_rows == n_rows, f"n_rows is {source.n_rows}, expected {n_rows}")
    for size in (1, 2, n_rows - 1, n_rows, n_rows + 1):
        _check_blocks(f"blocks({size})", source.blocks(size), items, size)
    _check_blocks("blocks()", source.blocks(), items, BLOCK_ROWS)
    _check_take(source, items, n_rows)
    _check_refusals(source, n_rows)


def check_objective(
    make_objective: Callable[[], Objective], duplicates: tuple[int, int], n_steps: int = 3
) -> None:
    """Check that an objective fulfils the contract of `pursuit.objectives.Objective`.

    Parameters
    ----------
    make_objective : callable
        Returns a new objective with nothing chosen, an equal one at every call.
    duplicates : pair of int
        Two equal candidates: once the first is taken, the second is dependent.
    n_steps : int, default 3
        Number of greedy steps to check; every candidate is tried at each of them.

    Raises
    ------
    AssertionError
        If a score differs from the decrease of the value when the candidate is taken, if the score
        of a candidate depends on the others scored with it, if scoring or refusing changes
        anything, or if a taken or dependent candidate stays available.
    """
    chosen: list[int] = []
    for _ in range(n_steps):
        objective = _replayed(make_objective, chosen)
        free = np.flatnonzero(_availability(objective))
        if not len(free):
            break
        scores = _check_scores(objective, free)
        scale = max(abs(objective.value), float(np.abs(scores).max()))
        for candidate, score in zip(free.tolist(), scores.tolist(), strict=True):
            _check_add(_replayed(make_objective, chosen), candidate, score, scale)
        chosen.append(int(free[scores.argmax()]))
    _check_dependent(make_objective, *duplicates)


def _replayed(make_objective: Callable[[], Objective], chosen: list[int]) -> Objective:
    """Return a new objective that has taken these candidates, each scored first as in the loop."""
    objective = make_objective()
    for candidate in chosen:
        objective.score(np.array([candidate], dtype=np.intp))
        _require(objective.add(candidate), f"a second objective refuses candidate {candidate}")
    return objective


def _availability(objective: Objective) -> NDArray[np.bool_]:
    available = objective.available
    _require(
        available.ndim == 1 and available.dtype == np.bool_,
        f"available must be a 1-D mask, got {available.dtype} of shape {available.shape}",
    )
    return available.copy()


def _check_scores(objective: Objective, free: Indices) -> Floats:
    value, available = objective.value, _availability(objective)
    scores = np.array(objective.score(free))
    _require(
        scores.shape == free.shape and bool(np.isfinite(scores).all()),
        "score must give one finite number per candidate",
    )
    backwards = objective.score(free[::-1])[::-1]
    alone = np.array([objective.score(free[i : i + 1])[0] for i in range(len(free))])
    for name, again in (("in another order", backwards), ("alone", alone)):
        _require(_near(again, scores, np.abs(scores).max()), f"candidates score otherwise {name}")
    _require(
        objective.value == value and bool(np.array_equal(objective.available, available)),
        "score changes the objective",
    )
    return scores


def _check_add(objective: Objective, candidate: int, score: float, scale: float) -> None:
    value = objective.value
    objective.score(np.array([candidate], dtype=np.intp))
    decrease = score if objective.add(candidate) else 0.0
    _require(
        _near(np.array(value - objective.value), np.array(decrease), scale),
        f"candidate {candidate} lowers the value by {value - objective.value:g}, "
        f"expected {decrease:g}",
    )
    _require(not objective.available[candidate], f"candidate {candidate} is still available")


def _check_dependent(make_objective: Callable[[], Objective], first: int, second: int) -> None:
    objective = _replayed(make_objective, [first])
    value = objective.value
    with np.errstate(divide="ignore", invalid="ignore"):
        objective.score(np.array([second], dtype=np.intp))
    _require(
        not objective.add(second), f"candidate {second} is taken though it is a copy of {first}"
    )
    _require(objective.value == value, f"refusing candidate {second} changes the value")
    _require(not objective.available[second], f"candidate {second} is refused, yet available")


def _near(got: NDArray[Any], expected: NDArray[Any], scale: float) -> bool:
    return bool(np.all(np.abs(got - expected) <= _ROUNDING * scale))


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


def _at(items: Items, index: Indices) -> Any:
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
