"""Low-rank matrices as SciPy operators, for solvers that are not ours."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator

from pursuit._types import Floats


def low_rank_operator(V: Floats) -> LinearOperator:
    """VV' (m x m) for V (m x n): O(mn) a product."""

    def multiply(vectors: Floats) -> Floats:
        return np.asarray(V @ (V.T @ vectors))

    return _symmetric(len(V), multiply)


def low_rank_inverse(V: Floats, diagonal: Floats) -> LinearOperator:
    """(VV' + D)⁻¹ for V (m x n) and D = diag(diagonal), one number or one per row (Formulas §6).

    With U = D^-½V and LL' = I + U'U it is D⁻¹r - D^-½U (LL')⁻¹ U'D^-½r: O(mn²) once, O(mn) a
    product.
    """
    roots = np.sqrt(np.broadcast_to(diagonal, len(V)))[:, None]
    U = V / roots
    inner = U.T @ U
    inner[np.diag_indices_from(inner)] += 1.0
    factor = cho_factor(inner, lower=True) if len(inner) else None

    def multiply(vectors: Floats) -> Floats:
        columns = vectors.reshape(len(V), -1) / roots
        if factor is not None:
            columns = columns - U @ cho_solve(factor, U.T @ columns)
        return np.asarray((columns / roots).reshape(vectors.shape))

    return _symmetric(len(V), multiply)


def _symmetric(m: int, multiply: Callable[[Floats], Floats]) -> LinearOperator:
    operator: LinearOperator = LinearOperator(
        (m, m),
        matvec=multiply,
        rmatvec=multiply,
        matmat=multiply,
        rmatmat=multiply,
        dtype=np.float64,
    )
    return operator
