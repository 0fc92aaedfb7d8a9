"""Low rank plus a diagonal: its inverse times vectors, and what rounding costs."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf

from pursuit._types import Floats
from pursuit.linalg.tall import TallMatrix
from pursuit.linalg.workers import Workers


class Factor(Protocol):
    """V (m x n) known by its products; :class:`TallMatrix` is one."""

    @property
    def n_rows(self) -> int:
        """m."""
        ...

    @property
    def n_columns(self) -> int:
        """n."""
        ...

    def gram(self, weights: Floats, dtype: DTypeLike = np.float64) -> Floats:
        """V' diag(weights) V, its blocks multiplied in ``dtype``."""
        ...

    def times(self, coordinates: Floats) -> Floats:
        """V @ coordinates."""
        ...

    def transposed_times(self, vectors: Floats) -> Floats:
        """V' @ vectors."""
        ...


class LowRankPlusDiagonal:
    """M = VV' + D for V (m x n) and a positive diagonal D (Formulas §6).

    With LL' = I + V'D⁻¹V it is M⁻¹ρ = D⁻¹(ρ - Vp) for LL'p = V'D⁻¹ρ: O(mn²) once, O(mn) a product.

    V may be stored in float32; all sums are float64, so that M is symmetric and positive definite
    to float64's rounding for the V as it is stored.

    Parameters
    ----------
    V : array of shape (m, n), or Factor
        float64 or float32.
    diagonal : float or array of shape (m,)
        D; ∞ where nothing may change, so that a row of M⁻¹ is zero.
    workers : Workers
        Threads; their number does not change a bit of the result.
    dtype : float64 or float32
        In what V'D⁻¹V is multiplied; with float32 use :meth:`refined`, not :meth:`solve`.
    """

    def __init__(
        self,
        V: NDArray[Any] | Factor,
        diagonal: float | Floats,
        workers: Workers,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self._V = TallMatrix(V, len(V), workers) if isinstance(V, np.ndarray) else V
        self._inverse = np.broadcast_to(1.0 / np.asarray(diagonal), self._V.n_rows)
        inner = self._V.gram(self._inverse, dtype)
        inner[np.diag_indices_from(inner)] += 1.0
        L, info = dpotrf(inner, lower=1, clean=1, overwrite_a=1) if len(inner) else (inner, 0)
        if info != 0:
            raise ArithmeticError(
                f"I + V'D⁻¹V lost positive definiteness to rounding at column {info - 1}."
            )
        self._L = np.asarray(L)

    @property
    def rank(self) -> int:
        """n."""
        return self._V.n_columns

    def solve(self, rhs: Floats) -> Floats:
        """M⁻¹ @ rhs, for an array of shape (m, k)."""
        return self._expand(rhs, self.coordinates(rhs))

    def coordinates(self, rhs: Floats) -> Floats:
        """The p of least (ρ - Vp)'D⁻¹(ρ - Vp) + p'p for each column ρ: that minimum is ρ'M⁻¹ρ."""
        return self._inner(self._project(rhs))

    def refined(self, rhs: Floats, tol: float, max_steps: int) -> tuple[Floats, Floats, float]:
        """M⁻¹ @ rhs by iterative refinement.

        Returns x, V'x, and the share of it by which V'x and p still differ: they are equal where x
        is exact, and Vp - VV'x is the residual ρ - Mx. Stops when it is below ``tol``, when it no
        longer shrinks, and after ``max_steps``.
        """
        p = self.coordinates(rhs)
        x = self._expand(rhs, p)
        share = np.inf
        for step in range(max_steps + 1):
            seen = self._V.transposed_times(x)
            before, share = share, _share(p - seen, p)
            if share <= tol or share > 0.5 * before or step == max_steps:
                break
            p = p - self._inner(p - seen)
            x = self._expand(rhs, p)
        return x, seen, share

    def _project(self, rhs: Floats) -> Floats:
        return self._V.transposed_times(self._inverse[:, None] * rhs)

    def _inner(self, vectors: Floats) -> Floats:
        """(LL')⁻¹ @ vectors."""
        if not self.rank:
            return vectors
        half = solve_triangular(self._L, vectors, lower=True)
        inner: Floats = solve_triangular(self._L, half, lower=True, trans="T")
        return inner

    def _expand(self, rhs: Floats, p: Floats) -> Floats:
        result = rhs - self._V.times(p)
        result *= self._inverse[:, None]
        return result


def _share(part: Floats, whole: Floats) -> float:
    """Largest ratio of norms, column by column."""
    norms = np.linalg.norm(whole, axis=0)
    norms[norms == 0.0] = 1.0
    return float((np.linalg.norm(part, axis=0) / norms).max(initial=0.0))
