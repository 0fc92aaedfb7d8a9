"""The rows of a fit in the span of some points, and the best function of a machine there."""

from __future__ import annotations

from typing import Any

from pursuit._types import Indices
from pursuit.estimators.span.features import Span, SpanFeatures, SpanFunction
from pursuit.estimators.svm.problem import MachineProblem
from pursuit.greedy import Pool, Problem
from pursuit.rows import SelectedRows


class SpannedRows:
    """The rows' features in the span of a pool of points; those asked for last are kept."""

    def __init__(self, chooser: Problem, dtype: Any) -> None:
        self._chooser, self._dtype = chooser, dtype
        self._last: tuple[Pool, int, Span, SpanFeatures] | None = None

    def __call__(self, pool: Pool, rows: Indices | None = None) -> tuple[Span, SpanFeatures]:
        """The span of the points, and the features of these rows, or of all rows."""
        chooser = self._chooser
        source = chooser.sample.rows
        n_rows = source.n_rows if rows is None else len(rows)
        if self._last is not None and self._last[1] == n_rows:
            last, _, span, features = self._last
            if pool is last or pool is span.pool:
                return span, features
        # Features may fill the memory: there are never two of them.
        self._last = None
        span = Span.of(pool, chooser)
        if rows is not None and n_rows < source.n_rows:
            source = SelectedRows(source, rows)
        features = SpanFeatures(source, chooser.kernel, span, chooser.workers, self._dtype)
        chooser.meter.passes += n_rows / chooser.sample.n_rows
        self._last = pool, n_rows, span, features
        return span, features

    def solve(
        self,
        problem: MachineProblem,
        pool: Pool,
        rows: Indices | None = None,
        **options: Any,
    ) -> SpanFunction:
        """The best function for a problem, on these rows or on all rows.

        ``start`` and ``tol`` are those of :meth:`MachineProblem.solve`.
        """
        _, features = self(pool, rows)
        return problem.solve(features, self._chooser.workers, self._chooser.rng, **options)


def objective(problem: MachineProblem, solution: SpanFunction) -> float:
    """P of a function in a span, as computed."""
    return float(problem.value(solution.fitted, solution.squared_norms).value.sum())
