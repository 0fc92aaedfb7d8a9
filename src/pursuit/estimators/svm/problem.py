"""The convex problem of a machine: targets, costs and a loss of the slack."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.bounds import balanced, scaled_machine_bound
from pursuit.objectives import RowLoss, SquaredEpsilonInsensitive, SquaredHinge
from pursuit.solvers import LinearLosses


@dataclass(frozen=True)
class MachineProblem:
    """Minimise ½‖f‖² + Σ_i c_i ℓ(ξ_i) over f and an intercept b, each column by itself.

    The slack ξ is max(0, 1 - y(f + b)) for classes and max(0, |y - f - b| - ε) for numbers.

    Attributes
    ----------
    targets : array of shape (n_rows, n_outputs)
        y: ±1, or numbers.
    costs : array of shape (n_rows, n_outputs)
        c; a row of cost 0 is not part of a column's problem.
    squared : bool
        Whether ℓ(ξ) is ξ² or ξ.
    epsilon : float or None
        ε, None for classes.
    """

    targets: Floats
    costs: Floats
    squared: bool
    epsilon: float | None = None

    @property
    def n_outputs(self) -> int:
        """Number of columns."""
        return int(self.targets.shape[1])

    @property
    def over(self) -> str:
        """What the minimum is taken over."""
        return "all functions of the kernel and all intercepts"

    @property
    def row_loss(self) -> RowLoss:
        """ξ² as a function of f + b."""
        if self.epsilon is None:
            return SquaredHinge()
        return SquaredEpsilonInsensitive(self.epsilon)

    def take(self, rows: Indices) -> MachineProblem:
        """The problem on some of the rows."""
        return replace(self, targets=self.targets[rows], costs=self.costs[rows])

    def smooth(self) -> MachineProblem:
        """The problem with ξ² in place of ξ."""
        return replace(self, squared=True)

    def shifts(self, intercepts: Floats) -> Floats:
        """What :meth:`value` wants added to f: the intercepts."""
        return intercepts

    def signed_slack(self, fitted: Floats) -> Floats:
        """ξ with the sign of the direction in which f + b has to move."""
        if self.epsilon is None:
            return np.asarray(self.targets * np.maximum(1.0 - self.targets * fitted, 0.0))
        missing = self.targets - fitted
        return np.asarray(np.sign(missing) * np.maximum(np.abs(missing) - self.epsilon, 0.0))

    def value(self, fitted: Floats, squared_norms: Floats) -> Floats:
        """P for each column, from f + b at the rows and ‖f‖²."""
        slack = np.abs(self.signed_slack(fitted))
        losses: Floats = np.einsum("ij,ij->j", self.costs, slack**2 if self.squared else slack)
        return 0.5 * squared_norms + losses

    def zero_value(self) -> Floats:
        """P of f = 0, and b = 0 for classes, the mean target for numbers."""
        intercepts = np.zeros(self.n_outputs)
        if self.epsilon is not None:
            total = np.maximum(self.costs.sum(axis=0), np.finfo(float).tiny)
            intercepts = np.einsum("ij,ij->j", self.costs, self.targets) / total
        return self.value(np.broadcast_to(intercepts, self.targets.shape), np.zeros(self.n_outputs))

    def intercepts(self, values: Floats) -> Floats:
        """For ξ: the b of least loss for the values of f, in the middle where several are."""
        assert not self.squared

        def losses(y: Floats, c: Floats) -> LinearLosses:
            if self.epsilon is None:
                return LinearLosses.hinge(y, c)
            return LinearLosses.tube(y, c, self.epsilon)

        columns = zip(self.targets.T, self.costs.T, values.T, strict=True)
        return np.array([losses(y, c).intercept(f) for y, c, f in columns])

    def dual_point(self, fitted: Floats) -> Floats:
        """For ξ²: a = -c ℓ'(f + b) = 2cξ with its sign, feasible whatever f is, up to 1'a = 0."""
        assert self.squared
        return np.asarray(2.0 * self.costs * self.signed_slack(fitted))

    def feasible(self, a: Floats) -> Floats:
        """A dual point made feasible: clipped to what the losses allow, and balanced."""
        if self.epsilon is None:
            a = self.targets * np.maximum(self.targets * a, 0.0)
        if not self.squared:
            a = np.clip(a, -self.costs, self.costs)
        return balanced(a)

    def lower_bound(self, a: Floats, quadratic: Floats) -> Floats:
        """The best D(ta) of a feasible a, from a'Ka or an upper bound of it."""
        linear = np.einsum("ij,ij->j", self.targets, a) - (self.epsilon or 0.0) * np.abs(a).sum(
            axis=0
        )
        if self.squared:
            costs = np.where(self.costs > 0, self.costs, 1.0)
            quadratic = quadratic + np.einsum("ij,ij->j", a, a / (2.0 * costs))
            limit = np.full(self.n_outputs, np.inf)
        else:
            room = np.divide(
                self.costs, np.abs(a), out=np.full(a.shape, np.inf), where=np.abs(a) > 0
            )
            limit = room.min(axis=0, initial=np.inf)
        return scaled_machine_bound(linear, quadratic, limit)
