"""From what a user passes as ``kernel=`` to a kernel with tiles, and to its derivatives.

A known scikit-learn kernel becomes a tree of this room's nodes that mirrors it and knows its
derivatives; simplified, the tree gives the tiles. Everything else is called. White terms are noise:
they are not part of a kernel on blocks, and are returned as a number. Imports NumPy and
scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics.pairwise import KERNEL_PARAMS

from pursuit._types import Indices
from pursuit.kernels.additive import Additive, sum_of_terms
from pursuit.kernels.base import Kernel, Vector
from pursuit.kernels.callable import CallableKernel, ObjectKernel, function_name
from pursuit.kernels.categorical import Categorical
from pursuit.kernels.compose import Constant, Power, Product, ScaledKernel, Sum, Tanh, power_of
from pursuit.kernels.linear import Dot
from pursuit.kernels.matern import Matern
from pursuit.kernels.metrics import AdditiveChiSquared, ChiSquared, Cosine, Laplacian
from pursuit.kernels.on_columns import (
    ColumnNames,
    ColumnsKernel,
    OnColumns,
    resolved_positions,
)
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

MATERN_PROFILES: dict[float, Profile] = {
    0.5: Matern12(),
    1.5: Matern32(),
    2.5: Matern52(),
    np.inf: Gaussian(),
}


def compile_kernel(
    kernel: Any,
    *,
    n_features: int | None = None,
    gamma: float | None = None,
    coef0: float | None = None,
    degree: float | None = None,
    kernel_params: Mapping[str, Any] | None = None,
) -> tuple[Kernel, float]:
    """Compile a kernel, and read the noise off its White terms.

    Parameters
    ----------
    kernel : scikit-learn GP kernel, str or callable
        A `sklearn.gaussian_process.kernels` object, a name `pairwise_kernels` knows, or a function
        of two blocks, k(A, B) -> array of shape (len(A), len(B)).
    n_features : int or None, default None
        Number of features, when items are rows of numbers; γ is 1/n_features unless given.
    gamma, coef0, degree : float or None, default None
        Parameters of named kernels. As in scikit-learn a named kernel ignores those that it does
        not take, so that one grid may hold several kernels; any other kernel refuses them.
    kernel_params : mapping or None, default None
        Further parameters of a named kernel, or keyword arguments of a callable. A name that the
        kernel does not know is an error.

    Returns
    -------
    kernel : Kernel
        The kernel without its White terms.
    noise : float
        The variance of the White terms, 0.0 when there are none.
    """
    named = {"gamma": gamma, "coef0": coef0, "degree": degree}
    given = {name: value for name, value in named.items() if value is not None}
    params = dict(kernel_params or {})
    if isinstance(kernel, str):
        return _compile_name(kernel, n_features, given, params), 0.0
    if given:
        raise ValueError(
            f"{', '.join(given)} belongs to kernels given by name, not to {_describe(kernel)}: "
            "set it in the kernel itself, or in kernel_params for a callable."
        )
    if isinstance(kernel, gp.Kernel):
        if params:
            raise ValueError(
                f"kernel_params does not apply to {kernel!r}: set parameters in the kernel itself."
            )
        return _compile_gp(kernel, n_features)
    if isinstance(kernel, type) or not callable(kernel):
        raise TypeError(
            "kernel must be a scikit-learn kernel object, a name or a function of two blocks, "
            f"got {_describe(kernel)}."
        )
    return _compile_callable(kernel, params), 0.0


def _describe(kernel: Any) -> str:
    if isinstance(kernel, type):
        return f"the class {kernel.__name__} (did you mean {kernel.__name__}()?)"
    return function_name(kernel)


def _compile_callable(function: Callable[..., Any], params: dict[str, Any]) -> CallableKernel:
    diagonal = getattr(function, "diag", None)
    return CallableKernel(
        partial(function, **params) if params else function,
        function_name(function),
        partial(diagonal, **params) if diagonal and params else diagonal,
    )


# Kernels by name


def _compile_name(
    name: str, n_features: int | None, given: dict[str, float], params: dict[str, Any]
) -> Kernel:
    if name == "precomputed":
        raise ValueError(
            "kernel='precomputed' has no formula to compile: pass the matrix to the estimator, or "
            "use PrecomputedKernel(matrix)."
        )
    if name == "search":
        raise ValueError(
            "kernel='search' is for SparseGPRegressor, ExactGPRegressor and FullScaleGPRegressor, "
            "which learn: give this estimator a kernel, such as kernel_ of one of those."
        )
    if name not in KERNEL_PARAMS:
        raise ValueError(
            f"kernel={name!r} is not a known name{_suggestion(name)}: use one of "
            f"{', '.join(sorted(KERNEL_PARAMS))}, a scikit-learn kernel object or a callable."
        )
    unknown = sorted(params.keys() - KERNEL_PARAMS[name])
    if unknown:
        takes = ", ".join(sorted(KERNEL_PARAMS[name])) or "no parameters"
        raise ValueError(
            f"{', '.join(unknown)} is not a parameter of kernel={name!r}, which takes {takes}."
        )
    twice = sorted(given.keys() & params.keys())
    if twice:
        raise ValueError(f"{', '.join(twice)} is given twice: drop it from kernel_params.")
    params = {key: value for key, value in given.items() if key in KERNEL_PARAMS[name]} | params
    if "gamma" in KERNEL_PARAMS[name] and params.get("gamma") is None:
        params["gamma"] = 1.0 if name == "chi2" else _default_gamma(name, n_features)
    return _metric(name, **params)


def _metric(
    name: str,
    *,
    gamma: float = 1.0,
    coef0: float = 1.0,
    degree: float = 3.0,
    free: tuple[str, ...] = (),
) -> Kernel:
    """Return the node of a name; with ``free`` log γ is a hyper-parameter."""
    if not 0.0 < gamma < np.inf:
        raise ValueError(f"gamma must be positive and finite, got {gamma}.")
    if name == "linear":
        return Dot(free=("ignored",) * len(free))
    if name == "rbf":
        return Stationary(Gaussian(), float(np.sqrt(0.5 / gamma)), free=free)
    if name in ("poly", "polynomial"):
        return power_of(Dot(float(gamma), float(coef0), free), float(degree))
    if name == "sigmoid":
        return Tanh(Dot(float(gamma), float(coef0), free))
    if name == "laplacian":
        return Laplacian(float(gamma), free)
    if name == "chi2":
        return ChiSquared(float(gamma), free)
    return Cosine(free) if name == "cosine" else AdditiveChiSquared(free)


def _suggestion(name: str) -> str:
    """Return what a misspelt name was probably meant to be, in words."""
    plain = name.lower().removesuffix("kernel").strip(" _-")
    objects = {
        kind.__name__.lower(): f"{kind.__name__}() of sklearn.gaussian_process.kernels"
        for kind in (gp.Matern, gp.RationalQuadratic, gp.DotProduct, gp.ExpSineSquared)
    }
    meant = {known: repr(known) for known in KERNEL_PARAMS} | {"gaussian": "'rbf'"} | objects
    near = get_close_matches(plain, meant, n=1)
    return f" (did you mean {meant[near[0]]}?)" if near else ""


def _default_gamma(name: str, n_features: int | None) -> float:
    if n_features is None:
        raise ValueError(
            f"kernel={name!r} needs gamma, or n_features for its default 1/n_features: it "
            "compares rows of numbers; pass a callable kernel for strings and other objects."
        )
    return 1.0 / n_features


# scikit-learn's Gaussian process kernels


def kernel_gradient(kernel: Any, by: Literal["theta", "points"] = "theta") -> Kernel | None:
    """Return the node of a scikit-learn kernel, or None where a part has no such derivatives.

    ``by`` says which derivatives are wanted: by hyper-parameters or by points. White terms are
    noise and have no entry in θ here: see :func:`without_white`.
    """
    if not isinstance(kernel, gp.Kernel):
        return None
    parts = kernel, *kernel.get_params().values()
    if any(isinstance(part, gp.WhiteKernel | gp.CompoundKernel) for part in parts):
        return None
    node = _node(kernel, None).kernel
    if node is None:
        return None
    known = node.has_theta if by == "theta" else node.has_points
    return node if known else None


def without_white(kernel: Any) -> tuple[Any, list[Any]]:
    """Return the kernel less its White terms (None if nothing is left), and these terms."""
    if isinstance(kernel, gp.WhiteKernel):
        return None, [kernel]
    if isinstance(kernel, gp.Product):
        factors = kernel.k1, kernel.k2
        for constant, white in (factors, factors[::-1]):
            if isinstance(constant, gp.ConstantKernel) and isinstance(white, gp.WhiteKernel):
                level = constant.constant_value * white.noise_level
                return None, [gp.WhiteKernel(level, white.noise_level_bounds)]
    if isinstance(kernel, gp.Sum):
        (left, white_left), (right, white_right) = map(without_white, (kernel.k1, kernel.k2))
        if left is None or right is None:
            return (right if left is None else left), white_left + white_right
        return gp.Sum(left, right), white_left + white_right
    return kernel, []


def resolve_columns(kernel: Any, known: ColumnNames) -> Any:
    """Return a kernel whose columns are positions; anything else unchanged."""
    if isinstance(kernel, Additive | Categorical):
        return kernel.resolved(known)
    if isinstance(kernel, ColumnsKernel):
        positions = known.positions(kernel.columns, "on_columns")
        inner = resolve_columns(kernel.kernel, known.of_columns(positions))
        return ColumnsKernel(inner, positions, known.names_of(positions, kernel.names))
    return _with_parts(kernel, partial(resolve_columns, known=known))


def _with_parts(kernel: Any, change: Callable[[Any], Any]) -> Any:
    """Return a sum, product or power of changed kernels; a kernel without parts unchanged."""
    if isinstance(kernel, gp.KernelOperator):
        return type(kernel)(change(kernel.k1), change(kernel.k2))
    if isinstance(kernel, gp.Exponentiation):
        return gp.Exponentiation(change(kernel.kernel), kernel.exponent)
    return kernel


class Leaf(NamedTuple):
    """A part of a kernel that has no parts, where its parameters are, and its columns."""

    prefix: str
    kernel: Any
    columns: Indices


def leaves(kernel: Any, n_features: int) -> list[Leaf]:
    """Return the leaves of a kernel whose columns are positions, from left to right."""
    return list(_leaves(kernel, "", np.arange(n_features)))


def _leaves(kernel: Any, prefix: str, columns: Indices) -> Iterator[Leaf]:
    if isinstance(kernel, gp.KernelOperator):
        yield from _leaves(kernel.k1, f"{prefix}k1__", columns)
        yield from _leaves(kernel.k2, f"{prefix}k2__", columns)
    elif isinstance(kernel, gp.Exponentiation):
        yield from _leaves(kernel.kernel, f"{prefix}kernel__", columns)
    elif isinstance(kernel, ColumnsKernel):
        here = columns[resolved_positions(kernel.columns)]
        yield from _leaves(kernel.kernel, f"{prefix}kernel__", here)
    elif isinstance(kernel, Categorical):
        yield Leaf(prefix, kernel, columns[resolved_positions(kernel.columns)])
    else:
        yield Leaf(prefix, kernel, columns)


class ComparedColumns(NamedTuple):
    """Positions of the columns that a kernel compares as categories, and as numbers."""

    categories: frozenset[int]
    numbers: frozenset[int]

    def __or__(self, other: Any) -> ComparedColumns:
        return ComparedColumns(self.categories | other.categories, self.numbers | other.numbers)


def compared_columns(kernel: Any, known: ColumnNames) -> ComparedColumns:
    """Return which columns a kernel looks at, and how."""
    nothing: frozenset[int] = frozenset()
    if isinstance(kernel, gp.ConstantKernel | gp.WhiteKernel):
        return ComparedColumns(nothing, nothing)
    if isinstance(kernel, gp.KernelOperator):
        return compared_columns(kernel.k1, known) | compared_columns(kernel.k2, known)
    if isinstance(kernel, gp.Exponentiation):
        return compared_columns(kernel.kernel, known)
    if isinstance(kernel, Additive):
        numbers = [] if kernel.columns is None else known.positions(kernel.columns, "Additive")
        return ComparedColumns(nothing, frozenset(numbers))
    if isinstance(kernel, Categorical):
        positions = known.positions(kernel.columns, "Categorical")
        return ComparedColumns(frozenset(positions), nothing)
    if isinstance(kernel, ColumnsKernel):
        positions = known.positions(kernel.columns, "on_columns")
        inner = compared_columns(kernel.kernel, known.of_columns(positions))
        return ComparedColumns(*(frozenset(positions[i] for i in part) for part in inner))
    return ComparedColumns(nothing, frozenset(range(known.n_columns)))


def holds(kernel: Any, *kinds: type) -> bool:
    """Whether a kernel object is, or is built from, one of these kinds."""
    if not isinstance(kernel, gp.Kernel):
        return False
    return any(isinstance(part, kinds) for part in (kernel, *kernel.get_params().values()))


def expanded(kernel: Any) -> Any:
    """Return a kernel with plain sums in place of resolved additive kernels."""
    if not holds(kernel, Additive):
        return kernel
    if isinstance(kernel, Additive):
        return sum_of_terms(kernel.terms())
    if isinstance(kernel, ColumnsKernel):
        return ColumnsKernel(expanded(kernel.kernel), kernel.columns, kernel.names)
    return _with_parts(kernel, expanded)


def _compile_gp(kernel: gp.Kernel, n_features: int | None) -> tuple[Kernel, float]:
    compiled, noise = _node(kernel, n_features)
    if compiled is None:
        raise ValueError(f"kernel {kernel} is noise only: add a kernel to the WhiteKernel.")
    if noise < 0:
        raise ValueError(
            f"the White terms of {kernel} add up to {noise}: make noise_level positive."
        )
    return compiled.simplified(), noise


class _Parts(NamedTuple):
    """A kernel without its White terms (None when nothing is left), and their variance."""

    kernel: Kernel | None
    noise: float


def _node(kernel: gp.Kernel, n_features: int | None) -> _Parts:
    """Return the node that mirrors a kernel, with its hyper-parameters.

    Types are compared exactly: a subclass may have changed the formula, and is called.
    """
    kind = type(kernel)
    if kind is gp.WhiteKernel:
        return _Parts(None, float(kernel.noise_level))
    if kind is gp.Sum:
        (left, noise), (right, more) = (_node(k, n_features) for k in (kernel.k1, kernel.k2))
        if left is None or right is None:
            return _Parts(right if left is None else left, noise + more)
        return _Parts(Sum((left, right)), noise + more)
    if kind is gp.Product:
        return _product(kernel, _node(kernel.k1, n_features), _node(kernel.k2, n_features))
    if kind is gp.Exponentiation:
        base = _node(kernel.kernel, n_features)
        if base.kernel is None or base.noise:
            raise _misplaced_white(kernel)
        return _Parts(Power(base.kernel, float(kernel.exponent)), 0.0)
    if kind is ColumnsKernel:
        return _on_columns(kernel, n_features)
    if kind is Categorical:
        return _Parts(_categorical(kernel, n_features), 0.0)
    if kind is Additive and n_features is not None:
        return _node(expanded(kernel.resolved(ColumnNames(n_features))), n_features)
    return _Parts(_leaf(kernel, n_features), 0.0)


def _product(kernel: gp.Kernel, left: _Parts, right: _Parts) -> _Parts:
    for scale, other in ((left, right), (right, left)):
        constant = None if scale.kernel is None or scale.noise else scale.kernel.simplified()
        if isinstance(constant, Constant):
            noise = constant.value * other.noise
            break
    else:
        if left.kernel is None or right.kernel is None or left.noise or right.noise:
            raise _misplaced_white(kernel)
        return _Parts(Product((left.kernel, right.kernel)), 0.0)
    if left.kernel is None or right.kernel is None:
        return _Parts(None, noise)
    factors = left.kernel, right.kernel
    plain = any(isinstance(factor, Constant) for factor in factors)
    return _Parts(ScaledKernel(factors) if plain else Product(factors), noise)


def _on_columns(kernel: ColumnsKernel, n_features: int | None) -> _Parts:
    known = kernel if n_features is None else resolve_columns(kernel, ColumnNames(n_features))
    positions = np.asarray(known.columns, dtype=np.intp)
    inner = _node(known.kernel, len(positions))
    if inner.kernel is None or inner.noise:
        raise _misplaced_white(kernel)
    return _Parts(OnColumns(inner.kernel, positions, n_features), 0.0)


def _categorical(kernel: Categorical, n_features: int | None) -> Kernel:
    known = kernel if n_features is None else kernel.resolved(ColumnNames(n_features))
    nodes = tuple(OnColumns(node, np.array([j]), n_features) for j, node in known.nodes())
    return nodes[0] if len(nodes) == 1 else Product(nodes)


def _misplaced_white(kernel: gp.Kernel) -> ValueError:
    return ValueError(
        f"WhiteKernel is read as noise and cannot be a part of {kernel}: "
        "add it as a separate term, kernel + WhiteKernel()."
    )


def _leaf(kernel: gp.Kernel, n_features: int | None) -> Kernel:
    """Return the node of a kernel without parts. New nodes, with their derivatives, go here."""
    kind = type(kernel)
    if kind is gp.ConstantKernel:
        return Constant(float(kernel.constant_value), _free(kernel))
    if kind is gp.DotProduct:
        return Dot(1.0, float(kernel.sigma_0) ** 2, _free(kernel))
    if kind is gp.RBF:
        return _stationary(Gaussian(), kernel, n_features)
    if kind is gp.Matern:
        profile = MATERN_PROFILES.get(kernel.nu) or Matern(float(kernel.nu))
        return _stationary(profile, kernel, n_features)
    if kind is gp.RationalQuadratic:
        return _stationary(RationalQuadratic(float(kernel.alpha)), kernel, n_features)
    if kind is gp.ExpSineSquared:
        return _periodic(kernel, n_features)
    if kind is gp.PairwiseKernel and str(kernel.metric) in KERNEL_PARAMS:
        return _pairwise_metric(kernel)
    if isinstance(kernel, gp.CompoundKernel):
        raise ValueError(
            "a CompoundKernel returns several kernels at once: fit one estimator for each, or "
            "add or multiply them into one kernel."
        )
    return ObjectKernel(kernel, repr(kernel), kernel.diag)


def _stationary(profile: Profile, kernel: gp.Kernel, n_features: int | None) -> Stationary:
    scales: Vector = np.squeeze(np.asarray(kernel.length_scale, dtype=np.float64))
    length_scale = scales if scales.ndim else float(scales)
    return Stationary(profile, length_scale, free=_free(kernel), n_features=n_features)


def _periodic(kernel: gp.ExpSineSquared, n_features: int | None) -> Stationary:
    """Return the node of ExpSineSquared: distances count periods, the profile has the width."""
    period = float(kernel.periodicity)
    if not 0.0 < period < np.inf:
        raise ValueError(f"periodicity must be positive and finite, got {period}.")
    names = {"length_scale": "width", "periodicity": "length_scale"}
    free = tuple(names[name] for name in _free(kernel))
    profile = Periodic(float(kernel.length_scale))
    return Stationary(profile, period, free=free, n_features=n_features)


def _pairwise_metric(kernel: gp.PairwiseKernel) -> Kernel:
    """Return the node of a named metric; as in scikit-learn it ignores parameters of others."""
    given = kernel.pairwise_kernels_kwargs or {}
    known = KERNEL_PARAMS[kernel.metric]
    params = {name: value for name, value in given.items() if name in known}
    if "gamma" in known:
        params["gamma"] = float(kernel.gamma)
    return _metric(kernel.metric, free=_free(kernel), **params)


def _free(kernel: gp.Kernel) -> tuple[str, ...]:
    """Return the names of the hyper-parameters that are not fixed, in the order of θ."""
    parameters = (getattr(kernel, name) for name in _hyperparameters(kernel.__class__))
    return tuple(parameter.name for parameter in parameters if not parameter.fixed)


@cache
def _hyperparameters(kind: type[gp.Kernel]) -> tuple[str, ...]:
    """Return the attributes that ``kernel.hyperparameters`` looks for anew whenever it is asked."""
    return tuple(name for name in dir(kind) if name.startswith("hyperparameter_"))
