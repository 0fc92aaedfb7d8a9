"""The linear system of the exact process, solved directly or by certified iterations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate
from pursuit.gram import (
    ItemArithmetic,
    RowArithmetic,
    kernel_diagonal,
    kernel_features,
    kernel_product,
    summed_terms,
)
from pursuit.greedy import Path, Problem, block_pivots, kernel_matrix
from pursuit.kernels import Extent
from pursuit.linalg import (
    EPS,
    INDEFINITE,
    Iterate,
    LowRankPlusDiagonal,
    NotPositiveDefiniteError,
    Refined,
    Workers,
    column_dots,
    invert_lower,
    refined_gradients,
    single_threaded_blas,
)
from pursuit.rounding import UNIT, KernelError, Rounded, dots, gamma, weight
from pursuit.rows import draw_rows, len_items

_SINGLE_CAUTION = 16.0
"""Products in float32 round by several units in the last place: a matrix of them is not indefinite
if landmarks beyond its rank find negative residuals of that size."""


class SolveRecorder:
    """Watches the iterates of B x = b, B = W^½KW^½ + σ²I and b = W^½y (see `ExactSystem`).

    The energies of looks must be bounds on ρ'B⁻¹ρ. What they prove of the minimum holds for every
    later iterate, so those in between need no bound of their own.
    """

    def __init__(self, system: SystemArithmetic, rhs: Floats, kind: str) -> None:
        self.system, self.problem, self.rhs, self.kind = system, system.problem, rhs, kind
        self.squares = column_dots(rhs, rhs)
        zero = Rounded.of(rhs).widened(4.0 * UNIT * np.abs(rhs))
        self.upper = self.minimum_upper = 0.5 * dots(zero, zero)
        self.lower = Rounded.of(np.zeros_like(self.squares))
        self.relative = np.zeros_like(self.squares)
        self.entries: list[tuple[int, float, Certificate, bool, float, int, float]] = []

    def watch(self, now: Iterate) -> None:
        """Add an entry, or replace that of rough products by that of exact ones."""
        c, noise = now.columns, self.problem.noise
        error = self.system.residual_error(self.rhs[:, c], now.v)
        residual = Rounded(now.residual, error)
        rhs = Rounded(self.rhs[:, c], error)
        dual = 0.5 * noise * dots(rhs + residual, now.v)
        self.lower = _replaced(self.lower, c, dual)
        self.upper = _replaced(self.upper, c, dual + 0.5 * dots(residual, residual))
        if now.look:
            # The energy is that of the residual as computed.
            energy = (np.sqrt(now.energy) + np.linalg.norm(error, axis=0) / np.sqrt(noise)) ** 2
            least = dual + Rounded.of(0.5 * noise * energy * (1.0 + gamma(self.rhs.shape[0] + 8)))
            better = least.high < self.minimum_upper.high[c]
            some = self.minimum_upper[c]
            least = Rounded(
                np.where(better, least.value, some.value), np.where(better, least.error, some.error)
            )
            self.minimum_upper = _replaced(self.minimum_upper, c, least)
        squares = column_dots(now.residual, now.residual)
        norms = np.where(self.squares[c] > 0, self.squares[c], 1.0)
        self.relative[c] = np.sqrt(squares / norms)
        certificate = Certificate.proved(
            self.upper,
            self.lower,
            self.squares,
            self.kind,
            minimum_upper=self.minimum_upper,
            remedy=f"a noise of {noise:.3g} is below what float64 resolves for this kernel and "
            "these rows: raise the noise, centre the features or lengthen the scales",
        )
        if self.entries and self.entries[-1][0] == now.step:
            self.entries.pop()
        worst = float(self.relative.max(initial=0.0))
        spent = self.problem.meter
        cost = spent.seconds, spent.entries, spent.passes
        self.entries.append((now.step, worst, certificate, now.exact, *cost))

    def path(self, stop_reason: str) -> Path:
        """The finished path."""
        steps, residuals, certificates, exact, *costs = zip(*self.entries, strict=True)
        seconds, entries, passes = costs
        return Path(
            index=np.full(len(steps), -1),
            value=np.array([one.upper for one in certificates]),
            gap=np.array([one.relative_gap for one in certificates]),
            seconds=np.array(seconds),
            entries=np.array(entries, dtype=np.int64),
            passes=np.array(passes),
            stop_reason=stop_reason,
            lower=np.array([one.lower for one in certificates]),
            iterations=np.array(steps, dtype=np.intp),
            residual=np.array(residuals),
            certificates=list(certificates),
            certified=np.array(exact, dtype=bool),
        )


def _replaced(values: Rounded, at: Indices, by: Rounded) -> Rounded:
    changed = Rounded(values.value.copy(), values.error.copy())
    changed.value[at], changed.error[at] = by.value, by.error
    return changed


@dataclass(frozen=True)
class SystemArithmetic:
    """How far the computed numbers of B x = b are from exact ones.

    Attributes
    ----------
    problem : Problem
        Rows, weights, kernel and noise.
    rows : RowArithmetic
        Products with the rows.
    """

    problem: Problem
    rows: RowArithmetic

    @classmethod
    def of(cls, problem: Problem) -> SystemArithmetic:
        """Look at the rows once."""
        rows = RowArithmetic.of(problem.sample.rows, problem.kernel, problem.workers)
        return cls(problem, rows)

    def residual_error(self, rhs: Floats, x: Floats) -> Floats:
        """A bound on the error of b - Bx, and of b = W^½y itself, entry by entry."""
        root = system_root(self.problem)
        sizes = root * self.rows.sizes[:, None]
        terms = self.rows.error.of_terms(summed_terms(self.rows.rows.n_rows) + 8)
        moved = terms * sizes * weight(sizes[:, 0], x)
        return np.asarray(moved + gamma(8) * (np.abs(rhs) + self.problem.noise * np.abs(x)))

    def form_error(self, directions: Floats) -> Floats:
        """A bound on the error of d'Bd per column; kernels without a bound are taken as exact."""
        error, m = self.rows.error, self.rows.rows.n_rows
        known = error if np.isfinite(error.share) else KernelError(0.0)
        sizes = system_root(self.problem)[:, 0] * self.rows.sizes
        rounded = known.of_terms(summed_terms(m) + m + 8) * weight(sizes, directions) ** 2
        noisy = self.problem.noise * column_dots(directions, directions)
        return np.asarray(rounded + gamma(m + 8) * noisy)


