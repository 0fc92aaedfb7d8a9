"""A fit of a generalised linear model: rounds of working responses, then Newton in the span."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate
from pursuit.estimators.arguments import Evidence
from pursuit.estimators.fit_run import FitRun
from pursuit.estimators.glm.alpha import tuned_alpha
from pursuit.estimators.glm.certify import glm_certificate
from pursuit.estimators.glm.named import GivenLoss
from pursuit.estimators.glm.problem import GLMProblem
from pursuit.estimators.glm.working import Working, located, normal_dispersions, working
from pursuit.estimators.gp.stages import (
    LearnedKernel,
    learn_or_keep,
    move_basis,
    moving_steps,
    split_rows,
)
from pursuit.estimators.span.features import Span, SpanFeatures, SpanFunction, StoredFunction
from pursuit.estimators.span.search import RowSplit, SearchPlan, choose_basis, timed
from pursuit.gram import kernel_times
from pursuit.greedy import CostMeter, Path, Problem
from pursuit.rows import Sample, draw_rows

_PILOT_BASIS = 64
"""Most functions of the first round. More: working responses nearer to the end, more time."""
_PILOT_ROWS, _KINKED_PILOT_ROWS = 5_000, 3_000
"""Most rows of the first round, for smooth losses and for those with kinks."""
_EVIDENCE_ROWS, _PILOT_EVIDENCE_ROWS = 800, 300
"""Rows from which the second round learns its kernel unless told otherwise, and most rows of the
first. More: a better kernel, at the cube of the cost."""
_AUTO_STEPS = 25
"""Steps that move the points with ``refine="auto"``."""


@dataclass(frozen=True)
class Rows:
    """What a fit is about: rows with one target each, weights, and offsets of f."""

    sample: Sample
    offset: Floats

    @property
    def y(self) -> Floats:
        """Targets as a vector."""
        return self.sample.targets[:, 0]

    def problem(self, given: GivenLoss, alpha: float | Floats = 1.0) -> GLMProblem:
        """The convex problem that the rows pose."""
        losses = given.rows()
        targets = np.repeat(self.sample.targets, len(losses), axis=1)
        return GLMProblem(losses, targets, self.sample.weights, self.offset, alpha)

    def take(self, index: Indices) -> Rows:
        """Some of the rows."""
        return Rows(self.sample.take(index), self.offset[index])


@dataclass(frozen=True)
class GLMFit:
    """A fitted model, with what the fit has learned.

    Attributes
    ----------
    learned : LearnedKernel
        Kernel and report.
    given : GivenLoss
        The loss, with its numbers learned.
    alpha : array of shape (n_outputs,)
        α.
    span : Span
        The basis.
    solution : SpanFunction
        The function.
    path : Path
        Of the choice.
    moved : str
        Whether the points were moved.
    chooser : Problem
        The least squares that the basis was chosen for, with the compiled kernel.
    problem : GLMProblem
        The convex problem that the solution is for.
    """

    learned: LearnedKernel
    given: GivenLoss
    alpha: Floats
    span: Span
    solution: SpanFunction
    path: Path
    moved: str
    chooser: Problem
    problem: GLMProblem


def fit_glm(
    estimator: Any, X: Any, rows: Rows, given: GivenLoss, plan: SearchPlan, run: FitRun
) -> GLMFit:
    """Learn, choose, move and solve: roughly from a constant, then from what that has found."""
    run.begin_round("pilot")
    pilot_given, fitted = _pilot(estimator, X, rows, given, plan, run)
    run.begin_round("")
    sample = rows.sample
    problem = rows.problem(pilot_given)
    near = working(
        problem.losses, fitted, problem.targets, sample.weights, rows.offset, sample.rows
    )
    learned, chooser = _learn(estimator, X, near, run, _evidence(estimator))
    alpha = _alpha(estimator, near, learned)
    m = sample.n_rows
    steps = moving_steps(estimator.refine, learned, m)
    if estimator.refine == "auto":
        steps = min(steps, _AUTO_STEPS)
    split = split_rows(m, run.rng, moves=steps > 0, judged=False)
    plan = timed(plan, run.clock, chooser, moves=steps > 0)
    chosen = choose_basis(plan, chooser, split, run)
    moved = learned.report.moved
    if steps > 0 and not run.out_of_time:
        chosen, moved = move_basis(chosen, chooser, learned, steps, split, run)
    span = Span.of(chosen.choice.pool, chooser)
    if estimator.alpha == "learn" and len(span):
        run.begin("alpha")
        alpha = tuned_alpha(replace(problem, alpha=alpha), fitted, span, chooser, split.reserved)
    solution, given = _solve(rows, pilot_given, alpha, span, chooser, run)
    return GLMFit(
        learned,
        given,
        alpha,
        span,
        solution,
        chosen.choice.path,
        moved,
        chooser,
        rows.problem(given, alpha),
    )


def _pilot(
    estimator: Any, X: Any, rows: Rows, given: GivenLoss, plan: SearchPlan, run: FitRun
) -> tuple[GivenLoss, Floats]:
    """A rough fit from the best constant: the loss, and f + b + offset at all rows."""
    m, kinked = rows.sample.n_rows, any(loss.kinked for loss in given.rows())
    size = _KINKED_PILOT_ROWS if kinked else _PILOT_ROWS
    some = rows if m <= size else rows.take(draw_rows(m, size, run.rng))
    sample, offset = some.sample, some.offset
    problem = some.problem(given)
    constants = problem.constants() + np.zeros_like(problem.targets)
    given = given.learned(constants[:, 0] + offset, some.y, sample.weights)
    problem = some.problem(given)
    start = problem.constants() + offset[:, None]
    around = located if kinked else working
    near = around(problem.losses, start, problem.targets, sample.weights, offset, sample.rows)
    options = _evidence(estimator)
    options = replace(options, rows=min(options.rows, _PILOT_EVIDENCE_ROWS))
    learned, chooser = _learn(estimator, X, near, run, options, pilot=True)
    plan = replace(plan, n_basis=min(plan.n_basis, _PILOT_BASIS))
    plan = timed(plan, run.clock, chooser, moves=False)
    split = RowSplit.none_reserved(sample.n_rows)
    choice = choose_basis(plan, chooser, split, run).choice
    span = Span.of(choice.pool, chooser)
    alpha = _alpha(estimator, near, learned)
    if kinked and estimator.alpha == "learn":
        alpha = normal_dispersions(problem.losses, learned.noise)
    solution, given = _solve(some, given, alpha, span, chooser, run)
    beta = span.coefficients(solution.coordinates)
    fitted = np.zeros((m, len(problem.losses)))
    if len(span):
        fitted = kernel_times(rows.sample.rows, chooser.kernel, span.pool.items, beta, run.workers)
    fitted += solution.intercepts + rows.offset[:, None]
    return given, fitted


def _evidence(estimator: Any) -> Evidence:
    """Options of the evidence, the user's own or those for losses."""
    given = estimator.optimizer
    return given if isinstance(given, Evidence) else Evidence(rows=_EVIDENCE_ROWS)


