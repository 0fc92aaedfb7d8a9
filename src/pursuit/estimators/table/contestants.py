"""Models that are compared on a table: ours, and those that people would use instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pursuit.estimators.table.choice import kinds_for

_EXACT_VALUES = 2000
"""Most rows, times latent functions of classes, for scikit-learn's exact Gaussian processes."""
_FUNCTIONS = 512
_PENALTIES = np.logspace(-4, 4, 33)


@dataclass(frozen=True)
class Contestant:
    """A model to compare.

    Attributes
    ----------
    name : str
        What it is called.
    make : callable
        Makes it, not fitted.
    kind : str
        Its kind among ours, as `choose_model` calls it; empty for models of other libraries, which
        take zeros and ones for categories.
    """

    name: str
    make: Callable[[], Any]
    kind: str = ""


def contestants(
    task: str,
    y: NDArray[Any],
    n_learning: int,
    *,
    random_state: int | None = 0,
    n_basis: int | str | None = None,
    n_jobs: int | None = None,
) -> list[Contestant]:
    """The models for a task, ours first.

    Parameters
    ----------
    task : {"regression", "classification"}
        What is predicted.
    y : array of shape (n_rows,)
        Targets.
    n_learning : int
        Rows that the models learn from.
    random_state, n_basis, n_jobs
        Of the models.
    """
    given: dict[str, Any] = {"random_state": random_state, "n_jobs": n_jobs}
    given |= {} if n_basis is None else {"n_basis": n_basis}
    kinds = kinds_for(task, y, n_learning, given)
    ours = [Contestant(f"pursuit: {kind}", make, kind) for kind, make in kinds.items()]
    others = _for_numbers if task == "regression" else _for_classes
    return [*ours, *others(n_learning, len(np.unique(y)), random_state)]


def _for_numbers(n_rows: int, _: int, seed: int | None) -> Iterator[Contestant]:
    yield Contestant("gradient boosting", lambda: HistGradientBoostingRegressor(random_state=seed))
    yield Contestant("ridge", lambda: make_pipeline(StandardScaler(), RidgeCV(_PENALTIES)))
    if n_rows <= _EXACT_VALUES:
        kernel = ConstantKernel() * RBF() + WhiteKernel()
        yield Contestant(
            "scikit-learn GPR",
            lambda: make_pipeline(
                StandardScaler(),
                GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed),
            ),
        )
    else:
        yield Contestant(
            "Nystroem + ridge",
            lambda: make_pipeline(
                StandardScaler(),
                Nystroem(n_components=_FUNCTIONS, random_state=seed),
                RidgeCV(_PENALTIES),
            ),
        )
    if (lightgbm := _lightgbm()) is not None:
        yield Contestant("LightGBM", lambda: lightgbm.LGBMRegressor(verbose=-1, random_state=seed))


def _for_classes(n_rows: int, n_classes: int, seed: int | None) -> Iterator[Contestant]:
    yield Contestant("gradient boosting", lambda: HistGradientBoostingClassifier(random_state=seed))
    yield Contestant(
        "logistic regression", lambda: make_pipeline(StandardScaler(), _logistic(seed))
    )
    if n_rows * (n_classes if n_classes > 2 else 1) <= _EXACT_VALUES:
        kernel = ConstantKernel() * RBF()
        yield Contestant(
            "scikit-learn GPC",
            lambda: make_pipeline(
                StandardScaler(), GaussianProcessClassifier(kernel, random_state=seed)
            ),
        )
    else:
        yield Contestant(
            "Nystroem + logistic",
            lambda: make_pipeline(
                StandardScaler(),
                Nystroem(n_components=min(_FUNCTIONS, n_rows), random_state=seed),
                _logistic(seed),
            ),
        )
    if (lightgbm := _lightgbm()) is not None:
        yield Contestant("LightGBM", lambda: lightgbm.LGBMClassifier(verbose=-1, random_state=seed))


def _lightgbm() -> Any:
    """The module, if it is installed."""
    return import_module("lightgbm") if find_spec("lightgbm") is not None else None


def _logistic(seed: int | None) -> Any:
    return LogisticRegressionCV(
        Cs=10, cv=5, scoring="neg_log_loss", max_iter=2000, random_state=seed
    )
