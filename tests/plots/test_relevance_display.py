"""RelevanceDisplay draws the numbers it was given, most relevant on top."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF

import pursuit
from pursuit import SparseGPRegressor
from pursuit.plots import RelevanceDisplay
from pursuit.plots.axes import COLOURS

matplotlib.use("agg")
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def drawn(display):
    """Name, width and printed number of every bar, from the top."""
    tops = sorted(
        display.bars_, key=lambda bar: display.ax_.transData.transform((0, bar.get_y()))[1]
    )
    widths = [bar.get_width() for bar in reversed(tops)]
    ticks = zip(display.ax_.get_yticks(), display.ax_.get_yticklabels(), strict=True)
    names = [label.get_text() for _, label in sorted(ticks, key=lambda pair: pair[0])]
    return names, widths, [text.get_text() for text in display.ax_.texts]


def test_bars_are_in_order_of_relevance(read_only):
    display = RelevanceDisplay.from_values(read_only([0.5, 12.3456, 1.0]), ["a", "b", "c"])
    assert drawn(display) == (["b", "c", "a"], [12.3456, 1.0, 0.5], ["12.3", "1", "0.5"])
    assert display.ax_.yaxis_inverted(), "the first bar is on top"
    assert display.ax_.get_xlabel() == "Relevance: standard deviation / length scale (no units)"
    assert display.ax_.get_title() == ""
    assert display.figure_ is display.ax_.figure
    assert matplotlib.colors.to_hex(display.bars_[0].get_facecolor()).upper() == COLOURS[0]


def test_names_are_numbers_of_features_by_default():
    assert drawn(RelevanceDisplay.from_values([1.0, 2.0]))[0] == ["x1", "x0"]


def test_only_the_most_relevant_are_drawn():
    display = RelevanceDisplay.from_values(np.arange(30.0), max_features=3)
    assert drawn(display)[0] == ["x29", "x28", "x27"]
    assert display.ax_.get_title() == "3 most relevant of 30 features"
    assert len(RelevanceDisplay.from_values(np.arange(30.0)).bars_) == 20


def test_ties_and_equal_names_keep_their_order():
    display = RelevanceDisplay.from_values([1.0, 1.0, 2.0], ["same", "same", "other"])
    assert drawn(display)[:2] == (["other", "same", "same"], [2.0, 1.0, 1.0])
    assert len(display.bars_) == 3


def test_no_feature_matters():
    display = RelevanceDisplay.from_values([0.0, 0.0])
    assert drawn(display)[1] == [0.0, 0.0]
    assert display.ax_.get_xlim()[1] > 0


def test_numbers_fit_beside_their_bars():
    display = RelevanceDisplay.from_values([1234.5, 3.0], ["long", "short"])
    display.figure_.canvas.draw()
    edge = display.ax_.get_window_extent().x1
    assert all(text.get_window_extent().x1 <= edge for text in display.ax_.texts)


def test_numbers_have_no_exponents():
    texts = drawn(RelevanceDisplay.from_values([1234.5, 0.000012345, 0.0]))[2]
    assert texts == ["1230", "0.0000123", "0"]


def test_given_axes_and_keywords():
    figure, ax = plt.subplots()
    display = RelevanceDisplay.from_values([1.0, 2.0], ax=ax, color="red", height=0.4)
    assert display.ax_ is ax
    assert plt.get_fignums() == [figure.number]
    assert display.bars_[0].get_facecolor() == (1.0, 0.0, 0.0, 1.0)
    assert display.bars_[0].get_height() == pytest.approx(0.4)


def test_plot_again_elsewhere():
    display = RelevanceDisplay.from_values([1.0, 2.0], ["a", "b"])
    before = display.ax_
    assert display.plot() is display
    assert display.ax_ is not before
    assert drawn(display)[0] == ["b", "a"]


def test_from_a_learned_fit():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((80, 3)), columns=["width", "height", "depth"])
    y = np.sin(3 * X["height"]) + 0.3 * X["depth"]
    model = SparseGPRegressor(n_basis=30, certificate=None, random_state=0).fit(X, y)
    learned = model.learning_report_
    for kind, values in (
        ("importance", learned.importance),
        ("relevance", model.feature_relevance_),
    ):
        display = RelevanceDisplay.from_estimator(model, kind=kind, max_features=2)
        names, widths, _ = drawn(display)
        assert names == ["height", "depth"]
        assert widths == sorted(values, reverse=True)[:2]
        assert display.ax_.get_xlabel().lower().startswith(kind)
    assert drawn(RelevanceDisplay.from_estimator(model))[1] == sorted(
        learned.importance, reverse=True
    )
    assert pursuit.RelevanceDisplay is RelevanceDisplay


def error_bars(display):
    """Ends of the error bars, from the top."""
    lines = display.bars_.errorbar.lines[2][0]
    return np.array([segment[:, 0] for segment in lines.get_segments()])


def test_error_bars(read_only):
    values, errors = read_only([0.5, 2.0, 1.0]), read_only([0.1, 0.3, 0.0])
    display = RelevanceDisplay.from_values(values, errors=errors, kind="importance")
    np.testing.assert_allclose(error_bars(display), [[1.7, 2.3], [1.0, 1.0], [0.4, 0.6]])
    assert display.ax_.get_xlim()[1] > 2.3
    title = RelevanceDisplay.from_values(values, kind="importance", max_features=2).ax_.get_title()
    assert title == "2 most important of 3 features"
    assert RelevanceDisplay.from_values(values).bars_.errorbar is None


def test_error_bars_of_a_fit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 2))
    model = SparseGPRegressor(RBF(), noise=0.1, n_basis=20, optimizer=None)
    report = model.fit(X, np.sin(2 * X[:, 0]) + 0.1 * X[:, 1]).learning_report_
    ends = error_bars(RelevanceDisplay.from_estimator(model))
    np.testing.assert_allclose(ends.mean(axis=1), report.importance, rtol=1e-12)
    np.testing.assert_allclose(np.ptp(ends, axis=1), 2 * report.importance_std, rtol=1e-9)
    assert (report.importance_std > 0).all()


def test_kernels_without_a_scale_for_each_feature():
    X = np.random.default_rng(0).standard_normal((30, 2))
    model = SparseGPRegressor(RBF(), n_basis=5, optimizer=None).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"no length scale for each feature: fit with"):
        RelevanceDisplay.from_estimator(model, kind="relevance")


def test_rows_without_features_have_no_importance():
    X = np.random.default_rng(0).standard_normal((30, 2))
    model = SparseGPRegressor("precomputed", noise=0.1).fit(RBF()(X), X[:, 0])
    with pytest.raises(ValueError, match=r"has no importance to draw\. Compute it with"):
        RelevanceDisplay.from_estimator(model)


def test_unfitted_estimator():
    with pytest.raises(NotFittedError, match="has no learning_report_: call its fit method"):
        RelevanceDisplay.from_estimator(SimpleNamespace())


def test_unknown_kind():
    with pytest.raises(ValueError, match="kind must be 'importance' or 'relevance', got 'weight'"):
        RelevanceDisplay.from_values([1.0], kind="weight")
    with pytest.raises(ValueError, match="got 'weight'"):
        RelevanceDisplay.from_estimator(SimpleNamespace(), kind="weight")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"relevance": [[1.0, 2.0]]}, r"one number for each feature, got shape \(1, 2\)"),
        ({"relevance": []}, r"one number for each feature, got shape \(0,\)"),
        ({"relevance": [1.0, np.nan]}, "relevance must be finite and not negative"),
        ({"relevance": [1.0, -1.0]}, "relevance must be finite and not negative"),
        ({"relevance": [1.0], "names": ["a", "b"]}, "got 2 for 1 features"),
        ({"relevance": [1.0], "errors": [1.0, 2.0]}, "errors must hold a number for each of the 1"),
        ({"relevance": [1.0], "errors": [np.inf]}, "errors must hold .* finite and not"),
        ({"relevance": [1.0], "max_features": 0}, "whole number from 1, got 0"),
        ({"relevance": [1.0], "max_features": 2.5}, "whole number from 1, got 2.5"),
    ],
)
def test_wrong_values(arguments, message):
    with pytest.raises(ValueError, match=message):
        RelevanceDisplay.from_values(**arguments)


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "pursuit\[plot\]"'):
        RelevanceDisplay.from_values([1.0])
