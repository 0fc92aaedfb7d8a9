"""Near rows beside Laplace's approximation: latent functions of classes, and rows left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from pursuit._types import Floats, Indices
from pursuit.estimators.full_scale.near_rows import LeavingRows, NearRows, RowIndex
from pursuit.estimators.gp.laplace import LaplaceFit
from pursuit.gram import Conditional, LocalGroups, ResidualProcess, condition, in_parts, noisy
from pursuit.linalg import Workers
from pursuit.rows import RowSource, SelectedRows, take_items
from pursuit.tuning import Latents

_MOST_LOG_ODDS = 100.0
"""Log-odds beyond ±100 count as ±100, in the curvatures of near rows."""
_SETTLING_ROWS = 16
_SETTLING_STEPS = 5
"""Near rows and steps that find the log-odds at which a row is linearised. More of them take more
time, and change predictions little."""


def working_residuals(
    settled: Floats, fitted: Floats, targets: Floats, weights: Floats
) -> tuple[Floats, Floats]:
    """What rows say beyond the global part, f + g/h - V'b, and h; targets are ±1 or means of them.

    Newton's step at the log-odds f (``settled``) treats a row as an observation f + g/h with noise
    variance 1/h, for its slope g = w(t - p) and curvature h = w p(1 - p). Identical rows have one
    f, so that their sums of g and h are those of one row with their weight and mean target.

    A saturated row has h → 0. If its label is as expected, g/h tends to ±1 with no weight. Else g/h
    grows like 1/h, and what it adds to a prediction tends to s r(x, x_i) g: a pull of g without
    curvature. With log-odds of at most ±100 both are finite, and h < 1e-43 is nothing in any sum.
    """
    f = np.clip(settled, -_MOST_LOG_ODDS, _MOST_LOG_ODDS)
    p, q, t = expit(f), expit(-f), 0.5 * (1.0 + targets)
    return f - fitted + t / p - (1.0 - t) / q, weights[..., None] * p * q


def bounded_residuals(
    f: Floats, fitted: Floats, targets: Floats, weights: Floats
) -> tuple[Floats, Floats]:
    """As :func:`working_residuals`, of the quadratic bound that touches the loss at f.

    Its curvature is w tanh(f/2)/2f (Jaakkola and Jordan 2000). Steps by it never overshoot, as
    those of Newton's method do from the wrong side: there a row has hardly any curvature.
    """
    size = np.maximum(np.abs(f), 1e-6)
    curvature = 0.5 * np.tanh(0.5 * size) / size
    return 0.5 * targets / curvature - fitted, weights * curvature


@dataclass(frozen=True)
class LocalClassModel:
    """A fitted full-scale classifier: rows, residual process, and Laplace's approximation.

    Attributes
    ----------
    kept : NearRows
        The rows, with targets ±1 or, for identical rows, weighted means of them.
    process : ResidualProcess
        What the basis leaves among them.
    index : RowIndex
        Finds near rows.
    laplace : LaplaceFit
        The latent functions in the span of the basis.
    rotations : array of shape (n_columns, n, n)
        L⁻¹ of every column: the covariance of its coordinates is L⁻ᵀL⁻¹.
    fitted : array of shape (n_rows, n_columns)
        Log-odds V'b at the rows.
    settled : array of the same shape
        Log-odds at which the rows are linearised.
    """

    kept: NearRows
    process: ResidualProcess
    index: RowIndex
    laplace: LaplaceFit
    rotations: Floats
    fitted: Floats
    settled: Floats

    @cached_property
    def _working(self) -> tuple[Floats, Floats]:
        """Working residuals of all rows, and their curvatures."""
        return working_residuals(self.settled, self.fitted, self.kept.targets, self.kept.weights)

    def settle(self, workers: Workers) -> LocalClassModel:
        """Linearise every row near the mode of the latent functions, given its near rows.

        At the global part's log-odds Newton's step is too short where that part says little: from
        f = 0 it ends at ±2 at most.
        """
        k = min(_SETTLING_ROWS, self.kept.n_rows)
        parts = [
            self._modes(items, self.index.nearest(items, k, workers), workers)
            for _, items in in_parts(self.process.rows)
        ]
        return replace(self, settled=np.concatenate(parts))

    def _modes(self, items: Any, near: Indices, workers: Workers) -> Floats:
        """Log-odds of kept rows at the mode, nearly, of those of their near rows."""
        s = self.laplace.scale

        def task(groups: LocalGroups) -> Floats:
            index = near[groups.where]
            residual, weights = s * groups.residual, self.kept.weights[index]
            modes = groups.own @ self.laplace.mode
            for column, (fitted, targets) in enumerate(
                zip(self.fitted.T, self.kept.targets.T, strict=True)
            ):
                f = fitted[index]
                for _ in range(_SETTLING_STEPS):
                    e, h = bounded_residuals(f, fitted[index], targets[index], weights)
                    matrix = noisy(residual, 1.0 / h, s * groups.rounding)
                    pull = np.linalg.solve(matrix, e[..., None])
                    f = fitted[index] + (residual[:, 1:, 1:] @ pull)[..., 0]
                modes[:, column] += _products(residual[:, 0, 1:], pull[..., 0])
            return modes

        return np.concatenate(self.process.each(items, near, task, workers))

    def latents(self, rows: RowSource, k: int, workers: Workers, *, variance: bool) -> Latents:
        """Posterior at some rows, given their k near rows; variances are 0 if not asked for."""
        return _joined([self._latents(items, k, workers, variance) for _, items in in_parts(rows)])

    def _latents(self, items: Any, k: int, workers: Workers, variance: bool) -> Latents:
        near = self.index.nearest(items, k, workers)
        residuals, curvatures = self._working

        def task(groups: LocalGroups) -> Latents:
            index = near[groups.where]
            found = self._nothing_known(groups)
            found.mean[:] = groups.own @ self.laplace.mode
            for column, rotation in enumerate(self.rotations):
                given = self._given(groups, curvatures[index, column])
                found.mean[:, column] += _products(given.weights, residuals[index, column])
                found.missed[:, column] = given.missed
                if variance:
                    u = _rotated(given.left(groups.own, groups.near), rotation)
                    found.variance[:, column] = _products(u, u)
            return found

        return _joined(self.process.each(items, near, task, workers))

    def left_out(
        self, leaving: LeavingRows, sizes: Sequence[int], workers: Workers
    ) -> dict[int, Latents]:
        """Posterior at rows left out one at a time, given as many near rows among the others.

        A row leaves the near rows and Laplace's approximation. With B = V'DV + I/s and c = B⁻¹v_i
        the mode without row i is b - c g_i/(1 - h_i v_i'c), and the inverse of B becomes B⁻¹ +
        h_i cc'/(1 - h_i v_i'c), with g_i and h_i at V'b, as far as the others are linearised where
        they were in B. Near rows are settled without the row; if identical rows stay, with it.
        """
        kept, excluded = self.kept, leaving.excluded(self.kept)
        near = self.index.nearest(leaving.items, max(sizes), workers, own=excluded)
        targets, weights = leaving.neighbours(kept, near)
        settled = self._settled_without(excluded, near, workers)
        residuals, curvatures = working_residuals(settled, self.fitted[near], targets, weights)
        own = self.fitted[leaving.number]
        own_residuals, own_curvatures = working_residuals(own, own, *leaving.leaves(kept))

        def task(groups: LocalGroups) -> list[Latents]:
            at = groups.where
            found = [self._nothing_known(groups) for _ in sizes]
            for column, rotation in enumerate(self.rotations):
                h = own_curvatures[at, column]
                turned = groups.own @ rotation.T
                c = turned @ rotation
                lever = _products(turned, turned)
                factor = h / np.maximum(1.0 - h * lever, 1e-10)
                moved = factor * own_residuals[at, column]
                mean = groups.own @ self.laplace.mode[:, column] - lever * moved
                levers = (groups.near @ c.astype(groups.near.dtype)[..., None])[..., 0]
                errors = residuals[at, :, column] + levers * moved[:, None]
                for k, latents in zip(sizes, found, strict=True):
                    given = self._given(groups, curvatures[at, :k, column])
                    u = given.left(groups.own, groups.near[:, :k])
                    latents.mean[:, column] = mean + _products(given.weights, errors[:, :k])
                    latents.missed[:, column] = given.missed
                    turned = _rotated(u, rotation)
                    latents.variance[:, column] = (
                        _products(turned, turned) + factor * _products(u, c) ** 2
                    )
            return found

        parts = self.process.each(leaving.items, near, task, workers)
        return {
            k: _joined(list(latents))
            for k, latents in zip(sizes, zip(*parts, strict=True), strict=True)
        }

    def _settled_without(self, excluded: Indices, near: Indices, workers: Workers) -> Floats:
        """Log-odds at which near rows are linearised where one row each is absent.

        Those that have settled beside this row have seen its label, and settle again.
        """
        settled = self.settled[near]
        k = min(_SETTLING_ROWS, self.kept.n_rows - 1)
        used, at = np.unique(near, return_inverse=True)
        beside = self.index.nearest(take_items(self.kept.items, used), k + 1, workers)
        beside = beside[at.reshape(near.shape)]
        absent = beside == excluded[:, None, None]
        group, place = np.nonzero(absent[:, :, :k].any(axis=2))
        others = beside[group, place][~absent[group, place]].reshape(len(group), k)
        again = SelectedRows(self.process.rows, near[group, place])
        for some, items in in_parts(again):
            modes = self._modes(items, others[some], workers)
            settled[group[some], place[some]] = modes
        return settled

    def _given(self, groups: LocalGroups, curvatures: Floats) -> Conditional:
        """What the residual s r of a column is, given near rows with noise variances 1/h."""
        s, k = self.laplace.scale, curvatures.shape[1]
        residual = s * groups.residual[:, : 1 + k, : 1 + k]
        return condition(residual, 1.0 / curvatures, s * groups.rounding)

    def _nothing_known(self, groups: LocalGroups) -> Latents:
        """Latents to fill in."""
        mean, variance, missed = np.zeros((3, len(groups.prior), len(self.rotations)))
        return Latents(mean, variance, missed, self.laplace.scale * groups.prior)


def _products(a: NDArray[Any], b: NDArray[Any]) -> Floats:
    """Inner products of rows, in float64."""
    return np.asarray(np.einsum("gi,gi->g", a, b, dtype=np.float64))


def _rotated(u: NDArray[Any], rotation: Floats) -> NDArray[Any]:
    return u.astype(np.float64, copy=False) @ rotation.T


def _joined(parts: Sequence[Latents]) -> Latents:
    """Latents of all parts, one after the other."""
    return Latents(
        np.concatenate([part.mean for part in parts]),
        np.concatenate([part.variance for part in parts]),
        np.concatenate([part.missed for part in parts]),
        np.concatenate([part.prior for part in parts]),
    )
