"""Parquet and CSV files, folders of them, and addresses of object stores, read by pyarrow.

Rows are in the order of the files' names, and within a file in the order of the file. Parquet is
read where it lies, as fragments of a data set, row group by row group. CSV is read once, into a
temporary Arrow file.

pyarrow is imported when a file is opened; otherwise the rest of this room only.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from pursuit.printed import printable
from pursuit.rows.arrow import BATCH_ROWS, ArrowTable, BatchedTable, require_pyarrow, spooled
from pursuit.rows.table import SEPARATORS, MatrixTable, Table, distinct_names, listed

KINDS = ".npy, .parquet, .csv, or a folder of Parquet or of CSV files"
"""What error messages say can be read."""

_PARQUET, _CSV = (".parquet", ".parq"), (".csv", ".tsv")
_COMPRESSED = (".gz", ".bz2")
_BUFFER_BYTES = 1 << 20
_HEADER_BYTES = 1 << 16
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_CONVERSION = re.compile(r"In CSV column #(\d+): .*CSV conversion error to (\w+)")


def is_path(X: Any) -> bool:
    """Whether X is, or looks like, a path or an address; other strings are a user's items."""
    if isinstance(X, os.PathLike):
        return True
    if not isinstance(X, str) or not X:
        return False
    # Windows takes both separators.
    return "/" in X or os.sep in X or file_kind(X) != "" or _exists(Path(X))


def file_kind(path: str | os.PathLike[str]) -> str:
    """The suffix of a name, without that of compression, if such files can be read; else ""."""
    suffixes = [suffix.lower() for suffix in PurePosixPath(os.fspath(path)).suffixes]
    if suffixes[-1:] and suffixes[-1] in _COMPRESSED:
        suffixes = suffixes[:-1]
    kind = suffixes[-1] if suffixes else ""
    return kind if kind in (".npy", *_PARQUET, *_CSV) else ""


def open_path(path: str | os.PathLike[str]) -> Table:
    """The table of a file, a folder, or an address such as ``s3://bucket/folder``."""
    text = os.fspath(path)
    if "://" not in text and file_kind(text) == ".npy" and not Path(text).is_dir():
        _check_found(_exists(Path(text)), text)
        return MatrixTable.of_file(Path(text))
    return open_file(path)


def open_file(path: str | os.PathLike[str], texts: Sequence[str] = ()) -> BatchedTable:
    """The table of a Parquet or CSV file, of a folder of them, or of an address of either.

    Parameters
    ----------
    path : str or path-like
        Where it is.
    texts : sequence of str
        Columns of a CSV file that hold texts, even if they all look like numbers.
    """
    files, name = _find(os.fspath(path))
    if file_kind(files[0].path) in _PARQUET:
        return ParquetTable(files, name)
    return read_csv(files, name, texts)


@dataclass(frozen=True)
class File:
    """A file in a file system of pyarrow."""

    filesystem: Any
    path: str
    keys: dict[str, Any] = field(default_factory=dict)
    """Arrow scalars of the folders ``key=value`` around it."""

    @property
    def name(self) -> str:
        """What error messages call the file."""
        return printable(PurePosixPath(self.path).name)

    @property
    def stamp(self) -> tuple[Any, ...]:
        """Length and time of the last change, by which another content is noticed."""
        [info] = self.filesystem.get_file_info([self.path])
        return info.size, info.mtime_ns

    def with_keys(self, schema: Any) -> Any:
        """A schema with the keys that it does not name as further columns."""
        for key, value in self.keys.items():
            if key not in schema.names:
                schema = schema.append(require_pyarrow(self.name).field(key, value.type))
        return schema


def _find(text: str) -> tuple[list[File], str]:
    """The files behind a path or an address, and what error messages call it."""
    fs = require_pyarrow(text, "pyarrow.fs")
    if "://" in text:
        filesystem, path = _of_address(text)
        name = printable(PurePosixPath(path).name or text)
    else:
        _check_found(_exists(Path(text)), text)
        filesystem, path = fs.LocalFileSystem(), Path(text).absolute().as_posix()
        name = printable(Path(text).resolve().name)
    [info] = filesystem.get_file_info([path])
    _check_found(info.type != fs.FileType.NotFound, text)
    if info.type == fs.FileType.Directory:
        return _in_folder(filesystem, path, name), name
    if file_kind(path) == ".npy":
        raise ValueError(f"{text!r} is not a file of this machine: download it to read a matrix.")
    if not file_kind(path):
        raise ValueError(f"{name} is of no kind that can be read: use {KINDS}.")
    return [File(filesystem, path)], name


