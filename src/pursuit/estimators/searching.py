"""From the arguments of an estimator to a search, and from a search to a fitted span."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.cluster import MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

from pursuit.bounds import relative_gap
from pursuit.estimators.certifying import Certifier, Model, sparse_lower_bound
from pursuit.greedy import (
    Deadline,
    FreshSubset,
    GapBelow,
    MaxSize,
    Meter,
    Pool,
    PooledSearch,
    Pursuit,
    SpanFit,
    StopRule,
    refit,
    subset_size,
)
from pursuit.kernels import CountingKernel
from pursuit.linalg import SpanSolution, Workers
from pursuit.objectives import QuadraticPursuit, SpanPursuit
from pursuit.rows import Sample, distinct_rows, draw_rows

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

SMALL = 2_000
"""Up to this many rows nothing is sampled."""
FULL_LIMIT = 20_000
"""Beyond this many rows a full search would need gigabytes for its m x m matrix."""
_GRID_RATIO = 1.25
_GROWTH_BETWEEN_LOOKS = 0.1


@dataclass(frozen=True)
class SearchPlan:
    """The arguments that decide how a basis is chosen, as the user gave them."""

    n_basis: int
    search: str
    pool_size: int | str
    selection_rows: int | str | None
    rounds: int
    candidates: Any
    tol: float | None
    certificate: str | None
    max_time: float | None
    dtype: DTypeLike


@dataclass(frozen=True)
class Bench:
    """What every step of a fit needs at hand."""

    sample: Sample
    kernel: CountingKernel
    noise: float
    workers: Workers
    meter: Meter
    rng: np.random.Generator

    @property
    def certifier(self) -> Certifier:
        """Certificates for models of this problem."""
        return Certifier(self.sample, self.kernel, self.noise, self.workers, self.meter, self.rng)


def span_model(points: Any, solution: SpanSolution) -> Model:
    """The model of a solution in the span of some points."""
    return Model(points, solution.coefficients(), (solution.coordinates() ** 2).sum(axis=0))


def choose_pool(plan: SearchPlan, bench: Bench) -> Pool:
    """The candidates of a pooled or full search."""
    sample, m = bench.sample, bench.sample.n_rows
    if not isinstance(plan.candidates, str):
        return Pool.of_points(plan.candidates)
    size = 2 * plan.n_basis + 1000 if plan.pool_size == "auto" else int(plan.pool_size)
    if plan.candidates == "kmeans" and plan.search == "pooled":
        return Pool.of_points(_cluster_centres(sample, min(size, m), bench.rng))
    small = m <= SMALL and plan.pool_size == "auto"
    if small or plan.search == "full" or size >= m:
        return Pool.of_rows(sample, distinct_rows(sample.rows) if m <= SMALL else np.arange(m))
    return Pool.of_rows(sample, draw_rows(m, size, bench.rng))


def _cluster_centres(sample: Sample, n: int, rng: np.random.Generator) -> Any:
    rows = sample.take(draw_rows(sample.n_rows, max(20_000, 4 * n), rng))
    items = rows.rows.take(np.arange(rows.n_rows))
    if isinstance(items, list):
        raise TypeError("candidates='kmeans' needs numeric features: use candidates='rows'.")
    clusters = MiniBatchKMeans(
        n, batch_size=8192, n_init=1, max_iter=20, random_state=int(rng.integers(2**31))
    )
    return clusters.fit(items, sample_weight=rows.weights).cluster_centers_


def fit_span(
    plan: SearchPlan,
    bench: Bench,
    interrupted: StopRule,
    after_step: Callable[[int], None],
    after_block: Callable[[int], None],
) -> SpanFit:
    """Choose a basis as planned and fit all rows in its span."""
    rules: list[StopRule] = [*_gap_rules(plan, bench), MaxSize(plan.n_basis), interrupted]
    if plan.search == "fresh":
        return _fit_fresh(plan, bench, rules, after_step)
    if plan.search == "full" and bench.sample.n_rows > FULL_LIMIT:
        raise ValueError(
            f"search='full' holds an m x m matrix and takes at most {FULL_LIMIT} rows, got "
            f"{bench.sample.n_rows}: use search='pooled' with a larger pool_size."
        )
    pool = choose_pool(plan, bench)
    search = PooledSearch(
        bench.kernel,
        bench.noise,
        pool,
        sketch_rows=_sketch_rows(plan, bench.sample.n_rows, len(pool)),
        rounds=plan.rounds if plan.search == "pooled" else 1,
        rng=bench.rng,
        workers=bench.workers,
        meter=bench.meter,
        max_time=plan.max_time,
    )
    choice = search.run(bench.sample, plan.n_basis, rules, after_step)
    fitted = refit(
        choice,
        bench.sample,
        bench.kernel,
        bench.noise,
        workers=bench.workers,
        meter=bench.meter,
        dtype=plan.dtype,
        after_block=after_block,
    )
    if plan.search == "pooled" and plan.tol is not None:
        return _smallest_within(plan.tol, plan.certificate, fitted, bench)
    return fitted


def _fit_fresh(
    plan: SearchPlan, bench: Bench, rules: list[StopRule], after_step: Callable[[int], None]
) -> SpanFit:
    """SB01 Algorithm 1 as published: a new random subset of the rows at every step."""
    sample = bench.sample
    objective = SpanPursuit(
        sample, bench.kernel, bench.noise, capacity=plan.n_basis, workers=bench.workers
    )
    pursuit = Pursuit(
        objective,
        bench.meter,
        candidates=FreshSubset(_fresh_size(plan), bench.rng),
        scale=objective.value,
    )
    if plan.max_time is not None:
        rules = [*rules, Deadline(plan.max_time)]
    path = pursuit.run(rules, after_step)
    trace = float(sample.weights @ objective.factor.diagonal)
    pool = Pool.of_rows(sample, objective.chosen)
    return SpanFit(pool, objective.solution(), path, trace)


def _fresh_size(plan: SearchPlan) -> int:
    return subset_size() if plan.pool_size == "auto" else int(plan.pool_size)


def _sketch_rows(plan: SearchPlan, n_rows: int, pool_size: int) -> int | None:
    """Rows that choose: None is all of them."""
    if plan.search == "full" or plan.selection_rows is None:
        return None
    if plan.selection_rows == "auto":
        return None if n_rows <= SMALL else 2 * pool_size
    return int(plan.selection_rows)


def _gap_rules(plan: SearchPlan, bench: Bench) -> list[StopRule]:
    """The rule that stops a fresh or full search by its gap; it also fills the path's gaps."""
    if plan.search == "pooled" or plan.certificate is None:
        return []
    tol = plan.tol if plan.tol is not None else -np.inf
    if plan.certificate == "published":
        subset = FreshSubset(_fresh_size(plan), bench.rng) if plan.search == "fresh" else None
        dual = bench.certifier.second_pursuit(plan.n_basis, subset)
        norm = float(bench.sample.target_norms().sum())

        def published_gap(pursuit: Pursuit) -> float:
            dual.step()
            lower = float(sparse_lower_bound(dual, bench.noise, dual.size).sum())
            return relative_gap(pursuit.objective.value, lower, norm)

        return [GapBelow(tol, published_gap)]
    if plan.tol is None:
        return []

    def certified_gap(pursuit: Pursuit) -> float:
        objective = pursuit.objective
        assert isinstance(objective, QuadraticPursuit | SpanPursuit)
        points = bench.sample.rows.take(objective.chosen)
        beta = objective.coefficients()
        norms = np.einsum("io,io->o", beta, bench.kernel.tile(points, points) @ beta)
        [found] = bench.certifier.certify([Model(points, beta, norms)], str(plan.certificate))
        return found.relative_gap

    return [GapBelow(tol, certified_gap, growth=_GROWTH_BETWEEN_LOOKS)]


