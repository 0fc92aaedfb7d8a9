"""Kernel matching pursuit: what is chosen, how many, and what the estimators promise."""

import pickle
import signal
import warnings

import numpy as np
import oracles
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pursuit import (
    KernelMatchingPursuitClassifier,
    KernelMatchingPursuitRegressor,
    Search,
    SparseGPRegressor,
    pairwise,
)
from pursuit.bounds import matching_pursuit_bound
from pursuit.estimators.matching import search as matching_search
from pursuit.rows import draw_rows

SCALE = 0.8


def waves(m, seed=0, n_outputs=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 2))
    Y = np.column_stack([np.sin(2 * X[:, 0]) + 3.0, X[:, 0] * X[:, 1]])
    Y += 0.2 * rng.normal(size=Y.shape)
    return X, Y[:, 0] if n_outputs is None else Y[:, :n_outputs]


def kernel(A, B=None):
    return oracles.kernel_matrix("gaussian", SCALE, A, A if B is None else B)


def fitted_values(K, y, w, S, intercept=True):
    """f on the rows by least squares on the columns S and a constant."""
    columns = [np.ones(len(K))] if intercept else []
    F = np.column_stack([*columns, *K[:, S].T])
    root = np.sqrt(w)[:, None]
    beta = np.linalg.lstsq(root * F, root[:, 0] * y, rcond=None)[0]
    return F @ beta


# Which functions


def naive_prefit(K, y, w, n, intercept):
    S = []
    for _ in range(n):
        free = [j for j in range(len(K)) if j not in S]
        left = [w @ (y - fitted_values(K, y, w, [*S, j], intercept)) ** 2 for j in free]
        S.append(free[int(np.argmin(left))])
    return S


def naive_backfit(K, y, w, n, intercept):
    S, f = [], np.full(len(y), np.average(y, weights=w)) if intercept else np.zeros(len(y))
    for _ in range(n):
        aligned = (K.T @ (w * (y - f))) ** 2 / (w @ K**2)
        aligned[S] = -1
        S.append(int(np.argmax(aligned)))
        f = fitted_values(K, y, w, S, intercept)
    return S


@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_functions_are_those_of_a_naive_loop(seed, intercept, weighted):
    X, y = waves(20, seed)
    w = np.random.default_rng(seed).uniform(0.5, 2.0, 20) if weighted else np.ones(20)
    for fitting, naive in (("prefit", naive_prefit), ("backfit", naive_backfit)):
        model = KernelMatchingPursuitRegressor(
            RBF(SCALE), n_basis=4, fitting=fitting, fit_intercept=intercept
        ).fit(X, y, sample_weight=w)
        S = naive(kernel(X), y, w, 4, intercept)
        assert model.basis_indices_.tolist() == S
        for n in (1, 3, 4):
            f = fitted_values(kernel(X), y, w, S[:n], intercept)
            np.testing.assert_allclose(model.truncated(n).predict(X), f, atol=1e-6)
            assert model.path_.value[n - 1] == pytest.approx(0.5 * w @ (y - f) ** 2, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_pre_fitting_is_sparse_greedy_gp_as_the_noise_vanishes(seed):
    X, y = waves(120, seed)
    ours = KernelMatchingPursuitRegressor(RBF(SCALE), n_basis=15, fit_intercept=False).fit(X, y)
    theirs = SparseGPRegressor(
        RBF(SCALE),
        noise=1e-9,
        n_basis=15,
        search="full",
        optimizer=None,
        calibration=None,
        normalize_y=False,
        certificate=None,
    ).fit(X, y)
    assert ours.basis_indices_.tolist() == theirs.basis_indices_.tolist()
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-4)


