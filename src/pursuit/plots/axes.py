"""What all Displays share: matplotlib on demand, the colours, and the look of the axes."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe & Ito (2008): told apart with every common colour vision; yellow is left out, too pale.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def prepare_axes(ax: Axes | None) -> Axes:
    """Return `ax`, or the axes of a new figure, with a light grid behind the data."""
    if ax is None:
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise ImportError(
                "drawing needs matplotlib: install it with `pip install pursuit[plot]`"
            ) from error
        # Constrained: names of any length find room beside the axes.
        ax = pyplot.subplots(layout="constrained")[1]
    ax.grid(visible=True, color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    return ax


def wrapped(text: str, width: int = 42) -> str:
    """A label on as many lines as it takes not to be longer than an axis."""
    return textwrap.fill(text, width)


def next_colour(ax: Axes) -> str:
    """Return the colour for one more line on `ax`."""
    return COLOURS[len(ax.lines) % len(COLOURS)]
