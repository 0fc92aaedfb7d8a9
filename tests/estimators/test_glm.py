"""Generalised linear models: what they minimise, learn, predict, explain and refuse."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import (
    d2_absolute_error_score,
    d2_pinball_score,
    d2_tweedie_score,
    mean_pinball_loss,
    mean_poisson_deviance,
)

import pursuit
from pursuit import Evidence, SparseGPRegressor, SparseKernelGLM
from pursuit.estimators.glm.named import NAMES, GivenLoss, likely_shape
from pursuit.estimators.glm.working import curvatures, working
from pursuit.estimators.gp.laplace import fit_laplace
from pursuit.linalg import Workers
from pursuit.objectives import (
    GammaRows,
    HuberRows,
    NegativeBinomialRows,
    PinballRows,
    PoissonRows,
    RowLoss,
)
from pursuit.rows import as_rows

KINKED = ("absolute", "quantile")
FEW = Evidence(rows=200)


def data(loss, m=150, seed=0):
    """Rows with targets that the loss is for, and log-means, log-odds or middles of them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (m, 2))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    mean = np.exp(f)
    if loss == "poisson":
        return X, rng.poisson(mean).astype(float), f
    if loss == "negative-binomial":
        return X, rng.poisson(mean * rng.gamma(1.5, 1 / 1.5, m)).astype(float), f
    if loss == "gamma":
        return X, rng.gamma(2.0, mean / 2.0), f
    if loss == "tweedie":
        return X, np.array([rng.gamma(1.0, 1.0, k).sum() for k in rng.poisson(mean)]), f
    if loss == "logistic":
        return X, (rng.random(m) < 1 / (1 + np.exp(-f))).astype(float), f
    return X, f + 0.3 * rng.standard_normal(m), f


def given(loss, **options):
    """A model whose kernel and penalty are given."""
    options = {"alpha": 0.5, "optimizer": None, "random_state": 0} | options
    return SparseKernelGLM(RBF(1.0), loss=loss, **options)


def learning(loss="poisson", n_basis=40, **options):
    """A model that learns its kernel, from few rows."""
    return SparseKernelGLM(loss=loss, n_basis=n_basis, optimizer=FEW, random_state=0, **options)


def objective(model, X, y, w=1.0):
    """P by its definition."""
    K = model.kernel_(model.basis_)
    loss = model._given().rows()[0]
    penalty = 0.5 * model.alpha_ * model.dual_coef_ @ K @ model.dual_coef_
    return np.sum(w * loss.value(model.decision_function(X), y)) + penalty


@pytest.mark.parametrize("loss", [name for name in NAMES if name not in KINKED])
def test_a_full_basis_reaches_the_minimum_that_scipy_finds(loss):
    X, y, _ = data(loss, 60)
    w = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    model = given(loss, n_basis=60).fit(X, y, w)
    eigenvalues, U = np.linalg.eigh(model.kernel_(X))
    V = U * np.sqrt(np.maximum(eigenvalues, 0.0))
    rows = model._given().rows()[0]

    def value(u):
        f = V @ u[:-1] + u[-1]
        slopes = w * rows.gradient(f, y)
        gradient = np.append(V.T @ slopes + model.alpha_ * u[:-1], slopes.sum())
        return w @ rows.value(f, y) + 0.5 * model.alpha_ * u[:-1] @ u[:-1], gradient

    best = minimize(value, np.zeros(61), jac=True, options={"gtol": 1e-9, "maxiter": 5000})
    assert objective(model, X, y, w) == pytest.approx(best.fun, rel=1e-7)
    assert model.certificate_.upper == pytest.approx(best.fun, rel=1e-7)
    assert model.certificate_.lower <= best.fun * (1 + 1e-9 * np.sign(best.fun))
    assert model.certificate_.relative_gap < 1e-4


@pytest.mark.parametrize("loss", NAMES)
def test_a_small_basis_is_certified_and_certified_again(loss):
    X, y, _ = data(loss)
    # A number that is learned would be another one for the larger basis.
    fixed = {"huber": HuberRows(0.4), "negative-binomial": NegativeBinomialRows(1.5)}
    loss = fixed.get(loss, loss)
    model = given(loss, n_basis=8).fit(X, y)
    full = given(loss, n_basis=150).fit(X, y)
    minimum = full.certificate_
    assert model.certificate_.upper == pytest.approx(objective(model, X, y), rel=1e-9)
    assert model.certificate_.lower <= minimum.upper + 1e-9 * abs(minimum.upper)
    assert model.certificate_.upper >= minimum.lower - 1e-9 * abs(minimum.lower)
    assert 0 < model.certificate_.relative_gap < 1
    again = model.certify(X, y)
    assert again.upper == pytest.approx(model.certificate_.upper, rel=1e-9)
    assert again.relative_gap == pytest.approx(model.certificate_.relative_gap, rel=1e-3)
    assert model.path_.gap[-1] == model.certificate_.relative_gap


