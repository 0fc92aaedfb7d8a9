"""The greedy loop, written once, and the candidates that it looks at in each step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices
from pursuit.greedy.paths import CostMeter, Path, PathRecorder
from pursuit.greedy.stopping import StopRule
from pursuit.linalg import NotPositiveDefiniteError
from pursuit.objectives import Objective

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
    if np.isnan(largest):
        raise ValueError(
            "kernel values overflow on these rows, and their scores are not numbers: scale the "
            "features, or use a kernel that grows more slowly."
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
