"""Least squares with an l1 constraint (an l1 ball) or an l1 penalty on the coefficients.

:class:`L1BallRegression` minimises over the ball (Zhang 2002a, Z02 §4.1), :class:`LassoPursuit`
with the penalty (Zhang 2002b, Z03 eq. 2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.bounds import l1_lower_bound
from pursuit.rounding import Rounded, dots, highest, weight

SHORTLIST = 20
"""Number of atoms that a pass over the rows proposes; more of them make passes rarer."""

_EPS = 1e-12

Solve = Callable[[Floats, Floats, Floats, float], Floats]
"""``solve(G, b, u, r)``: the least ½u'Gu - b'u over u ≥ 0, Σu ≤ r, from a feasible u."""


_SATISFIED = 1e-10
"""A correlation above α by at most this part of α counts as α. Smaller: more steps."""


class BallSums(Protocol):
    """Means over rows with weights ω that sum to one, for atoms p and G = Σωpp'."""

    @property
    def linear(self) -> Floats:
        """b = Σωpy."""

    @property
    def diagonal(self) -> Floats:
        """diag G."""

    @property
    def square(self) -> float:
        """Σωy²."""

    @property
    def image(self) -> Callable[[Floats], Floats]:
        """``image(w)`` is Gw: a pass over the rows, unless G is known."""

    @property
    def block(self) -> Callable[[Indices, Indices], Floats]:
        """``block(left, right)`` is G[left, right]."""


