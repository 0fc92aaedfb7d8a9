"""The choice from a pool, by statistics of its own rows, of a sketch or of all rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.gram import GramStatistics, matrix_statistics
from pursuit.greedy.apart import farthest, least_residual, spanning
from pursuit.greedy.loop import Path, Pursuit
from pursuit.greedy.pool import Choice, Pool, Problem, kernel_matrix
from pursuit.greedy.stopping import Deadline, MaxSize, StopRule
from pursuit.linalg import EPS, invert_lower, robust_cholesky
from pursuit.objectives import GramEvidence, SpanObjective, gram_pursuit
from pursuit.rows import Sample, draw_rows

_DEEPENINGS = 4  # Most changes of coordinates in one choice. More: larger rank.
_EXHAUSTED = ("rank", "no gain")
"""Reasons after which the fit decides whether the rows that are left matter, if all may stay."""
_CUT_SHORT = ("interrupted", "time")
_SPARE = 8  # Points chosen by rows of the pool beyond n_basis: one in so many. Fewer: less work.
_SETTLED = 0.1
"""A choice is settled only if as many gains like the last ones as steps are left would lower the
objective by at most this share. They fall fast, so that far less is lost. Larger: more points that
the targets have no part in, where the noise given is far above that of the targets."""
_LAST_GAINS = 8  # The largest of so many tells what a step may still bring: single gains scatter.
_LEAST_SHARE = 0.2  # Time that steps get at least, as a share of that of the statistics.


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
        """
        problem, some = self.problem, capacity + capacity // _SPARE
        if pool.index.min() >= 0:
            seen = problem.sample.take(pool.index)
            statistics = matrix_statistics(K, seen.targets, seen.weights, problem.workers)
        else:
            rows = draw_rows(problem.sample.n_rows, len(pool), problem.rng)
            seen = problem.sample.take(rows)
            statistics = problem.statistics(pool.items, seen)
        path, chosen = self._pursue(
            pool, statistics, K, self.n_kept, seen.n_rows, some, rules, None
        )
        if self._is_settled(path, capacity, seen.n_rows):
            return *self._filled(path, pool, chosen, capacity), True
        deeper = self._deepened(path, pool, chosen, seen, some, rules, None)
        return *(deeper or (path, chosen)), False

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
        least = least_residual(problem.kernel)
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
