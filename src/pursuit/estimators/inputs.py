"""What a user passes, checked once and turned into rows, targets and a kernel."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils import (
    assert_all_finite,
    check_array,
    check_consistent_length,
    check_random_state,
    check_X_y,
    column_or_1d,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from pursuit._sklearn import check_sample_weight, num_samples
from pursuit._types import Floats, Indices
from pursuit.estimators.scales import (
    ANY_SIZE,
    LARGEST,
    SMALLEST,
    ScaleError,
    binary_sizes,
    check_scale,
)
from pursuit.estimators.tables import (
    categories_by_position,
    compares_levels,
    encoded,
    is_missing,
    keep_levels,
    level_codes,
    note_levels,
    refuse_gaps,
    refuse_text,
    warn_of_new_numbers,
)
from pursuit.kernels import (
    Categorical,
    ColumnNames,
    CountingKernel,
    Kernel,
    PrecomputedKernel,
    compile_kernel,
    holds,
    resolve_columns,
)
from pursuit.linalg import INDEFINITE, NotPositiveDefiniteError
from pursuit.rows import (
    CodedTable,
    DistributedRows,
    EncodedTable,
    IndexRows,
    MatrixTable,
    RowSource,
    Sample,
    Table,
    as_rows,
    as_table,
    check_columns,
    computed,
    draw_rows,
    has_gaps,
    is_dask,
    is_path,
    open_table,
    read_all,
    source_numbers,
)

SMALL_BYTES = 1 << 27
"""A table of up to this many bytes is read into memory, where everything is faster."""
HELD_BYTES = 1 << 31
"""The most that an estimator which keeps its rows reads from a source."""


class NoGradientError(ValueError):
    """A model's predictions have no gradient, or none that is known."""


def as_source(X: Any) -> RowSource | None:
    """Return the source behind X, or None if X is in memory or is a string but not a path."""
    return X if isinstance(X, RowSource) and not is_dask(X) else as_table(X)


def kernel_matrix_of(X: Any) -> Any:
    """Return a kernel matrix, memory-mapped if X names a .npy file, else unchanged."""
    table = open_table(X) if is_path(X) else X
    return table.matrix if isinstance(table, MatrixTable) else X


def n_features(X: Any) -> int | None:
    """Number of features of two-dimensional numeric input, None for other items."""
    if isinstance(X, RowSource) and not hasattr(X, "shape"):
        X = X.take(np.arange(1))
    return int(X.shape[1]) if hasattr(X, "shape") and len(X.shape) == 2 else None


def n_rows(X: Any) -> int:
    """Number of rows of validated input."""
    if isinstance(X, RowSource):
        return X.n_rows
    return len(X) if isinstance(X, list) else int(X.shape[0])


def in_single(X: Any) -> bool:
    """Whether an array, a CSR matrix or every column of a data frame is float32."""
    if isinstance(X, np.ndarray | sparse.csr_array | sparse.csr_matrix):
        return bool(X.dtype == np.float32)
    if type(X).__name__ != "DataFrame":
        return False
    return {str(dtype).lower() for dtype in X.dtypes} <= _SINGLE


def in_double(method: Callable[..., Any]) -> Callable[..., Any]:
    """A bound method of rows that does not round results to the precision of the rows."""
    plain = getattr(method, "__wrapped__", None)
    return method if plain is None else partial(plain, method.__self__)  # type: ignore[attr-defined]


def count_rows(X: Any) -> int:
    """Number of rows of anything that can be passed as X."""
    source = as_source(X)
    return int(num_samples(X)) if source is None else source.n_rows


def named_columns(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    target: str | Sequence[str] | None = None,
    weight: str | None = None,
) -> tuple[Any, Any, Any]:
    """Return X, y and weights, taking those that are named columns of X out of it.

    Columns of a table are read in one pass, and what remains of it is neither read nor copied.
    """
    check_passed_once(y, sample_weight, target, weight)
    y, sample_weight = computed(y), computed(sample_weight)
    table = as_table(X)
    X = X if table is None else table
    if target is None and weight is None:
        return X, y, sample_weight
    columns = _known_columns(X, target, weight)
    targets, several = _labels(target)
    weights = [] if weight is None else [weight]
    label = getattr(X, "name", "X") if table is not None else "X"
    check_columns(targets, columns, label, "target")
    check_columns(weights, columns, label, "weight")
    taken = [*targets, *weights]
    if len(set(taken)) < len(taken):
        raise ValueError(f"target and weight name a column twice: {taken}.")
    rest = [column for column in columns if column not in taken]
    if not rest:
        raise ValueError(f"{label} has no columns beside target and weight: there are no features.")
    if table is not None:
        X = table.select(rest)
        X.check_numeric()
        found = table.read(taken)
    else:
        found, X = [np.asarray(X[column]) for column in taken], X[rest]
    if targets:
        y = np.column_stack(found[: len(targets)]) if several else found[0]
    return X, y, found[-1] if weights else sample_weight


