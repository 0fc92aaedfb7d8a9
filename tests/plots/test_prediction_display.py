"""PredictionDisplay draws what the model predicts, and says what to do when it cannot."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LinearRegression, LogisticRegression

from pursuit import PredictionDisplay, SparseGPRegressor

matplotlib.use("agg")
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (120, 3))
    y = np.sin(X[:, 0]) + X[:, 1]
    model = SparseGPRegressor(RBF(1.0), noise=0.01, n_basis=40, optimizer=None, random_state=0)
    return model.fit(X, y), X, y


def test_the_line_is_the_prediction_with_other_features_at_their_medians(fitted):
    model, X, y = fitted
    display = PredictionDisplay.from_estimator(model, X, y, features=1, target="Height (m)")
    [ax] = display.axes_
    dots, line = ax.lines
    x = line.get_xdata()
    assert (x[0], x[-1], len(x)) == (X[:, 1].min(), X[:, 1].max(), 200)
    rows = np.tile(np.median(X, axis=0), (200, 1))
    rows[:, 1] = x
    mean, std = model.predict(rows, return_std=True)
    np.testing.assert_allclose(line.get_ydata(), mean)
    np.testing.assert_array_equal(dots.get_ydata(), y)
    band = ax.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx((mean + 1.959964 * std).max(), rel=1e-6)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x1", "Height (m)")
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == [
        "rows, other features as they are",
        "95% of new observations",
        "mean, other features at their medians",
    ]
    alone = SparseGPRegressor(RBF(1.0), noise=0.01, n_basis=9, optimizer=None).fit(X[:, :1], y)
    [ax] = PredictionDisplay.from_estimator(alone, X[:, :1], y).axes_
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["rows", "95% of new observations", "mean"]


def test_two_features_give_maps_of_mean_and_deviation(fitted):
    model, X, y = fitted
    display = PredictionDisplay.from_estimator(model, X, y, features=(2, 0), grid_resolution=7)
    assert display.mean.shape == display.std.shape == (7, 7)
    row = np.median(X, axis=0)
    row[[2, 0]] = display.grid[0][3], display.grid[1][5]
    mean, std = model.predict(row[None], return_std=True)
    assert (display.mean[3, 5], display.std[3, 5]) == pytest.approx((mean[0], std[0]))
    first, second = display.axes_
    assert (first.get_xlabel(), first.get_ylabel()) == ("x2", "x0")
    assert second.figure is display.figure_
    [alone] = PredictionDisplay.from_estimator(
        model, X, features=(0, 1), grid_resolution=5, ax=plt.subplots()[1]
    ).axes_
    assert alone.get_ylabel() == "x1"


def test_names_of_a_data_frame(fitted):
    _, X, y = fitted
    frame = pd.DataFrame(X, columns=["width", "depth", "age"])
    model = LinearRegression().fit(frame, y)
    display = PredictionDisplay.from_estimator(model, frame, features="depth")
    assert display.axes_[0].get_xlabel() == "depth"
    assert display.std is None
    assert not display.axes_[0].collections, "no deviation, no band"
    with pytest.raises(ValueError, match="features: 'dept' is not one of width, depth, age"):
        PredictionDisplay.from_estimator(model, frame, features="dept")


def test_two_classes_show_a_probability(fitted):
    _, X, y = fitted
    labels = np.where(y > 0, "yes", "no")
    model = LogisticRegression().fit(X, labels)
    display = PredictionDisplay.from_estimator(model, X, labels)
    assert display.axes_[0].get_ylabel() == "Probability of yes"
    np.testing.assert_array_equal(display.axes_[0].lines[0].get_ydata(), labels == "yes")
    assert 0.0 <= display.mean.min() <= display.mean.max() <= 1.0
    many = LogisticRegression().fit(X, np.arange(len(X)) % 3)
    with pytest.raises(ValueError, match="for two classes, and this estimator has 3"):
        PredictionDisplay.from_estimator(many, X)


def test_wrong_calls(fitted):
    model, X, y = fitted
    draw = PredictionDisplay.from_estimator
    with pytest.raises(NotFittedError):
        draw(SparseGPRegressor(), X)
    with pytest.raises(NotFittedError):
        draw(3, X)
    with pytest.raises(ValueError, match="coverage must be"):
        draw(model, X, coverage=95)
    with pytest.raises(ValueError, match="one feature or two, got 3"):
        draw(model, X, features=(0, 1, 2))
    with pytest.raises(ValueError, match="two different"):
        draw(model, X, features=(0, -3))
    with pytest.raises(ValueError, match="3 is not a number below 3"):
        draw(model, X, features=3)
    with pytest.raises(ValueError, match="one output, and there are 2"):
        draw(LinearRegression().fit(X, np.c_[y, y]), X)


def test_a_feature_that_does_not_vary(fitted):
    model, X, _ = fitted
    display = PredictionDisplay.from_estimator(model, np.where([True, False, False], 1.0, X))
    assert display.grid[0][[0, -1]].tolist() == [0.5, 1.5]
