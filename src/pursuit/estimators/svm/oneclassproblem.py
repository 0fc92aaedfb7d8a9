"""The convex problem of a one-class machine, and its solution in a span."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pursuit._types import Floats
from pursuit.estimators.span.features import SpanFeatures
from pursuit.estimators.svm.problem import MachineProblem
from pursuit.estimators.svm.solving import MachineSolution, without_rounding
from pursuit.linalg import TallMatrix, Workers
from pursuit.solvers import interior_point

_PRECISE_GAP, _ROUGH_GAP = 1e-11, 1e-4
_MAX_STEPS = 60
_TIE = 1e-12
_RIM = 1e-7
"""Support vectors with f = ρ are inside, also where rounding is against it: ρ is lowered by so much
of the largest f."""


@dataclass(frozen=True)
class OneClassProblem(MachineProblem):
    """Minimise ½‖f‖² + Σ_i s_i max(0, ρ - f(x_i)) - νρΣs over f and ρ.

    Its dual: maximise -½a'Ka over 0 ≤ a ≤ s with 1'a = νΣs. The costs are s, the targets ones, and
    the function's values are f itself, without the -ρ that others have as an intercept.
    """

    nu: float = 0.5

    @property
    def over(self) -> str:
        """What the minimum is taken over."""
        return "all functions of the kernel and all offsets"

    @property
    def mass(self) -> float:
        """νΣs."""
        return self.nu * float(self.costs.sum())

    def shifts(self, intercepts: Floats) -> Floats:
        """Nothing: the best ρ is found anew."""
        return np.zeros_like(intercepts)

    def offset(self, values: Floats) -> float:
        """The best ρ for the values of f: their ν-quantile."""
        order = np.argsort(values[:, 0], kind="stable")
        inside = np.cumsum(self.costs[order, 0])
        ends = np.searchsorted(inside, self.mass * np.array([1.0 - _TIE, 1.0 + _TIE]))
        return float(values[order[np.minimum(ends, len(order) - 1)], 0].mean())

    def value(self, fitted: Floats, squared_norms: Floats) -> Floats:
        """P of f with the best ρ."""
        rho = self.offset(fitted)
        losses = self.costs[:, 0] @ np.maximum(rho - fitted[:, 0], 0.0)
        return 0.5 * squared_norms + losses - self.mass * rho

    def feasible(self, a: Floats) -> Floats:
        """A dual point clipped to its box, then moved to 1'a = νΣs inside it."""
        a = np.clip(a, 0.0, self.costs)
        total = float(a.sum())
        if total > self.mass:
            return np.asarray(a * (self.mass / total))
        room = self.costs - a
        left = float(room.sum())
        return np.asarray(a + room * ((self.mass - total) / left)) if left > 0.0 else a

    def lower_bound(self, a: Floats, quadratic: Floats) -> Floats:
        """-½a'Ka, from a'Ka or an upper bound of it."""
        return -0.5 * quadratic


def one_class_in_span(
    problem: MachineProblem,
    features: SpanFeatures,
    workers: Workers,
    rng: np.random.Generator,
    start: Floats | None = None,
) -> MachineSolution:
    """The dual with VV' in place of K, by interior point."""
    assert isinstance(problem, OneClassProblem)
    m, s = features.n_rows, problem.costs[:, 0]
    V = TallMatrix(features.span_rows(np.arange(m)), m, workers)
    found = interior_point(
        V,
        0.0,
        np.zeros(m),
        0.0,
        s,
        equality=np.ones(m),
        equality_value=problem.mass,
        tol=_PRECISE_GAP if np.dtype(features.dtype) == np.float64 else _ROUGH_GAP,
        max_steps=_MAX_STEPS,
        workers=workers,
        dtype=features.dtype,
    )
    fitted = V.times(found.coordinates[:, None])
    return MachineSolution(
        found.coordinates[:, None],
        -problem.offset(fitted) + _RIM * np.abs(fitted).max(axis=0),
        fitted,
        without_rounding(found.a, s)[:, None],
        found.steps,
        # Rounding may end the method before the last of these digits.
        found.converged or abs(found.primal - found.dual) <= _ROUGH_GAP * found.primal,
    )
