"""Kernels of some of the columns: `on_columns` for users, and the node that compares them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process import kernels as gp

from pursuit._types import Floats, Indices
from pursuit.kernels.base import (
    BoundKernel,
    Extent,
    Items,
    Kernel,
    Pullback,
    Tile,
    Tiles,
    Vector,
    as_points,
    check_same_features,
    n_items,
)

Columns: TypeAlias = "str | int | slice | Sequence[str | int | bool] | Callable[[Any], Any]"
"""Names, positions, a mask, a slice of either, or a selector such as `make_column_selector`."""


def on_columns(kernel: gp.Kernel, columns: Columns) -> ColumnsKernel:
    """Make a kernel that looks at some of the columns only.

    Parameters
    ----------
    kernel : scikit-learn GP kernel
        The kernel of these columns, in the order given.
    columns : name, position, list of either, slice, mask or selector
        As in scikit-learn's `ColumnTransformer`. Names, and selectors such as
        `make_column_selector`, need rows with column names.

    Returns
    -------
    kernel : ColumnsKernel
        A kernel object that can be added to and multiplied with others, and is learned like them.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF, DotProduct
    >>> from pursuit import on_columns
    >>> on_columns(RBF(2.0), ["rain", "wind"]) + on_columns(DotProduct(), [0])
    on_columns(RBF(length_scale=2), ['rain', 'wind']) + on_columns(DotProduct(sigma_0=1), [0])
    """
    if not isinstance(kernel, gp.Kernel):
        raise TypeError(
            "on_columns takes a kernel object such as those of sklearn.gaussian_process.kernels, "
            f"got {kernel!r}."
        )
    return ColumnsKernel(kernel, columns)


class AroundKernel(gp.Kernel):
    """A scikit-learn kernel that has the hyper-parameters of another one, its inner kernel."""

    _inner_name: ClassVar[str]
    """Name of the parameter that holds the inner kernel."""

    @property
    def _inner(self) -> gp.Kernel:
        return getattr(self, self._inner_name)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, and with ``deep`` those of the inner kernel after its name."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep and isinstance(self._inner, gp.Kernel):  # else the error is said by a fit
            inner = self._inner.get_params().items()
            params.update((f"{self._inner_name}__{name}", value) for name, value in inner)
        return params

    @property
    def hyperparameters(self) -> list[gp.Hyperparameter]:
        """Those of the inner kernel."""
        return [
            gp.Hyperparameter(f"{self._inner_name}__{inner.name}", *inner[1:4])
            for inner in self._inner.hyperparameters
        ]

    @property
    def theta(self) -> Floats:
        """The inner kernel's."""
        return np.asarray(self._inner.theta)

    @theta.setter
    def theta(self, theta: Floats) -> None:
        self._inner.theta = theta

    @property
    def bounds(self) -> Floats:
        """The inner kernel's."""
        return np.asarray(self._inner.bounds)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and same_values(self.get_params(), other.get_params())

    __hash__ = None  # type: ignore[assignment]

    def is_stationary(self) -> bool:
        """What the inner kernel says."""
        return bool(self._inner.is_stationary())

    @property
    def requires_vector_input(self) -> bool:
        """True: columns are those of rows of numbers."""
        return True