@pytest.mark.parametrize("loss", NAMES)
def test_every_loss_finds_the_function_behind_its_targets(loss):
    X, y, f = data(loss, 800)
    weak = loss in ("logistic", "negative-binomial")  # their rows tell least
    model = learning(loss, 60)
    if weak:
        model.set_params(optimizer=Evidence(rows=300))
    model.fit(X, y)
    error = np.sqrt(np.mean((model.decision_function(X) - f) ** 2))
    constant = np.sqrt(np.mean((f - f.mean()) ** 2))
    assert error < (0.45 if weak else 0.25) * constant
    assert model.n_basis_ <= 60
    assert model.certificate_.relative_gap < 0.01
    links = {"logistic": lambda f: 1 / (1 + np.exp(-f))}
    link = links.get(loss, np.exp if np.any(loss == np.array(NAMES[:4])) else lambda f: f)
    assert np.allclose(model.predict(X), link(model.decision_function(X)), rtol=1e-12)


def test_what_is_learned_of_a_loss():
    X, y, _ = data("negative-binomial", 1500)
    model = learning("negative-binomial").fit(X, y)
    assert model.shape_ == pytest.approx(1.5, rel=0.25)
    assert model.dispersion_ == pytest.approx(1.0, abs=0.15)
    plain = learning("poisson").fit(X, y)
    assert plain.shape_ is None
    assert plain.dispersion_ > 1.5  # the counts vary more than those of Poisson do
    X, y, _ = data("poisson", 1500)
    counts = clone(model).fit(X, y)
    assert counts.shape_ > 10
    X, y, _ = data("huber", 1000)
    robust = learning("huber").fit(X, y)
    assert robust.width_ == pytest.approx(1.345 * 0.3, rel=0.1)
    X, y, _ = data("gamma", 1500)
    amounts = learning("gamma").fit(X, y)
    assert amounts.dispersion_ == pytest.approx(0.5, rel=0.1)


def test_the_likeliest_shape():
    rng = np.random.default_rng(0)
    mean = rng.uniform(0.5, 5.0, 20_000)
    y = rng.poisson(mean * rng.gamma(3.0, 1 / 3.0, len(mean))).astype(float)
    assert likely_shape(mean, y, np.ones(len(y))) == pytest.approx(3.0, rel=0.1)
    doubled = likely_shape(np.tile(mean, 2), np.tile(y, 2), np.ones(2 * len(y)))
    assert likely_shape(mean, y, np.full(len(y), 2.0)) == pytest.approx(doubled, rel=1e-6)


def test_outliers_move_least_squares_and_not_huber():
    rng = np.random.default_rng(0)
    X, y, f = data("huber", 600)
    hit = rng.random(len(y)) < 0.05
    y[hit] += 20 * rng.standard_normal(hit.sum())

    def error(model):
        return np.sqrt(np.mean((model.fit(X, y).predict(X) - f) ** 2))

    robust = error(learning("huber"))
    assert robust < 0.1
    assert error(learning("absolute")) < 0.12
    assert error(SparseGPRegressor(n_basis=40, optimizer=FEW, random_state=0)) > 3 * robust


def test_several_quantiles_are_sorted_certified_apart_and_right():
    levels = [0.05, 0.5, 0.95]
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1500, 2))
    spread = 0.1 + 0.3 * (X[:, 0] + 1.0)
    y = np.sin(3 * X[:, 0]) + spread * rng.standard_normal(len(X))
    model = learning("quantile", quantile=levels)
    found = model.fit(X, y).predict(X)
    assert found.shape == (1500, 3)
    assert np.all(np.diff(found, axis=1) >= 0)
    assert model.intercept_.shape == model.alpha_.shape == (3,)
    assert np.allclose(np.mean(y[:, None] < found, axis=0), levels, atol=0.02)
    truth = np.sin(3 * X[:, [0]]) + spread[:, None] * norm.ppf(levels)
    for j, level in enumerate(levels):
        ideal = mean_pinball_loss(y, truth[:, j], alpha=level)
        assert mean_pinball_loss(y, found[:, j], alpha=level) < 1.02 * ideal
    assert len(model.certificate_.upper_per_output) == 3
    assert np.all(model.certificate_.upper_per_output >= model.certificate_.lower_per_output)
    assert model.certificate_.relative_gap < 0.01
    one = learning("quantile", 20, quantile=[0.5]).fit(X, y)
    assert one.predict(X).shape == (1500, 1)


