"""Kernels of categories: `Categorical` for users, and the nodes that compare levels.

A column of categories holds codes, numbers that are compared for equality only. Each pair of levels
has a correlation: one number ρ for all pairs, or that of a low-rank factor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process import kernels as gp

from pursuit._types import Floats, Indices
from pursuit.kernels.base import (
    FUNCTION,
    BoundKernel,
    Extent,
    Items,
    Kernel,
    Tile,
    Tiles,
    Vector,
    as_points,
    check_same_features,
    is_sparse,
    n_items,
)
from pursuit.kernels.on_columns import ColumnNames, Columns, same_values
from pursuit.rounding import gamma

MOST_PAIRED = 30
"""Most levels of a column that may have a correlation for each pair of them."""
FORMS = ("auto", "one", "pairs")
_FACTOR_BOUND = 30.0
"""Largest entry of a factor: at it levels have a correlation of .999."""


class Categorical(gp.Kernel):
    r"""A learned kernel of category columns: a correlation for each pair of levels.

    .. math:: k(a, b) = \prod_c R_c[a_c, b_c]

    over its columns c. All levels of a column have the same correlation ρ with each other, or, for
    columns of at most 30 levels, each pair has its own, from a low-rank factor u:

    .. math:: R_{ij} = u_i'u_j / \sqrt{(1 + |u_i|^2)(1 + |u_j|^2)} \quad (i \ne j), \qquad
              R_{ii} = 1.

    Columns of a data frame may hold text, categories or numbers; missing values of text and of
    categories are a level if they occur in training. Levels that did not occur in training count as
    one further level. Its correlation with all others is ρ, or with each of them the mean that this
    one has with the levels.

    Parameters
    ----------
    columns : name, position, list of either, slice, mask or selector
        As in :func:`pursuit.on_columns`.
    correlations : {"auto", "one", "pairs"}, default "auto"
        What is learned for each column: one correlation, one for each pair of levels, or
        whichever has the larger log evidence, less one for each further number (Akaike's
        criterion). Columns of more than 30 levels always have one.
    rank : int, optional
        Length of u, at most the number of levels less one. By default the same criterion tells.
    correlation : float or array of shape (n_columns,), default 0.5
        ρ, strictly between 0 and 1: the start of learning.
    correlation_bounds : pair of floats or "fixed", default (1e-4, 0.9999)
        Bounds of ρ. With "fixed" nothing of the kernel is learned.
    factors : list with an array of shape (n_levels, rank) or None for each column, optional
        u of the columns that have a correlation for each pair; a fit fills them in.
    levels : list of arrays, optional
        The codes of each column, in ascending order; a fit fills them in.
    names : sequence of str, optional
        Names of the columns, to print; a fit fills them in.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import Matern
    >>> from pursuit import Categorical, SparseGPRegressor, on_columns
    >>> rng = np.random.default_rng(0)
    >>> city = rng.choice(["Bonn", "Lund", "Oslo"], 300)
    >>> hours = rng.uniform(0, 6, 300)
    >>> y = np.sin(hours) * np.where(city == "Oslo", -1, 1)
    >>> X = np.column_stack([hours.astype(object), city])
    >>> kernel = 1.0 * on_columns(Matern(nu=2.5), [0]) * Categorical([1])
    >>> model = SparseGPRegressor(kernel, random_state=0).fit(X, y)
    >>> model.categories_
    {1: ['Bonn', 'Lund', 'Oslo']}
    >>> float(np.abs(model.predict(X) - y).max()) < 0.1
    True
    """

    def __init__(
        self,
        columns: Columns,
        correlations: str = "auto",
        *,
        rank: int | None = None,
        correlation: Any = 0.5,
        correlation_bounds: Any = (1e-4, 0.9999),
        factors: Sequence[Any] | None = None,
        levels: Sequence[Any] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.columns = columns
        self.correlations = correlations
        self.rank = rank
        self.correlation = correlation
        self.correlation_bounds = correlation_bounds
        self.factors = factors
        self.levels = levels
        self.names = names

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters."""
        names = (
            "columns correlations rank correlation correlation_bounds factors levels names".split()
        )
        return {name: getattr(self, name) for name in names}

    # What is free: log ℓ of every column with one correlation ρ = exp(-1/ℓ), u of the others

    @property
    def _fixed(self) -> bool:
        return isinstance(self.correlation_bounds, str)

    def _column_count(self) -> int:
        """Return the number of columns, which is known where they are listed."""
        if self.factors is not None:
            return len(self.factors)
        if np.ndim(self.correlation):
            return len(np.ravel(self.correlation))
        if isinstance(self.columns, str | int | np.integer):
            return 1
        if isinstance(self.columns, slice) or callable(self.columns):
            # One number stands for all columns until a fit knows them.
            return 1
        several = list(self.columns)
        masked = several and all(isinstance(one, bool | np.bool_) for one in several)
        return int(np.sum(several)) if masked else len(several)

    def _factors(self) -> list[Floats | None]:
        if self.factors is None:
            return [None] * self._column_count()
        return [None if u is None else np.asarray(u, dtype=np.float64) for u in self.factors]

    def _ranges(self) -> Floats:
        """Return ℓ of each column."""
        rho = np.broadcast_to(np.asarray(self.correlation, dtype=float), self._column_count())
        if not np.all((rho > 0) & (rho < 1)):
            raise ValueError(f"correlation must lie between 0 and 1, got {self.correlation!r}.")
        return np.asarray(-1.0 / np.log(rho))

    @property
    def hyperparameters(self) -> list[gp.Hyperparameter]:
        """One for each column; their type says that bounds are not those of a logarithm."""
        bounds = "fixed" if self._fixed else self._range_bounds()[None]
        labels = self._labels()
        parameters = []
        for j, u in enumerate(self._factors()):
            if u is None:
                parameters.append(gp.Hyperparameter(f"correlation[{labels[j]}]", "ratio", bounds))
            else:
                limits = "fixed" if self._fixed else (-_FACTOR_BOUND, _FACTOR_BOUND)
                parameters.append(
                    gp.Hyperparameter(f"factor[{labels[j]}]", "entries", limits, u.size)
                )
        return parameters

    def _labels(self) -> list[str]:
        if self.names is not None:
            return list(self.names)
        if isinstance(self.columns, list | tuple):
            return [str(column) for column in self.columns]
        return [str(j) for j in range(self._column_count())]

    def _range_bounds(self) -> Floats:
        low, high = self.correlation_bounds
        if not 0 < low < high < 1:
            raise ValueError(
                "correlation_bounds must be 'fixed' or two numbers between 0 and 1 in ascending "
                f"order, got {self.correlation_bounds!r}."
            )
        return -1.0 / np.log([low, high])

    @property
    def theta(self) -> Floats:
        """The free entries, column by column: log ℓ with ρ = exp(-1/ℓ), or the entries of u."""
        if self._fixed:
            return np.empty(0)
        entries = [
            np.atleast_1d(np.log(length)) if u is None else u.ravel()
            for length, u in zip(self._ranges(), self._factors(), strict=True)
        ]
        return np.concatenate(entries)

    @theta.setter
    def theta(self, theta: Floats) -> None:
        if self._fixed:
            return
        lengths, factors, at = self._ranges(), self._factors(), 0
        for j, u in enumerate(factors):
            size = 1 if u is None else u.size
            entries = np.asarray(theta[at : at + size], dtype=float)
            at += size
            if u is None:
                lengths[j] = np.exp(entries[0])
            else:
                factors[j] = entries.reshape(u.shape)
        if any(u is None for u in factors):
            rho = np.exp(-1.0 / lengths)
            self.correlation = rho if np.ndim(self.correlation) or len(rho) > 1 else float(rho[0])
        self.factors = None if all(u is None for u in factors) else factors

    @property
    def bounds(self) -> Floats:
        """Those of the entries of θ."""
        if self._fixed:
            return np.empty((0, 2))
        one = np.log(self._range_bounds())[None]
        several = np.array([[-_FACTOR_BOUND, _FACTOR_BOUND]])
        parts = [one if u is None else several.repeat(u.size, axis=0) for u in self._factors()]
        return np.concatenate(parts)

    # Values, through the nodes

    def nodes(self) -> list[tuple[int, OneCorrelation | PairCorrelations]]:
        """Return the position and the node of each column, which must be given by position."""
        self._check()
        columns = np.atleast_1d(np.asarray(self.columns))
        if columns.dtype.kind != "i":
            raise ValueError(
                f"Categorical has the columns {self.columns!r}, and rows without column names: "
                "pass a data frame, or give positions."
            )
        parts = zip(columns, self._ranges(), self._factors(), self._levels(), strict=True)
        return [(int(j), self._node(int(j), *part)) for j, *part in parts]

    def _node(
        self, position: int, length: float, u: Any, levels: Any
    ) -> OneCorrelation | PairCorrelations:
        if u is None:
            return OneCorrelation(not self._fixed, float(length))
        codes = np.arange(float(len(u))) if levels is None else np.asarray(levels, dtype=float)
        if u.ndim != 2 or len(codes) != len(u):
            raise ValueError(
                f"factors of column {position} must be an array with a row for each of its "
                f"{len(codes)} levels, got shape {u.shape}."
            )
        return PairCorrelations(not self._fixed, codes, u)

    def _levels(self) -> Sequence[Any]:
        return [None] * self._column_count() if self.levels is None else self.levels

    def _check(self) -> None:
        if self.correlations not in FORMS:
            raise ValueError(
                f"correlations must be one of {', '.join(map(repr, FORMS))}, got "
                f"{self.correlations!r}."
            )
        whole = isinstance(self.rank, int | np.integer) and self.rank >= 1
        if self.rank is not None and not whole:
            raise ValueError(
                f"rank must be a whole number of at least 1, or None, got {self.rank!r}."
            )
        if not self._fixed:
            self._range_bounds()

    def resolved(self, known: ColumnNames) -> Categorical:
        """Return the kernel with columns by position, and with their levels where they are known.

        The order in which columns are given is kept.
        """
        self._check()
        positions = known.positions(self.columns, "Categorical")
        levels = self.levels
        if known.levels is not None and all(j in known.levels for j in positions):
            levels = [known.levels[j] for j in positions]
        rho = np.broadcast_to(np.asarray(self.correlation, dtype=float), len(positions))
        return Categorical(
            positions,
            self.correlations,
            rank=self.rank,
            correlation=float(rho[0]) if len(rho) == 1 else rho.copy(),
            correlation_bounds=self.correlation_bounds,
            factors=self.factors,
            levels=levels,
            names=known.names_of(positions, self.names),
        )

    def pairable(self) -> list[int]:
        """Numbers of the columns that may get a correlation for each pair of their levels."""
        if self.correlations == "one" or self.levels is None or self._fixed:
            return []
        return [
            j
            for j, (codes, u) in enumerate(zip(self.levels, self._factors(), strict=True))
            if u is None and 2 <= len(codes) <= MOST_PAIRED
        ]

    def with_factor(self, column: int, factor: Floats) -> Categorical:
        """Return a kernel whose column with this number has the given u."""
        factors = self._factors()
        factors[column] = factor
        return Categorical(**{**self.get_params(), "factors": factors})

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return k(X, Y), and with ``eval_gradient`` its derivative by θ."""
        if Y is not None and eval_gradient:
            raise ValueError("Gradient can only be evaluated when Y is None.")
        A, B = np.asarray(X), np.asarray(X if Y is None else Y)
        parts = [(node, A[:, [j]], B[:, [j]]) for j, node in self._placed(X).nodes()]
        tiles = [node.tile(a, b) for node, a, b in parts]
        K = np.prod(tiles, axis=0)
        if not eval_gradient:
            return K
        slopes = []
        for j, (node, a, b) in enumerate(parts):
            others = np.prod(tiles[:j] + tiles[j + 1 :], axis=0) if len(tiles) > 1 else 1.0
            slopes += [others * slope for slope in node.slopes(a, b)]
        return K, np.stack(slopes, axis=2) if slopes else np.empty((*K.shape, 0))

    def _placed(self, X: Any) -> Categorical:
        return self.resolved(ColumnNames.of(X))

    def diag(self, X: Any) -> Vector:
        """Return ones."""
        return np.ones(n_items(X))

    def is_stationary(self) -> bool:
        """False: levels are not numbers that can be shifted."""
        return False

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and same_values(self.get_params(), other.get_params())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        columns = self.columns if self.names is None else list(self.names)
        factors = self._factors()
        if all(u is None for u in factors):
            rho = np.ravel(self.correlation)
            numbers = ", ".join(f"{one:.3g}" for one in rho)
            what = f"correlation={numbers if np.ndim(self.correlation) == 0 else f'[{numbers}]'}"
        else:
            paired = [
                name for name, u in zip(self._labels(), factors, strict=True) if u is not None
            ]
            what = f"pairs of levels of {', '.join(paired)}"
        return f"Categorical({columns!r}, {what})"


@dataclass(frozen=True, eq=False)
class CategoryColumn(Kernel):
    """A kernel of the codes in the one column that it is given: see `OnColumns`.

    Attributes
    ----------
    free : bool
        Whether there are hyper-parameters.
    """

    free: bool

    has_theta = has_points = True

    @property
    def positive_definite(self) -> bool:
        """True by construction."""
        return True

    def codes(self, items: Items) -> Floats:
        """Return the codes of the items."""
        column = as_points(items)
        check_same_features(column, 1)
        dense = column.toarray() if is_sparse(column) else column
        return np.asarray(dense[:, 0], dtype=np.float64)

    def diag(self, A: Items) -> Vector:
        """Return ones."""
        return np.ones(n_items(A))

    @property
    def length_scales(self) -> float | Vector | None:
        """NaN: levels have no distance."""
        return float("nan")

    def points(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return zeros: levels do not move."""
        return np.zeros(B.shape)


