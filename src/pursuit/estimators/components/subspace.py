"""A subspace spanned by a few rows: its choice, its bounds, and pre-images of its points.

HS08 is Hussain and Shawe-Taylor, Theory of matching pursuit, NIPS 2008.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve

from pursuit import limits
from pursuit._types import Floats
from pursuit.bounds import compression_terms
from pursuit.estimators.arguments import Search
from pursuit.estimators.fit_run import FitRun
from pursuit.gram import KernelMatrix, gram_statistics, kernel_diagonal
from pursuit.greedy import (
    PATIENCE,
    CostMeter,
    FreshSubset,
    MaxSize,
    Path,
    Patience,
    Pool,
    Pursuit,
    StopRule,
    kernel_matrix,
    largest_size,
    subset_size,
)
from pursuit.kernels import CountingKernel, Kernel
from pursuit.linalg import NotPositiveDefiniteError, Workers, bordered_cholesky, invert_lower
from pursuit.objectives import GramResidual, ResidualPursuit
from pursuit.rows import Sample, draw_rows

BOUND_POOL = 4096
"""Rows in the pool where a bound chooses the size; more are slower and miss less."""
WEIGHTED = "a row of weight w counts as w rows"
"""Assumption of a bound for weighted rows."""

_ROWS_PER_CANDIDATE, _MOST_JUDGES = 2, 5000
"""Rows that judge the candidates of a pool: more choose better, at the price of their number."""
_PREIMAGE_RIDGE = 0.1
"""Ridge of linear pre-images, relative to the variance of the scores. Larger: nearer the mean."""
_PREIMAGE_STEPS, _PREIMAGE_TOLERANCE = 100, 1e-6
"""The fixed point iteration ends after so many steps, or when rows move less, relative to them."""
_PREIMAGE_CHUNK = 256
"""Rows per task of the fixed point iteration."""


def check_sizes(n_components: Any, n_basis: int | str) -> None:
    """Refuse more components than basis functions, of which they are combinations."""
    counted = isinstance(n_components, numbers.Integral) and n_basis != "bound"
    if counted and n_components > int(n_basis):
        raise ValueError(
            f"n_components={n_components} is more than n_basis={n_basis}: components are "
            "combinations of basis functions. Raise n_basis or lower n_components."
        )


def default_pool_size(limit: int, *, by_bound: bool) -> int:
    """Rows in the pool for a basis of at most ``limit`` rows."""
    return BOUND_POOL if by_bound else 2 * limit + 1000


@dataclass(frozen=True)
class Diagonal:
    """Sums of k(x, x) and of its square over rows, and its range."""

    trace: float
    squares: float
    least: float
    largest: float

    @classmethod
    def of(cls, sample: Sample, kernel: CountingKernel) -> Diagonal:
        """The diagonal of the rows, which must not be negative anywhere or zero everywhere."""
        values, w = kernel_diagonal(sample.rows, kernel), sample.weights
        least, largest = float(values.min()), float(values.max())
        if least < 0:
            raise NotPositiveDefiniteError(int(values.argmin()), least)
        if largest == 0:
            raise ValueError(
                "kernel is zero on every row, k(x, x) = 0: there is nothing to span. Use another "
                "kernel, or rows that are not all zero."
            )
        return cls(float(w @ values), float(w @ values**2), least, largest)

    def __add__(self, other: Diagonal) -> Diagonal:
        return Diagonal(
            self.trace + other.trace,
            self.squares + other.squares,
            min(self.least, other.least),
            max(self.largest, other.largest),
        )

    def caveat(self, *, weighted: bool) -> str:
        """Assumptions of a bound where k(x, x) is not constant, or where rows have weights."""
        caveats = []
        if self.largest - self.least > 1e-12 * self.largest:
            caveats.append("holds where k(x, x) is never larger than the largest seen")
        if weighted:
            caveats.append(WEIGHTED)
        return "; ".join(caveats)


@dataclass(frozen=True)
class Subspace:
    """A span of chosen points S, and the moments of rows as points V = R⁻¹k_S(x) of it.

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

    @classmethod
    def of(
        cls, sample: Sample, kernel: CountingKernel, pool: Pool, factor: Floats, workers: Workers
    ) -> Subspace:
        """The span of some points, by one pass over the rows."""
        whitener = invert_lower(factor)
        ones = replace(sample, targets=np.ones((sample.n_rows, 1)))
        sums = gram_statistics(ones, kernel, pool.items, workers=workers, whitener=whitener)
        residuals = np.maximum(sums.trace - np.cumsum(np.diag(sums.gram)), 0.0)
        return cls(pool, factor, sums.gram, sums.cross[:, 0], sums.weight, residuals)

    def __len__(self) -> int:
        return len(self.factor)

    @property
    def whitener(self) -> Floats:
        """R⁻¹."""
        return invert_lower(self.factor)

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

    def with_residuals(self, residuals: Floats) -> Floats:
        """Residuals of new rows at sizes 1, 2, … plus those of the rows of this span."""
        n = len(self)
        known = np.append(self.residuals, np.full(max(len(residuals) - n, 0), self.residuals[-1]))
        total: Floats = residuals + known[: len(residuals)]
        return total

    def joined(self, wider: Subspace) -> Subspace:
        """The rows of both in the wider span, whose first points are those of this one.

        Rows of this span are known only by their points in it. Their residuals stay as they are,
        so that the residuals of the sum are upper bounds.
        """
        n = len(self)
        gram, sums = wider.gram.copy(), wider.sums.copy()
        gram[:n, :n] += self.gram
        sums[:n] += self.sums
        return replace(
            wider,
            gram=gram,
            sums=sums,
            weight=self.weight + wider.weight,
            residuals=self.with_residuals(wider.residuals),
        )


