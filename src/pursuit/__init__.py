"""Sparse kernel learning with proofs.

From many training rows `pursuit` picks a few basis functions greedily, fits in their span, and says
how far the result can be from the full kernel solution.
"""

from pursuit.bounds import Bound, Certificate, CertificatePath, EvidenceBounds
from pursuit.estimators import SparseGPRegressor
from pursuit.greedy import Path
from pursuit.kernels import pairwise
from pursuit.plots import CertificateDisplay, PathDisplay, RelevanceDisplay

__version__ = "0.1.0"

__all__ = [
    "Bound",
    "Certificate",
    "CertificateDisplay",
    "CertificatePath",
    "EvidenceBounds",
    "Path",
    "PathDisplay",
    "RelevanceDisplay",
    "SparseGPRegressor",
    "__version__",
    "pairwise",
]
