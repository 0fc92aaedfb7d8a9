"""Weighted Gram statistics of a pool of points: the sums that make the number of rows harmless."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from pursuit._types import Floats, Indices
from pursuit.gram.engine import Block, block_sums
from pursuit.kernels import Columns, Kernel
from pursuit.linalg import Workers
from pursuit.rows import BLOCK_ROWS, Sample, TreeSum, len_items

BUFFER_ROWS = 2048
"""Rows whose kernel values are held at once; part of the result's last bits, like the block."""

_PANEL = 256
_TILE_ENTRIES = 1 << 18


@dataclass(frozen=True)
class GramStatistics:
    """Sums over rows for P points Z; two of them for different rows add up.

    Attributes
    ----------
    gram : array of shape (P, P)
        G = Σ w_i k_Z(x_i) k_Z(x_i)'.
    cross : array of shape (P, n_outputs)
        b = Σ w_i k_Z(x_i) y_i'.
    target_norms : array of shape (n_outputs,)
        Σ w_i y_i².
    trace : float
        Σ w_i k(x_i, x_i).
    weight : float
        Σ w_i.
    n_rows : int
        Number of rows summed.
    """

    gram: Floats
    cross: Floats
    target_norms: Floats
    trace: float
    weight: float
    n_rows: int

    def __add__(self, other: GramStatistics) -> GramStatistics:
        if self.gram.shape != other.gram.shape or self.cross.shape != other.cross.shape:
            raise ValueError(
                f"statistics of {self.gram.shape[0]} points and {self.cross.shape[1]} outputs "
                f"cannot be added to those of {other.gram.shape[0]} points and "
                f"{other.cross.shape[1]} outputs: compute both with the same points and targets."
            )
        return GramStatistics(
            self.gram + other.gram,
            self.cross + other.cross,
            self.target_norms + other.target_norms,
            self.trace + other.trace,
            self.weight + other.weight,
            self.n_rows + other.n_rows,
        )

    def restricted(self, points: Indices) -> GramStatistics:
        """Statistics of some of the points, in the given order."""
        return replace(self, gram=self.gram[np.ix_(points, points)], cross=self.cross[points])


class Ledger(Protocol):
    """Remembers how far a pass has come, so that it can go on after a crash."""

    def resume(self) -> list[GramStatistics]:
        """The sums recorded last, none at the start of a pass."""
        ...

    def record(self, sums: Sequence[GramStatistics]) -> None:
        """Take note of sums over consecutive runs of rows, from the first on (see `TreeSum`).

        Until all rows are summed, and then there is one, ``gram`` holds what lies on and above its
        diagonal panels only.
        """
        ...


