"""Rows of numbers in named columns: what files, Arrow data and the like are to the rest.

Imports numpy and the rest of this room only.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pursuit.rows.base import BLOCK_ROWS, RowSource

_NAMES_SHOWN = 8


@runtime_checkable
class Table(RowSource, Protocol):
    """A row source of numbers that, seen from outside, looks like a 2-D array.

    Blocks are arrays of ``dtype``, float32 or float64, and hold finite numbers only: a source
    raises where it reads anything else.
    """

    name: str
    """What error messages call it: the file's name, say."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        ...

    @property
    def ndim(self) -> int:
        """Always 2."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the blocks."""
        ...

    @property
    def n_features(self) -> int:
        """Number of columns."""
        ...

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, None where they have none."""
        ...

    def select(self, columns: Sequence[str]) -> Self:
        """The table with these columns only, in this order; nothing is read."""
        ...

    def check_numeric(self) -> None:
        """Refuse columns that are known, without a pass over them, not to hold finite numbers."""
        ...

    def read(self, columns: Sequence[str]) -> list[NDArray[Any]]:
        """Whole columns, numbers or not, in one pass that reads nothing else."""
        ...


class TableShape:
    """What all tables share: they look like arrays."""

    name: str
    n_rows: int
    n_features: int

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.n_rows, self.n_features

    @property
    def ndim(self) -> int:
        """Always 2."""
        return 2

    def check_numeric(self) -> None:
        """Nothing is known before a pass."""

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.name!r}: {self.n_rows} rows, {self.n_features} columns)"
        )


def check_columns(
    wanted: Sequence[str], known: Sequence[str], name: str, argument: str = "columns"
) -> None:
    """Refuse names that are no columns, and suggest those that are nearest."""
    unknown = [column for column in wanted if column not in known]
    if not unknown:
        return
    parts = []
    for column in unknown[:_NAMES_SHOWN]:
        near = difflib.get_close_matches(str(column), list(map(str, known)), n=3, cutoff=0.5)
        parts.append(
            f"{column!r}" + (f" (did you mean {' or '.join(map(repr, near))}?)" if near else "")
        )
    raise ValueError(
        f"{argument}: {name} has no column {', '.join(parts)}. Its columns are {listed(known)}."
    )


def check_distinct(columns: Sequence[str], name: str) -> None:
    """Refuse two columns of one name."""
    twice = sorted({column for column in columns if list(columns).count(column) > 1})
    if twice:
        raise ValueError(f"{name} has more than one column {listed(twice)}: rename them.")


def check_finite(block: NDArray[Any], columns: Sequence[str] | None, name: str, start: int) -> None:
    """Refuse NaN and infinity as scikit-learn does, and say where they are."""
    if np.isfinite(block.sum(dtype=np.float64)) or np.isfinite(block).all():
        return
    row, column = np.argwhere(~np.isfinite(block))[0]
    raise not_finite(
        bool(np.isnan(block[row, column])),
        f"column {int(column) if columns is None else columns[column]!r}",
        name,
        start + int(row),
    )


def not_finite(missing: bool, column: str, name: str, row: int, argument: str = "X") -> ValueError:
    """The error for a value that is missing or too large."""
    what = "NaN" if missing else "infinity or a value too large for dtype('float64')"
    return ValueError(
        f"Input {argument} contains {what}: {column} of {name}, in row {row} (counted from 0). "
        "Leave such rows out, or fill in the values before the file is written."
    )


def read_all(table: Table) -> NDArray[Any]:
    """All rows in one array."""
    result = np.empty(table.shape, dtype=table.dtype)
    for start, block in table.blocks(BLOCK_ROWS):
        result[start : start + len(block)] = block
    return result


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, not too many of them."""
    shown = [repr(name) for name in names[:_NAMES_SHOWN]]
    if len(names) > _NAMES_SHOWN:
        shown.append(f"… ({len(names)} in all)")
    return ", ".join(shown)
