"""Losses of the difference y - f: squared, Huber's, of quantiles and expectiles, with a tube."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats
from pursuit.objectives.row_loss import RowLoss
from pursuit.rounding import UNIT

_FEW = 8.0 * UNIT
"""Share of the sizes of their terms to which losses and conjugates are computed where there are no
elementary functions and at most five operations."""
_TIED = 1e-12
"""Shares of the weights that differ by less than this count as equal."""


@dataclass(frozen=True)
class SquaredRows(RowLoss):
    """(y - f)²."""

    most_curved = 2.0
    rounding = _FEW
    of_difference = True
    piecewise_quadratic = True

    def value(self, f: Floats, y: Floats) -> Floats:
        """(y - f)²."""
        return np.square(y - f)

    def size(self, f: Floats, y: Floats) -> Floats:
        """ℓ itself: nothing cancels."""
        return self.value(f, y)

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """2(f - y)."""
        return 2.0 * (f - y)

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """2."""
        return np.full_like(f, 2.0)

    def conjugate_size(self, slope: Floats, y: Floats) -> Floats:
        """|sy| + s²/4."""
        return np.asarray(np.abs(slope * y) + 0.25 * np.square(slope))

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """Returns sy + s²/4."""
        return slope * y + 0.25 * np.square(slope)


@dataclass(frozen=True)
class HuberRows(RowLoss):
    """½u² for u = |y - f| ≤ δ, and δu - ½δ² beyond."""

    delta: float

    most_curved = 1.0
    rounding = _FEW
    of_difference = True
    piecewise_quadratic = True

    def __post_init__(self) -> None:
        if not self.delta > 0.0:
            raise ValueError(f"delta must be positive, got {self.delta}.")

    def value(self, f: Floats, y: Floats) -> Floats:
        """Huber's function of y - f."""
        size = np.abs(y - f)
        inner = np.minimum(size, self.delta)
        return np.asarray(inner * (size - 0.5 * inner))

    def size(self, f: Floats, y: Floats) -> Floats:
        """ℓ itself: nothing cancels."""
        return self.value(f, y)

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """Returns f - y, clipped at δ."""
        return np.clip(f - y, -self.delta, self.delta)

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """1 where the error is below δ, else 0."""
        return np.where(np.abs(y - f) < self.delta, 1.0, 0.0)

    def slopes(self, y: Floats) -> tuple[Floats, Floats]:
        """-δ and δ."""
        return np.full_like(y, -self.delta), np.full_like(y, self.delta)

    def conjugate_size(self, slope: Floats, y: Floats) -> Floats:
        """|sy| + ½s²."""
        return np.asarray(np.abs(slope * y) + 0.5 * np.square(slope))

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """Returns sy + ½s², for |s| ≤ δ."""
        return self._inside(slope, y, lambda s: s * y + 0.5 * np.square(s))


@dataclass(frozen=True)
class PinballRows(RowLoss):
    """max(low u, high u) of u = y - f for low ≤ 0 ≤ high, with a kink at 0.

    It is |u|, or the loss of a quantile.
    """

    low: float
    high: float

    most_curved = np.inf
    rounding = _FEW
    of_difference = True
    kinked = True

    def __post_init__(self) -> None:
        if not self.low < 0.0 < self.high:
            raise ValueError(
                f"low must be negative and high positive, got {self.low} and {self.high}: "
                "PinballRows.of_quantile(0.9) is the loss of the 90 % quantile."
            )

    @classmethod
    def absolute(cls) -> PinballRows:
        """|u|."""
        return cls(-1.0, 1.0)

    @classmethod
    def of_quantile(cls, quantile: float) -> PinballRows:
        """τu for u ≥ 0, (τ - 1)u for u < 0."""
        _check_level("quantile", quantile)
        return cls(quantile - 1.0, quantile)

    def value(self, f: Floats, y: Floats) -> Floats:
        """max(low u, high u)."""
        residual = y - f
        return np.maximum(self.low * residual, self.high * residual)

    def size(self, f: Floats, y: Floats) -> Floats:
        """ℓ itself: nothing cancels."""
        return self.value(f, y)

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """-high, 0 or -low."""
        return np.where(y > f, -self.high, np.where(y < f, -self.low, 0.0))

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """0, but at the kink."""
        return np.zeros_like(f)

    def slopes(self, y: Floats) -> tuple[Floats, Floats]:
        """-high and -low."""
        return np.full_like(y, -self.high), np.full_like(y, -self.low)

    def conjugate_size(self, slope: Floats, y: Floats) -> Floats:
        """|sy|."""
        return np.asarray(np.abs(slope * y))

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """Returns sy, for slopes s between -high and -low."""
        return self._inside(slope, y, lambda s: s * y)

    def constant(self, y: Floats, weights: Floats, offset: Floats | float = 0.0) -> float:
        """The weighted quantile of y - o; the middle of the interval if there are several."""
        values = y - offset
        order = np.argsort(values, kind="stable")
        share = np.cumsum(weights[order])
        share /= share[-1]
        level = self.high / (self.high - self.low)
        least = values[order[int(np.argmax(share >= level - _TIED))]]
        largest = values[order[int(np.argmax(share > level + _TIED))]]
        return float(0.5 * (least + largest))


