"""Kernel values in 60 decimal digits, by textbook formulas and not by those of the library.

`exact(kernel, A, B)` takes a node of `pursuit.kernels`, a kernel object of scikit-learn or a name
that `pairwise_kernels` knows, and rows of numbers as they are stored: every float is taken for the
number that it is. It returns an array of mpmath numbers of the context `MP`, which
``MP.matrix(exact(...).tolist())`` turns into a matrix of mpmath.
"""

from __future__ import annotations

from functools import reduce, singledispatch
from typing import Any

import numpy as np
from mpmath.ctx_mp import MPContext
from scipy import sparse
from sklearn.gaussian_process import kernels as gp

from pursuit.kernels import CountingKernel, Dot, PrecomputedKernel, compile_kernel
from pursuit.kernels.categorical import OneCorrelation, PairCorrelations
from pursuit.kernels.compose import Constant, Power, Product, Sum, Tanh
from pursuit.kernels.matern import Matern
from pursuit.kernels.metrics import AdditiveChiSquared, ChiSquared, Cosine, Laplacian
from pursuit.kernels.on_columns import OnColumns
from pursuit.kernels.stationary import (
    Gaussian,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    Stationary,
)

MP = MPContext()
MP.dps = 60
"""The context of all values; ten digits more than anyone compares."""

Numbers = Any
"""An object array of numbers of `MP`."""

_exp = np.frompyfunc(MP.exp, 1, 1)
_sqrt = np.frompyfunc(MP.sqrt, 1, 1)
_sinpi = np.frompyfunc(MP.sinpi, 1, 1)
_tanh = np.frompyfunc(MP.tanh, 1, 1)
_number = np.frompyfunc(lambda x: MP.mpf(x.item() if hasattr(x, "item") else x), 1, 1)


def numbers(X: Any) -> Numbers:
    """Return an array or a sparse matrix as numbers of `MP`, without rounding."""
    dense = X.toarray() if sparse.issparse(X) else np.asarray(X)
    return np.asarray(_number(dense.astype(object)), dtype=object)


def exact(kernel: Any, A: Any, B: Any | None = None, **params: Any) -> Numbers:
    """Return k(A, B) of shape (len(A), len(B)); `params` are those of a name, as `gamma`.

    Without B both sides are A, and white noise is on the diagonal.
    """
    if isinstance(kernel, str):
        kernel = compile_kernel(kernel, n_features=A.shape[1], **params)[0]
    if isinstance(kernel, PrecomputedKernel):
        return numbers(kernel.matrix)[np.ix_(A, A if B is None else B)]
    left = numbers(A)
    return np.asarray(values(kernel, left, left if B is None else numbers(B)), dtype=object)


def exact_diag(kernel: Any, A: Any, **params: Any) -> Numbers:
    """Return k(a, a) of every row."""
    rows = numbers(A) if not isinstance(kernel, PrecomputedKernel) else A
    if isinstance(kernel, str):
        kernel = compile_kernel(kernel, n_features=A.shape[1], **params)[0]
    if isinstance(kernel, PrecomputedKernel):
        return np.array([exact(kernel, [a])[0, 0] for a in rows], dtype=object)
    return np.array([values(kernel, row[None], row[None])[0, 0] for row in rows], dtype=object)


@singledispatch
def values(kernel: Any, A: Numbers, B: Numbers) -> Numbers:
    """Return k(A, B) of rows that are numbers of `MP`."""
    raise NotImplementedError(f"no exact values of {type(kernel).__name__}")


# Formulas


def squares(A: Numbers, B: Numbers, scale: Any) -> Numbers:
    """Return Σ_j ((a_j - b_j)/scale_j)²."""
    inverse = 1 / numbers(np.broadcast_to(np.asarray(scale, float), A.shape[1:])) ** 2
    differences = A[:, None] - B[None]
    return (differences * differences * inverse).sum(axis=2)


def gaussian(D: Numbers) -> Numbers:
    """exp(-r²/2)."""
    return _exp(-D / 2)


