"""Certificates of generalised linear models: dual points that the full kernel improves.

The dual point of the best function in a span gives a gap of a'(K - VV')a/2α, which may be several
times P(f) - P_min where the span misses much. For up to a few thousand rows, some steps of Newton's
method over *all* functions come closer to the minimum, from both sides: each step gives a dual
point, hence a lower bound, and a function, hence an upper bound on the minimum itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular

from pursuit._types import Floats
from pursuit.bounds import Certificate
from pursuit.estimators.glm.problem import GLMProblem, interior_in_span
from pursuit.estimators.span.features import (
    EXACT_PASS,
    DualPass,
    StoredFunction,
    exact_lower_bound,
    proved,
)
from pursuit.gram.arithmetic import RowArithmetic
from pursuit.greedy import CostMeter, kernel_matrix
from pursuit.linalg import (
    CGSolution,
    LowRankPlusDiagonal,
    PivotedCholesky,
    TallMatrix,
    conjugate_gradients,
    line_search,
)
from pursuit.objectives import RowLoss
from pursuit.rounding import Rounded, dots, highest, joined, weight

IMPROVED_ROWS = 3000
"""With more rows than this, the dual point is that of the span. K of so many rows takes 72 MB."""
_ROUNDS, _INNER_STEPS, _INNER_TOL = 20, 60, 1e-6
"""Most Newton steps, most conjugate gradients in each, and the residual at which these end. More of
them give tighter certificates."""
_FACTOR_COLUMNS = 512
"""Columns of the preconditioner. More of them take longer, and save conjugate gradients."""
_DAMPING = 1e-12
"""Least diagonal of the preconditioner, as a share of the largest k(x, x)."""
_TIGHT = 1.25
"""The gap is improved until it is proved to be at most this multiple of P(f) - P_min."""
_NEGLIGIBLE = 1e-9
"""A gap below this share of P(best constant) - P(f) is not improved."""
_SMOOTHING = 0.3
"""Kinks are smoothed as far as this share of the gap allows. Less smoothing takes more steps and
can give a tighter certificate."""
_LINE_TOLERANCE = 1e-3
_LEAST_BEND = 1e-200
"""Rows with less curvature, in units of the largest, count as straight: its inverse overflows."""
_EPSILON = float(np.finfo(np.float64).eps)


def glm_certificate(
    problem: GLMProblem,
    function: StoredFunction,
    dual: Floats,
    meter: CostMeter | None = None,
) -> tuple[Certificate, DualPass]:
    """The certificate of a function against all functions, and the dual point of the span.

    Parameters
    ----------
    problem : GLMProblem
        What is minimised.
    function : StoredFunction
        f + b at the rows, and ‖f‖².
    dual : array of shape (n_rows, n_outputs)
        Dual point of the best function in the span.
    meter : CostMeter, optional
        Counts the passes over the kernel matrix.
    """
    problem, function = seen_from_intercepts(problem, function)
    known = function.arithmetic
    lower, product = exact_lower_bound(problem, known, dual, meter)
    plain = proved(problem, function, lower, EXACT_PASS)
    if known.rows.n_rows > IMPROVED_ROWS:
        return plain, product
    matrix = _FullKernel(known)
    if meter is not None:
        meter.passes += 1.0
    fitted = function.fitted
    upper = problem.value(fitted, function.squared_norms)
    found = []
    for j in range(problem.n_outputs):
        search = _Search(
            problem.column(j), matrix, function.values[:, j], function.squared_norms[j]
        )
        total = fitted.value[:, j] + problem.offset
        negligible = (
            _NEGLIGIBLE * float(0.5 * plain.target_norms[j] - plain.lower_per_output[j])
            + _EPSILON * float(np.abs(dual[:, j]) @ np.abs(total))
            + 2.0 * float(upper.error[j] + lower.error[j])
        )
        found.append(search.improved(total, lower[j], upper[j], negligible))
    lowers, leasts = (joined(bounds) for bounds in zip(*found, strict=True))
    return proved(problem, function, lowers, EXACT_PASS, leasts), product


def seen_from_intercepts(
    problem: GLMProblem, function: StoredFunction
) -> tuple[GLMProblem, StoredFunction]:
    """The same problem with y - b for y, and with 0 for b, where that is exact.

    Losses of y - f - b do not change, and neither does the minimum over all intercepts. Targets far
    from zero would cost digits: those of y'a as well as those of f + b.
    """
    targets, shifts = problem.targets.copy(), np.array(function.shifts, dtype=np.float64)
    for j, loss in enumerate(problem.losses):
        moved = targets[:, j] - shifts[j]
        if loss.of_difference and _exact_difference(targets[:, j], shifts[j], moved):
            targets[:, j], shifts[j] = moved, 0.0
    return replace(problem, targets=targets), replace(function, shifts=shifts)


def _exact_difference(a: Floats, b: float, difference: Floats) -> bool:
    """Whether all a - b are without rounding: Knuth's error of a sum is zero."""
    with np.errstate(invalid="ignore", over="ignore"):
        part = difference - a
        return bool(np.all((a - (difference - part)) - (b + part) == 0.0))


