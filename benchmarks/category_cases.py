"""Tables with a category of 20 levels that changes what a number does to the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.preprocessing import OneHotEncoder

from benchmarks.data import NotAvailableError
from benchmarks.harness import Figure
from benchmarks.solvers import THREADS, require
from pursuit import SparseGPRegressor
from pursuit._types import Floats, Indices

ROWS = {"slopes": 1000, "phases": 2000, "groups": 1500, "noisy": 3000, "unbalanced": 4000}
LEVELS, TEST_ROWS = 20, 2000
TREES, PATIENCE = 2000, 50

Draw = Callable[[np.random.Generator, int], "Table"]


@dataclass(frozen=True)
class Table:
    """Rows of two numbers and a category, the expected target and its noise."""

    numbers: Floats
    level: Indices
    mean: Floats
    noise: Floats | float

    def frame(self) -> Any:
        """A data frame with the columns a, b and city."""
        import pandas as pd

        names = np.array([f"city {level:02}" for level in range(LEVELS)])
        frame = pd.DataFrame(self.numbers, columns=["a", "b"])
        return frame.assign(city=pd.Categorical(names[self.level]))


class Tables:
    """The five tables; numbers of each level are drawn once, rows as many as are asked for."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.slopes, self.offsets = rng.standard_normal((2, LEVELS))
        self.phases = rng.uniform(0.0, 2 * np.pi, LEVELS)
        self.group = rng.integers(4, size=LEVELS)
        self.mixed = rng.standard_normal((LEVELS, 3))
        self.spread = np.where(rng.permutation(LEVELS) < LEVELS // 2, 0.1, 1.0)
        shares = 1.0 / np.arange(1, LEVELS + 1) ** 1.5
        self.shares = rng.permutation(shares / shares.sum())

    def _rows(
        self, rng: np.random.Generator, n: int, shares: Floats | None = None
    ) -> tuple[Floats, Indices]:
        return rng.uniform(-2.0, 2.0, (n, 2)), rng.choice(LEVELS, n, p=shares)

    def slopes_table(self, rng: np.random.Generator, n: int) -> Table:
        """A slope of a for each level."""
        X, level = self._rows(rng, n)
        mean = self.slopes[level] * X[:, 0] + 0.5 * np.sin(2 * X[:, 1])
        return Table(X, level, mean, 0.3)

    def phases_table(self, rng: np.random.Generator, n: int) -> Table:
        """A wave along a whose phase is the level's."""
        X, level = self._rows(rng, n)
        mean = np.sin(2 * X[:, 0] + self.phases[level]) + 0.3 * X[:, 1]
        return Table(X, level, mean, 0.3)

    def groups_table(self, rng: np.random.Generator, n: int) -> Table:
        """Four curves, each shared by a group of levels."""
        X, level = self._rows(rng, n)
        a, b = X.T
        curves = np.stack([np.sin(3 * a), np.cos(2 * a) * b, a**2 / 2 - 1, np.tanh(3 * a) - b / 2])
        return Table(X, level, curves[self.group[level], np.arange(n)], 0.3)

    def noisy_table(self, rng: np.random.Generator, n: int) -> Table:
        """Offsets and slopes of levels, half of which have ten times the noise of the others."""
        X, level = self._rows(rng, n)
        a, b = X.T
        mean = self.offsets[level] + self.slopes[level] * np.sin(2 * a) + np.cos(b)
        return Table(X, level, mean, self.spread[level])

    def unbalanced_table(self, rng: np.random.Generator, n: int) -> Table:
        """Mixtures of three curves; a third of the rows are of one level, under 1 % of many."""
        X, level = self._rows(rng, n, self.shares)
        a, b = X.T
        curves = np.stack([np.sin(2 * a), np.exp(-(a**2)) * 2, a * b / 2], axis=1)
        return Table(X, level, (self.mixed[level] * curves).sum(axis=1), 0.3)

    def draw(self, name: str, n: int, seed: int) -> Table:
        draw: Draw = getattr(self, f"{name}_table")
        return draw(np.random.default_rng(seed), n)


def categories(quick: bool, repeat: int) -> list[Figure]:
    """RMSE on five tables with 20 levels, beside one-hot columns and LightGBM's categories.

    Errors are those of the expected target on 2 000 further rows; ``repeat`` is not used.
    """
    try:
        import pandas  # noqa: F401
    except ImportError as missing:
        raise NotAvailableError("data frames need pandas") from missing
    tables = Tables(seed=0)
    figures: list[Figure] = []
    below = 0
    for name, rows in ROWS.items():
        train = tables.draw(name, rows // 5 if quick else rows, seed=1)
        test = tables.draw(name, TEST_ROWS, seed=2)
        noise = np.random.default_rng(3).standard_normal(len(train.mean))
        y = train.mean + train.noise * noise
        errors = {}
        for solver, predict in _solvers().items():
            start = perf_counter()
            predicted = predict(train, y, test)
            taken = perf_counter() - start
            errors[solver] = float(np.sqrt(np.mean((predicted - test.mean) ** 2)))
            figures += [
                Figure(f"{name}, {solver}: fit and predict", taken, "s"),
                Figure(f"{name}, {solver}: RMSE", errors[solver]),
            ]
        below += errors.pop("ours") < min(errors.values())
    return [*figures, Figure("tables with the least RMSE", below, at_least=4)]


def _solvers() -> dict[str, Callable[[Table, Floats, Table], Floats]]:
    solvers = {"ours": _ours, "one-hot": _one_hot}
    try:
        require("lightgbm")
    except NotAvailableError as missing:
        print(f"  without a peer: {missing}", flush=True)
        return solvers
    return {**solvers, "LightGBM": _boosted_trees}


def _ours(train: Table, y: Floats, test: Table) -> Floats:
    """Everything learned from the data frame."""
    model = SparseGPRegressor(n_jobs=THREADS, random_state=0).fit(train.frame(), y)
    return np.asarray(model.predict(test.frame()))


def _one_hot(train: Table, y: Floats, test: Table) -> Floats:
    """The same on numbers and a column for each level: a length scale each, family by evidence."""
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(train.level[:, None])

    def rows(table: Table) -> Floats:
        return np.hstack([table.numbers, encoder.transform(table.level[:, None])])

    model = SparseGPRegressor(n_jobs=THREADS, random_state=0).fit(rows(train), y)
    return np.asarray(model.predict(rows(test)))


def _boosted_trees(train: Table, y: Floats, test: Table) -> Floats:
    """Trees by early stopping on a fifth of the rows, then all rows; the better of two settings.

    LightGBM's own settings for categories are made for large tables, so smaller groups are tried
    as well.
    """
    import lightgbm

    frame = train.frame()
    watched, seen = np.split(np.random.default_rng(0).permutation(len(y)), [len(y) // 5])
    best: tuple[float, dict[str, Any]] = (np.inf, {})
    for grouping in ({}, {"min_data_per_group": 10, "cat_smooth": 1.0}):
        settings = {"learning_rate": 0.05, "n_jobs": THREADS, "random_state": 0, "verbose": -1}
        settings |= grouping
        model = lightgbm.LGBMRegressor(n_estimators=TREES, **settings)
        model.fit(
            frame.iloc[seen],
            y[seen],
            eval_X=frame.iloc[watched],
            eval_y=y[watched],
            callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
        )
        error = float(np.mean((model.predict(frame.iloc[watched]) - y[watched]) ** 2))
        if error < best[0]:
            best = error, {"n_estimators": model.best_iteration_, **settings}
    return np.asarray(lightgbm.LGBMRegressor(**best[1]).fit(frame, y).predict(test.frame()))
