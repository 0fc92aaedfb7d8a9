"""Who may be chosen at a step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pursuit._types import Floats, Indices


class Candidates(Protocol):
    """Draws the candidates of one step from those available."""

    def draw(self, available: NDArray[np.bool_]) -> Indices:
        """Candidate numbers in increasing order."""
        ...


class AllCandidates:
    """Every candidate at every step."""

    def draw(self, available: NDArray[np.bool_]) -> Indices:
        """All that are available."""
        return np.flatnonzero(available)


class FreshSubset:
    """A new random subset at every step, as in the papers (SB01 §4, SS00 §3)."""

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
    """One candidate a step, drawn in proportion to ``share()``."""

    def __init__(self, share: Callable[[], Floats], rng: np.random.Generator) -> None:
        self._share, self._rng = share, rng

    def draw(self, available: NDArray[np.bool_]) -> Indices:
        """One of those available, or none."""
        free = np.flatnonzero(available)
        if not len(free):
            return free
        return free[draw_in_proportion(self._share()[free], 1, self._rng)]


def draw_in_proportion(share: Floats, size: int, rng: np.random.Generator) -> Indices:
    """Positions drawn with replacement in proportion to ``share``, not all of which is 0."""
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
