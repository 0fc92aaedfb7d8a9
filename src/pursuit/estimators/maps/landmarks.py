"""Landmarks of a feature map: which arguments go together, the choice, and the projection.

The choice is Algorithm 1 of Smola and Schölkopf (2000), in short SS00.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.bounds import Bound, least_deviation, sample_needed, sampled_look
from pursuit.estimators.arguments import Search, resolve_search
from pursuit.estimators.fit_run import FitRun
from pursuit.estimators.inputs import reads_matrix, validate_items
from pursuit.estimators.span.search import FULL_LIMIT, cluster_centres
from pursuit.gram import (
    KernelMatrix,
    gram_statistics,
    kernel_diagonal,
    kernel_features,
    kernel_product,
    residual_squares,
)
from pursuit.gram.arithmetic import RowArithmetic
from pursuit.greedy import (
    BoundBelow,
    CostMeter,
    FreshSubset,
    MaxSize,
    Path,
    Pivots,
    Pool,
    Pursuit,
    RandomPivot,
    StopRule,
    ValueBelow,
    block_pivots,
    given_pivots,
    kernel_matrix,
    subset_size,
)
from pursuit.greedy.loop import AllCandidates, Candidates
from pursuit.kernels import CountingKernel, Kernel
from pursuit.linalg import Workers
from pursuit.objectives import (
    GramResidual,
    OwnProjection,
    PublishedSpace,
    ResidualPursuit,
    Rule,
    checked_bound,
)
from pursuit.rounding import gamma
from pursuit.rows import Sample

RULES = ("function", "frobenius", "column", "diagonal", "random-pivot", "feature-analysis")
PROJECTIONS = ("function", "column", "kronecker")
STOPS = ("exact", "corollary3")

_RULES_OF_ANY_PROJECTION = ("function", "frobenius", "column")
_RULES_IN_BLOCKS = ("function", "random-pivot")
_FIELDS = {"pooled": ("candidates",), "fresh": ("pool_size",), "full": ()}
_DELTA = 0.05


@dataclass(frozen=True)
class LandmarkPlan:
    """How landmarks are chosen: the arguments of a feature map, checked against each other.

    Attributes
    ----------
    n : int
        Largest number of landmarks.
    residual_tol : float or None
        Share of the residual at which the choice stops.
    rule, projection, stop : str or callable
        As in the estimator; a callable is the user's own.
    search : Search
        ``"auto"`` is resolved, and points of the user's own are as they were passed.
    delta : float
        Probability with which Corollary 3 of SS00 may fail.
    """

    n: int
    residual_tol: float | None
    rule: Any
    projection: Any
    stop: Any
    search: Search
    delta: float

    @classmethod
    def of(cls, estimator: Any) -> LandmarkPlan:
        """Resolve the arguments of a feature map; refuse those that do not go together."""
        rule, projection, stop = estimator.rule, estimator.projection, estimator.stop
        tol, delta = estimator.residual_tol, estimator.delta
        if projection != "function" and not callable(rule) and rule not in _RULES_OF_ANY_PROJECTION:
            raise ValueError(
                f"rule={rule!r} is defined by residuals in function space: use "
                "projection='function', or one of the rules 'function', 'frobenius' and 'column'."
            )
        if stop != "exact" and tol is None:
            raise ValueError(
                f"stop={_name(stop)} compares a bound with residual_tol: pass residual_tol."
            )
        if not callable(stop) and tol is not None and tol >= 1:
            raise ValueError(
                f"residual_tol must be below 1, got {tol:g}: it is a share of the residual before "
                "the first landmark, unless stop is a function."
            )
        if delta is not None and stop != "corollary3":
            raise ValueError(
                f"delta={delta!r} is the probability with which the bound of stop='corollary3' may "
                f"fail, and has no effect with stop={_name(stop)}: leave it out."
            )
        if stop == "corollary3":
            _check_sampled(rule, projection)
        return cls(
            int(estimator.n_components),
            None if tol is None else float(tol),
            rule,
            projection,
            stop,
            _resolved(estimator),
            _DELTA if delta is None else float(delta),
        )

    @property
    def among_points(self) -> bool:
        """Whether landmarks are chosen among points that need not be rows."""
        return self.search.own_points or self.search.candidates == "kmeans"

    @property
    def subset_size(self) -> int:
        """Number of candidates of a fresh search per step."""
        return self.search.pool_size or subset_size()


def _resolved(estimator: Any) -> Search:
    """The search of a feature map, ``"auto"`` resolved."""
    rule, projection, stop = estimator.rule, estimator.projection, estimator.stop
    in_blocks = rule in _RULES_IN_BLOCKS and projection == "function" and stop == "exact"
    if isinstance(estimator.search, str) and estimator.search == "auto":
        if in_blocks:
            return Search("pooled")
        return Search("full" if rule in ("diagonal", "random-pivot") else "fresh")
    search = resolve_search(estimator.search, _FIELDS)
    if search.own_points or search.candidates == "kmeans":
        _check_points(estimator, search)
    elif search.kind == "pooled" and not in_blocks:
        raise ValueError(
            "search='pooled' takes blocks of landmarks, for rule='function' or 'random-pivot' with "
            f"projection='function' and stop='exact' only, got rule={_name(rule)}, "
            f"projection={_name(projection)} and stop={_name(stop)}: use search='auto', 'fresh' "
            "or 'full'."
        )
    if search.kind == "fresh" and rule == "random-pivot":
        raise ValueError(
            "rule='random-pivot' draws one row of all, not the best of a subset: use "
            "search='full' (one row per step), 'pooled' or 'auto'."
        )
    return search


def _check_sampled(rule: Any, projection: Any) -> None:
    if callable(projection):
        raise ValueError(
            "stop='corollary3' needs a projection that never leaves more of a column than before, "
            "which is unknown for a function: pass a function as stop, too, or use stop='exact'."
        )
    if rule == "random-pivot":
        raise ValueError(
            "stop='corollary3' needs candidates drawn uniformly, which rule='random-pivot' does "
            "not do: use stop='exact'."
        )


def _check_points(estimator: Any, search: Search) -> None:
    """Points are chosen by how much they lower the residual trace, or all of them are taken."""
    for name, only in {"rule": "function", "stop": "exact"}.items():
        value = getattr(estimator, name)
        if value != only:
            raise ValueError(
                f"{name}={_name(value)} chooses among rows, but the candidates of the search are "
                f"points: use {name}={only!r}, or leave candidates out."
            )
    if not search.own_points and reads_matrix(estimator):
        raise ValueError(
            "candidates='kmeans' needs rows with features, and kernel='precomputed' has none: "
            "leave candidates out of the search."
        )
    if callable(estimator.projection):
        raise ValueError(
            "projection is a function of the steps among rows, but the candidates of the search "
            "are points: use projection='function', or leave candidates out."
        )


def _name(value: Any) -> str:
    return getattr(value, "__name__", "a function") if callable(value) else repr(value)


def own_points(estimator: Any, candidates: Any, n_rows: int) -> Any:
    """The user's points, checked: items like the rows, or row numbers of a precomputed matrix."""
    if not reads_matrix(estimator):
        return validate_items(estimator, candidates, reset=False, name="candidates")
    index = np.asarray(candidates)
    if index.ndim != 1 or not len(index) or index.dtype.kind not in "iu":
        raise ValueError(
            "candidates must be a list of row numbers when kernel='precomputed', got an array of "
            f"dtype {index.dtype} and shape {index.shape}."
        )
    if index.min() < 0 or index.max() >= n_rows:
        raise ValueError(
            f"candidates must be row numbers in 0..{n_rows - 1}, got {index.min()}..{index.max()}."
        )
    return index.astype(np.intp)


