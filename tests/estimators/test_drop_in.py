"""What a user who comes from scikit-learn expects: methods, shapes, warnings, refusals by name."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, is_classifier
from sklearn.datasets import make_blobs
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVR

import pursuit
from pursuit import (
    Evidence,
    ExactGPRegressor,
    FullScaleGPClassifier,
    FullScaleGPRegressor,
    GreedyFeatureMap,
    HullBoostClassifier,
    HullMixture,
    KernelMatchingPursuitClassifier,
    KernelMatchingPursuitRegressor,
    LowRankSVR,
    LPMachineRegressor,
    SpanNeighbors,
    SparseGPClassifier,
    SparseGPRegressor,
    SparseKernelGLM,
    SparseKernelPCA,
    SparseKernelRidge,
)

# Probabilities in logarithms


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "model",
    [
        SparseGPClassifier(n_basis=20, random_state=0),
        FullScaleGPClassifier(n_basis=20, random_state=0),
        HullBoostClassifier(n_terms=20, random_state=0),
        KernelMatchingPursuitClassifier(loss="logistic", random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_logarithms_of_probabilities(model, n_classes):
    X, y = make_blobs(60, centers=n_classes, cluster_std=3.0, random_state=0)
    model.fit(X, y)
    p, logarithms = model.predict_proba(X), model.predict_log_proba(X)
    np.testing.assert_allclose(np.exp(logarithms), p, rtol=1e-12)
    assert logarithms.shape == (60, n_classes)
    assert model.predict_log_proba(X.astype(np.float32)).dtype == np.float32


def test_staged_probabilities_end_with_those_of_the_model():
    X, y = make_blobs(60, centers=3, cluster_std=3.0, random_state=0)
    model = HullBoostClassifier(n_terms=5, random_state=0).fit(X, y)
    stages = list(model.staged_predict_proba(X))
    assert len(stages) == len(model.path_) > 1
    np.testing.assert_allclose(stages[-1], model.predict_proba(X), rtol=1e-9)
    assert not np.allclose(stages[0], stages[-1])
    assert list(model.staged_score(X, y))[-1] == model.score(X, y)


def test_a_probability_of_zero_has_a_logarithm(monkeypatch):
    model = HullBoostClassifier(n_terms=2).fit([[0.0], [1.0]], [0, 1])
    monkeypatch.setattr(type(model), "predict_proba", lambda self, X: np.array([[0.0, 1.0]]))
    assert model.predict_log_proba([[0.0]]).tolist() == [[-np.inf, 0.0]]


def test_logarithms_are_there_where_probabilities_are():
    assert not hasattr(KernelMatchingPursuitClassifier(loss="squared"), "predict_log_proba")


# Mixtures and neighbours


def test_a_mixture_is_fitted_and_predicts_in_one_call():
    X, _ = make_blobs(90, centers=3, random_state=1)
    model = HullMixture(random_state=0)
    found = model.fit_predict(X)
    np.testing.assert_array_equal(found, model.predict(X))
    assert len(np.unique(found)) == model.n_terms_ > 1
    w = np.r_[np.zeros(5), np.ones(85)]
    again = HullMixture(random_state=0).fit(X, sample_weight=w).predict(X)
    np.testing.assert_array_equal(model.fit_predict(X, None, w), again)


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_precisions_are_inverses_of_covariances(kind):
    X, _ = make_blobs(90, centers=3, random_state=1)
    model = HullMixture(covariance_type=kind, random_state=0)
    assert not hasattr(model, "precisions_")
    model.fit(X)
    for covariance, precision in zip(model.covariances_, model.precisions_, strict=True):
        if kind == "full":
            np.testing.assert_allclose(covariance @ precision, np.eye(2), atol=1e-12)
        else:
            np.testing.assert_allclose(covariance * precision, 1.0, rtol=1e-12)


def test_all_rows_are_within_an_infinite_radius():
    X = np.random.default_rng(0).standard_normal((12, 2))
    search = SpanNeighbors(radius=np.inf, n_components=3, random_state=0).fit(X)
    distances, indices = search.radius_neighbors(X[:4])
    assert [found.tolist() for found in indices] == [list(range(12))] * 4
    assert all(np.isfinite(found).all() for found in distances)
    # No row is its own neighbour, whatever the radius.
    others = search.radius_neighbors(return_distance=False)
    assert [found.tolist() for found in others] == [
        [j for j in range(12) if j != i] for i in range(12)
    ]
    assert search.radius_neighbors_graph(X[:3]).toarray().tolist() == [[1.0] * 12] * 3


# Learned hyper-parameters


def few_points(m=12, seed=0):
    rng = np.random.default_rng(seed)
    X = np.linspace(0.0, 6.0, m)[:, None]
    return X, np.sin(X[:, 0]) + 0.01 * rng.standard_normal(m)


def messages(model, X, y):
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert all(issubclass(one.category, ConvergenceWarning) for one in record)
    return [str(one.message) for one in record]


@pytest.mark.parametrize(
    ("kernel", "features"),
    [
        (ConstantKernel(1.0, "fixed") * RBF(5e-4, (1e-5, 1e-3)), 1),
        (WhiteKernel(1e-4, (1e-5, 1e-3)) + RBF(1e3, (1e3, 1e5)), 1),
        (RBF([10.0, 20.0], (10.0, 100.0)), 2),
        (ConstantKernel() * RBF(1.0), 1),
    ],
)
def test_a_parameter_at_its_bound_is_warned_of_as_by_scikit_learn(kernel, features):
    X, y = few_points()
    X = np.tile(X, features)
    expected = messages(GaussianProcessRegressor(kernel, normalize_y=True), X, y)
    # Without a White term scikit-learn's process has a noise of 1e-10, and ours learns one.
    noise = "learn" if "White" in str(kernel) else 1e-10
    found = messages(ExactGPRegressor(kernel, noise=noise), X, y)
    assert found == expected


def test_a_given_noise_has_no_floor_and_a_white_term_has_its_own():
    X, y = few_points()
    y = np.sin(X[:, 0])
    for model in (
        ExactGPRegressor(noise=1e-12),
        ExactGPRegressor(RBF(1.0) + WhiteKernel(1e-9, "fixed")),
    ):
        assert not any("floor" in note for note in model.fit(X, y).learning_report_.warnings)
    model = ExactGPRegressor(RBF(1.0) + WhiteKernel(1e-6, (1e-6, 1.0)))
    with pytest.warns(ConvergenceWarning, match="k2__noise_level is close to the specified lower"):
        model.fit(X, y)
    assert not any("floor" in note for note in model.learning_report_.warnings)


@pytest.mark.parametrize("noise", [1e-6, 1e-8])
@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0])
def test_a_small_given_noise_is_learned_with_from_a_start_that_fits_badly(noise, scale):
    """The slope falls by ten orders of magnitude on the way."""
    X = np.random.default_rng(0).uniform(0.0, 10.0, (40, 1))
    y = np.sin(6.0 * X[:, 0])
    kernel = ConstantKernel() * RBF(scale, (1e-2, 1e3))
    model = SparseGPRegressor(kernel, noise=noise, random_state=0).fit(X, y)
    peer = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None, normalize_y=True)
    _, slope = peer.fit(X, y).log_marginal_likelihood(model.kernel_.theta, eval_gradient=True)
    np.testing.assert_allclose(slope, 0.0, atol=0.1)


def test_restarts_reach_what_the_first_start_does_not():
    """The data of scikit-learn's own test: length scales start at .001, and 1 is best."""
    rng = np.random.RandomState(0)
    X = rng.randn(25, 2) * 2 - 1
    y = np.sin(X).sum(axis=1) + np.sin(3 * X).sum(axis=1)
    kernel = ConstantKernel(1.0, (1e-2, 1e2)) * RBF([1e-3] * 2, [(1e-4, 1e2)] * 2)
    kernel = kernel + WhiteKernel(1e-5, (1e-5, 1e1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer = GaussianProcessRegressor(kernel, n_restarts_optimizer=10, random_state=0).fit(X, y)
        alone, restarted = (
            ExactGPRegressor(
                kernel, optimizer=Evidence(restarts=n), normalize_y=False, random_state=0
            ).fit(X, y)
            for n in (0, 10)
        )
    best = peer.log_marginal_likelihood_value_
    found = [
        peer.log_marginal_likelihood(np.append(model.kernel_.theta, np.log(model.noise_)))
        for model in (alone, restarted)
    ]
    assert found[0] < best - 1.0
    assert found[1] > best - 0.01


@pytest.mark.parametrize(
    ("estimator", "m"),
    [
        *((SparseGPRegressor, m) for m in (7, 60, 600)),
        *((ExactGPRegressor, m) for m in (7, 600)),
        *((SparseGPClassifier, m) for m in (7, 600)),
        (SparseKernelGLM, 60),
    ],
)
def test_no_seed_changes_a_fit_of_few_rows(estimator, m):
    """Where all rows learn nothing is drawn, and so predictions are the same bit by bit."""
    rng = np.random.default_rng(m)
    X = rng.uniform(-3.0, 3.0, (m, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(m)
    y = y > 0 if estimator is SparseGPClassifier else y**2
    options = {"n_basis": 20} if m > 60 and estimator is not ExactGPRegressor else {}
    one, other = (estimator(random_state=seed, **options).fit(X, y) for seed in (0, None))
    ask = "predict_proba" if estimator is SparseGPClassifier else "predict"
    np.testing.assert_array_equal(getattr(one, ask)(X), getattr(other, ask)(X))


# Shapes, sizes, and models that are not fitted


@pytest.mark.parametrize(
    ("model", "peer"),
    [
        (SparseGPRegressor(n_basis=10), GaussianProcessRegressor()),
        (ExactGPRegressor(), GaussianProcessRegressor()),
        (FullScaleGPRegressor(n_basis=10), GaussianProcessRegressor()),
        (LowRankSVR(), SVR()),
        (LPMachineRegressor(), SVR()),
        (KernelMatchingPursuitRegressor(), GaussianProcessRegressor()),
        (SparseKernelRidge(refit=True), KernelRidge()),
        (SparseKernelRidge(method="subspace"), KernelRidge()),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore:A column-vector y", "ignore:The optimal value")
def test_a_single_column_of_targets_has_the_shape_that_the_peer_gives_it(model, peer):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(30)
    flat = model.set_params(random_state=0).fit(X, y).predict(X)
    found = model.fit(X, y[:, None]).predict(X)
    assert found.shape == peer.fit(X, y[:, None]).predict(X).shape
    np.testing.assert_array_equal(found.ravel(), flat)
    if hasattr(model, "sample_y"):
        assert model.predict(X, return_std=True)[1].shape == (30,)
        assert model.sample_y(X, 4).shape == (30, 4)
    if hasattr(model, "conformalize"):
        column = model.conformalize(X + 0.01, y[:, None]).predict_interval(X, 0.5)
        again = model.conformalize(X + 0.01, y.reshape(found.shape)).predict_interval(X, 0.5)
        np.testing.assert_array_equal(column, again)


MODELS = [
    name
    for name in pursuit.__all__
    if isinstance(getattr(pursuit, name), type)
    and issubclass(getattr(pursuit, name), BaseEstimator)
    and name not in ("SigmoidAtoms", "TableEncoder", "TablePipeline")
]


@pytest.mark.parametrize("name", MODELS)
def test_rows_that_cannot_be_squared_are_refused_by_name(name):
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (20, 2))
    model = getattr(pursuit, name)()
    y = X[:, 0] > 0 if is_classifier(model) else X[:, 0] + 2.0
    y = X if name == "SparseKernelCCA" else y
    with pytest.raises(ValueError, match=r"X (has values up|of 1)"):
        model.fit(X * 1.7e308, y)


@pytest.mark.parametrize("name", ["learners_", "learner_weights_", "temperature_"])
def test_attributes_of_a_booster_that_is_not_fitted(name):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(HullBoostClassifier(), name)
    assert not hasattr(HullBoostClassifier(), name)


def test_coefficients_of_a_map_that_is_not_fitted():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        _ = GreedyFeatureMap().T_


# Pre-images, and ridge regression on all rows


@pytest.mark.parametrize("alpha", [1.0, 1e-3])
def test_preimages_with_a_ridge_are_those_of_scikit_learn(alpha):
    X, _ = make_blobs(60, n_features=4, random_state=0)
    options = {"kernel": "rbf", "gamma": 0.3, "alpha": alpha, "n_components": 20}
    peer = KernelPCA(**options, fit_inverse_transform=True).fit(X)
    model = SparseKernelPCA(**options, n_basis=60).fit(X)
    assert model.n_basis_ == 60
    expected = peer.inverse_transform(peer.transform(X))
    found = model.inverse_transform(model.transform(X))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_ridge_needs_a_kernel_of_any_width():
    X = np.random.default_rng(0).standard_normal((30, 3))
    model = SparseKernelPCA(RBF([1.0, 2.0, 3.0]), n_components=2, alpha=0.1).fit(X)
    with pytest.raises(ValueError, match=r"alpha=0\.1 needs a kernel of components"):
        model.inverse_transform(model.transform(X))


def test_iterated_preimages_end_no_farther_than_they_began():
    """A small basis once threw rows far out: five times the size of the rows themselves."""
    X, _ = make_blobs(100, n_features=4, random_state=0)
    model = SparseKernelPCA(n_components=20, random_state=0).fit(X)
    scores = model.transform(X)
    start = model.set_params(preimage="ridge").inverse_transform(scores)
    found = model.set_params(preimage="fixed-point").inverse_transform(scores)
    ahead, before = (np.linalg.norm(X - one) / np.linalg.norm(X) for one in (found, start))
    assert ahead < before < 0.4


@pytest.mark.parametrize("alpha", [1.0, 0.01])
def test_refitted_steps_on_all_rows_are_kernel_ridge_regression(alpha):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    Y = np.sin(X) + 0.1 * rng.standard_normal((200, 3))
    peer = KernelRidge(kernel="rbf", gamma=1 / 3, alpha=alpha).fit(X, Y).predict(X)
    model = SparseKernelRidge(alpha=alpha, refit=True, n_basis=200).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), peer, atol=1e-11)


def test_steps_without_a_refit_say_which_methods_take_several_outputs():
    X = np.random.default_rng(0).standard_normal((20, 2))
    with pytest.raises(ValueError, match="use refit=True, or method='random' or 'subspace'"):
        SparseKernelRidge(refit=False).fit(X, X)


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("method", ["greedy", "kappa", "subspace", "random"])
def test_a_basis_for_all_rows_is_kernel_ridge_regression_whatever_the_method(method, outputs):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    y = np.sin(X[:, 0] if outputs is None else X[:, :outputs])
    peer = KernelRidge(kernel="rbf", alpha=0.01).fit(X, y).predict(X)
    model = SparseKernelRidge(alpha=0.01, method=method, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), peer, atol=1e-11)


def test_several_outputs_are_taken_by_default(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    model = SparseKernelRidge(n_basis=30, random_state=0).fit(X, np.sin(X))
    refitted = SparseKernelRidge(n_basis=30, refit=True, random_state=0).fit(X, np.sin(X))
    np.testing.assert_array_equal(model.predict(X), refitted.predict(X))
    # A model that was loaded knows what its fit has done.
    model.save(tmp_path / "outputs.pursuit")
    assert hasattr(pursuit.load(tmp_path / "outputs.pursuit"), "partial_fit")
    assert not hasattr(model.fit(X, np.sin(X[:, 0])), "partial_fit")


def test_a_default_ridge_that_begins_with_a_part_of_the_rows_takes_the_others():
    X = np.random.default_rng(0).standard_normal((150, 3))
    y = np.sin(X[:, 0])
    options = {"n_basis": 30, "random_state": 0}
    models = [SparseKernelRidge(refit=refit, **options) for refit in ("auto", True)]
    for model in models:
        model.partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))
    assert not hasattr(models[0].fit(X, y), "partial_fit")


# The log marginal likelihood of the exact process


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize(
    "kernel", [1.0 * RBF([1.0, 2.0]), RBF(1.0, "fixed"), RBF(1.0) + WhiteKernel(0.05)]
)
def test_the_likelihood_and_its_gradient_are_those_of_scikit_learn(kernel, outputs):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (30, 2))
    y = np.sin(X[:, :outputs]) + 0.2 * rng.standard_normal((30, outputs))
    noise = "learn" if "White" in str(kernel) else 0.05
    model = ExactGPRegressor(kernel, noise=noise).fit(X, y)
    peer = GaussianProcessRegressor(
        model.kernel_, alpha=model.noise_, optimizer=None, normalize_y=True
    ).fit(X, y)
    expected = peer.log_marginal_likelihood_value_
    np.testing.assert_allclose(model.log_marginal_likelihood(), expected, rtol=1e-10)
    theta = model.kernel_.theta + 0.3
    expected, slopes = peer.log_marginal_likelihood(theta, eval_gradient=True)
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-8)
    # Where it was learned it is flat.
    own = model.log_marginal_likelihood(eval_gradient=True)[1]
    np.testing.assert_allclose(own, 0.0, atol=0.02)


