"""The nearest training rows of queries, for models that condition on near rows.

:func:`nearest_in_space` takes points of a Euclidean space, :func:`nearest_in_features` any kernel.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from pursuit._types import Floats, Indices
from pursuit.gram.neighbors import (
    TIED_ROUNDINGS,
    Found,
    NeighborSearch,
    Queries,
    landmark_errors,
)
from pursuit.gram.products import kernel_diagonal, kernel_features
from pursuit.gram.space import Cells, Scan, Sought, Tree
from pursuit.kernels import Kernel
from pursuit.linalg import SpanPoints, Workers, invert_lower
from pursuit.rows import RowSource, as_rows

_SMALL = 1000
"""Up to so many rows a query is always compared with all of them."""

_TREE_COLUMNS, _TREE_DIMENSIONS = 8, 7.0
"""Rows are searched by a tree if they have at most so many columns, or fill at most so many
dimensions. With more a comparison with all rows is faster: measured with 36 000 and 400 000 rows
and 32 neighbours, it is on a par with the tree on 8 independent columns, and 2 to 10 times as fast
on rows that fill 9 to 18 dimensions of up to 27 columns."""

_SAMPLED, _SAMPLE_K = 64, 32
"""Rows, and neighbours of each, from which the number of dimensions is estimated."""

_SCANNED_ROWS = 100_000
"""Up to so many rows a query is compared with all of them where a tree is slow."""

_CELLS = 24
"""Cells that a query looks into. More find more of the nearest rows and take longer."""


class NearestRows(Protocol):
    """Finds the nearest training rows."""

    n_rows: int

    def nearest(
        self, queries: Any, k: int, workers: Workers, *, own: Indices | None = None
    ) -> Indices:
        """The k nearest rows of every query, nearest first, ties by row number.

        Parameters
        ----------
        queries : items of n_queries rows
            Points of the space, or items that the kernel takes.
        k : int
            At most n_rows, or n_rows - 1 if ``own`` is given.
        workers : Workers
            Their number changes nothing.
        own : array of int of shape (n_queries,), optional
            A row that the query must not get: its own number; -1 for none.

        Returns
        -------
        rows : array of int of shape (n_queries, k)
        """
        ...

    def preceding(self, k: int, workers: Workers) -> Indices:
        """For every row the k nearest of the rows before it, nearest first.

        Parameters
        ----------
        k : int
            At least 1.
        workers : Workers
            Their number changes nothing.

        Returns
        -------
        rows : array of int of shape (n_rows, k)
            -1 at the end where there are fewer than k.
        """
        ...


def nearest_in_space(
    points: ArrayLike, cells: ArrayLike | None = None, workers: Workers | None = None
) -> NearestRows:
    """Find nearest rows by Euclidean distance.

    Rows that fill few dimensions are searched by a k-d tree, other rows by matrix products with all
    of them; both are exact. Beyond 100 000 rows that fill many dimensions, a query looks into the
    24 nearest of the cells around ``cells``, and may miss some of its nearest rows.

    Parameters
    ----------
    points : array of shape (n_rows, n_features)
        The rows, features divided by the length scales of the kernel.
    cells : array of shape (n_cells, n_features), optional
        Points among the rows, such as the basis of a model. Without them all rows are compared.
    workers : Workers, optional
        Threads that assign the rows to cells.

    Returns
    -------
    NearestRows
    """
    X = np.ascontiguousarray(points, dtype=np.float64)
    return RowsInSpace(_method(X, cells, workers or Workers()))


def _method(X: Floats, cells: ArrayLike | None, workers: Workers) -> Scan | Tree | Cells:
    scan = Scan(X)
    if len(X) <= _SMALL:
        return scan
    if X.shape[1] <= _TREE_COLUMNS or local_dimension(scan, workers) <= _TREE_DIMENSIONS:
        return Tree(scan)
    if cells is None or len(X) <= _SCANNED_ROWS:
        return scan
    return Cells(X, np.ascontiguousarray(cells, dtype=np.float64), _CELLS, workers)


def local_dimension(scan: Scan, workers: Workers) -> float:
    """The dimension d that rows fill around a row: about r^d of them are within distance r.

    The estimate of Levina and Bickel (2005): 1/d is the mean of log(r_k/r_j), r_j being the
    distance of the j-th nearest row, over j < k and over a few rows.
    """
    X = scan.points
    some = np.linspace(0, len(X) - 1, _SAMPLED).astype(np.intp)
    found = scan.nearest(Sought(X[some], some, np.full(len(some), len(X))), _SAMPLE_K, workers)
    squares = ((X[some, None] - X[found]) ** 2).sum(axis=2)
    squares = squares[squares[:, 0] > 0]
    logs = 0.5 * np.log(squares[:, -1:] / squares[:, :-1])
    total = float(logs.sum())
    return logs.size / total if total > 0 else 0.0


class RowsInSpace:
    """The nearest rows by Euclidean distance, found by one of three methods.

    Parameters
    ----------
    method : Scan, Tree or Cells
        How to search.
    """

    def __init__(self, method: Scan | Tree | Cells) -> None:
        self.method, self.n_rows = method, method.n_rows

    def nearest(
        self, queries: ArrayLike, k: int, workers: Workers, *, own: Indices | None = None
    ) -> Indices:
        """The k nearest rows of every query; see :class:`NearestRows`."""
        Q = np.ascontiguousarray(queries, dtype=np.float64)
        _check_count(k, self.n_rows - (own is not None))
        own = np.full(len(Q), -1) if own is None else np.asarray(own, dtype=np.intp)
        return self.method.nearest(Sought(Q, own, np.full(len(Q), self.n_rows)), k, workers)

    def preceding(self, k: int, workers: Workers) -> Indices:
        """The k nearest rows before every row; see :class:`NearestRows`."""
        _check_count(k)
        return self.method.preceding(k, workers)


def nearest_in_features(
    rows: RowSource,
    kernel: Kernel,
    landmarks: Any,
    R: Floats,
    workers: Workers | None = None,
) -> NearestRows:
    """Find nearest rows by the distance k(x,x) + k(z,z) - 2k(x,z) of any kernel; exact.

    Landmarks bracket all distances, and the kernel is evaluated where the brackets do not decide;
    see :class:`NeighborSearch`. Distances that differ by rounding only are ties. One number per row
    and landmark is stored.

    Parameters
    ----------
    rows : RowSource
        The training items.
    kernel : Kernel
        Takes pairs of items. With a precomputed kernel queries are row numbers.
    landmarks : items
        Some of the items, such as the basis of a model. Those that rounding spoils are not used.
    R : array of shape (n_landmarks, n_landmarks)
        Lower triangle with R R' = k(landmarks, landmarks).
    workers : Workers, optional
        Threads that evaluate k(rows, landmarks).

    Returns
    -------
    NearestRows

    Raises
    ------
    NotPositiveDefiniteError
        If the kernel is seen not to be positive semi-definite, here or in a search.
    """
    return RowsInFeatures(rows, kernel, landmarks, R, workers or Workers())


class RowsInFeatures:
    """The nearest rows by the distance of a kernel; see :func:`nearest_in_features`."""

    def __init__(
        self, rows: RowSource, kernel: Kernel, landmarks: Any, R: Floats, workers: Workers
    ) -> None:
        self.n_rows, self._rows, self._kernel = rows.n_rows, rows, kernel
        squares = kernel.diag(landmarks) if len(R) else np.empty(0)
        n, self._error, error = landmark_errors(kernel, landmarks, R, squares)
        self._landmarks = landmarks[:n]
        self._whitener = invert_lower(R[:n, :n])
        points = self._place(rows, workers)
        self._search = NeighborSearch(rows, points, TIED_ROUNDINGS * kernel.rounding, error)

    def nearest(
        self, queries: Any, k: int, workers: Workers, *, own: Indices | None = None
    ) -> Indices:
        """The k nearest rows of every query; see :class:`NearestRows`."""
        _check_count(k, self.n_rows - (own is not None))
        rows = as_rows(queries)
        sought = Queries(rows, self._kernel, self._place(rows, workers), own)
        return _padded(self._search.nearest(sought, workers, k=k), k)

    def preceding(self, k: int, workers: Workers) -> Indices:
        """The k nearest rows before every row; see :class:`NearestRows`."""
        _check_count(k)
        before = np.arange(self.n_rows)
        sought = Queries(self._rows, self._kernel, self._search.points, before=before)
        return _padded(self._search.nearest(sought, workers, k=k), k)

    def _place(self, rows: RowSource, workers: Workers) -> SpanPoints:
        kernel = self._kernel
        V = kernel_features(rows, kernel, self._landmarks, workers, whitener=self._whitener)
        return SpanPoints.place(V, kernel_diagonal(rows, kernel), self._error)


def _padded(found: Found, k: int) -> Indices:
    """Row numbers of shape (n_queries, k), with -1 at the end where there are fewer."""
    rows = np.full((len(found.indices), k), -1, dtype=np.intp)
    for places, indices in zip(rows, found.indices, strict=True):
        places[: len(indices)] = indices
    return rows


def _check_count(k: int, most: int | None = None) -> None:
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}.")
    if most is not None and k > most:
        raise ValueError(f"k={k} is more than the {most} rows that a query can get: lower k.")