@dataclass(frozen=True)
class _Function:
    """A function τf + Kc of the model's f: its values at the rows, and its squared norm.

    Attributes
    ----------
    values : array of shape (n_rows,)
        With intercept and offset, as computed.
    squared_norm : float
        As computed.
    share : float
        τ.
    coefficients : array of shape (n_rows,)
        c.
    """

    values: Floats
    squared_norm: float
    share: float
    coefficients: Floats


class _FullKernel:
    """K of all rows, and systems in K, preconditioned by a pivoted Cholesky factor."""

    def __init__(self, known: RowArithmetic) -> None:
        rows, self._workers = known.rows, known.workers
        self.K = kernel_matrix(known.kernel, rows.take(np.arange(rows.n_rows)), known.workers)
        self._sizes, self._error = known.sizes, known.error
        factor = PivotedCholesky(np.diag(self.K), _FACTOR_COLUMNS, self._workers)
        while factor.rank < _FACTOR_COLUMNS and factor.available.any():
            pivot = int(np.argmax(np.where(factor.available, factor.residual, -np.inf)))
            row = factor.scaled_row(pivot, self.K[pivot] - factor.rows[:, pivot] @ factor.rows)
            if row is not None:
                factor.append(pivot, row)
        self._L = np.ascontiguousarray(factor.rows.T)
        self._pivots = np.asarray(factor.chosen)
        self._missed = np.maximum(factor.residual, 0.0)

    def times(self, vector: Floats) -> Rounded:
        """K @ vector."""
        reach = weight(self._sizes, vector)
        return self._error.product(self.K @ vector, self._sizes, reach, len(self.K))

    def lower_bound(self, problem: GLMProblem, dual: Floats) -> Rounded:
        """The bound that a dual point gives once it is feasible."""
        a = problem.feasible(dual[:, None])
        return problem.lower_bound(a, dots(a, self.times(a)))[0]

    def best_in_span(self, problem: GLMProblem) -> tuple[_Function, Floats]:
        """The best function in the span of the pivots for a loss with kinks, and its dual point."""
        V = TallMatrix(self._L, len(self._L), self._workers)
        best = interior_in_span(problem, V, self._workers, np.float64)
        values, u = best.fitted[:, 0] + problem.offset, best.coordinates[:, 0]
        coefficients = np.zeros(len(values))
        if len(u):
            triangle = np.tril(self._L[self._pivots])
            coefficients[self._pivots] = solve_triangular(triangle, u, lower=True, trans="T")
        norm = float(best.squared_norms[0])
        return _Function(values, norm, 0.0, coefficients), best.dual[:, 0]

    def solve(self, diagonal: Floats, rhs: Floats) -> Floats:
        """(K + diag δ)⁻¹ rhs on the rows where δ is finite, roughly; 0 on others."""
        free = np.flatnonzero(np.isfinite(diagonal))
        delta = diagonal[free, None]
        # A preconditioner may be rough, but has to be definite.
        damped = np.maximum(diagonal + self._missed, _DAMPING * float(np.diag(self.K).max()))
        inverse = LowRankPlusDiagonal(self._L[free], damped[free], self._workers)

        def product(vectors: Floats) -> Floats:
            whole = np.zeros((len(self.K), vectors.shape[1]))
            whole[free] = vectors
            return np.asarray((self.K @ whole)[free] + delta * vectors)

        right = rhs[free]
        start = CGSolution(np.zeros_like(right), right, 0)
        found = conjugate_gradients(
            product, right, start, inverse.solve, steps=_INNER_STEPS, tol=_INNER_TOL
        )
        result = np.zeros_like(rhs)
        result[free] = found.v
        return result


