"""Steps in the plane of the present function and one kernel function (Z03 Algorithms 1, 3).

Z03 is Zhang 2002b.

With P(f) = ½Σw(y - f)² + ½σ²‖f‖² and f on the rows p, a step to βf + αk(·, x_i) meets

    a₁₁ = p'Wp + σ²‖f‖²     a₁₂ = k_i'Wp + σ²p_i     a₂₂ = k_i'Wk_i + σ²K_ii
    b₁ = p'Wy               b₂ = k_i'Wy

and is best at α = t/s, β = (b₁ - a₁₂α)/a₁₁ with s = a₂₂ - a₁₂²/a₁₁, t = b₂ - a₁₂b₁/a₁₁, where the
objective is P(0) - ½b₁²/a₁₁ - ½t²/s (Formulas §5, times m).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.gram import ColumnProducts, InnerProducts
from pursuit.linalg import StepwiseSolution
from pursuit.objectives.base import FactorObjective
from pursuit.objectives.span import SpanPursuit

_PARALLEL = 1e-12
"""A candidate is parallel to f if at most this part of it lies outside the direction of f."""


@dataclass(frozen=True)
class PlaneStep:
    """The best step for each candidate (rows) and output (columns)."""

    alpha: Floats
    beta: Floats
    gain: Floats
    """½t²/s: the decrease of the objective."""
    before: Floats
    """½b₁²/a₁₁: the decrease by the present function at its best scale."""


def plane_step(
    inner: InnerProducts, diagonal: Floats, squared_norms: Floats, noise: float
) -> PlaneStep:
    """Minimise P over (α, β) for every candidate, in closed form."""
    a11 = inner.fitted_squares + noise * squared_norms
    a12 = inner.cross + noise * inner.fitted
    a22 = (inner.squares + noise * diagonal)[:, None]
    inverse = np.divide(1.0, a11, out=np.zeros_like(a11), where=a11 > 0)
    start = inner.fitted_targets * inverse
    s = a22 - a12**2 * inverse
    t = inner.targets - a12 * start
    alpha = np.divide(t, s, out=np.zeros_like(t), where=s > _PARALLEL * a22)
    return PlaneStep(
        alpha,
        start - a12 * inverse * alpha,
        0.5 * alpha * t,
        0.5 * inner.fitted_targets * start,
    )


class PlanePursuit:
    """P along f_k = β_k f_{k-1} + α_k k(·, x_i), where a row may be taken again (one output).

    Parameters
    ----------
    products : ColumnProducts
        Inner products of the candidates' columns.
    diagonal : array of shape (m,)
        K_ii.
    target_norm : float
        y'Wy.
    noise : float
        σ².
    allowed : array of int, optional
        The rows that may be taken; all by default.
    """

    def __init__(
        self,
        products: ColumnProducts,
        diagonal: Floats,
        target_norm: float,
        noise: float,
        allowed: Indices | None = None,
    ) -> None:
        self._products, self._diagonal, self._noise = products, diagonal, noise
        self._norm, self._decrease = 0.5 * target_norm, 0.0
        self._free = diagonal > 0
        if allowed is not None:
            self._free &= np.isin(np.arange(len(diagonal)), allowed)
        self._last: int | None = None
        self._term: dict[int, int] = {}
        self._steps: list[tuple[int, float, float, float, float]] = []
        self._squared_norm = 0.0
        self._scored: tuple[Indices, InnerProducts, PlaneStep] | None = None

    @property
    def available(self) -> NDArray[np.bool_]:
        """All rows allowed, except the one taken last, whose next step would be 0."""
        available = self._free.copy()
        if self._last is not None:
            available[self._last] = False
        return available

    @property
    def value(self) -> float:
        """P(f)."""
        return self._norm - self._decrease

    @property
    def primal(self) -> float:
        """P(f)."""
        return self.value

    @property
    def chosen(self) -> Indices:
        """Rows in the order in which they were first taken."""
        return np.array(list(self._term), dtype=np.intp)

    def score(self, candidates: Indices) -> Floats:
        """Decrease of P for each candidate row."""
        inner = self._products.products(candidates)
        norms = np.array([self._squared_norm])
        step = plane_step(inner, self._diagonal[candidates], norms, self._noise)
        self._scored = candidates, inner, step
        return step.gain[:, 0]

    def add(self, candidate: int) -> bool:
        """Step to a candidate."""
        if self._scored is None or candidate not in self._scored[0]:
            self.score(np.array([candidate], dtype=np.intp))
        assert self._scored is not None
        candidates, inner, step = self._scored
        at = np.flatnonzero(candidates == candidate)[0], 0
        alpha, beta = float(step.alpha[at]), float(step.beta[at])
        self._squared_norm = (
            beta**2 * self._squared_norm
            + 2 * alpha * beta * float(inner.fitted[at])
            + alpha**2 * float(self._diagonal[candidate])
        )
        self._decrease = float(step.before[0] + step.gain[at])
        self._last = candidate
        term = self._term.setdefault(candidate, len(self._term))
        self._steps.append((term, alpha, beta, self._squared_norm, self._decrease))
        self._products.advance(candidate, alpha, beta)
        self._scored = None
        return True

    def coefficients(self) -> Floats:
        """Coefficients on the chosen rows."""
        return self.solution().coefficients()

    def solution(self) -> StepwiseSolution:
        """The function, and the steps that led to it."""
        table = np.array(self._steps, dtype=np.float64).reshape(len(self._steps), 5)
        return StepwiseSolution(table[:, 0].astype(np.intp), *table[:, 1:].T.copy())


class RefittedPlanePursuit(FactorObjective):
    """The same choice, but after each step f is the minimiser of P in the span of the chosen rows.

    The score is the decrease of P by the step in the plane; the refit lowers P at least as much.

    Parameters
    ----------
    products : ColumnProducts
        Inner products of the candidates' columns.
    span : SpanPursuit
        The fit in the span, nothing chosen yet.
    noise : float
        σ².
    """

    def __init__(self, products: ColumnProducts, span: SpanPursuit, noise: float) -> None:
        self._products, self.span, self._noise = products, span, noise
        self.factor = span.factor
        self._squared_norms: Floats | None = None

    @property
    def value(self) -> float:
        """P(f) of the best f in the span."""
        return self.span.value

    @property
    def primal(self) -> float:
        """P(f) of the best f in the span."""
        return self.span.primal

    def score(self, candidates: Indices) -> Floats:
        """½t²/s of each candidate row, summed over outputs."""
        inner = self._products.products(candidates)
        norms = self._squared_norms
        if norms is None:
            norms = np.zeros_like(inner.fitted_squares)
        diagonal = self.span.factor.diagonal[candidates]
        gains: Floats = plane_step(inner, diagonal, norms, self._noise).gain.sum(axis=1)
        return gains

    def add(self, candidate: int) -> bool:
        """Take a candidate and refit, unless it is dependent on those chosen."""
        if not self.span.add(candidate):
            return False
        u = self.span.solution().coordinates()
        self._squared_norms = np.einsum("io,io->o", u, u)
        self._products.replace(self.span.factor.rows.T @ u)
        return True

    def coefficients(self) -> Floats:
        """β on the chosen rows."""
        return self.span.coefficients()
