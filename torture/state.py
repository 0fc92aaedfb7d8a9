"""What has been run so far: counts and the next seed of every fuzzer, in a file."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from torture.workers import Outcome

KEPT_FAILURES = 200
"""Failures whose words are kept for each fuzzer; all are counted."""


@dataclass
class Tally:
    """One fuzzer so far.

    Attributes
    ----------
    next : int
        The first seed that nobody has begun.
    running : list of int
        Seeds that were begun and have no report.
    seeds, failed : int
        How many have a report, and in how many something was wrong.
    seconds : float
        What they have cost.
    counts : Counter of str
        Sum of the counts of their reports.
    failures : list of (int, str)
        Seeds and what was wrong, the first of them.
    """

    next: int = 0
    running: list[int] = field(default_factory=list)
    seeds: int = 0
    failed: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)

    def begin(self) -> int:
        """Take the next seed."""
        seed, self.next = self.next, self.next + 1
        self.running.append(seed)
        return seed

    def record(self, outcome: Outcome) -> None:
        """Add the report of a seed."""
        self.running.remove(outcome.seed)
        self.seeds += 1
        self.seconds += outcome.seconds
        self.counts.update(outcome.report.counts)
        if outcome.report.failures:
            self.failed += 1
            room = KEPT_FAILURES - len(self.failures)
            self.failures += [(outcome.seed, text) for text in outcome.report.failures[:room]]

    def due(self, share: float) -> float:
        """Seconds for each unit of its share, those of running seeds estimated."""
        mean = self.seconds / self.seeds if self.seeds else 0.0
        return (self.seconds + mean * len(self.running)) / share


class State:
    """The tallies of all fuzzers, and the file that keeps them."""

    def __init__(self, file: Path) -> None:
        self._file, self._written = file, time.monotonic()
        self.tallies: dict[str, Tally] = {}
        if file.exists():
            for name, stored in json.loads(file.read_text(encoding="utf-8")).items():
                tally = Tally(**stored)
                tally.counts = Counter(tally.counts)
                tally.failures = [tuple(one) for one in tally.failures]
                self.tallies[name] = tally

    def __getitem__(self, name: str) -> Tally:
        return self.tallies.setdefault(name, Tally())

    def forget(self, names: Iterable[str]) -> None:
        """Begin anew with these."""
        for name in names:
            self.tallies[name] = Tally()

    def save(self, every: float = 0.0) -> None:
        """Replace the file, unless that was done less than ``every`` seconds ago."""
        if time.monotonic() - self._written < every:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        part = self._file.with_suffix(f".{os.getpid()}.part")
        text = json.dumps({name: vars(tally) for name, tally in self.tallies.items()}, indent=1)
        part.write_text(text, encoding="utf-8")
        os.replace(part, self._file)
        self._written = time.monotonic()
