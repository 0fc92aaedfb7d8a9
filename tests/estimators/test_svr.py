"""LowRankSVR against LIBSVM and a general minimiser, and its certificate against the truth."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from pursuit import LowRankSVR, Search
from pursuit.estimators.svm.problem import Mirrored, solve_tube
from pursuit.linalg import TallMatrix, Workers

ALL = {"search": "full", "n_basis": 10_000}
LOSSES = ["squared_epsilon_insensitive", "epsilon_insensitive"]


def value(model, K, y, C, epsilon, loss, weights=1.0):
    """½‖f‖² + CΣs ℓ(ξ) of a fitted model with rows as basis points, written out."""
    S, beta = model.basis_indices_, model.dual_coef_
    slack = np.maximum(np.abs(y - K[:, S] @ beta - model.intercept_[0]) - epsilon, 0.0)
    losses = slack**2 if loss.startswith("squared") else slack
    return 0.5 * beta @ K[np.ix_(S, S)] @ beta + C * np.sum(weights * losses)


def minimum(K, y, C, epsilon, loss, weights):
    """Over all functions: by LIBSVM's dual, or by a general minimiser in coordinates of K."""
    if loss == "epsilon_insensitive":
        peer = SVR(kernel="precomputed", C=C, epsilon=epsilon, tol=1e-9)
        peer.fit(K, y, sample_weight=weights)
        a = np.zeros(len(y))
        a[peer.support_] = peer.dual_coef_[0]
        return y @ a - epsilon * np.abs(a).sum() - 0.5 * a @ K @ a
    spectrum, U = np.linalg.eigh(K)
    V = np.column_stack([U * np.sqrt(np.maximum(spectrum, 0.0)), np.ones(len(y))])

    def objective(u):
        missing = y - V @ u
        slack = np.sign(missing) * np.maximum(np.abs(missing) - epsilon, 0.0)
        inside = np.append(u[:-1], 0.0)
        total = 0.5 * inside @ inside + C * weights @ slack**2
        return total, inside - 2 * C * V.T @ (weights * slack)

    start = np.append(np.zeros(len(y)), y.mean())
    found = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-7})
    return found.fun


