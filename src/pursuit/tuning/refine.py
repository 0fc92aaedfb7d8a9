"""Moving the chosen points away from the rows, by stochastic gradient steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrs, spotrs

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.greedy import Problem
from pursuit.kernels import KernelGradient
from pursuit.linalg import (
    CGSolution,
    Workers,
    conjugate_gradients,
    damped_cholesky,
    panel_cholesky,
)
from pursuit.rows import Sample, as_rows, draw_rows

Tile: TypeAlias = NDArray[Any]
"""A matrix of float64 or float32."""

BATCH_ROWS = 4096
"""Rows per step. More: slower steps with less random gradients."""

_TRIAL_STEPS, _TRIAL_SHARE = 20, 5
"""Moves are tried for so many steps, or one in so many of all. More: fewer wrong verdicts."""
_RATE = 0.1
_DECAYS = 0.9, 0.99
_LEAST_CHUNK = 64
_PANEL = 128  # columns per product: narrow enough for all threads to have some
_SINGLE_FROM = 256  # points: below, float64 costs little, and steps do not depend on units
_FETCHED_NUMBERS = 1 << 22
_SINGLE_PIVOT = 1e-5
"""float32 sums do not resolve pivots below this part of the largest diagonal entry. Where there are
some, so much is added to the diagonal, and a few conjugate gradients take most of it back."""
_RESTORING = 4
"""Conjugate gradients. Fewer: steps as of a larger ridge; more: hardly another step."""


@dataclass(frozen=True)
class Way:
    """How a step is computed.

    Attributes
    ----------
    tiles, factor : types
        Of kernel values and their products, and of the factor of H.
    damped : bool
        Whether the factor is that of H with a larger diagonal, which only preconditions.
    """

    tiles: type[np.floating[Any]]
    factor: type[np.floating[Any]]
    damped: bool = False

    def solve(
        self, H: Tile, b: Floats, product: Callable[[Floats], Floats], workers: Workers
    ) -> Floats | None:
        """H⁻¹b from the lower triangle of H, which is overwritten; None if it is too inaccurate.

        In float64 a ridge is added if points that coincide make H singular.
        """
        if self.tiles is np.float64:
            lower = np.tril(H)
            factor = damped_cholesky(lower + np.tril(lower, -1).T)
            return np.asarray(dpotrs(factor, b, lower=1)[0])
        diagonal = np.diag_indices_from(H)
        least = _SINGLE_PIVOT * float(H[diagonal].max())
        if self.damped:
            H[diagonal] += self.factor(least)
        if panel_cholesky(H, workers) is None:
            return None
        if not self.damped:
            if H[diagonal].min() ** 2 < least:
                return None
            return np.asarray(dpotrs(H.T, b, lower=0)[0])

        def precondition(v: Floats) -> Floats:
            return np.asarray(spotrs(H.T, v.astype(np.float32), lower=0)[0], dtype=np.float64)

        start = precondition(b)
        begin = CGSolution(start, b - product(start), 0)
        return conjugate_gradients(product, b, begin, precondition, steps=_RESTORING).v


SINGLE, DAMPED, DOUBLE = (
    Way(np.float32, np.float64),
    Way(np.float32, np.float32, damped=True),
    Way(np.float64, np.float64),
)
"""From the fastest way to the most robust one."""


@dataclass(frozen=True)
class Mover:
    """Mini-batch Adam on SB01's P in the positions Z of the basis, hyper-parameters fixed.

    On a batch of rows, with λ = σ² times the batch's share of all rows,

        P(Z) = min_β ½Σw(y - K_Zβ)² + ½λβ'K_ZZβ

    and by the envelope theorem its gradient in Z depends only on r = y - K_Zβ and β:
    ∂P/∂k(x_i, z_j) = -w_i r_i β_j and ∂P/∂K_ZZ = ½λββ'. A step is one pass over the batch. Steps
    are taken in units of the length scales and decay to zero along a cosine.

    Attributes
    ----------
    problem : Problem
        What is minimised.
    gradient : KernelGradient
        Derivatives of its kernel.
    units : array of shape (n_features,)
        Length scales.
    rows : array of int
        Rows that may be drawn.
    """

    problem: Problem
    gradient: KernelGradient
    units: Floats
    rows: Indices

    def move(
        self,
        Z: Floats,
        steps: int,
        seconds: float = np.inf,
        reserve: float = 0.0,
        promising: Callable[[Floats], bool] = lambda Z: True,
    ) -> tuple[Floats, int, bool]:
        """The points after some steps, the number of steps, and whether time has ended them.

        Time ends them if ``seconds`` would run out, less the time of ``reserve`` steps. The time of
        the second step gives the estimate: the first one also fetches rows. After a fifth of the
        steps, but at least 20, they also end unless the points are ``promising``.
        """
        Z = np.array(Z, dtype=np.float64)
        begin = warm = time.perf_counter()
        asked = steps
        first, second = np.zeros_like(Z), np.zeros_like(Z)
        ways = [SINGLE, DAMPED, DOUBLE] if len(Z) >= _SINGLE_FROM else [DOUBLE]
        for step, batch in enumerate(self._batches(steps, Z.shape[1])):
            if step == 1:
                warm = time.perf_counter()
            elif step == 2:
                now = time.perf_counter()
                further = (seconds - (now - begin)) / (now - warm) - reserve
                steps = int(min(steps, 2 + max(0.0, further)))
            if step == steps:
                break
            if step == max(_TRIAL_STEPS, steps // _TRIAL_SHARE) and not promising(Z):
                return Z, step, False
            slope = self.slope(Z, batch, ways[0])
            while slope is None:
                ways = ways[1:]  # rounding has made H indefinite
                slope = self.slope(Z, batch, ways[0])
            slope *= self.units
            first += (1 - _DECAYS[0]) * (slope - first)
            second += (1 - _DECAYS[1]) * (slope**2 - second)
            mean = first / (1 - _DECAYS[0] ** (step + 1))
            spread = np.sqrt(second / (1 - _DECAYS[1] ** (step + 1)))
            rate = 0.5 * _RATE * (1 + np.cos(np.pi * step / steps))
            Z -= rate * self.units * mean / (spread + 1e-12 * spread.max() + 1e-300)
        return Z, steps, steps < asked

    def _batches(self, steps: int, n_features: int) -> Iterator[Sample]:
        """Rows of each step; the rows of many steps are fetched together, in one read of a file."""
        size = min(BATCH_ROWS, len(self.rows))
        at_once = max(1, _FETCHED_NUMBERS // max(size * n_features, 1))
        drawn = [draw_rows(len(self.rows), size, self.problem.rng) for _ in range(steps)]
        for first in range(0, steps, at_once):
            rows = [self.rows[batch] for batch in drawn[first : first + at_once]]
            index = np.unique(np.concatenate(rows))
            fetched = self.problem.sample.take(index)
            items = as_rows(fetched.rows.take(np.arange(len(index))))
            sample = Sample(items, fetched.targets, fetched.weights)
            for batch in rows:
                yield sample.take(np.searchsorted(index, batch))

    def slope(self, Z: Floats, batch: Sample, way: Way = DOUBLE) -> Floats | None:
        """∂P/∂Z on a batch; None if this way is too inaccurate."""
        problem, n, dtype = self.problem, len(Z), way.tiles
        X = batch.rows.take(np.arange(batch.n_rows))
        X = np.asarray(X.todense() if hasattr(X, "todense") else X)
        columns = problem.kernel.columns(Z, dtype=dtype)
        chunks = Workers.slices(batch.n_rows, max(_LEAST_CHUNK, limits.TILE_ENTRIES // n))
        roots = np.sqrt(batch.weights).astype(dtype)[:, None]
        y = roots * batch.targets.astype(dtype)
        K = np.empty((batch.n_rows, n), dtype)

        def fill(rows: slice) -> None:
            columns(X[rows], out=K[rows])
            K[rows] *= roots[rows]

        problem.workers.map(fill, chunks)
        ridge = problem.noise * batch.n_rows / problem.sample.n_rows
        H, b = np.empty((n, n), way.factor), np.empty((n, y.shape[1]))
        own = np.empty((n, n), dtype)

        def add_up(panel: slice) -> None:
            """λK_ZZ, K'K + λK_ZZ on and below the diagonal of H, and K'y."""
            A = K[:, panel]
            columns(Z[panel], out=own[panel])
            own[panel] *= dtype(ridge)
            H[panel, : panel.stop] = own[panel, : panel.stop]
            H[panel, : panel.stop] += A.T @ K[:, : panel.stop]
            b[panel] = A.T @ y

        def product(v: Floats) -> Floats:
            """(K'K + λK_ZZ)v, without the rounding of K'K that small pivots would drown in."""
            thin = v.astype(dtype)
            sums = problem.workers.map(lambda rows: K[rows].T @ (K[rows] @ thin), chunks)
            return np.asarray(np.sum(sums, axis=0, dtype=np.float64) + own @ thin)

        # The longest panel first: threads then end at nearly the same time.
        problem.workers.map(add_up, Workers.slices(n, _PANEL)[::-1])
        beta = way.solve(H, b, product, problem.workers)
        if beta is None:
            return None
        thin = beta.astype(dtype)
        # Residuals may suffer from cancellation; their products with slopes are only summed.
        single = np.float32 if n >= _SINGLE_FROM else dtype
        right = beta.astype(single)

        def pull(rows: slice) -> Floats:
            residual = y[rows] - K[rows] @ thin
            left = -(roots[rows] * residual).astype(single)
            return np.asarray(self.gradient.points_of(X[rows], Z, left, right), dtype=np.float64)

        def pull_together(rows: slice) -> Floats:
            """K_ZZ holds every pair twice: moving z_j changes row j and column j."""
            left = (ridge * beta[rows]).astype(single)
            return np.asarray(self.gradient.points_of(Z[rows], Z, left, right), dtype=np.float64)

        slopes = problem.workers.map(pull, chunks)
        slopes += problem.workers.map(pull_together, Workers.slices(n, _PANEL))
        return np.asarray(np.sum(slopes, axis=0))