def continued(before: Path, after: Path) -> Path:
    """One path after the other, with cumulated costs."""
    cumulative: dict[str, Any] = {
        name: np.concatenate(
            [getattr(before, name), getattr(before, name)[-1] + getattr(after, name)]
        )
        for name in ("seconds", "entries", "passes")
    }
    return Path(
        index=np.concatenate([before.index, after.index]),
        value=np.concatenate([before.value, after.value]),
        gap=np.concatenate([before.gap, after.gap]),
        **cumulative,
        stop_reason=after.stop_reason,
    )


@dataclass(frozen=True)
class SubspacePlan:
    """How a subspace is searched for: the arguments of an estimator, for some rows.

    Attributes
    ----------
    search : Search
        Of kind "full": every row is a candidate at every step (HS08 Algorithm 1). Of kind "fresh":
        a new random subset per step. Of kind "pooled": a random pool of rows, judged by these rows
        and some others.
    n_basis : int or "bound"
        Largest number of points in all, or as many as the bound decides.
    n_components : int
        Smallest number of points in all where the bound decides.
    n_rows : int
        Number of rows to choose from.
    weight : float
        Weight of all rows that the bound is about.
    radius : float
        Largest k(x, x).
    delta : float
        Probability with which the bound may fail.
    start : Subspace or None
        A span to go on from: points are chosen by the residuals it leaves, and added to it.
    """

    search: Search
    n_basis: int | str
    n_components: int
    n_rows: int
    weight: float
    radius: float
    delta: float
    start: Subspace | None

    @property
    def n_start(self) -> int:
        """Number of points to go on from."""
        return 0 if self.start is None else len(self.start)

    @property
    def by_bound(self) -> bool:
        """Whether the bound decides how many points are chosen."""
        return self.n_basis == "bound"

    @property
    def least(self) -> int:
        """Smallest number of points to choose where the bound decides."""
        return max(self.n_components - self.n_start, 0)

    @property
    def limit(self) -> int:
        """Largest number of points to choose."""
        most = largest_size(self.weight, self.n_components) if self.by_bound else int(self.n_basis)
        return min(max(most - self.n_start, 0), self.n_rows)

    @property
    def candidates(self) -> int:
        """Number of rows in the pool or subset."""
        if self.kind == "fresh":
            return self.search.pool_size or subset_size()
        wide = self.by_bound or self.start is not None
        return self.search.pool_size or default_pool_size(self.limit, by_bound=wide)

    @property
    def kind(self) -> str:
        """Kind of search: a pool of all rows is a full search, and a span grows from a pool."""
        if self.start is not None or self.search.kind != "pooled":
            return "pooled" if self.start is not None else self.search.kind
        all_rows = self.n_rows <= (self.search.pool_size or limits.BOUND_ROWS)
        return "full" if all_rows else "pooled"

    def bound(self, residuals: Floats) -> Floats:
        """What the size is chosen by: HS08 Theorem 2 at each size, with the paper's count."""
        known = residuals if self.start is None else self.start.with_residuals(residuals)
        sizes = np.arange(1, len(known) + 1)
        return compression_terms(
            sizes, known, self.weight, self.delta, radius=self.radius, form="corrected"
        )


