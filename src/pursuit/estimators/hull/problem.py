"""Regression over an l1 ball: the loss, the objective that fits it, and what dual points prove."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pursuit._types import Floats
from pursuit.estimators.hull.atoms import AtomSource, AtomSums, Split
from pursuit.estimators.hull.kinked import KinkedBall
from pursuit.estimators.hull.smooth import SmoothBall
from pursuit.objectives import (
    BallRegression,
    HuberLoss,
    HuberResidual,
    PinballResidual,
    RowLoss,
    SquaredResidual,
)
from pursuit.solvers import bounded_least_squares

Ball = BallRegression | SmoothBall | KinkedBall

LOSSES = ("squared", "huber", "absolute", "quantile")
KINKED = ("absolute", "quantile")

_NORMAL = 1.4826
"""Times the median absolute deviation, this is the standard deviation of normal numbers."""
_EFFICIENT = 1.345
"""Standard deviations up to which Huber's loss is a square: 95 % efficient for normal errors."""


def residual_loss(name: str, quantile: float, y: Floats, weights: Floats) -> RowLoss:
    """The loss of a name; Huber's gets its width from the targets."""
    if name == "squared":
        return SquaredResidual()
    if name == "huber":
        return HuberResidual(huber_width(y, weights))
    if name == "absolute":
        return PinballResidual.absolute()
    return PinballResidual.of_quantile(quantile)


def huber_width(y: Floats, weights: Floats) -> float:
    """1.345 standard deviations of y, by the weighted median absolute deviation.

    By the standard deviation itself where more than half of the targets are the same, and 1 where
    all are.
    """
    deviation = _NORMAL * _median(np.abs(y - _median(y, weights)), weights)
    if not deviation > 0:
        deviation = float(np.sqrt(np.cov(y, aweights=weights, ddof=0)))
    return _EFFICIENT * deviation if deviation > 0 else 1.0


def _median(values: Floats, weights: Floats) -> float:
    """The weighted median, that of copies for whole weights."""
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order])
    share /= share[-1]
    rounding = 1e-12
    low = values[order[int(np.argmax(share >= 0.5 - rounding))]]
    high = values[order[int(np.argmax(share > 0.5 + rounding))]]
    return float(0.5 * (low + high))


@dataclass(frozen=True)
class BallProblem:
    """Minimise f(w) = Σ_i ω_i ℓ(y_i - Σ_j w_j p_j(x_i)) over ‖w‖₁ ≤ r, with few w_j ≠ 0.

    Attributes
    ----------
    y, weights : arrays of shape (n_rows,)
        Targets, and positive weights; ω are the weights divided by their sum.
    loss : RowLoss
        ℓ.
    step : str
        How atoms are chosen.
    n_terms : int
        Most atoms of nonzero weight.
    """

    y: Floats
    weights: Floats
    loss: RowLoss
    step: str
    n_terms: int

    @property
    def kinked(self) -> bool:
        """Whether the loss has no gradient."""
        return isinstance(self.loss, PinballResidual)

    @property
    def shares(self) -> Floats:
        """ω."""
        return np.asarray(self.weights / self.weights.sum())

    def value(self, fitted: Floats) -> float:
        """Mean loss of the values of a function on the rows."""
        return float(self.shares @ self.loss.value(fitted, self.y))

    def dual(self, objective: Ball, fitted: Floats) -> Floats:
        """The dual point μ that belongs to what an objective has found."""
        if isinstance(objective, KinkedBall):
            return objective.dual
        return np.asarray(-self.shares * self.loss.gradient(fitted, self.y))

    def lower_bound(self, dual: Floats, prices: Floats, radius: float) -> float:
        """No w in the ball has a smaller f, if ``prices`` are those of all atoms at ``dual``."""
        shares = self.shares
        conjugate = float(shares @ self.loss.conjugate(-dual / shares, self.y))
        return -conjugate - radius * float(np.abs(prices).max())

    def objective(self, source: AtomSource, radius: float, start: Floats | None = None) -> Ball:
        """The objective over the atoms of a source."""
        if isinstance(self.loss, SquaredResidual):
            return self._least_squares(source.sums(), radius, start)
        return self._by_rows(source, source.sums, self.shares, radius, start)

    def fold(
        self, source: AtomSource, split: Split
    ) -> tuple[Callable[[float], Ball], Callable[[Floats], float], AtomSums]:
        """For a split: the objective on one part by its radius, the error on the other, sums."""
        train, test = split
        sums, held_out = source.split(train, test)
        if isinstance(self.loss, SquaredResidual):
            return lambda radius: self._least_squares(sums, radius, None), held_out.error, sums
        shares, others = np.zeros((2, len(self.y)))
        shares[train] = self.weights[train] / self.weights[train].sum()
        others[test] = self.weights[test] / self.weights[test].sum()

        def objective(radius: float) -> Ball:
            return self._by_rows(source, lambda: sums, shares, radius, None)

        def error(coefficients: Floats) -> float:
            return float(others @ self.loss.value(source.predicted(coefficients), self.y))

        return objective, error, sums

    def _least_squares(self, sums: AtomSums, radius: float, start: Floats | None) -> Ball:
        return BallRegression(
            sums, radius, step=self.step, solve=bounded_least_squares, start=start
        )

    def _by_rows(
        self,
        source: AtomSource,
        sums: Callable[[], AtomSums],
        shares: Floats,
        radius: float,
        start: Floats | None,
    ) -> Ball:
        if isinstance(self.loss, PinballResidual):
            return KinkedBall(source, self.y, shares, self.loss, radius, self.n_terms, start)
        assert isinstance(self.loss, HuberResidual)
        loss = HuberLoss(self.y, self.loss.delta, shares)
        # No second derivative of Huber's loss exceeds 1.
        curvature = float(sums().diagonal.max())
        return SmoothBall(source, loss, curvature, radius, step=self.step, start=start)
