"""A convex problem and the means to work on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from pursuit.gram import GramStatistics, Ledger, gram_statistics
from pursuit.greedy.path import Meter
from pursuit.kernels import CountingKernel
from pursuit.linalg import Workers
from pursuit.rows import Sample


@dataclass(frozen=True)
class Problem:
    """Minimise P(f) = ½Σw(y - f)² + ½σ²‖f‖² over the functions of a kernel.

    Attributes
    ----------
    sample : Sample
        Rows, targets y and weights w.
    kernel : CountingKernel
        k, whose evaluations are counted.
    noise : float
        σ².
    workers : Workers
        Threads.
    meter : Meter
        What has been spent.
    rng : numpy Generator
        Source of everything random.
    ledgers : callable, optional
        Gives the ledger of a pass over all rows from its points, the number of rows, the type of
        its tiles and its whitener.
    """

    sample: Sample
    kernel: CountingKernel
    noise: float
    workers: Workers
    meter: Meter
    rng: np.random.Generator
    ledgers: Callable[[Any, int, DTypeLike, Any], Ledger | None] | None = None

    def statistics(
        self, points: Any, rows: Sample | None = None, dtype: DTypeLike = np.float64, **options: Any
    ) -> GramStatistics:
        """One pass over the rows, or over some of them, for the given points."""
        seen = self.sample if rows is None else rows
        if rows is None and self.ledgers is not None:
            whitener = options.get("whitener")
            options["ledger"] = self.ledgers(points, seen.n_rows, dtype, whitener)
        found = gram_statistics(
            seen, self.kernel, points, workers=self.workers, dtype=dtype, **options
        )
        self.meter.passes += found.n_rows / self.sample.n_rows
        return found
