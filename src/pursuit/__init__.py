"""Sparse kernel learning with proofs.

From many training rows `pursuit` picks a few basis functions greedily, fits in their span, and says
how far the result can be from the full kernel solution.
"""

from pursuit.bounds import (
    Bound,
    Certificate,
    CertificatePath,
    EvidenceBounds,
    GrowthPath,
    SolvePath,
)
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
    LowRankOneClassSVM,
    LowRankSVC,
    LowRankSVR,
    LPMachineClassifier,
    LPMachineRegressor,
    SpanNeighbors,
    SparseGPClassifier,
    SparseGPRegressor,
    SparseKernelCCA,
    SparseKernelPCA,
    SparseKernelRidge,
    load,
    minimize_over_hull,
    to_onnx,
    trusted_types,
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
    PredictionDisplay,
    RelevanceDisplay,
)
from pursuit.rows import open_table

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
    "GrowthPath",
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
    "LPMachineClassifier",
    "LPMachineRegressor",
    "LearnedAtoms",
    "LogExpLoss",
    "LogisticLoss",
    "LowRankOneClassSVM",
    "LowRankSVC",
    "LowRankSVR",
    "NegativeLogLikelihood",
    "Path",
    "PathDisplay",
    "PredictionDisplay",
    "RelevanceDisplay",
    "SolvePath",
    "SpanNeighbors",
    "SparseGPClassifier",
    "SparseGPRegressor",
    "SparseKernelCCA",
    "SparseKernelPCA",
    "SparseKernelRidge",
    "SquaredLoss",
    "__version__",
    "load",
    "minimize_over_hull",
    "open_table",
    "pairwise",
    "to_onnx",
    "trusted_types",
]
