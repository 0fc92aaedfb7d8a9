"""Tables with categories: data frames and arrays with text become numbers, the same way each time.

A column of text becomes codes 0, 1, …, the numbers of its levels; a level that did not occur in
training has the number that follows the last. Columns of numbers stay as they are, also those whose
values are the levels of a category.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from functools import partial, reduce
from operator import or_
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from pursuit._types import Floats
from pursuit.estimators.table.formats import find_format, find_strays, is_gap
from pursuit.estimators.warning import warn
from pursuit.kernels import ColumnNames, compared_columns
from pursuit.rows import CodedTable, Levels, RowSource, as_rows

_TEXT = ("cat", "enum", "str", "utf8", "large_string", "dictionary")
"""How types of columns of text or categories begin, in lower case."""
_DECLARED = ("cat", "enum", "dictionary")
"""How types of columns of categories begin, in lower case."""
_TIMES = ("date", "time", "duration", "period")
"""How types of columns of dates, times and durations begin, in lower case."""
_ENCODER = "pursuit.TableEncoder (pursuit.make_table_pipeline(model))"
"""What error messages recommend."""
_SHOWN = 5
"""Columns or values that a message names."""
_MANY_LEVELS = 30
"""So many levels are not looked at: a few numbers among texts may be codes."""


@dataclass(frozen=True)
class Columns:
    """The columns of a data frame or of an array of objects, one at a time.

    Attributes
    ----------
    labels : list
        Their names, or positions where they have none.
    values : callable
        The values of a column, by position, as an array.
    text : list of int
        Positions of those that hold text or categories.
    times : list of int
        Positions of those that hold dates, times or durations.
    """

    labels: list[Any]
    values: Callable[[int], NDArray[Any]]
    text: list[int]
    times: list[int]

    @classmethod
    def of(cls, X: Any) -> Columns | None:
        """Those of X, None if it is an array of numbers or no table."""
        if hasattr(X, "columns") and hasattr(X, "dtypes"):
            labels = list(X.columns)
            # Two columns of one name are a table: each is then looked at by its position.
            twice = {label for label, n in Counter(labels).items() if n > 1}
            return cls._told(
                labels,
                lambda j: np.asarray(X.iloc[:, j] if labels[j] in twice else X[labels[j]]),
                list(X.dtypes),
            )
        if isinstance(X, list | tuple) and any(_has_text(row) for row in X):
            if len({len(row) if isinstance(row, list | tuple) else 0 for row in X}) > 1:
                return None
            X = np.array(X, dtype=object)
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OUST":
            return cls._told(
                list(range(X.shape[1])), lambda j: X[:, j].astype(object), [X.dtype] * X.shape[1]
            )
        return None

    @classmethod
    def _told(
        cls, labels: list[Any], values: Callable[[int], NDArray[Any]], dtypes: Sequence[Any]
    ) -> Columns:
        text = [j for j, dtype in enumerate(dtypes) if _is_text(dtype, partial(values, j))]
        times = [j for j, dtype in enumerate(dtypes) if _is_time(dtype, partial(values, j))]
        return cls(labels, values, text, times)

    def named(self, positions: Iterable[int]) -> str:
        """Columns in words."""
        labels = [self.labels[j] for j in positions]
        more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
        return ", ".join(map(repr, labels[:_SHOWN])) + more

    def levels(self, j: int) -> Levels:
        """The distinct values of a column, in the order of their codes."""
        return _ordered(_distinct(self.values(j).tolist(), self.labels[j]).values())

    def check_names(self) -> None:
        """Refuse names that occur twice."""
        twice = [j for j, label in enumerate(self.labels) if label in self.labels[:j]]
        if twice:
            raise ValueError(f"X has several columns of the same name: {self.named(twice)}.")

    def check_times(self) -> None:
        """Refuse times, which have no unit in which a length scale or a period could be given."""
        if self.times:
            raise ValueError(
                f"columns of X hold dates or times: {self.named(self.times)}. Turn them into "
                "numbers in a unit of your choice, for instance days since the first of them: "
                "(X[name] - X[name].min()) / np.timedelta64(1, 'D') in pandas; or let "
                f"{_ENCODER} do so."
            )

    def check_gaps(self) -> None:
        """Refuse missing numbers; a missing text is a level."""
        numbers = [j for j in range(len(self.labels)) if j not in self.text]
        _refuse_counted(
            [self.labels[j] for j in numbers], [_n_missing(self.values(j)) for j in numbers]
        )


def refuse_gaps(X: Any) -> None:
    """Refuse missing numbers in an array, by the positions of its columns; other X may pass."""
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f":
        _refuse_counted(range(X.shape[1]), np.isnan(X).sum(axis=0).tolist())


def _refuse_counted(labels: Sequence[Any], counts: Sequence[int]) -> None:
    """Refuse columns in which a number of values is missing."""
    gaps = [f"{label!r} ({n:,})" for label, n in zip(labels, counts, strict=True) if n]
    if gaps:
        more = f" and {len(gaps) - _SHOWN} more" if len(gaps) > _SHOWN else ""
        raise ValueError(
            f"Input X contains NaN: values are missing in columns {', '.join(gaps[:_SHOWN])}{more}."
            f" Fill them in or leave them out, or let {_ENCODER} fill them and note where they "
            "were."
        )


def _has_text(row: Any) -> bool:
    return isinstance(row, list | tuple) and any(isinstance(value, str) for value in row)


def _is_text(dtype: Any, values: Callable[[], NDArray[Any]]) -> bool:
    """Whether a column of this type holds text or categories; objects are looked at."""
    if isinstance(dtype, np.dtype) and dtype.kind in "OUST":
        return any(isinstance(value, str | bytes) for value in values())
    name = str(dtype).lower()
    return name.startswith(_TEXT) and not name.startswith("struct")


def _is_time(dtype: Any, values: Callable[[], NDArray[Any]]) -> bool:
    """Whether a column of this type holds dates, times or durations; objects are looked at."""
    if str(dtype).lower() == "object":
        return any(isinstance(value, date | time | timedelta) for value in values())
    return str(dtype).lower().startswith(_TIMES)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NA or NaT."""
    return (
        value is None
        or (isinstance(value, float | np.floating) and bool(np.isnan(value)))
        or type(value).__name__ in ("NAType", "NaTType")
    )