def check_passed_once(y: Any, sample_weight: Any, target: Any, weight: Any) -> None:
    """Refuse targets or weights that are both passed and named, or a name passed as y."""
    if isinstance(y, str) and not is_path(y):
        raise TypeError(
            f"y is the string {y!r}: to name the column of X that holds the targets, pass "
            f"target={y!r}."
        )
    for argument, name, value, given in (
        ("target", target, y, "y"),
        ("weight", weight, sample_weight, "sample_weight"),
    ):
        if name is not None and value is not None:
            raise ValueError(
                f"{argument}={name!r} names a column of X, and {given} is passed too: pass one of "
                "them."
            )


def _labels(target: Any) -> tuple[list[Any], bool]:
    """The columns that are meant, and whether the targets are a matrix."""
    if target is None:
        return [], False
    if isinstance(target, str) or not isinstance(target, Iterable):
        return [target], False
    return list(target), True


def _known_columns(X: Any, target: Any, weight: Any) -> list[str]:
    """Names of the columns of a table or data frame."""
    argument = "target" if target is not None else "weight"
    columns = getattr(X, "columns", None)
    if columns is None:
        name = getattr(X, "name", type(X).__name__) if isinstance(X, Table) else type(X).__name__
        raise TypeError(
            f"{argument}= names a column, and the columns of X ({name}) have no names: pass "
            "targets and weights as arrays, fit(X, y, sample_weight)."
        )
    return list(columns)


