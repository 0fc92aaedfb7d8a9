"""Given kernels are learned as far as scikit-learn's Gaussian process learns them, or further."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    DotProduct,
    ExpSineSquared,
    Hyperparameter,
    Kernel,
    Matern,
    NormalizedKernelMixin,
    PairwiseKernel,
    RationalQuadratic,
    StationaryKernelMixin,
    WhiteKernel,
)
from sklearn.gaussian_process.kernels import ConstantKernel as C

from pursuit import SparseGPRegressor, on_columns

CLOSE, ALLOWED_TO_MISS = 0.1, 1
"""How far a log evidence may lie below the peer's, and how many kernels may."""


class Cauchy(StationaryKernelMixin, NormalizedKernelMixin, Kernel):
    """1 / (1 + r²), as a user would write it."""

    def __init__(self, width=1.0, width_bounds=(1e-5, 1e5)):
        self.width = width
        self.width_bounds = width_bounds

    @property
    def hyperparameter_width(self):
        return Hyperparameter("width", "numeric", self.width_bounds)

    def __call__(self, X, Y=None, eval_gradient=False):
        other = X if Y is None else Y
        squares = ((X[:, None] - other[None]) ** 2).sum(axis=-1) / self.width**2
        values = 1.0 / (1.0 + squares)
        if not eval_gradient:
            return values
        return values, (2.0 * squares * values**2)[:, :, None]


def wave():
    return ExpSineSquared(1.0, 1.4, periodicity_bounds=(0.5, 3.0))


KERNELS = {
    "RBF": RBF(1.0),
    "RBF, a scale per feature": C() * RBF([1.0, 1.0]),
    "Matérn 1/2": C() * Matern([1.0, 1.0], nu=0.5),
    "Matérn 3/2": Matern(1.0, nu=1.5),
    "Matérn 5/2": C() * Matern([1.0, 1.0], nu=2.5),
    "Matérn 0.8": C() * Matern(1.0, nu=0.8),
    "Matérn ∞": C() * Matern(1.0, nu=np.inf),
    "RationalQuadratic": C() * RationalQuadratic(1.0, 1.0),
    "DotProduct": DotProduct(1.0),
    "PairwiseKernel, rbf": C() * PairwiseKernel(1.0, metric="rbf"),
    "PairwiseKernel, laplacian": C() * PairwiseKernel(1.0, metric="laplacian"),
    "a user's class": C() * Cauchy(1.0),
    "RBF + DotProduct": C() * RBF(1.0) + C() * DotProduct(1.0),
    "RBF + RationalQuadratic": C() * RBF(3.0) + C() * RationalQuadratic(1.0, 0.5),
    "a user's class + DotProduct": C() * Cauchy(1.0) + C() * DotProduct(1.0),
    "constant + Matérn x DotProduct": C() + C(0.5) * Matern(1.0, nu=2.5) * DotProduct(1.0),
    "RBF x Matérn": C() * RBF(1.0) * Matern(2.0, nu=1.5),
    "RBF²": C() * RBF([1.0, 1.0]) ** 2,
    "DotProduct²": C() * DotProduct(1.0) ** 2,
    "sum over columns": C() * on_columns(RBF(1.0), [0]) + C() * on_columns(Matern(1.0), [1]),
    "product over columns": C() * on_columns(RBF(1.0), [0]) * on_columns(RBF(1.0), [1]),
    "ExpSineSquared": C() * on_columns(wave(), [0]),
    "ExpSineSquared x RBF": C() * on_columns(wave(), [0]) * RBF([2.0, 2.0]),
    "ExpSineSquared + DotProduct": C() * on_columns(wave(), [0]) + on_columns(DotProduct(), [1]),
}


def rows(seed, m=300):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(0, 6, m), rng.standard_normal(m)])
    f = np.sin(2 * np.pi * X[:, 0] / 1.5) + 0.5 * X[:, 1] + 0.1 * X[:, 0] ** 2
    return X, f + 0.2 * rng.standard_normal(m)


def shortfall(kernel, X, y):
    """How far the log evidence that is learned lies below scikit-learn's, by its own formula."""
    whole = kernel + WhiteKernel(0.1, (1e-4, 10.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer = GaussianProcessRegressor(whole, normalize_y=True).fit(X, y)
    model = SparseGPRegressor(whole, n_basis=5, certificate=None, calibration=None, random_state=0)
    model.fit(X, y)
    assert model.learning_report_.family == "learned"
    assert model.learning_report_.kept == ""
    found = np.append(model.kernel_.theta, np.log(model.noise_))
    return peer.log_marginal_likelihood_value_ - peer.log_marginal_likelihood(found)


def test_there_are_two_dozen():
    assert len(KERNELS) == 24


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore:The optimal value found")
def test_evidence_beside_scikit_learn(size):
    for seed in range(size(1, 2)):
        X, y = rows(seed, size(120, 300))
        below = {name: shortfall(kernel, X, y) for name, kernel in KERNELS.items()}
        missed = {name: by for name, by in below.items() if not by <= CLOSE}
        assert len(missed) <= ALLOWED_TO_MISS, missed


BAD_STARTS = {
    "short scale, little noise": (C() * RBF([0.05, 0.05]), 1e-3),
    "long scale": (C() * Matern([50.0, 50.0], nu=1.5), 1.0),
    "large": (C(1e3) * RBF([1.0, 1.0]), 0.1),
    "small": (C(1e-3) * RBF([1.0, 1.0]) + C(1e-3) * DotProduct(1.0), 0.1),
}


@pytest.mark.parametrize("name", BAD_STARTS)
def test_bad_starts(name):
    """From each of them scikit-learn finds an optimum, which is at least equalled."""
    X, y = rows(5)
    kernel, noise = BAD_STARTS[name]
    whole = kernel + WhiteKernel(noise, (1e-5, 10.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer = GaussianProcessRegressor(whole, normalize_y=True).fit(X, y)
    model = SparseGPRegressor(whole, n_basis=5, certificate=None, calibration=None, random_state=0)
    model.fit(X, y)
    found = np.append(model.kernel_.theta, np.log(model.noise_))
    assert peer.log_marginal_likelihood(found) > peer.log_marginal_likelihood_value_ - CLOSE