def _of_address(text: str) -> tuple[Any, str]:
    """The file system and the path that an address stands for."""
    pa, fs = require_pyarrow(text), require_pyarrow(text, "pyarrow.fs")
    try:
        filesystem, path = fs.FileSystem.from_uri(text)
        return filesystem, path
    except OSError as error:
        raise OSError(f"{text!r} cannot be reached: {error}") from error
    except pa.ArrowInvalid as error:
        try:  # pyarrow knows s3, gs, abfs, hdfs and file; fsspec knows others, https for instance.
            other, path = importlib.import_module("fsspec.core").url_to_fs(text)
        except (ImportError, ValueError) as unknown:
            raise ValueError(f"{text!r} cannot be read: {unknown} ({error}).") from error
        return fs.PyFileSystem(fs.FSSpecHandler(other)), path


def _in_folder(filesystem: Any, folder: str, name: str) -> list[File]:
    """The Parquet or CSV files in a folder, by name, where numbers in names count as numbers.

    Files and folders whose names begin with a dot or an underscore are left out.
    """
    fs = require_pyarrow(name, "pyarrow.fs")
    folders: dict[str, tuple[str, ...]] = {}
    for info in filesystem.get_file_info(fs.FileSelector(folder, recursive=True)):
        parts = PurePosixPath(info.path).relative_to(folder).parts
        hidden = any(part[0] in "._" for part in parts)
        if not hidden and info.is_file and file_kind(info.path) not in ("", ".npy"):
            folders[info.path] = parts[:-1]
    kinds = {file_kind(path) in _PARQUET for path in folders}
    if len(kinds) != 1:
        content = "both Parquet and CSV files" if kinds else "no Parquet or CSV files"
        raise ValueError(f"the folder {name} holds {content}: use one kind of file.")
    paths = sorted(folders, key=_natural)
    keys = _partition_keys({path: folders[path] for path in paths}, name)
    return [File(filesystem, path, keys[path]) for path in paths]


def _natural(name: str) -> tuple[list[Any], str]:
    """A key to sort names by, as dask does: 'part.2' comes before 'part.10'."""
    pieces = re.split(r"([0-9]+)", name)
    return [int(piece) if i % 2 else piece for i, piece in enumerate(pieces)], name


def _partition_keys(folders: dict[str, tuple[str, ...]], name: str) -> dict[str, dict[str, Any]]:
    """For each path, the Arrow scalars of the folders ``key=value`` around it.

    Values are whole numbers if all values of the key are, else numbers, else texts.
    """
    texts = {}
    for path, parts in folders.items():
        pairs = (part.partition("=") for part in parts if "=" in part)
        texts[path] = {unquote(key): unquote(value) for key, _, value in pairs}
    first = next(iter(texts.values()))
    for path, keys in texts.items():
        if keys.keys() != first.keys():
            raise ValueError(
                f"{PurePosixPath(path).name} of {name} lies in folders for {listed(list(keys))}, "
                f"but the first file in folders for {listed(list(first))}: folders named key=value "
                "must be alike."
            )
    typed = {key: _typed([keys[key] for keys in texts.values()], name) for key in first}
    return {path: {key: typed[key][i] for key in typed} for i, path in enumerate(texts)}


def _typed(values: list[str], name: str) -> Any:
    """Texts as an array of whole numbers, of numbers, or as they are."""
    pa = require_pyarrow(name)
    texts = pa.array([None if value == _NO_VALUE else value for value in values], pa.string())
    for kind in (pa.int64(), pa.float64()):
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            continue
    return texts


def _check_found(found: bool, text: str) -> None:
    if not found:
        raise FileNotFoundError(
            f"there is no file or folder {text!r}: give the path of a file ({KINDS})."
        )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a long text, or one with a null character, is not a path
        return False


# Parquet


