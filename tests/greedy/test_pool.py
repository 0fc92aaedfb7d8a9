"""Pools, sketches and rounds, against a greedy choice from scratch."""

import signal
from dataclasses import replace

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tasks import make_task, tasks

from pursuit.gram import gram_statistics
from pursuit.greedy import (
    CostMeter,
    MaxSize,
    Pool,
    PooledSearch,
    Problem,
    catch_interrupt,
    kernel_matrix,
    refit,
    span_fit,
)
from pursuit.greedy import pool as pool_module
from pursuit.greedy.pool import farthest, spanning
from pursuit.kernels import CountingKernel, PrecomputedKernel, compile_kernel
from pursuit.linalg import Workers
from pursuit.rows import IndexRows, ListRows, Sample, as_rows, draw_rows


@pytest.fixture(scope="module")
def workers():
    with Workers(1) as pool:
        yield pool


@pytest.fixture
def task():
    return make_task(np.random.default_rng(0), 30, n_outputs=2, weighted=True, parameter=0.6)


def search(problem, index, n, **options):
    pool = Pool.of_rows(problem.sample, np.array(index, dtype=np.intp))
    return PooledSearch(problem, pool, **options).run(n, [MaxSize(n)])


# Pool


def test_rows_and_points(task):
    rows = Pool.of_rows(task.sample, np.array([4, 2]))
    points = Pool.of_points(np.ones((3, 2)))
    assert rows.index.tolist() == [4, 2]
    assert points.index.tolist() == [-1, -1, -1]
    np.testing.assert_array_equal(rows.items, task.X[[4, 2]])
    both = rows + points
    assert len(both) == 5
    assert both.index.tolist() == [4, 2, -1, -1, -1]
    np.testing.assert_array_equal(both.items, np.vstack([task.X[[4, 2]], np.ones((3, 2))]))
    part = both.take(np.array([3, 1]))
    assert part.index.tolist() == [-1, 2]
    np.testing.assert_array_equal(part.items, np.vstack([np.ones((1, 2)), task.X[[2]]]))


def test_a_pool_of_objects():
    pool = Pool.of_points(["a", "b", "c"])
    assert pool.take(np.array([2, 0])).items == ["c", "a"]
    assert (pool + Pool.of_points(["d"])).items == ["a", "b", "c", "d"]


# Candidates that others span


def rbf_matrix(X, length):
    return np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2) / length**2)


def missed(K, kept):
    """What the span of some misses of each candidate, relative to its squared norm."""
    root = np.sqrt(np.diag(K))
    unit = K / np.outer(root, root)
    V = np.linalg.solve(np.linalg.cholesky(unit[np.ix_(kept, kept)]), unit[kept])
    return 1.0 - (V**2).sum(axis=0)


def bound(kernel="rbf", gamma=0.5):
    return CountingKernel(compile_kernel(kernel, gamma=gamma, n_features=2)[0])


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_candidates_in_the_span_of_others_are_left_out(scale):
    X = np.random.default_rng(0).standard_normal((120, 2))
    norms = np.random.default_rng(1).uniform(1.0, 9.0, 120)
    K = rbf_matrix(X, 5.0) * np.outer(norms, norms) * scale
    kept = spanning(K, bound(), 60)
    assert len(kept) < 60
    assert np.all(np.diff(kept) > 0)
    assert missed(K, kept).max() <= 1.01e-8
    # Without the last of them more would be missed.
    assert missed(K, kept[:-1]).max() > 1.01e-8
    # If not all of them can be taken, there is something to choose.
    np.testing.assert_array_equal(spanning(K, bound(), len(kept) - 1), np.arange(120))


