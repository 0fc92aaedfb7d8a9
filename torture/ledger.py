"""Counts of what was claimed, and what of it is false."""

from __future__ import annotations

from typing import Any

import numpy as np

from torture import Report
from torture.exact_kernels import MP

TOLERANCE = 1e-12
"""A bound is violated if it is wrong by more than this, relative to the true value."""
LARGEST_COST = 1e-6
"""What rounding may cost of ``upper`` in an easy problem."""
NEARLY_NOTHING = 1e-6
"""Share of P(0), or of one unit of logarithms, below which ``upper`` is as good as 0: the cost is
then compared with this."""


class Ledger:
    """Checks of one problem.

    Parameters
    ----------
    difficulty : str
        "easy", "hard" or "hopeless".
    """

    def __init__(self, estimator: str, difficulty: str, about: str) -> None:
        self.estimator, self.difficulty, self._about = estimator, difficulty, about
        self.report = Report()
        self.count(f"problems, {difficulty}")
        # What there is none of is said, too.
        self.count(f"violations, {difficulty}", 0)

    def count(self, what: str, number: int = 1) -> None:
        """Add to a count."""
        self.report.counts[what] += number

    def fail(self, what: str) -> None:
        """Something is wrong that is not a bound."""
        self.report.failures.append(f"{self.estimator} ({self.difficulty}): {what} [{self._about}]")

    def at_most(self, bound: Any, truth: Any, what: str, size: Any = None) -> None:
        """Check a claimed lower bound, relative to the truth or to another ``size``."""
        self._check(bound, truth, "lower", what, truth if size is None else size)

    def at_least(self, bound: Any, truth: Any, what: str, size: Any = None) -> None:
        """Check a claimed upper bound."""
        self._check(bound, truth, "upper", what, truth if size is None else size)

    def _check(self, bound: Any, truth: Any, end: str, what: str, size: Any) -> None:
        self.count(f"checks, {self.difficulty}")
        claimed = float(bound)
        if np.isnan(claimed):
            excess = np.nan
        elif np.isinf(claimed):
            excess = 0.0 if (claimed < 0) == (end == "lower") else np.inf
        else:
            over = (MP.mpf(claimed) - truth) * (1 if end == "lower" else -1)
            excess = float(over / abs(size)) if size else (np.inf if over > 0 else 0.0)
        if not excess <= TOLERANCE:
            self.count(f"violations, {self.difficulty}")
            self.count(f"violations, {self.difficulty}, {self.estimator} {what}")
            self.fail(
                f"{what}: {end} bound {claimed!r}, the truth is {MP.nstr(MP.mpf(truth), 17)}: "
                f"wrong by {excess:.2g} of it"
            )

    def certificate(
        self,
        found: Any,
        kind: str,
        values: Any,
        minimum: Any,
        least: Any = None,
        size: Any = None,
    ) -> None:
        """Check lower ≤ P_min ≤ minimum_upper and P(f) ≤ upper, for each output and their sums.

        ``least`` are lower ends of the minima, None where nothing is known, if ``minimum`` are
        upper ends only. ``size`` is what errors are relative to, if not to the true values.
        """
        if found is None:
            self._nothing(kind)
            return
        self.count(f"certificates, {self.difficulty}")
        self.at_most(found.lower, sum(minimum), f"{kind} lower", size)
        self.at_least(found.upper, sum(values), f"{kind} upper", size)
        least = minimum if least is None else least
        above = found.minimum_upper_per_output
        if len(found.upper_per_output) != len(values):
            values = ()
        for j in range(len(values)):
            if len(values) > 1:
                self.at_most(found.lower_per_output[j], minimum[j], f"{kind} lower")
                self.at_least(found.upper_per_output[j], values[j], f"{kind} upper")
            if above is not None and least[j] is not None:
                self.at_least(above[j], least[j], f"{kind} minimum_upper", size)
        self._statement(found, kind)

    def _nothing(self, kind: str) -> None:
        """There is no certificate: only the diagonal kind may say so, where its bound is loose."""
        if kind == "diagonal":
            self.count(f"no diagonal certificate: gap above half of upper, {self.difficulty}")
            return
        self.count(f"no certificate, {self.difficulty}")
        if self.difficulty == "easy":
            self.fail(f"{kind}: no certificate")

    def _statement(self, found: Any, kind: str) -> None:
        """Whether it says something, and what rounding has cost."""
        if getattr(found, "informative", True):
            self.count(f"informative, {self.difficulty}")
        elif self.difficulty == "easy":
            self.fail(f"{kind}: not informative")
        cost = float(getattr(found, "rounding", 0.0))
        # Where values may be negative, ``upper`` may be 0 while the minimum is far from it.
        size = max(abs(found.upper), abs(found.lower))
        # Logarithms may be 0 by chance.
        unit = max(abs(0.5 * float(found.target_norms.sum())), found.unit)
        size = max(size, NEARLY_NOTHING * unit)
        if self.difficulty == "easy" and cost > LARGEST_COST * size:
            self.count("rounding above 1e-6 of upper, easy")
            self.fail(f"{kind}: rounding costs {cost:.2g}, upper is {found.upper:.3g}")
