"""Spread of predictions in the span of a basis, and bounds on that of the exact process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve_triangular

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.estimators.inputs import dense
from pursuit.gram import (
    Block,
    ItemArithmetic,
    RowArithmetic,
    chunked,
    cross_statistics,
    residual_squares,
    row_pass,
)
from pursuit.greedy import FreshSubset, MaxSize, Problem, Pursuit, solve_in_span, subset_size
from pursuit.kernels import Kernel
from pursuit.linalg import PredictiveVariance, SpanSolution, Workers, column_dots
from pursuit.objectives import QuadraticPursuit, SpanPursuit, dual_pursuit
from pursuit.rounding import Rounded, dots, gamma, weight
from pursuit.rounding import sizes as upper_sizes
from pursuit.rows import RowSource, Sample, as_rows, concat, draw_rows, len_items, take_items

_BATCH = 1024
_GUIDES = 64


def variance_bounds(
    problem: Problem, basis: Any, queries: Any, n_star: int
) -> tuple[Floats, Floats]:
    """Lower and upper bounds on s² at every query, from one basis and one set S* of rows.

    Upper, from n_star values of k and in O(n_star²), for any v on S* and so for the best one::

        s² ≤ k(x,x) + σ² - 2v'k_S* + v'(K_S*S* + σ²W_S*⁻¹)v

    lower, from passes over the rows, for any f and so for the best one in the basis' span::

        s² ≥ k(x,x) + σ² - (Σw(k - f)² + σ²‖f‖²)/σ²

    Both are evaluated at the v and f that factorisations propose, with bounds on the rounding.
    """
    points, solution = solve_in_span(problem, basis)
    rows_star, triangle = _choose_rows(problem, queries, n_star)
    exact = QueryArithmetic.of(problem)
    star, span = exact.among(problem.sample.rows.take(rows_star)), exact.among(points)
    lower, upper = [], []
    problem.meter.passes += 2
    for start in range(0, len_items(queries), _BATCH):
        batch = queries[start : start + _BATCH]
        k_star = problem.kernel.tile(star.items, batch)
        half = solve_triangular(triangle, k_star, lower=True)
        v = solve_triangular(triangle, half, lower=True, trans="T")
        upper.append(exact.upper(batch, star, problem.sample.weights[rows_star], k_star, v))
        how = problem.sample, problem.kernel, points
        inner, _ = solution.solve_inner(cross_statistics(*how, batch, problem.workers))
        missed = residual_squares(*how, inner, batch, problem.workers)
        lower.append(exact.lower(batch, span, inner, missed))
    return _above_noise(np.concatenate(lower), np.concatenate(upper), problem.noise)


@dataclass(frozen=True)
class QueryArithmetic:
    """Bounds on s² from proposed points, with the rounding of their evaluation.

    Attributes
    ----------
    problem : Problem
        Rows, weights, kernel, noise.
    rows : RowArithmetic
        Products with the rows.
    """

    problem: Problem
    rows: RowArithmetic

    @classmethod
    def of(cls, problem: Problem) -> QueryArithmetic:
        """Look at the rows once."""
        return cls(problem, RowArithmetic.of(problem.sample.rows, problem.kernel, problem.workers))

    def among(self, items: Any) -> ItemArithmetic:
        """Rows or basis points, and their kernel matrix."""
        return self.rows.among(items)

    def upper(
        self, queries: Any, star: ItemArithmetic, weights: Floats, k: Floats, v: Floats
    ) -> Floats:
        """k(x,x) + σ² - 2v'k + v'Av for v on the rows S*, not below its exact value.

        Where rounding leaves nothing of it, k(x,x) + σ², which is that of v = 0.
        """
        prior, sizes = self._prior(queries)
        k_star = Rounded(k, np.multiply.outer(star.sizes, self.rows.shares(queries) * sizes))
        noisy = self.problem.noise * (Rounded.of(v) / weights[:, None])
        quadratic = dots(v, star.products(v) + noisy)
        return np.fmin((prior - 2.0 * dots(k_star, v) + quadratic).high, prior.high)

    def lower(self, queries: Any, span: ItemArithmetic, beta: Floats, missed: Floats) -> Floats:
        """k(x,x) + σ² - (missed + σ²‖f‖²)/σ² for f = Σβ_j k(·, z_j), not above its exact value.

        ``missed`` is Σw(k - f)² as computed. Each k - f is wrong by at most s(row) times some c,
        its weighted norm therefore by c√Σws².
        """
        prior, sizes = self._prior(queries)
        n, m = len(beta), self.problem.sample.n_rows
        each = span.error.of_terms(n + 1) * (weight(span.sizes, beta) + sizes)
        each = each + self.rows.shares(queries) * sizes
        total = np.sqrt(float(self.problem.sample.weights @ self.rows.sizes**2))
        norm = np.sqrt(missed) * (1.0 + gamma(m + 4)) + each * total * (1.0 + gamma(m + 4))
        squares = Rounded.of(norm**2 * (1.0 + gamma(4)))
        return (prior - squares / self.problem.noise - span.squared_norms(beta)).low

    def _prior(self, queries: Any) -> tuple[Rounded, Floats]:
        """k(x,x) + σ², and √k(x,x)."""
        diagonal = self.problem.kernel.diag(queries)
        known = Rounded(diagonal, self.rows.shares(queries) * diagonal)
        return known + self.problem.noise, upper_sizes(diagonal)


def _choose_rows(problem: Problem, queries: Any, n: int) -> tuple[Indices, Floats]:
    """S*, chosen greedily to lower the upper bounds of a few queries, and chol(K + σ²W⁻¹)_S*S*."""
    sample = problem.sample
    rows = draw_rows(sample.n_rows, 2 * n + 1000, problem.rng)
    guides = draw_rows(len_items(queries), _GUIDES, problem.rng)
    pool = sample.take(rows)
    items = pool.rows.take(np.arange(len(rows)))
    objective = dual_pursuit(
        pool.rows,
        problem.kernel.tile(items, take_items(queries, guides)),
        pool.weights,
        problem.kernel,
        problem.noise,
        capacity=n,
        workers=problem.workers,
    )
    Pursuit(objective, problem.meter).run([MaxSize(n)])
    return rows[objective.chosen], objective.factor.triangle()


def variance_bounds_to_tolerance(
    problem: Problem, queries: Any, tol: float, basis: Any = None, n_star: int = 0
) -> tuple[Floats, Floats, Indices]:
    """Bounds on s² by two pursuits of its own for every query (SB01 Table 2, second row).

    With y := k(x), the pursuits on Q and Q* run side by side, a fresh random subset of 59 rows
    each at every step, until 2(Q* - l)/(-Q* - l) ≤ tol with l = (-½k'Wk - Q)/σ² the lower bound
    that Q gives for Q*_min (SB01 eq. 8). Q begins with ``basis`` and Q* with ``n_star`` rows that
    serve all queries, as SB01 §4 proposes, or both with nothing, as in its Table 2. Also returns
    the number of steps that each query took beyond that.
    """
    n_queries = len_items(queries)
    lower, upper = np.empty(n_queries), np.empty(n_queries)
    counts = np.empty(n_queries, dtype=np.intp)
    exact = QueryArithmetic.of(problem)
    items = problem.sample.rows.take(np.arange(problem.sample.n_rows))
    none = np.zeros((len_items(items), 1))
    first, n_basis = _begin_primal(problem, items, basis)
    second = dual_pursuit(
        problem.sample.rows,
        none,
        problem.sample.weights,
        problem.kernel,
        problem.noise,
        capacity=64,
        workers=problem.workers,
    )
    if n_star:
        rows_star, _ = _choose_rows(problem, queries, n_star)
        Pursuit(second, problem.meter).take(rows_star.tolist())
    for i in range(n_queries):
        query = queries[i : i + 1]
        k = problem.kernel.tile(items, query)
        primal = first.restarted(np.concatenate([np.zeros((n_basis, 1)), k]))
        dual = second.restarted(k)
        # Pursuits only propose: where they overflow, the bounds say what is known without them.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            counts[i] = _pursue_query(problem, primal, dual, tol)
            star = problem.sample.rows.take(dual.chosen)
            weights = problem.sample.weights[dual.chosen]
            v = dual.coefficients() if len(dual.chosen) else np.empty((0, 1))
            [upper[i]] = exact.upper(query, exact.among(star), weights, k[dual.chosen], v)
            points, beta = primal.items(primal.chosen), primal.coefficients()
            residual = k - problem.kernel.tile(items, points) @ beta
            missed = problem.sample.weights @ residual**2
            [lower[i]] = exact.lower(query, exact.among(points), beta, missed)
    return *_above_noise(lower, upper, problem.noise), counts


def _begin_primal(problem: Problem, items: Any, basis: Any) -> tuple[SpanPursuit, int]:
    """The pursuit on Q with the basis taken, and how many rows stand before those of the sample.

    Points of the basis need not be rows: they join them as rows of weight 0, which may be chosen
    and count for nothing.
    """
    sample, n = problem.sample, 0
    if basis is not None:
        n = len_items(basis)
        sample = Sample(
            as_rows(concat(_alike(basis, items), items)),
            np.zeros((n + len_items(items), 1)),
            np.concatenate([np.zeros(n), sample.weights]),
        )
    else:
        sample = replace(sample, targets=np.zeros((sample.n_rows, 1)))
    pursuit = SpanPursuit(
        sample, problem.kernel, problem.noise, capacity=64, workers=problem.workers
    )
    Pursuit(pursuit, problem.meter).take(range(n))
    return pursuit, n


def _alike(points: Any, items: Any) -> Any:
    """Convert points to the format of the items, sparse or dense."""
    if sparse.issparse(items):
        return sparse.csr_array(points)
    return dense(points)


def _pursue_query(problem: Problem, primal: SpanPursuit, dual: QuadraticPursuit, tol: float) -> int:
    """Pursue Q and Q* for one query's k(x) as targets; return the steps taken."""
    size = subset_size()
    pursuits = [
        Pursuit(objective, problem.meter, candidates=FreshSubset(size, problem.rng))
        for objective in (primal, dual)
    ]
    ended = False
    while True:
        # primal is P = Q + ½k'Wk, hence l = -P/σ².
        q_star, bound = dual.value, -primal.primal / problem.noise
        done = 2 * (q_star - bound) <= tol * (-q_star - bound)
        if done or ended or not np.isfinite(q_star + bound):
            return max(pursuit.size for pursuit in pursuits)
        reasons = [pursuit.step() for pursuit in pursuits]
        ended = all(reasons)


def _above_noise(lower: Floats, upper: Floats, noise: float) -> tuple[Floats, Floats]:
    """No new observation varies less than its noise."""
    return np.fmax(lower, noise), np.maximum(upper, noise)


_ROWS = 512


def latent_variance(
    rows: RowSource,
    kernel: Kernel,
    points: Any,
    solution: SpanSolution,
    spread: PredictiveVariance,
    workers: Workers,
) -> Floats:
    """Variance of f at every row, never negative."""
    task = partial(_variance, points, solution, spread)
    return row_pass(rows, kernel, task, workers)


def _variance(
    points: Any,
    solution: SpanSolution,
    spread: PredictiveVariance,
    kernel: Kernel,
    workers: Workers,
) -> Block[NDArray[Any]]:
    columns = kernel.columns(points)

    def part(items: Any) -> Floats:
        return spread.variance(solution, columns(items), kernel.diag(items))

    return chunked(part, _ROWS, workers, combine=np.concatenate)


Derivatives = Callable[[Floats, Floats], tuple[Floats, Floats, Floats]]
"""From k(x, points), one row per x, and k(x, x): the variance of f(x), and its derivatives by
k(points, x), one column per x, and by k(x, x)."""


def std_gradient(
    rows: RowSource,
    kernel: Kernel,
    points: Floats,
    derivatives: Derivatives,
    noise: float,
    workers: Workers,
) -> Floats:
    """∂/∂x of √(Var f(x) + noise) at every row: shape (n_rows, n_features).

    0 where the standard deviation itself is 0.
    """
    return row_pass(rows, kernel, partial(_deviation, points, derivatives, noise), workers)


def _deviation(
    points: Floats, derivatives: Derivatives, noise: float, kernel: Kernel, workers: Workers
) -> Block[NDArray[Any]]:
    columns = kernel.columns(points)

    def part(items: Any) -> Floats:
        X = dense(items)
        variance, by_kernel, by_diagonal = derivatives(columns(items), kernel.diag(items))
        gradient = kernel.points(points, X, by_kernel) + kernel.diag_points(X, by_diagonal)
        twice = 2.0 * np.sqrt(variance + noise)[:, None]
        return np.divide(gradient, twice, out=np.zeros_like(gradient), where=twice > 0)

    step = max(16, limits.TILE_ENTRIES // max(len(points), 1))
    return chunked(part, step, workers, combine=np.concatenate)


def part_variances(
    rows: RowSource,
    kernel: Kernel,
    terms: Sequence[Kernel],
    points: Any,
    solution: SpanSolution,
    spread: PredictiveVariance,
    workers: Workers,
    center: Any = None,
) -> Floats:
    """Variance of the process of each term of a kernel: shape (n_rows, n_terms).

    With q = k_t(x, Z), V_t = R⁻¹q and U_t = L⁻¹V_t it is k_t(x,x) - ‖V_t‖² + noise·‖U_t‖². The
    difference is what f(Z) leaves of f_t(x). As much of it as f(x) would explain has the calibrated
    factor of what the basis misses of f; the rest, which no rows can tell from other terms, has
    none. With ``center`` it is the variance of f_t(x) less its mean over these items.
    """
    task = partial(_part_variances, terms, points, solution, spread, center)
    return row_pass(rows, kernel, task, workers)


def _part_variances(
    terms: Sequence[Kernel],
    points: Any,
    solution: SpanSolution,
    spread: PredictiveVariance,
    center: Any,
    kernel: Kernel,
    workers: Workers,
) -> Block[NDArray[Any]]:
    columns = kernel.columns(points)
    covariances = [TermCovariance(term, points, center) for term in terms]

    def part(items: Any) -> Floats:
        V, prior = solution.features(columns(items)), kernel.diag(items)
        missed = np.maximum(prior - column_dots(V, V), 0.0)
        factor = spread.factor(missed, prior)
        variances = np.empty((len(prior), len(terms)))
        for t, covariance in enumerate(covariances):
            q, with_sum, own = covariance(items)
            V_t = solution.features(q)
            U_t = solution.rotated(V_t)
            left = np.maximum(own - column_dots(V_t, V_t), 0.0)
            shared = with_sum - column_dots(V_t, V)
            known = np.divide(shared**2, missed, out=np.zeros_like(left), where=missed > 0)
            left += (factor - 1.0) * np.minimum(known, left)
            variances[:, t] = left + spread.noise * column_dots(U_t, U_t)
        return variances

    return chunked(part, _ROWS, workers, combine=np.concatenate)


class TermCovariance:
    """Prior covariances of g = f_t(x), or of g = f_t(x) less its mean over some items.

    Called with rows x it returns the covariances of g with f at the points, those of g with f(x),
    and the variances of g.
    """

    def __init__(self, term: Kernel, points: Any, center: Any) -> None:
        self._term, self._columns = term, term.columns(points)
        self._center = None if center is None else term.columns(center)
        if self._center is not None:
            self._mean = self._columns(center).mean(axis=0)
            self._mean_square = float(self._center(center).mean())

    def __call__(self, items: Any) -> tuple[Floats, Floats, Floats]:
        """Return the three."""
        q, prior = self._columns(items), self._term.diag(items)
        if self._center is None:
            return q, prior, prior
        across = self._center(items).mean(axis=1)
        return q - self._mean, prior - across, prior - 2.0 * across + self._mean_square


def latent_covariance(
    rows: RowSource, kernel: Kernel, points: Any, solution: SpanSolution, spread: PredictiveVariance
) -> Floats:
    """Joint covariance of f at all rows."""
    items = rows.take(np.arange(rows.n_rows))
    return spread.covariance(solution, kernel.tile(items, points), kernel.tile(items, items))
