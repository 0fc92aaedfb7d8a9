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

from pursuit.bounds import Certificate, relative_gap
from pursuit.estimators.certifying import Certifier, Model, SecondPursuit
from pursuit.greedy import (
    Deadline,
    FreshSubset,
    GapBelow,
    MaxSize,
    Pool,
    PooledSearch,
    Problem,
    Pursuit,
    SpanFit,
    StopRule,
    refit,
    subset_size,
)
from pursuit.linalg import SpanSolution
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


def span_model(points: Any, solution: SpanSolution, norms: Floats | None = None) -> Model:
    """The model of a solution; with ``norms`` y'Wy of the rows it was fitted to, where known."""
    beta, squares = solution.coefficients(), (solution.coordinates() ** 2).sum(axis=0)
    if norms is None:
        return Model(points, beta, squares)
    return Model(points, beta, squares, 0.5 * norms - solution.gains().sum(axis=0), solution)


def choose_pool(plan: SearchPlan, problem: Problem) -> Pool:
    """The candidates of a pooled or full search."""
    sample, m = problem.sample, problem.sample.n_rows
    if not isinstance(plan.candidates, str):
        return Pool.of_points(plan.candidates)
    size = 2 * plan.n_basis + 1000 if plan.pool_size == "auto" else int(plan.pool_size)
    if plan.candidates == "kmeans" and plan.search == "pooled":
        return Pool.of_points(_cluster_centres(sample, min(size, m), problem.rng))
    small = m <= SMALL and plan.pool_size == "auto"
    if small or plan.search == "full" or size >= m:
        return Pool.of_rows(sample, distinct_rows(sample.rows) if m <= SMALL else np.arange(m))
    return Pool.of_rows(sample, draw_rows(m, size, problem.rng))


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
    problem: Problem,
    interrupted: StopRule,
    after_step: Callable[[int], None],
    after_block: Callable[[int], None],
) -> tuple[SpanFit, Certificate | None]:
    """Choose a basis as planned and fit all rows in its span.

    The certificate is returned where the search has computed that of the final model.
    """
    rules: list[StopRule] = [MaxSize(plan.n_basis), interrupted]
    second = _second_pursuit(plan, problem)
    rules[:0] = _gap_rules(plan, problem, second)
    fitted = (
        _fit_fresh(plan, problem, rules, after_step)
        if plan.search == "fresh"
        else _fit_pooled(plan, problem, rules, after_step, after_block)
    )
    if plan.search == "pooled" and plan.tol is not None:
        return _smallest_within(plan.tol, plan.certificate, fitted, problem)
    if second is None:
        return fitted, None
    norms, n = problem.sample.target_norms(), fitted.solution.size
    upper = 0.5 * norms - fitted.solution.gains().sum(axis=0)
    return fitted, Certificate(upper, second.lower_bound(n, problem.noise), norms, "published")


def _fit_pooled(
    plan: SearchPlan,
    problem: Problem,
    rules: list[StopRule],
    after_step: Callable[[int], None],
    after_block: Callable[[int], None],
) -> SpanFit:
    """Choose from a pool by statistics on a sketch, or from all rows by all rows, and refit."""
    if plan.search == "full" and problem.sample.n_rows > FULL_LIMIT:
        raise ValueError(
            f"search='full' holds an m x m matrix and takes at most {FULL_LIMIT} rows, got "
            f"{problem.sample.n_rows}: use search='pooled' with a larger pool_size."
        )
    pool = choose_pool(plan, problem)
    search = PooledSearch(
        problem,
        pool,
        sketch_rows=_sketch_rows(plan, problem.sample.n_rows, len(pool)),
        rounds=plan.rounds if plan.search == "pooled" else 1,
        max_time=plan.max_time,
    )
    choice = search.run(plan.n_basis, rules, after_step)
    return refit(choice, problem, dtype=plan.dtype, after_block=after_block)


def grow_span(plan: SearchPlan, problem: Problem, kept: Pool, rules: list[StopRule]) -> SpanFit:
    """Keep these points, add candidates of a new pool to them, and refit."""
    fresh = choose_pool(plan, problem)
    fresh = fresh.take(np.flatnonzero((fresh.index < 0) | ~np.isin(fresh.index, kept.index)))
    pool = kept + fresh if len(fresh) else kept
    search = PooledSearch(
        problem,
        pool,
        sketch_rows=_sketch_rows(plan, problem.sample.n_rows, len(pool)),
        n_kept=len(kept),
    )
    return refit(search.run(plan.n_basis, rules), problem, dtype=plan.dtype)


