"""``pursuit.to_onnx``: what a fitted model predicts, as an ONNX graph."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import solve_triangular
from sklearn.utils.validation import check_is_fitted

from pursuit.estimators.gp.sparse import SparseGPRegressor
from pursuit.estimators.onnx_export.expansions import Expansion, expansion
from pursuit.estimators.onnx_export.graph import Graph
from pursuit.estimators.onnx_export.kernels import block, diagonal
from pursuit.store import replacing

if TYPE_CHECKING:
    from onnx import ModelProto

_GUARD_SQUARINGS = 4  # the share that is missed enters the spread with its 16th power


def to_onnx(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    return_std: bool = False,
    dtype: DTypeLike = np.float64,
) -> ModelProto:
    """Export what a fitted model predicts to ONNX.

    The graph has one input ``X`` of shape (rows, n_features). Its output is named ``y`` for
    regressors, ``decision`` for classifiers (their ``decision_function``), ``features`` for
    `GreedyFeatureMap` and ``scores`` for `SparseKernelPCA`, and has the shape that the method of
    the model returns. Inside, numbers are float64, so that results agree with the model's own but
    for rounding.

    Parameters
    ----------
    model : estimator
        A fitted sparse or exact Gaussian process, `SparseKernelRidge`, kernel matching pursuit,
        support vector or LP machine, `GreedyFeatureMap` or `SparseKernelPCA`, with a kernel that
        is compiled: RBF, Matérn, RationalQuadratic, DotProduct and polynomial kernels, constants,
        and their sums, products and powers.
    path : path-like, optional
        Also write the graph to this file.
    return_std : bool, default False
        Also return ``std``, the standard deviation of a new observation, as
        ``predict(X, return_std=True)`` of `SparseGPRegressor` does.
    dtype : float64 or float32
        Type of the input and of the outputs.

    Returns
    -------
    graph : onnx.ModelProto

    Examples
    --------
    >>> import numpy as np
    >>> import pursuit
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> model = pursuit.SparseKernelRidge(alpha=0.1).fit(X, np.sin(X[:, 0]))
    >>> graph = pursuit.to_onnx(model)
    >>> [output.name for output in graph.graph.output]
    ['y']
    """
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise ImportError('to_onnx needs onnx: pip install "pursuit[onnx]"') from error
    check_is_fitted(model)
    kind = np.dtype(dtype)
    if kind not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {kind}.")
    found = expansion(model)
    if return_std and not isinstance(model, SparseGPRegressor):
        raise ValueError(
            f"return_std=True needs a SparseGPRegressor: a {type(model).__name__} has no standard "
            "deviation that a fixed graph could give."
        )
    graph = Graph()
    X = graph.input()
    width = None if found.single else len(found.offset)
    graph.output(found.name, found.values(graph, X), kind, width)
    if return_std:
        graph.output("std", _standard_deviation(graph, X, model, found), kind, width)
    exported = graph.model(model.n_features_in_, kind, type(model).__name__)
    if path is not None:
        with replacing(path) as file:
            file.write(exported.SerializeToString())
    return exported


def _standard_deviation(graph: Graph, X: str, model: SparseGPRegressor, mean: Expansion) -> str:
    """√(noise ‖U‖² + factor · missed + noise), in units of y (`Spread.variance`)."""
    solution, spread = model._factors, model._spread
    [(kernel, Z, _)] = mean.terms
    unit = np.eye(solution.size)
    whitener = solve_triangular(solution.R, unit, lower=True)
    values, scale = block(graph, X, kernel, Z)
    V = graph.node("MatMul", values, graph.constant(scale * whitener.T))
    U = graph.node("MatMul", V, graph.constant(solve_triangular(solution.L, unit, lower=True).T))
    fitted = graph.row_sums(graph.node("Mul", U, U))
    prior = diagonal(graph, X, kernel)
    rest = graph.node("Sub", prior, graph.row_sums(graph.node("Mul", V, V)))
    missed = graph.node("Max", rest, graph.constant(0.0))
    factor = graph.constant(spread.missed)
    if spread.missed < 1.0:
        share = graph.node("Div", missed, graph.node("Max", prior, graph.constant(1e-300)))
        for _ in range(_GUARD_SQUARINGS):
            share = graph.node("Mul", share, share)
        guard = graph.node("Mul", share, graph.constant(1.0 - spread.missed))
        factor = graph.node("Add", guard, factor)
    noise = graph.constant(spread.noise)
    variance = graph.node(
        "Add", graph.node("Mul", factor, missed), graph.node("Mul", fitted, noise)
    )
    deviation = graph.node("Sqrt", graph.node("Add", variance, noise))
    scaled = graph.node("Mul", deviation, graph.constant(model._scale.scale))
    return graph.vector(scaled) if mean.single else scaled
