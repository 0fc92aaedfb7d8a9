"""A basis that doubles until reserved rows are not expected to gain by another doubling."""

from __future__ import annotations

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
from pursuit.greedy import Choice, CostMeter, Pool, Problem
from pursuit.tuning import flat_size, next_gain

FIRST_SIZE = 64
"""Size at which a basis starts that grows."""
_CANDIDATES = 4
"""Candidates per function that is added. More: a slower choice, and hardly a better one."""
_ROUGH = 1e-6
"""Tolerance of the solutions that only say how to grow. Smaller: more steps of Newton's method."""
_ROWS_A_FUNCTION = 16
"""Rows on which a basis grows, for each function that it may have: fewer do not determine it."""
_SHARE, _LEAST, _MOST = 1 / 6, 0.01, 0.03
"""What a doubling has to lower the loss by: this share of it, for classes between these numbers.
The loss of classes is about three times the share of wrong rows. Larger: smaller, faster models."""
_ALL_STEPS_FROM = 512
"""Below this size points are moved by fewer steps, in proportion to the root of the size: they will
move again. Larger: faster growth, to worse points."""
_NEXT_TO_NOTHING, _PATIENT_SIZE = 0.75, 512
"""As long as this share of the loss of a constant is left, a basis grows, to this size."""
_NOTHING = 3e-3
"""A decrease of the loss of classes for which no larger basis is kept that has been tried."""

Size = tuple[Pool, SpanFunction]
Step = tuple[int, float, float, Floats]
"""Size, objective, relative gap and cost so far, as `Path` has them."""


