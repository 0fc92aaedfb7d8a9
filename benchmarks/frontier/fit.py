"""One fit in a process of its own; run as a module.

``python -m benchmarks.frontier.fit DATASET MODEL SETTING SEED EVENTS --cap SECONDS`` appends a line
of JSON to the file EVENTS whenever a step is done: loaded, fitted, predicted, error bars known.
What was reached before the process is killed stays there.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from dataclasses import replace
from pathlib import Path
from threading import Thread
from time import perf_counter, sleep
from typing import Any

import numpy as np

from benchmarks.data import Regression
from benchmarks.frontier.point_models import rmse
from benchmarks.frontier.sets import SETS
from benchmarks.frontier.settings import Setting, setting
from benchmarks.harness import scores

SHARE_OF_CAP = 0.95
"""Models that can stop by themselves get this share of the cap, to finish their last step in."""
_FEW_TEST_ROWS = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", choices=SETS)
    parser.add_argument("model")
    parser.add_argument("setting")
    parser.add_argument("seed", type=int)
    parser.add_argument("events", type=Path)
    parser.add_argument("--cap", type=float, required=True)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--parent", type=int, default=os.getppid())
    options = parser.parse_args()
    end_with(options.parent)
    warnings.simplefilter("ignore")
    chosen = setting(options.model, options.setting)
    data = few(SETS[options.dataset](options.seed), options.rows)
    model = chosen.make(options.seed, SHARE_OF_CAP * options.cap)
    measure(model, data, chosen, options.seed, options.events)


def end_with(parent: int) -> None:
    """End this process when its parent was killed: else it would slow down the fits of the next.

    The parent says who it is: one that was killed while this process imported its packages is no
    longer its parent, and would not be missed.
    """

    def watch() -> None:
        while os.getppid() == parent:
            sleep(1.0)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def few(data: Regression, n_rows: int | None) -> Regression:
    """The first training rows and few test rows, for development; all if None."""
    if n_rows is None:
        return data
    return replace(
        data,
        X_train=data.X_train[:n_rows],
        y_train=data.y_train[:n_rows],
        X_test=data.X_test[:_FEW_TEST_ROWS],
        y_test=data.y_test[:_FEW_TEST_ROWS],
    )


def measure(model: Any, data: Regression, chosen: Setting, seed: int, events: Path) -> None:
    """Fit and predict, and say after each step what is known."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(data.X_train))[: chosen.n_rows] if chosen.n_rows else slice(None)
    X, y = data.X_train[rows], data.y_train[rows]
    say(events, event="fitting")
    start, start_cpu = perf_counter(), _cpu()
    model.fit(X, y)
    say(
        events,
        event="fitted",
        fit_seconds=perf_counter() - start,
        cpu_seconds=_cpu() - start_cpu,
        stopped_early=bool(getattr(model, "stopped_early_", False)),
        rows_used=len(X),
        rows=len(data.X_train),
    )
    start = perf_counter()
    mean = model.predict(data.X_test)
    spent = perf_counter() - start
    say(events, event="predicted", predict_seconds=spent, rmse=rmse(mean, data.y_test))
    if hasattr(model, "learn_spread"):
        model.learn_spread(X, y)
    some = rng.permutation(len(data.X_test))[: chosen.n_error_bars]
    mean, std = model.predict(data.X_test[some], return_std=True)
    found = scores(mean, std, data.y_test[some])
    say(
        events,
        event="error bars",
        nlpd=found.nlpd,
        coverage95=found.coverage,
        test_rows_used=len(some),
        test_rows=len(data.X_test),
    )


def say(events: Path, **facts: Any) -> None:
    with events.open("a", encoding="utf-8") as file:
        file.write(json.dumps(facts) + "\n")


def _cpu() -> float:
    """CPU seconds of all threads, and of processes that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


if __name__ == "__main__":
    main()
