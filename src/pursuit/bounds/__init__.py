"""Numbers in, certificates out: how far a model can be from the best one.

Formulas only; passes over data live in `gram/`. Imports NumPy only.
"""

from pursuit.bounds.certificate import Certificate, relative_gap
from pursuit.bounds.duality import dense_lower_bound, primal_value, scaled_lower_bound

__all__ = [
    "Certificate",
    "dense_lower_bound",
    "primal_value",
    "relative_gap",
    "scaled_lower_bound",
]
