"""The few rows of which an interrupted fit makes a model, if there is no time for more."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from pursuit._types import Floats, Indices

FEW_ROWS = 200
_OF_EACH_CLASS = 2


def some_rows(model: Any, X: Any, y: Any, weights: Any) -> tuple[Indices, Floats]:
    """Rows at equal steps, some of each class among them, and weights of 0 for all others."""
    labels = None if y is None else np.asarray(y)
    n_rows = getattr(X, "n_rows", None) or (len(labels) if labels is not None else _length(X))
    kept = np.ones(n_rows) if weights is None else np.array(weights, dtype=np.float64).ravel()
    present = np.flatnonzero(kept > 0)
    rows = present[np.linspace(0, len(present) - 1, FEW_ROWS).astype(np.intp)]
    if is_classifier(model) and labels is not None:
        by_class = np.argsort(labels[present], kind="stable")
        _, starts = np.unique(labels[present][by_class], return_index=True)
        first = np.minimum(starts[:, None] + np.arange(_OF_EACH_CLASS), len(present) - 1)
        rows = np.concatenate([rows, present[by_class[first.ravel()]]])
    rows = np.unique(rows)
    masked = np.zeros(n_rows)
    masked[rows] = kept[rows]
    return rows, masked


def _length(X: Any) -> int:
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else len(X)
