"""Between choice and model: how many points, where they stand, and how far to trust the result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.estimators.fit_run import FitRun
from pursuit.estimators.gp.learning import LearnedKernel
from pursuit.estimators.inputs import dense
from pursuit.estimators.span.search import (
    Chosen,
    RowSplit,
    SearchPlan,
)
from pursuit.gram import kernel_times
from pursuit.greedy import Choice, Clock, Pool, Problem, SpanFit, refit, solve_in_span
from pursuit.kernels import kernel_gradient, without_white
from pursuit.linalg import SpanSolution
from pursuit.rows import draw_rows, row_groups
from pursuit.tuning import (
    BATCH_ROWS,
    LOSS_IS_NOTHING,
    Calibration,
    HeldOut,
    Mover,
    calibrate,
    error_curve,
    flat_size,
    loss_curve,
)

RESERVED_ROWS = 2000
_ROWS_A_RESERVED = 5
_AUTO_STEPS = 100
_SMALLEST_CALIBRATED = 16
_CHOSEN_BY, _LEAST_SHARE = 0.6, 0.1
"""Shares of a fit's time: when moves begin, and what the choice has in any case."""
_JUDGING_STEPS, _PASSES_A_STEP = 8, 2
"""In the time of this many steps moves are judged; one step costs two passes over its rows."""