@dataclass(frozen=True)
class ExpectileRows(RowLoss):
    """τu² of u = y - f ≥ 0, and (1 - τ)u² of u < 0; for τ = ½ it is ½u²."""

    level: float

    rounding = _FEW
    of_difference = True
    piecewise_quadratic = True

    def __post_init__(self) -> None:
        _check_level("level", self.level)

    @property
    def most_curved(self) -> float:  # type: ignore[override]
        """2 max(τ, 1 - τ)."""
        return 2.0 * max(self.level, 1.0 - self.level)

    def _share(self, above: NDArray[np.bool_]) -> Floats:
        """τ where the target is above the prediction, else 1 - τ."""
        return np.where(above, self.level, 1.0 - self.level)

    def value(self, f: Floats, y: Floats) -> Floats:
        """τu² or (1 - τ)u²."""
        return np.asarray(self._share(y > f) * np.square(y - f))

    def size(self, f: Floats, y: Floats) -> Floats:
        """ℓ itself: nothing cancels."""
        return self.value(f, y)

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """-2τu or -2(1 - τ)u."""
        return np.asarray(2.0 * self._share(y > f) * (f - y))

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """2τ or 2(1 - τ)."""
        return 2.0 * self._share(y > f)

    def conjugate_size(self, slope: Floats, y: Floats) -> Floats:
        """|sy| + s²/4τ or s²/4(1 - τ)."""
        return np.asarray(np.abs(slope * y) + 0.25 * np.square(slope) / self._share(slope < 0))

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """Returns sy + s²/(4τ) for s < 0, and sy + s²/(4(1 - τ)) for s > 0."""
        return np.asarray(slope * y + 0.25 * np.square(slope) / self._share(slope < 0))


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(RowLoss):
    """max(0, |y - f| - ε)²."""

    epsilon: float

    most_curved = 2.0
    rounding = _FEW
    of_difference = True
    piecewise_quadratic = True

    def value(self, f: Floats, y: Floats) -> Floats:
        """max(0, |y - f| - ε)²."""
        return np.asarray(np.maximum(np.abs(y - f) - self.epsilon, 0.0) ** 2)

    def size(self, f: Floats, y: Floats) -> Floats:
        """(|y - f| - ε)|y - f|, since the difference cancels near the tube."""
        away = np.abs(y - f)
        return np.asarray((np.maximum(away - self.epsilon, 0.0) + UNIT * away) * away)

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """-2 sign(y - f) max(0, |y - f| - ε)."""
        excess = np.maximum(np.abs(y - f) - self.epsilon, 0.0)
        return np.asarray(-2.0 * np.sign(y - f) * excess)

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """2 where |y - f| > ε, else 0."""
        return np.where(np.abs(y - f) > self.epsilon, 2.0, 0.0)

    def conjugate_size(self, slope: Floats, y: Floats) -> Floats:
        """|sy| + ε|s| + s²/4."""
        return np.asarray(np.abs(slope) * (np.abs(y) + self.epsilon) + 0.25 * np.square(slope))

    def conjugate(self, slope: Floats, y: Floats) -> Floats:
        """Returns sy + ε|s| + s²/4."""
        return np.asarray(slope * y + self.epsilon * np.abs(slope) + 0.25 * np.square(slope))


def _check_level(name: str, level: float) -> None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"{name} must be between 0 and 1, got {level}: 0.9 is the 90 % one.")
