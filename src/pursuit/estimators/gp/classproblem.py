"""The convex problem that the mode of a classifier's latent functions solves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pursuit._types import Floats
from pursuit.bounds import logistic_lower_bound
from pursuit.objectives import LogisticRows


@dataclass(frozen=True)
class LogisticProblem:
    """Minimise Σ_i w_i log(1 + exp(-y_i f(x_i))) + ‖f‖²/2s over f, each column by itself.

    Attributes
    ----------
    targets : array of shape (n_rows, n_outputs)
        y = ±1.
    weights : array of shape (n_rows,)
        w, all positive.
    scale : float
        s.
    """

    targets: Floats
    weights: Floats
    scale: float

    @property
    def n_outputs(self) -> int:
        """Number of columns."""
        return int(self.targets.shape[1])

    @property
    def over(self) -> str:
        """What the minimum is taken over."""
        return "all functions of the kernel"

    def value(self, fitted: Floats, squared_norms: Floats) -> Floats:
        """P for each column, from f at the rows and ‖f‖²."""
        losses: Floats = self.weights @ LogisticRows().value(fitted, self.targets)
        return losses + 0.5 * squared_norms / self.scale

    def zero_value(self) -> Floats:
        """P of f = 0: log 2 a row."""
        return np.full(self.n_outputs, float(self.weights.sum()) * np.log(2.0))

    def dual_point(self, fitted: Floats) -> Floats:
        """a = -w ℓ'(f) = w y/(1 + exp(yf)), feasible whatever f is."""
        return np.asarray(-self.weights[:, None] * LogisticRows().gradient(fitted, self.targets))

    def feasible(self, a: Floats) -> Floats:
        """A dual point with 0 ≤ ya ≤ w."""
        return np.asarray(self.targets * np.clip(self.targets * a, 0.0, self.weights[:, None]))

    def lower_bound(self, a: Floats, quadratic: Floats) -> Floats:
        """The best D(ta) of a feasible a, from a'Ka or an upper bound of it."""
        q = np.abs(a) / self.weights[:, None]
        return logistic_lower_bound(q, self.weights, self.scale * quadratic)
