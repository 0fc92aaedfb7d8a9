"""A span as features of the rows, and certificates of convex losses from dual points."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate, diagonal_quadratic
from pursuit.gram import kernel_features, kernel_product
from pursuit.greedy import CostMeter, Pool, Problem, kernel_matrix
from pursuit.kernels import CountingKernel, Kernel
from pursuit.linalg import NotPositiveDefiniteError, Workers, invert_lower, robust_cholesky
from pursuit.rows import RowSource, SelectedRows, as_rows, len_items

STORED_BYTES = 1 << 30
"""Features of at most this size are kept in memory."""
_DOUBLE_BYTES = 1 << 27
"""Features of at most this size are kept in float64 where the user leaves the choice open."""


@dataclass(frozen=True)
class Span:
    """Basis functions that are independent to working precision, and R⁻¹ of K_SS = RR'."""

    pool: Pool
    whitener: Floats

    @classmethod
    def of(cls, pool: Pool, problem: Problem) -> Span:
        """Leave out points that depend on earlier ones."""
        K = kernel_matrix(problem.kernel, pool.items, problem.workers)
        try:
            R, kept = robust_cholesky(K, rounding=problem.kernel.rounding)
        except NotPositiveDefiniteError as error:
            raise NotPositiveDefiniteError(int(pool.index[error.index]), error.pivot) from error
        return cls(pool.take(kept), invert_lower(R))

    def __len__(self) -> int:
        return len(self.whitener)

    def coefficients(self, coordinates: Floats) -> Floats:
        """β = R⁻ᵀu: on the kernel functions, from coordinates on the orthonormal ones."""
        return np.asarray(self.whitener.T @ coordinates)


class SpanFeatures:
    """[V, 1] for slices of rows: stored, or computed whenever it is asked for.

    Parameters
    ----------
    rows : RowSource
        m rows.
    kernel : Kernel
        k.
    span : Span
        n basis functions.
    workers : Workers
        Threads.
    dtype : "auto", float32 or float64
        Type of V; ``"auto"`` is float64 up to 128 MB, float32 beyond.
    stored_bytes : int
        Most that is stored.
    """

    def __init__(
        self,
        rows: RowSource,
        kernel: Kernel,
        span: Span,
        workers: Workers,
        dtype: Any = "auto",
        stored_bytes: int = STORED_BYTES,
    ) -> None:
        self.n_rows, self.n = rows.n_rows, len(span)
        numbers = self.n_rows * (self.n + 1)
        self.dtype: DTypeLike = dtype
        if isinstance(dtype, str) and dtype == "auto":
            self.dtype = np.float64 if 8 * numbers <= _DOUBLE_BYTES else np.float32
        self._rows, self._whitener = rows, span.whitener
        self._columns = kernel.columns(span.pool.items) if self.n else None
        self.stored: NDArray[Any] | None = None
        if np.dtype(self.dtype).itemsize * numbers <= stored_bytes:
            stored = np.ones((self.n_rows, self.n + 1), dtype=self.dtype)
            if self.n:
                kernel_features(
                    rows,
                    kernel,
                    span.pool.items,
                    workers,
                    whitener=span.whitener,
                    out=stored[:, : self.n],
                )
            self.stored = stored

    def __call__(self, rows: slice) -> NDArray[Any]:
        """[V, 1] of some rows."""
        if self.stored is not None:
            return self.stored[rows]
        return self._computed(np.arange(rows.start, rows.stop))

    def _computed(self, rows: Indices) -> NDArray[Any]:
        items = self._rows.take(rows)
        features = np.ones((len_items(items), self.n + 1), dtype=self.dtype)
        if self._columns is not None:
            features[:, : self.n] = self._columns(items) @ self._whitener.T
        return features

    def span_only(self, rows: slice) -> NDArray[Any]:
        """V of some rows."""
        return self(rows)[:, : self.n]

    def span_rows(self, rows: Indices) -> NDArray[Any] | Callable[[slice], NDArray[Any]]:
        """V of these rows, increasing: an array where it is stored, else for slices of them."""
        everything = len(rows) == self.n_rows
        if self.stored is not None:
            V = self.stored[:, : self.n]
            return V if everything else V[rows]
        if everything:
            return self.span_only
        return lambda some: self._computed(rows[some])[:, : self.n]

    def take(self, rows: Indices) -> SpanFeatures:
        """The features of some of the rows, stored if those of all rows are."""
        part = copy.copy(self)
        part.n_rows, part._rows = len(rows), SelectedRows(self._rows, rows)
        part.stored = None if self.stored is None else self.stored[rows]
        return part

    def squares(self, workers: Workers) -> Floats:
        """‖V_i‖² for every row."""

        def part(rows: slice) -> Floats:
            V = self.span_only(rows).astype(np.float64, copy=False)
            return np.asarray(np.einsum("ij,ij->i", V, V))

        return np.concatenate(workers.map(part, Workers.slices(self.n_rows, 1024)))


