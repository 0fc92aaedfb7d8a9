"""From arguments to a machine: choose a basis, move it, solve in its span, grow it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate
from pursuit.estimators.inputs import dense
from pursuit.estimators.span.duality import (
    DualPass,
    diagonal_certificate,
    exact_certificate,
    held,
)
from pursuit.estimators.span.features import Span, SpanFeatures
from pursuit.estimators.span.searching import Begin, SearchPlan, choose_pooled
from pursuit.estimators.svm.problem import MachineProblem
from pursuit.estimators.svm.solving import MachineSolution, newton_in_span
from pursuit.gram import kernel_times, kernel_transpose_times
from pursuit.greedy import (
    Interrupted,
    MaxSize,
    Path,
    Pool,
    Problem,
    Pursuit,
    kernel_matrix,
)
from pursuit.kernels import Pullback
from pursuit.linalg import Workers
from pursuit.objectives import QuadraticPursuit
from pursuit.rows import Sample, SelectedRows, draw_rows
from pursuit.tuning import Mover

PILOT_ROWS = 50_000
"""Of more rows, as many stand for all of them while the points are moved."""
_FIRST_SIZE = 64
_GROWTH = 1.6
_CANDIDATES = 4


class Solver(Protocol):
    """Solves the problem of a machine in a span."""

    def __call__(
        self,
        problem: MachineProblem,
        features: SpanFeatures,
        workers: Workers,
        rng: np.random.Generator,
        start: Floats | None = None,
    ) -> MachineSolution:
        """The best function in the span."""
        ...


@dataclass(frozen=True)
class Moving:
    """How the chosen points are moved: gradient of the kernel, its length scales, steps."""

    gradient: Pullback
    units: Floats
    steps: int


@dataclass(frozen=True)
class MachineFit:
    """A fitted machine: its span, the function in it, the features, the path, a certificate."""

    span: Span
    solution: MachineSolution
    features: SpanFeatures
    path: Path
    certificate: Certificate | None


class MachineFitter:
    """Fits a machine on one basis for all its columns.

    Parameters
    ----------
    plan : SearchPlan
        How the basis is chosen. With ``plan.tol`` it grows from a small one, by what the support
        vectors miss, until the relative gap is at most that, or ``plan.n_basis`` is reached.
    chooser : Problem
        The least-squares problem whose pursuit chooses the (first) basis functions.
    problem : MachineProblem
        What is minimised, on the same rows.
    solver : Solver
        Minimises it in a span.
    moving : Moving or None
        Whether and how the points are moved.
    dtype : "auto" or dtype
        Type in which features are kept.
    begin : callable
        Announces stages.
    """

    def __init__(
        self,
        plan: SearchPlan,
        chooser: Problem,
        problem: MachineProblem,
        solver: Solver,
        moving: Moving | None,
        dtype: Any,
        begin: Begin,
    ) -> None:
        self.plan, self.chooser, self.problem = plan, chooser, problem
        self.solver, self.moving, self.dtype, self._begin = solver, moving, dtype, begin
        self._log: list[tuple[int, float, float]] = []
        self._readings: list[tuple[float, int, float]] = []

    def run(self, interrupted: Interrupted) -> MachineFit:
        """Choose, move, solve, certify, and, for a tolerance, grow and begin again."""
        plan, chooser = self.plan, self.chooser
        n = plan.n_basis if plan.tol is None else min(plan.n_basis, _FIRST_SIZE)
        tick = self._begin("choose", n)
        sized = replace(plan, n_basis=n)
        choice = choose_pooled(sized, chooser, [MaxSize(n), interrupted], tick)
        reason = choice.path.stop_reason
        span, features, solution = self._settle(choice.pool, interrupted)
        before = -1
        while True:
            value = _total(self.problem, solution)
            found, seen = self._certify(span, features, solution)
            gap = np.nan if found is None else found.relative_gap
            self._record(len(span), value, gap)
            if plan.tol is None:
                reason = "rank" if len(span) < len(choice.pool) else reason
                break
            if gap <= plan.tol:
                reason = "tol"
                break
            if len(span) >= plan.n_basis or interrupted.requested:
                reason = "interrupted" if interrupted.requested else "n_basis"
                break
            assert seen is not None
            n = min(plan.n_basis, int(_GROWTH * len(span)) + 1)
            pool = self._grown(span, features, seen, n)
            # What is added may depend on what there is, to working precision.
            if len(pool) == len(span) or len(span) <= before:
                reason = "rank"
                break
            before = len(span)
            span, features, solution = self._settle(pool, interrupted)
        return MachineFit(span, solution, features, self._path(span, reason), found)

    def _settle(
        self, pool: Pool, interrupted: Interrupted
    ) -> tuple[Span, SpanFeatures, MachineSolution]:
        """Move the points, if they are to be moved, and solve in their span."""
        everything = np.arange(self.problem.targets.shape[0])
        if self.moving is None or interrupted.requested:
            self._begin("solve")
            return self._solved(pool, everything, self.problem, self.solver)
        self._begin("move")
        some, share = everything, 1.0
        if len(everything) > PILOT_ROWS:
            some = draw_rows(len(everything), PILOT_ROWS, self.chooser.rng)
            share = len(everything) / len(some)
        smooth = self.problem.smooth().take(some)
        pilot = replace(smooth, costs=share * smooth.costs)
        first = self._solved(pool, some, pilot, newton_in_span)
        moved = Pool.of_points(self._moved(first[0], first[2], pilot, some))
        second = self._solved(moved, some, pilot, newton_in_span)
        values = [
            float(pilot.value(s.fitted, s.squared_norms).sum()) for _, _, s in (first, second)
        ]
        best = second if values[1] < values[0] else first
        if len(some) == len(everything) and self.problem.squared:
            return best
        pool = best[0].pool
        del first, second, best
        self._begin("solve")
        return self._solved(pool, everything, self.problem, self.solver)

    def _solved(
        self, pool: Pool, rows: Indices, problem: MachineProblem, solver: Solver
    ) -> tuple[Span, SpanFeatures, MachineSolution]:
        chooser = self.chooser
        span = Span.of(pool, chooser)
        source = chooser.sample.rows
        if len(rows) < source.n_rows:
            source = SelectedRows(source, rows)
        features = SpanFeatures(source, chooser.kernel, span, chooser.workers, self.dtype)
        chooser.meter.passes += len(rows) / chooser.sample.n_rows
        return span, features, solver(problem, features, chooser.workers, chooser.rng)

    def _moved(
        self, span: Span, solution: MachineSolution, problem: MachineProblem, rows: Indices
    ) -> Floats:
        """Points moved to fit what the rows that matter lack.

        At a solution f̂ the losses c max(0, ·)² are at most c(t - f)² with t = f̂ + signed slack,
        and equal to it where the slack is positive as long as it stays so: a least-squares problem
        on the rows with slack, for :class:`~pursuit.tuning.Mover`.
        """
        assert self.moving is not None
        slack = problem.signed_slack(solution.fitted)
        costs = problem.costs
        matters = np.flatnonzero(((slack != 0) & (costs > 0)).any(axis=1))
        if not len(matters):
            return np.asarray(dense(span.pool.items), dtype=np.float64)
        targets = np.where(costs > 0, slack, 0.0) + solution.fitted - solution.intercepts
        weights = costs.max(axis=1)
        sample = Sample(
            SelectedRows(self.chooser.sample.rows, rows[matters]),
            targets[matters],
            weights[matters] / weights[matters].mean(),
        )
        noise = 0.5 / float(weights[matters].mean())
        chooser = replace(self.chooser, sample=sample, noise=noise)
        mover = Mover(chooser, self.moving.gradient, self.moving.units, np.arange(sample.n_rows))
        start = np.asarray(dense(span.pool.items), dtype=np.float64)
        return mover.move(start, self.moving.steps)[0]

    def _certify(
        self, span: Span, features: SpanFeatures, solution: MachineSolution
    ) -> tuple[Certificate | None, DualPass | None]:
        """The certificate that was asked for, and the product that it took."""
        if self.plan.certificate is None:
            return None, None
        self._begin("certify")
        chooser, rows = self.chooser, self.chooser.sample.rows
        fitted = solution.fitted
        if len(span) and np.dtype(features.dtype) != np.float64:
            # Values from rounded features are not those of the machine.
            beta = span.coefficients(solution.coordinates)
            fitted = kernel_times(rows, chooser.kernel, span.pool.items, beta, chooser.workers)
            fitted += self.problem.shifts(solution.intercepts)
            chooser.meter.passes += 1
        known = self.problem, fitted, solution.squared_norms, solution.dual
        if self.plan.certificate == "exact":
            return exact_certificate(*known, rows, chooser.kernel, chooser.workers, chooser.meter)
        diagonal = np.concatenate([chooser.kernel.diag(items) for _, items in rows.blocks()])
        return diagonal_certificate(*known, features, diagonal, chooser.workers), None

    def _grown(self, span: Span, features: SpanFeatures, seen: DualPass, n: int) -> Pool:
        """The basis with further rows, where the support vectors miss most.

        The full kernel turns a into g = Σ a_i k(x_i, ·); what the span misses of it, a'Ea, is the
        gap. Candidates are the rows with the largest a_i² d_i, and are taken by how much of a'Ea
        each removes: a pursuit on H = K with b = Ka.
        """
        chooser, kept = self.chooser, span.pool
        rows = chooser.sample.rows
        squares = features.squares(chooser.workers)[seen.support]
        support = held(rows, seen.support)
        diagonal = np.concatenate([chooser.kernel.diag(items) for _, items in support.blocks()])
        missed = (seen.dual**2).sum(axis=1) * np.maximum(diagonal - squares, 0.0)
        missed[np.isin(seen.support, kept.index)] = 0.0
        order = np.argsort(-missed, kind="stable")[: _CANDIDATES * (n - len(span))]
        order = order[missed[order] > 0]
        if not len(order):
            return kept
        pool = kept + Pool.of_rows(chooser.sample, seen.support[order])
        inside = kernel_transpose_times(
            support, chooser.kernel, kept.items, seen.dual, chooser.workers
        )
        K = kernel_matrix(chooser.kernel, pool.items, chooser.workers)
        objective = QuadraticPursuit(
            np.diag(K),
            np.vstack([inside, seen.product[order]]),
            K.__getitem__,
            capacity=n,
            workers=chooser.workers,
            look_ahead=True,
            rounding=chooser.kernel.rounding,
        )
        pursuit = Pursuit(objective, chooser.meter)
        pursuit.take(range(len(kept)))
        pursuit.run([MaxSize(n)])
        return pool.take(objective.chosen)

    def _record(self, n: int, value: float, gap: float) -> None:
        meter = self.chooser.meter
        self._log.append((n, value, gap))
        self._readings.append((meter.seconds, meter.entries, meter.passes))

    def _path(self, span: Span, reason: str) -> Path:
        """One entry a basis function; values and gaps at the sizes that were solved."""
        n = len(span)
        value, gap = np.full(n, np.nan), np.full(n, np.nan)
        spent = np.zeros((n, 3))
        begun = 0
        for (size, objective, found), reading in zip(self._log, self._readings, strict=True):
            spent[begun:size] = reading
            begun = max(begun, size)
            if 0 < size <= n:
                value[size - 1], gap[size - 1] = objective, found
        seconds, entries, passes = spent.T
        return Path(
            span.pool.index.copy(), value, gap, seconds, entries.astype(np.int64), passes, reason
        )


def _total(problem: MachineProblem, solution: MachineSolution) -> float:
    """P, all columns together."""
    return float(problem.value(solution.fitted, solution.squared_norms).sum())
