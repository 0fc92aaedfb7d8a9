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


PATIENCE_SECONDS = 0.3
"""Seconds for which a pass that the model needs may go on after Ctrl-C."""
PATIENCE = 10
"""Further sizes without a smaller bound after which growth ends. Larger: a longer search."""
_LARGEST = 1024  # Most functions that a bound chooses.
_GROWTH = 4  # Larger: the curve is read more often, in smaller pieces.


class StopRule(Protocol):
    """Called after each step."""

    def __call__(self, pursuit: Pursuit) -> str | None:
        """Reason to stop, or None."""


class MaxSize:
    """Stop at n basis functions, or at n of the things that ``reason`` names."""

    def __init__(self, n: int, reason: str = "n_basis") -> None:
        self.n, self.reason = n, reason

    def __call__(self, pursuit: Pursuit) -> str | None:
        """Reason n_basis, or the one given."""
        return self.reason if pursuit.size >= self.n else None


class Stalled:
    """Stop when ``patience`` steps in a row took candidates that had been taken before."""

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
    """Stop when ``bound(pursuit)``, a bound on the residual, is at most ``tol``."""

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
    grown by that fraction since the last call.
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
    """Stop when the rest of ``seconds`` is needed to finish a model of this size.

    ``reserve(n)`` is the time needed to finish a model of n basis functions.
    """

    def __init__(self, seconds: float, reserve: Callable[[int], float] = lambda n: 0.0) -> None:
        self.seconds = seconds
        self._reserve = reserve

    def __call__(self, pursuit: Pursuit) -> str | None:
        """Reason time."""
        spent = pursuit.recorder.meter.seconds
        return "time" if spent + self._reserve(pursuit.size) >= self.seconds else None


class Clock:
    """The time limit of a fit, in seconds from now; None is no limit."""

    def __init__(self, seconds: float | None = None) -> None:
        self._begin = time.perf_counter()
        self.has_ended = False
        self._seconds = math.inf if seconds is None else float(seconds)

    def left(self, share: float = 1.0) -> float:
        """Seconds until a share of the limit is over; negative after that."""
        return share * self._seconds - (time.perf_counter() - self._begin)

    def over(self, share: float = 1.0) -> bool:
        """Whether a share of the limit is over; ``has_ended`` says if it was at any look."""
        over = self.left(share) <= 0
        self.has_ended |= over
        return over


class Interrupted:
    """Stop when the user has pressed Ctrl-C; see :func:`catch_interrupt`.

    A ``patient`` rule lets a pursuit go on for ``PATIENCE_SECONDS`` from its first step on.
    """

    def __init__(self, *, patient: bool = False) -> None:
        self.requested = False
        self._patient, self._since, self._first = patient, math.inf, math.inf

    def request(self) -> None:
        """Note the user's request."""
        self.requested, self._since = True, time.perf_counter()

    def overdue(self) -> bool:
        """Whether the user has waited for ``PATIENCE_SECONDS``."""
        return time.perf_counter() - self._since >= PATIENCE_SECONDS

    def __call__(self, pursuit: object = None) -> str | None:
        """Reason interrupted."""
        if not self.requested:
            return None
        if self._patient:
            self._first = min(self._first, time.perf_counter())
            if time.perf_counter() - self._first < PATIENCE_SECONDS:
                return None
        return "interrupted"


_outermost: Interrupted | None = None
"""The rule of the context that the main thread is in."""
_RETRY_SECONDS = 0.01
_WHOLE = ("workers.py", "store.py")
"""Modules whose functions an alarm must not leave in the middle, but for `Workers.map`."""
_INNERMOST = 6


class Overdue(BaseException):
    """A fit that was asked to stop has taken too long; never seen outside of this package."""


