"""Student's t: outliers are found, and cost next to nothing."""

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student
from sklearn.gaussian_process.kernels import RBF

import pursuit
from pursuit import Evidence, SparseGPRegressor
from pursuit.estimators.gp.outliers import learn_student
from pursuit.tuning import LeftOut

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
    """Normalised targets, and the expected weights of the rows.

    They are (ν + 1)/(ν + e²/v), times the probability that a row is not wrong altogether.
    """
    s = model._scale.scale[0]
    e = (y - model.predict(X)) / s
    variance = (model.predict(X, return_std=True, include_noise=False)[1] / s) ** 2
    nu, v = model.degrees_of_freedom_, model._spread.noise + variance
    w = (nu + 1) / (nu + e**2 / v)
    share, uniform = model._noise_model.wrong, np.exp(model._noise_model.log_density)
    right = (1 - share) * student.pdf(e, nu, scale=np.sqrt(v))
    w *= right / (right + share * uniform)
    return (y - model._scale.mean[0]) / s, np.maximum(w, 1e-6)


def test_outliers_hardly_change_the_mean(rows, robust):
    X, y, spoiled, _ = rows
    clean = rmse(SparseGPRegressor(**FAST).fit(X, y))
    assert rmse(robust) <= 1.15 * clean
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


@pytest.fixture(scope="module")
def heavy():
    """A model of rows whose noise is Student's t with 6 degrees of freedom."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, (2000, 1))
    y = X[:, 0] + 0.1 * rng.standard_t(6, 2000)
    return SparseGPRegressor(1.0 * RBF(2.0), **ROBUST).fit(X, y)


def test_degrees_of_freedom_are_those_of_the_noise(heavy):
    assert 4 <= heavy.degrees_of_freedom_ < 12
    assert heavy._noise_model.wrong == 0.0
    at = heavy.basis_[:1]
    np.testing.assert_allclose(heavy.noise_at(at), 0.1 * student.ppf(norm.cdf(1), 6), rtol=0.1)


def test_the_share_of_wrong_rows_is_found(robust):
    np.testing.assert_allclose(robust._noise_model.wrong, 45 / 900, rtol=0.2)
    assert robust.degrees_of_freedom_ > 10  # the others are Gaussian


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
    """The best function of the span for the weights of its errors is the model.

    Weights of the fit are those of errors with the row left out, these are not: the noise is 0.1.
    """
    X, _, spoiled, bad = rows
    z, w = posed(robust, X, spoiled)
    K, K_basis = robust.kernel_(X, robust.basis_), robust.kernel_(robust.basis_)
    A = K.T @ (w[:, None] * K) + robust.noise_ * K_basis
    f = K @ np.linalg.lstsq(A, K.T @ (w * z), rcond=1e-14)[0]
    mean = robust._scale.mean[0] + robust._scale.scale[0] * f
    assert np.sqrt(np.mean((robust.predict(X) - mean) ** 2)) < 0.005
    assert w[bad].max() < 0.1 < np.median(w)


def test_another_fit_forgets_the_outliers(rows, robust):
    X, y, spoiled, _ = rows
    model = SparseGPRegressor("rbf", likelihood="student-t", n_basis=20).fit(X, spoiled)
    assert len(model.outliers_)
    model.set_params(likelihood="gaussian").fit(X, y)
    assert not hasattr(model, "outliers_")
    np.testing.assert_allclose(model._quantile_factor(0.95), norm.ppf(0.95))


def test_quantiles_leave_room_for_wrong_rows(robust, heavy):
    """Half of the wrong rows lie above: the rest has to be below with more probability."""
    for model in (heavy, robust):
        share = model._noise_model.wrong
        factor = model._quantile_factor(0.95) * model.noise_at(model.basis_[:1])[0]
        scale = np.sqrt(model._spread.noise) * model._scale.scale[0]
        level = (0.95 - share / 2) / (1 - share)
        expected = scale * student.ppf(level, model.degrees_of_freedom_)
        np.testing.assert_allclose(factor, expected)
        assert np.isfinite(model._quantile_factor(0.999))


def test_intervals_cover_with_wrong_rows_among_the_new(robust):
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, (4000, 2))
    y = truth(X) + 0.1 * rng.standard_normal(4000)
    y += np.where(rng.random(4000) < 0.05, rng.choice([-1, 1], 4000) * 20, 0.0)
    lower, upper = robust.predict_interval(X, 0.9, method="gaussian")
    assert 0.88 < np.mean((lower <= y) & (y <= upper)) < 0.93


def test_draws_have_heavy_tails(heavy):
    at = np.zeros((1, 1))
    draws = heavy.sample_y(at, 20_000, random_state=0)[0] - heavy.predict(at)
    half = np.quantile(np.abs(draws), norm.cdf(1) - norm.cdf(-1))
    np.testing.assert_allclose(half, heavy.predict(at, return_std=True)[1][0], rtol=0.05)
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


def test_what_needs_weights_before_there_are_errors_is_refused(rows, robust):
    X = rows[0]
    with pytest.raises(ValueError, match="weights from the errors of a fit"):
        robust.emptied()
    with pytest.raises(ValueError, match="weights from the targets"):
        robust.std_bounds(X[:5], X)
    with pytest.raises(ValueError, match="weights from the targets"):
        robust.std_bounds(X[:5], X, tol=0.1)


def test_gaps_in_further_rows_are_refused(rows):
    X, y, spoiled, _ = rows
    model = SparseGPRegressor(**ROBUST).fit(X[:300], np.column_stack([spoiled, y])[:300])
    gappy = np.column_stack([y, y])[300:320]
    gappy[3, 1] = np.nan
    for call in (model.partial_fit, model.leave_one_out):
        with pytest.raises(ValueError, match="some targets are NaN"):
            call(X[300:320], gappy)


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


ERRORS = {
    "normal": lambda rng, m: rng.standard_normal(m),
    "uniform": lambda rng, m: rng.uniform(-1, 1, m),
    "skewed": lambda rng, m: rng.standard_exponential(m) - 1,
    "two sizes": lambda rng, m: rng.choice([0.1, 1.0], m) * rng.standard_normal(m),
    "few values": lambda rng, m: rng.choice([-1.0, 0.0, 0.0, 1.0], m),
    "equal": lambda rng, m: np.zeros(m),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_noise_of_any_shape_is_no_outlier(kind):
    error = ERRORS[kind](np.random.default_rng(0), 500)
    assert learned(error).wrong == 0.0


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
def test_gross_errors_are_told_from_noise(share):
    rng = np.random.default_rng(0)
    far = rng.random(2000) < share
    error = rng.standard_normal(2000) + np.where(far, rng.normal(0, 50, 2000), 0.0)
    np.testing.assert_allclose(learned(error).wrong, far.mean(), rtol=0.25)


def learned(error):
    m = len(error)
    zero = np.zeros(m)
    left = LeftOut(error[:, None], zero, zero, np.ones(m), np.ones(m), np.arange(m))
    return learn_student(left, 1.0)[0]
