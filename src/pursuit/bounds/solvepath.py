"""How an iterative solution came about: a certificate at every iteration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.bounds.certificate import Certificate


@dataclass(frozen=True)
class SolvePath:
    """One entry an iteration, the first for the zero function.

    Attributes
    ----------
    iteration : array of int
        0, 1, 2, …
    residual : array
        Largest ‖W^½(y - Av)‖ / ‖W^½y‖ over the outputs, A = K + σ²W⁻¹.
    certificates : list of Certificate
        P(f) and the best proof of how low P can be, at each iteration.
    certified : array of bool
        Whether only float64 products went into the entry. Others are off by the rounding of float32
        tiles: the bounds are then estimates of what float64 would give.
    seconds : array
        Cumulative time.
    stop_reason : str
        tol, max_iter, stalled (rounding allows no better), direct (no iterations: a Cholesky
        factor) or interrupted.
    """

    iteration: Indices
    residual: Floats
    certificates: list[Certificate]
    certified: NDArray[np.bool_]
    seconds: Floats
    stop_reason: str

    def __len__(self) -> int:
        return len(self.iteration)

    @property
    def upper(self) -> Floats:
        """P(f) at each iteration."""
        return np.array([found.upper for found in self.certificates])

    @property
    def lower(self) -> Floats:
        """D, a lower bound on the minimum of P, at each iteration."""
        return np.array([found.lower for found in self.certificates])

    @property
    def relative_gap(self) -> Floats:
        """SB01's gap at each iteration."""
        return np.array([found.relative_gap for found in self.certificates])

    def __str__(self) -> str:
        steps = int(self.iteration[-1])
        how = "a Cholesky factor" if self.stop_reason == "direct" else f"{steps} iterations"
        return (
            f"solved by {how} in {self.seconds[-1]:.3g} s, stopped by {self.stop_reason}: relative "
            f"residual {self.residual[-1]:.3g}, relative gap {self.relative_gap[-1]:.3g}"
        )
