"""A convex quadratic programme, an interior point of it, and the directions that lead on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from pursuit._types import Floats
from pursuit.linalg import Factor, LowRankPlusDiagonal, TallMatrix, Workers

Mask = NDArray[np.bool_]
LowRank = NDArray[Any] | Callable[[slice], NDArray[Any]] | Factor

_INSIDE = 0.1


_POWER_STEPS = 3
_REFINEMENTS = 3
_ACCURACY = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 1e-4}
"""Required accuracy of directions. With float32 each refinement is a pass over V, and the gap that
is aimed at is rough."""
_LEAST_RISE = 1e-2
_LEAST_PRODUCT = 1e-4


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
        """Check the arguments, and broadcast them to one entry per variable."""
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

    def reach(self) -> float:
        """A bound on |c'a| in the box; infinite where the box is not bounded."""
        used = self.linear != 0.0
        farthest = np.maximum(np.abs(self.lower[used]), np.abs(self.upper[used]))
        return float(np.abs(self.linear[used]) @ farthest)

    def _size(self) -> float:
        """Size of the entries of the minimiser along c, or of the smallest solution of Ea = e."""
        length, _ = self.steepest()
        along = length * np.sqrt(np.mean(self.linear**2)) if np.isfinite(length) else 0.0
        origin = np.where(np.isfinite(self.lower), self.lower, 0.0)
        smallest = np.linalg.lstsq(self.equality, self.value - self.equality @ origin)[0]
        size = max(along, np.sqrt(np.mean(smallest**2)))
        return float(size) if size > 0.0 else 1.0


@dataclass(frozen=True)
class Iterate:
    """a with its slacks s = a - l and t = u - a, and the multipliers z, w ≥ 0 of these and λ of E.

    Where there is no bound the slack is 1 and its multiplier 0. ``coordinates`` is V'a and
    ``fitted`` VV'a.
    """

    a: Floats
    s: Floats
    t: Floats
    z: Floats
    w: Floats
    multipliers: Floats
    coordinates: Floats
    fitted: Floats

    @classmethod
    def at(cls, programme: Programme, a: Floats) -> Iterate:
        """At a point between the bounds.

        λ minimises ‖∇ + E'λ‖, and z - w is this gradient. Both z and w are raised by half its mean
        size, or by a share of the size of ∇ where there are as many equalities as variables and
        the gradient vanishes. Every product of a slack and its multiplier is at least 1e-4 of
        their mean: smaller ones would end the first steps at once.
        """
        below, above, moving = programme.below, programme.above, programme.moving
        coordinates = programme.V.transposed_times(a[:, None])
        fitted = programme.V.times(coordinates)[:, 0]
        slope = np.where(moving, programme.diagonal * a + fitted + programme.linear, 0.0)
        E = programme.equality * moving
        multipliers = -np.asarray(np.linalg.lstsq(E.T, slope)[0], dtype=np.float64)
        least = _LEAST_RISE * float(np.abs(slope).sum())
        slope += multipliers @ E
        rise = max(0.5 * float(np.abs(slope).sum()), least) / max(int(moving.sum()), 1) or 1.0
        s = np.where(below, a - programme.lower, 1.0)
        t = np.where(above, programme.upper - a, 1.0)
        z = np.where(below, np.maximum(slope, 0.0) + rise, 0.0)
        w = np.where(above, np.maximum(-slope, 0.0) + rise, 0.0)
        bounds = int(np.count_nonzero(below) + np.count_nonzero(above))
        product = _LEAST_PRODUCT * float(s @ z + t @ w) / max(bounds, 1)
        np.maximum(z, product / s, out=z, where=below)
        np.maximum(w, product / t, out=w, where=above)
        return cls(a, s, t, z, w, multipliers, coordinates[:, 0], fitted)

    def moved(self, by: Direction, length: float, programme: Programme) -> Iterate:
        """A step of this length along the direction."""
        ahead = {f.name: getattr(self, f.name) + length * getattr(by, f.name) for f in fields(by)}
        fitted = programme.V.times(ahead["coordinates"][:, None])[:, 0]
        return Iterate(**ahead, fitted=fitted)

    def products(self, by: Direction, length: float) -> tuple[Floats, Floats]:
        """s ∘ z and t ∘ w after a step."""
        return (
            (self.s + length * by.s) * (self.z + length * by.z),
            (self.t + length * by.t) * (self.w + length * by.w),
        )

    def longest(self, by: Direction) -> float:
        """The longest step for which slacks and multipliers stay positive."""
        pairs = ((self.s, by.s), (self.t, by.t), (self.z, by.z), (self.w, by.w))
        return min(_longest(value, change) for value, change in pairs)


