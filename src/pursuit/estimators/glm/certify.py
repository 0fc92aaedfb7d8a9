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
from pursuit.estimators.glm.problem import GLMProblem
from pursuit.estimators.span.features import DualPass, SpanFeatures, exact_certificate
from pursuit.gram import kernel_diagonal, kernel_product
from pursuit.greedy import CostMeter, kernel_matrix
from pursuit.kernels import CountingKernel
from pursuit.linalg import (
    CGSolution,
    LowRankPlusDiagonal,
    TallMatrix,
    Workers,
    column_dots,
    conjugate_gradients,
    line_search,
)
from pursuit.objectives import RowLoss
from pursuit.rows import RowSource

IMPROVED_ROWS = 4096
"""With more rows than this, the dual point is that of the span: products with K cost too much."""
_STORED_ROWS = 2048
"""K of at most this many rows is kept, 32 MB; otherwise each product computes it again."""
_ROUNDS, _INNER_STEPS, _INNER_TOL = 8, 12, 1e-3
"""Newton steps, and conjugate gradients in each. More of them give tighter certificates."""
_TIGHT = 1.25
"""The gap is improved until it is proved to be at most this multiple of P(f) - P_min."""
_NEGLIGIBLE = 1e-9
"""A gap below this share of P(best constant) - P(f) is not improved."""
_NARROWER = 0.3
"""Factor by which kinks are smoothed less in each round."""
_LINE_TOLERANCE = 1e-3


def glm_certificate(
    problem: GLMProblem,
    fitted: Floats,
    squared_norms: Floats,
    dual: Floats,
    features: SpanFeatures,
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
    features : SpanFeatures
        The span, which preconditions systems in K.
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
    if rows.n_rows > IMPROVED_ROWS:
        return plain, product
    matrix = _FullKernel(rows, kernel, features, workers, meter)
    bounds = [
        _improved(
            problem.column(j),
            matrix,
            fitted[:, j],
            float(squared_norms[j]),
            (float(plain.lower_per_output[j]), float(plain.upper_per_output[j])),
            _NEGLIGIBLE * float(0.5 * plain.target_norms[j] - plain.lower_per_output[j]),
        )
        for j in range(problem.n_outputs)
    ]
    lower, least = np.array(bounds).T
    return replace(plain, lower_per_output=lower, minimum_upper_per_output=least), product


class _FullKernel:
    """Products with K, and systems in K that the span preconditions."""

    def __init__(
        self,
        rows: RowSource,
        kernel: CountingKernel,
        features: SpanFeatures,
        workers: Workers,
        meter: CostMeter | None,
    ) -> None:
        self._rows, self._kernel, self._workers, self._meter = rows, kernel, workers, meter
        self._features = features
        self._missed: Floats | None = None
        self._stored: Floats | None = None

    def times(self, vectors: Floats) -> Floats:
        """K @ vectors."""
        if self._stored is not None:
            return np.asarray(self._stored @ vectors)
        if self._meter is not None:
            self._meter.passes += 1.0
        m = self._rows.n_rows
        if m <= _STORED_ROWS:
            items = self._rows.take(np.arange(m))
            self._stored = kernel_matrix(self._kernel, items, self._workers)
            return np.asarray(self._stored @ vectors)
        return kernel_product(self._rows, self._kernel, vectors, self._workers)

    def solve(self, diagonal: Floats, rhs: Floats) -> Floats:
        """(K + diag δ)⁻¹ rhs on the rows where δ is finite, roughly; 0 on others."""
        free = np.flatnonzero(np.isfinite(diagonal))
        delta = diagonal[free, None]
        V = self._features.span_rows(free)
        inverse = LowRankPlusDiagonal(
            TallMatrix(V, len(free), self._workers),
            diagonal[free] + self._missed_diagonal()[free],
            self._workers,
        )

        def product(vectors: Floats) -> Floats:
            whole = np.zeros((self._rows.n_rows, vectors.shape[1]))
            whole[free] = vectors
            return np.asarray(self.times(whole)[free] + delta * vectors)

        right = rhs[free]
        start = CGSolution(np.zeros_like(right), right, 0)
        found = conjugate_gradients(
            product, right, start, inverse.solve, steps=_INNER_STEPS, tol=_INNER_TOL
        )
        result = np.zeros_like(rhs)
        result[free] = found.v
        return result

    def _missed_diagonal(self) -> Floats:
        """The diagonal of K - VV'."""
        if self._missed is None:
            prior = kernel_diagonal(self._rows, self._kernel)
            self._missed = np.maximum(prior - self._features.squares(self._workers), 0.0)
        return self._missed


@dataclass(frozen=True)
class _Function:
    """Any function: its values at the rows, with intercept and offset, and its squared norm."""

    values: Floats
    squared_norm: float


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
    fitted: Floats,
    squared_norm: float,
    bounds: tuple[float, float],
    negligible: float,
) -> tuple[float, float]:
    """A lower and an upper bound on the minimum of a single column over all functions."""
    lower, value = bounds
    least = value
    loss = problem.losses[0]
    width = 0.0
    if loss.kinked:
        steepest = np.maximum(*np.abs(loss.slopes(problem.targets[:, 0])))
        width = 2.0 * (value - lower) / float(problem.weights @ steepest**2)
    function = _Function(fitted + problem.offset, squared_norm)
    for _ in range(_ROUNDS):
        if value - lower <= max(_TIGHT * (value - least), negligible):
            break
        smooth = _Smoothed(loss, width) if loss.kinked else loss
        function = _step(problem, smooth, matrix, function)
        slopes = smooth.gradient(function.values, problem.targets[:, 0])
        a = problem.feasible((-problem.weights * slopes)[:, None])
        least = min(least, _value(problem, function))
        lower = max(lower, float(problem.lower_bound(a, column_dots(a, matrix.times(a)))[0]))
        width *= _NARROWER
    return lower, least


