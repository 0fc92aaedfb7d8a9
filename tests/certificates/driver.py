"""What every audit of a certificate shares: an enclosure of the true minimum, and the verdict.

An oracle gives two numbers between which the minimum over *all* functions lies by weak duality,
and how much rounding can move them. A certificate is false where its lower value is above the upper
end, or its upper value below the lower end, by more than that.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import pursuit

EPS = float(np.finfo(np.float64).eps)
FEW_ROWS = 50
"""What thresholds above which rows are sampled are patched to in every second problem."""

_NAMES = re.compile(r"(SMALL|ROWS|CENTRES|SAMPLE|POOL)")
_SPARED = re.compile(r"CERTIF|CHECK|TABLE|LEAST|SHARE")
"""Not thresholds of sampling: what certificates are about, which they say, and what is looked at
for errors."""


@dataclass(frozen=True)
class Enclosure:
    """lower ≤ minimum ≤ upper, each wrong by at most ``slack`` of rounding."""

    lower: float
    upper: float
    slack: float

    def __add__(self, other: Enclosure) -> Enclosure:
        return Enclosure(
            self.lower + other.lower, self.upper + other.upper, self.slack + other.slack
        )

    def times(self, factor: float) -> Enclosure:
        """Of a positive multiple of the problem."""
        return Enclosure(factor * self.lower, factor * self.upper, factor * self.slack)


def total(parts: list[Enclosure]) -> Enclosure:
    """Of the sum of problems that have nothing in common."""
    return Enclosure(*(float(sum(getattr(part, n) for part in parts)) for n in _ENDS))


_ENDS = "lower", "upper", "slack"


def faults(
    certificate, truth: Enclosure, *, zero: float | None = None, at_most: float | None = None
) -> list[str]:
    """What is false about a certificate; nothing if it is true.

    ``zero`` is P of the model that it calls its baseline, and ``at_most`` a gap that it should have
    closed, where that was asked for.
    """
    found = []
    if not np.isfinite([certificate.lower, certificate.upper]).all():
        found.append(f"not finite: {certificate.lower}, {certificate.upper}")
    if certificate.lower > truth.upper + truth.slack:
        found.append(f"lower {certificate.lower!r} > minimum {truth.upper!r} + {truth.slack:.1e}")
    if certificate.upper < truth.lower - truth.slack:
        found.append(f"upper {certificate.upper!r} < minimum {truth.lower!r} - {truth.slack:.1e}")
    least = certificate.minimum_upper_per_output
    if least is not None and float(np.sum(least)) < truth.lower - truth.slack:
        found.append(f"minimum at most {np.sum(least)!r} < {truth.lower!r} - {truth.slack:.1e}")
    if zero is not None:
        found += _false_shares(certificate, truth, zero)
    if at_most is not None and certificate.gap > at_most + 2.0 * truth.slack:
        found.append(f"gap {certificate.gap!r} is more than {at_most!r}")
    return found


def _false_shares(certificate, truth: Enclosure, zero: float) -> list[str]:
    """The share (P(0) - P) / (P(0) - P_min), and the value P(0) that it starts from."""
    slack = truth.slack + 1e-11 * abs(zero)
    claimed = 0.5 * float(certificate.target_norms.sum())
    if abs(claimed - zero) > slack:
        return [f"P(0) is {zero!r}, not {claimed!r}"]
    gained, captured = zero - certificate.upper, certificate.captured
    if np.isnan(captured):
        # Nothing can be gained.
        return [f"P(0) {zero!r} > {truth.upper!r}"] if zero > truth.upper + slack else []
    if not 0.0 <= captured <= 1.0:
        return [f"captured {captured!r}"]
    if captured * (zero - truth.upper) > max(gained, 0.0) + 2.0 * slack:
        return [f"captured {captured!r} > {gained!r} / {zero - truth.upper!r}"]
    return []


def audit(check: Callable[[int], list[str]], seeds: range) -> None:
    """Run ``check`` on all seeds, every second with thresholds at 50 rows; no fault is allowed."""
    found = []
    for seed in seeds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)
            with thresholds(FEW_ROWS if seed % 2 else None):
                found += [f"seed {seed}: {fault}" for fault in check(seed)]
    if found:
        pytest.fail(f"{len(found)} violations in {len(seeds)} problems:\n" + "\n".join(found[:20]))


@contextmanager
def thresholds(limit: int | None) -> Iterator[list[str]]:
    """Patch all numbers of rows above which the package samples; yields their names."""
    patched = []
    if limit is not None:
        known = [(module, name, getattr(module, name)) for module, name in _thresholds()]
        patched = [one for one in known if one[2] > limit]
    for module, name, _ in patched:
        setattr(module, name, limit)
    try:
        yield [f"{module.__name__}.{name}" for module, name, _ in patched]
    finally:
        for module, name, value in patched:
            setattr(module, name, value)


@cache
def _thresholds() -> list[tuple[ModuleType, str]]:
    """Whole numbers of rows or candidates, by their names, in the rooms where these are drawn."""
    rooms = ("estimators", "solvers", "objectives", "greedy", "gram", "rows", "tuning")
    for room in rooms:
        package = importlib.import_module(f"pursuit.{room}")
        for info in pkgutil.walk_packages(package.__path__, f"pursuit.{room}."):
            importlib.import_module(info.name)
    wanted = tuple(f"{pursuit.__name__}.{room}" for room in (*rooms, "limits"))
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith(wanted)]
    return [
        (module, name)
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, int) and not isinstance(value, bool)
        if name.isupper() and _NAMES.search(name) and not _SPARED.search(name)
    ]
