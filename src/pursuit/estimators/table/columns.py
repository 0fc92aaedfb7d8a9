"""What is known of a column of a table, and how its values become features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.estimators.table.formats import TextFormat, UnreadableError, is_gap, read_texts
from pursuit.estimators.table.read import RawColumn, as_texts
from pursuit.rows import Levels
from pursuit.rows.encoded import one_hot, plain_names

DAY = 86_400_000.0
"""Milliseconds of a day."""
PERIODS = {"year": 365.25, "week": 7.0, "day": 1.0}
"""Lengths of the periods that times have a place in, in days."""
MERGED = "(other)"
"""The level of all texts that are too rare for one of their own."""


@dataclass(frozen=True)
class TableColumn:
    """What a :class:`TableEncoder` makes of a column of a table.

    Attributes
    ----------
    name : str
        Name of the column.
    kind : {"number", "category", "time", "dropped"}
        What its values are. Times become days since 1970.
    format : TextFormat or None
        How its texts are read as numbers or times; None where they need not be.
    fill : float
        What stands for a gap: the median of the numbers or days.
    indicator : bool
        Whether a further feature is 1 where a value is missing.
    parts : list of {"year", "week", "day"}
        Periods in which the place of a time becomes two further features, a sine and a cosine.
    encoding : {"", "levels", "one-hot", "target"}
        What categories become: codes, zeros and ones, or statistics of the target.
    levels : list of str
        The texts that are levels of their own.
    merged : list of str
        Further texts, too rare for a level of their own, which share one.
    gap_level : bool
        Whether a gap is a level as well.
    outputs : list of str
        Names of the targets, or classes, whose statistics are kept; one without a name is "".
    statistics : list of list of float
        For each of them, the statistics of all levels, and last what stands for a new level.
    lowest, highest : float
        The range of the numbers or days.
    reason : str
        Why the column is dropped.
    """

    name: str
    kind: Literal["number", "category", "time", "dropped"]
    format: TextFormat | None = None
    fill: float = 0.0
    indicator: bool = False
    parts: list[str] = field(default_factory=list)
    encoding: Literal["", "levels", "one-hot", "target"] = ""
    levels: list[str] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    gap_level: bool = False
    outputs: list[str] = field(default_factory=list)
    statistics: list[list[float]] = field(default_factory=list)
    lowest: float = 0.0
    highest: float = 0.0
    reason: str = ""

    @property
    def all_levels(self) -> Levels:
        """Levels in the order of their codes: texts, the merged ones, and None for a gap."""
        merged: Levels = [MERGED] if self.merged else []
        gap: Levels = [None] if self.gap_level else []
        return [*self.levels, *merged, *gap]

    @property
    def features(self) -> list[str]:
        """Names of the features that the column becomes; codes count as one."""
        if self.kind == "dropped":
            return []
        if self.encoding == "levels":
            return [self.name]
        if self.encoding == "one-hot":
            return plain_names(self.name, {self.name: self.all_levels})
        if self.encoding == "target":
            return [f"{self.name} ({output or 'target'})" for output in self.outputs]
        cyclic = [f"{self.name} ({part}, {f})" for part in self.parts for f in ("sin", "cos")]
        return [self.name, *cyclic, *([f"{self.name} is missing"] if self.indicator else [])]

    @property
    def reads_text(self) -> bool:
        """Whether a file's values must be taken as texts, even if they look like numbers."""
        return self.kind == "category" or (self.kind != "dropped" and self.format is not None)


@dataclass
class Tally:
    """What new rows hold that the rows of the fit did not, by column."""

    gaps: Counter[str] = field(default_factory=Counter)
    new: dict[str, Counter[str]] = field(default_factory=dict)

    def sentence(self) -> str:
        """A warning; empty if there is nothing to warn of."""
        parts = [
            f"{_values(sum(texts.values()))} of column {name!r} did not occur in training "
            f"({_some(texts)})"
            for name, texts in self.new.items()
        ]
        if self.gaps:
            counts = ", ".join(f"{name!r} ({count:,})" for name, count in self.gaps.items())
            parts.append(f"values are missing in columns that had none missing: {counts}")
        return "; ".join(parts)


def _values(number: int) -> str:
    return f"{number:,} value{'' if number == 1 else 's'}"


def _some(texts: Counter[str]) -> str:
    shown = ", ".join(repr(text) for text in sorted(texts)[:3])
    return shown + (f" and {len(texts) - 3:,} more" if len(texts) > 3 else "")


class MisfitError(ValueError):
    """A column holds something else than at the fit."""


