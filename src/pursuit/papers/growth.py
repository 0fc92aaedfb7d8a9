"""How a cost grows with a size: processor seconds, memory, and the exponent of a power law."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

Task = Callable[[], object]


_LEAST_SECONDS = 0.3


def cpu_seconds(task: Task, times: int = 3) -> float:
    """Processor seconds of one thread: the least of at least so many runs, more if it is short.

    Other work on the machine lengthens what a clock on the wall shows, but hardly this.
    """
    found: list[float] = []
    with threadpool_limits(1):
        while len(found) < times or sum(found) < _LEAST_SECONDS:
            start = time.process_time()
            task()
            found.append(time.process_time() - start)
    return min(found)


def peak_bytes(task: Task) -> float:
    """The most memory that Python and NumPy held at once for it."""
    tracemalloc.start()
    try:
        task()
        return float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def exponent(sizes: ArrayLike, costs: ArrayLike) -> float:
    """p of the power law cost ∝ sizeᵖ, by least squares on logarithms."""
    return float(np.polyfit(np.log(np.asarray(sizes)), np.log(np.asarray(costs)), 1)[0])
