"""Columns of a table as features: how texts, dates and missing values become numbers."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pursuit._types import Floats
from pursuit.cli.console import WrongCallError

MOST_CATEGORIES = 50
"""A text column with more categories than this is refused."""
_DAY = 86_400.0
_WITH_COMMAS = re.compile(r"[-+]?\d[\d.]*(,[\d.]+)*")
_OTHER_DATE = re.compile(r"(\d{1,2}([./-])\d{1,2}\2\d{4}|\d{4}([./])\d{1,2}\3\d{1,2})(\D.*)?")
"""Dates that are not written as in ISO 8601 and can be read in more than one way."""


@dataclass(frozen=True)
class Column:
    """How one column of a table becomes features.

    Attributes
    ----------
    name : str
        Name of the column.
    kind : {"number", "text", "date"}
        Type of its values.
    categories : list of str
        Categories of a text column. Each becomes a feature that is 1 in the rows that have it.
    fill : float or str or None
        Value that replaces a missing one; None if missing values are refused.
    """

    name: str
    kind: str
    categories: list[str] = field(default_factory=list)
    fill: Any = None

    @property
    def features(self) -> list[str]:
        """Names of the features that the column becomes."""
        if self.kind != "text":
            return [self.name]
        return [f"{self.name}={category}" for category in self.categories]


@dataclass(frozen=True)
class Encoding:
    """How the rows of a table become rows of numbers."""

    columns: list[Column]
    target: str

    @property
    def features(self) -> list[str]:
        """Names of all features, in order."""
        return [feature for column in self.columns for feature in column.features]

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    @property
    def texts(self) -> list[str]:
        """Names of the columns that hold texts."""
        return [column.name for column in self.columns if column.kind == "text"]

    def encode(self, table: pa.Table) -> tuple[Floats, int]:
        """Rows of numbers, and the number of values in categories that ``fit`` did not see."""
        whole = [column.name for column in self.columns if column.fill is None]
        refuse_gaps(
            table.select(whole),
            "the model was fitted to columns without gaps: fill them, or fit with --impute median",
        )
        rows = np.empty((table.num_rows, len(self.features)))
        at, unseen = 0, 0
        for column in self.columns:
            values = table.column(column.name)
            if column.kind == "text":
                texts = _texts(values, column.fill)
                n = len(column.categories)
                rows[:, at : at + n] = texts[:, None] == np.array(column.categories, dtype=object)
                unseen += int((~rows[:, at : at + n].any(axis=1) & (texts != column.fill)).sum())
            else:
                n = 1
                converted = _refuse_infinite(_as_fitted(values, column), column.name)
                gaps = np.isnan(converted)
                rows[:, at] = np.where(gaps, column.fill, converted) if gaps.any() else converted
            at += n
        return rows, unseen

    def as_json(self) -> dict[str, Any]:
        """The encoding as texts and numbers, for a file."""
        return {"target": self.target, "columns": [asdict(column) for column in self.columns]}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Encoding:
        """The encoding that :meth:`as_json` wrote."""
        return cls([Column(**column) for column in stored["columns"]], stored["target"])


def learn_encoding(table: pa.Table, target: str, impute: str | None) -> Encoding:
    """Learn types, categories and replacements of missing values from every column."""
    names = [name for name in table.column_names if name != target]
    if not names:
        raise WrongCallError("the table has no columns beside the target: there are no features.")
    columns, refused = [], []
    for name in names:
        try:
            columns.append(_learned(table.column(name), name, impute))
        except WrongCallError as error:
            refused.append(str(error))
    if refused:
        raise WrongCallError(" ".join(refused))
    if impute is None:
        refuse_gaps(
            table,
            "add --impute median to fill them, --impute drop to leave such rows out, or --drop the "
            "columns",
        )
    return Encoding(columns, target)


def _learned(values: pa.ChunkedArray, name: str, impute: str | None) -> Column:
    kind = kind_of(values.type)
    if kind is None:
        raise WrongCallError(
            f"column {name!r} holds {values.type}, which is not a number, a text, a truth value or "
            f"a date: leave it out with --drop {shlex.quote(name)}."
        )
    if _gaps(values) == len(values):
        raise WrongCallError(
            f"column {name!r} is empty: leave it out with --drop {shlex.quote(name)}."
        )
    filled = impute == "median"
    if kind == "text":
        known = sorted({text for text in _texts(values, None) if text})
        if meant := _meant(known):
            raise WrongCallError(
                f"column {name!r} holds {meant}, or leave the column out with --drop "
                f"{shlex.quote(name)}."
            )
        if len(known) > MOST_CATEGORIES:
            raise WrongCallError(
                f"column {name!r} has {len(known)} different texts, more than {MOST_CATEGORIES}: "
                f"leave it out with --drop {shlex.quote(name)}, or group its values."
            )
        return Column(name, kind, known, "" if filled else None)
    middle = float(np.nanmedian(numbers(values, kind))) if filled else None
    return Column(name, kind, fill=middle)


def _meant(texts: Sequence[str]) -> str:
    """What all of these texts were meant to be, and how to write it; empty for plain texts."""
    with_comma = [text for text in texts if "," in text]
    if with_comma and all(_WITH_COMMAS.fullmatch(text) for text in texts):
        return (
            f"numbers with a comma, such as {with_comma[0]}: write them with a decimal point, and "
            "thousands without a mark"
        )
    if texts and all(_OTHER_DATE.fullmatch(text) for text in texts):
        return f"dates such as {texts[0]}: write them as 2025-01-31"
    return ""


def refuse_target(values: pa.ChunkedArray, name: str) -> NoReturn:
    """Refuse a target that is not numeric."""
    if kind_of(values.type) == "text":
        known = sorted({text for text in _texts(values, None) if text})
        if meant := _meant(known):
            raise WrongCallError(f"the target {name!r} holds {meant}.")
    raise WrongCallError(
        f"the target {name!r} holds {values.type}, not numbers: add --task classification to "
        "predict classes."
    )


def _as_fitted(values: pa.ChunkedArray, column: Column) -> Floats:
    """Numbers of a column that must have the type it had when the model was fitted.

    Texts are converted, since a file may hold numbers and dates as texts.
    """
    if values.null_count == len(values):
        return np.full(len(values), np.nan)
    if kind_of(values.type) in (column.kind, "text"):
        with contextlib.suppress(pa.ArrowInvalid):
            return numbers(values, column.kind)
    raise WrongCallError(
        f"column {column.name!r} holds {values.type}, but {column.kind}s in the table that the "
        "model was fitted to."
    )


def kind_of(type_: pa.DataType) -> str | None:
    """``"number"``, ``"text"`` or ``"date"``; None for other types. Booleans are numbers."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_):
        return "number"
    if pa.types.is_decimal(type_) or pa.types.is_null(type_):
        return "number"
    if any(test(type_) for test in (pa.types.is_string, pa.types.is_large_string)):
        return "text"
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return "date"
    return None


