"""Kernels: any kernel a user passes becomes an object with tiles, and most with derivatives.

A kernel returns dense blocks, `tile(A, B)`, and its diagonal, `diag(A)`; `columns(Z)` binds it to a
fixed set of items for the many tiles of a pass. `kernel_gradient` gives the node of a kernel that
knows its derivatives by hyper-parameters, `theta`, and by points, `points` and `diag_points`; all
are contracted with weights, so that none needs an array of tile size times the number of features.

- `stationary` and `matern`: functions of the distance, among them periods
- `linear`: inner products; `compose`: constants, sums, products, powers, and tanh of kernels
- `metrics`: the other kernels of scikit-learn's `pairwise_kernels`
- `on_columns`: any kernel of some columns; `categorical`, `additive`: kernels of categories and of
  all features one by one
- `callable`: functions, and users' kernel classes, whose derivatives come from `eval_gradient`
- `precomputed`: a matrix

A new kernel is a node with these methods, and one line in `compile`; `pursuit.testing.check_kernel`
checks it. Dense and sparse rows of numbers, lists of objects and row numbers of a matrix are told
apart here only.

`Kernel.error` bounds what rounding does to values.

This room imports NumPy, SciPy and scikit-learn, and no other room.
"""

from pursuit.kernels.additive import (
    Additive,
    Part,
    columns_used,
    described,
    is_constant,
    parts_of,
    sum_of_terms,
    terms_of,
)
from pursuit.kernels.base import (
    BoundKernel,
    CountingKernel,
    Extent,
    Items,
    Kernel,
    KernelGradient,
)
from pursuit.kernels.callable import function_name, pairwise
from pursuit.kernels.categorical import Categorical
from pursuit.kernels.compile import (
    ComparedColumns,
    compared_columns,
    compile_kernel,
    expanded,
    holds,
    kernel_gradient,
    leaves,
    resolve_columns,
    without_white,
)
from pursuit.kernels.compose import ScaledKernel
from pursuit.kernels.linear import Dot, as_dot
from pursuit.kernels.on_columns import ColumnNames, ColumnsKernel, on_columns
from pursuit.kernels.precomputed import AtomKernel, PrecomputedKernel
from pursuit.kernels.random_features import RandomFeatures, random_features
from pursuit.kernels.random_functions import NoFunctionsError
from pursuit.kernels.stationary import is_gaussian

__all__ = [
    "Additive",
    "AtomKernel",
    "BoundKernel",
    "Categorical",
    "ColumnNames",
    "ColumnsKernel",
    "ComparedColumns",
    "CountingKernel",
    "Dot",
    "Extent",
    "Items",
    "Kernel",
    "KernelGradient",
    "NoFunctionsError",
    "Part",
    "PrecomputedKernel",
    "RandomFeatures",
    "ScaledKernel",
    "as_dot",
    "columns_used",
    "compared_columns",
    "compile_kernel",
    "described",
    "expanded",
    "function_name",
    "holds",
    "is_constant",
    "is_gaussian",
    "kernel_gradient",
    "leaves",
    "on_columns",
    "pairwise",
    "parts_of",
    "random_features",
    "resolve_columns",
    "sum_of_terms",
    "terms_of",
    "without_white",
]
