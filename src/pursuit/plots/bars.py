"""Numbers as bars: relevance per feature, and correlation per component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError

from pursuit.plots.axes import COLOURS, prepare_axes
from pursuit.plots.parts import global_part

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure, SubFigure

X_LABEL = "Relevance: standard deviation / length scale (no units)"
_ROOM_FOR_NUMBERS = 0.14
"""Room for the numbers beside the bars, as a share of the longest bar."""
_GROUP = 0.8
"""Width of a group of bars; 1 leaves no space between groups."""


class RelevanceDisplay:
    """Relevance of the features as horizontal bars with their numbers, the most relevant on top.

    Make one with :meth:`from_estimator` or :meth:`from_values`. The relevance of a feature is its
    standard deviation divided by its length scale: how many length scales its values span.

    Parameters
    ----------
    relevance : array-like of shape (n_features,)
        Relevance of each feature.
    names : sequence of str
        Names of the features.
    max_features : int, default=20
        Maximum number of bars; the title says how many features there are in all.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        The figure of these axes.
    bars_ : matplotlib BarContainer
        The bars, the most relevant first.

    Examples
    --------
    >>> from pursuit.plots import RelevanceDisplay
    >>> display = RelevanceDisplay.from_values([0.2, 1.7], ["width", "height"])
    """

    ax_: Axes
    figure_: Figure | SubFigure
    bars_: BarContainer

    def __init__(
        self, relevance: ArrayLike, names: Sequence[str], *, max_features: int = 20
    ) -> None:
        self.relevance = relevance
        self.names = names
        self.max_features = max_features

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, max_features: int = 20, ax: Axes | None = None, **bar_kw: Any
    ) -> Self:
        """Draw the relevance that a fitted estimator has learned.

        Parameters
        ----------
        estimator : object with attributes ``feature_relevance_`` and ``learning_report_``
            A fitted estimator whose kernel has a length scale for each feature.
        max_features : int, default=20
            Maximum number of bars.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **bar_kw
            Passed to ``ax.barh``.

        Returns
        -------
        RelevanceDisplay
        """
        part = global_part(estimator)
        if not hasattr(part, "feature_relevance_"):
            raise NotFittedError(
                f"estimator {type(estimator).__name__} has no feature_relevance_: call its fit "
                "method first, or pass an estimator that learns length scales"
            )
        if part.feature_relevance_ is None:
            raise ValueError(
                "estimator has no relevance to draw: its kernel has no length scale for each "
                "feature. Fit with kernel=None, or with a kernel whose length_scale is an array"
            )
        names = part.learning_report_.feature_names
        return cls.from_values(
            part.feature_relevance_, names, max_features=max_features, ax=ax, **bar_kw
        )

    @classmethod
    def from_values(
        cls,
        relevance: ArrayLike,
        names: Sequence[str] | None = None,
        *,
        max_features: int = 20,
        ax: Axes | None = None,
        **bar_kw: Any,
    ) -> Self:
        """Draw given numbers.

        Parameters
        ----------
        relevance : array-like of shape (n_features,)
            Relevance of each feature, finite and not negative.
        names : sequence of str, optional
            Names of the features; x0, x1, … by default.
        max_features : int, default=20
            Maximum number of bars.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **bar_kw
            Passed to ``ax.barh``.

        Returns
        -------
        RelevanceDisplay
        """
        values = np.asarray(relevance, dtype=float)
        if values.ndim != 1 or values.size == 0:
            raise ValueError(
                f"relevance must hold one number for each feature, got shape {values.shape}"
            )
        if not (np.isfinite(values) & (values >= 0)).all():
            raise ValueError("relevance must be finite and not negative")
        labels = [f"x{j}" for j in range(len(values))] if names is None else list(map(str, names))
        if len(labels) != len(values):
            raise ValueError(
                f"names must name every feature: got {len(labels)} for {len(values)} features"
            )
        if not isinstance(max_features, Integral) or max_features < 1:
            raise ValueError(f"max_features must be a whole number from 1, got {max_features!r}")
        return cls(values, labels, max_features=max_features).plot(ax=ax, **bar_kw)

    def plot(self, ax: Axes | None = None, **bar_kw: Any) -> Self:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **bar_kw
            Passed to ``ax.barh``.

        Returns
        -------
        RelevanceDisplay
            Itself, with ``ax_``, ``figure_`` and ``bars_`` set.
        """
        values = np.asarray(self.relevance, dtype=float)
        order = np.argsort(-values, kind="stable")[: self.max_features]
        ax = prepare_axes(ax)
        # Bars are placed by position, since two features may have the same name.
        rows = np.arange(len(order))
        self.bars_ = ax.barh(rows, values[order], **({"color": COLOURS[0]} | bar_kw))
        ax.set_yticks(rows, [self.names[j] for j in order])
        ax.invert_yaxis()
        ax.grid(visible=False, axis="y")
        ax.bar_label(self.bars_, [_plain(value) for value in values[order]], padding=3)
        ax.set_xlim(0.0, (1.0 + _ROOM_FOR_NUMBERS) * (values.max() or 1.0))
        ax.set_xlabel(X_LABEL)
        if len(order) < len(values):
            ax.set_title(f"{len(order)} most relevant of {len(values)} features")
        self.ax_ = ax
        self.figure_ = ax.figure
        return self


class CorrelationDisplay:
    """Canonical correlations as bars, one group per component.

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
        correlations = {"training rows": estimator.canonical_correlations_}
        if X is not None:
            correlations["new rows"] = estimator.correlations(X, y)
        return cls(correlations).plot(ax=ax, **bar_kw)

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
        # Correlations near 1 are of interest: the legend gets room above their bars.
        ax.set_ylim(min(0.0, *(float(values.min()) for values in groups.values())), 1.15)
        ax.legend(loc="upper right", ncols=len(groups))
        self.ax_ = ax
        self.figure_ = ax.figure
        return self


def _plain(value: float) -> str:
    """Three digits, without an exponent."""
    return np.format_float_positional(value, precision=3, fractional=False, trim="-")
