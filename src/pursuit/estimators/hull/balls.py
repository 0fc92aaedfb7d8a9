"""Losses over an l1 ball: the problem, and the objectives that make a loss fall step by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.estimators.hull.atoms import AtomSource, AtomSums
from pursuit.objectives import (
    HuberLoss,
    HuberRows,
    HullObjective,
    L1BallRegression,
    PinballRows,
    RowLoss,
    SquaredRows,
)
from pursuit.rounding import UNIT, Rounded, dots, gamma
from pursuit.solvers import (
    LinearLosses,
    RestrictedMaster,
    bounded_least_squares,
    make_master,
    reweight,
)

LOSSES = ("squared", "huber", "absolute", "quantile")
KINKED = ("absolute", "quantile")

_NORMAL = 1.4826
"""Times the median absolute deviation, this is the standard deviation of normal numbers."""
_EFFICIENT = 1.345
"""Standard deviations up to which Huber's loss is a square; larger numbers resist outliers less.

With this number the estimate is 95 % efficient for normal errors.
"""
_BATCH = 10
"""Most atoms that join the linear programme in a step; with fewer, it is solved more often."""
_ALIKE = 0.9
"""Largest cosine between atoms that join the linear programme together.

Atoms that are more alike serve the same purpose, and all but one of them would get no weight.
"""
_SHARE = 4
"""A step takes at most this fraction, 1/4, of the atoms that ``n_terms`` still allows.

