"""Kernels of the inner product: k(x, z) = weight x·z + offset. Imports NumPy only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pursuit.kernels.base import (
    Items,
    Kernel,
    Tile,
    Vector,
    is_sparse,
    n_items,
    tile_buffer,
    tile_dtype,
)
from pursuit.kernels.points import as_points, check_same_features, product_into, squared_norms


@dataclass(frozen=True)
class Dot(Kernel):
    """weight x·z + offset.

    Parameters
    ----------
    weight : float, default 1.0
        Factor of the inner product.
    offset : float, default 0.0
        The value at the origin; scikit-learn's `DotProduct` has sigma_0² here.
    """

    weight: float = 1.0
    offset: float = 0.0

    @property
    def positive_definite(self) -> bool:
        """True when neither number is negative."""
        return self.weight >= 0 and self.offset >= 0

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> DotColumns:
        """Bind the kernel to the points Z."""
        return DotColumns(self, Z, tile_dtype(dtype))

    def diag(self, A: Items) -> Vector:
        """Return weight |a|² + offset."""
        return self.weight * squared_norms(as_points(A)) + self.offset


class DotColumns:
    """Tiles of an inner-product kernel: one matrix product."""

    def __init__(self, kernel: Dot, Z: Items, dtype: np.dtype[Any]) -> None:
        Z = as_points(Z)
        self.n_columns, self._n_features = Z.shape
        self._dtype = dtype
        self._offset = kernel.offset
        weighted = (kernel.weight * Z.astype(np.float64)).astype(dtype, copy=False)
        self._right = weighted.T.tocsr() if is_sparse(Z) else weighted.T

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the block k(A, Z)."""
        out = tile_buffer(out, n_items(A), self.n_columns, self._dtype)
        A = as_points(A)
        check_same_features(A, self._n_features)
        product_into(A.astype(self._dtype, copy=False), self._right, out)
        if self._offset:
            out += self._offset
        return out


def as_dot(kernel: Kernel) -> Dot | None:
    """The inner-product kernel that this is, also inside a counter; None for any other."""
    inner = getattr(kernel, "kernel", kernel)
    return inner if isinstance(inner, Dot) else None
