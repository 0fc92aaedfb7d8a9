"""Beyond a sum of kernel functions: probabilities of classes, and predictions by links."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import solve_triangular

from pursuit._types import Floats
from pursuit.estimators.gp.class_model import LatentClassModel
from pursuit.estimators.onnx_export.graph import Graph, block, diagonal
from pursuit.kernels import Kernel
from pursuit.objectives import LogitRows, LogLinkRows, RowLoss
from pursuit.tuning import Confidence
from pursuit.tuning.calibration import PARTS, STEEPNESS

# W. J. Cody's method for the error function with the coefficients of Cephes (S. Moshier, 1984):
# xT(x²)/U(x²) up to 1, and 1 - exp(-x²)P(x)/Q(x) beyond; highest powers first. ONNX has Erf, but
# runtimes know it in float32 only.
_T = (
    9.60497373987051638749e0,
    9.00260197203842689217e1,
    2.23200534594684319226e3,
    7.00332514112805075473e3,
    5.55923013010394962768e4,
)
_U = (
    1.0,
    3.35617141647503099647e1,
    5.21357949780152679795e2,
    4.59432382970980127987e3,
    2.26290000613890934246e4,
    4.92673942608635921086e4,
)
_P = (
    2.46196981473530512524e-10,
    5.64189564831068821977e-1,
    7.46321056442269912687e0,
    4.86371970985681366614e1,
    1.96520832956077098242e2,
    5.26445194995477358631e2,
    9.34528527171957607540e2,
    1.02755188689515710272e3,
    5.57535335369399327526e2,
)
_Q = (
    1.0,
    1.32281951154744992508e1,
    8.67072140885989742329e1,
    3.54937778887819891062e2,
    9.75708501743205489753e2,
    1.82390916687909736289e3,
    2.24633760818710981792e3,
    1.65666309194161350182e3,
    5.57535340817727675546e2,
)
_FLAT = 6.0
"""From here on the error function rounds to 1."""


def link(loss: RowLoss) -> str | None:
    """The name of what a loss makes of f + b; None if that is a function of somebody else's."""
    known = {
        RowLoss.predicted: "identity",
        LogLinkRows.predicted: "exp",
        LogitRows.predicted: "logistic",
    }
    return known.get(type(loss).predicted)


def linked(graph: Graph, values: str, name: str, n_columns: int) -> str:
    """What is predicted at values f + b, sorted in each row where there are several."""
    if name == "exp":
        values = graph.node("Exp", values)
    elif name == "logistic":
        values = logistic(graph, values)
    return values if n_columns == 1 else graph.sorted_rows(values, n_columns)


def logistic(graph: Graph, values: str) -> str:
    """1 / (1 + exp(-f))."""
    decay = graph.node("Exp", graph.node("Neg", values))
    return graph.node("Reciprocal", graph.node("Add", decay, graph.constant(1.0)))


def shares(graph: Graph, p: str, n_columns: int) -> str:
    """Probabilities of classes from those of each against the rest, or of the second of two."""
    if n_columns == 1:
        return graph.node("Concat", graph.node("Sub", graph.constant(1.0), p), p, axis=1)
    total = graph.row_sums(p)
    divisor = graph.node("Max", total, graph.constant(np.finfo(float).tiny))
    some = graph.node("Greater", total, graph.constant(0.0))
    even = graph.constant(1.0 / n_columns)
    return graph.node("Where", some, graph.node("Div", p, divisor), even)