def test_basic_never_refits_what_it_has():
    X, y = waves(80)
    model = KernelMatchingPursuitRegressor(
        RBF(SCALE), n_basis=6, fitting="basic", fit_intercept=False
    ).fit(X, y)
    K, r, S, beta = kernel(X), y.copy(), [], np.zeros(80)
    while len(S) < 6:
        j = int(np.argmax((K.T @ r) ** 2 / (K**2).sum(axis=0)))
        step = K[:, j] @ r / (K[:, j] @ K[:, j])
        beta[j] += step
        r -= step * K[:, j]
        S += [j] if j not in S else []
    assert model.basis_indices_.tolist() == S
    np.testing.assert_allclose(model.dual_coef_, beta[S], rtol=1e-8)
    refitted = KernelMatchingPursuitRegressor(
        RBF(SCALE), n_basis=6, fitting="backfit", fit_intercept=False
    ).fit(X, y)
    assert refitted.path_.value[-1] < model.path_.value[-1]


def test_refits_every_few_steps():
    X, y = waves(150)
    options = {"n_basis": 12, "fitting": "backfit"}
    often, seldom = (
        KernelMatchingPursuitRegressor(RBF(SCALE), refit_every=p, **options).fit(X, y)
        for p in (1, 4)
    )
    assert often.basis_indices_.tolist() != seldom.basis_indices_.tolist()
    f = fitted_values(kernel(X), y, np.ones(150), seldom.basis_indices_)
    np.testing.assert_allclose(seldom.predict(X), f, atol=1e-6)