class L1BallRegression:
    """f(w) = Σ_i ω_i (y_i - Σ_j w_j p_j(x_i))² over ‖w‖₁ ≤ r.

    With c = b - Gw the gradient is -2c, and the Frank-Wolfe gap 2(r max|c| - w'c). ``"joint"``
    minimises f over βw + c e_j, 0 ≤ β ≤ 1, |c| ≤ r(1 - β), exactly (:func:`triangle_step`);
    ``"frank-wolfe"`` takes the largest |c_j| and the best point between w and ±r e_j. Both know c
    for all atoms at every step, and make a pass over the rows for every new atom.

    ``"corrective"`` steps take the largest |c_j| and then the exact minimum over all atoms that
    have weight. A pass gives c for all atoms and a shortlist of those with the largest |c_j|. The
    next steps choose from the shortlist, with values of c that follow from G on few atoms, until
    no atom on it is worth a step; then the step ends with a new pass. In between, the gap is
    measured from the best lower bound so far.

    Parameters
    ----------
    sums : BallSums
        Sums over rows of the atoms.
    radius : float
        r.
    step : {"corrective", "joint", "frank-wolfe"}
        The rule.
    solve : callable
        Finds the coefficients of corrective steps.
    start : array of shape (n_atoms,), optional
        Coefficients to start from, in the ball; zeros by default.
    """

    def __init__(
        self,
        sums: BallSums,
        radius: float,
        *,
        step: str,
        solve: Solve,
        start: Floats | None = None,
    ) -> None:
        self._sums, self._step, self._solve = sums, step, solve
        n_atoms = len(sums.linear)
        self._alive = sums.diagonal > 0
        self.radius = radius
        self.coefficients = np.zeros(n_atoms)
        self._c = sums.linear.copy()
        self.value = self.start_value = sums.square
        self.n_steps = 0
        self._useless = np.zeros(n_atoms, bool)
        self._columns: dict[int, Floats] = {}
        self._known = np.empty(0, dtype=np.intp)
        self._H = np.empty((0, 0))
        self._listed = np.zeros(n_atoms, bool)
        self._lower = -np.inf
        if start is not None:
            self.coefficients = start.copy()
            self._c = sums.linear - sums.image(start)
            self.value = self._value()
        self._bound()
        self._fresh = True
        self._renew()

    @property
    def step(self) -> str:
        """The rule in use."""
        return self._step

    @property
    def available(self) -> NDArray[np.bool_]:
        """Atoms that are not zero on every row; for corrective steps those of the shortlist."""
        if self._step != "corrective":
            return self._alive & ~self._useless
        return np.asarray(self._listed & (self.coefficients == 0) & ~self._useless)

    @property
    def gap(self) -> float:
        """f(w) is at most this above its minimum over the ball."""
        return max(self.value - self._lower, 0.0)

    @property
    def curvature(self) -> float:
        """M = 2r² max Σωp² (Z02 §4.1)."""
        return 2.0 * self.radius**2 * float(self._sums.diagonal.max())

    @property
    def n_terms(self) -> int:
        """Atoms that have weight."""
        return int(np.count_nonzero(self.coefficients))

    def widen(self, radius: float) -> None:
        """Continue in a larger ball from the present coefficients."""
        self.radius = radius
        self._lower = -np.inf
        self.n_steps = 0
        self._useless[:] = False
        if self._step == "corrective":
            self._correct(np.flatnonzero(self.coefficients))
            self.refresh()
        else:
            self._bound()

    def refresh(self) -> None:
        """Know c for all atoms, by a pass unless it is known, the gap here, and a new shortlist."""
        if self._step != "corrective":
            return
        active = np.flatnonzero(self.coefficients)
        if not self._fresh:
            self._c = self._sums.linear - self._sums.image(self.coefficients)
            self._fresh = True
        self._bound()
        size = np.where(self._alive & (self.coefficients == 0) & ~self._useless, np.abs(self._c), 0)
        best = np.argpartition(-size, min(SHORTLIST, len(size)) - 1)[:SHORTLIST]
        best = np.sort(best[size[best] > 0])
        self._listed[:] = False
        self._listed[best] = True
        self._know(np.union1d(active, best))

    def score(self, candidates: Indices) -> Floats:
        """The linear part of the decrease, or all of it for joint steps."""
        return self._triangle(candidates)[2] if self._step == "joint" else self._gains(candidates)

    def add(self, candidate: int) -> bool:
        """Take an atom; False where f does not fall."""
        before = self.coefficients, self._c, self.value, self._fresh
        if self._step == "corrective":
            self._correct(np.append(np.flatnonzero(self.coefficients), candidate))
        else:
            beta, step = self._move(candidate)
            if candidate not in self._columns:
                unit = np.zeros(len(self._c))
                unit[candidate] = 1.0
                self._columns[candidate] = self._sums.image(unit)
            b = self._sums.linear
            self._c = b - (beta * (b - self._c) + step * self._columns[candidate])
            self.coefficients = beta * self.coefficients
            self.coefficients[candidate] += step
            self.value = self._value()
        if self.n_steps and not self.value < before[2]:
            self.coefficients, self._c, self.value, self._fresh = before
            self._useless[candidate] = True
            self._renew()
            return False
        self.n_steps += 1
        self._useless[:] = False
        if self._step != "corrective":
            self._bound()
        self._renew()
        return True

    def _renew(self) -> None:
        """Replace a shortlist on which no atom is worth a step."""
        if self._step != "corrective":
            return
        gains = self._gains(np.flatnonzero(self.available))
        if not np.any(gains > _EPS * self.start_value):
            self.refresh()

    def _gains(self, candidates: Indices) -> Floats:
        active = np.flatnonzero(self.coefficients)
        present = float(self.coefficients[active] @ self._c[active])
        return 2.0 * (self.radius * np.abs(self._c[candidates]) - present)

    def _value(self) -> float:
        """Σωy² - b'w - w'c."""
        w = self.coefficients
        return self._sums.square - float(w @ (self._sums.linear + self._c))

    def _bound(self) -> None:
        """The lower bound that c, known for all atoms, gives."""
        worst = float(np.abs(self._c).max())
        gap = 2.0 * (self.radius * worst - float(self.coefficients @ self._c))
        self._lower = max(self._lower, self.value - max(gap, 0.0))

    def _know(self, atoms: Indices) -> None:
        """Have G on these atoms, sorted, computing only what is new."""
        old = np.isin(atoms, self._known)
        H = np.empty((len(atoms), len(atoms)))
        where = np.searchsorted(self._known, atoms[old])
        H[np.ix_(old, old)] = self._H[np.ix_(where, where)]
        if not old.all():
            new = self._sums.block(atoms, atoms[~old])
            H[:, ~old] = new
            H[~old] = new.T
        self._known, self._H = atoms, H

    def _correct(self, active: Indices) -> None:
        """The minimum over these atoms, each with the sign of its coefficient or gradient."""
        if not len(active):
            return
        at = np.searchsorted(self._known, active)
        w, b = self.coefficients[active], self._sums.linear
        signs = np.where(w != 0, np.sign(w), np.sign(self._c[active]))
        G = self._H[np.ix_(at, at)] * np.outer(signs, signs)
        u = self._solve(G, signs * b[active], np.abs(w), self.radius)
        self.coefficients = np.zeros(len(b))
        self.coefficients[active] = signs * u
        self._c, self._fresh = self._c.copy(), False
        self._c[self._known] = b[self._known] - self._H[:, at] @ (signs * u)
        kept = active[u > 0]
        self.value = self._sums.square - float(self.coefficients[kept] @ (b[kept] + self._c[kept]))

    def _move(self, candidate: int) -> tuple[float, float]:
        """β and c of a step to one atom."""
        if self._step == "joint":
            beta, step, _ = self._triangle(np.array([candidate]))
            return float(beta[0]), float(step[0])
        vertex = float(np.sign(self._c[candidate])) * self.radius
        vv, vy = self._own()
        vp = self._sums.linear[candidate] - self._c[candidate]
        towards = vv - vy + vertex * self._c[candidate]
        length = vv + vertex * (vertex * self._sums.diagonal[candidate] - 2.0 * vp)
        t = float(np.clip(towards / length, 0.0, 1.0)) if length > 0 else 0.0
        return 1.0 - t, t * vertex

    def _own(self) -> tuple[float, float]:
        """v'v and v'y of the present function."""
        w, b = self.coefficients, self._sums.linear
        return float(w @ (b - self._c)), float(w @ b)

    def _triangle(self, candidates: Indices) -> tuple[Floats, Floats, Floats]:
        vv, vy = self._own()
        b = self._sums.linear[candidates]
        vp = b - self._c[candidates]
        return triangle_step(vv, vp, self._sums.diagonal[candidates], vy, b, self.radius)


