"""Interior point for convex quadratic programmes whose matrix is low rank plus a diagonal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from pursuit._types import Floats
from pursuit.linalg import LowRankPlusDiagonal, TallMatrix, Workers
from pursuit.solvers.barrier import (
    Direction,
    Iterate,
    LowRank,
    NewtonSystem,
    Programme,
    largest_eigenvalue,
)

_TO_BOUNDARY = 0.995
_SHORTEST = 1e-8
_LEAST_CURVATURE, _MOST_CURVATURE, _RAISE = 1e-16, 1e-8, 10.0
_NEGLIGIBLE = 1e-8
_ENDLESS = 1e20
_INACCURATE = 1e-2
_FARTHER, _WORTH, _SPREAD = 0.3, 0.03, 10.0
_FEW_DIGITS = 1e-4
"""Relative gap from which on predictions are those of the optimum for all purposes."""
_SHORT, _POWERS = 0.3, (0.5, 1.0, 1.5, 2.0)


@dataclass(frozen=True)
class InteriorPointLog:
    """One entry per iterate; the first one is the start.

    Attributes
    ----------
    primal, dual : arrays
        Both objectives; the minimum lies between them where ``infeasibility`` is zero.
    complementarity : array
        μ, the mean product of a slack and its multiplier.
    infeasibility : array
        Largest violation of an equality, or of a dual constraint without which the dual objective
        is -∞, as a share of the terms they are made of.
    step : array
        Length of the step that led to the iterate, as a share of its direction; 1 for the start.
    """

    primal: Floats
    dual: Floats
    complementarity: Floats
    infeasibility: Floats
    step: Floats

    @property
    def gap(self) -> Floats:
        """Primal less dual."""
        return self.primal - self.dual


@dataclass(frozen=True)
class InteriorPointSolution:
    """The solution, and how it was found.

    Attributes
    ----------
    a : array of shape (m,)
        The minimiser, strictly between its bounds where they differ.
    multipliers : array of shape (q,)
        λ of the equalities; for a support vector machine its intercept.
    coordinates : array of shape (n,)
        V'a.
    primal, dual : float
        Both objectives at the end.
    log : InteriorPointLog
        The iterates that led there.
    converged : bool
        Whether the relative gap and the infeasibility are below the tolerance.
    """

    a: Floats
    multipliers: Floats
    coordinates: Floats
    primal: float
    dual: float
    log: InteriorPointLog
    converged: bool

    @property
    def close_enough(self) -> bool:
        """Whether it has converged, or was ended by rounding with few digits missing."""
        gap = abs(self.primal - self.dual)
        return self.converged or gap <= _FEW_DIGITS * abs(self.primal)

    @property
    def steps(self) -> int:
        """Iterations taken."""
        return len(self.log.step) - 1


def interior_point(
    V: LowRank,
    diagonal: ArrayLike,
    linear: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    equality: ArrayLike | None = None,
    equality_value: ArrayLike = 0.0,
    start: Floats | None = None,
    tol: float = 1e-5,
    max_steps: int = 50,
    workers: Workers,
    dtype: DTypeLike = np.float64,
) -> InteriorPointSolution:
    """Minimise ½a'(VV' + diag(δ))a + c'a over l ≤ a ≤ u with Ea = e.

    Mehrotra's predictor and corrector, weighted where the predictor is short (Colombo and Gondzio,
    2008), and one of Gondzio's centrality correctors. With slacks s = a - l, t = u - a and their
    multipliers z, w, a step solves

        (VV' + D) da + E'dλ = …,    E da = e - Ea,    D = δ + z/s + w/t,

    by :class:`~pursuit.linalg.LowRankPlusDiagonal` (Formulas §6): O(mn²), V being read block by
    block. The lower bound on the minimum is the dual function of (V'a, λ) itself,

        -½‖V'a‖² - λ'e + Σ_i min {½δ_i t² + (VV'a + c + E'λ)_i t : l_i ≤ t ≤ u_i},

    which for a support vector machine is minus the machine's primal objective.

    Parameters
    ----------
    V : array of shape (m, n), callable or Factor
        Stored in float64 or float32, perhaps on disk; or ``V(rows)`` for a slice of rows, called
        by several threads; or anything with the products of a :class:`~pursuit.linalg.Factor`.
    diagonal : float or array of shape (m,)
        δ ≥ 0; positive where a variable has no bounds at all.
    linear : array of shape (m,)
        c.
    lower, upper : floats or arrays of shape (m,)
        l ≤ u, infinite where there is no bound. A variable with l = u stays where it is.
    equality : array of shape (q, m) or (m,), optional
        E, a few rows.
    equality_value : float or array of shape (q,)
        e.
    start : array of shape (m,), optional
        A guess, moved into the middle four fifths of its box; see :func:`ridge_start`.
    tol : float
        Stop when primal and dual differ by this share of the smaller of the two.
    max_steps : int
        Most iterations.
    workers : Workers
        Threads; their number does not change a bit of the result.
    dtype : float64 or float32
        The type in which V'D⁻¹V is computed, which is nearly all of the work. float32 is enough for
        a gap of about 1e-4: directions are refined in float64, and where this is not enough the
        method continues in float64.

    Returns
    -------
    solution : InteriorPointSolution

    Examples
    --------
    The shortest convex combination of three points in the plane:

    >>> import numpy as np
    >>> from pursuit.linalg import Workers
    >>> from pursuit.solvers import interior_point
    >>> V = np.array([[3.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
    >>> with Workers(1) as workers:
    ...     found = interior_point(
    ...         V, 0.0, np.zeros(3), 0.0, np.inf, equality=np.ones(3), equality_value=1.0,
    ...         workers=workers,
    ...     )
    >>> np.round(found.a, 3)
    array([0.1, 0.9, 0. ])
    """
    programme = Programme.build(
        V, diagonal, linear, lower, upper, equality, equality_value, workers
    )
    iterate = Iterate.at(programme, programme.inside(start))
    size = np.abs(iterate.a).max(initial=1.0)
    systems = _Systems(programme, workers, dtype)
    record = _Record(programme, iterate)
    while not record.converged(tol) and record.steps < max_steps:
        system = systems.at(iterate)
        if system is None:
            break
        direction, length = _best_direction(programme, iterate, system)
        ahead = iterate.moved(direction, length, programme)
        if length < _SHORTEST or not np.abs(ahead.a).max() <= _ENDLESS * size:
            break
        iterate = ahead
        record.add(iterate, length)
    return InteriorPointSolution(
        iterate.a,
        iterate.multipliers,
        iterate.coordinates,
        *record.lines[-1][:2],
        InteriorPointLog(*np.array(record.lines).T),
        record.converged(tol),
    )


def ridge_start(
    V: LowRank, targets: Floats, lower: Floats, upper: Floats, *, workers: Workers
) -> Floats:
    """A start: ½(u - l) ∘ r with r the residuals of ridge regression of the targets on V.

    For a support vector machine (linear = -y, bounds 0 and ±C by the sign of y) it is close enough
    to save a fifth of the iterations, for the price of one.
    """
    factor = TallMatrix(V, len(targets), workers) if isinstance(V, np.ndarray) or callable(V) else V
    residual = LowRankPlusDiagonal(factor, 1.0, workers).solve(targets[:, None])[:, 0]
    start: Floats = 0.5 * (upper - lower) * residual
    return start


class _Systems:
    """Accurate Newton systems: where one is not, the next has a wider type or more damping."""

    def __init__(self, programme: Programme, workers: Workers, dtype: DTypeLike) -> None:
        self._programme, self._workers, self._dtype = programme, workers, np.dtype(dtype)
        largest = largest_eigenvalue(programme)
        self._floor, self._most = _LEAST_CURVATURE * largest, _MOST_CURVATURE * largest

    def at(self, iterate: Iterate) -> NewtonSystem | None:
        """The system of an iterate, None where no damping lets it be factored.

        Type and damping are kept for later iterates.
        """
        while True:
            system = self._factored(iterate)
            if system is not None and system.error <= _INACCURATE:
                return system
            wide = self._dtype == np.float64
            if wide and not self._floor < self._most:
                return system
            if wide:
                self._floor *= _RAISE
            self._dtype = np.dtype(np.float64)

    def _factored(self, iterate: Iterate) -> NewtonSystem | None:
        try:
            return NewtonSystem(self._programme, iterate, self._floor, self._workers, self._dtype)
        except ArithmeticError:
            return None


def _best_direction(
    programme: Programme, iterate: Iterate, system: NewtonSystem
) -> tuple[Direction, float]:
    """Predictor, Mehrotra's corrector, then Gondzio's where it lengthens the step.

    Mehrotra's corrector assumes a full predictor step. If the predictor ends after α < 0.3, it is
    mostly extrapolation and can cycle: it is then weighted, as by Colombo and Gondzio (2008), by
    the ω between α² and 1 that gives the longest step.
    """
    below, above = programme.below, programme.above
    mean = _complementarity(programme, iterate)
    affine = system.affine
    reach = min(1.0, iterate.longest(affine))
    ahead = sum(float(p.sum()) for p in iterate.products(affine, reach))
    # Mehrotra: the mean product, times the cube of the share that the predictor leaves of it.
    aim = mean * (ahead / (mean * _count(programme))) ** 3 if mean > 0.0 else 0.0
    correct_z = np.where(below, aim - affine.s * affine.z, 0.0)
    correct_w = np.where(above, aim - affine.t * affine.w, 0.0)
    whole = system.direction(correct_z - iterate.s * iterate.z, correct_w - iterate.t * iterate.w)
    best, length, weight = whole, min(1.0, _TO_BOUNDARY * iterate.longest(whole)), 1.0
    for power in _POWERS if reach < _SHORT else ():
        other = affine.towards(whole, reach**power)
        farther = min(1.0, _TO_BOUNDARY * iterate.longest(other))
        if farther >= length + _WORTH:
            best, length, weight = other, farther, reach**power
    if length < 1.0 - _WORTH:
        z, w = iterate.products(best, min(1.0, length + _FARTHER))
        change_z = (
            weight * correct_z - iterate.s * iterate.z + np.where(below, _towards(aim, z), 0.0)
        )
        change_w = (
            weight * correct_w - iterate.t * iterate.w + np.where(above, _towards(aim, w), 0.0)
        )
        other = system.direction(change_z, change_w)
        farther = min(1.0, _TO_BOUNDARY * iterate.longest(other))
        if farther >= length + _WORTH:
            return other, farther
    return best, length


def _towards(aim: float, products: Floats) -> Floats:
    """What brings outlying products to within a factor of the aim, by a bounded amount."""
    change = np.clip(products, aim / _SPREAD, aim * _SPREAD) - products
    return np.maximum(change, -aim * _SPREAD)


def _count(programme: Programme) -> int:
    return int(np.count_nonzero(programme.below) + np.count_nonzero(programme.above))


def _complementarity(programme: Programme, iterate: Iterate) -> float:
    """μ = (s'z + t'w) / number of bounds."""
    return float(iterate.s @ iterate.z + iterate.t @ iterate.w) / max(_count(programme), 1)


class _Record:
    """Writes the log, and decides when the method has converged.

    A relative error means nothing for a quantity that vanishes at the solution, so every scale is
    at least 1e-8 of its value at the start, of the minimum along c, or of c'a in the box, whichever
    is least.
    """

    def __init__(self, programme: Programme, start: Iterate) -> None:
        self._programme = programme
        self.lines: list[tuple[float, float, float, float, float]] = []
        self._least_terms = _NEGLIGIBLE * programme.equality_residual(start.a)[1]
        self.add(start, 1.0)
        sizes = [abs(self.lines[0][0]), programme.steepest()[1], programme.reach()]
        sizes = [size for size in sizes if 0.0 < size < np.inf]
        self._least_value = _NEGLIGIBLE * min(sizes, default=1.0)

    @property
    def steps(self) -> int:
        return len(self.lines) - 1

    def add(self, iterate: Iterate, step: float) -> None:
        programme = self._programme
        primal = programme.primal(iterate.a, iterate.coordinates)
        dual, violation = programme.dual(iterate.coordinates, iterate.fitted, iterate.multipliers)
        off, terms = programme.equality_residual(iterate.a)
        terms = np.maximum(terms, self._least_terms)
        shares = np.abs(off) / np.where(terms > 0.0, terms, 1.0)
        infeasibility = max(violation, float(shares.max(initial=0.0)))
        mean = _complementarity(programme, iterate)
        self.lines.append((primal, dual, mean, infeasibility, step))

    def converged(self, tol: float) -> bool:
        primal, dual, _, infeasibility, _ = self.lines[-1]
        scale = max(min(abs(primal), abs(dual)), self._least_value)
        return abs(primal - dual) <= tol * scale and infeasibility <= tol