def choose_subspace(
    plan: SubspacePlan,
    sample: Sample,
    kernel: CountingKernel,
    run: FitRun,
    after_step: Callable[[int], None],
) -> tuple[Subspace, Path, Floats]:
    """Choose points by the decrease of the residual trace, and span them.

    Returns the subspace of all points with the moments of these rows, the path of the points
    chosen now, and the residuals of these rows for all sizes that were tried.
    """
    search = _SubspaceSearch(plan, sample, kernel, run)
    pursuit, n_start = search.pursuit, plan.n_start
    patience = Patience(search.curve, PATIENCE, "bound", growing=False, least=plan.least)
    rules: list[StopRule] = [MaxSize(plan.limit), run.stop_reason]
    if plan.by_bound:
        rules.insert(0, patience)
    path = pursuit.run(rules, after_step) if plan.limit else pursuit.recorder.path("n_basis")
    tried = search.span(pursuit.size)
    n = n_tried = len(tried) - n_start
    if plan.by_bound and n:
        patience.look(n)
        values = plan.bound(tried.residuals)
        best = patience.best_size
        if n_start and values[n_start + best - 1] >= values[n_start - 1]:
            best = 0
        n = min(max(best, plan.least), n)
        # Which larger sizes there are depends on when the bound was looked at.
        n_tried = max(n, len(patience.values))
    chosen = tried.leading(n_start + n)
    path = replace(
        path.truncated(n),
        index=chosen.pool.index[n_start:],
        value=chosen.residuals[n_start:],
        stop_reason="bound" if len(chosen) < len(tried) else path.stop_reason,
    )
    return chosen, path, tried.residuals[: n_start + n_tried]


class _SubspaceSearch:
    """A pursuit of points, and the span of all rows for the points chosen so far."""

    def __init__(
        self, plan: SubspacePlan, sample: Sample, kernel: CountingKernel, run: FitRun
    ) -> None:
        self._plan, self._sample, self._kernel, self._workers = plan, sample, kernel, run.workers
        self._meter = CostMeter(kernel)
        self._widest: Subspace | None = None
        self._objective: ResidualPursuit | GramResidual
        candidates = None
        if plan.kind == "pooled":
            self._objective = self._pooled(run.rng)
        else:
            self._rows = np.arange(sample.n_rows)
            self._objective = ResidualPursuit(
                KernelMatrix(sample.rows, kernel, run.workers),
                sample.weights,
                capacity=plan.limit,
                workers=run.workers,
                running=plan.kind == "full",
            )
            if plan.kind == "fresh":
                candidates = FreshSubset(plan.candidates, run.rng)
        self.pursuit = Pursuit(
            self._objective, self._meter, candidates=candidates, labels=self._rows
        )

    def curve(self, first: int, last: int) -> Floats:
        """The bound at sizes ``first`` to ``last``, counted from the start."""
        values = self._plan.bound(self.span(last).residuals)[self._plan.n_start :]
        # Points that turned out to be dependent are no sizes.
        return np.append(values, np.full(last - len(values), np.inf))[first - 1 :]

    def span(self, n: int) -> Subspace:
        """The span of the start and the first n points chosen, by one pass over all rows."""
        start, n_start = self._plan.start, self._plan.n_start
        if self._widest is not None and len(self._widest) >= n_start + n:
            return self._widest.leading(n_start + n)
        kernel, workers = self._kernel, self._workers
        chosen = self._rows[self._objective.chosen[:n]]
        pool, factor, cross = Pool.of_rows(self._sample, chosen), np.empty((0, 0)), np.empty((0, n))
        if start is not None:
            factor = start.factor
            cross = kernel.tile(start.pool.items, pool.items) if n else np.empty((n_start, 0))
        K = kernel_matrix(kernel, pool.items, workers) if n else np.empty((0, 0))
        try:
            factor, kept = bordered_cholesky(
                factor, cross, K, limits.PIVOT_TOLERANCE, kernel.rounding
            )
        except NotPositiveDefiniteError as error:
            raise NotPositiveDefiniteError(int(chosen[error.index]), error.pivot) from error
        pool = pool.take(kept)
        if start is not None:
            pool = start.pool + pool if len(pool) else start.pool
        self._widest = Subspace.of(self._sample, kernel, pool, factor, workers)
        self._meter.passes += 1.0
        return self._widest

    def _pooled(self, rng: np.random.Generator) -> GramResidual:
        """The rule by statistics of a pool on a sketch of the rows."""
        plan, sample, kernel, m = self._plan, self._sample, self._kernel, self._sample.n_rows
        size = min(plan.candidates, m)
        judges = draw_rows(m, max(size, min(_ROWS_PER_CANDIDATE * size, _MOST_JUDGES)), rng)
        self._rows = judges[draw_rows(len(judges), size, rng)]
        pool, sketch = Pool.of_rows(sample, self._rows), sample.take(judges)
        self._meter.passes += sketch.n_rows / m
        K = kernel_matrix(kernel, pool.items, self._workers)
        rounding: Any = kernel.rounding
        if plan.start is None:
            statistics = gram_statistics(sketch, kernel, pool.items, workers=self._workers)
            G, trace = statistics.gram, statistics.trace
        else:
            # The residual kernel: the candidates' functions without their parts in the span.
            n, W = plan.n_start, plan.start.whitener
            V = kernel.tile(pool.items, plan.start.pool.items) @ W.T
            whitener = np.eye(n + len(pool))
            whitener[:n, :n], whitener[n:, :n] = W, -V @ W
            points = (plan.start.pool + pool).items
            statistics = gram_statistics(
                sketch, kernel, points, workers=self._workers, whitener=whitener
            )
            G = statistics.gram[n:, n:]
            trace = statistics.trace - float(np.trace(statistics.gram[:n, :n]))
            diagonal = np.diag(K).copy()
            K -= V @ V.T
            residual = np.maximum(np.diag(K), limits.PIVOT_TOLERANCE * diagonal)
            # A row of zeros has k(x, x) = 0: there is nothing to round.
            lost = np.divide(diagonal, residual, out=np.ones(len(pool)), where=residual > 0)
            rounding = kernel.rounding * lost
        return GramResidual(
            K,
            G,
            trace,
            capacity=min(plan.limit, len(pool)),
            workers=self._workers,
            rounding=rounding,
        )