@dataclass(frozen=True)
class _Smoothed(RowLoss):
    """A loss with a kink at y, from which slopes change linearly over ``width`` times themselves.

    Its conjugate is ½ width s² larger, its domain is the same: its dual points are feasible.
    """

    loss: RowLoss
    width: float

    @property
    def most_curved(self) -> float:  # type: ignore[override]
        """1 / width."""
        return 1.0 / self.width

    def value(self, f: Floats, y: Floats) -> Floats:
        """max over slopes s of s(f - y) - ½ width s²."""
        s = self.gradient(f, y)
        return np.asarray(s * (f - y) - 0.5 * self.width * s * s)

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """(f - y) / width, between the slopes of the loss."""
        return np.clip((f - y) / self.width, *self.loss.slopes(y))

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """1 / width, or 0 where the loss is linear."""
        least, most = self.loss.slopes(y)
        slope = (f - y) / self.width
        return np.where((least < slope) & (slope < most), 1.0 / self.width, 0.0)


@dataclass(frozen=True)
class _Search:
    """Looks for better bounds on the minimum of a single column over all functions.

    Attributes
    ----------
    problem : GLMProblem
        With one column.
    matrix : _FullKernel
        K.
    values : Rounded of shape (n_rows,)
        f of the model at the rows.
    squared_norm : Rounded
        ‖f‖² of the model.
    """

    problem: GLMProblem
    matrix: _FullKernel
    values: Rounded
    squared_norm: Rounded

    def improved(
        self, total: Floats, lower: Rounded, upper: Rounded, negligible: float
    ) -> tuple[Rounded, Rounded]:
        """A lower and an upper bound on the minimum, from those of the model.

        ``total`` holds the model's values with intercept and offset.
        """
        problem, matrix = self.problem, self.matrix
        function = _Function(total, float(self.squared_norm.value), 1.0, np.zeros_like(total))
        value = least = float(upper.value)
        best: _Function | None = None
        loss, width = problem.losses[0], 0.0
        if loss.kinked and value - float(lower.low) > negligible:
            function, dual = matrix.best_in_span(problem)
            lower = highest([lower, matrix.lower_bound(problem, dual)])
            now = _value(problem, function)
            if now < least:
                best, least = function, now
            steepest = np.maximum(*np.abs(loss.slopes(problem.targets[:, 0])))
            width = 2.0 * _SMOOTHING * (value - float(lower.low))
            width /= float(problem.weights @ steepest**2)
        for _ in range(_ROUNDS):
            if value - float(lower.low) <= max(_TIGHT * (value - least), negligible):
                break
            smooth = _Smoothed(loss, width) if loss.kinked else loss
            # Extreme weights may make a step overflow: the bounds so far are as good without it.
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                step = _step(problem, smooth, matrix, function)
            if step is None:
                break
            function, duals = step
            now = _value(problem, function)
            if now < least:
                best, least = function, now
            lower = highest([lower, *(matrix.lower_bound(problem, dual) for dual in duals)])
        if best is None:
            return lower, upper
        found = self.evaluated(best)
        return lower, found if found.high < upper.high else upper

    def evaluated(self, function: _Function) -> Rounded:
        """P of a function, from its coefficients, with the best intercept."""
        problem, share, c = self.problem, function.share, function.coefficients
        product = self.matrix.times(c)
        f = share * self.values + product
        norm = share * (share * self.squared_norm) + 2.0 * (share * dots(c, self.values))
        norm = norm + dots(c, product)
        b = float(problem.intercepts(np.asarray(f.value)[:, None])[0])
        fitted = f + b
        return problem.value(
            Rounded(fitted.value[:, None], fitted.error[:, None]),
            Rounded(norm.value[None], norm.error[None]),
        )[0]


