"""How strongly two views correlate, component by component."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError

from pursuit.plots.axes import COLOURS, prepare_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure, SubFigure

_GROUP = 0.8


class CorrelationDisplay:
    """Canonical correlations as bars, one group a component.

    Make one with :meth:`from_estimator`, or from the numbers.

    Parameters
    ----------
    correlations : mapping of str to array-like of shape (n_components,)
        Correlations by the name of the rows they were measured on.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        The figure of these axes.
    bars_ : dict of str to matplotlib BarContainer
        The bars by name.

    Examples
    --------
    >>> from pursuit.plots import CorrelationDisplay
    >>> display = CorrelationDisplay({"training rows": [0.9, 0.6], "new rows": [0.8, 0.1]}).plot()
    >>> list(display.bars_)
    ['training rows', 'new rows']
    """

    ax_: Axes
    figure_: Figure | SubFigure
    bars_: dict[str, BarContainer]

    def __init__(self, correlations: Mapping[str, ArrayLike]) -> None:
        self.correlations = correlations

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, y: Any = None, *, ax: Axes | None = None, **bar_kw: Any
    ) -> Self:
        """Draw the correlations of a fitted estimator, and those on other rows.

        Parameters
        ----------
        estimator : object with ``canonical_correlations_`` and a method ``correlations(X, y)``
            A fitted SparseKernelCCA.
        X, y : optional
            Both views of other rows.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **bar_kw
            Passed to ``ax.bar``.

        Returns
        -------
        CorrelationDisplay
        """
        if not hasattr(estimator, "canonical_correlations_"):
            raise NotFittedError(
                f"estimator {type(estimator).__name__} has no canonical_correlations_: call its "
                "fit method first, or pass a SparseKernelCCA"
            )
        if (X is None) != (y is None):
            raise ValueError("X and y are two views of the same rows: pass both or neither")
        found = {"training rows": estimator.canonical_correlations_}
        if X is not None:
            found["new rows"] = estimator.correlations(X, y)
        return cls(found).plot(ax=ax, **bar_kw)

    def plot(self, ax: Axes | None = None, **bar_kw: Any) -> Self:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **bar_kw
            Passed to ``ax.bar``.

        Returns
        -------
        CorrelationDisplay
            Itself, with ``ax_``, ``figure_`` and ``bars_`` set.
        """
        groups = {name: np.asarray(values, float) for name, values in self.correlations.items()}
        if len({values.shape for values in groups.values()}) != 1:
            raise ValueError("correlations must hold at least one array, and all of one length")
        ax = prepare_axes(ax)
        width = _GROUP / len(groups)
        self.bars_ = {}
        for position, (name, values) in enumerate(groups.items()):
            places = np.arange(1, len(values) + 1) + (position + 0.5) * width - _GROUP / 2
            style = {"color": COLOURS[position % len(COLOURS)], "label": name} | bar_kw
            self.bars_[name] = ax.bar(places, values, width, **style)
        ax.set_xticks(np.arange(1, len(values) + 1))
        ax.set_xlabel("Component")
        ax.set_ylabel("Correlation of the two views")
        # Correlations near 1 are what is looked for: the legend has room above their bars.
        ax.set_ylim(min(0.0, *(float(values.min()) for values in groups.values())), 1.15)
        ax.legend(loc="upper right", ncols=len(groups))
        self.ax_ = ax
        self.figure_ = ax.figure
        return self
