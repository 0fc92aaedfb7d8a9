"""Decision stumps on binned features: the weak learners of boosting, found exactly and fast."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pursuit.linalg import Workers

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

N_BINS = 255
_FEATURES_A_TASK = 4


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
        # The type that counting takes without a copy.
        self.codes = np.empty(X.shape[::-1], dtype=np.intp)
        for codes, column, edges in zip(self.codes, X.T, self.edges, strict=True):
            codes[:] = np.searchsorted(edges, column, side="left")

    def threshold(self, feature: int, edge: int) -> float:
        """The value that bins up to ``edge`` do not exceed; infinite past the last one."""
        edges = self.edges[feature]
        return float(edges[edge]) if edge < len(edges) else np.inf


def _edges(values: Floats) -> Floats:
    distinct = np.unique(values)
    if len(distinct) <= N_BINS:
        middles = 0.5 * distinct[:-1] + 0.5 * distinct[1:]
        # A middle that rounding put on the value above would not part the two.
        return np.where(middles < distinct[1:], middles, distinct[:-1])
    return np.unique(np.quantile(values, np.linspace(0, 1, N_BINS + 1)[1:-1], method="lower"))


class StumpAtoms:
    """All stumps with leaf values in [-1, 1], as atoms of a hull, for losses of margins y v.

    Where f has gradient g, let P and N be the sums of -g over its positive and negative part in
    each leaf. A stump lowers the linear part of f by |P - N| in each leaf if its values there are
    the signs of P - N: the one with the largest sum is the best vertex. For joint steps the stump
    that minimises Σ√(PN) over its leaves comes first, with leaf values in proportion to
    ½ln(P/N), divided by the larger: what minimises the mean exponential over stump and step
    together (Schapire and Singer, 1999).

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        Rows.
    joint : bool
        Whether to propose stumps with unequal leaf values.
    workers : Workers
        Threads.
    bins : Bins, optional
        Those of X, if they are known.
    """

    finite = False
    exact = True

    def __init__(self, X: Floats, joint: bool, workers: Workers, bins: Bins | None = None) -> None:
        self.bins = Bins(X) if bins is None else bins
        self.stumps: list[Stump] = []
        self._bin_of: list[tuple[int, int]] = []
        self._joint, self._workers = joint, workers
        self._number_of: dict[Stump, int] = {}
        self._edge_of: dict[int, float] = {}
        self._folded: Indices | None = None
        self._features = Workers.slices(len(self.bins.codes), _FEATURES_A_TASK)

    @property
    def n_atoms(self) -> int:
        """Stumps found so far."""
        return len(self.stumps)

    def propose(self, gradient: Floats) -> Indices:
        """The joint stump, if asked for, and the best vertex."""
        P, N = self._histograms(gradient)
        self._edge_of.clear()
        total = P[0, -1], N[0, -1]
        right = total[0] - P, total[1] - N
        slope = np.abs(P - N) + np.abs(right[0] - right[1])
        found = [self._register(slope, (P, N), right, vertex=True)]
        if self._joint:
            Z = _root_product(P, N) + _root_product(*right)
            found.insert(0, self._register(-Z, (P, N), right, vertex=False))
        return np.array(list(dict.fromkeys(found)), dtype=np.intp)

    def edges(self, gradient: Floats, numbers: Indices) -> Floats:
        """p'∇f of stumps proposed for this gradient, from its histograms."""
        return np.array([self._edge_of[int(i)] for i in numbers])

    def values(self, number: int) -> Floats:
        """A stump on the rows."""
        stump, (feature, edge) = self.stumps[number], self._bin_of[number]
        return np.where(self.bins.codes[feature] <= edge, stump.left, stump.right)

    def vertices(self, n_rows: int) -> Floats:
        """The constant 1, which no stump exceeds in absolute value."""
        return np.ones((n_rows, 1))

    def _histograms(self, gradient: Floats) -> tuple[Floats, Floats]:
        """Sums of the positive and negative part of -g in bins 0 … b, features x bins."""
        codes, n_bins = self.bins.codes, self.bins.n_bins
        if self._folded is None:
            # The sign of a row's gradient is that of its class, at every step.
            self._folded = codes + n_bins * (gradient >= 0)
        folded, weights = self._folded, np.abs(gradient)
        both = np.empty((len(codes), 2 * n_bins))

        def count(features: slice) -> None:
            for j in range(features.start, features.stop):
                both[j] = np.bincount(folded[j], weights=weights, minlength=2 * n_bins)

        self._workers.map(count, self._features)
        P, N = both[:, :n_bins], both[:, n_bins:]
        return np.cumsum(P, axis=1), np.cumsum(N, axis=1)

    def _register(
        self,
        scores: Floats,
        left: tuple[Floats, Floats],
        right: tuple[Floats, Floats],
        *,
        vertex: bool,
    ) -> int:
        feature, edge = divmod(int(scores.argmax()), scores.shape[1])
        leaves = [(float(P[feature, edge]), float(N[feature, edge])) for P, N in (left, right)]
        # Half a row's share keeps the values of pure leaves finite.
        floor = 0.5 * sum(P + N for P, N in leaves) / len(self.bins.codes[0])
        values = [_sign(P, N) if vertex else _half_log(P, N, floor) for P, N in leaves]
        largest = max(abs(values[0]), abs(values[1])) or 1.0
        stump = Stump(
            feature,
            self.bins.threshold(feature, edge),
            values[0] / largest,
            values[1] / largest,
        )
        number = self._number_of.setdefault(stump, len(self.stumps))
        if number == len(self.stumps):
            self.stumps.append(stump)
            self._bin_of.append((feature, edge))
        rise = [value * (P - N) for value, (P, N) in zip(values, leaves, strict=True)]
        self._edge_of[number] = -sum(rise) / largest
        return number


def _root_product(P: Floats, N: Floats) -> Floats:
    return np.sqrt(np.maximum(P * N, 0.0))


def _sign(P: float, N: float) -> float:
    return 1.0 if P >= N else -1.0


def _half_log(P: float, N: float, floor: float) -> float:
    """½ln(P/N)."""
    return 0.5 * float(np.log((max(P, 0.0) + floor) / (max(N, 0.0) + floor)))