def validate_source(estimator: Any, source: RowSource, *, reset: bool) -> RowSource:
    """Check a source; after a fit, select the columns that the estimator was fitted to."""
    label = getattr(source, "name", "X")
    if source.n_rows == 0:
        raise ValueError(f"{label} holds no rows: a minimum of 1 is required.")
    names = getattr(source, "columns", None)
    width = n_features(source)
    if reset:
        for stale in ("n_features_in_", "feature_names_in_"):
            if hasattr(estimator, stale):
                delattr(estimator, stale)
        if width is not None:
            estimator.n_features_in_ = width
        if names is not None:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
    elif names is not None and hasattr(estimator, "feature_names_in_"):
        wanted = [str(name) for name in estimator.feature_names_in_]
        check_columns(wanted, names, label, "X")
        assert isinstance(source, Table)
        source = source.select(wanted)
    elif hasattr(estimator, "n_features_in_") and width != estimator.n_features_in_:
        raise ValueError(
            f"X has {width} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    if isinstance(source, Table):
        source.check_numeric()
    return source


def known_columns(estimator: Any, X: Any) -> Any:
    """Drop columns of a data frame, such as the target, that the estimator was not fitted to.

    Files and collections are read by name likewise.
    """
    names = getattr(estimator, "feature_names_in_", None)
    columns = getattr(X, "columns", None)
    if names is None or columns is None or len(columns) <= len(names):
        return X
    return X[list(names)] if set(names) <= set(columns) else X


def feature_names(estimator: Any, n: int) -> list[str]:
    """Names of the n features: those of the columns, or x0, x1, …."""
    names = getattr(estimator, "feature_names_in_", None)
    return [f"x{j}" for j in range(n)] if names is None else [str(name) for name in names]


def category_columns(estimator: Any) -> list[int]:
    """Positions of the columns that hold categories, whose codes no derivative can be taken by."""
    if "categories_" not in vars(estimator):
        return []
    return list(categories_by_position(estimator))


def stepped_columns(X: Floats) -> list[int]:
    """Positions of the columns of few values, whose steps may be longer than a gradient sees."""
    return [j for j in range(X.shape[1]) if 2 <= len(np.unique(X[:, j])) <= _FEW_VALUES]


def in_memory_if_small(source: RowSource) -> Any:
    """All rows of a small table as an array; other sources as they are."""
    if isinstance(source, DistributedRows) or not isinstance(source, Table):
        return source
    n_rows, n_columns = source.shape
    small = n_rows * n_columns * source.dtype.itemsize <= SMALL_BYTES
    return read_all(source) if small else source


def held(estimator: Any, X: Any, dtype: DTypeLike = np.float64) -> Any:
    """Return X in memory, for an estimator that keeps all rows; a source is read if it is small.

    Numbers of a source are float64, or rounded to another ``dtype`` as they are read.
    """
    if not isinstance(X, RowSource):
        return X
    width = n_features(X)
    size = X.n_rows * (width or 1) * np.dtype(dtype).itemsize
    if size > HELD_BYTES:
        raise ValueError(
            f"{type(estimator).__name__} holds all rows in memory, and {X.n_rows} rows of {width} "
            f"numbers would take {size / 2**30:.1f} GiB: use rows drawn at random, or an estimator "
            "that reads rows in blocks, such as SparseGPRegressor or SparseKernelRidge."
        )
    if width is not None and np.dtype(dtype) != np.float64:
        rows = np.empty((X.n_rows, width), dtype)
        for start, block in X.blocks():
            rows[start : start + len(block)] = dense(block)
        return rows
    if isinstance(X, Table) and not isinstance(X, DistributedRows):
        return read_all(X)
    return X.take(np.arange(X.n_rows))


_SINGLE = {"float32", "float[pyarrow]"}
"""What pandas and polars call columns of float32, in lower case."""
_FEW_VALUES = 10
"""Up to so many values a column goes by steps: flags, counts, codes."""
_SCALE_ROWS = 10_000
_FAR = 100.0
_NORMAL_99 = 2.326
_CHECK_ROWS = 256
_SYMMETRY_ROWS = 1024


def is_precomputed(kernel: Any) -> bool:
    """Whether X holds kernel values instead of features."""
    return isinstance(kernel, str) and kernel == "precomputed"


def kernel_in_use(estimator: Any) -> Any:
    """The kernel of the last fit, whatever is set afterwards; before a fit the one given."""
    return vars(estimator).get("kernel_", estimator.kernel)


def reads_matrix(estimator: Any) -> bool:
    """Whether X holds kernel values."""
    return is_precomputed(kernel_in_use(estimator))


def holds_objects(kernel: Any, X: Any) -> bool:
    """Whether X is a sequence of things that only a callable kernel can compare."""
    several = kernel if isinstance(kernel, list | tuple) else [kernel]
    if any(not callable(k) or getattr(k, "requires_vector_input", False) for k in several):
        return False
    if sparse.issparse(X) or hasattr(X, "columns"):
        return False
    if hasattr(X, "ndim"):
        return bool(X.ndim != 2 or np.asarray(X).dtype.kind not in "fiub")
    if not isinstance(X, Sequence):
        return False
    first = X[0] if len(X) else None
    return isinstance(first, str | bytes) or not isinstance(first, Sequence | np.ndarray)


def _forget_fit(estimator: Any) -> None:
    """Remove what an earlier fit has left, so that a fit that fails leaves no mixture of two."""
    for name in list(vars(estimator)):
        fitted = name.endswith("_") and not name.startswith("_")
        if fitted or name in ("_fitted_parameters", "_bound", "_frame"):
            delattr(estimator, name)


def validate_items(estimator: Any, X: Any, *, reset: bool, name: str = "X") -> Any:
    """Return X as a finite float array, CSR, a list of objects, or a source of rows."""
    if reset:
        _forget_fit(estimator)
    X = kernel_matrix_of(X) if reads_matrix(estimator) else X
    source = as_source(X) if name == "X" else None
    if source is not None and reads_matrix(estimator):
        raise ValueError(
            f"kernel='precomputed' takes a matrix in memory or a .npy file, got {type(X).__name__}."
        )
    if source is not None:
        if isinstance(source, EncodedTable) and compares_levels(
            estimator, source.coded, reset=reset
        ):
            source = source.coded
        source = validate_source(estimator, source, reset=reset)
        if isinstance(source, CodedTable) and reset:
            keep_levels(estimator, source)
        return _with_levels(estimator, in_memory_if_small(source), reset=reset)
    if isinstance(X, str | bytes):
        raise TypeError(
            f"{name} is a single string: pass a list of items, [{name}] for one item, or the path "
            "of a file."
        )
    if holds_objects(kernel_in_use(estimator), X):
        items = X.tolist() if isinstance(X, np.ndarray) else list(X)
        if not items:
            raise ValueError(f"{name} holds no items: at least one is needed.")
        return items
    if name != "X":
        if hasattr(X, "shape") and X.shape[0] == 0:
            raise ValueError(f"{name} holds no points: at least one is needed.")
        X = encoded(estimator, X, reset=False)
        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name=name)
        if X.shape[1] != estimator.n_features_in_:
            raise ValueError(
                f"{name} has {X.shape[1]} features, but the rows have {estimator.n_features_in_}."
            )
        check_scale(name, X)
        return X
    if not reset:
        X = known_columns(estimator, X)
    elif hasattr(X, "columns"):
        estimator._frame = X[:0]
    plain = isinstance(X, np.ndarray) and X.dtype.kind in "fiub"
    numbers = X if plain or reads_matrix(estimator) else encoded(estimator, X, reset=reset)
    if numbers is X:
        numbers = _validated(
            estimator,
            X,
            reset=reset,
            accept_sparse=False if reads_matrix(estimator) else "csr",
            dtype=[np.float64, np.float32],
        )
    if not reads_matrix(estimator):
        check_scale("X", numbers)
    return _with_levels(estimator, numbers, reset=reset)


