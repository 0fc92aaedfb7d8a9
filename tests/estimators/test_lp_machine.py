"""LP machines: the optimum of the full programme, proofs on the way, and the estimators."""

import pickle
import signal
import sys
import tracemalloc
from types import SimpleNamespace

import numpy as np
import oracles
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.class_weight import compute_sample_weight

from pursuit import LPMachineClassifier, LPMachineRegressor, PathDisplay, Search, pairwise
from pursuit.estimators.lp import growth
from pursuit.estimators.lp.growth import Prices, diverse
from pursuit.kernels import compile_kernel
from pursuit.linalg import Workers
from pursuit.rows import as_rows

GAMMA = 1.0


@pytest.fixture
def batches_of(monkeypatch):
    """Sets how many functions an output is given per round."""
    return lambda n: monkeypatch.setattr(growth, "BATCH", n)


def moons(m, seed=0):
    X, y = make_moons(m, noise=0.25, random_state=seed)
    return X, y


def waves(m, seed=0, n_outputs=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 2))
    Y = np.column_stack([np.sin(2 * X[:, 0]) + 3.0, 10 * X[:, 0] * X[:, 1]])
    Y += 0.2 * rng.normal(size=Y.shape)
    return X, Y[:, 0] if n_outputs is None else Y[:, :n_outputs]


def signs(y):
    return np.where(y == 1, 1.0, -1.0)


def hinge_objective(model, X, y, costs):
    """Σ|a| + Σc max(0, 1 - yf) from what the model shows."""
    f = model.decision_function(X)
    return np.abs(model.dual_coef_).sum() + costs @ np.maximum(0, 1 - signs(y) * f)


# The optimum


@pytest.mark.parametrize("C", [0.05, 1.0, 100.0])
@pytest.mark.parametrize("solver", ["highs", "linprog"])
def test_classifier_reaches_the_minimum_of_the_full_programme(C, solver, size):
    m = size(150, 600)
    X, y = moons(m)
    model = LPMachineClassifier(gamma=GAMMA, C=C, tol=1e-9, solver=solver).fit(X, y)
    minimum, _ = oracles.hinge_programme(rbf_kernel(X, gamma=GAMMA), signs(y), np.full(m, C))
    assert model.objective_ == pytest.approx(minimum, rel=1e-7)
    assert hinge_objective(model, X, y, np.full(m, C)) == pytest.approx(minimum, rel=1e-7)
    assert model.certificate_.relative_gap <= 1e-9
    assert model.path_.stop_reason in ("tol", "no gain")


def test_the_minimum_is_found_where_it_is_a_tiny_part_of_the_loss_of_a_constant():
    X, y = moons(80)
    model = LPMachineClassifier(gamma=50.0, C=1e7).fit(X, y)
    minimum, _ = oracles.hinge_programme(rbf_kernel(X, gamma=50.0), signs(y), np.full(80, 1e7))
    assert minimum < 1e-5 * model.path_.value[0]
    # C times what rounding may hide in a slack is part of what is certified.
    proof = model.certificate_
    assert proof.rounding <= 1e-9 * 1e7 * minimum
    assert model.objective_ == pytest.approx(minimum, abs=1e-6 * minimum + proof.rounding)
    assert minimum * (1 - 1e-6) - proof.rounding <= proof.lower <= minimum * (1 + 1e-9)


@pytest.mark.parametrize(("C", "epsilon"), [(0.1, 0.05), (1.0, 0.3), (50.0, 0.1), (1.0, 0.0)])
def test_regressor_reaches_the_minimum_of_the_full_programme(C, epsilon, size):
    m = size(150, 600)
    X, y = waves(m)
    model = LPMachineRegressor(gamma=GAMMA, C=C, epsilon=epsilon, tol=1e-9).fit(X, y)
    minimum, _ = oracles.tube_programme(rbf_kernel(X, gamma=GAMMA), y, np.full(m, C), epsilon)
    shown = np.abs(model.dual_coef_).sum()
    shown += C * np.maximum(0, np.abs(y - model.predict(X)) - epsilon).sum()
    assert model.objective_ == pytest.approx(minimum, rel=1e-7)
    assert shown == pytest.approx(minimum, rel=1e-7)
    assert model.certificate_.upper == model.objective_