def _n_missing(values: NDArray[Any]) -> int:
    if values.dtype.kind == "f":
        return int(np.isnan(values).sum())
    return sum(map(is_missing, values)) if values.dtype.kind == "O" else 0


def _distinct(values: list[Any], label: Any) -> dict[Any, Any]:
    """The distinct values of a column, and what stands for each of them in ``categories_``."""
    try:
        found = dict.fromkeys(values)
    except TypeError as error:
        raise ValueError(
            f"column {label!r} holds values that cannot be levels of a category ({error}): "
            "turn them into text."
        ) from error
    return {value: None if is_missing(value) else value for value in found}


def _ordered(values: Iterable[Any]) -> Levels:
    """Levels in ascending order where they have one, else in that of their text; missing last."""
    known = {value for value in values if value is not None}
    missing: Levels = [None] if any(value is None for value in values) else []
    try:
        return [*sorted(known), *missing]
    except TypeError:
        return [*sorted(known, key=lambda value: (type(value).__name__, str(value))), *missing]


def is_coded(levels: Levels) -> bool:
    """Whether a column of these levels becomes codes; numbers stay what they are."""
    return any(not isinstance(level, int | float) or isinstance(level, bool) for level in levels)


def level_codes(levels: Levels) -> Floats:
    """What stands for the levels in the rows that kernels see."""
    return np.arange(float(len(levels))) if is_coded(levels) else np.asarray(levels, dtype=float)


