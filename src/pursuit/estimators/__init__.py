"""The scikit-learn face: wire rows, kernel, objective and stopping rule, and store the result."""

from pursuit.estimators.arguments import Evidence, Search
from pursuit.estimators.components.kernel_cca import SparseKernelCCA
from pursuit.estimators.components.kernel_pca import SparseKernelPCA
from pursuit.estimators.full_scale.classifier import FullScaleGPClassifier
from pursuit.estimators.full_scale.distance import ExactDistance
from pursuit.estimators.full_scale.regressor import FullScaleGPRegressor
from pursuit.estimators.glm.estimator import SparseKernelGLM
from pursuit.estimators.gp.classifier import SparseGPClassifier
from pursuit.estimators.gp.exact import ExactGPRegressor
from pursuit.estimators.gp.sparse import SparseGPRegressor
from pursuit.estimators.hull.boosting import HullBoostClassifier
from pursuit.estimators.hull.mixture import HullMixture
from pursuit.estimators.hull.pursue import HullSolution, minimize_over_hull
from pursuit.estimators.hull.regression import HullRegressor
from pursuit.estimators.importance import Importance
from pursuit.estimators.intervals import CoverageGuarantee
from pursuit.estimators.lp.estimators import LPMachineClassifier, LPMachineRegressor
from pursuit.estimators.maps.feature_map import GreedyFeatureMap
from pursuit.estimators.maps.neighbors import SpanNeighbors
from pursuit.estimators.matching.estimators import (
    KernelMatchingPursuitClassifier,
    KernelMatchingPursuitRegressor,
)
from pursuit.estimators.onnx_export import to_onnx
from pursuit.estimators.quadratic.minimize import QuadraticSolution, minimize_quadratic
from pursuit.estimators.ridge import SparseKernelRidge
from pursuit.estimators.saving import load, trusted_types
from pursuit.estimators.svm.estimators import LowRankOneClassSVM, LowRankSVC, LowRankSVR
from pursuit.estimators.table.columns import TableColumn
from pursuit.estimators.table.encoder import TableEncoder
from pursuit.estimators.table.errors import TableError
from pursuit.estimators.table.pipeline import TablePipeline, make_table_pipeline

__all__ = [
    "CoverageGuarantee",
    "Evidence",
    "ExactDistance",
    "ExactGPRegressor",
    "FullScaleGPClassifier",
    "FullScaleGPRegressor",
    "GreedyFeatureMap",
    "HullBoostClassifier",
    "HullMixture",
    "HullRegressor",
    "HullSolution",
    "Importance",
    "KernelMatchingPursuitClassifier",
    "KernelMatchingPursuitRegressor",
    "LPMachineClassifier",
    "LPMachineRegressor",
    "LowRankOneClassSVM",
    "LowRankSVC",
    "LowRankSVR",
    "QuadraticSolution",
    "Search",
    "SpanNeighbors",
    "SparseGPClassifier",
    "SparseGPRegressor",
    "SparseKernelCCA",
    "SparseKernelGLM",
    "SparseKernelPCA",
    "SparseKernelRidge",
    "TableColumn",
    "TableEncoder",
    "TableError",
    "TablePipeline",
    "load",
    "make_table_pipeline",
    "minimize_over_hull",
    "minimize_quadratic",
    "to_onnx",
    "trusted_types",
]
