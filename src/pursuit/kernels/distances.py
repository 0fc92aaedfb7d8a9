"""How a tile of squared distances is computed: one matrix product.

For the points z bound to it, `Distances` writes

    u(x, z) = intercept + slope ‖(x - z) / length_scale‖²

With x̃ = √|slope| (x - mean of Z) / length_scale and s the sign of the slope this is the inner
product of [x̃, |x̃|², 1] with [-2s z̃, s, s|z̃|² + intercept]: a single matrix product and no other
pass over the tile. The shift by the mean of Z keeps the digits of data far from the origin. Rows in
CSR form are never shifted nor made dense. Imports NumPy and SciPy only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from pursuit.kernels.base import Items, Tile, Vector, is_sparse
from pursuit.kernels.points import as_points, check_same_features, product_into, squared_norms

# Cancellation leaves r² with an error of about eps N, N = |x̃|² + |z̃|², hence r with eps N / 2r:
# less than 500 eps √N where r² is above this share of N, and up to √(eps N) below it.
CANCELLED = 1e-6

TOLERATED = {8: 1e-8, 4: 1e-2}  # errors of r² in float64 and float32 that no profile shows

PIECE = 1 << 20  # numbers held at a time when distances are recomputed from differences


class Distances:
    """Affine functions of the squared distances to a fixed set of points.

    Parameters
    ----------
    Z : array or CSR matrix of shape (n_columns, n_features)
        The points.
    length_scale : float or array of shape (n_features,)
        Divides the features.
    slope, intercept : float
        u = intercept + slope r², slope not zero.
    dtype : numpy dtype
        Type of the tiles.
    """

    def __init__(
        self,
        Z: Items,
        *,
        length_scale: float | Vector,
        slope: float,
        intercept: float,
        dtype: np.dtype[Any],
    ) -> None:
        Z = as_points(Z)
        self.n_columns, self.n_features = Z.shape
        self.dtype = dtype
        self._scale = np.broadcast_to(np.sqrt(abs(slope)) / length_scale, (self.n_features,))
        # A sparse Z, and an empty one, has no mean worth the dense vector it would make of a row.
        shifted = not is_sparse(Z) and self.n_columns > 0
        self._mean = Z.mean(axis=0, dtype=np.float64) if shifted else np.zeros(self.n_features)
        self._origin = self._mean * self._scale  # what sparse rows, left unshifted, lack
        self._Z = self.place(Z)
        self._sign = float(np.copysign(1.0, slope))
        self._intercept = intercept
        cast = self._Z.astype(dtype, copy=False)
        self._Z_norms = squared_norms(cast)
        self._Z_terms = self._sign * self._Z_norms + intercept
        self._right = -2.0 * self._sign * cast.T
        if is_sparse(Z):
            self._right = self._right.tocsr().astype(dtype, copy=False)
        else:
            signs = np.full(self.n_columns, self._sign)
            self._right = np.vstack([self._right, signs, self._Z_terms]).astype(dtype)

    def place(self, A: Items) -> Any:
        """Return the rows of A in float64, scaled, and shifted when they are dense."""
        A = as_points(A)
        check_same_features(A, self.n_features)
        if is_sparse(A):
            scaled = A.data * self._scale[A.indices]
            return sparse.csr_array((scaled, A.indices, A.indptr), shape=A.shape)
        placed = np.subtract(A, self._mean, dtype=np.float64)
        placed *= self._scale
        return placed

    def write(self, placed: Any, out: Tile) -> Vector:
        """Write u for the placed rows into `out`; return their squared norms |x̃|²."""
        cast = placed.astype(self.dtype, copy=False)
        norms = squared_norms(cast)
        if is_sparse(cast):
            # |x̃ - o|² for the origin o that dense rows are measured from, without forming x̃ - o.
            norms = norms - 2.0 * (placed @ self._origin) + self._origin @ self._origin
        if is_sparse(cast) or is_sparse(self._right):
            self._write_sparse(cast, norms, out)
        else:
            left = np.empty((len(cast), self.n_features + 2), self.dtype)
            left[:, :-2] = cast
            left[:, -2] = norms
            left[:, -1] = 1.0
            np.matmul(left, self._right, out=out)
        return norms

    def _write_sparse(self, cast: Any, norms: Vector, out: Tile) -> None:
        right = self._right if is_sparse(self._right) else self._right[:-2]
        terms = self._Z_terms
        if is_sparse(cast):
            terms = terms + 2.0 * self._sign * (self._Z @ self._origin)
        product_into(cast, right, out)
        out += terms.astype(self.dtype)
        out += (self._sign * norms).astype(self.dtype)[:, np.newaxis]

    def cancels(self, norms: Vector) -> bool:
        """Whether the error of r², about eps N, matters somewhere whatever the profile.

        So it is where points lie thousands of length scales from the mean: far outliers, features
        left unscaled, sparse rows with a large constant in them.
        """
        if not len(norms) or not self.n_columns:
            return False
        largest = float(norms.max() + self._Z_norms.max())
        return not largest * float(np.finfo(self.dtype).eps) <= TOLERATED[self.dtype.itemsize]

    def restore(self, u: Tile, placed: Any, norms: Vector) -> None:
        """Recompute from differences the entries of `u` that cancellation has spoilt."""
        limits = np.add.outer(CANCELLED * norms, CANCELLED * self._Z_norms)
        plain = self._sign > 0 and self._intercept == 0
        squares = u if plain else self._sign * (u - self._intercept)
        # Negated, so that inf - inf counts as spoilt too.
        spoilt = ~(squares > limits)
        if not spoilt.any():
            return
        rows, columns = np.nonzero(spoilt)
        step = max(1, PIECE // max(1, self.n_features))
        for start in range(0, len(rows), step):
            r, c = rows[start : start + step], columns[start : start + step]
            squares = squared_norms(self._differences(placed[r], self._Z[c]))
            u[r, c] = self._intercept + self._sign * squares

    def _differences(self, left: Any, right: Any) -> Any:
        if is_sparse(left) and is_sparse(right):
            return left - right
        if is_sparse(left):
            return left.toarray() - self._origin - right
        if is_sparse(right):
            return left - right.toarray()
        return left - right
