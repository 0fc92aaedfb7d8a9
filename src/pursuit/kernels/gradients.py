"""Derivatives of kernels, contracted: never an array of tile size times the number of features.

A `Gradient` node mirrors a scikit-learn kernel. Given W = ∂E/∂k(A, B) for some number E, it returns
the derivatives of E with respect to the kernel's free hyper-parameters (their logarithms, in
scikit-learn's order) and to the points B. Imports NumPy and scikit-learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process import kernels as gp

from pursuit._types import Floats
from pursuit.kernels.base import Kernel, Tile
from pursuit.kernels.compile import compile_kernel

_ZERO_DISTANCE = 1e-12


class Pullback(Protocol):
    """Derivatives of E from W = ∂E/∂k(A, B)."""

    def theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """∂E/∂θ, θ being the free hyper-parameters as in scikit-learn's ``kernel.theta``."""
        ...

    def points(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """∂E/∂B, of the shape of B."""
        ...


def kernel_gradient(kernel: Any) -> Pullback | None:
    """The derivatives of a scikit-learn kernel, or None where it holds a part we do not know.

    White terms are noise and have no entry in θ here: see :func:`without_white`.
    """
    kind = type(kernel)  # exactly: a subclass may have another formula
    if kind in (gp.Sum, gp.Product):
        parts = kernel_gradient(kernel.k1), kernel_gradient(kernel.k2)
        if parts[0] is None or parts[1] is None:
            return None
        if kind is gp.Sum:
            return SumGradient((parts[0], parts[1]))
        for factor, other, first in ((parts[0], parts[1], True), (parts[1], parts[0], False)):
            if isinstance(factor, ConstantGradient):
                scaled = compile_kernel(kernel.k2 if first else kernel.k1)[0]
                return ScaledGradient(factor, other, scaled, first)
        values = compile_kernel(kernel.k1)[0], compile_kernel(kernel.k2)[0]
        return ProductGradient((parts[0], parts[1]), values)
    if kind is gp.Exponentiation:
        inner = kernel_gradient(kernel.kernel)
        if inner is None:
            return None
        return PowerGradient(inner, compile_kernel(kernel.kernel)[0], float(kernel.exponent))
    if kind is gp.ConstantKernel:
        return ConstantGradient(float(kernel.constant_value), _free(kernel, "constant_value"))
    if kind is gp.DotProduct:
        return DotGradient(float(kernel.sigma_0), _free(kernel, "sigma_0"))
    if kind is gp.RationalQuadratic:
        scale = np.atleast_1d(np.asarray(kernel.length_scale, dtype=float))
        return StationaryGradient(
            float(kernel.alpha), scale, _free(kernel, "length_scale"), _free(kernel, "alpha")
        )
    if kind in (gp.RBF, gp.Matern):
        nu = float(kernel.nu) if kind is gp.Matern else np.inf
        if nu not in SLOPES:
            return None
        scale = np.atleast_1d(np.asarray(kernel.length_scale, dtype=float))
        return StationaryGradient(nu, scale, _free(kernel, "length_scale"), None)
    return None


def _free(kernel: Any, name: str) -> bool:
    return not getattr(kernel, f"hyperparameter_{name}").fixed


def without_white(kernel: Any) -> tuple[Any, list[Any]]:
    """The kernel less its White terms, and these terms; None for the kernel if nothing is left."""
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


def _gaussian_slope(D: Floats) -> Floats:
    return np.exp(-0.5 * D)


def _matern12_slope(D: Floats) -> Floats:
    r = np.sqrt(D)
    # The derivative times (x - z) vanishes where x = z; 1/r would be infinite there.
    return np.divide(np.exp(-r), r, out=np.zeros_like(r), where=r > _ZERO_DISTANCE**0.5)


def _matern32_slope(D: Floats) -> Floats:
    return 3.0 * np.exp(-np.sqrt(3.0 * D))


def _matern52_slope(D: Floats) -> Floats:
    a = np.sqrt(5.0 * D)
    return (5.0 / 3.0) * (1.0 + a) * np.exp(-a)


SLOPES = {0.5: _matern12_slope, 1.5: _matern32_slope, 2.5: _matern52_slope, np.inf: _gaussian_slope}
"""h = -2 dk/dr² as a function of r², by the Matérn parameter ν."""


@dataclass(frozen=True)
class StationaryGradient:
    """k = profile(r²), r² = Σ_j (a_j - b_j)²/ℓ_j².

    With M = W ∘ h, h = -2 dk/dr², and scaled coordinates a, b::

        ∂E/∂log ℓ_j = Σ M (a_j - b_j)²  =  M1·a_j² + M'1·b_j² - 2 a_j'M b_j
        ∂E/∂b       = (M'a - (M'1) b) / ℓ

    so two thin products serve all features. ``shape`` is ν of a Matérn kernel, or the α of a
    rational quadratic one when ``alpha_free`` is not None.
    """

    shape: float
    scale: Floats
    scale_free: bool
    alpha_free: bool | None

    def theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Entries for α, then for the length scales, where they are free."""
        a, b, D = self._distances(A, B)
        entries = []
        if self.alpha_free:
            u = D / (2.0 * self.shape)
            log_u = np.log1p(u)
            k = np.exp(-self.shape * log_u)
            entries.append([self.shape * float(np.vdot(W, k * (u / (1.0 + u) - log_u)))])
        if self.scale_free:
            M = W * self._slope(D)
            per_feature = (
                M.sum(axis=1) @ a**2 + M.sum(axis=0) @ b**2 - 2.0 * np.einsum("ij,ij->j", a, M @ b)
            )
            entries.append(per_feature if len(self.scale) > 1 else [float(per_feature.sum())])
        return np.concatenate([np.asarray(e, dtype=float) for e in entries] or [np.empty(0)])

    def points(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """(M'a - (M'1) b) / ℓ; a float32 W makes all of it float32."""
        a, b, D = self._distances(A, B, W.dtype)
        M = W * self._slope(D)
        gradient: Floats = (M.T @ a - M.sum(axis=0)[:, None] * b) / self.scale
        return gradient

    def _slope(self, D: Floats) -> Floats:
        if self.alpha_free is not None:
            slope: Floats = np.exp(-(self.shape + 1.0) * np.log1p(D / (2.0 * self.shape)))
            return slope
        return SLOPES[self.shape](D)

    def _distances(
        self, A: Floats, B: Floats, dtype: npt.DTypeLike = np.float64
    ) -> tuple[Floats, Floats, Floats]:
        """Scaled and centred coordinates, and r²; centred first, so that float32 loses little."""
        centre = B.mean(axis=0)
        a, b = (np.asarray((X - centre) / self.scale, dtype=dtype) for X in (A, B))
        D = a @ b.T
        D *= -2.0
        norms = np.einsum("ij,ij->i", a, a), np.einsum("ij,ij->i", b, b)
        D += norms[0][:, None]
        D += norms[1]
        # What cancellation leaves of a zero distance is not a distance.
        least = max(_ZERO_DISTANCE, 8.0 * float(np.finfo(D.dtype).eps))
        rounding = least * (norms[0].max(initial=0.0) + norms[1].max(initial=0.0))
        D[rounding > D] = 0.0
        return a, b, D


@dataclass(frozen=True)
class ConstantGradient:
    """k = c."""

    value: float
    free: bool

    def theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """c ΣW."""
        return np.array([self.value * float(W.sum())]) if self.free else np.empty(0)

    def points(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Nothing moves a constant."""
        return np.zeros(B.shape)


