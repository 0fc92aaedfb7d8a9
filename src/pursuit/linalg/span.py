"""The regularised least-squares solution in the span of chosen basis functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf

from pursuit._types import Floats

LOST_DIGITS = 1e-4
"""The share of σ² that rounding may reach before V'WV is summed anew from whitened rows."""


def gram_rounding(R: Floats, largest: float, noise: float, dtype: DTypeLike = np.float64) -> float:
    """About what rounding in K_S'WK_S, blown up by R⁻¹ on both sides, is beside σ²."""
    if len(R) == 0:
        return 0.0
    rounding = float(np.finfo(dtype).eps) * largest * np.sqrt(len(R))
    return float(rounding / (noise * float(np.diag(R).min()) ** 2))


def _solve_lower(L: Floats, rhs: Floats, *, transposed: bool = False) -> Floats:
    if len(L) == 0:
        return rhs
    solution: Floats = solve_triangular(
        L, rhs, lower=True, trans="T" if transposed else "N", check_finite=False
    )
    return solution


@dataclass(frozen=True)
class SpanSolution:
    """Minimiser of ½‖y - Vu‖² + ½σ²‖u‖² with V = K_S R⁻ᵀ, and all its truncations (Formulas §4).

    ``R R' = K_SS``, ``L L' = V'WV + σ²I`` and ``z = L⁻¹V'Wy``. Leading blocks of R, L and z belong
    to the first basis functions alone, so the model with n of them is a slice of this one.

    Attributes
    ----------
    R, L : arrays of shape (n, n)
        Lower-triangular factors.
    z : array of shape (n, n_outputs)
        The objective is P = ½y'Wy - ½‖z‖².
    noise : float
        σ².
    """

    R: Floats
    L: Floats
    z: Floats
    noise: float

    @classmethod
    def from_gram(cls, R: Floats, gram: Floats, cross: Floats, noise: float) -> SpanSolution:
        """From K_S'WK_S and K_S'Wy: whiten both with R, then solve."""
        half = _solve_lower(R, gram)
        whitened = _solve_lower(R, np.ascontiguousarray(half.T))
        return cls.from_whitened(R, whitened, _solve_lower(R, cross), noise)

    @classmethod
    def from_whitened(cls, R: Floats, gram: Floats, cross: Floats, noise: float) -> SpanSolution:
        """From V'WV and V'Wy."""
        if len(gram) == 0:
            return cls(R, gram, cross, noise)
        B = 0.5 * (gram + gram.T)
        B[np.diag_indices_from(B)] += noise
        L, info = dpotrf(B, lower=1, clean=1)
        if info != 0:
            raise ArithmeticError(
                f"V'WV + {noise:g} I lost positive definiteness to rounding at column {info - 1}."
            )
        L = np.asarray(L)
        return cls(R, L, _solve_lower(L, cross), noise)

    def rounding(self, dtype: DTypeLike = np.float64) -> float:
        """The share of σ² by which rounding may have changed V'WV, statistics summed in dtype."""
        inner = ((self.R @ self.L) ** 2).sum(axis=1) - self.noise * (self.R**2).sum(axis=1)
        largest = float(inner.max(initial=0.0))
        return min(gram_rounding(self.R, largest, self.noise, dtype), LOST_DIGITS)

    @property
    def size(self) -> int:
        """Number of basis functions."""
        return len(self.R)

    def truncated(self, n: int) -> SpanSolution:
        """The solution in the span of the first n basis functions."""
        return SpanSolution(
            self.R[:n, :n].copy(), self.L[:n, :n].copy(), self.z[:n].copy(), self.noise
        )

    def with_noise(self, noise: float) -> SpanSolution:
        """The solution for another σ²."""
        return SpanSolution.from_whitened(self.R, *self.whitened(), noise)

    def whitened(self) -> tuple[Floats, Floats]:
        """V'WV and V'Wy."""
        gram = self.L @ self.L.T
        gram[np.diag_indices_from(gram)] -= self.noise
        return gram, self.L @ self.z

    def plus(self, gram: Floats, cross: Floats) -> SpanSolution:
        """The solution with V'WV and V'Wy of further rows added."""
        own_gram, own_cross = self.whitened()
        return SpanSolution.from_whitened(self.R, own_gram + gram, own_cross + cross, self.noise)

    def emptied(self) -> SpanSolution:
        """The solution without any rows."""
        nothing = np.zeros_like(self.L)
        return SpanSolution.from_whitened(self.R, nothing, np.zeros_like(self.z), self.noise)

    def gains(self) -> Floats:
        """½z²: what each basis function took off the objective, per output."""
        return 0.5 * self.z**2

    def coordinates(self) -> Floats:
        """u = L⁻ᵀz, coefficients on the orthonormal functions V."""
        return _solve_lower(self.L, self.z, transposed=True)

    def coefficients(self) -> Floats:
        """β = R⁻ᵀu, coefficients on the kernel functions k(·, x_S)."""
        return _solve_lower(self.R, self.coordinates(), transposed=True)

    def squared_norms(self) -> Floats:
        """‖f‖² = ‖u‖² for each output."""
        norms: Floats = (self.coordinates() ** 2).sum(axis=0)
        return norms

    def solve_inner(self, cross: Floats) -> tuple[Floats, Floats]:
        """The fit to K_S'Wy = cross: its kernel coefficients β, and ‖f‖² for each column.

        u = (LL')⁻¹R⁻¹ cross and β = R⁻ᵀu; ‖f‖² = ‖u‖².
        """
        half = _solve_lower(self.L, _solve_lower(self.R, cross))
        u = _solve_lower(self.L, half, transposed=True)
        squares: Floats = np.einsum("ij,ij->j", u, u)
        return _solve_lower(self.R, u, transposed=True), squares

    def features(self, kernel_rows: Floats) -> Floats:
        """V_x' = R⁻¹ k_S(x)' for a block of rows k_S(x): shape (n, rows)."""
        return _solve_lower(self.R, kernel_rows.T)

    def rotated(self, features: Floats) -> Floats:
        """U_x = L⁻¹V_x: predictions with the first n functions are Σ_{j≤n} U_x[j] z[j]."""
        return _solve_lower(self.L, features)
