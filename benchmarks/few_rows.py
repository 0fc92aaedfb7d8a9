"""Twelve shapes of few rows, and how well 90 % intervals cover new observations of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from pursuit._types import Floats
from pursuit.metrics import coverage, interval_score

SIZES = 10, 20, 40, 80
FEATURES = 1, 5, 30
LEVEL, WIDTH = 0.9, 1.6448536269514722
"""A nominal level, and half the width of its interval in standard deviations."""
_NEW_ROWS = 200


@dataclass(frozen=True)
class Shape:
    """A function of rows x and a direction u of length 1, and noise of some deviation."""

    mean: Callable[[Floats, Floats], Floats]
    noise: float = 0.2
    fans: bool = False
    degrees: float = np.inf

    def draw(self, n: int, u: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Rows that are uniform in [-2, 2]^d, and observations."""
        X = rng.uniform(-2.0, 2.0, (n, len(u)))
        noise = rng.standard_normal(n)
        if np.isfinite(self.degrees):
            noise *= np.sqrt(self.degrees / rng.chisquare(self.degrees, n))
        scale = self.noise * (0.2 + 0.8 * np.abs(X[:, 0]) if self.fans else 1.0)
        return X, self.mean(X, u) + scale * noise


def _smooth(X: Floats, u: Floats) -> Floats:
    return np.asarray(np.sin(1.5 * (X @ u)))


SHAPES: dict[str, Shape] = {
    "smooth": Shape(_smooth),
    "step": Shape(lambda X, u: np.sign(X[:, 0]), noise=0.1),
    "linear": Shape(lambda X, u: X @ u, noise=0.3),
    "periodic": Shape(lambda X, u: np.sin(4.0 * X[:, 0])),
    "additive": Shape(lambda X, u: np.sin(2.0 * X).sum(axis=1) / np.sqrt(X.shape[1])),
    "interaction": Shape(lambda X, u: X[:, 0] * X[:, -1]),
    "pure noise": Shape(lambda X, u: np.zeros(len(X)), noise=1.0),
    "low noise": Shape(_smooth, noise=0.001),
    "fan": Shape(_smooth, noise=0.3, fans=True),
    "heavy tail": Shape(_smooth, noise=0.2, degrees=3.0),
    "irrelevant": Shape(lambda X, u: np.tanh(2.0 * X[:, 0])),
    "bump": Shape(lambda X, u: 2.0 * np.exp(-4.0 * (X[:, 0] - 0.5) ** 2)),
}


def few_rows(shape: str, m: int, d: int, seed: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Rows and observations to learn from, and new ones."""
    rng = np.random.default_rng([list(SHAPES).index(shape), m, d, seed])
    u = rng.standard_normal(d)
    u /= np.linalg.norm(u)
    return *SHAPES[shape].draw(m, u, rng), *SHAPES[shape].draw(_NEW_ROWS, u, rng)


def reference(seed: int) -> GaussianProcessRegressor:
    """scikit-learn's process with one length scale, by maximum evidence."""
    kernel = ConstantKernel() * RBF() + WhiteKernel()
    return GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=2, random_state=seed
    )


def intervals(model: Any, data: tuple[Floats, Floats, Floats, Floats]) -> tuple[float, float]:
    """Coverage and interval score of 90 % intervals for new observations."""
    X, y, X_new, y_new = data
    mean, std = model.fit(X, y).predict(X_new, return_std=True)
    ends = mean - WIDTH * std, mean + WIDTH * std
    return coverage(y_new, *ends), interval_score(y_new, *ends, LEVEL)