def _learn(
    estimator: Any,
    X: Any,
    near: Working,
    run: FitRun,
    options: Evidence,
    *,
    pilot: bool = False,
) -> tuple[LearnedKernel, Problem]:
    """Kernel and noise of a working response, and the least squares that they pose."""
    noise: float | str = "learn"
    if estimator.alpha != "learn":
        noise = float(estimator.alpha) / float(near.curvature.mean())
    learned, kernel = learn_or_keep(
        estimator, near.sample, X, run.rng, run, noise=noise, options=options, pilot=pilot
    )
    return learned, Problem(
        near.sample, kernel, learned.noise, run.workers, CostMeter(kernel), run.rng
    )


def _alpha(estimator: Any, near: Working, learned: LearnedKernel) -> Floats:
    """α of each column, given or from the noise of the working response."""
    if estimator.alpha != "learn":
        return np.full(len(near.curvature), float(estimator.alpha))
    return learned.noise * near.curvature


def _solve(
    rows: Rows, given: GivenLoss, alpha: Floats, span: Span, chooser: Problem, run: FitRun
) -> tuple[SpanFunction, GivenLoss]:
    """The best function in the span; again with what it says about the loss, if that is learned."""
    features = SpanFeatures(rows.sample.rows, chooser.kernel, span, chooser.workers)
    chooser.meter.passes += 1
    run.begin("solve")
    solution = rows.problem(given, alpha).solve(features, chooser.workers)
    if given.learns:
        fitted = solution.fitted[:, 0] + rows.offset
        given = given.learned(fitted, rows.y, rows.sample.weights)
        start = np.vstack([solution.coordinates, solution.intercepts])
        solution = rows.problem(given, alpha).solve(features, chooser.workers, start)
    return solution, given


def certified(fit: GLMFit, run: FitRun) -> Certificate:
    """The certificate of a fit against all functions of the kernel."""
    run.begin("certify")
    chooser, solution = fit.chooser, fit.solution
    function = StoredFunction.of(
        fit.span.pool.items,
        fit.span.coefficients(solution.coordinates),
        solution.intercepts,
        chooser.sample.rows,
        chooser.kernel,
        chooser.workers,
        chooser.meter,
    )
    found, _ = glm_certificate(fit.problem, function, solution.dual, chooser.meter)
    return found
