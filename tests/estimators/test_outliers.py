"""Student's t: outliers are found, and cost next to nothing."""

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student
from sklearn.gaussian_process.kernels import RBF

import pursuit
from pursuit import Evidence, SparseGPRegressor

FAST = {"n_basis": 40, "optimizer": Evidence(rows=400), "random_state": 0}
ROBUST = {**FAST, "likelihood": "student-t"}


def truth(X):
    return np.sin(2 * X[:, 0]) + X[:, 1]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (900, 2))
    y = truth(X) + 0.1 * rng.standard_normal(900)
    bad = np.sort(rng.permutation(900)[:45])
    spoiled = y.copy()
    spoiled[bad] += rng.choice([-1, 1], 45) * rng.uniform(2, 40, 45)
    return X, y, spoiled, bad


@pytest.fixture(scope="module")
def robust(rows):
    X, _, spoiled, _ = rows
    return SparseGPRegressor(**ROBUST).fit(X, spoiled)


def rmse(model):
    X = np.random.default_rng(1).uniform(-2, 2, (3000, 2))
    return np.sqrt(np.mean((model.predict(X) - truth(X)) ** 2))


def posed(model, X, y):
    """Normalised targets, and the weights (ν + 1)/(ν + e²/v) of the rows."""
    e = y - model.predict(X)
    variance = model.predict(X, return_std=True, include_noise=False)[1] ** 2
    nu, s = model.degrees_of_freedom_, model._scale.scale[0]
    w = (nu + 1) / (nu + e**2 / (model._spread.noise * s**2 + variance))
    return (y - model._scale.mean[0]) / s, w


def test_outliers_hardly_change_the_mean(rows, robust):
    X, y, spoiled, _ = rows
    clean = rmse(SparseGPRegressor(**FAST).fit(X, y))
    assert rmse(robust) <= 1.3 * clean
    assert rmse(SparseGPRegressor(**FAST).fit(X, spoiled)) > 5 * clean  # what it is for


def test_outliers_are_listed(rows, robust):
    X, y, _, bad = rows
    np.testing.assert_array_equal(robust.outliers_, bad)
    assert robust.outlier_weights_.max() < 0.1
    assert f"{len(bad)} rows" in robust.learning_report_.noise
    honest = SparseGPRegressor(**ROBUST).fit(X, y)
    assert len(honest.outliers_) <= 1
    assert honest.degrees_of_freedom_ > 10
    np.testing.assert_allclose(honest.noise_at(X[:1]), 0.1, rtol=0.1)


def test_rows_without_weight_keep_their_numbers(rows, robust):
    X, _, spoiled, bad = rows
    absent = np.setdiff1d(np.arange(0, 900, 10), bad)
    weights = np.ones(900)
    weights[absent] = 0.0
    model = SparseGPRegressor(**ROBUST).fit(X, spoiled, weights)
    np.testing.assert_array_equal(model.outliers_, bad)


def test_degrees_of_freedom_are_those_of_the_noise():
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, (2000, 1))
    y = X[:, 0] + 0.1 * rng.standard_t(6, 2000)
    model = SparseGPRegressor(1.0 * RBF(2.0), **ROBUST).fit(X, y)
    assert 4 <= model.degrees_of_freedom_ < 12
    np.testing.assert_allclose(model.noise_at(X[:1]), 0.1 * student.ppf(norm.cdf(1), 6), rtol=0.1)


def test_the_certificate_is_about_the_last_weights(rows, robust):
    X, _, spoiled, _ = rows
    found = robust.certify(X, spoiled)
    for certificate in (found, robust.certificate_):
        assert "weights of the last round" in certificate.over
        assert "not convex" in str(certificate)
    z, w = posed(robust, X, spoiled)
    C = robust.kernel_(X) + np.diag(robust.noise_ / w)
    minimum = 0.5 * robust.noise_ * z @ np.linalg.solve(C, z)
    assert found.lower <= minimum * (1 + 1e-9)
    assert minimum <= found.upper * (1 + 1e-9)


