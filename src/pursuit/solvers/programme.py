"""A convex quadratic programme with bounds and a few equalities: data and both objectives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pursuit._types import Floats
from pursuit.linalg import Factor, TallMatrix, Workers

Mask = NDArray[np.bool_]
LowRank = NDArray[Any] | Callable[[slice], NDArray[Any]] | Factor

_INSIDE = 0.1


@dataclass(frozen=True)
class Programme:
    """Minimise ½a'(VV' + diag(δ))a + c'a over l ≤ a ≤ u with Ea = e.

    Attributes
    ----------
    V : Factor
        V.
    diagonal, linear, lower, upper : arrays of shape (m,)
        δ, c, l and u.
    equality : array of shape (q, m)
        E.
    value : array of shape (q,)
        e.
    moving, below, above : arrays of bool of shape (m,)
        Variables that may change, l < u, and which of them have a lower and an upper bound.
    """

    V: Factor
    diagonal: Floats
    linear: Floats
    lower: Floats
    upper: Floats
    equality: Floats
    value: Floats
    moving: Mask
    below: Mask
    above: Mask

    @classmethod
    def build(
        cls,
        V: LowRank,
        diagonal: ArrayLike,
        linear: ArrayLike,
        lower: ArrayLike,
        upper: ArrayLike,
        equality: ArrayLike | None,
        equality_value: ArrayLike,
        workers: Workers,
    ) -> Programme:
        """Checked, and broadcast to one entry a variable."""
        c = np.asarray(linear, dtype=np.float64)
        m = len(c)
        if isinstance(V, np.ndarray) and len(V) != m:
            raise ValueError(f"V has {len(V)} rows, but linear has {m} entries.")
        factor = TallMatrix(V, m, workers) if isinstance(V, np.ndarray) or callable(V) else V
        delta, low, high = (
            np.array(np.broadcast_to(np.asarray(given, dtype=np.float64), m))
            for given in (diagonal, lower, upper)
        )
        if not np.all(low <= high):
            raise ValueError("lower must not exceed upper.")
        moving = low < high
        below, above = moving & np.isfinite(low), moving & np.isfinite(high)
        if np.any((delta < 0.0) | ((delta == 0.0) & moving & ~below & ~above)):
            raise ValueError(
                "diagonal must not be negative, and positive for variables without bounds."
            )
        E = np.zeros((0, m)) if equality is None else np.atleast_2d(equality).astype(np.float64)
        e = np.array(np.broadcast_to(np.asarray(equality_value, dtype=np.float64), len(E)))
        return cls(factor, delta, c, low, high, E, e, moving, below, above)

    def primal(self, a: Floats, coordinates: Floats) -> float:
        """The objective, from a and V'a."""
        square = coordinates @ coordinates + self.diagonal @ a**2
        return float(0.5 * square + self.linear @ a)

    def dual(self, coordinates: Floats, fitted: Floats, multipliers: Floats) -> tuple[float, float]:
        """The dual function of (V'a, λ), given VV'a.

        -½‖V'a‖² - λ'e + Σ_i min {½δ_i t² + h_i t : l_i ≤ t ≤ u_i},  h = VV'a + c + E'λ.

        Where a minimum is -∞, h_i is taken for zero; the second number returned is the largest
        |h_i| of these, as a share of the largest of its terms.
        """
        h = fitted + self.linear + multipliers @ self.equality
        at = np.where(h > 0.0, self.lower, self.upper)
        curved = self.diagonal > 0.0
        at[curved] = np.clip(-h / np.where(curved, self.diagonal, 1.0), self.lower, self.upper)[
            curved
        ]
        endless = np.isinf(at)
        at[endless] = 0.0
        least = (0.5 * self.diagonal * at + h) @ at
        square = coordinates @ coordinates
        value = least - 0.5 * square - multipliers @ self.value
        scale = max(np.abs(fitted).max(initial=0.0), np.abs(self.linear).max(initial=0.0))
        violation = np.abs(h[endless]).max(initial=0.0)
        return float(value), float(violation / scale if scale > 0.0 else violation)

    def equality_residual(self, a: Floats) -> tuple[Floats, Floats]:
        """Ea - e, and the size of the terms it is made of."""
        terms = np.abs(self.equality) @ np.abs(a) + np.abs(self.value)
        return self.equality @ a - self.value, terms

    def inside(self, start: Floats | None) -> Floats:
        """The guess, or the middle of the box, kept a tenth of the box's width from its bounds.

        Where there is one bound only, a natural size of the solution stands for the width.
        """
        both = self.below & self.above
        width = np.zeros(len(both))
        width[both] = self.upper[both] - self.lower[both]
        lone = (self.below | self.above) & ~both
        if lone.any():
            width[lone] = self._size() / (1.0 if start is not None else _INSIDE)
        a = np.zeros(len(width)) if start is None else np.array(start, dtype=np.float64)
        if start is None:
            a[both] = self.lower[both] + 0.5 * width[both]
        np.maximum(a, self.lower + _INSIDE * width, out=a, where=self.below)
        np.minimum(a, self.upper - _INSIDE * width, out=a, where=self.above)
        return np.where(self.moving, a, self.lower)

    def steepest(self) -> tuple[float, float]:
        """Length of the step from 0 to the minimum along -c, and the decrease: ½(c'c)²/c'Qc.

        Where nothing bends, both are infinite.
        """
        c = self.linear
        image = self.V.transposed_times(c[:, None])
        curvature = float(np.sum(image**2) + self.diagonal @ c**2)
        if curvature == 0.0:
            return np.inf, np.inf
        length = float(c @ c) / curvature
        return length, 0.5 * length * float(c @ c)

    def _size(self) -> float:
        """Size of the entries of the minimiser along c, or of the smallest solution of Ea = e."""
        length, _ = self.steepest()
        along = length * np.sqrt(np.mean(self.linear**2)) if np.isfinite(length) else 0.0
        origin = np.where(np.isfinite(self.lower), self.lower, 0.0)
        smallest = np.linalg.lstsq(self.equality, self.value - self.equality @ origin)[0]
        size = max(along, np.sqrt(np.mean(smallest**2)))
        return float(size) if size > 0.0 else 1.0
