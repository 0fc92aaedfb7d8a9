"""The l1 penalty: kernel functions by their correlation with the residual (Z03 eq. 2)."""

from __future__ import annotations

from typing import cast

import numpy as np

from pursuit.bounds import Certificate, relative_gap
from pursuit.estimators.span.searching import Begin, SearchPlan
from pursuit.estimators.span.stepping import PATIENCE, StepFit
from pursuit.gram import KernelMatrix, kernel_diagonal
from pursuit.greedy import (
    Deadline,
    Interrupted,
    Pool,
    Problem,
    Pursuit,
    Stalled,
    StopRule,
    kernel_matrix,
)
from pursuit.linalg import StepSolution
from pursuit.objectives import LassoPursuit
from pursuit.solvers import bounded_least_squares

_OVER = "all coefficient vectors on all rows"


class _Stop:
    """Stop at a relative gap of ``tol``, or at n coefficients that are not zero."""

    def __init__(self, n: int, tol: float | None, norm: float) -> None:
        self._n, self._tol, self._norm = n, tol, norm

    def __call__(self, pursuit: Pursuit) -> str | None:
        """Reason tol or n_basis."""
        objective = cast(LassoPursuit, pursuit.objective)
        gap = relative_gap(objective.value, objective.lower, self._norm)
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
    objective = LassoPursuit(
        KernelMatrix(sample.rows, problem.kernel, problem.workers, after_pass=count),
        diagonal,
        sample.targets[:, 0],
        sample.weights,
        problem.noise,
        solve=bounded_least_squares,
    )
    rules: list[StopRule] = [
        _Stop(plan.n_basis, plan.tol, norm),
        Stalled(plan.n_basis + PATIENCE),
        interrupted,
        *([] if plan.max_time is None else [Deadline(plan.max_time)]),
    ]
    path = Pursuit(objective, problem.meter, every_step=True).run(rules, after_step)
    value, lower = np.array([objective.value]), np.array([objective.lower])
    certificate = Certificate(value, lower, np.array([norm]), "dual point", over=_OVER)
    pool = Pool.of_rows(sample, objective.held)
    trace = float(sample.weights @ diagonal)
    return StepFit(pool, _sum_of_terms(objective, pool, problem, norm), path, trace), certificate


def _sum_of_terms(
    objective: LassoPursuit, pool: Pool, problem: Problem, norm: float
) -> StepSolution:
    """f as steps that add its terms as they are, one after the other."""
    a, n = objective.coefficients[objective.held], len(objective.held)
    K = kernel_matrix(problem.kernel, pool.items, problem.workers)
    products = a[:, None] * np.tril(K) @ np.diag(a)
    squares = np.cumsum(2.0 * products.sum(axis=1) - np.diag(products))
    decrease = 0.5 * norm - objective.partial_values()
    return StepSolution(np.arange(n), a, np.ones(n), squares, decrease)
