"""Kernel matching pursuit, for squared loss (Formulas §9) and for any smooth convex loss.

With squared loss only H = G'G and b = G'y are needed, where the columns of G are the values of the
functions to choose from. Every objective keeps the coefficients of the models of all sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from pursuit import limits
from pursuit._types import Floats, Indices
from pursuit.linalg import RowCholesky, Workers
from pursuit.objectives.base import Objective
from pursuit.objectives.quadratic import QuadraticPursuit
from pursuit.objectives.row_loss import RowLoss

_PANEL = 128
_FIRST_ROOM = 16
"""Number of chosen functions that are allocated at first; the space doubles when it is full."""


class MatchingObjective(Objective, Protocol):
    """An objective that remembers the model of every size."""

    @property
    def chosen(self) -> Indices:
        """Candidates in the order of choice, after those forced in."""

    def force_in(self, candidate: int) -> None:
        """Make a candidate, such as the constant, part of every model, before any choice."""

    def coefficient_path(self, first: int, last: int) -> Floats:
        """Coefficients with the first ``first``, …, ``last`` candidates, zero for the others.

        Shape (last, last - first + 1, n_outputs).
        """


class PrefitPursuit(QuadraticPursuit):
    """Pre-fitting: take the candidate whose best fit is best, and fit all coefficients again.

    SB01's choice with σ² = 0, also known as orthogonal least squares.
    """

    def force_in(self, candidate: int) -> None:
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
    """Back-fitting: take the candidate most aligned with the residual r, then fit all again.

    Candidate i scores ½Σ_o g_io²/H_ii with g = G'r, what it takes off without the refit. With
    ``refit_every`` p > 1 the choice sees a residual whose coefficients were fitted together only at
    every p-th step, and one at a time in between; coefficients given out are fitted together.
    """

    def __init__(self, *arguments: Any, refit_every: int = 1, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._every = refit_every
        self.refit()

    def force_in(self, candidate: int) -> None:
        """Take it first; it does not count towards the next refit."""
        super().force_in(candidate)
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
            assert callable(self._columns)
            index = np.array([candidate], dtype=np.intp)
            step = self._known[:, candidate] / self.factor.diagonal[candidate]
            self._known -= np.outer(step, self._columns(index)[0])
        return True


class BasicPursuit:
    """Basic matching pursuit: β_i += g_i/H_ii for the candidate that lowers the value most.

    No other coefficient changes except that of a candidate forced in, and a candidate may be taken
    again. The model of size s is that of the step which first had s candidates. A step is O(P).

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
        """½Σ_o g²/H_ii: the decrease, or at most the decrease if a candidate is forced in."""
        g = self._gradient[candidates]
        gain: Floats = 0.5 * np.einsum("io,io->i", g, g) / self._diagonal[candidates]
        return gain

    def force_in(self, candidate: int) -> None:
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