def test_a_weight_counts_as_rows_in_the_likelihood():
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((20, 2)), rng.integers(1, 4, 20)
    y = X[:, 0] + 0.1 * rng.standard_normal(20)
    options = {"kernel": RBF(), "noise": 0.1, "optimizer": None, "normalize_y": False}
    weighted = ExactGPRegressor(**options).fit(X, y, w)
    rows = np.repeat(np.arange(20), w)
    copied = ExactGPRegressor(**options).fit(X[rows], y[rows])
    for theta in (None, [0.4]):
        expected = copied.log_marginal_likelihood(theta)
        np.testing.assert_allclose(weighted.log_marginal_likelihood(theta), expected, rtol=1e-9)


def test_the_likelihood_of_a_matrix_is_that_of_its_kernel():
    X, y = few_points()
    K = np.exp(-0.5 * (X - X.T) ** 2)
    by_name = ExactGPRegressor("rbf", gamma=0.5, noise=0.1).fit(X, y)
    by_matrix = ExactGPRegressor("precomputed", noise=0.1).fit(K, y)
    expected = by_name.log_marginal_likelihood()
    np.testing.assert_allclose(by_matrix.log_marginal_likelihood(), expected, rtol=1e-10)
    with pytest.raises(ValueError, match=r"theta must have shape \(0,\)"):
        by_matrix.log_marginal_likelihood([1.0])
    with pytest.raises(ValueError, match="no derivatives for these rows that are known"):
        by_matrix.log_marginal_likelihood([], eval_gradient=True)


