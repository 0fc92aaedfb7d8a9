"""LowRankOneClassSVM against LIBSVM, and its certificate against the truth."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from pursuit import LowRankOneClassSVM
from pursuit.estimators.svm.problem import OneClassProblem

ALL = {"search": "full", "n_basis": 10_000}


def cloud(m=200, seed=0):
    """A round cloud of rows with a few far away."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3))
    X[: m // 40] *= 4.0
    return X


def minimum(K, nu, weights):
    """-½a'Ka of LIBSVM's dual point, which has 1'a = νΣs."""
    peer = OneClassSVM(kernel="precomputed", nu=nu, tol=1e-9).fit(K, sample_weight=weights)
    a = np.zeros(len(K))
    a[peer.support_] = peer.dual_coef_[0]
    return -0.5 * a @ K @ a


def value(f, squared_norm, nu, weights):
    """Of f with the best ρ, which is one of its values."""
    return min(
        0.5 * squared_norm + weights @ np.maximum(rho - f, 0.0) - nu * rho * weights.sum()
        for rho in f
    )


@pytest.mark.parametrize("nu", [0.03, 0.21, 0.503])
@pytest.mark.parametrize("weighted", [False, True])
def test_with_all_rows_it_is_libsvm(nu, weighted):
    X = cloud()
    new = cloud(50, seed=1)
    weights = np.random.default_rng(2).uniform(0.5, 2.0, 200) if weighted else np.ones(200)
    peer = OneClassSVM(gamma=0.3, nu=nu, tol=1e-9).fit(X, sample_weight=weights)
    model = LowRankOneClassSVM(gamma=0.3, nu=nu, **ALL).fit(X, sample_weight=weights)
    best = minimum(rbf_kernel(X, gamma=0.3), nu, weights)
    assert model.certificate_.upper == pytest.approx(best, rel=1e-6)
    assert model.certificate_.lower == pytest.approx(best, rel=1e-6)
    np.testing.assert_allclose(model.decision_function(new), peer.decision_function(new), atol=1e-4)
    np.testing.assert_allclose(model.score_samples(new), peer.score_samples(new), atol=1e-4)
    assert model.offset_ == pytest.approx(peer.offset_[0], abs=1e-4)
    assert model.intercept_ == pytest.approx(-model.offset_)
    assert set(model.support_) == set(peer.support_)
    clear = np.abs(peer.decision_function(new)) > 1e-3
    np.testing.assert_array_equal(model.predict(new)[clear], peer.predict(new)[clear])


@pytest.mark.parametrize("nu", [0.1, 0.5, 0.9, 1.0])
def test_nu_bounds_the_rows_outside_and_the_support(nu):
    X = cloud()
    model = LowRankOneClassSVM(gamma=0.3, nu=nu, n_basis=60).fit(X)
    outside = (model.predict(X) < 0).mean()
    assert outside <= nu
    assert outside > nu - 0.1
    assert len(model.support_) >= nu * len(X) - 1e-6
    np.testing.assert_array_equal(model.fit_predict(X), model.predict(X))


@given(
    st.integers(0, 2**32 - 1),
    st.integers(5, 40),
    st.integers(1, 12),
    st.floats(0.05, 0.95),
    st.booleans(),
)
def test_the_certificate_is_never_below_the_true_distance(seed, m, n_basis, nu, weighted):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 2))
    weights = rng.uniform(0.2, 2.0, m) if weighted else np.ones(m)
    model = LowRankOneClassSVM(gamma=0.5, nu=nu, n_basis=n_basis)
    model.fit(X, sample_weight=weights)
    K = rbf_kernel(X, gamma=0.5)
    S, beta = model.basis_indices_, model.dual_coef_
    upper = value(K[:, S] @ beta, beta @ K[np.ix_(S, S)] @ beta, nu, weights)
    best, found = minimum(K, nu, weights), model.certificate_
    assert found.upper == pytest.approx(upper, rel=1e-6)
    assert found.lower <= best + 1e-6 * abs(best)
    assert found.gap >= upper - best - 1e-6 * abs(upper)
    again = model.certify(X, sample_weight=weights)
    assert again.upper == pytest.approx(found.upper, rel=1e-7)
    assert again.lower == pytest.approx(found.lower, rel=1e-6)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.floats(0.01, 1.0))
