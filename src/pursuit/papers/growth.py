"""How a cost grows with a size: processor seconds, memory, and the exponent of a power law."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from pursuit._types import Floats

Task = Callable[[], object]


_LEAST_SECONDS = 0.3


def cpu_seconds(tasks: Sequence[Task], times: int = 3) -> Floats:
    """Processor seconds of each task on one thread: the least of so many runs, more if short.

    The tasks take turns, so that whatever else the machine does slows all of them alike.
    """
    least = np.full(len(tasks), np.inf)
    rounds, total = 0, 0.0
    with threadpool_limits(1):
        while rounds < times or total < _LEAST_SECONDS * len(tasks):
            for i, task in enumerate(tasks):
                start = time.process_time()
                task()
                spent = time.process_time() - start
                least[i] = min(least[i], spent)
                total += spent
            rounds += 1
    return least


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
