"""Sparse kernel learning with proofs.

From many training rows `pursuit` picks a few basis functions greedily, fits in their span, and says
how far the result can be from the full kernel solution.
"""

from pursuit.bounds import Bound, Certificate, CertificatePath, EvidenceBounds, SolvePath
from pursuit.estimators import (
    ExactGPRegressor,
    GreedyFeatureMap,
    HullBoostClassifier,
    HullMixture,
    HullRegressor,
    HullRegressorCV,
    HullSolution,
    KernelMatchingPursuitClassifier,
    KernelMatchingPursuitRegressor,
    SpanNeighbors,
    SparseGPRegressor,
    SparseKernelCCA,
    SparseKernelPCA,
    SparseKernelRidge,
    load,
    minimize_over_hull,
)
from pursuit.greedy import Path
from pursuit.kernels import pairwise
from pursuit.objectives import (
    HuberLoss,
    HullLoss,
    KernelAtoms,
    LearnedAtoms,
    LogExpLoss,
    LogisticLoss,
    NegativeLogLikelihood,
    SquaredLoss,
)
from pursuit.plots import (
    BoundDisplay,
    CertificateDisplay,
    CorrelationDisplay,
    PathDisplay,
    RelevanceDisplay,
)

__version__ = "0.1.0"

__all__ = [
    "Bound",
    "BoundDisplay",
    "Certificate",
    "CertificateDisplay",
    "CertificatePath",
    "CorrelationDisplay",
    "EvidenceBounds",
    "ExactGPRegressor",
    "GreedyFeatureMap",
    "HuberLoss",
    "HullBoostClassifier",
    "HullLoss",
    "HullMixture",
    "HullRegressor",
    "HullRegressorCV",
    "HullSolution",
    "KernelAtoms",
    "KernelMatchingPursuitClassifier",
    "KernelMatchingPursuitRegressor",
    "LearnedAtoms",
    "LogExpLoss",
    "LogisticLoss",
    "NegativeLogLikelihood",
    "Path",
    "PathDisplay",
    "RelevanceDisplay",
    "SolvePath",
    "SpanNeighbors",
    "SparseGPRegressor",
    "SparseKernelCCA",
    "SparseKernelPCA",
    "SparseKernelRidge",
    "SquaredLoss",
    "__version__",
    "load",
    "minimize_over_hull",
    "pairwise",
]
