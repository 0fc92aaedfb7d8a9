"""Kernel matching pursuit: the cost of pre-fitting, and sizes chosen by the bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import orthogonal_mp_gram
from sklearn.preprocessing import StandardScaler

from benchmarks.data import NotAvailableError, robot_arm
from benchmarks.harness import Figure, best_seconds
from pursuit import KernelMatchingPursuitRegressor
from pursuit.datasets import load_abalone, load_boston
from pursuit.gram import gram_statistics, kernel_times
from pursuit.greedy import CostMeter, MaxSize, Pursuit
from pursuit.kernels import CountingKernel, compile_kernel
from pursuit.linalg import Workers
from pursuit.objectives import PrefitPursuit
from pursuit.rows import ArrayRows, Sample

Floats = NDArray[np.float64]

WITHIN = 1.10
LONGEST_PATH = 300


def matching_omp(quick: bool, repeat: int) -> list[Figure]:
    """Pre-fitting beside scikit-learn's orthogonal matching pursuit on the same Gram matrix."""
    m, P, n = (3000, 600, 100) if quick else (20_000, 4000, 500)
    X, y = robot_arm(m)
    kernel = CountingKernel(compile_kernel(RBF(1.5), n_features=X.shape[1])[0])
    sample, points = Sample(ArrayRows(X), y[:, None], np.ones(m)), X[:P].copy()
    with Workers() as workers:
        statistics = gram_statistics(sample, kernel, points, workers=workers)
    G, b = statistics.gram, statistics.cross
    found: dict[str, Floats] = {}

    def ours() -> None:
        with Workers() as workers:
            objective = PrefitPursuit(
                np.diag(G), b, G.__getitem__, capacity=n, workers=workers, look_ahead=True
            )
            Pursuit(objective, CostMeter(kernel)).run([MaxSize(n)])
            found["ours"] = np.zeros((P, 1))
            found["ours"][objective.chosen] = objective.coefficients()

    def theirs() -> None:
        found["theirs"] = orthogonal_mp_gram(G, b[:, 0], n_nonzero_coefs=n).reshape(-1, 1)

    best = best_seconds({"ours": ours, "theirs": theirs}, repeat)
    residual = {}
    with Workers() as workers:
        for name, beta in found.items():
            fitted = kernel_times(sample.rows, kernel, points, beta, workers)[:, 0]
            residual[name] = float(np.sum((y - fitted) ** 2) / np.sum(y**2))
    return [
        Figure(f"pre-fitting {n} of {P}", best["ours"], "s"),
        Figure("orthogonal_mp_gram", best["theirs"], "s"),
        Figure("ours / orthogonal_mp_gram: time", best["ours"] / best["theirs"], "x", at_most=1.0),
        Figure("ours: residual", residual["ours"]),
        Figure("orthogonal_mp_gram: residual", residual["theirs"]),
        Figure("ours / theirs: residual", residual["ours"] / residual["theirs"], "x", at_most=1.0),
    ]


@dataclass(frozen=True)
class Task:
    name: str
    X: Floats
    y: Floats
    n_train: int
    has_target: bool = True


def matching_size(quick: bool, repeat: int) -> list[Figure]:
    """Test error at the size the bound, or a validation split, chooses, over the best on the path.

    Median and worst over splits and two widths, 2w² = d and 2d; the path has up to 300 functions.
    """
    n_splits = 1 if quick else 4
    figures = []
    for task in _tasks():
        found = [_sizes(task, width, split) for width in (1.0, 2.0) for split in range(n_splits)]
        ratios = {name: [run[name] for run in found] for name in found[0]}
        limit = WITHIN if task.has_target else None
        figures += [
            Figure(f"{task.name}: bound, median", np.median(ratios["bound"]), "x", at_most=limit),
            Figure(f"{task.name}: bound, worst", max(ratios["bound"]), "x"),
            Figure(f"{task.name}: validation, median", np.median(ratios["validation"]), "x"),
            Figure(f"{task.name}: validation, worst", max(ratios["validation"]), "x"),
            Figure(f"{task.name}: size by the bound, median", np.median(ratios["size"])),
            Figure(f"{task.name}: best size, median", np.median(ratios["best size"])),
            Figure(f"{task.name}: value of the bound, median", np.median(ratios["value"])),
        ]
    return figures


def _sizes(task: Task, width: float, split: int) -> dict[str, float]:
    """Ratios of errors, sizes, and the bound's value on one split."""
    order = np.random.default_rng(split).permutation(len(task.y))
    train, test = order[: task.n_train], order[task.n_train :]
    scaler = StandardScaler().fit(task.X[train])
    X, X_test = scaler.transform(task.X[train]), scaler.transform(task.X[test])
    options = {"gamma": 1 / (width * X.shape[1]), "random_state": split}

    def error(model: KernelMatchingPursuitRegressor) -> float:
        return float(np.sqrt(np.mean((model.predict(X_test) - task.y[test]) ** 2)))

    whole, by_bound, by_validation = (
        KernelMatchingPursuitRegressor(n_basis=n_basis, **options).fit(X, task.y[train])
        for n_basis in (LONGEST_PATH, "bound", "validation")
    )
    errors = [error(whole.truncated(n)) for n in range(1, whole.n_basis_ + 1)]
    return {
        "bound": error(by_bound) / min(errors),
        "validation": error(by_validation) / min(errors),
        "size": by_bound.n_basis_,
        "best size": int(np.argmin(errors)) + 1,
        "value": float(by_bound.generalization_bound_.value[by_bound.n_basis_ - 1]),
    }


def _tasks() -> Iterator[Task]:
    try:
        yield Task("Boston", *load_boston(return_X_y=True), n_train=450, has_target=False)
        yield Task("Abalone", *load_abalone(return_X_y=True), n_train=3000)
    except ValueError as missing:
        raise NotAvailableError(str(missing)) from missing
    rng = np.random.default_rng(1)
    X = rng.uniform(-3, 3, (1500, 1))
    yield Task("sinc", X, np.sinc(X[:, 0]) + 0.1 * rng.normal(size=1500), 1000)
    X = rng.random((2500, 10))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    y += 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=2500)
    yield Task("Friedman 1", X, y, 2000)
    X = rng.normal(size=(1500, 3))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.2 * rng.standard_t(2.5, 1500)
    yield Task("heavy tail", X, y, 1000)
