"""Arrays in, arrays out: growing Cholesky factors, solutions in a span, and the thread pool.

Nothing here knows about kernels, rows or estimators. Imports NumPy, SciPy and threadpoolctl only.
"""

from pursuit.linalg.cg import CGSolution, conjugate_gradients
from pursuit.linalg.cholesky import (
    EPS,
    INDEFINITE,
    NotPositiveDefiniteError,
    PivotedCholesky,
    RowCholesky,
    reordered,
    robust_cholesky,
)
from pursuit.linalg.span import SpanSolution
from pursuit.linalg.spd import invert_spd
from pursuit.linalg.spread import Spread
from pursuit.linalg.workers import Workers

__all__ = [
    "EPS",
    "INDEFINITE",
    "CGSolution",
    "NotPositiveDefiniteError",
    "PivotedCholesky",
    "RowCholesky",
    "SpanSolution",
    "Spread",
    "Workers",
    "conjugate_gradients",
    "invert_spd",
    "reordered",
    "robust_cholesky",
]
