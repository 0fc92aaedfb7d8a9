"""The losses that a generalised linear model knows by name, and what it learns of them."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, xlogy

from pursuit._types import Floats
from pursuit.objectives import (
    ExpectileRows,
    GammaRows,
    HuberRows,
    LogitRows,
    NegativeBinomialRows,
    PinballRows,
    PoissonRows,
    RowLoss,
    TweedieRows,
)

NAMES = (
    "poisson",
    "gamma",
    "tweedie",
    "negative-binomial",
    "huber",
    "absolute",
    "quantile",
    "logistic",
    "expectile",
)
POSITIVE = ("poisson", "gamma", "tweedie", "negative-binomial")
"""Losses whose targets are not negative."""

_WIDTH = 1.345
"""Width of Huber's loss in standard deviations: 95 % efficient where the noise is normal."""
_NORMAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""
_LEAST_WIDTH = 1e-3
"""Least width of Huber's loss, in units of that of the targets: exact fits leave no residuals."""
_ROUNDING = 1e-12
_SHAPES = 1e-3, 1e6
"""Range of the shape of the negative binomial loss, whose limit is the Poisson loss."""


@dataclass(frozen=True)
class GivenLoss:
    """A loss as the user gave it, with what has been learned of it.

    Attributes
    ----------
    loss : str or RowLoss
        Name, or a loss of the user's own.
    levels : tuple of float
        Levels of quantiles, or that of the expectile.
    power : float
        Of the variance, for Tweedie's loss.
    width : float, optional
        Of Huber's loss.
    shape : float, optional
        Of the negative binomial loss.
    """

    loss: str | RowLoss
    levels: tuple[float, ...] = (0.5,)
    power: float = 1.5
    width: float | None = None
    shape: float | None = None

    @classmethod
    def of(cls, loss: Any, quantile: Any, power: Any) -> GivenLoss:
        """Check the arguments of an estimator."""
        if not isinstance(loss, RowLoss) and loss not in NAMES:
            names = ", ".join(map(repr, NAMES))
            raise ValueError(f"loss must be one of {names}, or a RowLoss object, got {loss!r}.")
        levels = _levels(quantile)
        if len(levels) > 1 and loss != "quantile":
            raise ValueError(
                f"quantile={quantile!r} has several levels, and loss={loss!r} has one function: "
                "use loss='quantile', or a single level."
            )
        if not isinstance(power, numbers.Real) or not 1.0 <= float(power) <= 2.0:
            raise ValueError(
                f"power must be between 1 (Poisson) and 2 (gamma), where Tweedie's loss is convex, "
                f"got {power!r}."
            )
        return cls(loss, levels, float(power))

    def rows(self) -> list[RowLoss]:
        """One loss per function."""
        loss, level = self.loss, self.levels[0]
        if isinstance(loss, RowLoss):
            return [loss]
        if loss == "quantile":
            return [PinballRows.of_quantile(each) for each in self.levels]
        if loss == "huber":
            return [HuberRows(1.0 if self.width is None else self.width)]
        if loss == "negative-binomial":
            return [NegativeBinomialRows(1.0 if self.shape is None else self.shape)]
        if loss == "tweedie":
            return [TweedieRows(self.power)]
        if loss == "expectile":
            return [ExpectileRows(level)]
        plain: dict[str, RowLoss] = {
            "poisson": PoissonRows(),
            "gamma": GammaRows(),
            "logistic": LogitRows(),
            "absolute": PinballRows.absolute(),
        }
        return [plain[loss]]

    @property
    def learns(self) -> bool:
        """Whether the loss has a number that is learned from the rows."""
        return self.loss in ("huber", "negative-binomial")

    def learned(self, fitted: Floats, y: Floats, weights: Floats) -> GivenLoss:
        """The loss with its number learned at the values f of the rows."""
        if self.loss == "huber":
            least = _LEAST_WIDTH * robust_scale(y, weights)
            scale = max(robust_scale(y - fitted, weights), least)
            return replace(self, width=_WIDTH * scale if scale > 0.0 else 1.0)
        if self.loss == "negative-binomial":
            return replace(self, shape=likely_shape(np.exp(fitted), y, weights))
        return self


def _levels(quantile: Any) -> tuple[float, ...]:
    levels = np.asarray(quantile)
    known = levels.dtype.kind in "fiu" and levels.ndim <= 1 and levels.size > 0
    if not known or not np.all((levels > 0) & (levels < 1)):
        raise ValueError(
            f"quantile must be a level, or a sequence of levels, strictly between 0 and 1, got "
            f"{quantile!r}."
        )
    if levels.ndim == 1 and np.any(np.diff(levels) <= 0):
        raise ValueError(f"quantile must hold different levels in rising order, got {quantile!r}.")
    return tuple(float(level) for level in np.atleast_1d(levels))


def weighted_quantile(values: Floats, weights: Floats, level: float) -> float:
    """The smallest value with at least this share of the weight at or below it."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    return float(values[order[int(np.searchsorted(below, level * below[-1]))]])


def robust_scale(residuals: Floats, weights: Floats) -> float:
    """Median absolute deviation, as a standard deviation; that itself if most rows are equal.

    0 where all rows are equal to rounding.
    """
    centred = residuals - weighted_quantile(residuals, weights, 0.5)
    rounding = _ROUNDING * float(np.abs(residuals).max())
    scale = _NORMAL * weighted_quantile(np.abs(centred), weights, 0.5)
    if scale <= rounding:
        scale = float(np.sqrt(np.average(centred**2, weights=weights)))
    return scale if scale > rounding else 0.0


def likely_shape(mean: Floats, y: Floats, weights: Floats) -> float:
    """The shape k of most likelihood, given the means: the variance is μ + μ²/k."""

    def loss(log_shape: float) -> float:
        k = float(np.exp(log_shape))
        logs = gammaln(y + k) - gammaln(k) + xlogy(y, mean) + k * log_shape
        return -float(weights @ (logs - (y + k) * np.log(mean + k)))

    found = minimize_scalar(loss, bounds=tuple(np.log(_SHAPES)), method="bounded")
    return float(np.exp(found.x))
