"""The linear programme of one output: its master, its model, and a bound on what it can reach."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pursuit._types import Floats
from pursuit.bounds import relative_gap
from pursuit.solvers import LinearLosses, Master, make_master

_ZERO = 1e-10
_ROUNDING = 1e-12
_SHARES = np.linspace(0.0, 1.0, 33)[1:]


@dataclass(frozen=True)
class Centre:
    """The dual point with the best bound so far, its prices, and the bound."""

    dual: Floats
    prices: Floats
    bound: float


@dataclass
class Machine:
    """The linear programme of one output, and what is known of it.

    ``zero`` is the objective of the best constant, ``upper`` that of the present model, and
    ``lower`` a bound on the minimum over the columns of all rows.
    """

    losses: LinearLosses
    master: Master
    zero: float
    columns: list[int] = field(default_factory=list)
    coefficients: Floats = field(default_factory=lambda: np.empty(0))
    intercept: float = 0.0
    dual: Floats = field(default_factory=lambda: np.empty(0))
    centre: Centre | None = None
    upper: float = np.inf
    lower: float = 0.0
    closed: bool = False
    iterations: int = 0

    @classmethod
    def of(cls, losses: LinearLosses, solver: str) -> Machine:
        """A machine without kernel functions."""
        constant = losses.intercept(np.zeros(losses.gain.shape[1]))
        master = make_master(solver, losses.balanced())
        return cls(losses, master, losses.value(np.array(constant)))

    def solve(self) -> None:
        """Solve the master; the dual made feasible, coefficients that are rounding made zero."""
        found = self.master.solve()
        a = found.coefficients
        self.coefficients = np.where(np.abs(a) > _ZERO * np.abs(a).sum(), a, 0.0)
        self.dual = self.losses.feasible(found.dual)
        self.iterations = found.iterations

    def evaluate(self, fitted: Floats) -> None:
        """Settle intercept and objective, for the values of the kernel functions' sum."""
        self.intercept = self.losses.intercept(fitted)
        penalty = float(np.abs(self.coefficients).sum())
        self.upper = penalty + self.losses.value(fitted + self.intercept)

    def weigh(self, prices: Floats) -> None:
        """Move the centre to the best point on the way to the dual point with these prices.

        ν over its largest price is feasible for all columns that were priced, so s Σ_k g_k v_k with
        s = 1 / max(1, max_j |K_j'ν|) bounds the minimum over them from below (Formulas §6). Prices
        are linear in ν: to try the points in between takes no product with K.
        """
        old = self.centre or Centre(np.zeros_like(self.dual), np.zeros_like(prices), 0.0)
        ends = self.losses.dual_value(old.dual), self.losses.dual_value(self.dual)
        share, best = 0.0, old.bound
        for t in _SHARES:
            ceiling = max(1.0, float(np.abs((1.0 - t) * old.prices + t * prices).max(initial=0.0)))
            bound = ((1.0 - t) * ends[0] + t * ends[1]) / ceiling
            if bound > best:
                share, best = t, bound
        self.centre = Centre(
            (1.0 - share) * old.dual + share * self.dual,
            (1.0 - share) * old.prices + share * prices,
            best,
        )

    def bound(self) -> float:
        """The centre's bound; the upper one where rounding cannot tell them apart."""
        assert self.centre is not None
        within = self.upper - self.centre.bound <= _ROUNDING * self.upper
        return self.upper if within else self.centre.bound

    def gap(self, lower: float) -> float:
        """Gap to a lower bound, relative to the value and to what the model takes off ``zero``.

        The larger of the two: with a large C the best value may be a tiny part of ``zero``, with a
        small one nearly all of it.
        """
        share = (self.upper - lower) / self.upper if self.upper > lower else 0.0
        return max(share, relative_gap(self.upper, lower, 2.0 * self.zero))
