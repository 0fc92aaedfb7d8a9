"""The convex problem of a generalised linear model, and its solution in a span of functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import DTypeLike
from scipy.optimize import brentq, minimize_scalar

from pursuit._types import Floats, Indices
from pursuit.bounds import balanced
from pursuit.estimators.span.features import SpanFeatures, SpanFunction
from pursuit.linalg import Factor, TallMatrix, Workers
from pursuit.objectives import RowLoss
from pursuit.solvers import LinearLosses, interior_point, newton

_NEWTON_TOL = 1e-14
"""Newton's method ends where another step promises less than this share of the objective, since
the dual point -wℓ' is right to the root of that share only."""
_PRECISE_GAP, _ROUGH_GAP = 1e-11, 1e-4
"""Relative gaps at which interior point stops, with float64 and with float32 features."""
_MAX_STEPS = 80
"""Steps after which interior point gives up and the fit warns."""
_ROUNDING, _ENDLESS = 1e-13, 1e200
_EPSILON = 4.0 * float(np.finfo(np.float64).eps)
_UNSURE = 16.0 * _EPSILON
"""Share of a loss that rounding of its conjugate, which has a few terms, adds to a gap."""
_NEAR = 1e-4
"""How near the best multiple of a dual point is looked for: the bound loses its square."""