def _validated(estimator: Any, X: Any, y: Any = "no_validation", **checks: Any) -> Any:
    """What scikit-learn makes of X and y; missing values are told of by column."""
    try:
        return validate_data(estimator, X, y, **checks)
    except ValueError as error:
        if str(error).startswith("Found array with dim"):
            name = "X" if np.ndim(X) > 2 else "y"
            raise ValueError(
                f"{name} has too many dimensions: {error} Pass one row per observation, for "
                f"instance {name}.reshape(len({name}), -1)."
            ) from error
        if str(error).startswith("Found array with"):
            raise ValueError(f"X is too small: {error}") from error
        if not (hasattr(estimator, "kernel") and reads_matrix(estimator)):
            refuse_gaps(X)
        raise


def _with_levels(estimator: Any, X: Any, *, reset: bool) -> Any:
    """X as it is; a fit notes the levels of its category columns, else new ones are warned of."""
    if reset and compares_categories(estimator.kernel):
        note_levels(estimator, X, column_names(estimator))
    elif not reset and "categories_" in vars(estimator) and not isinstance(X, RowSource):
        warn_of_new_numbers(estimator, X)
    return X


def compares_categories(kernel: Any) -> bool:
    """Whether a kernel, or one of several, has a categorical part."""
    if isinstance(kernel, list | tuple):
        return any(map(compares_categories, kernel))
    return holds(kernel, Categorical)


def column_names(estimator: Any) -> ColumnNames:
    """What a kernel may call the columns of the rows that an estimator is fitted to."""
    names = getattr(estimator, "feature_names_in_", None)
    known = None if names is None else [str(name) for name in names]
    levels = None
    if "categories_" in vars(estimator):
        found = categories_by_position(estimator).items()
        levels = {j: level_codes(values) for j, (_, values) in found}
    width = int(getattr(estimator, "n_features_in_", 0))
    return ColumnNames(width, known, vars(estimator).get("_frame"), levels)


def resolved_kernel(kernel: Any, known: ColumnNames) -> Any:
    """A copy of a kernel object with columns as positions; any other kernel as it is."""
    return resolve_columns(clone(kernel), known) if isinstance(kernel, SklearnKernel) else kernel


def validate_held(
    estimator: Any, X: Any, y: Any = "no_validation", *, reset: bool, **checks: Any
) -> Any:
    """Validate like scikit-learn's `validate_data`, for estimators that keep all rows in memory."""
    source = as_source(X)
    if source is None:
        X = X if reset else known_columns(estimator, X)
        refuse_text(estimator, X, reset=reset)
        found = _validated(estimator, X, y, reset=reset, **checks)
        check_scale("X", found[0] if isinstance(found, tuple) else found)
        return found
    rows = held(estimator, validate_source(estimator, source, reset=reset))
    if isinstance(y, str) and y == "no_validation":
        return check_array(rows, estimator=estimator, **checks)
    return check_X_y(rows, y, estimator=estimator, **checks)


def as_passed(index: Indices, present: Indices) -> Indices:
    """Numbers of rows among those with weight as numbers among all rows; -1 stays -1."""
    return np.where(index >= 0, present[index], -1)


