"""Laplace's approximation: the mode, its posterior, and how a fit finds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.estimators.classes import largest_class
from pursuit.estimators.gp.stages import (
    held_out,
)
from pursuit.estimators.span.features import Span, SpanFeatures
from pursuit.greedy import Problem, SpanFit
from pursuit.linalg import EPS, SpanSolution, Workers, invert_lower
from pursuit.objectives import LogisticRows, RowLoss
from pursuit.rows import draw_rows
from pursuit.solvers import newton
from pursuit.tuning import Confidence, HeldOut, Latents, fit_confidence

Features = Callable[[slice], NDArray[Any]]

_ROWS = 1024
_WAVE = 16
_STEP = np.log(4.0)
_SCALES = np.log(1e-3), np.log(1e6)
_NOTHING = 1e-3
"""Evidence a row below which a larger or smaller scale is not worth a further step."""
_ROUGHLY = 1e-7
_LOGISTIC = LogisticRows()
_ROUNDINGS = 8.0
"""The rounding of V'DV is taken to be n times this many units of its largest diagonal entry."""


@dataclass(frozen=True)
class LaplaceFit:
    """Posterior of f_c = Vb_c, b_c ~ N(0, sI), for a loss ℓ (Rasmussen & Williams, 3.4).

    The mode minimises Σwℓ(f, y) + ½‖b‖²/s; with D = diag(wℓ'') there, the covariance of b is
    (V'DV + I/s)⁻¹ = (LL')⁻¹. V = K_S R⁻ᵀ are the coordinates of the span of S, so that b are those
    of the prior s·k projected on it (Formulas §1). The loss of a classifier is log(1 + exp(-yf))
    for y = ±1.

    Attributes
    ----------
    scale : float
        s.
    mode : array of shape (n, n_columns)
        b.
    factors : array of shape (n_columns, n, n)
        L of every column.
    log_evidence : array of shape (n_columns,)
        -Σwℓ(f, y) - ½‖b‖²/s - ½ log|I + sV'DV|.
    converged : bool
        Whether Newton's method found the mode.
    """

    scale: float
    mode: Floats
    factors: Floats
    log_evidence: Floats
    converged: bool

    def latents(self, features: Floats, prior: Floats) -> Latents:
        """Posterior at rows with these V_x, one per column, and k(x, x)."""
        missed = np.maximum(prior - np.einsum("ij,ij->j", features, features), 0.0)[:, None]
        variance = np.stack([_squares(L, features) for L in self.factors], axis=1)
        return Latents(features.T @ self.mode, variance, self.scale * missed, self.scale * prior)

    def left_out(self, rows: HeldOut) -> Latents:
        """At rows of a classifier's fit, each without the row and all that are identical to it.

        A basis point leaves the basis, too: without its function f has the mean f' = U'L'b and the
        variance v = ‖U‖², for the U of :meth:`~pursuit.tuning.HeldOut.rotated`. With g =
        Σw(½(y + 1) - p) and h = Σw p(1 - p) over the group, at f as it is, the posterior without
        the group has the mean f' - v (g + h(f - f'))/(1 - v h) and the variance v/(1 - v h), as far
        as the other rows' curvatures stay what they are.
        """
        f = rows.features.T @ self.mode
        loss = LogisticRows()
        slopes = -rows.weights[:, None] * loss.gradient(f, rows.targets)
        bends = rows.weights[:, None] * loss.curvature(f, rows.targets)
        g, h = (_group_sums(each, rows.group) for each in (slopes, bends))
        mean, variance = np.empty((2, *f.shape))
        for column, (L, b) in enumerate(zip(self.factors, self.mode.T, strict=True)):
            U = rows.rotated(L)
            mean[:, column] = U.T @ (L.T @ b)
            variance[:, column] = np.einsum("ij,ij->j", U, U)
        left = np.maximum(1.0 - variance * h, 1e-10)
        return Latents(
            mean - variance * (g + h * (f - mean)) / left,
            variance / left,
            self.scale * rows.missed()[:, None],
            self.scale * rows.prior,
        )

    def truncated(self, n: int) -> LaplaceFit:
        """The posterior given that all but the first n coordinates are 0.

        Of N(b, (LL')⁻¹) the leading block L_n of L is the factor that is left, and L_n⁻ᵀ(L'b)_n the
        mean: the first step of Newton's method in the smaller span, from the mode in the larger
        one. The evidence of the smaller span is not known.
        """
        mode = np.empty((n, self.mode.shape[1]))
        for column, (L, b) in enumerate(zip(self.factors, self.mode.T, strict=True)):
            mode[:, column] = solve_triangular(L[:n, :n], (L.T @ b)[:n], lower=True, trans="T")
        return LaplaceFit(
            self.scale,
            mode,
            self.factors[:, :n, :n].copy(),
            np.full_like(self.log_evidence, np.nan),
            self.converged,
        )


