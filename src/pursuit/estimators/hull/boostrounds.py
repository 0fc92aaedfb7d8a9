"""Rounds of boosting: one vote for two classes, or one a class, and their probabilities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.bounds import Bound, Certificate, hull_rate_bound
from pursuit.estimators.hull.search import HullStop, pursue_hull
from pursuit.estimators.inputs import seeded_clone
from pursuit.greedy import Meter, Path, Pursuit
from pursuit.linalg import Workers
from pursuit.objectives import (
    ExponentialLoss,
    HullLoss,
    HullObjective,
    LearnedAtoms,
    LogExpLoss,
    LogisticLoss,
    SquaredLoss,
    learner_values,
)
from pursuit.objectives.hull import START
from pursuit.solvers import Bins, Stump, StumpAtoms, reweight
from pursuit.solvers.stump_search import CERTAIN_SHARE

Codes = Indices

_HELD_OUT = 0.2

LOSSES = ("log-exp", "logistic", "exponential", "least-squares")


def hull_loss(name: str, y: Floats, scale: float, weights: Floats) -> HullLoss:
    """A loss of the votes, by name."""
    if name == "log-exp":
        return LogExpLoss(y, scale, weights)
    if name == "logistic":
        return LogisticLoss(y, scale, weights)
    if name == "exponential":
        return ExponentialLoss(y, scale, weights)
    return SquaredLoss(y, weights, scale)


@dataclass(frozen=True)
class Booster:
    """A vote of weak learners.

    Attributes
    ----------
    learners : list
        Weak learners in the order of their rounds: `Stump` objects, or fitted estimators.
    weights : array
        Their weights, which sum to at most one.
    point : array
        The vote on the training rows.
    stages : list of arrays
        Weights after each round, of the learners found by then.
    path : Path
        Loss and gap after each round.
    certificate : Certificate or None
        How far the loss can be from its minimum.
    rate_bound : Bound or None
        What Theorem 3.1 promised.
    """

    learners: list[Any]
    weights: Floats
    point: Floats
    stages: list[Floats]
    path: Path
    certificate: Certificate | None
    rate_bound: Bound | None

    @property
    def n_terms(self) -> int:
        """Learners of positive weight."""
        return int(np.count_nonzero(self.weights))

    def values(self, X: Any) -> Floats:
        """Values of the learners on rows, one a column."""
        columns = [
            learner(X) if isinstance(learner, Stump) else learner_values(learner, X)
            for learner in self.learners
        ]
        return np.column_stack(columns)

    def staged_weights(self, stage: int) -> Floats:
        """Weights of all learners after a round; those of later rounds are 0."""
        known = self.stages[min(stage, len(self.stages) - 1)]
        return np.concatenate([known, np.zeros(len(self.weights) - len(known))])


def votes(boosters: list[Booster], X: Any) -> Floats:
    """Σ_j w_j p_j(x), one column a booster, without holding all values at once."""
    found = np.zeros((X.shape[0], len(boosters)))
    for column, booster in zip(found.T, boosters, strict=True):
        for learner, weight in zip(booster.learners, booster.weights, strict=True):
            if weight > 0:
                values = learner(X) if isinstance(learner, Stump) else learner_values(learner, X)
                column += weight * values
    return found


class _Stages:
    """A rule that never stops, and notes the weights after each step."""

    def __init__(self) -> None:
        self.seen: list[tuple[list[int], Floats]] = []

    def __call__(self, pursuit: Pursuit) -> str | None:
        objective: Any = pursuit.objective
        self.seen.append((list(objective.numbers), objective.weights.copy()))
        return None


@dataclass(frozen=True)
class Rounds:
    """How to boost: everything but the data and the scale."""

    learner: Any
    loss: str
    n_terms: int
    step: str
    tol: float | None
    seed: int
    workers: Workers

    def fit(self, X: Any, codes: Codes, weights: Floats, scale: float) -> list[Booster]:
        """One booster for two classes, else one a class."""
        bins = Bins(X) if self.learner is None else None
        return [self._boost(X, y, weights, scale, bins) for y in self.signs(codes).T]

    def signs(self, codes: Codes) -> Floats:
        """±1 for the second class, or for each class against the rest."""
        wanted = np.array([1]) if codes.max() == 1 else np.arange(codes.max() + 1)
        return np.where(codes[:, None] == wanted, 1.0, -1.0)

    def _boost(
        self, X: Any, y: Floats, weights: Floats, scale: float, bins: Bins | None
    ) -> Booster:
        loss = hull_loss(self.loss, y, scale, weights)
        atoms: Any
        if bins is not None:
            atoms = StumpAtoms(loss, bins, self.workers)
        else:
            atoms = LearnedAtoms(seeded_clone(self.learner, self.seed), X)
        M = loss.curvature(np.ones((len(y), 1)))
        objective = HullObjective(
            loss, atoms, np.zeros(len(y)), step=self.step, reweight=reweight, curvature=M
        )
        excess = objective.gap
        stages = _Stages()
        stop = HullStop(self.n_terms, self.n_terms, self.tol if atoms.exact else None)
        path, certificate = pursue_hull(objective, Meter(), stop, [stages])
        chosen = list(dict.fromkeys(path.index.tolist()))
        found = atoms.stumps if bins is not None else atoms.learners
        column = {number: i for i, number in enumerate(chosen)}

        def in_order(numbers: list[int], known: Floats) -> Floats:
            ordered = np.zeros(1 + max((column[n] for n in numbers if n != START), default=-1))
            for number, weight in zip(numbers, known, strict=True):
                if number != START:
                    ordered[column[number]] = weight
            return ordered

        final = in_order(objective.numbers, objective.weights)
        return Booster(
            [found[n] for n in chosen],
            np.concatenate([final, np.zeros(len(chosen) - len(final))]),
            objective.point,
            [in_order(*seen) for seen in stages.seen] or [final],
            path,
            replace(certificate, over=atoms.over) if bins is not None else None,
            self._rate(len(path), M, excess, len(y)) if bins is not None else None,
        )

    def _rate(self, n_steps: int, M: float, excess: float, n_rows: int) -> Bound | None:
        """Theorem 3.1; where a step is certain of a share of the largest decrease, M is over it."""
        if not np.isfinite(M):
            return None
        near = self.step == "joint" and n_rows > limits.EXHAUSTIVE_ROWS
        return hull_rate_bound(n_steps, M / CERTAIN_SHARE if near else M, excess)


def hold_out(codes: Codes, rng: np.random.Generator) -> tuple[Codes, Codes]:
    """A fifth of each class, or nothing where a class has fewer than five rows."""
    test = []
    for code in np.unique(codes):
        mine = np.flatnonzero(codes == code)
        held = int(_HELD_OUT * len(mine))
        if held == 0 or len(mine) - held < 2:
            return np.arange(len(codes)), np.empty(0, dtype=np.intp)
        test.append(rng.choice(mine, held, replace=False))
    chosen = np.sort(np.concatenate(test))
    return np.setdiff1d(np.arange(len(codes)), chosen), chosen


def probabilities(found: Floats, temperature: float) -> Floats:
    """1/(1 + exp(-a v)) for two classes; the same for each class against the rest, scaled."""
    positive = expit(temperature * found)
    if found.shape[1] == 1:
        return np.hstack([1.0 - positive, positive])
    positive = np.maximum(positive, 1e-300)
    return np.asarray(positive / positive.sum(axis=1, keepdims=True))


def fit_temperature(found: Floats, codes: Codes, weights: Floats) -> float:
    """The slope a of least log loss on these rows, one row of every class being a mistake.

    A row of doubt for each class keeps the slope finite where the votes are all right.
    """

    def loss(log_slope: float) -> float:
        p = probabilities(found, float(np.exp(log_slope)))
        hit = weights @ np.log(np.maximum(p[np.arange(len(codes)), codes], 1e-300))
        doubt = np.log(np.maximum(p.min(axis=1), 1e-300)).mean() * weights.mean()
        return -float(hit + doubt)

    found_at = minimize_scalar(loss, bounds=(np.log(0.1), np.log(1e4)), method="bounded")
    return float(np.exp(found_at.x))