@dataclass(frozen=True)
class GLMProblem:
    """Minimise Σ_i w_i ℓ(f(x_i) + b + o_i, y_i) + ½α‖f‖² over f and b, separately for each column.

    Its dual: maximise D(a) = -Σ_i w_i ℓ*(-a_i/w_i, y_i) - o'a - a'Ka/2α over a with 1'a = 0. At the
    minimum a = -wℓ', and f = Ka/α at the rows.

    Attributes
    ----------
    losses : sequence of RowLoss
        ℓ of each column.
    targets : array of shape (n_rows, n_outputs)
        y.
    weights : array of shape (n_rows,)
        w, positive.
    offset : array of shape (n_rows,)
        o, part of the prediction that is given.
    alpha : float, or array of shape (n_outputs,)
        α.
    """

    losses: Sequence[RowLoss]
    targets: Floats
    weights: Floats
    offset: Floats
    alpha: float | Floats

    reference = "the full model with this kernel and loss"
    baseline = "the best constant"

    @property
    def n_outputs(self) -> int:
        """Number of columns."""
        return int(self.targets.shape[1])

    @property
    def over(self) -> str:
        """What the minimum is taken over, in words."""
        return "all functions of the kernel and all intercepts"

    @property
    def alphas(self) -> Floats:
        """α of each column."""
        return np.broadcast_to(np.asarray(self.alpha, dtype=np.float64), self.n_outputs)

    def take(self, rows: Indices) -> GLMProblem:
        """The problem on some of the rows."""
        parts = {name: getattr(self, name)[rows] for name in ("targets", "weights", "offset")}
        return replace(self, **parts)

    def column(self, column: int) -> GLMProblem:
        """The problem of one column."""
        return replace(
            self,
            losses=(self.losses[column],),
            targets=self.targets[:, [column]],
            alpha=float(self.alphas[column]),
        )

    def solve(
        self, features: SpanFeatures, workers: Workers, start: Floats | None = None
    ) -> SpanFunction:
        """The best function in the span: Newton's method, or interior point for losses with kinks.

        ``start`` holds coordinates and, in its last row, intercepts from which Newton's method
        begins; the best constants by default.
        """
        if start is None:
            start = np.vstack([np.zeros((features.n, self.n_outputs)), self.constants()])
        V = TallMatrix(features.span_rows(np.arange(features.n_rows)), features.n_rows, workers)
        columns = [
            interior_in_span(self.column(column), V, workers, features.dtype)
            if loss.kinked
            else _newton_in_span(self, column, features, workers, start[:, [column]])
            for column, loss in enumerate(self.losses)
        ]
        return SpanFunction(
            np.hstack([column.coordinates for column in columns]),
            np.concatenate([column.intercepts for column in columns]),
            np.hstack([column.fitted for column in columns]),
            np.hstack([column.dual for column in columns]),
            max(column.steps for column in columns),
            all(column.converged for column in columns),
        )

    def value(self, fitted: Floats, squared_norms: Floats) -> Floats:
        """P per column, from f + b at the rows and ‖f‖²."""
        total = fitted + self.offset[:, None]
        columns = zip(self.losses, total.T, self.targets.T, strict=True)
        losses = np.array([float(self.weights @ loss.value(f, y)) for loss, f, y in columns])
        return losses + 0.5 * self.alphas * squared_norms

    def rounding(self, fitted: Floats) -> Floats:
        """What P per column may be off by: the rounding of every loss, and of f + b and y in it."""
        total = fitted + self.offset[:, None]
        found = []
        for loss, f, y in zip(self.losses, total.T, self.targets.T, strict=True):
            value, shift = loss.value(f, y), _UNSURE * (np.abs(f) + np.abs(self.offset))
            others = (f - shift, y), (f + shift, y), (f, (1.0 - _UNSURE) * y)
            changes = sum(np.abs(loss.value(*other) - value) for other in others)
            found.append(self.weights @ (_UNSURE * np.abs(value) + changes))
        return np.array(found)

    def constants(self) -> Floats:
        """The best intercept of each column without any function."""
        return self.intercepts(np.zeros_like(self.targets))

    def intercepts(self, values: Floats) -> Floats:
        """The b of least loss for each column, given the values of f at the rows."""
        columns = zip(self.losses, values.T, self.targets.T, strict=True)
        return np.array([loss.constant(y, self.weights, self.offset + f) for loss, f, y in columns])

    def zero_value(self) -> Floats:
        """P of the best constant."""
        fitted = np.broadcast_to(self.constants(), self.targets.shape)
        return self.value(fitted, np.zeros(self.n_outputs))

    def dual_point(self, fitted: Floats) -> Floats:
        """The dual point -wℓ'(f + b + o) of smooth losses, feasible up to 1'a = 0."""
        total = fitted + self.offset[:, None]
        columns = zip(self.losses, total.T, self.targets.T, strict=True)
        slopes = np.column_stack([loss.gradient(f, y) for loss, f, y in columns])
        return np.asarray(-self.weights[:, None] * slopes)

    def feasible(self, a: Floats) -> Floats:
        """A dual point clipped into the domain of the conjugates, and moved to 1'a = 0 in it."""
        columns = []
        for column in range(self.n_outputs):
            lower, upper = self.bounds(column)
            inside = np.clip(a[:, column], lower, upper)
            if lower.max() <= 0.0 <= upper.min():
                columns.append(balanced(inside[:, None])[:, 0])
            else:
                columns.append(_shifted(inside, lower, upper, self.weights))
        return np.column_stack(columns)

    def lower_bound(self, a: Floats, quadratic: Floats) -> Floats:
        """The largest D(ta) over 0 ≤ t ≤ 1 for a feasible a, from a'Ka or an upper bound of it.

        D(ta) is concave in t, and every t gives a true bound. At a minimum in a span the best t is
        at most 1.
        """
        columns = enumerate(zip(a.T, quadratic, strict=True))
        return np.array([_largest(partial(self._dual_value, j, *both)) for j, both in columns])

    def _dual_value(self, column: int, a: Floats, quadratic: float, t: float) -> float:
        """D(ta), less what rounding may have added to it."""
        loss, y = self.losses[column], self.targets[:, column]
        slopes = -t * a / self.weights
        # Rounding must not move the slopes out of the conjugate's domain.
        inside = np.clip(slopes, *loss.slopes(y))
        if np.any(np.abs(slopes - inside) > _ROUNDING * np.abs(a / self.weights)):
            return -np.inf
        terms = self.weights * loss.conjugate(inside, y) + t * self.offset * a
        curved = t**2 * max(quadratic, 0.0) / (2.0 * float(self.alphas[column]))
        # Terms of large targets or offsets cancel, since 1'a = 0; their rounding does not.
        rounding = _EPSILON * float(np.abs(terms).sum() + curved)
        return -float(terms.sum()) - curved - rounding

    def bounds(self, column: int) -> tuple[Floats, Floats]:
        """Least and largest a for which the conjugate is finite."""
        least, most = self.losses[column].slopes(self.targets[:, column])
        return -self.weights * most, -self.weights * least


