"""Errors of models against the time of their fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from pursuit.plots.axes import COLOURS, prepare_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_OURS, _OTHERS = COLOURS[0], COLOURS[1]


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
        for name, x, y, bar, own in zip(self.names, seconds, errors, spread, ours, strict=True):
            colour = _OURS if own else _OTHERS
            face = colour if own else "white"
            shape = "o" if own else "s"
            ax.errorbar(x, y, yerr=bar, fmt=shape, color=colour, markerfacecolor=face, capsize=3)
            ax.annotate(
                name, (x, y), xytext=(7, 4), textcoords="offset points", color=colour, fontsize=9
            )
        low, high = ax.get_xlim()
        # Room for the names at the right.
        ax.set_xlim(low, high * (high / low) ** 0.35)
        ax.set(
            xlabel="Seconds to fit (mean over the folds)",
            ylabel=f"{self.error_name} of rows left out (bars: standard deviation over the folds)",
        )
        return self
