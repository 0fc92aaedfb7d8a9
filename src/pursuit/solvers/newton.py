"""Newton's method for convex losses of Fβ, for features F that need not be stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from pursuit._types import Floats, Indices
from pursuit.linalg import Workers, damped_cholesky, line_search
from pursuit.objectives import RowLoss

Features = Callable[[slice], NDArray[Any]]

_BLOCK = 512
_GRAM_BLOCK = 4096
_WAVE = 16
_FARTHEST = 8.0
"""Longest step, in multiples of the Newton step."""
_LONGEST = 50.0
"""Most that a step changes a value of Fβ if the curvature has no bound: Newton's step from where an
exponential is flat leads to where it overflows."""
_LINE_TOLERANCE = 1e-4
_FLAT = 1e-6
"""Curvature of a coordinate that has none, in units of the largest: shorter steps if larger."""
_EPSILON = float(np.finfo(np.float64).eps)
_PATIENCE, _FALLS = 8, 0.1
"""After 8 steps, the predicted decrease must shrink tenfold per step. Otherwise the matrices are
summed in float64."""
_HELD_MATRICES = 1 << 26
_HELD_ROWS = 1 << 24
"""Most numbers in the matrices, and in each array over the rows, of columns solved together."""


@dataclass(frozen=True)
class NewtonSolution:
    """The solution of Newton's method.

    Attributes
    ----------
    coefficients : array of shape (n, n_outputs)
        β.
    value : array of shape (n_outputs,)
        The objective.
    steps : int
        Largest number of steps that a column took.
    converged : bool
        Whether the decrease that another step promises is below the tolerance in every column.
    fitted : array of shape (m, n_outputs)
        Fβ + o.
    """

    coefficients: Floats
    value: Floats
    steps: int
    converged: bool
    fitted: Floats


def newton(
    features: Features,
    loss: RowLoss,
    targets: Floats,
    weights: Floats,
    *,
    start: Floats,
    ridge: Floats,
    workers: Workers,
    offset: Floats | None = None,
    max_steps: int = 200,
    tol: float = 1e-10,
) -> NewtonSolution:
    """Minimise Σ_i w_i ℓ((Fβ + o)_i, y_i) + ½Σ_j ρ_j β_j² over β, each column of y by itself.

    A step solves (F'DF + ρ)δ = gradient with D = diag(w ℓ''), and goes to the minimum of the
    objective in this direction, which takes no pass over F. For a piecewise quadratic loss finitely
    many steps reach the minimum, however large the weights. Rows without curvature do not enter
    F'DF. If the curvature is piecewise constant, only rows that change between pieces enter it
    again, so that a step costs O(n²) per changed row and two passes of O(m n).

    Parameters
    ----------
    features : callable
        ``features(rows)`` returns F for a slice of rows, in float64 or float32. Products of float32
        features are summed in float64 over blocks, and gradients are float64 throughout.
    loss : RowLoss
        ℓ.
    targets : array of shape (m, n_outputs)
        y.
    weights : array of shape (m,) or (m, n_outputs)
        w.
    start : array of shape (n, n_outputs)
        Where to begin.
    ridge : array of shape (n,)
        ρ; positive, or F of full column rank and a minimum that is attained.
    workers : Workers
        Threads; their number does not change a bit of the result.
    offset : array of shape (m,), optional
        o; 0 by default.
    max_steps : int
        Most steps.
    tol : float
        A column has converged when half its squared Newton decrement, the predicted decrease of
        another step, is at most ``tol`` times the size of its objective, or when that step
        changes Fβ by no more than rounding.

    Returns
    -------
    solution : NewtonSolution
    """
    m, n_outputs = targets.shape
    by_column = np.broadcast_to(weights.reshape(m, -1), targets.shape)
    width = max(1, min(_HELD_MATRICES // max(len(start) ** 2, 1), _HELD_ROWS // max(m, 1)))
    parts = [
        _minimise(
            features,
            loss,
            targets[:, columns],
            by_column[:, columns],
            np.array(start[:, columns], dtype=np.float64),
            ridge,
            workers,
            offset,
            max_steps,
            tol,
        )
        for columns in Workers.slices(n_outputs, width)
    ]
    if len(parts) == 1:
        return parts[0]
    return NewtonSolution(
        np.hstack([part.coefficients for part in parts]),
        np.concatenate([part.value for part in parts]),
        max(part.steps for part in parts),
        all(part.converged for part in parts),
        np.hstack([part.fitted for part in parts]),
    )


def _minimise(
    features: Features,
    loss: RowLoss,
    targets: Floats,
    weights: Floats,
    beta: Floats,
    ridge: Floats,
    workers: Workers,
    offset: Floats | None,
    max_steps: int,
    tol: float,
) -> NewtonSolution:
    """Minimise for a few columns together, in the same passes."""
    passes = _Passes(features, len(beta), Workers.slices(len(targets), _BLOCK), workers)
    matrices = _CurvedGrams(features, len(beta), targets.shape, workers)

    def objective(fitted: Floats, beta: Floats) -> Floats:
        losses: Floats = np.einsum("ij,ij->j", weights, loss.value(fitted, targets))
        return losses + 0.5 * ridge @ beta**2

    def best_length(column: int) -> float:
        """Where the objective of a column is least along its direction."""
        f, g, y, w = (whole[:, column].copy() for whole in (fitted, ahead, targets, weights))
        along, along_twice = w * g, w * g * g
        delta = ridge * direction[:, column]
        first, second = float(delta @ beta[:, column]), float(delta @ direction[:, column])

        def slope(t: float) -> tuple[float, float]:
            moved = f + t * g
            # The bracket closes in on points where an exponential does not overflow.
            with np.errstate(over="ignore", invalid="ignore"):
                bend = float(along_twice @ loss.curvature(moved, y)) + second
                return float(along @ loss.gradient(moved, y)) + first + t * second, bend

        end = _FARTHEST
        if not np.isfinite(loss.most_curved):
            end = min(end, _LONGEST / float(np.abs(g).max()))
        return line_search(slope, end, guess=1.0, tolerance=_LINE_TOLERANCE)

    fitted = passes.times(beta)
    if offset is not None:
        fitted += offset[:, None]
    value = objective(fitted, beta)
    open_columns = np.arange(targets.shape[1])
    last = np.full(targets.shape[1], np.inf)
    for step in range(max_steps):
        slopes = weights * loss.gradient(fitted, targets)
        gradient = passes.transposed_times(slopes[:, open_columns])
        gradient += ridge[:, None] * beta[:, open_columns]
        matrices.update(weights * loss.curvature(fitted, targets), open_columns)
        direction = np.zeros_like(beta)
        promise = np.zeros(targets.shape[1])
        systems = zip(open_columns, gradient.T, strict=True)
        solved = workers.map(
            lambda system: _solve(matrices.gram[system[0]], ridge, system[1]), systems
        )
        direction[:, open_columns] = np.column_stack(solved)
        promise[open_columns] = -np.einsum("ij,ij->j", direction[:, open_columns], gradient)
        open_columns = open_columns[0.5 * promise[open_columns] > tol * np.abs(value[open_columns])]
        if not len(open_columns):
            return NewtonSolution(beta, value, step, True, fitted)
        ahead = passes.times(direction)
        # An objective of 0 cannot be compared with what a step promises.
        moved = np.abs(ahead).max(axis=0, initial=0.0) > _EPSILON * np.abs(fitted).max(
            axis=0, initial=0.0
        )
        open_columns = open_columns[moved[open_columns]]
        length = np.zeros(len(value))
        length[open_columns] = workers.map(best_length, open_columns.tolist())
        # Where the objective does not fall, rounding hides the rest of the decrease.
        trial = objective(fitted + length * ahead, beta + length * direction)
        falls = trial < value
        length[~falls] = 0.0
        open_columns = open_columns[falls[open_columns]]
        if step >= _PATIENCE:
            matrices.doubt(open_columns[promise[open_columns] > _FALLS * last[open_columns]])
        last = promise
        fitted, beta = fitted + length * ahead, beta + length * direction
        value = np.where(falls, trial, value)
        if not len(open_columns):
            return NewtonSolution(beta, value, step + 1, True, fitted)
    return NewtonSolution(beta, value, max_steps, False, fitted)


@dataclass(frozen=True)
class _Passes:
    """Products with F and F', block by block."""

    features: Features
    n: int
    blocks: list[slice]
    workers: Workers

    def times(self, vectors: Floats) -> Floats:
        """F @ vectors."""
        parts = self.workers.map(lambda rows: self.features(rows) @ vectors, self.blocks)
        return np.concatenate(parts)

    def transposed_times(self, vectors: Floats) -> Floats:
        """F' @ vectors, without the rows that are zero in all of them."""

        def part(rows: slice) -> Floats | None:
            nonzero = np.flatnonzero(vectors[rows].any(axis=1))
            if not len(nonzero):
                return None
            F = self.features(rows)[nonzero]
            product: Floats = F.T.astype(np.float64, copy=False) @ vectors[rows][nonzero]
            return product

        total = np.zeros((self.n, vectors.shape[1]))
        for piece in self.workers.map(part, self.blocks):
            if piece is not None:
                total += piece
        return total


class _CurvedGrams:
    """F'DF for every column, updated by the rows whose curvature has changed."""

    def __init__(
        self, features: Features, n: int, shape: tuple[int, ...], workers: Workers
    ) -> None:
        self.gram = np.zeros((shape[1], n, n))
        self._features, self._workers = features, workers
        self._bends = np.zeros(shape)
        self._blocks = Workers.slices(shape[0], _GRAM_BLOCK)
        self._exact = np.zeros(shape[1], dtype=bool)

    def update(self, bends: Floats, columns: Indices) -> None:
        """Update the matrices of these columns to D = diag(bends)."""
        tasks: list[tuple[int, slice]] = []
        for column in columns:
            changed = np.count_nonzero(bends[:, column] != self._bends[:, column])
            if changed >= np.count_nonzero(bends[:, column]):
                self._bends[:, column], self.gram[column] = 0.0, 0.0
            tasks += [(int(column), rows) for rows in self._blocks]
        for at in range(0, len(tasks), _WAVE):
            some = tasks[at : at + _WAVE]
            parts = self._workers.map(lambda task: self._change(*task, bends), some)
            for (column, _), part in zip(some, parts, strict=True):
                if part is not None:
                    self.gram[column] += part
        self._bends[:, columns] = bends[:, columns]

    def doubt(self, columns: Indices) -> None:
        """Sum these columns' matrices in float64, and from scratch, from now on.

        Newton's method converges more slowly than it should; float32 may be the reason.
        """
        doubtful = columns[~self._exact[columns]]
        if self._features(slice(0, 1)).dtype == np.float64:
            return
        self._exact[doubtful] = True
        self._bends[:, doubtful], self.gram[doubtful] = 0.0, 0.0

    def _change(self, column: int, rows: slice, bends: Floats) -> NDArray[Any] | None:
        """The change of a column's matrix by a block of rows."""
        change = bends[rows, column] - self._bends[rows, column]
        if not change.any():
            return None
        F = self._features(rows)
        total: NDArray[Any] | None = None
        for sign in (1.0, -1.0):
            changed = np.flatnonzero(sign * change > 0)
            if not len(changed):
                continue
            some = F[changed]
            if self._exact[column]:
                some = some.astype(np.float64)
            some *= np.sqrt(sign * change[changed]).astype(some.dtype)[:, None]
            # One array on both sides: half the work for BLAS.
            product = some.T @ some
            total = sign * product if total is None else total - product
        return total


def _solve(gram: Floats, ridge: Floats, gradient: Floats) -> Floats:
    """-(F'DF + ρ)⁻¹ gradient, scaled to a unit diagonal first, since ℓ may be flat."""
    diagonal = np.diag(gram) + ridge
    # Along a flat coordinate any length will do: the line search finds the right one.
    flat = _FLAT * float(diagonal.max(initial=1e-290))
    diagonal = np.where(diagonal > 1e-300, diagonal, flat)
    scale = 1.0 / np.sqrt(diagonal)
    H = gram * np.outer(scale, scale)
    H[np.diag_indices_from(H)] = 1.0
    factor = damped_cholesky(H, 1e-14)
    solution: Floats = -scale * cho_solve((factor, True), scale * gradient, check_finite=False)
    return solution
