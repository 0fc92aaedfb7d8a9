"""Stop where a curve over sizes has passed its minimum."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from pursuit._types import Floats

if TYPE_CHECKING:
    from pursuit.greedy.loop import Pursuit


PATIENCE = 10
"""Further sizes without a smaller bound after which growing ends; more of them search longer."""

_LARGEST = 1024
_GROWTH = 4


def largest_size(weight: float, least: int = 1) -> int:
    """Where growing by a bound ends: half of the rows, and 1024, but not below ``least``."""
    return max(least, int(min(weight / 2, _LARGEST)))


class Patience:
    """Stop when ``patience`` further sizes, or as many as the best has, have not improved on it.

    A curve that falls by a little for every function added is jagged over lengths that grow with
    the size: on Friedman's first function 10 further sizes stop at a third of the way. For a smooth
    curve ``patience`` sizes are enough, ``growing=False``. Growing does not end before ``least``.

    ``curve(first, last)`` gives the values at sizes first, …, last, and may only be asked about
    sizes that the pursuit has reached. It is asked about several at a time, since one pass over the
    rows serves them all; what it says of sizes at which a look at every step would have stopped is
    not used, so that the outcome does not depend on when one looks.

    Attributes
    ----------
    values : list of float
        The curve from size 1 on.
    """

    def __init__(
        self,
        curve: Callable[[int, int], Floats],
        patience: int,
        reason: str,
        *,
        growing: bool = True,
        least: int = 1,
    ) -> None:
        self.patience, self.reason, self.growing = patience, reason, growing
        self.values: list[float] = []
        self._curve = curve
        self._next = max(patience + 1, least)
        self._over = False

    @property
    def best_size(self) -> int:
        """The size of the smallest value, the first of equals."""
        return int(np.argmin(self.values)) + 1

    def __call__(self, pursuit: Pursuit) -> str | None:
        """The reason given."""
        if pursuit.size < self._next:
            return None
        self._next = pursuit.size + max(self.patience, pursuit.size // _GROWTH)
        return self.reason if self.look(pursuit.size) else None

    def look(self, size: int) -> bool:
        """Read the curve up to this size; whether patience has run out."""
        if not self._over and len(self.values) < size:
            for value in self._curve(len(self.values) + 1, size):
                self.values.append(float(value))
                least = max(self.patience, self.best_size) if self.growing else self.patience
                if len(self.values) - self.best_size >= least:
                    self._over = True
                    break
        return self._over
