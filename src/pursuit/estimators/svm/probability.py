"""Probabilities from the values of a machine: sigmoids fitted to values of rows left out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.model_selection import StratifiedKFold

from pursuit.linalg import Workers
from pursuit.objectives import LogisticRows
from pursuit.solvers import newton

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_FOLDS = 5
_RIDGE = 1e-10


def folds(labels: Indices, rng: np.random.Generator) -> list[Indices]:
    """Rows in five parts, each with every class in proportion."""
    smallest = int(np.bincount(labels).min())
    if smallest < 2:
        raise ValueError(
            "probability=True leaves rows of every class out, and a class has one row only: it "
            "needs two. Use probability=False, or drop the class."
        )
    seed = int(rng.integers(2**31))
    split = StratifiedKFold(min(_FOLDS, smallest), shuffle=True, random_state=seed)
    return [test for _, test in split.split(labels, labels)]


def fit_sigmoids(values: Floats, positive: NDArray[np.bool_], weights: Floats) -> Floats:
    """(slope, offset) for each column: P(positive) = 1 / (1 + exp(-(slope·value + offset))).

    Maximum likelihood with Platt's targets, (N₊ + 1)/(N₊ + 2) for positive rows and 1/(N₋ + 2) for
    others: every row enters once with either outcome, by its target's share.

    Parameters
    ----------
    values : array of shape (n_rows, n_columns)
        Of rows that the machine has not seen.
    positive : array of shape (n_rows, n_columns)
        Whether a row is in the class of a column.
    weights : array of shape (n_rows,)
        Weights of the rows.

    Returns
    -------
    sigmoids : array of shape (2, n_columns)
    """
    found = np.empty((2, values.shape[1]))
    y = np.repeat([1.0, -1.0], len(values))[:, None]
    for column, (value, is_in) in enumerate(zip(values.T, positive.T, strict=True)):
        inside, outside = weights[is_in].sum(), weights[~is_in].sum()
        share = np.where(is_in, (inside + 1.0) / (inside + 2.0), 1.0 / (outside + 2.0))
        scale = float(np.abs(value).max(initial=0.0)) or 1.0
        F = np.tile(np.column_stack([value / scale, np.ones(len(value))]), (2, 1))
        w = np.concatenate([weights * share, weights * (1.0 - share)])
        with Workers(1) as workers:
            fitted = newton(
                F.__getitem__,
                LogisticRows(),
                y,
                w,
                start=np.zeros((2, 1)),
                ridge=np.full(2, _RIDGE * w.sum()),
                workers=workers,
            )
        found[:, column] = fitted.coefficients[:, 0] / [scale, 1.0]
    return found


def probabilities(values: Floats, sigmoids: Floats) -> Floats:
    """Of the classes: for one column those of two, for more brought to a sum of 1."""
    p: Floats = expit(values * sigmoids[0] + sigmoids[1])
    if p.shape[1] == 1:
        return np.hstack([1.0 - p, p])
    total = p.sum(axis=1, keepdims=True)
    even: Floats = np.full_like(p, 1.0 / p.shape[1])
    return np.asarray(np.divide(p, total, out=even, where=total > 0))
