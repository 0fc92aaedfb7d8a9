"""The convex problem of a generalised linear model, and its solution in a span of functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.optimize import brentq, minimize_scalar

from pursuit._types import Floats, Indices
from pursuit.bounds import balanced
from pursuit.estimators.span.features import SpanFeatures, SpanFunction
from pursuit.linalg import Factor, TallMatrix, Workers
from pursuit.objectives import RowLoss
from pursuit.rounding import UNIT, Rounded, dots, highest, joined
from pursuit.solvers import LinearLosses, interior_point, newton

_NEWTON_TOL = 1e-14
"""Newton's method ends where another step promises less than this share of the objective, since
the dual point -wℓ' is right to the root of that share only."""
_PRECISE_GAP, _ROUGH_GAP = 1e-11, 1e-4
"""Relative gaps at which interior point stops, with float64 and with float32 features."""
_MAX_STEPS = 80
"""Steps after which interior point gives up and the fit warns."""
_ENDLESS = 1e200
_MARGIN = 16.0 * UNIT
"""Share of the ends of a domain that dual points keep away from it, so that rounding of a/w does
not lead out of it."""
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
    # Losses may be negative, and the bound of a = 0 is as good as any that is known of them.
    trivial = -np.inf
    remedy = (
        "alpha is below what float64 resolves for this kernel and these rows: raise alpha, centre "
        "the features, or subtract a constant from the targets"
    )

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

    def value(self, values: Any, squared_norms: Any, shifts: Any = 0.0) -> Rounded:
        """P per column, from f at the rows, ‖f‖², and constants b that are added to f."""
        total = Rounded.of(values) + shifts + self.offset[:, None]
        losses = [
            dots(self.weights, loss.evaluated(total[:, j], self.targets[:, j]))
            for j, loss in enumerate(self.losses)
        ]
        return joined(losses) + 0.5 * (self.alphas * Rounded.of(squared_norms))

    def constants(self) -> Floats:
        """The best intercept of each column without any function."""
        return self.intercepts(np.zeros_like(self.targets))

    def intercepts(self, values: Floats) -> Floats:
        """The b of least loss for each column, given the values of f at the rows."""
        columns = zip(self.losses, values.T, self.targets.T, strict=True)
        return np.array([loss.constant(y, self.weights, self.offset + f) for loss, f, y in columns])

    def zero_value(self) -> Floats:
        """P of the best constant."""
        columns = zip(self.losses, self.constants(), self.targets.T, strict=True)
        return np.array([self.weights @ loss.value(self.offset + b, y) for loss, b, y in columns])

    def dual_point(self, fitted: Floats) -> Floats:
        """The dual point -wℓ'(f + b + o) of smooth losses, feasible up to 1'a = 0."""
        total = fitted + self.offset[:, None]
        columns = zip(self.losses, total.T, self.targets.T, strict=True)
        slopes = np.column_stack([loss.gradient(f, y) for loss, f, y in columns])
        return np.asarray(-self.weights[:, None] * slopes)

    def feasible(self, a: Floats) -> Floats:
        """A dual point clipped into the domain of the conjugates, and moved to 1'a = 0 in it.

        It stays a few units in the last place away from the ends of the domain.
        """
        columns = []
        for column in range(self.n_outputs):
            lower, upper = self.bounds(column)
            with np.errstate(invalid="ignore"):
                lower, upper = lower + _MARGIN * np.abs(lower), upper - _MARGIN * np.abs(upper)
            lower, upper = np.nan_to_num(lower, nan=-np.inf), np.nan_to_num(upper, nan=np.inf)
            inside = np.clip(a[:, column], lower, upper)
            if lower.max() > 0.0 or upper.min() < 0.0:
                inside = _shifted(inside, lower, upper, self.weights)
            columns.append(balanced(inside[:, None], lower[:, None], upper[:, None]))
        return np.hstack(columns)

    def lower_bound(self, a: Floats, quadratic: Rounded) -> Rounded:
        """The largest D(ta) over 0 ≤ t ≤ 1 for a feasible a, from a'Ka or an upper bound of it.

        D(ta) is concave in t, and every t gives a true bound. At a minimum in a span the best t is
        at most 1.
        """
        found = []
        for j, column in enumerate(a.T):
            most = float(quadratic.high[j])
            best = _largest(partial(self._rough_value, j, column, most))
            bound = self._dual_value(j, column, quadratic[j], best)
            if not np.isfinite(bound.error):
                bound = highest([bound, self._dual_value(j, column, quadratic[j], 0.0)])
            found.append(bound)
        return joined(found)

    def _rough_value(self, column: int, a: Floats, quadratic: float, t: float) -> float:
        """D(ta), as computed; -∞ outside its domain."""
        loss, y = self.losses[column], self.targets[:, column]
        with np.errstate(all="ignore"):
            slopes = self._slopes(column, a, t)
            if slopes is None:
                return -np.inf
            terms = self.weights * loss.conjugate(slopes, y) + t * self.offset * a
            curved = t**2 * max(quadratic, 0.0) / (2.0 * float(self.alphas[column]))
            value = -float(terms.sum()) - curved
        return value if np.isfinite(value) else -np.inf

    def _dual_value(self, column: int, a: Floats, quadratic: Rounded, t: float) -> Rounded:
        """D(ta), with its error; nothing is known outside its domain."""
        loss, y = self.losses[column], self.targets[:, column]
        slopes = self._slopes(column, a, t)
        if slopes is None:
            return Rounded(np.array(0.0), np.array(np.inf))
        terms = dots(self.weights, loss.conjugate_evaluated(slopes, y))
        given = t * dots(self.offset, a)
        curved = t * (t * quadratic) / (2.0 * float(self.alphas[column]))
        # At t = 0 nothing of a matters, even where it overflows.
        return -terms if t == 0.0 else -terms - given - curved

    def _slopes(self, column: int, a: Floats, t: float) -> Floats | None:
        """-ta/w; None where one of them may lie outside the domain of its conjugate."""
        least, most = self.losses[column].slopes(self.targets[:, column])
        slopes = -t * a / self.weights if t else np.zeros_like(a)
        away = 0.5 * _MARGIN * np.abs(slopes)
        inside = (slopes - away >= least) & (slopes + away <= most)
        return np.asarray(slopes) if inside.all() else None

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
    """Where a concave function on [0, 1] that may be -∞ far from 1 is largest."""
    with np.errstate(invalid="ignore"):
        found = minimize_scalar(
            lambda t: -concave(t), bounds=(0.0, 1.0), method="bounded", options={"xatol": _NEAR}
        )
    return 1.0 if concave(1.0) >= -float(found.fun) else float(found.x)
