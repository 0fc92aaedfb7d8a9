"""Weighted Gram statistics of a pool of points, in one pass over any number of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.gram.engine import block_values
from pursuit.kernels import Kernel
from pursuit.kernels.base import padding_columns
from pursuit.linalg import Workers
from pursuit.rows import BLOCK_ROWS, Sample, TreeSum, len_items

BUFFER_ROWS = 2048
"""Rows whose kernel values a thread holds; part of the last bits of the sums. Fewer: more sums of
P x P matrices. More: fewer tasks than threads, of the four that a block now has."""

_ADDED_ENTRIES = 1 << 17
"""Entries per task where matrices are added: those of the sum stay in the cache meanwhile."""


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
        return self._with(other, self.gram + other.gram)

    def into(self, other: GramStatistics, workers: Workers) -> GramStatistics:
        """The sum, in the memory of the other one's G where that may be written to.

        Its bits are those of ``self + other``.
        """
        if not other.gram.flags.writeable or other.gram.shape != self.gram.shape:
            return self + other
        _add_to(other.gram, [self.gram], workers)
        return self._with(other, other.gram)

    def _with(self, other: GramStatistics, gram: Floats) -> GramStatistics:
        return GramStatistics(
            gram,
            self.cross + other.cross,
            self.target_norms + other.target_norms,
            self.trace + other.trace,
            self.weight + other.weight,
            self.n_rows + other.n_rows,
        )

    def restricted(self, points: Indices) -> GramStatistics:
        """Statistics of some of the points, in the given order."""
        return replace(self, gram=self.gram[np.ix_(points, points)], cross=self.cross[points])


class PassCheckpoint(Protocol):
    """Records the progress of a pass, so that it can continue after a crash."""

    def resume(self) -> list[GramStatistics]:
        """Return the sums recorded last; none at the start of a pass."""
        ...

    def record(self, sums: Sequence[GramStatistics]) -> None:
        """Record sums over consecutive runs of rows, from the first row on (see `TreeSum`).

        The last record is a single sum over all rows.
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
    ledger: PassCheckpoint | None = None,
    enough: Callable[[int], bool] = lambda done: False,
) -> GramStatistics:
    """One pass over the sample.

    Each block of 8 192 rows gives one sum, and these are added in a tree (`TreeSum`). The result is
    the same to the last bit whether threads, machines or an earlier run add up a subtree.

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
        Type of the tiles. Sums over blocks are always float64.
    whitener : array of shape (P, P), optional
        R⁻¹ with R R' = K_ZZ. The statistics are then those of v(x) = R⁻¹k_Z(x), which keeps the
        digits that forming K_Z'WK_Z first and whitening it later would lose (Formulas §4).
    after_block : callable, optional
        Called with the number of rows done after each block, or each group of blocks of rows that
        lie elsewhere, for progress.
    ledger : PassCheckpoint, optional
        Records the sums as often; rows that it has recorded are not summed again.
    enough : callable, optional
        Called as often with the number of rows done. If it returns True the pass ends, with the
        sums over the rows so far.

    Returns
    -------
    statistics : GramStatistics
    """
    recorded = [] if ledger is None else ledger.resume()
    done = sum(part.n_rows for part in recorded)
    if recorded and done == sample.n_rows:
        return recorded[0]
    tree = TreeSum(
        ((-(-part.n_rows // BLOCK_ROWS), part) for part in recorded),
        lambda left, right: left.into(right, workers),
    )
    task = partial(_BlockStatistics, points, np.dtype(dtype), whitener, sample.n_outputs)
    aligned = sample.targets, sample.weights
    for group in block_values(sample.rows, kernel, task, workers, *aligned, start=done):
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
    if ledger is not None and done == sample.n_rows:
        ledger.record([total])
    return total


def matrix_statistics(
    matrix: Floats,
    targets: Floats,
    weights: Floats,
    workers: Workers,
    dtype: DTypeLike = np.float64,
) -> GramStatistics:
    """Statistics of P functions from their values at all rows, the columns of V: G = V'WV.

    Where the functions are those of the first P rows, V is K_Z and ``trace`` is that of these rows.
    G is a sum of type ``dtype``; the other sums are float64.
    """
    P, roots = matrix.shape[1], np.sqrt(weights)[:, None]
    gram, cross = np.empty((P, P), dtype), np.empty((P, targets.shape[1]))
    U = matrix if np.all(weights == 1.0) else roots * matrix
    V, scaled = U.astype(dtype, copy=False), roots * targets

    def fill(panel: slice) -> None:
        # A product with itself is symmetric and takes half the time: it stands alone.
        own, right = V[:, panel], slice(panel.stop, P)
        np.matmul(own.T, own, out=gram[panel, panel])
        if panel.stop < P:
            np.matmul(own.T, V[:, right], out=gram[panel, right])
        cross[panel] = U[:, panel].T @ scaled

    def mirror(panel: slice) -> None:
        gram[panel.stop :, panel] = gram[panel, panel.stop :].T

    for task in (fill, mirror):
        workers.map(task, Workers.slices(P, limits.PANEL))
    trace, norms = float(weights[:P] @ np.diag(matrix)), weights @ (targets * targets)
    return GramStatistics(gram, cross, norms, trace, float(weights.sum()), len(matrix))


def _add_to(total: Floats, matrices: Sequence[NDArray[Any]], workers: Workers) -> None:
    """Add matrices of its shape to a matrix, one after the other, some rows at a time."""

    def add(rows: slice) -> None:
        for matrix in matrices:
            total[rows] += matrix[rows]

    # One thread would wait for memory, and the others for it.
    workers.map(add, Workers.slices(len(total), max(1, _ADDED_ENTRIES // max(len(total), 1))))


class _BlockStatistics:
    """The statistics of one block of rows after the other, from parts of `BUFFER_ROWS` rows.

    A part is one task of a thread: it fills K√w tile by tile and multiplies it with itself. Parts
    are added up from the first to the last, so that no bit depends on the number of threads.
    """

    def __init__(
        self,
        points: Any,
        dtype: np.dtype[Any],
        whitener: Floats | None,
        n_outputs: int,
        kernel: Kernel,
        workers: Workers,
    ) -> None:
        self._kernel, self._workers, self._whitener = kernel, workers, whitener
        self._bound = kernel.columns(points, dtype=dtype.type)
        self._dtype, P = dtype, self._bound.n_columns
        self._shapes = (P, P), (P, n_outputs)
        self._panels = Workers.slices(P, limits.PANEL)
        self._tile_rows = max(16, min(BUFFER_ROWS, limits.TILE_ENTRIES // max(P, 1)))
        # Products of parts that wait to be added: one per thread, if memory allows.
        self._at_once = min(workers.n_threads, max(2, limits.STORED_NUMBERS // max(P * P, 1)))
        self._buffers: list[list[NDArray[Any]]] = []

    def __call__(self, items: Any, y: Floats, w: Floats) -> GramStatistics:
        """The statistics of one block."""
        gram, cross = map(np.zeros, self._shapes)
        part, spans = partial(self._part, items, y, w), Workers.slices(len(w), BUFFER_ROWS)
        for some in Workers.slices(len(spans), self._at_once):
            found = self._workers.map(part, spans[some])
            _add_to(gram, [buffers[0] for _, buffers in found], self._workers)
            for own_cross, buffers in found:
                cross += own_cross
                self._buffers.append(buffers)
        trace = float(w @ self._kernel.diag(items))
        return GramStatistics(gram, cross, w @ (y * y), trace, float(w.sum()), len(w))

    def _part(
        self, items: Any, y: Floats, w: Floats, rows: slice
    ) -> tuple[Floats, list[NDArray[Any]]]:
        """V'Wy of some rows, and buffers, the first of which holds V'WV; K is the second one.

        V is the last one, which is K without a whitener.
        """
        buffers = self._buffers.pop() if self._buffers else self._new_buffers()
        n = rows.stop - rows.start
        gram, K, V, roots = buffers[0], buffers[1][:n], buffers[-1][:n], np.sqrt(w[rows])[:, None]
        items = items[rows]
        for tile in Workers.slices(n, self._tile_rows):
            self._bound(items[tile], out=K[tile])
        if np.any(w[rows] != 1.0):
            K *= roots.astype(K.dtype)
        if self._whitener is not None:
            for panel in self._panels:
                whitener = self._whitener[panel, : panel.stop]
                np.matmul(K[:, : panel.stop], whitener.T, out=V[:, panel])
        targets, cross = roots * y[rows], np.empty(self._shapes[1])
        for panel in self._panels:
            cross[panel] = V[:, panel].T.astype(np.float64, copy=False) @ targets
        np.matmul(V.T, V, out=gram)
        return cross, buffers

    def _new_buffers(self) -> list[NDArray[Any]]:
        """Room for the product, for K, and for V if it is another matrix.

        They are kept from part to part: to touch new memory takes a few per cent of the time.
        """
        (P, _), types = self._shapes[0], [self._dtype]
        if self._whitener is not None:
            types.append(np.dtype(np.float64))
        gram = np.empty((P, P + padding_columns(P, types[-1])), types[-1])[:, :P]
        return [gram, *(np.empty((BUFFER_ROWS, P), made) for made in types)]
