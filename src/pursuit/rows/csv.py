"""CSV: read once, by pyarrow, into a temporary Arrow file that rows are then fetched from.

pyarrow is imported when a file is read; otherwise the rest of this room only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pursuit.rows.arrow import ArrowTable, require_pyarrow, spooled
from pursuit.rows.table import check_distinct

_CONVERSION = re.compile(r"In CSV column #(\d+): .*CSV conversion error to (\w+)")
_SEPARATORS = ",;\t|"
_HEADER_BYTES = 1 << 16


def read_csv(files: Sequence[Path], name: str, texts: Sequence[str] = ()) -> ArrowTable:
    """Rows of CSV files with a header line each, one file after the other.

    The types of columns are read off the first rows, and widened where later rows ask for it:
    whole numbers to numbers, anything to text. Columns named in ``texts`` are text, whatever is in
    them. Values are separated by what separates the names in the header line: a comma, semicolon,
    tab or vertical bar.
    """
    pa = require_pyarrow(name)
    types: dict[str, Any] = dict.fromkeys(texts, pa.string())
    while True:
        try:
            schema = _schema(files[0], types)
            return spooled(schema, _batches(files, schema), name)
        except pa.ArrowInvalid as error:
            _widen(types, schema, error, name)


def _schema(path: Path, types: dict[str, Any]) -> Any:
    """Names and types by the first rows; nothing at all in a column counts as numbers."""
    pa = require_pyarrow(path.name)
    reader = _opened(path, types)
    check_distinct(reader.schema.names, path.name)
    if any(pa.types.is_binary(column.type) for column in reader.schema):
        raise _not_utf8(path.name)
    if all(_is_number(column) for column in reader.schema.names):
        raise ValueError(
            f"{path.name} begins with numbers, not with the names of its columns: write a header "
            "line, for instance with pandas' to_csv(index=False)."
        )
    fields = [
        pa.field(field.name, pa.float64() if pa.types.is_null(field.type) else field.type)
        for field in reader.schema
    ]
    return pa.schema(fields)


def _batches(files: Sequence[Path], schema: Any) -> Iterator[Any]:
    types = dict(zip(schema.names, schema.types, strict=True))
    for path in files:
        reader = _opened(path, types)
        if reader.schema.names != schema.names:
            raise ValueError(
                f"{path.name} has the columns {reader.schema.names}, but the first file has "
                f"{schema.names}."
            )
        yield from _checked(reader, path)


def _checked(reader: Any, path: Path) -> Iterator[Any]:
    try:
        yield from reader
    except require_pyarrow(path.name).ArrowInvalid as error:
        raise _readable(error, path) from error


def _opened(path: Path, types: dict[str, Any]) -> Any:
    pa, csv = require_pyarrow(path.name), require_pyarrow(path.name, "pyarrow.csv")
    missing = [*csv.ConvertOptions().null_values, "?"]
    try:
        reader = csv.open_csv(
            path,
            # One thread only: others lose count of the lines.
            read_options=csv.ReadOptions(use_threads=False),
            parse_options=csv.ParseOptions(delimiter=_separator(path), newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=types, null_values=missing, strings_can_be_null=True
            ),
        )
        reader.schema.names  # noqa: B018  # decoded only when looked at
    except pa.ArrowInvalid as error:
        raise _readable(error, path) from error
    except UnicodeDecodeError as error:
        raise _not_utf8(path.name) from error
    return reader


def _separator(path: Path) -> str:
    """What stands most often between the names of the header line; a comma if there is one name."""
    if ".tsv" in path.suffixes:
        return "\t"
    with require_pyarrow(path.name).input_stream(path) as stream:
        header = bytes(stream.read(_HEADER_BYTES)).split(b"\n", 1)[0]
    if b"\0" in header:  # UTF-16
        raise _not_utf8(path.name)
    unquoted = re.sub(r'"[^"]*"', "", header.decode("latin-1"))
    return max(_SEPARATORS, key=unquoted.count)


def _not_utf8(name: str) -> ValueError:
    return ValueError(
        f"{name} is not in UTF-8: convert it, for instance with iconv -f latin1 -t utf-8, or -f "
        "utf-16."
    )


def _readable(error: Exception, path: Path) -> Exception:
    """What pyarrow says, with the file's name, its lines and what to do; or as it was."""
    text = str(error)
    if _CONVERSION.search(text):
        return error
    if "Empty CSV file" in text:
        return ValueError(f"{path.name} is empty: it needs a header line and at least one row.")
    found = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", text, re.DOTALL)
    if found is None:
        return ValueError(f"{path.name} cannot be read as CSV: {text}")
    line, expected, got, row = found.groups()
    if "\ufffd" in row:  # pyarrow's mark for bytes that are no text
        return _not_utf8(path.name)
    return ValueError(
        f"{path.name}, line {line}: {got} values where the header has {expected}: {row[:80]!r}. "
        "Correct or remove the line."
    )


def _widen(types: dict[str, Any], schema: Any, error: Exception, name: str) -> None:
    """Note a wider type for the column that could not be converted."""
    pa = require_pyarrow(name)
    found = _CONVERSION.search(str(error))
    if found is None:
        raise error
    column = schema.field(int(found.group(1)))
    if pa.types.is_string(column.type):
        raise _not_utf8(name) from error
    wider = pa.float64() if pa.types.is_integer(column.type) else pa.string()
    types.update({field.name: field.type for field in schema})
    types[column.name] = wider


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