def gram_statistics(
    sample: Sample,
    kernel: Kernel,
    points: Any,
    *,
    workers: Workers,
    dtype: DTypeLike = np.float64,
    whitener: Floats | None = None,
    after_block: Callable[[int], None] | None = None,
    ledger: Ledger | None = None,
    enough: Callable[[int], bool] = lambda done: False,
) -> GramStatistics:
    """One pass over the sample.

    One sum a block of 8 192 rows, and these in a tree (`TreeSum`): whoever adds up a subtree,
    threads, machines or a run before a crash, the result is the same to the last bit.

    Parameters
    ----------
    sample : Sample
        Rows, targets, weights. Rows that lie elsewhere are summed there, and only sums travel.
    kernel : Kernel
        Gives tiles k(rows, points).
    points : items
        The P points Z.
    workers : Workers
        Threads; their number does not change a bit of the result.
    dtype : float64 or float32
        Type of the tiles. Sums over blocks are float64 always.
    whitener : array of shape (P, P), optional
        R⁻¹ with R R' = K_ZZ. The statistics are then those of v(x) = R⁻¹k_Z(x), which keeps the
        digits that forming K_Z'WK_Z first and whitening it later would lose (Formulas §4).
    after_block : callable, optional
        Called with the number of rows done after each block, or each group of blocks of rows that
        lie elsewhere, for progress.
    ledger : Ledger, optional
        Is told the sums as often; rows that it has recorded are not summed again.
    enough : callable, optional
        Asked as often, with the number of rows done: where it says yes the pass ends, with the sums
        over the rows so far.

    Returns
    -------
    statistics : GramStatistics
    """
    recorded = [] if ledger is None else ledger.resume()
    done = sum(part.n_rows for part in recorded)
    if recorded and done == sample.n_rows:
        return recorded[0]
    tree = TreeSum((-(-part.n_rows // BLOCK_ROWS), part) for part in recorded)
    task = partial(_block_statistics, points, np.dtype(dtype), whitener, sample.n_outputs)
    aligned = sample.targets, sample.weights
    for group in block_sums(sample.rows, kernel, task, workers, *aligned, start=done):
        for level, part in group:
            tree.add(part, level)
            done += part.n_rows
        if ledger is not None and done < sample.n_rows:
            ledger.record(tree.parts())
        if after_block is not None:
            after_block(done)
        if enough(done):
            break
    P, o = len_items(points), sample.n_outputs
    total = tree.total(GramStatistics(np.zeros((P, P)), np.zeros((P, o)), np.zeros(o), 0.0, 0.0, 0))
    _mirror(total.gram)
    if ledger is not None and done == sample.n_rows:
        ledger.record([total])
    return total


def _block_statistics(
    points: Any,
    dtype: np.dtype[Any],
    whitener: Floats | None,
    n_outputs: int,
    kernel: Kernel,
    workers: Workers,
) -> Block[GramStatistics]:
    columns = kernel.columns(points, dtype=dtype.type)
    accumulator = _Accumulator(columns, n_outputs, dtype, whitener, workers)

    def block(items: Any, y: Floats, w: Floats) -> GramStatistics:
        for span in Workers.slices(len(w), BUFFER_ROWS):
            accumulator.add(items[span], y[span], w[span])
        trace = float(w @ kernel.diag(items))
        norms = w @ (y * y)
        return GramStatistics(*accumulator.taken(), norms, trace, float(w.sum()), len(w))

    return block


class _Accumulator:
    """Adds √w K'K√w of a buffer of rows to the upper panels of G, tile by tile, panel by panel."""

    def __init__(
        self,
        columns: Columns,
        n_outputs: int,
        dtype: np.dtype[Any],
        whitener: Floats | None,
        workers: Workers,
    ) -> None:
        P = columns.n_columns
        self.columns, self.workers, self.whitener = columns, workers, whitener
        self._shapes = (P, P), (P, n_outputs)
        self.gram, self.cross = (np.zeros(shape) for shape in self._shapes)
        self._kernel_values = np.empty((BUFFER_ROWS, P), dtype=dtype)
        self._features = self._kernel_values if whitener is None else np.empty((BUFFER_ROWS, P))
        self._panels = Workers.slices(P, _PANEL)
        self._tile_rows = max(16, min(BUFFER_ROWS, _TILE_ENTRIES // max(P, 1)))

    def add(self, items: Any, targets: Floats, weights: Floats) -> None:
        rows = len(weights)
        K, V = self._kernel_values[:rows], self._features[:rows]
        root = np.sqrt(weights).astype(K.dtype)[:, None]
        weighted = bool(np.any(weights != 1.0))

        def fill(span: slice) -> None:
            tile = K[span]
            self.columns(items[span], out=tile)
            if weighted:
                tile *= root[span]

        def whiten(panel: slice) -> None:
            assert self.whitener is not None
            stop = panel.stop
            np.matmul(K[:, :stop], self.whitener[panel, :stop].T, out=V[:, panel])

        y = np.sqrt(weights)[:, None] * targets

        def sum_panel(panel: slice) -> None:
            A = V[:, panel]
            self.cross[panel] += A.T.astype(np.float64, copy=False) @ y
            self.gram[panel, panel] += A.T @ A
            if panel.stop < V.shape[1]:
                self.gram[panel, panel.stop :] += A.T @ V[:, panel.stop :]

        self.workers.map(fill, Workers.slices(rows, self._tile_rows))
        if self.whitener is not None:
            self.workers.map(whiten, reversed(self._panels))
        self.workers.map(sum_panel, self._panels)

    def taken(self) -> tuple[Floats, Floats]:
        """The sums so far, which begin again."""
        sums = self.gram, self.cross
        self.gram, self.cross = (np.zeros(shape) for shape in self._shapes)
        return sums


def _mirror(gram: Floats) -> None:
    """Copy what lies above the diagonal panels to below them."""
    for panel in Workers.slices(len(gram), _PANEL):
        gram[panel.stop :, panel] = gram[panel, panel.stop :].T
