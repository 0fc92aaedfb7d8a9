"""What a regressor leaves: residuals against its predictions or a feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from pursuit._types import Floats
from pursuit.plots.axes import COLOURS, drawn_rows, prepare_axes
from pursuit.plots.prediction import (
    check_fitted,
    chosen_features,
    feature_names,
    mean_and_spread,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_NORMAL_95 = 1.959964
_GROUPS = 10
"""Number of groups of rows whose mean and spread are drawn."""
_LEAST_PER_GROUP = 8
"""Groups are not drawn if they have fewer rows."""
_INSET = (0.73, 0.63, 0.25, 0.29)
"""Place of the inset in the axes: left, bottom, width, height."""
_ROOM_FOR_INSET = 0.6
"""Room above the data for inset and legend, as a share of their range."""


class ResidualDisplay:
    """Residuals against the predictions or a feature, and their quantiles in an inset.

    Make one with :meth:`from_estimator` or :meth:`from_predictions`, for rows that the model was
    not fitted to. Where the estimator predicts standard deviations, residuals are divided by
    them, and 95 % of those of a calibrated model lie between the dashed lines. The coloured lines
    show mean and spread of each tenth of the rows. If the spread is wider than the dashed lines in
    some places and narrower in others, the noise varies. If the mean is not flat, the model has
    missed something. The inset compares the residuals with normal quantiles: ends that leave the
    diagonal show outliers or heavy tails.

    Parameters
    ----------
    residuals : array-like of shape (n_rows,)
        Target minus prediction, divided by the standard deviation if ``standardized``.
    against : array-like of shape (n_rows,)
        Horizontal positions.
    label : str, default "Prediction"
        What the horizontal positions are.
    standardized : bool, default True
        Whether the residuals are divided by predicted standard deviations.
    quantiles : bool, default True
        Whether to draw the inset.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    inset_ : matplotlib Axes or None
        The axes of the inset.
    figure_ : matplotlib Figure
        Their figure.

    Examples
    --------
    >>> import numpy as np
    >>> from pursuit import ResidualDisplay
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.uniform(size=500)
    >>> display = ResidualDisplay.from_predictions(mean + rng.normal(size=500), mean, 1.0)
    """

    ax_: Axes
    inset_: Axes | None
    figure_: Figure | SubFigure

    def __init__(
        self,
        residuals: ArrayLike,
        against: ArrayLike,
        *,
        label: str = "Prediction",
        standardized: bool = True,
        quantiles: bool = True,
    ) -> None:
        self.residuals = residuals
        self.against = against
        self.label = label
        self.standardized = standardized
        self.quantiles = quantiles

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        feature: int | str | None = None,
        quantiles: bool = True,
        ax: Axes | None = None,
    ) -> Self:
        """Predict rows and draw their residuals.

        Parameters
        ----------
        estimator : fitted regressor
            Residuals are divided by its standard deviations if it has
            ``predict(X, return_std=True)``, and are in units of y otherwise.
        X : array or data frame of shape (n_rows, n_features)
            Rows that the model was not fitted to.
        y : array-like of shape (n_rows,)
            Their targets.
        feature : int or str, optional
            Number or name of the feature on the horizontal axis; the prediction by default.
        quantiles : bool, default True
            Whether to draw the inset.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ResidualDisplay
        """
        check_fitted(estimator)
        if hasattr(estimator, "classes_"):
            raise TypeError(f"{type(estimator).__name__} predicts classes, which have no residuals")
        mean, std = mean_and_spread(estimator, X)
        against, label = None, "Prediction"
        if feature is not None:
            against, label = _column(X, feature)
        return cls.from_predictions(
            y, mean, std, against=against, label=label, quantiles=quantiles, ax=ax
        )

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        mean: ArrayLike,
        std: ArrayLike | None = None,
        *,
        against: ArrayLike | None = None,
        label: str = "Prediction",
        quantiles: bool = True,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the residuals of given predictions.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            Targets.
        mean : array-like of shape (n_rows,)
            Predictions.
        std : array-like of shape (n_rows,), or a number, optional
            Their standard deviations, noise included. Without them residuals are in units of y.
        against : array-like of shape (n_rows,), optional
            Horizontal positions, such as the values of a feature; the predictions by default.
        label : str, default "Prediction"
            What the horizontal positions are.
        quantiles : bool, default True
            Whether to draw the inset.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ResidualDisplay
        """
        targets, predicted = np.asarray(y, dtype=np.float64), np.asarray(mean, dtype=np.float64)
        if targets.ndim != 1 or targets.shape != predicted.shape:
            raise ValueError(
                "residuals can be drawn for one output: y and mean must have shape (n_rows,), got "
                f"{targets.shape} and {predicted.shape}"
            )
        residuals = targets - predicted
        if std is not None:
            spread = np.asarray(std, dtype=np.float64)
            if spread.shape not in ((), targets.shape) or not (spread > 0.0).all():
                raise ValueError("std must be positive, and one number or one for each row")
            residuals = residuals / spread
        display = cls(
            residuals,
            predicted if against is None else against,
            label=label,
            standardized=std is not None,
            quantiles=quantiles,
        )
        return display.plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the residuals.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ResidualDisplay
            Itself, with ``ax_``, ``inset_`` and ``figure_`` set.
        """
        residuals = np.asarray(self.residuals, dtype=np.float64)
        against = np.asarray(self.against, dtype=np.float64)
        if against.shape != residuals.shape:
            raise ValueError(
                f"against must have a number for each of {len(residuals)} rows, got shape "
                f"{against.shape}"
            )
        if not (np.isfinite(residuals).all() and np.isfinite(against).all()):
            raise ValueError("residuals and their positions must be finite: leave out other rows")
        ax = prepare_axes(ax)
        some = drawn_rows(len(residuals))
        ax.plot(against[some], residuals[some], ".", color="0.6", markersize=3, zorder=1)
        ax.axhline(0.0, color="0.35", linewidth=0.8)
        if self.standardized:
            for side, label in ((1, "95% if calibrated"), (-1, None)):
                ax.axhline(side * _NORMAL_95, color="0.35", linestyle="--", label=label)
        if len(residuals) >= _GROUPS * _LEAST_PER_GROUP:
            _draw_groups(ax, against, residuals)
        if ax.get_legend_handles_labels()[0]:
            ax.legend(loc="upper left", frameon=False)
        ax.set_xlabel(self.label)
        ax.set_ylabel(
            "Residual / predicted standard deviation" if self.standardized else "Residual"
        )
        low, high = ax.dataLim.intervaly
        span = (high - low) or 1.0
        ax.set_ylim(low - 0.05 * span, high + _ROOM_FOR_INSET * span)
        self.inset_ = self._draw_quantiles(ax, residuals) if self.quantiles else None
        self.ax_ = ax
        self.figure_ = ax.figure
        return self

    def _draw_quantiles(self, ax: Axes, residuals: Floats) -> Axes:
        """Sorted residuals against normal quantiles."""
        ordered = np.sort(residuals)
        if not self.standardized:
            ordered = (ordered - ordered.mean()) / (ordered.std() or 1.0)
        n = len(ordered)
        normal = ndtri((np.arange(n) + 0.5) / n)
        # The ends are what matters, so they are among the dots.
        some = drawn_rows(n)
        inset = ax.inset_axes(_INSET)
        inset.plot(normal[[0, -1]], normal[[0, -1]], color="0.35", linestyle="--", linewidth=0.8)
        inset.plot(normal[some], ordered[some], ".", color=COLOURS[0], markersize=2)
        inset.tick_params(labelsize="x-small", length=2, pad=1)
        inset.set_title("Normal Q–Q plot", fontsize="x-small", pad=3)
        return inset


def _draw_groups(ax: Axes, against: Floats, residuals: Floats) -> None:
    """Mean of each tenth of the rows, and the range of 95 % of normal residuals with its spread."""
    groups = np.array_split(np.argsort(against, kind="stable"), _GROUPS)
    middle = [np.median(against[rows]) for rows in groups]
    mean = np.array([residuals[rows].mean() for rows in groups])
    spread = _NORMAL_95 * np.array([residuals[rows].std() for rows in groups])
    ax.plot(middle, mean, "o-", color=COLOURS[1], markersize=3, label="mean of each tenth of rows")
    style: dict[str, Any] = {"color": COLOURS[0], "linewidth": 1.2}
    ax.plot(middle, mean + spread, label="mean ± 1.96 standard deviations", **style)
    ax.plot(middle, mean - spread, **style)


def _column(X: Any, feature: int | str) -> tuple[Floats, str]:
    """Values and name of one feature."""
    names = feature_names(X) or [f"x{j}" for j in range(np.shape(X)[1])]
    [number] = chosen_features([feature], names)
    values = X.iloc[:, number] if hasattr(X, "iloc") else np.asarray(X)[:, number]
    try:
        return np.asarray(values, dtype=np.float64), names[number]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"feature {names[number]!r} does not hold numbers: pass codes of its values as "
            "against= to from_predictions"
        ) from error
