"""Tables of the commands: columns that were asked for, rows without gaps, pieces of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pursuit.cli.console import WrongCallError, quoted
from pursuit.cli.fitting import Request
from pursuit.estimators.table.columns import clean
from pursuit.estimators.table.read import of_arrow
from pursuit.rows import BLOCK_ROWS, BatchedTable, check_columns, open_file
from pursuit.rows.arrow import spooled

_PIECE_ROWS = 32 * BLOCK_ROWS
"""Rows that are predicted at a time. A multiple of BLOCK_ROWS, so that pieces give the same bits as
the whole table; more rows need more memory."""


def chosen_columns(table: BatchedTable, request: Request) -> BatchedTable:
    """The columns of a table that become features, the target and the weights."""
    target, weight = request.target, request.weight
    there, weights = list(table.columns), [weight] if weight else []
    for names, option in (
        ([target], "--target"),
        (request.features, "--feature"),
        (request.drop, "--drop"),
        (weights, "--weight"),
    ):
        check_columns(names, there, table.name, option)
    _refuse_contradictions(request)
    chosen = [name for name in there if name not in (target, weight, *request.drop)]
    if request.features:
        chosen = [name for name in chosen if name in request.features]
    if not chosen:
        raise WrongCallError(
            f"no column is left for the features, of {len(there)} in {table.name}: name a table "
            "with more, or --drop fewer."
        )
    copy = f"{target}.1"
    if copy in chosen and copy not in request.features:
        raise WrongCallError(
            f"{table.name} has the target {target!r} twice, and the second, {copy!r}, would be a "
            f"feature: add --drop {quoted(copy)} to leave it out."
        )
    return table.select([*chosen, target, *weights])


def _refuse_contradictions(request: Request) -> None:
    """Refuse names of columns that contradict each other."""
    if request.weight == request.target:
        raise WrongCallError(f"--weight: {request.weight!r} is the target: name another column.")
    for option, names in (("--feature", request.features), ("--drop", request.drop)):
        if request.target in names:
            raise WrongCallError(
                f"{option}: {request.target!r} is the target: leave it out of {option}."
            )
    for name in request.features:
        if name in request.drop:
            raise WrongCallError(f"{name!r} is in --feature and in --drop: use one of them.")


def without_gaps(table: BatchedTable) -> BatchedTable:
    """The rows that have a value in each column, in a temporary file."""
    columns = list(table.columns)
    whole = (batch.filter(_complete(batch)) for batch in table.batches(columns))
    schema = pa.schema([table.schema.field(name) for name in columns])
    kept = spooled(schema, whole, table.name)
    if kept.n_rows < 2:
        raise WrongCallError(
            f"{kept.n_rows} of {table.n_rows:,} rows of {table.name} are without gaps, too few to "
            "learn from: leave --impute drop out, or --drop the columns that have the most gaps."
        )
    return kept


def _complete(batch: pa.RecordBatch) -> pa.Array:
    """Where no value of a row is missing."""
    keep = np.ones(batch.num_rows, dtype=bool)
    for column in batch.columns:
        raw = of_arrow(column)
        if raw.kind == "text":
            keep &= np.array([clean(text) is not None for text in raw.values], dtype=bool)
        elif raw.kind != "unusable":
            keep &= ~np.isnan(raw.values)  # also of times
    return pa.array(keep)


def open_for(model: Any, path: Path, label: Path) -> BatchedTable:
    """A table that must have the columns of a model, read as when the model was fitted."""
    texts: list[str] = []
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise WrongCallError(
            f"{label} does not know the names of its columns: fit it to a table with column names, "
            "or with pursuit fit."
        )
    if hasattr(model, "steps"):
        used = [column for column in model.steps[0][1].columns_ if column.kind != "dropped"]
        names = [column.name for column in used]
        texts = [column.name for column in used if column.reads_text]
    table = open_file(path, texts)
    check_columns(list(names), table.columns, table.name, "columns of the model")
    return table


def pieces(table: BatchedTable) -> Iterator[pa.Table]:
    """All columns of a table in pieces of equal numbers of rows, in row order."""
    waiting: list[pa.RecordBatch] = []
    n_rows = 0
    for batch in table.batches(table.columns):
        while batch.num_rows:
            part = batch.slice(0, _PIECE_ROWS - n_rows)
            batch, n_rows = batch.slice(part.num_rows), n_rows + part.num_rows
            waiting.append(part)
            if n_rows == _PIECE_ROWS:
                yield pa.Table.from_batches(waiting)
                waiting, n_rows = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)
