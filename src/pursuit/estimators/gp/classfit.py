"""Stages of a classifier's fit once a basis is chosen: find the scale, solve, calibrate."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.estimators.classes import largest_class
from pursuit.estimators.gp.finishing import (
    held_out,
)
from pursuit.estimators.gp.laplace import LaplaceFit, fit_laplace, learn_scale
from pursuit.estimators.span.features import Span, SpanFeatures
from pursuit.greedy import Problem, SpanFit
from pursuit.rows import draw_rows
from pursuit.tuning import Confidence, fit_confidence

_FIRST_VARIANCE = 30.0


def scale_by_evidence(
    problem: Problem, span: Span, reserved: Indices
) -> tuple[float, Floats | None]:
    """The scale of the kernel that maximises Laplace's evidence on some rows, and the mode there.

    Those are the reserved rows, if there are any: on rows that have chosen and moved the basis the
    evidence rises with the scale for much too long.
    """
    sample = problem.sample
    rows = (
        reserved if len(reserved) else draw_rows(sample.n_rows, limits.EVIDENCE_ROWS, problem.rng)
    )
    some = sample.take(rows)
    prior = problem.kernel.diag(some.rows.take(np.arange(some.n_rows)))
    level = float(np.average(prior, weights=some.weights))
    first = _FIRST_VARIANCE / level if level > 0 else 1.0
    features = SpanFeatures(some.rows, problem.kernel, span, problem.workers)
    found = learn_scale(
        features.span_only, len(span), some.targets, some.weights, first, problem.workers
    )
    return found.scale, found.mode


def solve_in_latents(
    problem: Problem, span: Span, scale: float, start: Floats | None
) -> LaplaceFit:
    """Laplace's approximation on all rows."""
    sample = problem.sample
    features = SpanFeatures(sample.rows, problem.kernel, span, problem.workers)
    return fit_laplace(
        features.span_only,
        len(span),
        sample.targets,
        sample.weights,
        scale,
        problem.workers,
        start=start,
    )


def calibrate_latents(
    problem: Problem, fitted: SpanFit, laplace: LaplaceFit, reserved: Indices
) -> Confidence:
    """Trust the latent functions as far as rows left out tell, reserved ones if there are."""
    chosen = reserved if len(reserved) else np.arange(problem.sample.n_rows)
    rows = held_out(problem, fitted.pool, fitted.solution, chosen)
    latents = laplace.left_out(rows)
    return fit_confidence(
        latents,
        largest_class(rows.targets),
        rows.weights,
        seen=float(latents.share.max()),
        missed_too=len(reserved) > 0,
    )


def whitened(fitted: SpanFit) -> Span:
    """The span of a fitted basis."""
    R = fitted.solution.R
    return Span(fitted.pool, solve_triangular(R, np.eye(len(R)), lower=True))
