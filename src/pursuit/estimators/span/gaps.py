"""Targets with gaps: one basis for all outputs, and sums of its own for each group of them.

Outputs that were observed at the same rows are a group. The basis is chosen for targets whose gaps
are filled with predictions; what is fitted in its span are the observed targets alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate
from pursuit.estimators.inputs import TargetScale
from pursuit.estimators.saving import made_of, saved_parts
from pursuit.estimators.scales import kept
from pursuit.estimators.span.certify import Certifier
from pursuit.estimators.span.search import span_model
from pursuit.gram import GramStatistics, kernel_share, kernel_times
from pursuit.greedy import Path, Problem, SpanFit, solve_in_span
from pursuit.linalg import SpanSolution, invert_lower
from pursuit.rows import OutputGroup, Sample, draw_rows, has_gaps, output_groups

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
        share = kernel_share(own.sample.rows, own.kernel, fitted.pool.items)
        fits.append(GroupFit(group, solution, row_sums(found, own.sample.weights, share)))
    return fits


def row_sums(found: GramStatistics, weights: Floats, share: float) -> dict[str, Any]:
    """What a model keeps of the sums over its rows, beside its solution."""
    return {
        "share": share,
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
    moved = [one.rounding_per_output for one in found]
    measured = [one for one in moved if one is not None]
    return replace(
        found[0],
        upper_per_output=joined([one.upper_per_output for one in found]),
        lower_per_output=joined([one.lower_per_output for one in found]),
        target_norms=joined([one.target_norms for one in found]),
        confidence=min(one.confidence for one in found),
        minimum_upper_per_output=joined(known) if len(known) == len(minima) else None,
        rounding_per_output=joined(measured) if len(measured) == len(moved) else None,
    )


def joined_outputs(parts: Sequence[Floats], columns: Sequence[Indices]) -> Floats:
    """Arrays whose last axis is that of the outputs of a group, as one for all outputs."""
    together: Floats = np.concatenate(parts, axis=-1)[..., np.argsort(np.concatenate(columns))]
    return together


class GroupedOutputs:
    """A model that, where targets have gaps, is made of one model for each group of outputs.

    It then has coefficients, and no solution or factor of its own.
    """

    tol: float | None
    n_basis_: int
    dual_coef_: Floats
    path_: Path
    certificate_: Certificate | None
    coverage_guarantee_: Any
    _scale: TargetScale
    _sums: dict[str, Any]
    _single_output: bool
    _weighted: bool
    _copied: Callable[[], Any]
    _update: Callable[[SpanSolution], None]
    _certificate_kind: Callable[[int], str | None]
    _about: Callable[[Certificate], Certificate]

    _parts: tuple[Any, ...] = ()
    _part_columns: tuple[Indices, ...] = ()
    """The outputs of each part."""
    _saved_parts: list[Any]
    _saved_columns: list[Indices]

    def _refuse_gaps(self, method: str) -> None:
        """Refuse what takes one set of rows for all outputs."""
        if self._parts:
            raise ValueError(
                f"{method} is for outputs observed at the same rows, and some targets in y were "
                "NaN: fit a model to each output, with the rows that have it."
            )

    def _refuse_tol(self) -> None:
        """Refuse to find the size of a model for targets with gaps by its certificate."""
        if self.tol is not None:
            raise ValueError(
                f"tol={self.tol:g} finds the size of a model for targets without gaps, and some "
                "are NaN: set tol=None and give n_basis; certificate_ says what it reached."
            )

    def _by_outputs(self, sample: Sample) -> list[tuple[OutputGroup, Any]]:
        """Groups of outputs, each observed at the same rows so far and here, and their models."""
        n_outputs = sample.n_outputs
        everything = OutputGroup(np.arange(n_outputs), np.arange(sample.n_rows))
        groups = output_groups(sample.targets) if has_gaps(sample.targets) else [everything]
        divided: list[tuple[OutputGroup, Any]] = []
        for columns, part in zip(
            self._part_columns or (everything.columns,), self._parts or (self,), strict=True
        ):
            for group in groups:
                common, _, own = np.intersect1d(group.columns, columns, return_indices=True)
                if len(common):
                    whole = len(common) == len(columns)
                    one = part if whole else part._of_outputs(own)
                    divided.append((OutputGroup(common, group.rows), one))
        return divided

    def _store_groups(self, fits: list[GroupFit]) -> None:
        """Keep a model for each group of outputs, after `_store` has kept the basis."""
        parts = []
        for fit in fits:
            part = self._copied()
            part._scale, part._sums = self._scale.taken(fit.group.columns), fit.sums
            part._update(fit.solution)
            parts.append(part)
        self._keep_parts([fit.group.columns for fit in fits], parts)

    def _keep_parts(self, columns: Sequence[Indices], parts: Sequence[Any]) -> None:
        """Take the models of groups of outputs for this one."""
        self.__dict__.pop("_solution", None)
        self._part_columns, self._parts = tuple(columns), tuple(parts)
        self.n_basis_ = parts[0].n_basis_
        self.dual_coef_ = joined_outputs([part.dual_coef_ for part in parts], columns)
        norms = joined_outputs([part._sums["target_norms"] for part in parts], columns)
        self._sums = self._sums | {"target_norms": norms}
        self._weighted = any(part._weighted for part in parts)
        value = np.sum([part.path_.value for part in parts], axis=0)
        self.path_ = replace(self.path_, value=value, gap=np.full(len(value), np.nan))
        self.certificate_ = self.coverage_guarantee_ = None

    def _certify_groups(self, problem: Problem) -> None:
        """Store the certificate of the outputs as they were observed."""
        kind = self._certificate_kind(problem.sample.n_rows)
        if kind is None or self.n_basis_ == 0:
            return
        found, columns = [], []
        for group, part in self._by_outputs(problem.sample):
            own = problem.restricted(group)
            model = span_model(part._points, part._solution, same_rows=True)
            found += Certifier(own).certify([model], kind)
            columns.append(group.columns)
        self.certificate_ = kept(self._about(joined_certificate(found, columns)))
        if self.certificate_ is not None:
            self.path_.gap[-1] = self.certificate_.relative_gap

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