def _smallest_within(tol: float, kind: str | None, fitted: SpanFit, bench: Bench) -> SpanFit:
    """The smallest model, on a grid of sizes, whose certificate on all rows meets ``tol``."""
    assert kind is not None
    sizes = _size_grid(fitted.solution.size)
    models = [span_model(fitted.pool.items[:n], fitted.solution.truncated(n)) for n in sizes]
    gaps = [found.relative_gap for found in bench.certifier.certify(models, kind)]
    gap = fitted.path.gap.copy()
    gap[np.array(sizes) - 1] = gaps
    fitted = replace(fitted, path=replace(fitted.path, gap=gap))
    within = [n for n, found in zip(sizes, gaps, strict=True) if found <= tol]
    if not within:
        warnings.warn(
            f"no size up to {sizes[-1]} basis functions meets tol={tol:g}: the relative gap at "
            f"{sizes[-1]} is {gaps[-1]:.3g} ({kind} certificate). Raise n_basis or tol, or use a "
            "tighter certificate.",
            ConvergenceWarning,
            stacklevel=5,
        )
        return fitted
    return fitted.truncated(within[0], "tol")


def _size_grid(n: int) -> list[int]:
    """1, …, n in steps of ratio 1.25."""
    sizes = {n}
    while n > 1:
        n = min(n - 1, int(n / _GRID_RATIO))
        sizes.add(n)
    return sorted(sizes)
