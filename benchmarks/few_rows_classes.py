"""Eight shapes of few rows with classes, and how honest probabilities for new rows of them are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices

CLASS_SIZES = 20, 40, 80
CLASSES = 2, 3
_NEW_ROWS = 500
_LEAST_ROWS = 2
"""Rows that every class has at least."""
_LEAST = 1e-15
"""Smallest probability whose logarithm is taken."""
_BINS = 10


@dataclass(frozen=True)
class ClassShape:
    """Log-odds of classes at rows x, for a matrix U with a direction of length 1 per class."""

    scores: Callable[[Floats, Floats], Floats]
    sure: float = 3.0

    def draw(self, n: int, U: Floats, rng: np.random.Generator) -> tuple[Floats, Indices]:
        """Rows that are uniform in [-2, 2]^d, and their classes."""
        X = rng.uniform(-2.0, 2.0, (n, len(U)))
        chances = self.sure * self.scores(X, U)
        labels = np.argmax(chances + rng.gumbel(size=chances.shape), axis=1)
        return X, labels


def _bumps(X: Floats, U: Floats) -> Floats:
    """Each class is frequent near a point of its own."""
    centres = 1.5 * np.sqrt(X.shape[1]) * U.T
    squares = ((X[:, None, :] - centres) ** 2).mean(axis=2)
    return np.asarray(-squares)


def _steps(U: Floats) -> Floats:
    """A number per class from -1 to 1."""
    return np.linspace(-1.0, 1.0, U.shape[1])


def _frequencies(X: Floats, U: Floats) -> Floats:
    return np.tile(np.log(4.0) * -np.arange(U.shape[1]), (len(X), 1))


CLASS_SHAPES: dict[str, ClassShape] = {
    "linear": ClassShape(lambda X, U: X @ U),
    "clean": ClassShape(lambda X, U: X @ U, sure=1e3),
    "smooth": ClassShape(lambda X, U: np.sin(2.0 * (X @ U))),
    "bumps": ClassShape(_bumps),
    "ring": ClassShape(lambda X, U: (np.abs(X[:, :1]) - 1.0) * _steps(U), sure=4.0),
    "interaction": ClassShape(lambda X, U: X[:, :1] * X[:, -1:] * _steps(U)),
    "noise": ClassShape(lambda X, U: np.zeros((len(X), U.shape[1]))),
    "uneven noise": ClassShape(_frequencies, sure=1.0),
}
NOISE = "noise", "uneven noise"
"""Shapes about which the features say nothing."""

ClassData = tuple[Floats, Indices, Floats, Indices]
Honesty = tuple[float, float, float]
"""Log loss, calibration error and accuracy."""


def few_rows_of_classes(shape: str, n_classes: int, m: int, d: int, seed: int) -> ClassData:
    """Rows and classes to learn from, and new ones; each class has two rows or more."""
    rng = np.random.default_rng([list(CLASS_SHAPES).index(shape), n_classes, m, d, seed])
    U = rng.standard_normal((d, n_classes))
    U /= np.linalg.norm(U, axis=0)
    one = CLASS_SHAPES[shape]
    while True:
        X, labels = one.draw(m, U, rng)
        if np.bincount(labels, minlength=n_classes).min() >= _LEAST_ROWS:
            return X, labels, *one.draw(_NEW_ROWS, U, rng)


def judged(probabilities: Floats, labels: Indices) -> Honesty:
    """Log loss, calibration error and accuracy.

    The calibration error is that of the largest probability, in ten bins of equal width: the mean
    over the rows of |share of rows that are right - mean of that probability| in the row's bin.
    """
    own = probabilities[np.arange(len(labels)), labels]
    sure, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    bins = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    gaps = np.bincount(bins, right - sure, minlength=_BINS)
    loss = -np.log(np.maximum(own, _LEAST)).mean()
    return float(loss), float(np.abs(gaps).sum() / len(labels)), float(right.mean())


class ClassFrequencies:
    """The frequencies of the classes, whatever the row."""

    def fit(self, X: Floats, labels: Indices) -> ClassFrequencies:
        self._shares = np.bincount(labels) / len(labels)
        return self

    def predict_proba(self, X: Floats) -> Floats:
        return np.tile(self._shares, (len(X), 1))


def honesty(model: Any, data: ClassData) -> Honesty:
    """Log loss, calibration error and accuracy of a model's probabilities for new rows."""
    X, labels, X_new, labels_new = data
    return judged(model.fit(X, labels).predict_proba(X_new), labels_new)
