"""Texts that are numbers, dates, times of day and truth values, against other ways to read them."""

import datetime
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.estimators.table.formats import (
    Reading,
    TextFormat,
    UnreadableError,
    find_format,
    find_strays,
    is_gap,
    read_texts,
    shared_unit,
    with_comma,
)

PREFIXES = {"": "", "€ ": "EUR", "EUR ": "EUR", "$": "$", "US$ ": "US$", "CHF ": "CHF"}
SUFFIXES = {"": "", " %": "%", "%": "%", " €": "EUR", " kr": "kr", " zł": "zł"}


def written(
    number: Decimal, decimal: str, thousands: str, minus: str, unit: tuple[str, str]
) -> str:
    """A number as people write it."""
    text = f"{abs(number):,f}".replace(",", "\0").replace(".", decimal).replace("\0", thousands)
    text = unit[0] + text + unit[1]
    if number >= 0:
        return text
    return f"({text})" if minus == "(" else f"{text}-" if minus == "after" else minus + text


numbers = st.lists(st.decimals(-(10**9), 10**9, places=2, allow_nan=False), min_size=1, max_size=20)
marks = st.sampled_from([(".", ","), (",", "."), (".", ""), (",", ""), (",", " "), (".", "'")])
units = st.one_of(
    st.tuples(st.sampled_from(list(PREFIXES)), st.just("")),
    st.tuples(st.just(""), st.sampled_from(list(SUFFIXES))),
)


@given(numbers, marks, st.sampled_from(["-", "−", "(", "after"]), units)
def test_a_number_is_read_as_it_was_written(values, mark, minus, unit):
    texts = [written(value, *mark, minus, unit) for value in values]
    # Two decimals can be nothing but decimals.
    reading = find_format(texts)
    assert not reading.ambiguous
    assert reading.format is not None
    assert reading.format.decimal == mark[0]
    assert reading.format.unit == (PREFIXES[unit[0]] or SUFFIXES[unit[1]])
    expected = [float(value) for value in values]
    np.testing.assert_array_equal(read_texts(texts, reading.format), expected)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_what_python_prints_is_read_as_python_does(values):
    # 1.875 alone may have a mark of thousands, too: then other columns tell.
    reading = find_format([repr(value) for value in values])
    assert reading.format == TextFormat("number")
    found = read_texts([repr(value) for value in values], TextFormat("number"))
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize(
    "texts",
    [
        ["12 kg", "13 kg"],
        ["1.5", "1,5"],
        ["12 %", "0.12"],
        ["€ 12", "$ 12"],
        ["1,23,4"],
        ["1.2.3"],
        ["(12"],
        ["--1"],
        ["-(1)"],
        ["€ 1 €"],
        ["1 2"],
        ["0,123,456"],
        ["1,234.567,8"],
        ["12 %%"],
        ["A1"],
        ["1e5 apples"],
        ["."],
        ["1.234", "1.234.567", "1,234,567"],
    ],
)
def test_these_are_no_numbers_of_one_format(texts):
    assert find_format(texts) == Reading()


@pytest.mark.parametrize(
    ("texts", "unit"),
    [
        (["12 kg", "13,5 kg", " 7kg"], "kg"),
        (["-3.5 °C", "12 °C"], "°C"),
        (["1.200 m²", "900 m²"], "m²"),
        (["100 km/h", "90 km/h"], "km/h"),
        (["12 kg", "13 g"], ""),
        (["12 kg", "13"], ""),
        (["1.2.3 kg", "4 kg"], ""),
        (["12:30", "13:30"], ""),
        (["A12", "A13"], ""),
        ([], ""),
    ],
)
def test_units_that_are_not_read(texts, unit):
    assert shared_unit(texts) == unit


def test_the_few_texts_that_are_no_numbers():
    numbers = [f"{i}.5" for i in range(20)]
    assert find_strays([*numbers, "sold"]) == ["sold"]
    assert find_strays(numbers) == []
    assert find_strays([*numbers[:5], "sold"]) == []  # one in six is not few
    assert find_strays([*numbers, "12 %", "sold"]) == []  # the others have no common format