def latent_probabilities(
    graph: Graph, X: str, model: LatentClassModel, kernel: Kernel, points: Floats
) -> str:
    """The averaged logistic function of the latent functions, as `Confidence.probabilities`."""
    laplace = model._laplace
    confidence = Confidence() if model.calibration_ is None else model.calibration_
    values, scale = block(graph, X, kernel, points)
    V = graph.node("MatMul", values, graph.constant(scale * model._whitener.T))
    mean = graph.node("MatMul", V, graph.constant(laplace.mode))
    prior = diagonal(graph, X, kernel)
    rest = graph.node("Sub", prior, graph.row_sums(graph.node("Mul", V, V)))
    missed = graph.node("Max", rest, graph.constant(0.0))
    unit = np.eye(len(laplace.mode))
    inverses = [solve_triangular(L, unit, lower=True) for L in laplace.factors]
    rotated = [graph.node("MatMul", V, graph.constant(inverse.T)) for inverse in inverses]
    squares = [graph.row_sums(graph.node("Mul", U, U)) for U in rotated]
    known = graph.node(
        "Mul", graph.node("Concat", *squares, axis=1), graph.constant(confidence.spread)
    )
    factor = _factor(graph, missed, prior, confidence, laplace.scale)
    variance = graph.node("Add", known, graph.node("Mul", factor, missed))
    return shares(graph, _averaged_logistic(graph, mean, variance), laplace.mode.shape[1])


def _factor(graph: Graph, missed: str, prior: str, confidence: Confidence, scale: float) -> str:
    """What missed variance, in units of the prior, is multiplied by: scale at most."""
    share = graph.node(
        "Div", missed, graph.node("Max", prior, graph.constant(np.finfo(float).tiny))
    )
    above = graph.node("Sub", share, graph.constant(confidence.seen))
    width = graph.constant(max(1.0 - confidence.seen, 1e-12))
    inside = graph.node("Max", graph.node("Div", above, width), graph.constant(0.0))
    beyond = graph.node("Min", inside, graph.constant(1.0))
    rise = graph.constant(scale * (1.0 - confidence.missed))
    risen = graph.node("Mul", graph.node("Mul", beyond, beyond), rise)
    return graph.node("Add", risen, graph.constant(scale * confidence.missed))


def _averaged_logistic(graph: Graph, mean: str, variance: str) -> str:
    """E[1 / (1 + exp(-f))], as `pursuit.tuning.averaged_logistic`."""
    last = graph.constant([2], np.int64)
    m, v = (graph.node("Unsqueeze", each, last) for each in (mean, variance))
    widths = graph.node("Mul", v, graph.constant(2.0 * STEEPNESS**2))
    root = graph.node("Sqrt", graph.node("Add", widths, graph.constant(1.0)))
    argument = graph.node("Div", graph.node("Mul", m, graph.constant(STEEPNESS)), root)
    terms = graph.node("Mul", erf(graph, argument), graph.constant(0.5 * PARTS))
    total = graph.node(
        "Add",
        graph.node("ReduceSum", terms, last, keepdims=0),
        graph.constant(0.5 * PARTS.sum()),
    )
    plain, half = logistic(graph, mean), graph.constant(0.5)
    least, most = graph.node("Min", plain, half), graph.node("Max", plain, half)
    return graph.node("Min", graph.node("Max", total, least), most)


def erf(graph: Graph, x: str) -> str:
    """The error function, to the last digits of float64."""
    a = graph.node("Min", graph.node("Abs", x), graph.constant(_FLAT))
    z = graph.node("Mul", a, a)
    inner = graph.node("Div", _polynomial(graph, z, _T), _polynomial(graph, z, _U))
    outer = graph.node("Div", _polynomial(graph, a, _P), _polynomial(graph, a, _Q))
    decay = graph.node("Mul", graph.node("Exp", graph.node("Neg", z)), outer)
    size = graph.node(
        "Where",
        graph.node("Less", a, graph.constant(1.0)),
        graph.node("Mul", a, inner),
        graph.node("Sub", graph.constant(1.0), decay),
    )
    return graph.node("Mul", graph.node("Sign", x), size)


def _polynomial(graph: Graph, x: str, coefficients: Sequence[float]) -> str:
    """By Horner's rule, from the highest power."""
    first, *others = coefficients
    value = graph.constant(first)
    for coefficient in others:
        value = graph.node("Add", graph.node("Mul", value, x), graph.constant(coefficient))
    return value
