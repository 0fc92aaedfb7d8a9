"""Kernel matching pursuit with squared loss, in terms of H = G'G and b = G'y (Formulas §9).

G holds the values of the functions to choose from, one a column; only sums over rows are needed.
All three give the coefficients of every size along the way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from pursuit._types import Floats, Indices
from pursuit.objectives.base import Objective
from pursuit.objectives.quadratic import QuadraticPursuit


class MatchingObjective(Objective, Protocol):
    """An objective that remembers the model of every size."""

    @property
    def chosen(self) -> Indices:
        """Candidates in the order of choice, after those held."""
        ...

    def hold(self, candidate: int) -> None:
        """Make a candidate part of every model, before any choice: the constant."""
        ...

    def coefficient_path(self, first: int, last: int) -> Floats:
        """Coefficients with the first ``first``, …, ``last`` candidates, zero for the others.

        Shape (last, last - first + 1, n_outputs).
        """
        ...


class PrefitPursuit(QuadraticPursuit):
    """Pre-fitting: the candidate with which the best fit is best, and all coefficients anew.

    SB01's choice with σ² = 0, also known as orthogonal least squares.
    """

    def hold(self, candidate: int) -> None:
        """Take it first."""
        self.add(candidate)

    def coefficient_path(self, first: int, last: int) -> Floats:
        """L'β = z for the leading blocks of L and z: β_s = Σ_{j≤s} z_j t_j with T = L⁻ᵀ."""
        L = self.factor.triangle()[:last, :last]
        T = solve_triangular(L, np.eye(last), lower=True, trans="T")
        parts = T[:, :, None] * self.z[None, :last]
        parts[:, first - 1] = parts[:, :first].sum(axis=1)
        path: Floats = np.cumsum(parts[:, first - 1 :], axis=1)
        return path


class BackfitPursuit(PrefitPursuit):
    """Back-fitting: the candidate most aligned with the residual r, then all coefficients anew.

    Candidate i scores ½Σ_o g_io²/H_ii with g = G'r, what it takes off without the refit. With
    ``refit_every`` p > 1 the choice sees a residual whose coefficients were fitted together only at
    every p-th step, and one at a time in between; coefficients given out are fitted together.
    """

    def __init__(self, *arguments: Any, refit_every: int = 1, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._every = refit_every
        self.refit()

    def hold(self, candidate: int) -> None:
        """Take it first; it does not count towards the next refit."""
        super().hold(candidate)
        self.refit()

    def refit(self) -> None:
        """Let the choice see the residual of the best fit."""
        self._known = self._gradient if self._every == 1 else self._gradient.copy()
        self._since = 0

    def score(self, candidates: Indices) -> Floats:
        """½Σ_o g²/H_ii, at most the decrease."""
        g, h = self._known[:, candidates], self.factor.diagonal[candidates]
        gain: Floats = 0.5 * np.einsum("oi,oi->i", g, g)
        return np.divide(gain, h, out=np.zeros_like(gain), where=h > 0)

    def add(self, candidate: int) -> bool:
        """Take a candidate, or drop it when it is dependent on those chosen."""
        if not super().add(candidate):
            return False
        self._since += 1
        if self._since >= self._every:
            self.refit()
        else:
            index = np.array([candidate], dtype=np.intp)
            step = self._known[:, candidate] / self.factor.diagonal[candidate]
            self._known -= np.outer(step, self._columns(index)[0])
        return True


class BasicPursuit:
    """Basic matching pursuit: β_i += g_i/H_ii for the candidate that lowers the value most.

    No other coefficient changes but that of a candidate held, and a candidate may be taken again.
    The model of size s is the one that took its s-th candidate for the first time. O(P) a step.

    Parameters
    ----------
    diagonal : array of shape (P,)
        diag H.
    linear : array of shape (P, n_outputs)
        b.
    columns : callable
        ``columns(index)`` gives the rows of H for an index array.
    offset : float
        Constant added to the value.
    """

    def __init__(
        self,
        diagonal: Floats,
        linear: Floats,
        columns: Callable[[Indices], Floats],
        *,
        offset: float = 0.0,
    ) -> None:
        self.available: NDArray[np.bool_] = diagonal > 0
        self.value = offset
        self._diagonal = np.where(self.available, diagonal, 1.0)
        self._gradient = np.array(linear, dtype=np.float64)
        self._columns = columns
        self._position: dict[int, int] = {}
        self._coefficients = np.empty((0, linear.shape[1]))
        self._history: list[Floats] = []
        self._held: int | None = None

    @property
    def chosen(self) -> Indices:
        """Candidates in the order in which they were first taken."""
        return np.array(list(self._position), dtype=np.intp)

    def score(self, candidates: Indices) -> Floats:
        """½Σ_o g²/H_ii, the decrease where nothing is held and at most the decrease elsewhere."""
        g = self._gradient[candidates]
        gain: Floats = 0.5 * np.einsum("io,io->i", g, g) / self._diagonal[candidates]
        return gain

    def hold(self, candidate: int) -> None:
        """Take it now, and again after every step."""
        self.available[candidate] = False
        self.add(candidate)
        self._held = candidate

    def add(self, candidate: int) -> bool:
        """Take a candidate, for the first time or again."""
        is_new = candidate not in self._position
        self._step(candidate)
        if self._held is not None:
            self._step(self._held)
        if is_new:
            self._history.append(self._coefficients.copy())
        return True

    def _step(self, candidate: int) -> None:
        index = np.array([candidate], dtype=np.intp)
        self.value -= float(self.score(index)[0])
        step = self._gradient[candidate] / self._diagonal[candidate]
        self._gradient -= np.outer(self._columns(index)[0], step)
        if candidate not in self._position:
            self._position[candidate] = len(self._position)
            self._coefficients = np.vstack([self._coefficients, np.zeros_like(step)])
        self._coefficients[self._position[candidate]] += step

    def coefficient_path(self, first: int, last: int) -> Floats:
        """As they were when the candidates were first taken."""
        return padded(self._history[first - 1 : last], last)


def padded(history: list[Floats], n: int) -> Floats:
    """Coefficients of growing models side by side: shape (n, number of models, n_outputs)."""
    path = np.zeros((n, len(history), history[0].shape[1]))
    for at, coefficients in enumerate(history):
        path[: len(coefficients), at] = coefficients
    return path
