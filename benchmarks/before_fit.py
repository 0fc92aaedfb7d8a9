"""One fit of whichever version of the package is found first; run as a module.

``python -m benchmarks.before_fit NAME [--quick]`` prints a JSON object: seconds of the fit and
the error on the test rows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.data import Regression, kin40k, protein
from benchmarks.exact_fit import exact_gp
from pursuit import SparseGPRegressor


def _learned(quick: bool) -> Any:
    size = 64 if quick else 2048
    return SparseGPRegressor(n_basis=size, certificate=None, n_jobs=2, random_state=0)


def _exact(quick: bool) -> Any:
    return exact_gp(solver="cg")


FITS: dict[str, tuple[Callable[[], Regression], Callable[[bool], Any]]] = {
    "kin40k, n = 2048, all learned": (kin40k, _learned),
    "protein, n = 2048, all learned": (protein, _learned),
    "kin40k, exact process": (kin40k, _exact),
}
"""Data and model of each fit."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=FITS)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    load, make = FITS[options.name]
    data = load().cut() if options.quick else load()
    make(True).fit(data.X_train[:2500], data.y_train[:2500])
    model = make(options.quick)
    start = perf_counter()
    model.fit(data.X_train, data.y_train)
    spent = perf_counter() - start
    error = model.predict(data.X_test) - data.y_test
    print(json.dumps({"fit": spent, "rmse": float(np.sqrt(np.mean(error**2)))}))


if __name__ == "__main__":
    main()
