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
_PANEL = 256  # columns per product: narrow enough for all threads to have some
_SINGLE_FROM = 256  # points: below, float64 costs little, and steps do not depend on units
_FETCHED_NUMBERS = 1 << 22
_SINGLE_PIVOT = 1e-5
"""float32 sums do not resolve pivots below this part of the largest diagonal entry. Where there are
some, so much is added to the diagonal, and a few conjugate gradients take most of it back."""
_RESTORING = 4, 170
"""Conjugate gradients: at least so many, and one for so many points. Fewer: steps as of a larger
ridge (four for 2 048 points on kin40k: an error 6 % higher); more: hardly another step."""


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
        least, points = _RESTORING
        steps = max(least, len(H) // points)
        return conjugate_gradients(product, b, begin, precondition, steps=steps).v


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
        known = columns.knows_fall(y.shape[1])

        def fill(points: Floats, out: Tile, factor: Any) -> Tile | None:
            """Kernel values times a factor, and the tile their derivatives are made of if any."""
            fall = columns.with_fall(points, out) if known else None
            if fall is None:
                columns(points, out=out)
            elif fall is not out:
                fall *= factor
            out *= factor
            return fall

        falls = problem.workers.map(lambda rows: fill(X[rows], K[rows], roots[rows]), chunks)
        ridge = problem.noise * batch.n_rows / problem.sample.n_rows
        H, b = np.empty((n, n), way.factor), np.empty((n, y.shape[1]))
        own, panels = np.empty((n, n), dtype), Workers.slices(n, _PANEL)
        own_falls = problem.workers.map(
            lambda panel: fill(Z[panel], own[panel], dtype(ridge)), panels
        )

        def add_up(rows: slice, others: slice) -> None:
            """A block of K'K + λK_ZZ, and K'y beside those on the diagonal."""
            A = K[:, rows]
            H[rows, others] = own[rows, others]
            H[rows, others] += A.T @ K[:, others]
            if rows == others:
                b[rows] = A.T @ y

        def product(v: Floats) -> Floats:
            """(K'K + λK_ZZ)v, without the rounding of K'K that small pivots would drown in."""
            thin = v.astype(dtype)
            sums = problem.workers.map(lambda rows: K[rows].T @ (K[rows] @ thin), chunks)
            return np.asarray(np.sum(sums, axis=0, dtype=np.float64) + own @ thin)

        # BLAS forms half of a product of a matrix with itself. The longest block comes first:
        # threads then end at nearly the same time.
        blocks = [(rows, slice(rows.start)) for rows in panels[:0:-1]]
        blocks += [(rows, rows) for rows in panels]
        problem.workers.map(lambda block: add_up(*block), blocks)
        beta = way.solve(H, b, product, problem.workers)
        if beta is None:
            return None
        thin = beta.astype(dtype)
        # Residuals may suffer from cancellation; their products with slopes are only summed.
        single = np.float32 if n >= _SINGLE_FROM else dtype

        def pull(points: Floats, fall: Tile | None, left: Tile, factor: Any) -> Floats:
            """Slopes from W = left β' times a factor, which a tile has already."""
            if fall is not None:
                return columns.pull(points, fall, left, beta)
            W = (factor * left).astype(single) @ beta.T.astype(single)
            return np.asarray(self.gradient.points(points, Z, W), dtype=np.float64)

        def pull_rows(rows: slice, fall: Tile | None) -> Floats:
            return pull(X[rows], fall, K[rows] @ thin - y[rows], roots[rows])

        def pull_together(panel: slice, fall: Tile | None) -> Floats:
            """K_ZZ holds every pair twice: moving z_j changes row j and column j."""
            return pull(Z[panel], fall, thin[panel], ridge)

        slopes = problem.workers.map(
            lambda part: pull_rows(*part), list(zip(chunks, falls, strict=True))
        )
        slopes += problem.workers.map(
            lambda part: pull_together(*part), list(zip(panels, own_falls, strict=True))
        )
        return np.asarray(np.sum(slopes, axis=0))
