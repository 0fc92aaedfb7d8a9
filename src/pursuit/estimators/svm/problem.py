"""The convex problems of support vector machines, and their solutions in a span of functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from pursuit._types import Floats, Indices
from pursuit.bounds import balanced, scaled_machine_bound
from pursuit.estimators.scales import ScaleError
from pursuit.estimators.span.features import SpanFeatures, SpanFunction
from pursuit.linalg import Factor, TallMatrix, Workers
from pursuit.objectives import RowLoss, SquaredEpsilonInsensitive, SquaredHinge
from pursuit.rounding import UNIT, Rounded, dots, gamma
from pursuit.rows import draw_rows
from pursuit.solvers import (
    InteriorPointSolution,
    LinearLosses,
    LowRank,
    interior_point,
    newton,
    ridge_start,
)

_FIRST_PART = 8
"""Newton's method begins on one row in this many. A larger number makes the start cheaper and
worse."""
_FIRST_TOL, _TOL = 1e-4, 1e-10
"""Tolerance of that start, and of Newton's method."""
_PRECISE_GAP, _ONE_CLASS_GAP, _ROUGH_GAP = 1e-10, 1e-11, 1e-4
"""Relative gaps at which interior point stops: with float64 features, for one class, and with
float32 features. Predictions are those of the optimum from 1e-3 on."""
_MAX_STEPS = 60
"""Steps after which interior point gives up and the fit warns."""
_NEGLIGIBLE = 1e-7
"""A dual variable below this part of its bound, or of the largest one, is set to zero: a larger
number gives fewer support vectors and a slightly looser certificate."""
_TIE = 1e-12
"""Relative rounding within which the weights of two quantiles count as equal."""
_RIM = 1e-7
"""Share of the largest f by which ρ is lowered, so that support vectors with f = ρ count as inside
whatever the rounding."""