@cache
def small_model(loss):
    """Rows, targets, and a model that has learned from all of them."""
    X, y, _ = data(loss, 150)
    return X, y, learning(loss, 30, quantile=0.3).fit(X, y)


@pytest.mark.parametrize("loss", ["quantile", "absolute", "huber", "expectile"])
def test_the_unit_of_the_targets_does_not_matter(loss):
    X, y, model = small_model(loss)
    large = clone(model).fit(X, 1000.0 * y)
    error = large.predict(X) / 1000.0 - model.predict(X)
    assert np.sqrt(np.mean(error**2)) < 0.02 * np.std(y)


@pytest.mark.parametrize("loss", ["huber", "expectile", "absolute"])
def test_the_origin_of_the_targets_does_not_matter(loss):
    X, y, model = small_model(loss)
    far = clone(model).fit(X, y + 1000.0)
    assert far.alpha_ == pytest.approx(model.alpha_, rel=1e-4)
    assert np.allclose(far.predict(X) - 1000.0, model.predict(X), atol=1e-4)


def test_a_constant_offset_and_the_unit_of_exposure_do_not_matter():
    X, y, model = small_model("poisson")
    shifted = clone(model).fit(X, y, offset=np.full(len(X), 20.0))
    assert shifted.alpha_ == pytest.approx(model.alpha_, rel=1e-4)
    assert np.allclose(shifted.decision_function(X) + 20.0, model.decision_function(X), atol=1e-4)


def test_crossing_functions_are_sorted_row_by_row():
    X, y, _ = data("quantile", 60)
    model = given("quantile", quantile=[0.45, 0.5, 0.55], alpha=0.01, n_basis=60).fit(X, y)
    new = np.random.default_rng(5).uniform(-3, 3, (2000, 2))
    apart = model.decision_function(new)
    assert np.any(np.diff(apart, axis=1) < 0)
    assert np.array_equal(model.predict(new), np.sort(apart, axis=1))


def test_exposure_is_an_offset():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (1000, 1))
    exposure = rng.uniform(0.2, 5.0, len(X))
    rate = np.exp(np.sin(2 * X[:, 0]))
    y = rng.poisson(exposure * rate)
    model = given("poisson", alpha=1.0, n_basis=30).fit(X, y, offset=np.log(exposure))
    assert np.mean((model.predict(X) / rate - 1) ** 2) < 0.01
    assert np.allclose(
        model.predict(X, offset=np.log(exposure)), exposure * model.predict(X), rtol=1e-12
    )
    shifted = clone(model).fit(X, y, offset=np.log(exposure) + 2.0)
    assert shifted.intercept_[0] == pytest.approx(model.intercept_[0] - 2.0, abs=1e-6)
    assert np.allclose(shifted.predict(X, offset=np.full(len(X), 2.0)), model.predict(X), rtol=1e-5)
    assert model.certify(X, y, offset=np.log(exposure)).relative_gap < 0.01
    blind = clone(model).fit(X, y)
    informed = mean_poisson_deviance(y, model.predict(X, offset=np.log(exposure)))
    assert informed < 0.8 * mean_poisson_deviance(y, blind.predict(X))
    constant = np.full(len(y), np.log(y.sum() / exposure.sum()))
    null = mean_poisson_deviance(y, np.exp(constant) * exposure)
    score = model.score(X, y, offset=np.log(exposure))
    assert score == pytest.approx(1 - informed / null, rel=1e-9)


def test_scores_are_those_of_scikit_learn():
    w = np.random.default_rng(0).uniform(0.5, 2.0, 150)
    for loss, power in (("poisson", 1), ("gamma", 2), ("tweedie", 1.5)):
        X, y, _ = data(loss)
        model = given(loss, n_basis=20).fit(X, y)
        theirs = d2_tweedie_score(y, model.predict(X), sample_weight=w, power=power)
        assert model.score(X, y, w) == pytest.approx(theirs, abs=1e-9)
    X, y, _ = data("quantile")
    model = given("quantile", quantile=0.2, n_basis=20).fit(X, y)
    assert model.score(X, y) == pytest.approx(d2_pinball_score(y, model.predict(X), alpha=0.2))
    model = given("absolute", n_basis=20).fit(X, y)
    assert model.score(X, y) == pytest.approx(d2_absolute_error_score(y, model.predict(X)))


