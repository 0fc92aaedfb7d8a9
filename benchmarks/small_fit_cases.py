"""Fits of up to 20 000 rows with a given kernel, beside Nystroem and Ridge."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.gaussian_process.kernels import RBF, Kernel, Matern
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from benchmarks.data import (
    Floats,
    NotAvailableError,
    Regression,
    kin40k,
    protein,
    standardised,
    tilted_waves,
)
from benchmarks.harness import Figure
from pursuit import SparseGPRegressor

ROWS, TEST_ROWS = 14_000, 2_000
SEEDS = 2


def small_fits(quick: bool, repeat: int) -> list[Figure]:
    """CPU time and test error of n = 800 over Nystroem-1200 + Ridge, kernel given, one thread.

    The best time of all runs, the mean error over seeds.
    """
    m, n = (3_000, 64) if quick else (ROWS, 800)
    figures = []
    for name, (make, kernel, noise) in _sets().items():
        try:
            data = make(m)
        except NotAvailableError:
            continue
        ours, peer = _measured(data, _solvers(kernel, noise, n), max(repeat, SEEDS))
        figures += [
            Figure(f"{name}, m={len(data.X_train)}: fit", ours[0], "s of CPU"),
            Figure(f"{name}: time over Nystroem's", ours[0] / peer[0], "x", at_most=0.5),
            Figure(f"{name}: error over Nystroem's", ours[1] / peer[1], "x", at_most=1.0),
        ]
    return figures


def stage_shares(quick: bool, repeat: int) -> list[Figure]:
    """Default fits below 20 000 rows: the part of their time that neither learns nor moves."""
    n = 64 if quick else 512
    sets = {
        "kin40k": lambda: _rows_of(kin40k(), 3_000 if quick else ROWS),
        "kin40k, few rows": lambda: _rows_of(kin40k(), 2_500 if quick else 5_000),
        "protein": lambda: _rows_of(protein(), 3_000 if quick else ROWS),
        "Friedman": lambda: _friedman(3_000 if quick else ROWS),
        "tilted waves, 18 features": lambda: tilted_waves().cut() if quick else tilted_waves(),
    }
    figures = []
    for name, make in sets.items():
        try:
            data = make()
        except NotAvailableError:
            continue
        model = SparseGPRegressor(n_basis=n, random_state=0).fit(data.X_train, data.y_train)
        seconds = model.learning_report_.seconds
        total = sum(seconds.values())
        other = total - seconds["learn"] - seconds.get("move", 0.0)
        figures += [
            Figure(f"{name}, m={len(data.X_train)}: fit", total, "s"),
            Figure(f"{name}: neither learning nor moving", other / total, at_most=0.4),
        ]
    return figures


def _sets() -> dict[str, tuple[Callable[[int], Regression], Kernel, float]]:
    """Data of m rows, and a kernel and noise that suit them: drawn with, or learned by evidence."""
    kin = RBF([2.97, 2.53, 1.5, 1.7, 1.55, 1.3, 1.33, 1.79])
    friedman = RBF([1.9, 2.0, 2.7, 5.5, 7.8, 70.0, 1e3, 400.0, 1e3, 75.0])
    return {
        "kin40k": (lambda m: _rows_of(kin40k(), m), kin, 0.0097),
        "protein": (lambda m: _rows_of(protein(), m), Matern(np.full(9, 3.0), nu=0.5), 0.2),
        "Matérn-3/2 in 4 dimensions": (
            lambda m: _drawn(m, 4, 1.5, 1.0, 0.1),
            Matern(np.full(4, 1.15), nu=1.5),
            0.0085,
        ),
        "Matérn-3/2 in 8 dimensions": (
            lambda m: _drawn(m, 8, 1.5, 2.5, 0.2),
            Matern(np.full(8, 2.5), nu=1.5),
            0.04,
        ),
        "Gaussian in 8 dimensions": (
            lambda m: _drawn(m, 8, np.inf, 1.5, 0.1),
            RBF(np.full(8, 1.5)),
            0.01,
        ),
        "Gaussian in 20 dimensions": (
            lambda m: _drawn(m, 20, np.inf, 4.0, 0.2),
            RBF(np.full(20, 4.0)),
            0.04,
        ),
        "Friedman": (_friedman, friedman, 0.039),
    }


def _drawn(m: int, d: int, smoothness: float, length: float, noise: float) -> Regression:
    """A function drawn from a Matérn (or, smoothness inf, Gaussian) process by 3 000 cosines."""
    rng, n_cosines = np.random.default_rng(0), 3_000
    X = rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), (m + TEST_ROWS, d))
    W = rng.standard_normal((n_cosines, d)) / length
    if np.isfinite(smoothness):
        W /= np.sqrt(rng.chisquare(2 * smoothness, (n_cosines, 1)) / (2 * smoothness))
    shift = rng.uniform(0, 2 * np.pi, n_cosines)
    height = rng.standard_normal(n_cosines) * np.sqrt(2.0 / n_cosines)
    y = np.cos(X @ W.T + shift) @ height + noise * rng.standard_normal(len(X))
    return standardised("drawn", X[:m], y[:m], X[m:], y[m:])


def _friedman(m: int) -> Regression:
    X, y = make_friedman1(m + TEST_ROWS, n_features=10, noise=1.0, random_state=0)
    return standardised("Friedman", X[:m], y[:m], X[m:], y[m:])


def _rows_of(data: Regression, m: int) -> Regression:
    rows = np.random.default_rng(0).permutation(len(data.X_train))[:m]
    X, y = data.X_train[rows], data.y_train[rows]
    return standardised(data.name, X, y, data.X_test, data.y_test)


def _solvers(kernel: Kernel, noise: float, n: int) -> list[Callable[[int], Any]]:
    def ours(seed: int) -> Any:
        return SparseGPRegressor(
            kernel,
            noise=noise,
            n_basis=n,
            optimizer=None,
            certificate=None,
            normalize_y=False,
            n_jobs=1,
            random_state=seed,
        )

    def peer(seed: int) -> Any:
        nystroem = Nystroem(kernel=kernel, n_components=3 * n // 2, random_state=seed)
        return make_pipeline(nystroem, Ridge(alpha=noise, fit_intercept=False))

    return [ours, peer]


def _measured(
    data: Regression, solvers: list[Callable[[int], Any]], repeat: int
) -> list[tuple[float, float]]:
    """Best CPU seconds of a fit and mean test error of each solver, seeds in turn."""
    seconds = np.full(len(solvers), np.inf)
    errors: Floats = np.zeros((len(solvers), repeat))
    with threadpool_limits(1):
        for seed in range(repeat):
            for i, solver in enumerate(solvers):
                start = process_time()
                model = solver(seed).fit(data.X_train, data.y_train)
                seconds[i] = min(seconds[i], process_time() - start)
                residual = model.predict(data.X_test) - data.y_test
                errors[i, seed] = np.sqrt(np.mean(residual**2))
    return [(float(t), float(e)) for t, e in zip(seconds, errors.mean(axis=1), strict=True)]
