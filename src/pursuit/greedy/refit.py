"""The final fit: statistics of the chosen points on all rows, in the order of their own pursuit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import cholesky

from pursuit.gram import GramStatistics, gram_statistics
from pursuit.greedy.loop import Pursuit
from pursuit.greedy.path import Meter, Path
from pursuit.greedy.pool import Choice, Pool, kernel_matrix
from pursuit.kernels import Kernel
from pursuit.linalg import SpanSolution, Workers, robust_cholesky
from pursuit.objectives import gram_pursuit
from pursuit.rows import Sample

Floats = NDArray[np.float64]

_LOST_DIGITS = 1e-4


@dataclass(frozen=True)
class SpanFit:
    """A model: its basis in the order of choice, the solution in its span, the path, the trace."""

    pool: Pool
    solution: SpanSolution
    path: Path
    trace: float
    """tr(WK) over all rows, which evidence bounds need."""

    def truncated(self, n: int, stop_reason: str) -> SpanFit:
        """The model of the first n basis functions."""
        path = replace(self.path.truncated(n), stop_reason=stop_reason)
        pool = self.pool.take(np.arange(n))
        return SpanFit(pool, self.solution.truncated(n), path, self.trace)


def refit(
    choice: Choice,
    sample: Sample,
    kernel: Kernel,
    noise: float,
    *,
    workers: Workers,
    meter: Meter,
    dtype: DTypeLike = np.float64,
    after_block: Callable[[int], None] | None = None,
) -> SpanFit:
    """Fit all rows in the span of the chosen points.

    The points are put in the order in which a pursuit on the final statistics takes them, so that
    the first n of them are a good model of size n for every n. Points that it finds dependent are
    left out.
    """
    pool, statistics = choice.pool, choice.statistics
    K = kernel_matrix(kernel, pool.items, workers)
    R, kept = robust_cholesky(K)
    if len(kept) < len(pool):
        pool, K = pool.take(kept), K[np.ix_(kept, kept)]
        statistics = statistics.restricted(kept) if statistics is not None else None
    if statistics is None:
        statistics = gram_statistics(
            sample, kernel, pool.items, workers=workers, dtype=dtype, after_block=after_block
        )
        meter.passes += 1
    objective = gram_pursuit(statistics, K.copy(), noise, capacity=len(pool), workers=workers)
    half_norm = 0.5 * float(statistics.target_norms.sum())
    path = Pursuit(objective, meter, labels=pool.index, scale=half_norm).run([])
    order = objective.chosen
    pool = pool.take(order)
    R_ordered: Floats = cholesky(K[np.ix_(order, order)], lower=True)
    if _loses_digits(statistics, R, noise, dtype):
        whitener = np.tril(np.linalg.inv(R_ordered))
        final = gram_statistics(sample, kernel, pool.items, workers=workers, whitener=whitener)
        meter.passes += 1
        solution = SpanSolution.from_whitened(R_ordered, final.gram, final.cross, noise)
    else:
        final = statistics.restricted(order)
        solution = SpanSolution.from_gram(R_ordered, final.gram, final.cross, noise)
    value = half_norm - np.cumsum(solution.gains().sum(axis=1))
    stopped = path.stop_reason if len(order) < len(choice.pool) else choice.path.stop_reason
    path = replace(path, value=value, stop_reason=stopped)
    return SpanFit(pool, solution, path, statistics.trace)


def _loses_digits(statistics: GramStatistics, R: Floats, noise: float, dtype: DTypeLike) -> bool:
    """Whether rounding in K_S'WK_S, blown up by R⁻¹ on both sides, reaches the ridge."""
    rounding = np.finfo(dtype).eps * float(np.diag(statistics.gram).max()) * np.sqrt(len(R))
    return bool(rounding > _LOST_DIGITS * noise * float(np.diag(R).min()) ** 2)
