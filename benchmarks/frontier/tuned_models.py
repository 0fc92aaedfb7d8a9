"""LightGBM and Nystroem + Ridge, by default and tuned by random trials on rows held out."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from benchmarks.data import Floats
from benchmarks.frontier.point_models import PointModel, held_out_rows, rmse, with_spread
from benchmarks.machine import cores

TRIALS = 20
COMPONENTS = 1024
_HELD_OUT = 0.2
_MOST_TREES, _PATIENCE = 2000, 50
_TRIAL_ROWS = 10_000

_SPREAD = (
    " Its density is a Gaussian of one variance for all rows, the mean squared error of the best"
    " trial on the rows held out."
)
TREES = (
    f"The best of {TRIALS} random trials on a fifth of the rows, held out: leaves 8 to 256, rate"
    " 0.02 to 0.3, rows per leaf 5 to 100, shares of rows and of features 0.5 to 1, l2 penalty"
    f" 0.001 to 10; up to {_MOST_TREES} trees, stopped after {_PATIENCE} without gain. Then fitted"
    " to all rows. The time includes the trials." + _SPREAD
)
NYSTROEM = (
    f"{COMPONENTS} components; gamma and alpha are the best of {TRIALS} random trials on a fifth of"
    f" at most {_TRIAL_ROWS} rows, held out: gamma 0.02 to 2 over the number of features, alpha"
    " 1e-6 to 10. Then fitted to all rows. The time includes the trials." + _SPREAD
)


def default_trees(seed: int, max_time: float) -> PointModel:
    import lightgbm

    return PointModel(
        lambda: lightgbm.LGBMRegressor(random_state=seed, n_jobs=cores(), verbose=-1), seed
    )


def default_nystroem(seed: int, max_time: float) -> PointModel:
    return PointModel(
        lambda: make_pipeline(_Nystroem(n_components=COMPONENTS, random_state=seed), Ridge()),
        seed,
    )


class _Nystroem(Nystroem):
    """As many components as there are rows, where these are fewer; without a warning."""

    def fit(self, X: Floats, y: Any = None) -> Any:
        self.n_components = min(self.n_components, len(X))
        return super().fit(X, y)


class Clock:
    """Rounds, as long as there is time for another two as long as the longest so far."""

    def __init__(self, max_time: float) -> None:
        self.end = perf_counter() + max_time
        self.over = False

    def rounds(self, most: int) -> Iterator[int]:
        longest = 0.0
        for number in range(most):
            start = perf_counter()
            # The second is for the fit to all rows.
            if start + 2.0 * longest > self.end:
                self.over = True
                return
            yield number
            longest = max(longest, perf_counter() - start)


class TunedTrees:
    def __init__(self, seed: int, max_time: float) -> None:
        import lightgbm

        self.library, self.seed, self.max_time = lightgbm, seed, max_time

    def fit(self, X: Floats, y: Floats) -> None:
        rng = np.random.default_rng(self.seed)
        held_out, seen = held_out_rows(len(X), _HELD_OUT, self.seed)
        stop = self.library.early_stopping(_PATIENCE, verbose=False)
        best: dict[str, Any] = {}
        self.spread = np.inf
        clock = Clock(self.max_time)
        for _ in clock.rounds(TRIALS):
            drawn = self._draw(rng)
            model = self._trees(n_estimators=_MOST_TREES, **drawn)
            model.fit(X[seen], y[seen], eval_X=X[held_out], eval_y=y[held_out], callbacks=[stop])
            error = rmse(model.predict(X[held_out]), y[held_out])
            if error < self.spread:
                self.spread = error
                best = drawn | {"n_estimators": max(1, model.best_iteration_)}
        self.stopped_early_ = clock.over
        self.model = self._trees(**best).fit(X, y)

    def _draw(self, rng: np.random.Generator) -> dict[str, Any]:
        return {
            "num_leaves": round(_log_uniform(rng, 8, 256)),
            "learning_rate": _log_uniform(rng, 0.02, 0.3),
            "min_child_samples": round(_log_uniform(rng, 5, 100)),
            "subsample": rng.uniform(0.5, 1.0),
            "colsample_bytree": rng.uniform(0.5, 1.0),
            "reg_lambda": _log_uniform(rng, 1e-3, 10.0),
        }

    def _trees(self, **options: Any) -> Any:
        return self.library.LGBMRegressor(
            subsample_freq=1, random_state=self.seed, n_jobs=cores(), verbose=-1, **options
        )

    def predict(self, X: Floats, return_std: bool = False) -> Any:
        mean = np.asarray(self.model.predict(X))
        return with_spread(mean, self.spread) if return_std else mean


class TunedNystroem:
    def __init__(self, seed: int, max_time: float) -> None:
        self.seed, self.max_time = seed, max_time

    def fit(self, X: Floats, y: Floats) -> None:
        rng = np.random.default_rng(self.seed)
        rows = rng.permutation(len(X))[:_TRIAL_ROWS]
        held_out, seen = (rows[part] for part in held_out_rows(len(rows), _HELD_OUT, self.seed))
        self.spread, best = np.inf, (1.0, 1.0)
        clock = Clock(self.max_time)
        for _ in clock.rounds(TRIALS):
            drawn = _log_uniform(rng, 0.02, 2.0) / X.shape[1], _log_uniform(rng, 1e-6, 10.0)
            model = self._pipeline(*drawn).fit(X[seen], y[seen])
            error = rmse(model.predict(X[held_out]), y[held_out])
            if error < self.spread:
                self.spread, best = error, drawn
        self.stopped_early_ = clock.over
        self.model = self._pipeline(*best).fit(X, y)

    def _pipeline(self, gamma: float, alpha: float) -> Any:
        return make_pipeline(
            _Nystroem(gamma=gamma, n_components=COMPONENTS, random_state=self.seed),
            Ridge(alpha=alpha),
        )

    def predict(self, X: Floats, return_std: bool = False) -> Any:
        mean = np.asarray(self.model.predict(X))
        return with_spread(mean, self.spread) if return_std else mean


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
