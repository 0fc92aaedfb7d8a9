"""All that is used of scikit-learn beyond its public interface; nothing else imports such names.

scikit-learn may move or remove these names in any version. For each there is a replacement of our
own, which takes its place where scikit-learn has it no longer: ``fit`` and ``predict`` work then as
before, and errors may be worded differently.
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn import base, config_context, get_config
from sklearn.utils import check_array, validation
from sklearn.utils.validation import check_non_negative

try:
    from sklearn.utils import _param_validation as constraints
except ImportError:
    constraints = None
try:
    from sklearn.utils import _set_output as output
except ImportError:
    output = None

__all__ = [
    "HasMethods",
    "Interval",
    "Options",
    "StrOptions",
    "check_sample_weight",
    "fit_context",
    "get_output_config",
    "num_samples",
    "safe_indexing",
]


# Rows of whatever holds rows


def own_num_samples(rows: Any) -> int:
    """How many rows, targets or items there are."""
    shape = getattr(rows, "shape", None)
    if shape is not None and len(shape) == 0:
        raise TypeError(f"Input should have at least 1 dimension, got the scalar {rows!r}.")
    if shape is not None and isinstance(shape[0], numbers.Integral):
        return int(shape[0])
    if hasattr(rows, "fit") or not hasattr(rows, "__len__"):
        raise TypeError(f"Expected sequence or array-like, got {type(rows)}")
    return len(rows)


def safe_indexing(rows: Any, index: Any) -> Any:
    """Rows at these numbers, in the container they came in.

    That of scikit-learn does not know tables of pyarrow before 1.7.
    """
    index = np.asarray(index)
    if hasattr(rows, "iloc"):
        return rows.iloc[index]
    if hasattr(rows, "take") and not hasattr(rows, "__array_interface__"):  # of pyarrow
        return rows.take(index)
    if hasattr(rows, "shape"):
        return rows[index]
    return [rows[i] for i in index]


def own_check_sample_weight(
    sample_weight: Any, X: Any, *, dtype: Any, ensure_non_negative: bool
) -> NDArray[Any]:
    """Weights, one per row of X; ones if None, and all the same if one number is given."""
    n_rows = own_num_samples(X)
    if sample_weight is None or isinstance(sample_weight, numbers.Number):
        return np.full(n_rows, 1.0 if sample_weight is None else sample_weight, dtype=dtype)
    weights: NDArray[Any] = check_array(
        sample_weight, ensure_2d=False, dtype=dtype, order="C", input_name="sample_weight"
    )
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got {weights.ndim}D array.")
    if len(weights) != n_rows:
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected {(n_rows,)}!")
    if ensure_non_negative:
        check_non_negative(weights, "`sample_weight`")
    return weights


def own_get_output_config(method: str, estimator: Any) -> dict[str, str]:
    """Which container a method returns: that of ``set_output``, else that of ``set_config``."""
    of_estimator: Mapping[str, str] = getattr(estimator, "_sklearn_output_config", {})
    return {"dense": of_estimator.get(method, get_config()[f"{method}_output"])}


# Constraints on parameters, by which an estimator's `_parameter_constraints` are written


class OwnInvalidParameterError(ValueError, TypeError):
    """A parameter has a type or a value that it cannot have."""


@dataclass(frozen=True)
class OwnInterval:
    """Numbers of a type between two bounds; None is infinite."""

    type: Any
    left: float | None
    right: float | None
    closed: str = field(kw_only=True)

    def is_satisfied_by(self, value: Any) -> bool:
        """Whether a value lies in the interval."""
        if not isinstance(value, self.type) or value != value:
            return False
        left = -np.inf if self.left is None else self.left
        right = np.inf if self.right is None else self.right
        above = value >= left if self.closed in ("left", "both") else value > left
        return bool(
            above and (value <= right if self.closed in ("right", "both") else value < right)
        )

    def __str__(self) -> str:
        return (
            f"{'an int' if self.type is numbers.Integral else 'a float'} in the range "
            f"{'[' if self.closed in ('left', 'both') else '('}"
            f"{'-inf' if self.left is None else self.left}, "
            f"{'inf' if self.right is None else self.right}"
            f"{']' if self.closed in ('right', 'both') else ')'}"
        )


@dataclass(frozen=True)
class OwnOptions:
    """Some values of a type."""

    type: Any
    options: Collection[Any]

    def is_satisfied_by(self, value: Any) -> bool:
        """Whether a value is one of the options."""
        return isinstance(value, self.type) and value in self.options

    def __str__(self) -> str:
        return f"a {self.type.__name__} among {{{', '.join(map(repr, self.options))}}}"


class OwnStrOptions(OwnOptions):
    """Some strings."""

    def __init__(self, options: Collection[str]) -> None:
        super().__init__(str, options)


@dataclass(frozen=True)
class OwnHasMethods:
    """Objects with some methods."""

    methods: Sequence[str]

    def is_satisfied_by(self, value: Any) -> bool:
        """Whether an object has all the methods."""
        return all(callable(getattr(value, method, None)) for method in self.methods)

    def __str__(self) -> str:
        return f"an object implementing {' and '.join(map(repr, self.methods))}"


_SHORTHANDS: dict[str, list[Any]] = {
    "array-like": [Sequence, np.ndarray],
    "boolean": [bool, np.bool_],
    "random_state": [
        None,
        OwnInterval(numbers.Integral, 0, 2**32 - 1, closed="both"),
        np.random.RandomState,
    ],
    "verbose": [bool, np.bool_, OwnInterval(numbers.Integral, 0, None, closed="left")],
}
"""What scikit-learn's names for common constraints stand for."""


