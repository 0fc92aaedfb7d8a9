"""Matching-pursuit models of every size, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.gram import sum_along_path
from pursuit.greedy import Path, Pool
from pursuit.kernels import Dictionary, Kernel
from pursuit.linalg import Workers
from pursuit.rows import RowSource

Measure = tuple[Callable[..., Floats], Sequence[NDArray[Any]]]
"""What to add up for models of many sizes, and the arrays it looks at beside their values."""


@dataclass(frozen=True)
class AtomPath:
    """Functions in the order of choice, and the model of every size.

    Attributes
    ----------
    centers : Pool
        Where each function is centred.
    kernel_of : array of int
        Number of its kernel.
    coefficients : array of shape (n, n, n_outputs)
        Column s - 1 holds those of the model of size s.
    intercepts : array of shape (n, n_outputs)
        Those of every size.
    path : Path
        What each step brought and cost.
    """

    centers: Pool
    kernel_of: Indices
    coefficients: Floats
    intercepts: Floats
    path: Path

    def __len__(self) -> int:
        return len(self.kernel_of)

    def truncated(self, n: int, stop_reason: str = "n_basis") -> AtomPath:
        """The first n functions."""
        return AtomPath(
            self.centers.take(np.arange(n)),
            self.kernel_of[:n],
            self.coefficients[:n, :n],
            self.intercepts[:n],
            replace(self.path.truncated(n), stop_reason=stop_reason),
        )

    def sums(
        self,
        kernels: Sequence[Kernel],
        rows: RowSource,
        measure: Measure,
        workers: Workers,
    ) -> Floats:
        """Σ over the rows of what the models of all sizes do there."""
        return sum_along_path(
            rows,
            Dictionary(tuple(kernels), self.centers.items),
            atoms_of(self.kernel_of),
            self.coefficients,
            self.intercepts,
            *measure,
            workers,
        )


def atoms_of(kernel_of: Indices) -> Indices:
    """Numbers of functions in a dictionary whose centres are theirs, in their order."""
    return kernel_of * len(kernel_of) + np.arange(len(kernel_of))
