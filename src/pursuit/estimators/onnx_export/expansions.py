"""What exported models have in common: sums of kernel functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pursuit._types import Floats
from pursuit.estimators.components.kpca import SparseKernelPCA
from pursuit.estimators.gp.classifier import SparseGPClassifier
from pursuit.estimators.gp.exact import ExactGPRegressor
from pursuit.estimators.gp.sparse import SparseGPRegressor
from pursuit.estimators.inputs import dense, is_precomputed
from pursuit.estimators.lp.estimators import LPMachineClassifier, LPMachineRegressor
from pursuit.estimators.maps.featuremap import GreedyFeatureMap
from pursuit.estimators.matching.estimators import (
    KernelMatchingPursuitClassifier,
    KernelMatchingPursuitRegressor,
)
from pursuit.estimators.onnx_export.graph import Graph
from pursuit.estimators.onnx_export.kernels import block
from pursuit.estimators.ridge import SparseKernelRidge
from pursuit.estimators.svm.estimators import LowRankOneClassSVM, LowRankSVC, LowRankSVR
from pursuit.kernels import Kernel


@dataclass(frozen=True)
class Expansion:
    """Σ_j k_j(x, Z_j) C_j + offset.

    Attributes
    ----------
    name : str
        What the values are called.
    terms : list of (kernel, points, coefficients)
        Compiled kernels, points as dense rows, coefficients with one column an output.
    offset : array of shape (n_outputs,)
        Added to every row.
    single : bool
        Whether the values of the one output are a vector.
    """

    name: str
    terms: list[tuple[Kernel, Floats, Floats]]
    offset: Floats
    single: bool

    def values(self, graph: Graph, X: str) -> str:
        """The values in a graph: (rows,) or (rows, outputs)."""
        total = graph.node("Add", graph.zeros(X, len(self.offset)), graph.constant(self.offset))
        for kernel, Z, C in self.terms:
            values, factor = block(graph, X, kernel, Z)
            product = graph.node("MatMul", values, graph.constant(factor * C))
            total = graph.node("Add", total, product)
        return graph.vector(total) if self.single else total


def expansion(model: Any) -> Expansion:
    """The sum that a fitted model evaluates."""
    found = _KINDS.get(type(model))
    if found is None:
        known = ", ".join(sorted(kind.__name__ for kind in _KINDS))
        raise TypeError(f"{type(model).__name__} cannot be exported to ONNX; these can: {known}.")
    if is_precomputed(model.kernel):
        raise ValueError(
            "kernel='precomputed' leaves the kernel to whoever calls predict: there is none to "
            "export. Fit with a kernel on rows of numbers."
        )
    if not hasattr(model, "n_features_in_"):
        raise ValueError("ONNX export needs rows of numbers, and the model was fitted to others.")
    return found(model)


def _compiled(model: Any) -> list[Kernel]:
    """The kernels of a model without their counters."""
    found = model._compiled_kernels(np.empty((0, model.n_features_in_)))
    return [counter.kernel for counter in found]


def _points(points: Any) -> Floats:
    return np.asarray(dense(points), dtype=np.float64)


def _values(model: Any, name: str, points: Any) -> Expansion:
    """Models with a kernel, points, coefficients, and perhaps an intercept or units of y."""
    Z = _points(points)
    C = model.dual_coef_.reshape(len(Z), -1)
    offset = np.broadcast_to(getattr(model, "intercept_", 0.0), C.shape[1])
    if hasattr(model, "_scale"):
        C, offset = C * model._scale.scale, model._scale.restore(offset)
    [kernel] = _compiled(model)
    return Expansion(name, [(kernel, Z, C)], offset, model.dual_coef_.ndim == 1)


def _regression(model: Any) -> Expansion:
    return _values(model, "y", model.basis_)


def _decision(model: Any) -> Expansion:
    return _values(model, "decision", model.basis_)


def _exact(model: Any) -> Expansion:
    return _values(model, "y", model.X_train_)


def _matching(model: Any) -> Expansion:
    Z = _points(model.basis_)
    C = model.dual_coef_.reshape(len(Z), -1)
    terms = []
    for number, kernel in enumerate(_compiled(model)):
        mine = model.basis_kernels_ == number
        if mine.any():
            terms.append((kernel, Z[mine], C[mine]))
    name = "decision" if hasattr(model, "classes_") else "y"
    offset = np.broadcast_to(model.intercept_, C.shape[1])
    return Expansion(name, terms, offset, model.dual_coef_.ndim == 1)


def _machine(model: Any) -> Expansion:
    """Support vector machines, except those whose classes are found by votes."""
    if getattr(model, "_pairs", False):
        raise ValueError(
            "multi_class='ovo' counts votes of pairs, which are no sums of kernel functions: fit "
            "with multi_class='ovr' to export."
        )
    return _regression(model) if isinstance(model, LowRankSVR) else _decision(model)


def _features(model: Any) -> Expansion:
    [kernel] = _compiled(model)
    whitener = model.normalization_.T
    terms = [(kernel, _points(model.components_), whitener)]
    return Expansion("features", terms, np.zeros(len(whitener)), False)


def _scores(model: Any) -> Expansion:
    [kernel] = _compiled(model)
    terms = [(kernel, _points(model.basis_), model.dual_coef_)]
    return Expansion("scores", terms, -model._shift, False)


_KINDS: dict[type, Callable[[Any], Expansion]] = {
    ExactGPRegressor: _exact,
    GreedyFeatureMap: _features,
    KernelMatchingPursuitClassifier: _matching,
    KernelMatchingPursuitRegressor: _matching,
    LPMachineClassifier: _decision,
    LPMachineRegressor: _regression,
    LowRankOneClassSVM: _machine,
    LowRankSVC: _machine,
    LowRankSVR: _machine,
    SparseGPClassifier: _decision,
    SparseGPRegressor: _regression,
    SparseKernelPCA: _scores,
    SparseKernelRidge: _regression,
}
