"""Bounds on the log evidence of a Gaussian process, from sums over rows (Formulas §11)."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from pursuit._types import Floats


class EvidenceBounds(tuple[float, float]):
    """The pair (lower, upper) around log N(y; 0, K + σ²W⁻¹), summed over outputs."""

    n_values: int

    def __new__(cls, lower: float, upper: float, n_values: int) -> EvidenceBounds:
        """A pair of bounds; their width is judged per target value."""
        pair = super().__new__(cls, (lower, upper))
        pair.n_values = n_values
        return pair

    def __getnewargs__(self) -> tuple[float, float, int]:
        return self.lower, self.upper, self.n_values

    @property
    def lower(self) -> float:
        """Titsias' bound."""
        return self[0]

    @property
    def upper(self) -> float:
        """The shifted bound."""
        return self[1]

    @property
    def loose(self) -> bool:
        """Whether the bounds are more than 0.1 nat per target value apart."""
        return self.upper - self.lower > 0.1 * self.n_values

    def __str__(self) -> str:
        width = (self.upper - self.lower) / max(self.n_values, 1)
        verdict = (
            f"loose, {width:.2g} per target value: the basis misses more of the kernel's trace "
            "than the noise covers; use more basis functions"
            if self.loose
            else f"tight, {width:.2g} per target value"
        )
        return f"log evidence between {self.lower:.6g} and {self.upper:.6g} ({verdict})"


def evidence_bounds(
    L: Floats,
    z: Floats,
    target_norms: Floats,
    trace: float,
    noise: float,
    n_rows: int,
    sum_log_weights: float,
    rounding: float = 0.0,
) -> EvidenceBounds:
    """Titsias' bound below, the shifted form above.

    With LL' = V'WV + σ²I, z = L⁻¹V'Wy and τ = tr W(K - VV')::

        lower = log N(y; 0, VV' + σ²W⁻¹) - τ/2σ²
        upper = -½ log|VV' + σ²W⁻¹| - ½ y'(VV' + (σ² + τ)W⁻¹)⁻¹y - ½ m log 2π

    both for each output, and summed: K + σ²W⁻¹ lies between VV' + σ²W⁻¹ and VV' + (σ² + τ)W⁻¹.

    Parameters
    ----------
    L, z : arrays of shape (n, n) and (n, n_outputs)
        The solution in the span.
    target_norms : array of shape (n_outputs,)
        y'Wy.
    trace : float
        tr WK.
    noise : float
        σ².
    n_rows : int
        m.
    sum_log_weights : float
        Σ log w.
    rounding : float
        The share of σ² by which V'WV may be wrong in any direction; the bounds allow for it.

    Returns
    -------
    bounds : EvidenceBounds
    """
    n, outputs = z.shape
    norm = float(target_norms.sum())
    missed = max(trace - (float((L**2).sum()) - n * noise), 0.0) + n * rounding * noise
    shifted = L @ L.T
    shifted[np.diag_indices(n)] += missed
    z_shifted = solve_triangular(cholesky(shifted, lower=True), L @ z, lower=True)
    log_determinant = (
        (n_rows - n) * np.log(noise) - sum_log_weights + 2 * float(np.log(np.diag(L)).sum())
    )
    constant = -0.5 * outputs * (log_determinant + n_rows * np.log(2 * np.pi))
    fitted, fitted_shifted = float((z**2).sum()), float((z_shifted**2).sum())
    unexplained = (1 + rounding) * (norm - fitted)
    doubt = 0.5 * outputs * n * rounding
    lower = float(constant - doubt - 0.5 * (unexplained + outputs * missed) / noise)
    upper = float(constant + doubt - 0.5 * (norm - fitted_shifted) / (noise + missed))
    return EvidenceBounds(min(lower, upper), upper, outputs * n_rows)
