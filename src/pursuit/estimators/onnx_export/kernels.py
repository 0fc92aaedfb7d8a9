"""Compiled kernels as ONNX operators: k(X, Z) for fixed points Z, and k(x, x).

Runtimes may fuse a matrix product with a number that multiplies it, and then hold the number in
float32. So no number stands before or after a product here: a factor is handed on to the caller,
who multiplies his constants by it.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from pursuit._types import Floats
from pursuit.estimators.onnx_export.graph import Graph
from pursuit.kernels import Dot, Kernel
from pursuit.kernels.compose import Constant, Power, Product, Sum
from pursuit.kernels.stationary import (
    Gaussian,
    Matern12,
    Matern32,
    Matern52,
    Profile,
    RationalQuadratic,
    Stationary,
)

# Below this share of ‖x‖² + ‖z‖² a squared distance has lost too many digits to be rooted.
_CANCELLED = 1e-6


def block(graph: Graph, X: str, kernel: Kernel, Z: Floats) -> tuple[str, float]:
    """Values of shape (rows, points) and a factor, whose product is k(X, Z)."""
    if isinstance(kernel, Stationary):
        squares = _squared_distances(graph, X, kernel, Z)
        return _profile(graph, squares, kernel.profile), kernel.variance
    if isinstance(kernel, Dot):
        product = graph.node("MatMul", X, graph.constant(kernel.weight * Z.T))
        return graph.node("Add", product, graph.constant(kernel.offset)), 1.0
    if isinstance(kernel, Constant):
        return graph.node("Add", graph.zeros(X, len(Z)), graph.constant(kernel.value)), 1.0
    return _combined(graph, kernel, [block(graph, X, part, Z) for part in _parts(kernel)])


def diagonal(graph: Graph, X: str, kernel: Kernel) -> str:
    """k(x, x) for every row, shape (rows, 1)."""
    return _scaled(graph, *_diagonal(graph, X, kernel))


def _diagonal(graph: Graph, X: str, kernel: Kernel) -> tuple[str, float]:
    if isinstance(kernel, Stationary | Constant):
        value = kernel.variance if isinstance(kernel, Stationary) else kernel.value
        return graph.node("Add", graph.zeros(X, 1), graph.constant(value)), 1.0
    if isinstance(kernel, Dot):
        norms = graph.row_sums(graph.node("Mul", X, X))
        weighted = graph.node("Mul", norms, graph.constant(kernel.weight))
        return graph.node("Add", weighted, graph.constant(kernel.offset)), 1.0
    return _combined(graph, kernel, [_diagonal(graph, X, part) for part in _parts(kernel)])


def _parts(kernel: Kernel) -> tuple[Kernel, ...]:
    """What a sum, product or power is made of."""
    if isinstance(kernel, Sum):
        return kernel.terms
    if isinstance(kernel, Product):
        return kernel.factors
    if isinstance(kernel, Power):
        return (kernel.base,)
    raise ValueError(
        f"{getattr(kernel, 'name', type(kernel).__name__)} is a kernel that is called, and ONNX "
        "has no Python to call: use RBF, Matern (nu 0.5, 1.5, 2.5), RationalQuadratic, DotProduct, "
        "constants, their sums, products and powers, or a kernel named 'rbf', 'linear' or 'poly'."
    )


def _combined(graph: Graph, kernel: Kernel, parts: list[tuple[str, float]]) -> tuple[str, float]:
    if isinstance(kernel, Product):
        values = reduce(lambda a, b: graph.node("Mul", a, b), [part for part, _ in parts])
        return values, kernel.factor * float(np.prod([factor for _, factor in parts]))
    scaled = [_scaled(graph, *part) for part in parts]
    if isinstance(kernel, Power):
        return graph.node("Pow", scaled[0], graph.constant(kernel.exponent)), 1.0
    assert isinstance(kernel, Sum)
    return reduce(lambda a, b: graph.node("Add", a, b), [graph.constant(kernel.offset), *scaled]), 1


def _scaled(graph: Graph, values: str, factor: float) -> str:
    return values if factor == 1.0 else graph.node("Mul", values, graph.constant(factor))


def _profile(graph: Graph, squares: str, profile: Profile) -> str:
    """A profile of squared distances r²; the formulas are in `pursuit.kernels.stationary`."""
    if isinstance(profile, Gaussian):
        return graph.node("Exp", _scaled(graph, squares, -0.5))
    if isinstance(profile, RationalQuadratic):
        base = graph.node("Add", _scaled(graph, squares, 0.5 / profile.alpha), graph.constant(1.0))
        return graph.node("Pow", base, graph.constant(-profile.alpha))
    slope = {Matern12: 1.0, Matern32: 3.0, Matern52: 5.0}[type(profile)]
    a = graph.node("Sqrt", _scaled(graph, squares, slope))
    decay = graph.node("Exp", graph.node("Neg", a))
    if isinstance(profile, Matern12):
        return decay
    growth = graph.node("Add", a, graph.constant(1.0))
    if isinstance(profile, Matern52):
        growth = graph.node("Add", growth, _scaled(graph, squares, slope / 3.0))
    return graph.node("Mul", growth, decay)


def _squared_distances(graph: Graph, X: str, kernel: Stationary, Z: Floats) -> str:
    """‖(x - z)/length_scale‖² by one product, never negative."""
    # Shifted by the mean of Z, as the tiles of this package are: far from 0, digits would be lost.
    mean, scale = Z.mean(axis=0), np.broadcast_to(1.0 / np.asarray(kernel.length_scale), Z.shape[1])
    placed_Z = (Z - mean) * scale
    centred = graph.node("Sub", X, graph.constant(mean))
    placed_X = graph.node("Mul", centred, graph.constant(scale))
    norms = graph.row_sums(graph.node("Mul", placed_X, placed_X))
    total = graph.node("Add", norms, graph.constant(np.einsum("ij,ij->i", placed_Z, placed_Z)))
    product = graph.node("MatMul", centred, graph.constant(2.0 * (placed_Z * scale).T))
    squares = graph.node("Max", graph.node("Sub", total, product), graph.constant(0.0))
    if kernel.profile.kinked:
        spoilt = graph.node("LessOrEqual", squares, _scaled(graph, total, _CANCELLED))
        return _restored(graph, squares, spoilt, placed_X, placed_Z)
    return squares


def _restored(graph: Graph, squares: str, spoilt: str, X: str, Z: Floats) -> str:
    """Squared distances with the spoilt ones recomputed from differences."""
    entries = graph.node("NonZero", spoilt)
    at = [graph.node("Gather", entries, graph.constant(i, np.int64), axis=0) for i in (0, 1)]
    x = graph.node("Gather", X, at[0], axis=0)
    z = graph.node("Gather", graph.constant(Z), at[1], axis=0)
    difference = graph.node("Sub", x, z)
    exact = graph.row_sums(graph.node("Mul", difference, difference), keep=False)
    return graph.node("ScatterND", squares, graph.node("Transpose", entries, perm=[1, 0]), exact)