class ParquetTable(BatchedTable):
    """Rows of Parquet files, one file after the other.

    A pass decodes one row group after the other.

    Parameters
    ----------
    files : sequence of File
        Files of equal columns. Their keys are further columns.
    name : str
        What error messages call the table.
    """

    def __init__(self, files: Sequence[File], name: str) -> None:
        pa, ds = require_pyarrow(name), require_pyarrow(name, "pyarrow.dataset")
        options = ds.ParquetFragmentScanOptions(
            use_buffered_stream=True, buffer_size=_BUFFER_BYTES, pre_buffer=False
        )
        parquet = ds.ParquetFileFormat(default_fragment_scan_options=options)
        self._parts: list[tuple[int, int]] = []  # file and row group
        self._files, self._fragments = files, []
        held: Any = None
        rows: list[int] = []
        for number, file in enumerate(files):
            try:
                held = held or parquet.make_fragment(file.path, file.filesystem).physical_schema
                facts = _facts({key: file.keys[key] for key in file.keys if key not in held.names})
                fragment = parquet.make_fragment(file.path, file.filesystem, facts)
                _check_schema(held, fragment.physical_schema, file.name)
            except pa.ArrowInvalid as error:
                raise ValueError(
                    f"{file.name} is not a Parquet file that can be read: {error}"
                ) from error
            for group in fragment.row_groups:
                self._parts.append((number, group.id))
                rows.append(group.num_rows)
            self._fragments.append(fragment)
        self._stamps = [file.stamp for file in files]
        super().__init__(files[0].with_keys(held), rows, name)

    def _scan(self, parts: Sequence[int], columns: Sequence[str]) -> Iterator[Any]:
        checked = -1
        for number, groups in self._runs(parts):
            if number != checked:
                self._check_unchanged(number)
                checked = number
            some = self._fragments[number].subset(row_group_ids=groups, schema=self.schema)
            yield from some.to_batches(
                schema=self.schema,
                columns=list(columns),
                batch_size=BATCH_ROWS,
                batch_readahead=1,
                fragment_readahead=1,
            )

    def _check_unchanged(self, number: int) -> None:
        """Refuse a file that was written to since it was opened."""
        if self._files[number].stamp != self._stamps[number]:
            raise ValueError(
                f"X: {self._files[number].name} has changed since it was opened: leave files as "
                "they are while a model is fitted, or fit a copy."
            )

    def _runs(self, parts: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
        """Row groups of a file that are read together: small ones, as many as make a batch.

        A scan reads ahead as far as it goes, so it must not go over a whole file.
        """
        run: list[int] = []
        file = n_rows = 0
        for part in parts:
            number, group = self._parts[part]
            length = int(self._ends[part + 1] - self._ends[part])
            if run and (number != file or n_rows + length > BATCH_ROWS):
                yield file, run
                run, n_rows = [], 0
            file, n_rows = number, n_rows + length
            run.append(group)
        if run:
            yield file, run

    def _with_nulls(self, part: int) -> list[str]:
        number, group = self._parts[part]
        chunks = self._fragments[number].metadata.row_group(group)
        columns = [key for key, value in self._files[number].keys.items() if not value.is_valid]
        for j in range(chunks.num_columns):
            chunk = chunks.column(j)
            statistics = chunk.statistics if chunk.is_stats_set else None
            if statistics is not None and statistics.has_null_count and statistics.null_count:
                columns.append(chunk.path_in_schema)
        return [column for column in columns if column in self.columns]


def _facts(keys: dict[str, Any]) -> Any:
    """What is true of all rows of a file, as an expression; None if nothing is."""
    ds, facts = require_pyarrow("a folder", "pyarrow.dataset"), None
    for key, value in keys.items():
        fact = ds.field(key) == value if value.is_valid else ds.field(key).is_null()
        facts = fact if facts is None else facts & fact
    return facts


def _check_schema(first: Any, other: Any, name: str) -> None:
    missing = [column for column in first.names if column not in other.names]
    if missing:
        raise ValueError(f"{name} has no column {listed(missing)}, which the first file has.")
    for column in first.names:
        if first.field(column).type != other.field(column).type:
            raise ValueError(
                f"column {column!r} of {name} is of type {other.field(column).type}, but "
                f"{first.field(column).type} in the first file."
            )


# CSV


def read_csv(files: Sequence[File], name: str, texts: Sequence[str] = ()) -> ArrowTable:
    """Rows of CSV files with a header line each, one file after the other; keys are columns, too.

    The types of columns are those of the first rows. If a later row does not fit, the type is
    widened and the files are read again: whole numbers become numbers, anything else text. Columns
    named in ``texts`` are text, whatever is in them. Values are separated by what separates the
    names in the header line: a comma, semicolon, tab or vertical bar. A name that occurs again gets
    a number: x, x.1.
    """
    pa = require_pyarrow(name)
    types: dict[str, Any] = dict.fromkeys(texts, pa.string())
    while True:
        schema = _csv_schema(files[0], types)
        try:
            return spooled(schema, _csv_batches(files, schema), name)
        except pa.ArrowInvalid as error:
            types = _widened(schema, error, name)


def _csv_schema(file: File, types: dict[str, Any]) -> Any:
    """Names and types by the first rows; a column without values counts as numbers."""
    pa = require_pyarrow(file.name)
    schema = _csv_reader(file, types).schema
    if any(pa.types.is_binary(field.type) for field in schema):
        raise _not_utf8(file.name)
    if all(_is_number(column) for column in schema.names):
        raise ValueError(
            f"{file.name} begins with numbers, not with the names of its columns: write a header "
            "line, for instance with pandas' to_csv(index=False)."
        )
    fields = [
        pa.field(field.name, pa.float64() if pa.types.is_null(field.type) else field.type)
        for field in schema
    ]
    return file.with_keys(pa.schema(fields))


def _csv_batches(files: Sequence[File], schema: Any) -> Iterator[Any]:
    pa = require_pyarrow(files[0].name)
    for file in files:
        reader = _csv_reader(file, dict(zip(schema.names, schema.types, strict=True)))
        held = reader.schema.names
        names = file.with_keys(reader.schema).names
        if names != schema.names:
            raise ValueError(
                f"{file.name} has the columns {names}, but the first file has {schema.names}."
            )
        try:
            for batch in reader:
                keys = [pa.repeat(file.keys[name], batch.num_rows) for name in names[len(held) :]]
                yield pa.RecordBatch.from_arrays([*batch.columns, *keys], schema=schema)
        except pa.ArrowInvalid as error:
            raise _explained(error, file) from error


def _csv_reader(file: File, types: dict[str, Any]) -> Any:
    """A stream of batches whose columns have these types where they are given."""
    # A scan of a data set would read ahead without end, and lose count of the lines.
    pa, csv = require_pyarrow(file.name), require_pyarrow(file.name, "pyarrow.csv")
    missing = [*csv.ConvertOptions().null_values, "?"]
    separator = _separator(file)  # before the stream is opened: some file systems share one

    def opened(types: dict[str, Any], **names: Any) -> Any:
        return csv.open_csv(
            file.filesystem.open_input_stream(file.path, compression="detect"),
            read_options=csv.ReadOptions(use_threads=False, **names),
            parse_options=csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=types, null_values=missing, strings_can_be_null=True
            ),
        )

    try:
        reader = opened({})
        held = reader.schema.names  # they are decoded when they are looked at
        names = distinct_names(held)
        if names != held:  # types are given by name, so each column needs one of its own
            return opened(types, column_names=names, skip_rows_after_names=1)
        return opened(types) if types else reader
    except pa.ArrowInvalid as error:
        raise _explained(error, file) from error
    except UnicodeDecodeError as error:
        raise _not_utf8(file.name) from error


