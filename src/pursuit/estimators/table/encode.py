"""The rows of a raw table as numbers, all at once or block by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.estimators.table.columns import MisfitError, TableColumn, Tally, encode_column
from pursuit.estimators.table.errors import TableError, listed
from pursuit.estimators.table.read import ArrowColumns, RawColumn, RawTable, of_arrow
from pursuit.estimators.table.target import folds
from pursuit.estimators.warning import warn
from pursuit.rows import BatchRows


def encoded_rows(
    raw: RawTable,
    used: Sequence[tuple[TableColumn, str]],
    by_fold: Mapping[str, Floats],
    *,
    streamed: bool,
) -> Floats | BatchRows:
    """The features of the rows of a table.

    Parameters
    ----------
    raw : RawTable
        The table.
    used : sequence of (TableColumn, str)
        Columns that become features, and their names in the table.
    by_fold : mapping of str to array
        Statistics of the target for each fold, by column, where those of other rows are wanted.
    streamed : bool
        Whether to encode rows whenever they are read, if the table can be read again.
    """
    columns, names = [column for column, _ in used], [name for _, name in used]
    if streamed and isinstance(raw, ArrowColumns):
        told = _ToldOnce(raw.n_rows)

        def encode(batch: Any, numbers: Indices) -> Floats:
            pieces = [of_arrow(array) for array in batch.columns]
            with told.tally(numbers) as tally:
                return _features(columns, pieces, numbers, by_fold, tally, raw.label)

        return BatchRows(raw.table.select(names), encode)
    width = sum(len(column.features) for column in columns)
    tally, rows = Tally(), np.empty((raw.n_rows, width))
    for start, pieces in raw.pieces(names):
        numbers = np.arange(start, start + len(pieces[0].values))
        rows[numbers] = _features(columns, pieces, numbers, by_fold, tally, raw.label)
    _tell(tally)
    return rows


class _ToldOnce:
    """Warns once, at the end of the first whole pass over a stream."""

    def __init__(self, n_rows: int) -> None:
        self._tally, self._n_rows, self._next = Tally(), n_rows, 0

    @contextmanager
    def tally(self, numbers: Indices) -> Iterator[Tally]:
        """Where to count what is new in rows with these numbers."""
        if not len(numbers) or numbers[0] != self._next:  # not the first pass
            yield Tally()
            return
        yield self._tally
        self._next = int(numbers[-1]) + 1
        if self._next == self._n_rows:
            _tell(self._tally)


def _features(
    columns: Sequence[TableColumn],
    pieces: Sequence[RawColumn],
    numbers: Indices,
    by_fold: Mapping[str, Floats],
    tally: Tally,
    label: str,
) -> Floats:
    """The features of a piece of a table whose rows have these numbers."""
    parts, problems = [], {}
    for column, piece in zip(columns, pieces, strict=True):
        own = by_fold.get(column.name)
        statistics = None if own is None else partial(_of_others, own, folds(numbers))
        try:
            parts.append(encode_column(column, piece, tally, statistics))
        except MisfitError as error:
            problems[column.name] = str(error)
    if problems:
        raise TableError(
            f"columns of {label} are not what they were in training: {listed(problems)}. Write "
            "them as in training, or fit again to a table that is written like this one.",
            problems,
        )
    return np.concatenate(parts, axis=1)


def _of_others(by_fold: Floats, fold: Indices, codes: Indices) -> Floats:
    """The statistics of rows with these codes, from all folds but their own."""
    return by_fold[fold, codes]


def _tell(tally: Tally) -> None:
    if sentence := tally.sentence():
        warn(f"{sentence[0].upper()}{sentence[1:]}.")
