"""Threads over fixed partitions of the work, with BLAS held at one thread.

A matrix product split by BLAS may round differently for another number of threads. Here the
split is ours and depends on sizes only: every task is computed by one thread with the same
instructions whatever the number of workers, so results are bit-identical across thread counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from types import TracebackType
from typing import TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
U = TypeVar("U")


@cache
def _blas() -> ThreadpoolController:
    """The BLAS of NumPy and SciPy, looked for once: it takes longer than predicting a few rows."""
    return ThreadpoolController().select(user_api="blas")


def resolve_n_jobs(n_jobs: int | None) -> int:
    """Number of threads: ``None`` is what BLAS would use, ``-1`` all cores, ``-2`` all but one."""
    if n_jobs is None:
        libraries = _blas().lib_controllers
        return max((int(library.num_threads) for library in libraries), default=1)
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: use None, a positive number, or -1 for all cores.")
    if n_jobs < 0:
        return max(1, (os.cpu_count() or 1) + 1 + n_jobs)
    return n_jobs


class _SingleThreadedBlas:
    """BLAS on one thread while anyone needs it so, from whichever threads they come and go."""

    def __init__(self) -> None:
        self._lock, self._users = Lock(), 0

    def enter(self) -> None:
        with self._lock:
            if self._users == 0:
                self._limits = _blas().limit(limits=1)
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limits.restore_original_limits()


_SINGLE = _SingleThreadedBlas()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """BLAS on one thread, for a product too small to be shared out."""
    _SINGLE.enter()
    try:
        yield
    finally:
        _SINGLE.leave()


class Workers:
    """A context in which BLAS runs on one thread and :meth:`map` spreads tasks over ``n_jobs``."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    def __enter__(self) -> Workers:
        self.n_threads = resolve_n_jobs(self.n_jobs)
        _SINGLE.enter()
        self._pool = ThreadPoolExecutor(self.n_threads) if self.n_threads > 1 else None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        _SINGLE.leave()

    def map(self, task: Callable[[T], U], items: Iterable[T]) -> list[U]:
        """``[task(i) for i in items]``, in that order; an exception of any task is raised."""
        items = list(items)
        if self._pool is None or len(items) == 1:
            return [task(item) for item in items]
        return list(self._pool.map(task, items))

    @staticmethod
    def slices(size: int, width: int) -> list[slice]:
        """Consecutive slices of ``range(size)``, each ``width`` long but the last."""
        return [slice(start, min(start + width, size)) for start in range(0, size, width)]
