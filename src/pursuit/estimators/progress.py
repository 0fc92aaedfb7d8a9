"""Progress of a fit: scikit-learn's callbacks where they exist, lines of text when asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

CallbackSupportMixin: Any
with_callbacks: Callable[[Callable[..., Any]], Callable[..., Any]]
try:
    from sklearn import callback
except ImportError:  # scikit-learn before 1.9 has no callbacks
    CallbackSupportMixin = object

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method as it is."""
        return method
else:
    CallbackSupportMixin = callback.CallbackSupportMixin
    with_callbacks = callback.with_callbacks


_SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """Stages of a fit, one after the other, each with a known number of ticks at most."""

    def __init__(self, estimator: Any, n_stages: int) -> None:
        self.seconds: dict[str, float] = {}
        self._estimator = estimator
        self._root = self._stage = None
        self._name, self._start = "", 0.0
        if getattr(estimator, "_skl_callbacks", None):
            self._root = estimator._init_callback_context(max_subtasks=n_stages)
            self._root.call_on_fit_task_begin(estimator=estimator)

    def begin(self, name: str, ticks: int = 1, rows: int = 0) -> Callable[[int], None]:
        """End the stage before, begin this one; returns a function to call with 1, 2, … ticks.

        ``rows`` are what all ticks together will have read, where that is worth telling.
        """
        self._end_stage()
        self._name, self._start = name, time.perf_counter()
        tell = self._reporter(ticks, rows)
        if self._root is None:
            return tell
        stage = self._stage = self._root.subcontext(task_name=name, max_subtasks=ticks)
        stage.call_on_fit_task_begin(estimator=self._estimator)
        seen = 0

        def tick(done: int) -> None:
            nonlocal seen
            tell(done)
            while seen < min(done, ticks):
                step = stage.subcontext(task_name="step")
                step.call_on_fit_task_begin(estimator=self._estimator)
                step.call_on_fit_task_end(estimator=self._estimator)
                seen += 1

        return tick

    def _reporter(self, ticks: int, rows: int) -> Callable[[int], None]:
        """Prints how far a long stage has come, how fast, and when it will end."""
        if not self._estimator.verbose or not rows:
            return lambda done: None
        first: tuple[int, float] | None = None
        told = time.perf_counter()

        def tell(done: int) -> None:
            # Rows that a checkpoint has spared are not to count as speed.
            nonlocal first, told
            now = time.perf_counter()
            if first is None:
                first = done, now
            if now - told < _SECONDS_BETWEEN_LINES or done == first[0]:
                return
            told = now
            speed = rows * (done - first[0]) / ticks / (now - first[1])
            left = rows * (ticks - done) / ticks
            print(
                f"[{type(self._estimator).__name__}] {self._name}: {rows - left:,.0f} of "
                f"{rows:,} rows, {speed:,.0f} rows/s, {left / speed:.0f} s left",
                flush=True,
            )

        return tell

    def finish(self) -> None:
        """End the last stage and the fit's own task."""
        self._end_stage()
        if self._root is not None:
            self._root.call_on_fit_task_end(estimator=self._estimator)

    def _end_stage(self) -> None:
        if not self._name:
            return
        spent = time.perf_counter() - self._start
        self.seconds[self._name] = self.seconds.get(self._name, 0.0) + spent
        if self._stage is not None:
            self._stage.call_on_fit_task_end(estimator=self._estimator)
        if self._estimator.verbose:
            print(f"[{type(self._estimator).__name__}] {self._name}: {spent:.2f} s", flush=True)
        self._name = ""
