"""Noise that depends on the inputs, against the noise that made the data."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF

import pursuit
from pursuit import Evidence, SparseGPRegressor

FAST = {"n_basis": 40, "optimizer": Evidence(rows=250), "random_state": 0}


def deviation(x):
    return np.where(x < 0.5, 0.05, 0.5)


def two_halves(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n, 1))
    return X, np.sin(6 * X[:, 0]) + deviation(X[:, 0]) * rng.standard_normal(n)


@pytest.fixture(scope="module")
def data():
    return two_halves(1000, 0)


@pytest.fixture(scope="module")
def varying(data):
    return SparseGPRegressor(noise="varying", **FAST).fit(*data)


@pytest.fixture(scope="module")
def constant(data):
    return SparseGPRegressor(**FAST).fit(*data)


def nlpd(model, X, y):
    mean, std = model.predict(X, return_std=True)
    return -norm.logpdf(y, mean, std).mean()


def test_error_bars_follow_the_noise(varying, constant):
    X, y = two_halves(20_000, 1)
    mean, std = varying.predict(X, return_std=True)
    inside = np.abs(y - mean) < norm.ppf(0.95) * std
    for low in np.arange(0.0, 1.0, 0.2):
        there = (X[:, 0] >= low) & (X[:, 0] < low + 0.2)
        assert 0.84 < inside[there].mean() < 0.96
    mean, std = constant.predict(X, return_std=True)  # what it is for
    inside = np.abs(y - mean) < norm.ppf(0.95) * std
    assert inside[X[:, 0] < 0.5].mean() > 0.99
    assert inside[X[:, 0] > 0.5].mean() < 0.80
    assert nlpd(varying, X, y) < nlpd(constant, X, y) - 0.5
    best = -norm.logpdf(y, np.sin(6 * X[:, 0]), deviation(X[:, 0])).mean()
    assert best < nlpd(varying, X, y) < best + 0.06


def test_noise_at_is_the_noise_in_units_of_y(varying, constant):
    X = np.array([[0.1], [0.25], [0.75], [0.9]])
    np.testing.assert_allclose(varying.noise_at(X), deviation(X[:, 0]), rtol=0.25)
    np.testing.assert_array_equal(constant.noise_at(X), constant.noise_at(X)[0])
    total = varying.predict(X, return_std=True)[1]
    latent = varying.predict(X, return_std=True, include_noise=False)[1]
    np.testing.assert_allclose(total**2, latent**2 + varying.noise_at(X) ** 2, rtol=1e-10)
    _, covariance = varying.predict(X, return_cov=True)
    np.testing.assert_allclose(np.diag(covariance), total**2, rtol=1e-8)


def test_the_report_tells_what_was_found(varying, constant, tmp_path):
    for model, told in ((varying, True), (constant, False)):
        model.report(tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert ("varies with the inputs: the log density" in page) == told


def test_units_of_the_targets_do_not_matter(data, varying):
    X, y = data
    scaled = SparseGPRegressor(noise="varying", **FAST).fit(X, 1e3 * y + 5e4)
    at = np.array([[0.2], [0.8]])
    np.testing.assert_allclose(scaled.noise_at(at), 1e3 * varying.noise_at(at), rtol=1e-4)


def test_constant_noise_stays_a_plain_fit():
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 1, (600, 1))
    y = np.sin(6 * X[:, 0]) + 0.2 * rng.standard_normal(600)
    plain = SparseGPRegressor(**FAST).fit(X, y)
    tried = SparseGPRegressor(noise="varying", **FAST).fit(X, y)
    assert tried.learning_report_.noise.startswith("constant: the log density of 120 rows")
    for mine, other in zip(
        tried.predict(X, return_std=True), plain.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(mine, other)


def test_the_fit_is_the_weighted_fit(data, varying):
    """The span's solution with weights 1 / g(x), from scratch."""
    X, y = data
    ratio = (varying.noise_at(X) / varying._scale.scale[0]) ** 2 / varying._spread.noise
    np.testing.assert_allclose(np.mean(1 / ratio), 1.0, rtol=1e-10)
    K = varying.kernel_(X, varying.basis_)
    K_basis = varying.kernel_(varying.basis_, varying.basis_)
    z = (y - varying._scale.mean[0]) / varying._scale.scale[0]
    A = K.T @ (K / ratio[:, None]) + varying.noise_ * K_basis
    f = K @ np.linalg.lstsq(A, K.T @ (z / ratio), rcond=1e-14)[0]
    mean = varying._scale.mean[0] + varying._scale.scale[0] * f
    np.testing.assert_allclose(varying.predict(X), mean, rtol=1e-4, atol=1e-4)


