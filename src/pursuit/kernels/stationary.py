"""Kernels of the distance: a profile of r² times a variance.

    k(x, z) = variance · profile(r²),    r² = Σ_j (x_j - z_j)² / length_scale_j²

A `Profile` is the formula alone. It names the affine function u = intercept + slope r² it would
like to start from, which `Distances` delivers for the price of r² itself, and turns u into
variance · profile in place. Imports NumPy only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from pursuit.kernels.base import Items, Kernel, Tile, Vector, n_items, tile_buffer, tile_dtype
from pursuit.kernels.distances import Distances
from pursuit.kernels.points import as_points

# Entries a profile works on at a time. It bounds the scratch of large tiles; pieces much smaller
# than a tile of 128 x 2000 gain less from the cache than their calls cost two threads.
PIECE = 1 << 17


class Profile(Protocol):
    """A decreasing function of r², equal to 1 at r = 0."""

    @property
    def slope(self) -> float:
        """The factor of r² in u."""
        ...

    @property
    def kinked(self) -> bool:
        """True when linear in r near 0, where the rounding of r² would show as its square root."""
        ...

    def intercept(self, variance: float) -> float:
        """Return the value of u at r = 0."""
        ...

    def apply(self, u: Tile, variance: float) -> None:
        """Turn u into variance · profile(r²), in place."""
        ...


@dataclass(frozen=True)
class Gaussian:
    """exp(-r²/2), from u = log(variance) - r²/2."""

    slope: ClassVar[float] = -0.5
    kinked: ClassVar[bool] = False

    def intercept(self, variance: float) -> float:
        """Return log(variance): the factor costs no pass of its own."""
        return float(np.log(variance))

    def apply(self, u: Tile, variance: float) -> None:
        """Take exp(u)."""
        np.exp(u, out=u)


@dataclass(frozen=True)
class Matern12:
    """exp(-r), from u = r²."""

    slope: ClassVar[float] = 1.0
    kinked: ClassVar[bool] = True

    def intercept(self, variance: float) -> float:
        """Return 0."""
        return 0.0

    def apply(self, u: Tile, variance: float) -> None:
        """Take exp(log(variance) - √u)."""
        np.sqrt(u, out=u)
        np.subtract(float(np.log(variance)), u, out=u)
        np.exp(u, out=u)


@dataclass(frozen=True)
class Matern32:
    """(1 + a) exp(-a) with a = √3 r, from u = a²."""

    slope: ClassVar[float] = 3.0
    kinked: ClassVar[bool] = False

    def intercept(self, variance: float) -> float:
        """Return 0."""
        return 0.0

    def apply(self, u: Tile, variance: float) -> None:
        """Take (1 + √u) exp(log(variance) - √u)."""
        np.sqrt(u, out=u)
        decay = np.subtract(float(np.log(variance)), u)
        np.exp(decay, out=decay)
        u += 1.0
        u *= decay


@dataclass(frozen=True)
class Matern52:
    """(1 + a + a²/3) exp(-a) with a = √5 r, from u = a²."""

    slope: ClassVar[float] = 5.0
    kinked: ClassVar[bool] = False

    def intercept(self, variance: float) -> float:
        """Return 0."""
        return 0.0

    def apply(self, u: Tile, variance: float) -> None:
        """Take (1 + √u + u/3) exp(log(variance) - √u)."""
        a = np.sqrt(u)
        u /= 3.0
        u += a
        u += 1.0
        np.subtract(float(np.log(variance)), a, out=a)
        np.exp(a, out=a)
        u *= a


@dataclass(frozen=True)
class RationalQuadratic:
    """(1 + r²/(2α))^(-α), from u = 1 + r²/(2α)."""

    alpha: float
    kinked: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < np.inf:
            raise ValueError(f"alpha must be positive and finite, got {self.alpha}.")

    @property
    def slope(self) -> float:
        """1/(2α)."""
        return 0.5 / self.alpha

    def intercept(self, variance: float) -> float:
        """Return 1."""
        return 1.0

    def apply(self, u: Tile, variance: float) -> None:
        """Take variance · u^(-α)."""
        if self.alpha == 1.0:
            np.divide(variance, u, out=u)
            return
        # Twice as fast as a power, and as accurate: |α log u| is small wherever the result is not.
        np.log(u, out=u)
        u *= -self.alpha
        u += float(np.log(variance))
        np.exp(u, out=u)


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
    """

    profile: Profile
    length_scale: float | Vector = 1.0
    variance: float = 1.0

    def __post_init__(self) -> None:
        scales = np.asarray(self.length_scale)
        if not np.all((scales > 0) & np.isfinite(scales)):
            raise ValueError(f"length_scale must be positive and finite, got {self.length_scale}.")
        if not 0.0 < self.variance < np.inf:
            raise ValueError(f"variance must be positive and finite, got {self.variance}.")

    @property
    def positive_definite(self) -> bool:
        """True for every profile of this room."""
        return True

    def check_features(self, n_features: int) -> None:
        """Check that there is one length scale, or one per feature."""
        if np.ndim(self.length_scale) and np.size(self.length_scale) != n_features:
            raise ValueError(
                f"length_scale has {np.size(self.length_scale)} entries but n_features is "
                f"{n_features}: give one number, or one per feature."
            )

    def columns(self, Z: Items, dtype: npt.DTypeLike = np.float64) -> StationaryColumns:
        """Bind the kernel to the points Z."""
        return StationaryColumns(self, Z, tile_dtype(dtype))

    def diag(self, A: Items) -> Vector:
        """Return the variance, once per row of A."""
        A = as_points(A)
        self.check_features(A.shape[1])
        return np.full(A.shape[0], self.variance)


def is_gaussian(kernel: Kernel) -> bool:
    """Whether this is a Gaussian of the distance, also inside a counter."""
    inner = getattr(kernel, "kernel", kernel)
    return isinstance(inner, Stationary) and isinstance(inner.profile, Gaussian)


class StationaryColumns:
    """Tiles of a stationary kernel: distances by one matrix product, then the profile in place."""

    def __init__(self, kernel: Stationary, Z: Items, dtype: np.dtype[np.floating]) -> None:
        Z = as_points(Z)
        kernel.check_features(Z.shape[1])
        self._profile = kernel.profile
        self._variance = kernel.variance
        self._intercept = kernel.profile.intercept(kernel.variance)
        # Rounding may leave r² a little below 0, and a profile that multiplies what grows by what
        # decays must not meet infinity.
        largest = float(np.finfo(dtype).max)
        falling = kernel.profile.slope < 0
        self._range = (-largest, self._intercept) if falling else (self._intercept, largest)
        self._distances = Distances(
            Z,
            length_scale=kernel.length_scale,
            slope=kernel.profile.slope,
            intercept=self._intercept,
            dtype=dtype,
        )
        self.n_columns = self._distances.n_columns

    def __call__(self, A: Items, out: Tile | None = None) -> Tile:
        """Return the block k(A, Z)."""
        out = tile_buffer(out, n_items(A), self.n_columns, self._distances.dtype)
        placed = self._distances.place(A)
        norms = self._distances.write(placed, out)
        restored = self._profile.kinked or self._distances.cancels(norms)
        for rows in self._pieces(len(out)):
            u = out[rows]
            if restored:
                self._distances.restore(u, placed[rows], norms[rows])
            np.clip(u, *self._range, out=u)
            self._profile.apply(u, self._variance)
        return out

    def _pieces(self, n_rows: int) -> Iterator[slice]:
        step = max(1, PIECE // max(1, self.n_columns))
        for start in range(0, n_rows, step):
            yield slice(start, start + step)
