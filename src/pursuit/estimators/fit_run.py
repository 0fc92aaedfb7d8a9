"""What a fit carries from stage to stage: time, Ctrl-C, checkpoint, threads, errors."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from threading import local
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

import numpy as np

from pursuit._sklearn import Fit
from pursuit._types import Indices
from pursuit.estimators.checkpoint import Checkpoint
from pursuit.estimators.inputs import indefinite, named_columns, reads_matrix, seeds
from pursuit.estimators.progress import Progress
from pursuit.estimators.rescue import some_rows
from pursuit.estimators.scales import in_range
from pursuit.estimators.warning import warn
from pursuit.greedy import Clock, CostMeter, Interrupted, Overdue, Problem, catch_interrupt
from pursuit.kernels import CountingKernel
from pursuit.linalg import NotPositiveDefiniteError, Workers, single_threaded_blas
from pursuit.rows import Sample, as_rows

CallbackSupportMixin: Any
try:
    from sklearn import callback
except ImportError:  # scikit-learn before 1.9 has no callbacks
    CallbackSupportMixin, callback = type("CallbackSupportMixin", (), {}), None
else:
    CallbackSupportMixin = callback.CallbackSupportMixin


def with_callbacks(fit: Fit) -> Fit:
    """A fit that scikit-learn's callbacks can watch, see :func:`guarded` for the rest."""
    held = guarded(fit)
    return held if callback is None else callback.with_callbacks(held)


def guarded(fit: Fit) -> Fit:
    """A fit that answers Ctrl-C in time, with BLAS on one thread from its first line.

    A mean of the targets that BLAS splits among threads would have other last bits for another
    number of them, and with it all that follows.
    """
    return in_range(single_threaded_blas()(rescued(fit)))


# Ctrl-C is answered in time. After it a fit ends its step, skips what a model can do without, and
# keeps the best model so far. At some moments of large fits that takes long: then the fit is given
# up, and fitted to a few rows instead; what it has learned about the kernel is kept.

GRACE_SECONDS = 0.6
"""Seconds after Ctrl-C for which a fit may go on. With those that few rows take it makes 2."""


@dataclass
class _Answer(local):
    """What the fits of this thread that are under way need to know of each other."""

    depth: int = 0
    n_rows: int = 0
    """Rows of the fit to a few rows; 0 if there is none under way."""
    learned: dict[tuple[str, str], Any] = field(default_factory=dict)


_ANSWER = _Answer()


def grace() -> float | None:
    """Seconds after which a fit is given up; None where nobody would take its place."""
    return GRACE_SECONDS if _ANSWER.depth else None


def few_rows() -> int:
    """How many rows the fit to a few rows has that is under way; 0 if there is none."""
    return _ANSWER.n_rows


def remember(owner: str, stage: str, result: Any) -> None:
    """Keep what a stage has learned about the kernel for a fit to a few rows."""
    _ANSWER.learned[owner, stage] = result


def remembered(owner: str, stage: str) -> Any:
    """What the stage has learned before the fit was given up; None elsewhere."""
    return _ANSWER.learned.get((owner, stage)) if _ANSWER.n_rows else None


def rescued(fit: Fit) -> Fit:
    """A fit that answers Ctrl-C in time. Fits within fits are rescued by the outermost one."""
    if "sample_weight" not in inspect.signature(fit).parameters:
        return fit

    @wraps(fit)
    def answering(model: Any, *given: Any, **named: Any) -> Any:
        outermost = not (_ANSWER.depth or _ANSWER.n_rows)
        if outermost:
            _ANSWER.learned.clear()
        _ANSWER.depth += 1
        try:
            return fit(model, *given, **named)
        except Overdue:
            if not outermost:
                raise
        finally:
            _ANSWER.depth -= 1
        return _fit_few(fit, model, *given, **named)

    return answering  # type: ignore[return-value]


