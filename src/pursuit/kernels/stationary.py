"""Kernels of the distance: a profile of r² times a variance.

    k(x, z) = variance · profile(r²),    r² = Σ_j (x_j - z_j)² / length_scale_j²

A `Profile` is the formula alone: its values, and its derivatives by r² and by hyper-parameters of
its own. A new one is a new class here and one line in `compile.py`. Imports NumPy and SciPy only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pursuit._types import Floats, Indices
from pursuit.kernels.base import (
    FUNCTION,
    Extent,
    Items,
    Kernel,
    Tile,
    Tiles,
    Vector,
    as_points,
    check_same_features,
    is_sparse,
    join_entries,
    n_items,
    padding_columns,
    product_into,
    refuse,
    squared_norms,
)
from pursuit.rounding import UNIT

PIECE = 1 << 17
"""Entries that a profile works on at a time. It bounds the scratch memory of large tiles; pieces
much smaller than a tile of 128 x 2000 gain less from the cache than their calls cost two threads.
"""

RANGE = 16.0
"""Squares |x̃|² up to this part of a type's range are safe: |x̃ - z̃|² and the terms that it is the
sum of are at most four times the larger square."""

CANCELLED = 1e-3
"""Share of N = |x̃|² + |z̃|² below which r² is recomputed from differences.

