"""Which objects may lie in a file, and what their fields may hold: a closed list."""

from __future__ import annotations

import dataclasses
import numbers
import types
import typing
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.gaussian_process import kernels as gp

KERNELS: dict[str, type[gp.Kernel]] = {
    kernel.__name__: kernel
    for kernel in (
        gp.CompoundKernel,
        gp.ConstantKernel,
        gp.DotProduct,
        gp.ExpSineSquared,
        gp.Exponentiation,
        gp.Matern,
        gp.PairwiseKernel,
        gp.Product,
        gp.RBF,
        gp.RationalQuadratic,
        gp.Sum,
        gp.WhiteKernel,
    )
}


@cache
def records() -> dict[str, type]:
    """Classes by name, of which fitted models are made."""
    # Estimators import this module, so what they are made of is looked up when it is needed.
    from pursuit import bounds, gram, greedy, linalg, solvers, tuning
    from pursuit.estimators.components.subspace import Diagonal, Subspace
    from pursuit.estimators.components.views import View
    from pursuit.estimators.gp.laplace import LaplaceFit
    from pursuit.estimators.gp.learning import Settled
    from pursuit.estimators.hull.boostrounds import Booster
    from pursuit.estimators.inputs import TargetScale
    from pursuit.estimators.maps.neighbors import SearchCost
    from pursuit.estimators.maps.projection import Projection
    from pursuit.estimators.matching.path import AtomPath
    from pursuit.estimators.search import Evidence, Search
    from pursuit.objectives import SigmoidAtoms
    from pursuit.solvers.em import Mixture
    from pursuit.tuning.learning import Stage

    classes = [
        AtomPath,
        Booster,
        Diagonal,
        Evidence,
        LaplaceFit,
        Mixture,
        Projection,
        Search,
        SearchCost,
        Settled,
        SigmoidAtoms,
        Stage,
        Subspace,
        TargetScale,
        View,
        bounds.Bound,
        bounds.Certificate,
        bounds.CertificatePath,
        bounds.EvidenceBounds,
        gram.GramStatistics,
        greedy.Choice,
        greedy.Path,
        greedy.Pool,
        greedy.SpanFit,
        linalg.PrincipalComponents,
        linalg.SpanPoints,
        linalg.SpanSolution,
        linalg.Spread,
        linalg.StepSolution,
        solvers.Stump,
        tuning.Calibration,
        tuning.Confidence,
        tuning.LearningReport,
    ]
    return {record.__name__: record for record in classes}


@cache
def hints(record: type) -> dict[str, Any]:
    """Types of the fields or attributes of a class, as annotated."""
    return get_type_hints(record)


def required(record: type) -> frozenset[str]:
    """Fields of a dataclass, all of which a file must hold; none for other classes."""
    if not dataclasses.is_dataclass(record):
        return frozenset()
    return frozenset(field.name for field in dataclasses.fields(record))


def conforms(value: object, hint: Any) -> bool:
    """Whether a value is of an annotated type, as far as annotations of this package go."""
    if hint is Any:
        return True
    if hint is None or hint is type(None):
        return value is None
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(conforms(value, argument) for argument in arguments)
    if origin is Literal:
        return value in arguments
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
        return isinstance(value, tuple)
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    if hint is int:
        return isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, numbers.Real) and not isinstance(value, bool)
    if isinstance(hint, type) and not getattr(hint, "_is_protocol", False):
        return isinstance(value, hint)
    return True


def _holds(array: np.ndarray[Any, Any], arguments: tuple[Any, ...]) -> bool:
    """Whether the numbers of an array are of the annotated kind."""
    wanted = get_args(arguments[1]) if len(arguments) == 2 else ()
    if not wanted or wanted[0] is Any or isinstance(wanted[0], typing.TypeVar):
        return True
    return bool(np.issubdtype(array.dtype, wanted[0]))
