"""Convex losses ℓ(y - v) of a row's residual: values, slopes, and what slopes prove.

For weights ω, atoms p and ‖w‖₁ ≤ r, every vector μ bounds the least mean loss from below:

    Σ_i ω_i ℓ(y_i - Σ_j w_j p_j(x_i)) ≥ Σ_i (μ_i y_i - ω_i ℓ*(μ_i/ω_i)) - r max_j |Σ_i μ_i p_j(x_i)|

by Fenchel's inequality, ℓ* being the conjugate of ℓ. At μ = ωℓ'(y - v) of a differentiable loss the
right-hand side is f(v) less the Frank-Wolfe gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pursuit._types import Floats


class ResidualLoss(Protocol):
    """ℓ, least at 0, where it is 0."""

    def value(self, residual: Floats) -> Floats:
        """ℓ(u), one number per row."""
        ...

    def slope(self, residual: Floats) -> Floats:
        """A slope of ℓ at u, the one nearest to 0 where there are several."""
        ...

    def conjugate(self, slope: Floats) -> Floats:
        """ℓ*(s) = max_u su - ℓ(u), for slopes s that ℓ has."""
        ...


@dataclass(frozen=True)
class SquaredResidual:
    """u²."""

    def value(self, residual: Floats) -> Floats:
        """u²."""
        return np.square(residual)

    def slope(self, residual: Floats) -> Floats:
        """2u."""
        return 2.0 * residual

    def conjugate(self, slope: Floats) -> Floats:
        """s²/4."""
        return 0.25 * np.square(slope)


@dataclass(frozen=True)
class HuberResidual:
    """½u² for |u| ≤ δ, and δ|u| - ½δ² beyond."""

    delta: float

    def value(self, residual: Floats) -> Floats:
        """ℓ(u)."""
        size = np.abs(residual)
        inner = np.minimum(size, self.delta)
        return np.asarray(inner * (size - 0.5 * inner))

    def slope(self, residual: Floats) -> Floats:
        """U, clipped at δ."""
        return np.clip(residual, -self.delta, self.delta)

    def conjugate(self, slope: Floats) -> Floats:
        """½s², for |s| ≤ δ."""
        return 0.5 * np.square(slope)


@dataclass(frozen=True)
class PinballResidual:
    """max(low u, high u) for low ≤ 0 ≤ high: |u|, or the loss of a quantile; it has a kink at 0."""

    low: float
    high: float

    @classmethod
    def absolute(cls) -> PinballResidual:
        """|u|."""
        return cls(-1.0, 1.0)

    @classmethod
    def of_quantile(cls, quantile: float) -> PinballResidual:
        """τu for u ≥ 0, (τ - 1)u for u < 0."""
        return cls(quantile - 1.0, quantile)

    def value(self, residual: Floats) -> Floats:
        """ℓ(u)."""
        return np.maximum(self.low * residual, self.high * residual)

    def slope(self, residual: Floats) -> Floats:
        """``low``, 0 or ``high``."""
        return np.where(residual > 0, self.high, np.where(residual < 0, self.low, 0.0))

    def conjugate(self, slope: Floats) -> Floats:
        """0, for slopes between ``low`` and ``high``."""
        return np.zeros_like(slope)