@dataclass(frozen=True)
class Landmarks:
    """Landmarks, and what was known of the residual when the choice ended.

    Attributes
    ----------
    pivots : Pivots
        The landmarks and the residual of their span.
    share : float
        The residual in the units of ``residual_tol``; NaN where no tolerance was given.
    bound : Bound or None
        The bound of Corollary 3 at the last step.
    T : array of shape (n_rows, n) or None
        Coefficients of a projection of the user's.
    residuals : array of shape (n_rows,) or None
        Squared residual of each row under that projection, in function space.
    """

    pivots: Pivots
    share: float = np.nan
    bound: Bound | None = None
    T: Floats | None = None
    residuals: Floats | None = None


def choose_landmarks(
    plan: LandmarkPlan,
    sample: Sample,
    kernel: CountingKernel,
    run: FitRun,
    after_step: Callable[[int], None],
) -> Landmarks:
    """Choose landmarks among the rows, or among points that need not be rows."""
    if plan.among_points:
        return _among_points(plan, sample, kernel, run)
    if plan.search.kind != "pooled":
        return _one_by_one(plan, sample, kernel, run, after_step)
    greedy, tol = plan.rule == "function", plan.residual_tol or 0.0
    pivots = choose_in_blocks(sample, kernel, plan.n, run, after_step, greedy=greedy, tol=tol)
    return Landmarks(pivots, pivots.residual / pivots.trace if pivots.trace else 0.0)