@dataclass
class LossCurve:
    """The loss per row at each size, of reserved rows and of those that were seen.

    The loss of a row is the sum of ξ² over the columns, at least 1 where a class is wrong.

    Attributes
    ----------
    reserved, seen : MachineProblem
        The problems of both.
    losses : list of arrays of shape (2,)
        Those of the sizes so far, of reserved and seen rows.
    """

    reserved: MachineProblem
    seen: MachineProblem
    losses: list[Floats] = field(default_factory=list)

    def at(self, at_reserved: Floats, at_seen: Floats) -> Floats:
        """The losses of values f + b at the rows."""
        return np.array([_loss(self.reserved, at_reserved), _loss(self.seen, at_seen)])

    def pays(self, losses: Floats) -> bool:
        """Whether a stage that has led from the last losses to these was worth it."""
        return self._is_worth(next_gain(self._scaled([self.losses[-1], losses])), losses)

    def is_flat(self, size: int) -> bool:
        """Whether another doubling is not expected to be worth it.

        As long as a basis explains next to nothing, its gains say nothing of those of a larger one.
        """
        last = self.losses[-1]
        if size < _PATIENT_SIZE and last[0] > _NEXT_TO_NOTHING * self._constant:
            return False
        if len(self.losses) == 1:
            return not (last > (_LEAST if self._classes else 0.0)).all()
        return not self._is_worth(next_gain(self._scaled(self.losses)), last)

    def _scaled(self, losses: list[Floats]) -> Floats:
        """Losses of classes, and logarithms of those of numbers: there it is shares that count."""
        curves = np.array(losses)
        return curves if self._classes else np.log(np.maximum(curves, np.finfo(float).tiny))

    def _is_worth(self, gains: Floats, losses: Floats) -> bool:
        """Whether gains, of losses as scaled, are enough.

        Reserved rows alone know whether a basis is too large, but their number is small: a gain
        has to show in both.
        """
        needed = np.clip(_SHARE * losses, _LEAST, _MOST) if self._classes else _SHARE
        return bool((gains > needed).all())

    @property
    def _classes(self) -> bool:
        return self.reserved.epsilon is None

    @property
    def _constant(self) -> float:
        """The loss of the reserved rows without any function."""
        costs, targets = self.seen.costs, self.seen.targets
        total = np.maximum(costs.sum(axis=0), np.finfo(float).tiny)
        mean = np.einsum("ij,ij->j", costs, targets) / total
        return _loss(self.reserved, np.broadcast_to(mean, self.reserved.targets.shape))

    @property
    def best(self) -> int:
        """Number of the first size whose loss of reserved rows is about the least."""
        nothing = _NOTHING if self._classes else 0.0
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
        How the points are moved at each size, if that pays at the first one.
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

        The machine of the rows that are not reserved is solved in the span of the first points.
        Points are then added and moved for what it lacks on the rows with slack, again and again:
        see :func:`working_problem`. Each of these stages is recorded in the checkpoint.
        """
        run, chooser = self.run, self.chooser
        rows, pilot = pilot_problem(self.problem, chooser.rng, _ROWS_A_FUNCTION * self.plan.n_basis)
        split = split_rows(len(rows), chooser.rng, moves=True, judged=True)
        costs = pilot.costs.copy()
        costs[split.reserved] = 0.0
        seen = replace(pilot, costs=costs)
        curve = LossCurve(pilot.take(split.reserved), seen)

        def losses(size: Size) -> Floats:
            fitted = size[1].fitted
            return curve.at(fitted[split.reserved], fitted)

        n, moving = min(self.plan.n_basis, FIRST_SIZE), self.moving
        tick = run.begin("choose", n)
        sizes = run.recorded("first", partial(self._first, n, seen, rows, split.allowed, tick))
        curve.losses.append(losses(sizes[0]))
        if moving is not None and not run.out_of_time and not curve.is_flat(_PATIENT_SIZE):
            size = len(sizes[0][0])
            move = partial(self._next, size, moving, seen, rows, *sizes[0], tick)
            moved = run.recorded("first-moved", move)
            now = losses(moved[0]) if moved else curve.losses[0]
            if not curve.pays(now):
                moving = None
            if (now < curve.losses[0]).all():
                sizes, curve.losses = moved, [now]
        steps = [self._step(sizes[0], pilot)]
        while True:
            pool, _ = sizes[-1]
            if run.out_of_time:
                reason = "interrupted" if run.stopping else "time"
                break
            if curve.is_flat(len(pool)):
                reason = "no gain"
                break
            if len(pool) >= self.plan.n_basis:
                reason = "n_basis"
                break
            if len(pool) < n:
                reason = "rank"
                break
            n = min(self.plan.n_basis, 2 * n)
            tick = run.begin("grow", n)
            more = partial(self._next, n, moving, seen, rows, *sizes[-1], tick)
            found = run.recorded(f"size-{n}", more)
            if not found:
                reason = "rank"
                break
            sizes += found
            curve.losses.append(losses(sizes[-1]))
            steps.append(self._step(sizes[-1], pilot))
        if curve.best < len(sizes) - 1:
            reason = "no gain"
        pool, solution = sizes[curve.best]
        start = np.vstack([solution.coordinates, solution.intercepts])
        return Grown(pool, start, steps[: curve.best], reason)

    def _step(self, size: Size, pilot: MachineProblem) -> Step:
        pool, solution = size
        return len(pool), objective(pilot, solution), np.nan, spent(self.chooser.meter)

    def _first(
        self, n: int, seen: MachineProblem, rows: Indices, allowed: Indices, tick: Any
    ) -> list[Size]:
        """The first points, chosen by least squares on the targets."""
        chooser, m = self.chooser, self.chooser.sample.n_rows
        some = rows[allowed]
        noise = chooser.noise * len(some) / m
        working = replace(chooser, sample=chooser.sample.take(some), noise=noise, ledgers=None)
        plan = replace(self.plan, n_basis=n)
        choice: Choice = pooled_search(plan, working).run(n, [self.run.interrupted], tick)
        pool = choice.renumbered(some).pool
        self.run.begin("solve")
        return self._solved(pool, seen, rows, None)

    def _next(
        self,
        n: int,
        moving: Moving | None,
        seen: MachineProblem,
        rows: Indices,
        pool: Pool,
        solution: SpanFunction,
        tick: Any,
    ) -> list[Size]:
        """The basis, enlarged and moved; nothing where no row has slack or none can be added."""
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
        known: Floats | None = start
        if moving is not None and not run.out_of_time:
            run.begin("move")
            share = min(1.0, (n / _ALL_STEPS_FROM) ** 0.5)
            some = replace(moving, steps=max(1, round(share * moving.steps)))
            pool, known = Pool.of_points(some.moved(pool, working, run.clock.left())), None
        run.begin("solve")
        return self._solved(pool, seen, rows, known)

    def _solved(
        self, pool: Pool, seen: MachineProblem, rows: Indices, start: Floats | None
    ) -> list[Size]:
        """The points that are independent, and the machine in their span."""
        solution = self.spanned.solve(seen, pool, rows, start=start, tol=_ROUGH)
        return [(self.spanned(pool, rows)[0].pool, solution)]


def spent(meter: CostMeter) -> Floats:
    """Seconds, kernel entries and passes so far."""
    return np.array([meter.seconds, meter.entries, meter.passes])