def matern(D: Numbers, nu: float) -> Numbers:
    """2^(1-ν)/Γ(ν) a^ν K_ν(a) with a = √(2ν) r."""
    a = _sqrt(2 * MP.mpf(nu) * D)
    if nu == 0.5:
        return _exp(-a)
    if nu == 1.5:
        return (1 + a) * _exp(-a)
    if nu == 2.5:
        return (1 + a + a * a / 3) * _exp(-a)
    factor = 2 ** (1 - MP.mpf(nu)) / MP.gamma(nu)

    def one(x: Any) -> Any:
        return MP.one if x == 0 else factor * x**nu * MP.besselk(nu, x)

    return np.frompyfunc(one, 1, 1)(a)


def rational(D: Numbers, alpha: float) -> Numbers:
    """(1 + r²/(2α))^(-α)."""
    power = MP.mpf(alpha)
    return (1 + D / (2 * power)) ** (-power)


def periodic(D: Numbers, width: float) -> Numbers:
    """exp(-2 sin²(πr)/width²), where r counts periods."""
    sine = _sinpi(_sqrt(D))
    return _exp(-2 * sine * sine / MP.mpf(width) ** 2)


def chi(A: Numbers, B: Numbers) -> Numbers:
    """Σ_j (a_j - b_j)²/(a_j + b_j), 0/0 being 0."""

    def one(a: Any, b: Any) -> Any:
        return (a - b) ** 2 / (a + b) if a + b else MP.zero

    return np.frompyfunc(one, 2, 1)(A[:, None], B[None]).sum(axis=2)


def manhattan(A: Numbers, B: Numbers) -> Numbers:
    """Σ_j |a_j - b_j|."""
    return abs(A[:, None] - B[None]).sum(axis=2)


def cosine(A: Numbers, B: Numbers) -> Numbers:
    """a·b/(|a||b|), and 0 where a row is 0."""

    def directions(X: Numbers) -> Numbers:
        norms = _sqrt((X * X).sum(axis=1))
        return X / np.array([norm or MP.one for norm in norms], dtype=object)[:, None]

    return directions(A) @ directions(B).T


def powered(base: Numbers, exponent: float) -> Numbers:
    """base^exponent."""
    return base ** (int(exponent) if exponent % 1 == 0 else MP.mpf(exponent))


def constant(value: float, A: Numbers, B: Numbers) -> Numbers:
    """The same number everywhere."""
    return np.full((len(A), len(B)), MP.mpf(value), dtype=object)


# Nodes of the library: a formula and its stored parameters


@values.register
def _(kernel: CountingKernel, A: Numbers, B: Numbers) -> Numbers:
    return values(kernel.kernel, A, B)


@values.register
def _(kernel: Constant, A: Numbers, B: Numbers) -> Numbers:
    return constant(kernel.value, A, B)


@values.register
def _(kernel: Sum, A: Numbers, B: Numbers) -> Numbers:
    terms = [values(term, A, B) for term in kernel.terms]
    return reduce(np.add, terms, constant(kernel.offset, A, B))


@values.register
def _(kernel: Product, A: Numbers, B: Numbers) -> Numbers:
    factors = [values(factor, A, B) for factor in kernel.factors]
    return reduce(np.multiply, factors, constant(kernel.factor, A, B))


@values.register
def _(kernel: Power, A: Numbers, B: Numbers) -> Numbers:
    return powered(values(kernel.base, A, B), kernel.exponent)


@values.register
def _(kernel: Tanh, A: Numbers, B: Numbers) -> Numbers:
    return _tanh(values(kernel.base, A, B))


@values.register
def _(kernel: Dot, A: Numbers, B: Numbers) -> Numbers:
    return MP.mpf(kernel.weight) * (A @ B.T) + MP.mpf(kernel.offset)


@values.register
def _(kernel: Stationary, A: Numbers, B: Numbers) -> Numbers:
    D, profile = squares(A, B, kernel.length_scale), kernel.profile
    if isinstance(profile, Gaussian):
        block = gaussian(D)
    elif isinstance(profile, Matern12 | Matern32 | Matern52):
        block = matern(D, {Matern12: 0.5, Matern32: 1.5, Matern52: 2.5}[type(profile)])
    elif isinstance(profile, Matern):
        block = matern(D, profile.nu)
    elif isinstance(profile, RationalQuadratic):
        block = rational(D, profile.alpha)
    elif isinstance(profile, Periodic):
        block = periodic(D, profile.width)
    else:
        raise NotImplementedError(f"no exact values of {type(profile).__name__}")
    return MP.mpf(kernel.variance) * block


