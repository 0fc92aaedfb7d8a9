"""Pre-images: rows of numbers whose image in feature space is nearest to a point of a span."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pursuit._types import Floats
from pursuit.kernels import Kernel
from pursuit.linalg import Workers

_RIDGE = 0.1
_STEPS = 100
_TOLERANCE = 1e-6
_CHUNK_ROWS = 256


@dataclass(frozen=True)
class RidgeMap:
    """A linear map from scores to rows, learned on the basis points.

    Minimises Σ_j ‖x_j - x̄ - C'(z_j - z̄)‖² + α ‖C‖² over the n basis points x_j with their scores
    z_j, α being a tenth of n times the mean variance of the components on all rows.
    """

    offset: Floats
    matrix: Floats

    @classmethod
    def fit(cls, points: Floats, scores: Floats, variances: Floats) -> RidgeMap:
        """From basis points, their scores, and the variances of the components."""
        n, q = scores.shape
        x, z = points.mean(axis=0), scores.mean(axis=0)
        centred = scores - z
        ridge = _RIDGE * n * max(float(variances.mean()), 1e-300)
        matrix = np.linalg.solve(centred.T @ centred + ridge * np.eye(q), centred.T @ (points - x))
        return cls(x - z @ matrix, matrix)

    def __call__(self, scores: Floats) -> Floats:
        """Rows for scores."""
        return np.asarray(self.offset + scores @ self.matrix)


def fixed_points(
    coefficients: Floats, points: Floats, kernel: Kernel, start: Floats, workers: Workers
) -> Floats:
    """Fixed points of x <- Σ_j γ_j k(x, x_j) x_j / Σ_j γ_j k(x, x_j) (Mika et al. 1999).

    For a Gaussian kernel, whatever its widths, a maximum of Σ_j γ_j k(x, x_j), the inner product
    with the point Σ_j γ_j φ(x_j), is one of them. Rows whose denominator vanishes stay where they
    are.

    Parameters
    ----------
    coefficients : array of shape (n_rows, n)
        γ.
    points : array of shape (n, n_features)
        The x_j.
    kernel : Kernel
        A Gaussian.
    start : array of shape (n_rows, n_features)
        Where to begin.
    workers : Workers
        Threads.

    Returns
    -------
    rows : array of shape (n_rows, n_features)
    """
    columns = kernel.columns(points)
    scale = float(np.abs(points - points.mean(axis=0)).max(initial=0.0))
    found = start.copy()

    def iterate(rows: slice) -> None:
        x, gamma = found[rows], coefficients[rows]
        for _ in range(_STEPS):
            terms = gamma * columns(x)
            total = terms.sum(axis=1)
            usable = np.abs(total) > 1e-8 * np.abs(terms).sum(axis=1)
            moved = terms @ points / np.where(usable, total, 1.0)[:, None]
            moved = np.where(usable[:, None], moved, x)
            step = float(np.abs(moved - x).max(initial=0.0))
            x = moved
            if step <= _TOLERANCE * scale:
                break
        found[rows] = x

    workers.map(iterate, Workers.slices(len(found), _CHUNK_ROWS))
    return found
