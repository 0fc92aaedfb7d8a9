"""One fit to a Parquet file in a process of its own; run as a module.

``python -m benchmarks.file_fit PATH [--learn]`` fits the column y with 512 basis functions and
float32 tiles, kernel and noise given or learned, and prints a JSON object: rows, seconds and CPU
seconds of the fit, seconds of its stages, and the peak memory of the whole process.
"""

from __future__ import annotations

import argparse
import json
from time import perf_counter, process_time
from typing import Any

from sklearn.gaussian_process.kernels import RBF

from benchmarks.peak_memory import peak
from pursuit import SparseGPRegressor, open_table

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path")
    parser.add_argument("--learn", action="store_true", help="learn kernel and noise, move points")
    options = parser.parse_args()
    n_rows = open_table(options.path).n_rows
    start, start_cpu = perf_counter(), process_time()
    fitted = model(learn=options.learn).fit(options.path, target="y")
    spent, cpu = perf_counter() - start, process_time() - start_cpu
    found = {"rows": n_rows, "fit": spent, "cpu": cpu, "peak": peak()}
    print(json.dumps({**found, "stages": fitted.learning_report_.seconds}))


if __name__ == "__main__":
    main()
