"""What a fit did step by step, and what each step cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate

_GRID_RATIO = 1.25  # Smaller: more sizes, and more work for each curve over sizes.
_ARRAYS = ("index", "value", "gap", "seconds", "entries", "passes")
_OPTIONAL = ("sizes", "lower", "iterations", "residual", "certificates", "certified")


class Counting(Protocol):
    """A kernel or a matrix that counts the entries it has computed."""

    @property
    def entries(self) -> int:
        """Number of entries."""


class CostMeter:
    """Cost so far: seconds since its creation, kernel entries evaluated, passes over the rows.

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


def size_grid(n: int) -> list[int]:
    """1, …, n in steps of ratio 1.25."""
    sizes = {n}
    while n > 1:
        n = min(n - 1, int(n / _GRID_RATIO))
        sizes.add(n)
    return sorted(sizes)


@dataclass(frozen=True)
class Path:
    """What a fit did, one entry per step.

    A step of a greedy choice takes a basis function; a step of `LPMachineClassifier` and
    `LPMachineRegressor` is a round of column generation, the first one for the best constant; a
    step of `ExactGPRegressor` is an iteration, the first one for the zero function. The first six
    columns are there for every fit, the others are None where they do not apply.

    Attributes
    ----------
    index : array of int
        Row number of the basis function of each step, -1 where it is not a row or there is none.
    value : array
        Objective P on all rows after each step, summed over outputs.
    gap : array
        Relative duality gap, NaN where it was not computed.
    seconds, entries, passes : arrays
        Cumulative time, kernel entries evaluated and passes over the rows.
    stop_reason : str
        Why it ended: n_basis, n_terms, max_iter, tol, no gain, rank, time, bound, interrupted,
        stalled (rounding allows no better) or direct (no iterations: a Cholesky factor).
    step : str
        The rule of the steps that were taken, where there is a choice of rules: over a convex hull
        joint, frank-wolfe or corrective. Empty elsewhere.
    sizes : array of int, optional
        Kernel functions in the linear programme; most have a coefficient of 0 in the end.
    lower : array, optional
        The best lower bound on the minimum of P known at each step, summed over outputs.
    iterations : array of int, optional
        Cumulative iterations of the solver: of the simplex method, or of conjugate gradients.
    residual : array, optional
        Largest ‖W^½(y - Av)‖ / ‖W^½y‖ over the outputs, A = K + σ²W⁻¹.
    certificates : list of Certificate, optional
        P(f) and the best proof of how low P can be, at each step.
    certified : array of bool, optional
        Whether only float64 products went into the entry. Others are off by the rounding of
        float32 tiles: their bounds are estimates of what float64 would give.
    """

    index: Indices
    value: Floats
    gap: Floats
    seconds: Floats
    entries: NDArray[np.int64]
    passes: Floats
    stop_reason: str
    step: str = ""
    sizes: Indices | None = None
    lower: Floats | None = None
    iterations: Indices | None = None
    residual: Floats | None = None
    certificates: list[Certificate] | None = None
    certified: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.index)

    def truncated(self, n: int) -> Path:
        """The first n steps."""
        known = [name for name in (*_ARRAYS, *_OPTIONAL) if getattr(self, name) is not None]
        columns: dict[str, Any] = {name: getattr(self, name)[:n] for name in known}
        return replace(self, **columns, stop_reason="n_basis")

    @classmethod
    def joined(cls, paths: Sequence[Path]) -> Path:
        """Paths of basis functions one after the other; the last one says why they ended."""
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(path, name) for path in paths]) for name in _ARRAYS
        }
        return replace(paths[-1], **arrays)

    def extended(self, index: Indices) -> Path:
        """Further basis functions that cost nothing more; their values are to be filled in."""
        n = len(index)
        unknown, last = np.full(n, np.nan), slice(len(self) - 1, None)
        costs: dict[str, Any] = {
            name: np.repeat(getattr(self, name)[last] if len(self) else np.zeros(1, int), n)
            for name in ("seconds", "entries", "passes")
        }
        more = Path(index=index, value=unknown, gap=unknown, stop_reason="", **costs)
        return replace(Path.joined([self, more]), stop_reason=self.stop_reason, step=self.step)

    def __str__(self) -> str:
        if self.residual is not None and self.iterations is not None:
            steps = f"{self.iterations[-1]} iterations"
        else:
            steps = f"{len(self)} {'basis functions' if self.sizes is None else 'rounds'}"
        text = f"Path of {steps}, stopped by {self.stop_reason}"
        if not len(self):
            return text
        text += f": value {self.value[-1]:.6g}"
        if self.lower is not None:
            text += f", at least {self.lower[-1]:.6g},"
        costs = [f"{self.seconds[-1]:.3g} s", f"{self.entries[-1]:.3g} kernel entries"]
        if self.passes[-1] > 0:
            costs.append(f"{self.passes[-1]:.3g} passes over the rows")
        text += f" after {', '.join(costs[:-1])} and {costs[-1]}"
        if self.residual is not None:
            text += f"; relative residual {self.residual[-1]:.3g}, relative gap {self.gap[-1]:.3g}"
        if self.sizes is not None and self.iterations is not None:
            text += f"; {self.sizes[-1]} kernel functions tried, {self.iterations[-1]} iterations"
        return text


@dataclass
class PathRecorder:
    """Collects a Path while the loop runs."""

    meter: CostMeter
    steps: list[dict[str, Any]] = field(default_factory=list)

    def record(self, index: int, value: float) -> None:
        """Add a step with the cost up to now."""
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
        """Add the gap to the last step, and the cost up to now."""
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
