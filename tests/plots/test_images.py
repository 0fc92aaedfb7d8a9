"""Every Display beside a picture of it that somebody has looked at.

Texts are left out, since fonts differ between machines; the other tests read them. To draw the
pictures anew, look at them and keep them: ``python tests/plots/test_images.py``.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest

from pursuit import Bound
from pursuit.plots import (
    BoundDisplay,
    CalibrationDisplay,
    CertificateDisplay,
    CorrelationDisplay,
    PartsDisplay,
    PathDisplay,
    PredictionDisplay,
    RelevanceDisplay,
    ResidualDisplay,
)

matplotlib.use("agg")
from matplotlib import pyplot as plt
from matplotlib.testing.compare import compare_images
from matplotlib.testing.decorators import remove_ticks_and_titles

PICTURES = Path(__file__).parent / "pictures"
TOLERANCE = 3.0
"""Root mean square over all pixels of 0..255: antialiasing differs a little between versions."""

DRAWN_WITH = (3, 11)
"""The version of matplotlib that has drawn the pictures; newer ones must draw them alike."""

SIZES = np.array([1, 2, 4, 8, 16, 32])


def path():
    values = SimpleNamespace(
        index=np.arange(6), value=9.0 / SIZES, gap=1.0 / SIZES**2, seconds=0.1 * SIZES
    )
    return PathDisplay.from_path(values, y="gap")


def certificate():
    upper = 5.0 + 4.0 / SIZES
    lower = {"published": 4.0 - 3.0 / SIZES, "hybrid": 5.0 - 4.0 / SIZES}
    return CertificateDisplay(SIZES, upper, lower, floor=np.full(6, 1.2)).plot()


def bound():
    theorem = Bound("theorem", "risk", SIZES, 3.0 / np.sqrt(SIZES), 1.0)
    return BoundDisplay([theorem], {"test error": (SIZES, 0.4 / np.sqrt(SIZES))}).plot()


def correlation():
    return CorrelationDisplay(
        {"training rows": np.array([0.9, 0.6, 0.2]), "new rows": np.array([0.8, 0.4, 0.1])}
    ).plot()


def relevance():
    return RelevanceDisplay.from_values([0.3, 2.0, 1.1], ["a", "b", "c"])


def prediction():
    x = np.linspace(0.0, 6.0, 80)
    points = x[::4], np.sin(x[::4]) + 0.1 * np.cos(17.0 * x[::4])
    return PredictionDisplay(
        [x], np.sin(x), 0.1 + 0.02 * x, names=["x"], target="y", points=points
    ).plot()


def prediction_maps():
    x, y = np.linspace(-2.0, 2.0, 30), np.linspace(-1.0, 1.0, 20)
    mean = np.sin(2.0 * x)[:, None] * y
    return PredictionDisplay([x, y], mean, 0.1 + mean**2, names=["x", "y"], target="z").plot()


def parts():
    x, y = np.linspace(0.0, 6.0, 80), np.linspace(-1.0, 1.0, 20)
    return PartsDisplay(
        [[x], [x, y]],
        [np.sin(x), np.sin(x)[:, None] * y],
        [0.1 + 0.02 * x, np.zeros((80, 20))],
        names=["RBF(x)", "RBF(x) * RBF(y)"],
        features=[["x"], ["x", "y"]],
        rows=[x[::4], None],
        target="z",
    ).plot()


def calibration():
    return CalibrationDisplay((np.arange(200) / 200.0) ** 1.3).plot()


def residual():
    x = np.linspace(0.0, 6.0, 200)
    return ResidualDisplay.from_predictions(x * np.sin(40.0 * x), np.zeros(200), 2.0, against=x)


DISPLAYS = [
    path,
    certificate,
    bound,
    correlation,
    relevance,
    parts,
    prediction,
    prediction_maps,
    calibration,
    residual,
]
WIDE = [prediction_maps, calibration]


def draw(display, target):
    with plt.style.context("default"):
        figure = display().figure_
        figure.set_size_inches(6.4 if display in WIDE else 3.2, 2.4)
        remove_ticks_and_titles(figure)
        for ax in figure.axes:
            ax.set(xlabel="", ylabel="", title="")
            for text in ax.texts:
                text.set_text("")
            if ax.get_legend() is not None:
                ax.get_legend().remove()
        figure.savefig(target, dpi=60)
    plt.close("all")


@pytest.mark.skipif(
    matplotlib.__version_info__[:2] < DRAWN_WITH,
    reason="the pictures are of a newer matplotlib, and older ones draw differently",
)
@pytest.mark.parametrize("display", DISPLAYS, ids=lambda display: display.__name__)
def test_picture(display, tmp_path):
    drawn = tmp_path / f"{display.__name__}.png"
    draw(display, drawn)
    difference = compare_images(PICTURES / drawn.name, drawn, TOLERANCE)
    assert difference is None, difference


def test_another_picture_is_noticed(tmp_path):
    drawn = tmp_path / "path.png"
    draw(relevance, drawn)
    assert compare_images(PICTURES / "path.png", drawn, TOLERANCE) is not None


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for each in DISPLAYS:
        draw(each, PICTURES / f"{each.__name__}.png")