With a smaller divisor early steps use up ``n_terms`` before the model says which atoms it lacks.
"""
_LOOKED_AT = 100
"""Number of atoms of the largest prices from which a step takes its batch."""
_ZERO = 1e-10
"""Coefficients below this part of the radius are rounding of the simplex method."""
_AWAY = 16.0 * UNIT
"""Share of the ends of their range that slopes keep away from it, whatever their rounding."""
_ROUNDING = 1e-9
"""Gains below this part of f(0) are rounding of the simplex method."""


class KinkedBall:
    """f(w) = Σ_i ω_i max(low u_i, high u_i), u = y - Σ_j w_j p_j, over ‖w‖₁ ≤ r.

    A linear programme over the atoms chosen so far gives w and a dual point μ, with
    ω low ≤ μ ≤ ω high. The prices c_j = Σ_i μ_i p_j(x_i) choose the next atom, the one of largest
    |c_j|, and Σ_i μ_i y_i - r max_j |c_j| bounds f from below; ``proof`` is the μ of the best such
    bound. A few other atoms of large prices join the programme with it. If a step does not lower f,
    its atoms stay in the programme, whose dual point has moved, and another atom is chosen.

    Parameters
    ----------
    source : AtomSource
        The atoms.
    y, weights : arrays of shape (n_rows,)
        Targets, and weights ω that sum to one. Rows of weight 0 are left out.
    loss : PinballRows
        Loss of a residual.
    radius : float
        r.
    n_terms : int
        Largest number of atoms of nonzero weight.
    start : array of shape (n_atoms,), optional
        Coefficients to start from; zeros by default.
    """

    def __init__(
        self,
        source: AtomSource,
        y: Floats,
        weights: Floats,
        loss: PinballRows,
        radius: float,
        n_terms: int,
        start: Floats | None = None,
    ) -> None:
        self._source, self._loss, self._most = source, loss, n_terms
        self._rows = np.flatnonzero(weights)
        self._y, self._weights = y[self._rows], weights[self._rows]
        self._n_rows = len(y)
        # The solver works best with numbers near one: y and atoms are divided by these.
        self._unit = float(self._weights @ np.abs(self._y)) or 1.0
        self._size = 1.0
        self.radius = radius
        self.n_steps = 0
        self.coefficients = np.zeros(source.n_atoms)
        zeros = np.zeros_like(self._y)
        self.value = self.start_value = float(self._weights @ loss.value(zeros, self._y))
        self._lower = 0.0
        self.proof = np.zeros(len(y))
        self._atoms: list[int] = []
        self._columns: dict[int, Floats] = {}
        self._master: RestrictedMaster | None = None
        self._move_dual(-self._weights * loss.gradient(zeros, self._y))
        if start is not None and start.any():
            self._begin(np.flatnonzero(start).tolist())

    @property
    def step(self) -> str:
        """Each step finds new weights for all chosen atoms."""
        return "corrective"

    @property
    def available(self) -> NDArray[np.bool_]:
        """Which atoms are outside the linear programme."""
        mask = np.ones(self._source.n_atoms, bool)
        mask[self._atoms] = False
        return mask

    @property
    def gap(self) -> float:
        """f(w) exceeds its minimum over the ball by at most this."""
        return max(self.value - self._lower, 0.0)

    @property
    def n_terms(self) -> int:
        """Number of atoms of nonzero weight."""
        return int(np.count_nonzero(self.coefficients))

    def widen(self, radius: float) -> None:
        """Continue in a larger ball from the present coefficients."""
        self.radius, self._lower, self.n_steps = radius, 0.0, 0
        self.proof = np.zeros(self._n_rows)
        used = np.flatnonzero(self.coefficients).tolist()
        if used:
            self._begin(used)
        else:
            self._bound()

    def refresh(self) -> None:
        """Do nothing: the prices always belong to the present dual point."""

    def score(self, candidates: Indices) -> Floats:
        """r|c_j| less Σ_j w_j c_j, or 0 where the difference may be rounding."""
        present = float(self.coefficients @ self._prices)
        gains = self.radius * np.abs(self._prices[candidates]) - present
        return np.where(gains > _ROUNDING * self.start_value, gains, 0.0)

    def add(self, candidate: int) -> bool:
        """Add an atom and its batch to the linear programme; False if f does not fall."""
        before = self.coefficients, self.value
        batch = self._batch(candidate)
        if self._master is None:
            self._begin(batch)
        else:
            self._extend(batch)
        if self.n_terms > self._most:
            self._begin([*np.flatnonzero(before[0]).tolist(), candidate])
        if self.n_steps and not self.value < before[-1]:
            self.coefficients, self.value = before
            return False
        self.n_steps += 1
        return True

    def _batch(self, candidate: int) -> list[int]:
        """The candidate and further atoms of large prices, no two of them alike."""
        room = min(_BATCH, -(-(self._most - self.n_terms) // _SHARE))
        order = np.argsort(-np.abs(self._prices), kind="stable")
        free = self.available
        free[candidate] = False
        order = order[free[order]][: _LOOKED_AT - 1]
        order = np.append(candidate, order[self.score(order) > 0.0])
        if room <= 1 or len(order) == 1:
            return [candidate]
        values = self._source.columns(order)[self._rows]
        size = np.sqrt(np.einsum("ij,ij->j", values, values))
        chosen = [0]
        open_ = size > 0.0
        while len(chosen) < room:
            last = chosen[-1]
            open_ &= np.abs(values[:, last] @ values) <= _ALIKE * size[last] * size
            if not open_.any():
                break
            chosen.append(int(np.argmax(open_)))
        self._columns.update((int(order[at]), values[:, at].copy()) for at in chosen)
        return [int(order[at]) for at in chosen]

    def _begin(self, atoms: list[int]) -> None:
        """Start a new linear programme over some atoms."""
        self._columns = {atom: self._columns[atom] for atom in atoms if atom in self._columns}
        self._know(atoms)
        self._size = max(float(np.abs(self._columns[atom]).max()) for atom in atoms) or 1.0
        losses = LinearLosses.pinball(
            self._y / self._unit,
            self._weights * len(self._weights),
            self._loss.low,
            self._loss.high,
        )
        self._master = make_master("auto", losses, self.radius * self._size / self._unit)
        self._atoms = []
        self._extend(atoms)

    def _extend(self, atoms: list[int]) -> None:
        """Add atoms to the linear programme and solve it."""
        assert self._master is not None
        self._know(atoms)
        columns = np.column_stack([self._columns[atom] for atom in atoms])
        self._master.add(columns / self._size)
        self._atoms = self._atoms + atoms
        optimum = self._master.solve()
        w = optimum.coefficients / self._size * self._unit  # unit/size alone may overflow
        w = np.where(np.abs(w) > _ZERO * self.radius, w, 0.0)
        w *= min(1.0, self.radius / (float(np.abs(w).sum()) or self.radius))
        self.coefficients = np.zeros(self._source.n_atoms)
        self.coefficients[self._atoms] = w
        fitted = np.zeros(len(self._y))
        for atom, weight in zip(self._atoms, w, strict=True):
            if weight:
                fitted += weight * self._columns[atom]
        self.value = float(self._weights @ self._loss.value(fitted, self._y))
        self._move_dual(optimum.dual[0] / len(self._weights))

    def _know(self, atoms: list[int]) -> None:
        """Compute the values of these atoms that are not stored yet."""
        new = [atom for atom in atoms if atom not in self._columns]
        if new:
            values = self._source.columns(np.array(new, dtype=np.intp))[self._rows]
            self._columns.update(zip(new, values.T, strict=True))

    def _move_dual(self, dual: Floats) -> None:
        """Set the dual point, clipped to its box against the solver's rounding, and its prices."""
        low, high = self._loss.low * self._weights, self._loss.high * self._weights
        self.dual = np.zeros(self._n_rows)
        self.dual[self._rows] = np.clip(dual, low, high)
        self._prices = self._source.prices(self.dual)
        self._bound()

    def _bound(self) -> None:
        worst = float(np.abs(self._prices).max())
        bound = float(self.dual[self._rows] @ self._y) - self.radius * worst
        if bound > self._lower:
            self._lower, self.proof = bound, self.dual


