"""Kernels of the inner product: k(x, z) = weight x·z + offset. Imports NumPy only."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pursuit._types import Floats
from pursuit.kernels.base import (
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


@dataclass(frozen=True)
class Dot(Kernel):
    """weight x·z + offset.

    Parameters
    ----------
    weight : float, default 1.0
        Factor of the inner product.
    offset : float, default 0.0
        The value at the origin; scikit-learn's `DotProduct` has sigma_0² here.
    free : tuple of str, default ()
        ("sigma_0",) when log sigma_0 is a hyper-parameter, ("gamma",) when log weight is, and
        ("ignored",) when scikit-learn's kernel has one that changes nothing.
    """

    weight: float = 1.0
    offset: float = 0.0
    free: tuple[str, ...] = field(default=(), compare=False, repr=False)

    has_theta = has_points = True

    @property
    def positive_definite(self) -> bool:
        """True when neither number is negative."""
        return self.weight >= 0 and self.offset >= 0

    def error(self, extent: Extent) -> float:
        """Return γ_(d+3) for d features: weight Σ|x_j z_j| + offset ≤ √(k(x, x) k(z, z))."""
        return extent.sums(1, 3) if self.positive_definite else np.inf

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> DotColumns:
        """Bind the kernel to the points Z."""
        return DotColumns(self, Z, dtype)

    def diag(self, A: Items) -> Vector:
        """Return weight |a|² + offset."""
        return self.weight * squared_norms(as_points(A)) + self.offset

    def theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return 2σ₀² ΣW, or weight ΣW∘(AB')."""
        entries = np.zeros(len(self.free))
        if "sigma_0" in self.free:
            entries[:] = 2.0 * self.offset * float(W.sum())
        elif "gamma" in self.free:
            entries[:] = self.weight * float(np.vdot(A, W @ B))
        return entries

    def points(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return weight W'A."""
        gradient: Floats = self.weight * (W.T @ A)
        return gradient

    def diag_points(self, B: Floats, weights: Vector) -> Floats:
        """Return 2 weight w b."""
        return (2.0 * self.weight * weights)[:, None] * B


class DotColumns(Tiles):
    """Tiles of an inner-product kernel: one matrix product."""

    def __init__(self, kernel: Dot, Z: Items, dtype: npt.DTypeLike) -> None:
        Z = as_points(Z)
        super().__init__(Z.shape[0], dtype)
        self._n_features = Z.shape[1]
        self._offset = kernel.offset
        weighted = (kernel.weight * Z.astype(np.float64)).astype(self.dtype, copy=False)
        self._right = weighted.T.tocsr() if is_sparse(Z) else weighted.T

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the block k(A, Z)."""
        out = self.buffer(n_items(A), out)
        A = as_points(A)
        check_same_features(A, self._n_features)
        product_into(A.astype(self.dtype, copy=False), self._right, out)
        if self._offset:
            out += self._offset
        return out


def as_dot(kernel: Kernel) -> Dot | None:
    """Return the inner-product kernel that this is, also inside a counter; None for any other."""
    inner = getattr(kernel, "kernel", kernel)
    return inner if isinstance(inner, Dot) else None
