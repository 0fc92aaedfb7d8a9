"""What a kernel costs: a wrapper that counts the entries it evaluates. Imports NumPy only."""

from __future__ import annotations

from threading import Lock

import numpy as np
import numpy.typing as npt

from pursuit.kernels.base import Columns, Items, Kernel, Tile, Vector


class CountingKernel(Kernel):
    """The same kernel, with a counter.

    Parameters
    ----------
    kernel : Kernel
        The kernel that does the work.

    Attributes
    ----------
    entries : int
        Values returned so far, in tiles and diagonals together.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.entries = 0
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[CountingKernel], tuple[Kernel]]:
        """A copy elsewhere counts from 0."""
        return CountingKernel, (self.kernel,)

    @property
    def positive_definite(self) -> bool:
        """What the kernel says."""
        return self.kernel.positive_definite

    @property
    def rounding(self) -> float:
        """What the kernel says."""
        return self.kernel.rounding

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> Columns:
        """Bind the kernel to the items Z; its tiles are counted."""
        return CountedColumns(self, self.kernel.columns(Z, dtype))

    def diag(self, A: Items) -> Vector:
        """Return the diagonal; one entry per item."""
        diagonal = self.kernel.diag(A)
        self.add(diagonal.size)
        return diagonal

    def add(self, entries: int) -> None:
        """Count entries, from any thread."""
        with self._lock:
            self.entries += entries


class CountedColumns:
    """Tiles that report their size."""

    def __init__(self, counter: CountingKernel, columns: Columns) -> None:
        self.n_columns = columns.n_columns
        self._counter = counter
        self._columns = columns

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the block k(A, Z)."""
        block = self._columns(A, out)
        self._counter.add(block.size)
        return block
