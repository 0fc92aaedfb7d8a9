"""The sparse evidence as an objective: candidates are scored by what they add to its bound."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.gram import GramStatistics
from pursuit.linalg import EPS, Workers
from pursuit.objectives.quadratic import gram_pursuit
from pursuit.objectives.residual import GramResidual
from pursuit.objectives.span import SpanPursuit


class GramEvidence:
    """Minus the lower bound on the evidence (Formulas §11), up to constants, in Gram form.

    With A = R⁻¹K_S'WK_SR⁻ᵀ it is::

        P(f)/σ² + ½ log|I + A/σ²| + (tr K - tr A)/2σ²

    It combines the objective of SB01 (Smola and Bartlett 2001) and the residual trace of SS00
    (Smola and Schölkopf 2000): a candidate with pivots h of
    H = G + σ²K and d of K, residual column e and gradient g lowers it by::

        g²/(2σ²h) + ‖e‖²/(2σ²d) - ½ log(h/(dσ²))

    summed over outputs, the last two terms being the same for each. Parameters as in
    `gram_pursuit`.
    """

    def __init__(
        self,
        statistics: GramStatistics,
        kernel_matrix: Floats,
        noise: float,
        *,
        capacity: int,
        workers: Workers,
        rounding: float = EPS,
    ) -> None:
        options: dict[str, Any] = {
            "capacity": capacity,
            "workers": workers,
            "rounding": rounding,
        }
        self._residual = GramResidual(
            kernel_matrix.copy(), statistics.gram, statistics.trace, **options
        )
        self.posterior = gram_pursuit(statistics, kernel_matrix, noise, **options)
        self._noise, self._outputs = noise, statistics.cross.shape[1]
        self._log_det = 0.0

    @property
    def available(self) -> NDArray[np.bool_]:
        """Candidates neither chosen nor dependent on the chosen."""
        return self.posterior.available & self._residual.available

    @property
    def value(self) -> float:
        """Minus the bound, up to ½Σ log(2πσ²/w)."""
        missed = 0.5 * self._residual.value / self._noise
        return float(self.primal / self._noise + self._outputs * (0.5 * self._log_det + missed))

    @property
    def primal(self) -> float:
        """P(f) of the best f in the span."""
        return self.posterior.value

    @property
    def chosen(self) -> Indices:
        """Candidates in the order of choice."""
        return self.posterior.chosen

    def coefficients(self) -> Floats:
        """β on the chosen candidates."""
        return self.posterior.coefficients()

    def score(self, candidates: Indices) -> Floats:
        """What each candidate adds to the bound."""
        fit, missed = self.posterior.score(candidates), self._residual.score(candidates)
        gain = fit / self._noise + self._outputs * 0.5 * (
            missed / self._noise - self._log_growth(candidates)
        )
        return np.where(self.available[candidates], gain, 0.0)

    def add(self, candidate: int) -> bool:
        """Take a candidate unless it is dependent on the chosen."""
        growth = float(self._log_growth(np.array([candidate], dtype=np.intp))[0])
        if not self.available[candidate] or not self.posterior.add(candidate):
            return False
        self._residual.add(candidate)
        self._log_det += growth
        return True

    def _log_growth(self, candidates: Indices) -> Floats:
        """log(h/(dσ²)), by which each candidate would raise log|I + A/σ²|."""
        h = self.posterior.factor.residual[candidates]
        d = self._residual.factor.residual[candidates]
        ratio = np.divide(h, d * self._noise, out=np.ones_like(h), where=d > 0)
        # h = d(σ² + what the chosen leave of ‖v‖²), so that less than one is rounding.
        growth: Floats = np.log(np.maximum(ratio, 1.0))
        return growth


class SpanEvidence(SpanPursuit):
    """The same bound in V-form, straight from the rows: any row may be a candidate at any step."""

    @property
    def value(self) -> float:
        """Minus the bound, up to ½Σ log(2πσ²/w)."""
        weights, outputs = self._sample.weights, self._sample.n_outputs
        trace = float(weights @ self.factor.diagonal)
        return (self._norm + 0.5 * outputs * trace) / self._noise - self._decrease

    def _gains(self, step: Floats, den: Floats, square: Floats) -> Floats:
        """½(step² + ‖v‖²)/σ² - ½ log(den/σ²), summed over outputs."""
        outputs = step.shape[1]
        grown = square / self._noise - np.log(den / self._noise)
        fit = super()._gains(step, den, square) / self._noise
        return np.asarray(fit + 0.5 * outputs * grown)
