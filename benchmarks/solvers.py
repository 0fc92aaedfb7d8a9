"""The solvers that are compared: ours and its peers, with hyper-parameters given or learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from benchmarks.data import NotAvailableError
from pursuit import SparseGPRegressor

Floats = NDArray[np.float64]

THREADS = 2
"""For solvers that learn: the same number for all of them."""


@dataclass(frozen=True)
class Solver:
    """`make(size)` builds an unfitted model; a smaller size serves as warm-up.

    With `has_std` its `predict(X, return_std=True)` also returns standard deviations of new
    observations.
    """

    name: str
    make: Callable[[int], Any]
    size: int
    has_std: bool = False


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


def learned_gp(n_basis: int, max_time: float | None = None) -> Solver:
    """Everything learned from the data, perhaps within a time."""

    def make(size: int) -> Any:
        return SparseGPRegressor(
            n_basis=size, certificate=None, max_time=max_time, n_jobs=THREADS, random_state=0
        )

    return Solver(f"SparseGPRegressor {n_basis}, learned", make, n_basis, has_std=True)


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


def sgpr(n_inducing: int) -> Solver:
    """GPyTorch's sparse regression: RBF, a scale per feature, locations learned, 50 Adam steps."""
    require("torch", "gpytorch")
    return Solver(f"GPyTorch SGPR {n_inducing}", _SGPR, n_inducing, has_std=True)


class _SGPR:
    """All rows in every step, in float32."""

    STEPS, RATE = 50, 0.1

    def __init__(self, n_inducing: int) -> None:
        self.n_inducing = n_inducing

    def fit(self, X: Floats, y: Floats) -> None:
        import gpytorch
        import torch

        torch.set_num_threads(THREADS)
        rows = torch.tensor(X, dtype=torch.float32)
        targets = torch.tensor(y, dtype=torch.float32)
        seeded = torch.Generator().manual_seed(0)
        start = rows[torch.randperm(len(rows), generator=seeded)[: self.n_inducing]].clone()
        likelihood = gpytorch.likelihoods.GaussianLikelihood()

        class Model(gpytorch.models.ExactGP):
            def __init__(self) -> None:
                super().__init__(rows, targets, likelihood)
                self.mean_module = gpytorch.means.ConstantMean()
                base = gpytorch.kernels.ScaleKernel(
                    gpytorch.kernels.RBFKernel(ard_num_dims=rows.shape[1])
                )
                self.covar_module = gpytorch.kernels.InducingPointKernel(
                    base, inducing_points=start, likelihood=likelihood
                )

            def forward(self, x: Any) -> Any:
                return gpytorch.distributions.MultivariateNormal(
                    self.mean_module(x), self.covar_module(x)
                )

        self.model = Model()
        self.model.train()
        optimizer = torch.optim.Adam(self.model.parameters(), lr=self.RATE)
        evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, self.model)
        for _ in range(self.STEPS):
            optimizer.zero_grad()
            loss = -evidence(self.model(rows), targets)
            loss.backward()
            optimizer.step()
        self.model.eval()

    def predict(self, X: Floats, return_std: bool = False) -> Any:
        import torch

        with torch.no_grad():
            latent = self.model(torch.tensor(X, dtype=torch.float32))
            observed = self.model.likelihood(latent)
            mean = observed.mean.double().numpy()
            return (mean, observed.stddev.double().numpy()) if return_std else mean


def boosted_trees() -> Solver:
    """LightGBM, its number of trees by early stopping on a tenth of the rows."""
    require("lightgbm")
    return Solver("LightGBM", _BoostedTrees, 2000, has_std=True)


class _BoostedTrees:
    """One variance for all rows: the mean squared error on the rows that stopped it."""

    PATIENCE = 50

    def __init__(self, n_trees: int) -> None:
        self.n_trees = n_trees

    def fit(self, X: Floats, y: Floats) -> None:
        import lightgbm

        order = np.random.default_rng(0).permutation(len(X))
        watched, seen = np.split(order, [len(X) // 10])
        self.model = lightgbm.LGBMRegressor(
            n_estimators=self.n_trees,
            learning_rate=0.05,
            num_leaves=63,
            n_jobs=THREADS,
            random_state=0,
            verbose=-1,
        )
        stop = lightgbm.early_stopping(self.PATIENCE, verbose=False)
        self.model.fit(X[seen], y[seen], eval_X=X[watched], eval_y=y[watched], callbacks=[stop])
        self.spread = np.sqrt(np.mean((y[watched] - self.model.predict(X[watched])) ** 2))

    def predict(self, X: Floats, return_std: bool = False) -> Any:
        mean = np.asarray(self.model.predict(X))
        return (mean, np.full(len(X), self.spread)) if return_std else mean


def available(make: Callable[[], Solver]) -> Solver | None:
    """The peer, or None after a line that says what to install."""
    try:
        return make()
    except NotAvailableError as missing:
        print(f"  without a peer: {missing}", flush=True)
        return None


def require(*packages: str) -> None:
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise NotAvailableError(
            f"{', '.join(missing)} is not installed: pip install -r benchmarks/requirements.txt"
        )