def test_several_kernels_at_once():
    X, y = waves(60)
    model = KernelMatchingPursuitRegressor([RBF(0.5), RBF(3.0)], n_basis=5).fit(X, y)
    columns = np.hstack([oracles.kernel_matrix("gaussian", s, X, X) for s in (0.5, 3.0)])
    S = []
    for _ in range(5):
        free = [j for j in range(120) if j not in S]
        left = [np.sum((y - fitted_values(columns, y, np.ones(60), [*S, j])) ** 2) for j in free]
        S.append(free[int(np.argmin(left))])
    assert model.basis_indices_.tolist() == [j % 60 for j in S]
    assert model.basis_kernels_.tolist() == [j // 60 for j in S]
    assert set(model.basis_kernels_) == {0, 1}
    f = fitted_values(columns, y, np.ones(60), S)
    np.testing.assert_allclose(model.predict(X), f, atol=1e-6)
    assert len(model.kernel_) == 2


def test_centres_of_ones_own():
    X, y = waves(60)
    centers = np.random.default_rng(1).normal(size=(15, 2))
    search = Search("pooled", candidates=centers)
    model = KernelMatchingPursuitRegressor(RBF(SCALE), n_basis=5, search=search).fit(X, y)
    assert model.basis_indices_.tolist() == [-1] * 5
    assert all((centers == point).all(axis=1).any() for point in model.basis_)
    assert "if the candidates were fixed before" in str(model.generalization_bound_)
    expected = matching_pursuit_bound(
        np.arange(1, 6), _errors(model, X, y), 60, 0.05, n_atoms=15, rows_used=np.zeros(5)
    )
    np.testing.assert_allclose(model.generalization_bound_.value, expected, rtol=1e-12)


def _errors(model, X, y, w=None):
    """Errors outside the basis for every size, counted row by row."""
    w = np.ones(len(y)) if w is None else w
    counts = []
    for n in range(1, model.n_basis_ + 1):
        missed = np.abs(model.truncated(n).predict(X) - y) > model.error_tol_
        inside = np.isin(np.arange(len(y)), model.basis_indices_[:n])
        counts.append(float(np.sum((w - inside) * missed)))
    return np.array(counts)


# How many


def test_the_bound_counts_errors_outside_the_basis():
    X, y = waves(100)
    model = KernelMatchingPursuitRegressor(RBF(SCALE), n_basis=12, error_tol=0.3).fit(X, y)
    errors = _errors(model, X, y)
    assert errors.min() < errors.max()
    for name, printed in (("generalization_bound_", False), ("printed_bound_", True)):
        expected = matching_pursuit_bound(np.arange(1, 13), errors, 100, 0.05, printed=printed)
        np.testing.assert_allclose(getattr(model, name).value, expected, rtol=1e-12)
    assert np.all(model.generalization_bound_.value <= model.printed_bound_.value)
    assert model.generalization_bound_.confidence == 0.95


def test_a_row_of_weight_two_counts_twice_in_the_bound():
    X, y = waves(80)
    w = np.random.default_rng(0).integers(1, 4, 80).astype(float)
    model = KernelMatchingPursuitRegressor(RBF(SCALE), n_basis=8, error_tol=0.2)
    model.fit(X, y, sample_weight=w)
    copies = np.repeat(np.arange(80), w.astype(int))
    twin = clone(model).fit(X[copies], y[copies])
    np.testing.assert_allclose(model.printed_bound_.value, twin.printed_bound_.value, rtol=1e-9)
    assert "counts as w rows" in str(model.printed_bound_)
    np.testing.assert_allclose(model.predict(X), twin.predict(X), atol=1e-8)


def test_weights_that_are_shares():
    X, y = waves(200)
    plain = KernelMatchingPursuitRegressor(RBF(SCALE)).fit(X, y)
    shares = KernelMatchingPursuitRegressor(RBF(SCALE)).fit(X, y, sample_weight=np.full(200, 1e-6))
    assert shares.n_basis_ == plain.n_basis_
    np.testing.assert_allclose(shares.printed_bound_.value, plain.printed_bound_.value)


def test_a_size_chosen_by_the_bound_is_its_minimum():
    X, y = waves(400)
    model = KernelMatchingPursuitRegressor(RBF(SCALE)).fit(X, y)
    bound = model.printed_bound_
    assert model.n_basis_ == bound.best + 1 < len(bound.size)
    assert len(bound.size) - model.n_basis_ == max(10, model.n_basis_)
    assert model.path_.stop_reason == "bound"
    assert model.error_tol_ == pytest.approx(0.25 * y.std())
    longer = KernelMatchingPursuitRegressor(RBF(SCALE), n_basis=len(bound.size)).fit(X, y)
    np.testing.assert_allclose(longer.printed_bound_.value, bound.value, rtol=1e-9)
    np.testing.assert_allclose(longer.truncated(model.n_basis_).predict(X), model.predict(X))


def test_a_bound_that_says_nothing_says_so():
    X, y = waves(400)
    model = KernelMatchingPursuitRegressor(RBF(SCALE)).fit(X, y)
    assert model.generalization_bound_.vacuous.all()
    said = str(model.generalization_bound_)
    assert "this is vacuous: 1 is known without it" in said
    assert "if an error_tol of sd(y)/4 had been fixed before y was seen" in said


def test_a_bound_that_says_something():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 1))
    y = X[:, 0] + 0.05 * rng.normal(size=3000)
    model = KernelMatchingPursuitRegressor(RBF(1.0), error_tol=0.5).fit(X, y)
    at = model.generalization_bound_.value[model.n_basis_ - 1]
    assert at < 0.1
    assert "by more than 0.5" in str(model.generalization_bound_)
    assert "sd(y)" not in str(model.generalization_bound_)


def test_the_bound_holds(size):
    """Violated in at most δ of simulated fits, each judged on fresh rows; and it is not vacuous."""
    n_fits, violated, informative = size(60, 1000), 0, 0
    for seed in range(n_fits):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-2, 2, (6000, 1))
        y = np.sin(2 * X[:, 0]) + 0.4 * rng.standard_t(3, 6000)
        model = KernelMatchingPursuitRegressor(
            RBF(0.7),
            n_basis=4,
            error_tol=1.5,
            delta=0.1,
            search=Search("pooled", pool_size=100),
            n_jobs=1,
        ).fit(X[:1000], y[:1000])
        missed = np.mean(np.abs(model.predict(X[1000:]) - y[1000:]) > 1.5)
        bound = model.generalization_bound_.value[-1]
        violated += missed > bound
        informative += bound < 1
    assert violated <= 0.1 * n_fits
    assert informative >= 0.9 * n_fits


