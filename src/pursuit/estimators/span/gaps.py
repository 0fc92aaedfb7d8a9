"""Targets with gaps: one basis for all outputs, and sums of its own for each group of them.

Outputs that were observed at the same rows are a group. The basis is chosen for targets whose gaps
are filled with predictions; what is fitted in its span are the observed targets alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate
from pursuit.estimators.saving import made_of, saved_parts
from pursuit.gram import GramStatistics, kernel_times
from pursuit.greedy import Problem, SpanFit, solve_in_span
from pursuit.linalg import SpanSolution, invert_lower
from pursuit.rows import OutputGroup, Sample, draw_rows, output_groups

_FILLING_POINTS, _FILLING_ROWS = 256, 8192
"""Basis functions and rows of the models that fill gaps. More: a choice that follows the observed
targets more closely, for more time before it."""


def filled(problem: Problem) -> Problem:
    """The problem with predictions in the place of targets that were not observed.

    They are there for the choice of a basis: a good model leaves nothing of them.
    """
    sample, rng = problem.sample, problem.rng
    targets = sample.targets.copy()
    items = sample.rows.take(draw_rows(sample.n_rows, _FILLING_POINTS, rng))
    for group in output_groups(targets):
        missing = np.setdiff1d(np.arange(sample.n_rows), group.rows)
        some = group.rows[draw_rows(len(group.rows), _FILLING_ROWS, rng)]
        known = replace(group, rows=some).of(sample)
        points, solution = solve_in_span(replace(problem, sample=known, ledgers=None), items)
        targets[np.ix_(missing, group.columns)] = kernel_times(
            sample.take(missing).rows,
            problem.kernel,
            points,
            solution.coefficients(),
            problem.workers,
        )
    return replace(problem, sample=Sample(sample.rows, targets, sample.weights))


@dataclass(frozen=True)
class GroupFit:
    """The solution for a group of outputs, and the sums over the rows where they were observed."""

    group: OutputGroup
    solution: SpanSolution
    sums: dict[str, Any]


def fit_groups(fitted: SpanFit, problem: Problem) -> list[GroupFit]:
    """Fit the observed targets of each group of outputs in the span of a basis, a pass for each."""
    R, fits = fitted.solution.R, []
    whitener = invert_lower(R)
    for group in output_groups(problem.sample.targets):
        own = problem.restricted(group)
        found = own.statistics(fitted.pool.items, whitener=whitener)
        solution = SpanSolution.from_whitened(R, found.gram, found.cross, problem.noise)
        fits.append(GroupFit(group, solution, row_sums(found, own.sample.weights)))
    return fits


def row_sums(found: GramStatistics, weights: Floats) -> dict[str, Any]:
    """What a model keeps of the sums over its rows, beside its solution."""
    return {
        "target_norms": found.target_norms,
        "trace": found.trace,
        "n_rows": found.n_rows,
        "sum_log_weights": float(np.log(weights).sum()),
    }


def joined_certificate(found: Sequence[Certificate], columns: Sequence[Indices]) -> Certificate:
    """The certificate of all outputs, from those of groups of them."""
    if len(found) == 1:
        return found[0]
    order = np.argsort(np.concatenate(columns))

    def joined(arrays: list[Floats]) -> Floats:
        return np.concatenate(arrays)[order]

    minima = [one.minimum_upper_per_output for one in found]
    known = [one for one in minima if one is not None]
    return replace(
        found[0],
        upper_per_output=joined([one.upper_per_output for one in found]),
        lower_per_output=joined([one.lower_per_output for one in found]),
        target_norms=joined([one.target_norms for one in found]),
        confidence=min(one.confidence for one in found),
        minimum_upper_per_output=joined(known) if len(known) == len(minima) else None,
    )


def joined_outputs(parts: Sequence[Floats], columns: Sequence[Indices]) -> Floats:
    """Arrays whose last axis is that of the outputs of a group, as one for all outputs."""
    together: Floats = np.concatenate(parts, axis=-1)[..., np.argsort(np.concatenate(columns))]
    return together


class GroupedOutputs:
    """A model that, where targets have gaps, is made of one model for each group of outputs.

    It then has coefficients, and no solution or factor of its own.
    """

    _parts: tuple[Any, ...] = ()
    _part_columns: tuple[Indices, ...] = ()
    """The outputs of each part."""
    _saved_parts: list[Any]
    _saved_columns: list[Indices]

    def _refuse_gaps(self, method: str) -> None:
        """Refuse what takes one set of rows for all outputs."""
        if self._parts:
            raise AttributeError(
                f"{method} is for outputs observed at the same rows, and some targets of this "
                "model were NaN: fit a model to each output, with the rows that have it."
            )

    def _saved_state(self) -> dict[str, Any]:
        state: dict[str, Any] = super()._saved_state()  # type: ignore[misc]
        parts, columns = state.pop("_parts", ()), state.pop("_part_columns", ())
        if parts:
            state["_saved_parts"] = [saved_parts(part) for part in parts]
            state["_saved_columns"] = list(columns)
        return state

    def _after_loading(self) -> None:
        super()._after_loading()  # type: ignore[misc]
        saved = self.__dict__.pop("_saved_parts", None)
        if saved is not None:
            self._parts = tuple(made_of(type(self), part) for part in saved)
            self._part_columns = tuple(self.__dict__.pop("_saved_columns"))