@pytest.mark.parametrize("solver", ["highs", "linprog"])
@pytest.mark.parametrize("seed", range(4))
def test_least_absolute_deviations(seed, solver, batches_of):
    """ε = 0 against the programme over all columns; the certificate encloses its minimum."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(20, 80))
    X = rng.normal(size=(m, 2))
    y = np.sin(2 * X[:, 0]) + rng.standard_t(1.5, m)
    C, gamma, w = 10 ** rng.uniform(0, 1), 10 ** rng.uniform(-1, 1), rng.uniform(0.2, 3, m)
    options = {"gamma": gamma, "C": C, "epsilon": 0.0, "solver": solver}
    minimum, _ = oracles.tube_programme(rbf_kernel(X, gamma=gamma), y, C * w, 0.0)
    model = LPMachineRegressor(tol=1e-7, **options).fit(X, y, w)
    shown = np.abs(model.dual_coef_).sum() + C * w @ np.abs(y - model.predict(X))
    # tol of this model, and linprog's own tolerance of 1e-7.
    assert shown == pytest.approx(minimum, rel=2e-7)
    assert model.objective_ == pytest.approx(minimum, rel=2e-7)
    capped = LPMachineRegressor(tol=1e-7, n_basis=2, **options).fit(X, y, w)
    batches_of(1)
    early = LPMachineRegressor(tol=0.3, **options).fit(X, y, w)
    for found in (model, early, capped):
        assert found.certificate_.lower <= minimum * (1 + 1e-7)
        assert found.certificate_.upper >= minimum * (1 - 1e-7)
    assert capped.certificate_.gap > 0


def test_a_tube_of_no_width_is_the_limit_of_narrow_ones():
    X, y = waves(100)
    none = LPMachineRegressor(gamma=GAMMA, epsilon=0, tol=1e-9).fit(X, y)
    narrow = LPMachineRegressor(gamma=GAMMA, epsilon=1e-6, tol=1e-9).fit(X, y)
    # A tube lowers each of the hundred losses, of slope C = 1, by at most its half-width.
    assert 0 <= none.objective_ - narrow.objective_ <= 100 * 1e-6 + 1e-7 * none.objective_
    constant = LPMachineRegressor(epsilon=0).fit(X, np.full(100, 3.5))
    assert constant.n_basis_ == 0
    assert constant.objective_ == constant.certificate_.gap <= 1e-12
    assert constant.certificate_.relative_gap == 0.0
    np.testing.assert_array_equal(constant.predict(X), np.full(100, 3.5))


def test_each_class_against_the_rest(size):
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = LPMachineClassifier(gamma=0.5, C=0.5, tol=1e-9).fit(X, y)
    K = rbf_kernel(X, gamma=0.5)
    minima = [
        oracles.hinge_programme(K, np.where(y == c, 1.0, -1.0), np.full(150, 0.5))[0]
        for c in range(3)
    ]
    np.testing.assert_allclose(model.certificate_.upper_per_output, minima, rtol=1e-7)
    assert model.objective_ == pytest.approx(sum(minima), rel=1e-7)
    assert model.dual_coef_.shape == (model.n_basis_, 3)
    assert model.dual_coef_.any(axis=1).all()
    assert len(np.unique(model.basis_indices_)) == model.n_basis_
    assert model.decision_function(X).shape == (150, 3)
    assert model.score(X, y) > 0.93


def test_a_cap_holds_for_the_union_of_all_bases():
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = LPMachineClassifier(gamma=0.5, C=5.0, n_basis=7).fit(X, y)
    assert model.path_.stop_reason == "n_basis"
    assert model.path_.sizes[-1] == 7 >= model.n_basis_
    full = LPMachineClassifier(gamma=0.5, C=5.0).fit(X, y)
    found, best = model.certificate_, full.certificate_.upper_per_output
    assert np.all(found.lower_per_output <= best * (1 + 1e-9))
    assert np.all(found.upper_per_output >= best * (1 - 1e-9))


def test_each_output_by_itself():
    X, Y = waves(120, n_outputs=2)
    both = LPMachineRegressor(gamma=GAMMA, C=1.0, tol=1e-9).fit(X, Y)
    each = [LPMachineRegressor(gamma=GAMMA, C=1.0, tol=1e-9).fit(X, y) for y in Y.T]
    np.testing.assert_allclose(
        both.certificate_.upper_per_output, [model.objective_ for model in each], rtol=1e-8
    )
    np.testing.assert_allclose(
        both.predict(X), np.column_stack([model.predict(X) for model in each]), atol=1e-5
    )


@pytest.mark.parametrize("pool_size", [1, 20, 119, 500])
def test_a_pool_changes_the_way_but_not_the_end(pool_size):
    X, y = moons(120)
    everything = LPMachineClassifier(gamma=GAMMA, tol=1e-9).fit(X, y)
    search = Search("pooled", pool_size=pool_size)
    pooled = LPMachineClassifier(gamma=GAMMA, tol=1e-9, search=search, random_state=0).fit(X, y)
    assert pooled.objective_ == pytest.approx(everything.objective_, rel=1e-8)
    assert pooled.certificate_.relative_gap <= 1e-8


def test_a_pool_serves_several_outputs():
    X, y = load_iris(return_X_y=True)
    everything = LPMachineClassifier(gamma=0.3, tol=1e-9).fit(X, y)
    search = Search("pooled", pool_size=15)
    pooled = LPMachineClassifier(gamma=0.3, tol=1e-9, search=search, random_state=0).fit(X, y)
    assert pooled.objective_ == pytest.approx(everything.objective_, rel=1e-8)


def test_a_pool_without_a_size_has_the_default_one(monkeypatch):
    X, y = moons(120)
    monkeypatch.setattr("pursuit.estimators.lp.estimators.POOL", 20)
    named, given_size = (
        LPMachineClassifier(gamma=GAMMA, search=search, random_state=0).fit(X, y)
        for search in ("pooled", Search("pooled", pool_size=20))
    )
    np.testing.assert_array_equal(named.dual_coef_, given_size.dual_coef_)
    assert named.path_.entries.tolist() == given_size.path_.entries.tolist()


def test_fewer_functions_than_support_vectors():
    X, y = moons(400)
    machine = LPMachineClassifier(gamma=GAMMA).fit(X, y)
    peer = SVC(gamma=GAMMA).fit(X, y)
    assert machine.n_basis_ < 0.2 * peer.n_support_.sum()
    assert machine.score(X, y) > peer.score(X, y) - 0.02


# Proofs


@given(
    C=st.floats(0.02, 20.0),
    gamma=st.floats(0.05, 5.0),
    cap=st.integers(1, 30),
    pool_size=st.sampled_from([None, 5, 30]),
    seed=st.integers(0, 99),
)
def test_the_minimum_lies_between_the_bounds_wherever_growth_stops(C, gamma, cap, pool_size, seed):
    X, y = moons(60, seed)
    search = "full" if pool_size is None else Search("pooled", pool_size=pool_size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growth, "BATCH", 4)
        model = LPMachineClassifier(
            gamma=gamma, C=C, n_basis=cap, search=search, tol=1e-9, random_state=0
        ).fit(X, y)
    minimum, _ = oracles.hinge_programme(rbf_kernel(X, gamma=gamma), signs(y), np.full(60, C))
    rounding = 1e-8 * minimum
    assert model.certificate_.lower <= minimum + rounding
    assert model.certificate_.upper >= minimum - rounding
    assert np.all(model.path_.lower <= minimum + rounding)
    assert np.all(model.path_.value >= minimum - rounding)
    assert model.n_basis_ <= cap
    shown = hinge_objective(model, X, y, np.full(60, C))
    assert shown == pytest.approx(model.certificate_.upper, rel=1e-9)


@given(C=st.floats(0.02, 20.0), cap=st.integers(1, 20), seed=st.integers(0, 99))
def test_the_same_for_regression(C, cap, seed):
    X, y = waves(50, seed)
    model = LPMachineRegressor(gamma=GAMMA, C=C, n_basis=cap, tol=1e-9).fit(X, y)
    minimum, _ = oracles.tube_programme(rbf_kernel(X, gamma=GAMMA), y, np.full(50, C), 0.1)
    assert model.certificate_.lower <= minimum * (1 + 1e-8)
    assert model.certificate_.upper >= minimum * (1 - 1e-8)


def test_the_path_tells_of_every_round(batches_of):
    X, y = moons(200)
    batches_of(3)
    model = LPMachineClassifier(gamma=2.0, C=10.0, tol=1e-6).fit(X, y)
    path = model.path_
    assert len(path) == model.n_iter_ > 3
    assert path.sizes[0] == 0
    assert np.all(np.diff(path.sizes) >= 1)
    assert np.all(np.diff(path.sizes) <= 3)
    assert np.all(np.diff(path.value) <= 1e-9 * path.value[0])
    assert np.all(np.diff(path.lower) >= 0)
    assert np.all(np.diff(path.seconds) >= 0)
    assert np.all(np.diff(path.entries) >= 0)
    assert path.gap[-1] == model.certificate_.relative_gap <= 1e-6
    # The first round is the best constant: here with as many rows of either class.
    assert path.value[0] == pytest.approx(10.0 * 200)
    assert "stopped by tol" in str(path)
    assert "(Lagrangian bound)" in str(model.certificate_)
    display = PathDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.x, path.sizes)


def test_a_wider_tolerance_stops_earlier_with_its_promise_kept(batches_of):
    X, y = moons(300)
    batches_of(5)
    rough = LPMachineClassifier(gamma=5.0, C=10.0, tol=0.2).fit(X, y)
    fine = LPMachineClassifier(gamma=5.0, C=10.0, tol=1e-8).fit(X, y)
    assert rough.n_iter_ < fine.n_iter_
    assert rough.certificate_.relative_gap <= 0.2
    assert rough.certificate_.lower <= fine.objective_ <= rough.objective_


def test_a_limited_basis_is_shared_by_all_classes():
    y = np.repeat(np.arange(12), 10)
    noise = np.random.default_rng(0).normal(scale=0.3, size=(120, 2))
    X = np.column_stack([y % 4, y // 4]) * 4.0 + noise
    model = LPMachineClassifier(gamma=1.0, C=10.0, n_basis=12).fit(X, y)
    assert sorted(y[model.basis_indices_]) == list(range(12))
    assert model.score(X, y) == 1.0


def test_a_limited_basis_is_chosen_for_what_is_left_to_explain(batches_of):
    """No round takes more than a quarter of the functions that are left, rounded up."""
    X, y = moons(200)
    model = LPMachineClassifier(gamma=GAMMA, n_basis=6).fit(X, y)
    assert model.path_.sizes.tolist() == [0, 2, 3, 4, 5, 6]
    batches_of(6)
    at_once = LPMachineClassifier(gamma=GAMMA).fit(X, y).path_
    assert at_once.sizes[1] == 6
    assert model.objective_ < at_once.value[1]


def test_growth_stops_at_n_basis():
    X, y = moons(200)
    model = LPMachineClassifier(gamma=5.0, C=10.0, n_basis=12).fit(X, y)
    assert model.path_.stop_reason == "n_basis"
    assert model.n_basis_ <= 12 == model.path_.sizes[-1]


def test_growth_stops_in_time_but_not_before_there_is_a_model():
    X, y = moons(200)
    model = LPMachineClassifier(gamma=5.0, C=10.0, max_time=1e-6).fit(X, y)
    assert model.path_.stop_reason == "time"
    assert model.path_.sizes.tolist() == [0, 10]
    assert model.n_basis_ > 0
    assert model.certificate_.lower <= model.certificate_.upper


def test_where_nothing_is_worth_its_price_the_model_is_a_constant():
    X, y = moons(100)
    y[:20] = 1
    model = LPMachineClassifier(gamma=GAMMA, C=1e-4).fit(X, y)
    assert model.n_basis_ == 0
    assert model.certificate_.relative_gap == 0.0
    assert model.objective_ == pytest.approx(1e-4 * 2 * np.sum(y == 0))
    np.testing.assert_array_equal(model.predict(X), 1)
    flat = LPMachineRegressor().fit(X, np.full(100, 7.0))
    assert flat.n_basis_ == 0
    np.testing.assert_allclose(flat.predict(X), 7.0)


# The parts


@given(seed=st.integers(0, 999), pooled=st.booleans())
def test_prices_are_mended_to_the_product_they_stand_for(seed, pooled):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 2))
    K = rbf_kernel(X, gamma=GAMMA) / 2.0
    kernel, _ = compile_kernel("rbf", gamma=GAMMA, n_features=2)
    candidates = np.sort(rng.choice(40, 15, replace=False)) if pooled else None
    here = slice(None) if candidates is None else candidates
    with Workers(1) as workers:
        run = SimpleNamespace(workers=workers, recorded=lambda name, compute: compute())
        prices = Prices(as_rows(X), candidates, kernel, 2.0, run)
        dual = np.zeros((40, 2))
        for _ in range(5):
            dual = dual.copy()
            some = rng.choice(40, rng.integers(0, 30), replace=False)
            dual[some] = rng.normal(size=(len(some), 2)) * rng.integers(0, 2, size=(len(some), 1))
            np.testing.assert_allclose(prices.update(dual, ""), (K @ dual)[here], atol=1e-12)
        best = prices.best(4, [1])
        top = np.sort(np.argsort(-np.abs((K @ dual)[here][:, 1]), kind="stable")[:4])
        np.testing.assert_array_equal(best.candidates, np.arange(40)[here][top])
        np.testing.assert_allclose(best.update(2 * dual, ""), (2 * K @ dual)[best.candidates])


@given(seed=st.integers(0, 999), n=st.integers(1, 8))
def test_a_batch_holds_no_two_rows_that_are_much_alike(seed, n):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 2))
    K = (1 + X @ X.T) ** 2
    cosine = np.abs(K) / np.sqrt(np.outer(np.diag(K), np.diag(K)))
    order = rng.permutation(30)
    expected: list[int] = []
    for row in order:
        if len(expected) < n and all(cosine[row, other] <= 0.9 for other in expected):
            expected.append(int(row))
    kernel, _ = compile_kernel("poly", degree=2, coef0=1.0, gamma=1.0, n_features=2)
    assert diverse(as_rows(X), kernel, np.diag(K), order, n) == expected


def test_no_matrix_of_all_rows_is_ever_held():
    X, y = moons(4000)
    model = LPMachineClassifier(gamma=GAMMA, C=0.01, n_jobs=1)
    tracemalloc.start()
    try:
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4000 * 4000 * 8 / 4
    assert model.path_.entries[-1] < 2 * 4000 * 4000


# Invariances


def test_weights_are_copies():
    X, y = waves(60)
    w = np.random.default_rng(1).integers(0, 4, 60)
    options = {"gamma": GAMMA, "C": 0.5, "tol": 1e-9}
    weighted = LPMachineRegressor(**options).fit(X, y, sample_weight=w)
    copied = LPMachineRegressor(**options).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert weighted.objective_ == pytest.approx(copied.objective_, rel=1e-8)
    np.testing.assert_allclose(weighted.predict(X), copied.predict(X), atol=1e-6)
    assert np.all(w[weighted.basis_indices_] > 0)
    np.testing.assert_array_equal(X[weighted.basis_indices_], weighted.basis_)


def test_a_row_of_weight_zero_is_absent():
    X, y = moons(100)
    X[:5], y[:5] = 100.0, 7
    w = np.ones(100)
    w[:5] = 0.0
    some = LPMachineClassifier(gamma=GAMMA).fit(X, y, sample_weight=w)
    rest = LPMachineClassifier(gamma=GAMMA).fit(X[5:], y[5:])
    np.testing.assert_array_equal(some.classes_, [0, 1])
    np.testing.assert_array_equal(some.dual_coef_, rest.dual_coef_)
    np.testing.assert_array_equal(some.basis_indices_, rest.basis_indices_ + 5)


@pytest.mark.parametrize("heavy", [1e4, 1e12])
def test_a_very_heavy_row_leaves_the_others_their_weight(heavy):
    X, y = moons(60)
    weights = np.where(np.arange(60) == 0, heavy, 1.0)
    minimum, _ = oracles.hinge_programme(
        rbf_kernel(X, gamma=GAMMA), signs(y), np.minimum(weights, 60.0)
    )
    model = LPMachineClassifier(gamma=GAMMA, max_time=30.0).fit(X, y, sample_weight=weights)
    proof = model.certificate_
    assert proof.rounding <= 1e-12 * heavy * minimum
    assert model.objective_ == pytest.approx(minimum, abs=1e-6 * minimum + proof.rounding)
    assert proof.gap <= 1e-6 * minimum + proof.rounding


def test_one_row_is_a_constant():
    model = LPMachineRegressor().fit([[1.0, 2.0]], [3.0])
    assert model.predict([[0.0, 5.0]]).tolist() == [3.0]
    assert 0.0 == model.certificate_.lower <= model.certificate_.upper <= 1e-14
    assert model.certificate_.relative_gap == 0.0


def test_class_weights_are_factors_of_the_weights():
    X, y = moons(90)
    y = np.array(["no", "yes"])[y]
    options = {"gamma": GAMMA, "C": 0.3, "tol": 1e-9}
    given_factors = LPMachineClassifier(class_weight={"yes": 3.0}, **options).fit(X, y)
    by_rows = LPMachineClassifier(**options).fit(X, y, sample_weight=1.0 + 2.0 * (y == "yes"))
    assert given_factors.objective_ == pytest.approx(by_rows.objective_, rel=1e-12)
    few = np.r_[np.flatnonzero(y == "no")[:10], np.flatnonzero(y == "yes")]
    X, y = X[few], y[few]
    balanced = LPMachineClassifier(class_weight="balanced", **options).fit(X, y)
    by_rows = LPMachineClassifier(**options).fit(
        X, y, sample_weight=compute_sample_weight("balanced", y)
    )
    assert balanced.objective_ == pytest.approx(by_rows.objective_, rel=1e-12)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_the_scale_of_the_kernel_is_that_of_the_penalty(factor):
    X, y = waves(80)
    K = rbf_kernel(X, gamma=GAMMA)
    plain = LPMachineRegressor("precomputed", C=0.5, tol=1e-9).fit(K, y)
    scaled = LPMachineRegressor("precomputed", C=0.5 / factor, tol=1e-9).fit(factor * K, y)
    np.testing.assert_allclose(scaled.predict(factor * K), plain.predict(K), atol=1e-6)
    np.testing.assert_allclose(scaled.objective_ * factor, plain.objective_, rtol=1e-8)


@pytest.mark.parametrize(("factor", "shift"), [(1e-5, 0.0), (1e5, -3e6)])
def test_the_units_of_y_do_not_matter(factor, shift):
    X, y = waves(80)
    plain = LPMachineRegressor(gamma=GAMMA, C=0.5, epsilon=0.1, tol=1e-9).fit(X, y)
    other = LPMachineRegressor(gamma=GAMMA, C=0.5, epsilon=0.1 * factor, tol=1e-9)
    other.fit(X, factor * y + shift)
    np.testing.assert_allclose(
        (other.predict(X) - shift) / factor, plain.predict(X), atol=1e-6, rtol=1e-6
    )
    assert other.objective_ == pytest.approx(factor * plain.objective_, rel=1e-7)


@pytest.mark.parametrize("search", ["full", Search("pooled", pool_size=50)])
def test_threads_do_not_change_a_bit(search):
    X, y = load_iris(return_X_y=True)
    X = np.tile(X, (4, 1)) + np.random.default_rng(0).normal(scale=0.1, size=(600, 4))
    y = np.tile(y, 4)
    one, two = (
        LPMachineClassifier(gamma=0.5, search=search, random_state=0, n_jobs=n).fit(X, y)
        for n in (1, 3)
    )
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    np.testing.assert_array_equal(one.intercept_, two.intercept_)
    np.testing.assert_array_equal(one.path_.value, two.path_.value)


def test_all_kinds_of_input_meet():
    X, y = moons(80)
    X = np.round(X, 1)
    model = LPMachineClassifier(gamma=GAMMA, tol=1e-9).fit(X, y)
    expected = model.decision_function(X)
    K = rbf_kernel(X, gamma=GAMMA)
    matrix = LPMachineClassifier("precomputed", tol=1e-9).fit(K, y)
    assert matrix.basis_ is None
    np.testing.assert_allclose(matrix.decision_function(K), expected, atol=1e-6)
    rows = LPMachineClassifier(gamma=GAMMA, tol=1e-9).fit(sparse.csr_array(X), y)
    assert sparse.issparse(rows.basis_)
    np.testing.assert_allclose(rows.decision_function(sparse.csr_array(X)), expected, atol=1e-6)
    kernel = LPMachineClassifier(RBF(np.sqrt(0.5 / GAMMA)), tol=1e-9).fit(X, y)
    np.testing.assert_allclose(kernel.decision_function(X), expected, atol=1e-6)
    frame = pd.DataFrame(X, columns=["a", "b"])
    named = LPMachineClassifier(gamma=GAMMA, tol=1e-9).fit(frame, y)
    np.testing.assert_array_equal(named.feature_names_in_, ["a", "b"])
    np.testing.assert_allclose(named.decision_function(frame), expected, atol=1e-9)
    single = LPMachineClassifier(gamma=GAMMA).fit(X.astype(np.float32), y)
    assert single.basis_.dtype == np.float32
    np.testing.assert_allclose(single.decision_function(X), expected, atol=1e-2)


def test_words():
    words = ["ant", "anthem", "antler", "bee", "beetle", "been", "bear", "antics"] * 2
    common = pairwise(lambda a, b: float(len(set(a) & set(b))))
    y = [word[0] for word in words]
    model = LPMachineClassifier(common, C=10.0).fit(words, y)
    assert model.score(words, y) == 1.0
    assert set(model.basis_) <= set(words)
    constant = LPMachineClassifier(common, C=1e-6).fit(words, y)
    assert constant.n_basis_ == 0
    assert len(constant.predict(["ant"])) == 1


def test_a_kernel_need_not_be_positive_definite():
    X, y = moons(100)
    model = LPMachineClassifier("sigmoid", gamma=0.5, coef0=-1.0, C=10.0, tol=1e-8).fit(X, y)
    K = np.tanh(0.5 * X @ X.T - 1.0)
    assert np.linalg.eigvalsh(K)[0] < -1.0
    minimum, _ = oracles.hinge_programme(K, signs(y), np.full(100, 10.0))
    assert model.objective_ == pytest.approx(minimum, rel=1e-6)


# What an estimator promises


def test_in_a_pipeline_under_a_grid_search():
    X, y = moons(120)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LPMachineClassifier(gamma=GAMMA)),
        {"lpmachineclassifier__C": [0.1, 1.0]},
        cv=3,
    ).fit(X, y)
    assert search.best_score_ > 0.85


def test_a_copy_behaves_like_the_original():
    X, y = waves(80)
    model = LPMachineRegressor(gamma=GAMMA).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert str(again.path_) == str(model.path_)
    assert not hasattr(clone(model), "dual_coef_")


def test_before_a_fit():
    with pytest.raises(NotFittedError):
        LPMachineClassifier().decision_function([[1.0]])
    with pytest.raises(NotFittedError):
        LPMachineRegressor().predict([[1.0]])


def test_silent_unless_asked(capsys):
    X, y = moons(60)
    LPMachineClassifier(gamma=GAMMA).fit(X, y)
    assert capsys.readouterr().out == ""
    LPMachineClassifier(gamma=GAMMA, verbose=2).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[LPMachineClassifier] round 1: 0 kernel functions, minimum between")
    assert lines[-1].startswith("[LPMachineClassifier] grow: ")


def test_interrupted_by_the_user(batches_of):
    X, y = moons(80)
    batches_of(1)
    sent = []

    def interrupting(A, B):
        if len(B) == 1 and not sent:
            sent.append(signal.raise_signal(signal.SIGINT))
        return rbf_kernel(A, B, gamma=5.0)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    model = LPMachineClassifier(interrupting, C=10.0, n_jobs=1)
    try:
        with (
            pytest.warns(UserWarning, match="holds the best 1 kernel functions") as record,
            pytest.raises(KeyboardInterrupt),
        ):
            model.fit(X, y)
    finally:
        signal.signal(signal.SIGINT, before)
    assert record[0].filename == __file__
    assert model.path_.stop_reason == "interrupted"
    assert model.certificate_.lower <= model.certificate_.upper
    assert model.predict(X[:3]).shape == (3,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0.0}, "'C' parameter"),
        ({"C": -1.0}, "'C' parameter"),
        ({"C": np.inf}, "'C' parameter"),
        ({"tol": -1e-3}, "'tol' parameter"),
        ({"n_basis": 0}, "'n_basis' parameter"),
        ({"search": "some"}, "'search' parameter"),
        ({"search": Search("fresh")}, "this estimator searches by 'full', 'pooled' only"),
        ({"search": Search("full", pool_size=5)}, "pool_size has no effect on a full search"),
        ({"search": Search("pooled", rows=5)}, "rows has no effect on a pooled .* pool_size"),
        ({"checkpoint": 1}, "'checkpoint' parameter"),
        ({"solver": "cplex"}, "'solver' parameter"),
        ({"max_time": 0.0}, "'max_time' parameter"),
        (
            {"class_weight": {0: 1.0, 5: 2.0}},
            r"class_weight names \[5\], but the classes .*\[0, 1\]",
        ),
        ({"class_weight": {0: -1.0}}, "class_weight must be positive and finite"),
        ({"class_weight": "even"}, "'class_weight' parameter"),
    ],
)
def test_arguments_out_of_range(options, message):
    X, y = moons(20)
    with pytest.raises(ValueError, match=message):
        LPMachineClassifier(**options).fit(X, y)


def test_data_that_cannot_be_fitted():
    X, y = moons(20)
    with pytest.raises(ValueError, match="one class only, 1: at least two"):
        LPMachineClassifier().fit(X, np.ones(20, dtype=int))
    with pytest.raises(ValueError, match="one class only"):
        LPMachineClassifier().fit(X, y, sample_weight=y)
    with pytest.raises(ValueError, match="target y is None"):
        LPMachineClassifier().fit(X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        LPMachineClassifier().fit(X, y[:-1])
    with pytest.raises(ValueError, match="epsilon"):
        LPMachineRegressor(epsilon=-0.1).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="Unknown label type"):
        LPMachineClassifier().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="kernel is not symmetric"):
        LPMachineClassifier("precomputed").fit(np.triu(np.ones((20, 20))), y)


def test_what_rounding_leaves_is_told():
    X, y = load_diabetes(return_X_y=True)
    model = LPMachineRegressor("linear", C=1.0)
    with pytest.warns(ConvergenceWarning, match=r"tol=1e-06 is beyond the rounding.*scale") as said:
        model.fit(1e6 * X, y)
    assert said[0].filename == __file__
    assert model.path_.stop_reason == "no gain"
    assert model.certificate_.gap > 1e-6 * model.objective_


def test_columns_may_be_named(tmp_path):
    X, y = waves(60)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=y, w=np.arange(60) % 3)
    expected = LPMachineRegressor(gamma=GAMMA).fit(X, y, sample_weight=np.arange(60) % 3)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for source in (frame, tmp_path / "rows.csv"):
        model = LPMachineRegressor(gamma=GAMMA).fit(source, target="y", weight="w")
        np.testing.assert_allclose(model.predict(frame[["a", "b"]]), expected.predict(X))


def test_highspy_missing(monkeypatch):
    X, y = moons(40)
    expected = LPMachineClassifier(gamma=GAMMA, solver="linprog").fit(X, y)
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(ImportError, match=r'pip install "pursuit\[lp\]"'):
        LPMachineClassifier(solver="highs").fit(X, y)
    found = LPMachineClassifier(gamma=GAMMA).fit(X, y)
    np.testing.assert_array_equal(found.dual_coef_, expected.dual_coef_)
