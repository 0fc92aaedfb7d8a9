"""Are the error bars right? Probability integral transform and coverage of intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from pursuit._types import Floats
from pursuit.metrics import mean_and_std, pit
from pursuit.plots.axes import COLOURS, prepare_axes, prepare_row
from pursuit.plots.prediction import check_fitted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

SHOWS = ("both", "pit", "coverage")
_BAND = 0.95
"""Share of calibrated models whose bar, or point of the curve, is within the grey band."""
_BAND_LABEL = f"{_BAND:.0%} of calibrated models"
_LEVELS = np.linspace(0.0, 1.0, 101)


class CalibrationDisplay:
    """Calibration of a regressor: a histogram of its PIT and the coverage of its intervals.

    Make one with :meth:`from_estimator` or :meth:`from_predictions`, for rows that the model was
    not fitted to. The PIT of a row is the predicted probability of values below its target. Bars
    that are high in the middle show error bars that are too wide, bars that are high at both ends
    error bars that are too narrow, and a slope shows a bias. Grey bands contain 95 % of what
    calibrated models show, at each bar and each level by itself, if rows are independent.

    For the probabilities of a classifier, use :class:`sklearn.calibration.CalibrationDisplay`.

    Parameters
    ----------
    pit : array-like of shape (n_rows,)
        Probability integral transforms, from 0 to 1: see :func:`pursuit.metrics.pit`.
    bins : int, optional
        Number of bars; 10 by default, and 20 from 1 000 rows.
    show : {"both", "pit", "coverage"}, default "both"
        What to draw.

    Attributes
    ----------
    axes_ : list of matplotlib Axes
        The axes drawn on: of the histogram, of the coverage, or both.
    figure_ : matplotlib Figure
        Their figure.

    Examples
    --------
    >>> import numpy as np
    >>> from pursuit import CalibrationDisplay
    >>> y = np.random.default_rng(0).normal(size=500)
    >>> display = CalibrationDisplay.from_predictions(y, np.zeros(500), np.ones(500))
    >>> len(display.axes_)
    2
    """

    axes_: list[Axes]
    figure_: Figure | SubFigure

    def __init__(
        self,
        pit: ArrayLike,
        *,
        bins: int | None = None,
        show: Literal["both", "pit", "coverage"] = "both",
    ) -> None:
        self.pit = pit
        self.bins = bins
        self.show = show

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        bins: int | None = None,
        show: Literal["both", "pit", "coverage"] = "both",
        ax: Axes | Any = None,
    ) -> Self:
        """Predict rows and draw how well the error bars fit their targets.

        Parameters
        ----------
        estimator : fitted regressor with ``predict(X, return_std=True)``
            The model.
        X : array or data frame of shape (n_rows, n_features)
            Rows that the model was not fitted to.
        y : array-like of shape (n_rows,)
            Their targets.
        bins : int, optional
            Number of bars; 10 by default, and 20 from 1 000 rows.
        show : {"both", "pit", "coverage"}, default "both"
            What to draw.
        ax : matplotlib Axes, or two for ``show="both"``, optional
            Where to draw; a new figure by default.

        Returns
        -------
        CalibrationDisplay
        """
        check_fitted(estimator)
        if hasattr(estimator, "classes_"):
            raise TypeError(
                f"{type(estimator).__name__} predicts classes: use "
                "sklearn.calibration.CalibrationDisplay"
            )
        mean, std = mean_and_std(estimator, X)
        return cls.from_predictions(y, mean, std, bins=bins, show=show, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        mean: ArrayLike,
        std: ArrayLike,
        *,
        bins: int | None = None,
        show: Literal["both", "pit", "coverage"] = "both",
        ax: Axes | Any = None,
    ) -> Self:
        """Draw how well predicted means and standard deviations fit the targets.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            Targets.
        mean : array-like of shape (n_rows,)
            Predicted means.
        std : array-like of shape (n_rows,), or a number
            Predicted standard deviations, noise included.
        bins : int, optional
            Number of bars; 10 by default, and 20 from 1 000 rows.
        show : {"both", "pit", "coverage"}, default "both"
            What to draw.
        ax : matplotlib Axes, or two for ``show="both"``, optional
            Where to draw; a new figure by default.

        Returns
        -------
        CalibrationDisplay
        """
        return cls(pit(y, mean, std), bins=bins, show=show).plot(ax=ax)

    def plot(self, ax: Axes | Any = None) -> Self:
        """Draw the histogram and the curve.

        Parameters
        ----------
        ax : matplotlib Axes, or two for ``show="both"``, optional
            Where to draw; a new figure by default.

        Returns
        -------
        CalibrationDisplay
            Itself, with ``axes_`` and ``figure_`` set.
        """
        values = self._checked()
        draw = {"pit": self._draw_pit, "coverage": self._draw_coverage}
        shown = [draw[name] for name in draw if self.show in ("both", name)]
        axes = prepare_row(ax, len(shown))
        if len(axes) != len(shown):
            raise ValueError(
                f"show={self.show!r} needs {len(shown)} axes, got {len(axes)}: pass two axes for "
                "'both', and one for 'pit' or 'coverage'"
            )
        for draw_one, each in zip(shown, axes, strict=True):
            draw_one(prepare_axes(each), values)
        self.axes_ = axes
        self.figure_ = axes[0].figure
        return self

    def _checked(self) -> Floats:
        values = np.asarray(self.pit, dtype=np.float64)
        if values.ndim != 1 or not values.size:
            raise ValueError(
                f"calibration can be drawn for one output, and the PIT has shape {values.shape}: "
                "call from_predictions with a column of y, mean and std"
            )
        if not ((values >= 0.0) & (values <= 1.0)).all():
            raise ValueError("pit must hold numbers from 0 to 1: see pursuit.metrics.pit")
        if self.show not in SHOWS:
            raise ValueError(f"show must be one of {SHOWS}, got {self.show!r}")
        return values

    def _draw_pit(self, ax: Axes, values: Floats) -> None:
        n = len(values)
        bins = self.bins or (20 if n >= 1000 else 10)
        counts, edges = np.histogram(values, bins=bins, range=(0.0, 1.0))
        ax.bar(edges[:-1], counts * bins / n, 1.0 / bins, align="edge", color=COLOURS[0], alpha=0.7)
        low, high = _band(n, np.array([1.0 / bins]))
        ax.axhspan(bins * low[0], bins * high[0], color="0.5", alpha=0.25, lw=0, label=_BAND_LABEL)
        ax.axhline(1.0, color="0.35", linestyle="--", label="calibrated")
        ax.set(xlim=(0.0, 1.0), xlabel="Predicted probability of values below the target (PIT)")
        ax.set_ylabel("Density of rows")
        # The legend gets room above the bars.
        ax.set_ylim(0.0, 1.3 * max(ax.get_ylim()[1], 1.0))
        ax.legend(loc="upper center", ncols=2, frameon=False)

    def _draw_coverage(self, ax: Axes, values: Floats) -> None:
        inside = np.sort(np.abs(2.0 * values - 1.0))
        observed = np.searchsorted(inside, _LEVELS, side="right") / len(values)
        low, high = _band(len(values), _LEVELS)
        ax.fill_between(_LEVELS, low, high, color="0.5", alpha=0.25, lw=0, label=_BAND_LABEL)
        ax.plot(_LEVELS, _LEVELS, color="0.35", linestyle="--", label="calibrated")
        ax.plot(_LEVELS, observed, color=COLOURS[0], label="observed")
        ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal")
        ax.set(xlabel="Level of the intervals", ylabel="Share of targets inside")
        ax.legend(loc="upper left", frameon=False)


def _band(n: int, probabilities: Floats) -> tuple[Floats, Floats]:
    """Shares of n rows between which `_BAND` of binomial draws lie, for each probability."""
    tail = (1.0 - _BAND) / 2.0
    low, high = (np.asarray(binom.ppf(p, n, probabilities)) for p in (tail, 1.0 - tail))
    return low / n, high / n
