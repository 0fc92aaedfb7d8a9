"""One fit to a Parquet file in a process of its own; run as a module.

``python -m benchmarks.file_fit PATH [--learn] [--memory]`` fits the column y with 512 basis
functions and float32 tiles, kernel and noise given or learned, and prints a JSON object: rows,
seconds and CPU seconds of the fit, seconds of its stages, and the peak memory of the whole process.
With ``--memory`` the fit is to arrays that were read from the file before the clock starts.
"""

from __future__ import annotations

import argparse
import json
from time import perf_counter, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF

from benchmarks.peak_memory import peak
from pursuit import SparseGPRegressor, open_table
from pursuit.rows import read_all

Floats = NDArray[np.float64]

N_BASIS = 512
LENGTH_SCALE = 2.0
NOISE = 0.05


def model(*, learn: bool, dtype: str = "float32") -> SparseGPRegressor:
    """A sparse process; what is not learned is given."""
    given: dict[str, Any] = {"kernel": RBF(LENGTH_SCALE), "noise": NOISE, "optimizer": None}
    return SparseGPRegressor(
        n_basis=N_BASIS,
        certificate=None,
        dtype=dtype,
        random_state=0,
        **({} if learn else given),
    )


def in_memory(table: Any) -> tuple[Floats, Floats]:
    """All columns but y, and y, as arrays."""
    X = table.select([name for name in table.columns if name != "y"])
    return read_all(X), table.read(["y"])[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path")
    parser.add_argument("--learn", action="store_true", help="learn kernel and noise, move points")
    parser.add_argument("--memory", action="store_true", help="fit arrays, not the file")
    options = parser.parse_args()
    table = open_table(options.path)
    n_rows = table.n_rows
    data: dict[str, Any] = {"X": options.path, "target": "y"}
    if options.memory:
        data = dict(zip("Xy", in_memory(table), strict=True))
    start, start_cpu = perf_counter(), process_time()
    fitted = model(learn=options.learn).fit(**data)
    spent, cpu = perf_counter() - start, process_time() - start_cpu
    found = {"rows": n_rows, "fit": spent, "cpu": cpu, "peak": peak()}
    print(json.dumps({**found, "stages": fitted.learning_report_.seconds}))


if __name__ == "__main__":
    main()
