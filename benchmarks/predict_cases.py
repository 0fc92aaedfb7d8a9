"""Prediction: one row beside scikit-learn's process, a million rows over the bare products."""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from benchmarks.harness import Figure, best_seconds
from pursuit import ExactGPRegressor, SparseGPRegressor
from pursuit.rows import BLOCK_ROWS

N_POINTS, N_FEATURES, NOISE = 512, 8, 0.01
ROUNDS = 200
MICROSECONDS = 1e6


def predict(quick: bool, repeat: int) -> list[Figure]:
    """One row at n = 512 beside GaussianProcessRegressor, 10⁶ rows over the products it takes."""
    many = 50_000 if quick else 1_000_000
    rng = np.random.default_rng(0)
    X = rng.standard_normal((many, N_FEATURES))
    some, one = X[:4000], X[:1].copy()
    y = np.sin(some[:, 0]) + some[:, 1] * some[:, 2] + 0.1 * rng.standard_normal(len(some))
    options = {"kernel": RBF(2.0), "optimizer": None}
    ours = SparseGPRegressor(n_basis=N_POINTS, noise=NOISE, random_state=0, **options).fit(some, y)
    few, few_targets = some[:N_POINTS], y[:N_POINTS]
    exact = ExactGPRegressor(noise=NOISE, **options).fit(few, few_targets)
    theirs = GaussianProcessRegressor(alpha=NOISE, **options).fit(few, few_targets)
    left = rng.standard_normal((many, N_FEATURES + 2))
    right = rng.standard_normal((N_FEATURES + 2, N_POINTS))
    coefficients = ours.dual_coef_

    def bare_products() -> None:
        for start in range(0, many, BLOCK_ROWS):
            (left[start : start + BLOCK_ROWS] @ right) @ coefficients

    calls = {
        "sparse": partial(ours.predict, one),
        "sparse, std": partial(ours.predict, one, return_std=True),
        "exact": partial(exact.predict, one),
        "sklearn": partial(theirs.predict, one),
        "sklearn, std": partial(theirs.predict, one, return_std=True),
    }
    best = best_seconds(calls, ROUNDS * repeat)
    large = best_seconds({"products": bare_products, "predict": partial(ours.predict, X)}, repeat)
    return [
        Figure("one row, sparse", best["sparse"] * MICROSECONDS, "µs", at_most=100),
        Figure("one row, exact", best["exact"] * MICROSECONDS, "µs", at_most=100),
        Figure("one row, scikit-learn", best["sklearn"] * MICROSECONDS, "µs"),
        Figure("one row, sparse / scikit-learn", best["sparse"] / best["sklearn"], "x", at_most=1),
        Figure("one row with std, sparse", best["sparse, std"] * MICROSECONDS, "µs"),
        Figure(
            "one row with std, sparse / scikit-learn",
            best["sparse, std"] / best["sklearn, std"],
            "x",
            at_most=1,
        ),
        Figure(f"{many} rows", large["predict"], "s"),
        Figure(
            "rate of these rows over that of their products",
            large["products"] / large["predict"],
            at_least=0.5,
        ),
    ]