def fit_laplace(
    features: Features,
    n: int,
    targets: Floats,
    weights: Floats,
    scale: float,
    workers: Workers,
    *,
    loss: RowLoss = _LOGISTIC,
    offset: Floats | None = None,
    start: Floats | None = None,
    tol: float = 1e-14,
) -> LaplaceFit:
    """Find the mode by Newton's method, and the curvature there; every column by itself.

    ``offset`` is added to f at the rows.
    """
    found = newton(
        features,
        loss,
        targets,
        weights,
        start=np.zeros((n, targets.shape[1])) if start is None else start,
        ridge=np.full(n, 1.0 / scale),
        workers=workers,
        offset=offset,
        tol=tol,
    )
    bends = weights[:, None] * loss.curvature(found.fitted, targets)
    factors = np.empty((targets.shape[1], n, n))
    for column, bend in enumerate(bends.T):
        curved = _weighted_gram(features, n, bend, workers)
        # A ridge below the rounding of V'DV would not make it definite.
        ridge = max(1.0 / scale, _ROUNDINGS * n * EPS * float(np.diag(curved).max(initial=0.0)))
        factors[column] = SpanSolution.from_whitened(curved, curved, np.zeros((n, 0)), ridge).L
    logs = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1) + 0.5 * n * np.log(scale)
    return LaplaceFit(scale, found.coefficients, factors, -found.value - logs, found.converged)


def learn_scale(
    features: Features,
    n: int,
    targets: Floats,
    weights: Floats,
    start: float,
    workers: Workers,
    loss: RowLoss = _LOGISTIC,
    offset: Floats | None = None,
) -> LaplaceFit:
    """The scale with most evidence: steps of a factor 4 uphill, then the top of a parabola.

    Every fit begins at the mode of the one before, and none is exact but to 1e-7.
    """

    def fit(log_scale: float, before: LaplaceFit | None) -> LaplaceFit:
        return fit_laplace(
            features,
            n,
            targets,
            weights,
            float(np.exp(log_scale)),
            workers,
            loss=loss,
            offset=offset,
            start=None if before is None else before.mode,
            tol=_ROUGHLY,
        )

    worth = _NOTHING * float(weights.sum()) * targets.shape[1]
    origin = float(np.clip(np.log(start), *_SCALES))
    tried = {0: fit(origin, None)}  # by the number of steps: sums of logarithms would be rounded

    def within(steps: int) -> bool:
        return bool(_SCALES[0] <= origin + steps * _STEP <= _SCALES[1])

    def top() -> int:
        return max(tried, key=lambda steps: _evidence(tried[steps]))

    for step in (1, -1):
        best = top()
        while within(best + step) and best + step not in tried:
            ahead = best + step
            tried[ahead] = fit(origin + ahead * _STEP, tried[best])
            if _evidence(tried[ahead]) < _evidence(tried[best]) + worth:
                break
            best = ahead
    best = top()
    found = tried[best]
    for side in (best - 1, best + 1):
        # A step that was hardly worth it may have gone past the top.
        if side not in tried and within(side):
            tried[side] = fit(origin + side * _STEP, found)
    if {best - 1, best, best + 1} <= tried.keys() and best == top():
        low, middle, high = (_evidence(tried[steps]) for steps in (best - 1, best, best + 1))
        bend = low - 2.0 * middle + high
        if bend < 0.0:
            at = origin + (best + 0.5 * (low - high) / bend) * _STEP
            found = max(found, fit(at, found), key=_evidence)
    return found