def categories_by_position(estimator: Any) -> dict[int, tuple[Any, Levels]]:
    """Label and levels of every category column of a fit."""
    categories = vars(estimator).get("categories_", {})
    names = list(vars(estimator).get("feature_names_in_", []))
    return {
        names.index(label) if isinstance(label, str) else label: (label, levels)
        for label, levels in categories.items()
    }


def encoded(estimator: Any, X: Any, *, reset: bool) -> Any:
    """A table with text as finite numbers, its names and width checked; other X as they are.

    A fit sets ``categories_`` of the columns of text, and refuses those that the kernel would take
    for numbers.
    """
    columns = Columns.of(X)
    if columns is None:
        return X
    if not reset:
        # Names that are not those of the fit explain missing values.
        validate_data(estimator, X, reset=False, skip_check_array=True, ensure_2d=False)
    columns.check_times()
    columns.check_gaps()
    if reset:
        levels = _levels_at_fit(estimator, X, columns)
    else:
        levels = {j: found for j, (_, found) in categories_by_position(estimator).items()}
        _refuse_new_text(columns, levels)
    # A fit sets the levels of categories that are numbers, too; later these columns stay numbers.
    if not (levels if reset else any(map(is_coded, levels.values()))):
        return X
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    if reset:
        _set_categories(estimator, levels)
    rows = [
        _codes(columns, j, levels[j])
        if j in levels and is_coded(levels[j])
        else _numbers(columns, j)
        for j in range(len(columns.labels))
    ]
    return check_array(np.column_stack(rows), estimator=estimator, input_name="X")


def _levels_at_fit(estimator: Any, X: Any, columns: Columns) -> dict[int, Levels]:
    """Levels of the columns of text; refuses those that a kernel would compare as numbers."""
    if not columns.text:
        return {}
    columns.check_names()
    levels = {j: columns.levels(j) for j in columns.text}
    kernels = kernels_of(estimator)
    if any(builds_kernel(kernel) for kernel in kernels):
        _refuse_written(estimator, X, columns, levels)
        _refuse_strays(X, columns, levels)
        return levels
    known = ColumnNames.of(X) if hasattr(X, "columns") else ColumnNames(len(columns.labels))
    compared = reduce(or_, [compared_columns(kernel, known) for kernel in kernels])
    wrong = [j for j in columns.text if j in compared.numbers and is_coded(levels[j])]
    if wrong:
        raise ValueError(_remedy(estimator, columns, wrong))
    return {j: found for j, found in levels.items() if j not in compared.numbers}


def _refuse_written(estimator: Any, X: Any, columns: Columns, levels: Mapping[int, Levels]) -> None:
    """Refuse numbers and dates written as text, which would be compared as levels.

    Digits alone may be codes, and what the table calls categories is meant so.
    """
    examples = {
        j: next(text for text in levels[j] if isinstance(text, str))
        for j in _not_declared(X, columns)
        if _are_written(levels[j])
    }
    if examples:
        shown = [f"{columns.labels[j]!r} ({text!r})" for j, text in examples.items()][:_SHOWN]
        more = f" and {len(examples) - _SHOWN} more" if len(examples) > _SHOWN else ""
        raise ValueError(
            f"columns of X hold numbers or dates written as text: {', '.join(shown)}{more}. "
            "pursuit.TableEncoder reads them: "
            f"pursuit.make_table_pipeline({type(estimator).__name__}(...)).fit(X, y). To compare "
            "them as levels, make them categories, X[name].astype('category') in pandas."
        )


def _not_declared(X: Any, columns: Columns) -> list[int]:
    """The columns of text that a table does not call categories."""
    types = list(getattr(X, "dtypes", [])) or [None] * len(columns.labels)
    return [j for j in columns.text if not str(types[j]).lower().startswith(_DECLARED)]


