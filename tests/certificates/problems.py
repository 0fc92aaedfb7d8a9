"""Random rows, weights, targets and kernels, with the dense kernel matrix by scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern
from sklearn.metrics.pairwise import pairwise_kernels

KINDS = "rbf", "laplacian", "poly", "linear", "matern", "sum", "scales", "callable", "precomputed"


@dataclass(frozen=True)
class KernelCase:
    """A kernel as an estimator takes it, and its dense matrix."""

    name: str
    kernel: Any
    arguments: dict[str, Any] = field(default_factory=dict)
    dense: Callable[[Any, Any], np.ndarray] = None

    @property
    def precomputed(self) -> bool:
        return self.kernel == "precomputed"

    def given(self, X: np.ndarray) -> np.ndarray:
        """What ``fit`` gets for X."""
        return self.matrix(X) if self.precomputed else X

    def matrix(self, A: np.ndarray, B: np.ndarray | None = None) -> np.ndarray:
        A = np.asarray(A, dtype=np.float64)
        K = self.dense(A, A if B is None else np.asarray(B, dtype=np.float64))
        return 0.5 * (K + K.T) if B is None else K


def draw_kernel(rng: np.random.Generator, d: int, kinds=KINDS) -> KernelCase:
    """Any of the kinds."""
    name = str(rng.choice(kinds))
    gamma = float(10.0 ** rng.uniform(-1.5, 0.7))
    if name in ("rbf", "laplacian"):
        return KernelCase(name, name, {"gamma": gamma}, _named(name, gamma=gamma))
    if name == "poly":
        options = {"gamma": 0.3, "degree": 2, "coef0": 1.0}
        return KernelCase(name, name, options, _named(name, **options))
    if name == "linear":
        return KernelCase(name, name, {}, _named(name))
    if name in ("callable", "precomputed"):
        dense = _named("rbf", gamma=gamma)
        return KernelCase(name, dense if name == "callable" else name, {}, dense)
    length = float(10.0 ** rng.uniform(-0.5, 0.7))
    if name == "matern":
        kernel = ConstantKernel(float(rng.uniform(0.2, 5.0))) * Matern(
            length, nu=float(rng.choice([0.5, 1.5, 2.5]))
        )
    elif name == "sum":
        kernel = RBF(length) + ConstantKernel(0.3) * DotProduct(1.0)
    else:
        kernel = ConstantKernel(2.0) * RBF(length * rng.uniform(0.5, 2.0, d))
    return KernelCase(name, kernel, {}, kernel)


def _named(name: str, **options: Any) -> Callable[[Any, Any], np.ndarray]:
    """In float64 whatever the rows are: as a function of float32 rows it would round by itself."""

    def dense(A, B):
        A, B = (np.asarray(part, dtype=np.float64) for part in (A, B))
        return pairwise_kernels(A, B, metric=name, **options)

    return dense


def draw_rows(rng: np.random.Generator, m: int, d: int) -> np.ndarray:
    """Rows, some of them equal, some on a grid, some in float32, some far from the origin."""
    X = rng.normal(size=(m, d)) * float(rng.choice([0.5, 1.0, 2.0]))
    how = rng.integers(5)
    if how == 0:
        X = np.round(X, 1)
    elif how == 1 and m > 4:
        X[rng.integers(m, size=m // 4)] = X[rng.integers(m, size=m // 4)]
    elif how == 2:
        X = X + 10.0
    elif how == 3:
        X = X.astype(np.float32)
    return X


def own_points(rng: np.random.Generator, X: np.ndarray, n: int = 30) -> np.ndarray:
    """Points among the rows, none of which they are."""
    X = np.asarray(X, dtype=np.float64)
    return X.mean(axis=0) + 2.0 * X.std(axis=0) * rng.normal(size=(n, X.shape[1]))


def draw_weights(rng: np.random.Generator, m: int) -> np.ndarray | None:
    """None, whole numbers, zeros among them, or anything between .01 and 100."""
    how = rng.integers(4)
    if how == 0:
        weights = rng.integers(0, 4, m).astype(float)
        weights[rng.integers(m, size=4)] = 1.0
        return weights
    if how == 1:
        return 10.0 ** rng.uniform(-2, 2, m)
    return None


def draw_targets(
    rng: np.random.Generator, X: np.ndarray, n_outputs: int | None = None
) -> np.ndarray:
    """A smooth function and noise, in units from 1e-6 to 1e6."""
    X = np.asarray(X, dtype=np.float64)
    shape = (len(X),) if n_outputs is None else (len(X), n_outputs)
    signal = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, -1] ** 2 * (rng.random() < 0.5)
    y = signal.reshape((-1,) + (1,) * (len(shape) - 1)) + rng.uniform(0.05, 1.0) * rng.normal(
        size=shape
    )
    return y * float(10.0 ** rng.choice([-6, -2, 0, 0, 0, 3, 6]))


def draw_labels(rng: np.random.Generator, X: np.ndarray, n_classes: int) -> np.ndarray:
    """Classes by quantiles of a noisy function; all of them occur."""
    X = np.asarray(X, dtype=np.float64)
    score = np.sin(1.5 * X[:, 0]) + X[:, -1] + rng.uniform(0.1, 1.0) * rng.normal(size=len(X))
    ranks = np.argsort(np.argsort(score, kind="stable"), kind="stable")
    return (ranks * n_classes) // len(X)
