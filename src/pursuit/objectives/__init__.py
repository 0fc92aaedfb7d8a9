"""What shrinks: objectives that score candidates, take one, and know their value.

Every greedy method of the package is an :class:`Objective` driven by the one loop in `greedy/`.
Imports gram and what lies below it.
"""

from pursuit.objectives.atoms import (
    Atoms,
    KernelAtoms,
    LearnedAtoms,
    MatrixAtoms,
    OracleAtoms,
    check_learner,
    learner_values,
)
from pursuit.objectives.ball import BallRegression, triangle_step
from pursuit.objectives.base import Objective, SpanObjective
from pursuit.objectives.correlation import CorrelationPursuit
from pursuit.objectives.diagonal import DiagonalPursuit
from pursuit.objectives.evidence import GramEvidence, SpanEvidence
from pursuit.objectives.gradient import GradientPursuit
from pursuit.objectives.hull import HullObjective
from pursuit.objectives.hulllosses import (
    ExponentialLoss,
    HuberLoss,
    HullLoss,
    LogExpLoss,
    LogisticLoss,
    NegativeLogLikelihood,
    SquaredLoss,
    check_exponent,
    mean_weights,
)
from pursuit.objectives.lasso import LassoPursuit
from pursuit.objectives.matching import (
    BackfitPursuit,
    BasicPursuit,
    MatchingObjective,
    PrefitPursuit,
)
from pursuit.objectives.plane import PlanePursuit, RefittedPlanePursuit
from pursuit.objectives.projections import OwnProjection, PublishedSpace
from pursuit.objectives.prototype import GreedyStep, Pick, Project, StepBound, checked_bound
from pursuit.objectives.quadratic import QuadraticPursuit, dual_pursuit, gram_pursuit
from pursuit.objectives.residual import ProjectionName, ResidualPursuit, Rule
from pursuit.objectives.residual_losses import (
    HuberResidual,
    PinballResidual,
    ResidualLoss,
    SquaredResidual,
)
from pursuit.objectives.residualgram import GramResidual
from pursuit.objectives.rowloss import (
    LogisticRows,
    RowLoss,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from pursuit.objectives.sigmoid_atoms import SigmoidAtoms
from pursuit.objectives.span import SpanPursuit

__all__ = [
    "Atoms",
    "BackfitPursuit",
    "BallRegression",
    "BasicPursuit",
    "CorrelationPursuit",
    "DiagonalPursuit",
    "ExponentialLoss",
    "GradientPursuit",
    "GramEvidence",
    "GramResidual",
    "GreedyStep",
    "HuberLoss",
    "HuberResidual",
    "HullLoss",
    "HullObjective",
    "KernelAtoms",
    "LassoPursuit",
    "LearnedAtoms",
    "LogExpLoss",
    "LogisticLoss",
    "LogisticRows",
    "MatchingObjective",
    "MatrixAtoms",
    "NegativeLogLikelihood",
    "Objective",
    "OracleAtoms",
    "OwnProjection",
    "Pick",
    "PinballResidual",
    "PlanePursuit",
    "PrefitPursuit",
    "Project",
    "ProjectionName",
    "PublishedSpace",
    "QuadraticPursuit",
    "RefittedPlanePursuit",
    "ResidualLoss",
    "ResidualPursuit",
    "RowLoss",
    "Rule",
    "SigmoidAtoms",
    "SpanEvidence",
    "SpanObjective",
    "SpanPursuit",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "SquaredLoss",
    "SquaredResidual",
    "StepBound",
    "check_exponent",
    "check_learner",
    "checked_bound",
    "dual_pursuit",
    "gram_pursuit",
    "learner_values",
    "mean_weights",
    "triangle_step",
]
