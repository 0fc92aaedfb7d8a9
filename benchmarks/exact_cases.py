"""The exact Gaussian process on kin40k: iterations, time, memory, error and a dense reference."""

from __future__ import annotations

import json
import subprocess
import sys
from time import perf_counter
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import cg
from sklearn.gaussian_process.kernels import RBF

from benchmarks.data import kin40k
from benchmarks.exact_fit import LENGTH_SCALES, NOISE, exact_gp, kernel_block
from benchmarks.harness import Figure
from pursuit import FullScaleGPRegressor

MEGABYTE = 2.0**20
LIMIT = 1001


def exact_gp_case(quick: bool, repeat: int) -> list[Figure]:
    """36 000 rows by conjugate gradients, each fit once, in a process of its own.

    Without a preconditioner half the rows are enough to need a thousand iterations.
    """
    kin40k()  # says what is missing before any process is started
    many, few, half, dense = (4000, 1000, 2000, 1000) if quick else (36_000, 9000, 18_000, 6000)
    landmarks = 200 if quick else 1992
    full = _fit(many)
    quarter = _fit(few, landmarks)
    same = full if landmarks == 1992 else _fit(many, landmarks)
    figures = [
        Figure(f"fit, m={many}", full["fit"], "s", at_most=150),
        Figure("of it: CPU time of all threads", full["cpu"], "s"),
        *(Figure(f"of it: {name}", spent, "s") for name, spent in full["stages"].items()),
        Figure("predict 4 000 rows", full["predict"], "s"),
        Figure("iterations", full["iterations"], at_most=60),
        Figure("relative residual, as reported", full["residual"], at_most=1e-4),
        Figure("relative residual, float64 and independent", full["true_residual"], at_most=1e-4),
        Figure("relative gap of the certificate", full["relative_gap"]),
        Figure("RMSE", full["rmse"], at_most=0.083),
        Figure("peak memory of the process", full["peak"] / MEGABYTE, "MB", at_most=1536),
        Figure(f"iterations, m={few}, {landmarks} landmarks", quarter["iterations"]),
        Figure(
            f"iterations, m={many} / m={few}",
            same["iterations"] / quarter["iterations"],
            "x",
            at_most=2.3,
        ),
    ]
    return [*figures, _unpreconditioned(half), _against_dense(dense)]


def _fit(n_rows: int, landmarks: int | None = None) -> dict[str, Any]:
    extra = [] if landmarks is None else ["--landmarks", str(landmarks)]
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.exact_fit", str(n_rows), *extra],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def _unpreconditioned(n_rows: int) -> Figure:
    """SciPy's conjugate gradients on the stored matrix, in float64 (2.6 GB for 18 000 rows)."""
    data = kin40k()
    X, y = data.X_train[:n_rows], data.y_train[:n_rows]
    K = np.empty((n_rows, n_rows))
    for first in range(0, n_rows, 100):
        K[first : first + 100] = kernel_block(X[first : first + 100], X)
    K[np.diag_indices_from(K)] += NOISE
    taken = 0

    def count(_: object) -> None:
        nonlocal taken
        taken += 1

    cg(K, y, rtol=1e-4, maxiter=LIMIT, callback=count)
    return Figure(
        f"iterations without preconditioner, m={n_rows} (cut at {LIMIT})", taken, at_least=LIMIT
    )


def _against_dense(n_rows: int) -> Figure:
    data = kin40k()
    X, y = data.X_train[:n_rows], data.y_train[:n_rows]
    model = exact_gp(solver="cg", residual_tol=1e-8).fit(X, y)
    K = kernel_block(X, X)
    K[np.diag_indices_from(K)] += NOISE
    coefficients = cho_solve(cho_factor(K, lower=True, overwrite_a=True), y)
    expected = kernel_block(data.X_test, X) @ coefficients
    difference = float(np.abs(model.predict(data.X_test) - expected).max())
    return Figure(f"largest difference to Cholesky, m={n_rows}, tol=1e-8", difference, at_most=1e-6)


def exact_distance_case(quick: bool, repeat: int) -> list[Figure]:
    """How far a full-scale model is from the exact process, at 50 points of kin40k."""
    n_rows = 3500 if quick else 6000
    data = kin40k()
    X, y, new = data.X_train[:n_rows], data.y_train[:n_rows], data.X_test[:50]
    figures = []
    for coupling in ("late", "full"):
        model = FullScaleGPRegressor(
            RBF(LENGTH_SCALES),
            n_basis=256,
            n_neighbors=32,
            coupling=coupling,
            noise=NOISE,
            optimizer=None,
            calibration=None,
            normalize_y=False,
            random_state=0,
        ).fit(X, y)
        start = perf_counter()
        distance = model.distance_to_exact(new)
        seconds = perf_counter() - start
        mean, std = _dense_process(X, y, new)
        wrong = (mean < distance.mean_lower) | (mean > distance.mean_upper)
        wrong |= (std < distance.std_lower) | (std > distance.std_upper)
        off = np.abs(distance.mean - mean)
        assert distance.squared_distance_upper is not None
        expected = float(np.sqrt(distance.squared_distance_upper.mean()))
        figures += [
            Figure(f"{coupling}: distance of 50 points, m={n_rows}", seconds, "s"),
            Figure(f"{coupling}: iterations", distance.n_iter),
            Figure(f"{coupling}: points outside their bounds", int(wrong.sum()), at_most=0),
            Figure(
                f"{coupling}: bound on the distance of the means / distance",
                float(distance.mean_distance.mean() / off.mean()),
                "x",
                at_most=1.1,
            ),
            Figure(
                f"{coupling}: distance of the means, root mean square",
                float(np.sqrt(np.mean(off**2))),
            ),
            Figure(f"{coupling}: the same, expected by the process", expected),
            Figure(f"{coupling}: exact standard deviation, mean", float(std.mean())),
        ]
    return figures


def _dense_process(X: Any, y: Any, new: Any) -> tuple[Any, Any]:
    """Mean and standard deviation of an observation by Cholesky, with nothing of ours."""
    K = kernel_block(X, X)
    K[np.diag_indices_from(K)] += NOISE
    factor = cho_factor(K, lower=True, overwrite_a=True)
    k = kernel_block(new, X)
    explained = np.einsum("ij,ji->i", k, cho_solve(factor, k.T))
    return k @ cho_solve(factor, y), np.sqrt(1.0 - explained + NOISE)
