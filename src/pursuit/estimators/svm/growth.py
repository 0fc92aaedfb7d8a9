"""A basis that doubles until reserved rows are not expected to gain by another doubling."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.estimators.fit_run import FitRun
from pursuit.estimators.gp.stages import split_rows
from pursuit.estimators.span.features import SpanFunction
from pursuit.estimators.span.search import SearchPlan, choose_more, pooled_search
from pursuit.estimators.svm.moving import Moving, pilot_problem, working_problem
from pursuit.estimators.svm.problem import MachineProblem
from pursuit.estimators.svm.spanned import SpannedRows, objective
from pursuit.greedy import Choice, CostMeter, MaxSize, Pool, Problem
from pursuit.tuning import flat_size, next_gain

FIRST_SIZE = 64
"""Size at which a basis starts that grows."""
_CANDIDATES = 4
"""Candidates per function that is added. More: a slower choice, and hardly a better one."""
_ROWS_A_FUNCTION = 16
"""Rows on which a basis grows, for each function that it may have: fewer do not determine it."""
_SHARE, _LEAST, _MOST = 1 / 6, 0.01, 0.03
"""What a doubling has to lower the loss by: this share of it, for classes between these numbers.
The loss of classes is about three times the share of wrong rows. Larger: smaller, faster models."""
_NOTHING = 3e-3
"""A decrease of the loss of classes for which no larger basis is kept that has been tried."""

Size = tuple[Pool, SpanFunction]
Step = tuple[int, float, float, Floats]
"""Size, objective, relative gap and cost so far, as `Path` has them."""


@dataclass
class LossCurve:
    """The loss per row after each stage of growth, of reserved rows and of those that were seen.

    The loss of a row is the sum of ξ² over the columns, at least 1 where a class is wrong.

    Attributes
    ----------
    reserved, seen : MachineProblem
        The problems of both.
    moves : bool
        Whether the second stage is to move the first points.
    losses : list of pairs
        Those of the stages so far, of reserved and seen rows.
    """

    reserved: MachineProblem
    seen: MachineProblem
    moves: bool
    losses: list[tuple[float, float]] = field(default_factory=list)

    def add(self, at_reserved: Floats, at_seen: Floats) -> None:
        """Note the losses of values f + b at the rows."""
        self.losses.append((_loss(self.reserved, at_reserved), _loss(self.seen, at_seen)))

    @property
    def flat(self) -> bool:
        """Whether another doubling is not expected to be worth it.

        Reserved rows alone know whether a basis is too large, but their number is small: a gain
        has to show in both.
        """
        curves = np.array(self.losses)
        needed = _SHARE * curves[-1]
        if self.reserved.epsilon is None:
            needed = np.clip(needed, _LEAST, _MOST)
        doubled = curves[1:] if self.moves and len(curves) > 2 else curves
        return bool((next_gain(doubled) <= needed).any())

    @property
    def best(self) -> int:
        """Number of the first stage whose loss of reserved rows is about the least."""
        nothing = 0.0 if self.reserved.epsilon is not None else _NOTHING
        return flat_size(np.array(self.losses)[:, 0], nothing=nothing) - 1


def _loss(problem: MachineProblem, fitted: Floats) -> float:
    """Mean of ξ², summed over the columns, from values f + b at the rows."""
    total = float((problem.costs * problem.signed_slack(fitted) ** 2).sum())
    return total / float(problem.costs.max(axis=1).sum())


@dataclass(frozen=True)
class Grown:
    """A basis of its own size.

    Attributes
    ----------
    pool : Pool
        The points.
    start : array of shape (n + 1, n_outputs)
        Coordinates and intercepts of the machine of the rows that were not reserved.
    steps : list of tuples
        What each size brought and cost; the last entry is of the size before this one.
    reason : str
        Why it did not grow further.
    """

    pool: Pool
    start: Floats
    steps: list[Step]
    reason: str


@dataclass(frozen=True)
class GrowingBasis:
    """What a basis grows by; on a part of the rows if there are more than ``PILOT_ROWS``.

    Attributes
    ----------
    plan : SearchPlan
        How rows are chosen, and how many at most.
    problem : MachineProblem
        The machine's problem on all rows.
    moving : Moving or None
        How the points are moved at each size.
    chooser : Problem
        The least squares that choose the first points.
    spanned : SpannedRows
        Features of the rows.
    run : FitRun
        The fit that this is part of.
    """

    plan: SearchPlan
    problem: MachineProblem
    moving: Moving | None
    chooser: Problem
    spanned: SpannedRows
    run: FitRun

    def grow(self) -> Grown:
        """Double the basis until reserved rows are not expected to gain by that.

        The machine of the rows that are not reserved is solved in the span of the first points,
        which are then moved, for what it lacks on the rows with slack: see :func:`working_problem`.
        If the reserved rows gain by that, points are added and moved in the same way, again and
        again. Each of these stages is recorded in the checkpoint.
        """
        run, chooser = self.run, self.chooser
        rows, pilot = pilot_problem(self.problem, chooser.rng, _ROWS_A_FUNCTION * self.plan.n_basis)
        split = split_rows(len(rows), chooser.rng, moves=True, judged=True)
        costs = pilot.costs.copy()
        costs[split.reserved] = 0.0
        seen, moves = replace(pilot, costs=costs), self.moving is not None
        curve = LossCurve(pilot.take(split.reserved), seen, moves)
        sizes: list[Size] = []
        steps: list[Step] = []
        for stage in itertools.count():
            n = min(self.plan.n_basis, FIRST_SIZE << max(stage - moves, 0))
            tick = run.begin("grow" if stage else "choose", n)
            if stage == 0:
                one = partial(self._first, n, seen, rows, split.allowed, tick)
            else:
                one = partial(self._next, n, seen, rows, *sizes[-1], tick)
            found = run.recorded(f"stage-{stage}", one)
            if not found:
                reason = "no gain"
                break
            sizes += found
            pool, solution = found[0]
            curve.add(solution.fitted[split.reserved], solution.fitted)
            steps.append((len(pool), objective(pilot, solution), np.nan, spent(chooser.meter)))
            if run.out_of_time:
                reason = "interrupted" if run.stopping else "time"
                break
            if curve.flat:
                reason = "no gain"
                break
            if len(pool) >= self.plan.n_basis and stage >= moves:
                reason = "n_basis"
                break
            if len(pool) < n:
                reason = "rank"
                break
        if curve.best < len(sizes) - 1:
            reason = "no gain"
        pool, solution = sizes[curve.best]
        start = np.vstack([solution.coordinates, solution.intercepts])
        return Grown(pool, start, steps[: curve.best], reason)

    def _first(
        self, n: int, seen: MachineProblem, rows: Indices, allowed: Indices, tick: Any
    ) -> list[Size]:
        """The first points, chosen by least squares on the targets."""
        chooser, m = self.chooser, self.chooser.sample.n_rows
        some = rows[allowed]
        noise = chooser.noise * len(some) / m
        working = replace(chooser, sample=chooser.sample.take(some), noise=noise, ledgers=None)
        plan = replace(self.plan, n_basis=n)
        choice: Choice = pooled_search(plan, working).run(
            n, [MaxSize(n), self.run.interrupted], tick
        )
        pool = choice.renumbered(some).pool
        self.run.begin("solve")
        return self._solved(pool, seen, rows, None)

    def _next(
        self,
        n: int,
        seen: MachineProblem,
        rows: Indices,
        pool: Pool,
        solution: SpanFunction,
        tick: Any,
    ) -> list[Size]:
        """The basis, enlarged and moved; nothing where no row misses it or none can be added."""
        found, run = working_problem(seen, solution, rows, self.chooser), self.run
        if found is None:
            return []
        working, numbers = found
        start = np.vstack([solution.coordinates, solution.intercepts])
        if n > len(pool):
            search = self.plan.search
            size = search.pool_size or _CANDIDATES * (n - len(pool))
            plan = replace(self.plan, n_basis=n, search=replace(search, pool_size=size))
            added = choose_more(plan, working, pool, numbers, [run.interrupted], tick)
            if not len(added):
                return []
            start = np.insert(start, [len(pool)] * len(added), 0.0, axis=0)
            pool = pool + added
        moves = self.moving is not None and not run.out_of_time
        if self.moving is not None and moves:
            run.begin("move")
            pool = Pool.of_points(self.moving.moved(pool, working, run.clock.left()))
        run.begin("solve")
        return self._solved(pool, seen, rows, None if moves else start)

    def _solved(
        self, pool: Pool, seen: MachineProblem, rows: Indices, start: Floats | None
    ) -> list[Size]:
        """The points that are independent, and the machine in their span."""
        solution = self.spanned.solve(seen, pool, rows, start)
        return [(self.spanned(pool, rows)[0].pool, solution)]


def spent(meter: CostMeter) -> Floats:
    """Seconds, kernel entries and passes so far."""
    return np.array([meter.seconds, meter.entries, meter.passes])
