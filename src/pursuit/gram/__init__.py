"""One pass over rows gives small matrices; products with K without storing K.

Everything that depends on the number of rows m happens here, as sums over fixed logical blocks.
Imports kernels, rows and linalg.
"""

from pursuit.gram.cross import cross_statistics, kernel_transpose_times, residual_squares
from pursuit.gram.products import kernel_product, kernel_times
from pursuit.gram.statistics import GramStatistics, gram_statistics

__all__ = [
    "GramStatistics",
    "cross_statistics",
    "gram_statistics",
    "kernel_product",
    "kernel_times",
    "kernel_transpose_times",
    "residual_squares",
]
