"""What near rows say about what a basis leaves: the residual process, conditioned row by row.

A basis Z with RR' = k(Z, Z) explains the part q(x, x') = V_x·V_x' of a kernel, V_x = R⁻¹k_Z(x). The
rest r = k - q is local. For a query x with near rows N, whose noise variances are σ²/w::

    A = r(x,N)(r(N,N) + σ²W_N⁻¹)⁻¹      weights of the near rows
    missed = r(x,x) - A r(N,x)          variance of the residual that they leave
    u = V_x - A V_N                     what is left of the basis functions

Both parts together are full-scale approximations of a Gaussian process (Snelson and Ghahramani
2007; Gyger, Furrer and Sigrist 2025).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.gram.engine import TileTask, row_pass
from pursuit.gram.products import kernel_features
from pursuit.kernels import BoundKernel, Kernel
from pursuit.linalg import Workers
from pursuit.rows import RowSource, as_rows, concat, len_items, take_items

T = TypeVar("T")

_QUERIES = 2048
"""Queries whose near rows get their features together, where these are not stored. More queries
share more rows, and hold more numbers at a time."""
_BLOCK = 8 * _QUERIES
_GROUPS = 32
"""Queries per task of a thread: their features should stay in its cache."""
_OF_KERNEL, _OF_FEATURES = 32.0, 0.1
"""Roundings of k, and share of their largest magnification by R⁻¹, in r. They bound what was seen
in float64 with RBF, Matérn and polynomial kernels, up to 1700 length scales from the origin.
Larger: near rows count for less where the noise is tiny."""


@dataclass(frozen=True)
class LocalGroups:
    """A few queries and their near rows.

    Attributes
    ----------
    where : slice
        Which of the queries they are.
    residual : array of shape (n_queries, 1 + k, 1 + k)
        r among a query and its near rows; zero in the place of a near row that is missing.
    own : array of shape (n_queries, n)
        V of the queries.
    near : array of shape (n_queries, k, n)
        V of their near rows.
    prior : array of shape (n_queries,)
        k(x, x).
    rounding : array of shape (n_queries,)
        Largest rounding error of r among the query and its near rows.
    rotated : array of shape (n_queries, 1 + k, n), optional
        V of a query and its near rows, rotated.
    """

    where: slice
    residual: Floats
    own: Floats
    near: NDArray[Any]
    prior: Floats
    rounding: Floats
    rotated: NDArray[Any] | None = None


@dataclass(frozen=True)
class Conditional:
    """The residual at some queries, given their near rows.

    Attributes
    ----------
    weights : array of shape (n_queries, k)
        A.
    missed : array of shape (n_queries,)
        Variance that the near rows leave, without noise; never negative.
    """

    weights: Floats
    missed: Floats

    def left(self, own: NDArray[Any], near: NDArray[Any]) -> NDArray[Any]:
        """Queries' features less those that near rows speak for: u = V_x - A V_N."""
        spoken: NDArray[Any] = self.weights[:, None].astype(near.dtype) @ near
        left: NDArray[Any] = own - spoken[:, 0]
        return left


def noisy(residual: Floats, noise: Floats, rounding: Floats | float = 0.0) -> Floats:
    """r(N,N) + σ²W⁻¹ of every query; arguments as in :func:`condition`.

    Rounding errors of r(N,N) make a matrix whose norm grows with √k. The noise counts as at least
    that, or the sum might be singular, and the weights of near rows anything.
    """
    matrix: Floats = residual[:, 1:, 1:].copy()
    k = matrix.shape[1]
    at, least = np.arange(k), np.sqrt(k) * np.asarray(rounding)
    matrix[:, at, at] += np.maximum(noise, least[..., None])
    return matrix


def condition(residual: Floats, noise: Floats, rounding: Floats | float = 0.0) -> Conditional:
    """Condition r on the near rows, whose noise variances are ``noise``, of shape (n_queries, k).

    ``residual`` and ``rounding`` are those of `LocalGroups`.
    """
    matrix, cross = noisy(residual, noise, rounding), residual[:, 1:, 0]
    weights: Floats = np.linalg.solve(matrix, cross[..., None])[..., 0].astype(np.float64)
    explained = np.einsum("gi,gi->g", weights, cross)
    return Conditional(weights, np.maximum(residual[:, 0, 0] - explained, 0.0))


@dataclass(frozen=True)
class _Features:
    """Some queries, their near rows, and the features of both."""

    items: Any
    index: Indices
    own: Floats
    table: NDArray[Any]
    at: Indices
    turned: NDArray[Any] | None

    def near(self, few: slice) -> NDArray[Any]:
        """V of the near rows of a few queries."""
        return np.asarray(self.table[self.at[few]])

    def rotated(self, few: slice, rotation: Floats | None) -> NDArray[Any] | None:
        """V of a few queries and their near rows, rotated; None without a rotation."""
        if self.turned is None or rotation is None:
            return None
        first = (self.own[few] @ rotation.T)[:, None].astype(self.turned.dtype)
        return np.concatenate([first, self.turned[self.at[few]]], axis=1)