def _separator(file: File) -> str:
    """What stands most often between the names of the header line; a comma if there is one name."""
    with file.filesystem.open_input_stream(file.path, compression="detect") as stream:
        header = bytes(stream.read(_HEADER_BYTES)).split(b"\n", 1)[0]
    if b"\0" in header:  # UTF-16
        raise _not_utf8(file.name)
    if ".tsv" in PurePosixPath(file.path).suffixes:
        return "\t"
    unquoted = re.sub(r'"[^"]*"', "", header.decode("latin-1"))
    return max(SEPARATORS, key=unquoted.count)


def _not_utf8(name: str) -> ValueError:
    return ValueError(
        f"{name} is not in UTF-8: convert it, for instance with iconv -f latin1 -t utf-8, or -f "
        "utf-16."
    )


def _explained(error: Exception, file: File) -> Exception:
    """What pyarrow says, with the file's name, its line and what to do; or the error itself."""
    text, name = str(error), file.name
    refused = _CONVERSION.search(text)
    if refused is not None:  # any text is a string, except bytes that are not text
        return _not_utf8(name) if refused[2] == "string" else error
    if "Empty CSV file" in text:
        return ValueError(f"{name} is empty: it needs a header line and at least one row.")
    ragged = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", text, re.DOTALL)
    if ragged is None:
        return ValueError(f"{name} cannot be read as CSV: {text}")
    line, expected, got, row = ragged.groups()
    if "\ufffd" in row:  # pyarrow's mark for bytes that are not text
        return _not_utf8(name)
    separator = _separator(file)
    guessed = (
        ""
        if ".tsv" in PurePosixPath(file.path).suffixes
        else f" Values are taken to be separated by {separator!r}, which is more frequent in the "
        f"header line than any other of {SEPARATORS!r}."
    )
    return ValueError(
        f"{name}, line {line}: {got} values where the header has {expected}: {row[:80]!r}."
        f"{guessed} Correct or remove the line."
    )


def _widened(schema: Any, error: Exception, name: str) -> dict[str, Any]:
    """Types of columns, with a wider one for the column that could not be converted."""
    pa = require_pyarrow(name)
    refused = _CONVERSION.search(str(error))
    if refused is None:
        raise error
    column = schema.field(int(refused[1]))
    wider = pa.float64() if pa.types.is_integer(column.type) else pa.string()
    return {field.name: field.type for field in schema} | {column.name: wider}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
