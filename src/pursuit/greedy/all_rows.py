"""The fit whose basis may hold every row: nothing is left out that a prediction could tell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.gram import GramStatistics
from pursuit.kernels import Kernel
from pursuit.linalg import EPS, SpanSolution, extended_cholesky, full_cholesky
from pursuit.rows import Sample, take_items

_MEASURABLE = 1e-8
"""Share of the spread of the targets by which leaving points out may change a prediction. Larger:
smaller models where rows outnumber what the kernel resolves."""

_PROBED = 64
"""Points from which probes are made."""

_PROBES_AT, _PROBES_AROUND = (-0.5, -0.05, 1.0, 3.0), (0.1, 2.0)
"""Where probes lie on lines from one point to another, in distances of the two: between them, near
one, and beyond; and how far around points, in standard deviations of the columns."""

_ROUNDINGS = 64.0
"""The error of a prediction is taken to be this many roundings of its terms."""


@dataclass(frozen=True)
class AllRows:
    """Every row is one of P points, so that sums over rows are sums over points.

    With K = RR' for the points, row i of R holds the features V of point i, whatever the rounding
    of R. The minimiser in the span is then that of the dual, β = (K + σ²W⁻¹)⁻¹y, with K as
    accurate as RR', and pivots of K as small as rounding do no harm. Features R⁻¹k_S(x_i) would
    bring that rounding in once more, divided by the pivots.

    Attributes
    ----------
    weights : array of shape (P,)
        W: Σw over the rows that equal the point.
    sums : array of shape (P, n_outputs)
        Σwy over the same rows.
    sample : Sample
        The rows.
    """

    weights: Floats
    sums: Floats
    sample: Sample

    @classmethod
    def of(cls, owners: Indices, n_points: int, sample: Sample) -> AllRows:
        """From the number of the point that each row is."""
        weights, sums = np.zeros(n_points), np.zeros((n_points, sample.n_outputs))
        np.add.at(weights, owners, sample.weights)
        np.add.at(sums, owners, sample.weights[:, None] * sample.targets)
        return cls(weights, sums, sample)

    def taken(self, order: Indices) -> AllRows:
        """The same with the points in another order."""
        return AllRows(self.weights[order], self.sums[order], self.sample)

    def statistics(self, K: Floats) -> GramStatistics:
        """Sums over the rows of their kernel values with the points, from K of the points."""
        return GramStatistics(
            (K * self.weights) @ K,
            K @ self.sums,
            self.sample.target_norms(),
            float(self.weights @ np.diag(K)),
            float(self.weights.sum()),
            self.sample.n_rows,
        )

    def solution(self, V: Floats, K: Floats, noise: float) -> SpanSolution:
        """The minimiser in the span of the first n points.

        ``V`` (P x n) are features of all points and ``K`` their values with the first n, whose
        factor is V[:n]. A step of iterative refinement solves for the gradient
        V'W(y - Kβ) - σ²u, in which nothing has been squared or damped.
        """
        R, W = V[: V.shape[1]], self.weights
        found = SpanSolution.from_whitened(R, (V.T * W) @ V, V.T @ self.sums, noise)
        left = self.sums - W[:, None] * (K @ found.coefficients())
        gradient = V.T @ left - noise * found.coordinates()
        return replace(found, z=found.z + found.rotated(gradient))

    def spread(self, noise: float) -> Floats:
        """Standard deviation of each output, noise included: what predictions are compared with."""
        w, y = self.sample.weights / self.sample.weights.sum(), self.sample.targets
        deviations: Floats = np.sqrt(w @ (y - w @ y) ** 2 + noise)
        return deviations


def fit_all_rows(
    rows: AllRows, items: Any, K: Floats, R: Floats, sure: Indices, kernel: Kernel, noise: float
) -> tuple[SpanSolution, Indices] | None:
    """The fit to all rows by as few of the points as predict like all of them.

    The points ``sure``, whose K is RR', are independent to ``limits.BASIS_TOLERANCE``: they come
    first and stay. Further ones follow until predictions at probes are those of all points, and
    all points are kept where pivots reach rounding before. So points are left out that depend on
    others, but not those that only seem to, for lack of digits. Where items cannot be moved there
    are no probes: of a given matrix all pivots above rounding are kept, of other objects those
    that are sure. Returns the solution and the points that it is for, or None where K is not psd to
    rounding.
    """
    rest = np.setdiff1d(np.flatnonzero(np.diag(K) > 0.0), sure)
    order = np.concatenate([sure, rest])
    if kernel.rounding > EPS or not len(order):
        return None
    V, turned = extended_cholesky(K[np.ix_(order, order)], R)
    order = order[turned]
    K, rows, n = K[np.ix_(order, order)], rows.taken(order), V.shape[1]
    found = rows.solution(V, K[:, :n], noise)
    if not len(rest):
        return found, order
    full = full_cholesky(K)
    if full is None:
        return None
    points = take_items(items, order)
    probes = _probes(points, kernel.length_scales)
    if probes is None:
        kept = n if isinstance(points, np.ndarray) else len(sure)
        return found.truncated(kept), order[:kept]
    everything = rows.solution(full, K, noise)
    values, prior = kernel.tile(probes, points), kernel.diag(probes)
    enough = _enough(found, everything, values, prior, rows.spread(noise), len(sure))
    if enough is None:
        return everything, order
    return found.truncated(enough), order[:enough]


def _probes(points: Any, length_scales: float | Floats | None) -> Floats | None:
    """Items on lines through some of the points and around them; None if not rows of numbers.

    Columns whose distances mean nothing keep their values.
    """
    if not isinstance(points, np.ndarray) or points.ndim != 2 or points.dtype.kind != "f":
        return None
    some = points[:: -(-len(points) // _PROBED)]
    along = some - np.roll(some, 1, axis=0)
    # Lines do not leave the plane of the points, and near copies may span the rest of the space.
    around = points.std(axis=0) * np.random.default_rng(0).standard_normal(some.shape)
    steps = np.array([at * along for at in _PROBES_AT] + [at * around for at in _PROBES_AROUND])
    if length_scales is not None:
        steps = np.where(np.isnan(length_scales), 0.0, steps)
    return np.concatenate(some + steps)


def _enough(
    found: SpanSolution,
    everything: SpanSolution,
    values: Floats,
    prior: Floats,
    spread: Floats,
    least: int,
) -> int | None:
    """The least number of functions that predict like all points; None if all found do not.

    Predictions are compared at probes, whose kernel values with all points are ``values``. Less
    than the rounding of a prediction is no difference.
    """
    target, goal = _predictions(everything, values, prior)
    means, deviations = _predictions(found, values[:, : found.size], prior)
    rounding = _ROUNDINGS * EPS * (np.abs(values) @ np.abs(everything.coefficients()))
    allowed = np.maximum(_MEASURABLE * spread, rounding)
    alike = np.all(np.abs(means - target[-1]) <= allowed, axis=(1, 2))
    alike &= np.all(np.abs(deviations - goal[-1]) <= _MEASURABLE * spread.min(), axis=1)
    sizes = least + np.flatnonzero(alike[least - 1 :]) if least else 1 + np.flatnonzero(alike)
    return int(sizes[0]) if len(sizes) else None


def _predictions(solution: SpanSolution, values: Floats, prior: Floats) -> tuple[Floats, Floats]:
    """Mean, of shape (n, probes, n_outputs), and deviation with the first 1, …, n functions."""
    V = solution.features(values)
    U = solution.rotated(V)
    means = np.cumsum(U[:, :, None] * solution.z[:, None, :], axis=0)
    missed = np.maximum(prior - np.cumsum(V**2, axis=0), 0.0)
    return means, np.sqrt(missed + solution.noise * np.cumsum(U**2, axis=0))