@pytest.mark.parametrize("C", [1e-4, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_with_all_rows_it_is_libsvm(waves, C, weighted):
    data = waves(150)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 150) if weighted else None
    peer = SVR(gamma=0.5, C=C, epsilon=0.2, tol=1e-8).fit(data.X, data.y, sample_weight=weights)
    model = LowRankSVR(gamma=0.5, C=C, epsilon=0.2, loss="epsilon_insensitive", **ALL)
    model.fit(data.X, data.y, sample_weight=weights)
    K, a = rbf_kernel(data.X, gamma=0.5), np.zeros(150)
    a[peer.support_] = peer.dual_coef_[0]
    dual = data.y @ a - 0.2 * np.abs(a).sum() - 0.5 * a @ K @ a
    assert model.certificate_.lower == pytest.approx(dual, rel=1e-6)
    assert model.certificate_.upper == pytest.approx(dual, rel=1e-6)
    np.testing.assert_allclose(model.predict(data.new), peer.predict(data.new), atol=1e-4)
    assert set(peer.support_) <= set(model.support_)
    assert model.n_support_.tolist() == [len(model.support_)]


@pytest.mark.parametrize("C", [0.1, 30.0])
def test_with_all_rows_a_general_minimiser_finds_nothing_better(waves, C):
    data = waves(60)
    K = rbf_kernel(data.X, gamma=0.5)
    model = LowRankSVR(gamma=0.5, C=C, epsilon=0.2, **ALL).fit(data.X, data.y)
    best = minimum(K, data.y, C, 0.2, model.loss, np.ones(60))
    assert model.certificate_.upper <= best * (1 + 1e-7)
    assert model.certificate_.lower == pytest.approx(best, rel=1e-5)
    missing = data.y - model.predict(data.X)
    assert set(model.support_) == set(np.flatnonzero(np.abs(missing) > 0.2))


@given(
    st.integers(0, 2**32 - 1),
    st.integers(5, 40),
    st.integers(1, 12),
    st.sampled_from([0.01, 1.0, 100.0]),
    st.sampled_from([0.01, 0.5]),
    st.sampled_from(LOSSES),
    st.booleans(),
)
def test_the_certificate_is_never_below_the_true_distance(
    seed, m, n_basis, C, epsilon, loss, weighted
):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=m)
    weights = rng.uniform(0.2, 2.0, m) if weighted else np.ones(m)
    model = LowRankSVR(gamma=0.5, C=C, epsilon=epsilon, loss=loss, n_basis=n_basis)
    model.fit(X, y, sample_weight=weights)
    K = rbf_kernel(X, gamma=0.5)
    found, best = model.certificate_, minimum(K, y, C, epsilon, loss, weights)
    upper = value(model, K, y, C, epsilon, loss, weights)
    assert found.upper == pytest.approx(upper, rel=1e-6, abs=1e-9)
    assert found.lower <= best + 1e-6 * best + 1e-9
    assert found.gap >= upper - best - 1e-6 * upper - 1e-9
    again = model.certify(X, y, sample_weight=weights)
    assert again.upper == pytest.approx(found.upper, rel=1e-6, abs=1e-9)
    assert again.lower == pytest.approx(found.lower, rel=1e-4, abs=1e-6 * upper + 1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_constant_added_to_the_targets_is_added_to_the_predictions(waves, loss):
    data = waves(200)
    model = LowRankSVR(loss=loss, n_basis=20, C=10.0).fit(data.X, data.y)
    moved = LowRankSVR(loss=loss, n_basis=20, C=10.0).fit(data.X, data.y + 1e6)
    np.testing.assert_allclose(moved.predict(data.new) - 1e6, model.predict(data.new), atol=1e-5)
    assert moved.certificate_.upper == pytest.approx(model.certificate_.upper, rel=1e-6)
    assert moved.certificate_.relative_gap == pytest.approx(
        model.certificate_.relative_gap, rel=1e-4
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_outputs_share_a_basis_and_nothing_else(waves, loss):
    data = waves(200, n_outputs=3)
    given_points = {"search": Search(candidates=data.X[:25]), "n_basis": 25, "loss": loss}
    model = LowRankSVR(**given_points).fit(data.X, data.y)
    assert model.predict(data.new).shape == (25, 3)
    assert model.dual_coef_.shape == (model.n_basis_, 3)
    parts = [LowRankSVR(**given_points).fit(data.X, y) for y in data.y.T]
    apart = np.column_stack([part.predict(data.new) for part in parts])
    np.testing.assert_allclose(model.predict(data.new), apart, atol=1e-4)
    uppers = [part.certificate_.upper for part in parts]
    np.testing.assert_allclose(model.certificate_.per_output["upper"], uppers, rtol=1e-6)
    with pytest.raises(ValueError, match="y has 1 outputs, but the model was fitted with 3"):
        model.certify(data.X, data.y[:, 0])


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_of_weight_zero_are_absent(waves, loss):
    data = waves(120)
    weights = np.where(np.arange(120) % 3 == 0, 0.0, 1.5)
    model = LowRankSVR(loss=loss, n_basis=15).fit(data.X, data.y, sample_weight=weights)
    kept = weights > 0
    other = LowRankSVR(loss=loss, n_basis=15).fit(
        data.X[kept], data.y[kept], sample_weight=weights[kept]
    )
    np.testing.assert_allclose(model.predict(data.new), other.predict(data.new), atol=1e-9)
    assert np.all(weights[model.basis_indices_] > 0)
    assert np.all(weights[model.support_] > 0)


@pytest.mark.parametrize("loss", LOSSES)
def test_threads_do_not_change_a_bit(waves, loss):
    data = waves(2500)
    found = [
        LowRankSVR(loss=loss, n_basis=30, refine=3, n_jobs=n_jobs, random_state=0)
        .fit(data.X, data.y)
        .predict(data.new)
        for n_jobs in (1, 2, 3)
    ]
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


@pytest.mark.parametrize("loss", LOSSES)
def test_the_basis_grows_until_the_tolerance_is_met(waves, loss):
    data = waves(600)
    model = LowRankSVR(RBF(0.3), loss=loss, C=10.0, tol=0.05, n_basis=600).fit(data.X, data.y)
    assert model.path_.stop_reason == "tol"
    assert model.certificate_.relative_gap <= 0.05
    assert model.n_basis_ < 600
    with pytest.warns(ConvergenceWarning, match="tol=1e-09 was not met"):
        LowRankSVR(RBF(0.3), loss=loss, C=10.0, tol=1e-9, n_basis=70).fit(data.X, data.y)


def test_moving_the_points_lowers_the_objective(waves):
    data = waves(2500)
    options = {"n_basis": 10, "C": 10.0, "random_state": 0, "certificate": "exact"}
    still = LowRankSVR(refine=False, **options).fit(data.X, data.y)
    moved = LowRankSVR(refine=40, **options).fit(data.X, data.y)
    assert moved.certificate_.upper < still.certificate_.upper
    assert np.all(moved.basis_indices_ == -1)


def test_kinds_of_input(waves):
    data = waves(80)
    options = {"n_basis": 20, "loss": "epsilon_insensitive"}
    model = LowRankSVR(gamma=0.5, **options).fit(data.X, data.y)
    expected = model.predict(data.new)
    K, K_new = rbf_kernel(data.X, gamma=0.5), rbf_kernel(data.new, data.X, gamma=0.5)
    given_matrix = LowRankSVR("precomputed", **options).fit(K, data.y)
    np.testing.assert_allclose(given_matrix.predict(K_new), expected, atol=1e-6)
    assert given_matrix.basis_ is None
    assert given_matrix.certify(K, data.y).upper == pytest.approx(model.certificate_.upper)
    sparse = LowRankSVR(gamma=0.5, **options).fit(csr_array(data.X), data.y)
    np.testing.assert_allclose(sparse.predict(csr_array(data.new)), expected, atol=1e-6)
    words = ["a" * (1 + i % 7) + "b" * (i % 5) for i in range(60)]
    lengths = np.array([len(word) for word in words], dtype=float)

    def alike(A, B):
        return np.exp(-0.1 * np.subtract.outer([len(a) for a in A], [len(b) for b in B]) ** 2)

    spoken = LowRankSVR(alike, C=100.0, epsilon=0.05).fit(words, lengths)
    np.testing.assert_allclose(spoken.predict(["abb", "aaaab"]), [3.0, 5.0], atol=0.2)
    frame = pd.DataFrame({"u": data.X[:, 0], "v": data.X[:, 1], "y": data.y})
    named = LowRankSVR(gamma=0.5, **options).fit(frame, target="y")
    assert named.feature_names_in_.tolist() == ["u", "v"]
    np.testing.assert_allclose(named.predict(frame[["u", "v"]]), model.predict(data.X), atol=1e-12)
    again = named.certify(frame[["u", "v"]], frame["y"])
    assert again.gap == pytest.approx(named.certificate_.gap, rel=1e-6)
    narrow = LowRankSVR(gamma=0.5, dtype="float32", **options).fit(data.X, data.y)
    np.testing.assert_allclose(narrow.predict(data.new), expected, atol=0.05)


def test_pipeline_search_clone_and_pickle(waves):
    data = waves(150)
    pipeline = make_pipeline(StandardScaler(), LowRankSVR(n_basis=15))
    grid = {"lowranksvr__C": [0.01, 10.0], "lowranksvr__epsilon": [0.1, 2.0]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(data.X, data.y)
    assert search.best_params_ == {"lowranksvr__C": 10.0, "lowranksvr__epsilon": 0.1}
    model = search.best_estimator_[-1]
    again = pickle.loads(pickle.dumps(search)).predict(data.new)
    np.testing.assert_array_equal(again, search.predict(data.new))
    with pytest.raises(NotFittedError):
        clone(model).predict(data.new)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"C": 0.0}, "C must be a positive number, got 0.0"),
        ({"epsilon": 0.0}, "epsilon must be a positive number, got 0.0"),
        ({"epsilon": -1.0}, "epsilon must be a positive number"),
        ({"epsilon": np.nan}, "epsilon must be a positive number"),
        ({"loss": "hinge"}, "The 'loss' parameter"),
        ({"n_basis": 0}, "The 'n_basis' parameter"),
        ({"tol": 0.1, "certificate": None}, "tol stops the growth"),
    ],
)
def test_bad_arguments(waves, arguments, message):
    data = waves(30)
    with pytest.raises(ValueError, match=message):
        LowRankSVR(**arguments).fit(data.X, data.y)


