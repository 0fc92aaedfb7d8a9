"""Certificates, evidence and error bars against arithmetic of 50 digits."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from torture import Fuzzer, Report
from torture.certified_spans import check_exact_gp, check_gp, check_ridge

CHECKS: tuple[tuple[Callable[[np.random.Generator, int], Report], int], ...] = (
    (check_gp, 6),
    (check_ridge, 2),
    (check_exact_gp, 1),
)
"""What is checked, and how often of all times."""


def run(seed: int) -> Report:
    """One problem for one estimator."""
    rng = np.random.default_rng([seed, 2001])
    turns = [check for check, times in CHECKS for _ in range(times)]
    check = turns[seed % len(turns)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check(rng, seed)


FUZZER = Fuzzer("certificates", run, share=3.0)
