"""Values as JSON and arrays, and back: what may lie in a file, as one closed list.

None, booleans, numbers, strings and lists stand for themselves. Anything else is an object whose
key ``!`` names its kind; arrays are kept aside and referred to by name. Objects are of the classes
in :data:`KERNELS` and :func:`records`, and of no others. What is read is checked before it is used,
and nothing that is read can name code to run.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import os
import types
import typing
from collections.abc import Callable, Mapping, Set
from functools import cache
from typing import Any, Literal, NoReturn, TypeAlias, TypeGuard, Union, get_args, get_origin

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.gaussian_process import kernels as gp

from pursuit.kernels import Additive, Categorical, ColumnsKernel
from pursuit.store import StoreError

Array = NDArray[Any]
Tree: TypeAlias = Any
"""What JSON can express."""

_KIND = "!"
_MANY = 100
"""Lists of at least this many strings are kept as one array, so that headers stay short."""
_PLAIN = (type(None), bool, int, float, str)
_CSR = {"csr_array": sparse.csr_array, "csr_matrix": sparse.csr_matrix}
_CSR_PARTS = ("data", "indices", "indptr")
_DTYPES = {np.dtype(code).str for code in "? b B h H i I q Q e f d".split()}
_TYPES: dict[str, Any] = {"float": float, "int": int, "bool": bool} | {
    code: np.dtype(code).type for code in _DTYPES
}

_KERNEL_NAMES = (
    "CompoundKernel ConstantKernel DotProduct ExpSineSquared Exponentiation Matern PairwiseKernel "
    "Product RBF RationalQuadratic Sum WhiteKernel"
)
KERNELS: dict[str, type[gp.Kernel]] = {
    **{name: getattr(gp, name) for name in _KERNEL_NAMES.split()},
    "Additive": Additive,
    "Categorical": Categorical,
    "ColumnsKernel": ColumnsKernel,
}
"""Kernel objects that files may name."""


@cache
def records() -> dict[str, type]:
    """Classes by name, of which fitted models are made.

    To have a class of your own saved, add it here. A dataclass needs nothing else: its fields are
    written, read, and checked against their annotations.
    """
    # Estimators import this module, so it looks up their parts when they are needed.
    from pursuit import bounds, gram, greedy, linalg, solvers, tuning
    from pursuit.estimators.arguments import Evidence, Search
    from pursuit.estimators.components.kernel_cca import ChosenPairs
    from pursuit.estimators.components.subspace import Diagonal, Subspace
    from pursuit.estimators.components.views import Disagreements, View
    from pursuit.estimators.full_scale.local_fit import GlobalPart, WhitenedSums
    from pursuit.estimators.full_scale.near_rows import LeavingRows, NearRows
    from pursuit.estimators.gp.laplace import LaplaceFit
    from pursuit.estimators.gp.outliers import StudentNoise
    from pursuit.estimators.gp.reweighting import OwnWeights
    from pursuit.estimators.gp.stages import LearnedKernel
    from pursuit.estimators.gp.varying_noise import VaryingNoise
    from pursuit.estimators.hull.boosting import Booster, BoostRounds
    from pursuit.estimators.hull.mixture import GrowthRound
    from pursuit.estimators.hull.pools import PoolRound
    from pursuit.estimators.inputs import TargetScale
    from pursuit.estimators.intervals import CoverageGuarantee
    from pursuit.estimators.maps.landmarks import Landmarks, Projection
    from pursuit.estimators.maps.neighbors import SearchCost
    from pursuit.estimators.matching.search import MatchingModels
    from pursuit.estimators.span.features import SpanFunction
    from pursuit.estimators.span.steps import StepFit
    from pursuit.estimators.table.columns import TableColumn
    from pursuit.estimators.table.formats import TextFormat
    from pursuit.objectives import SigmoidAtoms
    from pursuit.solvers.em import Mixture
    from pursuit.tuning.report import Stage

    classes = [
        MatchingModels,
        Booster,
        ChosenPairs,
        BoostRounds,
        CoverageGuarantee,
        Diagonal,
        Disagreements,
        Evidence,
        GlobalPart,
        Landmarks,
        GrowthRound,
        LaplaceFit,
        LearnedKernel,
        LeavingRows,
        Mixture,
        NearRows,
        OwnWeights,
        PoolRound,
        Projection,
        Search,
        SearchCost,
        SigmoidAtoms,
        Stage,
        SpanFunction,
        StepFit,
        StudentNoise,
        Subspace,
        TableColumn,
        TargetScale,
        TextFormat,
        VaryingNoise,
        View,
        WhitenedSums,
        bounds.Bound,
        bounds.Certificate,
        bounds.CertificatePath,
        bounds.EvidenceBounds,
        gram.GramStatistics,
        greedy.Choice,
        greedy.Path,
        greedy.Pivots,
        greedy.Pool,
        greedy.SpanFit,
        linalg.PrincipalComponents,
        linalg.SpanPoints,
        linalg.SpanSolution,
        linalg.PredictiveVariance,
        linalg.StepwiseSolution,
        solvers.Stump,
        tuning.Calibration,
        tuning.Confidence,
        tuning.Shrinkage,
        tuning.LearningReport,
        tuning.LeftOut,
        tuning.NearChoice,
        tuning.Replicates,
        tuning.SearchStep,
    ]
    return {record.__name__: record for record in classes}


@cache
def hints(owner: type) -> dict[str, Any]:
    """Types of the fields or attributes of a class, as annotated."""
    return typing.get_type_hints(owner)


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
        What stands for an object that the reader passes again, by the object's id; see
        :func:`stand_ins`.
    where : str
        What error messages call the value.

    Raises
    ------
    StoreError
        For anything else, naming its place in the value.
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


def stand_ins(parameters: Mapping[str, object]) -> dict[int, Tree]:
    """What stands in a file for parameters that it cannot hold, such as functions, by their ids.

    The parameters must be passed again when the file is read. Parts of a parameter, such as a
    function in a list of kernels, are found within it by their path.
    """
    trees: dict[int, Tree] = {}

    def note(name: str, value: object, path: list[int | str]) -> None:
        if not is_storable(value):
            trees[id(value)] = {_KIND: "given", "name": name, "path": path}
            for step, part in _parts(value).items():
                note(name, part, [*path, step])

    for name, value in parameters.items():
        note(name, value, [])
    return trees


def is_storable(value: object) -> bool:
    """Whether a file can hold a value."""
    try:
        encode(value)
    except StoreError:
        return False
    return True


def _parts(value: object) -> dict[Any, object]:
    """What a value is made of, by position or name."""
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    if isinstance(value, dict):
        return {key: item for key, item in value.items() if isinstance(key, str)}
    return _fields(value) if _is_kernel(value) or _is_record(value) else {}


def _is_kernel(value: object) -> bool:
    return isinstance(value, gp.Kernel)


def _is_record(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _fields(value: Any) -> dict[str, object]:
    """What an object is made of, by name."""
    if _is_kernel(value):
        parameters: dict[str, object] = value.get_params(deep=False)
        return parameters
    if _is_record(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    attributes: dict[str, object] = vars(value)
    return attributes


@cache
def _classes() -> dict[str, type]:
    """All classes that files may name."""
    return KERNELS | records()


class Encoder:
    """Encodes several values, and collects their arrays."""

    def __init__(self, given: Mapping[int, Tree]) -> None:
        self.arrays: dict[str, Array] = {}
        self._given = given
        self._names: dict[int, str] = {}

    def encode(self, value: Any, where: str) -> Tree:
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
        if type(value) in _CSR.values():
            parts = {part: self._keep(getattr(value, part)) for part in _CSR_PARTS}
            name, shape = type(value).__name__, list(value.shape)
            return {_KIND: "csr", "class": name, "shape": shape, **parts}
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
        if _classes().get(type(value).__name__) is not type(value):
            raise StoreError(f"{where} is {describe(value)}, which a file of numbers cannot hold")
        fields = {
            name: self.encode(item, f"{where}.{name}") for name, item in _fields(value).items()
        }
        return {_KIND: "object", "class": type(value).__name__, "fields": fields}

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
        """Many strings as one array of bytes."""
        coded = [value.encode("utf-8", "surrogatepass") for value in values]
        data = np.frombuffer(b"".join(coded), dtype=np.uint8)
        ends = np.cumsum([len(value) for value in coded], dtype=np.int64)
        return {_KIND: "texts", "data": self._keep(data), "ends": self._keep(ends)}

    def _keep(self, array: Array) -> str:
        """The name of an array; an array that occurs several times is kept once."""
        name = self._names.setdefault(id(array), str(len(self._names)))
        self.arrays[name] = array
        return name


class Decoder:
    """Restores values that share arrays."""

    def __init__(self, arrays: Mapping[str, Array], given: Mapping[str, object]) -> None:
        self._arrays, self._given = arrays, given
        self._kinds: dict[str, Callable[[dict[str, Tree], str], Any]] = {
            "tuple": lambda tree, where: tuple(self.decode(_items_of(tree, where), where)),
            "dict": self._dict,
            "array": lambda tree, where: self._at(tree.get("at"), where),
            "objects": self._objects,
            "texts": self._texts,
            "number": self._number,
            "csr": self._csr,
            "dtype": lambda tree, where: np.dtype(_one_of(_DTYPES, tree.get("name"), where)),
            "type": lambda tree, where: _TYPES[_one_of(_TYPES, tree.get("name"), where)],
            "bytes": self._bytes,
            "object": self._object,
            "given": self._passed,
        }

    def decode(self, tree: Tree, where: str) -> Any:
        """The value of a piece of JSON."""
        if type(tree) in _PLAIN:
            return tree
        if isinstance(tree, list):
            return [self.decode(item, f"{where}[{i}]") for i, item in enumerate(tree)]
        return self._kinds[_one_of(self._kinds, tree.get(_KIND), where)](tree, where)

    def fields(self, tree: Tree, owner: type, where: str) -> dict[str, Any]:
        """Named values, of the types that the owner's annotations say."""
        if not isinstance(tree, dict):
            _damaged(where)
        known = hints(owner)
        values = {}
        for name, item in tree.items():
            value = self.decode(item, f"{where}.{name}")
            if not name.isidentifier() or not conforms(value, known.get(name, Any)):
                _damaged(f"{where}.{name}")
            values[name] = value
        return values

    def _dict(self, tree: dict[str, Tree], where: str) -> Any:
        values = {}
        for pair in _items_of(tree, where):
            if not isinstance(pair, list) or len(pair) != 2 or type(pair[0]) not in _PLAIN:
                _damaged(where)
            values[pair[0]] = self.decode(pair[1], f"{where}[{pair[0]!r}]")
        return values

    def _at(self, name: Tree, where: str) -> Array:
        return self._arrays[_one_of(self._arrays, name, where)]

    def _objects(self, tree: dict[str, Tree], where: str) -> Any:
        items, shape = _items_of(tree, where), tree.get("shape")
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
        parts = tuple(self._at(tree.get(part), where) for part in _CSR_PARTS)
        form, shape = _CSR[_one_of(_CSR, tree.get("class"), where)], tree.get("shape")
        if not _is_shape(shape) or len(shape) != 2:
            _damaged(where)
        try:
            matrix = form(parts, shape=tuple(shape))
            # Compiled loops trust the indices.
            matrix.check_format(full_check=True)
        except (ArithmeticError, MemoryError, TypeError, ValueError) as error:
            raise StoreError(f"it is damaged: {where} is no sparse matrix ({error})") from error
        return matrix

    def _bytes(self, tree: dict[str, Tree], where: str) -> Any:
        text = tree.get("text")
        if not isinstance(text, str) or not all(ord(letter) < 256 for letter in text):
            _damaged(where)
        return text.encode("latin-1")

    def _object(self, tree: dict[str, Tree], where: str) -> Any:
        made = _classes()[_one_of(_classes(), tree.get("class"), where)]
        fields = self.fields(tree.get("fields"), made, where)
        if issubclass(made, gp.Kernel):
            inner = ("k1", "k2", "kernel", "base")
            if any(_is_kernel(fields[name]) != (name in inner) for name in fields):
                _damaged(where)
        elif not dataclasses.is_dataclass(made):
            return restored(made, fields, where)
        elif not _complete(fields.keys(), made):
            _damaged(where)
        try:
            return made(**fields)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise StoreError(
                f"it is damaged: {where[:200]} cannot be a {made.__name__} ({str(error)[:200]})"
            ) from error

    def _passed(self, tree: dict[str, Tree], where: str) -> Any:
        name, path = tree.get("name"), tree.get("path")
        if not isinstance(path, list):
            _damaged(where)
        value: Any = self._given[_one_of(self._given, name, where)]
        for step in path:
            parts = _parts(value)
            if type(step) not in (int, str) or step not in parts:
                raise StoreError(f"{name} must be made like the one the model was fitted with")
            value = parts[step]
        return value