def test_a_size_chosen_on_rows_set_aside():
    X, y = waves(400)
    model = KernelMatchingPursuitRegressor(RBF(SCALE), n_basis="validation", random_state=0)
    model.fit(X, y)
    assert model.path_.stop_reason == "no gain"
    same = KernelMatchingPursuitRegressor(RBF(SCALE), n_basis=model.n_basis_).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), same.predict(X))
    assert len(model.generalization_bound_.size) == model.n_basis_
    # The split that this seed draws.
    seed = np.random.RandomState(0).randint(2**31 - 1, size=4)
    held = draw_rows(400, 80, np.random.default_rng(seed))
    kept = np.setdiff1d(np.arange(400), held)
    others = KernelMatchingPursuitRegressor(RBF(SCALE), n_basis=2 * model.n_basis_)
    others.fit(X[kept], y[kept])
    errors = [
        np.sum((others.truncated(n).predict(X[held]) - y[held]) ** 2)
        for n in range(1, others.n_basis_ + 1)
    ]
    assert int(np.argmin(errors)) + 1 == model.n_basis_


# Sizes and searches


def test_many_rows_are_sketched_and_all_are_fitted():
    X, y = waves(6000)
    model = KernelMatchingPursuitRegressor(
        RBF(SCALE), n_basis=10, search=Search("pooled", pool_size=200, rows=500), random_state=0
    ).fit(X, y)
    f = fitted_values(
        np.column_stack([*kernel_columns(X, model.basis_)]), y, np.ones(6000), range(10)
    )
    np.testing.assert_allclose(model.predict(X), f, atol=1e-6)
    assert model.path_.value[-1] == pytest.approx(0.5 * np.sum((y - f) ** 2), rel=1e-8)
    on_all = KernelMatchingPursuitRegressor(
        RBF(SCALE), n_basis=10, search=Search("pooled", pool_size=200, rows="all"), random_state=0
    ).fit(X, y)
    assert on_all.path_.value[-1] < 1.2 * model.path_.value[-1]


def kernel_columns(X, Z):
    return [np.exp(-np.sum((X - z) ** 2, axis=1) / (2 * SCALE**2)) for z in Z]


def test_many_rows_are_searched_by_a_pool(monkeypatch):
    monkeypatch.setattr(matching_search, "FULL_ROWS", 300)
    monkeypatch.setattr(matching_search, "_POOL", 50)
    X, y = waves(400)
    few, *many = (
        KernelMatchingPursuitRegressor(RBF(SCALE), n_basis=5, random_state=seed).fit(X[:m], y[:m])
        for m, seed in ((300, 0), (400, 0), (400, 0), (400, 1))
    )
    for search in (Search("pooled", pool_size=300), "full"):
        whole = KernelMatchingPursuitRegressor(RBF(SCALE), n_basis=5, search=search)
        assert few.basis_indices_.tolist() == whole.fit(X[:300], y[:300]).basis_indices_.tolist()
    assert many[0].basis_indices_.tolist() == many[1].basis_indices_.tolist()
    assert many[0].basis_indices_.tolist() != many[2].basis_indices_.tolist()
    # One pass over the hundred rows that choose, then one over all rows for the fit.
    assert many[0].path_.passes[-1] == pytest.approx(100 / 400)


@pytest.mark.parametrize("fitting", ["prefit", "backfit", "basic"])
def test_threads_do_not_change_a_bit(fitting):
    X, y = waves(1500)
    one, three = (
        KernelMatchingPursuitRegressor(RBF(SCALE), fitting=fitting, n_jobs=n).fit(X, y)
        for n in (1, 3)
    )
    assert np.array_equal(one.predict(X), three.predict(X))
    assert np.array_equal(one.printed_bound_.value, three.printed_bound_.value)


