"""What shrinks: objectives that score candidates, take one, and know their value.

Every greedy method of the package is an :class:`Objective` driven by the one loop in `greedy/`.
Imports gram and what lies below it.
"""

from pursuit.objectives.base import Objective, SpanObjective
from pursuit.objectives.diagonal import DiagonalPursuit
from pursuit.objectives.evidence import GramEvidence, SpanEvidence
from pursuit.objectives.quadratic import QuadraticPursuit, dual_pursuit, gram_pursuit
from pursuit.objectives.residualgram import GramResidual
from pursuit.objectives.span import SpanPursuit

__all__ = [
    "DiagonalPursuit",
    "GramEvidence",
    "GramResidual",
    "Objective",
    "QuadraticPursuit",
    "SpanEvidence",
    "SpanObjective",
    "SpanPursuit",
    "dual_pursuit",
    "gram_pursuit",
]