_BUDGET = 1 << 27
"""Numbers of V in float32 (512 MB) that the preconditioner may hold."""

_DOUBLE_NUMBERS = 1 << 24
"""V is float64 up to this many numbers, which is better where the noise is low, else float32."""

_SINGLE_SHARE = 0.02
"""Where rounding in float32 moves M by less than this share, V is whitened and multiplied in
float32, in half the time. A larger share saves time at lower noise, and costs iterations there."""

_LANDMARKS_PER_ROOT = 11.5
_SKETCH = 4
"""Rows on which the landmarks are chosen, for each of them."""

_INVERSE_COLUMNS = 256
"""Columns of an inverse that are held at once."""

_QUERY_NUMBERS = 1 << 23
"""Numbers in each of the few arrays (64 MB) that a batch of new points needs."""


@dataclass(frozen=True)
class Accuracy:
    """How far bounds on what is explained of variances may be apart.

    Attributes
    ----------
    prior : array of shape (n_columns,)
        The variances.
    tol, offset : float
        ``tol`` times what is left of a variance plus ``offset`` is allowed.
    max_iter : int
        Iterations after which more is allowed.
    """

    prior: Floats
    tol: float
    offset: float
    max_iter: int

    def reached(self, columns: Indices, least: Floats, above: Floats) -> NDArray[np.bool_]:
        """Whether ``least`` and ``least + above`` are close enough for some of the columns."""
        left = np.maximum(self.prior[columns] - least - above, 0.0)
        return np.asarray(above <= self.tol * (left + self.offset))