@dataclass(frozen=True)
class MachineProblem:
    """Minimise ½‖f‖² + Σ_i c_i ℓ(ξ_i) over f and an intercept b, separately for each column.

    The slack ξ is max(0, 1 - y(f + b)) for classes and max(0, |y - f - b| - ε) for numbers.

    Attributes
    ----------
    targets : array of shape (n_rows, n_outputs)
        y: ±1, or numbers.
    costs : array of shape (n_rows, n_outputs)
        c; a row of cost 0 is not part of a column's problem.
    squared : bool
        Whether ℓ(ξ) is ξ² or ξ.
    epsilon : float or None
        ε, None for classes.
    """

    targets: Floats
    costs: Floats
    squared: bool
    epsilon: float | None = None

    reference = "the full support vector machine with this kernel"
    trivial = 0.0
    remedy = (
        "the costs are beyond what float64 resolves for this kernel and these rows: lower C, or "
        "centre the features"
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
    def baseline(self) -> str:
        """The function of :meth:`zero_value`, in words."""
        return "f = 0" if self.epsilon is None else "predicting the mean"

    @property
    def row_loss(self) -> RowLoss:
        """ξ² as a function of f + b."""
        if self.epsilon is None:
            return SquaredHinge()
        return SquaredEpsilonInsensitive(self.epsilon)

    def take(self, rows: Indices) -> MachineProblem:
        """The problem on some of the rows."""
        return replace(self, targets=self.targets[rows], costs=self.costs[rows])

    def smooth(self) -> MachineProblem:
        """The problem with ξ² in place of ξ."""
        return replace(self, squared=True)

    def solve(
        self,
        features: SpanFeatures,
        workers: Workers,
        rng: np.random.Generator,
        start: Floats | None = None,
        tol: float = _TOL,
    ) -> SpanFunction:
        """The best function in the span: Newton's method for ξ², interior point for ξ.

        Newton's method begins at ``start``, coordinates and intercepts, where it is given, and ends
        by ``tol``.
        """
        if self.squared:
            return _newton_in_span(self, features, workers, rng, start, tol)
        return _interior_in_span(self, features, workers)

    def shifts(self, intercepts: Floats) -> Floats:
        """What has to be added to f before :meth:`value` is called: the intercepts."""
        return intercepts

    def signed_slack(self, fitted: Floats) -> Floats:
        """ξ with the sign of the direction in which f + b has to move."""
        if self.epsilon is None:
            return np.asarray(self.targets * np.maximum(1.0 - self.targets * fitted, 0.0))
        missing = self.targets - fitted
        return np.asarray(np.sign(missing) * np.maximum(np.abs(missing) - self.epsilon, 0.0))

    def slack(self, values: Any, shifts: Any = 0.0) -> Rounded:
        """ξ, from f at the rows and b."""
        if self.epsilon is None:
            excess = 1.0 - self.targets * (Rounded.of(values) + shifts)
        else:
            # Seen from b, targets far from 0 cost no digits.
            missing = (Rounded.of(self.targets) - shifts) - values
            excess = Rounded(np.abs(missing.value), missing.error) - self.epsilon
        # Where ξ is 0 whatever the rounding, nothing is left of it.
        error = np.minimum(excess.error, np.maximum(excess.high, 0.0))
        return Rounded(np.maximum(excess.value, 0.0), error)

    def value(self, values: Any, squared_norms: Any, shifts: Any = 0.0) -> Rounded:
        """P per column, from f at the rows, ‖f‖², and constants b that are added to f."""
        slack = self.slack(values, shifts)
        losses = dots(self.costs, slack * slack if self.squared else slack)
        return 0.5 * Rounded.of(squared_norms) + losses

    def zero_value(self) -> Floats:
        """P of f = 0, with b = 0 for classes and b = the mean target for numbers."""
        intercepts = np.zeros(self.n_outputs)
        if self.epsilon is not None:
            total = np.maximum(self.costs.sum(axis=0), np.finfo(float).tiny)
            intercepts = np.einsum("ij,ij->j", self.costs, self.targets) / total
        slack = np.abs(self.signed_slack(np.broadcast_to(intercepts, self.targets.shape)))
        return np.asarray((self.costs * (slack**2 if self.squared else slack)).sum(axis=0))

    def intercepts(self, values: Floats) -> Floats:
        """For ξ: the b of least loss given the values of f; the middle one if there are several."""
        assert not self.squared

        def losses(y: Floats, c: Floats) -> LinearLosses:
            if self.epsilon is None:
                return LinearLosses.hinge(y, c)
            return LinearLosses.tube(y, c, self.epsilon)

        columns = zip(self.targets.T, self.costs.T, values.T, strict=True)
        return np.array([losses(y, c).intercept(f) for y, c, f in columns])

    def dual_point(self, fitted: Floats) -> Floats:
        """For ξ²: a = -c ℓ'(f + b) = 2cξ with its sign, feasible for every f, up to 1'a = 0."""
        assert self.squared
        return np.asarray(2.0 * self.costs * self.signed_slack(fitted))

    def feasible(self, a: Floats) -> Floats:
        """A dual point made feasible: clipped to what the losses allow, and balanced."""
        most = np.where(self.costs > 0, np.inf, 0.0) if self.squared else self.costs
        lower, upper = -most, most
        if self.epsilon is None:
            ends = self.targets * most
            lower, upper = np.minimum(ends, 0.0), np.maximum(ends, 0.0)
        return balanced(np.clip(a, lower, upper))

    def lower_bound(self, a: Floats, quadratic: Rounded) -> Rounded:
        """The largest D(ta) over t for a feasible a, from a'Ka or an upper bound of it."""
        size = np.abs(a)
        if self.epsilon is None:
            linear = dots(self.targets, a)
        else:
            # A constant makes no difference where 1'a = 0, but would cost digits.
            targets = Rounded.of(self.targets) - self.targets.mean(axis=0)
            linear = dots(targets, a) - self.epsilon * Rounded.of(size).sum()
        if self.squared:
            costs = np.where(self.costs > 0, self.costs, 1.0)
            quadratic = quadratic + dots(a, Rounded.of(a) / (2.0 * costs))
            limit = np.full(self.n_outputs, np.inf)
        else:
            room = np.divide(self.costs, size, out=np.full(a.shape, np.inf), where=size > 0)
            limit = room.min(axis=0, initial=np.inf)
        return scaled_machine_bound(linear, quadratic, limit)


@dataclass(frozen=True)
class OneClassProblem(MachineProblem):
    """Minimise ½‖f‖² + Σ_i s_i max(0, ρ - f(x_i)) - νρΣs over f and ρ.

    Its dual: maximise -½a'Ka over 0 ≤ a ≤ s with 1'a = νΣs. The costs are s and the targets are
    ones. The function's values are f itself: -ρ is not added to them as an intercept.
    """

    nu: float = 0.5

    trivial = -np.inf
    remedy = "the kernel's values are known too roughly at these rows: centre the features"

    @property
    def over(self) -> str:
        """What the minimum is taken over, in words."""
        return "all functions of the kernel and all offsets"

    @property
    def mass(self) -> float:
        """νΣs."""
        return self.nu * float(self.costs.sum())

    def solve(
        self,
        features: SpanFeatures,
        workers: Workers,
        rng: np.random.Generator,
        start: Floats | None = None,
        tol: float = _TOL,
    ) -> SpanFunction:
        """The dual with VV' in place of K, by interior point."""
        m, s = features.n_rows, self.costs[:, 0]
        V = TallMatrix(features.span_rows(np.arange(m)), m, workers)
        solution = interior_point(
            V,
            0.0,
            np.zeros(m),
            0.0,
            s,
            equality=np.ones(m),
            equality_value=self.mass,
            **_options(features, workers, _ONE_CLASS_GAP),
        )
        fitted = V.times(solution.coordinates[:, None])
        return SpanFunction(
            solution.coordinates[:, None],
            -self.offset(fitted) + _RIM * np.abs(fitted).max(axis=0),
            fitted,
            _without_rounding(solution.a, s)[:, None],
            solution.steps,
            solution.close_enough,
        )

    def zero_value(self) -> Floats:
        """P of f = 0, with ρ = 0."""
        return np.zeros(1)

    def shifts(self, intercepts: Floats) -> Floats:
        """Nothing: :meth:`value` finds the best ρ itself."""
        return np.zeros_like(intercepts)

    def offset(self, values: Floats) -> float:
        """The best ρ for the values of f: their ν-quantile."""
        order = np.argsort(values[:, 0], kind="stable")
        inside = np.cumsum(self.costs[order, 0])
        ends = np.searchsorted(inside, self.mass * np.array([1.0 - _TIE, 1.0 + _TIE]))
        return float(values[order[np.minimum(ends, len(order) - 1)], 0].mean())

    def value(self, values: Any, squared_norms: Any, shifts: Any = 0.0) -> Rounded:
        """P of f with the best ρ; there are no constants beside it."""
        fitted = Rounded.of(values)
        rho = self.offset(fitted.value)
        below = rho - fitted
        error = np.minimum(below.error, np.maximum(below.high, 0.0))
        losses = dots(self.costs, Rounded(np.maximum(below.value, 0.0), error))
        return 0.5 * Rounded.of(squared_norms) + losses - rho * self._exact_mass

    def feasible(self, a: Floats) -> Floats:
        """A dual point of which some multiple, near 1, lies in the box and has 1'a = νΣs.

        Clipped to its box, moved to 1'a = νΣs, and moved towards νs by as little as keeps rounding
        from leading out of the box again; νs itself where that is not possible.
        """
        s = self.costs
        a = np.clip(a, 0.0, s)
        total = float(a.sum())
        if total > self.mass:
            a = a * (self.mass / total)
        else:
            room = s - a
            left = float(room.sum())
            if left > 0.0:
                a = a + room * min((self.mass - total) / left, 1.0)
        back = 16.0 * gamma(len(a) + 8) / max(1.0 - self.nu, UNIT)
        if back < 0.5:
            moved = (1.0 - back) * a + back * (self.nu * s)
            if np.all(self._multiple(moved).high * moved * (1.0 + 4.0 * UNIT) <= s):
                return np.asarray(moved)
        return s

    def lower_bound(self, a: Floats, quadratic: Rounded) -> Rounded:
        """-½a'Ka for the multiple of a that has 1'a = νΣs, from a'Ka or an upper bound of it."""
        multiple = self._multiple(a)
        return -(0.5 * (multiple * multiple) * quadratic)

    def _multiple(self, a: Floats) -> Rounded:
        """νΣs / Σa; ν itself for a = s."""
        if np.array_equal(a, self.costs):
            return Rounded.of(np.array([self.nu]))
        return self._exact_mass / Rounded.of(a).sum()

    @property
    def _exact_mass(self) -> Rounded:
        """νΣs, with its error."""
        return self.nu * Rounded.of(self.costs).sum()


def _newton_in_span(
    problem: MachineProblem,
    features: SpanFeatures,
    workers: Workers,
    rng: np.random.Generator,
    start: Floats | None,
    tol: float,
) -> SpanFunction:
    """The solution for ξ²."""
    n, m = features.n, features.n_rows
    ridge = np.append(np.ones(n), 0.0)
    unknown = start is None or len(start) != n + 1
    if start is None or unknown:
        start = np.zeros((n + 1, problem.n_outputs))
    size = max(m // _FIRST_PART, 8 * n)
    if unknown and features.stored is not None and 0 < size <= m // 2:
        # A good start saves the full passes that find out which rows matter at all.
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
    solution = newton(
        features,
        problem.row_loss,
        problem.targets,
        problem.costs,
        start=start,
        ridge=ridge,
        workers=workers,
        tol=tol,
    )
    return SpanFunction(
        solution.coefficients[:n],
        solution.coefficients[n],
        solution.fitted,
        problem.dual_point(solution.fitted),
        solution.steps,
        solution.converged,
    )


def _interior_in_span(
    problem: MachineProblem, features: SpanFeatures, workers: Workers
) -> SpanFunction:
    """The solution for ξ, column by column: min ½a'VV'a - y'a + ε‖a‖₁ over 1'a = 0.

    For classes a lies between 0 and yc, and there is no ε; for numbers a lies between -c and c.

    The intercept is the best one for f, not the multiplier of 1'a = 0. Where all support vectors
    are at their bounds there are many multipliers, and a barrier method ends at any of them.
    """
    coordinates = np.zeros((features.n, problem.n_outputs))
    dual, steps, converged = np.zeros_like(problem.targets), 0, True
    options = _options(features, workers, _PRECISE_GAP)
    for column in range(problem.n_outputs):
        rows = np.flatnonzero(problem.costs[:, column] > 0)
        if not len(rows):
            raise ScaleError("C times sample_weight is 0 in float64: bring both nearer to 1.")
        V = features.span_rows(rows)
        y, c = problem.targets[rows, column], problem.costs[rows, column]
        if problem.epsilon is None:
            # One class cannot pull harder than the other: no a of 1'a = 0 is lost.
            most = min(float(c[y > 0].sum()), float(c[y < 0].sum()))
            ends = y * np.minimum(c, most)
            bounds = np.minimum(0.0, ends), np.maximum(0.0, ends)
            begin = ridge_start(V, y, *bounds, workers=workers)
            ones = np.ones(len(rows))
            solution = interior_point(V, 0.0, -y, *bounds, equality=ones, start=begin, **options)
        else:
            solution = solve_tube(V, y, c, problem.epsilon, **options)
        dual[rows, column] = _without_rounding(solution.a, c)
        if dual[:, column].any():
            coordinates[:, column] = solution.coordinates
        steps = max(steps, solution.steps)
        converged = converged and solution.close_enough
    blocks = Workers.slices(features.n_rows, 512)
    values = np.concatenate(workers.map(lambda r: features.span_only(r) @ coordinates, blocks))
    intercepts = problem.intercepts(values)
    return SpanFunction(coordinates, intercepts, values + intercepts, dual, steps, converged)


def _options(features: SpanFeatures, workers: Workers, precise_gap: float) -> dict[str, Any]:
    """Arguments of interior point that depend on the type of the features."""
    precise = np.dtype(features.dtype) == np.float64
    return {
        "tol": precise_gap if precise else _ROUGH_GAP,
        "max_steps": _MAX_STEPS,
        "workers": workers,
        "dtype": features.dtype,
    }


def _without_rounding(a: Floats, bounds: Floats) -> Floats:
    """The dual variables, with those set to zero that only the barrier keeps away from it."""
    size = np.abs(a)
    return np.where(size > _NEGLIGIBLE * np.minimum(bounds, size.max(initial=0.0)), a, 0.0)


class Mirrored:
    """[V; -V] of V, whose products cost no more than those of V."""

    def __init__(self, V: Factor) -> None:
        self._V = V

    @property
    def n_rows(self) -> int:
        """2m."""
        return 2 * self._V.n_rows

    @property
    def n_columns(self) -> int:
        """n."""
        return self._V.n_columns

    def gram(self, weights: Floats, dtype: DTypeLike = np.float64) -> Floats:
        """V' diag(w + w*) V for weights [w; w*]."""
        m = self._V.n_rows
        return self._V.gram(weights[:m] + weights[m:], dtype)

    def times(self, coordinates: Floats) -> Floats:
        """[Vu; -Vu]."""
        product = self._V.times(coordinates)
        return np.concatenate([product, -product])

    def transposed_times(self, vectors: Floats) -> Floats:
        """V'(x - x*) for vectors [x; x*]."""
        m = self._V.n_rows
        return self._V.transposed_times(vectors[:m] - vectors[m:])


def solve_tube(
    V: LowRank,
    targets: Floats,
    costs: Floats,
    epsilon: float,
    *,
    tol: float,
    max_steps: int,
    workers: Workers,
    dtype: DTypeLike,
) -> InteriorPointSolution:
    """Minimise ½a'VV'a - y'a + ε‖a‖₁ over |a| ≤ c with 1'a = 0.

    It is solved as a = α - α* with both between 0 and c, and ε(α + α*) in place of ε|a|: two dual
    variables per row, on features that are stored once. The ``a`` of the solution is the
    difference, and its multiplier is the intercept.
    """
    m, mean = len(targets), float(np.mean(targets))
    # A constant makes no difference where 1'a = 0, but would cost digits.
    targets = targets - mean
    factor = TallMatrix(V, m, workers) if isinstance(V, np.ndarray) or callable(V) else V
    solution = interior_point(
        Mirrored(factor),
        0.0,
        np.concatenate([epsilon - targets, epsilon + targets]),
        0.0,
        np.concatenate([costs, costs]),
        equality=np.repeat([1.0, -1.0], m),
        tol=tol,
        max_steps=max_steps,
        workers=workers,
        dtype=dtype,
    )
    a = solution.a[:m] - solution.a[m:]
    if solution.converged and targets @ a <= epsilon * np.abs(a).sum():
        # Worse than 0 for any K: all rows are in the tube, and a is only what the barrier left.
        a = np.zeros(m)
    return replace(solution, a=a, multipliers=solution.multipliers + mean)
