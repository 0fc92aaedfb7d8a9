"""Values as JSON and arrays, and back.

None, booleans, numbers, strings and lists stand for themselves. Anything else is an object whose
key ``!`` names its kind, from the closed list below; arrays are kept aside and referred to by name.
What is read is checked before it is used, and nothing that is read can name code to run.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

from pursuit.estimators.records import KERNELS, conforms, hints, records, required
from pursuit.store import StoreError

Array = NDArray[Any]
Tree: TypeAlias = Any
"""What JSON can express."""

_KIND = "!"
_MANY = 100
_PLAIN = (type(None), bool, int, float, str)
_CSR = {"csr_array": sparse.csr_array, "csr_matrix": sparse.csr_matrix}
_DTYPES = {np.dtype(code).str for code in "? b B h H i I q Q e f d".split()}
_TYPES: dict[str, Any] = {"float": float, "int": int, "bool": bool} | {
    code: np.dtype(code).type for code in _DTYPES
}


def encode(
    value: object, given: Mapping[int, Tree] | None = None, where: str = "the value"
) -> tuple[Tree, dict[str, Array]]:
    """A value as JSON, and the arrays it refers to.

    Parameters
    ----------
    value : object
        Made of numbers, strings, lists, dicts, arrays, CSR, types of numbers, scikit-learn's GP
        kernels and the classes of :func:`records`.
    given : mapping, optional
        What stands for an object, by the object's id, where whoever reads has the object at hand.
    where : str
        What error messages call the value.

    Raises
    ------
    StoreError
        For anything else, by its place in the value.
    """
    encoder = Encoder(given or {})
    return encoder.encode(value, where), encoder.arrays


def decode(
    tree: Tree,
    arrays: Mapping[str, Array],
    given: Mapping[str, object] | None = None,
    where: str = "the value",
) -> Any:
    """The value of what :func:`encode` returned.

    Raises
    ------
    StoreError
        If this is not what :func:`encode` returns.
    """
    return Decoder(arrays, given or {}).decode(tree, where)


class Encoder:
    """Collects the arrays of several values."""

    def __init__(self, given: Mapping[int, Tree]) -> None:
        self.arrays: dict[str, Array] = {}
        self._given = given
        self._names: dict[int, str] = {}

    def encode(self, value: object, where: str) -> Tree:
        """JSON for a value."""
        if id(value) in self._given:
            return self._given[id(value)]
        if type(value) in _PLAIN:
            return value
        if type(value) is list:
            if len(value) >= _MANY and all(type(item) is str for item in value):
                return self._texts(value)
            return self._items(value, where)
        if type(value) is tuple:
            return {_KIND: "tuple", "items": self._items(value, where)}
        if type(value) is dict:
            pairs = [
                [self.encode(key, where), self.encode(item, f"{where}[{key!r}]")]
                for key, item in value.items()
            ]
            return {_KIND: "dict", "items": pairs}
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, np.generic) and value.dtype.str in _DTYPES:
            return {_KIND: "number", "at": self._keep(np.asarray(value))}
        if sparse.issparse(value) and type(value).__name__ in _CSR:
            return self._csr(value)
        if isinstance(value, np.dtype) and value.str in _DTYPES:
            return {_KIND: "dtype", "name": value.str}
        if isinstance(value, type):
            for name, known in _TYPES.items():
                if value is known:
                    return {_KIND: "type", "name": name}
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, bytes):
            return {_KIND: "bytes", "text": value.decode("latin-1")}
        return self._object(value, where)

    def _object(self, value: object, where: str) -> Tree:
        name = type(value).__name__
        if KERNELS.get(name) is type(value):
            params = value.get_params(deep=False)  # type: ignore[attr-defined]
            return {_KIND: "kernel", "class": name, "params": self.fields(params, where)}
        record = records().get(name)
        if record is not None and type(value) is record:
            names = required(record) or vars(value)
            held = {field: item for field, item in vars(value).items() if field in names}
            return {_KIND: "record", "class": name, "fields": self.fields(held, where)}
        raise StoreError(
            f"{where} is {describe(value)}, which a file of numbers cannot hold: use skops or "
            "pickle to keep it"
        )

    def fields(self, values: Mapping[str, object], where: str) -> Tree:
        """JSON for named values."""
        return {name: self.encode(value, f"{where}.{name}") for name, value in values.items()}

    def _items(self, values: list[Any] | tuple[Any, ...], where: str) -> list[Tree]:
        return [self.encode(value, f"{where}[{i}]") for i, value in enumerate(values)]

    def _array(self, value: Array, where: str) -> Tree:
        if value.dtype == object:
            items = self._items(value.ravel().tolist(), where)
            return {_KIND: "objects", "shape": list(value.shape), "items": items}
        if value.dtype.kind not in "biufU":
            raise StoreError(f"{where} has dtype {value.dtype}, which a file cannot hold")
        return {_KIND: "array", "at": self._keep(value)}

    def _texts(self, values: list[str]) -> Tree:
        """Many strings as bytes, which may be more than a header should hold."""
        coded = [value.encode("utf-8", "surrogatepass") for value in values]
        data = np.frombuffer(b"".join(coded), dtype=np.uint8)
        ends = np.cumsum([len(value) for value in coded], dtype=np.int64)
        return {_KIND: "texts", "data": self._keep(data), "ends": self._keep(ends)}

    def _csr(self, value: Any) -> Tree:
        parts = {part: self._keep(getattr(value, part)) for part in ("data", "indices", "indptr")}
        return {_KIND: "csr", "class": type(value).__name__, "shape": list(value.shape), **parts}

    def _keep(self, array: Array) -> str:
        """The name of an array; what is in several places is kept once."""
        name = self._names.setdefault(id(array), str(len(self._names)))
        self.arrays[name] = array
        return name


class Decoder:
    """Restores values that share arrays."""

    def __init__(self, arrays: Mapping[str, Array], given: Mapping[str, object]) -> None:
        self._arrays, self._given = arrays, given
        self._kinds: dict[str, Callable[[dict[str, Tree], str], Any]] = {
            "tuple": self._tuple,
            "dict": self._dict,
            "array": self._array,
            "objects": self._objects,
            "texts": self._texts,
            "number": self._number,
            "csr": self._csr,
            "dtype": self._dtype,
            "type": self._type,
            "bytes": self._bytes,
            "kernel": self._kernel,
            "record": self._record,
            "given": self._passed,
        }

    def decode(self, tree: Tree, where: str) -> Any:
        """The value of a piece of JSON."""
        if type(tree) in _PLAIN:
            return tree
        if isinstance(tree, list):
            return [self.decode(item, f"{where}[{i}]") for i, item in enumerate(tree)]
        kind = tree.get(_KIND)
        restore = self._kinds.get(kind) if isinstance(kind, str) else None
        if restore is None:
            _damaged(where)
        return restore(tree, where)

    def fields(self, tree: Tree, owner: type, where: str) -> dict[str, Any]:
        """Named values, of the types that the owner's annotations say."""
        if not isinstance(tree, dict):
            _damaged(where)
        known = hints(owner)
        found = {}
        for name, item in tree.items():
            value = self.decode(item, f"{where}.{name}")
            if not name.isidentifier() or not conforms(value, known.get(name, Any)):
                _damaged(f"{where}.{name}")
            found[name] = value
        return found

    def _list(self, tree: dict[str, Tree], where: str) -> list[Tree]:
        items = tree.get("items")
        if not isinstance(items, list):
            _damaged(where)
        return items

    def _tuple(self, tree: dict[str, Tree], where: str) -> Any:
        return tuple(self.decode(self._list(tree, where), where))

    def _dict(self, tree: dict[str, Tree], where: str) -> Any:
        found = {}
        for pair in self._list(tree, where):
            if not isinstance(pair, list) or len(pair) != 2 or type(pair[0]) not in _PLAIN:
                _damaged(where)
            found[pair[0]] = self.decode(pair[1], f"{where}[{pair[0]!r}]")
        return found

    def _at(self, name: Tree, where: str) -> Array:
        array = self._arrays.get(name) if isinstance(name, str) else None
        if array is None:
            _damaged(where)
        return array

    def _array(self, tree: dict[str, Tree], where: str) -> Any:
        return self._at(tree.get("at"), where)

    def _objects(self, tree: dict[str, Tree], where: str) -> Any:
        items, shape = self._list(tree, where), tree.get("shape")
        if not _is_shape(shape) or math.prod(shape) != len(items):
            _damaged(where)
        array = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            array[i] = self.decode(item, f"{where}[{i}]")
        return array.reshape(shape)

    def _texts(self, tree: dict[str, Tree], where: str) -> Any:
        data, ends = self._at(tree.get("data"), where), self._at(tree.get("ends"), where)
        if (
            data.dtype != np.uint8
            or ends.dtype != np.int64
            or (data.ndim, ends.ndim) != (1, 1)
            or np.any(np.diff(ends, prepend=0) < 0)
            or (ends[-1] if len(ends) else 0) != len(data)
        ):
            _damaged(where)
        parts = np.split(data, ends[:-1])
        try:
            return [part.tobytes().decode("utf-8", "surrogatepass") for part in parts]
        except UnicodeDecodeError:
            _damaged(where)

    def _number(self, tree: dict[str, Tree], where: str) -> Any:
        array = self._at(tree.get("at"), where)
        if array.shape != () or array.dtype.str not in _DTYPES:
            _damaged(where)
        return array[()]

    def _csr(self, tree: dict[str, Tree], where: str) -> Any:
        parts = tuple(self._at(tree.get(part), where) for part in ("data", "indices", "indptr"))
        form, shape = _CSR.get(str(tree.get("class"))), tree.get("shape")
        if form is None or not _is_shape(shape) or len(shape) != 2:
            _damaged(where)
        try:
            matrix = form(parts, shape=tuple(shape))
            # Compiled loops trust the indices.
            matrix.check_format(full_check=True)
        except (ArithmeticError, MemoryError, TypeError, ValueError) as error:
            raise StoreError(f"it is damaged: {where} is no sparse matrix ({error})") from error
        return matrix

    def _dtype(self, tree: dict[str, Tree], where: str) -> Any:
        name = tree.get("name")
        if not isinstance(name, str) or name not in _DTYPES:
            _damaged(where)
        return np.dtype(name)

    def _type(self, tree: dict[str, Tree], where: str) -> Any:
        name = tree.get("name")
        if not isinstance(name, str) or name not in _TYPES:
            _damaged(where)
        return _TYPES[name]

    def _bytes(self, tree: dict[str, Tree], where: str) -> Any:
        text = tree.get("text")
        if not isinstance(text, str) or not all(ord(letter) < 256 for letter in text):
            _damaged(where)
        return text.encode("latin-1")

    def _kernel(self, tree: dict[str, Tree], where: str) -> Any:
        kernel = KERNELS.get(str(tree.get("class")))
        if kernel is None:
            _damaged(where)
        params = self.fields(tree.get("params"), kernel, where)
        inner = ("k1", "k2", "kernel")
        if any(isinstance(params[name], SklearnKernel) != (name in inner) for name in params):
            _damaged(where)
        try:
            return kernel(**params)
        except (AttributeError, TypeError, ValueError) as error:
            raise StoreError(f"it is damaged: {where} is no kernel ({error})") from error

    def _record(self, tree: dict[str, Tree], where: str) -> Any:
        record = records().get(str(tree.get("class")))
        if record is None:
            _damaged(where)
        fields = self.fields(tree.get("fields"), record, where)
        if required(record):
            if fields.keys() != required(record):
                _damaged(where)
            return record(**fields)
        return restored(record, fields, where)

    def _passed(self, tree: dict[str, Tree], where: str) -> Any:
        name, item = tree.get("name"), tree.get("item")
        if not isinstance(name, str) or name not in self._given:
            _damaged(where)
        value: Any = self._given[name]
        if item is None:
            return value
        if (
            type(item) is not int
            or not isinstance(value, list | tuple)
            or not (0 <= item < len(value))
        ):
            raise StoreError(f"{name} must be a list or tuple like the one the model was made with")
        return value[item]


def restored(owner: type, attributes: Mapping[str, object], where: str) -> Any:
    """An object with the given attributes, none of which may hide what its class defines."""
    made: Any = object.__new__(owner)
    for name, value in attributes.items():
        if hasattr(owner, name):
            _damaged(f"{where}.{name}")
        vars(made)[name] = value
    return made


def describe(value: object) -> str:
    """What an object is, in words that are the same in every process."""
    name = getattr(value, "__name__", None)
    kind = type(value).__name__
    return f"the {kind} {name}" if isinstance(name, str) else f"of type {kind}"


def _is_shape(shape: Tree) -> TypeGuard[list[int]]:
    return isinstance(shape, list) and all(
        type(length) is int and 0 <= length < 2**31 for length in shape
    )


def _damaged(where: str) -> NoReturn:
    raise StoreError(f"it is damaged: {where[:200]} is not what it must be")
