"""How much each column matters to a fitted model: ``model.importance(X)``."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pursuit._sklearn import safe_indexing
from pursuit._types import Floats
from pursuit.estimators.inputs import (
    NoGradientError,
    as_source,
    category_columns,
    column_variances,
    dense,
    feature_names,
    in_double,
    in_memory_if_small,
    is_flat,
    known_columns,
    reads_matrix,
    stepped_columns,
    validate_items,
    validate_source,
)
from pursuit.estimators.scales import in_range
from pursuit.estimators.tables import compares_levels
from pursuit.linalg import single_threaded_blas
from pursuit.printed import printable
from pursuit.rows import EncodedTable, NumberTable, as_rows, is_path

KINDS = "gradient", "permutation", "sobol"
_SHOWN = 20
"""Columns that a printed table has."""

Values = Callable[[Any], Floats]
"""From rows to what a model says of them: shape (n_rows, n_outputs)."""


@dataclass(frozen=True)
class Importance:
    """How much each column moves the predictions of a model, as a standard deviation; print it.

    Attributes
    ----------
    kind : str
        How it was found: "gradient", "permutation" or "sobol".
    mean : array of shape (n_features,) or (n_features, n_outputs)
        Importance in units of y, or of the decision function of a classifier.
    std : array of the same shape
        Standard deviation of ``mean`` over the repeats.
    deviation : float or array of shape (n_outputs,)
        Standard deviation of the predictions themselves, in the same units.
    feature_names : list of str
        Names of the columns.
    n_repeats : int
        Number of repeats.
    total, first_order : array of the same shape, optional
        Sobol's indices: the share of the predictions' variance that is gone when a column is known
        last, and first. Only for ``kind="sobol"``.
    total_std, first_order_std : array of the same shape, optional
        Their standard deviations over the repeats.
    """

    kind: str
    mean: Floats
    std: Floats
    deviation: float | Floats
    feature_names: list[str]
    n_repeats: int
    total: Floats | None = None
    first_order: Floats | None = None
    total_std: Floats | None = None
    first_order_std: Floats | None = None

    @property
    def relative(self) -> Floats:
        """``mean / deviation``, of several outputs the root mean square: shape (n_features,)."""
        deviation = np.atleast_1d(self.deviation)
        unit = np.where(deviation > 0, deviation, np.inf)
        shares = self.mean.reshape(len(self.mean), -1) / unit
        return np.asarray(np.sqrt((shares**2).mean(axis=1)))

    def __str__(self) -> str:
        relative = self.relative
        columns = [("relative", [f"{value:.3g}" for value in relative])]
        columns.append(("importance", _with_errors(self.mean, self.std)))
        if self.total is not None and self.total_std is not None:
            columns.append(("total index", _with_errors(self.total, self.total_std)))
        if self.first_order is not None and self.first_order_std is not None:
            columns.append(
                ("first-order index", _with_errors(self.first_order, self.first_order_std))
            )
        order = np.argsort(-relative, kind="stable")[:_SHOWN]
        head = f"importance of {len(relative)} columns by {self.kind}, {self.n_repeats} repeats"
        lines = [[head if len(order) == len(relative) else f"{head}: the first {len(order)}"]]
        table = [["column", *(title for title, _ in columns)]]
        table += [
            [printable(self.feature_names[j]), *(cells[j] for _, cells in columns)] for j in order
        ]
        widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
        lines += [
            [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)] for row in table
        ]
        return "\n".join("  ".join(line).rstrip() for line in lines)


def _with_errors(mean: Floats, std: Floats) -> list[str]:
    """``mean ± std`` of every column, several outputs beside each other."""
    rows = zip(mean.reshape(len(mean), -1), std.reshape(len(std), -1), strict=True)
    return [
        ", ".join(f"{value:.3g} ± {error:.2g}" for value, error in zip(*row, strict=True))
        for row in rows
    ]


class ExplainedModel:
    """Adds ``importance`` to a regressor or classifier."""

    @in_range
    def importance(
        self, X: Any, kind: str = "gradient", *, n_repeats: int = 10, random_state: Any = 0
    ) -> Importance:
        """How much each column moves the predictions over some rows, with error bars.

        f is the decision function of a classifier or generalised linear model, else the
        prediction. Every kind measures the standard deviation of f that a column j is responsible
        for, in units of f; for f linear in it all give the weight times the deviation of the
        column:

        - ``"gradient"``: the root mean square of ∂f/∂x_j over the rows, times the standard
          deviation of x_j. One pass over the rows; says how steep f is. Columns of categories have
          no gradient, and columns of at most ten values may have none where they have values:
          these are permuted instead. For kernels that have derivatives.
        - ``"permutation"``: the root of half the mean square change of f when the column is
          permuted. Costs ``n_repeats`` predictions of all rows for every column.
        - ``"sobol"``: the root of the total variance of Sobol, with every column drawn
          independently of the others from its own values: the root of half the mean square change
          of f when one column is drawn anew. Also gives the total and the first-order indices, by
          the estimators of Jansen and of Saltelli and others, at ``n_repeats`` · (n_features + 2)
          predictions of all rows.

        The first is about rows as they are; the others also evaluate f at combinations of values
        that do not occur, which matters where columns are strongly related. A column that is the
        same in all rows has importance 0.

        Parameters
        ----------
        X : array, CSR or data frame of n_rows rows
            Rows to explain, in memory; at least 2. A few thousand are enough.
        kind : {"gradient", "permutation", "sobol"}, default "gradient"
            What is measured.
        n_repeats : int, default 10
            At least 2. Permutations, or draws, of each column; for gradients only bootstrap samples
            of the rows. The error bars are standard deviations over them, and include that of the
            choice of rows.
        random_state : int, RandomState or None, default 0
            Seed of permutations, draws and bootstrap samples.

        Returns
        -------
        importance : Importance
            Print it for a table; ``mean`` and ``std`` have the numbers.

        References
        ----------
        A. Saltelli and others. Variance based sensitivity analysis of model output. Design and
        estimator for the total sensitivity index. Computer Physics Communications 181, 2010.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from pursuit import SparseGPRegressor
        >>> X = np.random.default_rng(0).uniform(-1, 1, size=(300, 3))
        >>> model = SparseGPRegressor(RBF(1.0), noise=1e-4, optimizer=None)
        >>> importance = model.fit(X, X[:, 0] - 3 * X[:, 2]).importance(X)
        >>> importance.mean.round(1)
        array([0.6, 0. , 1.7])
        """
        check_is_fitted(self)
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {kind!r}.")
        if not isinstance(n_repeats, Integral) or n_repeats < 2:
            raise ValueError(f"n_repeats must be a whole number from 2, got {n_repeats!r}.")
        rows, named = _rows_in_memory(self, X)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1, size=4))
        n_repeats = int(n_repeats)

        def values(rows: Any) -> Floats:
            return _values(self, named(rows))

        if kind == "gradient":
            found = _by_gradient(self, values, rows, named(rows), n_repeats, rng)
        elif kind == "permutation":
            found = _by_permutation(values, rows, range(rows.shape[1]), n_repeats, rng)
        else:
            found = _by_sobol(values, rows, n_repeats, rng)
        single = np.ndim(found["deviation"]) == 1 and len(found["deviation"]) == 1
        if single:
            found = {name: value[..., 0] for name, value in found.items()}
        names = feature_names(self, rows.shape[1])
        return Importance(kind=kind, feature_names=names, n_repeats=n_repeats, **found)


def _rows_in_memory(model: Any, X: Any) -> tuple[Any, Callable[[Any], Any]]:
    """X as a dense array or a data frame, and from such rows to what the model takes.

    They have the columns that the model was fitted to.
    """
    encoded = _encoded_rows(model, X) if isinstance(X, NumberTable) else None
    if encoded is not None:
        names = feature_names(model, encoded.shape[1])
        return encoded, lambda rows: NumberTable(as_rows(rows), names)
    if is_path(X) or as_source(X) is not None:
        name = repr(os.fspath(X)) if is_path(X) else type(X).__name__
        raise TypeError(
            f"importance takes rows in memory, got {name}: read a few thousand rows of it first."
        )
    if hasattr(model, "kernel") and reads_matrix(model):
        raise ValueError(
            "kernel='precomputed' takes kernel values in place of columns: there are none to tell "
            "the importance of. Fit with a kernel on rows of numbers."
        )
    rows = dense(known_columns(model, X))
    rows = rows if hasattr(rows, "shape") else np.asarray(rows)
    if len(rows.shape) != 2 or not hasattr(model, "n_features_in_"):
        raise ValueError("importance is that of columns: pass rows with features, a table.")
    if len(rows) < 2:
        raise ValueError(f"importance needs at least 2 rows of X, got {len(rows)}.")
    return rows, lambda rows: rows


def _encoded_rows(model: Any, X: NumberTable) -> Floats | None:
    """An encoded table as the model sees it, None if it is too large for the memory."""
    if isinstance(X, EncodedTable) and compares_levels(model, X.coded, reset=False):
        X = X.coded
    rows = in_memory_if_small(validate_source(model, X, reset=False))
    return rows if isinstance(rows, np.ndarray) else None


def _values(model: Any, rows: Any) -> Floats:
    """What the model says of the rows: shape (n_rows, n_outputs)."""
    decides = hasattr(model, "decision_function")
    found = np.asarray(in_double(model.decision_function if decides else model.predict)(rows))
    return found.reshape(len(found), -1)


def _by_gradient(
    model: Any, values: Values, rows: Any, named: Any, n_repeats: int, rng: np.random.Generator
) -> dict[str, Floats]:
    """Gradients; ``named`` are the rows in the form that the model takes."""
    if not hasattr(model, "_mean_gradient"):
        raise ValueError(
            f"the predictions of {type(model).__name__} have no gradient: use kind='permutation' "
            "or kind='sobol'."
        )
    try:
        gradient = model._mean_gradient(named)
    except NoGradientError as error:
        raise ValueError(
            f"{error} kind='permutation' and kind='sobol' need no gradient."
        ) from error
    X = np.asarray(validate_items(model, named, reset=False), dtype=np.float64)
    # The first weighting is that of the rows, the others are bootstrap samples.
    share = np.full(len(X), 1.0 / len(X))
    shares = np.vstack([share, rng.multinomial(len(X), share, size=n_repeats) / len(X)])
    with single_threaded_blas():
        means = np.tensordot(shares, gradient**2, axes=1)
        figures = np.sqrt(means * column_variances(X, shares)[:, :, None])
    found = {
        "mean": figures[0],
        "std": figures[1:].std(axis=0, ddof=1),
        "deviation": np.sqrt(_variance(values(rows))),
    }
    steps = sorted({*category_columns(model), *stepped_columns(X)})
    if steps:
        permuted = _by_permutation(values, rows, steps, n_repeats, rng)
        for name in ("mean", "std"):
            found[name][steps] = permuted[name][steps]
    return found


def _by_permutation(
    values: Values, rows: Any, columns: Any, n_repeats: int, rng: np.random.Generator
) -> dict[str, Floats]:
    """Changes of f when one column after the other is permuted; zeros for other columns.

    The error bars are those of permutations and rows together: each repeat is evaluated on a
    bootstrap sample of the rows.
    """
    f, n = values(rows), len(rows)
    halves = np.zeros((n_repeats, rows.shape[1], f.shape[1]))
    resampled = np.zeros_like(halves)
    for repeat in range(n_repeats):
        drawn = rng.multinomial(n, np.full(n, 1.0 / n)) / n
        for j in columns:
            other = safe_indexing(rows, rng.permutation(n))
            squares = 0.5 * (values(_with_column(rows, j, other)) - f) ** 2
            halves[repeat, j] = squares.mean(axis=0)
            resampled[repeat, j] = drawn @ squares
    return {
        "mean": np.sqrt(halves.mean(axis=0)),
        "std": np.sqrt(resampled).std(axis=0, ddof=1),
        "deviation": np.sqrt(_variance(f)),
    }


def _by_sobol(
    values: Values, rows: Any, n_repeats: int, rng: np.random.Generator
) -> dict[str, Floats]:
    """Pick and freeze: tables A and B of independent columns, and A with one column of B.

    With f₀ the mean of f, the variance that is left when all other columns are known, and that
    which x_j alone explains, are estimated by (Saltelli and others 2010, Table 2, (f) and (b))::

        V_T = ½ mean (f(A) - f(A_B))²,      V_j = mean (f(B) - f₀)(f(A_B) - f(A))

    The rows of A, of B and of every A_B are alike, and the variance that both are shares of is that
    of all of them: V_T is then at most (n_features + 2) times it, however few the rows.
    """
    totals, firsts, variances = [], [], []
    for _ in range(n_repeats):
        A, B = _independent(rows, rng), _independent(rows, rng)
        at_a, at_b = values(A), values(B)
        mixed = [values(_with_column(A, j, B)) for j in range(rows.shape[1])]
        variances.append(_variance(np.concatenate([at_a, at_b, *mixed])))
        changes = np.stack(mixed, axis=1) - at_a[:, None]
        centre = 0.5 * (at_a + at_b).mean(axis=0)
        totals.append(0.5 * (changes**2).mean(axis=0))
        firsts.append((changes * (at_b - centre)[:, None]).mean(axis=0))
    total, first, variance = np.array(totals), np.array(firsts), np.array(variances)
    unit = np.where(variance > 0, variance, np.inf)[:, None]
    whole = np.where(variance.mean(axis=0) > 0, variance.mean(axis=0), np.inf)
    return {
        "mean": np.sqrt(total.mean(axis=0)),
        "std": np.sqrt(total).std(axis=0, ddof=1),
        "deviation": np.sqrt(variance.mean(axis=0)),
        "total": total.mean(axis=0) / whole,
        "total_std": (total / unit).std(axis=0, ddof=1),
        "first_order": first.mean(axis=0) / whole,
        "first_order_std": (first / unit).std(axis=0, ddof=1),
    }


def _variance(values: Floats) -> Floats:
    """Variance of each output, 0 for one that is constant to rounding."""
    return np.where(is_flat(values), 0.0, values.var(axis=0))


def _independent(rows: Any, rng: np.random.Generator) -> Any:
    """The rows with every column permuted by itself."""
    for j in range(rows.shape[1]):
        rows = _with_column(rows, j, safe_indexing(rows, rng.permutation(len(rows))))
    return rows


def _with_column(rows: Any, j: int, other: Any) -> Any:
    """The rows with column j of other rows."""
    if hasattr(rows, "with_columns"):  # polars
        return rows.with_columns(other[:, j])
    copy = rows.copy()
    if hasattr(rows, "iloc"):  # pandas
        copy.isetitem(j, other.iloc[:, j].array)
    else:
        copy[:, j] = other[:, j]
    return copy
