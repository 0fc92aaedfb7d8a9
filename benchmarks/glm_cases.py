"""Generalised linear models beside boosted trees: counts, quantiles, outliers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import mean_pinball_loss, mean_poisson_deviance
from sklearn.pipeline import make_pipeline

from benchmarks.data import Floats
from benchmarks.harness import Figure, seconds
from benchmarks.solvers import THREADS, require
from pursuit import GreedyFeatureMap, SparseKernelGLM

N_FEATURES = 8
LEVELS = [0.05, 0.5, 0.95]


def _smooth(X: Floats) -> Floats:
    return np.asarray(np.sin(2 * X[:, 0]) + np.cos(2 * X[:, 1]) + 0.5 * X[:, 2])


def _interacting(X: Floats) -> Floats:
    return np.asarray(X[:, 0] * X[:, 1] + np.sin(X[:, 2] * X[:, 3]) + 0.5 * np.cos(3 * X[:, 4]))


def _stepped(X: Floats) -> Floats:
    return 1.5 * (X[:, 0] > 0.3) - 1.0 * ((X[:, 1] > 0) & (X[:, 2] > 0)) + 0.5 * np.sin(X[:, 3])


INTENSITIES: dict[str, Callable[[Floats], Floats]] = {
    "smooth": _smooth,
    "interacting": _interacting,
    "stepped": _stepped,
}


def glm_counts(quick: bool, repeat: int) -> list[Figure]:
    """Poisson counts of 20 000 rows, three intensities: deviance and time beside boosted trees."""
    m, n_test = (2000, 2000) if quick else (20_000, 10_000)
    figures, won, slowest = [], 0, 0.0
    for name, log_rate in INTENSITIES.items():
        rng = np.random.default_rng(0)
        X, X_test = (rng.uniform(-1.5, 1.5, (size, N_FEATURES)) for size in (m, n_test))
        y, y_test = (rng.poisson(np.exp(0.5 + log_rate(rows))) for rows in (X, X_test))
        least = mean_poisson_deviance(y_test, np.exp(0.5 + log_rate(X_test)))
        models: dict[str, Any] = {
            "ours": SparseKernelGLM(random_state=0, certificate=None),
            "HistGradientBoosting": HistGradientBoostingRegressor(loss="poisson", random_state=0),
            "LightGBM": _lightgbm(objective="poisson"),
        }
        times, deviances = {}, {}
        for label, model in models.items():
            times[label] = min(seconds(partial(model.fit, X, y)) for _ in range(repeat))
            deviances[label] = float(mean_poisson_deviance(y_test, model.predict(X_test)))
            figures.append(Figure(f"{name}, {label}: fit", times[label], "s"))
            figures.append(Figure(f"{name}, {label}: deviance", deviances[label] - least))
        won += deviances["ours"] == min(deviances.values())
        slowest = max(slowest, times["ours"] / times["HistGradientBoosting"])
    return [
        *figures,
        Figure("intensities where the deviance is least", float(won), at_least=2.0),
        Figure("time over HistGradientBoosting's", slowest, "x", at_most=20.0),
    ]


def _lightgbm(**options: Any) -> Any:
    require("lightgbm")
    return _EarlyStopped(options)


class _EarlyStopped:
    """LightGBM, its number of trees by a tenth of the rows."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options

    def fit(self, X: Floats, y: Floats) -> Any:
        import lightgbm

        watched, seen = np.split(np.random.default_rng(0).permutation(len(X)), [len(X) // 10])
        self.model = lightgbm.LGBMRegressor(
            n_estimators=2000,
            learning_rate=0.05,
            n_jobs=THREADS,
            random_state=0,
            verbose=-1,
            **self.options,
        )
        stop = lightgbm.early_stopping(50, verbose=False)
        self.model.fit(X[seen], y[seen], eval_X=X[watched], eval_y=y[watched], callbacks=[stop])
        return self

    def predict(self, X: Floats) -> Floats:
        return np.asarray(self.model.predict(X))


def _middle(X: Floats) -> Floats:
    return np.asarray(np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2])


def _fan(X: Floats, rng: np.random.Generator) -> Floats:
    return (0.1 + 0.3 * (X[:, 0] + 1.0)) * rng.standard_normal(len(X))


def _two_humps(X: Floats, rng: np.random.Generator) -> Floats:
    return np.where(rng.random(len(X)) < 0.5, -1.0, 1.0) * 0.6 + 0.15 * rng.standard_normal(len(X))


NOISES: dict[str, Callable[[Floats, np.random.Generator], Floats]] = {
    "normal": lambda X, rng: 0.3 * rng.standard_normal(len(X)),
    "skew": lambda X, rng: 0.3 * rng.exponential(size=len(X)),
    "heavy": lambda X, rng: 0.2 * rng.standard_t(2, size=len(X)),
    "fan": _fan,
    "two humps": _two_humps,
}


def glm_quantiles(quick: bool, repeat: int) -> list[Figure]:
    """Quantiles .05, .5 and .95 under five noises: pinball loss beside LightGBM and linear ones."""
    m, n_test = (600, 2000) if quick else (3000, 10_000)
    figures, won, crossings = [], 0, 0
    for name, noise in NOISES.items():
        rng = np.random.default_rng(0)
        X, X_test = (rng.uniform(-1, 1, (size, 4)) for size in (m, n_test))
        y, y_test = (_middle(rows) + noise(rows, rng) for rows in (X, X_test))
        ours = SparseKernelGLM(loss="quantile", quantile=LEVELS, random_state=0, certificate=None)
        spent = seconds(partial(ours.fit, X, y))
        found = ours.predict(X_test)
        crossings += int(np.count_nonzero(np.diff(found, axis=1) < 0))
        losses = {
            "ours": _pinball(y_test, found.T),
            "LightGBM": _pinball(
                y_test,
                [
                    _lightgbm(objective="quantile", alpha=level).fit(X, y).predict(X_test)
                    for level in LEVELS
                ],
            ),
            "QuantileRegressor": _pinball(y_test, _linear_quantiles(X, y, X_test)),
        }
        won += losses["ours"] == min(losses.values())
        figures += [Figure(f"{name}, {label}: pinball", loss) for label, loss in losses.items()]
        figures.append(Figure(f"{name}, ours: fit", spent, "s"))
    return [
        *figures,
        Figure("noises where the pinball loss is least", float(won), at_least=4.0),
        Figure("crossings", float(crossings), at_most=0.0),
    ]


def _linear_quantiles(X: Floats, y: Floats, X_test: Floats) -> list[Floats]:
    """Linear quantile regression on the features of 100 chosen functions."""
    found = []
    for level in LEVELS:
        features = GreedyFeatureMap(n_components=100, random_state=0)
        linear = QuantileRegressor(quantile=level, alpha=1e-5, solver="highs")
        found.append(make_pipeline(features, linear).fit(X, y).predict(X_test))
    return found


def _pinball(y: Floats, predicted: Any) -> float:
    losses = [
        mean_pinball_loss(y, column, alpha=level)
        for level, column in zip(LEVELS, predicted, strict=True)
    ]
    return float(np.mean(losses))


def glm_outliers(quick: bool, repeat: int) -> list[Figure]:
    """Huber's loss with 5 % outliers: error over that of the fit to clean targets."""
    m = 500 if quick else 3000
    figures, worst = [], 0.0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, X_test = rng.uniform(-1, 1, (m, 4)), rng.uniform(-1, 1, (5000, 4))
        clean = _middle(X) + 0.1 * rng.standard_normal(m)
        dirty, hit = clean.copy(), rng.random(m) < 0.05
        dirty[hit] += 20 * rng.standard_normal(int(hit.sum()))
        errors = [
            float(np.sqrt(np.mean((_huber().fit(X, y).predict(X_test) - _middle(X_test)) ** 2)))
            for y in (clean, dirty)
        ]
        worst = max(worst, errors[1] / errors[0])
        figures += [
            Figure(f"seed {seed}, clean: RMSE", errors[0]),
            Figure(f"seed {seed}, outliers: RMSE", errors[1]),
        ]
    return [*figures, Figure("RMSE over the clean fit's, worst", worst, "x", at_most=1.3)]


def _huber() -> SparseKernelGLM:
    return SparseKernelGLM(loss="huber", random_state=0, certificate=None)
