"""The penalty of a generalised linear model in a span: by evidence, or by the loss of new rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.estimators.glm.problem import GLMProblem
from pursuit.estimators.glm.working import curvatures, dispersions
from pursuit.estimators.gp.laplace import learn_scale
from pursuit.estimators.span.features import Span, SpanFeatures
from pursuit.greedy import Problem
from pursuit.linalg import Workers
from pursuit.rows import SelectedRows, draw_rows

_FACTOR = 4.0
"""Ratio of the penalties that are tried for a loss with kinks. Smaller: finer, slower."""
_FEWEST_LEFT_OUT = 50
"""Fewer rows do not judge penalties."""
_MOST_STEPS = 4
"""Most penalties that are tried in either direction."""


def tuned_alpha(
    problem: GLMProblem, fitted: Floats, span: Span, chooser: Problem, reserved: Indices
) -> Floats:
    """α of each column for the functions of a span, beginning at that of the problem.

    The rows are those reserved from the choice, if there are any, and at most 2 000. α is the noise
    over the scale of the prior: it does not depend on their number. ``fitted`` is f + b + offset.
    """
    rows = reserved
    if not len(rows):
        rows = draw_rows(len(problem.weights), limits.EVIDENCE_ROWS, chooser.rng)
    some = problem.take(rows)
    source = SelectedRows(chooser.sample.rows, rows)
    features = SpanFeatures(source, chooser.kernel, span, chooser.workers)
    columns = [some.column(j) for j in range(some.n_outputs)]
    return np.array(
        [
            _by_left_out_loss(column, features, chooser.workers)
            if column.losses[0].kinked
            else _by_evidence(column, fitted[rows][:, [j]], features, chooser.workers)
            for j, column in enumerate(columns)
        ]
    )


def _by_evidence(
    problem: GLMProblem, fitted: Floats, features: SpanFeatures, workers: Workers
) -> float:
    """The α of most evidence by Laplace's approximation, for the dispersion φ of the rows."""
    loss, alpha = problem.losses[0], float(problem.alphas[0])
    [phi] = dispersions(problem.losses, fitted, problem.targets, problem.weights)
    if not 0.0 < phi < np.inf:
        return alpha
    # b has no prior: it is the mean of f + b where rows tell about it, so that f varies around 0.
    f, y, w = fitted[:, 0], problem.targets[:, 0], problem.weights
    intercept = np.average(f - problem.offset, weights=w * curvatures(loss, f, y, w))
    found = learn_scale(
        features.span_only,
        features.n,
        problem.targets,
        problem.weights / phi,
        phi / alpha,
        workers,
        loss=loss,
        offset=problem.offset + intercept,
    )
    return float(phi / found.scale)


def _by_left_out_loss(problem: GLMProblem, features: SpanFeatures, workers: Workers) -> float:
    """The α of least loss of rows that are left out: steps of a factor 4 while that surely falls.

    One in three rows is left out. Rows that a loss with kinks fits exactly tell nothing about it.
    """
    left_out = np.arange(1, features.n_rows, 3)
    if len(left_out) < _FEWEST_LEFT_OUT:
        return float(problem.alphas[0])
    losses: dict[int, Floats] = {}

    def worse(step: int, best: int) -> bool:
        for each in (step, best):
            if each not in losses:
                other = replace(problem, alpha=problem.alphas * _FACTOR**each)
                losses[each] = _left_out_losses(other, features, left_out, workers)
        gains = losses[best] - losses[step]
        return bool(gains.mean() <= gains.std() / np.sqrt(len(gains)))

    best = 0
    for direction in (1, -1):
        while abs(best) < _MOST_STEPS and not worse(best + direction, best):
            best += direction
        if best:
            break
    return float(problem.alphas[0] * _FACTOR**best)


def _left_out_losses(
    problem: GLMProblem, features: SpanFeatures, left_out: Indices, workers: Workers
) -> Floats:
    """Weighted losses of some rows, predicted by the others."""
    others = np.setdiff1d(np.arange(features.n_rows), left_out)
    solution = problem.take(others).solve(features.take(others), workers)
    V = features.span_only(slice(0, features.n_rows))[left_out]
    rest = problem.take(left_out)
    f = V @ solution.coordinates[:, 0] + solution.intercepts[0] + rest.offset
    return rest.weights * rest.losses[0].value(f, rest.targets[:, 0])
