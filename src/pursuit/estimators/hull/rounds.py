"""Regression over an l1 ball of more atoms than a pool holds: solve, price all atoms, repeat."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate
from pursuit.estimators.hull.atoms import AtomSource, kernel_source
from pursuit.estimators.hull.kinked import KinkedBall
from pursuit.estimators.hull.problem import BallProblem
from pursuit.estimators.hull.search import HullStop, pursue_hull
from pursuit.gram import kernel_product, kernel_transpose_times
from pursuit.greedy import Interrupted, Meter, Path
from pursuit.kernels import CountingKernel
from pursuit.linalg import Workers
from pursuit.rows import Sample

_GAIN = 1e-12
"""Atoms outside the pool that promise less than this part of f(0) are not asked for."""


@dataclass(frozen=True)
class RowAtoms:
    """Kernel functions at all rows: too many to work with, but not to price.

    Attributes
    ----------
    sample : Sample
        Rows, targets and weights.
    kernel : CountingKernel
        One kernel, or several beside each other.
    n_kernels : int
        How many.
    size : int
        Rows whose kernel functions join a pool at a time.
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

        Rows are read in blocks, and once for each block of centres; by symmetry, which a positive
        definite kernel has, half of the kernel values do. Nothing of size n_rows² is stored.
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

    def pool(self, index: Indices, over: str) -> Pool:
        """The kernel functions at some rows."""
        points = self.sample.rows.take(index)
        source = kernel_source(self.sample, self.kernel, points, self.n_kernels, self.workers)
        return Pool(source, np.tile(index, self.n_kernels), over, points, self)


@dataclass(frozen=True)
class Pool:
    """Atoms to choose from, and how to price all that the user named.

    Attributes
    ----------
    source : AtomSource
        Their values, and sums over rows.
    labels : array of shape (n_atoms,)
        Row numbers of centres, -1 for points of the user's, or numbers of features.
    over : str
        What the certificate is about, in words.
    points : items or None
        Centres; None for features.
    everything : RowAtoms or None
        All atoms; None where the pool holds them.
    """

    source: AtomSource
    labels: Indices
    over: str
    points: Any = None
    everything: RowAtoms | None = None

    def prices(self, dual: Floats) -> Floats:
        """Prices of all atoms that the user named."""
        atoms = self.source if self.everything is None else self.everything
        return atoms.prices(dual)

    def refilled(self, coefficients: Floats, prices: Floats) -> tuple[Pool, Floats]:
        """The atoms of nonzero weight with those of the largest prices, and the weights there."""
        assert self.everything is not None
        held = np.flatnonzero(coefficients)
        n_kernels = self.everything.n_kernels
        kept = np.unique(self.labels[held])
        worth = np.abs(prices).max(axis=0)
        worth[kept] = -1.0
        best = np.argsort(-worth, kind="stable")[: self.everything.size]
        index = np.union1d(kept, best[worth[best] > 0.0])
        pool = self.everything.pool(index, self.over)
        kernels = held // (len(self.labels) // n_kernels)
        start = np.zeros(len(pool.labels))
        start[kernels * len(index) + np.searchsorted(index, self.labels[held])] = coefficients[held]
        return pool, start


@dataclass(frozen=True)
class BallFit:
    """What was found in an l1 ball.

    Attributes
    ----------
    pool : Pool
        The last atoms to choose from.
    coefficients : array of shape (n_atoms,)
        Their weights.
    path : Path
        All steps; the gap over all atoms where it was computed.
    certificate : Certificate
        Over all atoms.
    curvature : float or None
        M for the first pool; None for a loss with kinks.
    excess : float
        A bound on f(0) less the minimum over the first pool.
    n_first : int
        Steps in the first pool.
    """

    pool: Pool
    coefficients: Floats
    path: Path
    certificate: Certificate
    curvature: float | None
    excess: float
    n_first: int


def pursue_ball(
    problem: BallProblem,
    pool: Pool,
    radius: float,
    tol: float | None,
    meter: Meter,
    interrupted: Interrupted,
) -> BallFit:
    """Steps in a pool until its own gap is small; then all atoms are priced.

    Where they promise more than ``tol``, those of the largest prices are the next pool, beside the
    atoms of nonzero weight. The certificate's lower bound is the largest that a pricing of all
    atoms gave, and 0, which no loss falls below.
    """
    objective = problem.objective(pool.source, radius)
    curvature = None if isinstance(objective, KinkedBall) else objective.curvature
    excess, start_value = objective.gap, objective.start_value
    small = _GAIN * start_value
    stop = HullStop(problem.n_terms, None, tol)
    most, paths = stop.max_iter, []
    value, lower = np.inf, 0.0
    while True:
        path, alone = pursue_hull(objective, meter, stop, [interrupted], pool.labels)
        complete, before = pool.everything is None, (value, lower)
        fitted = pool.source.predicted(objective.coefficients)
        value = problem.value(fitted)
        gain = 0.0
        if complete:
            lower = max(lower, alone.lower)
        if complete or not interrupted.requested:
            dual = problem.dual(objective, fitted)
            prices = pool.prices(dual)
            lower = max(lower, problem.lower_bound(dual, prices, radius))
            gain = radius * float(np.abs(prices).max()) - float(dual @ fitted)
        certificate = Certificate(
            np.array([value]),
            np.array([min(lower, value)]),
            np.array([2.0 * start_value]),
            "dual linear programme" if problem.kinked else "Frank-Wolfe",
            over=pool.over,
        )
        paths.append(_with_gap(path, certificate.relative_gap, complete))
        reason = path.stop_reason
        if complete or reason in ("n_terms", "max_iter", "interrupted"):
            break
        if tol is not None and certificate.relative_gap <= tol:
            reason = "tol"
            break
        if objective.n_terms >= problem.n_terms:
            reason = "n_terms"
            break
        progress = before[0] - value > small or lower - before[1] > small
        if gain <= small or not progress:
            reason = "no gain"
            break
        pool, start = pool.refilled(objective.coefficients, prices)
        objective = problem.objective(pool.source, radius, start)
        stop = HullStop(problem.n_terms, most - sum(map(len, paths)), tol)
    return BallFit(
        pool,
        objective.coefficients,
        replace(Path.joined(paths), stop_reason=reason),
        certificate,
        curvature,
        excess,
        len(paths[0]),
    )


def _with_gap(path: Path, gap: float, complete: bool) -> Path:
    """The path with the last gap as certified; gaps over a pool alone are not known for all."""
    gaps = path.gap.copy() if complete else np.full(len(path), np.nan)
    gaps[-1:] = gap
    return replace(path, gap=gaps)
