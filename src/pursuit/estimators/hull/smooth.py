"""A smooth loss over an l1 ball, as a loss over the hull of ±r p for atoms p (Z02 §4.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.estimators.hull.atoms import AtomSource
from pursuit.objectives import HuberLoss, HullObjective
from pursuit.solvers import reweight


class SignedAtoms:
    """r p for every atom p, and then -r p for every one."""

    finite = True
    exact = True

    def __init__(self, source: AtomSource, radius: float) -> None:
        self._source, self._radius = source, radius
        self.n_atoms = 2 * source.n_atoms

    def propose(self, gradient: Floats) -> Indices:
        """All of them."""
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
        """Not known: M follows from the mean squares of the atoms."""


class SmoothBall:
    """f(Σ_j w_j p_j) over ‖w‖₁ ≤ r for a smooth f, one atom at a time.

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
        Coefficients to go on from, in the ball; zeros by default.
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
        self._source, self._loss, self._step = source, loss, step
        self._curvature = curvature
        self.radius = radius
        self._begin(np.zeros(source.n_atoms) if start is None else start)
        self.start_value = loss.value(np.zeros_like(self._hull.point))

    @property
    def coefficients(self) -> Floats:
        """W."""
        numbers, weights = self._hull.terms()
        w = np.zeros(2 * self._source.n_atoms)
        w[numbers[numbers >= 0]] = self.radius * weights[numbers >= 0]
        return w[: self._source.n_atoms] - w[self._source.n_atoms :]

    @property
    def step(self) -> str:
        """The rule in use."""
        return self._step

    @property
    def available(self) -> NDArray[np.bool_]:
        """All atoms."""
        return np.ones(self._source.n_atoms, bool)

    @property
    def value(self) -> float:
        """f."""
        return self._hull.value

    @property
    def gap(self) -> float:
        """f is at most this above its minimum over the ball."""
        return self._hull.gap

    @property
    def curvature(self) -> float:
        """M."""
        return self.radius**2 * self._curvature

    @property
    def n_terms(self) -> int:
        """Atoms that have weight."""
        return int(np.count_nonzero(self.coefficients))

    def widen(self, radius: float) -> None:
        """Go on in a larger ball from where the smaller one led."""
        w, self.radius = self.coefficients, radius
        self._begin(w)

    def refresh(self) -> None:
        """Nothing: the gap is that of the present point at all times."""

    def score(self, candidates: Indices) -> Floats:
        """What the better sign of each atom brings."""
        return np.asarray(self._scores(candidates).max(axis=0))

    def add(self, candidate: int) -> bool:
        """Move towards an atom with its better sign; False where f does not fall."""
        sign = int(self._scores(np.array([candidate], dtype=np.intp))[:, 0].argmax())
        return self._hull.add(candidate + sign * self._source.n_atoms)

    def _scores(self, candidates: Indices) -> Floats:
        both = np.concatenate([candidates, candidates + self._source.n_atoms])
        return self._hull.score(both).reshape(2, -1)

    def _begin(self, coefficients: Floats) -> None:
        held = np.flatnonzero(coefficients)
        w = coefficients[held]
        self._hull = HullObjective(
            self._loss,
            SignedAtoms(self._source, self.radius),
            np.zeros(len(self._loss.y)),
            step=self._step,
            reweight=reweight,
            curvature=self.curvature,
        )
        if len(held):
            numbers = held + np.where(w < 0, self._source.n_atoms, 0)
            self._hull.restart(numbers, np.abs(w) / self.radius)
