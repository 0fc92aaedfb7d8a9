"""Solvers for a given basis: coefficients, weights, mixtures and stumps.

Imports greedy and what lies below it.
"""

from pursuit.solvers.barrier import LowRank
from pursuit.solvers.em import EM, Mixture
from pursuit.solvers.interior_point import (
    InteriorPointLog,
    InteriorPointSolution,
    interior_point,
    ridge_start,
)
from pursuit.solvers.linear_programme import (
    HighsMaster,
    LinearLosses,
    LinprogMaster,
    MasterSolution,
    RestrictedMaster,
    make_master,
)
from pursuit.solvers.newton import NewtonSolution, newton
from pursuit.solvers.simplex import bounded_least_squares, reweight
from pursuit.solvers.stumps import Bins, Stump, StumpAtoms

__all__ = [
    "EM",
    "Bins",
    "HighsMaster",
    "InteriorPointLog",
    "InteriorPointSolution",
    "LinearLosses",
    "LinprogMaster",
    "LowRank",
    "MasterSolution",
    "Mixture",
    "NewtonSolution",
    "RestrictedMaster",
    "Stump",
    "StumpAtoms",
    "bounded_least_squares",
    "interior_point",
    "make_master",
    "newton",
    "reweight",
    "ridge_start",
]
