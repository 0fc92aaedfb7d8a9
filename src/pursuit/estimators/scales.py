"""Numbers too large or too small to be squared: refused by name, at once or where they overflow.

Everything here is a sum of squares and products. Rows, targets and weights whose squares float64
does not hold are refused when they are checked (`check_scale`). What overflows later, since several
arguments of great size meet, is caught where it happens (`in_range`): NumPy tells of the first
overflow, and the error names the arguments that are far from 1. Data of ordinary size keep every
bit, and what NumPy warns of there stays a warning. A certificate that cannot be true is not kept
(`kept`).
"""

from __future__ import annotations

import inspect
import numbers
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pursuit.bounds import Certificate
from pursuit.estimators.warning import warn
from pursuit.rows import RowSource

LARGEST = 1e140
"""Sums of squares of numbers up to this size are far from overflow."""
SMALLEST = 1e-140
"""Squares of numbers from this size on keep all their digits."""
ANY_SIZE = 1e300
"""Numbers that are scaled before they are squared lie within this factor of 1."""
_FAR = 1e6
"""Arguments by more than this factor from 1 are named where a computation overflows."""
_AS_RESULTS = ("dual_coef_", "intercept_", "certificate_", "noise_", "alpha_", "scale_")
"""What a fit may not leave behind as NaN or inf."""

Method = TypeVar("Method", bound=Callable[..., Any])
T = TypeVar("T")


class ScaleError(ValueError):
    """A computation has left the range of float64."""


def check_scale(
    name: str, values: Any, largest: float = LARGEST, smallest: float | None = None
) -> None:
    """Refuse numbers of more than ``largest``, and columns of less than ``smallest``, if given.

    Columns of zeros pass, and so does NaN.
    """
    data = _stored(values)
    if not isinstance(data, np.ndarray) or data.dtype != np.float64 or not data.size:
        return
    top = max(float(np.nanmax(data, initial=0.0)), -float(np.nanmin(data, initial=0.0)))
    if top > largest:
        raise ScaleError(
            f"{name} has values up to {top:.3g}, and what is squared must not exceed {largest:g}: "
            f"divide {name} by a constant such as {_round(top)}."
        )
    if smallest is None:
        return
    tops = np.nanmax(np.abs(data.reshape(len(data), -1)), axis=0, initial=0.0)
    small = tops[(tops > 0) & (tops < smallest)]
    if len(small):
        raise ScaleError(
            f"{name} has no value above {small[0]:.3g} in size, whose square underflows: multiply "
            f"{name} by a constant such as {_round(1.0 / max(float(small[0]), 1e-300))}."
        )


def binary_sizes(values: NDArray[np.float64]) -> NDArray[np.intc]:
    """For each column the e with numbers of about 2^e, 0 where squares are far from overflow.

    NaN is left out. Dividing by 2^e is exact, but for what underflows beside the largest number.
    """
    tops = np.nanmax(np.abs(values), axis=0, initial=0.0)
    extreme = (tops > LARGEST) | ((tops > 0) & (tops < SMALLEST))
    return np.where(extreme, np.frexp(tops)[1], 0).astype(np.intc)


def _stored(values: Any) -> Any:
    """The stored numbers of a sparse matrix, anything else as it is."""
    return values.data if isinstance(values, sparse.csr_array | sparse.csr_matrix) else values


def _round(value: float) -> str:
    """The next power of ten below, in digits."""
    return f"1e{int(np.floor(np.log10(value)))}"


def in_range(method: Method) -> Method:
    """Make an overflow in a function of data an error that names the arguments far from 1.

    Applies to methods of estimators and to functions; NaN and inf in what it returns, or in what a
    fit leaves behind, count as overflow.
    """

    @wraps(method)
    def watched(*args: Any, **options: Any) -> Any:
        with Watch(method, args, options) as watch:
            return watch.checked(method(*args, **options))

    return watched  # type: ignore[return-value]


def _results(found: Any, args: tuple[Any, ...]) -> Iterator[Any]:
    """Numbers in a result, or in the estimator that a fit returns."""
    if isinstance(found, tuple):
        yield from found
    elif args and found is args[0]:
        yield from (getattr(found, name, None) for name in _AS_RESULTS)
    else:
        yield found


def _is_finite(value: Any) -> bool:
    if hasattr(value, "upper") and hasattr(value, "lower"):
        return _is_finite(value.upper) and _is_finite(value.lower)
    numeric = isinstance(value, float | np.floating | np.ndarray)
    if not numeric or np.asarray(value).dtype.kind != "f":
        return True
    return bool(np.isfinite(value).all())


