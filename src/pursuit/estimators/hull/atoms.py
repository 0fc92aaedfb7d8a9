"""The atoms of l1-ball regression: their values on the rows, and sums over the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pursuit._types import Floats, Indices
from pursuit.gram import (
    GramStatistics,
    gram_statistics,
    kernel_features,
    kernel_times,
    kernel_transpose_times,
)
from pursuit.gram.arithmetic import RowArithmetic
from pursuit.kernels import BoundKernel, CountingKernel, Extent, Kernel
from pursuit.linalg import Workers
from pursuit.rounding import Rounded, gamma, sizes, weight
from pursuit.rows import Sample, len_items, take_items

Split = tuple[Indices, Indices]

STORED_ENTRIES = 1 << 26
"""Most values of atoms that are stored (512 MB); beyond, steps read the rows again."""

_PANEL = 256
"""Atoms per task of a thread: changing it changes the last bits of results."""
_CHUNK_ROWS = 1024
"""Rows per task of a thread where values are computed; it does not change results."""


class StackedKernel(Kernel):
    """Several kernels as one, whose tiles k₁(·, Z), k₂(·, Z), … stand side by side."""

    positive_definite = False

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self.kernels = kernels

    def columns(self, Z: Any, dtype: npt.DTypeLike = np.float64) -> BoundKernel:
        """Bind all kernels to Z."""
        return StackedColumns([kernel.columns(Z, dtype) for kernel in self.kernels])

    def diag(self, A: Any) -> Floats:
        """Zeros, since several kernels have no common diagonal."""
        return np.zeros(len_items(A))


class StackedColumns(BoundKernel):
    """The tiles of several kernels side by side."""

    def __init__(self, parts: Sequence[BoundKernel]) -> None:
        self.parts = parts
        self.n_columns = sum(part.n_columns for part in parts)

    def __call__(self, A: Any, out: Any = None) -> Any:
        """Values of all kernels at the rows A."""
        return np.concatenate([part(A) for part in self.parts], axis=1, out=out)


@dataclass(frozen=True)
class AtomSums:
    """Weighted means over rows, for the vector p of all atoms.

    ``linear`` is b = Σωpy, ``diagonal`` that of G = Σωpp', and ``square`` is Σωy². ``image(w)`` is
    Gw, ``block(i, j)`` is G[i, j], and ``error(w)`` is the mean squared error of w.
    """

    linear: Floats
    diagonal: Floats
    square: float
    image: Callable[[Floats], Floats]
    block: Callable[[Indices, Indices], Floats]
    error: Callable[[Floats], float]


class StoredAtoms:
    """Atoms whose values on all rows are stored, as an n_atoms x n_rows matrix, dense or sparse."""

    def __init__(self, values: Any, y: Floats, weights: Floats, workers: Workers) -> None:
        self._values, self._y, self._weights, self._workers = values, y, weights, workers

    @classmethod
    def of_kernel(
        cls, sample: Sample, kernel: Kernel, points: Any, workers: Workers
    ) -> StoredAtoms:
        """The kernel functions at some points."""
        columns = kernel.columns(points)
        values = np.empty((columns.n_columns, sample.n_rows))
        for start, items in sample.rows.blocks():

            def fill(span: slice, start: int = start, items: Any = items) -> None:
                values[:, start + span.start : start + span.stop] = columns(items[span]).T

            workers.map(fill, Workers.slices(len_items(items), _CHUNK_ROWS))
        return cls(values, sample.targets[:, 0], sample.weights, workers)

    @classmethod
    def of_features(cls, Z: Any, y: Floats, weights: Floats, workers: Workers) -> StoredAtoms:
        """The columns of a matrix, dense or CSR; each becomes contiguous in memory."""
        if _is_sparse(Z):
            return cls(Z.T.tocsr(), y, weights, workers)
        return cls(np.ascontiguousarray(Z.T), y, weights, workers)

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return int(self._values.shape[0])

    def columns(self, atoms: Indices) -> Floats:
        """Values of some atoms on the rows, shape (n_rows, n)."""
        return self._rows(atoms).T

    def predicted(self, coefficients: Floats) -> Floats:
        """Σ_j w_j p_j on the rows."""
        used = np.flatnonzero(coefficients)
        return np.asarray(self._rows(used).T @ coefficients[used])

    def prices(self, dual: Floats) -> Floats:
        """Σ_i μ_i p_j(x_i) for every atom j; panels do not depend on the number of threads."""
        if _is_sparse(self._values):
            return np.asarray(self._values @ dual)
        return self._panels(lambda rows: rows @ dual)

    def size_of_predicted(self, coefficients: Floats) -> Floats:
        """Σ_j |w_j p_j| on the rows."""
        used = np.flatnonzero(coefficients)
        return np.asarray(np.abs(self._rows(used)).T @ np.abs(coefficients[used]))

    def size_of_prices(self, dual: Floats) -> Floats:
        """Σ_i |μ_i p_j(x_i)| for every atom j."""
        if _is_sparse(self._values):
            return np.asarray(abs(self._values) @ np.abs(dual))
        return self._panels(lambda rows: np.abs(rows) @ np.abs(dual))

    def sums(self) -> AtomSums:
        """Sums over all rows."""
        return self._weighted(self._weights)

    def split(self, train: Indices, test: Indices) -> tuple[AtomSums, AtomSums]:
        """Sums over the rows of each part; the rows of the other part get weight 0."""
        weights = np.zeros((2, len(self._weights)))
        for part, rows in zip(weights, (train, test), strict=True):
            part[rows] = self._weights[rows]
        return self._weighted(weights[0]), self._weighted(weights[1])

    def _weighted(self, weights: Floats) -> AtomSums:
        A, y, w = self._values, self._y, weights / weights.sum()
        if _is_sparse(A):
            diagonal = np.asarray(A.multiply(A) @ w)
        else:
            diagonal = self._panels(lambda rows: np.einsum("ij,ij,j->i", rows, rows, w))

        def image(coefficients: Floats) -> Floats:
            return self.prices(w * self.predicted(coefficients))

        def block(left: Indices, right: Indices) -> Floats:
            weighted = (self._rows(right) * w).T
            slices = Workers.slices(len(left), _PANEL)
            parts = self._workers.map(lambda span: self._rows(left[span]) @ weighted, slices)
            return np.concatenate(parts)

        def error(coefficients: Floats) -> float:
            return float(w @ (y - self.predicted(coefficients)) ** 2)

        return AtomSums(self.prices(w * y), diagonal, float(w @ y**2), image, block, error)

    def _rows(self, atoms: Indices) -> Floats:
        values = self._values[atoms]
        return np.asarray(values.toarray() if _is_sparse(values) else values)

    def _panels(self, task: Callable[[Floats], Floats]) -> Floats:
        A = self._values
        slices = Workers.slices(len(A), _PANEL)
        return np.concatenate(self._workers.map(lambda panel: task(A[panel]), slices))


class GramAtoms:
    """Kernel functions whose values on all rows are too many to store: a pass gives their sums."""

    def __init__(
        self, sample: Sample, kernel: Kernel, points: Any, n_atoms: int, workers: Workers
    ) -> None:
        self._sample, self._kernel = sample, kernel
        self._points, self._workers = points, workers
        self.n_atoms = n_atoms

    @cached_property
    def _total(self) -> GramStatistics:
        return self._statistics(self._sample)

    def columns(self, atoms: Indices) -> Floats:
        """Values of some atoms on the rows, shape (n_rows, n), by a pass."""
        points, at = self._used(atoms)
        return kernel_features(self._sample.rows, self._kernel, points, self._workers)[:, at]

    def predicted(self, coefficients: Floats) -> Floats:
        """Σ_j w_j p_j on the rows, by a pass."""
        used = np.flatnonzero(coefficients)
        if not len(used):
            return np.zeros(self._sample.n_rows)
        points, at = self._used(used)
        n_kernels = self.n_atoms // len_items(self._points)
        factors = np.zeros((n_kernels * len_items(points), 1))
        factors[at, 0] = coefficients[used]
        return kernel_times(self._sample.rows, self._kernel, points, factors, self._workers)[:, 0]

    def prices(self, dual: Floats) -> Floats:
        """Σ_i μ_i p_j(x_i) for every atom j, by a pass."""
        return kernel_transpose_times(
            self._sample.rows, self._kernel, self._points, dual[:, None], self._workers
        )[:, 0]

    def _used(self, atoms: Indices) -> tuple[Any, Indices]:
        """Points of some atoms, and the numbers of the atoms among all kernels at these points."""
        n_points = len_items(self._points)
        which, at = np.unique(atoms % n_points, return_inverse=True)
        return take_items(self._points, which), (atoms // n_points) * len(which) + at

    def _statistics(self, sample: Sample) -> GramStatistics:
        return gram_statistics(sample, self._kernel, self._points, workers=self._workers)

    def sums(self) -> AtomSums:
        """Sums over all rows."""
        return _gram_sums(self._total)

    def split(self, train: Indices, test: Indices) -> tuple[AtomSums, AtomSums]:
        """Sums over the rows of each part: a pass over the test rows, the rest by subtraction."""
        held_out = self._statistics(self._sample.take(test))
        if len(train) + len(test) < self._sample.n_rows:
            kept = self._statistics(self._sample.take(train))
        else:
            total = self._total
            kept = GramStatistics(
                total.gram - held_out.gram,
                total.cross - held_out.cross,
                total.target_norms - held_out.target_norms,
                total.trace - held_out.trace,
                total.weight - held_out.weight,
                total.n_rows - held_out.n_rows,
            )
        return _gram_sums(kept), _gram_sums(held_out)


def _gram_sums(statistics: GramStatistics) -> AtomSums:
    G, b = statistics.gram / statistics.weight, statistics.cross[:, 0] / statistics.weight
    square = float(statistics.target_norms[0] / statistics.weight)

    def image(coefficients: Floats) -> Floats:
        used = np.flatnonzero(coefficients)
        return coefficients[used] @ G[used]

    def block(left: Indices, right: Indices) -> Floats:
        return G[np.ix_(left, right)]

    def error(coefficients: Floats) -> float:
        difference = float(coefficients @ (image(coefficients) - 2.0 * b))
        return max(square + difference, 0.0)

    return AtomSums(b, np.diag(G).copy(), square, image, block, error)


def _is_sparse(X: Any) -> bool:
    return bool(sparse.issparse(X))


AtomSource = StoredAtoms | GramAtoms


def kernel_source(
    sample: Sample, kernel: CountingKernel, points: Any, n_kernels: int, workers: Workers
) -> AtomSource:
    """The kernel functions at some points: stored values where they fit, else their sums."""
    n_atoms = n_kernels * len_items(points)
    if sample.n_rows * n_atoms <= STORED_ENTRIES:
        return StoredAtoms.of_kernel(sample, kernel, points, workers)
    return GramAtoms(sample, kernel, points, n_atoms, workers)


class FeatureAccuracy:
    """Rounding of sums over given features, whose values are exact."""

    def __init__(self, source: StoredAtoms) -> None:
        self._source = source

    def predicted(self, value: Floats, coefficients: Floats) -> Rounded:
        """Σ_j w_j p_j on the rows, as computed, with its error."""
        size = self._source.size_of_predicted(coefficients)
        return Rounded.of(value).widened(gamma(int(np.count_nonzero(coefficients)) + 8) * size)

    def prices(self, value: Floats, dual: Floats) -> Rounded:
        """Σ_i μ_i p_j(x_i) for every atom j, as computed, with its error."""
        size = self._source.size_of_prices(dual)
        return Rounded.of(value).widened(gamma(len(dual) + 8) * size)


class KernelAccuracy:
    """Rounding of sums of kernel functions, of one kernel or of several.

    Attributes
    ----------
    known : list of RowArithmetic
        One per kernel.
    points : list of arrays
        √k(z, z) at the centres, one array per kernel.
    """

    def __init__(self, sample: Sample, kernel: CountingKernel, points: Any, workers: Workers):
        inner = kernel.kernel
        kernels = inner.kernels if isinstance(inner, StackedKernel) else [kernel]
        self.known, self.points = [], []
        for each in kernels:
            rows = RowArithmetic.of(sample.rows, each, workers)
            self.known.append(replace(rows, extent=rows.extent.joined(Extent.of(points))))
            self.points.append(sizes(each.diag(points)))

    def predicted(self, value: Floats, coefficients: Floats) -> Rounded:
        """Σ_j w_j p_j on the rows, as computed, with its error."""
        error, n = np.zeros(len(value)), int(np.count_nonzero(coefficients))
        parts = np.split(coefficients, len(self.known))
        for known, reach, w in zip(self.known, self.points, parts, strict=True):
            if w.any():
                error = error + known.error.of_terms(n) * known.sizes * weight(reach, w)
        return Rounded.of(value).widened(error)

    def prices(self, value: Floats, dual: Floats) -> Rounded:
        """Σ_i μ_i p_j(x_i) for every atom j, as computed, with its error.

        The atoms are those at the centres, or, for an array of shape (n_kernels, n_rows), those at
        all rows.
        """
        reaches = self.points if value.ndim == 1 else [known.sizes for known in self.known]
        errors = [
            known.error.of_terms(2 * len(dual)) * reach * weight(known.sizes, dual)
            for known, reach in zip(self.known, reaches, strict=True)
        ]
        return Rounded.of(value).widened(np.concatenate(errors).reshape(value.shape))


AtomAccuracy = FeatureAccuracy | KernelAccuracy
