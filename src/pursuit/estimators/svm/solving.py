"""Solve the problem of a machine in a span: Newton's method for ξ², interior point for ξ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pursuit._types import Floats
from pursuit.estimators.span.features import SpanFeatures
from pursuit.estimators.svm.problem import MachineProblem
from pursuit.estimators.svm.tube import solve_tube
from pursuit.linalg import Workers
from pursuit.rows import draw_rows
from pursuit.solvers import interior_point, newton, ridge_start

_FIRST_PART = 8
"""Newton's method begins on one row in so many, where that leaves enough rows."""
_FIRST_TOL = 1e-4
_PRECISE_GAP, _ROUGH_GAP = 1e-10, 1e-4
"""Where interior point stops: the accuracy is that of the optimum from 1e-3 on."""
_MAX_STEPS = 60
_NEGLIGIBLE = 1e-7
"""A part of its bound, or of the largest dual variable, at which one may be called zero."""


@dataclass(frozen=True)
class MachineSolution:
    """The best function in a span.

    Attributes
    ----------
    coordinates : array of shape (n, n_outputs)
        u, on the orthonormal functions of the span: ‖f‖² = ‖u‖².
    intercepts : array of shape (n_outputs,)
        b.
    fitted : array of shape (n_rows, n_outputs)
        f + b at the rows.
    dual : array of shape (n_rows, n_outputs)
        a of the dual problem with VV' in place of K; 0 where a row does not matter.
    steps : int
        Steps of the solver, of the slowest column.
    converged : bool
        Whether it met its tolerance.
    """

    coordinates: Floats
    intercepts: Floats
    fitted: Floats
    dual: Floats
    steps: int
    converged: bool

    @property
    def squared_norms(self) -> Floats:
        """‖f‖² for each column."""
        norms: Floats = (self.coordinates**2).sum(axis=0)
        return norms

    @property
    def stacked(self) -> Floats:
        """u and, below it, b."""
        return np.vstack([self.coordinates, self.intercepts])


def newton_in_span(
    problem: MachineProblem,
    features: SpanFeatures,
    workers: Workers,
    rng: np.random.Generator,
    start: Floats | None = None,
) -> MachineSolution:
    """For ξ². ``start`` is u and, below it, b."""
    n, m = features.n, features.n_rows
    ridge = np.append(np.ones(n), 0.0)
    if start is None:
        start = np.zeros((n + 1, problem.n_outputs))
        size = max(m // _FIRST_PART, 8 * n)
        if features.stored is not None and size <= m // 2:
            # A good start spares the full passes that find out which rows matter at all.
            some = draw_rows(m, size, rng)
            start = newton(
                features.stored[some].__getitem__,
                problem.row_loss,
                problem.targets[some],
                problem.costs[some] * (m / size),
                start=start,
                ridge=ridge,
                workers=workers,
                tol=_FIRST_TOL,
            ).coefficients
    found = newton(
        features,
        problem.row_loss,
        problem.targets,
        problem.costs,
        start=start,
        ridge=ridge,
        workers=workers,
    )
    return MachineSolution(
        found.coefficients[:n],
        found.coefficients[n],
        found.fitted,
        problem.dual_point(found.fitted),
        found.steps,
        found.converged,
    )


def interior_in_span(
    problem: MachineProblem,
    features: SpanFeatures,
    workers: Workers,
    rng: np.random.Generator,
    start: Floats | None = None,
) -> MachineSolution:
    """For ξ, column by column: min ½a'VV'a - y'a + ε‖a‖₁ over 1'a = 0.

    With a between 0 and yc and no ε for classes, between -c and c for numbers. ``start`` is not
    used: the method begins inside the box of a, and a function does not say where.

    The intercept is the best for f, not the multiplier of 1'a = 0. Where all support vectors are at
    their bounds many multipliers are, and a barrier leaves off at any of these.
    """
    precise = np.dtype(features.dtype) == np.float64
    n, columns = features.n, range(problem.n_outputs)
    coordinates = np.zeros((n, problem.n_outputs))
    dual, steps, converged = np.zeros_like(problem.targets), 0, True
    for column in columns:
        rows = np.flatnonzero(problem.costs[:, column] > 0)
        V = features.span_rows(rows)
        y, c = problem.targets[rows, column], problem.costs[rows, column]
        options: dict[str, Any] = {
            "tol": _PRECISE_GAP if precise else _ROUGH_GAP,
            "max_steps": _MAX_STEPS,
            "workers": workers,
            "dtype": features.dtype,
        }
        if problem.epsilon is None:
            # One class cannot pull harder than the other: no a of 1'a = 0 is lost.
            most = min(float(c[y > 0].sum()), float(c[y < 0].sum()))
            ends = y * np.minimum(c, most)
            bounds = np.minimum(0.0, ends), np.maximum(0.0, ends)
            begin = ridge_start(V, y, *bounds, workers=workers)
            ones = np.ones(len(rows))
            found = interior_point(V, 0.0, -y, *bounds, equality=ones, start=begin, **options)
        else:
            found = solve_tube(V, y, c, problem.epsilon, **options)
        dual[rows, column] = without_rounding(found.a, c)
        if dual[:, column].any():
            coordinates[:, column] = found.coordinates
        steps = max(steps, found.steps)
        # Rounding may end the method before the last of these digits.
        close = abs(found.primal - found.dual) <= _ROUGH_GAP * abs(found.primal)
        converged = converged and (found.converged or close)
    blocks = Workers.slices(features.n_rows, 512)
    values = np.concatenate(workers.map(lambda r: features.span_only(r) @ coordinates, blocks))
    intercepts = problem.intercepts(values)
    return MachineSolution(coordinates, intercepts, values + intercepts, dual, steps, converged)


def without_rounding(a: Floats, bounds: Floats) -> Floats:
    """The dual variables, those zero that an interior point only keeps from their bound 0."""
    size = np.abs(a)
    return np.where(size > _NEGLIGIBLE * np.minimum(bounds, size.max(initial=0.0)), a, 0.0)
