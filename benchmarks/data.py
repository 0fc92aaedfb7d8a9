"""Data sets as the benchmarks see them: standardised on their training part."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pursuit import datasets

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class NotAvailableError(Exception):
    """A case cannot run here; the message says what is missing."""


@dataclass(frozen=True)
class Regression:
    name: str
    X_train: Floats
    y_train: Floats
    X_test: Floats
    y_test: Floats

    def cut(self) -> Regression:
        """The first rows alone, for quick runs."""
        train, test = slice(3000), slice(500)
        return Regression(
            self.name,
            self.X_train[train],
            self.y_train[train],
            self.X_test[test],
            self.y_test[test],
        )

    def tested_on(self, rows: Mask) -> Regression:
        """The same training rows with these of the test rows."""
        return replace(self, X_test=self.X_test[rows], y_test=self.y_test[rows])


def kin40k(split: int = 0) -> Regression:
    return published("kin40k", datasets.load_kin40k, split)


def protein(split: int = 0) -> Regression:
    return published("protein", datasets.load_protein, split)


def from_folder(name: str, split: int = 0) -> Regression:
    """A split of a data set in files like those of kin40k, from the folder in PURSUIT_DATA.

    ``NAME.csv.gz`` has the target in its last column, ``NAME.test_mask.csv.gz`` a column of 0 and 1
    for each split.
    """
    folder = Path(os.environ.get("PURSUIT_DATA", ""))
    table, masks = (_numbers(folder / f"{name}{kind}.csv.gz") for kind in ("", ".test_mask"))
    X, y, is_test = table[:, :-1], table[:, -1], masks[:, split] == 1
    return standardised(name, X[~is_test], y[~is_test], X[is_test], y[is_test])


def _numbers(file: Path) -> Floats:
    if not file.is_file():
        raise NotAvailableError(f"{file.name} is not in the folder that PURSUIT_DATA names")
    return np.loadtxt(file, delimiter=",", ndmin=2)


def copied(rows: Floats, among: Floats) -> Mask:
    """Which of the rows have an exact copy, value by value, among the others."""
    # Adding zero makes -0.0 and 0.0, which are equal, equal in their bytes, too.
    seen = {row.tobytes() for row in among + 0.0}
    return np.array([row.tobytes() in seen for row in rows + 0.0], dtype=bool)


def robot_arm(n_rows: int) -> tuple[Floats, Floats]:
    """Standardised features and target of the simulated arm."""
    arm = datasets.make_robot_arm(n_rows, random_state=0)
    X, y = arm.data, arm.target
    X -= X.mean(axis=0)
    X /= X.std(axis=0)
    return X, (y - y.mean()) / y.std()


def tilted_waves() -> Regression:
    """9 000 rows of 18 correlated features, six of which matter; a third of the spread is noise."""
    rng = np.random.default_rng(100)
    tilt = 0.6 * np.eye(18) + 0.6 * rng.standard_normal((18, 18)) / np.sqrt(18.0)
    X = rng.standard_normal((12_000, 18)) @ tilt
    f = np.tanh(X[:, 0] + 0.5 * X[:, 1] * X[:, 2]) + 0.5 * np.sin(1.5 * X[:, 3])
    f += 0.3 * X[:, 4] + 0.2 * X[:, 5] ** 2
    return _made("18 features", X, f, 0.35, 9000, rng)


def steps_and_waves() -> Regression:
    """10 000 rows of 26 features, seven of which matter, with jumps and corners; little noise."""
    rng = np.random.default_rng(100)
    X = rng.uniform(0.0, 1.0, (13_000, 26))
    f = np.floor(4.0 * X[:, 0]) / 4.0 * np.sin(6.0 * X[:, 1]) + 0.3 * X[:, 6]
    f += 3.0 * np.abs(X[:, 2] - 0.5) * X[:, 3] + np.sin(5.0 * X[:, 4] * X[:, 5])
    return _made("26 features", X, f, 0.05, 10_000, rng)


def long_arm() -> Regression:
    """6 000 rows of 32 angles: eight of an arm, two of a further term, and others; some noise."""
    rng = np.random.default_rng(100)
    X = rng.uniform(-np.pi / 2.0, np.pi / 2.0, (8000, 32))
    angles = np.cumsum(X[:, :8], axis=1)
    f = np.hypot(np.cos(angles).mean(axis=1) + 0.4, np.sin(angles).mean(axis=1) + 0.4)
    f += 0.2 * np.sin(X[:, 8] * X[:, 9])
    return _made("32 features", X, f, 0.25, 6000, rng)


def _made(
    name: str, X: Floats, f: Floats, noise: float, n_train: int, rng: np.random.Generator
) -> Regression:
    """Rows of a function with noise, of this part of its deviation; the last rows are for tests."""
    y = f + noise * f.std() * rng.standard_normal(len(X))
    return standardised(name, X[:n_train], y[:n_train], X[n_train:], y[n_train:])


def friedman(n_rows: int) -> tuple[Floats, Floats]:
    """Friedman's first function of ten features, with a noise of half its deviation."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n_rows, 10))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    y += 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(0, 2.5, n_rows)
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def published(name: str, load: Callable[..., tuple[Floats, ...]], split: int) -> Regression:
    """A split of a published data set."""
    try:
        X_train, y_train, X_test, y_test = load(split=split, return_X_y=True)
    except ValueError as missing:
        raise NotAvailableError(str(missing)) from missing
    return standardised(name, X_train, y_train, X_test, y_test)


def standardised(
    name: str, X_train: Floats, y_train: Floats, X_test: Floats, y_test: Floats
) -> Regression:
    """Features and target shifted and scaled by mean and deviation of the training part."""
    center, scale = X_train.mean(axis=0), X_train.std(axis=0)
    scale[scale == 0.0] = 1.0
    y_center, y_scale = y_train.mean(), y_train.std()
    return Regression(
        name,
        (X_train - center) / scale,
        (y_train - y_center) / y_scale,
        (X_test - center) / scale,
        (y_test - y_center) / y_scale,
    )
