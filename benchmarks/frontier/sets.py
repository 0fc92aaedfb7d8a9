"""Six real data sets, one split per seed, standardised on their training part."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import (
    Floats,
    NotAvailableError,
    Regression,
    published,
    standardised,
)
from benchmarks.flights import TARGET, flights, pandas
from pursuit import datasets

_TEST_SHARE = 0.1
_ORDERS = {
    "cut": "Fair,Good,Very Good,Premium,Ideal",
    "color": "J,I,H,G,F,E,D",
    "clarity": "I1,SI2,SI1,VS2,VS1,VVS2,VVS1,IF",
}
"""Grades of diamonds, worst first: each becomes its number in this order."""


def housing(seed: int) -> Regression:
    return _splits("housing", datasets.load_boston, seed)


def abalone(seed: int) -> Regression:
    _find("abalone.data")
    X, y = datasets.load_abalone(return_X_y=True)
    return _split("abalone", X, y, seed)


def kin40k(seed: int) -> Regression:
    return _splits("kin40k", datasets.load_kin40k, seed)


def protein(seed: int) -> Regression:
    return _splits("protein", datasets.load_protein, seed)


def diamonds(seed: int) -> Regression:
    """The logarithm of the price of 53 940 diamonds from nine features."""
    # First: with the package that contains them pandas is installed, too.
    file = _diamonds_file()
    table = pandas().read_csv(file)
    for name, grades in _ORDERS.items():
        table[name] = table[name].map(grades.split(",").index)
    X = table.drop(columns="price").to_numpy(dtype=float)
    return _split("diamonds", X, np.log(table["price"].to_numpy(dtype=float)), seed)


def new_york_flights(seed: int) -> Regression:
    train, test = flights(seed=seed)
    parts: list[Any] = []
    for part in (train, test):
        parts += [part.drop(columns=TARGET).to_numpy(), part[TARGET].to_numpy()]
    return standardised("flights", *parts)


SETS: dict[str, Callable[[int], Regression]] = {
    "housing": housing,
    "abalone": abalone,
    "kin40k": kin40k,
    "protein": protein,
    "diamonds": diamonds,
    "flights": new_york_flights,
}
"""Small ones first, which is also the order of work."""


def _splits(name: str, load: Callable[..., tuple[Floats, ...]], seed: int) -> Regression:
    """A split of a published data set, in two files."""
    _find(f"{name}.csv.gz")
    _find(f"{name}.test_mask.csv.gz")
    return published(name, load, seed)


def _find(file: str) -> None:
    folder = os.environ.get("PURSUIT_DATA")
    if not folder or not (Path(folder) / file).is_file():
        raise NotAvailableError(f"{file} is missing: set PURSUIT_DATA to a folder that contains it")


def _split(name: str, X: Floats, y: Floats, seed: int) -> Regression:
    order = np.random.default_rng(seed).permutation(len(X))
    test, train = np.split(order, [int(_TEST_SHARE * len(X))])
    return standardised(name, X[train], y[train], X[test], y[test])


def _diamonds_file() -> Path:
    # Not imported: its plots would be, too.
    spec = find_spec("plotnine")
    if spec is None or not spec.submodule_search_locations:
        raise NotAvailableError(
            "plotnine, which contains the diamonds, is not installed: pip install plotnine"
        )
    return Path(spec.submodule_search_locations[0]) / "data" / "diamonds.csv"
