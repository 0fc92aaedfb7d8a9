"""What a fit did step by step, and what each step cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices

STOP_REASONS = (
    "n_basis",
    "n_terms",
    "max_iter",
    "tol",
    "no gain",
    "rank",
    "time",
    "bound",
    "interrupted",
)


class Counting(Protocol):
    """A kernel, or a matrix, that counts the entries that were asked of it."""

    @property
    def entries(self) -> int:
        """How many."""
        ...


class Meter:
    """Cost so far: seconds since it was made, kernel entries evaluated, passes over the rows.

    Without a kernel, no entries are counted.
    """

    def __init__(self, kernel: Counting | None = None) -> None:
        self.passes = 0.0
        self._kernel = kernel
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._start

    @property
    def entries(self) -> int:
        """Kernel entries evaluated."""
        return 0 if self._kernel is None else self._kernel.entries


_GRID_RATIO = 1.25


def size_grid(n: int) -> list[int]:
    """1, …, n in steps of ratio 1.25."""
    sizes = {n}
    while n > 1:
        n = min(n - 1, int(n / _GRID_RATIO))
        sizes.add(n)
    return sorted(sizes)


@dataclass(frozen=True)
class Path:
    """One entry a basis function, in the order of choice.

    Attributes
    ----------
    index : array of int
        Row number of each basis function, -1 where it is not a row.
    value : array
        Objective P on all rows with the first 1, 2, … basis functions.
    gap : array
        Relative duality gap, NaN where it was not computed.
    seconds, entries, passes : arrays
        Cumulative time, kernel entries evaluated and passes over the rows.
    stop_reason : str
        Why the pursuit ended: n_basis, tol, no gain, rank, time, bound or interrupted.
    step : str
        The rule of the steps that were taken, where there is a choice of rules: over a convex hull
        joint, frank-wolfe or corrective. Empty elsewhere.
    """

    index: Indices
    value: Floats
    gap: Floats
    seconds: Floats
    entries: NDArray[np.int64]
    passes: Floats
    stop_reason: str
    step: str = ""

    def __len__(self) -> int:
        return len(self.index)

    def truncated(self, n: int) -> Path:
        """The first n steps."""
        arrays = {name: getattr(self, name)[:n] for name in _ARRAYS}
        return replace(self, **arrays, stop_reason="n_basis")

    @classmethod
    def joined(cls, paths: Sequence[Path]) -> Path:
        """One path after the other; why they ended is said by the last."""
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(path, name) for path in paths]) for name in _ARRAYS
        }
        return replace(paths[-1], **arrays)

    def extended(self, index: Indices) -> Path:
        """Further steps that cost nothing more; their values are to be filled in."""
        n = len(index)
        return Path(
            np.concatenate([self.index, index]),
            np.concatenate([self.value, np.full(n, np.nan)]),
            np.concatenate([self.gap, np.full(n, np.nan)]),
            np.concatenate([self.seconds, np.full(n, self.seconds[-1] if len(self) else 0.0)]),
            np.concatenate([self.entries, np.full(n, self.entries[-1] if len(self) else 0)]),
            np.concatenate([self.passes, np.full(n, self.passes[-1] if len(self) else 0.0)]),
            self.stop_reason,
            self.step,
        )

    def __str__(self) -> str:
        if not len(self):
            return f"Path of 0 basis functions, stopped by {self.stop_reason}"
        return (
            f"Path of {len(self)} basis functions, stopped by {self.stop_reason}: value "
            f"{self.value[-1]:.6g} after {self.seconds[-1]:.3g} s, "
            f"{self.entries[-1]:.3g} kernel entries and {self.passes[-1]:.3g} passes over the rows"
        )


_ARRAYS = ("index", "value", "gap", "seconds", "entries", "passes")


@dataclass
class PathRecorder:
    """Collects a Path while the loop runs."""

    meter: Meter
    steps: list[dict[str, Any]] = field(default_factory=list)

    def record(self, index: int, value: float) -> None:
        """Add a step, with what has been spent up to now."""
        self.steps.append(
            {
                "index": index,
                "value": value,
                "gap": np.nan,
                "seconds": self.meter.seconds,
                "entries": self.meter.entries,
                "passes": self.meter.passes,
            }
        )

    def record_gap(self, gap: float) -> None:
        """Add the gap to the last step, and what it cost to know it."""
        self.steps[-1].update(
            gap=gap,
            seconds=self.meter.seconds,
            entries=self.meter.entries,
            passes=self.meter.passes,
        )

    def path(self, stop_reason: str) -> Path:
        """The finished Path."""
        kinds = {"index": np.intp, "entries": np.int64}
        arrays: dict[str, Any] = {
            name: np.array([step[name] for step in self.steps], dtype=kinds.get(name, np.float64))
            for name in _ARRAYS
        }
        return Path(**arrays, stop_reason=stop_reason)