@values.register
def _(kernel: OnColumns, A: Numbers, B: Numbers) -> Numbers:
    return values(kernel.kernel, A[:, kernel.positions], B[:, kernel.positions])


@values.register
def _(kernel: Laplacian, A: Numbers, B: Numbers) -> Numbers:
    return _exp(-MP.mpf(kernel.gamma) * manhattan(A, B))


@values.register
def _(kernel: ChiSquared, A: Numbers, B: Numbers) -> Numbers:
    return _exp(-MP.mpf(kernel.gamma) * chi(A, B))


@values.register
def _(kernel: AdditiveChiSquared, A: Numbers, B: Numbers) -> Numbers:
    return -chi(A, B)


@values.register
def _(kernel: Cosine, A: Numbers, B: Numbers) -> Numbers:
    return cosine(A, B)


@values.register
def _(kernel: OneCorrelation, A: Numbers, B: Numbers) -> Numbers:
    rho = MP.exp(-1 / MP.mpf(kernel.length))
    return np.where(A == B.T, MP.one, rho)


@values.register
def _(kernel: PairCorrelations, A: Numbers, B: Numbers) -> Numbers:
    u = numbers(kernel.factor)
    v = u / _sqrt(1 + (u * u).sum(axis=1))[:, None]
    unknown = v.sum(axis=0) / len(v)
    levels = list(map(float, kernel.levels))

    def level(code: Any) -> int:
        return levels.index(code) if code in levels else len(levels)

    left, right = ([level(float(code)) for code in X[:, 0]] for X in (A, B))
    both = np.vstack([v, unknown])
    equal = np.equal.outer(left, right)
    return np.where(equal, MP.one, both[left] @ both[right].T)


# Kernel objects of scikit-learn


@values.register
def _(kernel: gp.Sum, A: Numbers, B: Numbers) -> Numbers:
    return values(kernel.k1, A, B) + values(kernel.k2, A, B)


@values.register
def _(kernel: gp.Product, A: Numbers, B: Numbers) -> Numbers:
    return values(kernel.k1, A, B) * values(kernel.k2, A, B)


@values.register
def _(kernel: gp.Exponentiation, A: Numbers, B: Numbers) -> Numbers:
    return powered(values(kernel.kernel, A, B), float(kernel.exponent))


@values.register
def _(kernel: gp.ConstantKernel, A: Numbers, B: Numbers) -> Numbers:
    return constant(float(kernel.constant_value), A, B)


@values.register
def _(kernel: gp.WhiteKernel, A: Numbers, B: Numbers) -> Numbers:
    white = constant(0.0, A, B)
    if A is B:
        np.fill_diagonal(white, MP.mpf(float(kernel.noise_level)))
    return white


@values.register
def _(kernel: gp.DotProduct, A: Numbers, B: Numbers) -> Numbers:
    return MP.mpf(float(kernel.sigma_0)) ** 2 + A @ B.T


@values.register
def _(kernel: gp.RBF, A: Numbers, B: Numbers) -> Numbers:
    # scikit-learn's Matérn kernel is a kind of its Gaussian.
    D = squares(A, B, kernel.length_scale)
    nu = float(kernel.nu) if isinstance(kernel, gp.Matern) else np.inf
    return gaussian(D) if nu == np.inf else matern(D, nu)


@values.register
def _(kernel: gp.RationalQuadratic, A: Numbers, B: Numbers) -> Numbers:
    return rational(squares(A, B, kernel.length_scale), float(kernel.alpha))


@values.register
def _(kernel: gp.ExpSineSquared, A: Numbers, B: Numbers) -> Numbers:
    return periodic(squares(A, B, kernel.periodicity), float(kernel.length_scale))
