"""Whatever a user passes as a table, as raw columns: numbers, texts or times.

pandas and arrays need no other library; files, Arrow and polars need pyarrow.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pursuit.estimators.table.errors import TableError
from pursuit.estimators.table.formats import find_format, is_gap
from pursuit.rows import Table, as_table, distinct_names, is_path, open_file
from pursuit.rows.arrow import ArrowTable, BatchedTable, require_pyarrow

_HOUR = 3600.0


@dataclass(frozen=True)
class RawColumn:
    """The values of a column, or of a piece of it.

    Attributes
    ----------
    kind : {"number", "text", "time", "unusable"}
        What they are.
    values : array
        float64 with NaN for gaps, str with None for gaps (of type object), or datetime64[ms] with
        NaT for gaps.
    declared : bool
        Whether the table itself calls them categories.
    problem : str
        Why they cannot be used.
    """

    kind: Literal["number", "text", "time", "unusable"]
    values: NDArray[Any]
    declared: bool = False
    problem: str = ""


class RawTable(ABC):
    """A table as raw columns, in pieces.

    Attributes
    ----------
    names : list of str
        Names of the columns, all different; ``x0``, ``x1``, … where they have none.
    named : bool
        Whether the names are the table's own.
    n_rows : int
        Number of rows.
    label : str
        What error messages call the table.
    """

    names: list[str]
    named: bool
    n_rows: int
    label: str

    @abstractmethod
    def pieces(self, names: Sequence[str]) -> Iterator[tuple[int, list[RawColumn]]]:
        """Yield (number of the first row, these columns), in row order."""


def raw_table(X: Any, texts: Sequence[str] = ()) -> RawTable:
    """The raw columns of whatever a user passes.

    Parameters
    ----------
    X : data frame, Arrow data, path, or 2-D array
        The table.
    texts : sequence of str
        Columns that are texts even if all of them look like numbers, where X is a CSV file.
    """
    module = type(X).__module__.partition(".")[0]
    if module == "pandas" and hasattr(X, "iloc") and X.ndim == 2:
        return FrameColumns(X)
    if module == "polars" and hasattr(X, "to_arrow") and hasattr(X, "columns"):
        return ArrowColumns(ArrowTable(_renamed(_polars_to_arrow(X)), "the DataFrame"))
    if module == "pyarrow" and hasattr(X, "column_names"):
        table = X if hasattr(X, "to_batches") else require_pyarrow("X").Table.from_batches([X])
        return ArrowColumns(ArrowTable(_renamed(table), "the Arrow table"))
    if is_path(X) and not str(X).endswith(".npy"):
        return ArrowColumns(_opened(X, texts))
    table = as_table(X)
    if isinstance(table, BatchedTable):
        return ArrowColumns(table)
    if isinstance(table, Table):
        return ArrayColumns(_read_numbers(table), table.columns, table.name)
    if isinstance(X, np.ndarray) and X.ndim == 2:
        return ArrayColumns(X)
    raise TableError(
        f"a table cannot be made of {type(X).__name__}: pass a data frame, an Arrow table, the "
        "path of a CSV or Parquet file, or a 2-D array."
    )


def _opened(path: Any, texts: Sequence[str]) -> BatchedTable:
    """The table of a file; its numbers are texts where some column has decimal commas."""
    table = open_file(path, texts)
    types = {name: str(table.schema.field(name).type) for name in table.columns}
    words = [name for name, kind in types.items() if kind == "string"]
    points = [name for name, kind in types.items() if kind == "double"]
    batch = next(iter(table.batches(words)), None) if words and points else None
    if batch is None or not any(map(_has_decimal_commas, batch.columns)):
        return table
    return open_file(path, [*texts, *points])  # 1.234 may be 1234 there


def _has_decimal_commas(array: Any) -> bool:
    texts = {text for text in array.unique().to_pylist() if text is not None and not is_gap(text)}
    reading = find_format(texts)
    return reading.format is not None and not reading.ambiguous and reading.format.decimal == ","


def _polars_to_arrow(X: Any) -> Any:
    require_pyarrow("a polars.DataFrame")
    return X.to_arrow()


def _renamed(table: Any) -> Any:
    return table.rename_columns(distinct_names(table.column_names))


def _read_numbers(table: Table) -> NDArray[Any]:
    try:
        return np.asarray(table.take(np.arange(table.n_rows)))
    except ValueError as error:
        raise TableError(f"{table.name} cannot be encoded: {error}") from error


class FrameColumns(RawTable):
    """The columns of a pandas data frame."""

    def __init__(self, frame: Any) -> None:
        self.names = distinct_names([str(label) for label in frame.columns])
        self.named = all(isinstance(label, str) for label in frame.columns)
        self.n_rows, self.label = len(frame), "the data frame"
        self._frame = frame

    def pieces(self, names: Sequence[str]) -> Iterator[tuple[int, list[RawColumn]]]:
        """Yield all rows at once."""
        yield 0, [of_series(self._frame.iloc[:, self.names.index(name)]) for name in names]


class ArrayColumns(RawTable):
    """The columns of an array of numbers, texts or objects."""

    def __init__(
        self, array: NDArray[Any], names: Sequence[str] | None = None, label: str = "X"
    ) -> None:
        self.named, self.n_rows, self.label = names is not None, len(array), label
        self.names = list(names or [f"x{j}" for j in range(array.shape[1])])
        self._array = array

    def pieces(self, names: Sequence[str]) -> Iterator[tuple[int, list[RawColumn]]]:
        """Yield all rows at once."""
        yield 0, [of_array(self._array[:, self.names.index(name)]) for name in names]


class ArrowColumns(RawTable):
    """The columns of a file or of Arrow data, batch by batch."""

    def __init__(self, table: BatchedTable) -> None:
        self.names, self.named = list(table.columns), True
        self.n_rows, self.label, self.table = table.n_rows, table.name, table

    def pieces(self, names: Sequence[str]) -> Iterator[tuple[int, list[RawColumn]]]:
        """Yield a batch at a time."""
        start = 0
        for batch in self.table.batches(names):
            yield start, [of_arrow(column) for column in batch.columns]
            start += batch.num_rows
        if not start:
            yield 0, [of_arrow(self.table.schema.field(name).type) for name in names]


# Arrays


def unmasked(values: Any) -> Any:
    """A masked array as objects, with None where it is masked; all else as it is."""
    masked = isinstance(values, np.ma.MaskedArray)
    return np.where(np.ma.getmaskarray(values), None, values.data) if masked else values


def of_array(values: NDArray[Any]) -> RawColumn:
    """A raw column of an array of any type."""
    kind = values.dtype.kind
    if kind in "biuf":
        return RawColumn("number", values.astype(np.float64))
    if kind == "M":
        return RawColumn("time", values.astype("datetime64[ms]"))
    if kind in "UT":
        return RawColumn("text", values.astype(object))
    if kind == "O":
        return _of_objects(values)
    return _unusable(len(values), {"m": "durations", "c": "complex numbers"}.get(kind, "bytes"))


def _of_objects(values: NDArray[Any]) -> RawColumn:
    """Objects are numbers if all are, else times if all are, else texts."""
    items = [None if _is_missing(value) else value for value in values.tolist()]
    types = {type(item) for item in items if item is not None}
    if all(issubclass(kind, numbers.Real | decimal.Decimal | np.bool_) for kind in types):
        floats = [np.nan if item is None else _float(item) for item in items]
        return RawColumn("number", np.array(floats, dtype=np.float64))
    if all(issubclass(kind, datetime.date | np.datetime64) for kind in types):
        times = [np.datetime64("NaT", "ms") if item is None else _time(item) for item in items]
        return RawColumn("time", np.array(times, dtype="datetime64[ms]"))
    if all(issubclass(kind, datetime.time) for kind in types):
        hours = [np.nan if item is None else _hours(item) for item in items]
        return RawColumn("number", np.array(hours, dtype=np.float64))
    plain = (str, numbers.Real, decimal.Decimal, np.bool_, datetime.date)
    other = [kind.__name__ for kind in types if not issubclass(kind, plain)]
    if other:
        return _unusable(len(items), f"values of type {min(other)}")
    texts = np.empty(len(items), dtype=object)
    texts[:] = [item if item is None or isinstance(item, str) else _text(item) for item in items]
    return RawColumn("text", texts)


def _float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:  # as a text of so many digits is read
        return float(np.copysign(np.inf, 1 if number > 0 else -1))


def _is_missing(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, float | np.floating) and value != value)
        or (isinstance(value, decimal.Decimal) and value.is_nan())
        or (isinstance(value, np.datetime64) and bool(np.isnat(value)))
        or type(value).__name__ in ("NAType", "NaTType")
    )


def _time(value: Any) -> Any:
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[ms]")
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64(value).astype("datetime64[ms]")


def _hours(value: datetime.time) -> float:
    seconds = value.second + value.microsecond * 1e-6
    return value.hour + (60 * value.minute + seconds) / _HOUR


def _text(value: Any) -> str:
    """How a value is written as text: whole numbers without a point."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    return str(value)


