"""The thread pool: order, errors, and BLAS held at one thread."""

import os
import threading

import pytest
from threadpoolctl import ThreadpoolController

from pursuit.linalg import Workers
from pursuit.linalg import workers as module
from pursuit.linalg.workers import resolve_n_jobs


def blas_threads():
    return [lib["num_threads"] for lib in ThreadpoolController().select(user_api="blas").info()]


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_results_come_in_order(n_jobs):
    with Workers(n_jobs) as workers:
        assert workers.n_threads == n_jobs
        assert workers.map(lambda i: i * i, iter(range(50))) == [i * i for i in range(50)]
        assert workers.map(lambda i: i, []) == []


def test_two_workers_run_at_the_same_time():
    meeting = threading.Barrier(2, timeout=30)
    with Workers(2) as workers:
        assert sorted(workers.map(lambda i: meeting.wait(), range(2))) == [0, 1]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_of_a_task_is_raised(n_jobs):
    def fail(i):
        raise LookupError(f"task {i}")

    with Workers(n_jobs) as workers, pytest.raises(LookupError, match="task 0"):
        workers.map(fail, range(3))


def test_blas_has_one_thread_inside_and_its_own_number_outside():
    before = blas_threads()
    with Workers(2):
        assert set(blas_threads()) == {1}
    assert blas_threads() == before
    with pytest.raises(LookupError), Workers(2):
        raise LookupError
    assert blas_threads() == before


@pytest.mark.parametrize(
    ("n_jobs", "threads"),
    [(1, 1), (5, 5), (-1, os.cpu_count()), (-1 - os.cpu_count(), 1), (-1000, 1)],
)
def test_number_of_threads(n_jobs, threads):
    assert resolve_n_jobs(n_jobs) == threads


def test_no_number_is_what_blas_would_use():
    assert resolve_n_jobs(None) == max(blas_threads())
    with Workers(2):
        assert resolve_n_jobs(None) == 1


def test_libraries_are_looked_for_once(monkeypatch):
    threads = resolve_n_jobs(None)
    monkeypatch.setattr(module, "ThreadpoolController", None)
    with Workers(None) as workers:
        assert workers.n_threads == threads
        assert set(blas_threads()) == {1}


def test_no_threads_is_refused():
    with pytest.raises(ValueError, match="n_jobs must not be 0: use None, a positive number"):
        resolve_n_jobs(0)


@pytest.mark.parametrize(
    ("size", "width", "expected"),
    [(0, 3, []), (3, 3, [(0, 3)]), (7, 3, [(0, 3), (3, 6), (6, 7)])],
)
def test_slices(size, width, expected):
    assert [(s.start, s.stop) for s in Workers.slices(size, width)] == expected


def test_blas_keeps_its_number_when_contexts_of_several_threads_overlap():
    before = blas_threads()
    first, second = Workers(1), Workers(1)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(blas_threads()) == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == before
