"""Fits that may take float32 tiles, beside fits in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, Matern

from benchmarks.harness import Figure, best_seconds
from pursuit import SparseGPRegressor


def precision(quick: bool, repeat: int) -> list[Figure]:
    """dtype="float32" over float64: time of the fit, and how far predictions and bars move.

    A smooth and a rough kernel with little noise, which keep float64, and narrow functions below
    much noise, which do not.
    """
    m = 20_000 if quick else 400_000
    problems = {
        "smooth": (RBF(2.0), 0.01, 8),
        "rough": (Matern(2.0, nu=0.5), 0.1, 8),
        "smooth, one feature": (RBF(2.0), 1e-3, 1),
        "narrow": (RBF(0.7), 1e6, 6),
    }
    return [
        figure.renamed(f"{name}: {figure.name}")
        for name, problem in problems.items()
        for figure in _both_types(m, *problem, repeat)
    ]


def _both_types(m: int, kernel: Any, noise: float, d: int, repeat: int) -> list[Figure]:
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((m, d)), rng.standard_normal((2000, d))
    y = np.sin(X.sum(axis=1)) + 0.1 * rng.standard_normal(m)
    models = {
        dtype: SparseGPRegressor(
            kernel,
            noise=noise,
            n_basis=512,
            optimizer=None,
            refine=False,
            calibration=None,
            certificate=None,
            dtype=dtype,
            random_state=0,
        )
        for dtype in ("float64", "float32")
    }
    fits = {dtype: lambda model=model: model.fit(X, y) for dtype, model in models.items()}
    best = best_seconds(fits, repeat)
    (mean, std), (other_mean, other_std) = (
        model.predict(new, return_std=True) for model in models.values()
    )
    return [
        Figure("float64", best["float64"], "s"),
        Figure("float32 / float64", best["float32"] / best["float64"], "x", at_most=1.05),
        Figure("passes, float64", models["float64"].path_.passes[-1]),
        Figure("passes, float32", models["float32"].path_.passes[-1]),
        Figure(
            "change of predictions",
            float(np.abs(other_mean - mean).max() / np.abs(mean).max()),
            at_most=1e-8,
        ),
        Figure("change of error bars", float(np.abs(other_std / std - 1).max()), at_most=1e-6),
    ]
