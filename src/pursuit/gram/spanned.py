"""Passes over rows as points of a span: what they look like there, and sums over pairs of views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.gram.engine import Block, chunked, list_pass, sum_pass
from pursuit.kernels import Kernel
from pursuit.linalg import Workers
from pursuit.rows import IndexRows, RowSource

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

    V holds R⁻¹k_S(x) for the items of the chunk, one per row; ``where`` says which rows they are.
    """
    task = partial(_spanned, points, whitener, measure)
    return list(chain(*list_pass(rows, kernel, task, workers, IndexRows(rows.n_rows))))


def _spanned(
    points: Any,
    whitener: Floats,
    measure: Callable[[Floats, Any, slice], T],
    kernel: Kernel,
    workers: Workers,
) -> Block[list[T]]:
    columns = kernel.columns(points)

    def part(items: Any, numbers: Indices) -> T:
        where = slice(int(numbers[0]), int(numbers[-1]) + 1)
        return measure(columns(items) @ whitener.T, items, where)

    return chunked(part, _CHUNK_ROWS, workers, combine=list)


@dataclass(frozen=True)
class SpannedView:
    """Rows of one view, and the span they are looked at in: points S and R⁻¹ with K_SS = RR'."""

    rows: RowSource
    kernel: Kernel
    points: Any
    whitener: Floats


def paired_moments(views: Sequence[SpannedView], weights: Floats, workers: Workers) -> Floats:
    """Σ_i w_i z_i z_i' with z = [V_x, V_y, …, 1] for rows known by several views."""
    first, others = views[0], [view.rows for view in views[1:]]
    # Rows go separately: those of the other views follow those of the first to where they lie.
    spans = [replace(view, rows=IndexRows(0)) for view in views]
    return sum_pass(first.rows, first.kernel, partial(_moments, spans), workers, weights, *others)


def _moments(spans: Sequence[SpannedView], kernel: Kernel, workers: Workers) -> Block[Floats]:
    kernels = [kernel, *(span.kernel for span in spans[1:])]
    columns = [k.columns(span.points) for k, span in zip(kernels, spans, strict=True)]

    def part(items: Any, weights: Floats, *others: Any) -> Floats:
        features = [
            column(item) @ span.whitener.T
            for span, column, item in zip(spans, columns, [items, *others], strict=True)
        ]
        Z = np.column_stack([*features, np.ones(len(weights))])
        Z *= np.sqrt(weights[:, None])
        product: Floats = Z.T @ Z
        return product

    return chunked(part, _CHUNK_ROWS, workers)
