"""From the arguments of a feature map to landmarks: SS00 Algorithm 1 and its plug-ins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.bounds import Bound, least_deviation, sample_needed, sampled_look
from pursuit.estimators.maps.mapinputs import own_candidates
from pursuit.estimators.maps.plugins import Plugins
from pursuit.estimators.span.searching import FULL_LIMIT, cluster_centres
from pursuit.gram import ColumnMatrix, gram_statistics, kernel_diagonal
from pursuit.greedy import (
    BoundBelow,
    FreshSubset,
    Interrupted,
    MaxSize,
    Meter,
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
    rearranged,
)
from pursuit.greedy.loop import AllCandidates, Candidates
from pursuit.kernels import CountingKernel
from pursuit.linalg import Workers
from pursuit.objectives import (
    GramResidual,
    OwnProjection,
    PublishedSpace,
    ResidualPursuit,
    Rule,
    checked_bound,
)
from pursuit.rows import Sample


@dataclass(frozen=True)
class Landmarks:
    """Landmarks, and what the loop knew when it ended.

    Attributes
    ----------
    pivots : Pivots
        The landmarks and what their span misses.
    share : float
        What is left, in the units of ``tol``; NaN where no tolerance was given.
    bound : Bound or None
        What Corollary 3 said at the last look.
    T : array of shape (n_rows, n) or None
        Coefficients of a projection of the user's.
    residuals : array of shape (n_rows,) or None
        What that projection leaves of each row, squared, in function space.
    """

    pivots: Pivots
    share: float = np.nan
    bound: Bound | None = None
    T: Floats | None = None
    residuals: Floats | None = None


@dataclass(frozen=True)
class LandmarkSearch:
    """How landmarks are chosen among the rows: the arguments of the feature map, resolved."""

    n: int
    tol: float | None
    plugins: Plugins
    subset_size: int
    delta: float
    rearrange: bool

    def run(
        self,
        sample: Sample,
        kernel: CountingKernel,
        *,
        workers: Workers,
        rng: np.random.Generator,
        meter: Meter,
        interrupted: Interrupted,
        after_step: Callable[[int], None],
    ) -> Landmarks:
        """Choose landmarks among the rows, and take them."""

        def after_round(n: int) -> str | None:
            after_step(n)
            return "interrupted" if interrupted.requested else None

        if self.plugins.search == "pooled":
            pivots = block_pivots(
                sample,
                kernel,
                self.n,
                greedy=self.plugins.rule == "function",
                tol=self.tol or 0.0,
                workers=workers,
                rng=rng,
                meter=meter,
                stop=after_round,
            )
            found = Landmarks(pivots, pivots.residual / pivots.trace if pivots.trace else 0.0)
        else:
            found = self._pursue(sample, kernel, workers, rng, meter, interrupted, after_step)
        if self.rearrange and len(found.pivots.pool):
            ordered = rearranged(found.pivots, sample, kernel, workers=workers, meter=meter)
            return replace(found, pivots=ordered)
        return found

    def _pursue(
        self,
        sample: Sample,
        kernel: CountingKernel,
        workers: Workers,
        rng: np.random.Generator,
        meter: Meter,
        interrupted: Interrupted,
        after_step: Callable[[int], None],
    ) -> Landmarks:
        """SS00 Algorithm 1: one landmark per step, every row a candidate."""
        plugins, m = self.plugins, sample.n_rows
        rule, full = plugins.rule, plugins.search == "full"
        if full and rule == "frobenius" and m > FULL_LIMIT:
            raise ValueError(
                f"search='full' with rule='frobenius' holds an m x m matrix and takes at most "
                f"{FULL_LIMIT} rows, got {m}: use search='fresh'."
            )
        objective = ResidualPursuit(
            ColumnMatrix(sample.rows, kernel, workers),
            sample.weights,
            rule="diagonal" if rule == "random-pivot" else cast(Rule, rule),
            projection=plugins.projection,
            capacity=min(self.n, m),
            workers=workers,
            running=full and not callable(rule) and not callable(plugins.projection),
            recorded=callable(plugins.stop),
        )
        candidates: Candidates = AllCandidates()
        if rule == "random-pivot":
            candidates = RandomPivot(lambda: objective.weighted_residual, rng)
        elif not full:
            candidates = FreshSubset(self.subset_size, rng)
        rules: list[StopRule] = [MaxSize(self.n), interrupted]
        looks = stop = None
        if self.tol is not None and plugins.stop == "corollary3":
            size = m if full else self.subset_size
            candidates = looks = SampledLooks(candidates, objective, self.delta)
            looks.check_reachable(self.tol, min(size, m), self.n)
            stop = BoundBelow(self.tol, looks.share)
        elif self.tol is not None:
            stop = BoundBelow(self.tol, _watched(objective, plugins.stop))
        if stop is not None:
            rules.insert(0, stop)
        path = Pursuit(objective, meter, candidates=candidates).run(rules, after_step)
        own = objective.space if isinstance(objective.space, OwnProjection) else None
        return Landmarks(
            _pivots_of(objective, sample, path),
            np.nan if stop is None else stop.last,
            None if looks is None else looks.bound,
            None if own is None else own.expansion(),
            None if own is None else own.residuals(),
        )


class SampledLooks:
    """SS00 Corollary 3 in Serfling's form, looked at whenever candidates are drawn.

    What the projection leaves of the candidates, before one of them is picked, is a uniform sample
    of what it leaves of all rows available. The draw depends on earlier draws only, so that the
    bound holds given them; look t may fail with probability δ/(t(t + 1)). No projection that was
    published leaves more of a row after a choice than before: the bound holds after it, too.
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
            f"stop='corollary3' cannot reach tol={tol:g} with subset_size={size}: at every look "
            f"samples of that size leave {least / self._start:.3g} of the start or more open. "
            f"Use subset_size={needed} or more ({ample} leaves half of tol to the residual), a "
            "larger tol, or stop='exact'."
        )

    def draw(self, available: NDArray[np.bool_]) -> Indices:
        """Draw candidates, and look at what is left of them."""
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


