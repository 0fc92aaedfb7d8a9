"""Numbers in, certificates out: how far a model can be from the best one.

Formulas only; passes over data live in `gram/`. Imports NumPy only.
"""

from pursuit.bounds.bound import Bound
from pursuit.bounds.certificate import Certificate, CertificatePath, relative_gap
from pursuit.bounds.duality import (
    dense_lower_bound,
    hybrid_lower_bound,
    minimum_upper_bound,
    primal_value,
    scaled_lower_bound,
    shifted_lower_bound,
    sparse_dual_floor,
    sparse_lower_bound,
)
from pursuit.bounds.evidence import EvidenceBounds, evidence_bounds

__all__ = [
    "Bound",
    "Certificate",
    "CertificatePath",
    "EvidenceBounds",
    "dense_lower_bound",
    "evidence_bounds",
    "hybrid_lower_bound",
    "minimum_upper_bound",
    "primal_value",
    "relative_gap",
    "scaled_lower_bound",
    "shifted_lower_bound",
    "sparse_dual_floor",
    "sparse_lower_bound",
]
