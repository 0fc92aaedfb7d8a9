"""Row sources that lie in memory: dense, sparse, listed, and bare row numbers.

Imports numpy and the rest of this room only. None of them copies the data it is
given; a dense block is a view where rows lie one after the other.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Indices
from pursuit.rows.base import BLOCK_ROWS, checked_index, row_spans
from pursuit.rows.items import CSR


class ArrayRows:
    """Rows of a 2-D NumPy array, memory-mapped arrays included.

    Blocks are in C order, views of an array that is: the last bits of a product depend on the order
    of its operands, and should not on that of the columns of a data frame.
    """

    def __init__(self, X: NDArray[Any]) -> None:
        if X.ndim != 2:
            raise ValueError(
                f"X must be 2-D (rows, features), got shape {X.shape}: "
                "use X.reshape(-1, 1) for a single feature."
            )
        self._X = X

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._X.shape[0])

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield `size` rows at a time, in row order."""
        spans = row_spans(self.n_rows, size)
        return ((span.start, np.ascontiguousarray(self._X[span])) for span in spans)

    def take(self, index: Indices) -> NDArray[Any]:
        """Copy the rows at these numbers."""
        return np.ascontiguousarray(self._X[checked_index(index, self.n_rows)])


class SparseRows:
    """Rows of a SciPy CSR matrix or array; blocks and takes are CSR of the same class."""

    def __init__(self, X: CSR) -> None:
        self._X = X

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._X.shape[0])

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, CSR]]:
        """Yield CSR slices of `size` rows, in row order."""
        return ((span.start, self._X[span]) for span in row_spans(self.n_rows, size))

    def take(self, index: Indices) -> CSR:
        """Return a CSR of the rows at these numbers."""
        taken: CSR = self._X[checked_index(index, self.n_rows)]
        return taken


class ListRows:
    """A sequence of any objects (strings, graphs, arrays), one a row; items come as lists."""

    def __init__(self, X: Sequence[Any]) -> None:
        self._X = X

    @property
    def n_rows(self) -> int:
        """Number of objects."""
        return len(self._X)

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, list[Any]]]:
        """Yield lists of `size` objects, in order."""
        return ((span.start, list(self._X[span])) for span in row_spans(self.n_rows, size))

    def take(self, index: Indices) -> list[Any]:
        """List the objects at these numbers; the objects themselves are not copied."""
        return [self._X[i] for i in checked_index(index, self.n_rows).tolist()]


class IndexRows:
    """Rows known by number only: an item is its row number, for precomputed kernels."""

    def __init__(self, n_rows: int) -> None:
        n_rows = operator.index(n_rows)
        if n_rows < 0:
            raise ValueError(f"n_rows must not be negative, got {n_rows}.")
        self._n_rows = n_rows

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._n_rows

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, Indices]]:
        """Yield runs of `size` consecutive row numbers."""
        return (
            (span.start, np.arange(span.start, span.stop, dtype=np.intp))
            for span in row_spans(self.n_rows, size)
        )

    def take(self, index: Indices) -> Indices:
        """Return the row numbers themselves, checked."""
        return checked_index(index, self.n_rows)
