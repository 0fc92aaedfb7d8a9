"""Numbers in, certificates out: how far a model can be from the best one.

Formulas only; passes over data live in `gram/`. Imports NumPy only.
"""

from pursuit.bounds.bound import Bound
from pursuit.bounds.certificate import Certificate, CertificatePath, relative_gap
from pursuit.bounds.compression import (
    compression_bound,
    compression_terms,
    correlation_bound,
    kpca_bound,
)
from pursuit.bounds.duality import (
    dense_lower_bound,
    hybrid_lower_bound,
    l1_lower_bound,
    minimum_upper_bound,
    primal_value,
    scaled_lower_bound,
    shifted_lower_bound,
    sparse_dual_floor,
    sparse_lower_bound,
)
from pursuit.bounds.evidence import EvidenceBounds, evidence_bounds
from pursuit.bounds.growthpath import GrowthPath
from pursuit.bounds.logistic import logistic_lower_bound
from pursuit.bounds.machines import balanced, diagonal_quadratic, scaled_machine_bound
from pursuit.bounds.quadratic import circle_shift, companion_lower_bound, residual_lower_bound
from pursuit.bounds.rates import (
    IN_EXPECTATION,
    greedy_rate_bound,
    natarajan_step_bound,
    orthogonalities,
    simple_rate_bound,
    span_rate_bound,
    span_step_bound,
)
from pursuit.bounds.rates_hull import (
    hull_rate,
    hull_rate_bound,
    hull_rate_from,
    margin_bound,
    margin_scale,
    margin_tail,
)
from pursuit.bounds.sampling import (
    finite_mean_deviation,
    least_deviation,
    mean_deviation,
    sample_needed,
    sampled_look,
    sampled_total,
)
from pursuit.bounds.solvepath import SolvePath
from pursuit.bounds.vc import matching_pursuit_bound

__all__ = [
    "IN_EXPECTATION",
    "Bound",
    "Certificate",
    "CertificatePath",
    "EvidenceBounds",
    "GrowthPath",
    "SolvePath",
    "balanced",
    "circle_shift",
    "companion_lower_bound",
    "compression_bound",
    "compression_terms",
    "correlation_bound",
    "dense_lower_bound",
    "diagonal_quadratic",
    "evidence_bounds",
    "finite_mean_deviation",
    "greedy_rate_bound",
    "hull_rate",
    "hull_rate_bound",
    "hull_rate_from",
    "hybrid_lower_bound",
    "kpca_bound",
    "l1_lower_bound",
    "least_deviation",
    "logistic_lower_bound",
    "margin_bound",
    "margin_scale",
    "margin_tail",
    "matching_pursuit_bound",
    "mean_deviation",
    "minimum_upper_bound",
    "natarajan_step_bound",
    "orthogonalities",
    "primal_value",
    "relative_gap",
    "residual_lower_bound",
    "sample_needed",
    "sampled_look",
    "sampled_total",
    "scaled_lower_bound",
    "scaled_machine_bound",
    "shifted_lower_bound",
    "simple_rate_bound",
    "span_rate_bound",
    "span_step_bound",
    "sparse_dual_floor",
    "sparse_lower_bound",
]
