"""Progress of a fit: scikit-learn's callbacks where they exist, lines of text when asked for."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
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


class Progress:
    """Stages of a fit, each with a known number of ticks at most."""

    def __init__(self, estimator: Any, n_stages: int) -> None:
        self._estimator = estimator
        self._verbose = bool(estimator.verbose)
        self._root = None
        if getattr(estimator, "_skl_callbacks", None):
            self._root = estimator._init_callback_context(max_subtasks=n_stages)
            self._root.call_on_fit_task_begin(estimator=estimator)

    @contextlib.contextmanager
    def stage(self, name: str, ticks: int) -> Iterator[Callable[[int], None]]:
        """Yield a function to call with 1, 2, … as the stage advances."""
        start = time.perf_counter()
        context = None
        if self._root is not None:
            context = self._root.subcontext(task_name=name, max_subtasks=max(ticks, 1))
            context.call_on_fit_task_begin(estimator=self._estimator)
        seen = 0

        def tick(done: int) -> None:
            nonlocal seen
            while context is not None and seen < min(done, ticks):
                step = context.subcontext(task_name="step")
                step.call_on_fit_task_begin(estimator=self._estimator)
                step.call_on_fit_task_end(estimator=self._estimator)
                seen += 1

        yield tick
        if context is not None:
            context.call_on_fit_task_end(estimator=self._estimator)
        if self._verbose:
            who = type(self._estimator).__name__
            print(f"[{who}] {name}: {time.perf_counter() - start:.2f} s", flush=True)

    def finish(self) -> None:
        """Close the fit's own task."""
        if self._root is not None:
            self._root.call_on_fit_task_end(estimator=self._estimator)
