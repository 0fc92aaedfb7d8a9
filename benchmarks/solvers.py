"""The solvers that are compared: ours and scikit-learn's, with one kernel and one noise level."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from pursuit import SparseGPRegressor

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Solver:
    """`make(size)` builds an unfitted model; a smaller size serves as warm-up."""

    name: str
    make: Callable[[int], Any]
    size: int


def sparse_gp(n_basis: int, length_scales: Floats, noise: float) -> Solver:
    def make(size: int) -> Any:
        return SparseGPRegressor(
            RBF(length_scales),
            noise=noise,
            n_basis=size,
            optimizer=None,
            certificate=None,
            random_state=0,
        )

    return Solver(f"SparseGPRegressor {n_basis}", make, n_basis)


def nystroem_ridge(n_components: int, length_scales: Floats, noise: float) -> Solver:
    def make(size: int) -> Any:
        return make_pipeline(
            FunctionTransformer(lambda X: X / length_scales),
            Nystroem(kernel="rbf", gamma=0.5, n_components=size, random_state=0),
            Ridge(alpha=noise, fit_intercept=False),
        )

    return Solver(f"Nystroem {n_components} + Ridge", make, n_components)


def subset_gp(n_rows: int, length_scales: Floats, noise: float) -> Solver:
    """The exact Gaussian process on the first `n_rows` rows, in a file without row order."""

    def make(size: int) -> Any:
        return _OnFirstRows(
            GaussianProcessRegressor(RBF(length_scales), alpha=noise, optimizer=None), size
        )

    return Solver(f"GaussianProcessRegressor on {n_rows} rows", make, n_rows)


class _OnFirstRows:
    """A model that sees only the first rows it is given."""

    def __init__(self, model: Any, n_rows: int) -> None:
        self.model, self.n_rows = model, n_rows

    def fit(self, X: Floats, y: Floats) -> None:
        self.model.fit(X[: self.n_rows], y[: self.n_rows])

    def predict(self, X: Floats) -> Floats:
        predicted: Floats = self.model.predict(X)
        return predicted
