"""Some rows of another source, in an order of choice: a sketch, or the rows with weight.

Imports numpy and the rest of this room only.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pursuit.rows.base import BLOCK_ROWS, RowSource, checked_index, row_spans
from pursuit.rows.items import Items


class SelectedRows:
    """Rows ``index`` of ``source`` as a source of their own; nothing is copied until it is read."""

    def __init__(self, source: RowSource, index: NDArray[np.intp]) -> None:
        self.source = source
        self.index = checked_index(index, source.n_rows)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.index)

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[int, Items]]:
        """Yield (number of the first row, items), in the order of ``index``."""
        for span in row_spans(self.n_rows, size):
            yield span.start, self.source.take(self.index[span])

    def take(self, index: NDArray[np.intp]) -> Items:
        """Items at these row numbers, counted within the selection."""
        return self.source.take(self.index[checked_index(index, self.n_rows)])
