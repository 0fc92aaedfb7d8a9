"""The evidence with its gradient beside scikit-learn's, kernel by kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Hyperparameter,
    Kernel,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

from benchmarks.harness import Figure, best_seconds
from benchmarks.solvers import THREADS
from pursuit import on_columns
from pursuit.linalg import Workers
from pursuit.tuning import Evidence

NOISE = 0.05


class Cauchy(Kernel):  # type: ignore[misc]
    """A user's own class: 1 / (1 + r²/width²)."""

    def __init__(self, width: float = 1.0, width_bounds: Any = (1e-5, 1e5)) -> None:
        self.width, self.width_bounds = width, width_bounds

    @property
    def hyperparameter_width(self) -> Hyperparameter:
        return Hyperparameter("width", "numeric", self.width_bounds)

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        Z = X if Y is None else Y
        norms = (X**2).sum(axis=1)[:, None], (Z**2).sum(axis=1)
        squares = np.maximum(norms[0] + norms[1] - 2.0 * X @ Z.T, 0.0) / self.width**2
        K = 1.0 / (1.0 + squares)
        return (K, (2.0 * K * K * squares)[:, :, None]) if eval_gradient else K

    def diag(self, X: Any) -> Any:
        return np.ones(len(X))

    def is_stationary(self) -> bool:
        return True


def evidence_speed(quick: bool, repeat: int) -> list[Figure]:
    """Evidence with its gradient, 2 000 rows and 20 features, over scikit-learn's; all kernels."""
    s, d = (400, 20) if quick else (2000, 20)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((s, d))
    y = np.sin(X @ rng.standard_normal(d)) + 0.1 * rng.standard_normal(s)
    figures = []
    for name, kernel in _kernels(d).items():
        rows = np.abs(X) if "chi2" in name else X
        best = best_seconds(_tasks(rows, y, kernel), repeat)
        least = 5.0 if name.endswith("ARD") else 1.0
        figures += [
            Figure(f"{name}: ours", best["ours"], "s"),
            Figure(f"{name}: scikit-learn", best["theirs"], "s"),
            Figure(f"{name}: times faster", best["theirs"] / best["ours"], "x", at_least=least),
        ]
    return figures


def _kernels(d: int) -> dict[str, Any]:
    scales, width = np.full(d, np.sqrt(d)), float(np.sqrt(d))
    constant = ConstantKernel(1.0)
    return {
        "RBF, ARD": constant * RBF(scales),
        "Matern 5/2, ARD": constant * Matern(scales, nu=2.5),
        "Matern 3/2, ARD": constant * Matern(scales, nu=1.5),
        "Matern 1/2, ARD": constant * Matern(scales, nu=0.5),
        "RBF": constant * RBF(width),
        "Matern 5/2": constant * Matern(width, nu=2.5),
        "Matern 7/2": constant * Matern(width, nu=3.5),
        "Matern 1.2": constant * Matern(width, nu=1.2),
        "RationalQuadratic": constant * RationalQuadratic(width, 1.0),
        "ExpSineSquared": constant * on_columns(ExpSineSquared(1.0, 2.0), [0]),
        "DotProduct": DotProduct(1.0),
        "PairwiseKernel rbf": PairwiseKernel(0.5 / d, metric="rbf"),
        "PairwiseKernel laplacian": PairwiseKernel(0.5 / d, metric="laplacian"),
        "PairwiseKernel poly": PairwiseKernel(1.0 / d, metric="poly"),
        "PairwiseKernel cosine": PairwiseKernel(metric="cosine"),
        "PairwiseKernel chi2": PairwiseKernel(1.0 / d, metric="chi2"),
        "Exponentiation": RBF(width) ** 2,
        "sum": constant * RBF(width) + constant * DotProduct(1.0) + Matern(width, nu=1.5),
        "product": constant * RBF(width) * RationalQuadratic(width, 1.0),
        "on_columns": constant * on_columns(RBF(1.0), [0, 1]) * on_columns(Matern(2.0), [2, 3]),
        "user's class": constant * Cauchy(width),
    }


def _tasks(X: Any, y: Any, kernel: Any) -> dict[str, Any]:
    white = kernel + WhiteKernel(NOISE)
    peer = GaussianProcessRegressor(white, alpha=0.0, optimizer=None).fit(X, y)

    def ours() -> None:
        with Workers(THREADS) as workers:
            data = Evidence(X, y[:, None], np.ones(len(X)), workers)
            if data.value_and_gradient(kernel, NOISE) is None:
                raise RuntimeError(f"the matrix of {kernel} is singular")

    def theirs() -> None:
        peer.log_marginal_likelihood(white.theta, eval_gradient=True, clone_kernel=False)

    return {"ours": ours, "theirs": theirs}
