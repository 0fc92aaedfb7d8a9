"""A graph of ONNX operators under construction. Imports onnx when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

# Old enough for every runtime in use, and the first with all operators in double precision.
_OPSET = 17
_IR_VERSION = 8


class Graph:
    """Nodes and constants, named as they come; values are float64 unless said otherwise."""

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
        """The name of what an operator returns."""
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

    def vector(self, column: str) -> str:
        """A matrix of one column as a vector."""
        return self.node("Squeeze", column, self.constant([1], np.int64))

    def output(self, name: str, value: str, dtype: DTypeLike, n_columns: int | None = None) -> None:
        """Return a value under a name: a vector, or a matrix of so many columns."""
        from onnx import helper

        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self._nodes.append(helper.make_node("Cast", [value], [name], to=kind))
        shape: list[str | int | None] = ["rows"] if n_columns is None else ["rows", n_columns]
        self._outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def model(self, n_features: int, dtype: DTypeLike, name: str) -> ModelProto:
        """The finished model, whose input X has so many columns."""
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
