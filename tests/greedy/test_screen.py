"""Screens in float32: as good as those of float64, or not taken."""

import numpy as np
import pytest

from pursuit.greedy import CostMeter, Pool, PooledSearch, Problem, refit
from pursuit.greedy import pool as pool_module
from pursuit.kernels import CountingKernel, compile_kernel
from pursuit.linalg import Workers
from pursuit.rows import Sample, as_rows

N, CANDIDATES, ROWS = 96, 400, 900


@pytest.fixture
def workers():
    with Workers(1) as threads:
        yield threads


@pytest.fixture(autouse=True)
def small_screens(monkeypatch):
    """Screens of a hundred points go the way of those of a thousand."""
    monkeypatch.setattr(pool_module, "_SINGLE_POINTS", (1, CANDIDATES))


@pytest.fixture
def proposals(monkeypatch):
    """What the float32 screens of a test found, None for those that had no digits left."""
    found, propose = [], PooledSearch._propose

    def watched(self, *given):
        found.append(propose(self, *given))
        return found[-1]

    monkeypatch.setattr(PooledSearch, "_propose", watched)
    return found


def make_problem(workers, name="rbf", gamma=0.5, noise=0.01, scale=1.0):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.7, 1.7, (ROWS, 4))
    y = np.column_stack([np.sin(2.0 * X[:, 0]) * X[:, 1], np.exp(-X[:, 2]) * X[:, 3]])
    y += 0.1 * rng.standard_normal(y.shape)
    weights = rng.uniform(0.5, 2.0, ROWS)
    kernel = compile_kernel(name, gamma=gamma, n_features=4)[0]
    counting = CountingKernel(kernel)
    sample = Sample(as_rows(X), np.sqrt(scale) * y, weights / scale)
    return Problem(sample, counting, noise, workers, CostMeter(counting), rng)


def fitted(problem):
    pool = Pool.of_rows(problem.sample, np.arange(CANDIDATES))
    choice = PooledSearch(problem, pool, screened=True).run(N, [])
    assert len(np.unique(choice.pool.index)) == N
    return choice, refit(choice, problem).path.value[-1]


@pytest.mark.parametrize(
    ("name", "gamma", "noise"),
    [("rbf", 0.5, 0.01), ("rbf", 2.0, 0.1), ("laplacian", 0.3, 0.01), ("laplacian", 1.0, 0.1)],
)
def test_float32_proposes_points_as_good_as_those_of_float64(
    workers, monkeypatch, proposals, name, gamma, noise
):
    _, single = fitted(make_problem(workers, name, gamma, noise))
    assert len(proposals) == 1
    assert len(proposals[0][1]) == N + N // pool_module._SPARE
    monkeypatch.setattr(pool_module, "_SINGLE_POINTS", (CANDIDATES, CANDIDATES))
    _, double = fitted(make_problem(workers, name, gamma, noise))
    assert len(proposals) == 1
    assert single < 1.03 * double
    # Random points are far worse: the bound above is not idle.
    problem = make_problem(workers, name, gamma, noise)
    some = Pool.of_rows(problem.sample, np.arange(N))
    random = refit(PooledSearch(problem, some).run(N, []), problem).path.value[-1]
    assert random > 1.06 * double


def test_a_screen_without_digits_is_repeated_in_float64(workers, monkeypatch, proposals):
    smooth = {"gamma": 0.05, "noise": 1e-4}
    monkeypatch.setattr(pool_module, "_SMOOTH", 0.0)
    choice, _ = fitted(make_problem(workers, **smooth))
    assert proposals == [None]
    monkeypatch.setattr(pool_module, "_SINGLE_POINTS", (CANDIDATES, CANDIDATES))
    expected, _ = fitted(make_problem(workers, **smooth))
    np.testing.assert_array_equal(choice.pool.index, expected.pool.index)


def test_smooth_kernels_are_not_tried_in_float32(workers, monkeypatch, proposals):
    smooth = {"gamma": 0.01, "noise": 0.01}
    _, half = fitted(make_problem(workers, **smooth))
    assert not proposals
    monkeypatch.setattr(pool_module, "_SINGLE_POINTS", (CANDIDATES, CANDIDATES))
    _, all_candidates = fitted(make_problem(workers, **smooth))
    assert half == pytest.approx(all_candidates, rel=0.01)


def test_it_is_the_first_points_that_leave_digits(workers, monkeypatch, proposals):
    given = {"gamma": 0.3, "noise": 1e-3}
    monkeypatch.setattr(pool_module, "_HEAD", 3)
    fitted(make_problem(workers, **given))
    assert proposals[0] is not None
    monkeypatch.setattr(pool_module, "_HEAD", N)
    fitted(make_problem(workers, **given))
    assert proposals[1] is None


@pytest.mark.parametrize("scale", [1e-14, 1e14])
def test_sums_that_float32_cannot_hold_stay_in_float64(workers, proposals, scale):
    choice, _ = fitted(make_problem(workers, scale=scale, noise=0.01 / scale))
    assert not proposals
    assert np.isfinite(choice.path.value).all()


def test_threads_do_not_change_a_bit_of_a_float32_screen(proposals):
    found = []
    for threads in (1, 2, 3):
        with Workers(threads) as workers:
            found.append(fitted(make_problem(workers)))
    assert len(proposals) == 3
    for choice, value in found[1:]:
        np.testing.assert_array_equal(choice.pool.index, found[0][0].pool.index)
        np.testing.assert_array_equal(choice.path.value, found[0][0].path.value)
        assert value == found[0][1]
    for path, chosen in proposals[1:]:
        np.testing.assert_array_equal(chosen, proposals[0][1])
        np.testing.assert_array_equal(path.value, proposals[0][0].value)
