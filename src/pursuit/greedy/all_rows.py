"""The fit whose basis may hold every row: nothing is left out that a prediction could tell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.gram import GramStatistics
from pursuit.kernels import Kernel
from pursuit.linalg import EPS, SpanSolution, full_cholesky, robust_cholesky
from pursuit.rows import Sample, row_groups, take_items

_MEASURABLE = 1e-8
"""Share of the spread of the targets by which leaving points out may change a prediction. Larger:
smaller models where rows outnumber what the kernel resolves."""

_PROBED = 64
"""Points from which probes are made."""

_PROBES_AT = (-0.5, 1.0, 3.0)
"""Where probes lie on the line from one point to another: between them, and beyond by this many
times their distance."""

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
    def of(cls, index: Indices, sample: Sample) -> AllRows | None:
        """For points with these row numbers; None where some row is none of them."""
        m = sample.n_rows
        groups = np.arange(m)
        if not len(index) or index.min() < 0 or len(np.unique(index)) < len(index):
            return None
        if len(index) < m:
            if m > limits.SMALL_ROWS:
                return None
            groups = row_groups((items for _, items in sample.rows.blocks()), m)
        point_of = np.full(m, -1, dtype=np.intp)
        point_of[groups[index]] = np.arange(len(index))
        owner = point_of[groups]
        if owner.min() < 0:
            return None
        weights, sums = np.zeros(len(index)), np.zeros((len(index), sample.n_outputs))
        np.add.at(weights, owner, sample.weights)
        np.add.at(sums, owner, sample.weights[:, None] * sample.targets)
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

    def solution(self, R: Floats, noise: float) -> SpanSolution:
        """The minimiser for points with K = RR'."""
        return SpanSolution.from_whitened(R, (R.T * self.weights) @ R, R.T @ self.sums, noise)

    def refined(self, solution: SpanSolution, V: Floats, K: Floats) -> SpanSolution:
        """The solution in the span of the first points after a step of iterative refinement.

        ``V`` are features of all points, ``K`` their values with the first ones. The step solves
        for the gradient V'W(y - Kβ) - σ²u, in which nothing has been squared or damped.
        """
        u = solution.coordinates()
        fitted = self.weights[:, None] * (K @ solution.coefficients())
        gradient = V.T @ (self.sums - fitted) - solution.noise * u
        return replace(solution, z=solution.z + solution.rotated(gradient))

    def spread(self, noise: float) -> Floats:
        """Standard deviation of each output, noise included: what predictions are compared with."""
        w, y = self.sample.weights / self.sample.weights.sum(), self.sample.targets
        deviations: Floats = np.sqrt(w @ (y - w @ y) ** 2 + noise)
        return deviations


def fit_all_rows(
    rows: AllRows, items: Any, K: Floats, sure: Indices, kernel: Kernel, noise: float
) -> tuple[SpanSolution, Indices] | None:
    """The fit to all rows by as few of the points as predict like all of them.

    The points ``sure``, which are independent to ``limits.BASIS_TOLERANCE``, come first and stay.
    The others follow and are kept as far as they change the mean or the standard deviation at a
    probe: points that depend on others change neither, points that only seem to, for lack of
    digits, do. Where items cannot be moved there are no probes, and pivots above rounding are kept.
    Returns the solution and the points that it is for, or None where K is not psd to rounding.
    """
    if kernel.rounding > EPS:
        return None
    n_sure = len(sure)
    rest = np.setdiff1d(np.flatnonzero(np.diag(K) > 0.0), sure)
    order = np.concatenate([sure, rest])
    R, found = robust_cholesky(K[np.ix_(order, order)], len(K) * EPS)
    n = max(n_sure, len(found))
    if len(rest):
        order = order[np.concatenate([found, np.setdiff1d(np.arange(len(order)), found)])]
        full = full_cholesky(K[np.ix_(order, order)])
        if full is None:
            return None
        R = full
    rows = rows.taken(order)
    solution = rows.solution(R, noise)
    points = take_items(items, order)
    probes = _probes(points, kernel.length_scales) if len(rest) else None
    if probes is not None:
        values, prior = kernel.tile(probes, points), kernel.diag(probes)
        n = n_sure + _last_to_matter(solution, values, prior, n_sure, rows)
    solution = rows.refined(solution.truncated(n), R[:, :n], K[np.ix_(order, order[:n])])
    return solution, order[:n]


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
    steps = np.concatenate([at * along for at in _PROBES_AT] + [2.0 * around])
    if length_scales is not None:
        steps = np.where(np.isnan(length_scales), 0.0, steps)
    return np.tile(some, (len(_PROBES_AT) + 1, 1)) + steps


def _last_to_matter(
    solution: SpanSolution, kernel_rows: Floats, prior: Floats, n_sure: int, rows: AllRows
) -> int:
    """How many functions after the first ``n_sure`` it takes to predict like all of them.

    What functions from n on add to the mean is Σ_{j≥n} U_x[j] z[j], and what they take from the
    variance Σ_{j≥n} (V_x[j]² - σ²U_x[j]²). Less than the rounding of a prediction is nothing.
    """
    V = solution.features(kernel_rows)
    U = solution.rotated(V)
    spread = rows.spread(solution.noise)
    taken = V**2 - solution.noise * U**2
    variance = np.maximum(prior - taken.sum(axis=0), _ROUNDINGS * EPS * prior)
    tails = _from_each_on(np.maximum(taken[n_sure:], 0.0))
    change = np.sqrt(variance + tails) - np.sqrt(variance)
    matters = np.any(change > _MEASURABLE * spread.min(), axis=1)
    rounding = _ROUNDINGS * EPS * np.abs(kernel_rows) @ np.abs(solution.coefficients())
    for z, scale, least in zip(solution.z.T, spread, rounding.T, strict=True):
        change = np.abs(_from_each_on(U[n_sure:] * z[n_sure:, None]))
        matters |= np.any(change > np.maximum(_MEASURABLE * scale, least), axis=1)
    return int(np.flatnonzero(matters).max(initial=-1)) + 1


def _from_each_on(terms: Floats) -> Floats:
    """Σ_{j≥n} of the rows j, for every n."""
    return np.cumsum(terms[::-1], axis=0)[::-1]