def choose_in_blocks(
    sample: Sample,
    kernel: CountingKernel,
    n: int,
    run: FitRun,
    after_step: Callable[[int], None],
    *,
    greedy: bool = True,
    tol: float = 0.0,
) -> Pivots:
    """Landmarks from blocks of rows, drawn by the residual diagonal; see `block_pivots`."""

    def after_round(size: int) -> str | None:
        after_step(size)
        return run.stop_reason()

    return block_pivots(
        sample,
        kernel,
        n,
        greedy=greedy,
        tol=tol,
        workers=run.workers,
        rng=run.rng,
        meter=CostMeter(kernel),
        stop=after_round,
    )


def _one_by_one(
    plan: LandmarkPlan,
    sample: Sample,
    kernel: CountingKernel,
    run: FitRun,
    after_step: Callable[[int], None],
) -> Landmarks:
    """SS00 Algorithm 1: one landmark per step, every row a candidate or a fresh subset of them."""
    rule, tol, m = plan.rule, plan.residual_tol, sample.n_rows
    full = plan.search.kind == "full"
    if full and rule == "frobenius" and m > FULL_LIMIT:
        raise ValueError(
            f"search='full' with rule='frobenius' holds an m x m matrix and takes at most "
            f"{FULL_LIMIT} rows, got {m}: use search='fresh'."
        )
    objective = ResidualPursuit(
        KernelMatrix(sample.rows, kernel, run.workers),
        sample.weights,
        rule="diagonal" if rule == "random-pivot" else cast(Rule, rule),
        projection=plan.projection,
        capacity=min(plan.n, m),
        workers=run.workers,
        running=full and not callable(rule) and not callable(plan.projection),
        recorded=callable(plan.stop),
    )
    candidates: Candidates = AllCandidates()
    if rule == "random-pivot":
        candidates = RandomPivot(lambda: objective.weighted_residual, run.rng)
    elif not full:
        candidates = FreshSubset(plan.subset_size, run.rng)
    rules: list[StopRule] = [MaxSize(plan.n), run.stop_reason]
    looks = stop = None
    if tol is not None and plan.stop == "corollary3":
        candidates = looks = SampledLooks(candidates, objective, plan.delta)
        looks.check_reachable(tol, m if full else min(plan.subset_size, m), plan.n)
        stop = BoundBelow(tol, looks.share)
    elif tol is not None:
        stop = BoundBelow(tol, _compared_with_tol(objective, plan.stop))
    if stop is not None:
        rules.insert(0, stop)
    path = Pursuit(objective, CostMeter(kernel), candidates=candidates).run(rules, after_step)
    own = objective.space if isinstance(objective.space, OwnProjection) else None
    return Landmarks(
        _pivots_of(objective, sample, path),
        np.nan if stop is None else stop.last,
        None if looks is None else looks.bound,
        None if own is None else own.expansion(),
        None if own is None else own.residuals(),
    )


