"""GPBoost's approximations by near rows, with and without inducing points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.data import Floats
from benchmarks.machine import cores


def text(approximation: str, n_rows: int) -> str:
    return (
        f'gp_approx="{approximation}" on at most {n_rows} random training rows: Matérn 3/2 with a'
        " length scale per feature, all parameters by maximum likelihood; near rows, inducing"
        " points and optimiser by default."
    )


def maker(approximation: str) -> Callable[[int, float], Any]:
    return lambda seed, max_time: _GPBoost(approximation, seed)


class _GPBoost:
    def __init__(self, approximation: str, seed: int) -> None:
        import gpboost

        self.library, self.approximation, self.seed = gpboost, approximation, seed

    def fit(self, X: Floats, y: Floats) -> None:
        self.model = self.library.GPModel(
            gp_coords=X,
            cov_function="matern_ard",
            cov_fct_shape=1.5,
            likelihood="gaussian",
            gp_approx=self.approximation,
            num_parallel_threads=cores(),
            seed=self.seed,
        )
        self.model.fit(y=y)

    def predict(self, X: Floats, return_std: bool = False) -> Any:
        found = self.model.predict(gp_coords_pred=X, predict_var=return_std, predict_response=True)
        mean = np.asarray(found["mu"])
        return (mean, np.sqrt(np.asarray(found["var"]))) if return_std else mean