@dataclass(frozen=True)
class ResidualProcess:
    """What a basis leaves of a Gaussian process, among rows that are kept.

    Attributes
    ----------
    kernel : Kernel
        k.
    points : items
        The basis Z.
    whitener : array of shape (n, n)
        R⁻¹.
    rows : RowSource
        The rows that may be near.
    dtype : float32 or float64
        Type of the features of near rows.
    stored : array of shape (n_rows, n), optional
        Their features; None where they are computed on demand.
    """

    kernel: Kernel
    points: Any
    whitener: Floats
    rows: RowSource
    dtype: DTypeLike
    stored: NDArray[Any] | None = None

    def features(self, items: Any, workers: Workers, dtype: DTypeLike) -> NDArray[Any]:
        """V of items: shape (n_items, n)."""
        rows = as_rows(items)
        return kernel_features(
            rows, self.kernel, self.points, workers, whitener=self.whitener, dtype=dtype
        )

    @cached_property
    def _relative_rounding(self) -> float:
        """Rounding error of r, in units of k(x, x).

        A sum of n products of features has √n roundings, and the kernel some more, of which R⁻¹
        magnifies those in V by up to √(k(z,z) K_ZZ⁻¹).
        """
        rows = np.einsum("ij,ij->i", self.whitener, self.whitener)
        largest = float(self.kernel.diag(self.points).max(initial=0.0))
        magnified = np.sqrt(rows.max(initial=0.0) * largest)
        n_sums = np.sqrt(1.0 + len(rows))
        of_kernel = self.kernel.rounding * (_OF_KERNEL * n_sums + _OF_FEATURES * magnified)
        return float(np.finfo(self.dtype).eps * n_sums + of_kernel)

    def nearest_points(self, items: Any, workers: Workers) -> Indices:
        """Number of the basis point with the largest k(x, z), for every item."""
        task = TileTask(_largest, (self.points,), _QUERIES, np.concatenate)
        return row_pass(as_rows(items), self.kernel, task, workers)

    def each(
        self,
        queries: Any,
        near: Indices,
        task: Callable[[LocalGroups], T],
        workers: Workers,
        *,
        rotation: Floats | None = None,
    ) -> list[T]:
        """List the task's values for a few queries at a time, in their order.

        ``near`` holds the near rows of each query, -1 where there are fewer than its columns. With
        a lower-triangular ``rotation`` of shape (n, n) the features are multiplied by it, too.
        """
        found: list[T] = []
        for span in Workers.slices(len_items(queries), _QUERIES):
            some, index = queries[span], near[span]
            own = self.features(some, workers, np.float64)
            table, at = self._near_features(index, workers, distinct=rotation is not None)
            turned = None if rotation is None else _rotated(table, rotation, workers)

            def part(few: slice, of: _Features, start: int) -> T:
                groups = self._groups(of.items[few], of.index[few], of.own[few], of.near(few))
                where = slice(start + few.start, start + few.stop)
                return task(replace(groups, where=where, rotated=of.rotated(few, rotation)))

            block = _Features(some, index, own, table, at, turned)
            cuts = Workers.slices(len_items(some), _GROUPS)
            found += workers.map(partial(part, of=block, start=span.start), cuts)
        return found

    def _near_features(
        self, index: Indices, workers: Workers, *, distinct: bool
    ) -> tuple[NDArray[Any], Indices]:
        """A table of features, and where in it those of near rows are."""
        present = np.maximum(index, 0)
        if self.stored is not None and not distinct:
            return self.stored, present
        rows, at = np.unique(present, return_inverse=True)
        at = at.reshape(index.shape)
        if self.stored is not None:
            return self.stored[rows], at
        return self.features(self.rows.take(rows), workers, self.dtype), at

    def _groups(self, items: Any, index: Indices, own: Floats, near: NDArray[Any]) -> LocalGroups:
        n_queries, k = index.shape
        missing = index < 0
        rows = self.rows.take(np.maximum(index, 0).ravel())
        order = np.concatenate(
            [
                np.arange(n_queries)[:, None],
                n_queries + np.arange(n_queries * k).reshape(n_queries, k),
            ],
            axis=1,
        )
        together = take_items(concat(items, rows), order.ravel())
        residual = self.kernel.among(together, 1 + k)
        diagonal = np.einsum("gii->gi", residual)
        prior, rounding = diagonal[:, 0].copy(), self._relative_rounding * diagonal.max(axis=1)
        residual[:, 1:, 1:] -= near @ near.swapaxes(1, 2)
        across = (near @ own.astype(near.dtype)[..., None])[..., 0]
        residual[:, 1:, 0] -= across
        residual[:, 0, 1:] -= across
        residual[:, 0, 0] -= np.einsum("gi,gi->g", own, own)
        if missing.any():
            gone = np.concatenate([np.zeros((n_queries, 1), dtype=bool), missing], axis=1)
            residual[gone[:, :, None] | gone[:, None]] = 0.0
        return LocalGroups(slice(0, n_queries), residual, own, near, prior, rounding)


def _largest(bound: BoundKernel, items: Any) -> Indices:
    nearest: Indices = np.argmax(bound(items), axis=1)
    return nearest


def _rotated(table: NDArray[Any], rotation: Floats, workers: Workers) -> NDArray[Any]:
    """Rows of a table times the transpose of a lower-triangular matrix, in the table's type."""
    matrix = rotation.astype(table.dtype)
    turned = np.empty_like(table)

    def part(some: slice) -> None:
        for panel in Workers.slices(len(matrix), limits.PANEL):
            left = table[some, : panel.stop]
            turned[some, panel] = left @ matrix[panel, : panel.stop].T

    workers.map(part, Workers.slices(len(table), _QUERIES))
    return turned


def in_parts(rows: RowSource) -> Iterator[tuple[slice, Any]]:
    """Queries that are worked on together, and where they stand."""
    for start, items in rows.blocks(_BLOCK):
        yield slice(start, start + len_items(items)), items
