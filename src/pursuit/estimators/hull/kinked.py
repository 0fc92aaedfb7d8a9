"""A loss with kinks over an l1 ball: a linear programme that grows by a few atoms at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.estimators.hull.atoms import AtomSource
from pursuit.objectives import PinballResidual
from pursuit.solvers import LinearLosses, Master, make_master

_BATCH = 10
"""Most atoms that join the programme in a step: with fewer, it is solved more often."""
_ALIKE = 0.9
"""Atoms that join together have cosines of at most this: those that are alike mend the same fault,
and all but one of them would stay without weight."""
_SHARE = 4
"""A step takes at most one in so many of the atoms that ``n_terms`` still allows: those chosen
before there is a model are not those that a good one lacks."""
_LOOKED_AT = 100
"""Atoms of the largest prices from which a step takes its batch."""
_ZERO = 1e-10
"""Coefficients below this part of the radius are rounding of the simplex method."""
_ROUNDING = 1e-9
"""Gains below this part of f(0) are rounding of the simplex method."""


class KinkedBall:
    """f(w) = Σ_i ω_i max(low u_i, high u_i), u = y - Σ_j w_j p_j, over ‖w‖₁ ≤ r.

    The programme over the atoms chosen so far gives w and a dual point μ, ω low ≤ μ ≤ ω high. Its
    prices c_j = Σ_i μ_i p_j(x_i) choose the next atom, the one of largest |c_j|, and
    Σ_i μ_i y_i - r max_j |c_j| bounds f from below. A few other atoms of large prices join the
    programme with it. A step that does not lower f leaves its atoms in the programme, whose dual
    point has moved, and another atom is chosen.

    Parameters
    ----------
    source : AtomSource
        The atoms.
    y, weights : arrays of shape (n_rows,)
        Targets, and weights ω that sum to one. Rows of weight 0 take no part.
    loss : PinballResidual
        The loss of a residual.
    radius : float
        r.
    n_terms : int
        Most atoms of nonzero weight.
    start : array of shape (n_atoms,), optional
        Coefficients to go on from; zeros by default.
    """

    def __init__(
        self,
        source: AtomSource,
        y: Floats,
        weights: Floats,
        loss: PinballResidual,
        radius: float,
        n_terms: int,
        start: Floats | None = None,
    ) -> None:
        self._source, self._loss, self._most = source, loss, n_terms
        self._rows = np.flatnonzero(weights)
        self._y, self._weights = y[self._rows], weights[self._rows]
        self._n_rows = len(y)
        # The solver works with numbers of size one: y, atoms and weights are divided by these.
        self._unit = float(self._weights @ np.abs(self._y)) or 1.0
        self._size = 1.0
        self.radius = radius
        self.n_steps = 0
        self.coefficients = np.zeros(source.n_atoms)
        zeros = np.zeros_like(self._y)
        self.value = self.start_value = float(self._weights @ loss.value(zeros, self._y))
        self._lower = 0.0
        self._atoms: list[int] = []
        self._columns: dict[int, Floats] = {}
        self._master: Master | None = None
        self._move_dual(-self._weights * loss.gradient(zeros, self._y))
        if start is not None and start.any():
            self._begin(np.flatnonzero(start).tolist())

    @property
    def step(self) -> str:
        """Linear programmes find the weights of all chosen atoms after every choice."""
        return "corrective"

    @property
    def available(self) -> NDArray[np.bool_]:
        """Atoms outside the programme."""
        mask = np.ones(self._source.n_atoms, bool)
        mask[self._atoms] = False
        return mask

    @property
    def gap(self) -> float:
        """f(w) is at most this above its minimum over the ball."""
        return max(self.value - self._lower, 0.0)

    @property
    def n_terms(self) -> int:
        """Atoms that have weight."""
        return int(np.count_nonzero(self.coefficients))

    def widen(self, radius: float) -> None:
        """Go on in a larger ball from where the smaller one led."""
        self.radius, self._lower, self.n_steps = radius, 0.0, 0
        held = np.flatnonzero(self.coefficients).tolist()
        if held:
            self._begin(held)
        else:
            self._bound()

    def refresh(self) -> None:
        """Nothing: prices are those of the present dual point at all times."""

    def score(self, candidates: Indices) -> Floats:
        """R|c_j| less what the present coefficients make of the same prices."""
        present = float(self.coefficients @ self._prices)
        gains = self.radius * np.abs(self._prices[candidates]) - present
        return np.where(gains > _ROUNDING * self.start_value, gains, 0.0)

    def add(self, candidate: int) -> bool:
        """Let an atom and its batch into the programme; False where f does not fall."""
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
        """The candidate, and atoms of large prices that are not alike, as far as there is room."""
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
        """A new programme over these atoms."""
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
        """More atoms, and the optimum with them."""
        assert self._master is not None
        self._know(atoms)
        columns = np.column_stack([self._columns[atom] for atom in atoms])
        self._master.add(columns / self._size)
        self._atoms = self._atoms + atoms
        found = self._master.solve()
        w = found.coefficients * (self._unit / self._size)
        w = np.where(np.abs(w) > _ZERO * self.radius, w, 0.0)
        w *= min(1.0, self.radius / (float(np.abs(w).sum()) or self.radius))
        self.coefficients = np.zeros(self._source.n_atoms)
        self.coefficients[self._atoms] = w
        fitted = np.zeros(len(self._y))
        for atom, weight in zip(self._atoms, w, strict=True):
            if weight:
                fitted += weight * self._columns[atom]
        self.value = float(self._weights @ self._loss.value(fitted, self._y))
        self._move_dual(found.dual[0] / len(self._weights))

    def _know(self, atoms: list[int]) -> None:
        """Have the values of these atoms."""
        new = [atom for atom in atoms if atom not in self._columns]
        if new:
            values = self._source.columns(np.array(new, dtype=np.intp))[self._rows]
            self._columns.update(zip(new, values.T, strict=True))

    def _move_dual(self, dual: Floats) -> None:
        """Prices of a dual point, moved by the solver's rounding into its box, and its bound."""
        low, high = self._loss.low * self._weights, self._loss.high * self._weights
        self.dual = np.zeros(self._n_rows)
        self.dual[self._rows] = np.clip(dual, low, high)
        self._prices = self._source.prices(self.dual)
        self._bound()

    def _bound(self) -> None:
        worst = float(np.abs(self._prices).max())
        bound = float(self.dual[self._rows] @ self._y) - self.radius * worst
        self._lower = max(self._lower, bound)
