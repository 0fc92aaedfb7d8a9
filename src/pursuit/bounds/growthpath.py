"""How a linear programme grew: two bounds of its minimum after every round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices


@dataclass(frozen=True)
class GrowthPath:
    """One entry a round of column generation, the first for the best constant.

    Attributes
    ----------
    sizes : array of int
        Kernel functions in the master; most have a coefficient of 0 in the end.
    value : array
        Objective of the model, an upper bound of the minimum, summed over outputs.
    lower : array
        The best lower bound known, summed over outputs; 0 until there is one.
    gap : array
        The certificate's relative gap.
    iterations : array of int
        Simplex iterations of the round.
    seconds, entries : arrays
        Cumulative time and kernel entries evaluated.
    stop_reason : str
        tol, no gain (no function is worth adding, yet rounding leaves a gap), n_basis, time or
        interrupted.
    """

    sizes: Indices
    value: Floats
    lower: Floats
    gap: Floats
    iterations: Indices
    seconds: Floats
    entries: NDArray[np.int64]
    stop_reason: str

    def __len__(self) -> int:
        return len(self.sizes)

    def __str__(self) -> str:
        return (
            f"{len(self)} rounds, {self.sizes[-1]} kernel functions tried, stopped by "
            f"{self.stop_reason}: objective {self.value[-1]:.6g}, at least {self.lower[-1]:.6g}, "
            f"after {self.seconds[-1]:.3g} s, {self.iterations.sum()} simplex iterations and "
            f"{self.entries[-1]:.3g} kernel entries"
        )
