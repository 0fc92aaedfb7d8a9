"""Inner products of candidate kernel columns with the targets and with a function on the rows.

A step in the plane of the current function and one more kernel function needs them (Zhang 2002b,
Algorithms 1 and 3): for all rows at once from the whole kernel matrix, or for a few candidates in
one pass over the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.gram.engine import Block, list_pass
from pursuit.gram.kernel_matrix import KernelMatrix
from pursuit.kernels import BoundKernel, Kernel
from pursuit.linalg import Workers, column_dots
from pursuit.rows import DistributedRows, RowSource, Sample, in_tree


@dataclass(frozen=True)
class InnerProducts:
    """Sums over rows, weighted by W, for candidates i and a function p on the rows.

    Attributes
    ----------
    cross, targets : arrays of shape (n_candidates, n_outputs)
        k_i'Wp and k_i'Wy.
    squares : array of shape (n_candidates,)
        k_i'Wk_i.
    fitted : array of shape (n_candidates, n_outputs)
        p at the candidates.
    fitted_squares, fitted_targets : arrays of shape (n_outputs,)
        p'Wp and p'Wy.
    """

    cross: Floats
    targets: Floats
    squares: Floats
    fitted: Floats
    fitted_squares: Floats
    fitted_targets: Floats


class ColumnProducts(Protocol):
    """Inner products of candidates with a function p that changes step by step."""

    def products(self, candidates: Indices) -> InnerProducts:
        """Inner products of these candidates with p as it is now."""
        ...

    def advance(self, candidate: int, alpha: float, beta: float) -> None:
        """p ← βp + αk_i, for a single output."""
        ...

    def replace(self, fitted: Floats) -> None:
        """p ← ``fitted``."""
        ...


class MatrixProducts:
    """All rows are candidates: O(m) per step, and one product with K for each new function.

    K'Wp follows p by the same recursion, from k_i and K'Wk_i, which are kept for every function
    taken so far: O(m n) memory beside K itself.
    """

    def __init__(self, sample: Sample, matrix: KernelMatrix) -> None:
        self._matrix, self._y, self._w = matrix, sample.targets, sample.weights
        self._squares = matrix.squared_columns(sample.weights)
        self._targets = matrix.times(sample.weights[:, None] * sample.targets)
        self._p = np.zeros_like(sample.targets)
        self._cross = np.zeros_like(sample.targets)
        self._taken: dict[int, tuple[Floats, Floats]] = {}

    def products(self, candidates: Indices) -> InnerProducts:
        """Look them up."""
        weighted = self._w[:, None] * self._p
        return InnerProducts(
            self._cross[candidates],
            self._targets[candidates],
            self._squares[candidates],
            self._p[candidates],
            column_dots(weighted, self._p),
            column_dots(weighted, self._y),
        )

    def advance(self, candidate: int, alpha: float, beta: float) -> None:
        """Update p and K'Wp."""
        if candidate not in self._taken:
            column = self._matrix.column(candidate)[:, None]
            self._taken[candidate] = column, self._matrix.times(self._w[:, None] * column)
        column, product = self._taken[candidate]
        self._p = beta * self._p + alpha * column
        self._cross = beta * self._cross + alpha * product

    def replace(self, fitted: Floats) -> None:
        """Set p, and form K'Wp anew."""
        self._p = fitted
        self._cross = self._matrix.times(self._w[:, None] * fitted)


class StreamedProducts:
    """A few candidates at a time, κ of them in one pass over the rows: O(κm), nothing kept but p.

    The last function taken is one more candidate of the next pass, whose column updates p block by
    block before p is used. Blocks of rows are bound to the kernel once, which takes about as much
    memory as the rows; rows that lie elsewhere stay there, and p travels. ``after_pass`` is called
    after each pass.
    """

    def __init__(
        self,
        sample: Sample,
        kernel: Kernel,
        workers: Workers,
        after_pass: Callable[[], None] = lambda: None,
    ) -> None:
        self._after_pass = after_pass
        self._rows, self._y, self._w = sample.rows, sample.targets, sample.weights
        self._workers, self._kernel = workers, kernel
        self._p = np.zeros_like(sample.targets)
        self._pending: tuple[int, float, float] | None = None
        elsewhere = isinstance(sample.rows, DistributedRows)
        self._blocks = None if elsewhere else _bound(sample.rows, kernel)

    def products(self, candidates: Indices) -> InnerProducts:
        """One pass over the rows."""
        pending = self._pending
        wanted = candidates if pending is None else np.append(candidates, pending[0])
        items: Any = self._rows.take(wanted)
        step = None if pending is None else pending[1:]
        arrays, o = (self._p, self._y, self._w), self._y.shape[1]
        if self._blocks is None:
            task = partial(_elsewhere, items, step)
            parts = list_pass(self._rows, self._kernel, task, self._workers, *arrays)
        else:
            one = partial(_one_block, items, step)
            parts = self._workers.map(
                lambda block: one(block[1], *(array[block[0]] for array in arrays)), self._blocks
            )
        self._p = np.concatenate([p for p, _ in parts])
        sums = in_tree(part for _, part in parts)
        self._pending = None
        self._after_pass()
        return InnerProducts(
            sums.both[:, :o],
            sums.both[:, o:],
            sums.squares,
            self._p[candidates],
            sums.fitted_squares,
            sums.fitted_targets,
        )

    def advance(self, candidate: int, alpha: float, beta: float) -> None:
        """Remember the step for the next pass."""
        self._pending = candidate, alpha, beta

    def replace(self, fitted: Floats) -> None:
        """Set p."""
        self._p, self._pending = fitted, None


def _bound(rows: RowSource, kernel: Kernel) -> list[tuple[slice, BoundKernel]]:
    """Blocks of rows, each bound to the kernel."""
    blocks = []
    for start, items in rows.blocks():
        columns = kernel.columns(items)
        blocks.append((slice(start, start + columns.n_columns), columns))
    return blocks


@dataclass(frozen=True)
class _Sums:
    """[k_i'Wp, k_i'Wy], k_i'Wk_i, p'Wp and p'Wy over some rows."""

    both: Floats
    squares: Floats
    fitted_squares: Floats
    fitted_targets: Floats

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(
            self.both + other.both,
            self.squares + other.squares,
            self.fitted_squares + other.fitted_squares,
            self.fitted_targets + other.fitted_targets,
        )


def _one_block(
    items: Any,
    step: tuple[float, float] | None,
    columns: BoundKernel,
    p: Floats,
    y: Floats,
    w: Floats,
) -> tuple[Floats, _Sums]:
    """p after the step p ← βp + αk of the last item, and the sums with it, on a block of rows."""
    o, tile = y.shape[1], columns(items)
    if step is not None:
        alpha, beta = step
        p = beta * p
        p += alpha * tile[-1][:, None]
        tile = tile[:-1]
    both = np.hstack([p, y])
    if np.any(w != 1.0):
        both *= w[:, None]
        squares = (tile * tile) @ w
    else:
        squares = np.einsum("ij,ij->i", tile, tile)
    return p, _Sums(tile @ both, squares, column_dots(both[:, :o], p), column_dots(both[:, :o], y))


def _elsewhere(
    candidates: Any, step: tuple[float, float] | None, kernel: Kernel, workers: Workers
) -> Block[tuple[Floats, _Sums]]:
    """The same for rows that lie elsewhere, bound to the kernel there."""

    def block(items: Any, *arrays: Floats) -> tuple[Floats, _Sums]:
        return _one_block(candidates, step, kernel.columns(items), *arrays)

    return block