def validate_targets(y: Any, *, gaps: bool = False, any_size: bool = False) -> Floats:
    """Y as a finite float array of one or two dimensions.

    With ``gaps``, NaN in one of several columns is a target that was not observed. With
    ``any_size``, a `TargetScale` looks at how large they are.
    """
    if y is None:
        raise ValueError(
            "requires y to be passed, but the target y is None: pass the targets as fit(X, y), or "
            "name their column by target=."
        )
    _refuse_path(y, "targets")
    if getattr(getattr(y, "dtype", None), "kind", "") in ("M", "m"):
        raise ValueError(
            f"y holds times ({y.dtype}): pass numbers in a unit of your choice, for instance hours "
            "since some day."
        )
    try:
        y = check_array(
            y,
            ensure_2d=False,
            dtype=np.float64,
            allow_nd=True,
            input_name="y",
            ensure_min_samples=0,
            ensure_all_finite="allow-nan",
        )
    except ValueError as error:
        if "could not convert string to float" not in str(error):
            raise
        raise ValueError(
            f"y holds text ({error}): this model predicts numbers. For classes take a classifier, "
            "for instance SparseGPClassifier."
        ) from error
    if np.isnan(y).any() and (y.ndim == 1 or not gaps):
        raise ValueError(
            "Input y contains NaN: leave out the rows without a target. NaN in some of several "
            "outputs is for SparseGPRegressor, ExactGPRegressor with solver='cholesky' and "
            "SparseKernelRidge with refit=True."
        )
    if y.ndim in (1, 2):
        limits = (ANY_SIZE, 1.0 / ANY_SIZE) if any_size else (LARGEST, SMALLEST)
        check_scale("y", y, *limits)
    if y.ndim == 1:
        return np.asarray(column_or_1d(y))
    if y.ndim != 2:
        raise ValueError(f"y must have one or two dimensions, got shape {y.shape}.")
    return np.asarray(y)


def check_observed(targets: Floats, weights: Floats, *, every_output: bool = True) -> None:
    """Refuse rows of positive weight without a target and, in a fit, outputs without any."""
    observed = ~np.isnan(targets)
    nothing = np.flatnonzero((weights > 0) & ~observed.any(axis=1))
    if len(nothing):
        raise ValueError(
            f"y contains NaN in every output of row {nothing[0]}, so that nothing is known of it: "
            "leave such rows out, or give them weight 0."
        )
    empty = np.flatnonzero(~(observed & (weights > 0)[:, None]).any(axis=0))
    if every_output and len(empty):
        raise ValueError(
            f"y contains NaN in every row of output {empty[0]}: leave out an output that was never "
            "observed."
        )


def validate_labels(y: Any) -> NDArray[Any]:
    """Y as a vector of class labels."""
    if y is None:
        raise ValueError(
            "requires y to be passed, but the target y is None: pass the labels as fit(X, y), or "
            "name their column by target=."
        )
    _refuse_path(y, "labels")
    y = plain_labels(y)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    return np.asarray(column_or_1d(y, warn=True))


def plain_labels(y: Any) -> Any:
    """Labels in a column of pandas or polars as an array of their own type; others unchanged.

    scikit-learn would turn whole numbers and truth values that may be missing into floats.
    """
    values = y.to_numpy() if hasattr(y, "to_numpy") else y
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        missing = sum(map(is_missing, values.ravel()))
        if missing:
            raise ValueError(
                f"Input y contains NaN: labels are missing ({missing:,}). Leave out the rows "
                "without a label."
            )
    return values


def _refuse_path(y: Any, what: str) -> None:
    if isinstance(y, str | os.PathLike):
        raise TypeError(
            f"y is the path {os.fspath(y)!r}: pass the {what} themselves, for instance those that "
            "numpy.load returns, or name the column of X that holds them by target=."
        )


NO_FUNCTIONS = (
    "the model has no basis functions: y is constant, or kernel is zero on all rows of X. There is "
    "nothing to truncate."
)


def size_on_path(n: Any, n_basis: int) -> int:
    """Check the number of basis functions to which a model is truncated."""
    if not n_basis:
        raise ValueError(NO_FUNCTIONS)
    if not isinstance(n, numbers.Integral) or not 1 <= int(n) <= n_basis:
        raise ValueError(f"n must be a whole number from 1 to {n_basis}, got {n!r}.")
    return int(n)


