"""The one greedy loop: who may be chosen, who is chosen, when to stop, and what it cost.

Imports objectives and what lies below it.
"""

from pursuit.greedy.candidates import AllCandidates, FreshSubset, subset_size
from pursuit.greedy.loop import Pursuit, best_candidate
from pursuit.greedy.path import Meter, Path
from pursuit.greedy.pool import Choice, Pool, PooledSearch, kernel_matrix
from pursuit.greedy.problem import Problem
from pursuit.greedy.refit import SpanFit, refit, solve_in_span
from pursuit.greedy.stopping import (
    Deadline,
    GapBelow,
    Interrupted,
    MaxSize,
    StopRule,
    catch_interrupt,
)

__all__ = [
    "AllCandidates",
    "Choice",
    "Deadline",
    "FreshSubset",
    "GapBelow",
    "Interrupted",
    "MaxSize",
    "Meter",
    "Path",
    "Pool",
    "PooledSearch",
    "Problem",
    "Pursuit",
    "SpanFit",
    "StopRule",
    "best_candidate",
    "catch_interrupt",
    "kernel_matrix",
    "refit",
    "solve_in_span",
    "subset_size",
]
