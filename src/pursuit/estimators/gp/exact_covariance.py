"""Joint covariance of the exact process at new rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats
from pursuit.estimators.gp.exact_system import (
    Accuracy,
    ExactSystem,
    close_enough,
    query_batches,
    system_root,
)
from pursuit.gram import kernel_times
from pursuit.linalg import column_dots
from pursuit.rows import as_rows, len_items


def joint_covariance(
    system: ExactSystem, points: Any, queries: Any, width: float, offset: float, max_iter: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """k(x, x') - k(x)'(K + σ²W⁻¹)⁻¹k(x') for all pairs of queries, and which were not close enough.

    With x_j ≈ B⁻¹κ_j and its residual r_j, κ_i'B⁻¹κ_j is κ_i'x_j + x_i'r_j + r_i'B⁻¹r_j. Without
    the last term the result is above the exact covariance by a positive semi-definite matrix, whose
    diagonal `Accuracy` limits.
    """
    problem = system.problem
    root, kernel = system_root(problem), problem.kernel
    n = len_items(queries)
    solutions, explained = np.empty((len(root), n)), np.zeros((n, n))
    apart = np.zeros(n, dtype=bool)
    for where, kappa, prior in query_batches(problem, queries):
        wanted = Accuracy(prior, width, offset, max_iter)
        found = system.approximate(kappa, close_enough(kappa, wanted), max_iter)
        solutions[:, where] = found.v
        least = column_dots(kappa + found.residual, found.v)
        apart[where] = ~wanted.reached(np.arange(len(prior)), least, found.energy)
        seen = as_rows(queries[: where.stop])
        values = kernel_times(seen, kernel, points, root * found.v, problem.workers)
        values += solutions[:, : where.stop].T @ found.residual
        explained[: where.stop, where] = values
    covariance = kernel.tile(queries, queries) - explained
    # Pairs of different batches are known above the diagonal alone.
    covariance = np.triu(covariance) + np.triu(covariance, 1).T
    diagonal = np.diag_indices(n)
    covariance[diagonal] = np.maximum(covariance[diagonal], 0.0)
    return covariance, apart
