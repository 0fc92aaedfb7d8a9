"""n_basis="auto": where the error on rows left out, or the log loss of classes, flattens."""

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import log_loss

from pursuit import Search, SparseGPClassifier, SparseGPRegressor
from pursuit.estimators.span import search as searching


@pytest.mark.parametrize("m", [200, 2200])
def test_classes_stop_where_log_loss_does(m):
    """200 rows are left out in turn, of 2 200 some are reserved."""
    X, labels = make_moons(m + 1000, noise=0.3, random_state=0)
    options = {"optimizer": None, "scale": 30.0, "search": Search(pool_size=100), "random_state": 0}
    auto = SparseGPClassifier(RBF(0.5), n_basis="auto", **options).fit(X[:m], labels[:m])
    assert auto.path_.stop_reason == "no gain"
    assert 4 <= auto.n_basis_ <= 40
    # Without it, all that a small basis misses would count as doubt.
    assert auto.calibration_ is not None
    large = SparseGPClassifier(RBF(0.5), n_basis=80, calibration="loo", **options)
    losses = [
        log_loss(labels[m:], model.predict_proba(X[m:]))
        for model in (auto, large.fit(X[:m], labels[:m]))
    ]
    assert losses[0] < losses[1] + 0.02


@pytest.mark.parametrize("classes", [False, True])
def test_a_size_that_still_gains_is_not_the_last(classes, monkeypatch):
    """Of eight functions nearly all are worth their cost: twice as many are tried, and so on."""
    monkeypatch.setattr(searching, "_FIRST_SIZE", 8)
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (300, 1))
    y = np.sin(40 * X[:, 0])
    options = {"n_basis": "auto", "optimizer": None, "random_state": 0}
    if classes:
        model = SparseGPClassifier(RBF(0.02), scale=30.0, **options).fit(X, y > 0)
        assert model.score(X, y > 0) > 0.95
    else:
        model = SparseGPRegressor(RBF(0.02), noise=1e-2, **options).fit(X, y)
        assert model.score(X, y) > 0.95
    assert model.path_.stop_reason == "no gain"
    assert 8 < model.n_basis_ < 100


def test_a_kernel_that_says_nothing_needs_no_basis():
    X, y = np.zeros((10, 2)), np.arange(10) % 2
    for model in (SparseGPClassifier("linear"), SparseGPRegressor("linear")):
        assert model.set_params(n_basis="auto").fit(X, y).n_basis_ == 0
