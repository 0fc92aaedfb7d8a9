"""Data sets as the benchmarks see them: standardised on their training part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pursuit import datasets

Floats = NDArray[np.float64]


class NotAvailableError(Exception):
    """A case cannot run here; the message says what is missing."""


@dataclass(frozen=True)
class Regression:
    name: str
    X_train: Floats
    y_train: Floats
    X_test: Floats
    y_test: Floats


def kin40k(split: int = 0) -> Regression:
    return _published("kin40k", datasets.load_kin40k, split)


def protein(split: int = 0) -> Regression:
    return _published("protein", datasets.load_protein, split)


def robot_arm(n_rows: int) -> tuple[Floats, Floats]:
    """Standardised features and target of the simulated arm."""
    arm = datasets.make_robot_arm(n_rows, random_state=0)
    X, y = arm.data, arm.target
    X -= X.mean(axis=0)
    X /= X.std(axis=0)
    return X, (y - y.mean()) / y.std()


def _published(name: str, load: Callable[..., tuple[Floats, ...]], split: int) -> Regression:
    """A split of a published data set."""
    try:
        X_train, y_train, X_test, y_test = load(split=split, return_X_y=True)
    except ValueError as missing:
        raise NotAvailableError(str(missing)) from missing
    return _standardised(name, X_train, y_train, X_test, y_test)


def _standardised(
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
