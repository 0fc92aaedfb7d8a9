"""Kernels that are searched for, beside the best of the fixed families."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
from sklearn.datasets import load_diabetes

from benchmarks.data import NotAvailableError, Regression, standardised
from benchmarks.harness import Figure
from pursuit import SparseGPRegressor, datasets

SPLITS = 0, 1, 2
MOST_ROWS = 5000
"""Training rows of the large sets, which are tested on as many others."""
MOST_ABOVE = 1.005

Arrays = tuple[np.ndarray, np.ndarray]


def _whole(load: Callable[..., Arrays]) -> Arrays:
    try:
        return load(return_X_y=True)
    except ValueError as missing:
        raise NotAvailableError(str(missing)) from missing


SETS: dict[str, Callable[[], Arrays]] = {
    "diabetes": lambda: load_diabetes(return_X_y=True),
    "housing": lambda: _whole(datasets.load_boston),
    "abalone": lambda: _whole(datasets.load_abalone),
    "kin40k": lambda: _whole(datasets.load_kin40k),
    "protein": lambda: _whole(datasets.load_protein),
}


def split(name: str, number: int, most: int) -> Regression:
    """Four fifths of the rows at random, or as many as are wanted of a large set, and the rest."""
    X, y = SETS[name]()
    order = np.random.default_rng(number).permutation(len(X))
    n = min(most, 4 * len(X) // 5)
    train, test = order[:n], order[n : n + most]
    return standardised(name, X[train], y[train], X[test], y[test])


def kernel_search(quick: bool, repeat: int) -> list[Figure]:
    """Error with kernel="search" over that of the fixed families, mean of three splits."""
    figures, below = [], 0
    for name in list(SETS)[: 1 if quick else None]:
        errors: dict[str | None, list[float]] = {None: [], "search": []}
        seconds: dict[str | None, float] = {None: 0.0, "search": 0.0}
        for number in SPLITS[: 1 if quick else None]:
            data = split(name, number, MOST_ROWS)
            for kernel, found in errors.items():
                start = perf_counter()
                model = SparseGPRegressor(kernel, certificate=None, random_state=number)
                model.fit(data.X_train, data.y_train)
                seconds[kernel] += perf_counter() - start
                error = model.predict(data.X_test) - data.y_test
                found.append(float(np.sqrt(np.mean(error**2))))
                print(f"  {name} {number} {kernel}: {found[-1]:.4f}", flush=True)
        fixed, searched = (float(np.mean(errors[kernel])) for kernel in (None, "search"))
        below += searched < fixed
        figures += [
            Figure(f"{name}: fixed families, RMSE", fixed),
            Figure(f"{name}: search, RMSE", searched),
            Figure(f"{name}: search / fixed, RMSE", searched / fixed, "x", at_most=MOST_ABOVE),
            Figure(f"{name}: search / fixed, fit", seconds["search"] / seconds[None], "x"),
        ]
    figures.append(Figure("sets with a lower error", float(below), at_least=2.0))
    return figures
