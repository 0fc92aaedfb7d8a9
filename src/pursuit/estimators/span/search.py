"""From the arguments of an estimator to a search, and from a search to a fitted span."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from pursuit import limits
from pursuit._types import Indices
from pursuit.bounds import Certificate, relative_gap
from pursuit.estimators.arguments import POOLED, Search, resolve_search
from pursuit.estimators.fit_run import FitRun
from pursuit.estimators.inputs import is_precomputed, validate_items
from pursuit.estimators.span.certify import Certifier, Model, SecondPursuit
from pursuit.greedy import (
    Choice,
    Clock,
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
    size_grid,
    subset_size,
)
from pursuit.linalg import SpanSolution, StepwiseSolution
from pursuit.objectives import SpanEvidence, SpanObjective, SpanPursuit
from pursuit.rows import BLOCK_ROWS, Sample, distinct_rows, draw_rows, take_items

Begin = Callable[..., Callable[[int], None]]

FULL_LIMIT = 20_000
"""Beyond this many rows a full search would need gigabytes for its m x m matrix."""
_CHOSEN_BY, _LEAST_SHARE = 0.6, 0.1
"""Shares of a fit's time: when moves begin, and what the choice has in any case."""
_GROWTH_BETWEEN_LOOKS = 0.1
_FIRST_SIZE = 256
_ALL_INSTEAD = 3
"""Sketches of more than one part in so many of the rows are not worth a pass of their own: an
eighth more points on all rows is less work than that pass."""


@dataclass(frozen=True)
class SearchPlan:
    """The arguments that decide how a basis is chosen, as the user gave them."""

    n_basis: int
    search: Search
    tol: float | None = None
    certificate: str | None = None
    max_time: float | None = None
    dtype: DTypeLike = np.float64

    @property
    def evidence(self) -> bool:
        """Whether candidates are chosen for the evidence."""
        return self.search.score == "evidence"


def timed(plan: SearchPlan, clock: Clock, problem: Problem, *, moves: bool) -> SearchPlan:
    """The plan with the time by which the choice must end for the rest of the fit to follow."""
    if plan.max_time is None:
        return plan
    seconds = max(clock.left(_CHOSEN_BY if moves else 1.0), _LEAST_SHARE * plan.max_time)
    return replace(plan, max_time=problem.meter.seconds + seconds)


GAUSSIAN_SEARCH = {
    "pooled": (*POOLED, "score"),
    "fresh": ("pool_size", "score"),
    "full": ("score",),
}
"""Fields of `Search` that apply where a basis is chosen for a Gaussian process."""


def estimator_search(estimator: Any, allowed: Mapping[str, Collection[str]]) -> Search:
    """The search that an estimator's ``search`` means, its own points checked."""
    search = resolve_search(estimator.search, allowed)
    other_points = search.own_points or search.candidates == "kmeans"
    if other_points and is_precomputed(estimator.kernel):
        raise ValueError(
            "kernel='precomputed' knows only its rows: leave candidates out of the search."
        )
    return search


def refuse_centres(estimator: Any, search: Search) -> None:
    """Refuse centres of clusters of rows that have categories: means of levels are no levels."""
    if isinstance(search.candidates, str) and search.candidates == "kmeans":
        categories = list(vars(estimator).get("categories_", {}))
        if categories:
            raise ValueError(
                f"candidates='kmeans' averages rows, and columns hold categories: {categories}. "
                "Use candidates='rows', or points of your own."
            )


def with_checked_points(estimator: Any, search: Search) -> Search:
    """Validate the user's own candidate points; X has been validated before."""
    refuse_centres(estimator, search)
    if not search.own_points:
        return search
    points = validate_items(estimator, search.candidates, reset=False, name="candidates")
    return replace(search, candidates=points)


def span_model(
    points: Any, solution: SpanSolution | StepwiseSolution, *, same_rows: bool = False
) -> Model:
    """The model of a solution, and whether that is of the rows that will be certified."""
    factors = solution if isinstance(solution, SpanSolution) else None
    return Model(points, solution.coefficients(), factors, same_rows)


