"""Functions drawn from the posterior: their time and their moments."""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Figure, best_seconds
from pursuit import SparseGPRegressor
from pursuit.datasets import make_robot_arm

ROWS, JOINT_ROWS, DRAWS, POINTS = 20_000, 2_000, 1_000, 50


def sample_functions(quick: bool, repeat: int) -> list[Figure]:
    """A thousand functions at 20 000 points, beside joint draws at 2 000 points."""
    rows, joint, size = (2000, 500, 64) if quick else (ROWS, JOINT_ROWS, 512)
    arm = make_robot_arm(4000 + rows, random_state=0)
    model = SparseGPRegressor(n_basis=size, refine=False, certificate=None, random_state=0)
    model.fit(arm.data[:4000], arm.target[:4000])
    X = arm.data[4000:]
    best = best_seconds(
        {
            "functions": lambda: model.sample_functions(DRAWS)(X),
            "jointly": lambda: model.sample_y(X[:joint], DRAWS, include_noise=False),
        },
        repeat,
    )
    few = X[:POINTS]
    mean, covariance = model.predict(few, return_cov=True, include_noise=False)
    draws = model.sample_functions(DRAWS)(few)
    deviation = np.sqrt(np.diag(covariance))
    mean_error = np.abs(draws.mean(axis=1) - mean) / deviation * np.sqrt(DRAWS)
    spread = np.sqrt(np.outer(deviation, deviation) ** 2 + covariance**2)
    covariance_error = np.abs(np.cov(draws) - covariance) / spread * np.sqrt(DRAWS)
    return [
        Figure(f"sample_functions: {DRAWS} at {rows} points", best["functions"], "s", at_most=5.0),
        Figure(f"sample_y: {DRAWS} at {joint} points", best["jointly"], "s"),
        Figure("largest error of a mean, in standard errors", mean_error.max(), at_most=4.0),
        Figure("largest error of a covariance", covariance_error.max(), at_most=4.0),
    ]