class SampledLooks:
    """SS00 Corollary 3 in Serfling's form, evaluated whenever candidates are drawn.

    The residuals of the candidates, before one of them is picked, are a uniform sample of the
    residuals of all rows available. The draw depends on earlier draws only, so the bound holds
    given them; look t may fail with probability δ/(t(t + 1)). No published projection leaves more
    of a row after a choice than before, so the bound also holds after the choice.
    """

    def __init__(self, candidates: Candidates, objective: ResidualPursuit, delta: float) -> None:
        self.bound: Bound | None = None
        self._candidates, self._objective, self._delta = candidates, objective, delta
        self._space = cast(PublishedSpace, objective.space)
        self._largest = float(self._space.start.max(initial=0.0))
        self._start = float(self._space.start.sum())
        self._n_looks = 0

    def check_reachable(self, tol: float, size: int, n_looks: int) -> None:
        """Refuse a tolerance that the deviation alone exceeds at every look."""
        n, target = len(self._space.start), tol * self._start
        least = least_deviation(n, size, self._largest, self._delta, n_looks)
        if least <= target:
            return
        needed = sample_needed(n, target, self._largest, self._delta, n_looks)
        ample = sample_needed(n, 0.5 * target, self._largest, self._delta, n_looks)
        raise ValueError(
            f"stop='corollary3' cannot reach residual_tol={tol:g} with pool_size={size}: at every "
            f"step, samples of that size leave {least / self._start:.3g} of the start or more "
            f"uncertain. Use search=Search('fresh', pool_size={needed}) or more ({ample} leaves "
            "half of residual_tol to the residual), a larger residual_tol, or stop='exact'."
        )

    def draw(self, available: NDArray[np.bool_]) -> Indices:
        """Draw candidates, and bound the residual by theirs."""
        drawn = self._candidates.draw(available)
        if len(drawn):
            self._n_looks += 1
            self.bound = sampled_look(
                self._space.of_candidates(drawn, self._objective.squares_of),
                int(np.count_nonzero(available)),
                self._space.of_others(available),
                self._largest,
                self._delta,
                self._n_looks,
                size=self._objective.factor.rank + 1,
                quantity="what the projection leaves",
                trivial=self._start,
            )
        return drawn

    def share(self, pursuit: Pursuit) -> float:
        """The last bound as a share of the start."""
        assert self.bound is not None
        return float(self.bound.value[0]) / self._start if self._start else 0.0


def _compared_with_tol(objective: ResidualPursuit, stop: Any) -> Callable[[Pursuit], float]:
    """The number compared with the tolerance after a step: a share of the start, or a bound."""
    if callable(stop):

        def own(pursuit: Pursuit) -> float:
            assert objective.step is not None
            picked, T = objective.factor.pivots[-1], objective.space.expansion()
            return checked_bound(stop(objective.step, picked, T))

        return own
    start = float(objective.space.start.sum())
    return lambda pursuit: objective.space.total() / start if start else 0.0


def _pivots_of(objective: ResidualPursuit, sample: Sample, path: Path) -> Pivots:
    """The landmarks of a pursuit that keeps its own factor."""
    factor = objective.factor
    V, residual = factor.rows, np.maximum(factor.residual, 0.0)
    return Pivots(
        Pool.of_rows(sample, objective.chosen),
        factor.triangle(),
        residual,
        float(sample.weights @ residual),
        float(sample.weights @ factor.diagonal),
        path,
        np.ascontiguousarray(V.T) if V.size <= limits.STORED_NUMBERS else None,
    )


