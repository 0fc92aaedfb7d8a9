"""Exact neighbours in feature space, with kernel values only where bounds do not decide.

:class:`SpanPoints` brackets ‖φ(x)-φ(z)‖² = k(x,x) + k(z,z) - 2k(x,z) for all pairs; the kernel is
evaluated only for pairs that the bracket does not decide. The kernel is bound to one query at a
time, so that equal rows give equal values whatever other rows they are evaluated with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.kernels import Kernel
from pursuit.linalg import (
    INDEFINITE,
    NotPositiveDefiniteError,
    SpanPoints,
    Workers,
    single_threaded_blas,
    trusted_size,
)
from pursuit.rows import RowSource

TIED_ROUNDINGS = 16.0
"""Distances that differ by fewer roundings of the kernel are ties."""

_BLOCK_ENTRIES = 1 << 19
"""Bounds that are held at a time, per thread."""

_BLOCK_QUERIES = 8, 128
"""Least and most queries per task."""


@dataclass(frozen=True)
class Queries:
    """Items whose neighbours are sought.

    Attributes
    ----------
    rows : RowSource
        The query items.
    kernel : Kernel
        Binds to a query and takes training items.
    points : SpanPoints
        Where they lie.
    own : array of int of shape (n_queries,), optional
        A training row that is no neighbour of the query, such as itself; -1 for none.
    before : array of int of shape (n_queries,), optional
        Only training rows with smaller numbers are neighbours of the query.
    """

    rows: RowSource
    kernel: Kernel
    points: SpanPoints
    own: Indices | None = None
    before: Indices | None = None

    def excluded(self, i: int, n_rows: int) -> Indices:
        """The training rows that are no neighbours of query i, in increasing order."""
        after = n_rows if self.before is None else int(self.before[i])
        own = -1 if self.own is None else int(self.own[i])
        itself = [own] if 0 <= own < after else []
        return np.concatenate([itself, np.arange(after, n_rows)]).astype(np.intp)


@dataclass(frozen=True)
class Found:
    """Neighbours of the queries, one array per query, and the number of kernel values used."""

    indices: list[Indices]
    distances: list[Floats]
    evaluated: int


@dataclass(frozen=True)
class NeighborSearch:
    """Searches among training rows.

    Attributes
    ----------
    rows : RowSource
        The training items.
    points : SpanPoints
        Where they lie.
    resolution, kernel_error : float
        A squared distance has an error of at most ``resolution`` (k(x,x) + k(z,z)) +
        ``kernel_error`` 2k(x,z). A distance below that is 0; distances that differ by less are
        ties, and the lower row number comes first.
    """

    rows: RowSource
    points: SpanPoints
    resolution: float
    kernel_error: float = 0.0

    def nearest(self, queries: Queries, workers: Workers, *, k: int) -> Found:
        """The k nearest of each query, or all if there are fewer, by distance, then row number.

        The 2k rows whose bounds have the smallest middle are evaluated first; the k-th smallest of
        their distances is the reach. Of the other rows only those with a lower bound within reach
        are evaluated, in the order of that bound and in growing portions, each of which may shorten
        the reach.
        """

        def search(query: _Query, lower: Floats, upper: Floats) -> tuple[Indices, Floats]:
            n, start = min(k, query.n_others), min(2 * k, query.n_others)
            if n == 0:
                return np.empty(0, dtype=np.intp), np.empty(0)
            first = np.argpartition(lower + upper, start - 1)[:start]
            indices, squared = first, query.squared_distances(first)
            lower[first] = np.inf
            reach = query.reach(_kth(squared, n))
            waiting = np.flatnonzero(lower <= reach)
            waiting = waiting[np.argsort(lower[waiting], kind="stable")]
            portion = 2 * start
            while len(waiting):
                evaluated, waiting = waiting[:portion], waiting[portion:]
                indices = np.concatenate([indices, evaluated])
                squared = np.concatenate([squared, query.squared_distances(evaluated)])
                reach = query.reach(_kth(squared, n))
                waiting = waiting[: np.searchsorted(lower[waiting], reach, side="right")]
                portion *= 2
            order, squared = ordered(indices, squared, query.tolerance(indices, squared))
            return indices[order[:n]], np.sqrt(squared[:n])

        return self._each(queries, search, workers)

    def within(
        self, queries: Queries, workers: Workers, *, radius: float, distances: bool, sort: bool
    ) -> Found:
        """All at most ``radius`` away, by row number, or by distance if ``sort``.

        Without ``distances`` and ``sort`` rows with an upper bound within the radius are taken
        without evaluating the kernel; their distances are NaN.
        """
        unseen = not (distances or sort)

        def search(query: _Query, lower: Floats, upper: Floats) -> tuple[Indices, Floats]:
            # Rows that are excluded have infinite bounds, which are within an infinite radius.
            indices = np.flatnonzero((lower <= query.reach(radius**2)) & (lower < np.inf))
            squared = np.full(len(indices), np.nan)
            doubtful = upper[indices] > radius if unseen else np.ones(len(indices), bool)
            squared[doubtful] = query.squared_distances(indices[doubtful])
            kept = ~(np.sqrt(squared) > radius)
            indices, squared = indices[kept], squared[kept]
            if sort:
                order, squared = ordered(indices, squared, query.tolerance(indices, squared))
                indices = indices[order]
            return indices, np.sqrt(squared)

        return self._each(queries, search, workers)

    def _each(self, queries: Queries, search: _Search, workers: Workers) -> Found:
        """Search for every query; the work is cut into blocks by sizes only."""
        low, high = _BLOCK_QUERIES
        width = min(max(_BLOCK_ENTRIES // max(self.rows.n_rows, 1), low), high)
        largest = float(self.points.squares.max(initial=0.0))

        def block(span: slice) -> list[tuple[Indices, Floats, int]]:
            lower, upper = self.points.bounds(queries.points[span])
            results = []
            for i in range(span.start, span.stop):
                excluded = queries.excluded(i, self.rows.n_rows)
                query = _Query(self, queries, i, self.rows.n_rows - len(excluded), largest)
                below, above = lower[i - span.start], upper[i - span.start]
                below[excluded] = above[excluded] = np.inf
                results.append((*search(query, below, above), query.evaluated))
            return results

        blocks = workers.map(block, Workers.slices(queries.rows.n_rows, width))
        results = [result for part in blocks for result in part]
        return Found(
            [indices for indices, _, _ in results],
            [distances for _, distances, _ in results],
            sum(evaluated for _, _, evaluated in results),
        )


class _Query:
    """One query: its distances to training rows, and how many were evaluated."""

    def __init__(
        self, search: NeighborSearch, queries: Queries, i: int, n_others: int, largest: float
    ) -> None:
        self.evaluated = 0
        self.n_others = n_others
        self._search = search
        self._square = float(queries.points.squares[i])
        self._columns = queries.kernel.columns(queries.rows.take(np.array([i], dtype=np.intp)))
        self._largest = largest

    def squared_distances(self, indices: Indices) -> Floats:
        """k(x,x) + k(z,z) - 2k(x,z), and 0 below the resolution."""
        if not len(indices):
            return np.empty(0)
        values = self._columns(self._search.rows.take(indices))[:, 0]
        self.evaluated += len(indices)
        total = self._square + self._search.points.squares[indices]
        squared: Floats = total - 2.0 * values
        worst = int((squared + INDEFINITE * total).argmin())
        if squared[worst] < -INDEFINITE * total[worst]:
            raise NotPositiveDefiniteError(int(indices[worst]), float(squared[worst]))
        squared[squared <= self.tolerance(indices, squared)] = 0.0
        return squared

    def tolerance(self, indices: Indices, squared: Floats) -> Floats:
        """The largest error that rounding may have left in squared distances."""
        search = self._search
        total = self._square + search.points.squares[indices]
        twice = np.maximum(total - squared, 0.0)
        tolerance: Floats = search.resolution * total + search.kernel_error * twice
        return tolerance

    def reach(self, squared: float) -> float:
        """The largest lower bound of rows at this squared distance, or tied with it."""
        search = self._search
        rounding = (search.resolution + search.kernel_error) * (self._square + self._largest)
        return float(np.sqrt(squared + rounding))


@single_threaded_blas()
def landmark_errors(
    kernel: Kernel, landmarks: Any, R: Floats, squares: Floats
) -> tuple[int, float, float]:
    """How many landmarks to use, the error ρ of squares in their span, and that of kernel values.

    ``R R' = k(landmarks, landmarks)``, whose diagonal is ``squares``. The errors are relative; see
    :func:`trusted_size`.
    """
    if len(R) == 0:
        return *trusted_size(R, 0.0, kernel.rounding), 0.0
    roots = np.sqrt(squares)
    K = kernel.tile(landmarks, landmarks)
    backward = float((np.abs(K - R @ R.T) / np.multiply.outer(roots, roots)).max())
    alone = [kernel.tile(landmarks[i : i + 1], landmarks[i : i + 1]) for i in range(len(R))]
    errors = np.abs(np.ravel(alone) - squares) / squares
    # More than was seen, because the landmarks are a sample of the rows.
    return *trusted_size(R, backward, kernel.rounding), 8.0 * float(errors.max())


def ordered(indices: Indices, squared: Floats, tolerance: Floats) -> tuple[Indices, Floats]:
    """The order by squared distance, then row number, and the squared distances in that order.

    Entries whose distances differ from the next by no more than the tolerance are ties: they get
    the smallest of their distances and are ordered by row number.
    """
    order = np.lexsort((indices, squared))
    values = squared[order]
    apart = np.diff(values) > tolerance[order][1:]
    group = np.concatenate([[0], np.cumsum(apart)])[: len(order)]
    first = np.concatenate([[True], apart])[: len(order)]
    return order[np.lexsort((indices[order], group))], values[first][group]


def _kth(values: Floats, k: int) -> float:
    return float(np.partition(values, k - 1)[k - 1])


_Search = Callable[[_Query, Floats, Floats], tuple[Indices, Floats]]
