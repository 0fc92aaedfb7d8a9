"""What a user who comes from scikit-learn expects: methods, shapes, warnings and refusals by name."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from pursuit import (
    FullScaleGPClassifier,
    HullBoostClassifier,
    HullMixture,
    KernelMatchingPursuitClassifier,
    SpanNeighbors,
    SparseGPClassifier,
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
