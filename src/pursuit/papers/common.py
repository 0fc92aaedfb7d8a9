"""What the experiments share: results with a verdict, curves, data, small texts and clocks."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from pursuit._types import Floats, Indices
from pursuit.datasets import load_abalone
from pursuit.plots.axes import COLOURS, prepare_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REPRODUCED, PARTLY, NOT = "reproduced", "partly reproduced", "not reproduced"

Data = Sequence[ArrayLike]
Progress = Callable[[str], None]
Style = Literal["line", "bound", "paper"]

STATISTICS = ("mean", "deviation", "lowest", "highest", "runs")
PANEL_INCHES = (4.6, 3.8)
"""Width and height of one panel of a figure."""

_FEW = 12
"""Curves of at most this many points get a marker at each point."""
_DRAWN = 15
"""Curves of more than twice this many points are drawn at a selection of them."""
_LEAST_SECONDS = 0.3
"""Tasks shorter than this are timed more often than asked for, until they add up to it."""


def ignore(line: str) -> None:
    """Default for ``progress``: show nothing."""


class Series(NamedTuple):
    """One curve, or several runs of it.

    Attributes
    ----------
    label : str
        Name of the curve.
    x : array of shape (n,)
        Positions.
    y : array of shape (n,) or (runs, n)
        Values; NaN where nothing was measured.
    style : {"line", "bound", "paper"}
        A measurement, a value computed in advance, or a value printed in the paper.
    """

    label: str
    x: ArrayLike
    y: ArrayLike
    style: Style = "line"


class Panel(NamedTuple):
    """Curves on one pair of axes; ``log`` names the logarithmic ones, such as ``"xy"``."""

    series: Iterable[Series]
    x_label: str
    y_label: str
    title: str = ""
    log: str = ""


@dataclass(frozen=True, eq=False)
class PaperResult:
    """One table or figure of a paper, run again.

    Attributes
    ----------
    name : str
        Paper and table or figure.
    paper_says, we_get, spread : str
        The paper's numbers, the numbers of this run, and how much they vary.
    criteria : mapping of str to bool
        The paper's claims, and whether the numbers show them. A wrong algorithm fails all of
        them: every experiment has a negative control that does.
    arrays : mapping of str to array
        The numbers themselves.
    settings : str
        What was run.
    panels : sequence of Panel
        The numbers as curves: they are written as a table and drawn as a figure.
    checks : mapping of str to bool
        Further statements that must hold. A wrong algorithm may satisfy them as well, so they
        cannot earn a verdict on their own.
    hindsight : str
        Settings that the paper does not state and that were chosen after results were seen.
    pictures : sequence of (str, array), optional
        Captions and small grey pictures, drawn in place of the curves.
    """

    name: str
    paper_says: str
    we_get: str
    spread: str
    criteria: Mapping[str, bool]
    arrays: Mapping[str, NDArray[Any]]
    settings: str
    panels: Sequence[Panel]
    checks: Mapping[str, bool] = field(default_factory=dict)
    hindsight: str = ""
    pictures: Sequence[tuple[str, Floats]] = ()

    def __post_init__(self) -> None:
        if not self.criteria:
            raise ValueError("criteria must hold at least one statement: a verdict needs it.")

    @property
    def verdict(self) -> str:
        """Verdict that follows from the statements.

        ``"reproduced"`` if all criteria and checks hold, ``"not reproduced"`` if no criterion
        holds, whatever the checks say, and ``"partly reproduced"`` otherwise.
        """
        if all(self.statements.values()):
            return REPRODUCED
        return PARTLY if any(self.criteria.values()) else NOT

    @property
    def statements(self) -> dict[str, bool]:
        """Criteria, then checks, and whether they hold."""
        return {name: bool(holds) for name, holds in {**self.criteria, **self.checks}.items()}

    def __str__(self) -> str:
        missed = [statement for statement, holds in self.statements.items() if not holds]
        but = f"; does not hold: {', '.join(missed)}" if missed else ""
        return (
            f"{self.name}: {self.verdict}. Paper: {self.paper_says}; here: {self.we_get} "
            f"({self.spread}){but}."
        )

    def table(self) -> dict[str, list[Any]]:
        """Columns with one entry per point of each curve.

        The column of positions is named after the horizontal axis if all panels share it.
        """
        labels = {panel.x_label for panel in self.panels}
        x_name = labels.pop() if len(labels) == 1 else "x"
        columns: dict[str, list[Any]] = {
            name: [] for name in ("panel", "series", x_name, *STATISTICS)
        }
        for panel in self.panels:
            for series in panel.series:
                measured = statistics(series)
                count = len(measured["x"])
                columns["panel"] += [panel.title or panel.y_label] * count
                columns["series"] += [series.label] * count
                columns[x_name] += measured["x"].tolist()
                for name in STATISTICS:
                    columns[name] += measured[name].tolist()
        return columns

    def draw(self, figure: Figure) -> None:
        """Draw the pictures if there are any, else the panels side by side."""
        if self.pictures:
            _draw_pictures(figure, self.pictures)
            return
        width, height = PANEL_INCHES
        figure.set_size_inches(max(6.4, width * len(self.panels)), height)
        axes = figure.subplots(ncols=len(self.panels), squeeze=False)[0]
        for ax, panel in zip(axes, self.panels, strict=True):
            _draw_panel(ax, panel)


def level(label: str, n: int, value: float) -> Series:
    """A horizontal line from 1 to n."""
    return Series(label, [1, n], [value, value], "bound")


def statistics(series: Series) -> dict[str, Floats]:
    """x, and over the runs: mean, deviation, lowest, highest and number of runs.

    Positions at which no run has a value are left out.
    """
    runs = np.atleast_2d(np.asarray(series.y, dtype=np.float64))
    x = np.asarray(series.x, dtype=np.float64)
    if runs.shape[1:] != x.shape:
        raise ValueError(f"series {series.label!r}: y has shape {runs.shape}, x {x.shape}.")
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


def _draw_panel(ax: Axes, panel: Panel) -> None:
    """Means as lines, the range of the runs shaded, bounds dashed, printed numbers as crosses."""
    from matplotlib.ticker import MaxNLocator

    prepare_axes(ax)
    all_series = list(panel.series)
    colours = iter(_colours(sum(series.style == "line" for series in all_series)))
    for series in all_series:
        measured = statistics(series)
        shown = _some(len(measured["x"]))
        measured = {name: values[shown] for name, values in measured.items()}
        x, mean = measured["x"], measured["mean"]
        if series.style == "paper":
            ax.plot(x, mean, "kx", label=series.label)
            continue
        if series.style == "bound":
            ax.plot(x, mean, color="0.35", linestyle="--", linewidth=1.2, label=series.label)
            continue
        colour = next(colours)
        marker = "o" if len(x) <= _FEW else ""
        ax.plot(x, mean, color=colour, marker=marker, markersize=4, label=series.label)
        if measured["runs"].max(initial=0) > 1:
            ax.fill_between(
                x, measured["lowest"], measured["highest"], color=colour, alpha=0.2, linewidth=0
            )
    if "x" in panel.log:
        ax.set_xscale("log")
    else:
        # Steps, sizes and runs are whole numbers.
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if "y" in panel.log:
        ax.set_yscale("log")
    ax.set(xlabel=panel.x_label, ylabel=panel.y_label, title=panel.title)
    # A panel whose curves are all empty has nothing to name.
    if ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize=8)


def _draw_pictures(figure: Figure, pictures: Sequence[tuple[str, Floats]]) -> None:
    """Ten grey pictures per row, each with its caption."""
    rows = -(-len(pictures) // 10)
    figure.set_size_inches(8, 1.1 * rows)
    axes = figure.subplots(rows, 10, squeeze=False).ravel()
    for ax in axes:
        ax.set_axis_off()
    for ax, (caption, image) in zip(axes, pictures, strict=False):
        ax.imshow(image, cmap="gray_r", interpolation="nearest")
        ax.set_title(caption, fontsize=9)


def _some(n: int) -> Indices:
    """Positions to draw of n: all if they are few, else a selection even on both kinds of axis."""
    even = np.linspace(0, n - 1, _DRAWN)
    rising = np.geomspace(1, max(n, 1), _DRAWN) - 1
    positions = np.arange(n) if n <= 2 * _DRAWN else np.concatenate([even, rising])
    return np.unique(np.round(positions).astype(np.intp))


def _colours(n: int) -> Sequence[Any]:
    """The palette of all figures; a scale in lightness for many curves, which are ordered."""
    if n <= len(COLOURS):
        return COLOURS[:n]
    from matplotlib import colormaps

    return [tuple(colour) for colour in colormaps["viridis"](np.linspace(0, 0.92, n))]


def standardised(data: Data | None) -> tuple[Floats, Floats]:
    """Abalone, or the given X and y, with zero mean and unit variance in every column of X.

    The targets are not changed.
    """
    X, y = load_abalone(return_X_y=True) if data is None else data
    return StandardScaler().fit_transform(X), np.asarray(y, dtype=np.float64)


def near(values: ArrayLike, printed: ArrayLike, width: ArrayLike) -> bool:
    """Whether all values are within ``width`` of the printed ones, on either side."""
    distance = np.abs(np.asarray(values, dtype=np.float64) - np.asarray(printed, dtype=np.float64))
    return bool(np.all(distance <= width))


def slashed(values: ArrayLike, digits: int = 0) -> str:
    """Numbers with slashes between them, as the rows of the papers' tables are quoted."""
    return "/".join(f"{value:.{digits}f}" for value in np.asarray(values, dtype=np.float64))


def cpu_seconds(tasks: Sequence[Callable[[], object]], times: int = 3) -> Floats:
    """Processor seconds of each task on one thread: the least of ``times`` runs, or of more.

    The tasks take turns, so that other work of the machine slows all of them alike.
    """
    least = np.full(len(tasks), np.inf)
    rounds, total = 0, 0.0
    with threadpool_limits(1):
        while rounds < times or total < _LEAST_SECONDS * len(tasks):
            for i, task in enumerate(tasks):
                start = time.process_time()
                task()
                spent = time.process_time() - start
                least[i] = min(least[i], spent)
                total += spent
            rounds += 1
    return least


def peak_bytes(task: Callable[[], object]) -> float:
    """Largest amount of memory that Python and NumPy held at once during a task."""
    tracemalloc.start()
    try:
        task()
        return float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def exponent(sizes: ArrayLike, costs: ArrayLike) -> float:
    """p of the power law cost ∝ sizeᵖ, by least squares on logarithms."""
    return float(np.polyfit(np.log(np.asarray(sizes)), np.log(np.asarray(costs)), 1)[0])
