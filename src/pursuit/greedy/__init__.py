"""The one greedy loop: who may be chosen, who is chosen, when to stop, and what it cost.

Imports objectives and what lies below it.
"""

from pursuit.greedy.candidates import AllCandidates, FreshSubset, RandomPivot, subset_size
from pursuit.greedy.landmarks import Pivots
from pursuit.greedy.loop import Pursuit, best_candidate
from pursuit.greedy.path import Meter, Path, size_grid
from pursuit.greedy.patience import PATIENCE, Patience, largest_size
from pursuit.greedy.pivots import block_pivots, given_pivots, rearranged
from pursuit.greedy.pool import Choice, Pool, PooledSearch, kernel_matrix
from pursuit.greedy.problem import Problem
from pursuit.greedy.refit import SpanFit, refit, solve_in_span
from pursuit.greedy.stopping import (
    BoundBelow,
    Clock,
    Deadline,
    GapBelow,
    Interrupted,
    MaxSize,
    Stalled,
    StopRule,
    ValueBelow,
    catch_interrupt,
)

__all__ = [
    "PATIENCE",
    "AllCandidates",
    "BoundBelow",
    "Choice",
    "Clock",
    "Deadline",
    "FreshSubset",
    "GapBelow",
    "Interrupted",
    "MaxSize",
    "Meter",
    "Path",
    "Patience",
    "Pivots",
    "Pool",
    "PooledSearch",
    "Problem",
    "Pursuit",
    "RandomPivot",
    "SpanFit",
    "Stalled",
    "StopRule",
    "ValueBelow",
    "best_candidate",
    "block_pivots",
    "catch_interrupt",
    "given_pivots",
    "kernel_matrix",
    "largest_size",
    "rearranged",
    "refit",
    "size_grid",
    "solve_in_span",
    "subset_size",
]
