"""Random features of a kernel: φ with E φ(x)·φ(z) = k(x, z). Imports NumPy only.

A kernel is multiplied out into a sum of terms, each a product of factors, which have random
functions (`random_functions.py`). A new node is one more function under `kernel_terms`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce, singledispatch
from itertools import product
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.kernels.base import CountingKernel, Items, Kernel, as_points
from pursuit.kernels.callable import CallableKernel
from pursuit.kernels.categorical import OneCorrelation, PairCorrelations
from pursuit.kernels.compose import Constant, Power, Product, Sum
from pursuit.kernels.linear import Dot
from pursuit.kernels.on_columns import OnColumns
from pursuit.kernels.random_functions import (
    EqualLevels,
    Factor,
    Functions,
    Harmonics,
    Levels,
    Line,
    NoFunctionsError,
    Waves,
    refusal,
)
from pursuit.kernels.stationary import Periodic, Stationary

LEAST_FUNCTIONS = 16
"""Random functions that every term of a sum has, however many terms share the features."""

MOST_TERMS = 4096
"""Terms into which sums inside of products and powers are multiplied out at most."""


@dataclass(frozen=True, eq=False)
class RandomFeatures:
    """A map φ with φ(x)·φ(z) ≈ k(x, z), and equal to it on average over the draw of φ.

    Attributes
    ----------
    parts : tuple of Functions
        Those of each term of the kernel.
    """

    parts: tuple[Functions, ...]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return sum(part.n_features for part in self.parts)

    def __call__(self, X: Items) -> Floats:
        """Return φ of every row: shape (n_rows, n_features)."""
        points = as_points(X)
        out = np.empty((points.shape[0], self.n_features))
        end = 0
        for part in self.parts:
            start, end = end, end + part.n_features
            part.write(points, out[:, start:end])
        return out


def random_features(
    kernel: Kernel, n_columns: int, n_features: int, rng: np.random.Generator
) -> RandomFeatures:
    """Draw random features of a kernel.

    Parameters
    ----------
    kernel : Kernel
        A compiled kernel.
    n_columns : int
        Number of columns of the rows it compares.
    n_features : int
        Number of features, about, that terms without exact features share equally. The error of
        φ(x)·φ(z) is about k / √n_features.
    rng : Generator
        Random numbers.

    Raises
    ------
    NoFunctionsError
        If a part of the kernel has none; the message names it.
    """
    terms = kernel_terms(kernel, np.arange(n_columns))
    exact = [term.is_exact(n_features) for term in terms]
    share = n_features // max(exact.count(False), 1)
    return RandomFeatures(
        tuple(
            term.exact(n_columns) if known else term.drawn(share, n_columns, rng)
            for term, known in zip(terms, exact, strict=True)
        )
    )


# Terms


@dataclass(frozen=True, eq=False)
class Term:
    """A number times a product of factors."""

    number: float
    factors: tuple[Factor, ...] = ()

    @property
    def n_exact(self) -> int | None:
        """Number of features that give the term exactly; None where no finite number does."""
        sizes = [factor.n_exact for factor in self.factors]
        return None if None in sizes else int(np.prod([size for size in sizes if size]))

    def is_exact(self, n_features: int) -> bool:
        """Whether it is given exactly: always where it is linear, else by few features only."""
        if self.n_exact is None:
            return False
        linear = len(self.factors) == 1 and isinstance(self.factors[0], Line)
        return linear or self.n_exact <= n_features

    def exact(self, n_columns: int) -> Functions:
        """The functions that give the term exactly."""
        parts = [factor.exact(n_columns) for factor in self.factors]
        return reduce(Functions.outer, parts, Functions(np.full(1, np.sqrt(self.number))))

    def drawn(self, n_features: int, n_columns: int, rng: np.random.Generator) -> Functions:
        """Random functions that are about n_features features."""
        per_function = max(factor.per_function for factor in self.factors)
        n = max(n_features // per_function, LEAST_FUNCTIONS)
        # Each factor has the weight 1/√n, the product has it once.
        number = self.number * float(n) ** (len(self.factors) - 1)
        parts = [factor.drawn(n, n_columns, rng) for factor in self.factors]
        return reduce(Functions.times, parts, Functions(np.full(n, np.sqrt(number))))


@singledispatch
def kernel_terms(kernel: Any, columns: Indices) -> list[Term]:
    """Return the terms of a kernel of these columns, or raise an error that names what has none."""
    raise NoFunctionsError(refusal(f"a {type(kernel).__name__}"))


@kernel_terms.register
def _of_called(kernel: CallableKernel, columns: Indices) -> list[Term]:
    raise NoFunctionsError(refusal(kernel.name))


@kernel_terms.register
def _of_counted(kernel: CountingKernel, columns: Indices) -> list[Term]:
    return kernel_terms(kernel.kernel, columns)


@kernel_terms.register
def _of_constant(kernel: Constant, columns: Indices) -> list[Term]:
    return [Term(_not_negative(kernel.value))] if kernel.value else []


@kernel_terms.register
def _of_dot(kernel: Dot, columns: Indices) -> list[Term]:
    line = Line(_not_negative(kernel.weight), _not_negative(kernel.offset), columns)
    return [Term(1.0, (line,))]


@kernel_terms.register
def _of_stationary(kernel: Stationary, columns: Indices) -> list[Term]:
    kernel.check_features(len(columns))
    if isinstance(kernel.profile, Periodic):
        return [Term(kernel.variance, (_harmonics(kernel, kernel.profile.width, columns),))]
    return [Term(kernel.variance, (Waves(kernel.profile, kernel.length_scale, columns),))]


def _harmonics(kernel: Stationary, width: float, columns: Indices) -> Harmonics:
    if len(columns) != 1:
        raise NoFunctionsError(refusal(f"ExpSineSquared of {len(columns)} columns"))
    return Harmonics(width, float(np.squeeze(kernel.length_scale)), columns)


@kernel_terms.register
def _of_equal_levels(kernel: OneCorrelation, columns: Indices) -> list[Term]:
    return [Term(1.0, (EqualLevels(kernel, columns),))]


@kernel_terms.register
def _of_levels(kernel: PairCorrelations, columns: Indices) -> list[Term]:
    return [Term(1.0, (Levels(kernel, columns),))]


@kernel_terms.register
def _of_columns(kernel: OnColumns, columns: Indices) -> list[Term]:
    return kernel_terms(kernel.kernel, columns[kernel.positions])


@kernel_terms.register
def _of_sum(kernel: Sum, columns: Indices) -> list[Term]:
    parts = *kernel.terms, Constant(kernel.offset)
    return [term for part in parts for term in kernel_terms(part, columns)]


@kernel_terms.register
def _of_product(kernel: Product, columns: Indices) -> list[Term]:
    parts = [kernel_terms(part, columns) for part in (Constant(kernel.factor), *kernel.factors)]
    return _multiplied(parts)


@kernel_terms.register
def _of_power(kernel: Power, columns: Indices) -> list[Term]:
    if kernel.exponent < 1 or kernel.exponent % 1:
        raise NoFunctionsError(refusal(f"the power {kernel.exponent:g} of a kernel"))
    return _multiplied([kernel_terms(kernel.base, columns)] * int(kernel.exponent))


def _multiplied(parts: Sequence[list[Term]]) -> list[Term]:
    """Return the terms of a product of sums."""
    n_terms = np.prod([float(len(part)) for part in parts])
    if n_terms > MOST_TERMS:
        raise NoFunctionsError(
            f"a product of sums has {n_terms:.0f} terms when multiplied out, and random features "
            f"are for at most {MOST_TERMS}: take fewer terms or a lower power."
        )
    return [
        Term(
            float(np.prod([term.number for term in terms])),
            tuple(factor for term in terms for factor in term.factors),
        )
        for terms in product(*parts)
    ]


def _not_negative(number: float) -> float:
    if number < 0:
        raise NoFunctionsError(refusal(f"a kernel with the negative number {number:g}"))
    return number