def ridge_preimages(
    points: Floats, point_scores: Floats, variances: Floats, scores: Floats
) -> Floats:
    """Rows for scores, by a linear map learned on the basis points.

    The map minimises Σ_j ‖x_j - x̄ - C'(z_j - z̄)‖² + α ‖C‖² over the n basis points x_j with scores
    z_j, where α is a tenth of n times the mean variance of the components over all rows.
    """
    n, q = point_scores.shape
    x, z = points.mean(axis=0), point_scores.mean(axis=0)
    centred = point_scores - z
    root = np.sqrt(_PREIMAGE_RIDGE * n * max(float(variances.mean()), 0.0))
    # Scores that do not vary make the normal equations singular.
    system = np.vstack([centred, root * np.eye(q)])
    matrix = np.linalg.lstsq(system, np.vstack([points - x, np.zeros((q, len(x)))]))[0]
    return np.asarray((x - z @ matrix) + scores @ matrix)


def kernel_ridge_preimages(
    points: Floats, point_scores: Floats, kernel: Kernel, alpha: float, scores: Floats
) -> Floats:
    """Rows for scores, by kernel ridge regression of the basis points on their scores.

    x(z) = k(z, Z) (k(Z, Z) + αI)⁻¹ X for the basis points X with scores Z, as in scikit-learn's
    `KernelPCA`: the kernel of the rows is that of the scores, too.
    """
    try:
        K, k = kernel.tile(point_scores, point_scores), kernel.tile(scores, point_scores)
    except (IndexError, ValueError) as error:
        raise ValueError(
            f"alpha={alpha:g} needs a kernel of components as of rows, and this one is for "
            f"{points.shape[1]} columns: leave alpha out, or use one length scale for all columns."
        ) from error
    K[np.diag_indices_from(K)] += alpha
    return np.asarray(k @ solve(K, points, assume_a="sym"))


def fixed_points(
    coefficients: Floats, points: Floats, kernel: Kernel, start: Floats, workers: Workers
) -> Floats:
    """Fixed points of x <- Σ_j γ_j k(x, x_j) x_j / Σ_j γ_j k(x, x_j) (Mika et al. 1999).

    For a Gaussian kernel of any widths, a maximum of Σ_j γ_j k(x, x_j), the inner product with the
    point Σ_j γ_j φ(x_j), is one of them. A row moves as long as this sum is positive and does not
    fall, so that it ends no farther from the point, in feature space, than it began.

    Parameters
    ----------
    coefficients : array of shape (n_rows, n)
        γ.
    points : array of shape (n, n_features)
        The x_j.
    kernel : Kernel
        A Gaussian.
    start : array of shape (n_rows, n_features)
        Rows to begin from.
    workers : Workers
        Threads.

    Returns
    -------
    rows : array of shape (n_rows, n_features)
    """
    columns = kernel.columns(points)
    scale = float(np.abs(points - points.mean(axis=0)).max(initial=0.0))
    result = start.copy()

    def iterate(rows: slice) -> None:
        x, gamma = result[rows], coefficients[rows]
        terms = gamma * columns(x)
        moving = np.ones(len(x), dtype=bool)
        for _ in range(_PREIMAGE_STEPS):
            total = terms.sum(axis=1)
            moving &= total > 1e-8 * np.abs(terms).sum(axis=1)
            moved = terms @ points / np.where(moving, total, 1.0)[:, None]
            moved = np.where(moving[:, None], moved, x)
            further = gamma * columns(moved)
            moving &= further.sum(axis=1) >= total
            moved = np.where(moving[:, None], moved, x)
            step = float(np.abs(moved - x).max(initial=0.0))
            x, terms = moved, np.where(moving[:, None], further, terms)
            if step <= _PREIMAGE_TOLERANCE * scale:
                break
        result[rows] = x

    workers.map(iterate, Workers.slices(len(result), _PREIMAGE_CHUNK))
    return result