@dataclass(frozen=True)
class DotGradient:
    """k = σ₀² + a'b."""

    sigma_0: float
    free: bool

    def theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """2σ₀² ΣW."""
        return np.array([2.0 * self.sigma_0**2 * float(W.sum())]) if self.free else np.empty(0)

    def points(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """W'A."""
        gradient: Floats = W.T @ A
        return gradient


@dataclass(frozen=True)
class SumGradient:
    """k = k₁ + k₂."""

    parts: tuple[Pullback, Pullback]

    def theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Entries of both terms."""
        return np.concatenate([part.theta(A, B, W) for part in self.parts])

    def points(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Sum of both."""
        return self.parts[0].points(A, B, W) + self.parts[1].points(A, B, W)


@dataclass(frozen=True)
class ScaledGradient:
    """k = c k₁, the commonest product, without tiles it does not need."""

    constant: ConstantGradient
    part: Pullback
    value: Kernel
    constant_first: bool

    def theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Entries of both factors, in their order."""
        product = 0.0
        if self.constant.free:
            product = self.constant.value * float(np.vdot(W, self.value.tile(A, B)))
        return self.join(product, self.inner_theta(A, B, W))

    def inner_theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Entries of k₁ alone."""
        return self.part.theta(A, B, self.constant.value * W)

    def join(self, product: float, inner: Floats) -> Floats:
        """Put the entry for log c, which is ΣW∘k, before or after those of k₁."""
        entries = [np.full(int(self.constant.free), product), inner]
        return np.concatenate(entries if self.constant_first else entries[::-1])

    def points(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Those of k₁, times c."""
        return self.constant.value * self.part.points(A, B, W)


@dataclass(frozen=True)
class ProductGradient:
    """k = k₁k₂: each factor sees W times the other."""

    parts: tuple[Pullback, Pullback]
    values: tuple[Kernel, Kernel]

    def theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Entries of both factors."""
        first, second = self._weights(A, B, W)
        return np.concatenate([self.parts[0].theta(A, B, first), self.parts[1].theta(A, B, second)])

    def points(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Sum of both."""
        first, second = self._weights(A, B, W)
        return self.parts[0].points(A, B, first) + self.parts[1].points(A, B, second)

    def _weights(self, A: Floats, B: Floats, W: Tile) -> tuple[Tile, Tile]:
        return W * self.values[1].tile(A, B), W * self.values[0].tile(A, B)


@dataclass(frozen=True)
class PowerGradient:
    """k = k₁^p."""

    part: Pullback
    value: Kernel
    exponent: float

    def theta(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Entries of the base."""
        return self.part.theta(A, B, self._weights(A, B, W))

    def points(self, A: Floats, B: Floats, W: Tile) -> Floats:
        """Those of the base."""
        return self.part.points(A, B, self._weights(A, B, W))

    def _weights(self, A: Floats, B: Floats, W: Tile) -> Tile:
        weights: Tile = W * self.exponent * self.value.tile(A, B) ** (self.exponent - 1.0)
        return weights
