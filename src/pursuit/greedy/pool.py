"""A problem, pools of candidates for it, and what a choice from a pool finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.gram import GramStatistics, PassCheckpoint, gram_statistics
from pursuit.greedy.loop import CostMeter, Path
from pursuit.kernels import CountingKernel, Kernel
from pursuit.linalg import Workers
from pursuit.rows import OutputGroup, Sample, concat, len_items, row_groups, take_items


@dataclass(frozen=True)
class Problem:
    """A convex problem: minimise P(f) = ½Σw(y - f)² + ½σ²‖f‖² over the functions of a kernel.

    Attributes
    ----------
    sample : Sample
        Rows, targets y and weights w.
    kernel : CountingKernel
        k, whose evaluations are counted.
    noise : float
        σ².
    workers : Workers
        Threads.
    meter : CostMeter
        Cost so far.
    rng : numpy Generator
        Source of everything random.
    ledgers : callable, optional
        Returns the ledger of a pass over all rows, given its points, the number of rows, the type
        of its tiles and its whitener.
    """

    sample: Sample
    kernel: CountingKernel
    noise: float
    workers: Workers
    meter: CostMeter
    rng: np.random.Generator
    ledgers: Callable[[Any, int, DTypeLike, Any], PassCheckpoint | None] | None = None

    def restricted(self, group: OutputGroup) -> Problem:
        """The problem of a group of outputs at the rows where they were observed."""
        whole = len(group.columns) == self.sample.n_outputs
        if whole and len(group.rows) == self.sample.n_rows:
            return self
        return replace(self, sample=group.of(self.sample), ledgers=None)

    def statistics(
        self, points: Any, rows: Sample | None = None, dtype: DTypeLike = np.float64, **options: Any
    ) -> GramStatistics:
        """Statistics of the points, from one pass over all rows or over the given rows."""
        seen = self.sample if rows is None else rows
        if rows is None and self.ledgers is not None:
            whitener = options.get("whitener")
            options["ledger"] = self.ledgers(points, seen.n_rows, dtype, whitener)
        statistics = gram_statistics(
            seen, self.kernel, points, workers=self.workers, dtype=dtype, **options
        )
        self.meter.passes += statistics.n_rows / self.sample.n_rows
        return statistics


@dataclass(frozen=True)
class Pool:
    """Candidate points with their row numbers, -1 where a point is not a row."""

    items: Any
    index: Indices

    @classmethod
    def of_rows(cls, sample: Sample, index: Indices) -> Pool:
        """Rows of the sample as candidates."""
        return cls(sample.rows.take(index), index)

    @classmethod
    def of_points(cls, points: Any) -> Pool:
        """Points that are not rows."""
        return cls(points, np.full(len_items(points), -1, dtype=np.intp))

    def __len__(self) -> int:
        return len(self.index)

    def take(self, chosen: Indices) -> Pool:
        """Some of the pool, in the given order."""
        return Pool(take_items(self.items, chosen), self.index[chosen])

    def owners(self, sample: Sample) -> Indices | None:
        """For each row of the sample the point that it is; None where some row is none of them.

        Copies of rows are looked for among up to ``limits.SMALL_ROWS`` rows.
        """
        m, n = sample.n_rows, len(self)
        if not 0 < n <= m or self.index.min() < 0 or len(np.unique(self.index)) < n:
            return None
        groups: Indices = np.arange(m)
        if n < m:
            if m > limits.SMALL_ROWS:
                return None
            groups = row_groups((items for _, items in sample.rows.blocks()), m)
        point_of = np.full(m, -1, dtype=np.intp)
        point_of[groups[self.index]] = np.arange(n)
        owners = point_of[groups]
        return owners if owners.min() >= 0 else None

    def __add__(self, other: Pool) -> Pool:
        return Pool(concat(self.items, other.items), np.concatenate([self.index, other.index]))


@dataclass(frozen=True)
class Choice:
    """The outcome of a search: points in the order of choice, their path and their statistics."""

    pool: Pool
    path: Path
    statistics: GramStatistics | None
    """Statistics of the chosen points on all rows; None unless the search has seen all rows."""
    ordered: bool = False
    """Whether the order is that of a pursuit on these statistics from the first point on."""

    def renumbered(self, rows: Indices) -> Choice:
        """The choice with row numbers of the sample, of which the search saw only ``rows``."""

        def number(index: Indices) -> Indices:
            return np.where(index >= 0, rows[index], -1)

        pool = Pool(self.pool.items, number(self.pool.index))
        return Choice(pool, replace(self.path, index=number(self.path.index)), None)

    def truncated(self, n: int, stop_reason: str) -> Choice:
        """The first n points."""
        path = replace(self.path.truncated(n), stop_reason=stop_reason)
        first = np.arange(n)
        known = None if self.statistics is None else self.statistics.restricted(first)
        return Choice(self.pool.take(first), path, known, self.ordered)


def kernel_matrix(kernel: Kernel, items: Any, workers: Workers) -> Floats:
    """K_ZZ for a pool, symmetric to the last bit."""
    P = len_items(items)
    columns = kernel.columns(items)
    K = np.empty((P, P))

    def fill(span: slice) -> None:
        columns(items[span], out=K[span])

    def mirror(span: slice) -> None:
        K[span.stop :, span] = K[span, span.stop :].T
        block = K[span, span]
        block += block.T.copy()
        block *= 0.5

    workers.map(fill, Workers.slices(P, 128))
    workers.map(mirror, Workers.slices(P, 512))
    return K