def _complete(names: Set[str], made: Any) -> bool:
    """Whether these are fields of a dataclass, and only those with a default are missing."""
    fields = dataclasses.fields(made)
    empty = dataclasses.MISSING
    required = {f.name for f in fields if f.default is empty and f.default_factory is empty}
    return required <= names <= {field.name for field in fields}


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


def conforms(value: object, hint: Any) -> bool:
    """Whether a value is of an annotated type; types that this package does not use pass."""
    if hint is Any:
        return True
    if hint is None or hint is type(None):
        return value is None
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(conforms(value, argument) for argument in arguments)
    if origin is Literal:
        return type(value) in _PLAIN and value in arguments
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and _holds(value, arguments)
    if origin is list:
        return isinstance(value, list) and all(conforms(item, arguments[0]) for item in value)
    if origin is dict:
        key, content = arguments
        return isinstance(value, dict) and all(
            conforms(k, key) and conforms(v, content) for k, v in value.items()
        )
    if origin is tuple:
        return isinstance(value, tuple) and _conform(value, arguments)
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    if hint is int:
        return isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, numbers.Real) and not isinstance(value, bool)
    if isinstance(hint, type) and not getattr(hint, "_is_protocol", False):
        return isinstance(value, hint)
    return True


def _conform(values: tuple[Any, ...], hints: tuple[Any, ...]) -> bool:
    """Whether the items of a tuple are of the annotated types."""
    if hints[-1:] == (Ellipsis,):
        return all(conforms(value, hints[0]) for value in values)
    pairs = zip(values, hints, strict=False)
    return len(values) == len(hints) and all(conforms(value, hint) for value, hint in pairs)


def _holds(array: np.ndarray[Any, Any], arguments: tuple[Any, ...]) -> bool:
    """Whether the numbers of an array are of the annotated type."""
    wanted = get_args(arguments[1]) if len(arguments) == 2 else ()
    if not wanted or wanted[0] is Any or isinstance(wanted[0], typing.TypeVar):
        return True
    return bool(np.issubdtype(array.dtype, wanted[0]))


def _items_of(tree: dict[str, Tree], where: str) -> list[Tree]:
    items = tree.get("items")
    if not isinstance(items, list):
        _damaged(where)
    return items


def _one_of(known: typing.Container[str], name: Tree, where: str) -> str:
    if not isinstance(name, str) or name not in known:
        _damaged(where)
    return name


def _is_shape(shape: Tree) -> TypeGuard[list[int]]:
    return isinstance(shape, list) and all(
        type(length) is int and 0 <= length < 2**31 for length in shape
    )


def _damaged(where: str) -> NoReturn:
    raise StoreError(f"it is damaged: {where[:200]} is not what it must be")