def test_weights_are_a_fixed_point(rows, robust):
    """The best function of the span for the weights of its errors is the model."""
    X, _, spoiled, bad = rows
    z, w = posed(robust, X, spoiled)
    K, K_basis = robust.kernel_(X, robust.basis_), robust.kernel_(robust.basis_)
    A = K.T @ (w[:, None] * K) + robust.noise_ * K_basis
    f = K @ np.linalg.lstsq(A, K.T @ (w * z), rcond=1e-14)[0]
    mean = robust._scale.mean[0] + robust._scale.scale[0] * f
    np.testing.assert_allclose(robust.predict(X), mean, atol=0.01)
    assert w[bad].max() < 0.1 < np.median(w)


def test_another_fit_forgets_the_outliers(rows, robust):
    X, y, spoiled, _ = rows
    model = SparseGPRegressor("rbf", likelihood="student-t", n_basis=20).fit(X, spoiled)
    assert len(model.outliers_)
    model.set_params(likelihood="gaussian").fit(X, y)
    assert not hasattr(model, "outliers_")
    np.testing.assert_allclose(model._quantile_factor(0.95), norm.ppf(0.95))
    factor = robust._quantile_factor(0.95) * robust.noise_at(X[:1])[0]
    scale = np.sqrt(robust._spread.noise) * robust._scale.scale[0]
    np.testing.assert_allclose(factor, scale * student.ppf(0.95, robust.degrees_of_freedom_))


def test_draws_have_heavy_tails(robust):
    at = np.zeros((1, 2))
    draws = robust.sample_y(at, 20_000, random_state=0)[0] - robust.predict(at)
    half = np.quantile(np.abs(draws), norm.cdf(1) - norm.cdf(-1))
    np.testing.assert_allclose(half, robust.predict(at, return_std=True)[1][0], rtol=0.05)
    assert np.mean(np.abs(draws) > 4 * half) > 20 * 2 * norm.sf(4)


def test_saved_and_updated(rows, robust, tmp_path):
    at = rows[0][:20]
    robust.save(tmp_path / "model")
    again = pursuit.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(at, True)[1], robust.predict(at, True)[1])
    np.testing.assert_array_equal(again.outliers_, robust.outliers_)
    before = robust.predict(at)
    far = robust.merge().partial_fit(at, before + 1000.0)
    np.testing.assert_allclose(far.predict(at), before, atol=0.01)
    y = before + np.linspace(0.0, 1.0, 20)
    _, w = posed(robust, at, y)
    plain = robust.merge()
    plain._noise_model = None
    np.testing.assert_allclose(
        robust.merge().partial_fit(at, y).predict(at), plain.partial_fit(at, y, w).predict(at)
    )


def test_a_checkpoint_gives_the_same_model(rows, robust, tmp_path):
    X, _, spoiled, _ = rows
    options = {**ROBUST, "checkpoint": tmp_path / "run"}
    for _ in range(2):
        model = SparseGPRegressor(**options).fit(X, spoiled)
        np.testing.assert_array_equal(model.predict(X), robust.predict(X))


def test_several_outputs_share_the_weight_of_a_row(rows):
    X, y, spoiled, bad = rows
    model = SparseGPRegressor(**ROBUST).fit(X, np.column_stack([spoiled, 5 * y]))
    assert np.isin(bad, model.outliers_).mean() > 0.95
    assert rmse_of_first(model) < 0.05


def rmse_of_first(model):
    X = np.random.default_rng(1).uniform(-2, 2, (3000, 2))
    return np.sqrt(np.mean((model.predict(X)[:, 0] - truth(X)) ** 2))


def test_a_matrix_of_kernel_values(rows):
    X, _, spoiled, bad = rows
    K = RBF(1.5)(X)
    model = SparseGPRegressor("precomputed", likelihood="student-t", n_basis=40, random_state=0)
    model.fit(K, spoiled)
    np.testing.assert_array_equal(model.outliers_, bad)
