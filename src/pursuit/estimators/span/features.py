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
from pursuit.gram import kernel_features
from pursuit.gram.arithmetic import RowArithmetic
from pursuit.greedy import CostMeter, Pool, Problem, kernel_matrix
from pursuit.kernels import CountingKernel, Kernel
from pursuit.linalg import NotPositiveDefiniteError, Workers, invert_lower, robust_cholesky
from pursuit.rounding import Rounded, dots, gamma, weight
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
            stored = np.empty((self.n_rows, self.n + 1), dtype=self.dtype)
            stored[:, self.n] = 1.0
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

    @property
    def trivial(self) -> float:
        """What the minimum cannot be below; -∞ where nothing is known."""
        ...

    @property
    def remedy(self) -> str:
        """What to do where rounding leaves nothing to say."""
        ...

    def value(self, values: Any, squared_norms: Any, shifts: Any = 0.0) -> Rounded:
        """P for each column, from f at the rows, ‖f‖², and constants that are added to f."""
        ...

    def zero_value(self) -> Floats:
        """P without a function: of f = 0, or of a constant."""
        ...

    def feasible(self, a: Floats) -> Floats:
        """A dual point made feasible, exactly; NaN where that is not possible."""
        ...

    def lower_bound(self, a: Floats, quadratic: Rounded) -> Rounded:
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


@dataclass(frozen=True)
class StoredFunction:
    """f + b as a model keeps it, evaluated at all rows.

    Attributes
    ----------
    values : Rounded of shape (n_rows, n_outputs)
        f at the rows.
    shifts : array of shape (n_outputs,)
        b.
    squared_norms : Rounded of shape (n_outputs,)
        ‖f‖².
    arithmetic : RowArithmetic
        That of the rows.
    """

    values: Rounded
    shifts: Floats
    squared_norms: Rounded
    arithmetic: RowArithmetic

    @property
    def fitted(self) -> Rounded:
        """f + b at the rows."""
        return self.values + self.shifts

    @classmethod
    def of(
        cls,
        points: Any,
        coefficients: Floats,
        shifts: Floats,
        rows: RowSource,
        kernel: CountingKernel,
        workers: Workers,
        meter: CostMeter | None = None,
    ) -> StoredFunction:
        """Σ_j β_j k(·, z_j) + b, by a pass over the rows."""
        arithmetic = RowArithmetic.of(rows, kernel, workers)
        n, n_outputs = coefficients.shape
        values = Rounded.of(np.zeros((rows.n_rows, n_outputs)))
        norms = Rounded.of(np.zeros(n_outputs))
        if n:
            items = arithmetic.among(points)
            values = arithmetic.times(items, coefficients)
            norms = items.squared_norms(coefficients)
            if meter is not None:
                meter.passes += 1
        return cls(values, shifts, norms, arithmetic)


def exact_certificate(
    problem: DualProblem,
    function: StoredFunction,
    dual: Floats,
    meter: CostMeter | None = None,
) -> tuple[Certificate, DualPass]:
    """The certificate of a function from a dual point, by :func:`exact_lower_bound`."""
    lower, product = exact_lower_bound(problem, function.arithmetic, dual, meter)
    return proved(problem, function, lower, EXACT_PASS), product


EXACT_PASS = "exact pass"


def exact_lower_bound(
    problem: DualProblem,
    known: RowArithmetic,
    dual: Floats,
    meter: CostMeter | None = None,
) -> tuple[Rounded, DualPass]:
    """One product of the full kernel matrix of the support vectors with the dual point.

    O(n_support²) kernel entries, O(n_support) memory, always in float64.
    """
    a = problem.feasible(dual)
    support = np.flatnonzero((a != 0).any(axis=1))
    product = known.restricted(held(known.rows, support), support).product(a[support])
    if meter is not None:
        meter.passes += len(support) / max(known.rows.n_rows, 1)
    lower = problem.lower_bound(a, dots(a[support], product))
    return lower, DualPass(support, a[support], product.value)


