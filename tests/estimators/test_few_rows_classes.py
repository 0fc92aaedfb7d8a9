"""Probabilities of models of few rows: honest on noise, and what stays as it was."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss

import pursuit
from pursuit import HullBoostClassifier, KernelMatchingPursuitClassifier

MODELS = {
    "matching": KernelMatchingPursuitClassifier(loss="logistic", random_state=0),
    "matching by validation": KernelMatchingPursuitClassifier(
        loss="logistic", n_basis="validation", random_state=0
    ),
    "boosting": HullBoostClassifier(n_terms=20, random_state=0),
}


def noise(m, n_classes, seed):
    """Rows that say nothing about their classes, the first of which is frequent."""
    rng = np.random.default_rng(seed)
    shares = np.append(0.6, np.full(n_classes - 1, 0.4 / (n_classes - 1)))
    return rng.standard_normal((m, 5)), rng.choice(n_classes, m, p=shares)


def as_fitted(model, X):
    """Probabilities of log-odds as they are: for two classes."""
    slope = 2.0 * model.scale_ if isinstance(model, HullBoostClassifier) else 1.0
    p = expit(slope * model.decision_function(X))
    return np.column_stack([1.0 - p, p])


@pytest.mark.parametrize("name", MODELS)
def test_probabilities_of_noise_are_hardly_worse_than_frequencies(name):
    """The control: log-odds as they are lose more than twice as much."""
    model, above, control = MODELS[name], [], []
    for seed in range(3):
        X, y = noise(40, 2, seed)
        new, labels = noise(400, 2, 100 + seed)
        model.fit(X, y)
        frequencies = log_loss(labels, np.tile(np.bincount(y) / 40, (400, 1)))
        above.append(log_loss(labels, model.predict_proba(new)) - frequencies)
        control.append(log_loss(labels, as_fitted(model, new)) - frequencies)
    assert np.mean(above) < 0.1
    assert np.mean(control) > 2.0 * np.mean(above)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_calibration_is_printed_saved_and_deterministic(name, n_classes, tmp_path):
    X, y = noise(30, n_classes, 0)
    new, _ = noise(50, n_classes, 1)
    model = MODELS[name].fit(X, y)
    expected = model.predict_proba(new)
    assert "rows left out" in str(model.calibration_)
    model.save(tmp_path / "model.pursuit")
    again = pursuit.load(tmp_path / "model.pursuit")
    assert np.array_equal(again.predict_proba(new), expected)
    assert np.array_equal(MODELS[name].fit(X, y).predict_proba(new), expected)


def test_many_rows_keep_their_log_odds():
    X, y = noise(210, 2, 0)
    options = {"loss": "logistic", "n_basis": 5, "random_state": 0}
    model = KernelMatchingPursuitClassifier(**options).fit(X, y)
    assert model.calibration_ is None
    np.testing.assert_allclose(model.predict_proba(X), as_fitted(model, X), rtol=1e-12)
    few = KernelMatchingPursuitClassifier(**options).fit(X[:190], y[:190])
    assert np.abs(few.predict_proba(X) - as_fitted(few, X)).max() > 0.01
    # Values, and so decisions and the bound, are those of the fit to all rows.
    assert np.array_equal(few.predict(X), few.decision_function(X) > 0)
    squared = KernelMatchingPursuitClassifier(n_basis=5).fit(X[:50], y[:50])
    assert squared.calibration_ is None


@pytest.mark.filterwarnings("ignore:with error_tol='auto' every row:UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_rows_that_cannot_be_left_out(name):
    """One row per class, and rows that differ in one part only."""
    X = np.array([[0.0], [1.0], [3.0]])
    p = MODELS[name].fit(X, [0, 1, 2]).predict_proba(X)
    assert np.isfinite(p).all()
    assert p.max() < 0.99
    X = np.zeros((12, 1))
    X[0] = 1.0
    p = MODELS[name].fit(X, [1, 0] * 6).predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_a_precomputed_matrix_is_calibrated_alike():
    X, y = noise(40, 2, 0)
    options = {"loss": "logistic", "n_basis": 8, "random_state": 0}
    K = np.exp(-0.2 * ((X[:, None] - X) ** 2).sum(axis=2))
    one = KernelMatchingPursuitClassifier("rbf", gamma=0.2, **options).fit(X, y)
    two = KernelMatchingPursuitClassifier("precomputed", **options).fit(K, y)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(K), atol=1e-6)