def test_the_certificate_holds_for_the_weighted_problem(data, varying):
    X, y = data
    ratio = (varying.noise_at(X) / varying._scale.scale[0]) ** 2 / varying._spread.noise
    z = (y - varying._scale.mean[0]) / varying._scale.scale[0]
    C = varying.kernel_(X) + np.diag(varying.noise_ * ratio)
    minimum = 0.5 * varying.noise_ * z @ np.linalg.solve(C, z)
    found = varying.certificate_
    assert found.lower <= minimum * (1 + 1e-9)
    assert minimum <= found.upper * (1 + 1e-9)
    assert "learned noise" in str(found)
    again = varying.certify(X, y)
    np.testing.assert_allclose(again.upper, found.upper, rtol=1e-8)
    unweighted = (
        0.5
        * varying.noise_
        * z
        @ np.linalg.solve(varying.kernel_(X) + varying.noise_ * np.eye(len(z)), z)
    )
    assert abs(unweighted - minimum) > 100 * found.gap  # the weights matter


def test_further_rows_get_weights_of_the_noise_there(data, varying):
    X, y = data
    parts = varying.emptied().partial_fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    at = np.linspace(0, 1, 7)[:, None]
    for mine, other in zip(
        parts.predict(at, return_std=True), varying.predict(at, return_std=True), strict=True
    ):
        np.testing.assert_allclose(mine, other, rtol=1e-6)
    halves = [varying.emptied().partial_fit(X[k::2], y[k::2]) for k in range(2)]
    np.testing.assert_allclose(halves[0].merge(halves[1]).predict(at), varying.predict(at), 1e-6)
    plain = SparseGPRegressor(varying.kernel_, noise=varying.noise_, optimizer=None).fit(X, y)
    with pytest.raises(ValueError, match="merge needs"):
        varying.merge(plain)


def test_bounds_of_the_standard_deviation_hold_the_exact_process(data, varying):
    X, _ = data
    at = np.array([[0.2], [0.8]])
    lower, upper = varying.std_bounds(at, X)
    scale = varying._scale.scale[0]
    g = (varying.noise_at(X) / scale) ** 2 / varying._spread.noise
    g_new = (varying.noise_at(at) / scale) ** 2 / varying._spread.noise
    k = varying.kernel_(X, at)
    C = varying.kernel_(X) + np.diag(varying.noise_ * g)
    exact = varying.kernel_.diag(at) - np.einsum("ij,ij->j", k, np.linalg.solve(C, k))
    exact = scale * np.sqrt(exact + varying.noise_ * g_new)
    assert np.all(lower <= exact * (1 + 1e-7))
    assert np.all(exact <= upper * (1 + 1e-7))
    assert exact[1] > 3 * exact[0]


def test_draws_have_the_noise_of_their_place(varying):
    X = np.repeat([[0.2], [0.8]], 1500, axis=0)
    draws = varying.sample_y(X, random_state=0)[:, 0]  # by functions
    few = varying.sample_y(X[::1500], 4000, random_state=0)  # jointly
    std = varying.predict(X[::1500], return_std=True)[1]
    np.testing.assert_allclose(few.std(axis=1), std, rtol=0.05)
    spread = np.array([draws[:1500].std(), draws[1500:].std()])
    np.testing.assert_allclose(spread, varying.noise_at(X[::1500]), rtol=0.1)


def test_gradient_of_the_standard_deviation(data):
    X, y = data
    model = SparseGPRegressor(RBF(0.3), noise="varying", **FAST).fit(X, y)
    at, step = np.array([[0.2], [0.45], [0.8]]), 1e-6
    _, gradient = model.predict_gradient(at, return_std=True)
    ahead, behind = (model.predict(at + s, return_std=True)[1] for s in (step, -step))
    np.testing.assert_allclose(gradient[:, 0], (ahead - behind) / (2 * step), rtol=1e-3, atol=1e-6)


def test_saved_and_cut(varying, tmp_path):
    X = np.linspace(0, 1, 9)[:, None]
    varying.save(tmp_path / "model")
    again = pursuit.load(tmp_path / "model")
    np.testing.assert_array_equal(again.noise_at(X), varying.noise_at(X))
    np.testing.assert_array_equal(again.predict(X, True)[1], varying.predict(X, True)[1])
    few = varying.truncated(5)
    ratio = few.noise_at(X) / varying.noise_at(X)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)


