"""What a fit tells while it runs: stages and ticks, to scikit-learn's callbacks and in lines."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

_SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """Reports the stages of a fit, each with a known largest number of ticks.

    Parameters
    ----------
    estimator : estimator
        Whose fit it is: lines are printed if it is ``verbose``.
    n_stages : int
        Largest number of stages.
    watched : bool
        Whether scikit-learn's callbacks are told.
    """

    def __init__(self, estimator: Any, n_stages: int, watched: bool) -> None:
        self._estimator = estimator
        self._root = self._stage = None
        self._name = ""
        if watched:
            self._root = estimator._init_callback_context(max_subtasks=n_stages)
            self._root.call_on_fit_task_begin(estimator=estimator)

    def begin(self, name: str, ticks: int = 1, rows: int = 0) -> Callable[[int], None]:
        """Begin a stage; returns a function to call with 1, 2, … ticks.

        ``rows`` are what all ticks together will have read, where that is worth telling.
        """
        self._name = name
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
        """Return a function that prints progress, speed and the remaining time of a long stage."""
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

    def end(self, seconds: float) -> None:
        """End the stage, which took so many seconds."""
        if self._stage is not None:
            self._stage.call_on_fit_task_end(estimator=self._estimator)
        if self._estimator.verbose:
            print(f"[{type(self._estimator).__name__}] {self._name}: {seconds:.2f} s", flush=True)

    def finish(self) -> None:
        """End the fit's own task, after its last stage."""
        if self._root is not None:
            self._root.call_on_fit_task_end(estimator=self._estimator)
