"""Targets and weights: taken out of a table and read; rows without a target are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit._sklearn import num_samples, safe_indexing
from pursuit._types import Floats, Indices
from pursuit.estimators.inputs import check_passed_once
from pursuit.estimators.table.columns import MisfitError, TableColumn, clean, column_numbers
from pursuit.estimators.table.errors import TableError
from pursuit.estimators.table.formats import (
    TextFormat,
    find_format,
    find_strays,
    shared_unit,
)
from pursuit.estimators.table.read import (
    ArrowColumns,
    FrameColumns,
    as_texts,
    of_array,
    raw_table,
    unmasked,
)
from pursuit.rows import Table, check_columns, is_path

_NO_CLASS = frozenset("|?|NA|N/A|n/a|NaN|nan|NULL|null".split("|"))
"""Texts of a table that are no class: those that are gaps in a CSV file. ``-`` may be a class."""


@dataclass(frozen=True)
class Named:
    """Columns of a table that are not features.

    Attributes
    ----------
    target, weight : str or None
        Names of the columns of targets and weights.
    column : TableColumn or None
        How a fit has read the target.
    texts : sequence of str
        Columns of a CSV file that are texts even if they look like numbers.
    may_lack_weight : bool
        Whether a table without the column of weights has none.
    """

    target: str | None
    weight: str | None
    column: TableColumn | None = None
    texts: Sequence[str] = ()
    may_lack_weight: bool = False


@dataclass(frozen=True)
class Observations:
    """Rows with their targets.

    Attributes
    ----------
    X : table
        Rows that have a target and a weight.
    y : array or None
        Their targets.
    per_row : dict
        Other arguments of one value per row, those that are given.
    column : TableColumn or None
        The column of a table that the targets are, and how it is read.
    notes : list of str
        What was left out, and why.
    """

    X: Any
    y: Any
    per_row: dict[str, Any]
    column: TableColumn | None
    notes: list[str]


def observations(
    X: Any,
    y: Any,
    per_row: Mapping[str, Any],
    named: Named,
    *,
    classes: bool,
    keep_gaps: bool = False,
) -> Observations:
    """The rows of a table that have a target, and a weight that is not 0.

    Parameters
    ----------
    X, y
        What a user passes.
    per_row : mapping
        Other arguments of one value per row, None where they are not given.
    named : Named
        Columns of X that are targets and weights.
    classes : bool
        Whether targets are classes, else numbers.
    keep_gaps : bool
        Whether rows without a target, or of weight 0, are kept.
    """
    target, weight, column = named.target, named.weight, named.column
    check_passed_once(y, per_row.get("sample_weight"), target, weight)
    given = {name: values for name, values in per_row.items() if values is not None}
    if is_path(X):
        X = _opened(X, named.texts)
    if weight is not None and named.may_lack_weight and weight not in raw_table(X).names:
        weight = None
    if target is not None or weight is not None:
        X, taken = _taken(X, target, weight)
        y = y if target is None else taken[target]
        if weight is not None:
            given["sample_weight"] = _weights(taken[weight], weight)
    if y is None:
        return Observations(X, None, given, None, [])
    notes: list[str] = []
    values = np.asarray(unmasked(y))
    if values.ndim == 0 or len(values) != _n_rows(X):
        raise ValueError(
            f"X has {_n_rows(X)} rows, and y is of shape {values.shape}: pass one target per row."
        )
    if values.ndim > 1:
        missing = _gaps(values).all(axis=tuple(range(1, values.ndim)))
    else:
        if column is None:
            column, notes = _described(values, target, classes=classes)
        if classes:
            values, missing = _labels(values, column, as_passed=target is None)
        else:
            values = _numbers(values, column)
            missing = _gaps(values)
    column = None if target is None else column
    idle = _without_weight(given.get("sample_weight"), len(values)) & ~missing
    if keep_gaps or not (missing | idle).any():
        return Observations(X, values, given, column, notes)
    if missing.all():
        raise _error(target, "it is missing in every row")
    kept = np.flatnonzero(~(missing | idle))
    given = {name: safe_indexing(passed, kept) for name, passed in given.items()}
    notes += [_left_out(int(missing.sum()), target)] if missing.any() else []
    return Observations(with_rows(X, kept), values[kept], given, column, notes)


def _without_weight(weights: Any, n_rows: int) -> NDArray[np.bool_]:
    """Which rows have weight 0: none if all have, since then the model has something to say.

    They must have no part in what an encoder learns, as they have none in a model.
    """
    none = np.zeros(n_rows, dtype=bool)
    zero = none if weights is None else np.asarray(weights) == 0
    return none if np.shape(zero) != (n_rows,) or zero.all() else zero


def _opened(path: Any, texts: Sequence[str]) -> Any:
    """The table of a path, so that a file is read once; an array for a .npy file."""
    raw = raw_table(path, texts)
    return raw.table if isinstance(raw, ArrowColumns) else np.load(path)


def _n_rows(X: Any) -> int:
    return X.n_rows if isinstance(X, Table) else int(num_samples(X))


def with_rows(X: Any, rows: Indices) -> Any:
    """Some rows of a table, by their increasing numbers."""
    raw = raw_table(X)
    return raw.table.with_rows(rows) if isinstance(raw, ArrowColumns) else safe_indexing(X, rows)


def _taken(X: Any, target: str | None, weight: str | None) -> tuple[Any, dict[str, NDArray[Any]]]:
    """What remains of a table, and the columns that are taken out of it."""
    if isinstance(target, list | tuple):
        raise ValueError(
            f"target={target!r} names several columns, and a pipeline reads one: pass the targets "
            "as the columns of y, fit(X, y)."
        )
    raw = raw_table(X)
    if not raw.named or not isinstance(raw, FrameColumns | ArrowColumns):
        raise TypeError(
            f"target= and weight= name columns, and those of X ({type(X).__name__}) have no names: "
            "pass targets and weights as arrays, fit(X, y, sample_weight)."
        )
    wanted = {"target": target, "weight": weight}
    for argument, name in wanted.items():
        check_columns([] if name is None else [name], raw.names, raw.label, argument)
    if target == weight:
        raise ValueError(f"target and weight name the same column: {target!r}.")
    names = [name for name in wanted.values() if name is not None]
    rest = [name for name in raw.names if name not in names]
    if not rest:
        raise TableError(
            f"{raw.label} has no columns beside target and weight: there are no features."
        )
    if isinstance(raw, ArrowColumns):
        return raw.table.select(rest), {name: raw.table.column(name) for name in names}
    frame = X if list(X.columns) == raw.names else X.set_axis(raw.names, axis=1)
    return frame[rest], {name: np.asarray(frame[name]) for name in names}


def _weights(values: NDArray[Any], name: str) -> Floats:
    """Weights of all rows."""
    column, _ = _described(values, name, classes=False)
    weights = _numbers(values, column)
    if gaps := int(_gaps(weights).sum()):
        raise _error(
            name, f"it is missing in {gaps:,} of {len(weights):,} rows, which all need one"
        )
    return weights


def _described(
    values: NDArray[Any], target: str | None, *, classes: bool
) -> tuple[TableColumn, list[str]]:
    """How targets or weights are to be read, and what a user should know of it."""
    name, raw = target or "", of_array(values)
    if raw.kind == "time":
        raise _error(target, "it holds dates: turn them into numbers in a unit of your choice")
    if raw.kind == "unusable":
        raise _error(target, raw.problem)
    if classes:
        return TableColumn(name, "category" if raw.kind == "text" else "number"), []
    cleaned = map(clean, raw.values) if raw.kind == "text" else []
    texts = {text for text in cleaned if text is not None}
    if not texts:
        return TableColumn(name, "number"), []
    reading = find_format(texts)
    if reading.format is None or reading.format.kind == "time":
        raise _error(target, reading.problem or _no_numbers(raw.values.tolist(), sorted(texts)))
    column = TableColumn(name, "number", format=reading.format)
    if reading.format == TextFormat("number") and not reading.ambiguous:
        return column, []
    label = "the target" if target is None else f"the target {target!r}"
    text = min(texts, key=lambda one: ("," not in one and "." not in one, one))
    [value] = column_numbers(column, of_array(np.array([text], dtype=object)))
    return column, [f"{label} is read as {reading.format}: {text!r} is {value:g}."]


def _no_numbers(values: list[Any], texts: list[str]) -> str:
    """Why texts, of which these are the distinct ones, cannot be read as numbers."""
    unit = shared_unit(texts)
    if unit:
        return f"it holds numbers with the unit {unit!r}: write them without it"
    few = set(find_strays(texts))
    form = find_format([text for text in texts if text not in few]).format
    if few and form is not None and form.kind == "number":
        count = sum(clean(value) in few for value in values)
        return (
            f"it holds numbers, but not in {count:,} of {len(values):,} rows, such as "
            f"{min(few)!r}: leave these empty"
        )
    others = [text for text in texts if not _is_number(text)]
    if others[1:]:
        return f"it holds {others[0]!r} and other texts that are not numbers"
    if others:
        return f"it holds {others[0]!r}, which is not a number"
    return f"its numbers are not all written as {texts[0]!r} is: write all of them in one way"


def _is_number(text: str) -> bool:
    form = find_format([text]).format
    return form is not None and form.kind == "number"


def _numbers(values: NDArray[Any], column: TableColumn) -> NDArray[Any]:
    """Numbers, NaN where there is none; those without gaps are left as they are."""
    if values.dtype.kind in "fiu":
        return values
    raw = of_array(values)
    try:
        if raw.kind == "unusable":
            raise MisfitError(raw.problem)
        numbers: Floats = column_numbers(column, raw)
    except MisfitError as error:
        raise _error(column.name or None, str(error)) from error
    return numbers


def _labels(
    values: NDArray[Any], column: TableColumn, *, as_passed: bool
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Classes, and which rows have none.

    Those without gaps are left as they are if they are passed as an array. Those of a table are
    texts, truth values, whole numbers or numbers, so that a file and a data frame give the same.
    """
    missing = _gaps(values)
    if as_passed and not missing.any():
        return values, missing
    if column.kind == "category":
        values = as_texts(of_array(values))
        missing = np.array([text is None or text.strip() in _NO_CLASS for text in values])
    present = np.array(values[~missing].tolist())
    whole = present.dtype.kind == "f" and bool(np.isfinite(present).all())
    if whole and (present == np.floor(present)).all():
        present = present.astype(np.int64)
    labels = np.zeros(len(values), dtype=present.dtype)
    labels[~missing] = present
    return labels, missing


def _gaps(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where an array of any shape holds no value."""
    raw = of_array(values.ravel())
    if raw.kind == "text":
        gaps = np.array([text is None for text in raw.values], dtype=np.bool_)
    elif raw.kind == "number":
        gaps = np.isnan(raw.values)
    else:
        gaps = np.zeros(len(raw.values), dtype=np.bool_)
    return gaps.reshape(values.shape)


def _error(name: str | None, problem: str) -> TableError:
    """The error for a column of targets or weights."""
    if name is None:
        return TableError(f"y: {problem}.")
    return TableError(f"column {name!r}: {problem}.", {name: problem})


def _left_out(n_rows: int, target: str | None) -> str:
    what = "target" if target is None else f"target {target!r}"
    if n_rows == 1:
        return f"1 row is left out: its {what} is missing."
    return f"{n_rows:,} rows are left out: their {what} is missing."
