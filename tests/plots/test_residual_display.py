"""ResidualDisplay draws residuals where they are, and shows varying noise and heavy tails."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression

from pursuit import ResidualDisplay

matplotlib.use("agg")
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(500, 2))
    return X, X[:, 0] + np.where(X[:, 1] < 0.5, 0.1, 1.0) * rng.normal(size=500)


def line(ax, label):
    return next(each for each in ax.lines if each.get_label() == label)


def test_dots_are_standardized_residuals(rows):
    X, y = rows
    model = BayesianRidge().fit(X, y)
    mean, std = model.predict(X, return_std=True)
    display = ResidualDisplay.from_estimator(model, X, y)
    dots = display.ax_.lines[0]
    np.testing.assert_allclose(dots.get_xdata(), mean)
    np.testing.assert_allclose(dots.get_ydata(), (y - mean) / std)
    assert line(display.ax_, "95% if calibrated").get_ydata()[0] == pytest.approx(1.96, abs=1e-4)
    assert display.ax_.get_ylabel() == "Residual / predicted standard deviation"
    assert display.ax_.get_xlabel() == "Prediction"


def test_the_inset_has_the_quantiles_of_scipy(rows):
    X, y = rows
    model = LinearRegression().fit(X, y)
    residuals = y - model.predict(X)
    display = ResidualDisplay.from_estimator(model, X, y)
    assert display.ax_.get_ylabel() == "Residual"
    normal, ordered = display.inset_.lines[1].get_data()
    np.testing.assert_allclose(ordered, np.sort(stats.zscore(residuals)), atol=1e-12)
    np.testing.assert_allclose(normal, stats.norm.ppf((np.arange(500) + 0.5) / 500))
    without = ResidualDisplay.from_predictions(y, y * 0.0, quantiles=False)
    assert without.inset_ is None


def test_groups_show_where_the_noise_is_large(rows):
    X, y = rows
    frame = pd.DataFrame(X, columns=["width", "age"])
    model = BayesianRidge().fit(frame, y)
    display = ResidualDisplay.from_estimator(model, frame, y, feature="age")
    assert display.ax_.get_xlabel() == "age"
    x, mean = line(display.ax_, "mean of each tenth of rows").get_data()
    upper = line(display.ax_, "mean ± 1.96 standard deviations").get_ydata()
    residuals = display.residuals
    first = np.argsort(X[:, 1])[:50]
    assert (x[0], mean[0]) == pytest.approx((np.median(X[first, 1]), residuals[first].mean()))
    assert upper[0] == pytest.approx(mean[0] + 1.96 * residuals[first].std(), rel=1e-3)
    spread = upper - mean
    assert spread[5:].min() > 4.0 * spread[:5].max()
    few = ResidualDisplay.from_predictions(y[:79], np.zeros(79))
    assert "mean of each tenth of rows" not in [each.get_label() for each in few.ax_.lines]


def test_many_rows_are_thinned_out():
    display = ResidualDisplay.from_predictions(np.arange(9000.0), np.zeros(9000), 1.0)
    assert len(display.ax_.lines[0].get_xdata()) == 2000
    assert len(display.inset_.lines[1].get_xdata()) == 2000
    assert display.inset_.lines[1].get_ydata()[-1] == 8999.0, "the ends are drawn"


def test_perfect_predictions_can_be_drawn():
    display = ResidualDisplay.from_predictions(np.ones(100), np.ones(100))
    low, high = display.ax_.get_ylim()
    assert low < 0.0 < high


def test_wrong_calls(rows):
    X, y = rows
    draw = ResidualDisplay.from_estimator
    model = LinearRegression().fit(X, y)
    with pytest.raises(NotFittedError):
        draw(LinearRegression(), X, y)
    with pytest.raises(TypeError, match="predicts classes, which have no residuals"):
        draw(LogisticRegression().fit(X, y > 0), X, y > 0)
    with pytest.raises(ValueError, match="one output, and there are 2"):
        draw(LinearRegression().fit(X, np.c_[y, y]), X, y)
    with pytest.raises(ValueError, match="2 is not a number below 2"):
        draw(model, X, y, feature=2)
    with pytest.raises(ValueError, match="features: 'z' is not one of x0, x1"):
        draw(model, X, y, feature="z")
    with pytest.raises(ValueError, match=r"must have shape \(n_rows,\)"):
        ResidualDisplay.from_predictions(y, y[:3])
    with pytest.raises(ValueError, match="std must be positive"):
        ResidualDisplay.from_predictions(y, y, np.zeros(500))
    with pytest.raises(ValueError, match="a number for each of 500 rows"):
        ResidualDisplay.from_predictions(y, y, against=[1.0])
    with pytest.raises(ValueError, match="must be finite"):
        ResidualDisplay.from_predictions(np.where(y > 0, np.nan, y), y)
    frame = pd.DataFrame({"x": X[:, 0], "kind": np.where(y > 0, "a", "b")})

    class Zero(LinearRegression):
        def predict(self, X):
            return np.zeros(len(X))

    with pytest.raises(ValueError, match="feature 'kind' does not hold numbers: pass codes"):
        draw(Zero().fit(X, y), frame, y, feature="kind")
