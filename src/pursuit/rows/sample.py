"""A training sample: rows with their targets and weights, read block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.rows.base import BLOCK_ROWS, RowSource
from pursuit.rows.selected import select_rows


@dataclass(frozen=True)
class Sample:
    """Rows x_i, targets y_i (one column an output) and weights w_i.

    Everything that depends on the number of rows goes through :meth:`blocks` or :meth:`take`.
    """

    rows: RowSource
    targets: Floats
    weights: Floats

    @property
    def n_rows(self) -> int:
        """Number of rows m."""
        return self.rows.n_rows

    @property
    def n_outputs(self) -> int:
        """Number of target columns."""
        return int(self.targets.shape[1])

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[Any, Floats, Floats]]:
        """Yield (items, targets, weights) in row order, ``size`` rows at a time."""
        for start, items in self.rows.blocks(size):
            stop = min(start + size, self.n_rows)
            yield items, self.targets[start:stop], self.weights[start:stop]

    def take(self, index: Indices) -> Sample:
        """The sample restricted to these rows, in this order."""
        return Sample(select_rows(self.rows, index), self.targets[index], self.weights[index])

    def target_norms(self) -> Floats:
        """y'Wy for each output."""
        norms: Floats = np.einsum("i,ij,ij->j", self.weights, self.targets, self.targets)
        return norms
