"""The least squares that stand for a machine near a solution, and points moved to fit them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.estimators.inputs import dense
from pursuit.estimators.span.features import SpanFunction
from pursuit.estimators.svm.problem import MachineProblem
from pursuit.estimators.svm.spanned import SpannedRows, objective
from pursuit.greedy import Pool, Problem
from pursuit.kernels import KernelGradient
from pursuit.rows import Sample, SelectedRows, draw_rows
from pursuit.tuning import Mover

PILOT_ROWS = 50_000
"""Above this, points are moved, and a basis grows, on a random subset of this size. More rows make
both slower."""


@dataclass(frozen=True)
class Moving:
    """How the chosen points are moved: gradient of the kernel, its length scales, steps."""

    gradient: KernelGradient
    units: Floats
    steps: int

    def moved(self, pool: Pool, working: Problem, seconds: float) -> Floats:
        """The points after steps that lower the objective of a least-squares problem."""
        points = np.asarray(dense(pool.items), dtype=np.float64)
        mover = Mover(working, self.gradient, self.units, np.arange(working.sample.n_rows))
        return mover.move(points, self.steps, seconds)[0]


def pilot_problem(
    problem: MachineProblem, rng: np.random.Generator, least: int = 0
) -> tuple[Indices, MachineProblem]:
    """At most ``PILOT_ROWS`` rows, or ``least``, and the smooth problem that they pose for all."""
    m, most = len(problem.targets), max(PILOT_ROWS, least)
    rows, pilot = np.arange(m), problem.smooth()
    if m > most:
        rows = draw_rows(m, most, rng)
        pilot = pilot.take(rows)
        pilot = replace(pilot, costs=m / len(rows) * pilot.costs)
    return rows, pilot


def working_problem(
    problem: MachineProblem, solution: SpanFunction, rows: Indices, chooser: Problem
) -> tuple[Problem, Indices] | None:
    """Least squares on the rows with slack, and the numbers of these rows; None if there are none.

    At a solution f̂ the losses c max(0, ·)² are at most c(t - f)² with t = f̂ + signed slack, and
    equal to it where the slack is positive, as long as it stays so.
    """
    slack, costs = problem.signed_slack(solution.fitted), problem.costs
    matters = np.flatnonzero(((slack != 0) & (costs > 0)).any(axis=1))
    if not len(matters):
        return None
    targets = np.where(costs > 0, slack, 0.0) + solution.fitted - solution.intercepts
    weights = costs.max(axis=1)[matters]
    sample = Sample(
        SelectedRows(chooser.sample.rows, rows[matters]), targets[matters], weights / weights.mean()
    )
    working = replace(chooser, sample=sample, noise=0.5 / float(weights.mean()), ledgers=None)
    return working, rows[matters]


def move(
    pool: Pool,
    moving: Moving,
    problem: MachineProblem,
    chooser: Problem,
    spanned: SpannedRows,
    seconds: float,
) -> tuple[Pool, SpanFunction | None]:
    """The points after moving, or as they were if moving does not lower the objective.

    The smooth problem judges, on a part of many rows. Where that is the machine's own problem on
    all rows, its solution is returned as well.
    """
    m = chooser.sample.n_rows
    rows, pilot = pilot_problem(problem, chooser.rng)
    first = spanned.solve(pilot, pool, rows)
    before, _ = spanned(pool, rows)
    working = working_problem(pilot, first, rows, chooser)
    points = np.asarray(dense(before.pool.items), dtype=np.float64)
    if working is not None:
        points = moving.moved(before.pool, working[0], seconds)
    moved = Pool.of_points(points)
    second = spanned.solve(pilot, moved, rows)
    after, _ = spanned(moved, rows)
    better = objective(pilot, second) < objective(pilot, first)
    if len(rows) == m and problem.squared:
        return (moved, second) if better else (pool, first)
    return (after if better else before).pool, None
