"""What a table's columns are: learned in one pass, from counts and from a sample of the rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.estimators.table.columns import PERIODS, TableColumn, clean, days, place, read_column
from pursuit.estimators.table.formats import (
    Reading,
    TextFormat,
    UnreadableError,
    find_format,
    find_strays,
    shared_unit,
    with_comma,
)
from pursuit.estimators.table.read import RawColumn, RawTable

SAMPLE_ROWS = 100_000
"""Medians, places in periods and shares of distinct values are those of at most so many rows."""
MOST_TEXTS = 100_000
"""At most so many distinct texts of a column are counted."""
_DISTINCT_SHARE = 0.9
"""A column of which a larger share of values is distinct may be an identifier."""
_ID_WORDS = frozenset(
    "id ids idx index key no nr num number row rownum rowid rownames unnamed uid uuid guid pk oid "
    "objectid record serial".split()
)


@dataclass(frozen=True)
class Rules:
    """Parameters of a :class:`TableEncoder` that say what becomes of columns."""

    categories: Literal["auto", "levels", "one-hot", "target"]
    max_levels: int
    min_rows: int
    date_format: str | None
    has_target: bool


@dataclass(frozen=True)
class Learned:
    """What was found out about a column.

    Attributes
    ----------
    column : TableColumn
        What becomes of it.
    kept : TableColumn or None
        What would have become of it, had it not been dropped.
    problem : str
        Why it cannot be used.
    note : str
        What the user should know.
    """

    column: TableColumn
    kept: TableColumn | None = None
    problem: str = ""
    note: str = ""


@dataclass
class ColumnFacts:
    """What one pass over a column collects. Times are in days since 1970."""

    name: str
    kind: str = "number"
    declared: bool = False
    problem: str = ""
    n_rows: int = 0
    n_gaps: int = 0
    n_infinite: int = 0
    lowest: float = np.inf
    highest: float = -np.inf
    texts: Counter[str] = field(default_factory=Counter)
    sample: list[NDArray[Any]] = field(default_factory=list)
    sample_rows: list[Indices] = field(default_factory=list)

    def add(self, raw: RawColumn, rows: Indices, sampled: Indices) -> None:
        """Take in a piece whose rows have these numbers; some of its positions are sampled."""
        self.kind, self.declared, self.problem = raw.kind, raw.declared, raw.problem
        self.n_rows += len(raw.values)
        if raw.kind == "text":
            counts = Counter(raw.values.tolist())
            self.sample.append(raw.values[sampled])
            for text, count in counts.items():
                level = clean(text)
                if level is None:
                    self.n_gaps += count
                elif level in self.texts or len(self.texts) < MOST_TEXTS:
                    self.texts[level] += count
        elif raw.kind != "unusable":
            values = days(raw.values) if raw.kind == "time" else raw.values
            self._add_numbers(values)
            self.sample.append(values[sampled])
        self.sample_rows.append(rows[sampled])

    def _add_numbers(self, values: Floats) -> None:
        present = values[~np.isnan(values)]
        self.n_gaps += len(values) - len(present)
        self.n_infinite += int(np.isinf(present).sum())
        if len(present):
            self.lowest = min(self.lowest, float(present.min()))
            self.highest = max(self.highest, float(present.max()))

    def read_as(self, form: TextFormat) -> ColumnFacts:
        """The facts of the numbers or times that the texts stand for."""
        distinct = np.array([*self.texts, None], dtype=object)[:-1]
        read = ColumnFacts(self.name, "time" if form.kind == "time" else "number")
        values = read_column(distinct, form)
        read._add_numbers(values)
        read.n_infinite = sum(self.texts[text] for text in distinct[np.isinf(values)])
        read.n_rows, read.n_gaps, read.sample_rows = self.n_rows, self.n_gaps, self.sample_rows
        read.sample = [read_column(piece, form) for piece in self.sample]
        return read

    @property
    def sampled(self) -> NDArray[Any]:
        """The values of the sampled rows."""
        return np.concatenate(self.sample) if self.sample else np.empty(0)


def collect_facts(table: RawTable) -> list[ColumnFacts]:
    """One pass over a table."""
    facts = [ColumnFacts(name) for name in table.names]
    wanted = sample_rows(table.n_rows)
    for start, columns in table.pieces(table.names):
        n_rows = len(columns[0].values)
        rows = np.arange(start, start + n_rows)
        low, high = np.searchsorted(wanted, [start, start + n_rows])
        for fact, raw in zip(facts, columns, strict=True):
            fact.add(raw, rows, wanted[low:high] - start)
    return facts


def sample_rows(n_rows: int) -> Indices:
    """Numbers of the rows that are looked at more closely; all of them if there are few."""
    if n_rows <= SAMPLE_ROWS:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, SAMPLE_ROWS, replace=False))


def learn_columns(facts: Sequence[ColumnFacts], rules: Rules) -> list[Learned]:
    """What becomes of each column of a table."""
    readings = [_reading(fact, rules) for fact in facts]
    sure = {
        reading.format.decimal for reading in readings if reading.format and not reading.ambiguous
    }
    learned = []
    for fact, reading in zip(facts, readings, strict=True):
        note = ""
        if reading.ambiguous:
            reading = with_comma(reading) if "," in sure else reading
            note = _on_marks(fact, reading, by_others="," in sure)
        learned.append(_noted(_learn(fact, reading, rules), note))
    return _with_one_feature(learned)


def _reading(fact: ColumnFacts, rules: Rules) -> Reading:
    if fact.kind != "text" or fact.declared:
        return Reading()
    return find_format(fact.texts, rules.date_format)


def _on_marks(fact: ColumnFacts, reading: Reading, *, by_others: bool) -> str:
    text = next(text for text in fact.texts if "," in text or "." in text)
    assert reading.format is not None
    value = read_column(np.array([text], dtype=object), reading.format)[0]
    why = " as in other columns" if by_others else ""
    return f"column {fact.name!r}: {text!r} is read as {value:g}{why}."


def _noted(learned: Learned, note: str) -> Learned:
    return replace(learned, note=note) if note and learned.column.kind != "dropped" else learned


def _with_one_feature(learned: list[Learned]) -> list[Learned]:
    """Keep one of the columns that carry little if no other column is left."""
    if any(one.column.kind != "dropped" for one in learned):
        return learned
    spare = [j for j, one in enumerate(learned) if one.kept is not None]
    if spare:
        kept = learned[spare[0]].kept
        assert kept is not None
        note = f"column {kept.name!r} is kept, since no other is left."
        learned[spare[0]] = Learned(kept, note=note)
    return learned


def _learn(fact: ColumnFacts, reading: Reading, rules: Rules) -> Learned:
    if fact.problem or reading.problem:
        return Learned(_dropped(fact, ""), problem=fact.problem or reading.problem)
    if fact.n_gaps == fact.n_rows:
        return _drop(fact, "it has no values", None)
    if reading.format is not None:
        try:
            fact, form = fact.read_as(reading.format), reading.format
        except UnreadableError:  # a text beyond those that were counted
            return _learn_category(fact, rules)
        learned = _learn_numbers(fact, form)
        plain = form in (TextFormat("number"), TextFormat("truth"), TextFormat("time"))
        return learned if plain else _noted(learned, f"column {fact.name!r} is read as {form}.")
    return _learn_category(fact, rules) if fact.kind == "text" else _learn_numbers(fact, None)


def _dropped(fact: ColumnFacts, reason: str) -> TableColumn:
    return TableColumn(fact.name, "dropped", reason=reason)


def _drop(fact: ColumnFacts, reason: str, kept: TableColumn | None) -> Learned:
    note = f"column {fact.name!r} is left out: {reason}."
    return Learned(_dropped(fact, reason), kept, note=note)


def _learn_numbers(fact: ColumnFacts, form: TextFormat | None) -> Learned:
    if fact.n_infinite:
        problem = f"it holds infinity, in {fact.n_infinite:,} of {fact.n_rows:,} rows"
        return Learned(_dropped(fact, ""), problem=problem)
    sample = fact.sampled
    present = ~np.isnan(sample)
    values, rows = sample[present], np.concatenate(fact.sample_rows)[present]
    column = TableColumn(
        fact.name,
        "time" if fact.kind == "time" else "number",
        format=form,
        fill=float(np.median(values)) if len(values) else fact.lowest,
        indicator=fact.n_gaps > 0,
        parts=_periods(fact, values) if fact.kind == "time" else [],
        lowest=fact.lowest,
        highest=fact.highest,
    )
    if fact.lowest == fact.highest and not fact.n_gaps:
        return _drop(fact, "all its values are equal", column)
    if fact.kind == "number" and (form is None or form == TextFormat("number")):
        reason = _counts_rows(fact, values, rows)
        if reason:
            return _drop(fact, reason, column)
    return Learned(column)


def _periods(fact: ColumnFacts, values: Floats) -> list[str]:
    """Periods of which the times span at least two, at several places within them."""
    span = fact.highest - fact.lowest
    long = [part for part, length in PERIODS.items() if span >= 2 * length]
    return [part for part in long if _varies(place(values, part), part)]


def _varies(places: Floats, part: str) -> bool:
    # A date without a time has its place in a year, but leap years move it by a day.
    return len(places) > 0 and float(np.ptp(places)) > (0.01 if part == "year" else 0.0)


def _counts_rows(fact: ColumnFacts, values: Floats, rows: Indices) -> str:
    """Why whole numbers tell rows apart and nothing else; empty if they may tell more."""
    if not _names_rows(fact.name) or not np.all(values == np.floor(values)):
        return ""
    if not fact.n_gaps and np.all(values - rows == values[0] - rows[0]):
        return "it counts the rows"
    if len(np.unique(values)) > _DISTINCT_SHARE * len(values):
        return "its name and its distinct values are those of an identifier"
    return ""


def _names_rows(name: str) -> bool:
    """Whether a name is one that row numbers and identifiers have."""
    apart = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    words = re.findall(r"[^\W\d_]+", apart.casefold())
    return not name.strip() or any(word in _ID_WORDS for word in words)


# Categories


def _learn_category(fact: ColumnFacts, rules: Rules) -> Learned:
    few = fact.declared or len(fact.texts) <= rules.max_levels
    strays = [] if few else find_strays(fact.texts)
    if strays:
        count = sum(fact.texts[text] for text in strays)
        problem = (
            f"it holds numbers or dates of one format, but not in {count:,} of {fact.n_rows:,} "
            f"rows, such as {strays[0]!r}: leave these empty"
        )
        return Learned(_dropped(fact, ""), problem=problem)
    column = _category(fact, rules)
    levels = column.all_levels
    if not fact.declared and _is_identifier(fact):
        learned = _drop(fact, "nearly all its texts are distinct", column)
        return replace(learned, note=learned.note + _on_unit(fact))
    if len(levels) < 2:
        only = column.merged and f"no text occurs in as many as {rules.min_rows} rows"
        return _drop(fact, only or "all its values are equal", column)
    note = ""
    if column.merged:
        note = f"column {fact.name!r}: {len(column.merged):,} rare texts share one level."
    if column.encoding == "target":
        count = len(column.levels)
        note = f"column {fact.name!r}: its {count:,} levels become statistics of the target."
    advice = _on_unit(fact)
    if advice and not note:
        note = f"column {fact.name!r}: its {len(levels):,} texts are categories."
    return Learned(column, note=note + advice)


def _on_unit(fact: ColumnFacts) -> str:
    """What to do where numbers are texts because of a unit; empty where they are not."""
    unit = "" if fact.declared else shared_unit(fact.texts)
    return f" To have its numbers read, write them without {unit!r}." if unit else ""


def _is_identifier(fact: ColumnFacts) -> bool:
    present = [level for level in map(clean, fact.sampled.tolist()) if level is not None]
    return len(set(present)) > max(1, _DISTINCT_SHARE * len(present))


def _category(fact: ColumnFacts, rules: Rules) -> TableColumn:
    by_count = sorted(fact.texts, key=lambda text: (-fact.texts[text], text))
    frequent = [text for text in by_count if fact.texts[text] >= rules.min_rows]
    if len(by_count) == len(frequent) + 1:  # nothing to merge it with
        frequent = by_count
    n_levels = len(frequent) + (len(frequent) < len(by_count))
    many = n_levels > rules.max_levels
    target = rules.categories == "target" or (
        rules.categories == "auto" and many and rules.has_target
    )
    if target:
        frequent = by_count
    elif many:
        frequent = frequent[: rules.max_levels - 1]
    return TableColumn(
        fact.name,
        "category",
        encoding="target" if target else "one-hot" if rules.categories == "one-hot" else "levels",
        levels=sorted(frequent),
        merged=sorted(set(by_count) - set(frequent)),
        gap_level=fact.n_gaps > 0,
    )
