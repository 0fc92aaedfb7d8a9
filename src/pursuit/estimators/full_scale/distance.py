"""How far predictions are from those of the exact Gaussian process, with bounds that are proven.

B = K + σ²W⁻¹ is the covariance of the targets y of the rows, and k = k(x) theirs with a new value.
The exact process has the mean k'B⁻¹y and the variance k(x,x) - k'B⁻¹k. For *any* weights c, c'y
predicts with the expected squared error V_c = k(x,x) - 2c'k + c'Bc under the exact process, and::

    V_c - V_exact = E(c'y - exact mean)² = ρ'B⁻¹ρ,  ρ = k - Bc,

by completing the square, since the exact mean's error is uncorrelated with y. An approximate
solution h of Bh = ρ with the residual r = ρ - Bh brackets it::

    (ρ + r)'h ≤ ρ'B⁻¹ρ = (ρ + r)'h + r'B⁻¹r,

and with a ≈ B⁻¹y and s = y - Ba the exact mean is, by substitution of B⁻¹y = a + B⁻¹s::

    k'B⁻¹y = (c + h)'y + r'a + r'B⁻¹s,  |r'B⁻¹s| ≤ √(r'B⁻¹r · s'B⁻¹s),

so that its error is the product of two small ones, and one solution for y serves all points. What
bounds r'B⁻¹r and s'B⁻¹s is in `exact_system`. All of this is scaled by W^½ there and here.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from pursuit._types import Floats
from pursuit.estimators.full_scale.linear_map import LinearMap
from pursuit.estimators.full_scale.near_rows import NearRows
from pursuit.estimators.gp.exact import DIRECT_ROWS
from pursuit.estimators.gp.exact_system import (
    DirectSystem,
    ExactSystem,
    IterativeSystem,
    query_batches,
    system_product,
    system_root,
)
from pursuit.estimators.inputs import TargetScale
from pursuit.gram.arithmetic import RowArithmetic
from pursuit.gram.products import summed_terms
from pursuit.greedy import CostMeter, Problem
from pursuit.kernels import CountingKernel, Extent
from pursuit.linalg import Iterate, Workers, column_dots
from pursuit.rounding import UNIT, KernelError, gamma
from pursuit.rows import Sample, as_rows, concat, row_groups

_NEAR = 16.0 * UNIT
"""Share of a bound by which its own computation may be rounded."""

_SAME_MEAN = 1e-3
"""The model's mean is taken to be linear in the targets if it is, to this share of the noise's
standard deviation; features of near rows may be float32."""


@dataclass(frozen=True)
class ExactDistance:
    """Predictions of a model and bounds on those of the exact Gaussian process; print it.

    The exact process has the model's kernel and noise, and all rows. Bounds hold for every point.
    Arrays have the shape of the predictions, and the units of y or, where squared, of y².

    Attributes
    ----------
    mean, std : arrays
        Predictions of the model; ``std`` is that of an observation, as calibrated.
    mean_lower, mean_upper : arrays
        Bounds on the mean of the exact process.
    std_lower, std_upper : arrays
        Bounds on its standard deviation of an observation, without any calibration.
    squared_distance_lower, squared_distance_upper : arrays or None
        Bounds on the expected squared distance of the two means, over targets drawn from the exact
        process. None where the model's mean is no linear function of the targets passed, because
        it was fitted to others.
    n_iter : int
        Conjugate-gradient steps, all solutions together.
    """

    mean: Floats
    std: Floats
    mean_lower: Floats
    mean_upper: Floats
    std_lower: Floats
    std_upper: Floats
    squared_distance_lower: Floats | None
    squared_distance_upper: Floats | None
    n_iter: int

    @property
    def mean_distance(self) -> Floats:
        """An upper bound on the distance of the two means at every point."""
        return np.maximum(np.abs(self.mean - self.mean_lower), np.abs(self.mean - self.mean_upper))

    @property
    def std_distance(self) -> Floats:
        """An upper bound on the distance of the two standard deviations at every point."""
        return np.maximum(np.abs(self.std - self.std_lower), np.abs(self.std - self.std_upper))

    def __str__(self) -> str:
        away = self.mean_distance
        share = np.sqrt(np.mean((away / self.std_upper) ** 2))
        expected = ""
        if self.squared_distance_upper is not None:
            typical = np.sqrt(self.squared_distance_upper.mean())
            expected = f", where the process itself expects {typical:.3g}"
        return (
            f"exact Gaussian process at {len(self.mean)} points: its mean is at most "
            f"{np.sqrt(np.mean(away**2)):.3g} away (root mean square; {share:.2g} of its standard "
            f"deviations; largest {away.max():.3g}){expected}; its standard deviation is "
            f"{self.std_lower.mean():.3g} to {self.std_upper.mean():.3g} on average, the model's "
            f"{self.std.mean():.3g}"
        )


@dataclass(frozen=True)
class PointBounds:
    """What is proven of the exact process at some points, in normalised units.

    Attributes
    ----------
    mean, radius : arrays of shape (n_points, n_outputs)
        The exact mean is at most ``radius`` from ``mean``.
    variance : pair of arrays of shape (n_points,)
        Lower and upper bound on the exact variance, without noise.
    start : array of shape (n_points, n_outputs)
        c'y for the weights c that the solution started from.
    excess : pair of arrays of shape (n_points,)
        Lower and upper bound on V_c - V_exact.
    n_iter : int
        Steps taken.
    """

    mean: Floats
    radius: Floats
    variance: tuple[Floats, Floats]
    start: Floats
    excess: tuple[Floats, Floats]
    n_iter: int

    @classmethod
    def joined(cls, parts: list[PointBounds], n_iter: int) -> PointBounds:
        """The bounds of all batches; ``n_iter`` steps came before them."""
        return cls(
            np.concatenate([part.mean for part in parts]),
            np.concatenate([part.radius for part in parts]),
            _pair([part.variance for part in parts]),
            np.concatenate([part.start for part in parts]),
            _pair([part.excess for part in parts]),
            n_iter + sum(part.n_iter for part in parts),
        )

    def distance(
        self, mean: Floats, std: Floats, noise: float, scale: TargetScale
    ) -> ExactDistance:
        """The same for the predictions of a model, in units of y."""

        def in_units(per_point: Floats, unit: Floats) -> Floats:
            return (per_point[:, None] * unit).reshape(mean.shape)

        means = scale.normalize(mean.reshape(self.mean.shape))
        linear = np.abs(means - self.start).max(initial=0.0) <= _SAME_MEAN * np.sqrt(noise)
        squared = [in_units(part, scale.scale**2) if linear else None for part in self.excess]
        stds = [in_units(np.sqrt(part + noise), scale.scale) for part in self.variance]
        # The way back to the units of y is rounded as well.
        back = (self.radius + _NEAR * (np.abs(self.mean) + self.radius)) * scale.scale
        moved = np.abs(scale.mean) + np.abs(scale.restore(self.mean))
        reach = (back + _NEAR * moved).reshape(mean.shape)
        middle = scale.restore(self.mean).reshape(mean.shape)
        return ExactDistance(
            mean=mean,
            std=std,
            mean_lower=middle - reach,
            mean_upper=middle + reach,
            std_lower=(1.0 - _NEAR) * stds[0],
            std_upper=(1.0 + _NEAR) * stds[1],
            squared_distance_lower=squared[0],
            squared_distance_upper=squared[1],
            n_iter=self.n_iter,
        )


def _pair(pairs: list[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    lower, upper = (np.concatenate(bounds) for bounds in zip(*pairs, strict=True))
    return lower, upper


def with_targets_of(kept: NearRows, given: NearRows) -> NearRows | None:
    """The kept rows with the targets of the given ones; None if rows or weights are others."""
    if kept.n_rows != given.n_rows:
        return None
    group = row_groups([concat(kept.items, given.items)], 2 * kept.n_rows)
    place = group[kept.n_rows :]
    if place.max() >= kept.n_rows or not np.allclose(given.weights, kept.weights[place]):
        return None
    targets = np.empty_like(given.targets)
    targets[place] = given.targets
    return replace(kept, targets=targets)


class ExactProcess:
    """Bounds mean and variance of the exact process at new points.

    Parameters
    ----------
    problem : Problem
        Rows, kernel and noise.
    tol : float
        Points are solved for until the exact mean is known to ``tol`` times the standard deviation
        of an observation, and this standard deviation to 1 + ``tol`` times itself.
    max_iter : int
        Most steps for the targets, and for each batch of points.
    dtype : float32 or float64
        Type of the tiles between two looks at the float64 residual.
    """

    def __init__(self, problem: Problem, tol: float, max_iter: int, dtype: Any) -> None:
        self.problem, self._tol, self._max_iter = problem, tol, max_iter
        sample = problem.sample
        self._system: ExactSystem = (
            DirectSystem.build(problem)
            if sample.n_rows <= DIRECT_ROWS
            else IterativeSystem.build(problem, "auto", dtype)
        )
        self._known = RowArithmetic.of(sample.rows, problem.kernel, problem.workers)
        roots = np.sqrt(sample.weights) * self._known.sizes
        self._roots, self._trace = roots, float(roots @ roots) * (1.0 + gamma(2 * len(roots)))
        self._rate = self._rate_of(self._known.error)
        self._rhs = system_root(problem) * sample.targets
        # Points are done when r'B⁻¹r is about 2 tol V: then this makes the radius tol √V.
        solved = self._system.approximate(self._rhs, lambda now: now.energy <= 0.5 * tol, max_iter)
        self.n_iter = solved.steps
        self._alpha = solved.v
        rounding = self._rounding(solved.v) + gamma(8) * _norms(self._rhs)
        self._left = np.sqrt(solved.energy) + rounding / np.sqrt(problem.noise)

    @classmethod
    def build(
        cls,
        kept: NearRows,
        kernel: CountingKernel,
        noise: float,
        workers: Workers,
        tol: float,
        max_iter: int,
        dtype: Any,
    ) -> ExactProcess:
        """The exact process of some rows."""
        sample = Sample(as_rows(kept.items), kept.targets, kept.weights)
        # Landmarks change the number of steps alone, so they need no seed of the user's.
        rng = np.random.default_rng(0)
        problem = Problem(sample, kernel, noise, workers, CostMeter(kernel), rng)
        return cls(problem, tol, max_iter, dtype)

    def bounds(self, queries: Any, linear: LinearMap | None) -> PointBounds:
        """Bounds at the queries, a batch at a time, from the weights of a linear map or from 0."""
        problem, parts = self.problem, []
        for where, kappa, prior in query_batches(problem, queries):
            start = np.zeros_like(kappa)
            if linear is not None:
                start = linear.columns(queries[where], problem.workers) / system_root(problem)
            far = self._known.extent.joined(Extent.of(queries[where]))
            rate = self._rate_of(replace(self._known, extent=far).error)
            parts.append(self.at(kappa, prior, start, rate))
        if not all(self._met(part) for part in parts):
            warnings.warn(
                f"some bounds are further apart than tol={self._tol:g} after "
                f"max_iter={self._max_iter} iterations: they hold, but raise max_iter to bring "
                "them together.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return PointBounds.joined(parts, self.n_iter)

    @property
    def _width(self) -> float:
        return (1.0 + self._tol) ** 2 - 1.0

    def at(self, kappa: Floats, prior: Floats, start: Floats, rate: float) -> PointBounds:
        """Bounds for points with W^½k(x), k(x, x) and W^-½c, one column or entry per point.

        Values between the points and the rows are known to ``rate``.
        """
        noise, sigma = self.problem.noise, np.sqrt(self.problem.noise)
        rho = kappa - system_product(self.problem, start)
        # What rounding may have moved κ, and ρ, by, as norms; and V_c by, as a number.
        given = rate * np.sqrt(prior * self._trace)
        first = self._rounding(start) + given + gamma(4) * (_norms(kappa) + _norms(rho))
        sums = gamma(2 * len(kappa) + 16)
        error = (first + given) * _norms(start) + rate * prior
        error += sums * (prior + column_dots(np.abs(start), np.abs(kappa) + np.abs(rho)))
        V = prior - column_dots(start, kappa + rho)
        least_left = self._left.max(initial=0.0)

        def done(now: Iterate) -> NDArray[np.bool_]:
            gained = column_dots(rho[:, now.columns] + now.residual, now.v)
            rest = np.maximum(V[now.columns] - gained - now.energy, 0.0) + noise
            narrow = np.sqrt(now.energy) * least_left <= self._tol * np.sqrt(rest)
            return np.asarray((now.energy <= self._width * rest) & narrow)

        found = self._system.approximate(rho, done, self._max_iter)
        second = self._rounding(found.v) + gamma(8) * _norms(rho)
        rest = (np.sqrt(found.energy) + (first + second) / sigma) * (1.0 + sums)
        gained = column_dots(rho + found.residual, found.v)
        terms = column_dots(np.abs(rho) + np.abs(found.residual), np.abs(found.v))
        slack = second * _norms(found.v) + sums * terms
        lower = np.sqrt(np.maximum(gained - slack, 0.0)) - first / sigma
        upper = np.sqrt(np.maximum(gained + slack, 0.0) + rest**2) + first / sigma
        excess = (1.0 - _NEAR) * np.maximum(lower, 0.0) ** 2, (1.0 + _NEAR) * upper**2
        error += _NEAR * (prior + np.abs(V) + excess[1])
        most = np.clip(V - excess[0] + error, 0.0, prior)
        variance = np.clip(V - excess[1] - error, 0.0, most), most
        h = start + found.v
        mean = h.T @ self._rhs + found.residual.T @ self._alpha
        dots = np.abs(h).T @ np.abs(self._rhs) + np.abs(found.residual).T @ np.abs(self._alpha)
        radius = np.outer(rest, self._left) + np.outer(first + second, _norms(self._alpha))
        radius = (1.0 + _NEAR) * radius + sums * dots + _NEAR * np.abs(mean)
        return PointBounds(mean, radius, variance, start.T @ self._rhs, excess, found.steps)

    def _met(self, bounds: PointBounds) -> bool:
        """Whether the bounds are as close as ``tol`` asks."""
        lower, upper = (part + self.problem.noise for part in bounds.variance)
        narrow = bounds.radius.max(axis=1, initial=0.0) <= 1.001 * self._tol * np.sqrt(upper)
        return bool(np.all(upper <= (1.0 + 1.001 * self._width) * lower) and narrow.all())

    def _rate_of(self, error: KernelError) -> float:
        """That of a product with W^½KW^½, beside √(w_i k_ii)Σ_j|v_j|√(w_j k_jj)."""
        return error.of_terms(summed_terms(self.problem.sample.n_rows) + 16)

    def _rounding(self, v: Floats) -> Floats:
        """At most what rounding moves Bv by, as a norm.

        |k(x, z)|² ≤ k(x, x)k(z, z), so row i of W^½KW^½v moves by ε√(w_i k_ii)Σ_j|v_j|√(w_j k_jj).
        """
        moved: Floats = np.sqrt(self._trace) * (self._roots @ np.abs(v))
        return self._rate * moved + gamma(8) * self.problem.noise * _norms(v)


def _norms(v: Floats) -> Floats:
    norms: Floats = np.linalg.norm(v, axis=0)
    return norms