def choose_pool(plan: SearchPlan, problem: Problem) -> Pool:
    """The candidates of a pooled or full search."""
    sample, m = problem.sample, problem.sample.n_rows
    search = plan.search
    if search.own_points:
        return Pool.of_points(search.candidates)
    size = search.pool_size or 2 * plan.n_basis + 1000
    if search.candidates == "kmeans":
        return Pool.of_points(cluster_centres(sample, min(size, m), problem.rng))
    small = m <= limits.SMALL_ROWS and search.pool_size is None
    if small or search.kind == "full" or size >= m:
        return Pool.of_rows(
            sample, distinct_rows(sample.rows) if m <= limits.SMALL_ROWS else np.arange(m)
        )
    return Pool.of_rows(sample, draw_rows(m, size, problem.rng))


def cluster_centres(sample: Sample, n: int, rng: np.random.Generator) -> Any:
    """Centres of n clusters of the rows, found by k-means on at most max(20 000, 4 n) of them."""
    from sklearn.cluster import MiniBatchKMeans

    rows = sample.take(draw_rows(sample.n_rows, max(20_000, 4 * n), rng))
    items = rows.rows.take(np.arange(rows.n_rows))
    if isinstance(items, list):
        raise TypeError("candidates='kmeans' needs numeric features: use candidates='rows'.")
    clusters = MiniBatchKMeans(
        n, batch_size=8192, n_init=1, max_iter=20, random_state=int(rng.integers(2**31))
    )
    return clusters.fit(items, sample_weight=rows.weights).cluster_centers_


@dataclass(frozen=True)
class RowSplit:
    """Rows that choose and move a basis, and rows reserved to judge it, in increasing order."""

    allowed: Indices
    reserved: Indices

    @classmethod
    def none_reserved(cls, n_rows: int) -> RowSplit:
        """All rows choose."""
        return cls(np.arange(n_rows), np.arange(0))


@dataclass(frozen=True)
class Chosen:
    """A chosen basis and, where a fresh or full search has made them, its fit and the gap."""

    choice: Choice
    fitted: SpanFit | None = None
    gap: PublishedGap | CertifiedGap | None = None


def choose_basis(
    plan: SearchPlan,
    problem: Problem,
    split: RowSplit,
    run: FitRun,
    cut: Callable[[Choice], tuple[Choice, bool]] | None = None,
) -> Chosen:
    """Choose a basis as planned, on the rows of the split that may choose.

    ``cut`` shortens a choice to what is worth its cost, and says whether twice as many functions
    would be worth more: sizes are then tried from small to large until they would not. The choice
    of a pooled search is recorded in the checkpoint.
    """
    pooled, restricted = plan.search.kind == "pooled", len(split.reserved) > 0
    recorded = run.finished("choose") if pooled else None
    if recorded is not None:
        return Chosen(recorded)
    chooser = problem
    if restricted:  # the ridge in proportion to the rows
        noise = problem.noise * len(split.allowed) / problem.sample.n_rows
        chooser = replace(problem, sample=problem.sample.take(split.allowed), noise=noise)
    for size in [plan.n_basis] if cut is None else _ladder(plan.n_basis):
        after_step = run.begin("choose", size)
        sized = replace(plan, n_basis=size)
        gap = gap_of(sized, chooser)
        rules = [*gap_rules(sized, gap), run.interrupted]
        fitted = None
        if plan.search.kind == "fresh":
            fitted = _fit_fresh(sized, chooser, [MaxSize(size), *rules], after_step)
            choice = Choice(fitted.pool, fitted.path, None)
        else:
            choice = pooled_search(sized, chooser).run(size, rules, after_step)
        exhausted = choice.path.stop_reason != "n_basis"
        if restricted:
            choice = choice.renumbered(split.allowed)
        goes_on = False
        if cut is not None:
            choice, goes_on = cut(choice)
        if cut is not None and not goes_on and size < plan.n_basis and not exhausted:
            choice = replace(choice, path=replace(choice.path, stop_reason="no gain"))
        if exhausted or not goes_on:
            break
    if pooled:
        return Chosen(run.keep("choose", choice))
    return Chosen(choice) if restricted or cut is not None else Chosen(choice, fitted, gap)


