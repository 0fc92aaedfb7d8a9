"""Parquet: a file, or several in a folder, read row group by row group.

pyarrow is imported when a table is made; otherwise the rest of this room only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pursuit.rows.arrow import BATCH_ROWS, BatchedTable, require_pyarrow
from pursuit.rows.table import listed

_BUFFER_BYTES = 1 << 20


class ParquetTable(BatchedTable):
    """Rows of Parquet files, one file after the other; memory is that of a few batches.

    Parameters
    ----------
    files : sequence of Path
        Files of equal columns.
    name : str
        What error messages call the table.
    """

    def __init__(self, files: Sequence[Path], name: str) -> None:
        self._parts: list[tuple[Path, Any, int]] = []
        rows: list[int] = []
        schema: Any = None
        for path in files:
            file = _opened(path)
            schema = schema or file.schema_arrow
            _check_schema(schema, file.schema_arrow, path)
            for group in range(file.metadata.num_row_groups):
                self._parts.append((path, file.metadata, group))
                rows.append(file.metadata.row_group(group).num_rows)
            file.close()
        super().__init__(schema, rows, name)

    def _batches(self, part: int, columns: Sequence[str]) -> Iterator[Any]:
        path, metadata, group = self._parts[part]
        with _opened(path, metadata) as file:
            for batch in file.iter_batches(
                BATCH_ROWS, row_groups=[group], columns=list(columns), use_threads=True
            ):
                # Files may hold the columns in another order than they are asked for in.
                yield batch.select(list(columns))

    def _with_nulls(self, part: int) -> list[str]:
        _, metadata, group = self._parts[part]
        chunks = metadata.row_group(group)
        wanted = set(self.columns)
        found = []
        for j in range(chunks.num_columns):
            chunk = chunks.column(j)
            if chunk.path_in_schema not in wanted or not chunk.is_stats_set:
                continue
            statistics = chunk.statistics
            if statistics.has_null_count and statistics.null_count:
                found.append(chunk.path_in_schema)
        return found


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
