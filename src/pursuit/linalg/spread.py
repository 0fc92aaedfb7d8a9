"""The variance of predictions in a span, split into what the basis misses and what it fits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pursuit._types import Floats
from pursuit.linalg.span import SpanSolution

_GUARD = 16


@dataclass(frozen=True)
class Spread:
    """Variance of f(x) = noise·‖L⁻¹V_x‖² + missed·(k(x,x) - ‖V_x‖²), and of an observation.

    With noise = σ² and missed = 1 this is the predictive variance of the sparse process (Formulas
    §11). Calibration sets both from the data. Where the basis says nothing about x, the whole of
    k(x,x) is missed, and the prior's variance is given back however small ``missed`` is: the factor
    rises from ``missed`` to 1 with a high power of the share that is missed.
    """

    noise: float
    missed: float = 1.0

    def factor(self, missed: Floats, prior: Floats) -> Floats:
        """What the missed variance is multiplied by."""
        if self.missed >= 1.0:
            return np.full_like(missed, self.missed)
        return self.missed + (1.0 - self.missed) * _guard(missed, prior)

    def slope(self, missed: Floats, prior: Floats) -> Floats:
        """Derivative of :meth:`factor` in the logarithm of ``missed``; at 1, that from above."""
        if self.missed >= 1.0:
            return np.full_like(missed, self.missed)
        return self.missed * (1.0 - _guard(missed, prior))

    def variance(self, solution: SpanSolution, kernel_rows: Floats, prior: Floats) -> Floats:
        """Variance of f at each row, never negative."""
        V = solution.features(kernel_rows)
        missed = np.maximum(prior - np.einsum("ij,ij->j", V, V), 0.0)
        U = solution.rotated(V)
        variance: Floats = self.factor(missed, prior) * missed
        variance += self.noise * np.einsum("ij,ij->j", U, U)
        return variance

    def covariance(self, solution: SpanSolution, kernel_rows: Floats, block: Floats) -> Floats:
        """Joint covariance of f at the rows, whose diagonal is :meth:`variance`."""
        V = solution.features(kernel_rows)
        U = solution.rotated(V)
        residual = block - V.T @ V
        prior = np.diag(block)
        missed = np.maximum(np.diag(residual), 0.0)
        residual[np.diag_indices_from(residual)] = missed
        root = np.sqrt(self.factor(missed, prior))
        covariance: Floats = root[:, None] * residual * root + self.noise * (U.T @ U)
        return 0.5 * (covariance + covariance.T)


def _guard(missed: Floats, prior: Floats) -> Floats:
    """How far the prior is given back: near 1 only where all of it is missed."""
    share: Floats = missed / np.where(prior > 0, prior, 1.0)
    return share**_GUARD
