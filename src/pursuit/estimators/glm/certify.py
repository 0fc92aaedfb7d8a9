"""Certificates of generalised linear models: dual points that the full kernel improves.

The dual point of the best function in a span gives a gap of a'(K - VV')a/2α, which may be several
times P(f) - P_min where the span misses much. For up to a few thousand rows, some steps of Newton's
method over *all* functions come closer to the minimum, from both sides: each step gives a dual
point, hence a lower bound, and a function, hence an upper bound on the minimum itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pursuit._types import Floats
from pursuit.bounds import Certificate
from pursuit.estimators.glm.problem import GLMProblem, interior_in_span
from pursuit.estimators.span.features import DualPass, exact_certificate
from pursuit.greedy import CostMeter, kernel_matrix
from pursuit.kernels import CountingKernel
from pursuit.linalg import (
    CGSolution,
    LowRankPlusDiagonal,
    PivotedCholesky,
    TallMatrix,
    Workers,
    column_dots,
    conjugate_gradients,
    line_search,
)
from pursuit.objectives import RowLoss
from pursuit.rows import RowSource

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
    fitted: Floats,
    squared_norms: Floats,
    dual: Floats,
    rows: RowSource,
    kernel: CountingKernel,
    workers: Workers,
    meter: CostMeter | None = None,
) -> tuple[Certificate, DualPass]:
    """The certificate of a function against all functions, and the dual point of the span.

    Parameters
    ----------
    problem : GLMProblem
        What is minimised.
    fitted : array of shape (n_rows, n_outputs)
        f + b at the rows.
    squared_norms : array of shape (n_outputs,)
        ‖f‖².
    dual : array of shape (n_rows, n_outputs)
        Dual point of the best function in the span.
    rows : RowSource
        x.
    kernel : CountingKernel
        k.
    workers : Workers
        Threads.
    meter : CostMeter, optional
        Counts the passes over the kernel matrix.
    """
    plain, product = exact_certificate(
        problem, fitted, squared_norms, dual, rows, kernel, workers, meter
    )
    plain = replace(plain, rounding_per_output=problem.rounding(fitted))
    if rows.n_rows > IMPROVED_ROWS:
        return plain, product
    matrix = _FullKernel(rows, kernel, workers)
    if meter is not None:
        meter.passes += 1.0
    total = fitted + problem.offset[:, None]
    bounds = [
        _improved(
            problem.column(j),
            matrix,
            _Function(total[:, j], float(squared_norms[j])),
            (float(plain.lower_per_output[j]), float(plain.upper_per_output[j])),
            _NEGLIGIBLE * float(0.5 * plain.target_norms[j] - plain.lower_per_output[j])
            + _EPSILON * float(np.abs(dual[:, j]) @ np.abs(total[:, j])),
        )
        for j in range(problem.n_outputs)
    ]
    lower, least = np.array(bounds).T
    return replace(plain, lower_per_output=lower, minimum_upper_per_output=least), product


@dataclass(frozen=True)
class _Function:
    """Any function: its values at the rows, with intercept and offset, and its squared norm."""

    values: Floats
    squared_norm: float


class _FullKernel:
    """K of all rows, and systems in K, preconditioned by a pivoted Cholesky factor."""

    def __init__(self, rows: RowSource, kernel: CountingKernel, workers: Workers) -> None:
        self.K = kernel_matrix(kernel, rows.take(np.arange(rows.n_rows)), workers)
        self._workers = workers
        factor = PivotedCholesky(np.diag(self.K), _FACTOR_COLUMNS, workers)
        while factor.rank < _FACTOR_COLUMNS and factor.available.any():
            pivot = int(np.argmax(np.where(factor.available, factor.residual, -np.inf)))
            row = factor.scaled_row(pivot, self.K[pivot] - factor.rows[:, pivot] @ factor.rows)
            if row is not None:
                factor.append(pivot, row)
        self._L = np.ascontiguousarray(factor.rows.T)
        self._missed = np.maximum(factor.residual, 0.0)

    def lower_bound(self, problem: GLMProblem, dual: Floats) -> float:
        """The bound that a dual point gives once it is feasible."""
        a = problem.feasible(dual[:, None])
        return float(problem.lower_bound(a, column_dots(a, self.K @ a))[0])

    def best_in_span(self, problem: GLMProblem) -> tuple[_Function, Floats]:
        """The best function in the span of the pivots for a loss with kinks, and its dual point."""
        V = TallMatrix(self._L, len(self._L), self._workers)
        best = interior_in_span(problem, V, self._workers, np.float64)
        values = best.fitted[:, 0] + problem.offset
        return _Function(values, float(best.squared_norms[0])), best.dual[:, 0]

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


def _improved(
    problem: GLMProblem,
    matrix: _FullKernel,
    function: _Function,
    bounds: tuple[float, float],
    negligible: float,
) -> tuple[float, float]:
    """A lower and an upper bound on the minimum of a single column over all functions."""
    lower, value = bounds
    least = value
    loss, width = problem.losses[0], 0.0
    if loss.kinked and value - lower > negligible:
        function, dual = matrix.best_in_span(problem)
        least = min(least, _value(problem, function))
        lower = max(lower, matrix.lower_bound(problem, dual))
        steepest = np.maximum(*np.abs(loss.slopes(problem.targets[:, 0])))
        width = 2.0 * _SMOOTHING * (value - lower) / float(problem.weights @ steepest**2)
    for _ in range(_ROUNDS):
        if value - lower <= max(_TIGHT * (value - least), negligible):
            break
        smooth = _Smoothed(loss, width) if loss.kinked else loss
        # Extreme weights may make a step overflow: the bounds so far are as good without it.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            step = _step(problem, smooth, matrix, function)
        if step is None:
            break
        function, duals = step
        least = min(least, _value(problem, function))
        for dual in duals:
            lower = max(lower, matrix.lower_bound(problem, dual))
    # Rounding alone can bring one below the other.
    return lower, max(least, lower)


def _value(problem: GLMProblem, function: _Function) -> float:
    """P with the best intercept."""
    values = (function.values - problem.offset)[:, None]
    values = values + problem.intercepts(values)
    return float(problem.value(values, np.array([function.squared_norm]))[0])


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
    best = _Function(g + t * ahead, old + 2.0 * t * (mixed - old) + t * t * bend)
    duals = c, -w * loss.gradient(best.values, y)
    parts = (best.values, best.squared_norm, *duals)
    return (best, duals) if all(np.isfinite(part).all() for part in parts) else None