def _newton_in_span(
    problem: GLMProblem, column: int, features: SpanFeatures, workers: Workers, start: Floats
) -> SpanFunction:
    """The solution of a column with a smooth loss."""
    n = features.n
    solution = newton(
        features,
        problem.losses[column],
        problem.targets[:, [column]],
        problem.weights,
        start=start,
        ridge=np.append(np.full(n, problem.alphas[column]), 0.0),
        workers=workers,
        offset=problem.offset,
        tol=_NEWTON_TOL,
    )
    slopes = problem.losses[column].gradient(solution.fitted, problem.targets[:, [column]])
    return SpanFunction(
        solution.coefficients[:n],
        solution.coefficients[n],
        solution.fitted - problem.offset[:, None],
        -problem.weights[:, None] * slopes,
        solution.steps,
        solution.converged,
    )


def interior_in_span(
    problem: GLMProblem, V: Factor, workers: Workers, dtype: DTypeLike
) -> SpanFunction:
    """The solution of a single column whose loss has kinks: min ½c'VV'c - (y - o)'c over 1'c = 0.

    c = a/α lies between the slopes of the loss, times -w/α. The intercept is the best one for f,
    not the multiplier of 1'c = 0, of which there are many where no row lies on the kink.
    """
    alpha = float(problem.alphas[0])
    lower, upper = problem.bounds(0)
    gain = problem.targets[:, 0] - problem.offset
    losses = LinearLosses(gain[None], lower[None], upper[None])
    scaled = losses.times(1.0 / alpha).balanced()
    precise = np.dtype(dtype) == np.float64
    solution = interior_point(
        V,
        0.0,
        # A constant makes no difference where 1'c = 0, but would cost digits.
        float(np.median(gain)) - gain,
        scaled.lower[0],
        scaled.upper[0],
        equality=np.ones(len(gain)),
        tol=_PRECISE_GAP if precise else _ROUGH_GAP,
        max_steps=_MAX_STEPS,
        workers=workers,
        dtype=dtype,
    )
    values = V.times(solution.coordinates[:, None])
    intercept = losses.intercept(values[:, 0])
    return SpanFunction(
        solution.coordinates[:, None],
        np.array([intercept]),
        values + intercept,
        alpha * solution.a[:, None],
        solution.steps,
        solution.close_enough,
    )


def _shifted(a: Floats, lower: Floats, upper: Floats, sizes: Floats) -> Floats:
    """The point of a box with 1'a = 0 that is reached from a by moving all of it one way.

    For boxes without 0, out of which scaling would lead. Entries move in proportion to ``sizes``.
    """

    def moved(distance: float) -> Floats:
        return np.clip(a - distance * sizes, lower, upper)

    start = float(a.sum())
    if start == 0.0:
        return a
    end = start / float(sizes.sum())
    while float(moved(end).sum()) * start > 0.0 and abs(end) < _ENDLESS:
        end *= 2.0
    distance = brentq(lambda t: float(moved(t).sum()), 0.0, end, xtol=1e-300, rtol=1e-15)
    return moved(distance)


def _largest(concave: Callable[[float], float]) -> float:
    """The largest value of a concave function on [0, 1], which may be -∞ far from 1."""
    with np.errstate(invalid="ignore"):
        found = minimize_scalar(
            lambda t: -concave(t), bounds=(0.0, 1.0), method="bounded", options={"xatol": _NEAR}
        )
    return max(concave(1.0), -float(found.fun))
