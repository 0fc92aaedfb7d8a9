"""PathDisplay draws the numbers it was given, and says what to do when it cannot."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from pursuit.plots import PathDisplay
from pursuit.plots.axes import COLOURS

matplotlib.use("agg")
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture
def path(read_only):
    nan = np.nan
    return SimpleNamespace(
        index=read_only([7, 2, 9, 4]),
        value=read_only([8.0, 4.0, 2.0, 1.0]),
        gap=read_only([nan, 0.5, nan, 0.1]),
        seconds=read_only([0.1, 0.3, 0.35, 0.9]),
        entries=read_only([10, 20, 30, 40]),
        passes=read_only([1, 1, 1, 2]),
        stop_reason="n_basis",
    )


def drawn(display):
    return display.line_.get_xdata().tolist(), display.line_.get_ydata().tolist()


def test_value_against_basis_functions(path):
    display = PathDisplay.from_path(path)
    assert drawn(display) == ([1, 2, 3, 4], [8, 4, 2, 1])
    assert display.ax_.get_xlabel() == "Number of basis functions"
    assert display.ax_.get_ylabel() == "Objective P(f) (squared target units, as fitted)"
    assert display.ax_.get_yscale() == "log"
    assert display.figure_ is display.ax_.figure
    assert display.line_ in display.ax_.lines
    assert display.ax_.get_legend() is None


def test_gaps_that_were_not_computed_are_left_out(path):
    display = PathDisplay.from_path(path, x="seconds", y="gap")
    assert drawn(display) == ([0.3, 0.9], [0.5, 0.1])
    assert display.line_.get_marker() == "o"
    assert display.ax_.get_xlabel() == "Time (seconds)"
    assert display.ax_.get_ylabel() == "Relative gap to the optimum (no units)"


def test_from_estimator_is_from_path(path):
    estimator = SimpleNamespace(path_=path)
    display = PathDisplay.from_estimator(estimator, x="seconds", y="gap", label="fit")
    assert drawn(display) == drawn(PathDisplay.from_path(path, x="seconds", y="gap"))
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["fit"]


def test_one_point_is_visible():
    path = SimpleNamespace(value=[3.0], gap=[np.nan], seconds=[0.2])
    display = PathDisplay.from_path(path)
    assert drawn(display) == ([1], [3])
    assert display.line_.get_marker() == "o"


@pytest.mark.parametrize("values", [[2.0, 0.0], [1.0, -1.0]])
def test_scale_is_linear_where_a_value_is_not_positive(values):
    assert PathDisplay.from_path(SimpleNamespace(value=values)).ax_.get_yscale() == "linear"


def test_two_paths_on_given_axes(path):
    figure, ax = plt.subplots()
    first = PathDisplay.from_path(path, ax=ax)
    second = PathDisplay.from_path(path, ax=ax)
    assert first.ax_ is ax
    assert second.figure_ is figure
    assert plt.get_fignums() == [figure.number]
    assert [line.get_color() for line in ax.lines] == list(COLOURS[:2])


def test_line_keywords_win(path):
    line = PathDisplay.from_path(path, y="gap", color="red", marker="x", linestyle="--").line_
    assert (line.get_color(), line.get_marker(), line.get_linestyle()) == ("red", "x", "--")


def test_plot_again_elsewhere(path):
    display = PathDisplay.from_path(path)
    before = display.ax_
    assert display.plot() is display
    assert display.ax_ is not before
    assert drawn(display) == ([1, 2, 3, 4], [8, 4, 2, 1])


def test_unfitted_estimator():
    with pytest.raises(NotFittedError, match="SimpleNamespace has no path_: call its fit method"):
        PathDisplay.from_estimator(SimpleNamespace())


@pytest.mark.parametrize(
    ("x", "y", "missing"), [("seconds", "value", "seconds"), ("n_basis", "gap", "gap")]
)
def test_missing_attribute_is_named(x, y, missing):
    with pytest.raises(TypeError, match=f"array attribute '{missing}'.*path_ of a fitted"):
        PathDisplay.from_path(SimpleNamespace(value=[1.0]), x=x, y=y)


def test_nothing_to_draw():
    with pytest.raises(ValueError, match="path has no finite gap to draw: pass y='value'"):
        PathDisplay.from_path(SimpleNamespace(gap=[np.nan, np.nan]), y="gap")
    with pytest.raises(ValueError, match="path has no finite value to draw"):
        PathDisplay.from_path(SimpleNamespace(value=[]))


def test_wrong_choices_and_shapes(path):
    with pytest.raises(ValueError, match='x must be "n_basis" or "seconds", got \'passes\''):
        PathDisplay.from_path(path, x="passes")
    with pytest.raises(ValueError, match='y must be "value" or "gap", got \'entries\''):
        PathDisplay.from_path(path, y="entries")
    with pytest.raises(ValueError, match=r"path.value must be one-dimensional, got shape \(1, 2\)"):
        PathDisplay.from_path(SimpleNamespace(value=[[1.0, 2.0]]))
    with pytest.raises(ValueError, match=r"one entry per step, got 1 and 2"):
        PathDisplay.from_path(SimpleNamespace(value=[1.0, 2.0], seconds=[0.1]), x="seconds")


def test_without_matplotlib(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "pursuit\[plot\]"'):
        PathDisplay.from_path(path)