def test_bad_targets(waves):
    data = waves(30)
    with pytest.raises(ValueError, match="the target y is None"):
        LowRankSVR().fit(data.X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        LowRankSVR().fit(data.X, data.y[:-1])
    with pytest.raises(ValueError, match="contains NaN"):
        LowRankSVR().fit(data.X, np.where(np.arange(30) == 3, np.nan, data.y))


def test_a_tube_that_holds_everything_leaves_a_constant(waves):
    data = waves(50)
    for loss in LOSSES:
        model = LowRankSVR(loss=loss, epsilon=100.0).fit(data.X, data.y)
        predicted = model.predict(data.new)
        np.testing.assert_allclose(predicted, predicted[0], atol=1e-6)
        assert np.abs(data.y - predicted[0]).max() <= 100.0
        if loss == "epsilon_insensitive":
            middle = 0.5 * (data.y.min() + data.y.max())
            np.testing.assert_allclose(predicted, middle, rtol=1e-12)
        assert model.certificate_.gap == 0.0
        assert model.certificate_.relative_gap == 0.0
        assert len(model.support_) == 0
        same = LowRankSVR(loss=loss).fit(data.X, np.full(50, 3.0))
        np.testing.assert_allclose(same.predict(data.new), 3.0, atol=0.1)
        assert same.certificate_.relative_gap == 0.0


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(0, 6), st.integers(1, 3))
def test_mirrored_is_the_stacked_matrix(seed, m, n, columns):
    rng = np.random.default_rng(seed)
    V, weights = rng.normal(size=(m, n)), rng.uniform(size=2 * m)
    X, u, both = rng.normal(size=(2 * m, columns)), rng.normal(size=(n, columns)), None
    both = np.vstack([V, -V])
    with Workers(1) as workers:
        mirrored = Mirrored(TallMatrix(V, m, workers))
        assert (mirrored.n_rows, mirrored.n_columns) == both.shape
        np.testing.assert_allclose(mirrored.times(u), both @ u, atol=1e-12)
        np.testing.assert_allclose(mirrored.transposed_times(X), both.T @ X, atol=1e-12)
        gram = both.T @ (weights[:, None] * both)
        np.testing.assert_allclose(mirrored.gram(weights), gram, atol=1e-12)


def test_the_tube_is_solved_from_features_that_are_not_stored():
    rng = np.random.default_rng(0)
    V, y, costs = rng.normal(size=(300, 8)), rng.normal(size=300), rng.uniform(0.5, 2.0, 300)
    options = {"tol": 1e-8, "max_steps": 60, "dtype": np.float64}
    with Workers(2) as workers:
        stored = solve_tube(V, y, costs, 0.1, workers=workers, **options)
        computed = solve_tube(lambda rows: V[rows], y, costs, 0.1, workers=workers, **options)
    assert stored.converged
    np.testing.assert_array_equal(computed.a, stored.a)
    assert np.all(np.abs(stored.a) <= costs)
    assert stored.a.sum() == pytest.approx(0.0, abs=1e-6)
