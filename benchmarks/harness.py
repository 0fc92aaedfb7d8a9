"""How things are measured: figures with targets, interleaved timings, solvers on a data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.data import Regression
from benchmarks.solvers import Solver

WARM_UP_ROWS = 3000
WARM_UP_SIZE = 64
PREDICTIONS_PER_FIT = 3


@dataclass(frozen=True)
class Figure:
    """One measured number, and the most (or least) it should be."""

    name: str
    value: float
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None

    @property
    def target(self) -> str:
        if self.at_most is not None:
            return f"<= {self.at_most:.4g}"
        if self.at_least is not None:
            return f">= {self.at_least:.4g}"
        return ""

    @property
    def verdict(self) -> str:
        if not self.target:
            return ""
        # Written so that NaN misses every target.
        met = (self.at_most is None or self.value <= self.at_most) and (
            self.at_least is None or self.value >= self.at_least
        )
        return "ok" if met else "MISSED"


@dataclass(frozen=True)
class Measured:
    """What a solver did on a data set: best times in seconds, error on the test rows."""

    fit: float
    predict: float
    rmse: float


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
            now = _fit_and_predict(data, solver.make(solver.size))
            before = best.get(solver.name, now)
            best[solver.name] = Measured(
                fit=min(before.fit, now.fit),
                predict=min(before.predict, now.predict),
                rmse=now.rmse,
            )
    return best


def _fit_and_predict(data: Regression, model: Any) -> Measured:
    fit = seconds(lambda: model.fit(data.X_train, data.y_train))
    predict = min(seconds(lambda: model.predict(data.X_test)) for _ in range(PREDICTIONS_PER_FIT))
    residual = model.predict(data.X_test) - data.y_test
    return Measured(fit=fit, predict=predict, rmse=float(np.sqrt(np.mean(residual**2))))
