"""Newton's method in a span: convex losses of Fβ, for features F that need not be stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from pursuit.linalg import Workers
from pursuit.objectives import RowLoss

Floats = NDArray[np.float64]

_BLOCK = 1024
_WAVE = 16
_HALVINGS = 40
_SUFFICIENT = 1e-4


@dataclass(frozen=True)
class NewtonSolution:
    """Where Newton's method ended.

    Attributes
    ----------
    coefficients : array of shape (n, n_outputs)
        β.
    value : array of shape (n_outputs,)
        The objective.
    steps : int
        Steps taken.
    converged : bool
        Whether the decrease that another step promises is below the tolerance in every column.
    """

    coefficients: Floats
    value: Floats
    steps: int
    converged: bool


def newton(
    features: Callable[[slice], Floats],
    loss: RowLoss,
    targets: Floats,
    weights: Floats,
    *,
    start: Floats,
    ridge: Floats,
    workers: Workers,
    max_steps: int = 50,
    tol: float = 1e-10,
) -> NewtonSolution:
    """Minimise Σ_i w_i ℓ((Fβ)_i, y_i) + ½Σ_j ρ_j β_j² over β, every column of y by itself.

    A step solves (F'DF + ρ)δ = gradient with D = diag(w ℓ''), O(m n²) for each column that has not
    converged, and is halved until the objective falls.

    Parameters
    ----------
    features : callable
        ``features(rows)`` gives F for a slice of rows; called twice a step.
    loss : RowLoss
        ℓ.
    targets : array of shape (m, n_outputs)
        y.
    weights : array of shape (m,)
        w.
    start : array of shape (n, n_outputs)
        Where to begin.
    ridge : array of shape (n,)
        ρ; positive, or F of full column rank and a minimum that is attained.
    workers : Workers
        Threads; their number does not change a bit of the result.
    max_steps : int
        Most steps.
    tol : float
        A column has converged when half its squared Newton decrement is at most ``tol`` times
        Σw ℓ(0, y), the objective at β = 0.

    Returns
    -------
    solution : NewtonSolution
    """
    blocks = Workers.slices(len(targets), _BLOCK)
    beta = np.array(start, dtype=np.float64)

    def times(vectors: Floats) -> Floats:
        return np.concatenate(workers.map(lambda rows: features(rows) @ vectors, blocks))

    def objective(fitted: Floats, beta: Floats) -> Floats:
        value: Floats = weights @ loss.value(fitted, targets) + 0.5 * ridge @ beta**2
        return value

    fitted = times(beta)
    value = objective(fitted, beta)
    enough = tol * (weights @ loss.value(np.zeros_like(targets), targets))
    open_columns = np.arange(targets.shape[1])
    for step in range(max_steps):
        slopes = weights[:, None] * loss.gradient(fitted, targets)
        bends = weights[:, None] * loss.curvature(fitted, targets)
        gradient, hessians = _derivatives(
            features, blocks, slopes[:, open_columns], bends[:, open_columns], len(beta), workers
        )
        gradient += ridge[:, None] * beta[:, open_columns]
        direction = np.zeros_like(beta)
        direction[:, open_columns] = _solve(hessians, ridge, gradient)
        promise = np.zeros(targets.shape[1])
        promise[open_columns] = -np.einsum("ij,ij->j", direction[:, open_columns], gradient)
        open_columns = open_columns[0.5 * promise[open_columns] > enough[open_columns]]
        if not len(open_columns):
            return NewtonSolution(beta, value, step, True)
        ahead = times(direction)
        length = np.where(np.isin(np.arange(len(value)), open_columns), 1.0, 0.0)
        for _ in range(_HALVINGS):
            trial = objective(fitted + length * ahead, beta + length * direction)
            bad = trial > value - _SUFFICIENT * length * promise
            bad[length == 0.0] = False
            if not bad.any():
                break
            length = np.where(bad, 0.5 * length, length)
        else:
            # Rounding hides what is left to gain in these columns.
            length[bad] = 0.0
            open_columns = open_columns[~bad[open_columns]]
        fitted, beta = fitted + length * ahead, beta + length * direction
        value = objective(fitted, beta)
        if not len(open_columns):
            return NewtonSolution(beta, value, step + 1, True)
    return NewtonSolution(beta, value, max_steps, False)


def _derivatives(
    features: Callable[[slice], Floats],
    blocks: list[slice],
    slopes: Floats,
    bends: Floats,
    n: int,
    workers: Workers,
) -> tuple[Floats, Floats]:
    """F's and F'DF for every column, added up block after block, a few blocks in flight."""
    gradient, hessians = np.zeros((n, slopes.shape[1])), np.zeros((slopes.shape[1], n, n))

    def part(rows: slice) -> tuple[Floats, Floats]:
        F = features(rows)
        curved = np.stack([F.T @ (bend[:, None] * F) for bend in bends[rows].T])
        return F.T @ slopes[rows], curved

    for at in range(0, len(blocks), _WAVE):
        for first, second in workers.map(part, blocks[at : at + _WAVE]):
            gradient += first
            hessians += second
    return gradient, hessians


def _solve(hessians: Floats, ridge: Floats, gradient: Floats) -> Floats:
    """-(H + ρ)⁻¹ gradient, column by column; scaled first, so that a flat ℓ does no harm."""
    direction = np.empty_like(gradient)
    for column, H in enumerate(hessians):
        H[np.diag_indices_from(H)] += ridge
        scale = 1.0 / np.sqrt(np.maximum(np.diag(H), 1e-300))
        H *= np.outer(scale, scale)
        H[np.diag_indices_from(H)] += 1e-14
        direction[:, column] = -scale * cho_solve(cho_factor(H), scale * gradient[:, column])
    return direction
