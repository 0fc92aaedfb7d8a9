"""Parquet: a file, or several in a folder, read row group by row group.

pyarrow is imported when a table is made; otherwise the rest of this room only.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pursuit.rows.arrow import BATCH_ROWS, BatchedTable, require_pyarrow
from pursuit.rows.table import listed

_BUFFER_BYTES = 1 << 20
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class _File:
    """A file, what it says of itself, and what the folders around it say of all its rows."""

    path: Path
    metadata: Any
    columns: frozenset[str]
    keys: dict[str, Any]


class ParquetTable(BatchedTable):
    """Rows of Parquet files, one file after the other; memory is that of a few batches.

    Parameters
    ----------
    files : sequence of Path
        Files of equal columns.
    name : str
        What error messages call the table.
    root : Path, optional
        Folder that the files lie in. Folders below it that are named ``key=value`` make a column
        ``key``, unless the files have one: whole numbers if all values are, else numbers, else
        texts.
    """

    def __init__(self, files: Sequence[Path], name: str, root: Path | None = None) -> None:
        self._parts: list[tuple[_File, int]] = []
        rows: list[int] = []
        schema: Any = None
        keys = _partition_keys(files, root, name)
        for path, values in zip(files, keys, strict=True):
            with _opened(path) as file:
                found, metadata = file.schema_arrow, file.metadata
            schema = schema or found
            _check_schema(schema, found, path)
            one = _File(path, metadata, frozenset(found.names), values)
            for group in range(metadata.num_row_groups):
                self._parts.append((one, group))
                rows.append(metadata.row_group(group).num_rows)
        for key, value in keys[0].items():
            if key not in schema.names:
                schema = schema.append(require_pyarrow(name).field(key, value.type))
        super().__init__(schema, rows, name)

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Record batches with these columns, in row order; every file is opened once."""
        for file, parts in itertools.groupby(self._parts, key=lambda part: part[0]):
            yield from _read(file, [group for _, group in parts], columns)

    def _batches(self, part: int, columns: Sequence[str]) -> Iterator[Any]:
        file, group = self._parts[part]
        return _read(file, [group], columns)

    def _with_nulls(self, part: int) -> list[str]:
        file, group = self._parts[part]
        chunks = file.metadata.row_group(group)
        wanted = set(self.columns)
        found = [key for key, value in file.keys.items() if key in wanted and not value.is_valid]
        for j in range(chunks.num_columns):
            chunk = chunks.column(j)
            if chunk.path_in_schema not in wanted or not chunk.is_stats_set:
                continue
            statistics = chunk.statistics
            if statistics.has_null_count and statistics.null_count:
                found.append(chunk.path_in_schema)
        return found


def _read(file: _File, groups: list[int], columns: Sequence[str]) -> Iterator[Any]:
    """Record batches of some row groups of a file."""
    pa = require_pyarrow(file.path.name)
    held = [column for column in columns if column in file.columns]
    with _opened(file.path, file.metadata) as opened:
        for run in _runs(file, groups):
            for batch in opened.iter_batches(
                BATCH_ROWS, row_groups=run, columns=held, use_threads=True
            ):
                # Files may hold the columns in another order than they are asked for in.
                yield pa.RecordBatch.from_arrays(
                    [
                        batch.column(column)
                        if column in file.columns
                        else pa.repeat(file.keys[column], batch.num_rows)
                        for column in columns
                    ],
                    list(columns),
                )


def _runs(file: _File, groups: list[int]) -> Iterator[list[int]]:
    """Row groups that are read together: small ones, as many as make a batch.

    A reader of several row groups keeps all that it has read of them, and making one takes longer
    than to read a few rows.
    """
    run: list[int] = []
    waiting = 0
    for group in groups:
        n_rows = file.metadata.row_group(group).num_rows
        if run and waiting + n_rows > BATCH_ROWS:
            yield run
            run, waiting = [], 0
        run.append(group)
        waiting += n_rows
    if run:
        yield run


def _partition_keys(files: Sequence[Path], root: Path | None, name: str) -> list[dict[str, Any]]:
    """Arrow scalars that the folders ``key=value`` around each file stand for."""
    if root is None:
        return [{} for _ in files]
    found = []
    for path in files:
        folders = path.relative_to(root).parts[:-1]
        pairs = (folder.partition("=") for folder in folders if "=" in folder)
        found.append({unquote(key): unquote(value) for key, _, value in pairs})
    for path, keys in zip(files, found, strict=True):
        if keys.keys() != found[0].keys():
            raise ValueError(
                f"{path.name} of {name} lies in folders for {listed(list(keys))}, but the first "
                f"file in folders for {listed(list(found[0]))}: folders named key=value must be "
                "alike."
            )
    typed = {key: _typed([keys[key] for keys in found], name) for key in found[0]}
    return [{key: typed[key][i] for key in typed} for i in range(len(files))]


def _typed(values: list[str], name: str) -> Any:
    """Texts as an array of whole numbers, of numbers, or as they are."""
    pa = require_pyarrow(name)
    present = [None if value == _NO_VALUE else value for value in values]
    texts = pa.array(present, pa.string())
    for kind in (pa.int64(), pa.float64()):
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            continue
    return texts


def _opened(path: Path, metadata: Any = None) -> Any:
    try:
        # Buffered, so that a row group of any size is decoded piece by piece.
        return require_pyarrow(path.name, "pyarrow.parquet").ParquetFile(
            path, metadata=metadata, buffer_size=_BUFFER_BYTES
        )
    except require_pyarrow(path.name).ArrowInvalid as error:
        raise ValueError(f"{path.name} is not a Parquet file that can be read: {error}") from error


def _check_schema(first: Any, other: Any, path: Path) -> None:
    if other is first:
        return
    missing = [name for name in first.names if name not in other.names]
    if missing:
        raise ValueError(f"{path.name} has no column {listed(missing)}, which the first file has.")
    for name in first.names:
        if first.field(name).type != other.field(name).type:
            raise ValueError(
                f"column {name!r} of {path.name} is of type {other.field(name).type}, but "
                f"{first.field(name).type} in the first file."
            )