def _refuse_strays(X: Any, columns: Columns, levels: Mapping[int, Levels]) -> None:
    """Refuse numbers or dates that a few other texts would turn into levels."""
    for j in _not_declared(X, columns):
        strays = _strays(levels[j])
        if strays:
            raise ValueError(
                f"column {columns.labels[j]!r} of X holds numbers or dates, but for "
                f"{len(strays):,} of {len(levels[j]):,} distinct values, such as {strays[0]!r}: "
                "correct these, or leave their rows out. To compare all values as levels, make "
                "them categories, X[name].astype('category') in pandas."
            )


def _strays(levels: Levels) -> list[str]:
    """The few texts among many numbers or dates; none if these may be codes: whole numbers."""
    present = [level for level in levels if level is not None]
    texts = [level for level in present if isinstance(level, str)]
    if len(present) <= _MANY_LEVELS:
        return []
    if len(texts) == len(present):
        strays = find_strays([text for text in texts if not is_gap(text)])
        return [] if all(text.isdigit() for text in set(texts) - set(strays)) else strays
    numbers = [level for level in present if isinstance(level, float) and level % 1.0]
    return texts if len(numbers) > 0.5 * len(present) else []


def _are_written(levels: Levels) -> bool:
    """Whether levels are numbers or dates written as text, and not digits alone."""
    texts = [level for level in levels if level is not None]
    if not all(isinstance(text, str) for text in texts):
        return False
    texts = [text for text in texts if not is_gap(text)]  # type: ignore[arg-type]
    reading = find_format(texts)  # type: ignore[arg-type]
    if reading.format is None:
        return bool(reading.problem)
    return reading.format.kind != "truth" and not all(str(text).isdigit() for text in texts)


def compares_levels(estimator: Any, X: CodedTable, *, reset: bool) -> bool:
    """Whether the kernel of an estimator compares the codes of X as categories.

    A kernel of numbers sees zeros and ones instead; one that compares only some of the columns of
    codes as categories is refused.
    """
    if not reset:
        return any(map(is_coded, vars(estimator).get("categories_", {}).values()))
    kernels = kernels_of(estimator)
    if any(map(builds_kernel, kernels)):
        return True
    known = ColumnNames(len(X.columns), list(X.columns))
    coded = {X.columns.index(column) for column in X.levels}
    compared = reduce(or_, [compared_columns(kernel, known) for kernel in kernels])
    wrong = sorted(coded & set(compared.numbers))
    if wrong and coded & set(compared.categories):
        columns = Columns(list(X.columns), lambda j: X.read([X.columns[j]])[0], sorted(coded), [])
        raise ValueError(_remedy(estimator, columns, wrong))
    return not wrong


def keep_levels(estimator: Any, X: CodedTable) -> None:
    """Keep the levels of the columns of codes."""
    if X.levels:
        found = {X.columns.index(column): levels for column, levels in X.levels.items()}
        _set_categories(estimator, found)


def kernels_of(estimator: Any) -> list[Any]:
    """The kernels that a user gave to an estimator."""
    kernel = estimator.kernel
    return list(kernel) if isinstance(kernel, list | tuple) else [kernel]


def builds_kernel(kernel: Any) -> bool:
    """Whether the estimator makes the kernel itself, one that takes categories as well."""
    return kernel is None or (isinstance(kernel, str) and kernel == "search")


def _remedy(estimator: Any, columns: Columns, wrong: list[int]) -> str:
    """What is wrong with text where numbers are compared, and what to do."""
    labels = [columns.labels[j] for j in wrong]
    numbers = [label for j, label in enumerate(columns.labels) if j not in columns.text]
    rest = f"on_columns(Matern(), {numbers!r}) * " if numbers else ""
    levels = f"Compare their levels, kernel = ConstantKernel() * {rest}Categorical({labels!r}), or "
    # A kernel that names some of many columns would be refused as well.
    let = f"{levels}let" if max(len(labels), len(numbers)) <= _SHOWN else "Let"
    return (
        f"{type(estimator).__name__} with kernel={estimator.kernel!r} compares numbers, and "
        f"columns of X hold text or categories: {columns.named(wrong)}. {let} {_ENCODER} turn them "
        "into numbers."
    )


