"""Predictions: equal to the exact process with a full basis, consistent with each other always."""

from functools import partial

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from pursuit import SparseGPRegressor

fixed_gp = partial(SparseGPRegressor, optimizer=None)
"""The kernel is used as given."""

KERNELS = {
    "rbf": RBF(0.4),
    "ard": ConstantKernel(2.0) * RBF([0.3, 0.8]),
    "matern12": Matern(1.0, nu=0.5),
    "matern32": Matern(0.7, nu=1.5),
    "smooth": RBF(3.0),
    "sum": RBF(0.5) + 0.3 * DotProduct(),
    "dot": DotProduct(0.5),
}


@pytest.mark.parametrize("normalize_y", [True, False])
@pytest.mark.parametrize("search", ["pooled", "fresh", "full"])
@pytest.mark.parametrize("name", KERNELS)
def test_all_rows_as_basis_is_the_exact_process(waves, name, search, normalize_y):
    data = waves(70)
    exact = GaussianProcessRegressor(
        KERNELS[name], alpha=0.05, optimizer=None, normalize_y=normalize_y
    ).fit(data.X, data.y)
    model = fixed_gp(
        KERNELS[name],
        noise=0.05,
        n_basis=70,
        search=search,
        normalize_y=normalize_y,
        random_state=0,
    ).fit(data.X, data.y)
    mean, std = exact.predict(data.new, return_std=True)
    got_mean, got_std = model.predict(data.new, return_std=True, include_noise=False)
    np.testing.assert_allclose(got_mean, mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(got_std, std, rtol=1e-6, atol=1e-6)


def test_covariance_is_the_exact_one(waves, rough_kernel):
    data = waves(60)
    exact = GaussianProcessRegressor(rough_kernel, alpha=0.1, optimizer=None, normalize_y=True)
    model = fixed_gp(rough_kernel, noise=0.1)
    _, expected = exact.fit(data.X, data.y).predict(data.new, return_cov=True)
    _, got = model.fit(data.X, data.y).predict(data.new, return_cov=True, include_noise=False)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("n_outputs", [None, 1, 3])
@pytest.mark.parametrize("include_noise", [True, False])
def test_std_is_the_root_of_the_diagonal(waves, rough_kernel, n_outputs, include_noise):
    data = waves(80, n_outputs=n_outputs)
    model = fixed_gp(rough_kernel, noise=0.2, n_basis=15).fit(data.X, data.y)
    mean, std = model.predict(data.new, return_std=True, include_noise=include_noise)
    same_mean, cov = model.predict(data.new, return_cov=True, include_noise=include_noise)
    # A single column of targets gives vectors, as in scikit-learn.
    outputs = () if n_outputs in (None, 1) else (n_outputs,)
    assert mean.shape == std.shape == (25, *outputs)
    assert cov.shape == (25, 25, *outputs)
    np.testing.assert_array_equal(mean, same_mean)
    np.testing.assert_array_equal(mean, model.predict(data.new))
    diagonal = np.einsum("ii...->i...", cov)
    np.testing.assert_allclose(std**2, diagonal, rtol=1e-8)


@pytest.mark.parametrize("n_outputs", [None, 3])
def test_noise_adds_its_variance_in_units_of_y(waves, rough_kernel, weighted_scale, n_outputs):
    data = waves(80, n_outputs=n_outputs)
    model = fixed_gp(rough_kernel, noise=0.2, n_basis=15).fit(data.X, data.y)
    _, observed = model.predict(data.new, return_std=True)
    _, latent = model.predict(data.new, return_std=True, include_noise=False)
    _, scale = weighted_scale(data.y)
    added = model.noise_ * scale**2
    expected = np.full(observed.shape, added[0] if n_outputs is None else added)
    np.testing.assert_allclose(observed**2 - latent**2, expected, rtol=1e-6)


def test_spread_of_std_is_never_negative_on_training_rows(waves):
    data = waves(200)
    model = fixed_gp(RBF(2.0), noise=1e-8).fit(data.X, data.y)
    _, std = model.predict(data.X, return_std=True, include_noise=False)
    assert np.all(std >= 0)
    assert np.all(np.isfinite(std))


def test_std_and_cov_together_are_refused(waves):
    data = waves(20)
    model = SparseGPRegressor().fit(data.X, data.y)
    with pytest.raises(ValueError, match="return_std and return_cov"):
        model.predict(data.new, return_std=True, return_cov=True)


@pytest.mark.parametrize("include_noise", [True, False])
@pytest.mark.parametrize("n_outputs", [None, 2])
def test_draws_have_the_predicted_moments(waves, rough_kernel, n_outputs, include_noise):
    data = waves(80, n_outputs=n_outputs)
    model = fixed_gp(rough_kernel, noise=0.2, n_basis=15).fit(data.X, data.y)
    new, n = data.new[:6], 20_000
    mean, cov = model.predict(new, return_cov=True, include_noise=include_noise)
    draws = model.sample_y(new, n_samples=n, random_state=3, include_noise=include_noise)
    assert draws.shape == ((6, n) if n_outputs is None else (6, n_outputs, n))
    for o in range(n_outputs or 1):
        one = draws if n_outputs is None else draws[:, o]
        m, C = (mean, cov) if n_outputs is None else (mean[:, o], cov[:, :, o])
        sd = np.sqrt(np.diag(C))
        assert np.all(np.abs(one.mean(axis=1) - m) <= 5 * sd / np.sqrt(n))
        bound = 5 * np.sqrt((np.outer(sd, sd) ** 2 + C**2) / n)
        assert np.all(np.abs(np.cov(one) - C) <= bound)


def test_draws_repeat_with_their_seed(waves):
    data = waves(40)
    model = SparseGPRegressor(n_basis=10).fit(data.X, data.y)
    once, again = (model.sample_y(data.new, 3, random_state=5) for _ in range(2))
    np.testing.assert_array_equal(once, again)
    assert np.any(once != model.sample_y(data.new, 3, random_state=6))
    assert model.sample_y(data.new).shape == (25, 1)
    for n in (0, -1, 2.5, "a"):
        with pytest.raises(ValueError, match="n_samples must be a whole number of at least 1"):
            model.sample_y(data.new, n)


def ridge_in_span(kernel, X, y, points, noise, new):
    """Least squares in the span of some points, from scratch."""
    K, K_SS = kernel(X, points), kernel(points)
    beta = np.linalg.solve(K.T @ K + noise * K_SS, K.T @ y)
    return kernel(new, points) @ beta


def test_outputs_share_one_basis_and_are_fitted_each(waves, rough_kernel, weighted_scale):
    data = waves(90, n_outputs=3)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=12).fit(data.X, data.y)
    assert model.basis_.shape == (12, 2)
    assert model.dual_coef_.shape == (12, 3)
    mean, scale = weighted_scale(data.y)
    expected = ridge_in_span(
        rough_kernel, data.X, (data.y - mean) / scale, model.basis_, 0.1, data.new
    )
    np.testing.assert_allclose(model.predict(data.new), expected * scale + mean, rtol=1e-8)


def test_coefficients_and_basis_give_the_prediction(waves, rough_kernel, weighted_scale):
    data = waves(90)
    model = fixed_gp(rough_kernel, noise=0.1, n_basis=12).fit(data.X, data.y)
    mean, scale = weighted_scale(data.y)
    expected = rough_kernel(data.new, model.basis_) @ model.dual_coef_ * scale[0] + mean[0]
    np.testing.assert_allclose(model.predict(data.new), expected, rtol=1e-10)
    np.testing.assert_array_equal(model.basis_, data.X[model.basis_indices_])


def test_a_full_basis_makes_outputs_independent(waves, rough_kernel):
    data = waves(50, n_outputs=2)
    both = fixed_gp(rough_kernel, noise=0.1).fit(data.X, data.y).predict(data.new)
    for o in range(2):
        alone = fixed_gp(rough_kernel, noise=0.1).fit(data.X, data.y[:, o])
        np.testing.assert_allclose(both[:, o], alone.predict(data.new), rtol=1e-8)