class SignedAtoms:
    """The atoms r p, and after all of these the atoms -r p, for a source of atoms p."""

    finite = True
    exact = True

    def __init__(self, source: AtomSource, radius: float) -> None:
        self._source, self._radius = source, radius
        self.n_atoms = 2 * source.n_atoms

    def propose(self, gradient: Floats) -> Indices:
        """All atoms."""
        return np.arange(self.n_atoms)

    def edges(self, gradient: Floats, numbers: Indices) -> Floats:
        """±r p'∇f."""
        prices = self._radius * self._source.prices(gradient)
        return np.concatenate([prices, -prices])[numbers]

    def values(self, number: int) -> Floats:
        """±r p on the rows."""
        sign, atom = divmod(number, self._source.n_atoms)
        column = self._source.columns(np.array([atom], dtype=np.intp))[:, 0]
        return (1.0 - 2.0 * sign) * self._radius * column

    def vertices(self, n_rows: int) -> None:
        """Unknown: the curvature M follows from the mean squares of the atoms."""


class SmoothBall(HullObjective):
    """f(Σ_j w_j p_j) over ‖w‖₁ ≤ r for a smooth f: a loss over the hull of all ±r p (Z02 §4.1).

    Parameters
    ----------
    source : AtomSource
        The atoms.
    loss : HuberLoss
        f.
    curvature : float
        M for r = 1.
    radius : float
        r.
    step : {"corrective", "joint", "frank-wolfe"}
        The rule, as in :class:`HullObjective`.
    start : array of shape (n_atoms,), optional
        Coefficients to start from, in the ball; zeros by default.
    """

    def __init__(
        self,
        source: AtomSource,
        loss: HuberLoss,
        curvature: float,
        radius: float,
        *,
        step: str,
        start: Floats | None = None,
    ) -> None:
        self._source, self._rows_loss, self._unit_curvature = source, loss, curvature
        self._rule = step
        self._begin(radius, np.zeros(source.n_atoms) if start is None else start)

    @property
    def coefficients(self) -> Floats:
        """The weights w of the atoms."""
        numbers, weights = self.terms()
        w = np.zeros(2 * self._source.n_atoms)
        w[numbers[numbers >= 0]] = self.radius * weights[numbers >= 0]
        return w[: self._source.n_atoms] - w[self._source.n_atoms :]

    @property
    def available(self) -> NDArray[np.bool_]:
        """Every atom."""
        return np.ones(self._source.n_atoms, bool)

    @property
    def curvature(self) -> float:
        """The bound M on the curvature of f."""
        return self._curvature

    @property
    def n_terms(self) -> int:
        """Number of atoms of nonzero weight."""
        return int(np.count_nonzero(self.coefficients))

    def widen(self, radius: float) -> None:
        """Continue in a larger ball from the present coefficients."""
        self._begin(radius, self.coefficients)

    def score(self, candidates: Indices) -> Floats:
        """Scores of the atoms, each with its better sign."""
        return np.asarray(self._scores(candidates).max(axis=0))

    def add(self, candidate: int) -> bool:
        """Move towards an atom with its better sign; False if f does not fall."""
        sign = int(self._scores(np.array([candidate], dtype=np.intp))[:, 0].argmax())
        return super().add(candidate + sign * self._source.n_atoms)

    def _scores(self, candidates: Indices) -> Floats:
        both = np.concatenate([candidates, candidates + self._source.n_atoms])
        return super().score(both).reshape(2, -1)

    def _begin(self, radius: float, coefficients: Floats) -> None:
        self.radius = radius
        used = np.flatnonzero(coefficients)
        w = coefficients[used]
        super().__init__(
            self._rows_loss,
            SignedAtoms(self._source, radius),
            np.zeros(len(self._rows_loss.y)),
            step=self._rule,
            reweight=reweight,
            curvature=radius**2 * self._unit_curvature,
        )
        if len(used):
            numbers = used + np.where(w < 0, self._source.n_atoms, 0)
            self.restart(numbers, np.abs(w) / radius)


Ball = L1BallRegression | SmoothBall | KinkedBall


def residual_loss(name: str, quantile: float, y: Floats, weights: Floats) -> RowLoss:
    """The loss that a name stands for; the width of Huber's loss follows from the targets."""
    if name == "squared":
        return SquaredRows()
    if name == "huber":
        return HuberRows(huber_width(y, weights))
    if name == "absolute":
        return PinballRows.absolute()
    return PinballRows.of_quantile(quantile)


def huber_width(y: Floats, weights: Floats) -> float:
    """1.345 standard deviations of y, estimated by the weighted median absolute deviation.

    If more than half of the targets are equal, the standard deviation itself is used; if all are
    equal, the width is 1.
    """
    median = PinballRows.absolute().constant
    deviation = _NORMAL * median(np.abs(y - median(y, weights)), weights)
    if not deviation > 0:
        deviation = float(np.sqrt(np.cov(y, aweights=weights, ddof=0)))
    return _EFFICIENT * deviation if deviation > 0 else 1.0