def test_a_matrix_that_is_singular_has_no_likelihood():
    X = np.zeros((3, 1))
    model = ExactGPRegressor(ConstantKernel(), noise=1e-12, optimizer=None).fit(X, [1.0, 2.0, 3.0])
    value, gradient = model.log_marginal_likelihood([40.0], eval_gradient=True)
    assert value == -np.inf
    assert gradient.tolist() == [0.0]


def test_the_likelihood_needs_the_factor():
    X, y = few_points()
    model = ExactGPRegressor(solver="cg").fit(X, y)
    with pytest.raises(ValueError, match="fit with solver='cholesky'"):
        model.log_marginal_likelihood()
    with pytest.raises(NotFittedError):
        ExactGPRegressor().log_marginal_likelihood()


@pytest.mark.parametrize("make", [FullScaleGPRegressor, FullScaleGPClassifier])
def test_errors_about_rows_name_the_class_of_the_user(make):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = X[:, 0] > 0 if make is FullScaleGPClassifier else X[:, 0]
    model = make(n_neighbors=0).fit(X, y)
    message = rf"X has 2 features, but {make.__name__} is expecting 3 features"
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(model, method):
            with pytest.raises(ValueError, match=message):
                getattr(model, method)(X[:, :2])


def test_errors_that_are_not_about_rows_stay_without_near_rows():
    X = np.linspace(-1, 1, 60)[:, None]
    model = FullScaleGPRegressor(n_neighbors=0).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="cannot both be true"):
        model.predict(X, return_std=True, return_cov=True)