def _watched(objective: ResidualPursuit, stop: Any) -> Callable[[Pursuit], float]:
    """What ``tol`` is compared with after a step: the residual's share of its start, or a bound."""
    if callable(stop):

        def own(pursuit: Pursuit) -> float:
            assert objective.step is not None
            picked, T = objective.factor.pivots[-1], objective.space.expansion()
            return checked_bound(stop(objective.step, picked, T))

        return own
    start = float(objective.space.start.sum())
    return lambda pursuit: objective.space.total() / start if start else 0.0


def _pivots_of(objective: ResidualPursuit, sample: Sample, path: Path) -> Pivots:
    """The landmarks of a pursuit with its own factor."""
    factor = objective.factor
    V = factor.rows
    return Pivots(
        Pool.of_rows(sample, objective.chosen),
        factor.triangle(),
        np.maximum(factor.residual, 0.0),
        float(sample.weights @ np.maximum(factor.residual, 0.0)),
        float(sample.weights @ factor.diagonal),
        path,
        np.ascontiguousarray(V.T) if V.size <= limits.STORED_NUMBERS else None,
    )


def point_landmarks(
    estimator: Any,
    sample: Sample,
    kernel: CountingKernel,
    n_rows: int,
    *,
    workers: Workers,
    rng: np.random.Generator,
    meter: Meter,
) -> Landmarks:
    """Landmarks among points that need not be rows: k-means centres, or the user's own.

    As many as ``n_components`` or fewer are all taken, in their order; of more, and where ``tol``
    may leave some out, those that lower the residual trace most, one after the other.
    """
    n, tol = int(estimator.n_components), estimator.tol
    if isinstance(estimator.candidates, str):
        points = cluster_centres(sample, min(n, sample.n_rows), rng)
    else:
        points = own_candidates(estimator, n_rows)
    numbers = isinstance(points, np.ndarray) and points.ndim == 1 and points.dtype.kind in "iu"
    pool = Pool(points, points) if numbers else Pool.of_points(points)
    reason = "n_basis"
    if len(pool) > n or tol is not None:
        if estimator.projection != "function":
            raise ValueError(
                f"projection={estimator.projection!r} does not choose among points: use "
                f"projection='function', or tol=None and n_components={len(pool)} to take all."
            )
        K = kernel_matrix(kernel, pool.items, workers)
        G = gram_statistics(sample, kernel, pool.items, workers=workers).gram
        meter.passes += 1.0
        trace = float(sample.weights @ kernel_diagonal(sample.rows, kernel))
        objective = GramResidual(K, G, trace, capacity=min(n, len(pool)), workers=workers)
        rules: list[StopRule] = [MaxSize(n)]
        if tol is not None:
            rules.insert(0, ValueBelow(tol * trace))
        reason = Pursuit(objective, meter).run(rules).stop_reason
        pool = pool.take(objective.chosen)
    pivots = given_pivots(sample, kernel, pool, workers=workers, meter=meter, reason=reason)
    if len(pivots.pool) < len(pool):
        pivots = replace(pivots, path=replace(pivots.path, stop_reason="rank"))
    if estimator.rearrange and len(pivots.pool):
        pivots = rearranged(pivots, sample, kernel, workers=workers, meter=meter)
    return Landmarks(pivots, pivots.residual / pivots.trace if pivots.trace else 0.0)
