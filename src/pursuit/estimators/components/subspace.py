"""From rows to a subspace: which of them span it, and what all of them look like inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from pursuit._types import Floats
from pursuit.gram import ColumnMatrix, gram_statistics, kernel_diagonal
from pursuit.greedy import (
    PATIENCE,
    FreshSubset,
    MaxSize,
    Meter,
    Path,
    Patience,
    Pool,
    Pursuit,
    StopRule,
    kernel_matrix,
)
from pursuit.kernels import CountingKernel
from pursuit.linalg import NotPositiveDefiniteError, Workers, bordered_cholesky
from pursuit.objectives import GramResidual, ResidualPursuit
from pursuit.rows import Sample, draw_rows

FULL_ROWS = 5000
"""Up to this many rows each of them is a candidate, and all of them choose."""
BOUND_POOL = 4096

_ROWS_A_CANDIDATE, _MOST_JUDGES = 2, 5000
_PIVOT_TOLERANCE = 1e-11


@dataclass(frozen=True)
class Diagonal:
    """Sums of k(x, x) over rows, and its range."""

    trace: float
    squares: float
    least: float
    largest: float

    @classmethod
    def of(cls, sample: Sample, kernel: CountingKernel) -> tuple[Diagonal, int]:
        """In one pass over the rows; and the row of the least."""
        values = kernel_diagonal(sample.rows, kernel)
        w = sample.weights
        found = cls(
            float(w @ values), float(w @ values**2), float(values.min()), float(values.max())
        )
        return found, int(values.argmin())

    def __add__(self, other: Diagonal) -> Diagonal:
        return Diagonal(
            self.trace + other.trace,
            self.squares + other.squares,
            min(self.least, other.least),
            max(self.largest, other.largest),
        )


@dataclass(frozen=True)
class Subspace:
    """A span of chosen points S, and rows as points V = R⁻¹k_S(x) of it.

    Attributes
    ----------
    pool : Pool
        S in the order of choice.
    factor : array of shape (n, n)
        R, lower triangular, K_SS = RR'.
    gram : array of shape (n, n)
        V'WV over the rows.
    sums : array of shape (n,)
        V'W1.
    weight : float
        Σw.
    residuals : array of shape (n,)
        τ_t = Σw(k(x, x) - ‖V‖²) in the span of the first t points, for t = 1, …, n.
    """

    pool: Pool
    factor: Floats
    gram: Floats
    sums: Floats
    weight: float
    residuals: Floats

    def __len__(self) -> int:
        return len(self.factor)

    @property
    def whitener(self) -> Floats:
        """R⁻¹."""
        inverse: Floats = solve_triangular(self.factor, np.eye(len(self)), lower=True)
        return inverse

    def leading(self, n: int) -> Subspace:
        """The span of the first n points, with the same rows."""
        return Subspace(
            self.pool.take(np.arange(n)),
            self.factor[:n, :n].copy(),
            self.gram[:n, :n].copy(),
            self.sums[:n].copy(),
            self.weight,
            self.residuals[:n].copy(),
        )

    def joined(self, wider: Subspace) -> Subspace:
        """The rows of both in the wider span, which has the points of this one first.

        Rows of this one are known only by their place in the span they were seen in: what it missed
        of them stays missed, so that residuals are upper bounds.
        """
        n, N = len(self), len(wider)
        gram, sums = wider.gram.copy(), wider.sums.copy()
        gram[:n, :n] += self.gram
        sums[:n] += self.sums
        known = np.concatenate([self.residuals, np.full(N - n, self.residuals[-1])])
        return replace(
            wider,
            gram=gram,
            sums=sums,
            weight=self.weight + wider.weight,
            residuals=known + wider.residuals,
        )


@dataclass(frozen=True)
class SubspacePlan:
    """How a subspace is searched for.

    Attributes
    ----------
    search : str
        "full": every row is a candidate at every step (HS08 Algorithm 1). "fresh": a new random
        subset at every step. "pooled": a random pool of rows, judged on these and some others.
    candidates : int
        Rows in the subset or pool.
    limit : int
        Most points to choose.
    least : int
        Fewest, where the bound decides.
    """

    search: str
    candidates: int
    limit: int
    least: int = 1


class SubspaceSearch:
    """Choose points by the function-space rule, and pass over all rows for what they span.

    With ``start`` they are chosen by what its span leaves, from a pool, and counted from there on.
    """

    def __init__(
        self,
        plan: SubspacePlan,
        sample: Sample,
        kernel: CountingKernel,
        *,
        workers: Workers,
        rng: np.random.Generator,
        start: Subspace | None = None,
    ) -> None:
        self._plan, self._sample, self._kernel = plan, sample, kernel
        self._workers, self._start = workers, start
        self._n_start = 0 if start is None else len(start)
        self._meter = Meter(kernel)
        self._widest: Subspace | None = None
        self._objective: ResidualPursuit | GramResidual
        candidates = None
        if plan.search == "pooled":
            self._objective = self._pooled(rng)
        else:
            self._rows = np.arange(sample.n_rows)
            self._objective = ResidualPursuit(
                ColumnMatrix(sample.rows, kernel, workers),
                sample.weights,
                capacity=plan.limit,
                workers=workers,
                running=plan.search == "full",
            )
            if plan.search == "fresh":
                candidates = FreshSubset(plan.candidates, rng)
        self._pursuit = Pursuit(
            self._objective, self._meter, candidates=candidates, labels=self._rows
        )

    def run(
        self,
        rules: Sequence[StopRule],
        after_step: Callable[[int], None],
        bound: Callable[[Floats], Floats] | None = None,
    ) -> tuple[Subspace, Path, Floats]:
        """Choose, and stop where ``bound``, a function of the residuals, has passed its minimum.

        Returns the subspace, the path of what was chosen here, and the residuals of all sizes that
        were tried.
        """
        plan, n_start, patience = self._plan, self._n_start, None
        rules = [MaxSize(plan.limit), *rules]
        if bound is not None:
            patience = Patience(
                lambda *sizes: self._curve(bound, *sizes),
                PATIENCE,
                "bound",
                growing=False,
                least=plan.least,
            )
            rules.insert(0, patience)
        if plan.limit:
            path = self._pursuit.run(rules, after_step)
        else:
            path = self._pursuit.recorder.path("n_basis")
        tried = self._subspace(self._pursuit.size)
        n = seen = len(tried) - n_start
        if bound is not None and patience is not None and n:
            patience.look(n)
            values = bound(tried.residuals)
            best = patience.best_size
            if n_start and values[n_start + best - 1] >= values[n_start - 1]:
                best = 0
            n = min(max(best, plan.least), n)
            # What lies beyond depends on when one looked.
            seen = max(n, len(patience.values))
        found = tried.leading(n_start + n)
        reason = "bound" if len(found) < len(tried) else path.stop_reason
        path = replace(
            path.truncated(n),
            index=found.pool.index[n_start:],
            value=found.residuals[n_start:],
            stop_reason=reason,
        )
        return found, path, tried.residuals[: n_start + seen]

    def _curve(self, bound: Callable[[Floats], Floats], first: int, last: int) -> Floats:
        values = bound(self._subspace(last).residuals)[self._n_start :]
        # Points that turned out to be dependent are no sizes.
        return np.append(values, np.full(last - len(values), np.inf))[first - 1 :]

    def _subspace(self, n: int) -> Subspace:
        """The span with the first n points chosen here, from one pass over all rows."""
        if self._widest is not None and len(self._widest) >= self._n_start + n:
            return self._widest.leading(self._n_start + n)
        kernel, workers = self._kernel, self._workers
        chosen = self._rows[self._objective.chosen[:n]]
        pool, factor, cross = Pool.of_rows(self._sample, chosen), np.empty((0, 0)), np.empty((0, n))
        if self._start is not None:
            factor = self._start.factor
            cross = (
                kernel.tile(self._start.pool.items, pool.items) if n else np.empty((len(factor), 0))
            )
        K = kernel_matrix(kernel, pool.items, workers) if n else np.empty((0, 0))
        try:
            factor, kept = bordered_cholesky(factor, cross, K, _PIVOT_TOLERANCE, kernel.rounding)
        except NotPositiveDefiniteError as error:
            raise NotPositiveDefiniteError(int(chosen[error.index]), error.pivot) from error
        pool = pool.take(kept)
        if self._start is not None:
            pool = self._start.pool + pool if len(pool) else self._start.pool
        self._widest = span_rows(self._sample, kernel, pool, factor, workers)
        self._meter.passes += 1.0
        return self._widest

    def _pooled(self, rng: np.random.Generator) -> GramResidual:
        """The rule from statistics of a pool on a sketch of the rows."""
        sample, kernel, m = self._sample, self._kernel, self._sample.n_rows
        size = min(self._plan.candidates, m)
        judges = draw_rows(m, max(size, min(_ROWS_A_CANDIDATE * size, _MOST_JUDGES)), rng)
        self._rows = judges[draw_rows(len(judges), size, rng)]
        pool, seen = Pool.of_rows(sample, self._rows), sample.take(judges)
        self._meter.passes += seen.n_rows / m
        K = kernel_matrix(kernel, pool.items, self._workers)
        rounding: Any = kernel.rounding
        if self._start is None:
            statistics = gram_statistics(seen, kernel, pool.items, workers=self._workers)
            G, trace = statistics.gram, statistics.trace
        else:
            # The residual kernel: what the span leaves of the candidates' functions.
            n, W = self._n_start, self._start.whitener
            V = kernel.tile(pool.items, self._start.pool.items) @ W.T
            whitener = np.eye(n + len(pool))
            whitener[:n, :n], whitener[n:, :n] = W, -V @ W
            statistics = gram_statistics(
                seen,
                kernel,
                (self._start.pool + pool).items,
                workers=self._workers,
                whitener=whitener,
            )
            G = statistics.gram[n:, n:]
            trace = statistics.trace - float(np.trace(statistics.gram[:n, :n]))
            diagonal = np.diag(K).copy()
            K -= V @ V.T
            left = np.maximum(np.diag(K), _PIVOT_TOLERANCE * diagonal)
            rounding = kernel.rounding * diagonal / left
        return GramResidual(
            K,
            G,
            trace,
            capacity=min(self._plan.limit, len(pool)),
            workers=self._workers,
            rounding=rounding,
        )


def span_rows(
    sample: Sample, kernel: CountingKernel, pool: Pool, factor: Floats, workers: Workers
) -> Subspace:
    """Pass over the rows as points of a span (V-form, Formulas §4)."""
    n = len(factor)
    whitener: Any = solve_triangular(factor, np.eye(n), lower=True) if n else factor
    ones = replace(sample, targets=np.ones((sample.n_rows, 1)))
    found = gram_statistics(ones, kernel, pool.items, workers=workers, whitener=whitener)
    residuals = np.maximum(found.trace - np.cumsum(np.diag(found.gram)), 0.0)
    return Subspace(pool, factor, found.gram, found.cross[:, 0], found.weight, residuals)
