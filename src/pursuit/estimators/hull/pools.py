"""Regression over an l1 ball of more atoms than a pool holds: solve, price all atoms, repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.bounds import Bound, Certificate, hull_rate_bound
from pursuit.estimators.fit_run import FitRun
from pursuit.estimators.hull.atoms import (
    AtomAccuracy,
    AtomSource,
    AtomSums,
    FeatureAccuracy,
    KernelAccuracy,
    StoredAtoms,
    kernel_source,
)
from pursuit.estimators.hull.balls import BallProblem, Fold, KinkedBall
from pursuit.estimators.hull.pursue import HullStop, joined_pieces, pursue_hull, stop_in_time
from pursuit.gram import kernel_product, kernel_transpose_times
from pursuit.greedy import CostMeter, Path
from pursuit.kernels import CountingKernel
from pursuit.linalg import Workers
from pursuit.rounding import Rounded, highest, joined
from pursuit.rows import Sample

_TIME_SHARE = 0.9
"""Share of ``max_time`` after which steps end; the rest is for finishing the model."""
_GAIN = 1e-12
"""A fit ends when the atoms outside the pool promise less than this fraction of f(0)."""

_RADIUS_RATIO = 2.0
"""Ratio of consecutive radii in cross-validation; a smaller one tries more radii."""
_FIRST_RADIUS = 0.25
"""The first radius, as a fraction of the weight that the best single atom would get."""
_MOST_RADII = 30
"""Largest number of radii that cross-validation tries."""
_RADIUS_PATIENCE = 3
"""Cross-validation ends after this many radii in a row without a smaller error."""
_RADIUS_TOL = 1e-3
"""Relative gap at which a fold stops; a smaller one makes cross-validation slower."""
_RADIUS_STEPS = 200
"""Most steps per fold and radius."""


@dataclass(frozen=True)
class RowAtoms:
    """The kernel functions at points, and at all rows, which may be too many to store.

    Attributes
    ----------
    sample : Sample
        Rows, targets and weights.
    kernel : CountingKernel
        One kernel, or several as one.
    n_kernels : int
        Number of kernels.
    size : int
        Number of rows whose kernel functions join a pool at a time.
    workers : Workers
        Threads; their number does not change a bit of the result.
    """

    sample: Sample
    kernel: CountingKernel
    n_kernels: int
    size: int
    workers: Workers

    def prices(self, dual: Floats) -> Floats:
        """Σ_i μ_i k(x_i, x_j) for every kernel and row j: shape (n_kernels, n_rows).

        Rows are read in blocks, once per block of centres. A positive definite kernel is symmetric
        and needs half of its values. Nothing of size n_rows² is stored.
        """
        rows = self.sample.rows
        vectors = dual[:, None]
        if self.kernel.positive_definite:
            return kernel_product(rows, self.kernel, vectors, self.workers).T
        parts = [
            kernel_transpose_times(rows, self.kernel, items, vectors, self.workers).reshape(
                self.n_kernels, -1
            )
            for _, items in rows.blocks()
        ]
        return np.concatenate(parts, axis=1)

    def pool(self, rows: Indices, over: str, *, complete: bool = False) -> Pool:
        """The kernel functions at some rows."""
        points = self.sample.rows.take(rows)
        return Pool(self, np.tile(rows, self.n_kernels), over, points, complete)


@dataclass(frozen=True)
class Pool:
    """Atoms to choose from.

    Attributes
    ----------
    atoms : AtomSource or RowAtoms
        Their values, or the kernel that gives them.
    labels : array of shape (n_atoms,)
        Row numbers of centres, -1 for points that are not rows, or numbers of features.
    over : str
        The atoms that the certificate is about, in words.
    points : items or None
        Centres; None for features.
    complete : bool
        Whether the pool holds all atoms that the certificate is about.
    """

    atoms: AtomSource | RowAtoms
    labels: Indices
    over: str
    points: Any = None
    complete: bool = True

    @cached_property
    def source(self) -> AtomSource:
        """Values of the atoms, computed when they are first needed."""
        atoms = self.atoms
        if not isinstance(atoms, RowAtoms):
            return atoms
        return kernel_source(
            atoms.sample, atoms.kernel, self.points, atoms.n_kernels, atoms.workers
        )

    def prices(self, dual: Floats) -> Floats:
        """Prices of all atoms that the certificate is about."""
        return self.source.prices(dual) if self.complete else self.atoms.prices(dual)

    @cached_property
    def accuracy(self) -> AtomAccuracy:
        """How exact sums over the atoms are."""
        atoms = self.atoms
        if not isinstance(atoms, RowAtoms):
            assert isinstance(atoms, StoredAtoms)
            return FeatureAccuracy(atoms)
        return KernelAccuracy(atoms.sample, atoms.kernel, self.points, atoms.workers)

    def next_rows(self, coefficients: Floats, prices: Floats) -> Indices:
        """Rows of the next pool: those in use, and those of the largest prices."""
        assert isinstance(self.atoms, RowAtoms)
        in_use = np.unique(self.labels[np.flatnonzero(coefficients)])
        worth = np.abs(prices).max(axis=0)
        worth[in_use] = -1.0
        best = np.argsort(-worth, kind="stable")[: self.atoms.size]
        return np.union1d(in_use, best[worth[best] > 0.0])

    def moved(self, rows: Indices, coefficients: Floats) -> tuple[Pool, Floats]:
        """The pool of other rows, and the coefficients in their places there."""
        assert isinstance(self.atoms, RowAtoms)
        used = np.flatnonzero(coefficients)
        pool = self.atoms.pool(rows, self.over)
        kernels = used // (len(self.labels) // self.atoms.n_kernels)
        start = np.zeros(len(pool.labels))
        start[kernels * len(rows) + np.searchsorted(rows, self.labels[used])] = coefficients[used]
        return pool, start


@dataclass(frozen=True)
class PoolRound:
    """The result of the steps in one pool, as a checkpoint records it.

    Attributes
    ----------
    coefficients : array of shape (n_atoms,)
        Weights of the pool's atoms.
    path : Path
        The steps; the gap over all atoms where it was computed.
    certificate : Certificate
        Mean loss, and the best lower bound so far on its minimum over all atoms.
    excess : float
        A bound on f less its minimum over the pool before the first step.
    curvature : float or None
        M of the pool; None for a loss with kinks.
    next_rows : array of int or None
        Rows of the next pool; None where no other pool follows.
    """

    coefficients: Floats
    path: Path
    certificate: Certificate
    excess: float
    curvature: float | None
    next_rows: Indices | None


@dataclass(frozen=True)
class BallFit:
    """The result of all steps in an l1 ball.

    Attributes
    ----------
    pool : Pool
        The last pool.
    coefficients : array of shape (n_atoms,)
        Weights of its atoms.
    path : Path
        All steps; the gap over all atoms where it was computed.
    certificate : Certificate
        Over all atoms.
    rate_bound : Bound or None
        What Theorem 3.1 promised for the steps in the first pool; None for a loss with kinks.
    """

    pool: Pool
    coefficients: Floats
    path: Path
    certificate: Certificate
    rate_bound: Bound | None


def pursue_ball(
    problem: BallProblem,
    pool: Pool,
    radius: float,
    tol: float | None,
    meter: CostMeter,
    run: FitRun,
) -> BallFit:
    """Take steps in a pool until its own gap is small, price all atoms, and repeat.

    While all atoms together promise more than ``tol``, the next pool holds the atoms of nonzero
    weight and those of the largest prices. The certificate's lower bound is the largest that a
    pricing of all atoms gave, and at least 0, since no loss is negative. Every pool is a stage of
    the checkpoint.
    """
    rounds: list[PoolRound] = []
    first, start = pool, None
    while True:
        compute = partial(_pursue_pool, problem, pool, radius, tol, meter, run, start, rounds)
        last = run.recorded(f"pool-{len(rounds)}", compute)
        rounds.append(last)
        if last.next_rows is not None:
            pool, start = pool.moved(last.next_rows, last.coefficients)
        elif last.path.stop_reason == "time" and not run.clock.over(_TIME_SHARE):
            # An earlier run had less time.
            start = last.coefficients
        else:
            break
    begin = rounds[0]
    rate = None
    if begin.curvature is not None:
        rate = hull_rate_bound(len(begin.path), begin.curvature, begin.excess)
        if not first.complete:
            of_pool = "the distance of f from its minimum over the hull of the pool drawn first"
            rate = replace(rate, quantity=of_pool)
    path = joined_pieces([round_.path for round_ in rounds])
    return BallFit(pool, last.coefficients, path, last.certificate, rate)


def _pursue_pool(
    problem: BallProblem,
    pool: Pool,
    radius: float,
    tol: float | None,
    meter: CostMeter,
    run: FitRun,
    start: Floats | None,
    rounds: Sequence[PoolRound],
) -> PoolRound:
    """Steps in one pool, after the rounds in others, and the prices of all atoms at their end."""
    ball = problem.ball(pool.source, radius, start)
    curvature = None if isinstance(ball, KinkedBall) else ball.curvature
    excess, small = ball.gap, _GAIN * ball.start_value
    stop = HullStop(problem.n_terms, None, tol)
    stop.max_iter -= sum(len(round_.path) for round_ in rounds)
    path, _ = pursue_hull(ball, meter, stop, [stop_in_time(run, _TIME_SHARE)], pool.labels)
    fitted = pool.source.predicted(ball.coefficients)
    upper = problem.value(pool.accuracy.predicted(fitted, ball.coefficients))
    value, gain = float(upper.value), 0.0
    before = (
        (rounds[-1].certificate.upper, rounds[-1].certificate.lower) if rounds else (np.inf, 0.0)
    )
    bound, reason = Rounded.of(before[1]), path.stop_reason
    if pool.complete or reason not in ("interrupted", "time"):
        dual = problem.dual(ball, fitted, pool.complete)
        prices = pool.prices(dual)
        exact = pool.accuracy.prices(prices, dual)
        bound = highest([bound, problem.lower_bound(dual, exact, radius)])
        gain = radius * float(np.abs(prices).max()) - float(dual @ fitted)
    lower = float(bound.low)
    certificate = Certificate.proved(
        joined([upper]),
        joined([bound]),
        np.array([2.0 * ball.start_value]),
        "dual linear programme" if problem.kinked else "Frank-Wolfe",
        over=f"the l1 ball of radius {radius:g} of {pool.over}",
        baseline="predicting 0",
        remedy="the radius is beyond what float64 resolves for these atoms: use a smaller one, or "
        "centre the features",
    )
    gap = certificate.relative_gap
    progress = before[0] - value > small or lower - before[1] > small
    next_rows = None
    if not pool.complete and reason not in ("n_terms", "max_iter", "interrupted", "time"):
        if tol is not None and gap <= tol:
            reason = "tol"
        elif ball.n_terms >= problem.n_terms:
            reason = "n_terms"
        elif gain <= small or not progress:
            reason = "no gain"
        else:
            next_rows = pool.next_rows(ball.coefficients, prices)
    # Within a pool the gap over all atoms is known at its end only.
    gaps = path.gap.copy() if pool.complete else np.full(len(path), np.nan)
    gaps[-1:] = gap
    path = replace(path, gap=gaps, stop_reason=reason)
    return PoolRound(ball.coefficients, path, certificate, excess, curvature, next_rows)


def choose_radius(
    problem: BallProblem,
    source: AtomSource,
    splits: Sequence[tuple[Indices, Indices]],
    tol: float | None,
    run: FitRun,
) -> tuple[Floats, Floats, float]:
    """The radius of least error on rows left out.

    The first radius is a quarter of the weight that the best single atom would get, and each
    further one is twice as large. The search ends when three radii in a row have not lowered the
    error, or when no ball binds. Each fold continues in the next ball from its coefficients in the
    last one.

    Parameters
    ----------
    problem : BallProblem
        Targets, weights and the loss, by which errors are measured as well.
    source : AtomSource
        The atoms.
    splits : list of (train, test)
        Row numbers.
    tol : float or None
        As in the estimator.
    run : FitRun
        Its clock ends the search early, once one radius has been tried.

    Returns
    -------
    radii : array of shape (n_radii,)
        Radii that were tried, increasing.
    errors : array of shape (n_radii, n_folds)
        Mean losses on the rows left out.
    best : float
        The radius of the least mean error.
    """
    folds = [Fold(problem, source, train, test) for train, test in splits]
    share = np.array([problem.weights[test].sum() for _, test in splits])
    first = min(_single_weight(fold.sums) for fold in folds) * _FIRST_RADIUS
    grid = first * _RADIUS_RATIO ** np.arange(_MOST_RADII)
    balls = [fold.ball(float(grid[0])) for fold in folds]
    errors: list[list[float]] = []
    least, since = np.inf, 0
    stop = HullStop(problem.n_terms, _RADIUS_STEPS, max(tol or 0.0, _RADIUS_TOL))
    for radius in grid:
        for ball in balls:
            ball.widen(float(radius))
            pursue_hull(ball, CostMeter(), stop, [stop_in_time(run, 0.5)])
        coefficients = [ball.coefficients for ball in balls]
        errors.append([f.error(w) for f, w in zip(folds, coefficients, strict=True)])
        mean = float(share @ np.array(errors[-1]))
        since = 0 if mean < least else since + 1
        least = min(least, mean)
        slack = all(np.abs(w).sum() < 0.99 * radius for w in coefficients)
        if since >= _RADIUS_PATIENCE or slack or run.stopping or run.clock.over(0.5):
            break
    table = np.array(errors)
    return np.asarray(grid[: len(table)]), table, float(grid[int(np.argmin(table @ share))])


def _single_weight(sums: AtomSums) -> float:
    """The absolute weight of the atom that lowers the error most by itself."""
    alive = sums.diagonal > 0
    if not alive.any() or not np.any(sums.linear):
        return 1.0
    gain = np.where(alive, sums.linear**2 / np.where(alive, sums.diagonal, 1.0), 0.0)
    best = int(gain.argmax())
    return float(abs(sums.linear[best]) / sums.diagonal[best])