def _among_points(
    plan: LandmarkPlan, sample: Sample, kernel: CountingKernel, run: FitRun
) -> Landmarks:
    """Landmarks among k-means centres, or among the user's own points.

    Up to ``n_components`` points are all taken, in their order. Of more, and where a tolerance may
    leave some out, those that lower the residual trace most are taken one after the other.
    """
    n, tol, workers, meter = plan.n, plan.residual_tol, run.workers, CostMeter(kernel)
    points = plan.search.candidates
    if not plan.search.own_points:
        points = cluster_centres(sample, min(n, sample.n_rows), run.rng)
    numbers = isinstance(points, np.ndarray) and points.ndim == 1 and points.dtype.kind in "iu"
    pool = Pool(points, points) if numbers else Pool.of_points(points)
    reason = "n_basis"
    if len(pool) > n or tol is not None:
        if plan.projection != "function":
            raise ValueError(
                f"projection={plan.projection!r} does not choose among points: use "
                f"projection='function', or residual_tol=None and n_components={len(pool)} to "
                "take all."
            )
        K = kernel_matrix(kernel, pool.items, workers)
        G = gram_statistics(sample, kernel, pool.items, workers=workers).gram
        meter.passes += 1.0
        trace = float(sample.weights @ kernel_diagonal(sample.rows, kernel))
        objective = GramResidual(K, G, trace, capacity=min(n, len(pool)), workers=workers)
        rules: list[StopRule] = [MaxSize(n), run.stop_reason]
        if tol is not None:
            rules.insert(0, ValueBelow(tol * trace))
        reason = Pursuit(objective, meter).run(rules).stop_reason
        pool = pool.take(objective.chosen)
    pivots = given_pivots(sample, kernel, pool, workers=workers, meter=meter, reason=reason)
    if len(pivots.pool) < len(pool):
        pivots = replace(pivots, path=replace(pivots.path, stop_reason="rank"))
    return Landmarks(pivots, pivots.residual / pivots.trace if pivots.trace else 0.0)


@dataclass(frozen=True)
class Projection:
    """The approximation k̃_i = Σ_j T_ij k_{S_j} of every column: coefficients and residuals.

    Attributes
    ----------
    kind : str
        function, column, kronecker, or own for a function of the user's.
    positions : array of int
        Positions of the landmarks among the rows, -1 for a landmark that is not a row.
    T : array of shape (n_rows, n) or None
        Kept where computing it took a pass; otherwise it follows from the features.
    trace : float
        Σ_i w_i ‖k_i - k̃_i‖² in function space.
    largest_column, largest_total : float
        Upper bounds on w_i Σ_j w_j (K - K̃)_ji² for every i, and on its sum over i.
    """

    kind: str
    positions: Indices
    T: Floats | None
    trace: float
    largest_column: float
    largest_total: float

    def coefficients(self, rows: Indices, features: Floats | None, whitener: Floats) -> Floats:
        """T of some rows, whose features are V: VR⁻¹ in function space."""
        if self.T is not None:
            return self.T[rows]
        if self.kind == "kronecker":
            return np.asarray(rows[:, None] == self.positions, dtype=np.float64)
        if features is None or (self.kind != "function" and len(self.positions)):
            raise ValueError(
                "the coefficients of this projection are not saved with the map: call "
                "residual_bound before saving."
            )
        return features @ whitener

    def column_squares(
        self,
        sample: Sample,
        kernel: Kernel,
        points: Any,
        whitener: Floats,
        rows: Indices,
        workers: Workers,
    ) -> Floats:
        """w_i Σ_j w_j (K - K̃)_ji² for some columns i, exactly."""
        queries = sample.rows.take(rows)
        T = self.coefficients(rows, kernel.tile(queries, points) @ whitener.T, whitener)
        coefficients = np.ascontiguousarray(T.T)
        squares = residual_squares(sample, kernel, points, coefficients, queries, workers)
        return squares * sample.weights[rows]


