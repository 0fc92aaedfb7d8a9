"""Texts that stand for numbers, dates, times of day or truth values.

A column is read in one format: the one in which all its texts can be read. Nothing here knows of
tables; imports numpy only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

_GAPS = frozenset(
    "|na|n/a|n.a.|null|none|nan|-nan|-|--|?|#n/a|#n/a n/a|#na|nat|<na>|"
    "1.#ind|-1.#ind|1.#qnan|-1.#qnan".split("|")
)
"""Texts that mean that there is no value, in lower case."""

_TRUTHS = [
    tuple(pair.split("/"))
    for pair in "true/false yes/no y/n t/f on/off ja/nein j/n oui/non vrai/faux si/no sí/no "
    "sim/não wahr/falsch tak/nie da/ne ja/nej ja/nee kyllä/ei".split()
]
_TRUTH = {word: float(k == 0) for pair in reversed(_TRUTHS) for k, word in enumerate(pair)}

_SAME_UNIT = {"€": "EUR", "£": "GBP", "₹": "INR", "₽": "RUB", "₺": "TRY", "₪": "ILS", "₩": "KRW"}
_CODES = (
    "AED ARS AUD BGN BRL CAD CHF CLP CNY COP CZK DKK EUR GBP HKD HUF IDR ILS INR ISK JPY KRW MXN "
    "MYR NOK NZD PHP PLN RON RUB SAR SEK SGD THB TRY TWD UAH USD VND ZAR"
)
_UNIT = rf"(?:%|[A-Z]{{0,2}}[$€£¥₹₩₽₺₫₴₦₪฿]|{'|'.join(_CODES.split())}|Fr\.|kr\.?|zł|Kč)"
_AMOUNT = re.compile(
    rf"(?P<sign>[+-]?)\s*(?P<before>{_UNIT})?\s*(?P<sign2>[+-]?)\s*"
    rf"(?P<digits>[0-9.,](?:[0-9.,'’\s]*[0-9.,])?(?:[eE][+-]?[0-9]+)?)\s*(?P<after>{_UNIT})?"
)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]{1,15}")  # as pyarrow reads them in files
_PLAIN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_GROUPED = re.compile(r"0|[1-9][0-9]{0,2}(?:\.[0-9]{3})*")
_MARKS = {".": ",", ",": "."}
"""The mark of thousands that goes with a decimal mark."""


def _written(decimal: str) -> re.Pattern[str]:
    """Digits with this decimal mark, with or without marks of thousands."""
    point, comma = re.escape(decimal), re.escape(_MARKS[decimal])
    return re.compile(
        rf"(?:[0-9]+(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?"
        rf"|[1-9][0-9]{{0,2}}(?P<mark>[{comma}'’\s])[0-9]{{3}}(?:(?P=mark)[0-9]{{3}})*"
        rf"(?:{point}[0-9]*)?"
    )


_DIGITS = {decimal: _written(decimal) for decimal in _MARKS}
_CLOCK = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}(?:[.,][0-9]+)?))?"
_TIME_OF_DAY = re.compile(rf"{_CLOCK}\s*(?P<half>[AaPp]\.?[Mm]\.?)?")
_ISO = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?\s*(Z|z|UTC|[+-][0-9]{2}(:?[0-9]{2})?)?)?"
)
_DATE = re.compile(
    r"(?P<first>[0-9]{1,4})(?P<mark>[./-])(?P<middle>[0-9]{1,2})(?P=mark)(?P<last>[0-9]{2,4})"
    r"(?:[ T,]+(?P<time>.+))?"
)

_WITH_UNIT = re.compile(r"(?P<number>[+-]?[0-9][0-9.,'’\s]*)(?P<unit>[^0-9\s.,'’:/+-]\S{0,9})")
"""A number and a unit that is neither per cent nor a currency."""
_READABLE_SHARE = 0.9
"""A column of which a larger share of texts are numbers or dates is not meant to be categories."""
_LOOKED_AT = 1_000
"""Texts that are looked at one by one."""
_DATE_ONLY = re.compile(r"(?:%[dmyY][./-]?)+")
"""Patterns that no time of day is part of."""


@dataclass(frozen=True)
class TextFormat:
    """How the texts of a column are read.

    Attributes
    ----------
    kind : {"number", "truth", "clock", "time"}
        What they stand for: numbers, truth values (1 and 0), times of day (in hours), or dates,
        with or without a time.
    decimal : {".", ","}
        Decimal mark of numbers.
    unit : str
        Per cent or a currency, "" if there is none. It does not change the number: 12 % is 12.
    pattern : str
        The date's pattern, as for ``strptime``; "" is ISO 8601.
    """

    kind: Literal["number", "truth", "clock", "time"]
    decimal: str = "."
    unit: str = ""
    pattern: str = ""

    def __str__(self) -> str:
        if self.kind == "number":
            comma = " with a decimal comma" if self.decimal == "," else ""
            return f"numbers{comma}{f' in {self.unit}' if self.unit else ''}"
        if self.kind == "time":
            return f"dates, {self.pattern or 'ISO 8601'}"
        return {"truth": "truth values", "clock": "times of day, in hours"}[self.kind]


@dataclass(frozen=True)
class Reading:
    """What was found out about the texts of a column.

    Attributes
    ----------
    format : TextFormat or None
        The format that all of them have; None if there is none.
    ambiguous : bool
        Whether the numbers could have another decimal mark as well.
    problem : str
        Why they cannot be read although they look like dates.
    """

    format: TextFormat | None = None
    ambiguous: bool = False
    problem: str = ""


class UnreadableError(ValueError):
    """A text that is not written in the format of its column."""


def is_gap(text: str) -> bool:
    """Whether a text means that there is no value."""
    return text.strip().casefold() in _GAPS


def find_format(texts: Collection[str], date_format: str | None = None) -> Reading:
    """The format in which all texts can be read.

    Parameters
    ----------
    texts : collection of str
        The distinct texts of a column, without those that mean a gap.
    date_format : str, optional
        A pattern for ``strptime``, tried first.
    """
    if not texts:
        return Reading()
    if date_format is not None and _all(texts, partial(_of_pattern, pattern=date_format)):
        return Reading(TextFormat("time", pattern=date_format))
    if any({text.strip().casefold() for text in texts} <= set(pair) for pair in _TRUTHS):
        return Reading(TextFormat("truth"))
    for reading in (_as_numbers(texts), _as_dates(texts)):
        if reading is not None:
            return reading
    return Reading(TextFormat("clock")) if _all(texts, _clock) else Reading()


def find_strays(texts: Collection[str]) -> list[str]:
    """The few texts that are not written in the format of all others; none if these have none."""
    looked_at = list(texts)[:_LOOKED_AT]
    readings = {text: find_format([text]) for text in looked_at}
    others = [text for text, one in readings.items() if one.format or one.problem]
    if len(others) < _READABLE_SHARE * len(looked_at) or find_format(others).format is None:
        return []
    readable = set(others)
    return [text for text in looked_at if text not in readable]


def shared_unit(texts: Collection[str]) -> str:
    """What follows the number in all texts, such as kg; empty if they are not written so."""
    units, numbers = set(), set()
    for text in texts:
        found = _WITH_UNIT.fullmatch(text.strip())
        if found is None:
            return ""
        units.add(found["unit"])
        numbers.add(found["number"])
    return units.pop() if len(units) == 1 and _as_numbers(numbers) is not None else ""


def read_texts(texts: Iterable[str], form: TextFormat) -> NDArray[Any]:
    """Numbers, or times in milliseconds.

    Raises
    ------
    UnreadableError
        If a text is not written in this format.
    """
    read: Callable[[str], Any]
    if form.kind == "number":
        read = partial(_number, decimal=form.decimal, unit=form.unit)
    elif form.kind == "truth":
        read = _truth
    elif form.kind == "clock":
        read = _clock
    else:
        read = partial(_of_pattern, pattern=form.pattern) if form.pattern else _iso
    values = [read(text) for text in texts]
    return np.array(values, dtype="datetime64[ms]" if form.kind == "time" else np.float64)


def with_comma(reading: Reading) -> Reading:
    """Ambiguous numbers read with a decimal comma."""
    assert reading.format is not None
    return replace(reading, format=replace(reading.format, decimal=","))


def _all(texts: Iterable[str], read: Callable[[str], Any]) -> bool:
    try:
        for text in texts:
            read(text)
    except UnreadableError:
        return False
    return True


# Numbers


def _as_numbers(texts: Collection[str]) -> Reading | None:
    """Numbers of one unit and one decimal mark."""
    plain = _PLAIN, _INFINITE, _HEXADECIMAL
    if all(any(form.fullmatch(text.strip()) for form in plain) for text in texts):
        return Reading(TextFormat("number"), ambiguous=_may_be_thousands(texts))
    units, decimals = set(), set(_MARKS)
    marked = False
    for text in texts:
        found = _amount(text)
        if found is None:
            return None
        _, digits, unit = found
        units.add(unit)
        decimals &= {decimal for decimal in decimals if _DIGITS[decimal].fullmatch(digits)}
        marked = marked or "," in digits or "." in digits
        if len(units) > 1 or not decimals:
            return None
    decimal = "." if "." in decimals else ","
    return Reading(
        TextFormat("number", decimal, units.pop()), ambiguous=marked and len(decimals) == 2
    )


def _may_be_thousands(texts: Collection[str]) -> bool:
    """Whether 1.234 may be written for 1234: each point stands before three digits."""
    digits = [text.strip().lstrip("+-") for text in texts]
    return any("." in one for one in digits) and all(map(_GROUPED.fullmatch, digits))


def _amount(text: str) -> tuple[bool, str, str] | None:
    """Whether a number is negative, its digits and its unit; None if the text is not a number."""
    text = text.strip().replace("−", "-")
    in_parentheses = text.startswith("(") and text.endswith(")")
    if in_parentheses:
        text = text[1:-1].strip()
    after = ""
    if text.endswith("-") and not in_parentheses:  # 12-, as accountants write
        text, after = text[:-1], "-"
    found = _AMOUNT.fullmatch(text)
    if found is None:
        return None
    signs = found["sign"] + found["sign2"] + after
    units = [unit for unit in (found["before"], found["after"]) if unit]
    if len(signs) + in_parentheses > 1 or len(units) > 1:
        return None
    unit = units[0].removesuffix(".") if units else ""
    return in_parentheses or signs == "-", found["digits"], _SAME_UNIT.get(unit, unit)


def _number(text: str, decimal: str, unit: str) -> float:
    if _INFINITE.fullmatch(text.strip()):
        return float(text)
    if _HEXADECIMAL.fullmatch(text.strip()):
        return float(int(text, 16))
    found = _amount(text)
    if found is not None:
        negative, digits, own = found
        written = _DIGITS[decimal].fullmatch(digits)
        if written and own in ("", unit):
            plain = digits.replace(written["mark"] or _MARKS[decimal], "").replace(decimal, ".")
            return -float(plain) if negative else float(plain)
    raise UnreadableError(text)


# Truth values and times of day


def _truth(text: str) -> float:
    word = text.strip().casefold()
    if word in _TRUTH:
        return _TRUTH[word]
    if word in ("0", "1", "0.0", "1.0"):
        return float(word)
    raise UnreadableError(text)


def _clock(text: str) -> float:
    found = _TIME_OF_DAY.fullmatch(text.strip())
    if found is None:
        raise UnreadableError(text)
    hour, minute = int(found["hour"]), int(found["minute"])
    seconds, _, fraction = (found["second"] or "0").replace(",", ".").partition(".")
    # As times of other types are turned into hours, for the same bits.
    second = int(seconds) + int(fraction.ljust(6, "0")[:6]) * 1e-6
    if found["half"]:
        if not 1 <= hour <= 12:
            raise UnreadableError(text)
        hour = hour % 12 + 12 * (found["half"][0] in "pP")
    if hour > 23 or minute > 59 or second >= 60:
        raise UnreadableError(text)
    return hour + (60 * minute + second) / 3600


# Dates


def _as_dates(texts: Collection[str]) -> Reading | None:
    """Dates in ISO 8601, or in one order of day, month and year."""
    if _all(texts, _iso):
        return Reading(TextFormat("time"))
    found = [_DATE.fullmatch(text.strip()) for text in texts]
    dates = [date for date in found if date is not None]
    if len(dates) < len(found) or len({date["mark"] for date in dates}) > 1:
        return None
    readable = [
        pattern
        for pattern in _patterns(dates)
        if _all(texts, partial(_of_pattern, pattern=pattern))
    ]
    if len(readable) < 2:
        return Reading(TextFormat("time", pattern=readable[0])) if readable else None
    shown = " or ".join(f'date_format="{pattern}"' for pattern in readable)
    return Reading(
        problem=f"it holds dates such as {next(iter(texts))!r}, and no value tells whether the day "
        f"or the month comes first: say {shown}"
    )


def _patterns(dates: Collection[re.Match[str]]) -> list[str]:
    """Orders of day, month and year that the lengths of the parts allow."""
    mark = next(iter(dates))["mark"]
    if all(len(date["first"]) == 4 for date in dates):
        return [f"%Y{mark}%m{mark}%d"]
    lengths = {len(date["last"]) for date in dates}
    if lengths not in ({2}, {4}):
        return []
    year = "%Y" if lengths == {4} else "%y"
    day_first = f"%d{mark}%m{mark}{year}"
    return [day_first] if mark == "." else [day_first, f"%m{mark}%d{mark}{year}"]


def _iso(text: str) -> datetime:
    text = text.strip()
    if not _ISO.fullmatch(text):
        raise UnreadableError(text)
    if len(text) > len("2024-01-31 12:00:00") or not text[-1].isdigit():
        text = re.sub(r"\s*(z|UTC)$", "Z", text)
        # Digits beyond microseconds, and blanks before the zone, are more than Python reads.
        text = re.sub(r"(\.[0-9]{6})[0-9]+", r"\1", text)
        text = re.sub(r"\s+([+-])", r"\1", text)
    try:
        return _in_utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError) as error:
        raise UnreadableError(text) from error


def _of_pattern(text: str, pattern: str) -> datetime:
    """A date of this pattern, which a time of day may follow."""
    text = text.strip()
    date, _, time = text.replace(",", " ").replace("T", " ").partition(" ")
    try:
        if not time or not _DATE_ONLY.fullmatch(pattern):
            return _strptime(text, pattern)
    except (ValueError, OverflowError):
        pass
    try:
        return _strptime(date, pattern) + timedelta(hours=_clock(time))
    except (ValueError, OverflowError) as error:
        raise UnreadableError(text) from error


@lru_cache(maxsize=2**15)  # a date occurs with many times of day
def _strptime(text: str, pattern: str) -> datetime:
    return _in_utc(datetime.strptime(text, pattern))


def _in_utc(time: datetime) -> datetime:
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
