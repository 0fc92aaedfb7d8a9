"""What is left of the columns of K once landmarks are chosen, for each projection (SS00 §3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from pursuit._types import Floats, Indices
from pursuit.estimators.maps.landmarking import Landmarks
from pursuit.gram import kernel_diagonal, kernel_features, kernel_product, residual_squares
from pursuit.greedy import Pivots
from pursuit.kernels import Kernel
from pursuit.linalg import Workers
from pursuit.objectives import Project
from pursuit.rows import Sample


@dataclass(frozen=True)
class Projection:
    """K̃_i = Σ_j T_ij k_{S_j}: its coefficients and its residuals.

    Attributes
    ----------
    kind : str
        function, column, kronecker, or own for a function of the user's.
    positions : array of int
        Where the landmarks stand among the rows, -1 where they do not.
    T : array of shape (n_rows, n) or None
        Where it cost a pass; else it follows from the features.
    trace : float
        Σ_i w_i ‖k_i - k̃_i‖² in function space.
    largest_column, largest_total : float
        No w_i Σ_j w_j (K - K̃)_ji² exceeds the one, and their sum does not exceed the other.
    """

    kind: str
    positions: Indices
    T: Floats | None
    trace: float
    largest_column: float
    largest_total: float

    def coefficients(self, features: Floats, whitener: Floats) -> Floats:
        """T of the rows with these features V: VR⁻¹ in function space."""
        if self.T is not None:
            return self.T
        if self.kind == "kronecker":
            return self._kronecker(np.arange(len(features)))
        return features @ whitener

    def column_squares(
        self,
        sample: Sample,
        kernel: Kernel,
        points: Any,
        whitener: Floats,
        rows: Indices,
        workers: Workers,
    ) -> Floats:
        """w_i Σ_j w_j (K - K̃)_ji² for some columns i, exactly."""
        queries = sample.rows.take(rows)
        if self.T is not None:
            T = self.T[rows]
        elif self.kind == "kronecker":
            T = self._kronecker(rows)
        elif self.kind == "own":
            raise ValueError(
                "the coefficients of a projection of your own are not saved with the map: call "
                "residual_bound before saving."
            )
        else:
            T = kernel.tile(queries, points) @ whitener.T @ whitener
        coefficients = np.ascontiguousarray(T.T)
        squares = residual_squares(sample, kernel, points, coefficients, queries, workers)
        return squares * sample.weights[rows]

    def _kronecker(self, rows: Indices) -> Floats:
        return np.asarray(rows[:, None] == self.positions, dtype=np.float64)


def project(
    kind: str | Project,
    landmarks: Landmarks,
    whitener: Floats,
    sample: Sample,
    kernel: Kernel,
    workers: Workers,
) -> Projection:
    """The projection of all columns on those of the landmarks."""
    found = landmarks.pivots
    if not isinstance(kind, str):
        assert landmarks.T is not None
        assert landmarks.residuals is not None
        left = sample.weights * landmarks.residuals
        return _with_limits("own", found, landmarks.T, left)
    if kind == "kronecker":
        return _keep_chosen(found, sample, kernel)
    weights = sample.weights
    # E_ij² ≤ d_i d_j, and no column's residual in column space exceeds that in function space.
    largest = found.residual * float((weights * found.diagonal).max(initial=0.0))
    limits = largest, found.residual**2
    if kind == "function" or not len(found.pool):
        return Projection(kind, found.pool.index, None, found.residual, *limits)
    V = found.features
    if V is None:
        V = kernel_features(sample.rows, kernel, found.pool.items, workers, whitener=whitener)
    # Least squares on the columns of K_S = VR': T = KWV(V'WV)⁻¹R⁻¹.
    weighted = V * weights[:, None]
    product = kernel_product(sample.rows, kernel, weighted, workers)
    C = cho_solve(cho_factor(V.T @ weighted), product.T).T
    extra = float(weights @ np.einsum("ij,ij->i", V - C, V - C))
    return Projection(kind, found.pool.index, C @ whitener, found.residual + extra, *limits)


def _keep_chosen(found: Pivots, sample: Sample, kernel: Kernel) -> Projection:
    """The Kronecker metric (SS00 eq. 23): chosen columns stay, the others are dropped."""
    index = found.pool.index
    if np.any(index < 0):
        raise ValueError(
            "projection='kronecker' keeps chosen columns of the kernel matrix, but some candidates "
            "are not rows: use projection='function'."
        )
    left = kernel_diagonal(sample.rows, kernel)
    left *= sample.weights
    left[index] = 0.0
    return _with_limits("kronecker", found, None, left)


def _with_limits(kind: str, found: Pivots, T: Floats | None, left: Floats) -> Projection:
    """Of w_i ‖k_i - k̃_i‖²: E_ji² <= k(x_j, x_j) ‖k_i - k̃_i‖² bounds the columns."""
    trace, largest = float(left.sum()), float(left.max(initial=0.0))
    limits = largest * found.trace, trace * found.trace
    return Projection(kind, found.pool.index, T, trace, *limits)
