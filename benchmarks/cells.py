"""Many small measurements on all cores, each with one thread, and how far they are."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, cpu_count, delayed, parallel_config
from sklearn.exceptions import ConvergenceWarning

from pursuit._types import Floats

FIRST_SEED = int(os.environ.get("PURSUIT_FIRST_SEED", "1000"))
"""First seed of cases with many seeds. Constants of the package were chosen on seeds below 1000."""
_SECONDS_BETWEEN_LINES = 30.0


def measured(
    measure: Callable[..., Sequence[float]], cells: Sequence[tuple[Any, ...]], seeds: range
) -> Floats:
    """Means over the seeds of ``measure(*cell, seed)``, one row per cell.

    Results do not depend on the number of cores.
    """
    rows, start = [], perf_counter()
    told = start
    with parallel_config("loky", n_jobs=cpu_count(), inner_max_num_threads=1):
        means = Parallel(return_as="generator")(
            delayed(_mean)(measure, cell, seeds) for cell in cells
        )
        for row in means:
            rows.append(row)
            now = perf_counter()
            if now - told > _SECONDS_BETWEEN_LINES:
                told = now
                left = (now - start) / len(rows) * (len(cells) - len(rows)) / 60.0
                print(
                    f"  {len(rows)} of {len(cells)} cells, about {left:.0f} minutes left",
                    file=sys.stderr,
                    flush=True,
                )
    return np.array(rows)


def _mean(measure: Callable[..., Sequence[float]], cell: tuple[Any, ...], seeds: range) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.mean([measure(*cell, seed) for seed in seeds], axis=0)