def _texts(values: pa.ChunkedArray, fill: str | None) -> NDArray[Any]:
    texts = values.cast(pa.string())
    texts = texts if fill is None else texts.fill_null(fill)
    return np.array(texts.to_pylist(), dtype=object)


def numbers(values: pa.ChunkedArray, kind: str = "number") -> Floats:
    """Numbers, rounded beyond 2^53, and dates in days since 1970."""
    if kind == "date":
        # Fractions of a millisecond are lost.
        milliseconds = values.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        values = pc.divide(milliseconds.cast(pa.float64()), 1000.0 * _DAY)
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def finite_numbers(values: pa.ChunkedArray, name: str) -> Floats:
    """Numbers of a column; infinite ones are refused."""
    return _refuse_infinite(numbers(values), name)


def _refuse_infinite(values: Floats, name: str) -> Floats:
    if count := int(np.isinf(values).sum()):
        raise WrongCallError(
            f"column {name!r} holds infinity, in {count:,} of {len(values):,} rows: write nothing "
            "there for a missing value, or leave such rows out."
        )
    return values


def named(X: Floats, names: Sequence[str]) -> pa.Table:
    """Rows of numbers as a table with column names."""
    return pa.table({name: X[:, j] for j, name in enumerate(names)})


def refuse_gaps(table: pa.Table, advice: str) -> None:
    """Refuse missing values: count them per column and give advice."""
    counts = {name: _gaps(table.column(name)) for name in table.column_names}
    counts = {name: count for name, count in counts.items() if count}
    if counts:
        listed = ", ".join(f"{name} ({count:,})" for name, count in counts.items())
        raise WrongCallError(
            f"{sum(counts.values()):,} values are missing, in columns {listed}: {advice}."
        )


def _gaps(values: pa.ChunkedArray) -> int:
    return len(values) - int(np.count_nonzero(_present(values)))


def _present(values: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Where a value is present: not null, not NaN and not an empty text."""
    present = values.is_valid()
    if pa.types.is_floating(values.type):
        present = pc.and_(present, pc.invert(pc.is_nan(values).fill_null(True)))
    if kind_of(values.type) == "text":
        present = pc.and_(present, pc.not_equal(values.cast(pa.string()), "").fill_null(False))
    return np.asarray(present.to_numpy(), dtype=bool)


def without_gaps(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows that have a value in each of these columns."""
    keep = np.ones(table.num_rows, dtype=bool)
    for name in names:
        keep &= _present(table.column(name))
    return table.filter(pa.array(keep))


def require_columns(names: Sequence[str], there: Sequence[str], table: str, asked: str) -> None:
    """Refuse names that are not columns, and suggest the nearest ones."""
    from pursuit.rows import check_columns

    try:
        check_columns(list(names), list(there), table, asked)
    except ValueError as error:
        raise WrongCallError(str(error)) from error
