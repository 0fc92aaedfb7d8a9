"""CalibrationDisplay draws shares that can be counted, beside bands that can be simulated."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression

from pursuit import CalibrationDisplay

matplotlib.use("agg")
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    return X, X[:, 0] + 0.5 * rng.normal(size=400)


def test_bars_and_curve_are_counted(rows):
    X, y = rows
    model = BayesianRidge().fit(X[:100], y[:100])
    display = CalibrationDisplay.from_estimator(model, X[100:], y[100:])
    histogram, curve = display.axes_
    mean, std = model.predict(X[100:], return_std=True)
    below = stats.norm(mean, std).cdf(y[100:])
    heights = [bar.get_height() for bar in histogram.patches if bar.get_width() < 0.5]
    expected = [np.mean((below >= k / 10) & (below < (k + 1) / 10)) * 10 for k in range(10)]
    np.testing.assert_allclose(heights, expected, rtol=1e-12)
    observed = next(line for line in curve.lines if line.get_label() == "observed")
    level, share = observed.get_data()
    for k in (30, 50, 90):
        width = stats.norm.ppf(0.5 + 0.5 * level[k]) * std
        assert share[k] == pytest.approx(np.mean(np.abs(y[100:] - mean) <= width))
    assert curve.get_xlabel() == "Level of the intervals"
    assert "PIT" in histogram.get_xlabel()
    assert display.figure_ is curve.figure
    legend = [text.get_text() for text in curve.get_legend().get_texts()]
    assert legend == ["95% of calibrated models", "calibrated", "observed"]


def test_bands_hold_what_calibrated_models_show():
    """Of simulated calibrated models, 95 % or a little more are in the band: counts are whole."""
    rng = np.random.default_rng(1)
    n = 300
    [ax] = CalibrationDisplay(rng.uniform(size=n), show="coverage").plot().axes_
    band = ax.collections[0].get_paths()[0].vertices
    at_half = np.unique(band[np.isclose(band[:, 0], 0.5), 1])
    shares = np.mean(np.abs(2.0 * rng.uniform(size=(20_000, n)) - 1.0) <= 0.5, axis=1)
    inside = np.mean((at_half.min() <= shares) & (shares <= at_half.max()))
    assert 0.945 < inside < 0.97
    [ax] = CalibrationDisplay(rng.uniform(size=n), show="pit", bins=5).plot().axes_
    span = next(patch for patch in ax.patches if patch.get_label() == "95% of calibrated models")
    low, high = span.get_y(), span.get_y() + span.get_height()
    bars = 5.0 * np.mean(rng.uniform(size=(20_000, n)) < 0.2, axis=1)
    assert 0.945 < np.mean((low - 1e-9 <= bars) & (bars <= high + 1e-9)) < 0.97


def test_number_of_bars():
    for n, bins, expected in ((999, None, 10), (1000, None, 20), (50, 7, 7)):
        [ax] = CalibrationDisplay(np.full(n, 0.5), show="pit", bins=bins).plot().axes_
        assert sum(bar.get_width() < 0.5 for bar in ax.patches) == expected


def test_given_axes_are_used(rows):
    _, axes = plt.subplots(1, 2)
    display = CalibrationDisplay.from_predictions(rows[1], np.zeros(400), 1.0, ax=axes)
    assert display.axes_ == list(axes)
    _, ax = plt.subplots()
    [drawn] = CalibrationDisplay([0.1, 0.5], show="pit").plot(ax=ax).axes_
    assert drawn is ax


def test_wrong_calls(rows):
    X, y = rows
    draw = CalibrationDisplay.from_estimator
    with pytest.raises(NotFittedError):
        draw(BayesianRidge(), X, y)
    with pytest.raises(TypeError, match=r"LinearRegression has no predict\(X, return_std=True\)"):
        draw(LinearRegression().fit(X, y), X, y)
    with pytest.raises(TypeError, match=r"use sklearn\.calibration\.CalibrationDisplay"):
        draw(LogisticRegression().fit(X, y > 0), X, y > 0)
    with pytest.raises(ValueError, match="for one output, and the PIT has shape"):
        CalibrationDisplay.from_predictions(np.c_[y, y], np.c_[y, y], 1.0)
    with pytest.raises(ValueError, match="show='both' needs 2 axes, got 1"):
        CalibrationDisplay([0.5]).plot(ax=plt.subplots()[1])
    with pytest.raises(ValueError, match="show must be one of"):
        CalibrationDisplay([0.5], show="PIT").plot()
    with pytest.raises(ValueError, match="numbers from 0 to 1"):
        CalibrationDisplay([0.5, np.nan]).plot()
