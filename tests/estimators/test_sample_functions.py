"""Functions drawn from the posterior: their moments, and that they are functions."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    WhiteKernel,
)

import pursuit
from pursuit import (
    Categorical,
    ExactGPRegressor,
    FullScaleGPRegressor,
    SparseGPRegressor,
    on_columns,
)
from pursuit.estimators import kernel_model
from pursuit.kernels import NoFunctionsError

pd = pytest.importorskip("pandas")

N_DRAWS = 4000
SMOOTH = ConstantKernel(1.5) * RBF(0.6)


def given_gp(kernel=SMOOTH, **options):
    options = {"noise": 0.1, "n_basis": 20, "certificate": None, "random_state": 0, **options}
    return SparseGPRegressor(kernel, optimizer=None, **options)


def errors(draws, mean, covariance):
    """Errors of the mean and the covariance of draws, in units of their standard errors."""
    n = draws.shape[1]
    sd = np.sqrt(np.diag(covariance))
    of_mean = (draws.mean(axis=1) - mean) * np.sqrt(n) / sd
    product = np.sqrt((np.outer(sd, sd) ** 2 + covariance**2) / n)
    upper = np.triu_indices(len(sd))
    return np.abs(of_mean), np.abs((np.cov(draws) - covariance) / product)[upper]


def agree(draws, mean, covariance):
    """Whether the moments agree: a correct method fails one time in a thousand."""
    of_mean, of_covariance = errors(draws, mean, covariance)
    found = np.concatenate([of_mean, of_covariance])
    return bool(found.max() < norm.isf(0.5e-3 / len(found)))


CASES = {
    "smooth": SMOOTH,
    "rough": 2.0 * Matern([3.0, 8.0], nu=0.5),
    "rough and long": 10.0 * Matern([70.0, 160.0], nu=0.5),
    "any order": Matern([3.0, 8.0], nu=1.1),
    "sum": RBF([1.0, 5.0]) + 0.3 * DotProduct(1.0) + WhiteKernel(0.01),
    "product": Matern(2.0, nu=2.5) * (DotProduct(1.0) + 1.0),
    "columns": on_columns(RBF(0.7), [0]) + on_columns(Matern(1.0, nu=1.5), [1]),
    "periodic": on_columns(ExpSineSquared(1.0, 3.0), [0]) * RBF(4.0) + on_columns(RBF(1.0), [1]),
}


@pytest.mark.parametrize("calibration", [None, "loo"])
@pytest.mark.parametrize("name", CASES)
def test_moments_are_those_of_predict(waves, name, calibration):
    data = waves(400)
    model = given_gp(CASES[name], calibration=calibration).fit(data.X, data.y)
    new = np.random.default_rng(3).normal(size=(50, 2)) * 1.5
    mean, covariance = model.predict(new, return_cov=True, include_noise=False)
    draws = model.sample_functions(N_DRAWS, random_state=4)(new)
    assert draws.shape == (50, N_DRAWS)
    assert agree(draws, mean, covariance)


@pytest.fixture
def calibrated(waves):
    """A model whose calibration changed both numbers of its spread, by much."""
    data = waves(400)
    model = given_gp(2.0 * Matern([3.0, 8.0], nu=0.5), calibration="loo").fit(data.X, data.y)
    assert abs(np.log(model._spread.missed)) > 0.3
    new = np.random.default_rng(3).normal(size=(50, 2)) * 1.5
    return model, new, *model.predict(new, return_cov=True, include_noise=False)


def test_control_without_the_update(calibrated):
    model, new, mean, covariance = calibrated
    draws = model.sample_functions(N_DRAWS)
    assert agree(draws(new), mean, covariance)
    scale = model._scale
    assert not agree(scale.restore(draws.prior(new)), mean, covariance)


@pytest.mark.parametrize("wrong", [{"missed": 1.0}, {"noise": 0.0}])
def test_control_without_the_calibration(calibrated, wrong):
    model, new, mean, covariance = calibrated
    model._spread = replace(model._spread, **wrong)
    assert not agree(model.sample_functions(N_DRAWS)(new), mean, covariance)


def test_the_guard_far_from_all_data(waves):
    """Where the basis says nothing, draws have the variance of the prior, whatever `missed` is."""
    data = waves(400)
    model = given_gp(calibration="loo").fit(data.X, data.y)
    model._spread = replace(model._spread, missed=0.01)
    far = np.random.default_rng(0).normal(size=(50, 2)) + 50.0
    mean, covariance = model.predict(far, return_cov=True, include_noise=False)
    np.testing.assert_allclose(np.diag(covariance), 1.5 * model._scale.scale[0] ** 2, rtol=1e-6)
    assert agree(model.sample_functions(N_DRAWS)(far), mean, covariance)


def test_outputs_are_drawn_apart(waves):
    data = waves(300, n_outputs=2)
    model = given_gp(calibration="loo").fit(data.X, data.y)
    mean, covariance = model.predict(data.new, return_cov=True, include_noise=False)
    draws = model.sample_functions(N_DRAWS)(data.new)
    assert draws.shape == (25, 2, N_DRAWS)
    for output in range(2):
        assert agree(draws[:, output], mean[:, output], covariance[:, :, output])
    # Independent given the model: each pair of outputs has a correlation of 0.
    centred = (draws - mean[:, :, None]) / np.sqrt(np.einsum("iio->io", covariance))[:, :, None]
    correlation = (centred[:, 0] * centred[:, 1]).mean(axis=1)
    assert np.abs(correlation).max() < norm.isf(0.5e-3 / 25) / np.sqrt(N_DRAWS)
    one = model.sample_functions(3)[1](data.new)
    assert one.shape == (25, 2)
    np.testing.assert_allclose(one, draws[:, :, 1], rtol=1e-10, atol=1e-10)


def test_a_draw_is_a_function(waves):
    data = waves(300)
    functions = given_gp().fit(data.X, data.y).sample_functions(70, random_state=1)
    X = np.random.default_rng(0).normal(size=(1500, 2))
    values = functions(X)
    assert len(functions) == len(list(functions)) == 70
    order = np.random.default_rng(1).permutation(1500)
    np.testing.assert_allclose(functions(X[order]), values[order], atol=1e-11)
    np.testing.assert_allclose(functions(X[7:9]), values[7:9], atol=1e-11)
    for number in (0, 15, 16, -1):
        np.testing.assert_allclose(functions[number](X[:40]), values[:40, number], atol=1e-11)
    for some in (slice(10, 40), slice(None, None, -7)):
        np.testing.assert_allclose(functions[some](X[:40]), values[:40, some], atol=1e-11)
    with pytest.raises(IndexError):
        functions[70]


def test_seeds(waves):
    data = waves(200)
    model = given_gp().fit(data.X, data.y)
    first = model.sample_functions(40, random_state=1)(data.new)
    np.testing.assert_array_equal(model.sample_functions(40, random_state=1)(data.new), first)
    shorter = model.sample_functions(3, random_state=1)(data.new)
    np.testing.assert_allclose(shorter, first[:, :3], atol=1e-11)
    assert np.abs(model.sample_functions(40, random_state=2)(data.new) - first).min() > 0


def test_draws_do_not_change_with_the_model(waves):
    data, more = waves(200), waves(100, seed=1)
    model = given_gp().fit(data.X, data.y)
    functions = model.sample_functions(5)
    expected = functions(data.new)
    copied = pickle.loads(pickle.dumps(functions))
    model.partial_fit(more.X, more.y)
    np.testing.assert_array_equal(functions(data.new), expected)
    model.set_params(kernel="rbf", gamma=3.0).fit(more.X, more.y + 5.0)
    np.testing.assert_array_equal(functions(data.new), expected)
    np.testing.assert_array_equal(copied(data.new), expected)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(functions[2]))(data.new), copied[2](data.new)
    )
    with pytest.raises(Exception, match="not fitted"):
        clone(model).sample_functions(2)


def test_a_saved_model_draws_the_same(waves, tmp_path):
    data = waves(200)
    model = given_gp(CASES["columns"], calibration="loo").fit(data.X, data.y)
    model.save(tmp_path / "model.pursuit")
    loaded = pursuit.load(tmp_path / "model.pursuit")
    expected = model.sample_functions(10)(data.new)
    np.testing.assert_allclose(loaded.sample_functions(10)(data.new), expected, atol=1e-11)


def test_float32_rows_and_tiles(waves):
    data = waves(300)
    model = given_gp(dtype="float32").fit(data.X.astype(np.float32), data.y)
    functions = model.sample_functions(10)
    single = functions(data.new.astype(np.float32))
    np.testing.assert_allclose(single, functions(data.new), atol=1e-4)


def test_data_frames_with_categories(waves):
    data = waves(300)
    city = np.random.default_rng(0).choice(["Bonn", "Lund", "Oslo"], 300)
    y = data.y * np.where(city == "Oslo", -1, 1)
    frame = pd.DataFrame({"city": city, "a": data.X[:, 0], "b": data.X[:, 1]})
    kernel = 1.5 * on_columns(RBF(0.6), ["a", "b"]) * Categorical(["city"], correlation=0.3)
    model = given_gp(kernel).fit(frame, y)
    mean, covariance = model.predict(frame[:30], return_cov=True, include_noise=False)
    functions = model.sample_functions(N_DRAWS)
    draws = functions(frame[:30])
    assert agree(draws, mean, covariance)
    np.testing.assert_allclose(functions[3](frame[:5]), draws[:5, 3])
    with pytest.raises(ValueError, match=r"feature names|columns"):
        functions(frame[["city", "a"]])


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_draws_of_the_exact_process(waves, solver):
    data = waves(150)
    weights = np.random.default_rng(0).uniform(0.3, 3.0, 150)
    model = ExactGPRegressor(
        SMOOTH, noise=0.1, optimizer=None, solver=solver, residual_tol=1e-8, random_state=0
    ).fit(data.X, data.y, sample_weight=weights)
    y = model._scale.normalize(data.y[:, None])[:, 0]
    K, k = SMOOTH(data.X) + np.diag(0.1 / weights), SMOOTH(data.X, data.new)
    mean = k.T @ np.linalg.solve(K, y)
    covariance = SMOOTH(data.new) - k.T @ np.linalg.solve(K, k)
    functions = model.sample_functions(N_DRAWS)
    draws = functions(data.new)
    assert agree(draws, *(model._scale.restore(mean), covariance * model._scale.scale**2))
    np.testing.assert_allclose(functions[40](data.new[::-1]), draws[::-1, 40], atol=1e-10)


def test_outputs_of_the_exact_process(waves):
    data = waves(100, n_outputs=2)
    model = ExactGPRegressor(SMOOTH, noise=0.1, optimizer=None).fit(data.X, data.y)
    draws = model.sample_functions(N_DRAWS)(data.new)
    mean, std = model.predict(data.new, return_std=True, include_noise=False)
    assert draws.shape == (25, 2, N_DRAWS)
    assert np.abs((draws.mean(axis=2) - mean) / std).max() < 4.5 / np.sqrt(N_DRAWS)
    assert np.abs(draws.std(axis=2) / std - 1).max() < 4.5 / np.sqrt(2 * N_DRAWS)


def test_full_scale_models(waves):
    data = waves(300)
    options = {"kernel": SMOOTH, "noise": 0.1, "optimizer": None, "n_basis": 20, "random_state": 0}
    near = FullScaleGPRegressor(**options, n_neighbors=5).fit(data.X, data.y)
    with pytest.raises(NoFunctionsError, match=r"global_\.sample_functions"):
        near.sample_functions()
    without = FullScaleGPRegressor(**options, n_neighbors=0).fit(data.X, data.y)
    expected = without.global_.sample_functions(3)(data.new)
    np.testing.assert_array_equal(without.sample_functions(3)(data.new), expected)


@pytest.mark.parametrize(
    ("kernel", "named"),
    [("cosine", "Cosine"), (lambda A, B: A @ B.T, "<lambda>"), ("precomputed", "precomputed")],
)
def test_kernels_without_features_are_refused(waves, kernel, named):
    data = waves(60)
    X = data.X @ data.X.T if kernel == "precomputed" else data.X
    model = SparseGPRegressor(kernel, noise=0.1).fit(X, data.y)
    with pytest.raises(NoFunctionsError, match=named):
        model.sample_functions()


@pytest.mark.parametrize("wrong", [{"n": 0}, {"n": 2.5}, {"n_features": 0}])
def test_bad_numbers(waves, wrong):
    data = waves(60)
    model = given_gp().fit(data.X, data.y)
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be a whole number"):
        model.sample_functions(**wrong)


def test_a_model_of_nothing(waves):
    data = waves(60)
    model = given_gp().fit(data.X, np.full(60, 3.0))
    values = model.sample_functions(200)(data.new)
    assert values.shape == (25, 200)
    assert np.all(np.isfinite(values))


# sample_y


@pytest.mark.parametrize("include_noise", [True, False])
@pytest.mark.parametrize("n_outputs", [None, 2])
def test_many_rows_are_drawn_by_functions(waves, n_outputs, include_noise):
    data = waves(300, n_outputs=n_outputs)
    model = given_gp(calibration="loo").fit(data.X, data.y)
    X = np.random.default_rng(0).normal(size=(2001, 2))
    draws = model.sample_y(X, 1000, random_state=2, include_noise=include_noise)
    mean, covariance = model.predict(X[-30:], return_cov=True, include_noise=include_noise)
    assert draws.shape == ((2001, 1000) if n_outputs is None else (2001, 2, 1000))
    if n_outputs is None:
        assert agree(draws[-30:], mean, covariance)
    else:
        assert agree(draws[-30:, 1], mean[:, 1], covariance[:, :, 1])
    again = model.sample_y(X, 1000, random_state=2, include_noise=include_noise)
    np.testing.assert_array_equal(draws, again)


def test_few_rows_stay_exact(waves):
    """Up to 2 000 rows are drawn from the covariance: with it singular, draws lie in its span."""
    data = waves(100)
    model = given_gp(DotProduct(1.0)).fit(data.X, data.y)
    X = np.random.default_rng(0).normal(size=(300, 2))
    draws = model.sample_y(X, 5, include_noise=False)
    assert np.linalg.matrix_rank(draws - model.predict(X)[:, None], tol=1e-6) == 3


def test_rows_beyond_what_can_be_drawn(waves, monkeypatch):
    data = waves(60)
    model = SparseGPRegressor("cosine", noise=0.1).fit(data.X, data.y)
    monkeypatch.setattr(kernel_model, "_JOINT_ROWS", 20)
    monkeypatch.setattr(kernel_model, "_MOST_JOINT_ROWS", 40)
    assert model.sample_y(data.X[:40], 3).shape == (40, 3)
    with pytest.raises(NoFunctionsError, match=r"up to 40 rows.*Cosine.*RBF"):
        model.sample_y(data.X[:41], 3)


def test_functions_that_leave_the_range_of_floats_name_the_rows():
    X = np.random.default_rng(0).normal(size=(20, 2))
    model = SparseGPRegressor("poly", degree=3, noise=0.1, optimizer=None).fit(X, X[:, 0])
    functions = model.sample_functions(2)
    with pytest.raises(ValueError, match=r"leaves the range of float64, with X of"):
        functions(1e130 * X)