def refuse_text(estimator: Any, X: Any, *, reset: bool) -> None:
    """Refuse columns of text, for estimators that take numbers only."""
    columns = Columns.of(X)
    if columns is None:
        return
    if not reset:
        validate_data(estimator, X, reset=False, skip_check_array=True, ensure_2d=False)
    columns.check_times()
    columns.check_gaps()
    text = [j for j in columns.text if is_coded(columns.levels(j))]
    if text:
        raise ValueError(
            f"{type(estimator).__name__} takes numbers, and columns of X hold text or categories: "
            f"{columns.named(text)}. Let {_ENCODER} turn them into numbers, or leave them out."
        )


def _refuse_new_text(columns: Columns, known: Mapping[int, Levels]) -> None:
    """Refuse text in columns that held numbers in training."""
    for j in columns.text:
        if j not in known or not is_coded(known[j]):
            _numbers(columns, j)


def _set_categories(estimator: Any, found: Mapping[int, Levels]) -> None:
    """Keep the levels of category columns, in the order of the columns."""
    names = getattr(estimator, "feature_names_in_", None)
    levels = {j: known for j, (_, known) in categories_by_position(estimator).items()} | dict(found)
    estimator.categories_ = {
        j if names is None else str(names[j]): levels[j] for j in sorted(levels)
    }


def note_levels(estimator: Any, X: Any, known: ColumnNames) -> None:
    """Keep the levels of columns of numbers that a kernel compares as categories."""
    kernels = [kernel for kernel in kernels_of(estimator) if isinstance(kernel, SklearnKernel)]
    parts = [compared_columns(kernel, known).categories for kernel in kernels]
    wanted = sorted(set().union(*parts) - set(known.levels or {}))
    if wanted:
        _set_categories(estimator, _distinct_numbers(as_rows(X), wanted))


def _distinct_numbers(rows: RowSource, wanted: list[int]) -> dict[int, Levels]:
    """The distinct values of some columns."""
    found = {j: np.empty(0) for j in wanted}
    for _, block in rows.blocks():
        for j in wanted:
            found[j] = np.union1d(found[j], _column(block, j))
    return {j: list(values.tolist()) for j, values in found.items()}


def _column(X: Any, j: int) -> NDArray[Any]:
    column = X[:, [j]]
    return np.asarray(column.toarray() if hasattr(column, "toarray") else column)


def warn_of_new_numbers(estimator: Any, X: NDArray[Any]) -> None:
    """Warn of values that did not occur in training, in category columns of numbers."""
    for j, (label, levels) in categories_by_position(estimator).items():
        if not is_coded(levels):
            new = np.setdiff1d(_column(X, j), level_codes(levels))
            warn_of_new_levels(label, new.tolist())


def _codes(columns: Columns, j: int, levels: Levels) -> Floats:
    """The numbers of a column's levels."""
    # One list for all look-ups: a NaN is found as the object that it is.
    values, number = columns.values(j).tolist(), {level: float(i) for i, level in enumerate(levels)}
    standing = _distinct(values, columns.labels[j])
    unknown = float(len(levels))
    code = {value: number.get(level, unknown) for value, level in standing.items()}
    warn_of_new_levels(columns.labels[j], [v for v in standing if code[v] == unknown])
    return np.array([code[value] for value in values])


def _numbers(columns: Columns, j: int) -> Floats:
    try:
        return np.asarray(columns.values(j), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {columns.labels[j]!r} holds values that are not numbers ({error}): leave "
            f"the column out, or fit {_ENCODER} to it."
        ) from error


def warn_of_new_levels(label: Any, values: Sequence[Any]) -> None:
    """Warn of values that did not occur in training."""
    if not len(values):
        return
    shown = ", ".join(repr(value) for value in values[:_SHOWN])
    more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    warn(
        f"column {label!r} holds values that did not occur in training: {shown}{more}. They count "
        "as one new level, which is correlated with all others."
    )