class GradientPursuit:
    """min over f in the span of the chosen functions of Σ_i w_i ℓ(f(x_i), y_i), columns summed.

    With slopes s_i = w_i ℓ'(f(x_i), y_i), candidate j scores ½Σ_o (G_j's_o)² / (c‖G_j‖²), where c
    is the largest curvature of ℓ and ‖G_j‖² = Σwg²: taking it lowers the value by at least that.
    After every ``refit_every`` steps all coefficients are fitted together, and in between only the
    new one, by a Newton step.

    Parameters
    ----------
    functions : array of shape (P, n_rows)
        Values of the candidates at the rows of the data, one candidate per row of the array.
    targets : array of shape (n_rows, n_outputs)
        y.
    weights : array of shape (n_rows,)
        w.
    loss : RowLoss
        ℓ.
    refit : callable
        ``refit(chosen, start)`` returns the best coefficients on the chosen candidates.
    refit_every : int
        Steps from one refit to the next.
    workers : Workers
        Threads.
    """

    def __init__(
        self,
        functions: Floats,
        targets: Floats,
        weights: Floats,
        loss: RowLoss,
        *,
        refit: Callable[[Indices, Floats], Floats],
        refit_every: int,
        workers: Workers,
    ) -> None:
        self._functions, self._targets, self._weights = functions, targets, weights
        self._loss, self._refit, self._every, self._workers = loss, refit, refit_every, workers
        self._panels = Workers.slices(len(functions), _PANEL)
        self._squares = np.concatenate(
            workers.map(lambda panel: functions[panel] ** 2 @ weights, self._panels)
        )
        self.available: NDArray[np.bool_] = self._squares > 0
        self._chosen: list[int] = []
        self._basis = np.empty((_FIRST_ROOM, functions.shape[1]))
        self._factor = RowCholesky()
        self._coefficients = np.empty((0, targets.shape[1]))
        self._history: list[Floats] = []
        self._see(np.zeros_like(targets))

    @property
    def chosen(self) -> Indices:
        """Candidates in the order of choice."""
        return np.array(self._chosen, dtype=np.intp)

    def force_in(self, candidate: int) -> None:
        """Take it first."""
        self.add(candidate)

    def score(self, candidates: Indices) -> Floats:
        """½Σ_o (G's)²/(c‖G‖²), at most the decrease."""
        slope = self._slopes[candidates]
        most = self._loss.most_curved * self._squares[candidates]
        gain: Floats = 0.5 * np.einsum("io,io->i", slope, slope)
        return np.divide(gain, most, out=np.zeros_like(gain), where=most > 0)

    def add(self, candidate: int) -> bool:
        """Take a candidate, or drop it when it is dependent on those chosen."""
        self.available[candidate] = False
        column = self._functions[candidate]
        n = len(self._chosen)
        border = self._factor.solve(self._basis[:n] @ (self._weights * column))
        pivot = self._squares[candidate] - float(border @ border)
        if pivot <= limits.GRAM_PIVOT_TOLERANCE * self._squares[candidate]:
            return False
        self._factor.append(border, pivot)
        self._chosen.append(candidate)
        if n == len(self._basis):
            self._basis = np.concatenate([self._basis, np.empty_like(self._basis)])
        self._basis[n] = column
        bend = self._loss.curvature(self._fitted, self._targets).T @ (self._weights * column**2)
        start = np.vstack([self._coefficients, -self._slopes[candidate] / np.maximum(bend, 1e-300)])
        if len(self._chosen) % self._every == 0:
            start[-1] = 0.0
            self._coefficients = self._refit(self.chosen, start)
            fitted = self._basis[: n + 1].T @ self._coefficients
        else:
            # A full Newton step may overshoot where ℓ is flat; this much always lowers the value.
            least = -self._slopes[candidate] / (self._loss.most_curved * self._squares[candidate])
            self._coefficients = self._better(start, least)
            fitted = self._fitted + column[:, None] * self._coefficients[-1]
        self._history.append(self._coefficients)
        self._see(fitted)
        return True

    def coefficient_path(self, first: int, last: int) -> Floats:
        """As they were at each size."""
        return padded(self._history[first - 1 : last], last)

    def _better(self, start: Floats, careful: Floats) -> Floats:
        """For each output the Newton step of the last coefficient, if it beats the careful one."""
        column = self._functions[self._chosen[-1]][:, None]
        values = [
            self._weights @ self._loss.value(self._fitted + column * step, self._targets)
            for step in (start[-1], careful)
        ]
        start[-1] = np.where(values[0] <= values[1], start[-1], careful)
        return start

    def _see(self, fitted: Floats) -> None:
        """Set the values of f on the rows."""
        self._fitted = fitted
        self.value = float((self._weights @ self._loss.value(fitted, self._targets)).sum())
        slopes = self._weights[:, None] * self._loss.gradient(fitted, self._targets)
        self._slopes = np.concatenate(
            self._workers.map(lambda panel: self._functions[panel] @ slopes, self._panels)
        )