def validate_weights(sample_weight: Any, n_rows: int) -> Floats:
    """Weights as a float array, non-negative and not all zero; ones when None."""
    if sample_weight is None:
        return np.ones(n_rows)
    given = np.asarray(sample_weight)
    if given.dtype.kind in "SU":
        raise ValueError(
            f"sample_weight holds text ({given.ravel()[:1].tolist()[0]!r}): pass one number per "
            "row, or name the column of weights by weight=."
        )
    if given.dtype.kind in "biuf" and given.size and not given.any():
        raise ValueError("sample_weight is zero for every row: at least one must be positive.")
    weights: Floats = check_sample_weight(
        sample_weight, np.empty((n_rows, 1)), dtype=np.float64, ensure_non_negative=True
    )
    check_scale("sample_weight", weights, LARGEST, SMALLEST)
    return weights


def validate_decay(decay: Any) -> float:
    """What earlier weights are multiplied by, checked."""
    if not isinstance(decay, numbers.Real) or not 0 < float(decay) <= 1:
        raise ValueError(
            f"decay must be a number above 0 and at most 1, got {decay!r}: 1 keeps earlier rows as "
            "they are, and 0.9 multiplies their weights by 0.9. To forget all of them, use "
            "emptied()."
        )
    return float(decay)


def weighted_sample(rows: RowSource, sample_weight: Any) -> tuple[Sample, Indices]:
    """The rows that have weight, without targets, and their numbers among all rows."""
    weights = validate_weights(sample_weight, rows.n_rows)
    present = np.flatnonzero(weights > 0)
    sample = Sample(rows, np.empty((rows.n_rows, 0)), weights)
    return (sample if len(present) == rows.n_rows else sample.take(present)), present


def training_rows(estimator: Any, X: Any) -> tuple[RowSource, Any]:
    """Rows to fit on, and the validated X."""
    X = validate_items(estimator, X, reset=True)
    if reads_matrix(estimator):
        if X.shape[0] != X.shape[1]:
            raise ValueError(
                f"kernel='precomputed' needs a square kernel matrix in fit, got shape {X.shape}: "
                "pass k(X, X) of the training rows."
            )
        return IndexRows(len(X)), X
    return as_rows(X), X


def prediction_rows(estimator: Any, X: Any) -> tuple[RowSource, Any]:
    """Rows to predict on, and the validated X."""
    X = validate_items(estimator, X, reset=False)
    return (IndexRows(len(X)) if reads_matrix(estimator) else as_rows(X)), X


def refuse_diagonal(diagonal: Any, result: str) -> None:
    """Refuse k(x, x) where nothing is computed from it."""
    if diagonal is not None:
        raise ValueError(f"diagonal has no part in {result}: leave it out.")


def refuse_two_spreads(return_std: bool, return_cov: bool) -> None:
    """Refuse to return both spreads."""
    if return_std and return_cov:
        raise ValueError(
            "return_std and return_cov cannot both be true: the diagonal of the covariance is the "
            "square of the standard deviation."
        )


def refuse_matrix_covariance(estimator: Any) -> None:
    """Refuse a joint covariance where k of pairs of new rows is not known."""
    if reads_matrix(estimator):
        raise ValueError(
            "return_cov needs k between all pairs of the rows, which a precomputed matrix of "
            "k(x, training rows) does not hold: use return_std=True with diagonal=, or fit with a "
            "callable kernel."
        )


def rows_again(estimator: Any, X: Any) -> tuple[RowSource, Any]:
    """Training rows, passed to a fitted model, and the validated X."""
    rows, X = prediction_rows(estimator, X)
    if reads_matrix(estimator) and X.shape[0] != X.shape[1]:
        raise ValueError(
            f"kernel='precomputed' needs the square training matrix, got shape {X.shape}."
        )
    return rows, X