def test_truncation_is_a_fit_of_that_size():
    X, y = waves(200, n_outputs=2)
    for fitting in ("prefit", "backfit", "basic"):
        options = {"kernel": RBF(SCALE), "fitting": fitting}
        small, large = (
            KernelMatchingPursuitRegressor(n_basis=n, **options).fit(X, y) for n in (5, 9)
        )
        cut = large.truncated(5)
        np.testing.assert_allclose(cut.predict(X), small.predict(X), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(cut.path_.value, small.path_.value, rtol=1e-10)
        np.testing.assert_allclose(cut.printed_bound_.value, small.printed_bound_.value)
        assert (cut.n_basis_, large.n_basis_) == (5, 9)
    for wrong in (0, 10, 2.5):
        with pytest.raises(ValueError, match="n must be a whole number from 1 to 9"):
            large.truncated(wrong)


def test_several_outputs_share_a_basis():
    X, Y = waves(150, n_outputs=2)
    model = KernelMatchingPursuitRegressor(RBF(SCALE), n_basis=10).fit(X, Y)
    assert model.dual_coef_.shape == (10, 2)
    assert model.intercept_.shape == model.error_tol_.shape == (2,)
    for column in range(2):
        f = fitted_values(kernel(X), Y[:, column], np.ones(150), model.basis_indices_)
        np.testing.assert_allclose(model.predict(X)[:, column], f, atol=1e-6)


# Inputs


@pytest.mark.parametrize("kind", [np.float32, "csr", "frame", "list"])
def test_kinds_of_rows(kind):
    X, y = waves(80)
    X = np.round(X, 2)
    given = {
        "csr": lambda: sparse.csr_array(X),
        "frame": lambda: pd.DataFrame(X, columns=["a", "b"]),
        "list": X.tolist,
    }.get(kind, lambda: X.astype(kind))()
    options = {"kernel": RBF(SCALE), "n_basis": 6}
    model = KernelMatchingPursuitRegressor(**options).fit(given, y)
    plain = KernelMatchingPursuitRegressor(**options).fit(X, y)
    assert model.basis_indices_.tolist() == plain.basis_indices_.tolist()
    np.testing.assert_allclose(model.predict(given), plain.predict(X), rtol=1e-4)
    if kind == "frame":
        assert model.feature_names_in_.tolist() == ["a", "b"]


def test_precomputed_kernel():
    X, y = waves(80)
    new = waves(10, seed=4)[0]
    plain = KernelMatchingPursuitRegressor(RBF(SCALE), n_basis=6).fit(X, y)
    model = KernelMatchingPursuitRegressor("precomputed", n_basis=6).fit(kernel(X), y)
    assert model.basis_ is None
    assert model.basis_indices_.tolist() == plain.basis_indices_.tolist()
    np.testing.assert_allclose(model.predict(kernel(new, X)), plain.predict(new), rtol=1e-8)


def test_strings_and_kernels_that_are_not_definite():
    words = ["aab", "abb", "ccc", "cca", "bbb", "acb", "cab", "bac"]
    y = np.array([w.count("a") for w in words], dtype=float)

    def distance(a, b):
        return -float(sum(x != z for x, z in zip(a, b, strict=True)))

    overlap = pairwise(lambda a, b: float(len(set(a) & set(b))))
    model = KernelMatchingPursuitRegressor([pairwise(distance), overlap], n_basis=4).fit(words, y)
    assert model.score(words, y) > 0.5
    assert isinstance(model.basis_, list)
    assert isinstance(model.predict(["abc"])[0], float)


def test_rows_of_no_weight_are_absent():
    X, y = waves(60)
    w = np.ones(60)
    w[::3] = 0
    model = KernelMatchingPursuitRegressor(RBF(SCALE), n_basis=6).fit(X, y, sample_weight=w)
    kept = np.flatnonzero(w)
    twin = KernelMatchingPursuitRegressor(RBF(SCALE), n_basis=6).fit(X[kept], y[kept])
    assert model.basis_indices_.tolist() == kept[twin.basis_indices_].tolist()
    np.testing.assert_allclose(model.predict(X), twin.predict(X), rtol=1e-10)


def test_as_a_part_of_scikit_learn():
    X, y = waves(150)
    pipeline = make_pipeline(StandardScaler(), KernelMatchingPursuitRegressor())
    grid = {
        "kernelmatchingpursuitregressor__kernel": [RBF(0.5), Matern(1.0, nu=1.5), ["rbf", "linear"]]
    }
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.5
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert np.array_equal(again.predict(X), search.predict(X))


# Wrong calls


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delta": 0.0}, "'delta'"),
        ({"delta": 1.0}, "'delta'"),
        ({"error_tol": 0.0}, "'error_tol'"),
        ({"error_tol": "wide"}, "'error_tol'"),
        ({"n_basis": "auto"}, "'n_basis'.*'bound'"),
        ({"n_basis": 0}, "'n_basis'"),
        ({"fitting": "orthogonal"}, "'fitting'.*'backfit'"),
        ({"refit_every": 0}, "'refit_every'"),
        ({"refit_every": 2}, "refit_every=2 has no effect on fitting='prefit'"),
        ({"refit_every": 2, "fitting": "basic"}, "refit_every=2 has no effect on fitting='basic'"),
        ({"validation_fraction": 1.0}, "'validation_fraction'"),
        ({"validation_fraction": 0.3}, "validation_fraction=0.3 has no effect on n_basis='bound'"),
        ({"n_basis": 3, "validation_fraction": 0.3}, "has no effect on n_basis=3"),
        ({"search": "fresh"}, "'search' parameter"),
        ({"search": Search("fresh")}, "searches by 'pooled', 'full' only"),
        ({"search": Search("full", rows=9)}, "rows has no effect on a full search"),
        ({"search": Search("pooled", rounds=2)}, "rounds has no effect on a pooled search"),
        ({"search": Search(candidates="kmeans")}, "'kmeans' would make the dictionary depend"),
        ({"fitting": "basic", "search": Search(rows=9)}, "all rows choose: leave rows out"),
        ({"max_time": 0}, "'max_time'"),
        ({"checkpoint": 0}, "'checkpoint'"),
        ({"kernel": []}, "kernel is an empty list"),
        ({"kernel": ["rbf", "precomputed"]}, "stands alone"),
        (
            {"kernel": "precomputed", "search": Search(candidates=[[0.0, 1.0]])},
            "leave candidates out of the search",
        ),
        (
            {"search": Search(candidates=[[0.0, 1.0, 2.0]])},
            "candidates has 3 features, but the rows have 2",
        ),
        ({"search": Search(candidates=np.empty((0, 2)))}, "candidates holds no points"),
        ({"kernel": "gaussian"}, "kernel='gaussian' is not a known name"),
    ],
)
def test_wrong_arguments(arguments, message):
    X, y = waves(20)
    if arguments.get("kernel") == "precomputed":
        X = kernel(X)
    with pytest.raises(ValueError, match=message):
        KernelMatchingPursuitRegressor(**arguments).fit(X, y)


