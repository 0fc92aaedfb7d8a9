"""The end of a fit to targets with gaps: groups of outputs, error bars, certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.estimators.gp.stages import calibrate_sizes, held_out
from pursuit.estimators.span.gaps import GroupFit
from pursuit.greedy import Pool, Problem
from pursuit.linalg import SpanSolution
from pursuit.tuning import Calibration, HeldOut


@dataclass(frozen=True)
class GroupSolutions:
    """Solutions for all groups of outputs, with one ridge."""

    each: list[SpanSolution]

    @property
    def noise(self) -> float:
        """σ²."""
        return self.each[0].noise

    @property
    def size(self) -> int:
        """Number of basis functions."""
        return self.each[0].size

    def with_noise(self, noise: float) -> GroupSolutions:
        """The solutions for another σ²."""
        return GroupSolutions([solution.with_noise(noise) for solution in self.each])

    def truncated(self, n: int) -> GroupSolutions:
        """The solutions in the span of the first n basis functions."""
        return GroupSolutions([solution.truncated(n) for solution in self.each])


@dataclass(frozen=True)
class GroupHeldOut:
    """Rows to leave out of the group where they were observed; one entry per target value."""

    each: list[HeldOut]
    ratio: float = 1.0

    def truncated(self, n: int) -> GroupHeldOut:
        """For the first n basis functions."""
        return GroupHeldOut([rows.truncated(n) for rows in self.each])

    def missed(self) -> Floats:
        """k(x,x) - ‖V_x‖²."""
        return self._per_value([rows.missed() for rows in self.each])

    def leave_out(self, solutions: GroupSolutions) -> tuple[Floats, Floats]:
        """Errors as one column, and V'B⁻¹V."""
        pairs = zip(self.each, solutions.each, strict=True)
        errors, squares = zip(*(rows.leave_out(one) for rows, one in pairs), strict=True)
        column = np.concatenate([error.T.ravel() for error in errors])[:, None]
        return column, self._per_value(list(squares))

    @cached_property
    def features(self) -> Floats:
        """V_x for each value."""
        return np.hstack([np.tile(rows.features, rows.targets.shape[1]) for rows in self.each])

    @cached_property
    def weights(self) -> Floats:
        """Weight of each value."""
        return self._per_value([rows.weights for rows in self.each])

    @cached_property
    def prior(self) -> Floats:
        """k(x, x) for each value."""
        return self._per_value([rows.prior for rows in self.each])

    @cached_property
    def group(self) -> Indices:
        """Number of the identical rows that a value belongs to, others for every output."""
        numbers, first = [], 0
        for rows in self.each:
            for _ in range(rows.targets.shape[1]):
                numbers.append(rows.group + first)
                first += int(rows.group.max(initial=-1)) + 1
        return np.concatenate(numbers)

    def _per_value(self, per_row: list[Floats]) -> Floats:
        """Numbers of the rows of each group, once for each of its outputs."""
        pairs = zip(self.each, per_row, strict=True)
        return np.concatenate([np.tile(one, rows.targets.shape[1]) for rows, one in pairs])


def calibrate_groups(
    fits: list[GroupFit],
    pool: Pool,
    problem: Problem,
    reserved: Indices,
    *,
    keep_ridge: bool,
    factor: float,
) -> tuple[list[GroupFit], dict[int, Calibration]]:
    """Ridge and error bars of all outputs by leave-one-out, as `calibrate_fit` does it."""
    chosen = reserved if len(reserved) else np.arange(problem.sample.n_rows)
    rows = []
    for fit in fits:
        seen = np.intersect1d(chosen, fit.group.rows)
        one = held_out(problem, pool, fit.solution, seen)
        rows.append(replace(one, targets=one.targets[:, fit.group.columns]))
    found, by_size = calibrate_sizes(
        GroupSolutions([fit.solution for fit in fits]),
        GroupHeldOut(rows),
        keep_ridge=keep_ridge or len(reserved) == 0,
        factor=factor,
    )
    by_size = {size: replace(one, n_rows=len(chosen)) for size, one in by_size.items()}
    pairs = zip(fits, found.each, strict=True)
    return [replace(fit, solution=solution) for fit, solution in pairs], by_size