def fit_basis(
    chosen: Chosen, problem: Problem, dtype: DTypeLike, run: FitRun
) -> tuple[SpanFit, Certificate | None]:
    """Fit all rows in the span of a choice, and the certificate where the search has computed it.

    The pass ends some seconds after Ctrl-C, with a fit to the rows read so far.
    """
    fitted, gap = chosen.fitted, chosen.gap
    if fitted is None:
        m = problem.sample.n_rows
        tick = run.begin("fit", -(-m // BLOCK_ROWS), m)
        fitted = refit(
            chosen.choice,
            problem,
            dtype=dtype,
            after_block=lambda done: tick(-(-done // BLOCK_ROWS)),
            enough=run.interrupted.overdue,
        )
    if gap is None or fitted.n_rows is not None:
        return fitted, None
    if isinstance(gap, PublishedGap):
        return fitted, gap.final(fitted.pool.items, fitted.solution)
    return fitted, gap.certificate if fitted.path.stop_reason == "tol" else None


def _ladder(largest: int) -> list[int]:
    """Sizes to try if the size is automatic, each twice the previous one."""
    sizes = [largest]
    while sizes[0] > _FIRST_SIZE:
        sizes.insert(0, sizes[0] // 2)
    return sizes


def pooled_search(plan: SearchPlan, problem: Problem) -> PooledSearch:
    """A search in a pool by statistics on a sketch, or among all rows by all rows."""
    if plan.search.kind == "full" and problem.sample.n_rows > FULL_LIMIT:
        raise ValueError(
            f"search='full' holds an m x m matrix and takes at most {FULL_LIMIT} rows, got "
            f"{problem.sample.n_rows}: use Search('pooled', pool_size=...) with a larger pool."
        )
    pool = choose_pool(plan, problem)
    return PooledSearch(
        problem,
        pool,
        **_looked_at(plan, problem.sample.n_rows, len(pool)),
        rounds=plan.search.rounds or 1,
        evidence=plan.evidence,
        max_time=plan.max_time,
    )


def choose_again(plan: SearchPlan, problem: Problem, present: Pool, n_kept: int) -> SpanFit:
    """Choose among present points and candidates of a new pool; the first ``n_kept`` stay."""
    fresh = choose_pool(plan, problem)
    fresh = fresh.take(np.flatnonzero((fresh.index < 0) | ~np.isin(fresh.index, present.index)))
    pool = present + fresh if len(fresh) else present
    rows = _looked_at(plan, problem.sample.n_rows, len(pool))
    search = PooledSearch(problem, pool, **rows, n_kept=n_kept, evidence=plan.evidence)
    choice = search.run(plan.n_basis, [])
    return refit(choice, problem, dtype=plan.dtype)


def choose_more(
    plan: SearchPlan,
    problem: Problem,
    present: Pool,
    numbers: Indices,
    rules: Sequence[StopRule],
    after_step: Callable[[int], None],
) -> Pool:
    """Points that bring a basis to ``plan.n_basis``, chosen for a problem while all present stay.

    ``numbers`` are those that the rows of the problem have in the index of ``present``.
    """
    fresh = choose_pool(plan, problem)
    index = np.where(fresh.index >= 0, numbers[fresh.index], -1)
    new = np.flatnonzero((index < 0) | ~np.isin(index, present.index))
    fresh, index = fresh.take(new), index[new]
    # Present points have no number here, candidates are numbered one after the other.
    pool = Pool.of_points(present.items) + Pool(fresh.items, np.arange(len(fresh)))
    rows = _looked_at(plan, problem.sample.n_rows, len(pool))
    search = PooledSearch(problem, pool, **rows, n_kept=len(present))
    choice = search.run(plan.n_basis, rules, after_step)
    taken = choice.pool.index[choice.pool.index >= 0]
    return Pool(take_items(fresh.items, taken), index[taken])


def _fit_fresh(
    plan: SearchPlan, problem: Problem, rules: list[StopRule], after_step: Callable[[int], None]
) -> SpanFit:
    """SB01 Algorithm 1 as published: a new random subset of the rows at every step."""
    sample = problem.sample
    build = SpanEvidence if plan.evidence else SpanPursuit
    objective = build(
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
    return plan.search.pool_size or subset_size()


def _looked_at(plan: SearchPlan, n_rows: int, pool_size: int) -> dict[str, Any]:
    """Which rows a pooled search looks at: the number in its sketch, and whether the pool's first.

    A sketch has four rows per member of the pool. All rows take its place where they are at most
    ``_ALL_INSTEAD`` as many: the fit then has its statistics from the choice.
    """
    rows = plan.search.rows
    if plan.search.kind == "full" or rows == "all":
        return {"sketch_rows": None}
    if rows is not None:
        return {"sketch_rows": int(rows)}
    sketch = 4 * pool_size
    sketch_rows = sketch if n_rows > _ALL_INSTEAD * sketch else None
    return {"sketch_rows": sketch_rows, "screened": max(limits.SMALL_ROWS, pool_size) < n_rows}


class CertifiedGap:
    """The gap of the model so far, with the best lower bound found at any size."""

    def __init__(self, problem: Problem, kind: str) -> None:
        self.certificate: Certificate | None = None
        self._problem, self._kind = problem, kind

    def __call__(self, pursuit: Pursuit) -> float:
        """Certify the current model; the cost is counted in the path."""
        objective, problem = cast(SpanObjective, pursuit.objective), self._problem
        points = problem.sample.rows.take(objective.chosen)
        model = Model(points, objective.coefficients())
        [found] = Certifier(problem).certify([model], self._kind)
        if self.certificate is not None:
            best = np.maximum(found.lower_per_output, self.certificate.lower_per_output)
            found = replace(found, lower_per_output=best)
        self.certificate = found
        return found.relative_gap


class PublishedGap:
    """SB01's gap: the second pursuit takes a step whenever the first has taken one."""

    def __init__(self, problem: Problem, second: SecondPursuit) -> None:
        self._problem, self._second = problem, second
        self._norms = problem.sample.target_norms()

    def __call__(self, pursuit: Pursuit) -> float:
        """The gap after one more step of the second pursuit."""
        self._second.pursuit.step()
        lower = self._second.expected_bound(pursuit.size)
        primal = cast(SpanObjective, pursuit.objective).primal
        return relative_gap(primal, lower, float(self._norms.sum()))

    def final(self, points: Any, solution: SpanSolution | StepwiseSolution) -> Certificate:
        """The certificate of the fitted model."""
        model = span_model(points, solution)
        [found] = Certifier(self._problem).certify([model], "published", second=self._second)
        return found


def gap_of(plan: SearchPlan, problem: Problem) -> PublishedGap | CertifiedGap | None:
    """The gap that a fresh or full search computes as it goes."""
    if plan.search.kind == "pooled" or plan.certificate is None:
        return None
    if plan.certificate == "published":
        subset = (
            FreshSubset(_fresh_size(plan), problem.rng) if plan.search.kind == "fresh" else None
        )
        second = Certifier(problem).second_pursuit(plan.n_basis, subset)
        return PublishedGap(problem, second)
    return CertifiedGap(problem, plan.certificate) if plan.tol is not None else None


def gap_rules(plan: SearchPlan, gap: PublishedGap | CertifiedGap | None) -> list[StopRule]:
    """The rule that stops by the gap; it also fills the path's gaps."""
    if gap is None:
        return []
    growth = 0.0 if isinstance(gap, PublishedGap) else _GROWTH_BETWEEN_LOOKS
    return [GapBelow(-np.inf if plan.tol is None else plan.tol, gap, growth)]


def smallest_within(
    tol: float, kind: str, fitted: SpanFit, problem: Problem
) -> tuple[SpanFit, Certificate]:
    """The smallest model, on a grid of sizes, whose certificate on all rows meets ``tol``."""
    sizes = size_grid(fitted.solution.size)
    models = [
        span_model(fitted.pool.items[:n], fitted.solution.truncated(n), same_rows=fitted.exact)
        for n in sizes
    ]
    certificates = Certifier(problem).certify(models, kind)
    gaps = [found.relative_gap for found in certificates]
    if not fitted.solution.size:
        return fitted, certificates[-1]
    gap = fitted.path.gap.copy()
    gap[np.array(sizes) - 1] = gaps
    fitted = replace(fitted, path=replace(fitted.path, gap=gap))
    within = [i for i, found in enumerate(gaps) if found <= tol]
    if not within:
        return fitted, certificates[-1]
    return fitted.truncated(sizes[within[0]], "tol"), certificates[within[0]]