def split_rows(n_rows: int, rng: np.random.Generator, *, moves: bool, judged: bool) -> RowSplit:
    """Reserve at most a fifth of the rows if the basis is moved, or judged on many rows."""
    if not (moves or (judged and n_rows > limits.SMALL_ROWS)):
        return RowSplit.none_reserved(n_rows)
    reserved = draw_rows(n_rows, min(RESERVED_ROWS, n_rows // _ROWS_A_RESERVED), rng)
    return RowSplit(np.setdiff1d(np.arange(n_rows), reserved, assume_unique=True), reserved)


def moving_steps(refine: Any, learned: LearnedKernel, n_rows: int) -> int:
    """Gradient steps that move the basis; ``"auto"`` moves that of a learned kernel on many rows.

    None where there are too few rows to reserve one that judges the moves.
    """
    if refine == "auto":
        return _AUTO_STEPS if learned.learns and n_rows > limits.SMALL_ROWS else 0
    steps = int(refine)
    if steps == 0 or n_rows < _ROWS_A_RESERVED:
        return 0
    kernel = learned.kernel
    known = isinstance(kernel, SklearnKernel) and learned.deviations is not None
    if not known or kernel_gradient(without_white(kernel)[0]) is None:
        raise ValueError(
            f"refine={refine!r} moves points along the kernel's gradient, which is not known of "
            f"{kernel!r}: pass an RBF or Matern of sklearn.gaussian_process.kernels, or use "
            "refine=False."
        )
    return steps


def timed(plan: SearchPlan, clock: Clock, problem: Problem, *, moves: bool) -> SearchPlan:
    """The plan with the time by which the choice must end for the rest of the fit to follow."""
    if plan.max_time is None:
        return plan
    seconds = max(clock.left(_CHOSEN_BY if moves else 1.0), _LEAST_SHARE * plan.max_time)
    return replace(plan, max_time=problem.meter.seconds + seconds)


def held_out(problem: Problem, pool: Pool, solution: SpanSolution, rows: Indices) -> HeldOut:
    """Numbers that leave-one-out needs of some rows, given in ascending order."""
    sample = problem.sample.take(rows)
    items = sample.rows.take(np.arange(len(rows)))
    group = row_groups([items], len(rows))
    return HeldOut(
        solution.features(problem.kernel.tile(items, pool.items)),
        sample.targets,
        sample.weights,
        problem.kernel.diag(items),
        group,
        _leaving(pool, solution, rows, group),
    )


def _leaving(pool: Pool, solution: SpanSolution, rows: Indices, group: Indices) -> Floats | None:
    """R⁻¹e_j for rows identical to the j-th basis point, 0 for others; None if none is one."""
    points = np.flatnonzero(np.isin(pool.index, rows))
    if len(points) == 0:
        return None
    own = np.full(len(rows), -1)
    own[group[np.searchsorted(rows, pool.index[points])]] = points
    own = own[group]
    inverse = solution.features(np.eye(solution.size))
    leaving = np.zeros((solution.size, len(rows)))
    leaving[:, own >= 0] = inverse[:, own[own >= 0]]
    return leaving


def sketched(problem: Problem, rows: Indices, n_rows: int) -> Problem:
    """The problem on a random part of the given rows, its ridge in proportion."""
    some = rows[draw_rows(len(rows), n_rows, problem.rng)]
    share = len(some) / problem.sample.n_rows
    noise = problem.noise * share
    return replace(problem, sample=problem.sample.take(some), noise=noise, ledgers=None)


def _judge_rows(pool: Pool) -> int:
    """Rows of a fit that other rows judge: too few make a large basis look bad."""
    return max(8192, 4 * len(pool))


def choose_size(
    choice: Choice, problem: Problem, split: RowSplit, *, classes: bool = False
) -> Choice:
    """Cut the choice where the error on rows left out flattens, or their log loss for classes."""
    if not len(choice.pool):
        return choice
    in_fit = len(split.reserved) == 0
    if in_fit:
        fitted = refit(choice, problem, reorder=False)
        solution = fitted.solution
        rows = held_out(problem, fitted.pool, solution, np.arange(problem.sample.n_rows))
    else:
        seen = sketched(problem, split.allowed, _judge_rows(choice.pool))
        points, solution = solve_in_span(seen, choice.pool.items)
        rows = held_out(problem, Pool.of_points(points), solution, split.reserved)
    curve = loss_curve if classes else error_curve
    size = flat_size(
        curve(solution, rows, in_fit=in_fit), nothing=LOSS_IS_NOTHING if classes else 0.0
    )
    if size >= len(choice.pool):
        return choice
    return choice.truncated(size, "no gain")


def move_basis(
    chosen: Chosen,
    problem: Problem,
    learned: LearnedKernel,
    steps: int,
    split: RowSplit,
    run: FitRun,
) -> tuple[Chosen, str]:
    """Move the chosen points; also returns a sentence on the result.

    They stay where they were unless the error on the reserved rows falls. What is left of the
    fit's time is for the moves, for judging them and for the pass over all rows.
    """
    recorded = run.resume("move")
    if recorded is not None:
        return Chosen(recorded[0]), recorded[1]
    choice, kernel = chosen.choice, learned.kernel
    gradient = kernel_gradient(without_white(kernel)[0])
    assert gradient is not None
    pool, reserved = choice.pool, split.reserved
    start = dense(pool.items)
    units = length_units(kernel, np.asarray(learned.deviations))
    mover = Mover(problem, gradient, units, split.allowed)
    rest = _JUDGING_STEPS + problem.sample.n_rows / (_PASSES_A_STEP * BATCH_ROWS)
    moved, steps = mover.move(start, steps, run.clock.left(), rest)
    judge = sketched(problem, split.allowed, _judge_rows(pool))
    before = _reserved_error(judge, problem, start, reserved)
    after = _reserved_error(judge, problem, moved, reserved)
    change = f"the error on {len(reserved)} reserved rows"
    if not after < before:
        sentence = f"{steps} steps undone: {change} rose from {before:.4g} to {after:.4g}"
    else:
        sentence = f"moved by {steps} steps: {change} fell from {before:.4g} to {after:.4g}"
        path = replace(choice.path, index=np.full(len(pool), -1, dtype=np.intp))
        choice = Choice(Pool.of_points(moved), path, None)
    run.keep("move", (choice, sentence))
    return Chosen(choice), sentence


def _reserved_error(judge: Problem, problem: Problem, points: Any, reserved: Indices) -> float:
    """Root mean square error on the reserved rows of a fit to the sketch."""
    points, solution = solve_in_span(judge, points)
    rows = problem.sample.take(reserved)
    fitted = kernel_times(
        rows.rows, problem.kernel, points, solution.coefficients(), problem.workers
    )
    square = rows.weights @ (rows.targets - fitted) ** 2
    return float(np.sqrt(square.mean() / rows.weights.sum()))


def calibrate_fit(
    fitted: SpanFit, problem: Problem, reserved: Indices, *, keep_ridge: bool
) -> tuple[SpanFit, dict[int, Calibration]]:
    """Ridge and error bars by leave-one-out, for the model and for n/2, n/4, … basis functions.

    Rows that have had a part in the choice of the basis think too well of a small ridge: where none
    are reserved, the ridge stays.
    """
    if fitted.solution.size == 0:
        return fitted, {}
    chosen = reserved if len(reserved) else np.arange(problem.sample.n_rows)
    rows = held_out(problem, fitted.pool, fitted.solution, chosen)
    keep_ridge = keep_ridge or len(reserved) == 0
    solution, found = calibrate(fitted.solution, rows, keep_ridge=keep_ridge)
    by_size = {fitted.solution.size: found}
    n = fitted.solution.size // 2
    while n >= _SMALLEST_CALIBRATED:
        _, by_size[n] = calibrate(
            fitted.solution.truncated(n), rows.truncated(n), keep_ridge=keep_ridge
        )
        n //= 2
    half_norm = 0.5 * float(problem.sample.target_norms().sum())
    value = half_norm - np.cumsum(solution.gains().sum(axis=1))
    return replace(fitted, solution=solution, path=replace(fitted.path, value=value)), by_size


def length_units(kernel: Any, deviations: Floats) -> Floats:
    """The smallest length scale of each feature, or its deviation where the kernel has none."""
    found = [
        np.broadcast_to(np.asarray(value, dtype=float), deviations.shape)
        for name, value in kernel.get_params().items()
        if name.endswith("length_scale") and np.size(value) in (1, len(deviations))
    ]
    return np.min(found, axis=0) if found else deviations
