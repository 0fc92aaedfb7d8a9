"""Random functions: waves that follow a spectrum, lines, and functions of categories.

A kernel that is a factor of a product is known by functions h_j with

    k(x, z) = Σ_j h_j(x) h_j*(z)    or, for random ones,    E Σ_j h_j(x) h_j*(z)

and each of them is an amplitude times a wave exp(iω·x). Functions of independent factors multiply:
their frequencies add and their amplitudes multiply. A stationary kernel has waves whose frequencies
follow its spectrum (Rahimi and Recht 2007), drawn in orthogonal directions (Yu et al. 2016) with
stratified lengths. A new profile is one more function under `radii`. Imports NumPy and SciPy only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, reduce, singledispatch
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from pursuit._types import Floats, Indices
from pursuit.kernels.base import EPS, Vector, is_sparse, refuse
from pursuit.kernels.categorical import OneCorrelation, PairCorrelations
from pursuit.kernels.matern import Matern
from pursuit.kernels.stationary import (
    Gaussian,
    Matern12,
    Matern32,
    Matern52,
    Profile,
    RationalQuadratic,
)

SUPPORTED = (
    "RBF, Matern, RationalQuadratic, ExpSineSquared of one column, DotProduct, ConstantKernel and "
    "Categorical, their sums, products and whole powers, and on_columns of them"
)

FAST = 0.75
"""Share of the waves that are drawn for the tail of the spectrum. With a larger one, draws of a
posterior have less error near data and more where there are none."""

LEAST_TAIL = 1e-6
"""The fastest waves of the spectrum, of this share in all, are left out: one of them alone would
outweigh what a basis leaves open. With a smaller share, others are drawn less often."""

SMALLEST = 1e-200
"""Probabilities and variances below count as this number: none of them can be drawn."""


NARROW = 1e-4
"""Width of a periodic kernel below which its coefficients are those of a normal distribution, to
1e-8 of the largest; Bessel functions of so large a number are not evaluated."""


class NoFunctionsError(ValueError):
    """Functions cannot be drawn from a process: its kernel has no random features."""


def refusal(name: str) -> str:
    """Say that something has no random features, and what has."""
    return f"kernel: no random features are known for {name}; they are for {SUPPORTED}."


class Amplitude(Protocol):
    """Real functions of the rows."""

    def __call__(self, X: Any) -> Floats:
        """Return the values: shape (n_rows, n_functions)."""
        ...

    def taken(self, numbers: Indices) -> Amplitude:
        """Some of the functions, in this order; any may come several times."""
        ...


@dataclass(frozen=True, eq=False)
class Lines(Amplitude):
    """The linear functions slopes @ x + heights."""

    slopes: Floats
    heights: Vector

    def __call__(self, X: Any) -> Floats:
        """Return the values."""
        return _inner(X, self.slopes) + self.heights

    def taken(self, numbers: Indices) -> Lines:
        """Some of the lines."""
        return Lines(self.slopes[numbers], self.heights[numbers])


@dataclass(frozen=True, eq=False)
class Signs(Amplitude):
    """1, or -1 or 1 for each code of a column, by a hash of the code and a key of the function."""

    kernel: OneCorrelation
    column: Indices
    keys: npt.NDArray[np.uint64]
    same: npt.NDArray[np.bool_]
    """Which functions are 1 for all codes."""

    def __call__(self, X: Any) -> Floats:
        """Return the values."""
        codes, numbers = np.unique(self.kernel.codes(X[:, self.column]), return_inverse=True)
        bits = (codes + 0.0).view(np.uint64)[:, None] ^ self.keys  # -0.0 is 0.0
        # The last steps of SplitMix64 (Steele, Lea and Flood 2014).
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        table = np.where(self.same | (bits >> np.uint64(63) == 0), 1.0, -1.0)
        return np.asarray(table[numbers])

    def taken(self, numbers: Indices) -> Signs:
        """Some of the functions."""
        return Signs(self.kernel, self.column, self.keys[numbers], self.same[numbers])


@dataclass(frozen=True, eq=False)
class LevelValues(Amplitude):
    """A value for each level of a column: ``table`` has the shape (n_levels + 1, n_functions)."""

    kernel: PairCorrelations
    column: Indices
    table: Floats

    def __call__(self, X: Any) -> Floats:
        """Return the values."""
        return self.table[self.kernel.numbers(X[:, self.column])]

    def taken(self, numbers: Indices) -> LevelValues:
        """Some of the functions."""
        return LevelValues(self.kernel, self.column, self.table[:, numbers])


@dataclass(frozen=True, eq=False)
class Functions:
    """The functions weight · Π amplitudes(x) · exp(iω·x), or without waves.

    Attributes
    ----------
    weights : array of shape (n_functions,)
        Numbers before them.
    amplitudes : tuple of Amplitude
        Real factors.
    frequencies : array of shape (n_functions, n_columns) or None
        The ω.
    """

    weights: Vector
    amplitudes: tuple[Amplitude, ...] = ()
    frequencies: Floats | None = None

    @property
    def n_features(self) -> int:
        """Number of real features: a wave has two."""
        return len(self.weights) * (1 if self.frequencies is None else 2)

    def write(self, X: Any, out: Floats) -> None:
        """Write the values, real and imaginary parts side by side where there are waves."""
        if self.frequencies is None:
            out[:] = self.weights
            parts = [out]
        else:
            n = len(self.weights)
            parts = [out[:, :n], out[:, n:]]
            _write_waves(_inner(X, 0.5 * self.frequencies), self.weights, *parts)
        for factor in self.amplitudes:
            values = factor(X)
            for part in parts:
                part *= values

    def taken(self, numbers: Indices) -> Functions:
        """Some of the functions, in this order; any may come several times."""
        return Functions(
            self.weights[numbers],
            tuple(factor.taken(numbers) for factor in self.amplitudes),
            None if self.frequencies is None else self.frequencies[numbers],
        )

    def times(self, other: Functions) -> Functions:
        """The products of the first with the first, the second with the second, and so on."""
        waves = [one for one in (self.frequencies, other.frequencies) if one is not None]
        return Functions(
            self.weights * other.weights,
            self.amplitudes + other.amplitudes,
            reduce(np.add, waves) if waves else None,
        )

    def outer(self, other: Functions) -> Functions:
        """The products of each with each; the features are those of the product of kernels."""
        n, m = len(self.weights), len(other.weights)
        left, right = self.taken(np.repeat(np.arange(n), m)), other.taken(np.tile(np.arange(m), n))
        if left.frequencies is None or right.frequencies is None:
            return left.times(right)
        # cos a cos b = ½ cos(a + b) + ½ cos(a - b)
        twice = np.tile(np.arange(n * m), 2)
        signs = np.repeat([1.0, -1.0], n * m)[:, None]
        mirrored = signs * right.frequencies[twice]
        right = replace(right.taken(twice), frequencies=mirrored)
        both = left.taken(twice).times(right)
        return replace(both, weights=np.sqrt(0.5) * both.weights)


def _inner(X: Any, directions: Floats) -> Floats:
    """Return X @ directions.T as a dense array."""
    inner = X @ directions.T
    return np.asarray(inner.toarray() if is_sparse(inner) else inner, dtype=np.float64)


def _write_waves(half: Floats, weights: Vector, cosine: Floats, sine: Floats) -> None:
    """Write the weighted cosine and sine of a phase from half of it, by the tangent.

    NumPy takes a tangent many times faster than a cosine in float64.
    """
    t = np.tan(half, out=half)
    np.square(t, out=cosine)
    cosine += 1.0
    np.divide(2.0 * weights, cosine, out=cosine)  # weight (1 + cos)
    np.multiply(t, cosine, out=sine)
    cosine -= weights


# Factors


class Factor(Protocol):
    """A kernel that is a part of a product."""

    per_function: ClassVar[int]
    """Features of a random function: 2 for a wave."""

    @property
    def n_exact(self) -> int | None:
        """Number of features that give the kernel exactly; None where no finite number does."""
        return None

    def exact(self, n_columns: int) -> Functions:
        """The functions that give the kernel exactly."""
        return refuse(self, "finite number of features")

    def drawn(self, n: int, n_columns: int, rng: np.random.Generator) -> Functions:
        """n random functions, the mean of Σ h(x) h*(z) being k(x, z)."""
        ...


@dataclass(frozen=True, eq=False)
class Waves(Factor):
    """A stationary kernel of variance 1, by its spectrum."""

    per_function = 2

    profile: Profile
    length_scale: float | Vector
    columns: Indices

    def drawn(self, n: int, n_columns: int, rng: np.random.Generator) -> Functions:
        """Waves with frequencies in orthogonal directions, their lengths stratified."""
        d = len(self.columns)
        tail, importance = tails(n, rng)
        omega = radii(self.profile, d, tail)[:, None] * directions(n, d, rng)
        return Functions(
            np.sqrt(importance / n),
            frequencies=_placed(omega / self.length_scale, self.columns, n_columns),
        )


@dataclass(frozen=True, eq=False)
class Line(Factor):
    """weight x·z + offset."""

    per_function = 1

    weight: float
    offset: float
    columns: Indices

    @property
    def n_exact(self) -> int:
        """One function per column, and the constant."""
        return len(self.columns) + 1

    def exact(self, n_columns: int) -> Functions:
        """The columns, and the constant."""
        return self._lines(np.eye(self.n_exact), n_columns)

    def drawn(self, n: int, n_columns: int, rng: np.random.Generator) -> Functions:
        """Linear functions in orthogonal directions."""
        width = self.n_exact
        return self._lines(np.sqrt(width / n) * directions(n, width, rng), n_columns)

    def _lines(self, U: Floats, n_columns: int) -> Functions:
        slopes = _placed(np.sqrt(self.weight) * U[:, :-1], self.columns, n_columns)
        lines = Lines(slopes, np.sqrt(self.offset) * U[:, -1])
        return Functions(np.ones(len(U)), (lines,))


@dataclass(frozen=True, eq=False)
class Harmonics(Factor):
    """exp(-2 sin²(π(x - z)/period)/width²) of one column, by its Fourier series.

    The coefficient of exp(2πij(x - z)/period) is exp(-1/width²) I_j(1/width²) (DLMF 10.35.2).
    """

    per_function = 2

    width: float
    period: float
    column: Indices

    def _coefficients(self) -> Vector:
        """Return those of j = 0, 1, …, until they are below rounding."""
        j = np.arange(int(9.0 / self.width) + 20)
        if self.width < NARROW:
            scaled = self.width * j
            coefficients = self.width / np.sqrt(2.0 * np.pi) * np.exp(-0.5 * scaled**2)
        else:
            coefficients = special.ive(j, self.width**-2.0)
        return np.asarray(coefficients[coefficients > EPS])

    @property
    def n_exact(self) -> int:
        """Two features per coefficient."""
        return 2 * len(self._coefficients())

    def exact(self, n_columns: int) -> Functions:
        """The waves of all j from 0 on."""
        squares = 2.0 * self._coefficients()
        squares[0] /= 2.0
        return self._waves(np.arange(len(squares)), np.sqrt(squares), n_columns)

    def drawn(self, n: int, n_columns: int, rng: np.random.Generator) -> Functions:
        """Waves of random j, with the coefficients as probabilities."""
        upper = self._coefficients()
        both = np.concatenate([upper[:0:-1], upper])
        cumulated = np.cumsum(both / both.sum())
        j = np.searchsorted(cumulated, stratified(n, rng)) - (len(upper) - 1)
        return self._waves(j, np.full(n, n**-0.5), n_columns)

    def _waves(self, j: Indices, weights: Vector, n_columns: int) -> Functions:
        omega: Floats = (2.0 * np.pi / self.period) * j[:, None].astype(np.float64)
        return Functions(weights, frequencies=_placed(omega, self.column, n_columns))


@dataclass(frozen=True, eq=False)
class EqualLevels(Factor):
    """1 for equal codes, ρ for others."""

    per_function = 1

    kernel: OneCorrelation
    column: Indices

    def drawn(self, n: int, n_columns: int, rng: np.random.Generator) -> Functions:
        """The constant 1 for a share ρ of the functions, random signs of the codes for others."""
        keys = rng.integers(np.iinfo(np.uint64).max, size=n, dtype=np.uint64)
        signs = Signs(self.kernel, self.column, keys, stratified(n, rng) < self.kernel.rho)
        return Functions(np.full(n, n**-0.5), (signs,))


@dataclass(frozen=True, eq=False)
class Levels(Factor):
    """A table of correlations."""

    per_function = 1

    kernel: PairCorrelations
    column: Indices

    @property
    def n_exact(self) -> int:
        """One per level, and one for all others."""
        return len(self.kernel.levels) + 1

    def exact(self, n_columns: int) -> Functions:
        """A root of the table."""
        return self._values(np.eye(self.n_exact))

    def drawn(self, n: int, n_columns: int, rng: np.random.Generator) -> Functions:
        """Random combinations of the columns of the root."""
        n_levels = self.n_exact
        return self._values(np.sqrt(n_levels / n) * directions(n, n_levels, rng))

    def _values(self, U: Floats) -> Functions:
        eigenvalues, vectors = np.linalg.eigh(self.kernel.table())
        root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
        return Functions(np.ones(len(U)), (LevelValues(self.kernel, self.column, root @ U.T),))


def _placed(part: Floats, columns: Indices, n_columns: int) -> Floats:
    whole = np.zeros((len(part), n_columns))
    whole[:, columns] = part
    return whole


def directions(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Return n random unit vectors of R^d: those of each d in turn are orthogonal."""
    width = min(n, d)
    normal = rng.standard_normal((-(-n // width), d, width))
    Q, R = np.linalg.qr(normal)
    # Without these signs the factor would not be uniform over all rotations.
    Q *= np.sign(np.einsum("bii->bi", R))[:, None]
    return np.asarray(Q.swapaxes(1, 2).reshape(-1, d)[:n])


def stratified(n: int, rng: np.random.Generator) -> Vector:
    """Return uniform random numbers, one in each n-th part of (0, 1), in random order."""
    return np.asarray((rng.permutation(n) + rng.uniform(size=n)) / n)


def tails(n: int, rng: np.random.Generator) -> tuple[Vector, Vector]:
    """Return n tail probabilities, in random order, and their importance, whose mean is 1.

    The logarithms of most of them are uniform. A basis knows the slow waves, so that what it leaves
    open is made of the fastest: draws of a posterior need more of those than draws of a prior.
    """
    n_fast = int(FAST * n)
    fast = LEAST_TAIL ** stratified(n_fast, rng)
    slow = 1.0 - (1.0 - LEAST_TAIL) * stratified(n - n_fast, rng)
    tail = np.concatenate([fast, slow])
    density = -1.0 / (np.log(LEAST_TAIL) * tail)
    importance = n / (n_fast * density + (n - n_fast))
    order = rng.permutation(n)
    return tail[order], importance[order]


@singledispatch
def radii(profile: Profile, d: int, tail: Vector) -> Vector:
    """Return lengths of frequencies, exceeded in the spectrum with the given probabilities."""
    raise NoFunctionsError(refusal(f"a kernel with the profile {profile!r}"))


@radii.register
def _normal(profile: Gaussian, d: int, tail: Vector) -> Vector:
    """Those of a normal vector."""
    return np.asarray(np.sqrt(2.0 * special.gammainccinv(0.5 * d, tail)))


@radii.register
def _mixed(profile: RationalQuadratic, d: int, tail: Vector) -> Vector:
    """Those of normal vectors, their variances having a gamma distribution of mean 1."""
    levels, log_squares = _mixture_squares(profile.alpha, d)
    return np.exp(0.5 * np.interp(special.logit(tail), levels, log_squares))


@lru_cache(maxsize=64)
def _mixture_squares(alpha: float, d: int) -> tuple[Vector, Vector]:
    """Return logits of tail probabilities, ascending, and the logarithms of r² that belong to them.

    r² is a gamma variable of mean 1 times χ² with d degrees: its tail probabilities are an integral
    over the first, here with the logit of that one's probability as variable.
    """
    x, step = np.linspace(-35.0, 35.0, 351, retstep=True)
    below, above = special.expit(-x), special.expit(x)
    variances = np.where(
        x > 0.0, special.gammaincinv(alpha, below), special.gammainccinv(alpha, above)
    )
    variances = np.maximum(variances / alpha, SMALLEST)
    largest = special.gammainccinv(0.5 * d, 1e-9) * special.gammainccinv(alpha, 1e-9) / alpha
    halves = largest * np.geomspace(1e-16, 1.0, 1000)  # r²/2
    inner = halves[:, None] / variances
    weights = step * below * above
    longer, shorter = (
        np.log(np.maximum(share(0.5 * d, inner) @ weights, SMALLEST))
        for share in (special.gammaincc, special.gammainc)
    )
    return (longer - shorter)[::-1], np.log(2.0 * halves)[::-1]


@radii.register
def _any_order(profile: Matern, d: int, tail: Vector) -> Vector:
    return _student(profile.nu, d, tail)


@radii.register
def _half(profile: Matern12, d: int, tail: Vector) -> Vector:
    return _student(0.5, d, tail)


@radii.register
def _three_halves(profile: Matern32, d: int, tail: Vector) -> Vector:
    return _student(1.5, d, tail)


@radii.register
def _five_halves(profile: Matern52, d: int, tail: Vector) -> Vector:
    return _student(2.5, d, tail)


def _student(nu: float, d: int, tail: Vector) -> Vector:
    """Those of Student's t with 2ν degrees of freedom: r² = 2ν (1 - b)/b with a beta variable b."""
    b, rest = special.betaincinv(nu, 0.5 * d, tail), special.betaincinv(0.5 * d, nu, 1.0 - tail)
    return np.asarray(np.sqrt(2.0 * nu * rest / b))
