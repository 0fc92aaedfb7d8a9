"""Losses of a prediction: their values, slopes and curvatures, row by row and column by column."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.special import expit

from pursuit.objectives.base import Floats


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