def _evidence(fit: LaplaceFit) -> float:
    return float(fit.log_evidence.sum())


def _squares(L: Floats, features: Floats) -> Floats:
    """‖L⁻¹V_x‖² for every row."""
    if len(L) == 0:
        return np.zeros(features.shape[1])
    U = solve_triangular(L, features, lower=True, check_finite=False)
    return np.asarray(np.einsum("ij,ij->j", U, U))


def _group_sums(values: Floats, group: Indices) -> Floats:
    """Sums over each row's group, by columns."""
    sums = np.zeros((int(group.max()) + 1, values.shape[1]))
    np.add.at(sums, group, values)
    return np.asarray(sums[group])


def _weighted_gram(features: Features, n: int, weights: Floats, workers: Workers) -> Floats:
    """V'DV, added up in the order of the rows; those without weight are not touched."""

    def part(rows: slice) -> Floats:
        here = np.flatnonzero(weights[rows])
        V = features(rows)[here].astype(np.float64, copy=False)
        product: Floats = V.T @ (weights[rows][here, None] * V)
        return product

    total = np.zeros((n, n))
    blocks = Workers.slices(len(weights), _ROWS)
    for at in range(0, len(blocks), _WAVE):
        for product in workers.map(part, blocks[at : at + _WAVE]):
            total += product
    return total


_FIRST_VARIANCE = 30.0


def scale_by_evidence(
    problem: Problem, span: Span, reserved: Indices
) -> tuple[float, Floats | None]:
    """The scale of the kernel that maximises Laplace's evidence on some rows, and the mode there.

    Those are the reserved rows, if there are any: on rows that have chosen and moved the basis the
    evidence rises with the scale for much too long.
    """
    sample = problem.sample
    rows = (
        reserved if len(reserved) else draw_rows(sample.n_rows, limits.EVIDENCE_ROWS, problem.rng)
    )
    some = sample.take(rows)
    prior = problem.kernel.diag(some.rows.take(np.arange(some.n_rows)))
    level = float(np.average(prior, weights=some.weights))
    first = _FIRST_VARIANCE / level if level > 0 else 1.0
    features = SpanFeatures(some.rows, problem.kernel, span, problem.workers)
    found = learn_scale(
        features.span_only, len(span), some.targets, some.weights, first, problem.workers
    )
    return found.scale, found.mode


def solve_in_latents(
    problem: Problem, span: Span, scale: float, start: Floats | None
) -> LaplaceFit:
    """Laplace's approximation on all rows."""
    sample = problem.sample
    features = SpanFeatures(sample.rows, problem.kernel, span, problem.workers)
    return fit_laplace(
        features.span_only,
        len(span),
        sample.targets,
        sample.weights,
        scale,
        problem.workers,
        start=start,
    )


def calibrate_latents(
    problem: Problem, fitted: SpanFit, laplace: LaplaceFit, reserved: Indices, factor: float
) -> Confidence:
    """Calibrate the probabilities on rows left out, on reserved ones if there are any.

    ``factor`` is that of :func:`~pursuit.tuning.fit_confidence`.
    """
    chosen = reserved if len(reserved) else np.arange(problem.sample.n_rows)
    rows = held_out(problem, fitted.pool, fitted.solution, chosen)
    latents = laplace.left_out(rows)
    return fit_confidence(
        latents,
        largest_class(rows.targets),
        rows.weights,
        seen=float(latents.share.max()),
        missed_too=len(reserved) > 0,
        factor=factor,
    )


def whitened(fitted: SpanFit) -> Span:
    """The span of a fitted basis."""
    R = fitted.solution.R
    return Span(fitted.pool, invert_lower(R))
