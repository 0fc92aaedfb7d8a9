"""Numbers as bars: importance or relevance per feature, and correlation per component."""

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

X_LABELS = {
    "importance": "Importance, relative to the predictions' standard deviation (no units)",
    "relevance": "Relevance: standard deviation / length scale (no units)",
}
_REMEDIES = {
    "importance": "Compute it with estimator.importance(X, kind='permutation'), and draw it with "
    "RelevanceDisplay.from_values",
    "relevance": "Its kernel has no length scale for each feature: fit with kernel=None, or with a "
    "kernel whose length_scale is an array, or draw kind='importance'",
}
_ROOM_FOR_NUMBERS = 0.14
"""Room for the numbers beside the bars, as a share of the longest bar."""
_GROUP = 0.8
"""Width of a group of bars; 1 leaves no space between groups."""


class RelevanceDisplay:
    """What features matter, as horizontal bars with their numbers, the largest on top.

    Make one with :meth:`from_estimator` or :meth:`from_values`. The importance of a feature is how
    much it moves the predictions over the data, relative to their standard deviation. Its
    relevance is its standard deviation divided by its length scale: how many length scales its
    values span, whatever the predictions make of it.

    Parameters
    ----------
    relevance : array-like of shape (n_features,)
        Importance or relevance of each feature.
    names : sequence of str
        Names of the features.
    max_features : int, default=20
        Maximum number of bars; the title says how many features there are in all.
    errors : array-like of shape (n_features,), optional
        Standard errors, drawn as error bars.
    kind : {"importance", "relevance"}, default="relevance"
        What the axis is called.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        The figure of these axes.
    bars_ : matplotlib BarContainer
        The bars, the largest first.

    Examples
    --------
    >>> from pursuit.plots import RelevanceDisplay
    >>> display = RelevanceDisplay.from_values([0.2, 1.7], ["width", "height"], errors=[0.1, 0.2])
    """

    ax_: Axes
    figure_: Figure | SubFigure
    bars_: BarContainer

    def __init__(
        self,
        relevance: ArrayLike,
        names: Sequence[str],
        *,
        max_features: int = 20,
        errors: ArrayLike | None = None,
        kind: str = "relevance",
    ) -> None:
        self.relevance = relevance
        self.names = names
        self.max_features = max_features
        self.errors = errors
        self.kind = kind

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        kind: str = "importance",
        max_features: int = 20,
        ax: Axes | None = None,
        **bar_kw: Any,
    ) -> Self:
        """Draw what the features of a fitted estimator matter.

        Parameters
        ----------
        estimator : object with an attribute ``learning_report_``
            A fitted Gaussian process.
        kind : {"importance", "relevance"}, default="importance"
            Importance of the features to the predictions on training rows, with standard errors, or
            the relevance that a kernel with a length scale for each feature has learned.
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
        _check_kind(kind)
        report = getattr(global_part(estimator), "learning_report_", None)
        if report is None:
            raise NotFittedError(
                f"estimator {type(estimator).__name__} has no learning_report_: call its fit "
                "method first, or pass a Gaussian process"
            )
        values = getattr(report, kind)
        if values is None:
            raise ValueError(f"estimator has no {kind} to draw. {_REMEDIES[kind]}")
        errors = report.importance_std if kind == "importance" else None
        return cls.from_values(
            values,
            report.feature_names,
            errors=errors,
            kind=kind,
            max_features=max_features,
            ax=ax,
            **bar_kw,
        )

    @classmethod
    def from_values(
        cls,
        relevance: ArrayLike,
        names: Sequence[str] | None = None,
        *,
        errors: ArrayLike | None = None,
        kind: str = "relevance",
        max_features: int = 20,
        ax: Axes | None = None,
        **bar_kw: Any,
    ) -> Self:
        """Draw given numbers.

        Parameters
        ----------
        relevance : array-like of shape (n_features,)
            Importance or relevance of each feature, finite and not negative.
        names : sequence of str, optional
            Names of the features; x0, x1, … by default.
        errors : array-like of shape (n_features,), optional
            Standard errors, drawn as error bars; finite and not negative.
        kind : {"importance", "relevance"}, default="relevance"
            What the axis is called.
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
        spread = None if errors is None else np.asarray(errors, dtype=float)
        if spread is not None and (
            spread.shape != values.shape or not (np.isfinite(spread) & (spread >= 0)).all()
        ):
            raise ValueError(
                f"errors must hold a number for each of the {len(values)} features, finite and not "
                "negative"
            )
        _check_kind(kind)
        labels = [f"x{j}" for j in range(len(values))] if names is None else list(map(str, names))
        if len(labels) != len(values):
            raise ValueError(
                f"names must name every feature: got {len(labels)} for {len(values)} features"
            )
        if not isinstance(max_features, Integral) or max_features < 1:
            raise ValueError(f"max_features must be a whole number from 1, got {max_features!r}")
        display = cls(values, labels, max_features=max_features, errors=spread, kind=kind)
        return display.plot(ax=ax, **bar_kw)

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
        errors = np.zeros(len(values)) if self.errors is None else np.asarray(self.errors, float)
        style: dict[str, Any] = {"color": COLOURS[0]}
        if self.errors is not None:
            style |= {"xerr": errors[order], "error_kw": {"elinewidth": 1.2, "capsize": 3}}
        self.bars_ = ax.barh(rows, values[order], **(style | bar_kw))
        ax.set_yticks(rows, [self.names[j] for j in order])
        ax.invert_yaxis()
        ax.grid(visible=False, axis="y")
        ax.bar_label(self.bars_, [_plain(value) for value in values[order]], padding=3)
        ax.set_xlim(0.0, (1.0 + _ROOM_FOR_NUMBERS) * (float((values + errors).max()) or 1.0))
        ax.set_xlabel(X_LABELS[self.kind])
        if len(order) < len(values):
            most = "important" if self.kind == "importance" else "relevant"
            ax.set_title(f"{len(order)} most {most} of {len(values)} features")
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


def _check_kind(kind: str) -> None:
    if kind not in X_LABELS:
        raise ValueError(f"kind must be 'importance' or 'relevance', got {kind!r}")


def _plain(value: float) -> str:
    """Three digits, without an exponent."""
    return np.format_float_positional(value, precision=3, fractional=False, trim="-")
