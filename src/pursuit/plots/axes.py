"""What all Displays share: matplotlib on demand, colours, and the look of the axes."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from pursuit._types import Floats, Indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe & Ito (2008): readable with every common kind of colour vision; without yellow, too pale.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


_MOST_DOTS = 2000
"""Maximum number of rows drawn as dots."""


def prepare_axes(ax: Axes | None) -> Axes:
    """Return `ax`, or the axes of a new figure, with a light grid behind the data."""
    if ax is None:
        # A constrained layout leaves room for names of any length beside the axes.
        ax = _pyplot().subplots(layout="constrained")[1]
    ax.grid(visible=True, color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    return ax


def prepare_row(ax: Any, count: int) -> list[Axes]:
    """Return the axes of `ax`, or `count` of them side by side in a new figure."""
    if ax is None:
        size = (4.8 * count, 4.0)
        ax = _pyplot().subplots(1, count, figsize=size, layout="constrained")[1]
    return list(np.ravel(np.asarray(ax, dtype=object)))


def drawn_rows(n_rows: int) -> Indices:
    """Numbers of the rows that are drawn as dots: all, or some at equal distances."""
    return np.unique(np.linspace(0, n_rows - 1, _MOST_DOTS).astype(np.intp))


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            'drawing needs matplotlib: install it with `pip install "pursuit[plot]"`'
        ) from error
    return pyplot


def wrapped(text: str, width: int = 42) -> str:
    """A label broken into lines that are no longer than an axis."""
    return textwrap.fill(text, width)


def next_colour(ax: Axes) -> str:
    """Return the colour for one more line on `ax`."""
    return COLOURS[len(ax.lines) % len(COLOURS)]


def positive(values: Floats) -> Floats:
    """Values that a logarithmic axis can show; NaN, which is not drawn, in place of others."""
    return np.where(values > 0, values, np.nan)
