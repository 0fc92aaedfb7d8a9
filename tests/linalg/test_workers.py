"""The thread pool: order, errors, and when BLAS is held at one thread."""

import os
import threading

import pytest
from threadpoolctl import ThreadpoolController

from pursuit.linalg import Workers, single_threaded_blas
from pursuit.linalg import workers as module
from pursuit.linalg.workers import resolve_n_jobs


def blas_threads():
    return [lib["num_threads"] for lib in ThreadpoolController().select(user_api="blas").info()]


needs_blas = pytest.mark.skipif(
    not ThreadpoolController().select(user_api="blas").lib_controllers,
    reason="nobody can set the number of threads of this BLAS, such as Apple's Accelerate",
)


@pytest.fixture
def two_threads():
    """A process whose BLAS has two threads, whatever the environment says."""
    if not blas_threads():
        pytest.skip("nobody can set the number of threads of this BLAS")
    with ThreadpoolController().select(user_api="blas").limit(limits=2):
        assert set(blas_threads()) == {2}
        yield


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


@needs_blas
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
    [(1, 1), (5, 5), (-1, 4), (-2, 3), (-4, 1), (-5, 1), (-1000, 1)],
)
def test_number_of_threads(n_jobs, threads, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2, 4, 6}, raising=False)
    assert resolve_n_jobs(n_jobs) == threads


def test_a_system_without_affinity_offers_all_cores(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert resolve_n_jobs(-1) == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert resolve_n_jobs(-1) == 1


def test_no_number_is_what_blas_would_use():
    assert resolve_n_jobs(None) == max(blas_threads(), default=1)
    with Workers(2):
        assert resolve_n_jobs(None) == 1


def test_libraries_are_looked_for_once(monkeypatch):
    threads = resolve_n_jobs(None)
    monkeypatch.setattr(module, "ThreadpoolController", None)
    with Workers(None) as workers:
        assert workers.n_threads == threads
        assert set(blas_threads()) <= {1}


def test_no_threads_is_refused():
    with pytest.raises(ValueError, match="n_jobs must not be 0: use None, a positive number"):
        resolve_n_jobs(0)


@pytest.mark.parametrize(
    ("size", "width", "expected"),
    [(0, 3, []), (3, 3, [(0, 3)]), (7, 3, [(0, 3), (3, 6), (6, 7)])],
)
def test_slices(size, width, expected):
    assert [(s.start, s.stop) for s in Workers.slices(size, width)] == expected


@needs_blas
def test_blas_keeps_its_number_when_contexts_of_several_threads_overlap():
    before = blas_threads()
    first, second = Workers(1), Workers(1)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(blas_threads()) == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == before


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_blas_is_released_between_calls(two_threads, n_jobs):
    with Workers(n_jobs, hold_blas=False) as workers:
        assert set(blas_threads()) == {2}
        for _ in range(2):
            assert workers.map(lambda i: set(blas_threads()), range(3)) == [{1}] * 3
            assert set(blas_threads()) == {2}
        with single_threaded_blas():
            assert set(blas_threads()) == {1}
            assert workers.map(lambda i: set(blas_threads()), range(2)) == [{1}] * 2
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {2}
    assert set(blas_threads()) == {2}


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("hold_blas", [True, False])
def test_blas_is_released_after_an_error(two_threads, n_jobs, hold_blas):
    def fail(i):
        raise LookupError

    with Workers(n_jobs, hold_blas=hold_blas) as workers:
        with pytest.raises(LookupError):
            workers.map(fail, range(3))
        assert set(blas_threads()) == ({1} if hold_blas else {2})
    assert set(blas_threads()) == {2}
    with pytest.raises(LookupError), single_threaded_blas():
        raise LookupError
    assert set(blas_threads()) == {2}


def test_the_last_of_several_threads_releases_blas(two_threads):
    """Another thread finds its own number again only when nobody is inside."""
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with single_threaded_blas():
            inside.set()
            leave.wait(30)

    other = threading.Thread(target=hold)
    assert set(blas_threads()) == {2}
    with single_threaded_blas():
        other.start()
        assert inside.wait(30)
    assert set(blas_threads()) == {1}
    leave.set()
    other.join()
    assert set(blas_threads()) == {2}


def test_a_user_thread_is_not_limited_between_calls(two_threads):
    seen = []
    with Workers(2, hold_blas=False) as workers:
        workers.map(abs, range(4))
        user = threading.Thread(target=lambda: seen.append(set(blas_threads())))
        user.start()
        user.join()
    assert seen == [{2}]


def test_a_decorated_function_runs_on_one_thread(two_threads):
    @single_threaded_blas()
    def inner():
        return set(blas_threads())

    assert inner() == {1}
    assert set(blas_threads()) == {2}


def test_without_the_context_there_is_one_thread():
    workers = Workers(5)
    assert workers.n_threads == 1
    names = workers.map(lambda i: threading.current_thread().name, range(4))
    assert set(names) == {threading.current_thread().name}


class OwnNumber:
    """A library in which every thread has its own number of threads, as with OpenMP."""

    internal_api, threading_layer = "openblas", "openmp"

    def __init__(self):
        self._local = threading.local()

    def get_num_threads(self):
        return getattr(self._local, "threads", 4)

    num_threads = property(get_num_threads)

    def set_num_threads(self, threads):
        self._local.threads = threads


def test_numbers_that_belong_to_threads(monkeypatch):
    library = OwnNumber()
    monkeypatch.setattr(module, "_libraries", lambda: ([], [library]))
    with Workers(3, hold_blas=False) as workers:
        meeting = threading.Barrier(3, timeout=30)
        assert workers.map(lambda i: (meeting.wait(), library.num_threads)[1], range(3)) == [1] * 3
        assert library.num_threads == 4
        with single_threaded_blas(), single_threaded_blas():
            assert library.num_threads == 1
            seen = []
            other = threading.Thread(target=lambda: seen.append(held_number(library)))
            other.start()
            other.join()
            assert seen == [(4, 1, 4)]
            assert library.num_threads == 1
        assert library.num_threads == 4


def held_number(library):
    before = library.num_threads
    with single_threaded_blas():
        inside = library.num_threads
    return before, inside, library.num_threads


def test_a_limit_that_somebody_else_sets_back_is_set_again(two_threads):
    """Code beside ours holds BLAS for itself, and releases it while we are at work."""
    beside = ThreadpoolController().select(user_api="blas").limit(limits=1)
    with Workers(1) as workers:
        beside.restore_original_limits()
        assert set(blas_threads()) == {2}
        assert workers.map(lambda _: set(blas_threads()), [0]) == [{1}]
    assert set(blas_threads()) == {2}
