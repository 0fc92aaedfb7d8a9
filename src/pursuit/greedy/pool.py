"""Pools of candidates, and the choice from a pool by statistics of a sketch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dpstrf

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.gram import (
    GramStatistics,
    PassCheckpoint,
    gram_statistics,
    matrix_statistics,
)
from pursuit.greedy.loop import CostMeter, Path, Pursuit
from pursuit.greedy.stopping import Deadline, MaxSize, StopRule
from pursuit.kernels import CountingKernel, Kernel
from pursuit.linalg import (
    EPS,
    Workers,
    invert_lower,
    robust_cholesky,
    single_threaded_blas,
)
from pursuit.objectives import GramEvidence, SpanObjective, gram_pursuit
from pursuit.rows import OutputGroup, Sample, concat, draw_rows, len_items, row_groups, take_items

_DEEPENINGS = 4  # Most changes of coordinates in one choice. More: larger rank.
_INDEPENDENT = 1e-8  # A residual below this part of its diagonal entry is dependent.
_EXHAUSTED = ("rank", "no gain")
"""Reasons after which the fit decides whether the rows that are left matter, if all may stay."""
_CUT_SHORT = ("interrupted", "time")
_SPARE = 8  # Points chosen by rows of the pool beyond n_basis: one in so many. Fewer: less work.
_MATRIX_ROWS = 128  # Rows of a kernel matrix that are computed at once.
_SINGLE_POINTS = 512, 1_500
"""Screens of so many points are tried in float32. Shorter ones take no time that matters, longer
ones need more digits: they would be repeated in float64."""
_HEAD = 8
"""The first points of such a screen, one in so many, are chosen by fewer candidates: of the others
float32 holds what these leave. Fewer: more points, more digits and a coarser choice."""
_HEAD_CANDIDATES = 4  # Candidates and rows that choose them, for each of them. More: time cubed.
_DIGITS_EVERY, _WITH_DIGITS = 64, 0.5
"""After so many steps of a float32 screen its digits are looked at: it ends where fewer than this
share of the candidates have any. More: sooner; fewer: choices from what few candidates are left."""
_SMOOTH = 0.01
"""If the first points of a screen leave less than this share of the squared norm of most others,
the kernel is smooth: float32 would run out of digits, and half of the candidates are as good as all
of them. Larger: more screens are float64; smaller: more of them in vain float32 before that."""
_SINGLE_RANGE = 1e12
"""Squared kernel values times weights that are above this, or below its inverse, are not summed in
float32. Larger: sums of them may leave its range."""
_SETTLED = 0.1
"""A choice is settled only if as many gains like the last ones as steps are left would lower the
objective by at most this share. They fall fast, so that far less is lost. Larger: more points that
the targets have no part in, where the noise given is far above that of the targets."""
_LAST_GAINS = 8  # The largest of so many tells what a step may still bring: single gains scatter.
_LEAST_SHARE = 0.2  # Time that steps get at least, as a share of that of the statistics.


@dataclass(frozen=True)
class Problem:
    """A convex problem: minimise P(f) = ½Σw(y - f)² + ½σ²‖f‖² over the functions of a kernel.

    Attributes
    ----------
    sample : Sample
        Rows, targets y and weights w.
    kernel : CountingKernel
        k, whose evaluations are counted.
    noise : float
        σ².
    workers : Workers
        Threads.
    meter : CostMeter
        Cost so far.
    rng : numpy Generator
        Source of everything random.
    ledgers : callable, optional
        Returns the ledger of a pass over all rows, given its points, the number of rows, the type
        of its tiles and its whitener.
    """

    sample: Sample
    kernel: CountingKernel
    noise: float
    workers: Workers
    meter: CostMeter
    rng: np.random.Generator
    ledgers: Callable[[Any, int, DTypeLike, Any], PassCheckpoint | None] | None = None

    def restricted(self, group: OutputGroup) -> Problem:
        """The problem of a group of outputs at the rows where they were observed."""
        whole = len(group.columns) == self.sample.n_outputs
        if whole and len(group.rows) == self.sample.n_rows:
            return self
        return replace(self, sample=group.of(self.sample), ledgers=None)

    def statistics(
        self, points: Any, rows: Sample | None = None, dtype: DTypeLike = np.float64, **options: Any
    ) -> GramStatistics:
        """Statistics of the points, from one pass over all rows or over the given rows."""
        seen = self.sample if rows is None else rows
        if rows is None and self.ledgers is not None:
            whitener = options.get("whitener")
            options["ledger"] = self.ledgers(points, seen.n_rows, dtype, whitener)
        statistics = gram_statistics(
            seen, self.kernel, points, workers=self.workers, dtype=dtype, **options
        )
        self.meter.passes += statistics.n_rows / self.sample.n_rows
        return statistics


@dataclass(frozen=True)
class Pool:
    """Candidate points with their row numbers, -1 where a point is not a row."""

    items: Any
    index: Indices

    @classmethod
    def of_rows(cls, sample: Sample, index: Indices) -> Pool:
        """Rows of the sample as candidates."""
        return cls(sample.rows.take(index), index)

    @classmethod
    def of_points(cls, points: Any) -> Pool:
        """Points that are not rows."""
        return cls(points, np.full(len_items(points), -1, dtype=np.intp))

    def __len__(self) -> int:
        return len(self.index)

    def take(self, chosen: Indices) -> Pool:
        """Some of the pool, in the given order."""
        return Pool(take_items(self.items, chosen), self.index[chosen])

    def owners(self, sample: Sample) -> Indices | None:
        """For each row of the sample the point that it is; None where some row is none of them.

        Copies of rows are looked for among up to ``limits.SMALL_ROWS`` rows.
        """
        m, n = sample.n_rows, len(self)
        if not 0 < n <= m or self.index.min() < 0 or len(np.unique(self.index)) < n:
            return None
        groups: Indices = np.arange(m)
        if n < m:
            if m > limits.SMALL_ROWS:
                return None
            groups = row_groups((items for _, items in sample.rows.blocks()), m)
        point_of = np.full(m, -1, dtype=np.intp)
        point_of[groups[self.index]] = np.arange(n)
        owners = point_of[groups]
        return owners if owners.min() >= 0 else None

    def __add__(self, other: Pool) -> Pool:
        return Pool(concat(self.items, other.items), np.concatenate([self.index, other.index]))


@dataclass(frozen=True)
class Choice:
    """The outcome of a search: points in the order of choice, their path and their statistics."""

    pool: Pool
    path: Path
    statistics: GramStatistics | None
    """Statistics of the chosen points on all rows; None unless the search has seen all rows."""
    ordered: bool = False
    """Whether the order is that of a pursuit on these statistics from the first point on."""

    def renumbered(self, rows: Indices) -> Choice:
        """The choice with row numbers of the sample, of which the search saw only ``rows``."""

        def number(index: Indices) -> Indices:
            return np.where(index >= 0, rows[index], -1)

        pool = Pool(self.pool.items, number(self.pool.index))
        return Choice(pool, replace(self.path, index=number(self.path.index)), None)

    def truncated(self, n: int, stop_reason: str) -> Choice:
        """The first n points."""
        path = replace(self.path.truncated(n), stop_reason=stop_reason)
        first = np.arange(n)
        known = None if self.statistics is None else self.statistics.restricted(first)
        return Choice(self.pool.take(first), path, known, self.ordered)


@dataclass(frozen=True)
class PooledSearch:
    """Choose from a pool by statistics on a sketch of the rows (Formulas §2).

    One pass over ``sketch_rows`` rows (None: all rows) gives H; every step then costs O(P n),
    whatever the number of rows. Each further round keeps the chosen points and replaces the rest
    of the pool. The first ``n_kept`` points of the pool are taken before any choice. With
    ``evidence``, candidates are chosen by the sparse evidence instead of the posterior.

    A ``screened`` search looks at the pool twice. First its own rows choose, an eighth more points
    than are asked for: their statistics are KWK, from the pool's kernel matrix. The sketch then
    chooses among those only, so that it may hold many more rows for the same work.
    """

    problem: Problem
    pool: Pool
    sketch_rows: int | None = None
    rounds: int = 1
    n_kept: int = 0
    evidence: bool = False
    max_time: float | None = None
    screened: bool = False

    def run(
        self,
        capacity: int,
        rules: Sequence[StopRule],
        after_step: Callable[[int], None] | None = None,
    ) -> Choice:
        """Choose up to ``capacity`` points, round after round, unless a rule ends it before.

        ``after_step`` is called in the last round.
        """
        problem, sample, pool = self.problem, self.problem.sample, self.pool
        sees_all = self.sketch_rows is None or self.sketch_rows >= sample.n_rows
        for rounds_left in reversed(range(self.rounds)):
            begun = start = problem.meter.seconds
            n_kept = self.n_kept
            K = kernel_matrix(problem.kernel, pool.items, problem.workers)
            if len(pool) > max(capacity, limits.SMALL_ROWS // 2) and not n_kept:
                apart = spanning(K, problem.kernel, capacity)
                if len(apart) < len(pool):
                    pool, K = pool.take(apart), K[np.ix_(apart, apart)]
            if self.screened and len(pool) > capacity + capacity // _SPARE:
                path, chosen, settled = self._screen(pool, K, capacity, rules)
                if settled or path.stop_reason in _CUT_SHORT:
                    first = chosen[:capacity]
                    path = replace(path.truncated(len(first)), stop_reason=path.stop_reason)
                    return Choice(pool.take(first), path, None)
                pool, n_kept = pool.take(chosen), int(np.count_nonzero(chosen < n_kept))
                start = problem.meter.seconds
                K = kernel_matrix(problem.kernel, pool.items, problem.workers)
            seen = sample if sees_all else self._sketch()
            # Always float64 tiles: in Gram form the choice squares the condition number.
            statistics = problem.statistics(pool.items, seen)
            each_step = None if rounds_left else after_step
            ends = [*rules, *self._deadline(begun, start, seen.n_rows * len(pool) ** 2)]
            path, chosen = self._pursue(
                pool, statistics, K, n_kept, seen.n_rows, capacity, ends, each_step
            )
            known = statistics.restricted(chosen) if sees_all else None
            deeper = self._deepened(path, pool, chosen, seen, capacity, ends, each_step)
            if deeper is not None:
                # The Gram form has no digits left for these points: the refit starts from its own.
                known = None
                path, chosen = deeper
            if not rounds_left and path.stop_reason in _EXHAUSTED and len(pool) <= capacity:
                path, chosen, known = self._with_all_rows(path, chosen, known, pool)
            kept = pool.take(chosen)
            if not rounds_left or path.stop_reason in _CUT_SHORT:
                break
            taken, room = np.sort(kept.index[kept.index >= 0]), len(self.pool) - len(kept)
            fresh = draw_rows(sample.n_rows, room, problem.rng, exclude=taken)
            pool = kept + Pool.of_rows(sample, fresh) if len(fresh) else kept
        ordered = known is not None and not n_kept and not self.evidence
        return Choice(kept, path, known, ordered)

    def _screen(
        self, pool: Pool, K: Floats, capacity: int, rules: Sequence[StopRule]
    ) -> tuple[Path, Indices, bool]:
        """Choose by the rows that the pool consists of, or by as many others; overwrites K.

        Returns a few points more than ``capacity``, unless the choice is settled by these rows.
        They are proposed in float32 where that has digits enough. Smooth kernels need float64, and
        no more than half of the candidates. Only float64 settles a choice.
        """
        problem, some, step = self.problem, capacity + capacity // _SPARE, 1
        if pool.index.min() >= 0:
            first, V = self._head(pool, K, some)
            if len(first):
                left = 1.0 - np.einsum("ij,ij->j", V, V) / np.diag(K)
                if float(np.median(left)) > _SMOOTH:
                    proposed = self._propose(pool, K, first, V, some, rules)
                    if proposed is not None:
                        return *proposed, False
                elif len(pool) >= 2 * some:
                    step = 2
            candidates = pool.take(np.arange(0, len(pool), step))
            seen = problem.sample.take(pool.index)
            values, K = (np.ascontiguousarray(part[:, ::step]) for part in (K, K[::step]))
            statistics = matrix_statistics(values, seen.targets, seen.weights, problem.workers)
        else:
            rows = draw_rows(problem.sample.n_rows, len(pool), problem.rng)
            candidates, seen = pool, problem.sample.take(rows)
            statistics = problem.statistics(pool.items, seen)
        path, chosen = self._pursue(
            candidates, statistics, K, self.n_kept, seen.n_rows, some, rules, None
        )
        if self._is_settled(path, capacity, seen.n_rows):
            return *self._filled(path, pool, step * chosen, capacity), True
        deeper = self._deepened(path, candidates, chosen, seen, some, rules, None)
        path, chosen = deeper or (path, chosen)
        return path, step * chosen, False

    @single_threaded_blas()
    def _head(self, pool: Pool, K: Floats, some: int) -> tuple[Indices, Floats]:
        """The first of so many points, and V: coordinates of all candidates in their span, V'V ≈ K.

        They are chosen from a few candidates, by these rows. There are none where all must be
        chosen in float64.
        """
        problem, n, (least, most) = self.problem, some // _HEAD, _SINGLE_POINTS
        nobody = np.empty(0, np.intp), np.empty((0, len(pool)))
        if not least <= some <= most or self.n_kept or self.evidence:
            return nobody
        few = np.linspace(0, len(pool) - 1, min(_HEAD_CANDIDATES * n, len(pool)), dtype=np.intp)
        seen, inner = problem.sample.take(pool.index[few]), K[np.ix_(few, few)]
        largest = float(problem.sample.weights[pool.index].max() * np.diag(K).max() ** 2)
        in_range = 1.0 / _SINGLE_RANGE < largest < _SINGLE_RANGE and np.diag(K).min() > 0.0
        if not in_range or not problem.kernel.positive_definite:
            return nobody
        statistics = matrix_statistics(inner, seen.targets, seen.weights, problem.workers)
        _, chosen = self._pursue(pool.take(few), statistics, inner, 0, len(few), n, [], None)
        R, kept = robust_cholesky(
            K[np.ix_(few[chosen], few[chosen])], rounding=problem.kernel.rounding
        )
        first = few[chosen[kept]]
        return first, solve_triangular(R, K[first], lower=True)

    @single_threaded_blas()
    def _propose(
        self,
        pool: Pool,
        K: Floats,
        first: Indices,
        V: Floats,
        some: int,
        rules: Sequence[StopRule],
    ) -> tuple[Path, Indices] | None:
        """Choose so many points, the first of which are given, in float32; None for want of digits.

        As in :meth:`_deepen`, the functions are v = R⁻¹k_S of the first points S and what S leaves
        of all others, k_j - v'V_j. H of these has entries that are smaller by what S explains, and
        so is their rounding. The choice is a proposal: all rows choose from it in float64.
        """
        problem, n, P = self.problem, len(first), len(pool)
        order = np.concatenate([first, np.setdiff1d(np.arange(P), first)])
        V, values = V[:, order], K[np.ix_(order, order)]

        def project(panel: slice) -> None:
            values[panel, panel.start :] -= V[:, panel].T @ V[:, panel.start :]

        def mirror(panel: slice) -> None:
            values[panel.stop :, panel] = values[panel, panel.stop :].T

        for task in (project, mirror):
            problem.workers.map(task, Workers.slices(P, limits.PANEL))
        inner = values.astype(np.float32)
        inner[:n], inner[:, :n] = 0.0, 0.0
        inner[np.arange(n), np.arange(n)] = 1.0
        values[:, :n] = V.T
        ordered = pool.take(order)
        seen = problem.sample.take(ordered.index)
        statistics = matrix_statistics(
            values, seen.targets, seen.weights, problem.workers, np.float32
        )
        ends = [*rules, _out_of_digits]
        path, chosen = self._pursue(ordered, statistics, inner, n, P, some, ends, None)
        if len(path) < some and path.stop_reason in _EXHAUSTED:
            return None
        return path, order[chosen]

    def _is_settled(self, path: Path, capacity: int, n_seen: int) -> bool:
        """Whether the choice ended for want of digits where targets have no say in the rest of it.

        A function fits noise as well: on all rows it must lower P by more than σ² to lower the
        expected error (Mallows' C_p), on a sketch by more than its share of that. Gains fall, so
        the last ones bound those that digits would be wanted for. The sparse evidence has other
        terms, and goes on.
        """
        left, gains = capacity - len(path), -np.diff(path.value[-_LAST_GAINS - 1 :])
        if self.evidence or path.stop_reason != "rank" or left <= 0 or len(gains) < _LAST_GAINS:
            return False
        noise = self.problem.noise * n_seen / self.problem.sample.n_rows
        return bool(gains.max() <= min(noise, _SETTLED * path.value[-1] / left))

    def _filled(
        self, path: Path, pool: Pool, chosen: Indices, capacity: int
    ) -> tuple[Path, Indices]:
        """The choice continued by the kernel alone: next come candidates far from those before."""
        problem = self.problem
        more = farthest(pool, chosen, capacity - len(chosen), problem.kernel, problem.workers)
        longer = path.extended(pool.index[more])
        values = np.append(path.value, np.repeat(path.value[-1:], len(more)))
        found = np.concatenate([chosen, more])
        reason = "n_basis" if len(found) == capacity else path.stop_reason
        return replace(longer, value=values, stop_reason=reason), found

    def _with_all_rows(
        self, path: Path, chosen: Indices, known: GramStatistics | None, pool: Pool
    ) -> tuple[Path, Indices, GramStatistics | None]:
        """Let the rest of the pool follow, if all rows are in it: the fit tells what matters."""
        rest = np.setdiff1d(np.arange(len(pool)), chosen)
        exact = self.problem.kernel.rounding <= EPS
        if not exact or not len(chosen) or not len(rest):
            return path, chosen, known
        if pool.owners(self.problem.sample) is None:
            return path, chosen, known
        more = path.extended(pool.index[rest])
        more = replace(more, value=np.append(path.value, np.repeat(path.value[-1:], len(rest))))
        return more, np.concatenate([chosen, rest]), None

    def _deadline(self, begun: float, start: float, work: float) -> list[Deadline]:
        """The rule of ``max_time``, from the time that statistics of this much work took.

        They began at ``start``, and the search at ``begun``.
        """
        if self.max_time is None:
            return []
        now, n_rows = self.problem.meter.seconds, self.problem.sample.n_rows
        cost = (now - start) / work
        # Steps are cheap beside the statistics: even if those took all the time, some follow.
        end = max(self.max_time, now + _LEAST_SHARE * (now - begun))
        return [Deadline(end, lambda n: cost * n_rows * n**2)]

    def _deepened(
        self,
        path: Path,
        pool: Pool,
        chosen: Indices,
        seen: Sample,
        capacity: int,
        rules: Sequence[StopRule],
        after_step: Callable[[int], None] | None,
    ) -> tuple[Path, Indices] | None:
        """The choice continued while it ends for want of digits; None where it is as it was."""
        found = None
        for _ in range(_DEEPENINGS):
            if path.stop_reason != "rank" or len(chosen) >= min(capacity, len(pool)):
                break
            if self._is_settled(path, capacity, seen.n_rows):
                return self._filled(path, pool, chosen, capacity)
            deeper = self._deepen(pool, chosen, seen, capacity, rules, after_step)
            if deeper is None:
                break
            found = path, chosen = deeper
        return found

    def _pursue(
        self,
        pool: Pool,
        statistics: GramStatistics,
        K: Floats,
        n_kept: int,
        n_seen: int,
        capacity: int,
        rules: Sequence[StopRule],
        after_step: Callable[[int], None] | None,
    ) -> tuple[Path, Indices]:
        """Pursue in Gram form on H = G + σ²K, which overwrites K; takes ``n_kept`` points first."""
        problem = self.problem
        # The sums of a sketch are smaller by its share of the rows, and so must the ridge be.
        build = GramEvidence if self.evidence else gram_pursuit
        objective: SpanObjective = build(
            statistics,
            K,
            problem.noise * n_seen / problem.sample.n_rows,
            capacity=min(capacity, len(pool)),
            workers=problem.workers,
            rounding=problem.kernel.rounding,
        )
        pursuit = Pursuit(
            objective,
            problem.meter,
            labels=pool.index,
            scale=0.5 * float(statistics.target_norms.sum()),
        )
        pursuit.take(range(n_kept))
        return pursuit.run([MaxSize(capacity), *rules], after_step), objective.chosen

    def _deepen(
        self,
        pool: Pool,
        chosen: Indices,
        seen: Sample,
        capacity: int,
        rules: Sequence[StopRule],
        after_step: Callable[[int], None] | None,
    ) -> tuple[Path, Indices] | None:
        """Continue where the Gram form has run out of digits, in coordinates in which it has not.

        With K_SS = RR' for the chosen S, the functions v = R⁻¹k_S and, for every other candidate,
        its residual scaled to unit norm, (k_j - v'V_j)/√d_j, span the same spaces. Their own
        statistics, from another pass, resolve pivots that were lost to the squared condition
        number (the V-form, Formulas §4). None where nothing is left to choose.
        """
        problem, n = self.problem, len(chosen)
        rest = np.setdiff1d(np.arange(len(pool)), chosen)
        K = kernel_matrix(
            problem.kernel, pool.take(np.concatenate([chosen, rest])).items, problem.workers
        )
        R, kept = robust_cholesky(K[:n, :n], rounding=problem.kernel.rounding)
        if len(kept) < n:
            return self._deepen(pool, chosen[kept], seen, capacity, rules, after_step)
        V = solve_triangular(R, K[:n, n:], lower=True)
        residual = np.diag(K)[n:] - np.einsum("ij,ij->j", V, V)
        least = max(_INDEPENDENT, 1e2 * problem.kernel.rounding)
        alive = np.flatnonzero(residual > least * np.diag(K)[n:])
        if not len(alive):
            return None
        rest, V, roots = rest[alive], V[:, alive], np.sqrt(residual[alive])
        order = np.concatenate([chosen, rest])
        size = len(order)
        whitener = np.zeros((size, size))
        whitener[:n, :n] = invert_lower(R)
        whitener[n:, :n] = -solve_triangular(R, V, lower=True, trans="T").T / roots[:, None]
        whitener[np.arange(n, size), np.arange(n, size)] = 1.0 / roots
        inner = np.eye(size)
        inner[n:, n:] = (K[np.ix_(n + alive, n + alive)] - V.T @ V) / np.outer(roots, roots)
        ordered = pool.take(order)
        statistics = problem.statistics(ordered.items, seen, whitener=whitener)
        path, taken = self._pursue(
            ordered, statistics, inner, n, seen.n_rows, capacity, rules, after_step
        )
        return (path, order[taken]) if len(taken) > n else None

    def _sketch(self) -> Sample:
        sample = self.problem.sample
        assert self.sketch_rows is not None
        return sample.take(draw_rows(sample.n_rows, self.sketch_rows, self.problem.rng))


def _out_of_digits(pursuit: Pursuit) -> str | None:
    """The rule that ends a choice where rounding, not the gain, decides which candidates are left.

    The last steps before digits run out would choose from few candidates.
    """
    if pursuit.size % _DIGITS_EVERY:
        return None
    available = pursuit.objective.available
    left = len(available) - pursuit.size
    return "rank" if np.count_nonzero(available) < _WITH_DIGITS * left else None


@single_threaded_blas()
def spanning(K: Floats, kernel: CountingKernel, most: int) -> Indices:
    """Numbers of at most so many candidates that span all, but for 1e-8 of their squared norms.

    Candidates of smooth kernels may lie in the span of a few of them. Where all of those can be
    taken there is nothing to choose, and statistics cost the square of the candidates. By a pivoted
    factor of K. All candidates are returned if that takes more of them, as half of them may show,
    and for kernels that are not positive definite.
    """
    everybody = np.arange(len(K))
    if not kernel.positive_definite:
        return everybody
    least = max(_INDEPENDENT, 1e2 * kernel.rounding)
    roots = np.sqrt(np.diag(K))
    roots[roots == 0.0] = np.inf
    # Most often so many, taken as they come, are independent: a plain factor shows it at once.
    some = everybody[:: len(K) // (most + 1) or 1][: most + 1]
    factor, info = dpotrf(K[np.ix_(some, some)] / np.outer(roots[some], roots[some]))
    if len(some) > most and info == 0 and float(np.diag(factor).min()) ** 2 > least:
        return everybody
    for some in (everybody[::2], everybody):
        scale = np.outer(roots[some], roots[some])
        _, pivots, rank, _ = dpstrf(K[np.ix_(some, some)] / scale, tol=least)
        if rank > most:
            return everybody
    return np.sort(pivots[:rank] - 1)


@single_threaded_blas()
def farthest(
    pool: Pool, chosen: Indices, most: int, kernel: CountingKernel, workers: Workers
) -> Indices:
    """Numbers of at most so many candidates, each the farthest from the span of those before.

    Distances are relative to the norm of a candidate; none is below 1e-4. These are the pivots of
    what K_SS of the chosen S leaves of K. They come from some of the candidates, evenly spaced and
    twice as many, where those have enough of them, else from all.
    """
    rest = np.setdiff1d(np.arange(len(pool)), chosen)
    least = max(_INDEPENDENT, 1e2 * kernel.rounding)
    for some in (rest[:: max(1, -(-len(rest) // (2 * most)))], rest):
        K = kernel_matrix(kernel, pool.take(np.concatenate([chosen, some])).items, workers)
        roots = np.sqrt(np.diag(K))
        roots[roots == 0.0] = np.inf
        K /= np.outer(roots, roots)
        n = len(chosen)
        R, kept = robust_cholesky(K[:n, :n], rounding=kernel.rounding)
        V = solve_triangular(R, K[:n, n:][kept], lower=True)
        left = K[n:, n:] - V.T @ V
        _, pivots, rank, _ = dpstrf(left, tol=least)
        if rank >= most:
            break
    found: Indices = some[pivots[: min(rank, most)] - 1]
    return found


def kernel_matrix(kernel: Kernel, items: Any, workers: Workers) -> Floats:
    """K_ZZ for a pool, symmetric to the last bit."""
    P = len_items(items)
    K = np.empty((P, P))

    def fill(span: slice) -> None:
        columns = kernel.columns(items[span.start :])
        for rows in Workers.slices(span.stop - span.start, _MATRIX_ROWS):
            own = slice(span.start + rows.start, span.start + rows.stop)
            K[own, span.start :] = columns(items[own])

    def mirror(span: slice) -> None:
        K[span.stop :, span] = K[span, span.stop :].T
        block = K[span, span]
        block += block.T.copy()
        block *= 0.5

    for task in (fill, mirror):
        workers.map(task, Workers.slices(P, limits.PANEL))
    return K