class Watch:
    """One call of a function of data, as a context; NumPy calls it at an overflow.

    Parameters
    ----------
    method : callable
        What is called.
    args, options : tuple and dict
        What it is called with.
    """

    def __init__(
        self, method: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        self._method, self._args, self._options = method, args, options
        self._far: dict[str, str] | None = None

    def __enter__(self) -> Self:
        outer = np.geterrcall()
        self._outer = outer if isinstance(outer, Watch) else None
        self._settings = np.errstate(over="call", divide="call", invalid="call", call=self)
        self._settings.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._settings.__exit__(kind, error, trace)
        overflown = isinstance(error, ArithmeticError | np.linalg.LinAlgError)
        if overflown or (isinstance(error, ValueError) and "infs or NaNs" in str(error)):
            self.refuse(error)

    def checked(self, found: T) -> T:
        """A result, refused if it holds NaN or inf and an argument is far from 1."""
        if not all(map(_is_finite, _results(found, self._args))):
            self.refuse()
        return found

    def __call__(self, kind: str, flag: int) -> None:
        """Refuse what overflows where an argument is far from 1; else warn as NumPy does."""
        self.refuse()
        warnings.warn(f"{kind} encountered", RuntimeWarning, stacklevel=2)

    def refuse(self, error: BaseException | None = None) -> None:
        """Raise an error that names the arguments far from 1, if there are any."""
        far = self.far()
        if far:
            name, sizes = self._method.__name__, ", ".join(far.values())
            raise ScaleError(
                f"{name} leaves the range of float64, with {sizes}: bring "
                f"{' and '.join(far)} nearer to 1. Scale features, for instance by StandardScaler, "
                "and divide targets or weights by a constant."
            ) from error

    def far(self) -> dict[str, str]:
        """Arguments far from 1 and their sizes in words, here and in calls around this one."""
        if self._far is None:
            farthest: dict[str, tuple[float, str]] = {}
            for name, value in self._arguments():
                sizes = _sizes(name, value)
                part, distance = name.partition("__")[0], _distance(sizes)
                if distance > max(_FAR, farthest.get(part, (0.0, ""))[0]):
                    farthest[part] = distance, _in_words(name, value, sizes)
            self._far = {name: words for name, (_, words) in farthest.items()}
        outer = {} if self._outer is None else self._outer.far()
        return outer | self._far

    def _arguments(self) -> Iterator[tuple[str, Any]]:
        try:
            signature = inspect.signature(self._method)
            given = signature.bind(*self._args, **self._options).arguments
        except TypeError:
            return
        for name, value in given.items():
            if name == "self":
                given_parameters = value.get_params().items()
                yield from (one for one in given_parameters if not one[0].endswith("_bounds"))
                yield from _parts_of_kernels(value)
                owner = vars(value).get("global_", value)  # of a model with near rows
                yield "y", getattr(vars(owner).get("_scale"), "scale", None)
            elif isinstance(value, Mapping):
                yield from value.items()
            elif name == "loss":
                yield name, getattr(value, "y", None)
            elif name == "items":  # of one of several views, which has a name
                yield getattr(given.get("self"), "name", name), value
            else:
                yield name, value


def _parts_of_kernels(estimator: Any) -> Iterator[tuple[str, Any]]:
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, Mapping):
            yield from ((name, one) for one in value.values())


def _distance(sizes: tuple[float, float]) -> float:
    """The factor by which the least or the largest size differs from 1."""
    least, top = sizes
    return max(top, 1.0 / max(least, 1.0 / ANY_SIZE))


def _in_words(name: str, value: Any, sizes: tuple[float, float]) -> str:
    if isinstance(value, numbers.Real):
        return f"{name}={value:g}"
    least, top = sizes
    return f"{name} of {top:.3g}" if least == top else f"{name} from {least:.3g} to {top:.3g}"


def _sizes(name: str, value: Any) -> tuple[float, float]:
    """The least and the largest number in size, zeros left out; 1 where there are none.

    Small numbers beside large ones matter in weights only, which are divided by.
    """
    parts = [part for _, part in value.blocks()] if isinstance(value, RowSource) else [value]
    found = [size for size in map(_size_range, parts) if size is not None]
    if not found:
        return 1.0, 1.0
    top = max(largest for _, largest in found)
    return (min(least for least, _ in found) if name == "sample_weight" else top), top


def _size_range(value: Any) -> tuple[float, float] | None:
    if value is None or isinstance(value, str | bytes | numbers.Integral) or callable(value):
        return None
    try:
        data = np.asarray(_stored(value), dtype=np.float64)
    except (TypeError, ValueError):
        return None
    size = np.abs(data[np.isfinite(data) & (data != 0)])
    return (float(size.min()), float(size.max())) if size.size else None


def kept(found: Certificate) -> Certificate | None:
    """The certificate, or None with a warning where its numbers cannot be true."""
    if found.contradictory:
        warn(
            f"the certificate contradicts itself: the minimum would be at least {found.lower:.6g} "
            f"and at most {found.upper:.6g}, rounding of {found.rounding:.3g} included. The model "
            "is kept without a certificate. See whether the kernel is positive semi-definite if it "
            "is a matrix or a function of your own; else please report this with the data."
        )
        return None
    if not np.isfinite([found.upper, found.lower]).all():
        warn("values overflow, and nothing is certified: scale the targets or the weights down.")
        return None
    return found
