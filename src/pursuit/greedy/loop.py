"""The one greedy loop: candidates, the pick of each step, and the path it leaves."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.bounds import Certificate
from pursuit.greedy.stopping import StopRule
from pursuit.linalg import NotPositiveDefiniteError
from pursuit.objectives import Objective

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

    def end(self, gap: float, meter: CostMeter) -> None:
        """Write the gap that a certificate has found into the last step, and the cost so far."""
        if len(self):
            self.gap[-1], self.seconds[-1] = gap, meter.seconds
            self.entries[-1], self.passes[-1] = meter.entries, meter.passes

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


_TIE = 1e-10  # Gains within this part of the largest are ties.
_NO_GAIN = 1e-15  # Gains below this part of the scale are rounding.
_REDRAWS = 20  # Random subsets without gain after which a pursuit ends.


class Candidates(Protocol):
    """Draws the candidates of a step from those available."""

    def draw(self, available: NDArray[np.bool_]) -> Indices:
        """Candidate numbers in increasing order."""


class AllCandidates:
    """Every candidate at every step."""

    def draw(self, available: NDArray[np.bool_]) -> Indices:
        """All that are available."""
        return np.flatnonzero(available)


class FreshSubset:
    """A new random subset at every step, as in the papers.

    Smola and Bartlett 2001 (SB01 §4), Smola and Schölkopf 2000 (SS00 §3).
    """

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self.size = size
        self._rng = rng

    def draw(self, available: NDArray[np.bool_]) -> Indices:
        """``size`` of those available, without replacement."""
        free = np.flatnonzero(available)
        if len(free) <= self.size:
            return free
        return np.sort(self._rng.choice(free, self.size, replace=False))


class RandomPivot:
    """One candidate per step, drawn in proportion to ``share()``."""

    def __init__(self, share: Callable[[], Floats], rng: np.random.Generator) -> None:
        self._share, self._rng = share, rng

    def draw(self, available: NDArray[np.bool_]) -> Indices:
        """One of those available, or none."""
        free = np.flatnonzero(available)
        if not len(free):
            return free
        return free[draw_in_proportion(self._share()[free], 1, self._rng)]


def draw_in_proportion(share: Floats, size: int, rng: np.random.Generator) -> Indices:
    """Positions drawn with replacement in proportion to ``share``, which must not be all 0."""
    cumulative = np.cumsum(share)
    drawn = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
    last = int(np.flatnonzero(share)[-1])
    return np.asarray(np.minimum(drawn, last), dtype=np.intp)


def subset_size(quantile: float = 0.05, delta: float = 0.05) -> int:
    """κ such that, with probability 1 - delta, one of κ draws is in the best ``quantile``.

    κ = ⌈ln δ / ln(1 - q)⌉ (SS00 Lemma 2): 59 for the defaults.
    """
    for name, number in (("quantile", quantile), ("delta", delta)):
        if not 0 < number < 1:
            raise ValueError(f"{name} must lie strictly between 0 and 1, got {number}.")
    return math.ceil(math.log(delta) / math.log1p(-quantile))


def best_candidate(
    candidates: Indices, gains: Floats, labels: Indices | None = None
) -> tuple[int, float]:
    """The candidate of largest gain; among those within 1e-10 of it, the one of lowest label."""
    largest = float(gains.max())
    if np.isnan(largest) or largest == np.inf:
        raise ValueError(
            "scores of these rows overflow: bring the features of X, y and sample_weight nearer to "
            "1, or use a kernel that grows more slowly."
        )
    tied = candidates[gains >= largest - _TIE * abs(largest)]
    if labels is not None and len(tied) > 1:
        return int(tied[np.argmin(labels[tied])]), largest
    return int(tied[0]), largest


class Pursuit:
    """Repeat: draw candidates, score them, take the best one, and ask the rules whether to stop.

    Parameters
    ----------
    objective : Objective
        The function that is made small.
    meter : CostMeter
        Cost so far.
    candidates : Candidates
        Which candidates each step looks at; all by default.
    labels : array of int, optional
        Name of candidate i in the Path, usually its row number.
    scale : float
        Gains below 1e-15 of this size are rounding; they end the pursuit.
    every_step : bool
        Whether the Path has an entry for every step, even if it takes a candidate again.
    """

    def __init__(
        self,
        objective: Objective,
        meter: CostMeter,
        *,
        candidates: Candidates | None = None,
        labels: Indices | None = None,
        scale: float = 0.0,
        every_step: bool = False,
    ) -> None:
        self.objective = objective
        self.recorder = PathRecorder(meter)
        self.n_steps = 0
        self._candidates = candidates or AllCandidates()
        self._labels = labels
        self._scale = scale
        self._every_step = every_step
        self._taken: set[int] = set()

    @property
    def size(self) -> int:
        """Number of distinct candidates taken; below ``n_steps`` if some were taken again."""
        return len(self._taken)

    def step(self) -> str | None:
        """Take one candidate; returns the reason if none can be taken."""
        redraws = 0
        while True:
            available = self.objective.available
            candidates = self._candidates.draw(available)
            if not len(candidates):
                return "rank"
            gains = self.objective.score(candidates)
            best, gain = best_candidate(candidates, gains, self._labels)
            # The first candidate is taken even without gain, so that a model always has a basis.
            if gain <= _NO_GAIN * self._scale and self.size:
                # A random subset without gain does not mean that the other candidates have none.
                if redraws == _REDRAWS or len(candidates) == np.count_nonzero(available):
                    return "no gain"
                redraws += 1
                continue
            try:
                taken = self.objective.add(best)
            except NotPositiveDefiniteError as error:
                raise NotPositiveDefiniteError(self._label(error.index), error.pivot) from error
            if taken:
                self._record(best)
                return None

    def _record(self, candidate: int) -> None:
        """Count a step; the path gets an entry when a candidate is taken for the first time."""
        self.n_steps += 1
        if self._every_step or candidate not in self._taken:
            self._taken.add(candidate)
            self.recorder.record(self._label(candidate), self.objective.value)

    def _label(self, candidate: int) -> int:
        return candidate if self._labels is None else int(self._labels[candidate])

    def take(self, candidates: Iterable[int]) -> None:
        """Take these candidates whatever their gain, except dependent ones."""
        for candidate in candidates:
            self.objective.score(np.array([candidate], dtype=np.intp))
            if self.objective.add(candidate):
                self._record(candidate)

    def run(
        self, rules: Sequence[StopRule], after_step: Callable[[int], None] | None = None
    ) -> Path:
        """Step until a rule returns a reason or no candidate is left."""
        while True:
            reason = self.step()
            if reason is None and after_step is not None:
                after_step(self.size)
            reasons = [reason] if reason else [rule(self) for rule in rules]
            for stop_reason in reasons:
                if stop_reason:
                    return self.recorder.path(stop_reason)