def test_a_dual_point_is_made_feasible(seed, m, nu):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.1, 2.0, (m, 1))
    problem = OneClassProblem(np.ones((m, 1)), weights, squared=False, nu=nu)
    a = problem.feasible(rng.normal(size=(m, 1)))
    assert np.all((a >= 0.0) & (a <= weights * (1 + 1e-12)))
    assert a.sum() == pytest.approx(nu * weights.sum())
    f = rng.normal(size=(m, 1))
    best = value(f[:, 0], 0.0, nu, weights[:, 0])
    assert problem.value(f, np.zeros(1)).value[0] == pytest.approx(best, rel=1e-9, abs=1e-9)


def test_rows_of_weight_zero_are_absent():
    X = cloud(120)
    weights = np.where(np.arange(120) % 3 == 0, 0.0, 1.0)
    model = LowRankOneClassSVM(nu=0.2, n_basis=20).fit(X, sample_weight=weights)
    other = LowRankOneClassSVM(nu=0.2, n_basis=20).fit(X[weights > 0])
    np.testing.assert_allclose(model.decision_function(X), other.decision_function(X), atol=1e-9)
    assert np.all(weights[model.support_] > 0)


def test_threads_do_not_change_a_bit():
    X = cloud(2500)
    found = [
        LowRankOneClassSVM(nu=0.1, n_basis=30, n_jobs=n_jobs, random_state=0)
        .fit(X)
        .decision_function(X)
        for n_jobs in (1, 2, 3)
    ]
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_the_basis_grows_until_the_tolerance_is_met():
    X = cloud(600)
    model = LowRankOneClassSVM(gamma=1.0, nu=0.1, tol=0.05, n_basis=600).fit(X)
    assert model.path_.stop_reason == "tol"
    assert model.certificate_.relative_gap <= 0.05
    assert model.n_basis_ < 600
    with pytest.warns(ConvergenceWarning, match="tol=1e-09 was not met"):
        LowRankOneClassSVM(gamma=1.0, nu=0.1, tol=1e-9, n_basis=70).fit(X)


def test_kinds_of_input():
    X = cloud(80)
    model = LowRankOneClassSVM(gamma=0.5, nu=0.2, n_basis=30).fit(X)
    K = rbf_kernel(X, gamma=0.5)
    given_matrix = LowRankOneClassSVM("precomputed", nu=0.2, n_basis=30).fit(K)
    expected = model.decision_function(X)
    np.testing.assert_allclose(given_matrix.decision_function(K), expected, atol=1e-6)
    assert given_matrix.certify(K).upper == pytest.approx(model.certificate_.upper)
    frame = pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "w": X[:, 2], "s": np.ones(80)})
    named = LowRankOneClassSVM(gamma=0.5, nu=0.2, n_basis=30).fit(frame, weight="s")
    assert named.feature_names_in_.tolist() == ["u", "v", "w"]
    np.testing.assert_allclose(named.score_samples(frame[["u", "v", "w"]]), model.score_samples(X))
    again = named.certify(frame[["u", "v", "w"]], frame["s"])
    assert again.gap == pytest.approx(named.certificate_.gap, rel=1e-6)
    narrow = LowRankOneClassSVM(gamma=0.5, nu=0.2, n_basis=30, dtype="float32").fit(X)
    np.testing.assert_allclose(narrow.decision_function(X), expected, atol=0.02)


def test_pipeline_clone_and_pickle():
    X = cloud(150)
    pipeline = make_pipeline(StandardScaler(), LowRankOneClassSVM(nu=0.1, n_basis=30)).fit(X)
    assert pipeline.predict(np.full((1, 3), 20.0)).tolist() == [-1]
    assert pipeline.predict(X.mean(axis=0)[None]).tolist() == [1]
    again = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(again.decision_function(X), pipeline.decision_function(X))
    with pytest.raises(NotFittedError):
        clone(pipeline[-1]).predict(X)


@pytest.mark.parametrize("nu", [0.0, -0.1, 1.1, np.nan])
def test_nu_outside_its_range(nu):
    with pytest.raises(ValueError, match=r"nu must be a share of the rows, in \(0, 1\]"):
        LowRankOneClassSVM(nu=nu).fit(cloud(20))


def test_a_bound_from_the_diagonal_certifies_values_below_zero():
    """The minimum is negative: a gap of half of its size is what may be left open."""
    X = cloud(60)
    model = LowRankOneClassSVM(gamma=0.3, nu=0.3, certificate="diagonal", **ALL).fit(X)
    best = minimum(rbf_kernel(X, gamma=0.3), 0.3, np.ones(60))
    found = model.certificate_
    assert found.kind == "diagonal"
    assert found.lower <= best + 1e-9 <= found.upper + 2e-9
    rough = LowRankOneClassSVM(gamma=0.3, nu=0.3, certificate="diagonal", n_basis=2).fit(X)
    assert rough.certificate_ is None