@dataclass(frozen=True)
class LogCosh(RowLoss):
    """log cosh(f - y), a loss that the package does not have."""

    most_curved = 1.0

    def value(self, f, y):
        return np.logaddexp(f - y, y - f) - np.log(2.0)

    def gradient(self, f, y):
        return np.tanh(f - y)

    def curvature(self, f, y):
        return 1.0 / np.cosh(np.clip(f - y, -300, 300)) ** 2

    def slopes(self, y):
        return np.full_like(y, -1.0), np.full_like(y, 1.0)


def test_a_loss_of_your_own(tmp_path):
    X, y, f = data("huber", 400)
    loss = LogCosh()
    model = learning(loss).fit(X, y)
    assert np.sqrt(np.mean((model.predict(X) - f) ** 2)) < 0.12
    assert 0 <= model.certificate_.relative_gap < 0.01
    model.save(tmp_path / "model.pursuit")
    loaded = pursuit.load(tmp_path / "model.pursuit", loss=loss)
    assert np.array_equal(loaded.predict(X), model.predict(X))


def test_counts_are_better_fitted_as_counts():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (2000, 2))
    log_rate = 1.0 + 1.5 * np.sin(2 * X[:, 0]) + X[:, 1]
    y = rng.poisson(np.exp(log_rate))
    model = learning().fit(X[:1000], y[:1000])
    linear = SparseGPRegressor(n_basis=40, optimizer=FEW, random_state=0).fit(X[:1000], y[:1000])
    new, counts = X[1000:], y[1000:]
    least = mean_poisson_deviance(counts, np.exp(log_rate[1000:]))
    assert linear.predict(new).min() < 0
    positive = np.maximum(linear.predict(new), 0.05)
    excess = mean_poisson_deviance(counts, model.predict(new)) - least
    assert excess < 0.5 * (mean_poisson_deviance(counts, positive) - least)


def test_expected_curvatures_do_not_look_at_the_target():
    rng = np.random.default_rng(0)
    f, w = rng.standard_normal(2000), np.ones(2000)
    y = rng.gamma(2.0, np.exp(f) / 2.0)
    assert np.allclose(curvatures(GammaRows(), f, y, w), 1.0)
    counts = rng.poisson(np.exp(f)).astype(float)
    assert np.allclose(curvatures(PoissonRows(), f, counts, w), np.exp(f))
    normal = f + rng.standard_normal(2000)
    for level in (0.1, 0.5):
        loss = PinballRows.of_quantile(level)
        at = f + norm.ppf(level)
        density = norm.pdf(norm.ppf(level))
        assert np.allclose(curvatures(loss, at, normal, w), density, rtol=0.2)


def test_a_working_response_is_newtons_step():
    rng = np.random.default_rng(0)
    X, f = rng.standard_normal((50, 2)), rng.standard_normal(50)
    y, w = rng.poisson(np.exp(f)).astype(float), rng.uniform(0.5, 2.0, 50)
    offset = rng.standard_normal(50)
    near = working([PoissonRows()], f[:, None], y[:, None], w, offset, as_rows(X))
    z = f - offset + (y - np.exp(f)) / np.exp(f)
    weights = w * np.exp(f)
    z -= np.average(z, weights=weights)
    assert np.allclose(near.sample.targets[:, 0], z)
    assert np.allclose(near.sample.weights * near.curvature, weights)
    assert near.sample.weights.sum() == pytest.approx(w.sum())


def test_laplaces_evidence_of_counts_is_the_formula():
    rng = np.random.default_rng(0)
    V, w, o = rng.standard_normal((40, 3)), rng.uniform(0.5, 2.0, 40), rng.standard_normal(40)
    y = rng.poisson(np.exp(o + V[:, 0])).astype(float)
    scale = 0.7
    with Workers(1) as workers:
        found = fit_laplace(
            V.__getitem__, 3, y[:, None], w, scale, workers, loss=PoissonRows(), offset=o
        )

    def negative(b):
        f = V @ b + o
        return w @ (np.exp(f) - y * f) + 0.5 * b @ b / scale

    best = minimize(negative, np.zeros(3), tol=1e-12)
    D = w * np.exp(V @ best.x + o)
    H = np.eye(3) + scale * V.T @ (D[:, None] * V)
    assert np.allclose(found.mode[:, 0], best.x, atol=1e-5)
    expected = -best.fun - 0.5 * np.linalg.slogdet(H)[1]
    assert found.log_evidence[0] == pytest.approx(expected, rel=1e-8)