def _value(problem: GLMProblem, function: _Function) -> float:
    """P with the best intercept."""
    values = (function.values - problem.offset)[:, None]
    values = values + problem.intercepts(values)
    return float(problem.value(values, np.array([function.squared_norm]))[0])


def _step(
    problem: GLMProblem, loss: RowLoss, matrix: _FullKernel, function: _Function
) -> _Function:
    """A step of Newton's method over all functions.

    Where c = a - D(f⁺ + b⁺ - f - b) with D = wℓ'' and a = -wℓ', Newton's function is f⁺ = Kc/α: on
    rows with curvature, (K + αD⁻¹)c = α(D⁻¹a + f + b - b⁺), elsewhere c = a. The best function
    between f and f⁺ is taken.
    """
    y, w, alpha = problem.targets[:, 0], problem.weights, float(problem.alphas[0])
    g = function.values
    a = -w * loss.gradient(g, y)
    bends = w * loss.curvature(g, y)
    curved = bends > 0
    fixed = np.where(curved, 0.0, a)
    shift = matrix.times(fixed[:, None])[:, 0] / alpha if fixed.any() else 0.0
    inverse = np.divide(1.0, bends, out=np.full_like(a, np.inf), where=curved)
    aim = np.where(curved, inverse * a + g - problem.offset - shift, 0.0)
    solved = alpha * matrix.solve(
        alpha * inverse, np.column_stack([aim, np.where(curved, 1.0, 0.0)])
    )
    total, unit = solved.sum(axis=0)
    intercept = (total + fixed.sum()) / unit if unit > 0 else 0.0
    c = fixed + solved[:, 0] - intercept * solved[:, 1]
    product = matrix.times(c[:, None])[:, 0] / alpha
    ahead = product + intercept + problem.offset - g
    # ‖f + t(f⁺ - f)‖² from the inner products of f and f⁺.
    old, mixed, new = (
        function.squared_norm,
        float(c @ (g - problem.offset)) / alpha,
        float(c @ product) / alpha,
    )
    bend = old - 2.0 * mixed + new

    def slope(t: float) -> tuple[float, float]:
        moved = g + t * ahead
        with np.errstate(over="ignore", invalid="ignore"):
            first = float((w * ahead) @ loss.gradient(moved, y))
            second = float((w * ahead**2) @ loss.curvature(moved, y))
        return first + alpha * (mixed - old + t * bend), second + alpha * bend

    t = line_search(slope, 1.0, guess=1.0, tolerance=_LINE_TOLERANCE)
    return _Function(g + t * ahead, old + 2.0 * t * (mixed - old) + t * t * bend)