def as_texts(raw: RawColumn) -> NDArray[Any]:
    """The values of a column that should hold texts and holds something else."""
    if raw.kind == "text":
        return raw.values
    texts = np.empty(len(raw.values), dtype=object)
    gaps = np.isnat(raw.values) if raw.kind == "time" else np.isnan(raw.values)
    texts[:] = [
        None if gap else _text(value) for gap, value in zip(gaps, raw.values.tolist(), strict=True)
    ]
    return texts


def _unusable(n_rows: int, what: str) -> RawColumn:
    return RawColumn("unusable", np.full(n_rows, np.nan), problem=f"it holds {what}")


# pandas


def of_series(series: Any) -> RawColumn:
    """A raw column of a pandas series."""
    dtype = series.dtype
    name = type(dtype).__name__
    if isinstance(dtype, np.dtype):
        return of_array(series.to_numpy())
    if name == "CategoricalDtype":
        levels = of_series(dtype.categories.to_series())
        # Intervals, for instance; or long numbers, which floats would not tell apart.
        if levels.kind == "unusable" or dtype.categories.dtype.kind in "iu":
            levels = of_array(np.array([str(level) for level in dtype.categories]))
        return _coded(levels, np.asarray(series.cat.codes))
    if name == "ArrowDtype":
        return of_arrow(require_pyarrow("an Arrow column").array(series.array))
    if name == "StringDtype":
        return _of_objects(series.to_numpy(dtype=object))
    if name == "DatetimeTZDtype":
        return of_array(series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    if name == "PeriodDtype":
        return of_array(series.dt.to_timestamp().to_numpy())
    if name == "SparseDtype":
        return of_array(np.asarray(series))
    if getattr(dtype, "kind", "") in "biuf":
        return RawColumn("number", series.to_numpy(dtype=np.float64, na_value=np.nan))
    return _unusable(len(series), f"values of type {dtype}")


def _coded(levels: RawColumn, codes: NDArray[Any]) -> RawColumn:
    """Categories, which stay texts even if the texts look like numbers."""
    if levels.kind == "unusable":
        return _unusable(len(codes), levels.problem.removeprefix("it holds "))
    # A code of -1 takes the gap that stands last.
    texts = np.empty(len(levels.values) + 1, dtype=object)
    texts[:-1] = as_texts(levels)
    return RawColumn("text", texts[codes], declared=True)


# Arrow


def of_arrow(array: Any) -> RawColumn:
    """A raw column of an Arrow array, or of no rows of an Arrow type."""
    pa = require_pyarrow("an Arrow column")
    if isinstance(array, pa.DataType):
        array = pa.array([], array)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    kind, types = array.type, pa.types
    if types.is_dictionary(kind):
        codes = array.indices.cast(pa.int64()).fill_null(-1).to_numpy()
        levels = array.dictionary
        levels = levels.cast(pa.string()) if types.is_integer(levels.type) else levels
        return _coded(of_arrow(levels), codes)
    if types.is_null(kind):
        return RawColumn("number", np.full(len(array), np.nan))
    if types.is_boolean(kind) or types.is_integer(kind):
        array = array.cast(pa.float64(), safe=False)
    if types.is_floating(array.type):
        return RawColumn("number", np.array(array.to_numpy(zero_copy_only=False), dtype=np.float64))
    if types.is_decimal(kind):
        # Arrow's own conversion does not round to the nearest number.
        return _of_objects(np.array([*array.to_pylist(), None], dtype=object)[:-1])
    if types.is_timestamp(kind) or types.is_date(kind):
        return of_array(array.to_numpy(zero_copy_only=False))
    if types.is_time(kind):
        return _of_objects(np.array([*array.to_pylist(), None], dtype=object)[:-1])
    if str(kind) in ("string", "large_string", "string_view"):
        texts = np.empty(len(array), dtype=object)
        texts[:] = array.to_pylist()
        return RawColumn("text", texts)
    return _unusable(len(array), f"values of type {kind}")
