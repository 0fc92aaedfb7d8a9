"""Columns of a table as numbers: what is a feature, and how texts, dates and gaps become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pursuit.cli.console import WrongCallError

MOST_CATEGORIES = 50
_DAY = 86_400.0


@dataclass(frozen=True)
class Column:
    """How one column of a table becomes features.

    Attributes
    ----------
    name : str
        Of the column.
    kind : {"number", "text", "date"}
        What it holds.
    categories : list of str
        Of a text column: one feature each, 1 where the row has it.
    fill : float or str or None
        What stands for a gap; None where gaps are refused.
    """

    name: str
    kind: str
    categories: list[str] = field(default_factory=list)
    fill: Any = None

    @property
    def features(self) -> list[str]:
        """Names of the features it becomes."""
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
    def plain(self) -> bool:
        """Whether all columns are numbers without gaps to fill."""
        return all(column.kind == "number" and column.fill is None for column in self.columns)

    def encode(self, table: pa.Table) -> tuple[NDArray[np.float64], int]:
        """Rows of numbers, and how many categories in them were never seen."""
        require_columns([column.name for column in self.columns], table.column_names)
        whole = [column.name for column in self.columns if column.fill is None]
        refuse_gaps(table.select(whole), "the model was fitted to columns without gaps: fill them")
        rows = np.empty((table.num_rows, len(self.features)))
        at, unseen = 0, 0
        for column in self.columns:
            values = table.column(column.name)
            if column.kind == "text":
                texts = _texts(values, column.fill)
                n = len(column.categories)
                rows[:, at : at + n] = texts[:, None] == np.array(column.categories, dtype=object)
                unseen += int((~rows[:, at : at + n].any(axis=1)).sum())
            else:
                n = 1
                rows[:, at] = _numbers(values, column)
            at += n
        return rows, unseen

    def as_json(self) -> dict[str, Any]:
        """Texts and numbers only."""
        return {"target": self.target, "columns": [asdict(column) for column in self.columns]}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Encoding:
        """What :meth:`as_json` gave."""
        return cls([Column(**column) for column in found["columns"]], found["target"])


def learn_encoding(table: pa.Table, target: str, impute: str | None) -> Encoding:
    """Look at every column of the features: kinds, categories, and what to put into gaps."""
    names = [name for name in table.column_names if name != target]
    if not names:
        raise WrongCallError("the table has no columns beside the target: there are no features.")
    if impute is None:
        refuse_gaps(
            table,
            "add --impute median to fill them, --impute drop to leave such rows out, or --drop the "
            "columns",
        )
    return Encoding([_learned(table.column(name), name, impute) for name in names], target)


def _learned(values: pa.ChunkedArray, name: str, impute: str | None) -> Column:
    kind = kind_of(values.type)
    if kind is None:
        raise WrongCallError(
            f"column {name!r} holds {values.type}, which is not a number, a text, a truth value or "
            f"a date: leave it out with --drop {name}."
        )
    gaps = values.null_count or (
        pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py()
    )
    filled = bool(gaps) and impute is not None
    if kind == "text":
        texts = _texts(values, None)
        known = sorted({text for text in texts if text is not None})
        if len(known) > MOST_CATEGORIES:
            raise WrongCallError(
                f"column {name!r} has {len(known)} different texts, more than {MOST_CATEGORIES}: "
                f"leave it out with --drop {name}, or group its values."
            )
        return Column(name, kind, known, "" if filled else None)
    middle = float(np.nanmedian(_numbers(values, Column(name, kind, fill=np.nan))))
    return Column(name, kind, fill=middle if filled else None)


def kind_of(type_: pa.DataType) -> str | None:
    """number, text or date; None for anything else. Truth values are numbers."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_):
        return "number"
    if pa.types.is_decimal(type_) or pa.types.is_null(type_):
        return "number"
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return "text"
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return "date"
    return None


def _texts(values: pa.ChunkedArray, fill: str | None) -> NDArray[Any]:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    values = values if fill is None else values.fill_null(fill)
    return np.array(values.to_pylist(), dtype=object)


def _numbers(values: pa.ChunkedArray, column: Column) -> NDArray[np.float64]:
    """Numbers as they are; dates in days since 1970."""
    if column.kind == "date":
        seconds = values.cast(pa.timestamp("ms")).cast(pa.int64()).cast(pa.float64())
        values = pc.divide(seconds, 1000.0 * _DAY)
    found = np.asarray(values.cast(pa.float64()).to_numpy(), dtype=np.float64)
    return found if column.fill is None else np.where(np.isnan(found), column.fill, found)


def named(X: NDArray[np.float64], names: Sequence[str]) -> pa.Table:
    """Rows of numbers under names."""
    return pa.table({name: X[:, j] for j, name in enumerate(names)})


def refuse_gaps(table: pa.Table, advice: str) -> None:
    """Missing values are refused, counted column by column, with advice."""
    counts = {name: _gaps(table.column(name)) for name in table.column_names}
    counts = {name: count for name, count in counts.items() if count}
    if counts:
        told = ", ".join(f"{name} ({count:,})" for name, count in counts.items())
        raise WrongCallError(
            f"{sum(counts.values()):,} values are missing, in columns {told}: {advice}."
        )


def _gaps(values: pa.ChunkedArray) -> int:
    count = int(values.null_count)
    if pa.types.is_floating(values.type):
        count += int(pc.sum(pc.is_nan(values).fill_null(False)).as_py() or 0)
    if pa.types.is_string(values.type):
        count += int(pc.sum(pc.equal(values, "").fill_null(False)).as_py() or 0)
    return count


def without_gaps(table: pa.Table) -> pa.Table:
    """The rows in which nothing is missing."""
    keep = np.ones(table.num_rows, dtype=bool)
    for name in table.column_names:
        values = table.column(name)
        keep &= values.is_valid().to_numpy()
        if pa.types.is_floating(values.type):
            keep &= ~np.isnan(values.to_numpy())
        if pa.types.is_string(values.type):
            keep &= np.array([text != "" for text in values.to_pylist()], dtype=bool)
    return table.filter(pa.array(keep))


def require_columns(names: Sequence[str], there: Sequence[str]) -> None:
    """Every name must be that of a column; the nearest ones are suggested."""
    from pursuit.rows import check_columns

    try:
        check_columns(list(names), list(there), "the table", "column")
    except ValueError as error:
        raise WrongCallError(str(error)) from error
