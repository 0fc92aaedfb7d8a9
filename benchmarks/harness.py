"""How to measure: figures with targets, interleaved timings, solvers on a data set."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.data import Floats, Regression
from benchmarks.solvers import Solver

WARM_UP_ROWS = 3000
WARM_UP_SIZE = 64
PREDICTIONS_PER_FIT = 3
_TWO_SIDED_95 = 1.96


@dataclass(frozen=True)
class Figure:
    """One measured number, and the largest (or smallest) value it should have."""

    name: str
    value: float
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None

    def renamed(self, name: str) -> Figure:
        return replace(self, name=name)

    @property
    def target(self) -> str:
        limits = [
            "" if self.at_least is None else f">= {self.at_least:.4g}",
            "" if self.at_most is None else f"<= {self.at_most:.4g}",
        ]
        return ", ".join(filter(None, limits))

    @property
    def verdict(self) -> str:
        if not self.target:
            return ""
        # Written so that NaN misses every target.
        met = (self.at_most is None or self.value <= self.at_most) and (
            self.at_least is None or self.value >= self.at_least
        )
        return "ok" if met else "MISSED"


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Errors on the test rows.

    Negative log predictive density and coverage of the 95 % interval are NaN where a solver has
    no error bars.
    """

    rmse: float
    nlpd: float = np.nan
    coverage: float = np.nan


@dataclass(frozen=True, kw_only=True)
class Measured(Accuracy):
    """What a solver did on a data set: best times in seconds, and errors on the test rows."""

    fit: float
    predict: float


def seconds(task: Callable[[], object]) -> float:
    start = perf_counter()
    task()
    return perf_counter() - start


def best_seconds(tasks: Mapping[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """Best time of each task: one warm-up each, then `repeat` rounds over all of them.

    Rounds rather than repeats of one task after another, so that a busy minute of the machine
    falls on every task alike.
    """
    for task in tasks.values():
        task()
    best = dict.fromkeys(tasks, np.inf)
    for _ in range(repeat):
        for name, task in tasks.items():
            best[name] = min(best[name], seconds(task))
    return best


def measure_solvers(
    data: Regression, solvers: Sequence[Solver], repeat: int
) -> dict[str, Measured]:
    """Fit and predict with every solver in interleaved rounds, after a small warm-up of each."""
    for solver in solvers:
        model = solver.make(min(solver.size, WARM_UP_SIZE))
        model.fit(data.X_train[:WARM_UP_ROWS], data.y_train[:WARM_UP_ROWS])
        model.predict(data.X_test[:WARM_UP_ROWS])
    best: dict[str, Measured] = {}
    for _ in range(repeat):
        for solver in solvers:
            now = _fit_and_predict(data, solver)
            before = best.get(solver.name, now)
            best[solver.name] = replace(
                now, fit=min(before.fit, now.fit), predict=min(before.predict, now.predict)
            )
    return best


def _fit_and_predict(data: Regression, solver: Solver) -> Measured:
    model = solver.make(solver.size)
    fit = seconds(lambda: model.fit(data.X_train, data.y_train))
    predict = min(seconds(lambda: model.predict(data.X_test)) for _ in range(PREDICTIONS_PER_FIT))
    if solver.has_std:
        return Measured(fit=fit, predict=predict, **asdict(accuracy(model, data)))
    residual = model.predict(data.X_test) - data.y_test
    return Measured(fit=fit, predict=predict, rmse=float(np.sqrt(np.mean(residual**2))))


def accuracy(model: Any, data: Regression) -> Accuracy:
    """Errors of a fitted model with error bars on the test rows."""
    return scores(*model.predict(data.X_test, return_std=True), data.y_test)


def scores(mean: Floats, std: Floats, y: Floats) -> Accuracy:
    """Errors of Gaussian predictions."""
    error = np.abs(mean - y)
    nlpd = np.mean(np.log(std) + 0.5 * (error / std) ** 2) + 0.5 * np.log(2 * np.pi)
    return Accuracy(
        rmse=float(np.sqrt(np.mean(error**2))),
        nlpd=float(nlpd),
        coverage=float(np.mean(error < _TWO_SIDED_95 * std)),
    )


def traced_peak(task: Callable[[], object]) -> int:
    """Peak memory in bytes that Python and NumPy held because of the task."""
    tracemalloc.start()
    try:
        task()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
