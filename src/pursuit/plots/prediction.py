"""Predictions along one feature, with error bands, or over two features."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats
from pursuit.metrics import mean_and_std
from pursuit.plots.axes import COLOURS, drawn_rows, prepare_axes, prepare_row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


_LEVELS = 12
"""Number of contour levels of a map."""


class PredictionDisplay:
    """Mean and bands along one feature, or maps of mean and standard deviation over two.

    Make one with :meth:`from_estimator`.

    Parameters
    ----------
    grid : list of one or two arrays
        Values of the features along which the predictions were made.
    mean : array of shape (n_values,) or (n_first, n_second)
        Predictions, or probabilities of the second class.
    std : array of the same shape, optional
        Their standard deviations.
    names : sequence of str
        Names of the features.
    target : str
        Name of the prediction, with its units.
    points : tuple of arrays, optional
        Feature values of some rows and, for one feature, their targets.
    coverage : float, default 0.95
        Share of new observations that the band should contain.
    others : bool, default False
        Whether there are other features, fixed at their medians. The legend then says so: rows
        have other values of these features and need not lie in the band.

    Attributes
    ----------
    axes_ : list of matplotlib Axes
        One, or two for the maps of mean and standard deviation.
    figure_ : matplotlib Figure
        Their figure.

    Examples
    --------
    >>> import numpy as np
    >>> from pursuit import PredictionDisplay, SparseGPRegressor
    >>> X = np.linspace(0.0, 6.0, 200)[:, None]
    >>> model = SparseGPRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> display = PredictionDisplay.from_estimator(model, X)
    """

    axes_: list[Axes]
    figure_: Figure | SubFigure

    def __init__(
        self,
        grid: list[Floats],
        mean: Floats,
        std: Floats | None,
        *,
        names: Sequence[str],
        target: str,
        points: tuple[Floats, ...] | None = None,
        coverage: float = 0.95,
        others: bool = False,
    ) -> None:
        self.grid = grid
        self.mean = mean
        self.std = std
        self.names = names
        self.target = target
        self.points = points
        self.coverage = coverage
        self.others = others

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        features: int | str | Sequence[int | str] = 0,
        grid_resolution: int | None = None,
        coverage: float = 0.95,
        target: str | None = None,
        ax: Axes | Sequence[Axes] | None = None,
    ) -> Self:
        """Predict along one or two features, all others at their medians, and draw it.

        Parameters
        ----------
        estimator : fitted estimator
            Bands are drawn if it has ``predict(X, return_std=True)``. For a classifier of two
            classes with ``predict_proba``, the probability of the second class is drawn.
        X : array or data frame of shape (n_rows, n_features)
            Rows that determine ranges and medians.
        y : array of shape (n_rows,), optional
            Their targets, drawn as dots when there is one feature.
        features : int, str or two of them, default 0
            Numbers or names of one or two features.
        grid_resolution : int, optional
            Number of values of each feature; 200 for one feature and 60 for two by default.
        coverage : float, default 0.95
            Share of new observations that the band should contain.
        target : str, optional
            Name of the prediction, with its units.
        ax : matplotlib Axes, or two for maps of mean and standard deviation, optional
            Where to draw; a new figure by default.

        Returns
        -------
        PredictionDisplay
        """
        check_fitted(estimator)
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage must be a number between 0 and 1, got {coverage!r}")
        names = feature_names(X)
        values = np.asarray(X, dtype=float)
        if values.ndim != 2:
            raise ValueError(f"X must have rows and features, got shape {values.shape}")
        names = names or [f"x{j}" for j in range(values.shape[1])]
        chosen = chosen_features(features, names)
        resolution = grid_resolution or (200 if len(chosen) == 1 else 60)
        axes = [np.linspace(*_range(values[:, j]), resolution) for j in chosen]
        mesh = np.meshgrid(*axes, indexing="ij")
        rows = np.tile(np.median(values, axis=0), (mesh[0].size, 1))
        for j, part in zip(chosen, mesh, strict=True):
            rows[:, j] = part.ravel()
        mean, std = _predict(estimator, rows if not hasattr(X, "iloc") else _frame(X, rows))
        shape = mesh[0].shape
        some = drawn_rows(len(values))
        points: tuple[Floats, ...] | None = tuple(values[some, j] for j in chosen)
        classes = getattr(estimator, "classes_", None)
        if len(chosen) == 1:
            # For classes the probability is drawn: rows of the last class are at 1.
            targets = y if classes is None or y is None else np.asarray(y) == classes[-1]
            points = None if y is None else (*(points or ()), np.asarray(targets, float)[some])
        label = "Prediction" if classes is None else f"Probability of {classes[-1]}"
        display = cls(
            axes,
            mean.reshape(shape),
            None if std is None else std.reshape(shape),
            names=[names[j] for j in chosen],
            target=label if target is None else target,
            points=points,
            coverage=coverage,
            others=len(chosen) < values.shape[1],
        )
        return display.plot(ax=ax)

    def plot(self, ax: Axes | Sequence[Axes] | None = None) -> Self:
        """Draw the prediction.

        Parameters
        ----------
        ax : matplotlib Axes, or two for maps of mean and standard deviation, optional
            Where to draw; a new figure by default.

        Returns
        -------
        PredictionDisplay
            Itself, with ``axes_`` and ``figure_`` set.
        """
        self.axes_ = self._line(ax) if len(self.grid) == 1 else self._maps(ax)
        self.figure_ = self.axes_[0].figure
        return self

    def _line(self, ax: Any) -> list[Axes]:
        ax = prepare_axes(ax)
        [x] = self.grid
        if self.points is not None:
            label = "rows, other features as they are" if self.others else "rows"
            ax.plot(*self.points, ".", color="0.6", markersize=3, label=label, zorder=1)
        if self.std is not None:
            width = NormalDist().inv_cdf(0.5 + 0.5 * self.coverage) * self.std
            ax.fill_between(
                x,
                self.mean - width,
                self.mean + width,
                color=COLOURS[0],
                alpha=0.2,
                linewidth=0,
                label=f"{self.coverage:.0%} of new observations",
            )
        label = "mean, other features at their medians" if self.others else "mean"
        ax.plot(x, self.mean, color=COLOURS[0], label=label, zorder=3)
        ax.set(xlabel=self.names[0], ylabel=self.target)
        if len(ax.get_legend_handles_labels()[0]) > 1:
            ax.legend(frameon=False)
        return [ax]

    def _maps(self, ax: Any) -> list[Axes]:
        shown = [(self.target, self.mean, "viridis")]
        if self.std is not None:
            shown.append((f"Standard deviation of {_lowered(self.target)}", self.std, "cividis"))
        axes = prepare_row(ax, len(shown))
        shown = shown[: len(axes)]
        for each, (title, values, colours) in zip(axes, shown, strict=False):
            filled = each.contourf(*self.grid, values.T, levels=_LEVELS, cmap=colours)
            each.figure.colorbar(filled, ax=each, label=title)
            if self.points is not None:
                each.plot(*self.points, ".", color="white", alpha=0.35, markersize=1.5)
            each.set(xlabel=self.names[0], ylabel=self.names[1])
            each.set(xlim=self.grid[0][[0, -1]], ylim=self.grid[1][[0, -1]])
        return axes


def feature_names(X: Any) -> list[str] | None:
    """Names of the columns of a data frame."""
    columns = getattr(X, "columns", None)
    return None if columns is None else [str(name) for name in columns]


def _frame(X: Any, rows: Floats) -> Any:
    """Rows as a data frame like X, so that the model sees the names it knows."""
    return type(X)(rows, columns=X.columns)


def chosen_features(features: Any, names: list[str]) -> list[int]:
    """Numbers of the one or two features asked for."""
    asked = [features] if isinstance(features, str | Integral) else list(features)
    if len(asked) not in (1, 2):
        raise ValueError(f"features must be one feature or two, got {len(asked)}")
    numbers = []
    for feature in asked:
        if isinstance(feature, str):
            if feature not in names:
                raise ValueError(f"features: {feature!r} is not one of {', '.join(names)}")
            numbers.append(names.index(feature))
        elif isinstance(feature, Integral) and -len(names) <= int(feature) < len(names):
            numbers.append(int(feature) % len(names))
        else:
            raise ValueError(f"features: {feature!r} is not a number below {len(names)} or a name")
    if len(set(numbers)) < len(numbers):
        raise ValueError("features must be two different features")
    return numbers


def _range(values: Floats) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _predict(estimator: Any, rows: Any) -> tuple[Floats, Floats | None]:
    """Mean and, where there is one, standard deviation; probabilities of a classifier."""
    if hasattr(estimator, "classes_"):
        if len(estimator.classes_) != 2:
            raise ValueError(
                "a prediction can be drawn for two classes, and this estimator has "
                f"{len(estimator.classes_)}"
            )
        return np.asarray(estimator.predict_proba(rows))[:, 1], None
    return mean_and_spread(estimator, rows)


def mean_and_spread(estimator: Any, rows: Any) -> tuple[Floats, Floats | None]:
    """Predictions of one output and, where there is one, their standard deviation."""
    std: Floats | None
    try:
        mean, std = mean_and_std(estimator, rows)
    except TypeError:
        mean, std = np.asarray(estimator.predict(rows), dtype=np.float64), None
    if mean.ndim != 1:
        raise ValueError(f"a prediction can be drawn for one output, and there are {mean.shape[1]}")
    return mean, std


def check_fitted(estimator: Any) -> None:
    """Raise scikit-learn's error for what is not a fitted estimator."""
    try:
        check_is_fitted(estimator)
    except TypeError as error:
        raise NotFittedError(f"{estimator!r} is not a fitted estimator") from error


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]
