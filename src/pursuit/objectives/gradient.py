"""Matching pursuit for any smooth convex loss: candidates chosen by its gradient."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.linalg import RowCholesky, Workers
from pursuit.objectives.matching import padded
from pursuit.objectives.rowloss import RowLoss

_PIVOT_TOLERANCE = 1e-10
_PANEL = 128
_FIRST_ROOM = 16
"""Chosen functions that there is room for at first; the room doubles when it is full."""


class GradientPursuit:
    """min over f in the span of the chosen functions of Σ_i w_i ℓ(f(x_i), y_i), columns summed.

    With slopes s_i = w_i ℓ'(f(x_i), y_i), candidate j scores ½Σ_o (G_j's_o)² / (c‖G_j‖²), where c
    is the largest curvature of ℓ and ‖G_j‖² = Σwg²: taking it lowers the value by at least that.
    After every ``refit_every`` steps all coefficients are fitted together, and in between only the
    new one, by a Newton step.

    Parameters
    ----------
    functions : array of shape (P, n_rows)
        Values of the candidates at the rows, one a row of the array.
    targets : array of shape (n_rows, n_outputs)
        y.
    weights : array of shape (n_rows,)
        w.
    loss : RowLoss
        ℓ.
    refit : callable
        ``refit(chosen, start)`` gives the best coefficients on the chosen candidates.
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

    def hold(self, candidate: int) -> None:
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
        if pivot <= _PIVOT_TOLERANCE * self._squares[candidate]:
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
        """Take note of f on the rows."""
        self._fitted = fitted
        self.value = float((self._weights @ self._loss.value(fitted, self._targets)).sum())
        slopes = self._weights[:, None] * self._loss.gradient(fitted, self._targets)
        self._slopes = np.concatenate(
            self._workers.map(lambda panel: self._functions[panel] @ slopes, self._panels)
        )