class ColumnsKernel(AroundKernel):
    """What :func:`on_columns` returns: a scikit-learn kernel of some of the columns.

    Parameters
    ----------
    kernel : scikit-learn GP kernel
        The kernel of these columns.
    columns : name, position, list of either, slice, mask or selector
        The columns.
    names : sequence of str or None, default None
        Their names, to print; a fit fills them in where `columns` were resolved to positions.
    """

    _inner_name = "kernel"

    def __init__(
        self, kernel: gp.Kernel, columns: Columns, names: Sequence[str] | None = None
    ) -> None:
        self.kernel = kernel
        self.columns = columns
        self.names = names

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return k(X, Y), and with ``eval_gradient`` its derivative by θ."""
        here = None if Y is None else self._taken(Y)
        return self.kernel(self._taken(X), here, eval_gradient=eval_gradient)

    def diag(self, X: Any) -> Vector:
        """Return k(x, x) of every row."""
        return np.asarray(self.kernel.diag(self._taken(X)))

    def _taken(self, X: Any) -> Any:
        positions = ColumnNames.of(X).positions(self.columns, "on_columns")
        return np.asarray(X)[:, positions]

    def __repr__(self) -> str:
        columns = self.columns if self.names is None else list(self.names)
        return f"on_columns({self.kernel!r}, {columns!r})"


def same_values(one: Any, another: Any) -> bool:
    """Return whether two parameters are equal, also arrays, and lists and dicts of them."""
    if isinstance(one, np.ndarray) or isinstance(another, np.ndarray):
        return bool(np.array_equal(one, another))
    if isinstance(one, list | tuple) and isinstance(another, list | tuple):
        return len(one) == len(another) and all(map(same_values, one, another))
    if isinstance(one, dict) and isinstance(another, dict):
        return one.keys() == another.keys() and all(same_values(one[k], another[k]) for k in one)
    return bool(one == another)


@dataclass(frozen=True)
class ColumnNames:
    """What is known of the columns of a table that kernels name.

    Attributes
    ----------
    n_columns : int
        How many there are.
    names : list of str, optional
        What they are called.
    frame : data frame, optional
        The table, or as much of it as a selector looks at.
    levels : mapping, optional
        The codes of category columns, in ascending order, by position.
    """

    n_columns: int
    names: list[str] | None = None
    frame: Any = None
    levels: Mapping[int, Floats] | None = None

    @classmethod
    def of(cls, X: Any) -> ColumnNames:
        """Those of an array or data frame."""
        names = getattr(X, "columns", None)
        known = None if names is None else [str(name) for name in names]
        return cls(int(X.shape[1]), known, None if names is None else X)

    def of_columns(self, positions: list[int]) -> ColumnNames:
        """Those of some of the columns."""
        names = None if self.names is None else [self.names[j] for j in positions]
        frame = None
        if self.frame is not None:
            frame = self.frame[[self.frame.columns[j] for j in positions]]
        known = self.levels or {}
        levels = {i: known[j] for i, j in enumerate(positions) if j in known}
        return ColumnNames(len(positions), names, frame, levels)

    @property
    def numbers(self) -> list[int]:
        """Positions of the columns that are no categories."""
        return [j for j in range(self.n_columns) if j not in (self.levels or {})]

    def names_of(
        self, positions: Sequence[int], otherwise: Sequence[str] | None
    ) -> Sequence[str] | None:
        """Names of some columns; others where none are known."""
        return otherwise if self.names is None else [self.names[j] for j in positions]

    def positions(self, columns: Columns, owner: str) -> list[int]:
        """Return the positions of what a user calls columns, or say what is wrong with them."""
        if callable(columns):
            if self.frame is None:
                raise ValueError(
                    f"{owner} has a selector of columns, which needs a data frame: pass one to "
                    "fit, or give positions."
                )
            columns = list(columns(self.frame))
        if isinstance(columns, slice):
            ends = [self._end(end, owner) for end in (columns.start, columns.stop)]
            by_name = isinstance(columns.stop, str)  # a slice of names holds its last one
            stop = ends[1] + 1 if by_name and ends[1] is not None else ends[1]
            found = list(range(*slice(ends[0], stop, columns.step).indices(self.n_columns)))
        else:
            several: list[Any]
            if isinstance(columns, str) or not isinstance(columns, Iterable):
                several = [columns]
            else:
                several = list(columns)
            if several and all(isinstance(one, bool | np.bool_) for one in several):
                if len(several) != self.n_columns:
                    raise ValueError(
                        f"{owner} has a mask of {len(several)} columns, and there are "
                        f"{self.n_columns}."
                    )
                several = [int(j) for j in np.flatnonzero(several)]
            found = [self._position(one, owner) for one in several]
        if not found:
            raise ValueError(f"{owner} names no columns: give at least one.")
        repeated = sorted({j for j in found if found.count(j) > 1})
        if repeated:
            named = repeated if self.names is None else [self.names[j] for j in repeated]
            raise ValueError(f"{owner} names columns more than once: {named}.")
        return found

    def _end(self, end: Any, owner: str) -> int | None:
        return self._position(end, owner) if isinstance(end, str) else end

    def _position(self, column: Any, owner: str) -> int:
        if isinstance(column, str):
            if self.names is None:
                raise ValueError(
                    f"{owner} names column {column!r}, and the columns have no names: pass a data "
                    "frame, or give positions."
                )
            if column not in self.names:
                raise ValueError(
                    f"{owner} names column {column!r}, which is not among {self.names}."
                )
            return self.names.index(column)
        if not isinstance(column, int | np.integer):
            raise TypeError(f"{owner} takes names or positions of columns, got {column!r}.")
        if not -self.n_columns <= column < self.n_columns:
            raise ValueError(
                f"{owner} has column {column}, and there are {self.n_columns}: positions run from "
                f"0 to {self.n_columns - 1}."
            )
        return int(column) % self.n_columns


def resolved_positions(columns: Any) -> Indices:
    """Return the columns of a resolved kernel object, which are positions, as an array."""
    return np.atleast_1d(np.asarray(columns, dtype=np.intp))


@dataclass(frozen=True, eq=False)
class OnColumns(Kernel):
    """A kernel of some of the columns.

    Parameters
    ----------
    kernel : Kernel
        The kernel of these columns.
    positions : array of int
        The columns.
    n_features : int or None, default None
        Number of all columns, where it is known.
    """

    kernel: Kernel
    positions: Indices
    n_features: int | None = None

    @property
    def positive_definite(self) -> bool:
        """What the inner kernel says."""
        return self.kernel.positive_definite

    @property
    def rounding(self) -> float:
        """What the inner kernel says."""
        return self.kernel.rounding

    def error(self, extent: Extent) -> float:
        """Return that of the inner kernel."""
        return self.kernel.error(extent.of_columns(self.positions))

    @property
    def has_theta(self) -> bool:
        """What the inner kernel says."""
        return self.kernel.has_theta

    @property
    def has_points(self) -> bool:
        """What the inner kernel says."""
        return self.kernel.has_points

    @property
    def in_blocks(self) -> bool:
        """What the inner kernel says."""
        return self.kernel.in_blocks

    def take(self, items: Items) -> Any:
        """Return the columns of the items."""
        points = as_points(items)
        if self.n_features is not None:
            check_same_features(points, self.n_features)
        return points[:, self.positions]

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> BoundKernel:
        """Bind the inner kernel to the columns of Z."""
        return ColumnTiles(self, Z, dtype)

    def diag(self, A: Items) -> Vector:
        """Return that of the inner kernel."""
        return self.kernel.diag(self.take(A))

    def among(self, items: Items, size: int) -> Tile:
        """Return the blocks of the inner kernel."""
        return self.kernel.among(self.take(items), size)

    @property
    def length_scales(self) -> float | Vector | None:
        """Those of the inner kernel; infinite for the other columns."""
        inner = self.kernel.length_scales
        if inner is None or self.n_features is None:
            return None
        scales = np.full(self.n_features, np.inf)
        scales[self.positions] = inner
        return scales

    def simplified(self) -> Kernel:
        """Return the same with a simplified inner kernel."""
        return OnColumns(self.kernel.simplified(), self.positions, self.n_features)

    def theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return the entries of the inner kernel."""
        return self.kernel.theta(self.take(A), self.take(B), W)

    def evaluated(self, X: Floats) -> tuple[Tile, Pullback]:
        """Return the values of the inner kernel, and its derivatives."""
        return self.kernel.evaluated(self.take(X))

    def points(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return those of the inner kernel, and zeros for the other columns."""
        return self._spread(B, self.kernel.points(self.take(A), self.take(B), W))

    def diag_points(self, B: Floats, weights: Vector) -> Floats:
        """Return those of the inner kernel, and zeros for the other columns."""
        return self._spread(B, self.kernel.diag_points(self.take(B), weights))

    def _spread(self, B: Floats, inner: Floats) -> Floats:
        gradient = np.zeros(B.shape, inner.dtype)
        gradient[:, self.positions] = inner
        return gradient


class ColumnTiles(Tiles):
    """Tiles of the inner kernel."""

    def __init__(self, kernel: OnColumns, Z: Items, dtype: npt.DTypeLike) -> None:
        super().__init__(n_items(Z), dtype)
        self._kernel, self._n_features = kernel, as_points(Z).shape[1]
        self._inner = kernel.kernel.columns(kernel.take(Z), dtype)

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the block k(A, Z)."""
        out = self.buffer(n_items(A), out)
        check_same_features(as_points(A), self._n_features)
        return self._inner(self._kernel.take(A), out)