def triangle_step(
    vv: float, vp: Floats, pp: Floats, vy: float, py: Floats, radius: float
) -> tuple[Floats, Floats, Floats]:
    """The least ‖y - βv - cp‖² over 0 ≤ β ≤ 1, |c| ≤ r(1 - β), for each atom p (Formulas §8).

    The free minimum where it lies in the triangle, else the best of its three edges: β = 0, and
    from v to ±rp.

    Parameters
    ----------
    vv, vy : float
        v'v and v'y.
    vp, pp, py : arrays of shape (P,)
        v'p, p'p and p'y.
    radius : float
        r.

    Returns
    -------
    beta, c, decrease : arrays of shape (P,)
        The minimiser, and what it takes off ‖y - v‖².
    """
    beta, c = np.ones_like(pp), np.zeros_like(pp)
    best = np.full_like(pp, 2.0 * vy - vv)
    determinant = vv * pp - vp**2
    inside = determinant > 1e-12 * vv * pp
    safe = np.where(inside, determinant, 1.0)
    free = (vy * pp - py * vp) / safe, (py * vv - vy * vp) / safe
    inside &= (free[0] >= 0) & (free[0] <= 1) & (np.abs(free[1]) <= radius * (1.0 - free[0]))
    edges = [(np.zeros_like(pp), np.clip(py / np.where(pp > 0, pp, 1.0), -radius, radius))]
    for vertex in (-radius, radius):
        length = vertex**2 * pp - 2.0 * vertex * vp + vv
        towards = vertex * py - vy - vertex * vp + vv
        t = np.clip(towards / np.where(length > 0, length, np.inf), 0.0, 1.0)
        edges.append((1.0 - t, t * vertex))
    for allowed, (b, a) in [(inside, free), *((pp > 0, edge) for edge in edges)]:
        taken = 2.0 * (b * vy + a * py) - (b**2 * vv + 2.0 * a * b * vp + a**2 * pp)
        better = allowed & (taken > best)
        beta, c = np.where(better, b, beta), np.where(better, a, c)
        best = np.where(better, taken, best)
    return beta, c, np.maximum(best - (2.0 * vy - vv), 0.0)


class Matrix(Protocol):
    """K, whose columns are the candidates' values on the rows."""

    def times(self, vectors: Floats) -> Floats:
        """K @ vectors."""

    def column(self, index: int) -> Floats:
        """One column."""


