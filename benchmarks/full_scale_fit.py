"""One fit of a basis with near rows in a process of its own; run as a module.

``python -m benchmarks.full_scale_fit DATA [--rows N] [--basis N] [--threads N]`` learns everything,
predicts the test rows and prints a JSON object: bytes of the rows, seconds of the fit, BLAS
threads, peak memory of the whole process in bytes, and the predictions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from threadpoolctl import threadpool_info, threadpool_limits

from benchmarks.data import Regression, kin40k, protein
from benchmarks.harness import seconds
from benchmarks.peak_memory import peak
from benchmarks.roads import roads
from pursuit import FullScaleGPRegressor, SparseGPRegressor

N_BASIS = 512
TEST_ROWS = 35_000

PUBLISHED: dict[str, Callable[[], Regression]] = {"kin40k": kin40k, "protein": protein}


def full_scale(**options: Any) -> FullScaleGPRegressor:
    """Everything learned, near rows included; no certificate."""
    return FullScaleGPRegressor(certificate=None, random_state=0, **options)


def sparse(**options: Any) -> SparseGPRegressor:
    """The same without near rows."""
    return SparseGPRegressor(certificate=None, random_state=0, **options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=[*PUBLISHED, "roads"])
    parser.add_argument("--rows", type=int, help="training rows; all by default")
    parser.add_argument("--basis", type=int, default=N_BASIS)
    parser.add_argument("--threads", type=int, help="BLAS threads, more than cores if need be")
    options = parser.parse_args()
    data = _load(options.data, options.rows)
    if options.threads is not None:
        # OpenBLAS cuts the number in the environment at the number of cores, but not this one.
        threadpool_limits(options.threads)
    model = full_scale(n_basis=options.basis)
    fit = seconds(partial(model.fit, data.X_train, data.y_train))
    mean, std = model.predict(data.X_test, return_std=True)
    sparse_mean = model.global_.predict(data.X_test)
    print(
        json.dumps(
            {
                "data": data.X_train.nbytes + data.y_train.nbytes,
                "fit": fit,
                "threads": max(library["num_threads"] for library in threadpool_info()),
                "peak": peak(),
                "mean": mean.tolist(),
                "std": std.tolist(),
                "sparse mean": sparse_mean.tolist(),
            }
        )
    )


def _load(name: str, n_rows: int | None) -> Regression:
    if name == "roads":
        return roads(n_rows or 400_000, TEST_ROWS)[0]
    data = PUBLISHED[name]()
    return replace(data, X_train=data.X_train[:n_rows], y_train=data.y_train[:n_rows])


if __name__ == "__main__":
    main()
