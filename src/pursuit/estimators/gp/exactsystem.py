"""The linear system behind the exact Gaussian process, by conjugate gradients or by Cholesky.

Rows are scaled by the roots of their weights, so that with B = W^½KW^½ + σ²I the system is
B x = W^½y and the coefficients are v = W^½x. For any x, with ρ = W^½y - Bx and f = Σ_i v_i k_i
(Formulas §10)::

    D = ½σ²(y'W^½x + ρ'x) ≤ P_min ≤ P(f) = D + ½ρ'ρ,      P_min ≤ D + ½σ²ρ'M⁻¹ρ

for every M ≤ B, such as M = VV' + σ²I with VV' ≤ W^½KW^½ (CGLB). In the same way κ'B⁻¹κ, with
κ = W^½k(x) for a new point, lies between κ'x + ρ'x and that plus ρ'M⁻¹ρ, ρ = κ - Bx.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf

from pursuit.bounds import SolvePath
from pursuit.estimators.gp.solverecord import SolveRecorder
from pursuit.gram import kernel_features, kernel_product
from pursuit.greedy import Problem, block_pivots, kernel_matrix
from pursuit.linalg import (
    INDEFINITE,
    Iterate,
    LowRankPlusDiagonal,
    NotPositiveDefiniteError,
    column_dots,
    refined_gradients,
)
from pursuit.rows import draw_rows, len_items

Floats = NDArray[np.float64]

_BUDGET = 1 << 27
"""Numbers of V in float32 (512 MB) that the preconditioner may hold."""

_DOUBLE_NUMBERS = 1 << 24
"""Up to as many numbers V is float64: it need not be small, and it is better where noise is low."""

_LANDMARKS_PER_ROOT = 10.5
_SKETCH = 4
"""Rows on which the landmarks are chosen, for each of them."""

_QUERY_NUMBERS = 1 << 23
"""Numbers in each of the few arrays (64 MB) that a batch of new points needs."""


class ExactSystem(Protocol):
    """A way to solve for all rows."""

    def solve(
        self, tol: float, max_iter: int, stop: Callable[[], str | None]
    ) -> tuple[Floats, SolvePath]:
        """Coefficients v ≈ (K + σ²W⁻¹)⁻¹y and how they were found."""
        ...

    def explained(
        self, queries: Any, tol: float, offset: float, max_iter: int
    ) -> tuple[Floats, Floats]:
        """Lower and upper bounds on k'(K + σ²W⁻¹)⁻¹k for the queries.

        Their distance is at most ``tol`` times what is left of k(x, x) plus ``offset``; more where
        ``max_iter`` iterations do not suffice.
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
    dtype : float64 or float32
        Type of the tiles between two looks at the float64 residual.
    """

    problem: Problem
    preconditioner: LowRankPlusDiagonal
    dtype: DTypeLike

    @classmethod
    def build(cls, problem: Problem, size: int | str, dtype: DTypeLike) -> IterativeSystem:
        """With ``size`` landmarks, or as many as pay off, chosen greedily on some of the rows."""
        m = problem.sample.n_rows
        V = _features(problem, _landmarks(m) if size == "auto" else min(int(size), m))
        # A kernel that is called or stored gives float64 whatever is asked for.
        dtype = dtype if problem.kernel.positive_definite else np.float64
        return cls(problem, LowRankPlusDiagonal(V, problem.noise, problem.workers), dtype)

    def solve(
        self, tol: float, max_iter: int, stop: Callable[[], str | None]
    ) -> tuple[Floats, SolvePath]:
        """Coefficients v, and the path with a certificate at every iteration."""
        root = _root(self.problem)
        rhs = root * self.problem.sample.targets
        recorder = SolveRecorder(self.problem, rhs, "pcg", self.preconditioner.slack)
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
        )
        return root * found.v, recorder.path(found.stop_reason)

    def explained(
        self, queries: Any, tol: float, offset: float, max_iter: int
    ) -> tuple[Floats, Floats]:
        """Bounds on k'(K + σ²W⁻¹)⁻¹k, a batch of queries at a time."""
        parts = [
            self._bracket(k, prior, tol, offset, max_iter)
            for k, prior in _batches(self.problem, queries)
        ]
        lower, upper = (np.concatenate(bounds) for bounds in zip(*parts, strict=True))
        return lower, upper

    def _bracket(
        self, k: Floats, prior: Floats, tol: float, offset: float, max_iter: int
    ) -> tuple[Floats, Floats]:
        inflation = 1.0 + self.preconditioner.slack

        def lower(columns: Any, v: Floats, residual: Floats) -> Floats:
            return column_dots(k[:, columns] + residual, v)

        def done(now: Iterate) -> NDArray[np.bool_]:
            width = inflation * now.energy
            left = prior[now.columns] - lower(now.columns, now.v, now.residual) - width
            return np.asarray(width <= tol * (np.maximum(left, 0.0) + offset))

        found = refined_gradients(
            self._exact, k, self.preconditioner.solve, done, rough=self._rough, steps=max_iter
        )
        least = lower(slice(None), found.v, found.residual)
        return least, least + inflation * found.energy

    @property
    def _rough(self) -> Callable[[Floats], Floats] | None:
        if np.dtype(self.dtype) == np.float64:
            return None
        return lambda vectors: _product(self.problem, vectors, self.dtype)

    def _exact(self, vectors: Floats) -> Floats:
        return _product(self.problem, vectors)


