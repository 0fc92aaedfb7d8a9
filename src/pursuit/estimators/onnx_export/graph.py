"""A graph of ONNX operators under construction, and compiled kernels in such a graph.

Runtimes may fuse a matrix product with a number that multiplies it, and then keep the number in
float32. So no number is multiplied to a product here: functions return it as a factor, and callers
multiply their constants by it. The module imports onnx when it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from pursuit._types import Floats
from pursuit.kernels import Dot, Kernel
from pursuit.kernels.categorical import CategoryColumn, OneCorrelation, PairCorrelations
from pursuit.kernels.compose import Constant, Mapped, Power, Product, Sum
from pursuit.kernels.matern import LARGEST, Matern, half_integer, is_half_integer
from pursuit.kernels.metrics import AdditiveChiSquared, ChiSquared, Cosine, Laplacian
from pursuit.kernels.on_columns import OnColumns
from pursuit.kernels.stationary import (
    Gaussian,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Profile,
    RationalQuadratic,
    Stationary,
)

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

_OPSET, _IR_VERSION = 17, 8
"""Versions that every runtime in use reads; the first ones with all operators in float64."""
_CANCELLED = 1e-6
"""Squared distances below this share of ‖x‖² + ‖z‖² are computed again, from differences."""

_TINY = 1e-300
"""Divisors are at least this, so that 0/0 is 0."""


class Graph:
    """Nodes and constants with numbered names; values are float64 unless stated otherwise."""

    def __init__(self) -> None:
        self._nodes: list[NodeProto] = []
        self._constants: list[TensorProto] = []
        self._outputs: list[Any] = []
        self._names = 0

    def constant(self, value: ArrayLike, dtype: DTypeLike = np.float64) -> str:
        """The name of a constant."""
        from onnx import numpy_helper

        array = np.ascontiguousarray(value, dtype=dtype).reshape(np.shape(value))
        name = self._new("constant")
        self._constants.append(numpy_helper.from_array(array, name))
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """The name of the output of an operator."""
        from onnx import helper

        name = self._new(operator)
        self._nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def row_sums(self, values: str, *, keep: bool = True) -> str:
        """Sums over the columns of a matrix, as a column or as a vector."""
        axes = self.constant([1], np.int64)
        return self.node("ReduceSum", values, axes, keepdims=int(keep))

    def zeros(self, X: str, n_columns: int) -> str:
        """A matrix of zeros with the rows of X."""
        rows = self.node("Shape", X, start=0, end=1)
        shape = self.node("Concat", rows, self.constant([n_columns], np.int64), axis=0)
        return self.node("Expand", self.constant(0.0), shape)

    def sorted_rows(self, values: str, n_columns: int) -> str:
        """A matrix with each row in increasing order."""
        from onnx import helper

        name, places = self._new("sorted"), self._new("places")
        inputs = [values, self.constant([n_columns], np.int64)]
        self._nodes.append(helper.make_node("TopK", inputs, [name, places], largest=0))
        return name

    def vector(self, column: str) -> str:
        """A matrix of one column as a vector."""
        return self.node("Squeeze", column, self.constant([1], np.int64))

    def output(self, name: str, value: str, dtype: DTypeLike, n_columns: int | None = None) -> None:
        """Make a value an output of the graph: a vector, or a matrix of ``n_columns`` columns."""
        from onnx import helper

        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self._nodes.append(helper.make_node("Cast", [value], [name], to=kind))
        shape: list[str | int | None] = ["rows"] if n_columns is None else ["rows", n_columns]
        self._outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def model(self, n_features: int, dtype: DTypeLike, name: str) -> ModelProto:
        """The finished model, whose input X has ``n_features`` columns."""
        import onnx
        from onnx import helper

        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        X = helper.make_tensor_value_info("X", kind, ["rows", n_features])
        graph = helper.make_graph(self._nodes, name, [X], self._outputs, self._constants)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", _OPSET)],
            ir_version=_IR_VERSION,
            producer_name="pursuit",
        )
        onnx.checker.check_model(model)
        return model

    def input(self) -> str:
        """The rows, in float64."""
        from onnx import TensorProto

        return self.node("Cast", "X", to=TensorProto.DOUBLE)

    def _new(self, stem: str) -> str:
        self._names += 1
        return f"{stem.lower()}_{self._names}"


def block(graph: Graph, X: str, kernel: Kernel, Z: Floats) -> tuple[str, float]:
    """Values of shape (rows, points) and a factor; their product is k(X, Z)."""
    if isinstance(kernel, Stationary):
        squares = _squared_distances(graph, X, kernel, Z)
        return _profile(graph, squares, kernel.profile), kernel.variance
    if isinstance(kernel, Dot):
        product = graph.node("MatMul", X, graph.constant(kernel.weight * Z.T))
        return graph.node("Add", product, graph.constant(kernel.offset)), 1.0
    if isinstance(kernel, Constant):
        return graph.node("Add", graph.zeros(X, len(Z)), graph.constant(kernel.value)), 1.0
    if isinstance(kernel, OnColumns):
        return block(graph, _taken(graph, X, kernel), kernel.kernel, Z[:, kernel.positions])
    if isinstance(kernel, Cosine):
        directions = kernel.directions(Z).T
        return graph.node("MatMul", _directions(graph, X), graph.constant(directions)), 1.0
    if isinstance(kernel, Laplacian):
        distances = _sum_over_features(graph, X, Z, lambda x, z: _distance(graph, x, z))
        return graph.node("Exp", _scaled(graph, distances, -kernel.gamma)), 1.0
    if isinstance(kernel, ChiSquared | AdditiveChiSquared):
        sums = _sum_over_features(graph, X, Z, lambda x, z: _chi(graph, x, z))
        if isinstance(kernel, AdditiveChiSquared):
            return sums, -1.0
        return graph.node("Exp", _scaled(graph, sums, -kernel.gamma)), 1.0
    if isinstance(kernel, OneCorrelation):
        equal = _are_equal(graph, X, kernel.codes(Z))
        varying = graph.node("Mul", equal, graph.constant(1.0 - kernel.rho))
        return graph.node("Add", varying, graph.constant(kernel.rho)), 1.0
    if isinstance(kernel, PairCorrelations):
        return _looked_up(graph, X, kernel, Z), 1.0
    return _combined(graph, kernel, [block(graph, X, part, Z) for part in _parts(kernel)])


def diagonal(graph: Graph, X: str, kernel: Kernel) -> str:
    """k(x, x) for every row, shape (rows, 1)."""
    return _scaled(graph, *_diagonal(graph, X, kernel))


def _diagonal(graph: Graph, X: str, kernel: Kernel) -> tuple[str, float]:
    if isinstance(kernel, OnColumns):
        return _diagonal(graph, _taken(graph, X, kernel), kernel.kernel)
    if isinstance(kernel, Cosine):
        return graph.node("Sign", graph.row_sums(graph.node("Mul", X, X))), 1.0
    value = _same_everywhere(kernel)
    if value is not None:
        return graph.node("Add", graph.zeros(X, 1), graph.constant(value)), 1.0
    if isinstance(kernel, Dot):
        norms = graph.row_sums(graph.node("Mul", X, X))
        weighted = graph.node("Mul", norms, graph.constant(kernel.weight))
        return graph.node("Add", weighted, graph.constant(kernel.offset)), 1.0
    return _combined(graph, kernel, [_diagonal(graph, X, part) for part in _parts(kernel)])


def _same_everywhere(kernel: Kernel) -> float | None:
    """k(x, x) where it is the same for all x."""
    if isinstance(kernel, Stationary):
        return kernel.variance
    if isinstance(kernel, Constant):
        return kernel.value
    if isinstance(kernel, CategoryColumn | Laplacian | ChiSquared):
        return 1.0
    return 0.0 if isinstance(kernel, AdditiveChiSquared) else None


def _taken(graph: Graph, X: str, kernel: OnColumns) -> str:
    """The columns that a kernel looks at."""
    return graph.node("Gather", X, graph.constant(kernel.positions, np.int64), axis=1)


def _directions(graph: Graph, X: str) -> str:
    """Rows of length 1, and rows of zeros."""
    norms = graph.node("Sqrt", graph.row_sums(graph.node("Mul", X, X)))
    return graph.node("Div", X, graph.node("Max", norms, graph.constant(_TINY)))


def _sum_over_features(graph: Graph, X: str, Z: Floats, term: Callable[[str, str], str]) -> str:
    """The sum of term(x_j, z_j), one feature at a time: memory does not grow with their number."""
    terms = (
        term(
            graph.node("Gather", X, graph.constant([feature], np.int64), axis=1),
            graph.constant(Z[:, feature]),
        )
        for feature in range(Z.shape[1])
    )
    return reduce(lambda a, b: graph.node("Add", a, b), terms)


def _distance(graph: Graph, x: str, z: str) -> str:
    return graph.node("Abs", graph.node("Sub", x, z))


def _chi(graph: Graph, x: str, z: str) -> str:
    """(x - z)²/(x + z), 0/0 being 0."""
    difference = graph.node("Sub", x, z)
    total = graph.node("Max", graph.node("Add", x, z), graph.constant(_TINY))
    return graph.node("Div", graph.node("Mul", difference, difference), total)


def _parts(kernel: Kernel) -> tuple[Kernel, ...]:
    """The parts of a sum, product or function of values."""
    if isinstance(kernel, Sum):
        return kernel.terms
    if isinstance(kernel, Product):
        return kernel.factors
    if isinstance(kernel, Mapped):
        return (kernel.base,)
    raise ValueError(
        f"{getattr(kernel, 'name', type(kernel).__name__)} is a Python function, which ONNX "
        "cannot call: use RBF, Matern (nu 0.5, 1.5, 2.5, …), RationalQuadratic, ExpSineSquared, "
        "DotProduct, PairwiseKernel, Categorical, constants, their sums, products and powers, "
        "on_columns, or a kernel given by name."
    )


def _are_equal(graph: Graph, X: str, codes: Floats) -> str:
    """1 where the code of a row, its one number, is that of a column, else 0."""
    from onnx import TensorProto

    equal = graph.node("Equal", X, graph.constant(codes[None]))
    return graph.node("Cast", equal, to=TensorProto.DOUBLE)


def _looked_up(graph: Graph, X: str, kernel: PairCorrelations, Z: Floats) -> str:
    """Correlations of levels; the last row of the table is for codes that are no level."""
    table = kernel.table()[:, kernel.numbers(Z)]
    levels = _are_equal(graph, X, kernel.levels)
    unknown = graph.node("Sub", graph.constant(1.0), graph.row_sums(levels))
    known = graph.node("MatMul", levels, graph.constant(table[:-1]))
    return graph.node("Add", known, graph.node("MatMul", unknown, graph.constant(table[-1:])))


def _combined(graph: Graph, kernel: Kernel, parts: list[tuple[str, float]]) -> tuple[str, float]:
    if isinstance(kernel, Product):
        values = reduce(lambda a, b: graph.node("Mul", a, b), [part for part, _ in parts])
        return values, kernel.factor * float(np.prod([factor for _, factor in parts]))
    scaled = [_scaled(graph, *part) for part in parts]
    if isinstance(kernel, Power):
        return graph.node("Pow", scaled[0], graph.constant(kernel.exponent)), 1.0
    if isinstance(kernel, Mapped):
        return graph.node("Tanh", scaled[0]), 1.0
    assert isinstance(kernel, Sum)
    return reduce(lambda a, b: graph.node("Add", a, b), [graph.constant(kernel.offset), *scaled]), 1


def _scaled(graph: Graph, values: str, factor: float) -> str:
    return values if factor == 1.0 else graph.node("Mul", values, graph.constant(factor))


def _profile(graph: Graph, squares: str, profile: Profile) -> str:
    """A profile of squared distances r², as in `pursuit.kernels.stationary`."""
    if isinstance(profile, Gaussian):
        return graph.node("Exp", _scaled(graph, squares, -0.5))
    if isinstance(profile, RationalQuadratic):
        base = graph.node("Add", _scaled(graph, squares, 0.5 / profile.alpha), graph.constant(1.0))
        return graph.node("Pow", base, graph.constant(-profile.alpha))
    if isinstance(profile, Periodic):
        return _periodic(graph, squares, profile)
    if isinstance(profile, Matern):
        return _matern(graph, squares, profile)
    slope = {Matern12: 1.0, Matern32: 3.0, Matern52: 5.0}[type(profile)]
    a = graph.node("Sqrt", _scaled(graph, squares, slope))
    decay = graph.node("Exp", graph.node("Neg", a))
    if isinstance(profile, Matern12):
        return decay
    growth = graph.node("Add", a, graph.constant(1.0))
    if isinstance(profile, Matern52):
        growth = graph.node("Add", growth, _scaled(graph, squares, slope / 3.0))
    return graph.node("Mul", growth, decay)


def _periodic(graph: Graph, squares: str, profile: Periodic) -> str:
    r = graph.node("Sqrt", squares)
    phase = graph.node("Sub", r, graph.node("Round", r))
    sine = graph.node("Sin", _scaled(graph, phase, np.pi))
    exponent = _scaled(graph, graph.node("Mul", sine, sine), -2.0 / profile.width**2)
    return graph.node("Exp", exponent)


def _matern(graph: Graph, squares: str, profile: Matern) -> str:
    """A polynomial times exp(-a), by Horner's rule."""
    if not is_half_integer(profile.nu):
        raise ValueError(
            f"Matern with nu={profile.nu:g} needs Bessel functions, which ONNX does not have: use "
            "nu 0.5, 1.5, 2.5 or another half of an odd number."
        )
    root = graph.node("Sqrt", _scaled(graph, squares, profile.slope))
    a = graph.node("Min", root, graph.constant(LARGEST))
    first, *others = half_integer(int(profile.nu))[::-1]
    growth = graph.constant(first)
    for coefficient in others:
        growth = graph.node("Add", graph.node("Mul", growth, a), graph.constant(coefficient))
    return graph.node("Mul", growth, graph.node("Exp", graph.node("Neg", a)))


def _squared_distances(graph: Graph, X: str, kernel: Stationary, Z: Floats) -> str:
    """‖(x - z)/length_scale‖² by one product, never negative; of one feature by differences."""
    if Z.shape[1] == 1:
        difference = graph.node("Sub", X, graph.constant(Z[:, 0]))
        scaled = graph.node("Div", difference, graph.constant(kernel.length_scale))
        return graph.node("Mul", scaled, scaled)
    # Shifted by the mean of Z, as in `pursuit.kernels`: far from 0, digits would be lost.
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
    """Squared distances, those marked as spoilt recomputed from differences."""
    entries = graph.node("NonZero", spoilt)
    at = [graph.node("Gather", entries, graph.constant(i, np.int64), axis=0) for i in (0, 1)]
    x = graph.node("Gather", X, at[0], axis=0)
    z = graph.node("Gather", graph.constant(Z), at[1], axis=0)
    difference = graph.node("Sub", x, z)
    exact = graph.row_sums(graph.node("Mul", difference, difference), keep=False)
    return graph.node("ScatterND", squares, graph.node("Transpose", entries, perm=[1, 0]), exact)
