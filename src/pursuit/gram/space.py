"""Nearest rows in a Euclidean space: by a k-d tree, by matrix products, or by cells.

All three take the squared distance Σ_j (q_j - x_j)², added up from the first coordinate to the last
in float64, and order rows by it, then by row number. They differ only in how they find candidates,
so they return the same rows, except that cells with a limit may miss some.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from pursuit._types import Floats, Indices
from pursuit.linalg import EPS, Workers

_QUERIES = 256
"""Most queries per task. More make larger matrix products and need more memory."""

_TILE_ROWS = 4096
"""Rows per matrix product: with 256 queries a tile of distances takes 8 MB."""

_PAIRS = 1 << 18
"""Queries times neighbours per task; fewer queries form a task when many neighbours are asked for.
"""

_DIFFERENCES = 1 << 20
"""Differences of coordinates that are held at a time: 8 MB."""

_WAITING = 1 << 19
"""Pairs of a query and a row that wait to be measured at a time."""

_GROUP = 16
"""Rows of a tile of which the smallest distance is taken before the k-th smallest is sought."""

_SPARE = 4
"""Neighbours that a tree is asked for beyond those needed, so that ties are seen."""

_TREE_SHARE = 8
"""A tree is asked for at most one in so many of its rows; for more, all rows are compared."""

_GROWTH = 1.25
"""Trees of the first rows grow by this factor. A smaller one builds more trees, a larger one asks
them for more neighbours of which more come after the query."""

_CELL_QUERIES = 1024
"""Most queries per task where queries look into cells: more share a matrix product."""

_FIRST_CELLS = 2
"""Cells that a query looks into first. After each round it has looked into three times as many."""


@dataclass(frozen=True)
class Sought:
    """Queries, and which rows each of them may get.

    Attributes
    ----------
    points : array of shape (n_queries, n_features)
        The queries.
    own : array of int of shape (n_queries,)
        A row that the query does not get; -1 for none.
    before : array of int of shape (n_queries,)
        The query gets rows with smaller numbers only.
    """

    points: Floats
    own: Indices
    before: Indices

    def __getitem__(self, part: slice | Indices) -> Sought:
        """Some of the queries."""
        return Sought(self.points[part], self.own[part], self.before[part])

    def __len__(self) -> int:
        """Number of queries."""
        return len(self.points)


class Shortlist:
    """Rows that may be among the k nearest of the queries of one task.

    Parameters
    ----------
    sought : Sought
        The queries.
    points : array of shape (n_rows, n_features)
        The rows.
    k : int
        Number of neighbours.

    Attributes
    ----------
    reach : array of shape (n_queries,)
        At least the squared distance of the k-th nearest row.
    """

    def __init__(self, sought: Sought, points: Floats, k: int) -> None:
        self.sought, self.k = sought, k
        self.reach = np.full(len(sought), np.inf)
        self._points = points
        self._smallest = np.full((len(sought), k), np.inf)
        self._settled: _Pairs = np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0)
        self._waiting, self._n_waiting = [(np.empty(0, np.intp), np.empty(0, np.intp))], 0

    def tighten(self, queries: Indices, squares: Floats) -> None:
        """Lower the reach of some queries by upper bounds of squared distances to further rows."""
        both = np.concatenate([self._smallest[queries], squares], axis=1)
        smallest = np.partition(both, self.k - 1, axis=1)[:, : self.k]
        self._smallest[queries], self.reach[queries] = smallest, smallest[:, -1]

    def add(self, query: Indices, row: Indices) -> None:
        """Add pairs of a query and a row; no pair comes twice."""
        self._waiting.append((query, row))
        self._n_waiting += len(query)
        if self._n_waiting > _WAITING:
            self._settle()

    def nearest(self) -> tuple[Indices, Floats]:
        """Rows, and squared distances, of shape (n_queries, k): the nearest that were added.

        Places without a row hold -1 and infinity, at the end.
        """
        self._settle()
        query, row, squared = self._settled
        rank = _ranks(query)
        rows = np.full(self._smallest.shape, -1, dtype=np.intp)
        squares = np.full(self._smallest.shape, np.inf)
        rows[query, rank], squares[query, rank] = row, squared
        return rows, squares

    def _settle(self) -> None:
        """Measure the rows that wait, and keep the k nearest, by distance, then row number."""
        query, row = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
        squared = squared_distances(self.sought.points, self._points, query, row)
        self._waiting, self._n_waiting = [(query[:0], row[:0])], 0
        settled = zip(self._settled, (query, row, squared), strict=True)
        query, row, squared = (np.concatenate(parts) for parts in settled)
        order = np.lexsort((row, squared, query))
        order = order[_ranks(query[order]) < self.k]
        self._settled = query[order], row[order], squared[order]


class Centred:
    """Points about their mean c, for squared distances by one matrix product.

    ‖q-c‖² + ‖x-c‖² - 2(q-c)'(x-c) differs from ‖q-x‖² by at most 4(d+4) roundings of
    ‖q-c‖² + ‖x-c‖², that of ‖q-x‖² itself included.

    Parameters
    ----------
    points : array of shape (n_points, n_features)
        The points x.
    """

    def __init__(self, points: Floats) -> None:
        self._centre = points.mean(axis=0)
        self._points = points - self._centre
        self._norms = np.einsum("ij,ij->i", self._points, self._points)
        self._roundings = 4.0 * (points.shape[1] + 4) * EPS

    def squares(self, queries: Floats, part: slice) -> tuple[Floats, Floats]:
        """Squared distances of queries to some of the points, and their largest error per query."""
        moved, norms = queries - self._centre, self._norms[part]
        lengths = np.einsum("ij,ij->i", moved, moved)
        squares = moved @ self._points[part].T
        squares *= -2.0
        squares += norms
        squares += lengths[:, None]
        return squares, self._roundings * (lengths + norms.max())

    def nearest(self, queries: Floats, workers: Workers) -> Indices:
        """The nearest point of each query, within rounding."""

        def task(span: slice) -> Indices:
            index: Indices = self.squares(queries[span], slice(None))[0].argmin(axis=1)
            return index

        spans = Workers.slices(len(queries), _CELL_QUERIES)
        return np.concatenate([np.empty(0, dtype=np.intp), *workers.map(task, spans)])


class Scan:
    """Compares a query with all rows.

    A matrix product gives all squared distances within rounding. Only rows that may be among the k
    nearest within that error are measured from differences, so the answer is exact.

    Parameters
    ----------
    points : array of shape (n_rows, n_features)
        The rows.
    """

    def __init__(self, points: Floats) -> None:
        self.points, self.n_rows = points, len(points)
        self._centred = Centred(points)

    def nearest(self, sought: Sought, k: int, workers: Workers) -> Indices:
        """The k nearest allowed rows of each query, padded with -1."""
        return over_queries(self.search, sought, k, workers)

    def preceding(self, k: int, workers: Workers) -> Indices:
        """The k nearest rows before each row, padded with -1."""
        return self.nearest(rows_sought(self.points, 0, self.n_rows), k, workers)

    def search(self, sought: Sought, k: int) -> Indices:
        """The k nearest allowed rows of the queries of one task."""
        shortlist, everyone = Shortlist(sought, self.points, k), np.arange(len(sought))
        for span in Workers.slices(int(sought.before.max(initial=0)), _TILE_ROWS):
            compare(shortlist, everyone, self._centred, span, np.arange(span.start, span.stop))
        return shortlist.nearest()[0]


def compare(
    shortlist: Shortlist, queries: Indices, points: Centred, part: slice, rows: Indices
) -> None:
    """Add those rows to the shortlist that some queries may need.

    ``rows`` are the numbers, in increasing order, of the rows at ``points[part]``.
    """
    sought = shortlist.sought[queries]
    tile, error = points.squares(sought.points, part)
    if sought.before.min() <= rows[-1]:
        tile[rows >= sought.before[:, None]] = np.inf
    place = np.minimum(np.searchsorted(rows, sought.own), len(rows) - 1)
    itself = np.flatnonzero(rows[place] == sought.own)
    tile[itself, place[itself]] = np.inf
    shortlist.tighten(queries, _smallest_of_groups(tile, shortlist.k) + error[:, None])
    bound = np.minimum(shortlist.reach[queries] + error, np.finfo(np.float64).max)
    i, j = np.divmod(np.flatnonzero(tile <= bound[:, None]), len(rows))
    shortlist.add(queries[i], rows[j])


class Tree:
    """A k-d tree: fast where the rows fill few dimensions.

    A tree breaks ties in its own way, so it is asked for a few rows more than needed. If even the
    last of them is as far as the k-th within rounding, there may be further ties: then it is asked
    for twice as many, and finally all rows are compared.

    Parameters
    ----------
    scan : Scan
        The rows, and the comparison with all of them.
    """

    def __init__(self, scan: Scan) -> None:
        self.points, self.n_rows = scan.points, scan.n_rows
        self._scan, self._tree = scan, cKDTree(scan.points)

    def nearest(self, sought: Sought, k: int, workers: Workers) -> Indices:
        """The k nearest allowed rows of each query, padded with -1."""
        asked = k + _SPARE + bool((sought.own >= 0).any())
        return over_queries(_TreeSearch(self._tree, self._scan, asked), sought, k, workers)

    def preceding(self, k: int, workers: Workers) -> Indices:
        """The k nearest rows before each row, padded with -1.

        Rows are searched in a tree that ends soon after them, for so many neighbours that about k
        of them come before the row. The first rows, for which that is too large a share of a tree,
        are compared with all rows before them.
        """
        start = min(self.n_rows, _TREE_SHARE * (2 * k + 2 * _SPARE))
        parts = [self._scan.nearest(rows_sought(self.points, 0, start), k, workers)]
        while start < self.n_rows:
            stop = min(self.n_rows, int(_GROWTH * start))
            tree = self._tree if stop == self.n_rows else cKDTree(self.points[:stop])
            asked = k * stop / start + 2.0 * np.sqrt(k) + _SPARE
            search = _TreeSearch(tree, self._scan, int(asked))
            sought = rows_sought(self.points, start, stop)
            parts.append(over_queries(search, sought, k, workers))
            start = stop
        return np.concatenate(parts)


@dataclass(frozen=True)
class _TreeSearch:
    """Searches in a tree of all rows or the first rows, beginning with ``asked`` neighbours."""

    tree: cKDTree
    scan: Scan
    asked: int

    def __call__(self, sought: Sought, k: int) -> Indices:
        """The k nearest allowed rows of the queries of one task."""
        found = np.empty((len(sought), k), dtype=np.intp)
        waiting, asked = np.arange(len(sought)), self.asked
        within = 1.0 - _rounding(sought.points.shape[1])
        while len(waiting):
            some = sought[waiting]
            if asked * _TREE_SHARE > self.tree.n:
                found[waiting] = self.scan.search(some, k)
                break
            distance, row = map(np.asarray, self.tree.query(some.points, asked))
            query, row = np.repeat(np.arange(len(some)), asked), row.ravel().astype(np.intp)
            allowed = (row < some.before[query]) & (row != some.own[query])
            shortlist = Shortlist(some, self.scan.points, k)
            shortlist.add(query[allowed], row[allowed])
            found[waiting], squares = shortlist.nearest()
            waiting = waiting[squares[:, -1] >= distance[:, -1] ** 2 * within]
            asked *= 2
        return found


class Cells:
    """Rows in cells around centres: a query looks into the nearest cells only.

    A cell is skipped if, by the triangle inequality, none of its rows can be among the k nearest.
    With ``limit=None`` all other cells are looked into, and the answer is exact. With a limit a
    query looks into that many of the nearest cells, or as many more as it takes to see k rows; then
    it may miss some of its nearest rows.

    Parameters
    ----------
    points : array of shape (n_rows, n_features)
        The rows.
    centres : array of shape (n_cells, n_features)
        Each row belongs to the nearest centre.
    limit : int or None
        Most cells a query looks into.
    workers : Workers
        Threads that assign the rows to cells.
    """

    def __init__(
        self, points: Floats, centres: Floats, limit: int | None, workers: Workers
    ) -> None:
        self.points, self.n_rows = points, len(points)
        nearest = Centred(centres).nearest(points, workers)
        used, cell = np.unique(nearest, return_inverse=True)
        self._centres = Centred(centres[used])
        self._limit = len(used) if limit is None else limit
        squared = squared_distances(points, centres[used], np.arange(len(points)), cell)
        radius = np.zeros(len(used))
        np.maximum.at(radius, cell, squared)
        self._radius = np.sqrt(radius)
        order = np.argsort(cell, kind="stable")
        # Rows of a cell lie side by side.
        self._ordered = Centred(points[order])
        self._starts = np.searchsorted(cell[order], np.arange(len(used)))
        self._rows = np.split(order, self._starts[1:])

    def nearest(self, sought: Sought, k: int, workers: Workers) -> Indices:
        """The k nearest allowed rows of each query, padded with -1."""
        cell = self._centres.nearest(sought.points, workers)
        # Queries of one task then look into the same cells.
        order = np.argsort(cell, kind="stable")
        found = np.empty((len(sought), k), dtype=np.intp)
        found[order] = over_queries(self.search, sought[order], k, workers, _CELL_QUERIES)
        return found

    def preceding(self, k: int, workers: Workers) -> Indices:
        """The k nearest rows before each row, padded with -1."""
        return self.nearest(rows_sought(self.points, 0, self.n_rows), k, workers)

    def search(self, sought: Sought, k: int) -> Indices:
        """The k nearest allowed rows of the queries of one task."""
        shortlist = Shortlist(sought, self.points, k)
        squares, error = self._centres.squares(sought.points, slice(None))
        rounding = _rounding(self.points.shape[1])
        lower = (1.0 - rounding) * np.sqrt(np.maximum(squares - error[:, None], 0.0))
        lower -= (1.0 + rounding) * self._radius
        order = np.argsort(squares, axis=1, kind="stable")
        last = self._last_cell(sought, k, order)
        start, stop = 0, _FIRST_CELLS
        while start < last.max(initial=0):
            query, place = np.nonzero(np.arange(start, stop) < last[:, None])
            cell = order[query, start + place]
            near = lower[query, cell] <= (1.0 + rounding) * np.sqrt(shortlist.reach[query])
            self._look_into(shortlist, query[near], cell[near])
            start, stop = stop, 3 * stop
        return shortlist.nearest()[0]

    def _last_cell(self, sought: Sought, k: int, order: Indices) -> Indices:
        """How many of its nearest cells each query looks into."""
        counts = [np.searchsorted(rows, sought.before) for rows in self._rows]
        seen = np.cumsum(np.take_along_axis(np.stack(counts, axis=1), order, axis=1), axis=1)
        needed = k + (sought.own >= 0)
        enough: Indices = 1 + (seen < needed[:, None]).sum(axis=1)
        return np.minimum(np.maximum(enough, self._limit), len(self._rows))

    def _look_into(self, shortlist: Shortlist, query: Indices, cell: Indices) -> None:
        """Compare queries with the rows of cells, pair by pair."""
        order = np.argsort(cell, kind="stable")
        used, starts = np.unique(cell[order], return_index=True)
        for c, queries in zip(used, np.split(query[order], starts)[1:], strict=True):
            for span in Workers.slices(len(self._rows[c]), _TILE_ROWS):
                part = slice(self._starts[c] + span.start, self._starts[c] + span.stop)
                rows = self._rows[c][span]
                for some in Workers.slices(len(queries), _QUERIES):
                    compare(shortlist, queries[some], self._ordered, part, rows)


def rows_sought(points: Floats, start: int, stop: int) -> Sought:
    """Rows as queries that get only the rows before them."""
    numbers = np.arange(start, stop)
    return Sought(points[start:stop], np.full(stop - start, -1), numbers)


def over_queries(
    search: Callable[[Sought, int], Indices],
    sought: Sought,
    k: int,
    workers: Workers,
    n_queries: int = _QUERIES,
) -> Indices:
    """Search for all queries, at most ``n_queries`` of them per task."""
    width = max(1, min(n_queries, _PAIRS // k))
    parts = workers.map(lambda span: search(sought[span], k), Workers.slices(len(sought), width))
    return np.concatenate([np.empty((0, k), dtype=np.intp), *parts])


def squared_distances(A: Floats, B: Floats, i: Indices, j: Indices) -> Floats:
    """‖A_i - B_j‖² for pairs of row numbers, added up from the first coordinate to the last."""
    squares = np.zeros(len(i))
    for span in Workers.slices(len(i), max(1, _DIFFERENCES // max(A.shape[1], 1))):
        differences = A[i[span]] - B[j[span]]
        differences *= differences
        for column in differences.T:
            squares[span] += column
    return squares


def _rounding(n_features: int) -> float:
    """More than the relative error of a squared distance, and of a bound that a tree prunes by."""
    return 8.0 * (n_features + 16) * EPS


def _smallest_of_groups(tile: Floats, k: int) -> Floats:
    """The smallest entries of groups of columns, at least 2k of them if the tile is so wide.

    Few of the k smallest entries of a row share a group, so their k-th smallest is seldom much more
    than that of the row, and takes less time.
    """
    group = min(_GROUP, tile.shape[1] // (2 * k))
    if group < 2:
        return tile
    width = tile.shape[1] // group
    smallest: Floats = tile[:, : group * width].reshape(len(tile), group, width).min(axis=1)
    return smallest


def _ranks(query: Indices) -> Indices:
    """The place of every entry among the entries of its query; the queries are sorted."""
    return np.arange(len(query)) - np.searchsorted(query, query)


_Pairs = tuple[Indices, Indices, Floats]
