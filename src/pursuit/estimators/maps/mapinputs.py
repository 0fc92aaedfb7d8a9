"""What a user passes to a feature map: rows, kernel matrices dense or sparse, points."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from pursuit.estimators.inputs import is_precomputed, prediction_rows, training_rows, validate_items
from pursuit.rows import IndexRows, RowSource


def fitting_rows(estimator: Any, X: Any) -> tuple[RowSource, Any]:
    """Rows to fit on, and the validated X; a precomputed matrix may be sparse."""
    if not (is_precomputed(estimator.kernel) and sparse.issparse(X)):
        return training_rows(estimator, X)
    X = validate_data(estimator, X, accept_sparse="csr", dtype=[np.float64, np.float32])
    if X.shape[0] != X.shape[1]:
        raise ValueError(
            f"kernel='precomputed' needs a square kernel matrix in fit, got shape {X.shape}: "
            "pass k(X, X) of the training rows."
        )
    return IndexRows(X.shape[0]), X


def mapping_rows(estimator: Any, X: Any) -> tuple[RowSource, Any]:
    """Rows to map, and the validated X."""
    if not (is_precomputed(estimator.kernel) and sparse.issparse(X)):
        return prediction_rows(estimator, X)
    X = validate_data(
        estimator, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32]
    )
    return IndexRows(X.shape[0]), X


def own_candidates(estimator: Any, n_rows: int) -> Any:
    """The user's points: items like the rows, or row numbers of a precomputed matrix."""
    candidates = estimator.candidates
    if not is_precomputed(estimator.kernel):
        return validate_items(estimator, candidates, reset=False, name="candidates")
    index = np.asarray(candidates)
    if index.ndim != 1 or not len(index) or index.dtype.kind not in "iu":
        raise ValueError(
            "candidates must be a list of row numbers when kernel='precomputed', got an array of "
            f"dtype {index.dtype} and shape {index.shape}."
        )
    if index.min() < 0 or index.max() >= n_rows:
        raise ValueError(
            f"candidates must be row numbers in 0..{n_rows - 1}, got {index.min()}..{index.max()}."
        )
    return index.astype(np.intp)