@dataclass(frozen=True)
class Direction:
    """Changes of an iterate."""

    a: Floats
    s: Floats
    t: Floats
    z: Floats
    w: Floats
    multipliers: Floats
    coordinates: Floats

    def towards(self, other: Direction, share: float) -> Direction:
        """A share of the way to another direction of the same system."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return Direction(*(own + share * (theirs - own) for own, theirs in pairs))


class NewtonSystem:
    """The linearised optimality conditions at an iterate.

    (VV' + D) da + E'dλ = -r + ρ_z/s - ρ_w/t,  E da = e - Ea,  D = δ + z/s + w/t,

    where r is the dual residual, and ρ_z = z ds + s dz, ρ_w = w dt + t dw are what the
    complementarity products shall change by. One factorisation; each direction is O(mn).

    D is kept above ``floor``, so that I + V'D⁻¹V can be factored. This is a proximal term: it slows
    steps along which only rounding changes, and does not move the solution.

    ``affine`` is the direction that takes all products to zero, ``error`` the largest relative
    residual of a direction.
    """

    def __init__(
        self,
        programme: Programme,
        iterate: Iterate,
        floor: float,
        workers: Workers,
        dtype: DTypeLike,
    ) -> None:
        self._programme, self._iterate = programme, iterate
        self._accuracy = _ACCURACY[np.dtype(dtype)]
        D = np.maximum(programme.diagonal + iterate.z / iterate.s + iterate.w / iterate.t, floor)
        D[~programme.moving] = np.inf
        self._matrix = LowRankPlusDiagonal(programme.V, D, workers, dtype)
        E = programme.equality
        gradient = programme.diagonal * iterate.a + iterate.fitted + programme.linear
        self._residual = gradient + iterate.multipliers @ E - iterate.z + iterate.w
        self._violation, _ = programme.equality_residual(iterate.a)
        changes = -iterate.s * iterate.z, -iterate.t * iterate.w
        both = np.column_stack([self._right_side(*changes), E.T])
        x, image, self.error = self._matrix.refined(both, self._accuracy, _REFINEMENTS)
        self._over_equality, self._equality_image = x[:, 1:], image[:, 1:]
        self._schur = E @ self._over_equality
        self.affine = self._direction(x[:, 0], image[:, 0], *changes)

    def direction(self, change_z: Floats, change_w: Floats) -> Direction:
        """The direction for given changes ρ_z and ρ_w, zero where there is no bound."""
        rhs = self._right_side(change_z, change_w)[:, None]
        x, image, error = self._matrix.refined(rhs, self._accuracy, _REFINEMENTS)
        self.error = max(self.error, error)
        return self._direction(x[:, 0], image[:, 0], change_z, change_w)

    def _right_side(self, change_z: Floats, change_w: Floats) -> Floats:
        iterate = self._iterate
        rhs = -self._residual + change_z / iterate.s - change_w / iterate.t
        return np.where(self._programme.moving, rhs, 0.0)

    def _direction(self, x: Floats, image: Floats, change_z: Floats, change_w: Floats) -> Direction:
        """From (VV' + D)⁻¹ of the right side: dλ makes Ea = e."""
        iterate, programme = self._iterate, self._programme
        off = programme.equality @ x + self._violation
        multipliers = np.asarray(np.linalg.lstsq(self._schur, off)[0], dtype=np.float64)
        da = x - self._over_equality @ multipliers
        ds, dt = np.where(programme.below, da, 0.0), np.where(programme.above, -da, 0.0)
        return Direction(
            da,
            ds,
            dt,
            (change_z - iterate.z * ds) / iterate.s,
            (change_w - iterate.w * dt) / iterate.t,
            multipliers,
            image - self._equality_image @ multipliers,
        )


def largest_eigenvalue(programme: Programme) -> float:
    """A lower bound on the largest eigenvalue of VV', by a few power steps."""
    v = np.cos(np.arange(programme.V.n_rows, dtype=np.float64))[:, None]
    norm = 0.0
    for _ in range(_POWER_STEPS):
        v = programme.V.times(programme.V.transposed_times(v / np.linalg.norm(v)))
        size = float(np.abs(v).max(initial=0.0))
        if size == 0.0:
            return 0.0
        v /= size  # its squares might underflow
        norm = size * float(np.linalg.norm(v))
    return norm


def _longest(value: Floats, change: Floats) -> float:
    falling = change < 0.0
    return float(np.min(-value[falling] / change[falling], initial=np.inf))
