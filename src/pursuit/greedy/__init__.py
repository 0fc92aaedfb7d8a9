"""The one greedy loop: candidates, choice, stopping rules, and the path with its costs.

Imports objectives and what lies below it.
"""

from pursuit.greedy.loop import (
    AllCandidates,
    CostMeter,
    FreshSubset,
    Path,
    Pursuit,
    RandomPivot,
    best_candidate,
    size_grid,
    subset_size,
)
from pursuit.greedy.pivots import Pivots, block_pivots, given_pivots, rearranged
from pursuit.greedy.pool import Choice, Pool, PooledSearch, Problem, kernel_matrix
from pursuit.greedy.span_fit import SpanFit, refit, solve_in_span
from pursuit.greedy.stopping import (
    PATIENCE,
    BoundBelow,
    Clock,
    Deadline,
    GapBelow,
    Interrupted,
    MaxSize,
    Overdue,
    Patience,
    Stalled,
    StopRule,
    ValueBelow,
    catch_interrupt,
    largest_size,
)

__all__ = [
    "PATIENCE",
    "AllCandidates",
    "BoundBelow",
    "Choice",
    "Clock",
    "CostMeter",
    "Deadline",
    "FreshSubset",
    "GapBelow",
    "Interrupted",
    "MaxSize",
    "Overdue",
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
