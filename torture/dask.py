"""Rows in dask collections give the model of the same rows in memory, however they are cut.

A seed draws rows, an estimator, a kind of collection and its partitions. The model must be that of
the rows in memory to the last bit, and the bounds of its certificate up to rounding, since products
with the kernel matrix are added up by partitions. Then rows change between two passes, and the fit
must say so. A module of this name would hide dask itself, were it not inside a package.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from torture import Fuzzer, Report
from torture.small_models import Rows, bounds, differences, fitted, numbers

STREAMED = (
    "SparseGPRegressor",
    "SparseGPRegressor, moved",
    "SparseGPClassifier",
    "SparseKernelRidge",
    "SparseKernelRidge, random",
    "LowRankSVC",
    "LowRankSVR",
    "KernelMatchingPursuitRegressor",
    "SparseKernelPCA",
    "GreedyFeatureMap",
)
_BOUNDS = 1e-9
_MOST_ROWS = 20_000
"""More than two blocks, so that partitions and blocks end at different rows."""


def run(seed: int) -> Report:
    """Fit a random estimator to rows in memory, in dask, and to rows that change."""
    rng, report = np.random.default_rng(seed), Report()
    small = rng.random() < 0.9
    rows = Rows(rng, int(rng.integers(50, 600 if small else _MOST_ROWS)), int(rng.integers(1, 4)))
    name, kind = str(rng.choice(STREAMED)), str(rng.choice(["array", "frame", "delayed"]))
    n_cuts = int(rng.integers(0, 6))
    cuts = np.sort(rng.choice(np.arange(1, len(rows.X)), n_cuts, replace=False))
    where = f"{name}, {len(rows.X)} rows in a dask {kind} cut at {cuts.tolist()}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = fitted(name, rows)
        found = fitted(name, rows, X=collection(kind, rows.X, cuts))
        report.counts["collections"] += 1
        difference = differences(numbers(expected, rows), numbers(found, rows))
        if difference:
            report.failures.append(f"{where}: {difference}")
        if kind_of_proof(found) != kind_of_proof(expected):
            # Beyond 10 000 rows, "auto" looks at some rows first where they need not be sent.
            report.counts["other kinds of certificates"] += 1
        elif not np.allclose(bounds(found), bounds(expected), rtol=_BOUNDS, atol=0.0):
            report.failures.append(f"{where}: bounds {bounds(found)}, not {bounds(expected)}")
        changes = Changing(rows.X, cuts, rng)
        report.counts["collections that change"] += 1
        try:
            model = fitted(name, rows, X=changes.blocks())
        except ValueError as error:
            if "persist()" not in str(error) or "X:" not in str(error):
                report.failures.append(f"{where}: the error does not say what to do: {error}")
        else:
            # A value that nobody has looked at twice may change: the model is that of either.
            report.counts["changes that nobody could see"] += 1
            after = numbers(fitted(name, rows, X=changes.last), rows)
            if changes.was_seen_twice and differences(numbers(model, rows), after):
                report.failures.append(f"{where}: a row that changed was not noticed")
    return report


def kind_of_proof(model: Any) -> str | None:
    """The kind of a model's certificate, if it has one."""
    found = getattr(model, "certificate_", None)
    return None if found is None else found.kind


def collection(kind: str, X: np.ndarray, cuts: np.ndarray) -> Any:
    """The rows as a dask collection with these partitions."""
    import dask
    import dask.array as da

    parts = np.split(X, cuts)
    if kind == "array":
        return da.concatenate([da.from_array(part, chunks=part.shape) for part in parts])
    if kind == "delayed":
        return [dask.delayed(part) for part in parts]
    import dask.dataframe as dd
    import pandas as pd

    names = [f"x{j}" for j in range(X.shape[1])]
    return dd.concat([dd.from_pandas(pd.DataFrame(part, columns=names), 1) for part in parts])


class Changing:
    """Blocks of rows, all of which are other ones from some computation on."""

    def __init__(self, X: np.ndarray, cuts: np.ndarray, rng: np.random.Generator) -> None:
        self._parts, self._times = np.split(X, cuts), 0
        self._after = len(self._parts) * int(rng.integers(2, 4))
        self.last = X * (1.0 + 1e-9)

    def blocks(self) -> list[Any]:
        """Delayed blocks."""
        import dask

        return [dask.delayed(self._block, pure=False)(i) for i in range(len(self._parts))]

    @property
    def was_seen_twice(self) -> bool:
        """Whether every block was computed before and after it changed."""
        return self._times > self._after + len(self._parts)

    def _block(self, number: int) -> np.ndarray:
        self._times += 1
        changed = self._times > self._after
        return self._parts[number] * (1.0 + 1e-9 * changed)


FUZZER = Fuzzer(name="dask", run=run, share=0.5)