def project(
    kind: Any,
    landmarks: Landmarks,
    whitener: Floats,
    sample: Sample,
    kernel: Kernel,
    workers: Workers,
) -> Projection:
    """Project all columns on those of the landmarks (SS00 §3)."""
    pivots, weights = landmarks.pivots, sample.weights
    index = pivots.pool.index
    if callable(kind):
        assert landmarks.residuals is not None
        return _with_limits("own", pivots, landmarks.T, weights * landmarks.residuals)
    if kind == "kronecker":
        # SS00 eq. 23: chosen columns stay, the others are dropped.
        if np.any(index < 0):
            raise ValueError(
                "projection='kronecker' keeps chosen columns of the kernel matrix, but some "
                "candidates are not rows: use projection='function'."
            )
        squares = kernel_diagonal(sample.rows, kernel)
        squares *= weights
        squares[index] = 0.0
        return _with_limits("kronecker", pivots, None, squares)
    # E_ij² ≤ d_i d_j, and no column's residual in column space exceeds that in function space.
    largest = pivots.residual * float((weights * pivots.diagonal).max(initial=0.0))
    limits = largest, pivots.residual**2
    if kind == "function" or not len(pivots.pool):
        return Projection(kind, index, None, pivots.residual, *limits)
    V = pivots.features
    if V is None:
        V = kernel_features(sample.rows, kernel, pivots.pool.items, workers, whitener=whitener)
    # Least squares on the columns of K_S = VR': T = KWV(V'WV)⁻¹R⁻¹.
    weighted = V * weights[:, None]
    product = kernel_product(sample.rows, kernel, weighted, workers)
    C = cho_solve(cho_factor(V.T @ weighted), product.T).T
    extra = float(weights @ np.einsum("ij,ij->i", V - C, V - C))
    return Projection(kind, index, C @ whitener, pivots.residual + extra, *limits)


def _with_limits(kind: str, pivots: Pivots, T: Floats | None, squares: Floats) -> Projection:
    """A projection with residuals w_i ‖k_i - k̃_i‖².

    E_ji² <= k(x_j, x_j) ‖k_i - k̃_i‖² bounds the columns.
    """
    trace, largest = float(squares.sum()), float(squares.max(initial=0.0))
    limits = largest * pivots.trace, trace * pivots.trace
    return Projection(kind, pivots.pool.index, T, trace, *limits)


def trace_rounding(
    whitener: Floats, points: Any, sample: Sample, kernel: CountingKernel, workers: Workers
) -> float:
    """How much larger Σw(k(x, x) - ‖projection of k_x‖²) may be than it was computed.

    With W as stored, s = √k(z, z) of the landmarks, ρ = ‖|W|s‖, ε the rounding of products with
    kernel values and η ≥ ‖WK_SSW' - 1‖, what is computed of ‖projection of k_x‖² is at most
    (√k(x, x)(1 + ερ))²/(1 - η) and off by 2ερ + 2η of k(x, x).
    """
    known = RowArithmetic.of(sample.rows, kernel, workers)
    total = float(sample.weights @ known.sizes**2)
    n = len(whitener)
    share = 4.0 * known.error.share + gamma(4 * n + sample.n_rows + 16)
    if not n or not np.isfinite(share):
        return share * total if np.isfinite(share) else total
    items = known.among(points)
    rate = 2.0 * items.error.of_terms(n)
    reach = float(np.linalg.norm(np.abs(whitener) @ items.sizes)) * (1.0 + 1e-6)
    gram = whitener @ items.K @ whitener.T
    gram[np.diag_indices_from(gram)] -= 1.0
    eta = 1.01 * float(np.linalg.norm(gram)) + rate * reach**2
    # Of a map that is too far from orthonormal nothing is known but that it projects.
    lost = share + 2.5 * rate * reach + 2.5 * eta
    return min(lost, 1.0) * total if np.isfinite(lost) else total