def test_full_search_of_too_many_rows(monkeypatch):
    monkeypatch.setattr(matching_search, "FULL_LIMIT", 50)
    X, y = waves(60)
    with pytest.raises(ValueError, match="search='full' takes at most 50 rows, got 60"):
        KernelMatchingPursuitRegressor(search="full").fit(X, y)


def test_a_tolerance_that_makes_every_row_an_error():
    X, y = waves(100)
    said = r"every row .* is an error .* n_basis='validation'"
    with pytest.warns(UserWarning, match=said) as record:
        model = KernelMatchingPursuitRegressor(RBF(SCALE), error_tol=1e-12).fit(X, y)
    assert record[0].filename == __file__
    assert model.n_basis_ == 1
    assert np.isinf(model.generalization_bound_.value).all()
    assert "vacuous" in str(model.generalization_bound_)
    asked = KernelMatchingPursuitRegressor(
        RBF(SCALE), error_tol=1e-12, n_basis="validation", random_state=0
    ).fit(X, y)
    assert asked.n_basis_ > 1


def test_nothing_to_choose_from():
    with pytest.raises(ValueError, match="there is nothing to choose"):
        KernelMatchingPursuitRegressor("linear").fit(np.zeros((5, 2)), np.arange(5.0))


def test_interrupted_by_the_user():
    X, y = waves(60)

    def interrupting(A, B):
        if len(B) == 60:
            signal.raise_signal(signal.SIGINT)
        return kernel(np.asarray(A), np.asarray(B))

    model = KernelMatchingPursuitRegressor(interrupting, n_basis=20, n_jobs=1)
    with (
        pytest.warns(UserWarning, match="holds the best 1 basis functions found so far"),
        pytest.raises(KeyboardInterrupt),
    ):
        model.fit(X, y)
    assert model.path_.stop_reason == "interrupted"
    assert model.predict(X).shape == (60,)


