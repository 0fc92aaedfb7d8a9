"""What is done with a partition of a dask collection, where it lies.

Everything here is called by tasks, on whichever machine they run. Imports numpy, scipy.sparse and
the rest of this room only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pursuit._types import Indices
from pursuit.rows.convert import as_rows
from pursuit.rows.items import Items, join, len_items
from pursuit.rows.table import check_finite


@dataclass(frozen=True)
class Form:
    """What the blocks of all partitions must be turned into."""

    columns: tuple[str, ...] | None
    n_features: int
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Place:
    """Which partition this is, which rows of the collection it holds, and which of them are meant.

    ``keep`` are their increasing positions within the partition, a range where they are a run.
    """

    number: int
    start: int
    length: int
    keep: range | Indices

    @classmethod
    def whole(cls, number: int, start: int, length: int) -> Place:
        """All rows of a partition."""
        return cls(number, start, length, range(length))

    @property
    def n_rows(self) -> int:
        """Number of rows that are meant."""
        return len(self.keep)

    def picked(self, local: Indices) -> Place:
        """The same with some of the rows that are meant, by their positions among them."""
        keep = self.keep
        return replace(self, keep=keep.start + local if isinstance(keep, range) else keep[local])

    def narrowed(self, low: int, high: int) -> Place:
        """The same with a run of the rows that are meant."""
        return replace(self, keep=self.keep[low:high])

    def __str__(self) -> str:
        return f"partition {self.number} (rows {self.start} to {self.start + self.length - 1})"


def named(places: Sequence[Place]) -> str:
    """What error messages call neighbouring partitions."""
    first, last = places[0], places[-1]
    if len(places) == 1:
        return str(first)
    rows = f"rows {first.start} to {last.start + last.length - 1}"
    return f"partitions {first.number} to {last.number} ({rows})"


@dataclass(frozen=True)
class Shared:
    """What the tasks of a pass have in common: one node of their graph."""

    task: Callable[..., Any]
    form: Form


@dataclass(frozen=True)
class Pieces:
    """Rows of another source that belong to a partition, not yet joined."""

    items: list[Items]


def run(found: list[Any], places: Sequence[Place], shared: Shared, *aligned: Any) -> Any:
    """What a task makes of some rows, and of what is aligned to them.

    ``found`` is the partition that holds them or, of several, what was picked from each.
    """
    items = join(found) if len(places) > 1 else pick(found[0], places[0], shared.form)
    beside = [
        as_rows(join(other.items)) if isinstance(other, Pieces) else other for other in aligned
    ]
    try:
        return shared.task(as_rows(items), *beside)
    except Exception as error:
        raise same_kind(error, f"{named(places)}: {type(error).__name__}: {error}") from error


def pick(block: Any, place: Place, form: Form) -> Items:
    """Rows of a partition as arrays or CSR of finite numbers; what lies around them is not read."""
    length = len(block) if hasattr(block, "columns") else len_items(block)
    if length != place.length:
        raise ValueError(
            f"{place} has {length} rows now: the collection gives other rows each time "
            "it is computed. Call persist() on it, and fit what that returns."
        )
    keep = place.keep
    around = slice(int(keep[0]), int(keep[-1]) + 1) if len(keep) else slice(0, 0)
    try:
        items = _as_items(block, around, form)
    except (TypeError, ValueError) as error:
        raise same_kind(error, f"{place}: {error}") from error
    values: Any = items.data.reshape(-1, 1) if sparse.issparse(items) else items
    if sparse.issparse(items) and not np.isfinite(values).all():
        raise ValueError(f"Input X contains NaN or infinity, in {place}.")
    check_finite(values, form.columns, str(place), place.start + around.start)
    return items if isinstance(keep, range) else items[keep - around.start]


def read_columns(block: Any, columns: tuple[str, ...]) -> list[NDArray[Any]]:
    """Columns of a data frame, numbers or not."""
    return [np.asarray(block.iloc[:, _names(block).index(column)]) for column in columns]


def same_kind(error: Exception, message: str) -> Exception:
    """An error of the same general kind, with another message."""
    for kind in (TypeError, ValueError):
        if isinstance(error, kind):
            return kind(message)
    return RuntimeError(message)


def _as_items(block: Any, rows: slice, form: Form) -> Items:
    if hasattr(block, "columns") and hasattr(block, "to_numpy"):
        names = _names(block)
        if form.columns is not None and tuple(names) != form.columns:
            block = block.iloc[:, [names.index(column) for column in form.columns]]
        block = block.iloc[rows].to_numpy(dtype=form.dtype, na_value=np.nan)
    else:
        block = block.tocsr()[rows] if hasattr(block, "tocsr") else np.asarray(block)[rows]
    if block.ndim != 2 or block.shape[1] != form.n_features:
        raise ValueError(
            f"it has rows of shape {block.shape[1:]}, but {form.n_features} features are expected."
        )
    items: Items = block.astype(form.dtype, copy=False)
    # Products of rows that lie column by column in memory may round differently.
    return items if sparse.issparse(items) else np.ascontiguousarray(items)


def _names(block: Any) -> list[str]:
    return [str(column) for column in block.columns]
