"""When to stop: rules that look at a pursuit after each step and return a reason, or None."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pursuit._types import Floats

if TYPE_CHECKING:
    from pursuit.greedy.loop import Pursuit


class StopRule(Protocol):
    """Called after each step."""

    def __call__(self, pursuit: Pursuit) -> str | None:
        """Reason to stop, or None."""
        ...


class MaxSize:
    """Stop at n basis functions, or at n of what ``reason`` counts."""

    def __init__(self, n: int, reason: str = "n_basis") -> None:
        self.n, self.reason = n, reason

    def __call__(self, pursuit: Pursuit) -> str | None:
        """Reason n_basis, or the one given."""
        return self.reason if pursuit.size >= self.n else None


class Stalled:
    """Stop when ``patience`` steps in a row have taken again what was taken before."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self._size, self._since = 0, 0

    def __call__(self, pursuit: Pursuit) -> str | None:
        """Reason no gain."""
        if pursuit.size > self._size:
            self._size, self._since = pursuit.size, pursuit.n_steps
        return "no gain" if pursuit.n_steps - self._since >= self.patience else None


class ValueBelow:
    """Stop when the objective is at most ``target``."""

    def __init__(self, target: float) -> None:
        self.target = target

    def __call__(self, pursuit: Pursuit) -> str | None:
        """Reason tol."""
        return "tol" if pursuit.objective.value <= self.target else None


class BoundBelow:
    """Stop when ``bound(pursuit)``, a bound on what is left, is at most ``tol``."""

    def __init__(self, tol: float, bound: Callable[[Pursuit], float]) -> None:
        self.tol = tol
        self.last = math.inf
        self._bound = bound

    def __call__(self, pursuit: Pursuit) -> str | None:
        """Reason tol."""
        self.last = self._bound(pursuit)
        return "tol" if self.last <= self.tol else None


class GapBelow:
    """Stop when the relative gap of a certificate is at most ``tol``.

    ``gap(pursuit)`` is called after every step when ``growth`` is 0, else whenever the basis has
    grown by that fraction since the last look.
    """

    def __init__(self, tol: float, gap: Callable[[Pursuit], float], growth: float = 0.0) -> None:
        self.tol, self.growth = tol, growth
        self._gap = gap
        self._next = 1

    def __call__(self, pursuit: Pursuit) -> str | None:
        """Reason tol."""
        if pursuit.size < self._next:
            return None
        self._next = max(pursuit.size + 1, int(pursuit.size * (1 + self.growth)))
        gap = self._gap(pursuit)
        pursuit.recorder.record_gap(gap)
        return "tol" if gap <= self.tol else None


class Deadline:
    """Stop when what is left of ``seconds`` is needed to finish a model of this size.

    ``reserve(n)`` is the time that finishing a model of n basis functions will take.
    """

    def __init__(self, seconds: float, reserve: Callable[[int], float] = lambda n: 0.0) -> None:
        self.seconds = seconds
        self._reserve = reserve

    def __call__(self, pursuit: Pursuit) -> str | None:
        """Reason time."""
        spent = pursuit.recorder.meter.seconds
        return "time" if spent + self._reserve(pursuit.size) >= self.seconds else None


class Clock:
    """The seconds that a fit has from now on, without end where None are given."""

    def __init__(self, seconds: float | None = None) -> None:
        self._begin = time.perf_counter()
        self._seconds = math.inf if seconds is None else float(seconds)

    def left(self, share: float = 1.0) -> float:
        """Seconds until a share of them is over; negative after that."""
        return share * self._seconds - (time.perf_counter() - self._begin)

    def over(self, share: float = 1.0) -> bool:
        """Whether a share of them is over."""
        return self.left(share) <= 0


PATIENCE_SECONDS = 2.0
"""So long a pass that the model needs may go on after Ctrl-C."""


class Interrupted:
    """Stop when the user asked for it; see :func:`catch_interrupt`."""

    def __init__(self) -> None:
        self.requested = False
        self._since = math.inf

    def request(self) -> None:
        """The user asks."""
        self.requested, self._since = True, time.perf_counter()

    def overdue(self) -> bool:
        """Whether the user has waited for some time."""
        return time.perf_counter() - self._since >= PATIENCE_SECONDS

    def __call__(self, pursuit: Pursuit) -> str | None:
        """Reason interrupted."""
        return "interrupted" if self.requested else None


@contextlib.contextmanager
def catch_interrupt() -> Iterator[Interrupted]:
    """Turn the first Ctrl-C into a request to stop; a second one interrupts at once.

    Only the main thread receives signals: elsewhere the rule never fires.
    """
    rule = Interrupted()
    if threading.current_thread() is not threading.main_thread():
        yield rule
        return
    previous = signal.getsignal(signal.SIGINT)
    if not callable(previous):
        yield rule
        return

    def request(number: int, frame: FrameType | None) -> None:
        rule.request()
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, request)
    try:
        yield rule
    finally:
        signal.signal(signal.SIGINT, previous)


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