def test_a_given_penalty_is_kept_and_a_learned_one_is_the_noise():
    X, y, _ = data("poisson", 500)
    assert given("poisson", alpha=3.0, n_basis=20).fit(X, y).alpha_ == 3.0
    learned = learning().fit(X, y)
    assert learned.alpha_ == pytest.approx(1.0, rel=0.3)  # the variance of Poisson counts
    kept = SparseKernelGLM(RBF(1.0), optimizer=None, n_basis=40, random_state=0).fit(X, y)
    assert kept.kernel_ == RBF(1.0)
    assert 0 < kept.alpha_ < 10


@pytest.mark.parametrize("loss", ["poisson", "quantile"])
def test_a_fit_goes_on_from_its_checkpoint_and_any_number_of_threads(loss, tmp_path):
    X, y, _ = data(loss, 150)
    model = learning(loss, 20).fit(X, y)
    for _ in range(2):
        again = clone(model).set_params(checkpoint=tmp_path, n_jobs=2).fit(X, y)
        assert np.array_equal(again.dual_coef_, model.dual_coef_)
    names = {path.stem for path in tmp_path.iterdir()}
    assert {"learn", "learn-pilot", "choose", "choose-pilot", "offset"} <= names
    with pytest.raises(ValueError, match="begun with other data"):
        clone(model).set_params(checkpoint=tmp_path).fit(X, y, offset=np.ones(150))


def test_files_and_lazy_rows(tmp_path):
    dask = pytest.importorskip("dask.array")
    pandas = pytest.importorskip("pandas")
    X, y, _ = data("poisson", 300)
    table = pandas.DataFrame(X, columns=["a", "b"]).assign(count=y)
    table.to_parquet(tmp_path / "counts.parquet")
    model = given("poisson", n_basis=20).fit(table[["a", "b"]], y)
    file = given("poisson", n_basis=20).fit(tmp_path / "counts.parquet", target="count")
    assert np.array_equal(file.dual_coef_, model.dual_coef_)
    array = given("poisson", n_basis=20).fit(X, y)
    lazy = array.predict(dask.from_array(X, chunks=(100, 2)))
    assert np.array_equal(lazy.compute(), array.predict(X))


def test_rows_of_weight_zero_are_absent():
    X, y, _ = data("poisson", 100)
    X2, y2 = np.vstack([X, X + 9.0]), np.append(y, np.full(100, -5.0))
    w = np.append(np.ones(100), np.zeros(100))
    model = given("poisson", n_basis=20).fit(X, y)
    weighted = given("poisson", n_basis=20).fit(X2, y2, w)
    assert np.array_equal(weighted.dual_coef_, model.dual_coef_)
    assert np.array_equal(weighted.basis_indices_, model.basis_indices_)


def test_a_callable_and_a_precomputed_kernel():
    X, y, _ = data("gamma", 80)
    kernel = RBF(1.0)
    options = {"loss": "gamma", "alpha": 0.5, "n_basis": 20, "random_state": 0}
    called = SparseKernelGLM(lambda A, B: kernel(A, B), **options).fit(X, y)
    matrix = SparseKernelGLM("precomputed", **options).fit(kernel(X), y)
    assert np.allclose(matrix.predict(kernel(X)), called.predict(X), rtol=1e-8)


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({}, [-1.0, 2.0, 3.0], "must not be negative"),
        ({"loss": "gamma"}, [0.0, 2.0, 3.0], "positive"),
        ({"loss": "logistic"}, [0.0, 2.0, 3.0], "between 0 and 1|0, 1"),
        ({}, ["a", "b", "a"], "labels|numbers"),
        ({}, [0.0, 0.0, 0.0], "all|0"),
        ({"loss": "hinge"}, [1.0, 2.0, 3.0], "loss must be one of 'poisson'"),
        ({"quantile": 1.0}, [1.0, 2.0, 3.0], "strictly between 0 and 1"),
        ({"loss": "quantile", "quantile": [0.9, 0.1]}, [1.0, 2.0, 3.0], "rising order"),
        ({"quantile": [0.1, 0.9]}, [1.0, 2.0, 3.0], "use loss='quantile'"),
        ({"loss": "tweedie", "power": 2.5}, [1.0, 2.0, 3.0], "between 1"),
        ({"alpha": -1.0}, [1.0, 2.0, 3.0], "alpha must be a positive number"),
    ],
)
def test_bad_input(options, y, message):
    X = np.arange(6.0).reshape(3, 2)
    with pytest.raises(ValueError, match=message):
        SparseKernelGLM(**options).fit(X, np.array(y))


