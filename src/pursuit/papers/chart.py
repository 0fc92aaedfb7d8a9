"""What an experiment measured, as curves: the table that is written and the figure that is drawn.

Both come from the same numbers, so that a figure never shows what its table does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pursuit._types import Floats, Indices
from pursuit.plots.axes import COLOURS, prepare_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Style = Literal["line", "bound", "paper"]

STATISTICS = ("mean", "deviation", "lowest", "highest", "runs")
PANEL_INCHES = (4.6, 3.8)

_FEW = 12
_DRAWN = 15


@dataclass(frozen=True, eq=False)
class Series:
    """A curve, or several runs of one.

    Attributes
    ----------
    label : str
        Its name.
    x : array of shape (n,)
        Where it was measured.
    y : array of shape (n,) or (runs, n)
        What was measured; NaN where nothing was.
    style : {"line", "bound", "paper"}
        A measurement, something computed beforehand, or what is printed in the paper.
    """

    label: str
    x: ArrayLike
    y: ArrayLike
    style: Style = "line"

    def statistics(self) -> dict[str, Floats]:
        """x, and over the runs: mean, deviation, lowest, highest and their number."""
        runs = np.atleast_2d(np.asarray(self.y, dtype=np.float64))
        x = np.asarray(self.x, dtype=np.float64)
        if runs.shape[1:] != x.shape:
            raise ValueError(f"series {self.label!r}: y has shape {runs.shape}, x {x.shape}.")
        seen = np.isfinite(runs).any(axis=0)
        runs = np.where(np.isfinite(runs), runs, np.nan)[:, seen]
        return {
            "x": x[seen],
            "mean": np.nanmean(runs, axis=0),
            "deviation": np.nanstd(runs, axis=0),
            "lowest": np.nanmin(runs, axis=0),
            "highest": np.nanmax(runs, axis=0),
            "runs": np.isfinite(runs).sum(axis=0).astype(np.float64),
        }


@dataclass(frozen=True, eq=False)
class Panel:
    """Curves on one pair of axes; ``log`` names those that are logarithmic, ``"xy"`` both."""

    series: Sequence[Series]
    x_label: str
    y_label: str
    title: str = ""
    log: str = ""


@dataclass(frozen=True, eq=False)
class Chart:
    """Panels side by side."""

    panels: Sequence[Panel]

    def columns(self) -> dict[str, list[Any]]:
        """One entry for each point of each curve; x has the name of its axis if all share it."""
        names = {panel.x_label for panel in self.panels}
        x_name = names.pop() if len(names) == 1 else "x"
        found: dict[str, list[Any]] = {
            name: [] for name in ("panel", "series", x_name, *STATISTICS)
        }
        for panel in self.panels:
            for series in panel.series:
                measured = series.statistics()
                count = len(measured["x"])
                found["panel"] += [panel.title or panel.y_label] * count
                found["series"] += [series.label] * count
                found[x_name] += measured["x"].tolist()
                for name in STATISTICS:
                    found[name] += measured[name].tolist()
        return found

    def draw(self, figure: Figure) -> None:
        """Draw on a matplotlib figure: means as lines, what lies between the runs shaded."""
        width, height = PANEL_INCHES
        figure.set_size_inches(max(6.4, width * len(self.panels)), height)
        for ax, panel in zip(
            figure.subplots(ncols=len(self.panels), squeeze=False)[0], self.panels, strict=True
        ):
            _draw_panel(ax, panel)


@dataclass(frozen=True, eq=False)
class Pictures:
    """Small grey pictures in rows, each with a caption, and a chart for the table.

    Attributes
    ----------
    images : array of shape (n, height, width)
        The pictures.
    captions : sequence of str
        One a picture.
    chart : Chart
        What was measured.
    """

    images: Floats
    captions: Sequence[str]
    chart: Chart

    def columns(self) -> dict[str, list[Any]]:
        """Those of the chart."""
        return self.chart.columns()

    def draw(self, figure: Figure) -> None:
        """The pictures, ten a row."""
        rows = -(-len(self.images) // 10)
        figure.set_size_inches(8, 1.1 * rows)
        axes = figure.subplots(rows, 10, squeeze=False).ravel()
        for ax in axes:
            ax.set_axis_off()
        for ax, image, caption in zip(axes, self.images, self.captions, strict=False):
            ax.imshow(image, cmap="gray_r", interpolation="nearest")
            ax.set_title(caption, fontsize=9)


def _draw_panel(ax: Axes, panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator

    prepare_axes(ax)
    lines = [series for series in panel.series if series.style == "line"]
    colours = dict(zip([id(series) for series in lines], _colours(len(lines)), strict=True))
    for series in panel.series:
        measured = series.statistics()
        shown = _some(len(measured["x"]))
        measured = {name: values[shown] for name, values in measured.items()}
        x, mean = measured["x"], measured["mean"]
        if series.style == "paper":
            ax.plot(x, mean, "kx", label=series.label)
            continue
        if series.style == "bound":
            ax.plot(x, mean, color="0.35", linestyle="--", linewidth=1.2, label=series.label)
            continue
        colour = colours[id(series)]
        marker = "o" if len(x) <= _FEW else ""
        ax.plot(x, mean, color=colour, marker=marker, markersize=4, label=series.label)
        if measured["runs"].max(initial=0) > 1:
            ax.fill_between(
                x, measured["lowest"], measured["highest"], color=colour, alpha=0.2, linewidth=0
            )
    if "x" in panel.log:
        ax.set_xscale("log")
    else:
        # Steps, sizes and runs are counted.
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if "y" in panel.log:
        ax.set_yscale("log")
    ax.set(xlabel=panel.x_label, ylabel=panel.y_label, title=panel.title)
    # A panel whose curves are all empty has nothing to name.
    if ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize=8)


def _some(n: int) -> Indices:
    """Positions to draw of n: all of a few, else some that are even on either kind of axis."""
    even = np.linspace(0, n - 1, _DRAWN)
    rising = np.geomspace(1, max(n, 1), _DRAWN) - 1
    positions = np.arange(n) if n <= 2 * _DRAWN else np.concatenate([even, rising])
    return np.unique(np.round(positions).astype(np.intp))


def _colours(n: int) -> Sequence[Any]:
    """The palette of all figures, or for many curves, which are ordered, a scale in lightness."""
    if n <= len(COLOURS):
        return COLOURS[:n]
    from matplotlib import colormaps

    return [tuple(colour) for colour in colormaps["viridis"](np.linspace(0, 0.92, n))]