Cancellation leaves r² with an error of about eps N, hence r with eps N / 2r: less than 16 eps √N
where r² is above this share of N, and up to √(eps N) below it.
"""

TOLERATED = {8: 2.0**-52 / CANCELLED, 4: 1e-2}
"""Errors of values in float64 and float32 up to which cancellation is left alone; beyond, r² is
checked for all. That of float64 is what the check leaves, too: eps / `CANCELLED` of r²."""

DIFFERENCES = 1 << 20
"""Numbers held at a time when distances are recomputed from differences."""

FEW_OUTPUTS = 4
"""Up to so many outputs derivatives by points are formed one output at a time."""

FEW = 16
"""One entry in so many may be checked by itself before all of them are checked at once."""

AVERAGED = 2.0**-30
"""Error of the mean of Z beside its largest number: that of adding up 2²³ points."""

LARGE_ALPHA = 32.0
"""α of a rational quadratic from which r²/(2α) is kept without the 1 that is added to it."""


class Sensitivity(NamedTuple):
    """How the value at variance 1 reacts to errors of t = |slope| r², and what its formula adds.

    Attributes
    ----------
    by_square : float
        sup |dk/dt|; infinite for a kinked profile.
    by_root : float
        sup |dk/d√t|.
    by_share : float
        sup t|dk/dt|, the reaction to a relative error of t. It is at most 1/e for every mixture of
        functions exp(-st), s ≥ 0, which all profiles are that are kernels in any dimension.
    formula : float
        Rounding error of `apply`, relative to the variance.
    """

    by_square: float
    by_root: float
    by_share: float
    formula: float


MIXED = float(np.exp(-1.0))
"""`by_share` of a mixture of exponentials."""


class Profile(Protocol):
    """A function of r², equal to 1 at r = 0; it decreases unless it is periodic.

    A tile starts from u = intercept + slope r², which one matrix product delivers for the price of
    r² itself; the profile chooses slope and intercept so that the rest is cheap.
    """

    @property
    def slope(self) -> float:
        """The factor of r² in u."""
        ...

    @property
    def kinked(self) -> bool:
        """True when linear in r near 0, where the rounding of r² would show as its square root."""
        ...

    @property
    def periodic(self) -> bool:
        """True when it rises again: then it is a kernel on a line only, and near is not alike."""
        return False

    @property
    def clipped(self) -> bool:
        """Whether u must be within its range, which rounding may leave, also in float32."""
        return True

    def intercept(self, variance: float) -> float:
        """Return the value of u at r = 0."""
        return 0.0

    def apply(self, u: Tile, variance: float) -> None:
        """Turn u into variance · profile(r²), in place."""
        ...

    @property
    def is_own_fall(self) -> bool:
        """Whether the profile and its `fall` are the same function."""
        return False

    def apply_with_fall(self, u: Tile, fall: Tile, variance: float) -> None:
        """Do what `apply` does, and write variance · `fall` of the same distances."""
        D = (u - self.intercept(variance)) / self.slope
        np.multiply(variance, self.fall(D), out=fall)
        self.apply(u, variance)

    def fall(self, D: Floats) -> Floats:
        """Return -2 times the derivative by r², for the squared distances D."""
        ...

    def by_parameter(self, name: str, D: Floats) -> Floats:
        """Return the derivative by the hyper-parameter `name` of the profile."""
        return refuse(self, f"hyper-parameter {name}")

    def sensitivity(self, variance: float, farthest: float) -> Sensitivity:
        """Return how values react to rounding, up to the distance √t = `farthest`.

        Here nothing is known.
        """
        return Sensitivity(np.inf, np.inf, np.inf, np.inf)


def of_logarithm(variance: float) -> float:
    """Return the error of exp(log(variance) + …) beside one of exp(…): log, sum and exp."""
    return FUNCTION + (FUNCTION + UNIT) * abs(float(np.log(variance)))


@dataclass(frozen=True)
class Gaussian(Profile):
    """exp(-r²/2), from u = log(variance) - r²/2."""

    slope: ClassVar[float] = -0.5
    kinked: ClassVar[bool] = False
    clipped: ClassVar[bool] = False
    is_own_fall: ClassVar[bool] = True

    def intercept(self, variance: float) -> float:
        """Return log(variance): the factor costs no pass of its own."""
        return float(np.log(variance))

    def apply(self, u: Tile, variance: float) -> None:
        """Take exp(u)."""
        np.exp(u, out=u)

    def fall(self, D: Floats) -> Floats:
        """Return exp(-r²/2)."""
        return np.exp(-0.5 * D)

    def sensitivity(self, variance: float, farthest: float) -> Sensitivity:
        """Return that of exp(-t): 2a exp(-a²) ≤ √(2/e)."""
        return Sensitivity(1.0, 0.86, MIXED, of_logarithm(variance))


@dataclass(frozen=True)
class Matern12(Profile):
    """exp(-r), from u = r²."""

    slope: ClassVar[float] = 1.0
    kinked: ClassVar[bool] = True

    def apply(self, u: Tile, variance: float) -> None:
        """Take exp(log(variance) - √u)."""
        np.sqrt(u, out=u)
        np.subtract(float(np.log(variance)), u, out=u)
        np.exp(u, out=u)

    def apply_with_fall(self, u: Tile, fall: Tile, variance: float) -> None:
        """Do what `apply` does, and divide it by r where that is not 0."""
        np.sqrt(u, out=fall)
        np.subtract(float(np.log(variance)), fall, out=u)
        np.exp(u, out=u)
        # A mask takes longer than the division.
        apart = True if fall.min(initial=np.inf) > 0.0 else fall > 0.0
        np.divide(u, fall, out=fall, where=apart)

    def fall(self, D: Floats) -> Floats:
        """Return exp(-r)/r, and 0 at r = 0: there it is multiplied by x - z = 0."""
        r = np.sqrt(D)
        return np.divide(np.exp(-r), r, out=np.zeros_like(r), where=r > 0.0)

    def sensitivity(self, variance: float, farthest: float) -> Sensitivity:
        """Return that of exp(-a): root and difference err by ua each, and a exp(-a) < 1/2."""
        return Sensitivity(np.inf, 1.0, MIXED, UNIT + of_logarithm(variance))


@dataclass(frozen=True)
class Matern32(Profile):
    """(1 + a) exp(-a) with a = √3 r, from u = a²."""

    slope: ClassVar[float] = 3.0
    kinked: ClassVar[bool] = False

    def apply(self, u: Tile, variance: float) -> None:
        """Take (1 + √u) exp(log(variance) - √u)."""
        np.sqrt(u, out=u)
        decay = np.subtract(float(np.log(variance)), u)
        np.exp(decay, out=decay)
        u += 1.0
        u *= decay

    def apply_with_fall(self, u: Tile, fall: Tile, variance: float) -> None:
        """Do what `apply` does; its decay is a third of what is wanted."""
        np.sqrt(u, out=u)
        np.subtract(float(np.log(3.0 * variance)), u, out=fall)
        np.exp(fall, out=fall)
        u += 1.0
        u *= fall
        u /= 3.0

    def fall(self, D: Floats) -> Floats:
        """Return 3 exp(-a)."""
        return 3.0 * np.exp(-np.sqrt(3.0 * D))

    def sensitivity(self, variance: float, farthest: float) -> Sensitivity:
        """Return that of (1 + a) exp(-a), whose derivative by t is -exp(-a)/2."""
        return Sensitivity(0.5, MIXED, MIXED, 4.0 * UNIT + of_logarithm(variance))


@dataclass(frozen=True)
class Matern52(Profile):
    """(1 + a + a²/3) exp(-a) with a = √5 r, from u = a²."""

    slope: ClassVar[float] = 5.0
    kinked: ClassVar[bool] = False

    def apply(self, u: Tile, variance: float) -> None:
        """Take (1 + √u + u/3) exp(log(variance) - √u)."""
        a = np.sqrt(u)
        u /= 3.0
        u += a
        u += 1.0
        np.subtract(float(np.log(variance)), a, out=a)
        np.exp(a, out=a)
        u *= a

    def apply_with_fall(self, u: Tile, fall: Tile, variance: float) -> None:
        """Do what `apply` does, with 5/3 (1 + a) and a²/3 before their common decay."""
        a = np.sqrt(u)
        np.add(a, 1.0, out=fall)
        u /= 3.0
        u += fall
        np.subtract(float(np.log(variance)), a, out=a)
        np.exp(a, out=a)
        u *= a
        a *= 5.0 / 3.0
        fall *= a

    def fall(self, D: Floats) -> Floats:
        """Return 5/3 (1 + a) exp(-a)."""
        a = np.sqrt(5.0 * D)
        return (5.0 / 3.0) * (1.0 + a) * np.exp(-a)

    def sensitivity(self, variance: float, farthest: float) -> Sensitivity:
        """Return that of (1 + a + a²/3) exp(-a), whose derivative by t is -(1 + a) exp(-a)/6."""
        return Sensitivity(1.0 / 6.0, 0.3, MIXED, 8.0 * UNIT + of_logarithm(variance))


@dataclass(frozen=True)
class RationalQuadratic(Profile):
    """(1 + r²/(2α))^(-α), from u = 1 + r²/(2α), or from r²/(2α) where α is large."""

    alpha: float
    kinked: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < np.inf:
            raise ValueError(f"alpha must be positive and finite, got {self.alpha}.")

    @property
    def slope(self) -> float:
        """1/(2α)."""
        return 0.5 / self.alpha

    @property
    def _is_large(self) -> bool:
        """Whether α times the rounding of 1 + r²/(2α) would show; log1p is slower in float32."""
        return self.alpha > LARGE_ALPHA

    def intercept(self, variance: float) -> float:
        """Return 1, and 0 where α is large."""
        return 0.0 if self._is_large else 1.0

    def apply(self, u: Tile, variance: float) -> None:
        """Take variance · (1 + r²/(2α))^(-α)."""
        if self.alpha == 1.0:
            np.divide(variance, u, out=u)
            return
        # Twice as fast as a power, and as accurate: |α log u| is small wherever the result is not.
        (np.log1p if self._is_large else np.log)(u, out=u)
        u *= -self.alpha
        u += float(np.log(variance))
        np.exp(u, out=u)

    def fall(self, D: Floats) -> Floats:
        """Return u^(-α-1)."""
        fall: Floats = np.exp(-(self.alpha + 1.0) * np.log1p(D / (2.0 * self.alpha)))
        return fall

    def by_parameter(self, name: str, D: Floats) -> Floats:
        """Return k ((u - 1)/u - log u), the derivative by α."""
        excess = D / (2.0 * self.alpha)
        log_u = np.log1p(excess)
        k = np.exp(-self.alpha * log_u)
        derivative: Floats = k * (excess / (1.0 + excess) - log_u)
        return derivative

    def sensitivity(self, variance: float, farthest: float) -> Sensitivity:
        """Return that of (1 + t)^(-α); an error of y = α log(1 + t) counts y exp(-y) ≤ 1/e."""
        root = 2.0 * self.alpha / np.sqrt(2.0 * self.alpha + 1.0)
        formula = MIXED * (FUNCTION + 2.0 * UNIT) + of_logarithm(variance)
        return Sensitivity(self.alpha, float(root), MIXED, formula)


@dataclass(frozen=True)
class Periodic(Profile):
    """exp(-2 sin²(πr)/width²), where r counts periods, from u = r²."""

    width: float
    slope: ClassVar[float] = 1.0
    kinked: ClassVar[bool] = False
    periodic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 < self.width < np.inf:
            raise ValueError(
                f"length_scale of ExpSineSquared must be positive and finite, got {self.width}."
            )

    def apply(self, u: Tile, variance: float) -> None:
        """Take exp(log(variance) - 2 sin²(π√u)/width²)."""
        np.sqrt(u, out=u)
        # Whole periods are taken off first: the sine of a large number has fewer digits.
        u -= np.rint(u)
        u *= np.pi
        np.sin(u, out=u)
        np.square(u, out=u)
        u *= -2.0 / self.width**2
        u += float(np.log(variance))
        np.exp(u, out=u)

    def fall(self, D: Floats) -> Floats:
        """Return 4π sin(πr) cos(πr) k / (width² r), which is 4π²/width² at r = 0."""
        r = np.sqrt(D)
        angle = np.pi * (r - np.rint(r))
        sine = np.sin(angle)
        fall = np.full_like(r, np.pi)
        np.divide(sine, r, out=fall, where=r > 0.0)
        fall *= np.cos(angle)
        fall *= np.exp((-2.0 / self.width**2) * np.square(sine))
        fall *= 4.0 * np.pi / self.width**2
        return fall

    def by_parameter(self, name: str, D: Floats) -> Floats:
        """Return 4 sin²(πr) k / width³, the derivative by the width."""
        r = np.sqrt(D)
        square = np.square(np.sin(np.pi * (r - np.rint(r))))
        derivative: Floats = (4.0 / self.width**3) * square
        derivative *= np.exp((-2.0 / self.width**2) * square)
        return derivative

    def sensitivity(self, variance: float, farthest: float) -> Sensitivity:
        """Return that of exp(-y), y = 2 sin²(πr)/width².

        The derivative by r is at most 2π/width², and 4π/width sup s exp(-2s²) = 3.82/width. The
        root errs by ur, and y by twice the sine's error, 3 units for the angle, 5 for the square
        and its factor, and one for the sum, which count y exp(-y) ≤ 1/e.
        """
        steep = min(2.0 * np.pi / self.width**2, 3.82 / self.width)
        formula = steep * farthest * UNIT + MIXED * (2.0 * FUNCTION + 10.0 * UNIT)
        return Sensitivity(
            2.0 * np.pi**2 / self.width**2,
            steep,
            0.5 * steep * farthest,
            formula + of_logarithm(variance),
        )


@dataclass(frozen=True, eq=False)
class Stationary(Kernel):
    """variance · profile(‖(x - z)/length_scale‖²).

    Parameters
    ----------
    profile : Profile
        The function of the squared distance.
    length_scale : float or array of shape (n_features,)
        One length scale, or one per feature.
    variance : float, default 1.0
        k(x, x).
    free : tuple of str, default ()
        Names of those among length_scale, gamma = 1/(2 length_scale²) and the profile's parameters
        whose logarithms are hyper-parameters, in scikit-learn's order.
    n_features : int or None, default None
        Number of features, where it is known.
    """

    profile: Profile
    length_scale: float | Vector = 1.0
    variance: float = 1.0
    free: tuple[str, ...] = ()
    n_features: int | None = None

    has_theta = has_points = True

    def __post_init__(self) -> None:
        scales = np.asarray(self.length_scale)
        if not np.all((scales > 0) & np.isfinite(scales)):
            raise ValueError(f"length_scale must be positive and finite, got {self.length_scale}.")
        if not 0.0 < self.variance < np.inf:
            raise ValueError(f"variance must be positive and finite, got {self.variance}.")
        if self.n_features is not None:
            self.check_features(self.n_features)

    @property
    def positive_definite(self) -> bool:
        """True for every profile of this room, for periodic ones where there is one feature."""
        return not self.profile.periodic or self.n_features == 1

    def check_features(self, n_features: int) -> None:
        """Check that there is one length scale, or one per feature."""
        if np.ndim(self.length_scale) and np.size(self.length_scale) != n_features:
            raise ValueError(
                f"length_scale has {np.size(self.length_scale)} entries but n_features is "
                f"{n_features}: give one number, or one per feature."
            )

    def error(self, extent: Extent) -> float:
        """Return the reaction of the profile to the errors of t = |slope| r², and its own.

        Differences on a line, and those from which cancelled distances are recomputed, have a
        relative error of t. The product of `StationaryColumns` has the error γ N of t, where
        N = |x̃|² + |z̃|² bounds the terms that it adds up, and therefore
        |Δk| ≤ γ N sup|dk/dt|. Where cancelled distances are recomputed, t ≥ C N for the others,
        with C = `CANCELLED`: |Δk| is also at most γ/C sup t|dk/dt| and γ √(N/C)/2 sup|dk/d√t|.
        """
        if extent.low is None:
            return np.inf
        slope, scale = self.profile.slope, 1.0 / np.asarray(self.length_scale)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = abs(slope) * np.square(extent.widths() * scale)
            shifted = extent.widths() + AVERAGED * extent.largest()
            reach = abs(slope) * np.sum(np.square(shifted * scale))
            origin = abs(slope) * np.square(extent.largest() * scale)
        farthest = float(np.sqrt(squares.sum())) * (1.0 + FUNCTION)
        reaction = self.profile.sensitivity(self.variance, farthest)
        start = abs(self.profile.intercept(self.variance))
        exact = reaction.by_share * extent.sums(1, 16) + reaction.formula
        if start:
            exact += reaction.by_square * extent.sums(1, 3) * start
        if extent.n_features == 1 and not extent.sparse:
            return exact
        if extent.sparse:
            # |x̃|² + |o|² + |z̃ - o|², o being the mean of points that are dense
            longest = np.sort(origin)[len(origin) - extent.n_terms :]
            product, N = extent.sums(4, 26), 6.0 * float(longest.sum())
        else:
            product, N = extent.sums(3, 13), 2.0 * float(reach)
        N = max(N, float(np.finfo(np.float64).tiny))
        recomputed = min(
            product * N * reaction.by_square,
            product * float(np.sqrt(N / CANCELLED)) / 2.0 * reaction.by_root,
            product / CANCELLED * reaction.by_share,
        )
        if self.profile.kinked:
            return exact + recomputed * (1.0 + CANCELLED)
        plain = product * min(N * reaction.by_square, TOLERATED[8] / (2.0 * UNIT))
        return exact + max(plain, recomputed) * (1.0 + CANCELLED)

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> StationaryColumns:
        """Bind the kernel to the points Z."""
        return StationaryColumns(self, Z, dtype)

    def diag(self, A: Items) -> Vector:
        """Return the variance, once per row of A."""
        A = as_points(A)
        self.check_features(A.shape[1])
        return np.full(A.shape[0], self.variance)

    def among(self, items: Items, size: int) -> Tile:
        """Return the blocks of consecutive items, with distances measured from the first of each.

        Coordinates that are small beside those of the data keep the digits of small distances.
        """
        if is_sparse(items):
            return super().among(items, size)
        points = as_points(items)
        self.check_features(points.shape[1])
        groups = points.reshape(-1, size, points.shape[1])
        u = self._squares_among(groups)
        u *= self.profile.slope
        u += self.profile.intercept(self.variance)
        self.profile.apply(u, self.variance)
        return u

    def _squares_among(self, groups: Floats) -> Floats:
        """Return r² within every group."""
        if groups.shape[2] == 1:
            line = groups[:, :, 0].astype(np.float64)
            return np.square((line[:, :, None] - line[:, None]) / self.length_scale)
        placed = (groups - groups[:, :1].astype(np.float64)) / self.length_scale
        norms = np.einsum("gij,gij->gi", placed, placed)
        squares: Floats = placed @ placed.swapaxes(1, 2)
        squares *= -2.0
        squares += norms[:, :, None]
        squares += norms[:, None]
        np.maximum(squares, 0.0, out=squares)
        diagonal = np.arange(groups.shape[1])
        squares[:, diagonal, diagonal] = 0.0
        return squares

    @property
    def length_scales(self) -> float | Vector | None:
        """Its own; None where the profile is periodic."""
        return None if self.profile.periodic else self.length_scale

    # With M = W ∘ (-2 dk/dr²) and scaled coordinates a, b,
    #
    #     ∂E/∂log ℓ_j = Σ M (a_j - b_j)²  =  M1·a_j² + M'1·b_j² - 2 a_j'M b_j
    #     ∂E/∂b       = (M'a - (M'1) b) / ℓ
    #
    # so two thin products serve all features. One length scale needs Σ M r² only.

    def theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return the entries of the free hyper-parameters, one per feature for length scales.

        The tile is float32 where W is.
        """
        a, b, D = self._scaled(A, B, W.dtype)
        entries: list[Any] = []
        for name in self.free:
            if name not in ("length_scale", "gamma"):
                slope = float(np.vdot(W, self.profile.by_parameter(name, D)))
                entries.append(self.variance * getattr(self.profile, name) * slope)
                continue
            M = self._fall(W, D)
            if np.ndim(self.length_scale):
                squares = M.sum(axis=1) @ a**2 + M.sum(axis=0) @ b**2
                entries.append(squares - 2.0 * np.einsum("ij,ij->j", a, M @ b))
            else:
                entries.append((1.0 if name == "length_scale" else -0.5) * float(np.vdot(M, D)))
        return join_entries(entries)

    @property
    def has_theta_times(self) -> bool:
        """Whether length scales are all that is free."""
        return self.free == ("length_scale",)

    def theta_times(self, A: Floats, B: Floats, v: Vector) -> Floats:
        """Return Σ_b v_b F_ab (a_j - b_j)², F being -2 dk/dr², in the type of v."""
        a, b, D = self._scaled(A, B, v.dtype)
        one = v[:, None].astype(b.dtype)
        sums = self.profile.fall(D) @ np.concatenate([one, b * one, b**2 * one], axis=1)
        width = b.shape[1]
        columns = a**2 * sums[:, :1] - 2.0 * a * sums[:, 1 : 1 + width] + sums[:, 1 + width :]
        if not np.ndim(self.length_scale):
            columns = columns.sum(axis=1, keepdims=True)
        return np.asarray(self.variance * columns)

    def points(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Return (M'a - (M'1) b) / ℓ; the tile is float32 where W is."""
        a, b, D = self._scaled(A, B, W.dtype)
        M = self._fall(W, D)
        scale = np.atleast_1d(self.length_scale)
        if A.shape[1] == 1:
            slopes = np.einsum("ij,ij->j", M, np.subtract.outer(A[:, 0], B[:, 0]))
            return np.asarray(slopes[:, None] / scale**2)
        gradient: Floats = (M.T @ a - M.sum(axis=0)[:, None] * b) / scale
        return gradient

    def _fall(self, W: Tile, D: Floats) -> Floats:
        M: Floats = W * self.profile.fall(D)
        if self.variance != 1.0:
            M *= self.variance
        return M

    def _scaled(
        self, A: Floats, B: Floats, dtype: npt.DTypeLike = np.float64
    ) -> tuple[Floats, Floats, Floats]:
        """Return scaled and centred coordinates, and r²; centring keeps the digits of float32."""
        centre = B.mean(axis=0)
        scale = np.atleast_1d(self.length_scale)
        a, b = ((X - centre) / scale for X in (A, B))
        if not any(out_of_range(X, dtype).any() for X in (a, b)):
            a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
        if A.shape[1] == 1:
            line = np.subtract.outer(A[:, 0], B[:, 0].astype(np.float64)) / scale
            return a, b, np.square(line, out=line).astype(a.dtype, copy=False)
        D = a @ (-2.0 * b).T
        norms = np.einsum("ij,ij->i", a, a), np.einsum("ij,ij->i", b, b)
        D += norms[0][:, None]
        D += norms[1]
        if self.profile.kinked or cancels(*norms, D.dtype):
            spoilt = ~(np.add.outer(CANCELLED * norms[0], CANCELLED * norms[1]) < D)
            for rows, columns, differences in spoilt_differences(entries_of(spoilt), a, b):
                D[rows, columns] = squared_norms(differences)
        return a, b, np.maximum(D, 0.0, out=D)


def cancels(left: Vector, right: Vector, dtype: npt.DTypeLike, steepness: float = 1.0) -> bool:
    """Return whether the error of r², about eps N, matters somewhere.

    It does where points lie hundreds of length scales from the mean: far outliers, features that
    are not scaled, sparse rows with a large constant in them. Both sides are |x̃|² of some points;
    `steepness` is how much values change with it at most.
    """
    if not len(left) or not len(right):
        return False
    limits = np.finfo(dtype)
    error = float(left.max() + right.max()) * float(limits.eps) * steepness
    return not error <= TOLERATED[limits.dtype.itemsize]


def out_of_range(placed: Any, dtype: npt.DTypeLike) -> npt.NDArray[np.bool_]:
    """Return which rows x̃, in float64, have squares beyond the range of a tile of this type."""
    if np.dtype(dtype) == np.float64:
        return np.zeros(placed.shape[0], dtype=bool)
    return np.asarray(squared_norms(placed) > float(np.finfo(dtype).max) / RANGE)


def entries_of(mask: npt.NDArray[np.bool_]) -> tuple[Indices, Indices]:
    """Return rows and columns of the true entries; several times faster than `numpy.nonzero`."""
    rows, columns = np.divmod(np.flatnonzero(mask), max(mask.shape[1], 1))
    return rows, columns


def spoilt_differences(
    entries: tuple[Indices, ...], left: Any, right: Any, subtract: Any = np.subtract
) -> Iterator[tuple[Indices, Indices, Any]]:
    """Yield entries, as rows and columns, and the differences of their points.

    A limited number at a time.
    """
    rows, columns = entries
    step = max(1, DIFFERENCES // max(1, left.shape[1]))
    for start in range(0, len(rows), step):
        r, c = rows[start : start + step], columns[start : start + step]
        yield r, c, subtract(left[r], right[c])


def is_gaussian(kernel: Kernel) -> bool:
    """Return whether this is a Gaussian of the distance, also inside a counter."""
    inner = getattr(kernel, "kernel", kernel)
    return isinstance(inner, Stationary) and isinstance(inner.profile, Gaussian)


class StationaryColumns(Tiles):
    """Tiles of a stationary kernel: distances by one matrix product, then the profile in place.

    With x̃ = √|slope| (x - mean of Z) / length_scale and s the sign of the slope,

        u(x, z) = intercept + slope r²

    is the inner product of [x̃, |x̃|², 1] with [-2s z̃, s, s|z̃|² + intercept]: a single matrix
    product and no other pass over the tile. The shift by the mean of Z keeps the digits of data far
    from the origin. Rows in CSR form are never shifted nor made dense. Rows whose squares leave the
    range of the tile's type are computed in float64.
    """

    def __init__(self, kernel: Stationary, Z: Items, dtype: npt.DTypeLike) -> None:
        Z = as_points(Z)
        super().__init__(Z.shape[0], dtype)
        self._n_features = Z.shape[1]
        kernel.check_features(self._n_features)
        self._profile, self._variance = kernel.profile, kernel.variance
        slope = kernel.profile.slope
        self._steepness = kernel.profile.sensitivity(kernel.variance, 0.0).by_square
        self._intercept = kernel.profile.intercept(kernel.variance)
        self._sign = float(np.copysign(1.0, slope))
        # Rounding may leave r² a little below 0, and a profile that multiplies what grows by what
        # decays must not meet infinity.
        largest = float(np.finfo(self.dtype).max)
        self._range = (-largest, self._intercept) if slope < 0 else (self._intercept, largest)
        self._clipped = kernel.profile.clipped or self.dtype == np.float64
        self._scale = np.broadcast_to(
            np.sqrt(abs(slope)) / kernel.length_scale, (self._n_features,)
        )
        # A sparse Z, and an empty one, has no mean worth the dense vector it would make of a row.
        shifted = not is_sparse(Z) and self.n_columns > 0
        # On a line differences cost no more than a product, and are exact.
        self._unit = kernel.length_scale / float(np.sqrt(abs(slope)))
        on_line = self._n_features == 1 and not is_sparse(Z)
        self._line = Z[:, 0].astype(np.float64) if on_line else None
        self._mean = Z.mean(axis=0, dtype=np.float64) if shifted else np.zeros(self._n_features)
        self._origin = self._mean * self._scale  # what sparse rows, left unshifted, lack
        self._kernel, self._Z = kernel, Z
        placed = self._place(Z)
        self._in_double: StationaryColumns | None = None
        self._wide: Tile | None = None
        self._farthest = np.inf if self.dtype == np.float64 else largest / RANGE
        if out_of_range(placed, self.dtype).any():
            self._in_double = StationaryColumns(kernel, Z, np.float64)
            return
        self._along_origin = placed @ self._origin
        cast = self._cast(placed)
        self._Z_norms = squared_norms(cast)
        self._Z_terms = self._sign * self._Z_norms + self._intercept
        self._right = -2.0 * self._sign * cast.T
        if is_sparse(Z):
            self._right = self._right.tocsr().astype(self.dtype, copy=False)
            return
        padding = padding_columns(self.n_columns, self.dtype)
        wide = np.zeros((self._n_features + 2, self.n_columns + padding), self.dtype)
        wide[:-2, : self.n_columns] = self._right
        wide[-2, : self.n_columns] = self._sign
        wide[-1, : self.n_columns] = self._Z_terms
        wide[-1, self.n_columns :] = self._intercept
        self._right = wide[:, : self.n_columns]
        self._wide = None if on_line else wide

    def __call__(self, A: Items, out: Tile | None = None, fall: Tile | None = None) -> Tile:
        """Return the block k(A, Z); also write -2 dk/dr², unless `fall` is None."""
        out = self.buffer(n_items(A), out)
        if self._line is not None and not is_sparse(A):
            return self._on_line(A, self._line, out)
        if self._in_double is not None:
            out[:] = self._in_double(A)
            return out
        placed = self._place(A)
        cast = self._cast(placed)
        norms = squared_norms(cast)
        far = norms > self._farthest
        if far.any():
            A = as_points(A)
            out[~far] = self(A[~far])
            out[far] = StationaryColumns(self._kernel, self._Z, np.float64)(A[far])
            if fall is not None:
                fall[:] = self._variance * self._profile.fall(self._kernel._scaled(A, self._Z)[2])
            return out
        if self._wide is None or not isinstance(cast, np.ndarray):
            norms = self._write_sparse(placed, cast, norms, out)
        else:
            np.matmul(self._left(cast, norms), self._right, out=out)
        given = self._spoilt_rows(A, norms)
        for rows in self._pieces(len(out)):
            u = out[rows]
            if given is not None:
                self._restore(u, given[rows], norms[rows])
            self._apply(u, given is None, None if fall is None else fall[rows])
        return out

    def knows_fall(self, n_outputs: int) -> bool:
        """Return whether distances are one product, and outputs few enough for `pull`."""
        return self._wide is not None and n_outputs <= FEW_OUTPUTS

    def with_fall(self, A: Floats, out: Tile) -> Tile:
        """Write the block k(A, Z); return -2 dk/dr², which is that block for a Gaussian."""
        if self._profile.is_own_fall:
            return self(A, out)
        fall = np.empty_like(out)
        self(A, out, fall)
        return fall

    def pull(self, A: Floats, fall: Tile, left: Tile, right: Tile) -> Floats:
        """Return ∂E/∂Z from ∂E/∂k(A, Z) = left right', from thin products alone.

        Of each output W = uv': M = W ∘ F of `Stationary.points` has M'[a, 1] = v ∘ F'(u ∘ [a, 1]).
        """
        placed = self._place(A)
        a = placed if out_of_range(placed, self.dtype).any() else self._cast(placed)
        z = self._cast(self._place(self._Z))
        gradient = np.zeros(z.shape)
        for u, v in zip(left.T, right.T, strict=True):
            sums = np.concatenate([u[:, None] * a, u[:, None]], axis=1).T @ fall
            gradient += v[:, None] * (sums[:-1].T - sums[-1][:, None] * z)
        gradient *= self._scale / abs(self._profile.slope)
        return gradient

    def pieces(self, A: Items, height: int) -> Iterator[tuple[slice, Tile]]:
        """Yield rows and k(A[rows], Z); all rows are placed at once, tiles share their memory."""
        cast = None if self._wide is None else self._cast(self._place(A))
        norms = np.array([np.inf]) if cast is None else squared_norms(cast)
        beyond = bool((norms > self._farthest).any())
        if self._wide is None or not isinstance(cast, np.ndarray) or beyond:
            # Where u is not one product for all rows.
            yield from super().pieces(A, height)
            return
        left = self._left(cast, norms)
        self.count(len(left))
        given = self._spoilt_rows(A, norms)
        scratch = np.empty((min(height, len(left)), self._wide.shape[1]), self.dtype)
        for start in range(0, len(left), height):
            rows = slice(start, min(start + height, len(left)))
            u = scratch[: rows.stop - start]
            np.matmul(left[rows], self._wide, out=u)
            tile = u[:, : self.n_columns]
            if given is not None:
                self._restore(tile, given[rows], norms[rows])
            self._apply(u, near=given is None)
            yield rows, tile

    def _cast(self, placed: Any) -> Any:
        """Return placed rows in the type of the tile; what it cannot hold is infinite there."""
        if self.dtype == np.float64:
            return placed
        with np.errstate(over="ignore"):
            return placed.astype(self.dtype)

    def _left(self, cast: Tile, norms: Vector) -> Tile:
        """Return [x̃, |x̃|², 1]."""
        left = np.empty((len(cast), self._n_features + 2), self.dtype)
        left[:, :-2] = cast
        left[:, -2] = norms
        left[:, -1] = 1.0
        return left

    def _spoilt_rows(self, A: Items, norms: Vector) -> Any:
        """Return A where cancellation may have spoilt distances to its rows; otherwise None."""
        kinked = self._profile.kinked
        restored = kinked or cancels(norms, self._Z_norms, self.dtype, self._steepness)
        return as_points(A) if restored else None

    def _apply(self, u: Tile, near: bool, fall: Tile | None = None) -> None:
        """Turn u into values, in place; `near` says that no distance to these rows cancels.

        Also write -2 dk/dr², unless `fall` is None.
        """
        if self._clipped and not (near and self._is_within_range(u)):
            np.clip(u, *self._range, out=u)
        if fall is None:
            self._profile.apply(u, self._variance)
        else:
            self._profile.apply_with_fall(u, fall, self._variance)

    def _is_within_range(self, u: Tile) -> bool:
        """Return whether u of near points needs no clipping: it takes half the time of a clip.

        Where nothing cancels, points are few length scales apart: u can leave its range at r = 0
        only. Of a profile that is nearly flat, they may be any number of length scales apart.
        """
        if not self._steepness > UNIT:
            return False
        if self._sign < 0:
            return bool(u.max(initial=-np.inf) <= self._intercept)
        return bool(u.min(initial=np.inf) >= self._intercept)

    def _on_line(self, A: Items, line: Vector, out: Tile) -> Tile:
        """Write the block of one feature, in float64 whatever the type of the tile."""
        A = as_points(A)
        check_same_features(A, 1)
        for rows in self._pieces(len(out)):
            u = np.subtract.outer(A[rows, 0].astype(np.float64), line)
            u /= self._unit
            np.square(u, out=u)
            if self._sign < 0:
                np.negative(u, out=u)
            u += self._intercept
            np.clip(u, *self._range, out=u)
            self._profile.apply(u, self._variance)
            out[rows] = u
        return out

    def _pieces(self, n_rows: int) -> Iterator[slice]:
        step = max(1, PIECE // max(1, self.n_columns))
        for start in range(0, n_rows, step):
            yield slice(start, start + step)

    def _place(self, A: Items) -> Any:
        """Return the rows of A in float64, scaled, and shifted when they are dense."""
        if type(A) is not np.ndarray or A.dtype.kind != "f" or A.ndim != 2:
            A = as_points(A)
        if A.shape[1] != self._n_features:
            check_same_features(A, self._n_features)
        if not isinstance(A, np.ndarray):
            scaled = A.data * self._scale[A.indices]
            return sparse.csr_array((scaled, A.indices, A.indptr), shape=A.shape)
        placed = np.subtract(A, self._mean, dtype=np.float64)
        placed *= self._scale
        return placed

    def _write_sparse(self, placed: Any, cast: Any, norms: Vector, out: Tile) -> Vector:
        """Write u where one side is sparse; return |x̃|² and what else may cancel."""
        right = self._right if is_sparse(self._right) else self._right[:-2]
        terms = self._Z_terms
        if is_sparse(cast):
            # |x̃ - o|² for the origin o that dense rows are measured from, without forming x̃ - o.
            beyond = float(self._origin @ self._origin)
            shifted = norms - 2.0 * (placed @ self._origin) + beyond
            terms = terms + 2.0 * self._sign * self._along_origin
        else:
            beyond, shifted = 0.0, norms
        product_into(cast, right, out)
        out += terms.astype(self.dtype)
        out += (self._sign * shifted).astype(self.dtype)[:, np.newaxis]
        return np.asarray(norms + beyond)

    def _restore(self, u: Tile, A: Any, norms: Vector) -> None:
        """Recompute from differences the entries of `u` that cancellation has spoilt."""
        entries = self._spoilt(u, CANCELLED * norms, CANCELLED * self._Z_norms)
        for rows, columns, differences in spoilt_differences(
            entries, A, self._Z, self._differences
        ):
            u[rows, columns] = self._intercept + self._sign * squared_norms(differences)

    def _spoilt(self, u: Tile, left: Vector, right: Vector) -> tuple[Indices, ...]:
        """Return where t = ±(u - intercept) is at most left + right.

        The largest limit finds candidates in one pass. Where they are few, their own limits decide.
        """
        # Negated throughout, so that inf - inf counts as spoilt too.
        largest = self._intercept + self._sign * (left.max(initial=0.0) + right.max(initial=0.0))
        candidates = ~(u > largest if self._sign > 0 else u < largest)
        if np.count_nonzero(candidates) * FEW > u.size:
            t = u if self._sign > 0 and not self._intercept else self._sign * (u - self._intercept)
            return entries_of(~(t > np.add.outer(left, right)))
        rows, columns = entries_of(candidates)
        t = self._sign * (u[rows, columns] - self._intercept)
        spoilt = ~(t > left[rows] + right[columns])
        return rows[spoilt], columns[spoilt]

    def _differences(self, left: Any, right: Any) -> Any:
        """Return scaled differences of rows as they were given: shifted ones have lost digits."""
        if is_sparse(left) and is_sparse(right):
            return self._place(left.astype(np.float64) - right)
        dense = (X.toarray() if is_sparse(X) else X for X in (left, right))
        differences: Floats = np.subtract(*dense, dtype=np.float64)
        differences *= self._scale
        return differences