@dataclass(frozen=True)
class DirectSystem:
    """B = LL' by Cholesky, in O(m²) memory.

    Attributes
    ----------
    problem : Problem
        Rows, kernel and noise.
    L : array of shape (m, m)
        Lower triangular.
    """

    problem: Problem
    L: Floats

    @classmethod
    def build(cls, problem: Problem) -> DirectSystem:
        """Factor the matrix, or say what is wrong with it."""
        items = problem.sample.rows.take(np.arange(problem.sample.n_rows))
        B = kernel_matrix(problem.kernel, items, problem.workers)
        problem.meter.passes += 1
        root = _root(problem)
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
        return cls(problem, np.asarray(L))

    def solve(
        self, tol: float, max_iter: int, stop: Callable[[], str | None]
    ) -> tuple[Floats, SolvePath]:
        """Coefficients v, improved once by the residual of the factors."""
        root = _root(self.problem)
        rhs = root * self.problem.sample.targets
        x = self._solve_factors(rhs)
        x += self._solve_factors(rhs - _product(self.problem, x))
        residual = rhs - _product(self.problem, x)
        energy = column_dots(residual, residual) / self.problem.noise
        recorder = SolveRecorder(self.problem, rhs, "cholesky")
        recorder.watch(Iterate(np.arange(rhs.shape[1]), x, residual, energy, 0, exact=True))
        return root * x, recorder.path("direct")

    def explained(
        self, queries: Any, tol: float, offset: float, max_iter: int
    ) -> tuple[Floats, Floats]:
        """‖L⁻¹κ‖², twice."""
        parts = []
        for k, _ in _batches(self.problem, queries):
            half = solve_triangular(self.L, k, lower=True, overwrite_b=True)
            parts.append(column_dots(half, half))
        explained = np.concatenate(parts)
        return explained, explained

    def _solve_factors(self, rhs: Floats) -> Floats:
        half = solve_triangular(self.L, rhs, lower=True)
        solution: Floats = solve_triangular(self.L, half, lower=True, trans="T")
        return solution


def _root(problem: Problem) -> Floats:
    """W^½ as a column."""
    return np.asarray(np.sqrt(problem.sample.weights)[:, None])


def _product(problem: Problem, vectors: Floats, dtype: DTypeLike = np.float64) -> Floats:
    """B @ vectors."""
    root = _root(problem)
    problem.meter.passes += 1
    product = kernel_product(
        problem.sample.rows, problem.kernel, root * vectors, problem.workers, dtype=dtype
    )
    return root * product + problem.noise * vectors


def _batches(problem: Problem, queries: Any) -> Iterator[tuple[Floats, Floats]]:
    """κ = W^½k(x) and k(x, x), for some of the queries at a time."""
    rows, kernel = problem.sample.rows, problem.kernel
    batch = max(16, _QUERY_NUMBERS // rows.n_rows)
    for start in range(0, len_items(queries), batch):
        some = queries[start : start + batch]
        k = kernel_features(rows, kernel, some, problem.workers, scale=_root(problem)[:, 0])
        yield k, kernel.diag(some)


def _features(problem: Problem, n: int) -> NDArray[Any]:
    """W^½K_S R⁻ᵀ for n landmarks S."""
    m = problem.sample.n_rows
    if n == 0:
        return np.empty((m, 0), dtype=np.float32)
    sketch = draw_rows(m, _SKETCH * n, problem.rng)
    some = problem.sample.take(sketch)
    try:
        pivots = block_pivots(some, problem.kernel, n, workers=problem.workers, rng=problem.rng)
    except NotPositiveDefiniteError as error:
        raise NotPositiveDefiniteError(int(sketch[error.index]), error.pivot) from error
    V = kernel_features(
        problem.sample.rows,
        problem.kernel,
        pivots.pool.items,
        problem.workers,
        whitener=solve_triangular(pivots.factor, np.eye(len(pivots.factor)), lower=True),
        scale=_root(problem)[:, 0],
        dtype=np.float64 if m * n <= _DOUBLE_NUMBERS else np.float32,
    )
    problem.meter.passes += V.shape[1] / m
    return V


def _landmarks(m: int) -> int:
    """Landmarks for m rows: so many that choosing them costs a fraction of the iterations."""
    return min(int(_LANDMARKS_PER_ROOT * np.sqrt(m)), _BUDGET // max(m, 1), m // 2)
