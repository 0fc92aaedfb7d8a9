"""One fit of the exact process in a process of its own; run as a module.

``python -m benchmarks.exact_fit N_ROWS [--landmarks N]`` fits kin40k with its length scales given
and prints a JSON object: times, iterations, test error, the residual that the fit reports, the same
residual from kernel values computed here in float64, and the peak memory of the whole process.
"""

from __future__ import annotations

import argparse
import json
from time import perf_counter, process_time

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF

from benchmarks.data import kin40k
from benchmarks.peak_memory import peak
from pursuit import ExactGPRegressor

LENGTH_SCALES = np.array([2.93, 2.77, 1.58, 1.75, 1.71, 1.35, 1.35, 2.03])
NOISE = 0.0094 / 1.65
_ROWS = 100

Floats = NDArray[np.float64]


def exact_gp(**options: object) -> ExactGPRegressor:
    """The process with everything given."""
    return ExactGPRegressor(
        RBF(LENGTH_SCALES),
        noise=NOISE,
        optimizer=None,
        normalize_y=False,
        random_state=0,
        **options,
    )


def kernel_block(A: Floats, B: Floats) -> Floats:
    """The kernel from differences of features, with nothing of ours."""
    squares = np.zeros((len(A), len(B)))
    for j, scale in enumerate(LENGTH_SCALES):
        squares += ((A[:, [j]] - B[:, j]) / scale) ** 2
    return np.exp(-0.5 * squares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n_rows", type=int)
    parser.add_argument("--landmarks", type=int)
    options = parser.parse_args()
    data = kin40k()
    rows = np.random.default_rng(0).permutation(len(data.X_train))[: options.n_rows]
    X, y = data.X_train[rows], data.y_train[rows]
    size = "auto" if options.landmarks is None else options.landmarks
    start, start_cpu = perf_counter(), process_time()
    model = exact_gp(solver="cg", preconditioner_size=size).fit(X, y)
    fitted, cpu = perf_counter(), process_time() - start_cpu
    mean = model.predict(data.X_test)
    predicted = perf_counter()
    memory = peak()
    residual = y - NOISE * model.dual_coef_
    for first in range(0, len(X), _ROWS):
        here = slice(first, first + _ROWS)
        residual[here] -= kernel_block(X[here], X) @ model.dual_coef_
    print(
        json.dumps(
            {
                "fit": fitted - start,
                "cpu": cpu,
                "predict": predicted - fitted,
                "iterations": model.n_iter_,
                "residual": model.path_.residual[-1],
                "true_residual": np.linalg.norm(residual) / np.linalg.norm(y),
                "relative_gap": model.certificate_.relative_gap,
                "rmse": float(np.sqrt(np.mean((mean - data.y_test) ** 2))),
                "peak": memory,
                "stages": model.learning_report_.seconds,
            }
        )
    )


if __name__ == "__main__":
    main()
