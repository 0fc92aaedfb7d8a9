"""The mean of a full-scale model as a linear function of the targets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from pursuit._types import Floats, Indices
from pursuit.estimators.full_scale.local_fit import GlobalPart, LocalModel
from pursuit.estimators.full_scale.near_rows import RowIndex
from pursuit.gram import LocalGroups, ResidualProcess, condition, in_parts, kernel_times
from pursuit.linalg import Workers
from pursuit.rows import len_items


@dataclass(frozen=True)
class Whitening:
    """Λ = U'D⁻¹U: the inverse covariance of what the basis leaves, by preceding near rows.

    Attributes
    ----------
    triangle : sparse array of shape (m, m)
        U = I - A, unit lower triangular.
    variances : array of shape (m,)
        D.
    """

    triangle: sparse.csr_array
    variances: Floats

    @classmethod
    def build(
        cls, process: ResidualProcess, near: Indices, noise: Floats, workers: Workers
    ) -> Whitening:
        """Whiten every row, with noise variances ``noise``, by its ``near`` rows, -1 for none."""
        weights, missed = np.empty(near.shape), np.empty(len(near))
        for span, items in in_parts(process.rows):
            task = partial(_given, noise, near[span])
            parts = process.each(items, near[span], task, workers)
            weights[span] = np.concatenate([A for A, _, _ in parts])
            missed[span] = np.concatenate([variance for _, variance, _ in parts])
        m, k = near.shape
        rows, at = np.repeat(np.arange(m), k), near.ravel()
        present = at >= 0
        A = sparse.coo_array((weights.ravel()[present], (rows[present], at[present])), (m, m))
        return cls(sparse.csr_array(sparse.eye_array(m) - A), missed + noise)

    def times(self, vectors: Floats) -> Floats:
        """Λ @ vectors."""
        whitened = (self.triangle @ vectors) / self.variances[:, None]
        product: Floats = self.triangle.T @ whitened
        return product


def _given(noise: Floats, near: Indices, groups: LocalGroups) -> tuple[Floats, Floats, Floats]:
    """A, the variance that is left, and u of a few queries."""
    index = np.maximum(near[groups.where], 0)
    given = condition(groups.residual, noise[index], groups.rounding)
    return given.weights, given.missed, given.left(groups.own, groups.near)


@dataclass(frozen=True)
class LinearMap:
    """c(x) with the mean c(x)'y, for the normalised targets y of the rows that are kept.

    With the weights A of near rows and u = V_x - A V_N, the mean is u'w + A y_N, and the
    coordinates of the basis functions are linear in y: w = CV'Wy/ridge for coupling "late", and
    w = CV'Λy for "full". So c is A on the near rows plus WVCu/ridge, or ΛVCu.

    Attributes
    ----------
    process : ResidualProcess
        Rows, kernel and basis.
    noise : array of shape (m,)
        σ²/w of the rows.
    part : GlobalPart
        C, and the ridge.
    precision : array of shape (m, 1), or Whitening
        W/ridge, or Λ.
    index : RowIndex, optional
        Finds near rows; None where the model has none.
    k : int
        Number of near rows.
    """

    process: ResidualProcess
    noise: Floats
    part: GlobalPart
    precision: Floats | Whitening
    index: RowIndex | None = None
    k: int = 0

    @classmethod
    def of_local(cls, local: LocalModel, k: int, noise: float, workers: Workers) -> LinearMap:
        """The map of a model with k near rows."""
        variances, ridge = noise / local.kept.weights, local.part.ridge
        precision: Floats | Whitening
        if ridge is None:
            near = local.index.search.preceding(min(k, local.kept.n_rows - 1), workers)
            precision = Whitening.build(local.process, near, variances, workers)
        else:
            precision = local.kept.weights[:, None] / ridge
        return cls(local.process, variances, local.part, precision, local.index, k)

    def columns(self, items: Any, workers: Workers) -> Floats:
        """c of the items: shape (m, n_items)."""
        near, A, u = self._near_part(items, workers)
        process, rotation = self.process, self.part.rotation
        inner = process.whitener.T @ (rotation.T @ (rotation @ u.T))
        values = kernel_times(process.rows, process.kernel, process.points, inner, workers)
        if isinstance(self.precision, Whitening):
            c = self.precision.times(values)
        else:
            c = self.precision * values
        c[near.T, np.arange(len(near))] += A.T
        return c

    def _near_part(self, items: Any, workers: Workers) -> tuple[Indices, Floats, Floats]:
        """Near rows, A and u."""
        if self.index is None:
            none = np.empty((len_items(items), 0))
            return none.astype(np.intp), none, self.process.features(items, workers, np.float64)
        near = self.index.nearest(items, self.k, workers)
        parts = self.process.each(items, near, partial(_given, self.noise, near), workers)
        A, _, u = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return near, A, u
