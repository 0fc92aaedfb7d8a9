"""Passes over rows as points of a span: what they look like there, and sums over pairs of views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pursuit.gram.parts import sum_parts
from pursuit.kernels import Columns, Kernel
from pursuit.linalg import Workers
from pursuit.rows import (
    BLOCK_ROWS,
    DistributedRows,
    IndexRows,
    RowSource,
    TreeSum,
    in_order,
    len_items,
)

Floats = NDArray[np.float64]
T = TypeVar("T")

_CHUNK_ROWS = 512


def over_span(
    rows: RowSource,
    kernel: Kernel,
    points: Any,
    whitener: Floats,
    measure: Callable[[Floats, Any, slice], T],
    workers: Workers,
) -> list[T]:
    """``measure(V, items, where)`` for one chunk of rows after the other.

    V holds R⁻¹k_S(x) for the items of the chunk, one a row; ``where`` says which rows they are.
    """
    columns = kernel.columns(points)
    found: list[T] = []
    for start, items in rows.blocks():

        def part(span: slice, start: int = start, items: Any = items) -> T:
            V = columns(items[span]) @ whitener.T
            return measure(V, items[span], slice(start + span.start, start + span.stop))

        found += workers.map(part, Workers.slices(len_items(items), _CHUNK_ROWS))
    return found


@dataclass(frozen=True)
class SpannedView:
    """Rows of one view, and the span they are looked at in: points S and R⁻¹ with K_SS = RR'."""

    rows: RowSource
    kernel: Kernel
    points: Any
    whitener: Floats


def paired_moments(views: Sequence[SpannedView], weights: Floats, workers: Workers) -> Floats:
    """Σ_i w_i z_i z_i' with z = [V_x, V_y, …, 1] for rows known by several views."""
    first = views[0]
    if isinstance(first.rows, DistributedRows):
        # The other views' rows follow those of the first to where they lie.
        spans = [replace(view, rows=IndexRows(0)) for view in views]
        others = [view.rows for view in views[1:]]
        return sum_parts(first.rows, first.kernel, partial(_part, spans), weights, *others)
    columns = [view.kernel.columns(view.points) for view in views]
    tree: TreeSum[Floats] = TreeSum()
    blocks = [view.rows.blocks(BLOCK_ROWS) for view in views]
    for parts in zip(*blocks, strict=True):
        start, n_rows = parts[0][0], len_items(parts[0][1])

        def part(span: slice, start: int = start, parts: Any = parts) -> Floats:
            Z = _joined(views, columns, [items[span] for _, items in parts])
            Z *= np.sqrt(weights[start + span.start : start + span.stop, None])
            product: Floats = Z.T @ Z
            return product

        tree.add(in_order(workers.map(part, Workers.slices(n_rows, _CHUNK_ROWS))))
    return tree.total()


def _part(
    spans: Sequence[SpannedView],
    rows: RowSource,
    kernel: Kernel,
    workers: Workers,
    weights: Floats,
    *others: RowSource,
) -> Floats:
    views = [replace(span, rows=mine) for span, mine in zip(spans, [rows, *others], strict=True)]
    views[0] = replace(views[0], kernel=kernel)
    return paired_moments(views, weights, workers)


def _joined(views: Sequence[SpannedView], columns: Sequence[Columns], items: Sequence[Any]) -> Any:
    """[V_x, V_y, …, 1] for a chunk of rows."""
    features = [
        column(item) @ view.whitener.T
        for view, column, item in zip(views, columns, items, strict=True)
    ]
    return np.column_stack([*features, np.ones(len(features[0]))])
