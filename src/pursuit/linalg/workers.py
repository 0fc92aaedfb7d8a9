"""Threads over fixed partitions of the work, with BLAS held at one thread.

A matrix product split by BLAS may round differently for another number of threads. Here the
split is ours and depends on sizes only: every task is computed by one thread with the same
instructions whatever the number of workers, so results are bit-identical across thread counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ContextDecorator, contextmanager
from contextvars import copy_context
from functools import cache
from threading import Lock, local
from types import TracebackType
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
U = TypeVar("U")


@cache
def _libraries() -> tuple[list[Any], list[Any]]:
    """The BLAS of NumPy and SciPy: those with one number of threads per process, or per thread.

    They are looked for once: it takes longer than predicting a few rows.
    """
    libraries = list(ThreadpoolController().select(user_api="blas").lib_controllers)
    own = [library for library in libraries if _is_per_thread(library)]
    return [library for library in libraries if library not in own], own


def resolve_n_jobs(n_jobs: int | None) -> int:
    """Number of threads: ``None`` is what BLAS would use, ``-1`` all cores, ``-2`` all but one."""
    if n_jobs is None:
        return _SINGLE.threads_outside()
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: use None, a positive number, or -1 for all cores.")
    if n_jobs < 0:
        return max(1, _cores() + 1 + n_jobs)
    return n_jobs


def _cores() -> int:
    """Cores that this process may use: a batch system may have given it some of them only."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Hold:
    """Counts who needs libraries on one thread; the first sets them, the last sets them back."""

    def __init__(self) -> None:
        self._users = 0
        self._changed: list[tuple[Any, int]] = []

    def enter(self, libraries: list[Any]) -> None:
        if not self._users:
            self._changed = []
        self._users += 1
        # Somebody else may have set a number back that was 1 when the first user came.
        threads = [(library, library.get_num_threads()) for library in libraries]
        several = [(library, n) for library, n in threads if n != 1]
        if several:
            known = [library for library, _ in self._changed]
            self._changed += [(library, n) for library, n in several if library not in known]
            _set_threads([(library, 1) for library, _ in several])

    def leave(self) -> None:
        self._users -= 1
        if self._users == 0:
            _set_threads(self._changed)

    def outside(self, libraries: list[Any]) -> int:
        """Threads of a library when nobody needs it on one; the most of all."""
        if self._users:
            return max((n for _, n in self._changed), default=1)
        return max((int(library.num_threads) for library in libraries), default=1)


def _set_threads(numbers: list[tuple[Any, int]]) -> None:
    # threadpoolctl ignores all threads but the one that set a number first, until it is cleared.
    clears = {getattr(library, "clear_controlling_thread", _nothing) for library, _ in numbers}
    for clear in clears:
        clear(force=True)
    for library, threads in numbers:
        library.set_num_threads(threads)
    for clear in clears:
        clear(force=True)


def _nothing(*, force: bool) -> None:
    """Older versions have nothing to clear."""


def _is_per_thread(library: Any) -> bool:
    """Whether the number of threads belongs to the calling thread, not to the process."""
    api, layer = library.internal_api, getattr(library, "threading_layer", None)
    return bool(api == "openblas" and layer == "openmp")


class _SingleThreadedBlas(ContextDecorator):
    """BLAS on one thread while at least one caller, of any thread, is inside.

    Most libraries have one number of threads per process: the first caller in sets it to 1 and the
    last one out sets it back, so calls may nest and overlap. Where every thread has its own number,
    callers are counted per thread. A library that has one thread already is left alone.
    """

    def __init__(self) -> None:
        self._lock, self._shared, self._local = Lock(), _Hold(), local()

    def __enter__(self) -> None:
        shared, own = _libraries()
        self._local.depth = self._depth + 1
        with self._lock:
            self._shared.enter(shared)
        if own:
            if not hasattr(self._local, "hold"):
                self._local.hold = _Hold()
            self._local.hold.enter(own)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if _libraries()[1]:
            self._local.hold.leave()
        with self._lock:
            self._shared.leave()
        self._local.depth = self._depth - 1

    @property
    def _depth(self) -> int:
        """How many contexts the calling thread is inside of."""
        return getattr(self._local, "depth", 0)

    @contextmanager
    def released(self) -> Iterator[None]:
        """Give up what the calling thread holds, and take it again at the end."""
        depth = self._depth
        for _ in range(depth):
            self.__exit__(None, None, None)
        try:
            yield
        finally:
            for _ in range(depth):
                self.__enter__()

    def threads_outside(self) -> int:
        """Threads that BLAS has where it is not held."""
        shared, own = _libraries()
        with self._lock:
            threads = self._shared.outside(shared)
        return max(threads, getattr(self._local, "hold", _Hold()).outside(own))


_SINGLE = _SingleThreadedBlas()


def single_threaded_blas() -> _SingleThreadedBlas:
    """A context, or a decorator, in which BLAS and LAPACK run on one thread.

    For a direct call whose result is stored or decides something. It costs a few microseconds, and
    less where BLAS is held already.
    """
    return _SINGLE


def released_blas() -> AbstractContextManager[None]:
    """A context for waiting and reading: BLAS has the threads it had before this thread held it.

    Other threads that hold BLAS keep it at one thread.
    """
    return _SINGLE.released()


def _limit_own() -> None:
    _set_threads([(library, 1) for library in _libraries()[1]])


class Workers:
    """A context in which :meth:`map` spreads tasks over ``n_jobs`` threads.

    BLAS runs on one thread inside :meth:`map`. It does so in the whole context, too, for the sake
    of products that the body of the context forms itself, unless ``hold_blas`` is False: then it
    is released between calls, and the body wraps its own products in :func:`single_threaded_blas`.
    Without the context there is one thread.

    Parameters
    ----------
    n_jobs : int or None, default None
        Number of threads, see :func:`resolve_n_jobs`.
    hold_blas : bool, default True
        Whether BLAS has one thread in the whole context.
    """

    n_threads = 1
    _pool: ThreadPoolExecutor | None = None

    def __init__(self, n_jobs: int | None = None, *, hold_blas: bool = True) -> None:
        self.n_jobs, self._hold_blas = n_jobs, hold_blas

    def __enter__(self) -> Workers:
        self.n_threads = resolve_n_jobs(self.n_jobs)
        if self._hold_blas:
            _SINGLE.__enter__()
        if self.n_threads > 1:
            # Its threads are ours alone, and stay on one thread where they have their own number.
            self._pool = ThreadPoolExecutor(self.n_threads, initializer=_limit_own)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        if self._hold_blas:
            _SINGLE.__exit__(kind, error, trace)

    def map(self, task: Callable[[T], U], items: Iterable[T]) -> list[U]:
        """``[task(i) for i in items]``, in that order; an exception of any task is raised."""
        items = list(items)
        with _SINGLE:
            if self._pool is None or len(items) == 1:
                return list(map(task, items))
            # Each task has what its caller has set, such as how NumPy treats an overflow.
            contexts = [copy_context() for _ in items]
            return list(self._pool.map(lambda own, item: own.run(task, item), contexts, items))

    @staticmethod
    def slices(size: int, width: int) -> list[slice]:
        """Consecutive slices of ``range(size)``, each ``width`` long but the last."""
        return [slice(start, min(start + width, size)) for start in range(0, size, width)]