def encode_column(
    column: TableColumn,
    raw: RawColumn,
    tally: Tally,
    statistics: Callable[[Indices], Floats] | None = None,
) -> Floats:
    """The features of a column, side by side.

    Parameters
    ----------
    column : TableColumn
        What was learned.
    raw : RawColumn
        The values.
    tally : Tally
        Where gaps and levels that are new are counted.
    statistics : callable, optional
        Gives the statistics of the target for codes, in place of the column's own.

    Raises
    ------
    MisfitError
        If the values cannot be read as at the fit.
    """
    if raw.kind == "unusable":
        raise MisfitError(raw.problem)
    if column.kind == "category":
        codes = level_codes(column, raw, tally)
        if column.encoding == "levels":
            return codes[:, None].astype(np.float64)
        if column.encoding == "one-hot":
            return one_hot(codes[:, None].astype(np.float64), {0: len(column.all_levels)})
        if statistics is not None:
            return statistics(codes)
        return np.array(column.statistics).T[codes]
    values = column_numbers(column, raw)
    gaps = np.isnan(values)
    if np.isinf(values).any():
        raise MisfitError(f"it holds infinity, in {int(np.isinf(values).sum()):,} rows")
    if gaps.any() and not column.indicator:
        tally.gaps[column.name] += int(gaps.sum())
    filled = np.where(gaps, column.fill, values)
    features = [filled, *(f(place(filled, part)) for part in column.parts for f in (_sin, _cos))]
    if column.indicator:
        features.append(gaps.astype(np.float64))
    return np.column_stack(features)


def level_codes(column: TableColumn, raw: RawColumn, tally: Tally) -> Indices:
    """The codes of a column of categories; what is new has the code after the last."""
    new = len(column.all_levels)
    other = len(column.levels) if column.merged else new
    gap = new - 1 if column.gap_level else new
    known: dict[str | None, int] = {level: code for code, level in enumerate(column.levels)}
    known |= dict.fromkeys(column.merged, other)
    known |= {None: gap} if column.gap_level else {}
    texts = as_texts(raw).tolist()
    code = {text: known.get(clean(text), other) for text in dict.fromkeys(texts)}
    fresh = {text for text in code if clean(text) not in known}
    if fresh:
        counts = Counter(clean(text) for text in texts if text in fresh)
        if gaps := counts.pop(None, 0):
            tally.gaps[column.name] += gaps
            code |= {text: gap for text in fresh if clean(text) is None}
        if counts:
            tally.new.setdefault(column.name, Counter()).update(counts)  # type: ignore[arg-type]
    return np.array([code[text] for text in texts], dtype=np.intp)


def clean(text: str | None) -> str | None:
    """A text without blanks around it; None if it means a gap."""
    return None if text is None or is_gap(text) else text.strip()


def column_numbers(column: TableColumn, raw: RawColumn) -> Floats:
    """The values of a column of numbers or of times (in days), with NaN for gaps."""
    if raw.kind == "text":
        unread: list[str] = []
        for form in _tried(column):
            try:
                return read_column(raw.values, form)
            except UnreadableError as error:
                unread.append(str(error))
        wanted = str(column.format or ("dates" if column.kind == "time" else "numbers"))
        # The first format is the column's own: what it cannot read is what is new.
        raise MisfitError(f"it holds {unread[0]!r}, and {wanted} in training")
    values = days(raw.values) if raw.kind == "time" else raw.values
    if raw.kind != column.kind and not np.isnan(values).all():
        held = {"number": "numbers", "time": "dates"}
        raise MisfitError(f"it holds {held[raw.kind]}, and {held[column.kind]} in training")
    return values


def _tried(column: TableColumn) -> list[TextFormat]:
    """Formats in which the texts of a column may be written."""
    if column.kind == "time":
        own = column.format or TextFormat("time")
        return [own] if own == TextFormat("time") else [own, TextFormat("time")]
    if column.format is not None:
        return [column.format]
    return [TextFormat("number"), TextFormat("truth"), TextFormat("clock")]


def read_column(texts: NDArray[Any], form: TextFormat) -> Floats:
    """Texts as numbers, or as days since 1970, with NaN for gaps."""
    items = texts.tolist()
    distinct = [text for text in dict.fromkeys(items) if clean(text) is not None]
    values = read_texts(distinct, form)
    values = days(values) if form.kind == "time" else values
    found = dict(zip(distinct, values.tolist(), strict=True))
    return np.array([found.get(text, np.nan) for text in items], dtype=np.float64)


def days(times: NDArray[Any]) -> Floats:
    """Days since 1970, NaN for gaps."""
    milliseconds = times.astype("datetime64[ms]").astype(np.int64).astype(np.float64)
    return np.where(np.isnat(times), np.nan, milliseconds / DAY)


def place(values: Floats, part: str) -> Floats:
    """The place of days within the period that they are in, from 0 to 1."""
    if part == "day":
        return values - np.floor(values)
    if part == "week":  # 1970 began on a Thursday, and weeks begin on Mondays
        return np.mod(values + 3.0, 7.0) / 7.0
    years = np.floor(values).astype(np.int64).astype("datetime64[D]").astype("datetime64[Y]")
    start = years.astype("datetime64[D]").astype(np.int64)
    stop = (years + np.timedelta64(1, "Y")).astype("datetime64[D]").astype(np.int64)
    return (values - start) / (stop - start)


def _sin(places: Floats) -> Floats:
    return np.sin(2 * np.pi * places)


def _cos(places: Floats) -> Floats:
    return np.cos(2 * np.pi * places)