def test_before_a_fit():
    for method in ("predict", "truncated"):
        with pytest.raises(NotFittedError):
            getattr(KernelMatchingPursuitRegressor(), method)(1)


# Classes


def naive_margin_errors(model, X, y):
    """Rows outside the basis whose margin is at most 1 - error_tol, for every size."""
    counts = []
    for n in range(1, model.n_basis_ + 1):
        f = model.truncated(n).decision_function(X)
        margins = []
        for row, label in enumerate(y):
            own = int(np.flatnonzero(model.classes_ == label)[0])
            if f.ndim == 1:
                margins.append(f[row] if own == 1 else -f[row])
            else:
                margins.append((f[row, own] - np.delete(f[row], own).max()) / 2)
        inside = np.isin(np.arange(len(y)), model.basis_indices_[:n])
        counts.append(np.sum((np.array(margins) <= 1 - model.error_tol_) & ~inside))
    return np.array(counts, dtype=float)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("error_tol", ["auto", 1.0])
def test_two_classes(loss, error_tol):
    X, y = make_moons(300, noise=0.25, random_state=0)
    labels = np.array(["no", "yes"])[y]
    model = KernelMatchingPursuitClassifier(
        RBF(SCALE), loss=loss, n_basis=8, error_tol=error_tol
    ).fit(X, labels)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(X, labels) > 0.9
    assert model.decision_function(X).shape == (300,)
    assert np.array_equal(model.predict(X) == "yes", model.decision_function(X) > 0)
    errors = naive_margin_errors(model, X, labels)
    expected = matching_pursuit_bound(np.arange(1, 9), errors, 300, 0.05, n_hyperplanes=1)
    np.testing.assert_allclose(model.generalization_bound_.value, expected, rtol=1e-10)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_three_classes_share_a_basis(loss):
    X, y = load_iris(return_X_y=True)
    model = KernelMatchingPursuitClassifier(RBF(2.0), loss=loss, n_basis=6).fit(X, y)
    assert model.dual_coef_.shape == (6, 3)
    assert model.score(X, y) > 0.95
    errors = naive_margin_errors(model, X, y)
    expected = matching_pursuit_bound(
        np.arange(1, 7), errors, 150, 0.05, n_hyperplanes=2, n_columns=2
    )
    np.testing.assert_allclose(model.generalization_bound_.value, expected, rtol=1e-10)


def test_squared_loss_is_regression_on_signs():
    X, y = make_moons(200, noise=0.2, random_state=1)
    model = KernelMatchingPursuitClassifier(RBF(SCALE), n_basis=7).fit(X, y)
    twin = KernelMatchingPursuitRegressor(RBF(SCALE), n_basis=7).fit(X, 2.0 * y - 1)
    assert model.basis_indices_.tolist() == twin.basis_indices_.tolist()
    np.testing.assert_allclose(model.decision_function(X), twin.predict(X), atol=1e-8)