@dataclass(frozen=True)
class BallProblem:
    """Minimise f(w) = Σ_i ω_i ℓ(y_i - Σ_j w_j p_j(x_i)) over ‖w‖₁ ≤ r, with few w_j ≠ 0.

    Attributes
    ----------
    y, weights : arrays of shape (n_rows,)
        Targets, and positive weights; ω are the weights divided by their sum.
    loss : RowLoss
        ℓ.
    step : str
        The rule of the steps.
    n_terms : int
        Largest number of atoms of nonzero weight.
    """

    y: Floats
    weights: Floats
    loss: RowLoss
    step: str
    n_terms: int

    @property
    def kinked(self) -> bool:
        """Whether the loss has kinks, where it has no gradient."""
        return isinstance(self.loss, PinballRows)

    @property
    def shares(self) -> Floats:
        """The weights ω, which sum to one."""
        return np.asarray(self.weights / self.weights.sum())

    def value(self, fitted: Rounded) -> Rounded:
        """Mean loss of a function, given its values on the rows."""
        return self._of_means(dots(self.shares, self.loss.evaluated(fitted, self.y)))

    def dual(self, ball: Ball, fitted: Floats, best: bool) -> Floats:
        """The dual point μ of the present coefficients, or of the best bound over a ball's atoms.

        -μ/ω keeps a few units in the last place away from the ends of its range.
        """
        if isinstance(ball, KinkedBall):
            slopes = -(ball.proof if best else ball.dual) / self.shares
        else:
            slopes = self.loss.gradient(fitted, self.y)
        least, most = self.loss.slopes(self.y)
        with np.errstate(invalid="ignore"):
            ends = least + _AWAY * np.abs(least), most - _AWAY * np.abs(most)
        inside = np.nan_to_num(ends[0], nan=-np.inf), np.nan_to_num(ends[1], nan=np.inf)
        return np.asarray(-self.shares * np.clip(slopes, *inside))

    def lower_bound(self, dual: Floats, prices: Rounded, radius: float) -> Rounded:
        """A lower bound on f over the ball, from the prices of all atoms at a dual point."""
        conjugate = dots(self.shares, self.loss.conjugate_evaluated(-dual / self.shares, self.y))
        return self._of_means(-conjugate - radius * Rounded.of(float(prices.size.max())))

    def _of_means(self, value: Rounded) -> Rounded:
        """A mean, or a bound on one, with what the rounding of ω may change in it."""
        return value.widened(2.0 * gamma(len(self.y) + 4) * np.abs(value.value))

    def ball(
        self,
        source: AtomSource,
        radius: float,
        start: Floats | None = None,
        sums: AtomSums | None = None,
        shares: Floats | None = None,
    ) -> Ball:
        """The objective over the atoms of a source, started at given coefficients or at 0.

        ``sums`` and ``shares`` restrict it to the rows of a fold.
        """
        shares = self.shares if shares is None else shares
        if isinstance(self.loss, PinballRows):
            return KinkedBall(source, self.y, shares, self.loss, radius, self.n_terms, start)
        sums = source.sums() if sums is None else sums
        if isinstance(self.loss, SquaredRows):
            return L1BallRegression(
                sums, radius, step=self.step, solve=bounded_least_squares, start=start
            )
        assert isinstance(self.loss, HuberRows)
        loss = HuberLoss(self.y, self.loss.delta, shares)
        # No second derivative of Huber's loss exceeds 1.
        curvature = float(sums.diagonal.max())
        return SmoothBall(source, loss, curvature, radius, step=self.step, start=start)


class Fold:
    """Rows that fit and rows that judge: objectives on the first, errors on the second."""

    def __init__(
        self, problem: BallProblem, source: AtomSource, train: Indices, test: Indices
    ) -> None:
        self._problem, self._source = problem, source
        self.sums, self._test_sums = source.split(train, test)
        self._shares, self._test_shares = np.zeros((2, len(problem.y)))
        for shares, rows in ((self._shares, train), (self._test_shares, test)):
            shares[rows] = problem.weights[rows] / problem.weights[rows].sum()

    def ball(self, radius: float) -> Ball:
        """The objective on the rows that fit."""
        return self._problem.ball(self._source, radius, None, self.sums, self._shares)

    def error(self, coefficients: Floats) -> float:
        """Mean loss on the rows that judge."""
        if isinstance(self._problem.loss, SquaredRows):
            return self._test_sums.error(coefficients)
        predicted = self._source.predicted(coefficients)
        return float(self._test_shares @ self._problem.loss.value(predicted, self._problem.y))
