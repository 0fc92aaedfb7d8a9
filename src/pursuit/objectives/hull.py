"""A convex loss over the convex hull of atoms (Zhang 2002a, Z02 Algorithm 2.1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.linalg import line_search
from pursuit.objectives.atoms import Atoms, MatrixAtoms
from pursuit.objectives.hull_losses import HullLoss
from pursuit.rounding import Rounded, gamma

STEPS = ("corrective", "joint", "frank-wolfe")

Reweight = Callable[[HullLoss, Floats, Floats], Floats]
"""``reweight(loss, Z, a)``: better weights a ≥ 0 with the same sum for the columns of Z."""

START = -1
"""Number of the starting point among the terms."""


@runtime_checkable
class JointAtoms(Protocol):
    """Atoms that find the best atom and step together."""

    def propose_step(self, point: Floats, gradient: Floats) -> tuple[int, float] | None:
        """Number of an atom and α: (1 - α)v + αs has the least f; None where f cannot fall."""


class _Step(NamedTuple):
    """How far to go towards an atom, and the point that this leads to."""

    t: float
    atom: Floats
    point: Floats


def _reach(atoms: Atoms, g: Floats, proposed: Indices) -> Floats:
    """Σ_i |g_i||p_i| or more for the atoms that were proposed.

    An oracle compares atoms by sums that are rounded as much as that of the atom that it returns.
    """
    if isinstance(atoms, MatrixAtoms):
        return np.asarray(np.abs(g) @ np.abs(atoms.matrix))[proposed]
    size = max(float(np.abs(atoms.values(int(number))).max(initial=0.0)) for number in proposed)
    return np.full(len(proposed), float(np.abs(g).sum()) * size)


class HullObjective:
    """f(v) for v in the hull of atoms, started at v⁰ and moved to one atom s at a time.

    Each step goes from v to (1 - α)v + αs, α in [0, 1]. ``"joint"`` takes the atom and α that
    minimise f together, Algorithm 2.1 as published; ``"frank-wolfe"`` the atom that minimises the
    linear part s'∇f(v), then the best α; ``"corrective"`` the same, and then better weights of all
    atoms chosen so far. All keep the rate of Theorem 3.1: its proof needs no more than the decrease
    of the second.

    An atom may be taken more than once. For Frank-Wolfe and corrective steps the score of a
    candidate is the linear part (v - s)'∇f(v), the largest of which is the gap, an upper bound on
    f(v) - min f. For joint steps it is the decrease of f; an atom whose linear part is below the
    decrease of another atom cannot be the best, and scores 0 without a line search. Joint steps
    need a finite set of atoms, or :class:`JointAtoms`; with an oracle that knows the steepest atom
    only, they are Frank-Wolfe steps, and ``step`` says so.

    Parameters
    ----------
    loss : HullLoss
        f.
    atoms : Atoms
        Atoms whose hull it is.
    start : array of shape (n_rows,)
        v⁰, in the hull.
    first : int, optional
        Number of the atom that v⁰ is; None if it is not an atom.
    step : {"corrective", "joint", "frank-wolfe"}
        The rule.
    reweight : callable, optional
        How corrective steps find weights.
    curvature : float, optional
        M. The atom of a joint step that brings the decrease of Lemma 3.1 is not compared with the
        steepest one.
    """

    def __init__(
        self,
        loss: HullLoss,
        atoms: Atoms,
        start: Floats,
        *,
        first: int | None = None,
        step: str = "corrective",
        reweight: Reweight | None = None,
        curvature: float = np.inf,
    ) -> None:
        self._loss, self._atoms = loss, atoms
        self._joint = atoms if step == "joint" and isinstance(atoms, JointAtoms) else None
        alone = step == "joint" and not atoms.finite and self._joint is None
        self._step = "frank-wolfe" if alone else step
        self._reweight, self._curvature = reweight, curvature
        self._start = np.array(start, dtype=np.float64)
        self.point = self._start.copy()
        self.numbers: list[int] = [START if first is None else first]
        self.weights = np.ones(1)
        self.value = loss.value(self.point)
        self.start_value, self.unit = self.value, loss.unit
        self._columns = [self.point.copy()] if step == "corrective" else []
        self.n_steps = 0
        self._state: tuple[Floats, Indices, Floats] | None = None
        self._steps: dict[int, _Step] = {}
        self._useless: set[int] = set()

    @property
    def available(self) -> NDArray[np.bool_]:
        """All atoms of a finite set; otherwise the atoms that the oracle proposes at this point."""
        gradient, proposed, linear = self._look()
        if self._joint is not None and not self._steps:
            self._propose_step(self._joint, gradient, proposed, linear)
            _, proposed, _ = self._look()
        mask = np.zeros(self._atoms.n_atoms, bool)
        mask[proposed] = True
        return mask

    @property
    def step(self) -> str:
        """The rule in use; it may differ from the one asked for."""
        return self._step

    @property
    def gap(self) -> float:
        """(v - s)'∇f(v) of the best atom: f(v) is at most this above its minimum (Frank-Wolfe)."""
        return max(float(self._look()[2].max()), 0.0)

    @property
    def exact(self) -> bool:
        """Whether the best atom is always found, without which nothing is proved."""
        return self._atoms.exact

    def proved(self) -> tuple[Rounded, Rounded]:
        """f(Σ_j a_j s_j) of the terms, and a lower bound on the minimum over the hull."""
        numbers, weights = self.terms()
        point = Rounded.of(np.zeros_like(self.point))
        size = np.zeros_like(self.point)
        for number, weight in zip(numbers, weights, strict=True):
            values = self._start if number == START else self._atoms.values(int(number))
            point = Rounded.of(point.value + weight * values)
            size += np.abs(weight * values)
        point = point.widened(gamma(2 * len(weights) + 8) * size)
        g = self._loss.dual(self.point)
        gradient, proposed, _ = self._look()
        if not np.array_equal(g, gradient):
            proposed = self._atoms.propose(g)
        edges, reach = self._atoms.edges(g, proposed), _reach(self._atoms, g, proposed)
        least = Rounded.of(edges).widened(2.0 * gamma(2 * len(g) + 64) * reach)
        at = int(np.argmin(least.low))
        return self._loss.evaluated(point), self._loss.lower_bound(g, least[at], self.point)

    @property
    def n_terms(self) -> int:
        """Distinct atoms of positive weight."""
        kept = {i for i, w in zip(self.numbers, self.weights, strict=True) if w > 0}
        return len(kept - {START})

    def refresh(self) -> None:
        """Do nothing: the gap is always that of the present point."""

    def restart(self, numbers: Indices, weights: Floats) -> None:
        """Continue from Σ_j a_j s_j, given by the numbers of its atoms and their weights.

        v⁰ gets the rest of the weight, up to a sum of one.
        """
        columns = [self._atoms.values(int(number)) for number in numbers]
        start, rest = self.point, max(1.0 - float(weights.sum()), 0.0)
        self.point = start * rest + sum(a * s for a, s in zip(weights, columns, strict=True))
        self.numbers = [*self.numbers, *(int(number) for number in numbers)]
        self.weights = np.append(rest, weights)
        if self._step == "corrective":
            self._columns = [*self._columns, *columns]
        self.value = self._loss.value(self.point)
        self._state = None

    def terms(self) -> tuple[Indices, Floats]:
        """Numbers and weights of the atoms of positive weight; START is v⁰ if it is not an atom."""
        numbers = np.array(self.numbers, dtype=np.intp)
        kept = self.weights > 0
        return numbers[kept], self.weights[kept]

    def score(self, candidates: Indices) -> Floats:
        """The linear part, or for joint steps the decrease; 0 for atoms that failed to lower f."""
        _, proposed, linear = self._look()
        gains, rank = np.zeros((2, self._atoms.n_atoms))
        gains[proposed] = linear
        gains[list(self._useless)] = 0.0
        if self._step != "joint":
            return gains[candidates]
        rank[proposed] = -linear if self._atoms.finite else np.arange(len(proposed))
        order = np.argsort(rank[candidates], kind="stable")
        return self._decreases(candidates, gains[candidates], order)

    def add(self, candidate: int) -> bool:
        """Move towards an atom as far as f falls; False where it does not fall at all."""
        step = self._steps.get(candidate) or self._search(candidate)
        t, atom = step.t, step.atom
        before = self.point, self.numbers, self.weights, self._columns, self.value
        self.point = step.point
        self.weights = self.weights * (1.0 - t)
        if candidate in self.numbers:
            self.weights[self.numbers.index(candidate)] += t
        else:
            self.numbers = [*self.numbers, candidate]
            self.weights = np.append(self.weights, t)
            if self._step == "corrective":
                self._columns = [*self._columns, atom]
        if self._step == "corrective" and self._reweight is not None:
            self._correct()
        self.value = self._loss.value(self.point)
        if self.n_steps and not self.value < before[-1]:
            self.point, self.numbers, self.weights, self._columns, self.value = before
            self._useless.add(candidate)
            return False
        self.n_steps += 1
        self._state = None
        self._steps, self._useless = {}, set()
        return True

    def _look(self) -> tuple[Floats, Indices, Floats]:
        """Gradient, proposed atoms and their linear parts, computed once per point."""
        if self._state is None:
            gradient = self._loss.gradient(self.point)
            proposed = self._atoms.propose(gradient)
            linear = float(gradient @ self.point) - self._atoms.edges(gradient, proposed)
            self._state = gradient, proposed, linear
        return self._state

    def _propose_step(
        self, atoms: JointAtoms, gradient: Floats, proposed: Indices, linear: Floats
    ) -> None:
        """Put the best atom and step before the steepest atom."""
        proposal = atoms.propose_step(self.point, gradient)
        if proposal is None or proposal[0] in self._useless:
            return
        number, t = proposal
        atom = self._atoms.values(number)
        self._steps[number] = _Step(t, atom, self.point + t * (atom - self.point))
        if number not in proposed:
            first = np.array([number], dtype=np.intp)
            edge = float(gradient @ self.point) - self._atoms.edges(gradient, first)
            self._state = gradient, np.append(first, proposed), np.append(edge, linear)

    def _decreases(self, candidates: Indices, gains: Floats, order: Indices) -> Floats:
        """Decreases of the candidates that can be best, tried in this order."""
        decreases = np.zeros(len(candidates))
        enough = np.inf if self._atoms.finite else self._guaranteed()
        best = 0.0
        for i in order:
            if gains[i] > best:
                number = int(candidates[i])
                step = self._steps.get(number) or self._search(number)
                self._steps[number] = step
                decreases[i] = max(self.value - self._loss.value(step.point), 0.0)
                best = max(best, float(decreases[i]))
            if best >= enough:
                break
        return decreases

    def _guaranteed(self) -> float:
        """The decrease that Lemma 3.1 promises: η gap - 2η²M, η = min(1, gap/4M)."""
        M, gap = self._curvature, self.gap
        if not np.isfinite(M) or M <= 0:
            return np.inf
        share = min(1.0, gap / (4.0 * M))
        return share * gap - 2.0 * share**2 * M

    def _search(self, number: int) -> _Step:
        atom = self._atoms.values(number)
        direction = atom - self.point
        t = line_search(partial(self._loss.slope, self.point, direction))
        return _Step(t, atom, self.point + t * direction)

    def _correct(self) -> None:
        assert self._reweight is not None
        Z = np.column_stack(self._columns)
        weights = self._reweight(self._loss, Z, self.weights)
        point = Z @ weights
        # Weights that rounding made no better are not taken.
        if self._loss.value(point) <= self._loss.value(self.point):
            self.weights, self.point = weights, point
            kept = np.flatnonzero(weights > 0)
            if len(kept) < len(weights):
                self.weights = weights[kept]
                self.numbers = [self.numbers[i] for i in kept]
                self._columns = [self._columns[i] for i in kept]