def test_probabilities():
    X, y = make_moons(400, noise=0.3, random_state=0)
    model = KernelMatchingPursuitClassifier(RBF(SCALE), loss="logistic").fit(X, y)
    p = model.predict_proba(X)
    assert p.shape == (400, 2)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert np.array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    # An unpenalised intercept makes the mean probability the share of the class.
    assert p[:, 1].mean() == pytest.approx(y.mean(), abs=1e-3)
    X, y = load_iris(return_X_y=True)
    p = (
        KernelMatchingPursuitClassifier(RBF(2.0), loss="logistic", n_basis=8)
        .fit(X, y)
        .predict_proba(X)
    )
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert np.mean(p.argmax(axis=1) == y) > 0.95


def test_logistic_coefficients_are_best_in_their_span():
    X, y = make_moons(200, noise=0.3, random_state=2)
    for every in (1, 3):
        model = KernelMatchingPursuitClassifier(
            RBF(SCALE), loss="logistic", n_basis=5, refit_every=every
        ).fit(X, y)
        f, sign = model.decision_function(X), 2.0 * y - 1
        slope = -sign / (1 + np.exp(sign * f))
        F = np.column_stack([np.ones(200), kernel(X)[:, model.basis_indices_]])
        assert np.abs(F.T @ slope).max() < 0.05
        assert model.path_.value[-1] == pytest.approx(np.logaddexp(0, -sign * f).sum(), rel=1e-8)


def test_logistic_with_more_rows_than_choose():
    X, y = make_moons(3000, noise=0.3, random_state=0)
    model = KernelMatchingPursuitClassifier(
        RBF(SCALE),
        loss="logistic",
        n_basis=6,
        search=Search("pooled", pool_size=100, rows=300),
        random_state=0,
    ).fit(X, y)
    sign = 2.0 * y - 1
    slope = -sign / (1 + np.exp(sign * model.decision_function(X)))
    F = np.column_stack([np.ones(3000), *kernel_columns(X, model.basis_)])
    assert np.abs(F.T @ slope).max() < 0.2
    assert model.score(X, y) > 0.88


def test_logistic_that_would_fill_the_memory(monkeypatch):
    monkeypatch.setattr(matching_search, "_STORED_VALUES", 1000)
    X, y = make_moons(60, random_state=0)
    with pytest.raises(ValueError, match=r"use Search\('pooled', pool_size=..., rows=...\)"):
        KernelMatchingPursuitClassifier(loss="logistic").fit(X, y)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_classes_far_apart(loss):
    X = np.concatenate([np.random.default_rng(0).normal(size=(50, 2)) + s for s in (0, 50)])
    y = np.repeat([0, 1], 50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KernelMatchingPursuitClassifier(RBF(20.0), loss=loss).fit(X, y)
    assert model.score(X, y) == 1.0
    assert np.isfinite(model.dual_coef_).all()


def test_classifier_refuses():
    X, y = make_moons(40, random_state=0)
    with pytest.raises(ValueError, match="y holds one class only, 1: at least two classes"):
        KernelMatchingPursuitClassifier().fit(X[y == 1], y[y == 1])
    with pytest.raises(ValueError, match="y holds one class only, 0"):
        KernelMatchingPursuitClassifier().fit(X, y, sample_weight=1.0 - y)
    with pytest.raises(ValueError, match="fitting='basic' needs loss='squared'"):
        KernelMatchingPursuitClassifier(loss="logistic", fitting="basic").fit(X, y)
    with pytest.raises(ValueError, match=r"'loss'.*'logistic'"):
        KernelMatchingPursuitClassifier(loss="hinge").fit(X, y)
    with pytest.raises(ValueError, match="Unknown label type"):
        KernelMatchingPursuitClassifier().fit(X, y + 0.5)
    squared = KernelMatchingPursuitClassifier(n_basis=5).fit(X, y)
    assert not hasattr(squared, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        squared.predict_proba(X)
