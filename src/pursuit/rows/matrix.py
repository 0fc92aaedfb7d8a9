"""A matrix of numbers in a .npy file, read where it lies.

Imports numpy and the rest of this room only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Never

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Indices
from pursuit.rows.base import BLOCK_ROWS, checked_index, row_spans
from pursuit.rows.table import TableShape, check_finite


class MatrixTable(TableShape):
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

    @classmethod
    def of_file(cls, path: Path) -> MatrixTable:
        """Map a .npy file into memory."""
        try:
            matrix: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise ValueError(f"{path.name} is not a .npy file that can be read: {error}") from error
        return cls(matrix, path.name)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the blocks."""
        single = self.matrix.dtype == np.float32
        return np.dtype(np.float32 if single else np.float64)

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (number of the first row, array), in row order."""
        return (
            (span.start, self._checked(self.matrix[span], span.start))
            for span in row_spans(self.n_rows, size)
        )

    def take(self, index: Indices) -> NDArray[Any]:
        """Rows at these numbers, in this order."""
        index = checked_index(index, self.n_rows)
        rows = np.ascontiguousarray(self.matrix[index], dtype=self.dtype)
        for place in np.flatnonzero(~np.isfinite(rows).all(axis=1))[:1]:
            check_finite(rows[place : place + 1], None, self.name, int(index[place]))
        return rows

    def select(self, columns: Sequence[str]) -> Never:
        """Not possible: columns have no names."""
        raise ValueError(
            f"columns of {self.name} have no names to select {list(columns)} by: pass the targets "
            "as an array, fit(X, y), or use a Parquet or CSV file."
        )

    def read(self, columns: Sequence[str]) -> Never:
        """Not possible: columns have no names."""
        self.select(columns)

    def _checked(self, rows: NDArray[Any], start: int) -> NDArray[Any]:
        # Products of rows that lie column by column in the file may round differently.
        block = np.ascontiguousarray(rows, dtype=self.dtype)
        check_finite(block, None, self.name, start)
        return block