def _is_satisfied_by(constraint: Any, value: Any) -> bool:
    """Whether a value satisfies a constraint, which may be a name, a type, None or `callable`."""
    if isinstance(constraint, str):
        if constraint == "array-like" and isinstance(value, str | bytes):
            return False
        return any(_is_satisfied_by(one, value) for one in _SHORTHANDS[constraint])
    if constraint is None:
        return value is None
    if constraint is callable:
        return bool(callable(value))
    if isinstance(constraint, type):
        return isinstance(value, constraint)
    return bool(constraint.is_satisfied_by(value))


def _in_words(constraint: Any) -> str:
    if isinstance(constraint, type):
        return f"an instance of {constraint.__qualname__!r}"
    return "a callable" if constraint is callable else str(constraint)


def own_check_parameters(estimator: Any) -> None:
    """Refuse a parameter that satisfies none of its constraints."""
    for name, value in estimator.get_params(deep=False).items():
        allowed = estimator._parameter_constraints.get(name, "no_validation")
        if allowed == "no_validation" or any(_is_satisfied_by(one, value) for one in allowed):
            continue
        raise OwnInvalidParameterError(
            f"The {name!r} parameter of {type(estimator).__name__} must be "
            f"{' or '.join(map(_in_words, allowed))}. Got {value!r} instead."
        )


Fit = TypeVar("Fit", bound=Callable[..., Any])


class FitContext(Protocol):
    """A decorator of fits, which have the same arguments and results after it."""

    def __call__(self, *, prefer_skip_nested_validation: bool) -> Callable[[Fit], Fit]: ...


def own_fit_context(*, prefer_skip_nested_validation: bool) -> Callable[..., Any]:
    """A fit that checks the parameters of its estimator first, and those of others if wanted."""

    def decorator(fit: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fit)
        def checked(estimator: Any, *args: Any, **keywords: Any) -> Any:
            skip = get_config()["skip_parameter_validation"]
            if not skip:
                own_check_parameters(estimator)
            with config_context(skip_parameter_validation=prefer_skip_nested_validation or skip):
                return fit(estimator, *args, **keywords)

        return checked

    return decorator


# scikit-learn's where it has them, ours elsewhere. Constraints and the fit that checks them belong
# together: all of them are scikit-learn's, or none.

num_samples: Any = getattr(validation, "_num_samples", own_num_samples)
check_sample_weight: Any = getattr(validation, "_check_sample_weight", own_check_sample_weight)
get_output_config: Any = getattr(output, "_get_output_config", own_get_output_config)

_of_sklearn: tuple[Any, ...] = (
    getattr(base, "_fit_context", None),
    *(
        getattr(constraints, name, None)
        for name in ("HasMethods", "Interval", "Options", "StrOptions")
    ),
)
fit_context: FitContext
HasMethods: Any
Interval: Any
Options: Any
StrOptions: Any
fit_context, HasMethods, Interval, Options, StrOptions = (
    (own_fit_context, OwnHasMethods, OwnInterval, OwnOptions, OwnStrOptions)
    if None in _of_sklearn
    else _of_sklearn
)
