"""Objectives: functions that score candidates, take one of them, and know their value.

Every greedy method of the package is an :class:`Objective` driven by the one loop in `greedy/`.
Imports gram and what lies below it.
"""

from pursuit.objectives.atoms import (
    Atoms,
    KernelAtoms,
    LearnedAtoms,
    MatrixAtoms,
    OracleAtoms,
    SigmoidAtoms,
    check_learner,
    learner_values,
)
from pursuit.objectives.base import Objective, SpanObjective
from pursuit.objectives.class_losses import Exponential, LogisticRows, LogitRows, SquaredHinge
from pursuit.objectives.correlation import CorrelationPursuit
from pursuit.objectives.difference_losses import (
    ExpectileRows,
    HuberRows,
    PinballRows,
    SquaredEpsilonInsensitive,
    SquaredRows,
)
from pursuit.objectives.evidence import GramEvidence, SpanEvidence
from pursuit.objectives.hull import HullObjective
from pursuit.objectives.hull_losses import (
    ExponentialLoss,
    HuberLoss,
    HullLoss,
    LogExpLoss,
    LogisticLoss,
    MeanLoss,
    NegativeLogLikelihood,
    SquaredLoss,
    check_exponent,
)
from pursuit.objectives.l1 import L1BallRegression, LassoPursuit, triangle_step
from pursuit.objectives.log_link_losses import (
    GammaRows,
    LogLinkRows,
    NegativeBinomialRows,
    PoissonRows,
    TweedieRows,
)
from pursuit.objectives.matching import (
    BackfitPursuit,
    BasicPursuit,
    GradientPursuit,
    MatchingObjective,
    PrefitPursuit,
)
from pursuit.objectives.plane import PlanePursuit, RefittedPlanePursuit
from pursuit.objectives.projections import (
    GreedyStep,
    OwnProjection,
    Pick,
    Project,
    PublishedSpace,
    StepBound,
    checked_bound,
)
from pursuit.objectives.quadratic import QuadraticPursuit, dual_pursuit, gram_pursuit
from pursuit.objectives.residual import (
    DiagonalPursuit,
    GramResidual,
    ProjectionName,
    ResidualPursuit,
    Rule,
)
from pursuit.objectives.row_loss import RowLoss
from pursuit.objectives.span import SpanPursuit

__all__ = [
    "Atoms",
    "BackfitPursuit",
    "BasicPursuit",
    "CorrelationPursuit",
    "DiagonalPursuit",
    "ExpectileRows",
    "Exponential",
    "ExponentialLoss",
    "GammaRows",
    "GradientPursuit",
    "GramEvidence",
    "GramResidual",
    "GreedyStep",
    "HuberLoss",
    "HuberRows",
    "HullLoss",
    "HullObjective",
    "KernelAtoms",
    "L1BallRegression",
    "LassoPursuit",
    "LearnedAtoms",
    "LogExpLoss",
    "LogLinkRows",
    "LogisticLoss",
    "LogisticRows",
    "LogitRows",
    "MatchingObjective",
    "MatrixAtoms",
    "MeanLoss",
    "NegativeBinomialRows",
    "NegativeLogLikelihood",
    "Objective",
    "OracleAtoms",
    "OwnProjection",
    "Pick",
    "PinballRows",
    "PlanePursuit",
    "PoissonRows",
    "PrefitPursuit",
    "Project",
    "ProjectionName",
    "PublishedSpace",
    "QuadraticPursuit",
    "RefittedPlanePursuit",
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
    "SquaredRows",
    "StepBound",
    "TweedieRows",
    "check_exponent",
    "check_learner",
    "checked_bound",
    "dual_pursuit",
    "gram_pursuit",
    "learner_values",
    "triangle_step",
]
