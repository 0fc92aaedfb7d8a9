"""A few rows of a plain array take a shorter way: the same numbers, the same refusals."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from pursuit import (
    ExactGPRegressor,
    GreedyFeatureMap,
    HullRegressor,
    KernelMatchingPursuitRegressor,
    LowRankOneClassSVM,
    LowRankSVC,
    LowRankSVR,
    LPMachineRegressor,
    SpanNeighbors,
    SparseGPClassifier,
    SparseGPRegressor,
    SparseKernelRidge,
    limits,
)

MODELS = {
    "gp": SparseGPRegressor("rbf", gamma=0.7, noise=0.1, n_basis=30, random_state=0),
    "gp-classes": SparseGPClassifier("rbf", gamma=0.7, optimizer=None, n_basis=30, random_state=0),
    "ridge": SparseKernelRidge("rbf", gamma=0.7, n_basis=30, random_state=0),
    "matching": KernelMatchingPursuitRegressor("rbf", gamma=0.7, n_basis=10, random_state=0),
    "svc": LowRankSVC("rbf", gamma=0.7, n_basis=30, random_state=0),
    "svr": LowRankSVR("rbf", gamma=0.7, n_basis=30, random_state=0),
    "one-class": LowRankOneClassSVM("rbf", gamma=0.7, n_basis=30, random_state=0),
    "lp": LPMachineRegressor("rbf", gamma=0.7, random_state=0),
    "exact": ExactGPRegressor("rbf", gamma=0.7, noise=0.1, random_state=0),
}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    classes = request.param in ("gp-classes", "svc")
    return MODELS[request.param].fit(X, y > 0 if classes else y), X


def values(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def test_one_row_is_what_it_is_among_many(fitted):
    model, X = fitted
    many = values(model, X)
    one = np.concatenate([values(model, row[None]) for row in X[:20]])
    np.testing.assert_allclose(one, many[:20], rtol=0, atol=1e-12 * np.abs(many).max())


def test_error_bars_of_one_row_are_what_they_are_among_many():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1]])
    for y in (Y, Y[:, 0]):
        model = SparseGPRegressor("rbf", gamma=0.7, noise=0.1, n_basis=30).fit(X, y)
        for include_noise in (True, False):
            _, many = model.predict(X, return_std=True, include_noise=include_noise)
            for i in range(5):
                _, one = model.predict(X[[i]], return_std=True, include_noise=include_noise)
                np.testing.assert_allclose(one, many[[i]], rtol=1e-10)


def test_probabilities_of_one_row_are_what_they_are_among_many():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 3))
    for y in (X[:, 0] > 0, np.digitize(X[:, 0], [-0.5, 0.5])):
        model = clone(MODELS["gp-classes"]).fit(X, y)
        many = model.predict_proba(X)
        one = np.concatenate([model.predict_proba(row[None]) for row in X[:5]])
        np.testing.assert_allclose(one, many[:5], rtol=0, atol=1e-12)
        with pytest.raises(ValueError, match="contains NaN"):
            model.predict_proba(np.full((1, 3), np.nan))


def test_threads_begin_where_there_is_work_for_them(fitted, monkeypatch):
    """Rows up to a tile of kernel values are predicted at once, more of them in blocks."""
    model, X = fitted
    whole = values(model, X)
    monkeypatch.setattr(limits, "TILE_ENTRIES", 50 * len(model._bound.points))
    assert model._bound_for(X[:50]) is not None
    assert model._bound_for(X[:51]) is None
    np.testing.assert_allclose(values(model, X), whole, rtol=0, atol=1e-12 * np.abs(whole).max())


def test_a_model_before_its_fit_is_refused(fitted):
    model, X = fitted
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        values(clone(model), X[:1])


def test_copies_of_a_model_agree(fitted):
    model, X = fitted
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(values(again, X[:5]), values(model, X[:5]))


def test_parameters_set_after_fit_wait_for_the_next_fit(fitted):
    model, X = fitted
    before = values(model, X), values(model, X[:1])
    model.set_params(gamma=5.0)
    try:
        np.testing.assert_array_equal(values(model, X), before[0])
        np.testing.assert_array_equal(values(model, X[:1]), before[1])
    finally:
        model.set_params(gamma=0.7)


def test_what_is_not_plain_goes_the_long_way(fitted):
    model, X = fitted
    few = values(model, X[:3])
    for other in (X[:3].tolist(), np.asfortranarray(X[:3]), X[:6:2]):
        np.testing.assert_allclose(values(model, other)[:1], few[:1], rtol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((2, 4)), "X has 4 features, but .* expecting 3 features"),
        (np.full((1, 3), np.nan), "contains NaN"),
        (np.zeros(3), "Expected 2D array"),
        (np.zeros((0, 3)), "Found array with 0 sample"),
    ],
)
def test_bad_rows_are_refused_as_ever(fitted, wrong, message):
    model, _ = fitted
    with pytest.raises(ValueError, match=message):
        values(model, wrong)


@pytest.mark.parametrize(
    "model",
    [
        ExactGPRegressor("rbf", gamma=0.7, noise=0.1),
        HullRegressor(gamma=0.7, radius=3.0),
        GreedyFeatureMap("rbf", gamma=0.7, n_components=10, random_state=0),
        SpanNeighbors("rbf", gamma=0.7, n_components=10, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_these_keep_the_parameters_of_their_fit_as_well(model):
    X = np.random.default_rng(2).normal(size=(60, 3))
    answer = {
        "ExactGPRegressor": lambda m: m.predict(X[:9]),
        "HullRegressor": lambda m: m.predict(X[:9]),
        "GreedyFeatureMap": lambda m: m.transform(X[:9]),
        "SpanNeighbors": lambda m: m.kneighbors(X[:9] + 0.1)[0],
    }[type(model).__name__]
    fitted = clone(model).fit(X, X[:, 0])
    before = answer(fitted)
    fitted.set_params(gamma=5.0)
    np.testing.assert_array_equal(answer(fitted), before)
    assert not np.allclose(answer(fitted.fit(X, X[:, 0])), before)
