"""The path of a greedy fit: the objective, or the gap, as basis functions are added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError

from pursuit._types import Floats
from pursuit.plots.axes import next_colour, prepare_axes
from pursuit.plots.parts import global_part

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

X_LABELS = {"n_basis": "Number of basis functions", "seconds": "Time (seconds)"}
Y_LABELS = {
    "value": "Objective P(f) (squared target units, as fitted)",
    "gap": "Relative gap to the optimum (no units)",
}


class PathDisplay:
    """The path of a greedy fit.

    Make one with :meth:`from_estimator` or :meth:`from_path`. Steps where the plotted quantity was
    not computed (NaN) are left out. The vertical axis is logarithmic where all values are positive.

    Parameters
    ----------
    x : array-like of shape (n_steps,)
        Number of basis functions, or seconds since the start.
    y : array-like of shape (n_steps,)
        Objective or relative gap after each step.
    x_label, y_label : str
        Labels of the axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        The figure of these axes.
    line_ : matplotlib Line2D
        The path.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from pursuit.plots import PathDisplay
    >>> path = SimpleNamespace(
    ...     value=[3.0, 2.0, 1.5], gap=[2.0, float("nan"), 0.4], seconds=[0.1, 0.2, 0.4]
    ... )
    >>> display = PathDisplay.from_path(path, x="seconds", y="gap")
    """

    ax_: Axes
    figure_: Figure | SubFigure
    line_: Line2D

    def __init__(self, x: ArrayLike, y: ArrayLike, *, x_label: str = "", y_label: str = "") -> None:
        self.x = x
        self.y = y
        self.x_label = x_label
        self.y_label = y_label

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        x: Literal["n_basis", "seconds"] = "n_basis",
        y: Literal["value", "gap"] = "value",
        ax: Axes | None = None,
        **line_kw: Any,
    ) -> Self:
        """Draw the path of a fitted estimator.

        Parameters
        ----------
        estimator : object with an attribute ``path_``
            A fitted estimator. That of a full-scale model is the path of its ``global_`` part.
        x : {"n_basis", "seconds"}, default="n_basis"
            Quantity on the horizontal axis.
        y : {"value", "gap"}, default="value"
            Quantity on the vertical axis.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **line_kw
            Passed to ``ax.plot``; a ``label`` adds a legend.

        Returns
        -------
        PathDisplay
        """
        part = global_part(estimator)
        if not hasattr(part, "path_"):
            raise NotFittedError(
                f"estimator {type(estimator).__name__} has no path_: call its fit method first, or "
                "pass an estimator that chooses basis functions greedily"
            )
        return cls.from_path(part.path_, x=x, y=y, ax=ax, **line_kw)

    @classmethod
    def from_path(
        cls,
        path: Any,
        *,
        x: Literal["n_basis", "seconds"] = "n_basis",
        y: Literal["value", "gap"] = "value",
        ax: Axes | None = None,
        **line_kw: Any,
    ) -> Self:
        """Draw a path.

        Parameters
        ----------
        path : object with array attributes ``value``, ``gap`` and ``seconds``
            One entry per step; only the plotted ones are needed. If steps do not add one basis
            function each, ``sizes`` holds the number of functions after each step.
        x : {"n_basis", "seconds"}, default="n_basis"
            Quantity on the horizontal axis.
        y : {"value", "gap"}, default="value"
            Quantity on the vertical axis.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **line_kw
            Passed to ``ax.plot``; a ``label`` adds a legend.

        Returns
        -------
        PathDisplay
        """
        _check_choice("x", x, X_LABELS)
        _check_choice("y", y, Y_LABELS)
        heights = _column(path, y)
        if not np.isfinite(heights).any():
            raise ValueError(
                f"path has no finite {y} to draw: pass y={'value' if y == 'gap' else 'gap'!r}, or "
                "fit with a certificate to have gaps"
            )
        steps = np.arange(1.0, len(heights) + 1.0)
        if x == "seconds" or getattr(path, "sizes", None) is not None:
            steps = _column(path, "sizes" if x == "n_basis" else x)
        if len(steps) != len(heights):
            raise ValueError(
                f"path.{x} and path.{y} must have one entry per step, got {len(steps)} and "
                f"{len(heights)}"
            )
        display = cls(steps, heights, x_label=X_LABELS[x], y_label=Y_LABELS[y])
        return display.plot(ax=ax, **line_kw)

    def plot(self, ax: Axes | None = None, **line_kw: Any) -> Self:
        """Draw the path.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **line_kw
            Passed to ``ax.plot``; a ``label`` adds a legend.

        Returns
        -------
        PathDisplay
            Itself, with ``ax_``, ``figure_`` and ``line_`` set.
        """
        x, y = np.asarray(self.x), np.asarray(self.y, dtype=float)
        known = np.isfinite(y)
        ax = prepare_axes(ax)
        style: dict[str, Any] = {"color": next_colour(ax)}
        # A line shows neither a single point nor which of the steps were certified.
        if known.sum() == 1 or not known.all():
            style["marker"] = "o"
        (self.line_,) = ax.plot(x[known], y[known], **(style | line_kw))
        if (y[known] > 0).all():
            ax.set_yscale("log")
        ax.set_xlabel(self.x_label)
        ax.set_ylabel(self.y_label)
        if "label" in line_kw:
            ax.legend()
        self.ax_ = ax
        self.figure_ = ax.figure
        return self


def _check_choice(argument: str, choice: str, labels: dict[str, str]) -> None:
    if choice not in labels:
        allowed = " or ".join(f'"{name}"' for name in labels)
        raise ValueError(f"{argument} must be {allowed}, got {choice!r}")


def _column(path: Any, name: str) -> Floats:
    if not hasattr(path, name):
        raise TypeError(
            f"path must have an array attribute {name!r}, and {type(path).__name__} has none: pass "
            "the path_ of a fitted estimator"
        )
    column = np.asarray(getattr(path, name), dtype=float)
    if column.ndim != 1:
        raise ValueError(f"path.{name} must be one-dimensional, got shape {column.shape}")
    return column
