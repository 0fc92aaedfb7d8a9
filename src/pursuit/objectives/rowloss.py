"""Losses of a prediction: their values, slopes and curvatures, row by row and column by column."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.special import expit

from pursuit._types import Floats


class RowLoss(Protocol):
    """A convex function of a prediction f, given its target y; arrays of one shape."""

    most_curved: float
    """The largest curvature there is."""

    def value(self, f: Floats, y: Floats) -> Floats:
        """The loss."""
        ...

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """Its derivative in f."""
        ...

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """Its second derivative in f."""
        ...


class LogisticRows:
    """log(1 + exp(-yf)) for y = ±1; f is the log-odds of y = 1."""

    most_curved = 0.25

    def value(self, f: Floats, y: Floats) -> Floats:
        """log(1 + exp(-yf)), without overflow."""
        loss: Floats = np.logaddexp(0.0, -y * f)
        return loss

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """-y / (1 + exp(yf))."""
        slope: Floats = -y * expit(-y * f)
        return slope

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """p(1 - p) for p = 1 / (1 + exp(-f))."""
        p = expit(f)
        bend: Floats = p * (1.0 - p)
        return bend


class SquaredHinge:
    """max(0, 1 - yf)² for y = ±1."""

    most_curved = 2.0

    def value(self, f: Floats, y: Floats) -> Floats:
        """max(0, 1 - yf)²."""
        loss: Floats = np.maximum(1.0 - y * f, 0.0) ** 2
        return loss

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """-2y max(0, 1 - yf)."""
        slope: Floats = -2.0 * y * np.maximum(1.0 - y * f, 0.0)
        return slope

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """2 where yf < 1, else 0."""
        return np.where(y * f < 1.0, 2.0, 0.0)


class SquaredEpsilonInsensitive:
    """max(0, |y - f| - ε)²."""

    most_curved = 2.0

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon

    def value(self, f: Floats, y: Floats) -> Floats:
        """max(0, |y - f| - ε)²."""
        loss: Floats = np.maximum(np.abs(y - f) - self.epsilon, 0.0) ** 2
        return loss

    def gradient(self, f: Floats, y: Floats) -> Floats:
        """-2 sign(y - f) max(0, |y - f| - ε)."""
        slope: Floats = -2.0 * np.sign(y - f) * np.maximum(np.abs(y - f) - self.epsilon, 0.0)
        return slope

    def curvature(self, f: Floats, y: Floats) -> Floats:
        """2 where |y - f| > ε, else 0."""
        return np.where(np.abs(y - f) > self.epsilon, 2.0, 0.0)