class _Alarm:
    """Sends another Ctrl-C some seconds after the first, unless it is cancelled before.

    A thread sends it, because timers of the system may be in use by somebody else.
    """

    def __init__(self) -> None:
        self.rang = self.cancelled = False
        self._lock, self._timer = threading.Lock(), threading.Timer(0.0, self._ring)

    def set(self, seconds: float) -> None:
        """Ring after so many seconds."""
        self.rang = False
        self._timer = threading.Timer(seconds, self._ring)
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        """Do not ring any more."""
        self._timer.cancel()
        with self._lock:
            self.cancelled = True

    def _ring(self) -> None:
        with self._lock:
            if not self.cancelled:
                self.rang = True
                if hasattr(signal, "pthread_kill"):
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                else:  # Windows: a signal of any thread wakes the main one
                    signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def catch_interrupt(grace: float | None = None) -> Iterator[Interrupted]:
    """Turn the first Ctrl-C into a request to stop; a second one interrupts at once.

    If the context is still not left ``grace`` seconds after the request, it is left by an
    :class:`Overdue` error. Within another such context the rule is that of the other one. Only the
    main thread receives signals; in other threads the rule never fires.
    """
    global _outermost
    rule = Interrupted()
    if threading.current_thread() is not threading.main_thread():
        yield rule
        return
    previous = signal.getsignal(signal.SIGINT)
    if _outermost is not None or not callable(previous):
        yield _outermost or rule
        return
    alarm = _Alarm()

    def request(number: int, frame: FrameType | None) -> None:
        if not rule.requested:
            rule.request()
            if grace is not None:
                alarm.set(grace)
        elif not alarm.rang:
            signal.signal(signal.SIGINT, previous)
            previous(number, frame)
        elif not alarm.cancelled:
            if not _must_not_stop(frame):
                alarm.rang = False
                raise Overdue
            alarm.set(_RETRY_SECONDS)

    _outermost = rule
    signal.signal(signal.SIGINT, request)
    try:
        yield rule
    finally:
        _outermost = None
        alarm.cancel()
        time.sleep(0.0)  # what was sent and not seen yet must not reach the user's handler
        signal.signal(signal.SIGINT, previous)


def _must_not_stop(frame: FrameType | None) -> bool:
    """Whether the innermost functions count threads of BLAS, or write a file."""
    for _ in range(_INNERMOST):
        if frame is None:
            return False
        name = frame.f_code.co_filename
        if name.endswith(_WHOLE) and "pursuit" in name and frame.f_code.co_name != "map":
            return True
        frame = frame.f_back
    return False


def largest_size(weight: float, least: int = 1) -> int:
    """Largest size of growth by a bound: half of the rows, at most 1024, at least ``least``."""
    return max(least, int(min(weight / 2, _LARGEST)))


class Patience:
    """Stop when max(``patience``, best size) further sizes have not improved on the best size.

    A curve that falls a little with every function is jagged over lengths that grow with the size:
    on Friedman's first function, 10 further sizes would stop at a third of the way. For a smooth
    curve ``patience`` sizes are enough: ``growing=False``. Growth does not end before ``least``.

    ``curve(first, last)`` returns the values at sizes first, …, last. It is only called for sizes
    that the pursuit has reached, and for several at a time, since one pass over the rows serves
    them all. Values beyond the size at which a check after every step would have stopped are not
    used, so that the outcome does not depend on when the curve is read.

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
        """The size of the smallest value; the first one in case of ties."""
        return int(np.argmin(self.values)) + 1

    def __call__(self, pursuit: Pursuit) -> str | None:
        """The reason passed to the constructor."""
        if pursuit.size < self._next:
            return None
        self._next = pursuit.size + max(self.patience, pursuit.size // _GROWTH)
        return self.reason if self.look(pursuit.size) else None

    def look(self, size: int) -> bool:
        """Read the curve up to this size; returns whether patience has run out."""
        if not self._over and len(self.values) < size:
            for value in self._curve(len(self.values) + 1, size):
                self.values.append(float(value))
                least = max(self.patience, self.best_size) if self.growing else self.patience
                if len(self.values) - self.best_size >= least:
                    self._over = True
                    break
        return self._over