def test_copies_are_left_out_and_zeros_too():
    X = np.repeat(np.random.default_rng(0).standard_normal((30, 2)), 3, axis=0)
    K = rbf_matrix(X, 0.1)
    K[:3], K[:, :3] = 0.0, 0.0
    kept = spanning(K, bound(), 40)
    np.testing.assert_array_equal(np.sort(kept // 3), np.arange(1, 30))


def test_candidates_that_are_independent_stay():
    X = np.random.default_rng(0).standard_normal((60, 2))
    np.testing.assert_array_equal(spanning(rbf_matrix(X, 0.1), bound(), 59), np.arange(60))
    # Of an indefinite kernel nothing is known.
    K = -np.eye(60)
    np.testing.assert_array_equal(spanning(K, bound("sigmoid"), 59), np.arange(60))


def test_what_is_left_out_is_not_missed(workers, monkeypatch):
    """A smooth kernel: a choice from all candidates finds no better model."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (1500, 2))
    y = np.sin(3.0 * X[:, :1]) * X[:, 1:] + 0.1 * rng.standard_normal((1500, 1))
    kernel = bound()
    sample = Sample(as_rows(X), y, np.ones(1500))
    problem = Problem(sample, kernel, 0.01, workers, CostMeter(kernel), rng)
    sizes, values = [], []
    for everybody in (False, True):
        if everybody:
            monkeypatch.setattr(pool_module, "spanning", lambda K, kernel, most: np.arange(len(K)))
        choice = search(problem, np.arange(1200), 100, sketch_rows=1500)
        sizes.append(len(choice.pool))
        K = rbf_matrix(np.vstack([X, choice.pool.items]), 1.0)
        K_SS, K_mS = K[1500:, 1500:], K[:1500, 1500:]
        beta = np.linalg.lstsq(K_mS.T @ K_mS + 0.01 * K_SS, K_mS.T @ y, rcond=1e-13)[0]
        values.append(
            float(0.5 * ((y - K_mS @ beta) ** 2).sum() + 0.005 * (beta.T @ K_SS @ beta).item())
        )
    assert sizes[0] < 100
    assert values[0] <= values[1] * (1 + 1e-4)


# farthest


def test_the_farthest_from_a_span_come_next(workers):
    X = np.random.default_rng(0).standard_normal((60, 2))
    kernel, chosen = bound(gamma=2.0), np.array([7, 3, 50])
    K = kernel.tile(X, X)
    expected = chosen.tolist()
    while len(expected) < 40:
        left = missed(K, np.array(expected))
        left[expected] = -1.0
        expected.append(int(left.argmax()))
    more = farthest(Pool.of_points(X), chosen, 37, kernel, workers)
    assert more.tolist() == expected[3:]


def test_the_farthest_come_from_some_candidates_unless_those_are_too_few(workers):
    X = np.random.default_rng(0).standard_normal((60, 2))
    kernel, chosen = bound(gamma=2.0), np.array([0])
    more = farthest(Pool.of_points(X), chosen, 5, kernel, workers)
    assert len(set(more.tolist())) == 5
    assert np.all((more - 1) % 6 == 0)
    # Every other one is looked at first, and of those all but three are copies.
    X[7::2] = X[7]
    more = farthest(Pool.of_points(X), chosen, 20, kernel, workers)
    assert len(more) == 20
    assert len(np.unique(X[more], axis=0)) == 20
    # No more are found than are independent, and copies of the chosen are not.
    more = farthest(Pool.of_points(np.repeat(X[:6], 3, axis=0)), chosen, 9, kernel, workers)
    assert np.sort(more // 3).tolist() == [1, 2, 3, 4, 5]


# Settled choices


def smooth_problem(workers, noise, deviation):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (2500, 4))
    y = np.sin(3.0 * X[:, :1]) * np.exp(X[:, 1:2]) + deviation * rng.standard_normal((2500, 1))
    kernel = CountingKernel(compile_kernel("rbf", gamma=0.1, n_features=4)[0])
    sample = Sample(as_rows(X), y, np.ones(2500))
    return Problem(sample, kernel, noise, workers, CostMeter(kernel), rng)


@pytest.mark.parametrize("is_screened", [True, False])
@pytest.mark.parametrize("deviation", [0.3, 0.0])
def test_where_only_noise_is_left_the_kernel_fills_the_basis(
    workers, monkeypatch, is_screened, deviation
):
    """The model is as good as one whose points are all chosen, and takes fewer passes."""
    noise, values, passes = max(deviation**2, 1e-6), [], []
    for settled in (pool_module._SETTLED, 0.0):
        monkeypatch.setattr(pool_module, "_SETTLED", settled)
        problem = smooth_problem(workers, noise, deviation)
        choice = search(problem, np.arange(500), 120, screened=is_screened)
        assert choice.path.stop_reason == "n_basis"
        assert len(np.unique(choice.pool.index)) == len(choice.path) == 120
        values.append(refit(choice, problem).path.value[-1])
        passes.append(problem.meter.passes)
    if deviation:
        assert passes[0] <= passes[1] - 0.9
        assert values[0] == pytest.approx(values[1], rel=1e-4)
    else:
        # Of targets without noise the rest of the choice explains more: it goes on.
        assert passes[0] == passes[1]
        assert values[0] == values[1]


# kernel_matrix


@given(tasks(kernels=("gaussian", "exponential", "inner product")))
def test_kernel_matrix(task):
    with Workers(1) as workers:
        K = kernel_matrix(task.kernel, task.sample.rows.take(np.arange(len(task.X))), workers)
    np.testing.assert_allclose(K, task.K, atol=1e-12 * np.abs(task.K).max())
    np.testing.assert_array_equal(K, K.T)


def test_a_large_kernel_matrix_is_symmetric_whatever_the_threads(size):
    X = np.random.default_rng(1).standard_normal((size(1100, 3000), 3))
    kernel = make_task(np.random.default_rng(1), 3, parameter=1.3).kernel
    found = []
    for n_jobs in (1, 2, 3):
        with Workers(n_jobs) as workers:
            found.append(kernel_matrix(kernel, X, workers))
    np.testing.assert_array_equal(found[0], found[0].T)
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])
    np.testing.assert_allclose(found[0], kernel.tile(X, X), atol=1e-13)


# One round


def test_all_rows_choose_from_all_rows(task, workers):
    problem = task.problem(workers)
    choice = search(problem, range(30), 8)
    order, values = oracles.greedy(task.K, task.Y, task.w, task.noise, 8)
    assert choice.pool.index.tolist() == choice.path.index.tolist() == order
    np.testing.assert_allclose(choice.path.value, values, rtol=1e-9)
    np.testing.assert_array_equal(choice.pool.items, task.X[order])
    assert choice.path.stop_reason == "n_basis"
    assert problem.meter.passes == 1
    alone = gram_statistics(task.sample, task.kernel, task.X[order], workers=workers)
    np.testing.assert_allclose(choice.statistics.gram, alone.gram, rtol=1e-10)
    np.testing.assert_allclose(choice.statistics.cross, alone.cross, atol=1e-10)


def test_only_the_pool_is_chosen_from(task, workers):
    index = [3, 7, 11, 12, 25, 29]
    choice = search(task.problem(workers), index, 4)
    order, _ = oracles.greedy(task.K, task.Y, task.w, task.noise, 4, [index] * 4)
    assert choice.pool.index.tolist() == order


def test_points_of_ones_own(task, workers):
    points = np.random.default_rng(2).standard_normal((12, 2))
    choice = PooledSearch(task.problem(workers), Pool.of_points(points)).run(5, [MaxSize(5)])
    assert choice.path.index.tolist() == [-1] * 5
    K = task.between(task.X, points)
    K_ZZ = task.between(points, points)

    def value(S):
        beta = oracles.span_fit(K[:, S], K_ZZ[np.ix_(S, S)], task.Y, task.w, task.noise)
        return oracles.primal(K[:, S], K_ZZ[np.ix_(S, S)], beta, task.Y, task.w, task.noise).sum()

    S = []
    for item, found in zip(choice.pool.items, choice.path.value, strict=True):
        values = {j: value([*S, j]) for j in range(12) if j not in S}
        S.append(min(values, key=values.get))
        np.testing.assert_array_equal(item, points[S[-1]])
        assert found == pytest.approx(values[S[-1]], rel=1e-9)


def test_a_sketch_chooses_for_all_rows(task, workers):
    problem = task.problem(workers, seed=5)
    index = np.arange(0, 30, 2)
    choice = search(problem, index, 6, sketch_rows=18)
    seen = draw_rows(30, 18, np.random.default_rng(5))
    # K between the sketch and the pool, as if the sketch were all there is.
    both = np.concatenate([seen, index])
    K = task.K[np.ix_(both, both)]
    w = np.concatenate([task.w[seen], np.zeros(len(index))])
    Y = task.Y[both]
    order, _ = oracles.greedy(K, Y, w, task.noise * 18 / 30, 6, [range(18, 18 + len(index))] * 6)
    assert choice.pool.index.tolist() == [int(both[i]) for i in order]
    assert choice.statistics is None
    assert problem.meter.passes == pytest.approx(18 / 30)


@pytest.mark.parametrize("sketch_rows", [30, 31, 10**6, None])
def test_a_sketch_of_all_rows_draws_nothing(task, workers, sketch_rows):
    problem = task.problem(workers, seed=3)
    choice = search(problem, range(30), 4, sketch_rows=sketch_rows)
    assert choice.statistics is not None
    assert problem.rng.random() == np.random.default_rng(3).random()


def test_strings_and_row_numbers(workers):
    rng = np.random.default_rng(4)
    words = sorted({"".join(rng.choice(list("abcdef"), 5)) for _ in range(25)})
    m = len(words)
    Y, w = rng.standard_normal((m, 1)), np.ones(m)

    def shared(A, B):
        return np.array([[float(len(set(a) & set(b))) + 2 * (a == b) for b in B] for a in A])

    K = shared(words, words)
    order, _ = oracles.greedy(K, Y, w, 0.3, 5)
    for rows, kernel in (
        (ListRows(words), compile_kernel(shared)[0]),
        (IndexRows(m), PrecomputedKernel(K)),
    ):
        counting = CountingKernel(kernel)
        rng = np.random.default_rng(0)
        problem = Problem(Sample(rows, Y, w), counting, 0.3, workers, CostMeter(counting), rng)
        choice = search(problem, range(m), 5)
        assert choice.pool.index.tolist() == order
        assert list(choice.pool.items) == list(rows.take(np.array(order)))


def test_ties_go_to_the_lowest_row_whatever_the_order_of_the_pool(workers):
    rng = np.random.default_rng(0)
    half = rng.uniform(0.5, 4, (6, 1))
    task = make_task(rng, 12, n_features=1, parameter=0.4)
    task.X[:] = np.concatenate([half, -half])
    task.Y[:] = np.cos(task.X)
    forward = search(task.problem(workers), range(12), 1).pool.index
    backward = search(task.problem(workers), range(11, -1, -1), 1).pool.index
    assert forward.tolist() == backward.tolist()


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_threads_do_not_change_a_bit(n_jobs, size):
    task = make_task(np.random.default_rng(6), size(3000, 9000), n_outputs=2, weighted=True)
    found = []
    for threads in (1, n_jobs):
        with Workers(threads) as workers:
            found.append(
                search(task.problem(workers), range(0, 3000, 5), 40, sketch_rows=2500, rounds=2)
            )
    np.testing.assert_array_equal(found[0].pool.index, found[1].pool.index)
    np.testing.assert_array_equal(found[0].path.value, found[1].path.value)


# Pools whose own rows choose first


def large_task():
    return make_task(np.random.default_rng(3), 60, n_outputs=2, weighted=True, parameter=0.6)


def screened(problem, index, n, rules=(), **options):
    pool = Pool.of_rows(problem.sample, np.array(index, dtype=np.intp))
    return PooledSearch(problem, pool, screened=True, **options).run(n, list(rules))


def test_own_rows_choose_an_eighth_more_and_all_rows_choose_among_those(workers):
    task, pool, n = large_task(), np.random.default_rng(1).permutation(60)[:40], 16
    choice = screened(task.problem(workers), pool, n)
    own, noise = np.ix_(pool, pool), task.noise * len(pool) / len(task.X)
    first, _ = oracles.greedy(task.K[own], task.Y[pool], task.w[pool], noise, n + n // 8)
    among = pool[first].tolist()
    order, values = oracles.greedy(task.K, task.Y, task.w, task.noise, n, [among] * n)
    assert choice.pool.index.tolist() == choice.path.index.tolist() == order
    np.testing.assert_allclose(choice.path.value, values, rtol=1e-8)
    assert choice.path.stop_reason == "n_basis"


def test_a_sketch_chooses_among_what_own_rows_have_chosen(workers):
    task, pool, n = large_task(), np.arange(40), 16
    problem = task.problem(workers, seed=7)
    choice = screened(problem, pool, n, sketch_rows=50)
    own, noise = np.ix_(pool, pool), task.noise * len(pool) / len(task.X)
    among, _ = oracles.greedy(task.K[own], task.Y[pool], task.w[pool], noise, n + n // 8)
    rows = draw_rows(60, 50, np.random.default_rng(7))
    objective_rows = np.concatenate([rows, np.setdiff1d(np.arange(60), rows)])
    K = task.K[np.ix_(objective_rows, objective_rows)]
    w = task.w[objective_rows].copy()
    w[50:] = 0.0
    numbers = {int(row): i for i, row in enumerate(objective_rows)}
    order, _ = oracles.greedy(
        K, task.Y[objective_rows], w, task.noise * 50 / 60, n, [[numbers[i] for i in among]] * n
    )
    assert sorted(choice.pool.index.tolist()) == sorted(objective_rows[order].tolist())
    assert choice.statistics is None
    assert not choice.ordered


def test_a_choice_by_all_rows_is_fitted_as_it_is(workers, monkeypatch):
    task, n = large_task(), 16
    choice = screened(task.problem(workers), range(40), n)
    assert choice.ordered
    statistics = gram_statistics(task.sample, task.kernel, choice.pool.items, workers=workers)
    np.testing.assert_allclose(choice.statistics.gram, statistics.gram, rtol=1e-12)
    again = refit(replace(choice, ordered=False), task.problem(workers))
    monkeypatch.setattr(span_fit, "gram_pursuit", None)
    fitted = refit(choice, task.problem(workers))
    assert fitted.pool.index.tolist() == again.pool.index.tolist()
    np.testing.assert_array_equal(fitted.path.value, again.path.value)
    np.testing.assert_array_equal(fitted.solution.coefficients(), again.solution.coefficients())


def test_kept_points_stay_first_when_own_rows_choose(workers):
    task, index = large_task(), [50, 5, *range(5), *range(6, 40)]
    choice = screened(task.problem(workers), index, 16, n_kept=2)
    assert choice.pool.index[:2].tolist() == [50, 5]
    assert len(choice.pool) == 16
    assert not choice.ordered


def test_points_that_are_not_rows_are_screened_by_random_rows(workers):
    task = large_task()
    points = task.X[:40] + 0.01
    choice = PooledSearch(task.problem(workers), Pool.of_points(points), screened=True).run(16, [])
    assert choice.pool.index.tolist() == [-1] * 16
    assert choice.path.stop_reason == "n_basis"


def test_a_small_pool_is_not_screened(task, workers):
    problem = task.problem(workers)
    one, other = screened(problem, range(18), 16), search(problem, range(18), 16)
    assert one.pool.index.tolist() == other.pool.index.tolist()


def test_what_own_rows_have_chosen_is_kept_when_it_ends_before(workers):
    task = large_task()

    def late(pursuit):
        return "interrupted" if pursuit.size == 17 else None

    choice = screened(task.problem(workers), range(40), 16, [late])
    assert choice.path.stop_reason == "interrupted"
    assert len(choice.pool) == len(choice.path) == 16


# Points taken before any choice


def test_kept_points_come_first(task, workers):
    index = [20, 5, *range(5), *range(6, 20)]
    choice = search(task.problem(workers), index, 6, n_kept=2)
    assert choice.pool.index[:2].tolist() == [20, 5]
    S = [20, 5]
    for row in choice.pool.index[2:].tolist():
        free = [i for i in index if i not in S]
        gains = oracles.span_gains(task.K, S, task.Y, task.w, task.noise, free)
        assert row == free[int(gains.argmax())]
        S.append(row)


def test_kept_points_that_are_copies_are_passed_over(task, workers):
    task.X[9] = task.X[4]
    choice = search(task.problem(workers), [4, 9, *range(10, 20)], 4, n_kept=2)
    assert choice.pool.index[0] == 4
    assert 9 not in choice.pool.index
    assert len(choice.pool) == 4


# Rounds


def test_a_round_keeps_the_chosen_and_refreshes_the_rest(task, workers):
    index = np.arange(0, 30, 3)
    first = search(task.problem(workers), index, 4)
    problem = task.problem(workers, seed=8)
    second = search(problem, index, 4, rounds=2)
    kept = first.pool.index
    fresh = draw_rows(30, 10 - 4, np.random.default_rng(8), exclude=np.sort(kept))
    pool = [*kept.tolist(), *fresh.tolist()]
    order, _ = oracles.greedy(task.K, task.Y, task.w, task.noise, 4, [pool] * 4)
    assert second.pool.index.tolist() == order
    assert problem.meter.passes == 2
    assert second.path.value[-1] <= first.path.value[-1] * (1 + 1e-12)


def test_rounds_of_points_and_rows_keep_their_names(task, workers):
    points = np.random.default_rng(9).standard_normal((8, 2))
    search = PooledSearch(task.problem(workers), Pool.of_points(points), rounds=3)
    choice = search.run(5, [MaxSize(5)])
    for item, row in zip(choice.pool.items, choice.pool.index, strict=True):
        if row == -1:
            assert any(np.array_equal(item, point) for point in points)
        else:
            np.testing.assert_array_equal(item, task.X[row])
    rows = choice.pool.index[choice.pool.index >= 0]
    assert len(set(rows.tolist())) == len(rows)


def test_rounds_end_when_all_rows_are_in_the_pool(task, workers):
    choice = search(task.problem(workers), range(30), 30, rounds=3)
    assert sorted(choice.pool.index.tolist()) == sorted(set(choice.pool.index.tolist()))
    assert len(choice.pool) <= 30


@given(st.integers(0, 1000), st.integers(1, 3), st.integers(2, 9))
def test_the_seed_decides(seed, rounds, n):
    task = make_task(np.random.default_rng(0), 40)
    with Workers(1) as workers:
        one, two = (
            search(task.problem(workers, seed), range(0, 40, 2), n, sketch_rows=25, rounds=rounds)
            for _ in range(2)
        )
    assert one.pool.index.tolist() == two.pool.index.tolist()


def test_a_user_who_stops_the_first_round_keeps_what_it_found(task, workers):
    """The next round would end after one step, and throw the rest away."""
    outside = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with catch_interrupt() as interrupted:

            def ctrl_c_at_five(pursuit):
                if pursuit.size == 5:
                    signal.raise_signal(signal.SIGINT)

            pool = Pool.of_rows(task.sample, np.arange(20))
            choice = PooledSearch(task.problem(workers), pool, rounds=2).run(
                10, [ctrl_c_at_five, interrupted, MaxSize(10)]
            )
    finally:
        signal.signal(signal.SIGINT, outside)
    assert choice.path.stop_reason == "interrupted"
    assert len(choice.pool) >= 5


class HourPerPass(CostMeter):
    """A clock that runs an hour for every pass over the rows, and stands still otherwise."""

    @property
    def seconds(self):
        return 3600.0 * self.passes


def test_time_that_ends_in_the_first_round_leaves_no_second(task, workers):
    kernel = task.kernel
    problem = replace(task.problem(workers), kernel=kernel, meter=HourPerPass(kernel))
    # The first round finds that a model of a few functions is all that can still be refitted.
    pool = Pool.of_rows(task.sample, np.arange(20))
    limit = 3600 * (1 + (11.9 / 20) ** 2)
    choice = PooledSearch(problem, pool, rounds=2, max_time=limit).run(15, [MaxSize(15)])
    assert choice.path.stop_reason == "time"
    assert len(choice.pool) == 12
    assert problem.meter.passes == 1


def test_time_left_for_the_final_fit_is_in_proportion_to_the_size(task, workers):
    kernel = task.kernel
    problem = replace(task.problem(workers), kernel=kernel, meter=HourPerPass(kernel))
    pool = Pool.of_rows(task.sample, np.arange(20))
    limit = 3600 * (1 + (11.9 / 20) ** 2)
    choice = PooledSearch(problem, pool, max_time=limit).run(15, [MaxSize(15)])
    assert choice.path.stop_reason == "time"
    assert len(choice.pool) == 12


def test_statistics_that_took_all_the_time_are_not_wasted(task, workers):
    """A fifth of their time goes into a model: 9 functions need (9/20)² of it, 8 need less."""
    kernel = task.kernel
    problem = replace(task.problem(workers), kernel=kernel, meter=HourPerPass(kernel))
    pool = Pool.of_rows(task.sample, np.arange(20))
    choice = PooledSearch(problem, pool, max_time=1.0).run(15, [MaxSize(15)])
    assert choice.path.stop_reason == "time"
    assert len(choice.pool) == 9


@pytest.mark.parametrize("noise", [1e-6, 1e-2, 1.0])
@pytest.mark.parametrize(("m", "length_scale"), [(60, 0.5), (150, 1.0)])
def test_a_smooth_kernel_is_not_taken_for_an_indefinite_one(workers, m, length_scale, noise):
    """Gram form squares the condition number: what rounding leaves of a pivot may be negative."""
    for seed in range(10):
        task = make_task(
            np.random.default_rng(seed), m, n_features=1, parameter=length_scale, noise=noise
        )
        problem = task.problem(workers)
        choice = search(problem, range(m), m)
        assert choice.path.stop_reason in ("rank", "no gain")
        K, S = problem.kernel.tile(task.X, task.X), choice.pool.index
        start = oracles.span_value(K, [], task.Y, task.w, noise)
        low, high = oracles.span_value_range(K, S, task.Y, task.w, noise)
        assert low - 1e-3 * start <= choice.path.value[-1] <= high + 1e-3 * start
