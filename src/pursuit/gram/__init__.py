"""Passes over rows: statistics of a pool of points, and products with K without storing K.

All work whose cost grows with the number of rows happens here, over fixed blocks of rows.
Imports kernels, rows and linalg.
"""

from pursuit.gram.arithmetic import ItemArithmetic, RowArithmetic, kernel_share
from pursuit.gram.column_products import (
    ColumnProducts,
    InnerProducts,
    MatrixProducts,
    StreamedProducts,
)
from pursuit.gram.engine import Block, TileTask, chunked, list_pass, row_pass, sum_pass
from pursuit.gram.kernel_matrix import STORED_BYTES, KernelMatrix, PsdMatrix
from pursuit.gram.local import (
    Conditional,
    LocalGroups,
    ResidualProcess,
    condition,
    in_parts,
    noisy,
)
from pursuit.gram.nearest import NearestRows, nearest_in_features, nearest_in_space
from pursuit.gram.neighbors import (
    TIED_ROUNDINGS,
    Found,
    NeighborSearch,
    Queries,
    landmark_errors,
)
from pursuit.gram.products import (
    SpannedView,
    cross_statistics,
    expansion_gradient,
    kernel_diagonal,
    kernel_features,
    kernel_product,
    kernel_times,
    kernel_transpose_times,
    over_span,
    paired_moments,
    residual_products,
    residual_squares,
    sum_along_path,
    summed_terms,
)
from pursuit.gram.statistics import (
    GramStatistics,
    PassCheckpoint,
    gram_statistics,
    matrix_statistics,
)

__all__ = [
    "STORED_BYTES",
    "TIED_ROUNDINGS",
    "Block",
    "ColumnProducts",
    "Conditional",
    "Found",
    "GramStatistics",
    "InnerProducts",
    "ItemArithmetic",
    "KernelMatrix",
    "LocalGroups",
    "MatrixProducts",
    "NearestRows",
    "NeighborSearch",
    "PassCheckpoint",
    "PsdMatrix",
    "Queries",
    "ResidualProcess",
    "RowArithmetic",
    "SpannedView",
    "StreamedProducts",
    "TileTask",
    "chunked",
    "condition",
    "cross_statistics",
    "expansion_gradient",
    "gram_statistics",
    "in_parts",
    "kernel_diagonal",
    "kernel_features",
    "kernel_product",
    "kernel_share",
    "kernel_times",
    "kernel_transpose_times",
    "landmark_errors",
    "list_pass",
    "matrix_statistics",
    "nearest_in_features",
    "nearest_in_space",
    "noisy",
    "over_span",
    "paired_moments",
    "residual_products",
    "residual_squares",
    "row_pass",
    "sum_along_path",
    "sum_pass",
    "summed_terms",
]