@dataclass(frozen=True)
class SpanFunction:
    """The best function in a span for a convex loss, each column by itself.

    Attributes
    ----------
    coordinates : array of shape (n, n_outputs)
        u, on the orthonormal functions of the span: ‖f‖² = ‖u‖².
    intercepts : array of shape (n_outputs,)
        b.
    fitted : array of shape (n_rows, n_outputs)
        f + b at the rows.
    dual : array of shape (n_rows, n_outputs)
        a of the dual problem with VV' in place of K; 0 where a row does not matter.
    steps : int
        Number of steps of the solver, the largest of all columns.
    converged : bool
        Whether the solver met its tolerance.
    """

    coordinates: Floats
    intercepts: Floats
    fitted: Floats
    dual: Floats
    steps: int
    converged: bool

    @property
    def squared_norms(self) -> Floats:
        """‖f‖² per column."""
        norms: Floats = (self.coordinates**2).sum(axis=0)
        return norms


class DualProblem(Protocol):
    """A convex problem, each column by itself, whose dual sees the kernel in a'Ka alone."""

    @property
    def n_outputs(self) -> int:
        """Number of columns."""
        ...

    @property
    def over(self) -> str:
        """What the minimum is taken over, in words."""
        ...

    @property
    def reference(self) -> str:
        """The model of the minimum, in words."""
        ...

    @property
    def baseline(self) -> str:
        """The model of :meth:`zero_value`, in words."""
        ...

    def value(self, fitted: Floats, squared_norms: Floats) -> Floats:
        """P for each column, from values at the rows and ‖f‖²."""
        ...

    def zero_value(self) -> Floats:
        """P without a function: of f = 0, or of a constant."""
        ...

    def feasible(self, a: Floats) -> Floats:
        """A dual point made feasible."""
        ...

    def lower_bound(self, a: Floats, quadratic: Floats) -> Floats:
        """A bound on the minimum from a feasible a, and from a'Ka or an upper bound of it."""
        ...


@dataclass(frozen=True)
class DualPass:
    """A feasible dual point on its support, and what the full kernel makes of it.

    Attributes
    ----------
    support : array of int
        Rows where a is not zero in some column.
    dual, product : arrays of shape (n_support, n_outputs)
        a and Ka there.
    """

    support: Indices
    dual: Floats
    product: Floats


def exact_certificate(
    problem: DualProblem,
    fitted: Floats,
    squared_norms: Floats,
    dual: Floats,
    rows: RowSource,
    kernel: CountingKernel,
    workers: Workers,
    meter: CostMeter | None = None,
) -> tuple[Certificate, DualPass]:
    """One product of the full kernel matrix of the support vectors with the dual point.

    O(n_support²) kernel entries, O(n_support) memory, always in float64.
    """
    a = problem.feasible(dual)
    support = np.flatnonzero(a.any(axis=1))
    product = kernel_product(held(rows, support), kernel, a[support], workers)
    if meter is not None:
        meter.passes += len(support) / max(rows.n_rows, 1)
    lower = problem.lower_bound(a, np.einsum("io,io->o", a[support], product))
    found = _certificate(problem, fitted, squared_norms, lower, "exact pass")
    return found, DualPass(support, a[support], product)


def diagonal_certificate(
    problem: DualProblem,
    fitted: Floats,
    squared_norms: Floats,
    dual: Floats,
    features: SpanFeatures,
    diagonal: Floats,
    workers: Workers,
) -> Certificate | None:
    """From a'Ka ≤ ‖V'a‖² + (Σ|a|√d)², d = k(x, x) - ‖V_x‖²: no kernel entry beyond the diagonal.

    Entries of V are stored with a relative error u, so ‖V'a‖ may be uΣ|a|‖V_x‖ more than it seems,
    and ‖V_x‖² 2u‖V_x‖² less. None where it leaves open whether the minimum is half of what the
    model has.
    """
    a = problem.feasible(dual)
    inner = np.zeros((features.n, problem.n_outputs))
    blocks = Workers.slices(features.n_rows, 1024)
    for part in workers.map(lambda r: features.span_only(r).T.astype(float) @ a[r], blocks):
        inner += part
    squares, roundoff = features.squares(workers), float(np.finfo(features.dtype).eps)
    lengths = np.linalg.norm(inner, axis=0) + roundoff * (np.sqrt(squares) @ np.abs(a))
    residual = diagonal - (1.0 - 2.0 * roundoff) * squares
    quadratic = diagonal_quadratic(lengths**2, a, residual)
    lower = problem.lower_bound(a, quadratic)
    found = _certificate(problem, fitted, squared_norms, lower, "diagonal")
    return found if found.lower >= 0.5 * found.upper else None


def _certificate(
    problem: DualProblem, fitted: Floats, squared_norms: Floats, lower: Floats, kind: str
) -> Certificate:
    upper = problem.value(fitted, squared_norms)
    return Certificate(
        upper,
        lower,
        2.0 * problem.zero_value(),
        kind,
        over=problem.over,
        reference=problem.reference,
        baseline=problem.baseline,
    )


def held(rows: RowSource, index: Indices) -> RowSource:
    """Copy rows that will be read many times into memory."""
    items = rows.take(index)
    numbered = isinstance(items, np.ndarray) and items.ndim == 1
    return SelectedRows(rows, index) if numbered else as_rows(items)
