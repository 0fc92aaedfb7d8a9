"""Arrays in, arrays out: growing Cholesky factors, solutions in a span, and the thread pool.

Nothing here knows about kernels, rows or estimators. Imports NumPy, SciPy and threadpoolctl only.
"""

from pursuit.linalg.cg import (
    CGSolution,
    ConjugateGradients,
    Iterate,
    Refined,
    column_dots,
    conjugate_gradients,
    refined_gradients,
)
from pursuit.linalg.cholesky import (
    EPS,
    INDEFINITE,
    NotPositiveDefiniteError,
    PivotedCholesky,
    RowCholesky,
    bordered_cholesky,
    damped_cholesky,
    extended_cholesky,
    full_cholesky,
    invert_spd,
    panel_cholesky,
    reordered,
    robust_cholesky,
)
from pursuit.linalg.components import CanonicalPairs, PrincipalComponents, canonical_pairs
from pursuit.linalg.convex import line_search
from pursuit.linalg.low_rank import (
    Factor,
    LowRankPlusDiagonal,
    TallMatrix,
    low_rank_inverse,
    low_rank_operator,
)
from pursuit.linalg.span import (
    LOST_DIGITS,
    SINGLE_DIGITS,
    PredictiveVariance,
    SpanPoints,
    SpanSolution,
    StepwiseSolution,
    gram_rounding,
    invert_lower,
    trusted_size,
)
from pursuit.linalg.workers import Workers, released_blas, single_threaded_blas

__all__ = [
    "EPS",
    "INDEFINITE",
    "LOST_DIGITS",
    "SINGLE_DIGITS",
    "CGSolution",
    "CanonicalPairs",
    "ConjugateGradients",
    "Factor",
    "Iterate",
    "LowRankPlusDiagonal",
    "NotPositiveDefiniteError",
    "PivotedCholesky",
    "PredictiveVariance",
    "PrincipalComponents",
    "Refined",
    "RowCholesky",
    "SpanPoints",
    "SpanSolution",
    "StepwiseSolution",
    "TallMatrix",
    "Workers",
    "bordered_cholesky",
    "canonical_pairs",
    "column_dots",
    "conjugate_gradients",
    "damped_cholesky",
    "extended_cholesky",
    "full_cholesky",
    "gram_rounding",
    "invert_lower",
    "invert_spd",
    "line_search",
    "low_rank_inverse",
    "low_rank_operator",
    "panel_cholesky",
    "refined_gradients",
    "released_blas",
    "reordered",
    "robust_cholesky",
    "single_threaded_blas",
    "trusted_size",
]