def test_one_comma_and_three_digits_can_be_read_in_two_ways():
    texts = ["1,234", "12,345", "7"]
    reading = find_format(texts)
    assert reading.ambiguous
    assert reading.format is not None
    assert read_texts(texts, reading.format).tolist() == [1234.0, 12345.0, 7.0]
    comma = with_comma(reading).format
    assert comma is not None
    assert read_texts(texts, comma).tolist() == [1.234, 12.345, 7.0]
    for sure in ("1,234,567", "1,234.5", "0,123", "1,23"):
        assert not find_format([*texts, sure]).ambiguous
    # A point is a decimal point unless something speaks against it, as in files.
    assert find_format(["1.234", "5"]).ambiguous
    assert not find_format(["1.234", "5.5"]).ambiguous
    assert not find_format(["1.234", "5000"]).ambiguous
    assert not find_format(["0.234", "5"]).ambiguous
    assert find_format(["€ 1.234"]).ambiguous


def test_infinity_is_a_number():
    assert read_texts(["inf", "-Infinity", "2"], TextFormat("number")).tolist() == [
        math.inf,
        -math.inf,
        2.0,
    ]
    assert find_format(["inf", "2"]) == Reading(TextFormat("number"))


@pytest.mark.parametrize(
    ("true", "false"),
    [("yes", "no"), ("True", "FALSE"), (" y", "n "), ("Ja", "Nein"), ("sí", "no")],
)
def test_truth_values(true, false):
    assert find_format([true, false]) == Reading(TextFormat("truth"))
    assert read_texts([true, false, true], TextFormat("truth")).tolist() == [1.0, 0.0, 1.0]
    assert find_format([true, false, "maybe"]) == Reading()
    with pytest.raises(UnreadableError, match="maybe"):
        read_texts(["maybe"], TextFormat("truth"))


def test_words_of_two_languages_are_levels():
    assert find_format(["yes", "nein"]) == Reading()


@pytest.mark.parametrize("text", ["", " ", "NA", "n/a", "null", "-", "?", "None", "NaN", "<NA>"])
def test_gaps(text):
    assert is_gap(text)


@pytest.mark.parametrize("text", ["0", "no", "Nancy", "x", "false", "--1"])
def test_no_gaps(text):
    assert not is_gap(text)


# Dates

dates = st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1))
times = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1))


def milliseconds(values) -> np.ndarray:
    return np.array([np.datetime64(value).astype("datetime64[ms]") for value in values])


@given(st.lists(times, min_size=1), st.sampled_from([" ", "T"]))
def test_iso(values, sep):
    texts = [value.isoformat(sep) for value in values]
    assert find_format(texts) == Reading(TextFormat("time"))
    np.testing.assert_array_equal(read_texts(texts, TextFormat("time")), milliseconds(values))


def test_iso_as_pandas_reads_it():
    pandas = pytest.importorskip("pandas")
    texts = [
        "2024-02-29",
        "1969-12-31 23:59:59.999999",
        "2024-02-29 23:59",
        "2024-02-29T23:59:58.123",
        "2024-02-29T23:59:58.123456789",
        "2024-02-29T23:59:58Z",
        "2024-02-29T23:59:58+02:00",
        "2024-02-29 23:59:58 -0530",
        "2024-02-29 23:59:58+01",
    ]
    assert find_format(texts) == Reading(TextFormat("time"))
    expected = [pandas.Timestamp(text) for text in texts]
    naive = [one.tz_convert(None) if one.tzinfo else one for one in expected]
    found = read_texts(texts, TextFormat("time"))
    np.testing.assert_array_equal(found, [one.to_datetime64().astype("M8[ms]") for one in naive])


@pytest.mark.parametrize(
    "text", ["2024-02-30", "2024-13-01", "2024-01-01 25:00", "2024-1-1 x", "2024"]
)
def test_these_are_no_dates(text):
    reading = find_format([text])
    assert reading.format is None or reading.format.kind == "number"
    with pytest.raises(UnreadableError):
        read_texts([text], TextFormat("time"))


