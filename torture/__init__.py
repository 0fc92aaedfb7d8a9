"""Long fuzzers: random problems, each from one seed, each judged by an independent truth.

A fuzzer is a function from a seed to a `Report`: what it counted, and what it found wrong. Nothing
else decides what it does, so that a seed that was printed brings the same problem back. `make
torture` runs all of them in turn until its time is over (``python -m torture --help``); the tests
run a few seeds of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Report:
    """What one seed has shown.

    Attributes
    ----------
    counts : Counter of str
        How many of what were checked, such as ``{"problems": 1, "checks": 112}``.
    failures : list of str
        One sentence for each thing that is wrong, with the numbers that show it.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Fuzzer:
    """One kind of torture.

    Attributes
    ----------
    name : str
        How the command line calls it.
    run : callable
        From a seed to a report.
    share : float
        Part of the time that it gets, beside those of the others.
    """

    name: str
    run: Callable[[int], Report]
    share: float = 1.0
