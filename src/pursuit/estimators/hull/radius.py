"""The radius of an l1 ball, by cross-validation along a path of growing balls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pursuit._types import Floats
from pursuit.estimators.hull.atoms import AtomSource, AtomSums, Split
from pursuit.estimators.hull.problem import BallProblem
from pursuit.estimators.hull.search import HullStop, pursue_hull
from pursuit.greedy import Meter

_RATIO = 2.0
_FIRST = 0.25
_MOST = 30
_PATIENCE = 3
_TOL = 1e-3
_STEPS = 200
"""Steps in each ball; corrective ones need far fewer."""


@dataclass(frozen=True)
class RadiusPath:
    """Radii in increasing order, and the mean loss of each on each part left out."""

    radii: Floats
    errors: Floats
    best: float


def choose_radius(
    problem: BallProblem,
    source: AtomSource,
    splits: Sequence[Split],
    radii: Floats | None,
    tol: float | None,
) -> RadiusPath:
    """The radius of least error on rows left out.

    Each fold goes on in the next ball from where it stands in the last one.

    Parameters
    ----------
    problem : BallProblem
        Targets, weights and loss, which is the error as well.
    source : AtomSource
        The atoms.
    splits : list of (train, test)
        Row numbers.
    radii : array or None
        Increasing radii. None starts from a quarter of the weight that the best single atom
        wants, doubling, until three in a row have not lowered the error, or no ball binds.
    tol
        As in the estimator.

    Returns
    -------
    path : RadiusPath
    """
    folds = [problem.fold(source, split) for split in splits]
    share = np.array([problem.weights[test].sum() for _, test in splits])
    first = min(_single_weight(sums) for _, _, sums in folds) * _FIRST
    grid = first * _RATIO ** np.arange(_MOST) if radii is None else radii
    balls = [objective(float(grid[0])) for objective, _, _ in folds]
    errors: list[list[float]] = []
    least, since = np.inf, 0
    stop = HullStop(problem.n_terms, _STEPS, max(tol or 0.0, _TOL))
    for radius in grid:
        for objective in balls:
            objective.widen(float(radius))
            pursue_hull(objective, Meter(), stop)
        errors.append(
            [error(b.coefficients) for b, (_, error, _) in zip(balls, folds, strict=True)]
        )
        mean = float(share @ np.array(errors[-1]))
        since = 0 if mean < least else since + 1
        least = min(least, mean)
        slack = all(np.abs(b.coefficients).sum() < 0.99 * radius for b in balls)
        if radii is None and (since >= _PATIENCE or slack):
            break
    found = np.array(errors)
    return RadiusPath(
        np.asarray(grid[: len(found)]), found, float(grid[int(np.argmin(found @ share))])
    )


def _single_weight(sums: AtomSums) -> float:
    """|w| of the atom that alone lowers the error most."""
    alive = sums.diagonal > 0
    if not alive.any() or not np.any(sums.linear):
        return 1.0
    gain = np.where(alive, sums.linear**2 / np.where(alive, sums.diagonal, 1.0), 0.0)
    best = int(gain.argmax())
    return float(abs(sums.linear[best]) / sums.diagonal[best])