class LassoPursuit:
    """P(a) = ½Σw(y - Ka)² + α‖a‖₁ over all coefficient vectors a, from few that are not zero.

    Every step takes the row j whose correlation |c_j|, c = K'Wr with r = y - Ka, exceeds α most,
    and moves to the minimum over all coefficients that are not zero and a_j, each on its side of
    zero. One that becomes zero may be taken again. a is optimal where no |c_j| exceeds α.

    All correlations are known after every step, by a product with K. They price all rows: with
    s at most α/max|c|, the dual point sWr gives a lower bound on the minimum over all vectors.

    Parameters
    ----------
    matrix : Matrix
        K, symmetric and psd.
    sizes : array of shape (m,)
        √K_ii, or more.
    targets, weights : arrays of shape (m,)
        y and w.
    alpha : float
        α.
    rate : float
        Entry i of a product Kv is wrong by at most this times √K_ii Σ_j |v_j|√K_jj.
    solve : callable
        Finds the coefficients of a step.
    """

    def __init__(
        self,
        matrix: Matrix,
        sizes: Floats,
        targets: Floats,
        weights: Floats,
        alpha: float,
        rate: float,
        *,
        solve: Solve,
    ) -> None:
        self._matrix, self._sizes, self._rate = matrix, sizes, rate
        self._y, self._w, self._alpha, self._solve = targets, weights, alpha, solve
        self.coefficients = np.zeros(len(targets))
        self.held = np.empty(0, dtype=np.intp)
        self._columns = np.empty((0, len(targets)))
        self._gram, self._linear = np.empty((0, 0)), np.empty(0)
        self._useless = np.zeros(len(targets), bool)
        self.bound = Rounded.of(0.0)
        self._look(targets)

    @property
    def available(self) -> NDArray[np.bool_]:
        """Rows with a zero coefficient that did not fail to lower P at the present point."""
        return np.asarray((self.coefficients == 0) & ~self._useless)

    @property
    def n_terms(self) -> int:
        """Coefficients that are not zero."""
        return int(np.count_nonzero(self.coefficients))

    def score(self, candidates: Indices) -> Floats:
        """|c_j| - α where that is more than rounding, else 0."""
        excess = np.abs(self._c[candidates]) - self._alpha
        return np.where(excess > _SATISFIED * self._alpha, excess, 0.0)

    def add(self, candidate: int) -> bool:
        """Take a row, and minimise over all that are not zero; False where P does not fall."""
        held = np.append(self.held, candidate)
        columns = np.vstack([self._columns, self._matrix.column(candidate)])
        new = columns @ (self._w * columns[-1])
        gram = np.block([[self._gram, new[:-1, None]], [new]])
        linear = np.append(self._linear, columns[-1] @ (self._w * self._y))
        signs = np.where(self.coefficients[held] != 0, self.coefficients[held], self._c[held])
        signs = np.where(signs < 0, -1.0, 1.0)
        start = np.abs(self.coefficients[held])
        turned = gram * np.outer(signs, signs)
        u = self._solve(turned, signs * linear - self._alpha, start, np.inf)
        residual = self._y - (signs * u) @ columns
        value = self._value(residual, float(u.sum()))
        if len(self.held) and not value < self.value:
            self._useless[candidate] = True
            return False
        self._useless[:] = False
        self.coefficients = np.zeros(len(self._y))
        self.coefficients[held] = signs * u
        # The first row stays even at zero, so that a model has a basis.
        kept = u > 0 if u.any() else np.arange(len(u)) == 0
        self.held, self._columns = held[kept], columns[kept]
        self._gram, self._linear = gram[np.ix_(kept, kept)], linear[kept]
        self._look(residual)
        return True

    def partial_values(self) -> Floats:
        """P of the sums of the first 1, 2, … terms, each term as it is."""
        a = self.coefficients[self.held]
        residuals = self._y - np.cumsum(a[:, None] * self._columns, axis=0)
        return 0.5 * residuals**2 @ self._w + self._alpha * np.cumsum(np.abs(a))

    def _value(self, residual: Floats, size: float) -> float:
        return 0.5 * float(self._w @ residual**2) + self._alpha * size

    def _look(self, residual: Floats) -> None:
        """Price all rows, and keep the best lower bound."""
        weighted = self._w * residual
        self._c = self._matrix.times(weighted[:, None])[:, 0]
        self.value = self._value(residual, float(np.abs(self.coefficients).sum()))
        reach = float(weight(self._sizes, weighted))
        largest = float((np.abs(self._c) + self._rate * self._sizes * reach).max())
        y, w, v = self._y, self._w, weighted
        bound = l1_lower_bound(dots(y, v), dots(v, Rounded.of(v) / w), largest, self._alpha)
        self.bound = highest([self.bound, bound])

    @property
    def lower(self) -> float:
        """The best lower bound so far, as computed."""
        return float(self.bound.value)
