"""What changes when code moves over from scikit-learn: CPU time, error and error bars of both."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import KernelPCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks.harness import Figure
from pursuit import (
    ExactGPRegressor,
    FullScaleGPRegressor,
    GreedyFeatureMap,
    LowRankSVC,
    SparseGPRegressor,
    SparseKernelPCA,
)
from pursuit.datasets import make_robot_arm

Floats = NDArray[np.float64]

ROWS, TEST_ROWS = 20_000, 5_000
GAMMA, RIDGE = 0.1, 0.01
_TWO_SIDED_95 = 1.96


class Arm:
    """Rows of the robot arm: angles and the distance of its hand, in units of its deviation."""

    def __init__(self, n_rows: int, n_test: int) -> None:
        arm = make_robot_arm(n_rows + n_test, random_state=0)
        y = (arm.target - arm.target.mean()) / arm.target.std()
        self.X, self.X_new = arm.data[:n_rows], arm.data[n_rows:]
        self.y, self.y_new = y[:n_rows], y[n_rows:]

    @property
    def far(self) -> NDArray[np.bool_]:
        return np.asarray(self.y > np.median(self.y))

    @property
    def far_new(self) -> NDArray[np.bool_]:
        return np.asarray(self.y_new > np.median(self.y))


def cpu_seconds(task: Callable[[], Any]) -> tuple[Any, float]:
    start = process_time()
    result = task()
    return result, process_time() - start


def moving_over(quick: bool, repeat: int) -> list[Figure]:
    """The recipes for scikit-learn's classes, both ways on the same rows, on one thread."""
    arm = Arm(2_000, 1_000) if quick else Arm(ROWS, TEST_ROWS)
    with threadpool_limits(1):
        return [
            *_processes(arm, (200,) if quick else (500, 1_000, 2_000), 50 if quick else 512),
            *_features(arm, 50 if quick else 500),
            *_machines(arm, 50 if quick else 500),
            *_components(arm, 500 if quick else 5_000, 50 if quick else 500),
        ]


def _processes(arm: Arm, sizes: tuple[int, ...], n_basis: int) -> list[Figure]:
    """GaussianProcessRegressor on few rows, beside ours on the same rows and on all of them."""
    kernel = 1.0 * RBF(np.ones(arm.X.shape[1])) + WhiteKernel(0.01)
    figures = []
    for m in sizes:
        exact = GaussianProcessRegressor(kernel, normalize_y=True)
        ours = ExactGPRegressor(n_jobs=1, random_state=0)
        sparse = SparseGPRegressor(n_basis=n_basis, certificate=None, n_jobs=1, random_state=0)
        for model in (exact, ours, sparse):
            figures += _with_bars(f"{type(model).__name__}, {m} rows", model, arm, m)
    for model in (SparseGPRegressor, FullScaleGPRegressor):
        ours = model(n_basis=n_basis, n_jobs=1, random_state=0)
        figures += _with_bars(f"{model.__name__}, {len(arm.X)} rows", ours, arm, len(arm.X))
    return figures


def _with_bars(name: str, model: Any, arm: Arm, n_rows: int) -> list[Figure]:
    _, fit = cpu_seconds(lambda: model.fit(arm.X[:n_rows], arm.y[:n_rows]))
    (mean, std), predict = cpu_seconds(lambda: model.predict(arm.X_new, return_std=True))
    error = arm.y_new - mean
    density = np.mean(np.log(std) + 0.5 * (error / std) ** 2) + 0.5 * np.log(2 * np.pi)
    return [
        Figure(f"{name}: fit", fit, "s of CPU"),
        Figure(f"{name}: predict with error bars", 1e3 * predict / len(mean), "ms per row"),
        Figure(f"{name}: RMSE", float(np.sqrt(np.mean(error**2)))),
        Figure(f"{name}: NLPD", float(density)),
        Figure(f"{name}: coverage of 95 %", float(np.mean(np.abs(error) < _TWO_SIDED_95 * std))),
    ]


def _features(arm: Arm, n: int) -> list[Figure]:
    """Nystroem before Ridge, GreedyFeatureMap in its place, and a basis chosen by the targets."""
    options = {"gamma": GAMMA, "n_components": n, "random_state": 0}
    models = {
        f"Nystroem({n}) + Ridge": make_pipeline(Nystroem(**options), Ridge(alpha=RIDGE)),
        f"GreedyFeatureMap({n}) + Ridge": make_pipeline(
            GreedyFeatureMap(n_jobs=1, **options), Ridge(alpha=RIDGE)
        ),
        f"SparseGPRegressor({n}), the same kernel": SparseGPRegressor(
            "rbf", gamma=GAMMA, noise=RIDGE, n_basis=n, optimizer=None, certificate=None, n_jobs=1,
            random_state=0,
        ),
    }  # fmt: skip
    figures = []
    for name, model in models.items():
        _, fit = cpu_seconds(lambda model=model: model.fit(arm.X, arm.y))
        error = arm.y_new - model.predict(arm.X_new)
        figures += [
            Figure(f"{name}: fit", fit, "s of CPU"),
            Figure(f"{name}: RMSE", float(np.sqrt(np.mean(error**2)))),
        ]
    return figures


def _machines(arm: Arm, n: int) -> list[Figure]:
    """SVC, and machines on few functions: chosen, or chosen and moved."""
    options = {"C": 10.0, "gamma": GAMMA}
    ours = {"n_basis": n, "n_jobs": 1, "random_state": 0, **options}
    models = {
        "SVC": SVC(**options),
        f"LowRankSVC({n}), chosen": LowRankSVC(refine=False, **ours),
        f"LowRankSVC({n}), chosen and moved": LowRankSVC(**ours),
    }
    figures = []
    for name, model in models.items():
        _, fit = cpu_seconds(lambda model=model: model.fit(arm.X, arm.far))
        labels, predict = cpu_seconds(lambda model=model: model.predict(arm.X_new))
        figures += [
            Figure(f"{name}: fit", fit, "s of CPU"),
            Figure(f"{name}: predict", 1e3 * predict / len(labels), "ms per row"),
            Figure(f"{name}: accuracy", 100 * float(np.mean(labels == arm.far_new)), "%"),
        ]
    return figures


def _components(arm: Arm, few: int, n: int) -> list[Figure]:
    """KernelPCA on few rows, beside ours on the same rows and on all of them."""
    options = {"n_components": 10, "kernel": "rbf", "gamma": GAMMA, "random_state": 0}
    exact = KernelPCA(**options)
    sparse = SparseKernelPCA(n_basis=n, **options)
    figures = []
    for name, model in (
        (f"KernelPCA, {few} rows", exact),
        (f"SparseKernelPCA, {few} rows", sparse),
    ):
        _, fit = cpu_seconds(lambda model=model: model.fit(arm.X[:few]))
        _, transform = cpu_seconds(lambda model=model: model.transform(arm.X_new))
        figures += [
            Figure(f"{name}: fit", fit, "s of CPU"),
            Figure(f"{name}: transform", 1e3 * transform / len(arm.X_new), "ms per row"),
        ]
    share = float(np.sum(sparse.eigenvalues_) / np.sum(exact.eigenvalues_))
    _, fit = cpu_seconds(lambda: SparseKernelPCA(n_basis=n, **options).fit(arm.X))
    return [
        *figures,
        Figure("variance of ten components over KernelPCA's", share, at_most=1.0),
        Figure(f"SparseKernelPCA, {len(arm.X)} rows: fit", fit, "s of CPU"),
    ]
