"""Where the noise variance comes from: given, a White term, or the evidence."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from pursuit import SparseGPRegressor

fixed_gp = partial(SparseGPRegressor, optimizer=None)
"""The kernel is used as given."""


def draw_from_process(m, noise, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(m, 1))
    K = RBF(0.5)(X) + 1e-10 * np.eye(m)
    return X, np.linalg.cholesky(K) @ rng.normal(size=m) + np.sqrt(noise) * rng.normal(size=m)


def test_given_noise_is_kept(waves, rough_kernel):
    data = waves(30)
    assert fixed_gp(rough_kernel, noise=0.37).fit(data.X, data.y).noise_ == 0.37


def test_white_terms_are_noise(waves):
    data = waves(60)
    kernel = RBF(0.5) + 2.0 * WhiteKernel(0.1)
    model = fixed_gp(kernel).fit(data.X, data.y)
    assert model.noise_ == pytest.approx(0.2)
    plain = fixed_gp(RBF(0.5), noise=0.2).fit(data.X, data.y)
    for got, expected in zip(
        model.predict(data.X, return_std=True), plain.predict(data.X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-10)


def test_white_terms_add_to_given_noise_as_alpha_does(waves):
    data = waves(60)
    kernel = RBF(0.5) + WhiteKernel(0.2)
    model = fixed_gp(kernel, noise=0.1).fit(data.X, data.y)
    exact = GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None, normalize_y=True)
    expected = exact.fit(data.X, data.y).predict(data.new)
    np.testing.assert_allclose(model.predict(data.new), expected, rtol=1e-6)


def test_the_users_kernel_is_not_touched(waves):
    data = waves(40)
    kernel = ConstantKernel(2.0) * RBF(0.5) + WhiteKernel(0.2)
    before = repr(kernel)
    model = SparseGPRegressor(kernel).fit(data.X, data.y)
    assert repr(kernel) == before
    assert model.kernel is kernel
    assert model.kernel_ is not kernel


@pytest.mark.parametrize("optimizer", ["evidence", None])
@pytest.mark.parametrize("noise", [0.01, 0.3])
def test_learned_noise_maximises_the_evidence(size, noise, optimizer):
    X, y = draw_from_process(size(200, 1500), noise)
    y = (y - y.mean()) / y.std()
    kernel = RBF(0.5, "fixed") + WhiteKernel(1.0)
    process = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(X, y)
    best = minimize_scalar(
        lambda t: -process.log_marginal_likelihood(np.array([t])),
        bounds=(np.log(1e-4), np.log(10.0)),
        method="bounded",
        options={"xatol": 1e-7},
    )
    kernel = RBF(0.5, "fixed" if optimizer else (1e-5, 1e5))
    model = SparseGPRegressor(kernel, optimizer=optimizer, n_basis=50).fit(X, y)
    assert model.noise_ == pytest.approx(np.exp(best.x), rel=1e-3)


def test_learned_noise_is_near_the_truth_on_a_subset_of_the_rows(size):
    X, y = draw_from_process(size(2200, 4000), 0.2)
    model = fixed_gp(RBF(0.5), n_basis=40, normalize_y=False, random_state=0).fit(X, y)
    assert 0.16 < model.noise_ < 0.25


def test_learned_noise_sees_all_outputs(waves):
    data = waves(150, n_outputs=2)
    both = fixed_gp(RBF(0.8), n_basis=50).fit(data.X, data.y).noise_
    first, second = (
        fixed_gp(RBF(0.8), n_basis=50).fit(data.X, data.y[:, o]).noise_ for o in range(2)
    )
    assert min(first, second) < both < max(first, second)


def test_learned_noise_follows_the_units(waves):
    data = waves(100)
    model = SparseGPRegressor(n_basis=30).fit(data.X, data.y)
    raw = SparseGPRegressor(n_basis=30, normalize_y=False).fit(data.X, 1e3 * (data.y - 3.0))
    assert raw.noise_ / 1e6 == pytest.approx(model.noise_ * data.y.var(), rel=0.2)
