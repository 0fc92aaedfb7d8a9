"""Moving the chosen points away from the rows, by stochastic gradient steps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from pursuit._types import Floats, Indices
from pursuit.greedy import Problem, kernel_matrix
from pursuit.kernels import KernelGradient
from pursuit.linalg import Workers, damped_cholesky
from pursuit.rows import Sample, as_rows, draw_rows

BATCH_ROWS = 4096
"""Rows per step. More: slower steps with less random gradients."""

_RATE = 0.1
_DECAYS = 0.9, 0.99
_CHUNK = 512
_SINGLE_FROM = 256  # points: below, float64 costs little, and steps do not depend on units
_FETCHED_NUMBERS = 1 << 22
_SINGLE_PIVOT = 1e-5
"""float32 sums do not resolve pivots below this part of the largest diagonal entry."""


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
        self, Z: Floats, steps: int, seconds: float = np.inf, reserve: float = 0.0
    ) -> tuple[Floats, int]:
        """The points after some steps, and the number of steps.

        There are fewer than ``steps`` if ``seconds`` would run out, less the time of ``reserve``
        steps. The time of the second step gives the estimate: the first one also fetches rows.
        """
        Z = np.array(Z, dtype=np.float64)
        begin = warm = time.perf_counter()
        first, second = np.zeros_like(Z), np.zeros_like(Z)
        dtype: type[np.floating[Any]] = np.float32 if len(Z) >= _SINGLE_FROM else np.float64
        for step, batch in enumerate(self._batches(steps, Z.shape[1])):
            if step == 1:
                warm = time.perf_counter()
            elif step == 2:
                now = time.perf_counter()
                further = (seconds - (now - begin)) / (now - warm) - reserve
                steps = int(min(steps, 2 + max(0.0, further)))
            if step == steps:
                break
            slope = self.slope(Z, batch, dtype)
            if slope is None:
                # Rounding has made H indefinite: continue in float64.
                dtype = np.float64
                slope = self.slope(Z, batch, dtype)
            assert slope is not None
            slope *= self.units
            first += (1 - _DECAYS[0]) * (slope - first)
            second += (1 - _DECAYS[1]) * (slope**2 - second)
            mean = first / (1 - _DECAYS[0] ** (step + 1))
            spread = np.sqrt(second / (1 - _DECAYS[1] ** (step + 1)))
            rate = 0.5 * _RATE * (1 + np.cos(np.pi * step / steps))
            Z -= rate * self.units * mean / (spread + 1e-12 * spread.max() + 1e-300)
        return Z, steps

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

    def slope(
        self, Z: Floats, batch: Sample, dtype: type[np.floating[Any]] = np.float64
    ) -> Floats | None:
        """∂P/∂Z on a batch, from tiles of the given type; None if float32 is too inaccurate."""
        problem = self.problem
        X = batch.rows.take(np.arange(batch.n_rows))
        X = np.asarray(X.todense() if hasattr(X, "todense") else X)
        columns = problem.kernel.columns(Z, dtype=dtype)
        chunks = Workers.slices(batch.n_rows, _CHUNK)
        roots = np.sqrt(batch.weights).astype(dtype)[:, None]
        y = roots * batch.targets.astype(dtype)
        tiles = problem.workers.map(lambda rows: columns(X[rows]) * roots[rows], chunks)
        sums = problem.workers.map(
            lambda pair: (pair[0].T @ pair[0], pair[0].T @ y[pair[1]]),
            list(zip(tiles, chunks, strict=True)),
        )
        K_ZZ = kernel_matrix(problem.kernel, Z, problem.workers)
        ridge = problem.noise * batch.n_rows / problem.sample.n_rows
        H = ridge * K_ZZ
        b = np.zeros((len(Z), y.shape[1]))
        for gram, cross in sums:
            H += gram
            b += cross
        beta = _solve(H, b, may_fail=dtype is np.float32)
        if beta is None:
            return None
        thin = beta.astype(dtype)
        # Residuals may suffer from cancellation; their products with slopes are only summed.
        single = np.float32 if len(Z) >= _SINGLE_FROM else dtype

        def pull(pair: tuple[Floats, slice]) -> Floats:
            tile, rows = pair
            residual = y[rows] - tile @ thin
            W = (roots[rows] * residual).astype(single) @ -beta.astype(single).T
            return np.asarray(self.gradient.points(X[rows], Z, W), dtype=np.float64)

        slope = np.sum(problem.workers.map(pull, list(zip(tiles, chunks, strict=True))), axis=0)
        # K_ZZ holds every pair twice: moving z_j changes row j and column j.
        slope += self.gradient.points(Z, Z, ridge * (beta @ beta.T))
        return np.asarray(slope)


def _solve(H: Floats, b: Floats, *, may_fail: bool) -> Floats | None:
    """H⁻¹b; a small ridge is added if points that coincide make H singular."""
    if may_fail:
        factor, info = dpotrf(H, lower=1)
        if info != 0 or np.diag(factor).min() ** 2 < _SINGLE_PIVOT * float(np.diag(H).max()):
            return None
    else:
        factor = damped_cholesky(H)
    return np.asarray(dpotrs(factor, b, lower=1)[0])
