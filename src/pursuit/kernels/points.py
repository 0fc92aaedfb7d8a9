"""Items that are rows of numbers: dense or CSR, checked, and multiplied into a tile.

Dense and sparse input meet here, so that nothing above knows the difference. Imports NumPy
only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pursuit.kernels.base import Items, Tile, Vector, is_sparse


def as_points(X: Items) -> Any:
    """Return X as a 2-D numeric array or a canonical CSR matrix, or say why it is neither."""
    if is_sparse(X):
        X = X.tocsr()
        if not X.has_canonical_format:
            # Entries stored twice would be squared one by one in the norms.
            X = X.copy()
            X.sum_duplicates()
    elif not isinstance(X, np.ndarray):
        raise TypeError(
            f"this kernel compares rows of numbers, got {type(X).__name__}: pass a 2-D array or "
            "a CSR matrix, or a callable kernel for strings and other objects."
        )
    if X.dtype.kind not in "fiub":
        raise TypeError(
            f"this kernel compares rows of numbers, got an array of dtype {X.dtype}: "
            "pass a callable kernel for strings and other objects."
        )
    if X.ndim != 2:
        raise ValueError(
            f"this kernel needs a 2-D array, got {X.ndim} dimension(s): "
            "use reshape(-1, 1) for one feature and reshape(1, -1) for one row."
        )
    return X


def check_same_features(A: Any, n_features: int) -> None:
    """Check that A has as many features as the items it is compared with."""
    if A.shape[1] != n_features:
        raise ValueError(
            f"the two sides of a kernel must have the same features: "
            f"{A.shape[1]} columns against {n_features}."
        )


def squared_norms(X: Any) -> Vector:
    """Return |x|² for every row, added up in float64."""
    if is_sparse(X):
        return np.asarray(X.astype(np.float64).power(2).sum(axis=1)).reshape(-1)
    norms: Vector = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    return norms


def product_into(A: Any, right: Any, out: Tile) -> None:
    """Write the matrix product A @ right into the dense `out`; either side may be sparse."""
    if is_sparse(A):
        product = A @ right
        if is_sparse(product):
            product.toarray(out=out)
        else:
            np.copyto(out, product)
    elif is_sparse(right):
        np.copyto(out, (right.T @ A.T).T)
    else:
        np.matmul(A, right, out=out)
