"""Tables: rows of numbers in columns, as files, Arrow data and dask collections hold them.

Imports numpy and the base of this room only.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Never, Self

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Indices
from pursuit.rows.base import BLOCK_ROWS, Items, checked_index, row_spans

_NAMES_SHOWN = 8
"""Error messages name at most this many columns."""


class Table(ABC):
    """A row source of numbers that looks like a 2-D array from outside.

    Blocks are arrays of ``dtype``, float32 or float64, and hold finite numbers only: a table raises
    an error when it reads anything else.

    Attributes
    ----------
    name : str
        What error messages call the table: the name of the file, for instance.
    n_rows, n_features : int
        Numbers of rows and columns.
    columns : tuple of str or None
        Names of the columns, None if they have no names.
    dtype : numpy dtype
        Type of the blocks.
    """

    name: str
    n_rows: int
    n_features: int
    columns: tuple[str, ...] | None
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.n_rows, self.n_features

    @property
    def ndim(self) -> int:
        """Always 2."""
        return 2

    @abstractmethod
    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, Items]]:
        """Yield (number of the first row, array), in row order."""

    @abstractmethod
    def take(self, index: Indices) -> Items:
        """Rows at these numbers, in this order."""

    @abstractmethod
    def select(self, columns: Sequence[str]) -> Self:
        """The table with these columns only, in this order; nothing is read."""

    @abstractmethod
    def read(self, columns: Sequence[str]) -> list[NDArray[Any]]:
        """Whole columns, numbers or not, in one pass that reads nothing else."""

    @abstractmethod
    def check_numeric(self) -> None:
        """Refuse columns that are known, without a pass over them, not to hold finite numbers."""

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.name!r}: {self.n_rows} rows, {self.n_features} columns)"
        )


class MatrixTable(Table):
    """Rows of a 2-D array of any numbers, memory-mapped for instance, converted as they are read.

    Its columns have no names.
    """

    columns = None

    def __init__(self, matrix: NDArray[Any], name: str) -> None:
        if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
            raise ValueError(
                f"{name} must hold a 2-D array of numbers, got dtype {matrix.dtype} and shape "
                f"{matrix.shape}."
            )
        self.name, self.matrix = name, matrix
        self.n_rows, self.n_features = (int(n) for n in matrix.shape)
        self.dtype = np.dtype(np.float32 if matrix.dtype == np.float32 else np.float64)

    @classmethod
    def of_file(cls, path: Path) -> MatrixTable:
        """Map a .npy file into memory."""
        try:
            matrix: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise ValueError(f"{path.name} is not a .npy file that can be read: {error}") from error
        return cls(matrix, path.name)

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (number of the first row, array), in row order."""
        for span in row_spans(self.n_rows, size):
            yield span.start, self._numbers(self.matrix[span], np.arange(span.start, span.stop))

    def take(self, index: Indices) -> NDArray[Any]:
        """Rows at these numbers, in this order."""
        index = checked_index(index, self.n_rows)
        return self._numbers(self.matrix[index], index)

    def select(self, columns: Sequence[str]) -> Never:
        """Not possible: columns have no names."""
        raise no_names(self.name, columns, "use a Parquet or CSV file")

    def read(self, columns: Sequence[str]) -> Never:
        """Not possible: columns have no names."""
        self.select(columns)

    def check_numeric(self) -> None:
        """Nothing to refuse: only a pass can find values that are not finite."""

    def _numbers(self, rows: NDArray[Any], numbers: Indices) -> NDArray[Any]:
        # Products of rows that lie column by column in the file may round differently.
        block = np.ascontiguousarray(rows, dtype=self.dtype)
        check_finite(block, None, self.name, numbers)
        return block


SEPARATORS = ",;\t|"
"""What may stand between the values of a CSV file."""


def check_columns(
    wanted: Sequence[str], known: Sequence[str], name: str, argument: str = "columns"
) -> None:
    """Refuse names that are not columns, and suggest the nearest names that are."""
    unknown = [column for column in wanted if column not in known]
    if not unknown:
        return
    parts = []
    for column in unknown[:_NAMES_SHOWN]:
        near = difflib.get_close_matches(str(column), list(map(str, known)), n=3, cutoff=0.5)
        parts.append(
            f"{column!r}" + (f" (did you mean {' or '.join(map(repr, near))}?)" if near else "")
        )
    absent = f"column{'s' * (len(unknown) > 1)} {', '.join(parts)}"
    raise ValueError(
        f"{argument}: {name} has no {absent}. Its columns are {listed(known)}."
        + _guessed([*map(str, unknown), *map(str, known)], name)
    )


def _guessed(columns: Sequence[str], name: str) -> str:
    """Say that the separator of a CSV file was guessed, where names look as if it was wrong."""
    if ".csv" not in name.lower() or not any(set(column) & set(SEPARATORS) for column in columns):
        return ""
    return (
        " The names in the header line were taken to be separated by what is most frequent there "
        f"of {SEPARATORS!r}: put names that hold such characters in double quotes."
    )


def check_distinct(columns: Sequence[str], name: str) -> None:
    """Refuse two columns with the same name."""
    repeated = sorted({column for column in columns if list(columns).count(column) > 1})
    if repeated:
        raise ValueError(f"{name} has more than one column {listed(repeated)}: rename them.")


def distinct_names(names: Sequence[str]) -> list[str]:
    """Names, those that have occurred before with a number, as pandas does: x, x.1, x.2."""
    taken: set[str] = set(names)
    result: dict[str, None] = {}
    for name in names:
        own, number = name, 0
        while own in result or (number and own in taken):
            number += 1
            own = f"{name}.{number}"
        result[own] = None
    return list(result)


def check_finite(
    block: NDArray[Any], columns: Sequence[str] | None, name: str, numbers: Indices
) -> None:
    """Refuse NaN and infinity as scikit-learn does, and say where they are.

    ``numbers`` are the row numbers of the block's rows.
    """
    if np.isfinite(block.sum(dtype=np.float64)) or np.isfinite(block).all():
        return
    row, column = np.argwhere(~np.isfinite(block))[0]
    raise not_finite(
        bool(np.isnan(block[row, column])),
        f"column {int(column) if columns is None else columns[column]!r}",
        name,
        int(numbers[row]),
    )


def not_finite(missing: bool, column: str, name: str, row: int, argument: str = "X") -> ValueError:
    """The error for a value that is missing or too large."""
    what = "NaN" if missing else "infinity or a value too large for dtype('float64')"
    encoder = "let pursuit.TableEncoder (pursuit.make_table_pipeline(model)) fill in the values"
    other = encoder if missing and argument == "X" else "correct the values in the file"
    return ValueError(
        f"Input {argument} contains {what}: {column} of {name}, in row {row} (counted from 0). "
        f"Remove such rows, or {other}."
    )


def no_names(name: str, columns: Sequence[str], remedy: str) -> ValueError:
    """The error for columns that are asked for by name and have none."""
    return ValueError(
        f"columns of {name} have no names to select {list(columns)} by: pass the targets as an "
        f"array, fit(X, y), or {remedy}."
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