@given(st.lists(dates, min_size=1), st.sampled_from(["%d.%m.%Y", "%Y/%m/%d", "%Y.%m.%d"]))
def test_days_of_one_order(values, pattern):
    texts = [value.strftime(pattern) for value in values]
    assert find_format(texts) == Reading(TextFormat("time", pattern=pattern))
    found = read_texts(texts, TextFormat("time", pattern=pattern))
    np.testing.assert_array_equal(found, milliseconds(values))


@given(st.lists(dates, min_size=1), st.sampled_from(["%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y"]))
def test_a_part_beyond_twelve_tells_the_order(values, pattern):
    texts = [value.strftime(pattern) for value in values]
    reading = find_format(texts)
    if any(value.day > 12 for value in values):
        assert reading == Reading(TextFormat("time", pattern=pattern))
        np.testing.assert_array_equal(
            read_texts(texts, TextFormat("time", pattern=pattern)), milliseconds(values)
        )
    else:
        assert reading.format is None
        assert f'date_format="{pattern}"' in reading.problem
        assert find_format(texts, pattern) == Reading(TextFormat("time", pattern=pattern))


def test_orders_that_contradict_each_other_are_no_dates():
    assert find_format(["13/1/2024", "1/13/2024"]) == Reading()
    assert find_format(["1.2.2024", "1/2/2024"]) == Reading()
    assert find_format(["1.2.24", "1.2.2024"]) == Reading()


def test_a_time_may_follow_a_date():
    texts = ["31.1.2024 14:05", "1.2.2024, 9:30:15", "3.2.24"]
    assert find_format(texts[:2]) == Reading(TextFormat("time", pattern="%d.%m.%Y"))
    found = read_texts(texts[:2], TextFormat("time", pattern="%d.%m.%Y"))
    assert found.tolist() == [
        datetime.datetime(2024, 1, 31, 14, 5),
        datetime.datetime(2024, 2, 1, 9, 30, 15),
    ]
    us = read_texts(["1/31/2024 2:05 PM"], TextFormat("time", pattern="%m/%d/%Y"))
    assert us.tolist() == [datetime.datetime(2024, 1, 31, 14, 5)]


def test_a_format_of_ones_own():
    texts = ["week 3 of 2024, Mon", "week 4 of 2024, Tue"]
    pattern = "week %W of %Y, %a"
    assert find_format(texts, pattern) == Reading(TextFormat("time", pattern=pattern))
    expected = [datetime.datetime.strptime(text, pattern) for text in texts]
    assert read_texts(texts, TextFormat("time", pattern=pattern)).tolist() == expected
    # Columns that are not written so are read as they would be without it.
    assert find_format(["1.5", "2"], pattern) == Reading(TextFormat("number"))


@given(st.times())
def test_times_of_day(value):
    found = read_texts([value.isoformat()], TextFormat("clock"))[0]
    assert find_format([value.isoformat()]) == Reading(TextFormat("clock"))
    exact = (
        Decimal(value.hour)
        + Decimal(value.minute) / 60
        + (Decimal(value.second) + Decimal(value.microsecond) / 10**6) / 3600
    )
    assert found == pytest.approx(float(exact), rel=1e-15, abs=1e-15)


def test_halves_of_the_day():
    found = read_texts(["12:30 am", "1:00 PM", "12:00 p.m."], TextFormat("clock"))
    assert found.tolist() == [0.5, 13.0, 12.0]
    for text in ("24:00", "13:00 pm", "1:60", "1:00:60"):
        assert find_format([text]) == Reading()


@given(st.lists(st.text(min_size=1), min_size=1))
def test_whatever_is_found_can_be_read(texts):
    reading = find_format(texts)
    if reading.format is not None:
        assert len(read_texts(texts, reading.format)) == len(texts)


alike = st.from_regex(
    r"[+(-]?[€$]? ?[0-9]{1,4}[.,/:-][0-9]{1,3}([.,/:-][0-9]{1,4})?[ %)]?", fullmatch=True
)


@given(st.lists(alike, min_size=1, max_size=3))
def test_whatever_is_found_can_be_read_in_what_looks_like_numbers_and_dates(texts):
    test_whatever_is_found_can_be_read.hypothesis.inner_test(texts)


def test_a_time_before_the_first_year_is_no_time():
    assert find_format(["0001-01-01T00:00+02:00", "2024-01-01T00:00+02:00"]).format is None
