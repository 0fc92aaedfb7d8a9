"""Searches of Z03 (Zhang 2002b): steps in a plane, a random draw, and the l1 penalty."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np

from pursuit import limits
from pursuit._types import Floats
from pursuit.bounds import Certificate, relative_gap
from pursuit.estimators.span.search import (
    Begin,
    PublishedGap,
    SearchPlan,
    gap_of,
    gap_rules,
    smallest_within,
)
from pursuit.gram import (
    ColumnProducts,
    KernelMatrix,
    MatrixProducts,
    StreamedProducts,
    kernel_diagonal,
)
from pursuit.gram.arithmetic import RowArithmetic
from pursuit.greedy import (
    Choice,
    Deadline,
    FreshSubset,
    Interrupted,
    MaxSize,
    Path,
    Pool,
    Problem,
    Pursuit,
    SpanFit,
    Stalled,
    StopRule,
    kernel_matrix,
    refit,
)
from pursuit.linalg import StepwiseSolution
from pursuit.objectives import LassoPursuit, PlanePursuit, RefittedPlanePursuit, SpanPursuit
from pursuit.rounding import Rounded, dots, joined
from pursuit.rows import BLOCK_ROWS, distinct_rows
from pursuit.solvers import bounded_least_squares

PATIENCE = 100
"""Consecutive steps, beyond ``n_basis``, that may take rows that were taken before."""


@dataclass(frozen=True)
class StepFit:
    """A model made of steps: its basis in the order of choice, the steps, the path, the trace."""

    pool: Pool
    solution: StepwiseSolution
    path: Path
    trace: float
    exact: ClassVar[bool] = True
    """Steps are taken by float64 tiles only."""


def fit_steps(
    plan: SearchPlan,
    problem: Problem,
    *,
    subset_size: int | None,
    refitted: bool,
    interrupted: StopRule,
    begin: Begin,
) -> tuple[SpanFit | StepFit, Certificate | None]:
    """Z03 Algorithm 1, or 3 for a ``subset_size``; ``refitted``, the fit is the best in the span.

    The certificate is returned where the search has computed that of the final model.
    """
    sample, norms = problem.sample, problem.sample.target_norms()
    after_step = begin("choose", plan.n_basis)
    products = _products(problem, subset_size)
    diagonal = _diagonal(problem)
    objective: PlanePursuit | RefittedPlanePursuit
    if refitted:
        span = SpanPursuit(
            sample, problem.kernel, problem.noise, capacity=plan.n_basis, workers=problem.workers
        )
        objective = RefittedPlanePursuit(products, span, problem.noise)
    else:
        # Copies of a row are one function. A random subset is drawn from all, as the theory has it.
        once = subset_size is None and sample.n_rows <= limits.SMALL_ROWS
        allowed = distinct_rows(sample.rows) if once else None
        objective = PlanePursuit(products, diagonal, float(norms[0]), problem.noise, allowed)
    gap = gap_of(plan, problem) if plan.tol is not None else None
    rules = [
        *gap_rules(plan, gap),
        MaxSize(plan.n_basis),
        Stalled(plan.n_basis + PATIENCE),
        interrupted,
        *([] if plan.max_time is None else [Deadline(plan.max_time)]),
    ]
    candidates = None if subset_size is None else FreshSubset(subset_size, problem.rng)
    # A refit gains more than the step that chose the row, by far where kernel functions overlap: a
    # step too small to be told from rounding is no reason to stop.
    scale = 0.0 if refitted else objective.value
    pursuit = Pursuit(objective, problem.meter, candidates=candidates, scale=scale)
    path = pursuit.run(rules, after_step)
    pool = Pool.of_rows(sample, objective.chosen)
    trace = float(sample.weights @ diagonal)
    fitted: SpanFit | StepFit
    if isinstance(objective, RefittedPlanePursuit):
        fitted = SpanFit(pool, objective.span.solution(), path, trace)
    else:
        solution = objective.solution()
        value = 0.5 * float(norms[0]) - np.cumsum(solution.gains())
        fitted = StepFit(pool, solution, replace(path, value=value), trace)
    if isinstance(gap, PublishedGap):
        return fitted, gap.final(fitted.pool.items, fitted.solution)
    done = gap is not None and path.stop_reason == "tol"
    return fitted, gap.certificate if gap is not None and done else None


def fit_random(
    plan: SearchPlan, problem: Problem, *, interrupted: Interrupted, begin: Begin
) -> tuple[SpanFit, Certificate | None]:
    """Z03 Algorithm 2: rows drawn without replacement, the first n of them alike for every n."""
    sample = problem.sample
    drawn = problem.rng.permutation(sample.n_rows)[: plan.n_basis]
    nothing = np.full(len(drawn), np.nan)
    path = Path(
        drawn, nothing, nothing, nothing, np.zeros(len(drawn), np.int64), nothing, "n_basis"
    )
    tick = begin("fit", -(-sample.n_rows // BLOCK_ROWS))
    fitted = refit(
        Choice(Pool.of_rows(sample, drawn), path, None),
        problem,
        dtype=plan.dtype,
        reorder=False,
        after_block=lambda done: tick(-(-done // BLOCK_ROWS)),
        enough=interrupted.overdue,
    )
    if plan.tol is None or plan.certificate is None or interrupted.requested:
        return fitted, None
    begin("size", 1)
    return smallest_within(plan.tol, plan.certificate, fitted, problem)


def _products(problem: Problem, subset_size: int | None) -> ColumnProducts:
    """Inner products of all rows at once, or of a few in a pass of their own."""
    sample, kernel, workers = problem.sample, problem.kernel, problem.workers

    def count() -> None:
        problem.meter.passes += 1

    if subset_size is not None:
        return StreamedProducts(sample, kernel, workers, count)
    matrix = KernelMatrix(sample.rows, kernel, workers, after_pass=count)
    return MatrixProducts(sample, matrix)


def _diagonal(problem: Problem) -> Floats:
    return kernel_diagonal(problem.sample.rows, problem.kernel)


_OVER = "all coefficient vectors on all rows"


class _Stop:
    """Stop at a relative gap of ``tol``, or at n coefficients that are not zero."""

    def __init__(self, n: int, tol: float | None, norm: float) -> None:
        self._n, self._tol, self._norm = n, tol, norm

    def __call__(self, pursuit: Pursuit) -> str | None:
        """Reason tol or n_basis."""
        objective = cast(LassoPursuit, pursuit.objective)
        rounding = float(objective.bound.error)
        gap = relative_gap(objective.value, objective.lower, self._norm, rounding)
        pursuit.recorder.record_gap(gap)
        if self._tol is not None and gap <= self._tol:
            return "tol"
        return "n_basis" if objective.n_terms >= self._n else None


def fit_penalised(
    plan: SearchPlan, problem: Problem, *, interrupted: Interrupted, begin: Begin
) -> tuple[StepFit, Certificate]:
    """Minimise ½Σw(y - Ka)² + α‖a‖₁, α being ``problem.noise``, over at most ``n_basis`` terms."""
    sample, norm = problem.sample, float(problem.sample.target_norms()[0])

    def count() -> None:
        problem.meter.passes += 1

    after_step = begin("choose", plan.n_basis)
    diagonal = kernel_diagonal(sample.rows, problem.kernel)
    known = RowArithmetic.of(sample.rows, problem.kernel, problem.workers)
    # Kernels that are inner products may be multiplied by way of their features.
    terms = sample.n_rows + known.extent.n_features + 8
    objective = LassoPursuit(
        KernelMatrix(sample.rows, problem.kernel, problem.workers, after_pass=count),
        known.sizes,
        sample.targets[:, 0],
        sample.weights,
        problem.noise,
        known.error.of_terms(terms),
        solve=bounded_least_squares,
    )
    rules: list[StopRule] = [
        _Stop(plan.n_basis, plan.tol, norm),
        Stalled(plan.n_basis + PATIENCE),
        interrupted,
        *([] if plan.max_time is None else [Deadline(plan.max_time)]),
    ]
    path = Pursuit(objective, problem.meter, every_step=True).run(rules, after_step)
    pool = Pool.of_rows(sample, objective.held)
    certificate = Certificate.proved(
        joined([_penalised_value(objective, pool, problem, known)]),
        joined([objective.bound]),
        np.array([norm]),
        "dual point",
        over=_OVER,
        remedy=f"alpha={problem.noise:.3g} is below what float64 resolves for this kernel and "
        "these rows: raise alpha, or centre the features",
    )
    trace = float(sample.weights @ diagonal)
    return StepFit(pool, _sum_of_terms(objective, pool, problem, norm), path, trace), certificate


def _penalised_value(
    objective: LassoPursuit, pool: Pool, problem: Problem, known: RowArithmetic
) -> Rounded:
    """½Σw(y - f)² + α‖a‖₁ of the terms that are kept."""
    sample, a = problem.sample, objective.coefficients[objective.held]
    fitted = known.times(known.among(pool.items), a[:, None])[:, 0]
    residual = sample.targets[:, 0] - fitted
    squares = dots(sample.weights, residual * residual)
    return 0.5 * squares + problem.noise * Rounded.of(np.abs(a)).sum()


def _sum_of_terms(
    objective: LassoPursuit, pool: Pool, problem: Problem, norm: float
) -> StepwiseSolution:
    """f as steps that add its terms as they are, one after the other."""
    a, n = objective.coefficients[objective.held], len(objective.held)
    K = kernel_matrix(problem.kernel, pool.items, problem.workers)
    products = a[:, None] * np.tril(K) @ np.diag(a)
    squares = np.cumsum(2.0 * products.sum(axis=1) - np.diag(products))
    decrease = 0.5 * norm - objective.partial_values()
    return StepwiseSolution(np.arange(n), a, np.ones(n), squares, decrease)