@dataclass(frozen=True)
class TargetScale:
    """Centres and scales the targets of each output by weighted moments, or leaves them alone."""

    mean: Floats
    scale: Floats

    @classmethod
    def fit(cls, y: Floats, weights: Floats, normalize: bool) -> TargetScale:
        """Weighted mean and standard deviation; a constant output is only centred."""
        if not normalize:
            check_scale("y", y, LARGEST, SMALLEST)
            return cls(np.zeros(y.shape[1]), np.ones(y.shape[1]))
        sizes = binary_sizes(y)
        if sizes.any():
            near_one = cls.fit(np.ldexp(y, -sizes), weights, normalize)
            return cls(np.ldexp(near_one.mean, sizes), np.ldexp(near_one.scale, sizes))
        if has_gaps(y):
            return cls._of_observed(y, weights)
        share = weights / weights.sum()
        mean = share @ y
        scale = np.sqrt(share @ (y - mean) ** 2)
        rounding = 10 * np.finfo(float).eps * np.maximum(np.abs(mean), np.abs(y).max(axis=0))
        varies = scale > rounding
        # The mean of equal numbers has a rounding error, which would be all that is left of them.
        mean = np.where(varies, mean, y[np.argmax(weights)])
        return cls(mean, np.where(varies, scale, 1.0))

    @classmethod
    def _of_observed(cls, y: Floats, weights: Floats) -> TargetScale:
        """Moments of each output over the rows where it was observed."""
        seen = ~np.isnan(y) & (weights > 0)[:, None]
        each = [
            cls.fit(y[rows, j : j + 1], weights[rows], normalize=True)
            for j, rows in enumerate(seen.T)
        ]
        means, scales = ([one.mean for one in each], [one.scale for one in each])
        return cls(np.concatenate(means), np.concatenate(scales))

    @property
    def zero(self) -> str:
        """What zero in these units predicts, in words."""
        alone = np.all(self.mean == 0) and np.all(self.scale == 1)
        return "predicting 0" if alone else "predicting the mean"

    def taken(self, columns: Indices) -> TargetScale:
        """Of some of the outputs."""
        return TargetScale(self.mean[columns], self.scale[columns])

    def normalize(self, y: Floats) -> Floats:
        """To zero mean and unit variance of the targets that were fitted."""
        normalized = np.asarray((y - self.mean) / self.scale)
        farthest = float(np.nanmax(np.abs(normalized), initial=0.0))
        if farthest > LARGEST:
            raise ScaleError(
                f"y is up to {farthest:.3g} deviations of the targets of fit away from their mean, "
                "and squares of that overflow: fit a new model to targets of this size."
            )
        return normalized

    def restore(self, y: Floats) -> Floats:
        """Back to the units of y."""
        return y * self.scale + self.mean


def feature_deviations(sample: Sample, rng: np.random.Generator) -> Floats:
    """Weighted standard deviation of each feature on some of the rows, 0 where it is constant.

    That of all but the least and largest hundredth where these lie hundreds of deviations away: a
    code for what is missing must not set the scale of a feature.
    """
    some = draw_rows(sample.n_rows, _SCALE_ROWS, rng)
    items = sample.rows.take(some)
    if not (isinstance(items, np.ndarray) or sparse.issparse(items)):
        raise TypeError(
            "kernel=None needs numeric features: pass a callable kernel k(A, B) for other items."
        )
    share = sample.weights[some] / sample.weights[some].sum()
    mean = np.asarray(share @ items, dtype=np.float64).ravel()
    if sparse.issparse(items):
        square = np.asarray(share @ items.multiply(items)).ravel()
        deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
    else:
        deviation = np.sqrt(share @ (np.asarray(items, dtype=np.float64) - mean) ** 2)
        inner = _inner_deviation(items, share)
        deviation = np.where((inner > 0) & (deviation > _FAR * inner), inner, deviation)
    return np.where(deviation > 1e-12 * np.abs(mean), deviation, 0.0)


def or_one(deviations: Floats) -> Floats:
    """The deviations, 1 where they are 0: units to measure features in."""
    return np.where(deviations > 0, deviations, 1.0)


def column_variances(X: Floats, shares: Floats) -> Floats:
    """Variance of each column under weightings of the rows: shape (n_weightings, n_columns).

    ``shares`` has one row per weighting, which sums to 1. Exactly 0 where all rows have the same.
    """
    centred = np.where(np.ptp(X, axis=0) > 0, X - X.mean(axis=0), 0.0)
    variances: Floats = shares @ centred**2 - (shares @ centred) ** 2
    return np.maximum(variances, 0.0)


def is_flat(values: Floats) -> NDArray[np.bool_]:
    """Whether predictions, one column per output, are constant to rounding."""
    least = VALUE_ROUNDING * np.abs(values).max(axis=0)
    return np.asarray(np.ptp(values, axis=0) <= least)


VALUE_ROUNDING = 1e-12
"""Predictions that differ by no more than this share of the largest are taken for a constant."""


def _inner_deviation(items: NDArray[Any], share: Floats) -> Floats:
    """Standard deviation of a normal feature with the same weighted 1 % and 99 % quantiles."""
    order = np.argsort(items, axis=0, kind="stable")
    below = np.cumsum(share[order], axis=0)
    ends = [
        np.take_along_axis(items, np.take_along_axis(order, at[None], 0), 0)[0]
        for at in (np.argmax(below >= level * below[-1], axis=0) for level in (0.01, 0.99))
    ]
    return np.asarray(ends[1] - ends[0], dtype=np.float64) / (2 * _NORMAL_99)


