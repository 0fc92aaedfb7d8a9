"""Charts: the table holds what the figure shows, runs are summed up, missing points left out."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from pursuit.papers.common import Panel, PaperResult, Series, statistics

NAN = float("nan")


def result(*panels, pictures=()):
    return PaperResult("A", "1", "1", "0", {"same": True}, {}, "", panels, pictures=pictures)


def test_runs_are_summed_up_and_missing_points_left_out():
    series = Series("a", [1, 2, 3], [[1.0, NAN, 4.0], [3.0, NAN, NAN]])
    assert result(Panel([series], "n", "gap")).table() == {
        "panel": ["gap", "gap"],
        "series": ["a", "a"],
        "n": [1.0, 3.0],
        "mean": [2.0, 4.0],
        "deviation": [1.0, 0.0],
        "lowest": [1.0, 4.0],
        "highest": [3.0, 4.0],
        "runs": [2.0, 1.0],
    }


def test_x_has_a_name_of_its_own_only_if_all_panels_share_it():
    panels = [Panel([Series("a", [1], [1.0])], name, "y", name) for name in ("rows", "terms")]
    assert list(result(*panels).table())[:3] == ["panel", "series", "x"]
    assert result(*panels).table()["panel"] == ["rows", "terms"]


def test_lengths_must_agree():
    with pytest.raises(ValueError, match=r"series 'a': y has shape \(1, 2\), x \(3,\)"):
        statistics(Series("a", [1, 2, 3], [1.0, 2.0]))


def test_what_is_drawn_is_what_is_tabulated():
    x = np.arange(1, 30)
    series = [
        Series("runs", x, np.stack([x, 3 * x])),
        Series("bound", x, 5.0 * x, "bound"),
        Series("printed", [10], [20.0], "paper"),
    ]
    figure = Figure()
    result(Panel(series, "n", "gap", "title", "xy"), Panel(series[:1], "n", "gap")).draw(figure)
    left, right = figure.axes
    assert (left.get_xscale(), left.get_yscale(), left.get_title()) == ("log", "log", "title")
    assert right.get_xscale() == "linear"
    drawn = {line.get_label(): line.get_ydata().tolist() for line in left.lines}
    assert drawn["runs"] == (2.0 * x).tolist()
    assert drawn["bound"] == (5.0 * x).tolist()
    assert drawn["printed"] == [20.0]
    assert len(left.collections) == 1
    assert [text.get_text() for text in left.get_legend().get_texts()] == [
        "runs",
        "bound",
        "printed",
    ]


@pytest.mark.parametrize("n", [1, 7, 9])
def test_every_curve_has_a_colour_of_its_own(n):
    figure = Figure()
    result(Panel([Series(str(i), [1, 2], [i, i]) for i in range(n)], "x", "y")).draw(figure)
    assert len({str(line.get_color()) for line in figure.axes[0].lines}) == n


def test_pictures_are_drawn_in_place_of_the_curves_of_the_table():
    panel = Panel([Series("a", [1], [2.0])], "run", "classes")
    images = np.random.default_rng(0).random((12, 4, 4))
    shown = result(panel, pictures=list(zip("abcdefghijkl", images, strict=True)))
    assert shown.table() == result(panel).table()
    figure = Figure()
    shown.draw(figure)
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == [*"abcdefghijkl", *[""] * 8]
    np.testing.assert_array_equal(figure.axes[3].images[0].get_array(), images[3])


@pytest.mark.parametrize("n", [0, 1, 30, 1000])
def test_long_curves_are_drawn_at_some_of_their_points(n):
    x = np.arange(1, n + 1)
    figure = Figure()
    result(Panel([Series("a", x, 2.0 * x)], "x", "y", log="x")).draw(figure)
    drawn = figure.axes[0].lines[0].get_xydata()
    np.testing.assert_array_equal(drawn[:, 1], 2 * drawn[:, 0])
    if n <= 30:
        assert drawn[:, 0].tolist() == x.tolist()
    else:
        assert 15 <= len(drawn) <= 30
        assert {1, 2, n} <= set(drawn[:, 0])
        assert np.diff(drawn[:, 0]).max() <= n / 12
