"""Kernels that scikit-learn's `pairwise_kernels` knows and that need a node of their own.

The others of its names are a Gaussian, inner products and their powers. Values are scikit-learn's.
Derivatives by points are added up feature by feature: no array of tile size times the number of
features is made. Imports NumPy, SciPy and scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import additive_chi2_kernel, manhattan_distances
from sklearn.preprocessing import normalize

from pursuit._types import Floats
from pursuit.kernels.base import (
    FUNCTION,
    Extent,
    Items,
    Kernel,
    Tile,
    Tiles,
    Vector,
    as_points,
    check_same_features,
    is_sparse,
    n_items,
    product_into,
    squared_norms,
)
from pursuit.kernels.callable import CallableColumns


@dataclass(frozen=True)
class ExponentialKernel(Kernel):
    """exp(-γ d(x, z)) for a distance d that is a sum over the features.

    Parameters
    ----------
    gamma : float
        γ.
    free : tuple of str, default ()
        ("gamma",) when log γ is a hyper-parameter.
    """

    gamma: float
    free: tuple[str, ...] = field(default=(), compare=False, repr=False)

    has_theta = has_points = positive_definite = True

    def error(self, extent: Extent) -> float:
        """Return that of y = γd, whose terms have 5 operations each, times y exp(-y) ≤ 1/e."""
        return extent.sums(1, 7) / np.e + FUNCTION

    def distances(self, A: Any, B: Any) -> Tile:
        """Return d(A, B) of points with the same features, in a new array."""
        raise NotImplementedError

    def slope(self, a: Floats, b: Floats) -> Floats:
        """Return -∂d/∂b of one feature."""
        raise NotImplementedError

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> CallableColumns:
        """Bind the kernel to the points Z."""
        return CallableColumns(self, as_points(Z), dtype)

    def block(self, A: Items, B: Items) -> Tile:
        """Return the block k(A, B)."""
        block = self._exponents(A, B)
        return np.exp(block, out=block)

    def diag(self, A: Items) -> Vector:
        """Return ones."""
        return np.ones(n_items(as_points(A)))

    def theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return -ΣW∘k γ d."""
        exponents = self._exponents(A, B)
        total = float(np.vdot(W * np.exp(exponents), exponents)) if self.free else 0.0
        return np.full(len(self.free), total)

    def points(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return -γ Σ W∘k ∂d/∂b."""
        return self.gamma * by_feature(A, B, W * self.block(A, B), self.slope)

    def _exponents(self, A: Items, B: Items) -> Tile:
        exponents = self.distances(*_compared(A, B))
        exponents *= -self.gamma
        return exponents


@dataclass(frozen=True)
class Laplacian(ExponentialKernel):
    """exp(-γ Σ_j |x_j - z_j|)."""

    def distances(self, A: Any, B: Any) -> Tile:
        """Return Σ|a - b|; rows in CSR form are left to scikit-learn."""
        if not (A.shape[0] and B.shape[0]):
            return np.zeros((A.shape[0], B.shape[0]))
        if is_sparse(A) or is_sparse(B):
            return np.asarray(manhattan_distances(A, B), dtype=np.float64)
        distances: Tile = cdist(A, B, "cityblock")
        return distances

    def slope(self, a: Floats, b: Floats) -> Floats:
        """Return sign(a - b)."""
        return np.sign(a - b)


@dataclass(frozen=True)
class AdditiveChiSquared(Kernel):
    """-Σ_j (x_j - z_j)² / (x_j + z_j) of rows without negative entries, 0/0 being 0.

    ``free`` has a name for a hyper-parameter of scikit-learn's kernel that changes nothing.
    """

    free: tuple[str, ...] = field(default=(), compare=False, repr=False)

    has_theta = has_points = True
    positive_definite = False

    def error(self, extent: Extent) -> float:
        """Return infinity: values of items with themselves are 0."""
        return np.inf

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> CallableColumns:
        """Bind the kernel to the points Z."""
        return CallableColumns(self, as_points(Z), dtype)

    def block(self, A: Items, B: Items) -> Tile:
        """Return the block k(A, B)."""
        A, B = _compared(A, B)
        return np.asarray(additive_chi2_kernel(A, B))

    def diag(self, A: Items) -> Vector:
        """Return zeros."""
        return np.zeros(n_items(as_points(A)))

    def theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return zeros: γ changes nothing."""
        return np.zeros(len(self.free))

    def points(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return Σ W (a - b)(3a + b)/(a + b)²."""
        return by_feature(A, B, W, _chi_slope)


def _chi_slope(a: Floats, b: Floats) -> Floats:
    total = a + b
    share = np.divide(a - b, total, out=np.zeros_like(total), where=total > 0.0)
    # (3a + b)/(a + b) = 2 + (a - b)/(a + b)
    slope: Floats = share * (2.0 + share)
    return slope


@dataclass(frozen=True)
class ChiSquared(ExponentialKernel):
    """exp(-γ Σ_j (x_j - z_j)² / (x_j + z_j)) of rows without negative entries."""

    def distances(self, A: Any, B: Any) -> Tile:
        """Return Σ(a - b)²/(a + b)."""
        return -np.asarray(additive_chi2_kernel(A, B), dtype=np.float64)

    def slope(self, a: Floats, b: Floats) -> Floats:
        """Return (a - b)(3a + b)/(a + b)²."""
        return _chi_slope(a, b)


@dataclass(frozen=True)
class Cosine(Kernel):
    """x·z / (|x||z|), and 0 where a row is 0.

    ``free`` has a name for a hyper-parameter of scikit-learn's kernel that changes nothing.
    """

    free: tuple[str, ...] = field(default=(), compare=False, repr=False)

    has_theta = has_points = positive_definite = True

    def error(self, extent: Extent) -> float:
        """Return γ_d for the product, and γ_d/2 and 2 operations for the length of each side."""
        return extent.sums(2, 6) if np.square(extent.largest()).sum() < np.inf else np.inf

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> CosineColumns:
        """Bind the kernel to the points Z."""
        return CosineColumns(self, Z, dtype)

    @staticmethod
    def directions(X: Items) -> Any:
        """Return rows of length 1, and rows of zeros as they are."""
        return normalize(X.astype(np.float64)) if X.shape[0] else X.astype(np.float64)

    def diag(self, A: Items) -> Vector:
        """Return ones, and zeros for rows of zeros."""
        return (squared_norms(as_points(A)) > 0.0).astype(np.float64)

    def theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return zeros: γ changes nothing."""
        return np.zeros(len(self.free))

    def points(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return (W'Â - (1'(W∘k)) B̂) / |b| of rows of length 1, and 0 where b is 0."""
        a, b = self.directions(A), self.directions(B)
        towards = W.T @ a
        along = np.einsum("ij,ij->i", towards, b)
        norms = np.sqrt(squared_norms(B))
        shares = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0)
        gradient: Floats = (towards - along[:, None] * b) * shares[:, None]
        return gradient


class CosineColumns(Tiles):
    """Tiles of the cosine: one product of rows of length 1."""

    def __init__(self, kernel: Cosine, Z: Items, dtype: npt.DTypeLike) -> None:
        Z = as_points(Z)
        super().__init__(Z.shape[0], dtype)
        self._kernel, self._n_features = kernel, Z.shape[1]
        directions = self._directions(Z).T
        self._right = directions.tocsr() if is_sparse(Z) else directions

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the block k(A, Z)."""
        out = self.buffer(n_items(A), out)
        A = as_points(A)
        check_same_features(A, self._n_features)
        product_into(self._directions(A), self._right, out)
        return out

    def _directions(self, A: Items) -> Any:
        return self._kernel.directions(A).astype(self.dtype, copy=False)


def by_feature(A: Floats, B: Floats, W: Tile, slope: Callable[[Floats, Floats], Floats]) -> Floats:
    """Return Σ_i W_ij slope(a_if, b_jf) for every point j and feature f."""
    gradient = np.empty(B.shape)
    for feature in range(B.shape[1]):
        slopes = slope(A[:, feature, None], B[:, feature])
        gradient[:, feature] = np.einsum("ij,ij->j", W, slopes)
    return gradient


def _compared(A: Items, B: Items) -> tuple[Any, Any]:
    """Return both sides as points with the same features.

    In float64: scikit-learn would take differences of numbers in float32 in float32.
    """
    A, B = as_points(A), as_points(B)
    check_same_features(A, B.shape[1])
    return A.astype(np.float64, copy=False), B.astype(np.float64, copy=False)
