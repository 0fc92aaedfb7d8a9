"""An interior point of a quadratic programme, and the directions that lead on from it."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import DTypeLike

from pursuit._types import Floats
from pursuit.linalg import LowRankPlusDiagonal, Workers
from pursuit.solvers.programme import Programme

_POWER_STEPS = 3
_REFINEMENTS = 3
_ACCURACY = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 1e-4}
"""Of directions. With float32 each refinement is a pass over V, and the gap aimed at rough."""
_LEAST_RISE = 1e-2
_LEAST_PRODUCT = 1e-4


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

        λ minimises ‖∇ + E'λ‖ and z - w is this gradient, both raised by half its mean size, or by a
        share of that of ∇ where as many equalities as variables leave nothing of it. No product of
        a slack and its multiplier is left below 1e-4 of their mean: first steps from there would
        end at once.
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
        coordinates = self.coordinates + length * by.coordinates
        return Iterate(
            self.a + length * by.a,
            self.s + length * by.s,
            self.t + length * by.t,
            self.z + length * by.z,
            self.w + length * by.w,
            self.multipliers + length * by.multipliers,
            coordinates,
            programme.V.times(coordinates[:, None])[:, 0],
        )

    def products(self, by: Direction, length: float) -> tuple[Floats, Floats]:
        """s ∘ z and t ∘ w after a step."""
        return (
            (self.s + length * by.s) * (self.z + length * by.z),
            (self.t + length * by.t) * (self.w + length * by.w),
        )

    def longest(self, by: Direction) -> float:
        """How far slacks and multipliers stay positive."""
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
    complementarity products shall change by. One factorisation, O(mn) a direction.

    D is kept above ``floor``, so that I + V'D⁻¹V can be factored: a proximal term, which slows
    steps along which nothing changes but rounding, and moves no solution.

    ``affine`` is the direction that takes all products to zero, ``error`` the largest share by
    which a direction fails its equation.
    """

    def __init__(
        self, programme: Programme, here: Iterate, floor: float, workers: Workers, dtype: DTypeLike
    ) -> None:
        self._programme, self._here = programme, here
        self._accuracy = _ACCURACY[np.dtype(dtype)]
        D = np.maximum(programme.diagonal + here.z / here.s + here.w / here.t, floor)
        D[~programme.moving] = np.inf
        self._matrix = LowRankPlusDiagonal(programme.V, D, workers, dtype)
        E = programme.equality
        gradient = programme.diagonal * here.a + here.fitted + programme.linear
        self._residual = gradient + here.multipliers @ E - here.z + here.w
        self._violation, _ = programme.equality_residual(here.a)
        changes = -here.s * here.z, -here.t * here.w
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
        here = self._here
        rhs = -self._residual + change_z / here.s - change_w / here.t
        return np.where(self._programme.moving, rhs, 0.0)

    def _direction(self, x: Floats, image: Floats, change_z: Floats, change_w: Floats) -> Direction:
        """From (VV' + D)⁻¹ of the right side: dλ makes Ea = e."""
        here, programme = self._here, self._programme
        off = programme.equality @ x + self._violation
        multipliers = np.asarray(np.linalg.lstsq(self._schur, off)[0], dtype=np.float64)
        da = x - self._over_equality @ multipliers
        ds, dt = np.where(programme.below, da, 0.0), np.where(programme.above, -da, 0.0)
        return Direction(
            da,
            ds,
            dt,
            (change_z - here.z * ds) / here.s,
            (change_w - here.w * dt) / here.t,
            multipliers,
            image - self._equality_image @ multipliers,
        )


def largest_eigenvalue(programme: Programme) -> float:
    """Of VV', from below: a few power steps."""
    v = np.cos(np.arange(programme.V.n_rows, dtype=np.float64))[:, None]
    norm = 0.0
    for _ in range(_POWER_STEPS):
        v = programme.V.times(programme.V.transposed_times(v / np.linalg.norm(v)))
        norm = float(np.linalg.norm(v))
        if norm == 0.0:
            break
    return norm


def _longest(value: Floats, change: Floats) -> float:
    falling = change < 0.0
    return float(np.min(-value[falling] / change[falling], initial=np.inf))
