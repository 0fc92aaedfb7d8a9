"""The ε-insensitive loss by interior point: two dual variables a row, on features stored once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import DTypeLike

from pursuit._types import Floats
from pursuit.linalg import Factor, TallMatrix, Workers
from pursuit.solvers import InteriorPointSolution, LowRank, interior_point


class Mirrored:
    """[V; -V] of V, whose products cost no more than those of V."""

    def __init__(self, V: Factor) -> None:
        self._V = V

    @property
    def n_rows(self) -> int:
        """2m."""
        return 2 * self._V.n_rows

    @property
    def n_columns(self) -> int:
        """n."""
        return self._V.n_columns

    def gram(self, weights: Floats, dtype: DTypeLike = np.float64) -> Floats:
        """V' diag(w + w*) V for weights [w; w*]."""
        m = self._V.n_rows
        return self._V.gram(weights[:m] + weights[m:], dtype)

    def times(self, coordinates: Floats) -> Floats:
        """[Vu; -Vu]."""
        product = self._V.times(coordinates)
        return np.concatenate([product, -product])

    def transposed_times(self, vectors: Floats) -> Floats:
        """V'(x - x*) for vectors [x; x*]."""
        m = self._V.n_rows
        return self._V.transposed_times(vectors[:m] - vectors[m:])


def solve_tube(
    V: LowRank,
    targets: Floats,
    costs: Floats,
    epsilon: float,
    *,
    tol: float,
    max_steps: int,
    workers: Workers,
    dtype: DTypeLike,
) -> InteriorPointSolution:
    """Minimise ½a'VV'a - y'a + ε‖a‖₁ over |a| ≤ c with 1'a = 0.

    As α - α* = a with both between 0 and c, and ε(α + α*) in place of ε|a|; the solution's ``a`` is
    the difference, its multiplier the intercept.
    """
    m, mean = len(targets), float(np.mean(targets))
    # A constant makes no difference where 1'a = 0, but its digits are lost.
    targets = targets - mean
    factor = TallMatrix(V, m, workers) if isinstance(V, np.ndarray) or callable(V) else V
    found = interior_point(
        Mirrored(factor),
        0.0,
        np.concatenate([epsilon - targets, epsilon + targets]),
        0.0,
        np.concatenate([costs, costs]),
        equality=np.repeat([1.0, -1.0], m),
        tol=tol,
        max_steps=max_steps,
        workers=workers,
        dtype=dtype,
    )
    a = found.a[:m] - found.a[m:]
    if found.converged and targets @ a <= epsilon * np.abs(a).sum():
        # Worse than 0 for any K: the tube holds all rows, and a is what the barrier leaves of 0.
        a = np.zeros(m)
    return replace(found, a=a, multipliers=found.multipliers + mean)
