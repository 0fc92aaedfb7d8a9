"""What a kernel function that is not in the master would bring: prices of many columns."""

from __future__ import annotations

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.gram import kernel_times
from pursuit.kernels import Kernel
from pursuit.linalg import Workers
from pursuit.rows import RowSource, SelectedRows

_ALIKE = 0.9
_LOOKED_AT = 40


class Prices:
    """K'ν at candidate rows, kept up to date as ν changes.

    From one solution of a master to the next most of the dual variables stay at a bound, so the
    product is mended with the rows that changed, unless those of nonzero ν are fewer. Nothing of K
    is stored.

    Parameters
    ----------
    rows : RowSource
        All rows.
    candidates : array of int or None
        Numbers of the rows whose columns are priced; None for all.
    kernel : Kernel
        k, symmetric.
    scale : float
        Kernel values are divided by it.
    workers : Workers
        Threads; their number does not change a bit of the result.
    """

    def __init__(
        self,
        rows: RowSource,
        candidates: Indices | None,
        kernel: Kernel,
        scale: float,
        workers: Workers,
    ) -> None:
        self._rows, self._kernel, self._scale, self._workers = rows, kernel, scale, workers
        self.candidates = np.arange(rows.n_rows) if candidates is None else candidates
        self._priced = rows if candidates is None else SelectedRows(rows, candidates)
        self._dual: Floats | None = None
        self.values: Floats = np.empty(0)

    def update(self, dual: Floats) -> Floats:
        """Prices for ν of shape (m, n_outputs): an array of shape (n_candidates, n_outputs)."""
        there = np.flatnonzero(dual.any(axis=1))
        if self._dual is not None:
            change = dual - self._dual
            changed = np.flatnonzero(change.any(axis=1))
        if self._dual is None or len(there) <= len(changed):
            self.values = self._product(there, dual)
        elif len(changed):
            self.values += self._product(changed, change)
        self._dual = dual
        return self.values

    def best(self, n: int, outputs: list[int]) -> Prices:
        """Prices of the n candidates that are worth most to one of these outputs."""
        order = np.argsort(-np.abs(self.values[:, outputs]).max(axis=1), kind="stable")
        kept = np.sort(order[:n])
        chosen = Prices(self._rows, self.candidates[kept], self._kernel, self._scale, self._workers)
        chosen._dual, chosen.values = self._dual, self.values[kept].copy()
        return chosen

    def _product(self, index: Indices, vectors: Floats) -> Floats:
        if not len(index):
            return np.zeros((len(self.candidates), vectors.shape[1]))
        points = self._rows.take(index)
        factors = vectors[index] / self._scale
        return kernel_times(self._priced, self._kernel, points, factors, self._workers)


def diverse(rows: RowSource, kernel: Kernel, diagonal: Floats, order: Indices, n: int) -> list[int]:
    """The first n rows of ``order`` of which no two are much alike: |k(x, x')| ≤ .9 normalised.

    Columns that are alike repair the same fault of a model, and one of them is enough.
    """
    looked_at = order[: _LOOKED_AT * n]
    items = rows.take(looked_at)
    root = np.sqrt(np.abs(diagonal[looked_at]))
    free = np.ones(len(looked_at), bool)
    chosen: list[int] = []
    while len(chosen) < n and free.any():
        at = int(np.argmax(free))
        row = int(looked_at[at])
        chosen.append(row)
        column = kernel.tile(items, rows.take(np.array([row])))[:, 0]
        free &= np.abs(column) <= _ALIKE * root * root[at]
        free[at] = False
    return chosen
