"""Error bars for models that have none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.data import Floats

_HELD_OUT = 0.1


class PointModel:
    """A model without error bars, with one spread for all rows, learned after the fit."""

    def __init__(self, make: Callable[[], Any], seed: int) -> None:
        self.make, self.seed = make, seed

    def fit(self, X: Floats, y: Floats) -> None:
        self.model = self.make().fit(X, y)

    def learn_spread(self, X: Floats, y: Floats) -> None:
        """The error of a second fit on the rows that it did not see."""
        held_out, seen = held_out_rows(len(X), _HELD_OUT, self.seed)
        second = self.make().fit(X[seen], y[seen])
        self.spread = rmse(second.predict(X[held_out]), y[held_out])

    def predict(self, X: Floats, return_std: bool = False) -> Any:
        return (
            with_spread(self.model.predict(X), self.spread)
            if return_std
            else (np.asarray(self.model.predict(X)))
        )


def held_out_rows(n_rows: int, share: float, seed: int) -> tuple[Any, Any]:
    """Random rows that are held out, and the others."""
    order = np.random.default_rng(seed).permutation(n_rows)
    held_out, seen = np.split(order, [max(1, int(share * n_rows))])
    return held_out, seen


def rmse(mean: Any, y: Floats) -> float:
    return float(np.sqrt(np.mean((np.asarray(mean) - y) ** 2)))


def with_spread(mean: Any, spread: float) -> tuple[Floats, Floats]:
    return np.asarray(mean), np.full(len(mean), spread)
