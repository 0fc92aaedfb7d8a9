"""What "similar" means: any kernel a user passes becomes an object with tiles.

A kernel returns dense blocks, `tile(A, B)`, and its diagonal, `diag(A)`; `columns(Z)` binds it to a
fixed set of items for the many tiles of a pass. Dense and sparse rows of numbers, lists of objects
and row numbers of a matrix all end here, so nothing above knows the difference.

This room imports NumPy, SciPy and scikit-learn, and no other room.
"""

from pursuit.kernels.base import Columns, Items, Kernel
from pursuit.kernels.called import pairwise
from pursuit.kernels.compile import compile_kernel
from pursuit.kernels.counting import CountingKernel
from pursuit.kernels.dictionary import Dictionary
from pursuit.kernels.dot import Dot, as_dot
from pursuit.kernels.gradients import Pullback, ScaledGradient, kernel_gradient, without_white
from pursuit.kernels.precomputed import PrecomputedKernel
from pursuit.kernels.stationary import is_gaussian

__all__ = [
    "Columns",
    "CountingKernel",
    "Dictionary",
    "Dot",
    "Items",
    "Kernel",
    "PrecomputedKernel",
    "Pullback",
    "ScaledGradient",
    "as_dot",
    "compile_kernel",
    "is_gaussian",
    "kernel_gradient",
    "pairwise",
    "without_white",
]
