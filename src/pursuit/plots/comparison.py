"""Errors of models against the time of their fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from pursuit._types import Floats
from pursuit.plots.axes import COLOURS, prepare_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_OURS, _OTHERS = COLOURS[0], COLOURS[1]
_LINE = 0.055
"""Height of a name, as a part of the axis."""


class ComparisonDisplay:
    """Errors of models against the time of their fits, with bars for their spread over folds.

    Parameters
    ----------
    names : sequence of str
        Names of the models.
    seconds : array-like of shape (n_models,)
        Times of their fits, drawn on a logarithmic axis.
    errors : array-like of shape (n_models,)
        Mean errors.
    spread : array-like of shape (n_models,)
        Standard deviations of the errors over the folds.
    ours : sequence of bool, optional
        Models that are drawn as filled circles; others are open squares.
    error_name : str, default "error"
        What the axis is called.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        The figure of these axes.

    Examples
    --------
    >>> from pursuit.plots.comparison import ComparisonDisplay
    >>> shown = ComparisonDisplay(["ridge", "small process"], [0.1, 2.0], [0.5, 0.3], [0.05, 0.02])
    >>> shown.names
    ['ridge', 'small process']
    """

    ax_: Axes
    figure_: Figure | SubFigure

    def __init__(
        self,
        names: Sequence[str],
        seconds: ArrayLike,
        errors: ArrayLike,
        spread: ArrayLike,
        *,
        ours: Sequence[bool] | None = None,
        error_name: str = "error",
    ) -> None:
        self.names = names
        self.seconds = seconds
        self.errors = errors
        self.spread = spread
        self.ours = ours
        self.error_name = error_name

    def plot(self, ax: Axes | None = None) -> ComparisonDisplay:
        """Draw the models.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ComparisonDisplay
        """
        self.ax_ = ax = prepare_axes(ax)
        self.figure_ = ax.figure
        ours = [False] * len(self.names) if self.ours is None else self.ours
        seconds, errors, spread = map(np.asarray, (self.seconds, self.errors, self.spread))
        ax.set_xscale("log")
        for x, y, bar, own in zip(seconds, errors, spread, ours, strict=True):
            colour = _OURS if own else _OTHERS
            ax.errorbar(
                x,
                y,
                yerr=bar,
                fmt="o" if own else "s",
                color=colour,
                markerfacecolor=colour if own else "white",
                capsize=3,
            )
        ax.xaxis.set_major_formatter(_plain)
        ax.xaxis.set_minor_formatter(_plain)
        low, high = ax.get_ylim()
        places = _apart((errors - low) / (high - low))
        for name, x, y, place, own in zip(self.names, seconds, errors, places, ours, strict=True):
            colour = _OURS if own else _OTHERS
            ax.annotate(
                name,
                (x, y),
                xytext=(1.03, place),
                textcoords="axes fraction",
                va="center",
                color=colour,
                fontsize=9,
                arrowprops={
                    "arrowstyle": "-",
                    "color": colour,
                    "linewidth": 0.5,
                    "relpos": (0.0, 0.5),
                },
            )
        ax.set(
            xlabel="Seconds to fit",
            ylabel=f"{self.error_name} of rows left out",
            title="Means over the folds; bars: standard deviations",
        )
        return self


def _plain(value: float, _: float) -> str:
    """A number of seconds, of which a logarithmic axis shows those that begin with 1, 2 or 5."""
    return f"{value:g}" if f"{value:e}"[0] in "125" else ""


def _apart(heights: Floats) -> Floats:
    """Heights in the same order, moved so that names at them do not lie over each other."""
    order = np.argsort(heights, kind="stable")
    steps = _LINE * np.arange(len(heights))
    # Going up, each is at least a line above the one before; then all are brought back within.
    raised = np.maximum.accumulate(heights[order] - steps) + steps
    lowered = np.minimum(raised, 1.0 - steps[::-1])
    places = np.empty(len(heights))
    places[order] = lowered
    return places