def dense(items: Any) -> Any:
    """CSR as an array, anything else as it is."""
    return np.asarray(items.todense()) if hasattr(items, "todense") else items


def counting_kernel(kernel: Any, X: Any, **parameters: Any) -> tuple[CountingKernel, float]:
    """The compiled kernel inside a counter, and the noise read from White terms."""
    compiled: Kernel
    if is_precomputed(kernel):
        given = [name for name, value in parameters.items() if value is not None]
        if given:
            raise ValueError(
                f"{given[0]} does not apply to kernel='precomputed', which is a matrix of values: "
                f"leave {given[0]} out."
            )
        compiled, white = PrecomputedKernel(X), 0.0
    else:
        compiled, white = compile_kernel(kernel, n_features=n_features(X), **parameters)
    return CountingKernel(compiled), white


def seeds(random_state: Any) -> list[int]:
    """Seeds of the random generator of a fit; an integer always gives the same."""
    drawn: list[int] = check_random_state(random_state).randint(2**31 - 1, size=4).tolist()
    return drawn


def seeded(random_state: Any) -> np.random.Generator:
    """The generator behind everything random in a fit."""
    return np.random.default_rng(seeds(random_state))


def seeded_clone(estimator: Any, seed: int) -> Any:
    """A clone whose random states, and those of its parts, are ``seed`` where they are None."""
    copy = clone(estimator)
    free = {
        name: seed
        for name, value in copy.get_params().items()
        if name.rpartition("__")[2] == "random_state" and value is None
    }
    return copy.set_params(**free)


def check_lengths(X: Any, y: Any) -> None:
    """Refuse X and y of different lengths."""
    if isinstance(X, RowSource) and n_rows(X) != len(y):
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {[n_rows(X), len(y)]}"
        )
    if not isinstance(X, RowSource):
        check_consistent_length(X, y)


def positive(name: str, value: Any) -> float:
    """A finite positive number, or an error that names the argument."""
    if not isinstance(value, numbers.Real) or not 0 < float(value) < np.inf:
        raise ValueError(f"{name} must be a positive number, got {value!r}.")
    return float(value)


def indefinite(row: int, pivot: float) -> ValueError:
    """Error for an indefinite kernel."""
    return ValueError(
        f"kernel is not positive semi-definite: row {row} has a negative pivot ({pivot:.3g}). Use "
        "a positive semi-definite kernel, or repair the matrix (for instance by clipping its "
        "negative eigenvalues)."
    )


def check_symmetric(K: NDArray[Any], index: Indices | None = None) -> None:
    """Refuse a kernel matrix of the rows ``index``, all when None, that is not symmetric."""
    scale = float(np.abs(K).max(initial=0.0))
    for start in range(0, len(K), _SYMMETRY_ROWS):
        here = slice(start, start + _SYMMETRY_ROWS)
        asymmetry = np.abs(K[here] - K[:, here].T)
        if asymmetry.max() > INDEFINITE * scale:
            i, j = np.unravel_index(int(asymmetry.argmax()), asymmetry.shape)
            i = start + i
            row, other = (i, j) if index is None else (index[i], index[j])
            raise ValueError(
                f"kernel is not symmetric: k(row {row}, row {other}) = {K[i, j]:.6g} but "
                f"k(row {other}, row {row}) = {K[j, i]:.6g}."
            )


def check_positive_definite(
    kernel: Kernel, sample: Sample, rng: np.random.Generator, n_rows: int = _CHECK_ROWS
) -> None:
    """Refuse a kernel of unknown kind that is asymmetric or indefinite on a few rows."""
    if kernel.positive_definite:
        return
    index = draw_rows(sample.n_rows, n_rows, rng)
    items = sample.rows.take(index)
    K = kernel.tile(items, items)
    scale = float(np.abs(K).max(initial=0.0))
    check_symmetric(K, source_numbers(sample.rows, index))
    eigenvalues, U = np.linalg.eigh(0.5 * (K + K.T))
    if eigenvalues[0] < -INDEFINITE * scale:
        raise NotPositiveDefiniteError(int(index[np.abs(U[:, 0]).argmax()]), float(eigenvalues[0]))
