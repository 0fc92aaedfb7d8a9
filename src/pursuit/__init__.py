"""Sparse kernel learning with proofs.

From many training rows `pursuit` picks a few basis functions greedily, fits in their span, and says
how far the result can be from the full kernel solution.

Names are imported when they are first used, so that ``import pursuit`` and the command's help load
neither scikit-learn nor SciPy. A public name stands in two places: in the imports below, which
type checkers and editors read, and in ``_NAMES``, which is used at run time.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pursuit import bounds as bounds
    from pursuit import datasets as datasets
    from pursuit import estimators as estimators
    from pursuit import gram as gram
    from pursuit import greedy as greedy
    from pursuit import kernels as kernels
    from pursuit import limits as limits
    from pursuit import linalg as linalg
    from pursuit import metrics as metrics
    from pursuit import objectives as objectives
    from pursuit import plots as plots
    from pursuit import rows as rows
    from pursuit import solvers as solvers
    from pursuit import store as store
    from pursuit import tuning as tuning
    from pursuit.bounds import Bound as Bound
    from pursuit.bounds import Certificate as Certificate
    from pursuit.bounds import CertificatePath as CertificatePath
    from pursuit.bounds import EvidenceBounds as EvidenceBounds
    from pursuit.estimators import CoverageGuarantee as CoverageGuarantee
    from pursuit.estimators import Evidence as Evidence
    from pursuit.estimators import ExactDistance as ExactDistance
    from pursuit.estimators import ExactGPRegressor as ExactGPRegressor
    from pursuit.estimators import FullScaleGPClassifier as FullScaleGPClassifier
    from pursuit.estimators import FullScaleGPRegressor as FullScaleGPRegressor
    from pursuit.estimators import GreedyFeatureMap as GreedyFeatureMap
    from pursuit.estimators import HullBoostClassifier as HullBoostClassifier
    from pursuit.estimators import HullMixture as HullMixture
    from pursuit.estimators import HullRegressor as HullRegressor
    from pursuit.estimators import HullSolution as HullSolution
    from pursuit.estimators import Importance as Importance
    from pursuit.estimators import (
        KernelMatchingPursuitClassifier as KernelMatchingPursuitClassifier,
    )
    from pursuit.estimators import KernelMatchingPursuitRegressor as KernelMatchingPursuitRegressor
    from pursuit.estimators import LowRankOneClassSVM as LowRankOneClassSVM
    from pursuit.estimators import LowRankSVC as LowRankSVC
    from pursuit.estimators import LowRankSVR as LowRankSVR
    from pursuit.estimators import LPMachineClassifier as LPMachineClassifier
    from pursuit.estimators import LPMachineRegressor as LPMachineRegressor
    from pursuit.estimators import QuadraticSolution as QuadraticSolution
    from pursuit.estimators import Search as Search
    from pursuit.estimators import SpanNeighbors as SpanNeighbors
    from pursuit.estimators import SparseGPClassifier as SparseGPClassifier
    from pursuit.estimators import SparseGPRegressor as SparseGPRegressor
    from pursuit.estimators import SparseKernelCCA as SparseKernelCCA
    from pursuit.estimators import SparseKernelGLM as SparseKernelGLM
    from pursuit.estimators import SparseKernelPCA as SparseKernelPCA
    from pursuit.estimators import SparseKernelRidge as SparseKernelRidge
    from pursuit.estimators import TableColumn as TableColumn
    from pursuit.estimators import TableEncoder as TableEncoder
    from pursuit.estimators import TableError as TableError
    from pursuit.estimators import TablePipeline as TablePipeline
    from pursuit.estimators import load as load
    from pursuit.estimators import make_table_pipeline as make_table_pipeline
    from pursuit.estimators import minimize_over_hull as minimize_over_hull
    from pursuit.estimators import minimize_quadratic as minimize_quadratic
    from pursuit.estimators import to_onnx as to_onnx
    from pursuit.estimators import trusted_types as trusted_types
    from pursuit.greedy import Path as Path
    from pursuit.kernels import Additive as Additive
    from pursuit.kernels import Categorical as Categorical
    from pursuit.kernels import on_columns as on_columns
    from pursuit.kernels import pairwise as pairwise
    from pursuit.objectives import ExponentialLoss as ExponentialLoss
    from pursuit.objectives import GreedyStep as GreedyStep
    from pursuit.objectives import HuberLoss as HuberLoss
    from pursuit.objectives import HullLoss as HullLoss
    from pursuit.objectives import KernelAtoms as KernelAtoms
    from pursuit.objectives import LearnedAtoms as LearnedAtoms
    from pursuit.objectives import LogExpLoss as LogExpLoss
    from pursuit.objectives import LogisticLoss as LogisticLoss
    from pursuit.objectives import NegativeLogLikelihood as NegativeLogLikelihood
    from pursuit.objectives import RowLoss as RowLoss
    from pursuit.objectives import SigmoidAtoms as SigmoidAtoms
    from pursuit.objectives import SquaredLoss as SquaredLoss
    from pursuit.plots import BoundDisplay as BoundDisplay
    from pursuit.plots import CalibrationDisplay as CalibrationDisplay
    from pursuit.plots import CertificateDisplay as CertificateDisplay
    from pursuit.plots import CorrelationDisplay as CorrelationDisplay
    from pursuit.plots import PartsDisplay as PartsDisplay
    from pursuit.plots import PathDisplay as PathDisplay
    from pursuit.plots import PredictionDisplay as PredictionDisplay
    from pursuit.plots import RelevanceDisplay as RelevanceDisplay
    from pursuit.plots import ResidualDisplay as ResidualDisplay
    from pursuit.rows import open_table as open_table

__version__ = "0.2.0"

_NAMES = {
    "bounds": (
        "Bound",
        "Certificate",
        "CertificatePath",
        "EvidenceBounds",
    ),
    "estimators": (
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
        "LowRankOneClassSVM",
        "LowRankSVC",
        "LowRankSVR",
        "LPMachineClassifier",
        "LPMachineRegressor",
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
    ),
    "greedy": ("Path",),
    "kernels": (
        "Additive",
        "Categorical",
        "on_columns",
        "pairwise",
    ),
    "objectives": (
        "ExponentialLoss",
        "GreedyStep",
        "HuberLoss",
        "HullLoss",
        "KernelAtoms",
        "LearnedAtoms",
        "LogExpLoss",
        "LogisticLoss",
        "NegativeLogLikelihood",
        "RowLoss",
        "SigmoidAtoms",
        "SquaredLoss",
    ),
    "plots": (
        "BoundDisplay",
        "CalibrationDisplay",
        "CertificateDisplay",
        "CorrelationDisplay",
        "PartsDisplay",
        "PathDisplay",
        "PredictionDisplay",
        "RelevanceDisplay",
        "ResidualDisplay",
    ),
    "rows": ("open_table",),
}
"""Public names by the room that defines them."""

_ROOM_OF = {name: room for room, names in _NAMES.items() for name in names}
_ROOMS = (
    *_NAMES,
    "datasets",
    "gram",
    "limits",
    "linalg",
    "metrics",
    "solvers",
    "store",
    "testing",
    "tuning",
)
"""Modules that are attributes after ``import pursuit``."""

__all__ = ["__version__", *sorted(_ROOM_OF)]

if not TYPE_CHECKING:  # a type checker would accept any name if it saw __getattr__

    def __getattr__(name):
        if name in _ROOMS:
            return import_module(f"pursuit.{name}")
        if name not in _ROOM_OF:
            raise AttributeError(
                f"module 'pursuit' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
            )
        value = getattr(import_module(f"pursuit.{_ROOM_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