@dataclass(frozen=True, eq=False)
class OneCorrelation(CategoryColumn):
    """1 for equal codes, ρ = exp(-1/length) for others; log length is the hyper-parameter."""

    length: float

    @property
    def rho(self) -> float:
        """ρ."""
        return float(np.exp(-1.0 / self.length))

    def error(self, extent: Extent) -> float:
        """Return that of ρ, and of ρ + (1 - ρ)."""
        return FUNCTION + gamma(3)

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> BoundKernel:
        """Bind the kernel to the codes of Z."""
        return EqualityTiles(self, Z, dtype)

    def among(self, items: Items, size: int) -> Tile:
        """Return the blocks of consecutive items."""
        codes = self.codes(items).reshape(-1, size)
        return np.where(codes[:, :, None] == codes[:, None, :], 1.0, self.rho)

    def theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return ρ/length times the sum of W over different codes."""
        if not self.free:
            return np.empty(0)
        different = self.codes(A)[:, None] != self.codes(B)
        total = float(np.vdot(W, different.astype(W.dtype)))
        return np.array([self.rho / self.length * total])

    def slopes(self, A: Floats, B: Floats) -> Iterator[Tile]:
        """Yield the derivative of the block by each hyper-parameter."""
        if self.free:
            yield self.rho / self.length * (self.codes(A)[:, None] != self.codes(B))


@dataclass(frozen=True, eq=False)
class PairCorrelations(CategoryColumn):
    """v_i'v_j for levels i ≠ j with v = u/√(1 + |u|²), and 1 for equal levels.

    Codes that are not among the levels are one further level, whose v is the mean of all others: it
    is correlated with them as a level drawn at random would be.

    Attributes
    ----------
    levels : array of shape (n_levels,)
        The codes, in ascending order.
    factor : array of shape (n_levels, rank)
        u. Its entries are the hyper-parameters.
    """

    levels: Floats
    factor: Floats

    def error(self, extent: Extent) -> float:
        """Return that of v on both sides, a mean over the levels included, and of their product."""
        n_levels, rank = self.factor.shape
        return gamma(2 * n_levels + 2 * rank + 12)

    def numbers(self, items: Items) -> Indices:
        """Return the number of each item's level, n_levels for codes that are not among them."""
        codes = self.codes(items)
        at = np.searchsorted(self.levels, codes)
        at[at == len(self.levels)] = 0
        return np.where(self.levels[at] == codes, at, len(self.levels))

    def _directions(self) -> tuple[Floats, Floats]:
        """Return v of every level and, last, of unknown ones; √(1 + |u|²) of every level."""
        roots = np.sqrt(1.0 + (self.factor**2).sum(axis=1, keepdims=True))
        v = self.factor / roots
        return np.vstack([v, v.mean(axis=0)]), roots

    def table(self) -> Floats:
        """Return the correlations of all levels; unknown ones are last."""
        v, _ = self._directions()
        R = v @ v.T
        np.fill_diagonal(R, 1.0)
        return R

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> BoundKernel:
        """Bind the kernel to the levels of Z."""
        return TableTiles(self, Z, dtype)

    def among(self, items: Items, size: int) -> Tile:
        """Return the blocks of consecutive items."""
        numbers = self.numbers(items).reshape(-1, size)
        return self.table()[numbers[:, :, None], numbers[:, None, :]]

    def theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Sum W over pairs of levels, and chain."""
        if not self.free:
            return np.empty(0)
        n = len(self.levels) + 1
        left, right = (np.eye(n, dtype=W.dtype)[self.numbers(items)] for items in (A, B))
        return self._pulled(np.asarray(left.T @ (W @ right), dtype=np.float64)).ravel()

    def _pulled(self, G: Floats) -> Floats:
        """Return ∂E/∂u from G = ∂E/∂R."""
        v, roots = self._directions()
        both = G + G.T
        np.fill_diagonal(both, 0.0)
        by_all, v = both @ v, v[:-1]
        by_v = by_all[:-1] + by_all[-1] / len(v)
        return np.asarray((by_v - v * (v * by_v).sum(axis=1, keepdims=True)) / roots)

    def slopes(self, A: Floats, B: Floats) -> Iterator[Tile]:
        """Yield the derivative of the block by each hyper-parameter."""
        if not self.free:
            return
        n, (rows, columns) = len(self.levels) + 1, (self.numbers(A), self.numbers(B))
        jacobian = np.empty((n, n, self.factor.size))
        for i, j in np.ndindex(n, n):
            unit = np.zeros((n, n))
            unit[i, j] = 1.0
            jacobian[i, j] = self._pulled(unit).ravel()
        for entry in range(self.factor.size):
            yield jacobian[:, :, entry][np.ix_(rows, columns)]


class EqualityTiles(Tiles):
    """Tiles that hold ρ, and 1 where codes are equal."""

    def __init__(self, kernel: OneCorrelation, Z: Items, dtype: npt.DTypeLike) -> None:
        super().__init__(n_items(Z), dtype)
        self._kernel, self._codes = kernel, kernel.codes(Z)

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the block k(A, Z)."""
        out = self.buffer(n_items(A), out)
        rho = self.dtype.type(self._kernel.rho)
        np.equal(self._kernel.codes(A)[:, None], self._codes, out=out, casting="unsafe")
        out *= 1 - rho
        out += rho
        return out


class TableTiles(Tiles):
    """Tiles that are looked up: a row of the table's columns for each item."""

    def __init__(self, kernel: PairCorrelations, Z: Items, dtype: npt.DTypeLike) -> None:
        super().__init__(n_items(Z), dtype)
        self._kernel = kernel
        rows = kernel.table()[:, kernel.numbers(Z)]
        self._rows = np.ascontiguousarray(rows, dtype=self.dtype)

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the block k(A, Z)."""
        out = self.buffer(n_items(A), out)
        # Numbers are within the table; "clip" spares the copy that a check of them would take.
        return np.take(self._rows, self._kernel.numbers(A), axis=0, out=out, mode="clip")
