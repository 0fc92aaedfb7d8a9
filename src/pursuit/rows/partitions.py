"""What is done with a partition of a dask collection, where it lies.

Everything here is called by tasks, on whichever machine they run. Imports numpy, scipy.sparse and
the rest of this room only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pursuit.rows.convert import as_rows
from pursuit.rows.items import Items, join, len_items
from pursuit.rows.table import check_finite

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Form:
    """What the blocks of all partitions must be turned into."""

    columns: tuple[str, ...] | None
    n_features: int
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Place:
    """Which partition this is, which rows of the collection it holds, and which of them are meant.

    ``keep`` are positions within the partition, all of them when None.
    """

    number: int
    start: int
    length: int
    keep: Indices | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows that are meant."""
        return self.length if self.keep is None else len(self.keep)

    def __str__(self) -> str:
        return f"partition {self.number} (rows {self.start} to {self.start + self.length - 1})"


@dataclass(frozen=True)
class Shared:
    """What the tasks of a pass have in common: one node of their graph."""

    task: Callable[..., Any]
    form: Form


@dataclass(frozen=True)
class Pieces:
    """Rows of another source that belong to a partition, not yet joined."""

    items: list[Items]


def run(block: Any, place: Place, shared: Shared, *aligned: Any) -> Any:
    """What a task makes of the rows of a partition and of what is aligned to them."""
    items = pick(block, place, shared.form)
    beside = [
        as_rows(join(other.items)) if isinstance(other, Pieces) else other for other in aligned
    ]
    try:
        return shared.task(as_rows(items), *beside)
    except Exception as error:
        raise same_kind(error, f"{place}: {type(error).__name__}: {error}") from error


def add(values: list[Any]) -> Any:
    """Their sum, from the first to the last."""
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def pick(block: Any, place: Place, form: Form) -> Items:
    """Rows of a partition as arrays or CSR of finite numbers."""
    try:
        items = _as_items(block, form)
    except (TypeError, ValueError) as error:
        raise same_kind(error, f"{place}: {error}") from error
    if len_items(items) != place.length:
        raise ValueError(
            f"{place} has {len_items(items)} rows now: the collection gives other rows each time "
            "it is computed. Call persist() on it, and fit what that returns."
        )
    values: Any = items.data.reshape(-1, 1) if sparse.issparse(items) else items
    if sparse.issparse(items) and not np.isfinite(values).all():
        raise ValueError(f"Input X contains NaN or infinity, in {place}.")
    check_finite(values, form.columns, str(place), place.start)
    return items if place.keep is None else items[place.keep]


def read_columns(block: Any, columns: tuple[str, ...]) -> list[NDArray[Any]]:
    """Columns of a data frame, numbers or not."""
    return [np.asarray(block.iloc[:, _names(block).index(column)]) for column in columns]


def same_kind(error: Exception, message: str) -> Exception:
    """An error of the same general kind, with another message."""
    for kind in (TypeError, ValueError):
        if isinstance(error, kind):
            return kind(message)
    return RuntimeError(message)


def _as_items(block: Any, form: Form) -> Items:
    if hasattr(block, "columns") and hasattr(block, "to_numpy"):
        names = _names(block)
        if form.columns is not None and tuple(names) != form.columns:
            block = block.iloc[:, [names.index(column) for column in form.columns]]
        block = block.to_numpy(dtype=form.dtype, na_value=np.nan)
    block = block.tocsr() if hasattr(block, "tocsr") else np.asarray(block)
    if block.ndim != 2 or block.shape[1] != form.n_features:
        raise ValueError(
            f"it has rows of shape {block.shape[1:]}, but {form.n_features} features are expected."
        )
    items: Items = block.astype(form.dtype, copy=False)
    return items


def _names(block: Any) -> list[str]:
    return [str(column) for column in block.columns]