def test_exported(varying):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    graph = pursuit.to_onnx(varying, return_std=True)
    X = np.linspace(0, 1, 9)[:, None]
    _, std = runtime.InferenceSession(graph.SerializeToString()).run(None, {"X": X})
    np.testing.assert_allclose(std.ravel(), varying.predict(X, return_std=True)[1], rtol=1e-8)


def test_a_checkpoint_gives_the_same_model(data, varying, tmp_path):
    X, y = data
    options = {**FAST, "noise": "varying", "checkpoint": tmp_path / "run"}
    first = SparseGPRegressor(**options).fit(X, y)
    resumed = SparseGPRegressor(**options).fit(X, y)
    at = np.linspace(0, 1, 9)[:, None]
    for model in (first, resumed):
        np.testing.assert_array_equal(model.predict(at, True)[1], varying.predict(at, True)[1])


def test_weights_and_outputs():
    X, y = two_halves(500, 4)
    twice = np.r_[X, X[:100]], np.r_[y, y[:100]]
    weights = np.r_[np.full(100, 2.0), np.ones(400)]
    at = np.array([[0.2], [0.8]])
    weighted = SparseGPRegressor(noise="varying", **FAST).fit(X, y, weights)
    copied = SparseGPRegressor(noise="varying", **FAST).fit(*twice)
    np.testing.assert_allclose(weighted.noise_at(at), copied.noise_at(at), rtol=0.3)
    other = np.cos(6 * X[:, 0]) + deviation(X[:, 0]) * np.random.default_rng(6).normal(size=500)
    Y = np.column_stack([y, 10 * other])
    both = SparseGPRegressor(noise="varying", **FAST).fit(X, Y)
    assert both.noise_at(at).shape == (2, 2)
    np.testing.assert_allclose(both.noise_at(at)[1], [0.5, 5.0], rtol=0.3)
    assert np.all(both.noise_at(at)[0] < 0.35 * both.noise_at(at)[1])


def test_learn_says_that_the_noise_varies(constant):
    [note] = [text for text in constant.learning_report_.warnings if "noise='varying'" in text]
    assert "varies with the inputs" in note


def test_learn_does_not_say_so_of_constant_noise(size):
    fired = 0
    for seed in range(size(20, 80)):
        rng = np.random.default_rng(seed)
        X = rng.uniform(0, 1, (400, 2))
        noise = rng.standard_normal(400) if seed % 2 else rng.standard_t(3, 400)
        y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.2 * noise
        model = SparseGPRegressor(
            1.0 * RBF([0.3, 1.0]), calibration="loo", n_basis=40, optimizer=None, random_state=0
        ).fit(X, y)
        fired += bool(model.calibration_.varying)
    assert fired == 0


def test_refused():
    X, y = two_halves(50, 0)
    with pytest.raises(ValueError, match="use one of them"):
        SparseGPRegressor(noise="varying", likelihood="student-t").fit(X, y)
    with pytest.raises(ValueError, match="pass sample_weight"):
        SparseGPRegressor("precomputed", noise="varying").fit(RBF()(X), y)
    few = SparseGPRegressor(noise="varying", n_basis=10, random_state=0).fit(X, y)
    assert "50 rows are too few" in few.learning_report_.noise
    flat = SparseGPRegressor(noise="varying", n_basis=10).fit(
        np.arange(200.0)[:, None], np.ones(200)
    )
    assert "all equal" in flat.learning_report_.noise


@pytest.mark.parametrize("options", [{"kernel": "rbf", "gamma": 10.0}, {"calibration": None}])
def test_the_mean_may_have_any_kernel(data, options):
    model = SparseGPRegressor(noise="varying", **{**FAST, **options}).fit(*data)
    np.testing.assert_allclose(model.noise_at([[0.2], [0.8]]), [0.05, 0.5], rtol=0.25)


def test_rows_of_a_file(data, varying, tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = data
    pd.DataFrame({"x": X[:, 0], "y": y}).to_csv(tmp_path / "rows.csv", index=False)
    model = SparseGPRegressor(noise="varying", **FAST).fit(tmp_path / "rows.csv", target="y")
    at = pd.DataFrame({"x": [0.2, 0.8]})
    np.testing.assert_allclose(model.noise_at(at), varying.noise_at(at.to_numpy()), rtol=1e-6)
