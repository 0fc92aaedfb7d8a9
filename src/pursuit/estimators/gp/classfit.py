"""The stages of a classifier's fit: choose a basis, find the scale, solve, calibrate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from pursuit.estimators.classes import largest_class
from pursuit.estimators.gp.finishing import (
    choose_size,
    held_out,
    length_units,
    move_basis,
    split_rows,
    timed,
)
from pursuit.estimators.gp.laplace import LaplaceFit, fit_laplace, learn_scale
from pursuit.estimators.gp.learning import EVIDENCE_ROWS
from pursuit.estimators.progress import Progress
from pursuit.estimators.span.features import Span, SpanFeatures
from pursuit.estimators.span.searching import SMALL, SearchPlan, fit_span
from pursuit.greedy import Choice, Clock, Interrupted, Problem, SpanFit
from pursuit.rows import Sample, draw_rows
from pursuit.tuning import Confidence, fit_confidence

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_FIRST_VARIANCE = 30.0


@dataclass
class ClassFit:
    """One fit, stage by stage.

    Attributes
    ----------
    problem : Problem
        Rows with targets of ±1; its noise is the ridge of the choice.
    interrupted : Interrupted
        Whether the user has asked to stop.
    clock : Clock
        How much time is left.
    progress : Progress
        Stages are announced to it.
    moved : str
        What became of moving the basis.
    """

    problem: Problem
    interrupted: Interrupted
    clock: Clock
    progress: Progress
    moved: str = "not moved"

    def __post_init__(self) -> None:
        m = self.problem.sample.n_rows
        self._allowed, self._reserved = np.arange(m), np.arange(0)

    def choose(
        self,
        plan: SearchPlan,
        kernel: Any,
        deviations: Floats | None,
        steps: int,
        *,
        reserve: bool,
        size: bool,
    ) -> SpanFit:
        """Choose basis functions for regression on ±1, and move them ``steps`` times.

        With ``size``, only as many as lower the log loss of rows left out. Those are reserved, as
        they are to judge the moves, where there are many rows; for ``reserve`` they are anyway.
        """
        m = self.problem.sample.n_rows
        if steps > 0 or (m > SMALL and (reserve or size)):
            self._allowed, self._reserved = split_rows(m, self.problem.rng)

        def cut(choice: Choice) -> Choice:
            return choose_size(choice, self.problem, self._allowed, self._reserved, classes=True)

        def move(choice: Choice) -> Choice:
            if self.interrupted.requested or self.clock.over():
                return choice
            self.progress.begin("move")
            units = length_units(kernel, np.asarray(deviations))
            how = kernel, units, steps, self._allowed, self._reserved, self.clock.left()
            choice, self.moved = move_basis(choice, self.problem, *how)
            return choice

        fitted, _ = fit_span(
            timed(plan, self.clock, self.problem, moves=steps > 0),
            self.problem,
            allowed=self._allowed if len(self._reserved) else None,
            cut=cut if size else None,
            after_choice=move if steps > 0 else None,
            interrupted=self.interrupted,
            begin=self.progress.begin,
        )
        return fitted

    def solve(self, span: Span, scale: float | None) -> LaplaceFit:
        """Laplace's approximation on all rows; the scale by evidence on some when it is None.

        Those are the reserved rows, if there are any: on rows that have chosen and moved the basis
        the evidence rises with the scale for much too long.
        """
        sample, workers = self.problem.sample, self.problem.workers
        start = None
        if scale is None:
            self.progress.begin("scale")
            chosen = self._reserved
            if not len(chosen):
                chosen = draw_rows(sample.n_rows, EVIDENCE_ROWS, self.problem.rng)
            some = sample.take(chosen)
            prior = self.problem.kernel.diag(some.rows.take(np.arange(some.n_rows)))
            level = float(np.average(prior, weights=some.weights))
            first = _FIRST_VARIANCE / level if level > 0 else 1.0
            found = learn_scale(
                self._features(some, span).span_only,
                len(span),
                some.targets,
                some.weights,
                first,
                workers,
            )
            scale, start = found.scale, found.mode
        self.progress.begin("solve")
        return fit_laplace(
            self._features(sample, span).span_only,
            len(span),
            sample.targets,
            sample.weights,
            scale,
            workers,
            start=start,
        )

    def calibrate(self, fitted: SpanFit, laplace: LaplaceFit) -> Confidence:
        """Trust the latent functions as far as rows left out tell, reserved ones if there are."""
        self.progress.begin("calibrate")
        reserved = len(self._reserved) > 0
        chosen = self._reserved if reserved else np.arange(self.problem.sample.n_rows)
        rows = held_out(self.problem, fitted.pool, fitted.solution, chosen)
        latents = laplace.left_out(rows)
        labels = largest_class(rows.targets)
        return fit_confidence(
            latents,
            labels,
            rows.weights,
            seen=float(latents.share.max()),
            missed_too=reserved,
        )

    def _features(self, sample: Sample, span: Span) -> SpanFeatures:
        return SpanFeatures(sample.rows, self.problem.kernel, span, self.problem.workers)


def whitened(fitted: SpanFit) -> Span:
    """The span of a fitted basis."""
    R = fitted.solution.R
    return Span(fitted.pool, solve_triangular(R, np.eye(len(R)), lower=True))
