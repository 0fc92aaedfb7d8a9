"""Basis fixed, the rest optimised.

Imports greedy and what lies below it.
"""

from pursuit.solvers.activeset import bounded_least_squares
from pursuit.solvers.em import EM, Mixture
from pursuit.solvers.newton import NewtonSolution, newton
from pursuit.solvers.simplex import reweight
from pursuit.solvers.stumps import Bins, Stump, StumpAtoms

__all__ = [
    "EM",
    "Bins",
    "Mixture",
    "NewtonSolution",
    "Stump",
    "StumpAtoms",
    "bounded_least_squares",
    "newton",
    "reweight",
]
