"""The Matérn profile of any order ν > 0.

    k_ν(a) = 2^(1-ν)/Γ(ν) · a^ν K_ν(a),    a = √(2ν) r,

with the modified Bessel function K_ν, is a polynomial times exp(-a) where ν is half an odd number
(DLMF 10.49.12), and has an expansion that is uniform in a where ν is large (DLMF 10.41.4). Formulas
of orders 1/2, 3/2 and 5/2, which most kernels have, are in `stationary.py`. Imports NumPy and SciPy
only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import factorial, gamma

import numpy as np
from numpy.polynomial import Polynomial
from numpy.polynomial.polynomial import polyval
from scipy.special import kve

from pursuit._types import Floats
from pursuit.kernels.base import FUNCTION, Tile
from pursuit.kernels.stationary import MIXED, Profile, Sensitivity
from pursuit.rounding import UNIT

LARGE_ORDER = 30.0
"""Order from which the uniform expansion is taken. Smaller: it loses digits; larger: Bessel
functions of short distances overflow."""

EXPANSION_TERMS = 9
"""Terms of the uniform expansion; their error at order 30 is below 1e-14."""

SMALLEST, LARGEST = 1e-8, 1000.0
"""Beyond these values of a the correlation is 1 (for orders from 1 on) and 0, and parts of the
formulas would overflow."""

BESSEL, EXPANSION = 4096.0 * UNIT, 256.0 * UNIT
"""Errors that are assumed of correlations by Bessel functions and by the uniform expansion. The
largest of 70,000 values of random orders were 610 and 30 units, against 30 digits."""


@dataclass(frozen=True)
class Matern(Profile):
    """2^(1-ν)/Γ(ν) a^ν K_ν(a) with a = √(2ν) r, from u = a²."""

    nu: float

    def __post_init__(self) -> None:
        if not 0.0 < self.nu < np.inf:
            raise ValueError(f"nu must be positive, got {self.nu}.")

    @property
    def slope(self) -> float:
        """2ν."""
        return 2.0 * self.nu

    @property
    def kinked(self) -> bool:
        """True up to order 1: near 0 the profile falls as r^(2ν)."""
        return self.nu <= 1.0

    def apply(self, u: Tile, variance: float) -> None:
        """Take variance · k_ν(√u)."""
        np.multiply(variance, correlation(self.nu, np.sqrt(u, dtype=np.float64)), out=u)

    def fall(self, D: Floats) -> Floats:
        """Return ν/(ν-1) k_(ν-1)(a), which is 2ν 2^(1-ν)/Γ(ν) a^(ν-1) K_(ν-1)(a) below order 1.

        The second is infinite at r = 0, where 0 is returned: there it is multiplied by x - z = 0.
        """
        nu, a = self.nu, np.sqrt(2.0 * self.nu * D, dtype=np.float64)
        if nu > 1.0:
            return nu / (nu - 1.0) * correlation(nu - 1.0, a)
        fall = np.zeros_like(a)
        inside = (a > 0.0) & (a < LARGEST)
        near = np.maximum(a[inside], SMALLEST**16)
        factor = 2.0 * nu * 2.0 ** (1.0 - nu) / gamma(nu)
        fall[inside] = factor * near ** (nu - 1.0) * kve(nu - 1.0, near) * np.exp(-near)
        return fall

    def sensitivity(self, variance: float, farthest: float) -> Sensitivity:
        """Return that of k_ν, whose derivative by t = a² is -k_(ν-1)/(4(ν - 1)) above order 1.

        The derivative by a is at most 1 from order 1/2 on. Below order 1, correlations of
        0 < a < 10⁻¹²⁸ are taken for those at the upper end, which are about 1 - (a/2)^(2ν).
        """
        square = 0.25 / (self.nu - 1.0) if self.nu > 1.0 else np.inf
        formula = 2.0 * UNIT + error(self.nu)
        return Sensitivity(square, 1.0 if self.nu >= 0.5 else np.inf, MIXED, formula)


def correlation(nu: float, a: Floats) -> Floats:
    """Return k_ν(a)."""
    if nu >= LARGE_ORDER:
        return _uniform(nu, a)
    near = np.minimum(a, LARGEST)
    if is_half_integer(nu):
        values: Floats = np.asarray(polyval(near, half_integer(int(nu - 0.5))), np.float64)
        values *= np.exp(-near)
        return values
    # Below order 1 the correlation falls from 1 long before a reaches the smallest value.
    np.maximum(near, SMALLEST if nu >= 1.0 else SMALLEST**16, out=near)
    values = np.asarray(kve(nu, near), np.float64)
    values *= np.exp(-near)
    np.power(near, nu, out=near)
    values *= near
    values *= 2.0 ** (1.0 - nu) / gamma(nu)
    values[a == 0.0] = 1.0
    return values


def error(nu: float) -> float:
    """Return a bound on the rounding error of `correlation`."""
    if nu >= LARGE_ORDER:
        return EXPANSION
    if is_half_integer(nu):
        return FUNCTION + (2.0 * nu + 8.0) * UNIT
    return BESSEL + (1.1 * SMALLEST ** (32.0 * nu) if nu < 1.0 else 0.0)


def is_half_integer(nu: float) -> bool:
    """Return whether the order is p + 1/2 for a whole p, and small enough for its polynomial."""
    return nu < LARGE_ORDER and (nu - 0.5) % 1.0 == 0.0


@cache
def half_integer(p: int) -> Floats:
    """Return the coefficients of the polynomial of order p + 1/2, from the constant one on."""
    return np.array(
        [
            factorial(p)
            * factorial(2 * p - j)
            * 2**j
            / (factorial(2 * p) * factorial(p - j) * factorial(j))
            for j in range(p + 1)
        ]
    )


def _uniform(nu: float, a: Floats) -> Floats:
    """Return k_ν(a) by the uniform expansion of K_ν(νz), divided by its value at 0.

    With s = √(1 + z²) this is

        exp(ν (log((1 + s)/2) - (s - 1))) s^(-1/2) Σ_k (-1)^k U_k(1/s)/ν^k.
    """
    square = np.square(a / nu)
    s = np.sqrt(1.0 + square)
    excess = square / (1.0 + s)
    exponent = nu * (np.log1p(0.5 * excess) - excess)
    series = sum(
        (term * (-1.0 / nu) ** k for k, term in enumerate(_debye())), start=Polynomial([0.0])
    )
    values: Floats = np.exp(exponent) / np.sqrt(s) * series(1.0 / s) / series(1.0)
    return values


@cache
def _debye() -> list[Polynomial]:
    """Return the polynomials U_k (DLMF 10.41.9)."""
    terms = [Polynomial([1.0])]
    growth, weight = Polynomial([0.0, 0.0, 0.5, 0.0, -0.5]), Polynomial([0.125, 0.0, -0.625])
    for _ in range(EXPANSION_TERMS - 1):
        last = terms[-1]
        terms.append(growth * last.deriv() + (weight * last).integ())
    return terms