def _fit_few(fit: Callable[..., Any], model: Any, *given: Any, **named: Any) -> Any:
    """Fit a few rows and raise KeyboardInterrupt."""
    try:
        X, y, weights = named_columns(*given, **named)
        rows, weights = some_rows(model, X, y, weights)
        _ANSWER.n_rows = len(rows)
        fit(model, X, y, weights)
    except Exception as error:
        warn(f"fit was interrupted, and there was no time for any model ({error}).")
        raise KeyboardInterrupt from error
    finally:
        _ANSWER.n_rows = 0
    raise KeyboardInterrupt


T = TypeVar("T")

_CHOOSING_SHARE = 0.8
"""Share of ``max_time`` after which a choice ends; the rest is for the model of what was chosen."""


class FitRun:
    """One fit of an estimator, as a context.

    The estimator's ``n_jobs``, ``random_state`` and ``verbose`` are followed, and its ``max_time``
    and ``checkpoint`` where it has them. Within the context Ctrl-C asks the fit to stop, and an
    indefinite kernel is reported with the number of the row that was passed to ``fit``.

    Parameters
    ----------
    estimator : estimator
        Whose fit this is.
    sample : Sample
        The rows that have weight, with their targets.
    present : array of int
        Their numbers among the rows passed to ``fit``.
    n_stages : int
        Largest number of stages of the fit, for progress bars.
    resumes : bool, default True
        Whether the estimator's ``checkpoint`` applies. It is about ``fit``, not about methods that
        go on from a fitted model.
    spent : float, default 0.0
        Seconds of the estimator's ``max_time`` that are over already.

    Attributes
    ----------
    seeds : list of int
        What the source of everything random in the fit starts from.
    rng : numpy Generator
        That source.
    clock : Clock
        How much of ``max_time`` is left.
    interrupted : Interrupted
        Whether the user has asked to stop; also a rule that stops a pursuit.
    workers : Workers
        Threads.
    seconds : dict of str to float
        Seconds of each stage.
    """

    interrupted: Interrupted
    workers: Workers

    def __init__(
        self,
        estimator: Any,
        sample: Sample,
        present: Indices,
        n_stages: int = 10,
        *,
        resumes: bool = True,
        spent: float = 0.0,
    ) -> None:
        self._estimator, self._sample, self._present = estimator, sample, present
        self.seeds = seeds(estimator.random_state)
        self.rng = np.random.default_rng(self.seeds)
        limit = getattr(estimator, "max_time", None)
        self.clock = Clock(None if limit is None else max(limit - spent, 0.0))
        self.seconds: dict[str, float] = {}
        self._stage, self._stage_began = "", 0.0
        # Those who watch a fit have seen it begin, and do not care for the one that replaces it.
        watched = bool(getattr(estimator, "_skl_callbacks", None)) and not few_rows()
        told = watched or estimator.verbose
        self._progress = Progress(estimator, n_stages, watched) if told else None
        self._folder = getattr(estimator, "checkpoint", None) if resumes else None
        if few_rows():
            self._folder = None
        self._checkpoint: Checkpoint | None = None
        self._contexts = ExitStack()
        self._round = ""

    def __enter__(self) -> Self:
        estimator = self._estimator
        if few_rows():
            self.interrupted = Interrupted(patient=True)
            self.interrupted.request()
        else:
            self.interrupted = self._contexts.enter_context(catch_interrupt(grace()))
        self.workers = self._contexts.enter_context(Workers(estimator.n_jobs))
        if self._folder is not None:
            try:
                self._checkpoint = Checkpoint(
                    self._folder, estimator, self._sample, self.rng, self.interrupted
                )
            except BaseException:
                self._contexts.close()
                raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._contexts.close()
        if isinstance(error, NotPositiveDefiniteError):
            raise indefinite(int(self._present[error.index]), error.pivot) from error
        if error is None:
            self._end_stage()
            if self._progress is not None:
                self._progress.finish()

    @property
    def stopping(self) -> bool:
        """Whether the user has asked to stop."""
        return self.interrupted.requested

    @property
    def out_of_time(self) -> bool:
        """Whether only indispensable work should still be done."""
        return self.stopping or self.clock.over()

    def stop_reason(self, pursuit: object = None) -> str | None:
        """Why a choice has to end now: a rule for pursuits and for choices in blocks."""
        if self.interrupted():
            return "interrupted"
        return "time" if self.clock.over(_CHOOSING_SHARE) else None

    def problem(self, kernel: CountingKernel, noise: float) -> Problem:
        """The least-squares problem on the rows of the fit."""
        ledgers = None if self._checkpoint is None else self._checkpoint.ledgers
        return Problem(
            self._sample, kernel, noise, self.workers, CostMeter(kernel), self.rng, ledgers
        )

    def begin(self, name: str, ticks: int = 1, rows: int = 0) -> Callable[[int], None]:
        """Announce a stage; returns a function to call with 1, 2, … ticks."""
        self._end_stage()
        self._stage, self._stage_began = name + self._round, time.perf_counter()
        if self._progress is None:
            return _tell_nobody
        return self._progress.begin(self._stage, ticks, rows)

    def _end_stage(self) -> None:
        if not self._stage:
            return
        spent = time.perf_counter() - self._stage_began
        self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + spent
        if self._progress is not None:
            self._progress.end(spent)
        self._stage = ""

    def begin_round(self, name: str) -> None:
        """Add this to the names of the stages from now on, where a fit goes through them again."""
        self._round = f"-{name}" if name else ""

    def finished(self, name: str) -> Any:
        """The result of a stage that the checkpoint holds, or None where it has to be computed."""
        known = remembered(type(self._estimator).__name__, name + self._round)
        if known is not None:
            return known
        return None if self._checkpoint is None else self._checkpoint.recorded(name + self._round)

    def resume(self, name: str) -> Any:
        """Announce a stage; returns its recorded result, or None where it has to be computed."""
        self.begin(name)
        return self.finished(name)

    def keep(self, name: str, result: T) -> T:
        """Record the result of a stage in the checkpoint, and return it.

        What ``max_time`` has cut short is not recorded: a fit with more time does it again.
        """
        if name == "learn":
            remember(type(self._estimator).__name__, name + self._round, result)
        if self._checkpoint is not None and not (self.clock.has_ended or _ended_by_time(result)):
            self._checkpoint.record(name + self._round, result)
        return result

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Stages within this context are not recorded: a resumed fit does them again."""
        checkpoint, self._checkpoint = self._checkpoint, None
        try:
            yield
        finally:
            self._checkpoint = checkpoint

    def same_data(self, name: str, items: Any) -> None:
        """Refuse a checkpoint that was begun with other items, beside the rows of the sample.

        The rows of a precomputed matrix are numbers: the matrix itself has to be passed here.
        """
        if self._checkpoint is not None:
            self._checkpoint.same_data(name, as_rows(items))

    def recorded(self, name: str, compute: Callable[[], T]) -> T:
        """The result of a stage, from the checkpoint or computed and recorded now."""
        result: T | None = self.finished(name)
        return self.keep(name, compute()) if result is None else result

    def same_matrix(self, X: Any) -> None:
        """Refuse a checkpoint of another kernel matrix if X is one: its rows are only numbers."""
        if reads_matrix(self._estimator):
            self.same_data("matrix", X)

    def stage(self, name: str, compute: Callable[[], T]) -> T:
        """Announce a stage and return its result, from the checkpoint or computed now."""
        self.begin(name)
        return self.recorded(name, compute)


def _tell_nobody(ticks: int) -> None:
    """Report nothing: the fit is silent."""


def _ended_by_time(result: Any) -> bool:
    """Whether the result of a stage, or a part of it, was cut short by a time limit."""
    if isinstance(result, list | tuple):
        return any(map(_ended_by_time, result))
    path = getattr(result, "path", result)
    return getattr(path, "stop_reason", None) in ("time", "max_time")


def interrupt(what_is_held: str) -> NoReturn:
    """Warn what an interrupted fit has kept, and raise KeyboardInterrupt."""
    if few_rows():
        what_is_held += (
            f", fitted to {few_rows()} rows only: there was no time to finish a model of all"
        )
    warn(f"fit was interrupted: the model holds {what_is_held}.")
    raise KeyboardInterrupt
