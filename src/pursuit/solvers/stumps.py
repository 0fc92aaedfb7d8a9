"""Decision stumps on binned features: the weak learners of boosting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pursuit._types import Floats, Indices
from pursuit.linalg import Workers
from pursuit.solvers.stump_search import LeafSums, joint_search

N_BINS = 255


@dataclass(frozen=True)
class Stump:
    """``left`` where feature ≤ threshold, ``right`` elsewhere; both in [-1, 1]."""

    feature: int
    threshold: float
    left: float
    right: float

    def __call__(self, X: Floats) -> Floats:
        """Values on rows."""
        return np.where(X[:, self.feature] <= self.threshold, self.left, self.right)


class Bins:
    """Thresholds between values of each feature, at most 255, and the bin of each row.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        Rows. Bin b of a feature holds the values in (edge b - 1, edge b].
    """

    def __init__(self, X: Floats) -> None:
        self.edges = [_edges(column) for column in X.T]
        self.n_bins = max(len(edges) for edges in self.edges) + 1
        self.codes = np.empty(X.shape[::-1], dtype=np.uint8)
        for codes, column, edges in zip(self.codes, X.T, self.edges, strict=True):
            codes[:] = np.searchsorted(edges, column, side="left")

    def threshold(self, feature: int, edge: int) -> float:
        """Upper end of bin ``edge``; infinite for the last bin."""
        edges = self.edges[feature]
        return float(edges[edge]) if edge < len(edges) else np.inf


def _edges(values: Floats) -> Floats:
    ordered = np.sort(values)
    distinct: Floats = ordered[np.append(True, ordered[1:] > ordered[:-1])]
    if len(distinct) <= N_BINS:
        middles = 0.5 * distinct[:-1] + 0.5 * distinct[1:]
        # A middle that rounding puts on the upper value would not separate the two.
        return np.where(middles < distinct[1:], middles, distinct[:-1])
    ranks = np.arange(1, N_BINS) * (len(values) - 1) // N_BINS
    return np.asarray(np.unique(ordered[ranks]))


class StumpAtoms:
    """All stumps with leaf values in [-1, 1], as atoms of a hull, for losses of classes.

    Where f has gradient g, a stump lowers the linear part of f by the absolute sum of g in each
    leaf if its values there are -1 times their signs: the one with the largest total is the best
    vertex.

    Parameters
    ----------
    loss : HullLoss
        f, a loss of classes -1 and 1.
    bins : Bins
        Thresholds.
    workers : Workers
        Threads.
    """

    finite = False
    exact = True
    over = (
        f"all votes of stumps on at most {N_BINS} thresholds per feature with leaf values in "
        "[-1, 1]"
    )

    def __init__(self, loss: Any, bins: Bins, workers: Workers) -> None:
        self.bins = bins
        self.stumps: list[Stump] = []
        self._sums = LeafSums(bins.codes, bins.n_bins, loss.y, workers)
        self.search = joint_search(loss, self._sums)
        self._place_of: list[tuple[int, int]] = []
        self._number_of: dict[Stump, int] = {}
        self._edge_of: dict[int, float] = {}
        self._leaves: Floats | None = None

    @property
    def n_atoms(self) -> int:
        """Stumps found so far."""
        return len(self.stumps)

    def propose(self, gradient: Floats) -> Indices:
        """The best vertex."""
        self._leaves = self._sums(gradient)
        self._edge_of.clear()
        totals = self._leaves[:, 0] + self._leaves[:, 1]
        sizes = np.abs(totals)
        best = int((sizes[0] + sizes[1]).argmax())
        values = np.where(totals[:, best] <= 0, 1.0, -1.0)
        return np.array([self._register(best, values)], dtype=np.intp)

    def propose_step(self, point: Floats, gradient: Floats) -> tuple[int, float] | None:
        """The best stump and step from a point, for the gradient of the last proposal."""
        assert self._leaves is not None
        best = self.search(point, gradient, self._leaves)
        if best is None or not best.alpha > 0:
            return None
        return self._register(best.stump, best.c / best.alpha), best.alpha

    def edges(self, gradient: Floats, numbers: Indices) -> Floats:
        """p'∇f of stumps proposed for this gradient, from its sums."""
        return np.array([self._edge_of[int(i)] for i in numbers])

    def values(self, number: int) -> Floats:
        """A stump on the rows."""
        stump, (feature, edge) = self.stumps[number], self._place_of[number]
        return np.where(self.bins.codes[feature] <= edge, stump.left, stump.right)

    def vertices(self, n_rows: int) -> Floats:
        """The constant 1, which no stump exceeds in absolute value."""
        return np.ones((n_rows, 1))

    def _register(self, place: int, values: Floats) -> int:
        """The number of a stump with these leaf values."""
        assert self._leaves is not None
        feature, edge = self._sums.place(place)
        left, right = (float(value) for value in values)
        stump = Stump(feature, self.bins.threshold(feature, edge), left, right)
        number = self._number_of.setdefault(stump, len(self.stumps))
        if number == len(self.stumps):
            self.stumps.append(stump)
            self._place_of.append((feature, edge))
        self._edge_of[number] = float(values @ self._leaves[:, :, place].sum(axis=1))
        return number
