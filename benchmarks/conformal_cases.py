"""Guaranteed intervals: how much they cover, and how wide they are, on many small data sets."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from benchmarks.harness import Figure
from benchmarks.solvers import THREADS
from pursuit import SparseGPRegressor
from pursuit._types import Floats

ROWS, TEST_ROWS, DATA_SETS, QUICK_SETS = 300, 2000, 200, 10
LEVEL, NOISE = 0.9, 0.3

Noise = Callable[[np.random.Generator, Floats], Floats]


def _mean(X: Floats) -> Floats:
    return np.asarray(np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2)


def _step(X: Floats) -> Floats:
    return np.asarray(np.where(X[:, 0] > 0.3, 2.0, -1.0) + 0.5 * X[:, 1])


def _outliers(rng: np.random.Generator, X: Floats) -> Floats:
    far = rng.random(len(X)) < 0.05
    return NOISE * rng.standard_normal(len(X)) * np.where(far, 20.0, 1.0)


@dataclass(frozen=True)
class Shape:
    """Rows of two features with one kind of noise around one function."""

    noise: Noise
    mean: Callable[[Floats], Floats] = _mean
    rounded: bool = False

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        X = rng.uniform(-2.0, 2.0, (n, 2))
        y = self.mean(X) + self.noise(rng, X)
        return X, np.round(2 * y) if self.rounded else y


SHAPES = {
    "normal": Shape(lambda rng, X: NOISE * rng.standard_normal(len(X))),
    "heavy tails": Shape(lambda rng, X: NOISE * rng.standard_t(2, len(X))),
    "skew": Shape(lambda rng, X: NOISE * (rng.exponential(size=len(X)) - 1.0)),
    "steps": Shape(lambda rng, X: NOISE * rng.standard_normal(len(X)), _step),
    "varying": Shape(lambda rng, X: (0.05 + 0.4 * np.abs(X[:, 1])) * rng.standard_normal(len(X))),
    "discrete": Shape(lambda rng, X: NOISE * rng.standard_normal(len(X)), rounded=True),
    "outliers": Shape(_outliers),
}


def covered(shape: Shape, seed: int, *, own_rows: bool = False) -> tuple[float, float]:
    """Share of new rows in their 90 % intervals, and the median width of these, for one data set.

    ``own_rows`` calibrates by the rows of the fit, which nothing guarantees.
    """
    rng = np.random.default_rng(seed)
    X, y = shape.draw(rng, ROWS)
    model = SparseGPRegressor(
        n_basis=64,
        calibration=None if own_rows else "conformal",
        certificate=None,
        n_jobs=THREADS,
        random_state=seed,
    ).fit(X, y)
    if own_rows:
        with warnings.catch_warnings(action="ignore"):
            model.conformalize(X, y)
    X_new, y_new = shape.draw(rng, TEST_ROWS)
    lower, upper = model.predict_interval(X_new, LEVEL)
    inside = (lower <= y_new) & (y_new <= upper)
    return float(inside.mean()), float(np.median(upper - lower))


def conformal(quick: bool, repeat: int) -> list[Figure]:
    """Coverage of guaranteed 90 % intervals on 200 data sets of 300 rows for each shape of noise.

    ``repeat`` is not used.
    """
    n_sets = QUICK_SETS if quick else DATA_SETS
    oracle = 2 * NormalDist().inv_cdf(0.5 + LEVEL / 2) * NOISE
    means, figures = [], []
    for name, shape in SHAPES.items():
        found = np.array([covered(shape, seed) for seed in range(n_sets)])
        means.append(found[:, 0].mean())
        figures.append(Figure(f"coverage, {name}", means[-1], at_least=0.89))
        if name == "normal":
            width = float(np.median(found[:, 1])) / oracle
            figures.append(Figure("median width over the oracle's, normal", width, at_most=1.1))
    figures.append(Figure("coverage, mean", float(np.mean(means)), at_least=0.895, at_most=0.93))
    own = [covered(SHAPES["normal"], seed, own_rows=True)[0] for seed in range(n_sets)]
    figures.append(Figure("coverage, normal, calibrated by the rows of the fit", np.mean(own)))
    return figures
