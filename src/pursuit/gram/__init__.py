"""One pass over rows gives small matrices; products with K without storing K.

Everything that depends on the number of rows m happens here, as sums over fixed logical blocks.
Imports kernels, rows and linalg.
"""

from pursuit.gram.cross import cross_statistics, kernel_transpose_times, residual_squares
from pursuit.gram.curve import sum_along_path
from pursuit.gram.engine import Block, chunked, list_pass, row_pass, sum_pass
from pursuit.gram.inner import (
    ColumnProducts,
    InnerProducts,
    MatrixProducts,
    StreamedProducts,
)
from pursuit.gram.matrices import ColumnMatrix, PsdMatrix
from pursuit.gram.matrix import STORED_BYTES, KernelMatrix
from pursuit.gram.neighbors import Found, NeighborSearch, Queries
from pursuit.gram.products import (
    kernel_diagonal,
    kernel_features,
    kernel_product,
    kernel_times,
)
from pursuit.gram.spanned import SpannedView, over_span, paired_moments
from pursuit.gram.statistics import GramStatistics, Ledger, gram_statistics

__all__ = [
    "STORED_BYTES",
    "Block",
    "ColumnMatrix",
    "ColumnProducts",
    "Found",
    "GramStatistics",
    "InnerProducts",
    "KernelMatrix",
    "Ledger",
    "MatrixProducts",
    "NeighborSearch",
    "PsdMatrix",
    "Queries",
    "SpannedView",
    "StreamedProducts",
    "chunked",
    "cross_statistics",
    "gram_statistics",
    "kernel_diagonal",
    "kernel_features",
    "kernel_product",
    "kernel_times",
    "kernel_transpose_times",
    "list_pass",
    "over_span",
    "paired_moments",
    "residual_squares",
    "row_pass",
    "sum_along_path",
    "sum_pass",
]
