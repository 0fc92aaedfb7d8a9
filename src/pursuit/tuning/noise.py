"""The noise variance by evidence, the kernel being given."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar

from pursuit.greedy import kernel_matrix
from pursuit.kernels import Kernel
from pursuit.linalg import Workers
from pursuit.rows import Sample, draw_rows

EVIDENCE_ROWS = 1000
NOISE_FLOOR = 1e-4
"""Smallest learned noise, as a part of the targets' mean square."""


def learn_noise(
    sample: Sample,
    kernel: Kernel,
    *,
    rng: np.random.Generator,
    workers: Workers,
    all_rows_up_to: int,
) -> float:
    """Maximise the exact log evidence over σ² on a subset of the rows.

    With Λ, U the eigenpairs of W^½KW^½ and c = U'W^½y, the log evidence is, up to a constant,

        -½ Σ_o Σ_i c_io²/(λ_i + σ²) - ½ n_outputs (Σ_i log(λ_i + σ²) + (Σw - m) log σ²),

    so one eigendecomposition serves every σ². The last term makes a weight w count as w copies.
    """
    size = sample.n_rows if sample.n_rows <= all_rows_up_to else EVIDENCE_ROWS
    subset = sample.take(draw_rows(sample.n_rows, size, rng))
    root = np.sqrt(subset.weights)
    items = subset.rows.take(np.arange(subset.n_rows))
    K = kernel_matrix(kernel, items, workers) * np.outer(root, root)
    eigenvalues, U = eigh(K, overwrite_a=True, check_finite=False)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    squares = ((U.T @ (root[:, None] * subset.targets)) ** 2).sum(axis=1)
    power = float(sample.target_norms().sum() / (sample.weights.sum() * sample.n_outputs))
    scale = power if power > 0 else float(eigenvalues.mean()) or 1.0

    def negative_evidence(log_noise: float) -> float:
        spectrum = eigenvalues + np.exp(log_noise)
        copies = (subset.weights.sum() - subset.n_rows) * log_noise
        logs = np.log(spectrum).sum() + copies
        return float((squares / spectrum).sum() + sample.n_outputs * logs)

    low, high = np.log(NOISE_FLOOR * scale), np.log(10.0 * scale)
    grid = np.linspace(low, high, 25)
    best = int(np.argmin([negative_evidence(point) for point in grid]))
    bracket = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(negative_evidence, bounds=bracket, method="bounded")
    return float(np.exp(found.x))
