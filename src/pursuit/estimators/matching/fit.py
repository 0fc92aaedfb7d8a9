"""One fit of a matching pursuit: how many functions, which, and how often they may err."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.bounds import matching_pursuit_bound
from pursuit.estimators.fit_run import FitRun
from pursuit.estimators.matching.judges import Judge, Tally, sum_losses
from pursuit.estimators.matching.path import AtomPath, Measure
from pursuit.estimators.matching.search import MatchingPlan, MatchingSearch, draw_pool
from pursuit.greedy import (
    PATIENCE,
    MaxSize,
    Patience,
    Pool,
    Problem,
    StopRule,
    largest_size,
)
from pursuit.kernels import Kernel
from pursuit.rows import draw_rows


class MatchingFit:
    """Choose the size as planned, fit all rows, and count errors for HS08's bound.

    Attributes
    ----------
    errors : array
        Weight of the rows outside the basis on which the models of sizes 1, 2, … err; in a fit by
        the bound also those of sizes that were tried in vain.
    """

    def __init__(
        self,
        plan: MatchingPlan,
        problem: Problem,
        kernels: Sequence[Kernel],
        centers: Any,
        judge: Judge,
    ) -> None:
        self._plan, self._problem, self._kernels, self._judge = plan, problem, kernels, judge
        self._given = None if centers is None else Pool.of_points(centers)
        self._tally = Tally(judge, problem.sample)
        self._weight = float(self._tally.counts.sum())
        by_curve = isinstance(plan.n_basis, str)
        self._limit = largest_size(self._weight) if by_curve else int(plan.n_basis)
        self.errors = np.empty(0)

    def run(self, run: FitRun) -> AtomPath:
        """Choose and fit; the values in the path are those on all rows."""
        limit, reason = self._limit, "n_basis"
        if self._plan.n_basis == "validation":
            tick = run.begin("validate", limit)
            limit, reason = self._validated_size(run.interrupted, tick)
        tick = run.begin("choose", limit)
        search = self._search(self._problem, limit)
        rules: list[StopRule] = [MaxSize(limit), run.interrupted]
        if self._plan.n_basis == "bound":
            found = self._fit_by_bound(search, rules, tick)
        else:
            path = search.run(rules, tick)
            if path.stop_reason == "n_basis":
                path = replace(path, stop_reason=reason)
            found = search.fitted(len(path), path)
            self._centers = found.centers.index
        run.begin("judge")
        n = len(found)
        errors, losses = found.sums(
            self._kernels,
            self._problem.sample.rows,
            self._measure(found.centers.index, 1, n),
            self._problem.workers,
        )
        as_searched = np.array_equal(self._centers[:n], found.centers.index)
        self.errors = np.append(errors, self.errors[n:]) if as_searched else errors
        self._centers = self._centers if as_searched else found.centers.index
        return replace(found, path=replace(found.path, value=losses))

    def bound(self, *, printed: bool) -> Floats:
        """HS08 Theorem 3 at every size."""
        n = len(self.errors)
        return matching_pursuit_bound(
            np.arange(1, n + 1),
            self.errors,
            self._weight,
            self._plan.delta,
            n_atoms=self._n_choices,
            rows_used=self._tally.rows_used(self._centers[:n]),
            n_hyperplanes=self._judge.n_hyperplanes,
            n_columns=self._judge.n_columns,
            intercept=self._plan.intercept,
            printed=printed,
        )

    def _search(self, problem: Problem, limit: int) -> MatchingSearch:
        plan, m = self._plan, problem.sample.n_rows
        size = plan.candidates(m, limit)
        pool = self._given or draw_pool(problem.sample, size, problem.rng)
        all_rows = self._given is None and size >= m
        per_kernel = self._weight if all_rows else len(pool)
        self._n_choices = len(self._kernels) * per_kernel
        return MatchingSearch(plan, problem, self._kernels, pool, limit)

    def _fit_by_bound(
        self, search: MatchingSearch, rules: list[StopRule], tick: Callable[[int], None]
    ) -> AtomPath:
        """Grow until the printed form of the bound has passed its minimum; go back to it."""

        def look(first: int, last: int) -> Floats:
            self._centers = search.rows_of(search.atoms[:last])
            measure = self._measure(self._centers, first, last)
            sums = search.sums(self._problem.sample.rows, first, last, measure)
            self.errors = np.append(self.errors, sums[0])
            return self.bound(printed=True)[first - 1 :]

        patience = Patience(look, PATIENCE, "bound")
        path = search.run([patience, *rules], tick)
        patience.look(len(path))
        self.errors = self.errors[: len(patience.values)]
        n = patience.best_size
        if n < len(path):
            path = replace(path.truncated(n), stop_reason="bound")
        return search.fitted(n, path)

    def _measure(self, centers: Indices, first: int, last: int) -> Measure:
        return self._tally.measure(centers, np.arange(first, last + 1))

    def _validated_size(
        self, interrupted: StopRule, tick: Callable[[int], None]
    ) -> tuple[int, str]:
        """The size of least loss on rows set aside, and why it is that one."""
        sample, rng = self._problem.sample, self._problem.rng
        m = sample.n_rows
        n_held = min(max(1, round(self._plan.validation_fraction * m)), m - 1)
        if n_held < 1:
            raise ValueError(
                "n_basis='validation' sets rows aside: at least 2 rows are needed, got "
                "n_samples = 1."
            )
        held = draw_rows(m, n_held, rng)
        kept = np.setdiff1d(np.arange(m), held, assume_unique=True)
        search = self._search(replace(self._problem, sample=sample.take(kept)), self._limit)
        judged = sample.take(held)

        measure = partial(sum_losses, self._judge), (judged.targets, judged.weights)
        patience = Patience(
            lambda first, last: search.sums(judged.rows, first, last, measure)[0],
            PATIENCE,
            "no gain",
        )
        path = search.run([patience, MaxSize(self._limit), interrupted], tick)
        patience.look(len(path))
        n = patience.best_size
        return n, "no gain" if n < len(path) else path.stop_reason
