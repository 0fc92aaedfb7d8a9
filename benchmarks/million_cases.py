"""A million rows in memory, everything learned, beside boosted trees.

``python -m benchmarks.million_cases MODEL N_ROWS`` is one fit in a process of its own. It prints a
JSON object: seconds of the fit, the bytes that it added to the peak memory, and the errors on new
rows in units of the target's standard deviation.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from benchmarks.data import Regression
from benchmarks.harness import Figure, accuracy, seconds
from benchmarks.peak_memory import peak, reset_peak
from benchmarks.solvers import THREADS, require
from pursuit import SparseGPRegressor
from pursuit.datasets import make_robot_arm

GIGABYTE = 1e9
_TEST_ROWS = 20_000
_WARM_UP_ROWS = 5_000


def lightgbm(n_trees: int, n_leaves: int = 31) -> Any:
    """All other parameters are LightGBM's own; so are 31 leaves."""
    require("lightgbm")
    from lightgbm import LGBMRegressor

    return LGBMRegressor(
        n_estimators=n_trees, num_leaves=n_leaves, n_jobs=THREADS, random_state=0, verbose=-1
    )


MODELS: dict[str, Callable[[], Any]] = {
    "SparseGPRegressor": lambda: SparseGPRegressor(random_state=0),
    "SparseGPRegressor, 1024 functions": lambda: SparseGPRegressor(n_basis=1024, random_state=0),
    "LightGBM, 100 trees": lambda: lightgbm(100),
    "LightGBM, 1000 trees": lambda: lightgbm(1000),
    # With so many rows larger trees are better.
    "LightGBM, 1000 trees of 127 leaves": lambda: lightgbm(1000, 127),
    "LightGBM, 1000 trees of 255 leaves": lambda: lightgbm(1000, 255),
    "LightGBM, 1000 trees of 511 leaves": lambda: lightgbm(1000, 511),
}


def million(quick: bool, repeat: int) -> list[Figure]:
    """A million rows of the robot arm in memory, all defaults, beside LightGBM's trees."""
    require("lightgbm")
    n_rows = 50_000 if quick else 1_000_000
    figures, fits = [], {}
    for model in MODELS:
        found = min((_fit(model, n_rows) for _ in range(repeat)), key=lambda one: one["fit"])
        fits[model] = found
        figures += [
            Figure(f"{model}: fit", found["fit"], "s"),
            Figure(f"{model}: memory beyond the data", found["added"] / GIGABYTE, "GB"),
            Figure(f"{model}: RMSE", found["rmse"]),
        ]
    ours = fits["SparseGPRegressor"]
    figures.append(Figure("SparseGPRegressor: coverage of 95 %", ours["coverage"]))
    figures.append(Figure("data", ours["data"] / GIGABYTE, "GB"))
    return figures


def _fit(model: str, n_rows: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.million_cases", model, str(n_rows)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _arm(n_rows: int) -> Regression:
    arm = make_robot_arm(n_rows + _TEST_ROWS, random_state=0)
    y = (arm.target - arm.target.mean()) / arm.target.std()
    return Regression("arm", arm.data[:n_rows], y[:n_rows], arm.data[n_rows:], y[n_rows:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("rows", type=int)
    options = parser.parse_args()
    data = _arm(options.rows)
    make = MODELS[options.model]
    # What threads, BLAS buffers and imports take is paid before, not by the fit.
    make().fit(data.X_train[:_WARM_UP_ROWS], data.y_train[:_WARM_UP_ROWS])
    model, before = make(), reset_peak()
    found = {"fit": seconds(partial(model.fit, data.X_train, data.y_train))}
    found |= {"added": max(peak() - before, 0), "data": data.X_train.nbytes + data.y_train.nbytes}
    if isinstance(model, SparseGPRegressor):
        found |= asdict(accuracy(model, data))
    else:
        found["rmse"] = float(np.sqrt(np.mean((model.predict(data.X_test) - data.y_test) ** 2)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
