"""Parts of models: the one that has the basis, and the functions that add up to predictions."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError

from pursuit._types import Floats
from pursuit.plots.axes import COLOURS, prepare_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_COLUMNS = 3
"""Most panels side by side."""
_PANEL_INCHES = 3.6, 2.8
_LEVELS = 12
"""Number of contour levels of a map."""
_CURVE_POINTS, _MAP_POINTS = 200, 50
"""Values of a feature along which a curve, or a map, is computed."""


def global_part(estimator: Any) -> Any:
    """The sparse model in an estimator that adds near rows to one; else the estimator itself."""
    return getattr(estimator, "global_", estimator)


class PartsDisplay:
    """The parts of predictions: a curve for each part of one feature, a map for each part of two.

    Make one with :meth:`from_estimator`.

    Parameters
    ----------
    grids : list of lists of one or two arrays
        For each part the values of its features along which it was computed.
    means : list of arrays
        The parts there: of shape (n_values,) or (n_first, n_second).
    stds : list of arrays of the same shapes, or None
        Their standard deviations.
    names : sequence of str
        Names of the parts.
    features : list of lists of str
        Names of the features of each part.
    rows : list of arrays, or None, default None
        For each part of one feature its values in some rows, drawn as ticks on the axis.
    target : str, default "Prediction"
        Name of the prediction, with its units.
    coverage : float, default 0.95
        Probability that the function lies in the band, for each value by itself.

    Attributes
    ----------
    axes_ : list of matplotlib Axes
        One for each part.
    figure_ : matplotlib Figure
        Their figure.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from pursuit import Additive, PartsDisplay, SparseGPRegressor
    >>> X = np.random.default_rng(0).uniform(size=(200, 2))
    >>> y = np.sin(6 * X[:, 0]) + X[:, 1] ** 2
    >>> model = SparseGPRegressor(Additive(RBF()), random_state=0).fit(X, y)
    >>> display = PartsDisplay.from_estimator(model, X)
    >>> len(display.axes_)
    2
    """

    axes_: list[Axes]
    figure_: Figure | SubFigure

    def __init__(
        self,
        grids: list[list[Floats]],
        means: list[Floats],
        stds: list[Floats] | None,
        *,
        names: Sequence[str],
        features: list[list[str]],
        rows: list[Floats | None] | None = None,
        target: str = "Prediction",
        coverage: float = 0.95,
    ) -> None:
        self.grids = grids
        self.means = means
        self.stds = stds
        self.names = names
        self.features = features
        self.rows = rows
        self.target = target
        self.coverage = coverage

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        parts: Sequence[str] | None = None,
        grid_resolution: int | None = None,
        coverage: float = 0.95,
        target: str = "Prediction",
        ax: Sequence[Axes] | None = None,
    ) -> Self:
        """Compute the parts over the range of their features, and draw them.

        Each is drawn less its mean over the rows of X. A part does not depend on features that its
        term of the kernel does not look at, so these need no values. Parts of more than two
        features, or of categories, are not drawn.

        Parameters
        ----------
        estimator : fitted estimator with ``predict_parts``
            Bands are drawn if it has ``predict_parts(X, return_std=True)``.
        X : array or data frame of shape (n_rows, n_features)
            Rows that determine the ranges.
        parts : sequence of str, optional
            Names of the parts to draw, of ``part_names_``; by default all of one or two
            features of numbers.
        grid_resolution : int, optional
            Number of values of each feature; 200 for curves and 50 for maps by default.
        coverage : float, default 0.95
            Probability that the function lies in the band, for each value by itself.
        target : str, default "Prediction"
            Name of the prediction, with its units.
        ax : sequence of matplotlib Axes, optional
            Where to draw, one for each part; a new figure by default.

        Returns
        -------
        PartsDisplay
        """
        if not hasattr(estimator, "part_names_"):
            raise NotFittedError(
                f"estimator {type(estimator).__name__} has no parts: call its fit method first, or "
                "pass an estimator with predict_parts"
            )
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage must be a number between 0 and 1, got {coverage!r}")
        labels = [str(name) for name in getattr(X, "columns", [])]
        labels = labels or [f"x{j}" for j in range(np.shape(X)[1])]
        grids, means, rows = [], [], []
        stds: list[Floats] = []
        chosen = _drawable(estimator, parts)
        for number, columns in chosen:
            values = [_column(X, j) for j in columns]
            resolution = grid_resolution or (_CURVE_POINTS if len(columns) == 1 else _MAP_POINTS)
            grid = [np.linspace(*_range(each), resolution) for each in values]
            mesh = np.meshgrid(*grid, indexing="ij")
            mean, std = _parts_at(estimator, _with_columns(X, columns, mesh), X)
            shape = mesh[0].shape
            grids.append(grid)
            means.append(mean[:, number].reshape(shape))
            if std is not None:
                stds.append(std[:, number].reshape(shape))
            rows.append(values[0] if len(columns) == 1 else None)
        display = cls(
            grids,
            means,
            stds or None,
            names=[estimator.part_names_[number] for number, _ in chosen],
            features=[[labels[j] for j in columns] for _, columns in chosen],
            rows=rows,
            target=target,
            coverage=coverage,
        )
        return display.plot(ax=ax)

    def plot(self, ax: Sequence[Axes] | None = None) -> Self:
        """Draw the parts.

        Parameters
        ----------
        ax : sequence of matplotlib Axes, optional
            Where to draw, one for each part; a new figure by default.

        Returns
        -------
        PartsDisplay
            Itself, with ``axes_`` and ``figure_`` set.
        """
        n = len(self.names)
        axes = _panels(n) if ax is None else list(np.ravel(np.asarray(ax, dtype=object)))
        if len(axes) < n:
            raise ValueError(f"ax must hold one Axes for each of the {n} parts, got {len(axes)}")
        for i in range(n):
            draw = self._curve if len(self.grids[i]) == 1 else self._map
            draw(axes[i], i)
            axes[i].set_title(self.names[i], fontsize="medium")
        self.axes_ = axes[:n]
        self.figure_ = axes[0].figure
        return self

    def _curve(self, ax: Axes, i: int) -> None:
        ax = prepare_axes(ax)
        [x] = self.grids[i]
        mean = self.means[i]
        if self.stds is not None:
            width = NormalDist().inv_cdf(0.5 + 0.5 * self.coverage) * self.stds[i]
            ax.fill_between(x, mean - width, mean + width, color=COLOURS[0], alpha=0.2, linewidth=0)
        ax.plot(x, mean, color=COLOURS[0])
        values = None if self.rows is None else self.rows[i]
        if values is not None:
            ax.plot(
                values,
                np.zeros(len(values)),
                "|",
                color="0.4",
                markersize=6,
                alpha=0.3,
                transform=ax.get_xaxis_transform(),
            )
        ax.set(xlabel=self.features[i][0], ylabel=self.target)

    def _map(self, ax: Axes, i: int) -> None:
        filled = ax.contourf(*self.grids[i], self.means[i].T, levels=_LEVELS, cmap="viridis")
        ax.figure.colorbar(filled, ax=ax, label=self.target)
        ax.set(xlabel=self.features[i][0], ylabel=self.features[i][1])


def _drawable(estimator: Any, parts: Sequence[str] | None) -> list[tuple[int, list[int]]]:
    """Numbers and columns of the parts to draw."""
    names, columns = estimator.part_names_, estimator.part_columns_
    categories = set(_category_columns(estimator))
    few = [
        i
        for i, used in enumerate(columns)
        if used is not None and len(used) in (1, 2) and not categories.intersection(used)
    ]
    for name in parts or []:
        if name not in names:
            raise ValueError(f"parts: {name!r} is not one of {', '.join(names)}")
        if names.index(name) not in few:
            raise ValueError(f"parts: {name!r} is not a function of one or two features of numbers")
    chosen = few if parts is None else [names.index(name) for name in parts]
    if not chosen:
        raise ValueError(
            "no part is a function of one or two features of numbers: use a sum of kernels of few "
            "columns, such as Additive(RBF())"
        )
    return [(i, list(columns[i])) for i in chosen]


def _category_columns(estimator: Any) -> list[int]:
    """Positions of the columns that hold categories."""
    names = list(getattr(estimator, "feature_names_in_", []))
    labels = getattr(estimator, "categories_", {})
    return [names.index(label) if isinstance(label, str) else label for label in labels]


def _column(X: Any, j: int) -> Floats:
    """Numbers of one column of an array or data frame."""
    values = X[X.columns[j]] if hasattr(X, "columns") else np.asarray(X)[:, j]
    return np.asarray(values, dtype=float)


def _range(values: Floats) -> tuple[float, float]:
    low, high = float(np.min(values)), float(np.max(values))
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _with_columns(X: Any, columns: list[int], mesh: Sequence[Floats]) -> Any:
    """The first row of X, as often as the mesh has points, with their values in some columns."""
    first = np.zeros(mesh[0].size, dtype=int)
    if not hasattr(X, "columns"):
        rows = np.asarray(X, dtype=float)[first]
        for j, values in zip(columns, mesh, strict=True):
            rows[:, j] = values.ravel()
        return rows
    frame = X.iloc[first].reset_index(drop=True) if hasattr(X, "iloc") else X[first]
    for j, values in zip(columns, mesh, strict=True):
        name = X.columns[j]
        if hasattr(X, "iloc"):
            frame[name] = values.ravel()
        else:
            frame = frame.with_columns(type(frame[name])(name, values.ravel()))
    return frame


def _parts_at(estimator: Any, rows: Any, X: Any) -> tuple[Floats, Floats | None]:
    """The parts less their means over X and, where there are any, their standard deviations."""
    try:
        means, stds = estimator.predict_parts(rows, return_std=True, center=X)
    except (TypeError, ValueError):  # models without, and those with near rows
        means, stds = estimator.predict_parts(rows, center=X), None
    if means.ndim != 2:
        raise ValueError(f"parts can be drawn for one output, and there are {means.shape[2]}")
    return means, stds


def _panels(n: int) -> list[Axes]:
    """Axes of a new figure, in rows."""
    prepare_axes(None).figure.clear()
    from matplotlib import pyplot

    figure = pyplot.gcf()
    n_columns = min(n, _COLUMNS)
    n_rows = -(-n // n_columns)
    figure.set_size_inches(_PANEL_INCHES[0] * n_columns, _PANEL_INCHES[1] * n_rows)
    axes = list(figure.subplots(n_rows, n_columns, squeeze=False).ravel())
    for empty in axes[n:]:
        empty.remove()
    return axes