def diagonal_certificate(
    problem: DualProblem,
    function: StoredFunction,
    dual: Floats,
    span: Span,
    features: SpanFeatures,
) -> Certificate | None:
    """From a'Ka ≤ ‖V'a‖² + (Σ|a|√d)², d = k(x, x) - ‖V_x‖²: no kernel entry beyond the diagonal.

    None where it leaves open more than half of the model's value.
    """
    a = problem.feasible(dual)
    workers = function.arithmetic.workers
    inner = np.zeros((features.n, problem.n_outputs))
    blocks = Workers.slices(features.n_rows, 1024)
    for part in workers.map(lambda r: features.span_only(r).T.astype(float) @ a[r], blocks):
        inner += part
    accuracy = FeatureAccuracy.of(span, features.dtype, function.arithmetic)
    if accuracy is None:
        return None
    lengths = np.sqrt(features.squares(workers))
    quadratic = diagonal_quadratic(
        accuracy.outer_squares(inner, a, lengths), a, accuracy.missed(lengths)
    )
    lower = problem.lower_bound(a, Rounded.of(quadratic))
    found = proved(problem, function, lower, "diagonal")
    return found if found.gap <= 0.5 * abs(found.upper) else None


@dataclass(frozen=True)
class FeatureAccuracy:
    """What features V_x = Wk_S(x), as computed and stored, say of exact ones.

    With W as it is stored and η ≥ ‖WK_SSW' - 1‖, K_SS⁻¹ lies between W'W/(1 + η) and W'W/(1 - η).
    Entries of Wk_S(x) are wrong by (ε + γ)s(x)(|W|s)_j, ε being the kernel's share: ρ = ‖|W|s‖
    times (ε + γ)s(x) in all. Storage adds a share of ‖V_x‖.

    Attributes
    ----------
    arithmetic : RowArithmetic
        That of the rows.
    n : int
        Number of features.
    moved, eta, stored : float
        (ε + γ)ρ, η, and the share of storage.
    """

    arithmetic: RowArithmetic
    n: int
    moved: float
    eta: float
    stored: float

    @classmethod
    def of(cls, span: Span, dtype: DTypeLike, arithmetic: RowArithmetic) -> FeatureAccuracy | None:
        """None where W is too far from an inverse to say anything."""
        stored = float(np.finfo(dtype).eps)
        if not len(span):
            return cls(arithmetic, 0, 0.0, 0.0, stored)
        W, items = span.whitener, arithmetic.among(span.pool.items)
        reaches = np.abs(W) @ items.sizes
        reach = float(np.linalg.norm(reaches)) * (1.0 + gamma(2 * len(W) + 8))
        rate = 2.0 * items.error.of_terms(len(W))
        gram = W @ items.K @ W.T
        gram[np.diag_indices_from(gram)] -= 1.0
        eta = 1.01 * float(np.linalg.norm(gram)) + rate * reach**2
        return cls(arithmetic, len(W), rate * reach, eta, stored) if eta <= 0.5 else None

    def outer_squares(self, inner: Floats, a: Floats, lengths: Floats) -> Floats:
        """q'K_SS⁻¹q or more for q = K_Sx a, from V'a as computed and ‖V_x‖."""
        storage = self.stored + gamma(len(a) + 8)
        length = np.linalg.norm(inner, axis=0) + storage * weight(lengths, a)
        length = length + self.moved * weight(self.arithmetic.sizes, a)
        return np.asarray(length**2 * ((1.0 + gamma(self.n + 16)) / (1.0 - self.eta)))

    def missed(self, lengths: Floats) -> Floats:
        """k(x, x) - k_S(x)'K_SS⁻¹k_S(x) or more for every row, from ‖V_x‖."""
        share = self.arithmetic.error.share + gamma(16)
        known = self.arithmetic
        diagonal = np.concatenate([known.kernel.diag(items) for _, items in known.rows.blocks()])
        least = (1.0 - self.stored - gamma(self.n + 16)) * lengths
        inside = np.maximum(least - self.moved * known.sizes, 0.0) ** 2 / (1.0 + self.eta)
        return np.asarray(diagonal * (1.0 + 2.0 * share) - inside * (1.0 - gamma(16)))


def proved(
    problem: DualProblem,
    function: StoredFunction,
    lower: Rounded,
    kind: str,
    minimum_upper: Rounded | None = None,
) -> Certificate:
    """The certificate of a function from a lower bound, in the words of its problem."""
    return Certificate.proved(
        problem.value(function.values, function.squared_norms, function.shifts),
        lower,
        2.0 * problem.zero_value(),
        kind,
        minimum_upper=minimum_upper,
        trivial=problem.trivial,
        over=problem.over,
        reference=problem.reference,
        baseline=problem.baseline,
        remedy=problem.remedy,
    )


def held(rows: RowSource, index: Indices) -> RowSource:
    """Copy rows that will be read many times into memory."""
    items = rows.take(index)
    numbered = isinstance(items, np.ndarray) and items.ndim == 1
    return SelectedRows(rows, index) if numbered else as_rows(items)
