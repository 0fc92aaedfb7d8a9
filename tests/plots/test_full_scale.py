"""Displays of a full-scale model: its own predictions, and path and proofs of its global part."""

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF

from pursuit import (
    BoundDisplay,
    CertificateDisplay,
    FullScaleGPRegressor,
    PathDisplay,
    PredictionDisplay,
    RelevanceDisplay,
)

mpl.use("Agg")


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (120, 2))
    y = np.sin(3 * X[:, 0]) + np.sin(12 * X[:, 1])
    model = FullScaleGPRegressor(
        RBF([0.3, 0.5]), optimizer=None, noise=0.1, n_basis=15, n_neighbors=6, random_state=0
    )
    return model.fit(X, y), X, y


def test_the_path_is_that_of_the_global_part(fitted):
    model = fitted[0]
    line = PathDisplay.from_estimator(model).line_
    np.testing.assert_array_equal(line.get_ydata(), model.global_.path_.value)


def test_the_relevance_is_that_of_the_global_part(fitted):
    model, X, _ = fitted
    importance = RelevanceDisplay.from_estimator(model).bars_
    expected = np.sort(model.global_.learning_report_.importance)[::-1]
    np.testing.assert_array_equal([bar.get_width() for bar in importance], expected)
    bars = RelevanceDisplay.from_estimator(model, kind="relevance").bars_
    relevance = np.sort(X.std(axis=0) / [0.3, 0.5])[::-1]
    np.testing.assert_allclose([bar.get_width() for bar in bars], relevance, rtol=1e-6)


def test_certificates_are_those_of_the_global_part(fitted):
    model, X, y = fitted
    lines, others = (
        CertificateDisplay.from_estimator(each, X, y, sizes=[3, 15]).lines_
        for each in (model, model.global_)
    )
    assert list(lines) == list(others)
    for name, line in lines.items():
        np.testing.assert_array_equal(line.get_ydata(), others[name].get_ydata())


def test_it_has_no_bound_to_draw(fitted):
    with pytest.raises(TypeError, match="FullScaleGPRegressor has no bound: pass one with"):
        BoundDisplay.from_estimator(fitted[0])


def test_predictions_are_those_of_the_whole_model(fitted):
    model, X, y = fitted
    display = PredictionDisplay.from_estimator(model, X, y, features=(0, 1), grid_resolution=5)
    a, b = np.meshgrid(*display.grid, indexing="ij")
    mean, std = model.predict(np.stack([a.ravel(), b.ravel()], axis=1), return_std=True)
    np.testing.assert_allclose(display.mean.ravel(), mean)
    np.testing.assert_allclose(display.std.ravel(), std)


@pytest.mark.parametrize(
    ("display", "rows"),
    [
        (PathDisplay, ()),
        (RelevanceDisplay, ()),
        (BoundDisplay, ()),
        (CertificateDisplay, (np.ones((3, 2)), np.ones(3))),
        (PredictionDisplay, (np.ones((3, 2)),)),
    ],
)
def test_a_model_that_is_not_fitted(display, rows):
    with pytest.raises(NotFittedError):
        display.from_estimator(FullScaleGPRegressor(), *rows)