def test_bad_offsets_and_targets():
    X, y, _ = data("poisson", 30)
    for wrong in (np.zeros(29), np.full(30, -np.inf), "exposure", np.full(30, "1")):
        with pytest.raises(ValueError, match="offset must hold a finite number for each of the 30"):
            given("poisson").fit(X, y, offset=wrong)
    with pytest.raises(ValueError, match="name their column by target="):
        given("poisson").fit(X)
    with pytest.raises(ValueError, match="1d array"):
        given("poisson").fit(X, np.column_stack([y, y]))


def test_levels_and_losses_of_names():
    assert GivenLoss.of("quantile", [0.1, 0.9], 1.5).levels == (0.1, 0.9)
    for name in NAMES:
        assert len(GivenLoss.of(name, 0.5, 1.5).rows()) == 1


def test_explanations_and_onnx_are_of_the_decision_function():
    X, y, _ = data("poisson", 200)
    model = given("poisson", n_basis=30).fit(X, y)
    deviation = model.decision_function(X).std()
    for kind in ("gradient", "permutation"):
        assert model.importance(X, kind).deviation == pytest.approx(deviation, rel=1e-9)
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(pursuit.to_onnx(model).SerializeToString())
    assert [output.name for output in session.get_outputs()] == ["y", "decision"]
    mean, values = session.run(None, {"X": X})
    assert np.allclose(mean, model.predict(X), rtol=1e-9)
    assert np.allclose(values, model.decision_function(X), rtol=1e-9)


def test_rows_so_far_away_that_the_mean_overflows_are_refused():
    rng = np.random.default_rng(0)
    X = 1e6 + rng.standard_normal((30, 2))
    y = rng.poisson(np.exp(X[:, 0] - X[:, 0].mean()))
    model = SparseKernelGLM("linear", loss="poisson", alpha=1e-3, optimizer=None, random_state=0)
    model.fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    far = np.vstack([X[:1], [[-1e9, 1e6]], [[3e6, 1e6]]])
    f = np.log(model.predict(X[:1])) + (far - X[:1]) @ (model.basis_.T @ model.dual_coef_)
    row = int(np.flatnonzero(f > 710)[0])
    with pytest.raises(ValueError, match=f"row {row} of X is too far from the rows of the fit"):
        model.predict(far)


@pytest.mark.parametrize("loss", ["poisson", "gamma", "negative-binomial", "logistic"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_extreme_weights_do_not_overflow(loss):
    for seed in (1, 5):
        X, y, _ = data(loss, 60, seed)
        w = 10.0 ** np.random.default_rng(seed).uniform(-6, 6, len(X))
        model = SparseKernelGLM(loss=loss, n_basis=20, random_state=0).fit(X, y, w)
        bounds = model.certificate_
        assert np.isfinite([bounds.lower, bounds.relative_gap]).all()
        assert bounds.lower <= bounds.upper


def test_expected_curvatures_far_out_are_finite():
    f = np.array([-800.0, 0.0, 800.0])
    for loss in (PoissonRows(), GammaRows(), NegativeBinomialRows(2.0)):
        assert np.isfinite(curvatures(loss, f, np.ones(3), np.ones(3))).all()


@pytest.mark.parametrize("loss", NAMES)
def test_equal_targets_leave_no_gap(loss):
    X, _, _ = data(loss, 60)
    level = 0.4 if loss == "logistic" else 2.0
    for m in (1, 60):
        found = learning(loss, 10).fit(X[:m], np.full(m, level)).certificate_
        assert found.relative_gap == 0.0
        assert np.all(found.per_output["relative_gap"] == 0.0)


def test_counts_that_are_all_0_have_a_score():
    """A fold without any count has no best constant, which must not end a cross-validation."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (60, 1)), rng.poisson(0.5, 60)
    model = SparseKernelGLM(RBF(1.0), alpha=0.1, optimizer=None, n_basis=10).fit(X, y)
    assert model.score(X[:5], np.zeros(5)) == 0.0
    assert 0.0 < model.score(X, y) < 1.0