def _value(problem: GLMProblem, function: _Function) -> float:
    """P with the best intercept, as computed."""
    values = (function.values - problem.offset)[:, None]
    values = values + problem.intercepts(values)
    return float(problem.value(values, np.array([function.squared_norm])).value[0])


def _step(
    problem: GLMProblem, loss: RowLoss, matrix: _FullKernel, function: _Function
) -> tuple[_Function, tuple[Floats, Floats]] | None:
    """A step of Newton's method over all functions; None if no row has curvature, or it overflows.

    Where c = a - D(f⁺ + b⁺ - f - b) with D = wℓ'' and a = -wℓ', Newton's function is f⁺ = Kc/α: on
    rows with curvature, (K + αD⁻¹)c = α(D⁻¹a + f + b - b⁺), elsewhere c = a. The best function
    between f and f⁺ is returned, and two dual points: c, and -wℓ' of that function.
    """
    y, w, alpha = problem.targets[:, 0], problem.weights, float(problem.alphas[0])
    g = function.values
    a = -w * loss.gradient(g, y)
    bends = w * loss.curvature(g, y)
    curved = bends > _LEAST_BEND * float(bends.max())
    if not curved.any():
        return None
    fixed = np.where(curved, 0.0, a)
    shift = matrix.K @ fixed / alpha
    inverse = np.divide(1.0, bends, out=np.full_like(a, np.inf), where=curved)
    aim = np.where(curved, a * np.where(curved, inverse, 0.0) + g - problem.offset - shift, 0.0)
    solved = alpha * matrix.solve(
        alpha * inverse, np.column_stack([aim, np.where(curved, 1.0, 0.0)])
    )
    total, unit = solved.sum(axis=0)
    intercept = (total + fixed.sum()) / unit
    c = fixed + solved[:, 0] - intercept * solved[:, 1]
    product = matrix.K @ c / alpha
    ahead = product + intercept + problem.offset - g
    # ‖f + t(f⁺ - f)‖² from the inner products of f and f⁺; 1'c = 0, so b makes no difference.
    old, mixed, new = (
        function.squared_norm,
        float(c @ (g - problem.offset)) / alpha,
        float(c @ product) / alpha,
    )
    bend = old - 2.0 * mixed + new

    def slope(t: float) -> tuple[float, float]:
        moved = g + t * ahead
        first = float((w * ahead) @ loss.gradient(moved, y))
        second = float((w * ahead**2) @ loss.curvature(moved, y))
        return first + alpha * (mixed - old + t * bend), second + alpha * bend

    t = line_search(slope, 1.0, guess=1.0, tolerance=_LINE_TOLERANCE)
    best = _Function(
        g + t * ahead,
        old + 2.0 * t * (mixed - old) + t * t * bend,
        (1.0 - t) * function.share,
        (1.0 - t) * function.coefficients + (t / alpha) * c,
    )
    duals = c, -w * loss.gradient(best.values, y)
    parts = (best.values, best.squared_norm, *duals)
    return (best, duals) if all(np.isfinite(part).all() for part in parts) else None
