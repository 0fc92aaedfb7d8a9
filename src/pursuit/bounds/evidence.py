"""Bounds on the log evidence of a Gaussian process from the statistics of a basis (SPEC 6c)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

Floats = NDArray[np.float64]


class EvidenceBounds(NamedTuple):
    """lower ≤ log N(y; 0, K + σ²W⁻¹) ≤ upper, summed over outputs."""

    lower: float
    upper: float
    n_values: int
    """Number of target values, the scale on which a width is small or large."""

    @property
    def loose(self) -> bool:
        """Whether the bounds are more than a tenth of a nat a target value apart."""
        return self.upper - self.lower > 0.1 * self.n_values

    def __str__(self) -> str:
        width = (self.upper - self.lower) / max(self.n_values, 1)
        verdict = (
            f"loose, {width:.2g} a target value: the basis misses more of the kernel's trace than "
            "the noise covers; use more basis functions"
            if self.loose
            else f"tight, {width:.2g} a target value"
        )
        return f"log evidence between {self.lower:.6g} and {self.upper:.6g} ({verdict})"


def evidence_bounds(
    gram: Floats,
    cross: Floats,
    target_norms: Floats,
    trace: float,
    noise: float,
    n_rows: int,
    sum_log_weights: float,
) -> EvidenceBounds:
    """Titsias' bound below, the shifted form above.

    With A = V'WV = UΛU', c = V'Wy and τ = tr W(K - VV')::

        lower = log N(y; 0, VV' + σ²W⁻¹) - τ/2σ²
        upper = -½ log|VV' + σ²W⁻¹| - ½ y'(VV' + (σ² + τ)W⁻¹)⁻¹y - ½ m log 2π

    both for each output, and summed. K + σ²W⁻¹ lies between VV' + σ²W⁻¹ and VV' + (σ² + τ)W⁻¹.
    """
    eigenvalues, U = eigh(0.5 * (gram + gram.T))
    eigenvalues = np.maximum(eigenvalues, 0.0)
    squares = ((U.T @ cross) ** 2).sum(axis=1)
    outputs = len(target_norms)
    norm = float(target_norms.sum())
    missed = max(trace - float(eigenvalues.sum()), 0.0)

    def quadratic(ridge: float) -> float:
        return (norm - float((squares / (eigenvalues + ridge)).sum())) / ridge

    log_determinant = (
        n_rows * np.log(noise) - sum_log_weights + float(np.log1p(eigenvalues / noise).sum())
    )
    constant = -0.5 * outputs * (log_determinant + n_rows * np.log(2 * np.pi))
    return EvidenceBounds(
        float(constant - 0.5 * quadratic(noise) - 0.5 * outputs * missed / noise),
        float(constant - 0.5 * quadratic(noise + missed)),
        outputs * n_rows,
    )