def close_enough(kappa: Floats, wanted: Accuracy) -> Callable[[Iterate], NDArray[np.bool_]]:
    """Whether iterates for columns κ bound κ'B⁻¹κ as closely as wanted."""

    def done(now: Iterate) -> NDArray[np.bool_]:
        least = column_dots(kappa[:, now.columns] + now.residual, now.v)
        return wanted.reached(now.columns, least, now.energy)

    return done


class ExactSystem(Protocol):
    """A way to solve for all rows."""

    @property
    def problem(self) -> Problem:
        """Rows, kernel and noise."""
        ...

    def solve(
        self, tol: float, max_iter: int, stop: Callable[[], str | None]
    ) -> tuple[Floats, Path]:
        """Coefficients v ≈ (K + σ²W⁻¹)⁻¹y and how they were found."""
        ...

    def explained(
        self, kappa: Floats, wanted: Accuracy, unsure: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Lower and upper bounds on κ'B⁻¹κ = k'(K + σ²W⁻¹)⁻¹k for columns κ = W^½k.

        They are as close as ``wanted``, or closer. Entry i of κ may be wrong by ``unsure`` times
        √(w_i k(x_i, x_i)), one number per column.
        """
        ...

    def approximate(
        self, rhs: Floats, done: Callable[[Iterate], NDArray[np.bool_]], max_iter: int
    ) -> Refined:
        """x ≈ B⁻¹ρ for columns ρ, until ``done`` holds; the energies bound what is left.

        B = W^½KW^½ + σ²I. An energy is at least r'B⁻¹r for the residual r = ρ - Bx.
        """
        ...


@dataclass(frozen=True)
class IterativeSystem:
    """Preconditioned conjugate gradients; nothing of K is stored but V, its low-rank part.

    Attributes
    ----------
    problem : Problem
        Rows, kernel and noise.
    preconditioner : LowRankPlusDiagonal
        M = VV' + σ²I.
    landmarks : items
        x_S, with V = W^½k(rows, x_S)R⁻ᵀ.
    whitener : array of shape (n, n)
        R⁻¹.
    dtype : float64 or float32
        Type of the tiles between two looks at the float64 residual.
    """

    problem: Problem
    preconditioner: LowRankPlusDiagonal
    landmarks: Any
    whitener: Floats
    dtype: DTypeLike

    @cached_property
    def arithmetic(self) -> SystemArithmetic:
        """The rounding of products with the rows."""
        return SystemArithmetic.of(self.problem)

    @cached_property
    def _span(self) -> ItemArithmetic:
        return self.arithmetic.rows.among(self.landmarks)

    @classmethod
    def build(cls, problem: Problem, size: int | str, dtype: DTypeLike) -> IterativeSystem:
        """Build it with ``size`` landmarks, or as many as pay, chosen on some of the rows."""
        m = problem.sample.n_rows
        n = _landmarks(m) if size == "auto" else min(int(size), m)
        V, landmarks, whitener, working = _features(problem, n)
        # A kernel that is called or stored gives float64 whatever is asked for, and float32 holds
        # the sums of a product up to m max k(x, x) only.
        sums = m * float(kernel_diagonal(problem.sample.rows, problem.kernel).max(initial=0.0))
        if not (problem.kernel.positive_definite and sums < float(np.finfo(dtype).max)):
            dtype = np.float64
        M = LowRankPlusDiagonal(V, problem.noise, problem.workers, working)
        return cls(problem, M, landmarks, whitener, dtype)

    def solve(
        self, tol: float, max_iter: int, stop: Callable[[], str | None]
    ) -> tuple[Floats, Path]:
        """Coefficients v, and the path with a certificate at every iteration."""
        root = system_root(self.problem)
        rhs = root * self.problem.sample.targets
        recorder = SolveRecorder(self.arithmetic, rhs, "pcg")
        limit = tol * np.linalg.norm(rhs, axis=0)
        found = refined_gradients(
            self._exact,
            rhs,
            self.preconditioner.solve,
            lambda now: now.norms <= limit[now.columns],
            rough=self._rough,
            steps=max_iter,
            watch=recorder.watch,
            stop=stop,
            leftover=self._leftover,
            form_error=self.arithmetic.form_error,
        )
        return root * found.v, recorder.path(found.stop_reason)

    def explained(
        self, kappa: Floats, wanted: Accuracy, unsure: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Bounds on κ'B⁻¹κ."""
        found = self.approximate(kappa, close_enough(kappa, wanted), wanted.max_iter)
        error = self.arithmetic.residual_error(kappa, found.v)
        sizes = system_root(self.problem)[:, 0] * self.arithmetic.rows.sizes
        residual = Rounded(found.residual, error)
        return _enclosed(kappa, found.v, residual, found.energy, sizes, unsure, self.problem.noise)

    def approximate(
        self, rhs: Floats, done: Callable[[Iterate], NDArray[np.bool_]], max_iter: int
    ) -> Refined:
        """x ≈ B⁻¹ρ, with float64 residuals."""
        return refined_gradients(
            self._exact,
            rhs,
            self.preconditioner.solve,
            done,
            rough=self._rough,
            steps=max_iter,
            leftover=self._leftover,
            form_error=self.arithmetic.form_error,
        )

    def _leftover(self, residual: Floats) -> Floats:
        """At least ρ'B⁻¹ρ: (‖ρ - W^½g‖² + σ²‖g‖²)/σ² for the g that the preconditioner proposes.

        Small pivots make large coefficients β that nearly cancel: it is g as these coefficients
        have it, with bounds on the rounding of its values and its norm.
        """
        problem = self.problem
        if not self.preconditioner.rank:
            return (dots(residual, residual) / problem.noise).high
        beta = self.whitener.T @ self.preconditioner.coordinates(residual)
        values = self.arithmetic.rows.times(self._span, beta)
        problem.meter.passes += len(beta) / problem.sample.n_rows
        missed = residual - system_root(problem) * values
        bound = dots(missed, missed) / problem.noise + self._span.squared_norms(beta)
        return bound.high

    @property
    def _rough(self) -> Callable[[Floats], Floats] | None:
        if np.dtype(self.dtype) == np.float64:
            return None
        return lambda vectors: system_product(self.problem, vectors, self.dtype)

    def _exact(self, vectors: Floats) -> Floats:
        return system_product(self.problem, vectors)


@dataclass(frozen=True)
class DirectSystem:
    """B = LL' by Cholesky, in O(m²) memory.

    Attributes
    ----------
    problem : Problem
        Rows, kernel and noise.
    L : array of shape (m, m)
        Lower triangular.
    share : float
        How exact values of the kernel are (`Kernel.error`).
    """

    problem: Problem
    L: Floats
    share: float = 0.0

    @classmethod
    def build(cls, problem: Problem) -> DirectSystem:
        """Factor the matrix, or raise an error that names the row at fault."""
        items = problem.sample.rows.take(np.arange(problem.sample.n_rows))
        B = kernel_matrix(problem.kernel, items, problem.workers)
        problem.meter.passes += 1
        root = system_root(problem)
        B *= root
        B *= root.T
        scale = float(np.diag(B).max(initial=0.0))
        B[np.diag_indices_from(B)] += problem.noise
        L, info = dpotrf(B, lower=1, clean=1)
        if info > 0:
            half = solve_triangular(L[: info - 1, : info - 1], B[: info - 1, info - 1], lower=True)
            pivot = float(B[info - 1, info - 1] - half @ half)
            if pivot < -INDEFINITE * scale:
                raise NotPositiveDefiniteError(info - 1, pivot)
            raise ValueError(
                f"noise={problem.noise:g} is too small beside kernel values of up to {scale:g}: "
                "K + noise·I is singular to working precision. Raise noise."
            )
        return cls(problem, np.asarray(L), problem.kernel.error(Extent.of(items)))

    def solve(
        self, tol: float, max_iter: int, stop: Callable[[], str | None]
    ) -> tuple[Floats, Path]:
        """Coefficients v, improved once by the residual of the factors."""
        root = system_root(self.problem)
        rhs = root * self.problem.sample.targets
        found = self.approximate(rhs, lambda now: np.ones(len(now.columns), dtype=bool), max_iter)
        recorder = SolveRecorder(SystemArithmetic.of(self.problem), rhs, "cholesky")
        columns = np.arange(rhs.shape[1])
        recorder.watch(Iterate(columns, found.v, found.residual, found.energy, 0, True, look=True))
        return root * found.v, recorder.path("direct")

    def approximate(
        self, rhs: Floats, done: Callable[[Iterate], NDArray[np.bool_]], max_iter: int
    ) -> Refined:
        """B⁻¹ρ by the factors, improved once."""
        x = self._solve_factors(rhs)
        x += self._solve_factors(rhs - system_product(self.problem, x))
        residual = rhs - system_product(self.problem, x)
        energy = column_dots(residual, residual) / self.problem.noise
        return Refined(x, residual, energy, 1, "direct")

    def explained(
        self, kappa: Floats, wanted: Accuracy, unsure: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Bounds from x = (LL')⁻¹κ.

        LL' is B up to 2γ_m b_i b_j and the kernel's share, b_i² being the squares of L's rows.
        """
        x = self._solve_factors(kappa)
        residual = kappa - self.L @ (self.L.T @ x)
        sizes = np.sqrt(np.einsum("ij,ij->i", self.L, self.L)) * (1.0 + 1e-6)
        terms = KernelError(self.share).of_terms(4 * len(self.L) + 8)
        error = terms * np.multiply.outer(sizes, weight(sizes, x)) + gamma(8) * np.abs(kappa)
        energy = column_dots(residual, residual) / self.problem.noise
        known = Rounded(residual, error)
        return _enclosed(kappa, x, known, energy, sizes, unsure, self.problem.noise)

    def _solve_factors(self, rhs: Floats) -> Floats:
        half = solve_triangular(self.L, rhs, lower=True)
        solution: Floats = solve_triangular(self.L, half, lower=True, trans="T")
        return solution


def _enclosed(
    kappa: Floats,
    x: Floats,
    residual: Rounded,
    energy: Floats,
    sizes: Floats,
    unsure: Floats | None,
    noise: float,
) -> tuple[Floats, Floats]:
    """Bounds on κ'B⁻¹κ: (κ + r)'x, r = κ - Bx, and r'B⁻¹r more, which ``energy`` bounds."""
    if unsure is not None:
        doubt = np.multiply.outer(sizes, unsure)
        known, residual = Rounded(kappa, doubt), residual.widened(doubt)
    else:
        known = Rounded.of(kappa)
    least = dots(known + residual, x)
    # An error beyond float64 leaves the trivial bound.
    with np.errstate(over="ignore"):
        left = np.sqrt(energy) + np.linalg.norm(residual.error, axis=0) / np.sqrt(noise)
        most = least + Rounded.of(left**2 * (1.0 + gamma(len(kappa) + 8)))
    return least.low, most.high


def inverse_diagonal(L: Floats) -> Floats:
    """Diagonal of (LL')⁻¹: the squared columns of L⁻¹, some at a time."""
    diagonal = np.empty(len(L))
    for some in Workers.slices(len(L), _INVERSE_COLUMNS):
        unit = np.eye(len(L) - some.start, some.stop - some.start)
        columns = solve_triangular(L[some.start :, some.start :], unit, lower=True)
        diagonal[some] = column_dots(columns, columns)
    return diagonal


@single_threaded_blas()
def explained_derivatives(
    L: Floats, root: Floats, kernel_rows: Floats, prior: Floats
) -> tuple[Floats, Floats, Floats]:
    """k(x,x) - ‖L⁻¹κ‖² with κ = W^½k(x), not below 0, and its derivatives by k(x) and k(x, x).

    Those by k(x) have one column per x.
    """
    half = solve_triangular(L, root[:, None] * kernel_rows.T, lower=True)
    variance = prior - column_dots(half, half)
    there = variance > 0
    solved = solve_triangular(L, half, lower=True, trans="T")
    by_kernel = -2.0 * root[:, None] * solved * there
    return np.where(there, variance, 0.0), by_kernel, there.astype(np.float64)


def system_root(problem: Problem) -> Floats:
    """W^½ as a column."""
    return np.asarray(np.sqrt(problem.sample.weights)[:, None])


def system_product(problem: Problem, vectors: Floats, dtype: DTypeLike = np.float64) -> Floats:
    """B @ vectors."""
    root = system_root(problem)
    problem.meter.passes += 1
    product = kernel_product(
        problem.sample.rows, problem.kernel, root * vectors, problem.workers, dtype=dtype
    )
    return root * product + problem.noise * vectors


def query_slices(problem: Problem, queries: Any) -> list[slice]:
    """Which queries are worked on at a time."""
    batch = max(16, _QUERY_NUMBERS // problem.sample.n_rows)
    return Workers.slices(len_items(queries), batch)


def query_batches(problem: Problem, queries: Any) -> Iterator[tuple[slice, Floats, Floats]]:
    """Some of the queries at a time, with κ = W^½k(x) and k(x, x)."""
    rows, kernel = problem.sample.rows, problem.kernel
    for where in query_slices(problem, queries):
        some = queries[where]
        k = kernel_features(rows, kernel, some, problem.workers, scale=system_root(problem)[:, 0])
        yield where, k, kernel.diag(some)


def _features(problem: Problem, n: int) -> tuple[NDArray[Any], Any, Floats, DTypeLike]:
    """V = W^½K_S R⁻ᵀ for n landmarks S, the landmarks, R⁻¹, and the type to multiply V in."""
    m = problem.sample.n_rows
    if n == 0:
        nothing = problem.sample.rows.take(np.arange(0))
        return np.empty((m, 0), dtype=np.float32), nothing, np.empty((0, 0)), np.float64
    sketch = draw_rows(m, _SKETCH * n, problem.rng)
    some = problem.sample.take(sketch)
    try:
        pivots = block_pivots(
            some,
            problem.kernel,
            n,
            workers=problem.workers,
            rng=problem.rng,
            caution=_SINGLE_CAUTION if problem.kernel.rounding > EPS else 1.0,
        )
    except NotPositiveDefiniteError as error:
        raise NotPositiveDefiniteError(int(sketch[error.index]), error.pivot) from error
    whitener = invert_lower(pivots.factor)
    stored = np.float64 if m * n <= _DOUBLE_NUMBERS else np.float32
    working = stored if _single_suffices(problem, whitener) else np.float64
    V = kernel_features(
        problem.sample.rows,
        problem.kernel,
        pivots.pool.items,
        problem.workers,
        whitener=whitener.astype(working, copy=False),
        scale=system_root(problem)[:, 0],
        dtype=stored,
    )
    problem.meter.passes += V.shape[1] / m
    return V, pivots.pool.items, whitener, working


def _single_suffices(problem: Problem, whitener: Floats) -> bool:
    """Whether V may be formed and multiplied in float32 without changing M = VV' + σ²I by much.

    With B the largest w k(x, x) and u the rounding of float32, entries of column j of V err by
    about u√B ‖R⁻¹_j‖ √k(z, z), and those of V'V by about uB√m, with random signs. So M moves by
    ‖δV‖/σ ≈ √m max|δV|/σ and by ‖δ(V'V)‖/σ² of itself. The preconditioner proves nothing, so that
    an estimate may decide.
    """
    sample = problem.sample
    size = kernel_diagonal(sample.rows, problem.kernel).max(initial=0.0)
    largest = size * sample.weights.max(initial=0.0)
    unit = float(np.finfo(np.float32).eps) * np.sqrt(sample.n_rows)
    longest = np.linalg.norm(whitener, axis=1).max(initial=0.0)
    moved = max(longest * np.sqrt(size * largest / problem.noise), largest / problem.noise)
    return bool(unit * moved <= _SINGLE_SHARE)


def _landmarks(m: int) -> int:
    """Number of landmarks for m rows: choosing them costs a fraction of the iterations."""
    return min(int(_LANDMARKS_PER_ROOT * np.sqrt(m)), _BUDGET // max(m, 1), m // 2)
