"""The scikit-learn face: wire rows, kernel, objective and stopping rule, and store the result."""

from pursuit.estimators.boosting import HullBoostClassifier
from pursuit.estimators.exact import ExactGPRegressor
from pursuit.estimators.featuremap import GreedyFeatureMap
from pursuit.estimators.gp import SparseGPRegressor
from pursuit.estimators.hull import HullRegressor, HullRegressorCV
from pursuit.estimators.hullsearch import HullSolution, minimize_over_hull
from pursuit.estimators.kcca import SparseKernelCCA
from pursuit.estimators.kpca import SparseKernelPCA
from pursuit.estimators.matching import (
    KernelMatchingPursuitClassifier,
    KernelMatchingPursuitRegressor,
)
from pursuit.estimators.mixture import HullMixture
from pursuit.estimators.neighbors import SpanNeighbors
from pursuit.estimators.ridge import SparseKernelRidge

__all__ = [
    "ExactGPRegressor",
    "GreedyFeatureMap",
    "HullBoostClassifier",
    "HullMixture",
    "HullRegressor",
    "HullRegressorCV",
    "HullSolution",
    "KernelMatchingPursuitClassifier",
    "KernelMatchingPursuitRegressor",
    "SpanNeighbors",
    "SparseGPRegressor",
    "SparseKernelCCA",
    "SparseKernelPCA",
    "SparseKernelRidge",
    "minimize_over_hull",
]
