"""Bars of canonical correlations."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from pursuit import CorrelationDisplay, SparseKernelCCA


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    Y = np.sin(X) + 0.2 * rng.normal(size=(120, 2))
    return SparseKernelCCA(n_basis=15, n_components=2).fit(X[:80], Y[:80]), X[80:], Y[80:]


def test_bars_show_the_correlations(fitted):
    model, X, Y = fitted
    display = CorrelationDisplay.from_estimator(model, X, Y)
    heights = {name: [bar.get_height() for bar in bars] for name, bars in display.bars_.items()}
    assert heights["training rows"] == pytest.approx(model.canonical_correlations_.tolist())
    assert heights["new rows"] == pytest.approx(model.correlations(X, Y).tolist())
    assert display.ax_.get_xlabel() == "Component"
    assert list(CorrelationDisplay.from_estimator(model).bars_) == ["training rows"]


def test_on_given_axes_with_given_colour(fitted):
    first = CorrelationDisplay.from_estimator(fitted[0])
    again = CorrelationDisplay.from_estimator(fitted[0], ax=first.ax_, color="red")
    assert again.figure_ is first.figure_


def test_wrong_calls_are_named(fitted):
    model, X, _ = fitted
    with pytest.raises(NotFittedError, match="has no canonical_correlations_"):
        CorrelationDisplay.from_estimator(SparseKernelCCA())
    with pytest.raises(ValueError, match="pass both or neither"):
        CorrelationDisplay.from_estimator(model, X)
    with pytest.raises(ValueError, match="all of one length"):
        CorrelationDisplay({"a": [0.1], "b": [0.1, 0.2]}).plot()
