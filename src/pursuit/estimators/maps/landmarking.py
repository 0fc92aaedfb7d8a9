"""From the arguments of a feature map to landmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from pursuit.gram import ColumnMatrix, PsdMatrix, SquaredMatrix
from pursuit.greedy import (
    FreshSubset,
    Interrupted,
    MaxSize,
    Meter,
    Path,
    Pivots,
    Pool,
    Pursuit,
    RandomPivot,
    StopRule,
    ValueBelow,
    block_pivots,
    given_pivots,
    rearranged,
)
from pursuit.greedy.candidates import AllCandidates, Candidates
from pursuit.kernels import CountingKernel
from pursuit.linalg import Workers
from pursuit.objectives import ResidualPursuit, Rule
from pursuit.rows import Sample

RULES = ("function", "frobenius", "column", "diagonal", "random-pivot", "feature-analysis")


@dataclass(frozen=True)
class LandmarkSearch:
    """How landmarks are chosen: the arguments of the feature map, resolved."""

    n: int
    tol: float
    rule: str
    search: str
    subset_size: int
    rearrange: bool

    def run(
        self,
        sample: Sample,
        kernel: CountingKernel,
        *,
        workers: Workers,
        rng: np.random.Generator,
        meter: Meter,
        interrupted: Interrupted,
        after_step: Callable[[int], None],
    ) -> Pivots:
        """Choose landmarks among the rows, and take them."""

        def after_round(n: int) -> str | None:
            after_step(n)
            return "interrupted" if interrupted.requested else None

        if self.search == "pooled" and self.rule in ("function", "random-pivot"):
            found = block_pivots(
                sample,
                kernel,
                self.n,
                greedy=self.rule == "function",
                tol=self.tol,
                workers=workers,
                rng=rng,
                meter=meter,
                stop=after_round,
            )
        else:
            path = self._pursue(sample, kernel, workers, rng, meter, interrupted, after_step)
            pool = Pool.of_rows(sample, path.index)
            found = given_pivots(
                sample, kernel, pool, workers=workers, meter=meter, reason=path.stop_reason
            )
            found = replace(found, path=_costs_of(path, found.path))
        if self.rearrange and len(found.pool):
            return rearranged(found, sample, kernel, workers=workers, meter=meter)
        return found

    def _pursue(
        self,
        sample: Sample,
        kernel: CountingKernel,
        workers: Workers,
        rng: np.random.Generator,
        meter: Meter,
        interrupted: Interrupted,
        after_step: Callable[[int], None],
    ) -> Path:
        """SS00 Algorithms 1 and 2: one landmark a step, every row a candidate."""
        rule, matrix = self.rule, cast(PsdMatrix, ColumnMatrix(sample.rows, kernel, workers))
        if rule == "frobenius":
            matrix, rule = SquaredMatrix(cast(ColumnMatrix, matrix), sample.weights), "function"
        objective = ResidualPursuit(
            matrix,
            sample.weights,
            rule="diagonal" if rule == "random-pivot" else cast(Rule, rule),
            capacity=self.n,
            workers=workers,
            running=self.search == "full",
        )
        candidates: Candidates
        if rule == "random-pivot":
            candidates = RandomPivot(lambda: objective.weighted_residual, rng)
        elif rule == "diagonal" or self.search == "full":
            candidates = AllCandidates()
        else:
            candidates = FreshSubset(self.subset_size, rng)
        rules: list[StopRule] = [MaxSize(self.n), interrupted]
        if self.tol > 0:
            rules.insert(0, ValueBelow(self.tol * objective.value))
        return Pursuit(objective, meter, candidates=candidates).run(rules, after_step)


def given_landmarks(
    sample: Sample, kernel: CountingKernel, points: Any, *, workers: Workers, meter: Meter
) -> Pivots:
    """Points of the user's own, or row numbers of a precomputed matrix."""
    numbers = isinstance(points, np.ndarray) and points.ndim == 1 and points.dtype.kind in "iu"
    pool = Pool(points, points) if numbers else Pool.of_points(points)
    found = given_pivots(sample, kernel, pool, workers=workers, meter=meter)
    reason = "rank" if len(found.pool) < len(pool) else "n_basis"
    return replace(found, path=replace(found.path, stop_reason=reason))


def _costs_of(search: Path, final: Path) -> Path:
    """The final values with what each step of the search cost."""
    if len(search) != len(final):
        return replace(final, stop_reason="rank")
    return replace(final, seconds=search.seconds, entries=search.entries, passes=search.passes)
