"""The two-level certificate: a larger pivoted Cholesky for the dual alone (Formulas §10)."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from pursuit._types import Floats
from pursuit.bounds import scaled_lower_bound, shifted_lower_bound
from pursuit.greedy import MaxSize, Problem, Pursuit
from pursuit.objectives import DiagonalPursuit


def two_level_lower_bounds(
    problem: Problem, residuals: list[Floats], n_second: int
) -> list[Floats]:
    """The better of two bounds for each model, without any product with the full matrix.

    With K = VV' + E from n_second pivots, d = diag E and s = Σ√d, E is at most s·diag(√d), hence

        P_min ≥ ½σ² y'(VV' + σ²W⁻¹ + s·diag(√d))⁻¹y,

    the same for every model; and v'Kv ≤ ‖V'v‖² + (Σ|v_i|√d_i)² bounds the scaled dual point of
    each model from below. O(m n_second²) time, O(m n_second) memory.
    """
    sample, noise = problem.sample, problem.noise
    n_second = min(n_second, sample.n_rows)
    objective = DiagonalPursuit(
        sample.rows, problem.kernel, capacity=n_second, workers=problem.workers
    )
    Pursuit(objective, problem.meter).run([MaxSize(n_second)])
    V = objective.factor.rows
    roots = np.sqrt(np.maximum(objective.factor.residual, 0.0))
    y, w = sample.targets, sample.weights[:, None]
    diagonal = noise / sample.weights + roots.sum() * roots
    scaled = V / diagonal
    inner = scaled @ V.T
    inner[np.diag_indices_from(inner)] += 1.0
    right = scaled @ y
    explained = np.einsum("io,io->o", right, cho_solve(cho_factor(inner), right))
    norms = ((y**2) / diagonal[:, None]).sum(axis=0)
    shifted = shifted_lower_bound(noise * norms, noise * explained)
    bounds = []
    for residual in residuals:
        v = w * residual / noise
        quadratic = (
            ((V @ v) ** 2).sum(axis=0)
            + (roots @ np.abs(v)) ** 2
            + noise * np.einsum("io,io->o", v, v / w)
        )
        linear = np.einsum("io,io->o", y, v)
        bounds.append(np.maximum(shifted, scaled_lower_bound(linear, quadratic, noise)))
    return bounds