def _fit_fresh(
    plan: SearchPlan, problem: Problem, rules: list[StopRule], after_step: Callable[[int], None]
) -> SpanFit:
    """SB01 Algorithm 1 as published: a new random subset of the rows at every step."""
    sample = problem.sample
    objective = SpanPursuit(
        sample, problem.kernel, problem.noise, capacity=plan.n_basis, workers=problem.workers
    )
    pursuit = Pursuit(
        objective,
        problem.meter,
        candidates=FreshSubset(_fresh_size(plan), problem.rng),
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


def _second_pursuit(plan: SearchPlan, problem: Problem) -> SecondPursuit | None:
    """SB01's second pursuit, run beside a fresh or full search."""
    if plan.search == "pooled" or plan.certificate != "published":
        return None
    subset = FreshSubset(_fresh_size(plan), problem.rng) if plan.search == "fresh" else None
    return Certifier(problem).second_pursuit(plan.n_basis, subset)


def _gap_rules(plan: SearchPlan, problem: Problem, second: SecondPursuit | None) -> list[StopRule]:
    """The rule that stops a fresh or full search by its gap; it also fills the path's gaps."""
    norm = float(problem.sample.target_norms().sum())
    if second is not None:

        def published_gap(pursuit: Pursuit) -> float:
            second.pursuit.step()
            lower = float(second.lower_bound(pursuit.size, problem.noise).sum())
            return relative_gap(pursuit.objective.value, lower, norm)

        return [GapBelow(-np.inf if plan.tol is None else plan.tol, published_gap)]
    if plan.search == "pooled" or plan.tol is None:
        return []

    best_lower = 0.0

    def certified_gap(pursuit: Pursuit) -> float:
        nonlocal best_lower
        objective = pursuit.objective
        assert isinstance(objective, QuadraticPursuit | SpanPursuit)
        points = problem.sample.rows.take(objective.chosen)
        beta = objective.coefficients()
        norms = np.einsum("io,io->o", beta, problem.kernel.tile(points, points) @ beta)
        model = Model(points, beta, norms)
        [found] = Certifier(problem).certify([model], str(plan.certificate))
        best_lower = max(best_lower, found.lower)
        return relative_gap(found.upper, best_lower, norm)

    return [GapBelow(plan.tol, certified_gap, growth=_GROWTH_BETWEEN_LOOKS)]


def _smallest_within(
    tol: float, kind: str | None, fitted: SpanFit, problem: Problem
) -> tuple[SpanFit, Certificate]:
    """The smallest model, on a grid of sizes, whose certificate on all rows meets ``tol``."""
    assert kind is not None
    sizes = size_grid(fitted.solution.size)
    norms = problem.sample.target_norms()
    models = [span_model(fitted.pool.items[:n], fitted.solution.truncated(n), norms) for n in sizes]
    certificates = Certifier(problem).certify(models, kind)
    gaps = [found.relative_gap for found in certificates]
    gap = fitted.path.gap.copy()
    gap[np.array(sizes) - 1] = gaps
    fitted = replace(fitted, path=replace(fitted.path, gap=gap))
    within = [i for i, found in enumerate(gaps) if found <= tol]
    if not within:
        warnings.warn(
            f"no size up to {sizes[-1]} basis functions meets tol={tol:g}: the relative gap at "
            f"{sizes[-1]} is {gaps[-1]:.3g} ({kind} certificate). Raise n_basis or tol, or use a "
            "tighter certificate.",
            ConvergenceWarning,
            stacklevel=5,
        )
        return fitted, certificates[-1]
    return fitted.truncated(sizes[within[0]], "tol"), certificates[within[0]]


def size_grid(n: int) -> list[int]:
    """1, …, n in steps of ratio 1.25."""
    sizes = {n}
    while n > 1:
        n = min(n - 1, int(n / _GRID_RATIO))
        sizes.add(n)
    return sorted(sizes)
