"""Pools: a fixed set of candidates, chosen from by their statistics on a sketch of the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit.gram import GramStatistics, gram_statistics
from pursuit.greedy.loop import Pursuit
from pursuit.greedy.path import Meter, Path
from pursuit.greedy.stopping import Deadline, StopRule
from pursuit.kernels import Kernel
from pursuit.linalg import Workers
from pursuit.objectives import gram_pursuit
from pursuit.rows import Sample, concat, draw_rows, len_items

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


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
        items = self.items
        picked = [items[i] for i in chosen] if isinstance(items, list) else items[chosen]
        return Pool(picked, self.index[chosen])

    def __add__(self, other: Pool) -> Pool:
        return Pool(concat(self.items, other.items), np.concatenate([self.index, other.index]))


@dataclass(frozen=True)
class Choice:
    """The outcome of a search: points in the order of choice, and what is known of them."""

    pool: Pool
    path: Path
    statistics: GramStatistics | None
    """Statistics of the chosen points on all rows, if the search has seen all rows."""


@dataclass(frozen=True)
class PooledSearch:
    """Choose from a pool by statistics on a sketch of the rows (SPEC 6a).

    One pass over ``sketch_rows`` rows gives H; every step then costs O(P n), whatever the number
    of rows. Each further round keeps the chosen points and refreshes the rest of the pool.
    """

    kernel: Kernel
    noise: float
    pool: Pool
    sketch_rows: int | None
    rounds: int
    rng: np.random.Generator
    workers: Workers
    meter: Meter
    max_time: float | None = None

    def run(
        self,
        sample: Sample,
        capacity: int,
        rules: Sequence[StopRule],
        after_step: Callable[[int], None] | None = None,
    ) -> Choice:
        """Choose by the rules, round after round."""
        pool = self.pool
        for _ in range(self.rounds - 1):
            kept = self._round(sample, pool, capacity, rules, None).pool
            room = len(pool) - len(kept)
            taken = kept.index[kept.index >= 0]
            fresh = draw_rows(sample.n_rows, room, self.rng, exclude=np.sort(taken))
            pool = kept + Pool.of_rows(sample, fresh) if len(fresh) else kept
        return self._round(sample, pool, capacity, rules, after_step)

    def _round(
        self,
        sample: Sample,
        pool: Pool,
        capacity: int,
        rules: Sequence[StopRule],
        after_step: Callable[[int], None] | None,
    ) -> Choice:
        sees_all = self.sketch_rows is None or self.sketch_rows >= sample.n_rows
        seen = sample
        if not sees_all:
            assert self.sketch_rows is not None
            seen = sample.take(draw_rows(sample.n_rows, self.sketch_rows, self.rng))
        start = self.meter.seconds
        # Always float64 tiles: in Gram form the choice squares the condition number.
        statistics = gram_statistics(seen, self.kernel, pool.items, workers=self.workers)
        pass_seconds = self.meter.seconds - start
        share = seen.n_rows / sample.n_rows
        self.meter.passes += share
        # The sketch stands for all rows: its sums are 1/share too small, so the ridge shrinks too.
        objective = gram_pursuit(
            statistics,
            kernel_matrix(self.kernel, pool.items, self.workers),
            self.noise * share,
            capacity=min(capacity, len(pool)),
            workers=self.workers,
        )
        pursuit = Pursuit(
            objective,
            self.meter,
            labels=pool.index,
            scale=0.5 * float(statistics.target_norms.sum()),
        )
        if self.max_time is not None:
            cost = pass_seconds / (seen.n_rows * len(pool) ** 2)
            rules = [*rules, Deadline(self.max_time, lambda n: cost * sample.n_rows * n**2)]
        path = pursuit.run(rules, after_step)
        chosen = objective.chosen
        return Choice(pool.take(chosen), path, statistics.restricted(chosen) if sees_all else None)


def kernel_matrix(kernel: Kernel, items: Any, workers: Workers) -> Floats:
    """K_ZZ for a pool, symmetric to the last bit."""
    P = len_items(items)
    columns = kernel.columns(items)
    K = np.empty((P, P))

    def fill(span: slice) -> None:
        columns(items[span], out=K[span])

    workers.map(fill, Workers.slices(P, 128))
    spans = Workers.slices(P, 512)

    def mirror(span: slice) -> None:
        K[span.stop :, span] = K[span, span.stop :].T
        block = K[span, span]
        block += block.T.copy()
        block *= 0.5

    workers.map(mirror, spans)
    return K
