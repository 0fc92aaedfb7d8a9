"""``pursuit.to_onnx``: the predictions of a fitted model as an ONNX graph."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import solve_triangular
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from pursuit._types import Floats
from pursuit.estimators.glm.estimator import SparseKernelGLM
from pursuit.estimators.gp.class_model import LatentClassModel
from pursuit.estimators.gp.outliers import StudentNoise
from pursuit.estimators.gp.sparse import SparseGPRegressor
from pursuit.estimators.inputs import dense, reads_matrix
from pursuit.estimators.kernel_model import Expansion
from pursuit.estimators.onnx_export.answers import (
    latent_probabilities,
    link,
    linked,
    logistic,
    shares,
)
from pursuit.estimators.onnx_export.graph import Graph, block, diagonal
from pursuit.estimators.saving import models
from pursuit.estimators.warning import warn
from pursuit.kernels import Kernel
from pursuit.store import replacing

if TYPE_CHECKING:
    from onnx import ModelProto

_GUARD_SQUARINGS = 4
"""A row's residual share enters the spread with its 16th power: `PredictiveVariance.variance`."""


def to_onnx(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    return_std: bool = False,
    dtype: DTypeLike = np.float64,
) -> ModelProto:
    """Export the predictions of a fitted model to ONNX.

    The graph has one input ``X`` of shape (rows, n_features). Its outputs are named ``y`` for
    regressors (what ``predict`` returns), ``decision`` for classifiers and `SparseKernelGLM` (their
    ``decision_function``), ``probabilities`` for classifiers with ``predict_proba``, ``features``
    for `GreedyFeatureMap` and ``scores`` for `SparseKernelPCA`. They have the shape that the method
    of the model returns; columns of ``probabilities`` are in the order of ``model.classes_``.
    Runtimes compute the outputs that they are asked for. The graph computes in float64, so that its
    results agree with the model's own up to rounding.

    Parameters
    ----------
    model : estimator
        A fitted sparse or exact Gaussian process, `SparseKernelGLM`, `SparseKernelRidge`, kernel
        matching pursuit, support vector or LP machine, `GreedyFeatureMap` or `SparseKernelPCA`. If
        a GLM was fitted with offsets, add them to ``decision``. Its kernel may be an
        RBF, Matérn (nu 0.5, 1.5, 2.5, …), RationalQuadratic, ExpSineSquared, DotProduct or
        PairwiseKernel, a kernel given by name, a constant, or a sum, product or power of these,
        also on some of the columns, and of categories. Columns of text are columns of codes in
        the graph: positions in ``model.categories_``. Of a pipeline, export the last step: the
        graph then takes what the steps before it return.
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
    expansion = _checked_expansion(model)
    if return_std and not isinstance(model, SparseGPRegressor):
        raise ValueError(
            f"return_std=True needs a SparseGPRegressor: a {type(model).__name__} has no standard "
            "deviation that a fixed graph could give."
        )
    parts = _parts(model, expansion)
    graph = Graph()
    X = graph.input()
    values = _values(graph, X, expansion, parts)
    answers = {expansion.name: values}
    if isinstance(model, SparseKernelGLM):
        answers = _predictions(graph, values, model) | answers
    if return_std:
        [(kernel, points, _)] = parts
        answers["std"] = _standard_deviation(graph, X, model, kernel, points)
    width = None if expansion.single else expansion.coefficients.shape[1]
    for name, value in answers.items():
        graph.output(name, graph.vector(value) if expansion.single else value, kind, width)
    if hasattr(model, "predict_proba"):
        probabilities = _probabilities(graph, X, values, model, parts)
        graph.output("probabilities", probabilities, kind, len(model.classes_))
    exported = graph.model(model.n_features_in_, kind, type(model).__name__)
    if path is not None:
        with replacing(path) as file:
            file.write(exported.SerializeToString())
    return exported


def _checked_expansion(model: Any) -> Expansion:
    """The expansion of a model on rows of numbers with a kernel that the graph can compute."""
    if isinstance(model, Pipeline):
        coded = ".coded" if getattr(model[-1], "categories_", None) else ""
        raise TypeError(
            f"{type(model).__name__} prepares rows in Python, which ONNX cannot call: export its "
            "model, to_onnx(pipeline[-1]). The input X of the graph is then "
            f"np.asarray(pipeline[:-1].transform(rows){coded})."
        )
    if hasattr(model, "without_neighbors"):
        raise TypeError(
            f"{type(model).__name__} looks up the nearest training rows of every row that it "
            "predicts, which a graph of fixed size cannot: export model.without_neighbors(), the "
            "basis functions alone."
        )
    if not hasattr(model, "_expansion"):
        known = ", ".join(sorted(name for name, one in models().items() if _can_expand(one)))
        raise TypeError(f"{type(model).__name__} cannot be exported to ONNX; these can: {known}.")
    if reads_matrix(model):
        raise ValueError(
            "kernel='precomputed' leaves the kernel to whoever calls predict: there is none to "
            "export. Fit with a kernel on rows of numbers."
        )
    if not hasattr(model, "n_features_in_"):
        raise ValueError("ONNX export needs rows of numbers, and the model was fitted to others.")
    if getattr(model, "multi_class", None) == "ovo" and len(model.classes_) > 2:
        raise ValueError(
            "multi_class='ovo' counts votes of pairs, which are no sums of kernel functions: fit "
            "with multi_class='ovr' to export."
        )
    expansion: Expansion = model._expansion()
    return expansion


def _can_expand(one: type) -> bool:
    return hasattr(one, "_expansion")


def _parts(model: Any, expansion: Expansion) -> list[tuple[Kernel, Floats, Floats]]:
    """For each kernel of the model: the kernel, its points as dense rows, and coefficients."""
    points = np.asarray(dense(expansion.points), dtype=np.float64)
    parts = []
    counters = model._compiled_kernels(np.empty((0, model.n_features_in_)))
    for number, counter in enumerate(counters):
        own = expansion.kernel_numbers == number
        if own.any():
            parts.append((counter.kernel, points[own], expansion.coefficients[own]))
    return parts


def _values(
    graph: Graph, X: str, expansion: Expansion, parts: list[tuple[Kernel, Floats, Floats]]
) -> str:
    """Σ_j k_j(x, Z_j) C_j + offset: shape (rows, outputs)."""
    offset = expansion.offset
    total = graph.node("Add", graph.zeros(X, len(offset)), graph.constant(offset))
    for kernel, points, coefficients in parts:
        values, factor = block(graph, X, kernel, points)
        product = graph.node("MatMul", values, graph.constant(factor * coefficients))
        total = graph.node("Add", total, product)
    return total


def _predictions(graph: Graph, values: str, model: SparseKernelGLM) -> dict[str, str]:
    """What ``predict`` returns, where that is no Python function of f + b."""
    loss, *others = model._given().rows()
    name = link(loss)
    if name is None:
        warn(
            f"{type(loss).__name__}.predicted is a Python function, which ONNX cannot call: the "
            "graph has the output decision alone. Apply the function to it, or inherit predicted "
            "from RowLoss (f), LogLinkRows (exp f) or LogitRows (1 / (1 + exp(-f)))."
        )
        return {}
    return {"y": linked(graph, values, name, 1 + len(others))}


def _probabilities(
    graph: Graph, X: str, values: str, model: Any, parts: list[tuple[Kernel, Floats, Floats]]
) -> str:
    """What ``predict_proba`` returns."""
    if isinstance(model, LatentClassModel):
        [(kernel, points, _)] = parts
        return latent_probabilities(graph, X, model, kernel, points)
    n_columns = len(model.classes_) if len(model.classes_) > 2 else 1
    if model.calibration_ is not None:
        shrunk = graph.node("Mul", values, graph.constant(model.calibration_.slope))
        values = graph.node("Add", shrunk, graph.constant(model.calibration_.offset))
    return shares(graph, logistic(graph, values), n_columns)


def _standard_deviation(
    graph: Graph, X: str, model: SparseGPRegressor, kernel: Kernel, points: Floats
) -> str:
    """√(noise ‖U‖² + factor · residual + noise), in units of y (`PredictiveVariance.variance`)."""
    solution, spread = model._factors, model._spread
    unit = np.eye(solution.size)
    whitener = solve_triangular(solution.R, unit, lower=True)
    values, scale = block(graph, X, kernel, points)
    V = graph.node("MatMul", values, graph.constant(scale * whitener.T))
    U = graph.node("MatMul", V, graph.constant(solve_triangular(solution.L, unit, lower=True).T))
    fitted = graph.row_sums(graph.node("Mul", U, U))
    prior = diagonal(graph, X, kernel)
    difference = graph.node("Sub", prior, graph.row_sums(graph.node("Mul", V, V)))
    residual = graph.node("Max", difference, graph.constant(0.0))
    factor = graph.constant(spread.missed)
    if spread.missed < 1.0:
        share = graph.node("Div", residual, graph.node("Max", prior, graph.constant(1e-300)))
        for _ in range(_GUARD_SQUARINGS):
            share = graph.node("Mul", share, share)
        guard = graph.node("Mul", share, graph.constant(1.0 - spread.missed))
        factor = graph.node("Add", guard, factor)
    noise = graph.constant(spread.noise)
    variance = graph.node(
        "Add", graph.node("Mul", factor, residual), graph.node("Mul", fitted, noise)
    )
    observed = _noise_variance(graph, X, model)
    deviation = graph.node("Sqrt", graph.node("Add", variance, observed))
    return graph.node("Mul", deviation, graph.constant(model._scale.scale))


def _noise_variance(graph: Graph, X: str, model: SparseGPRegressor) -> str:
    """The variance of the noise in normalised units: a number, or a column where it varies."""
    noise, level = model._noise_model, model._spread.noise
    if noise is None:
        return graph.constant(level)
    if isinstance(noise, StudentNoise):
        return graph.constant(level * noise.deviation**2)
    counter = model._noise_kernel(np.empty((0, model.n_features_in_)))
    assert counter is not None
    points = np.asarray(dense(noise.points), dtype=np.float64)
    values, factor = block(graph, X, counter.kernel, points)
    h = graph.node("MatMul", values, graph.constant(factor * noise.coefficients))
    h = graph.node("Add", h, graph.constant(noise.offset + np.log(level)))
    return graph.node("Exp", h)
