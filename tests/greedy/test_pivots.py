"""Block pivots: what they leave is what a projection leaves, and how they are drawn."""

import itertools

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, DotProduct
from tasks import make_task, tasks

from pursuit import limits
from pursuit.greedy import CostMeter, Pool, block_pivots, given_pivots, rearranged
from pursuit.kernels import CountingKernel, PrecomputedKernel, compile_kernel
from pursuit.linalg import NotPositiveDefiniteError, Workers
from pursuit.rows import IndexRows, Sample, as_rows

ALL_KERNELS = ("gaussian", "exponential", "inner product")


def choose(sample, kernel, n, *, seed=0, n_jobs=1, **options):
    with Workers(n_jobs) as workers:
        rng = np.random.default_rng(seed)
        return block_pivots(sample, kernel, n, workers=workers, rng=rng, **options)


def cloud(m, n_features=3, seed=0, weights=None):
    X = np.random.default_rng(seed).standard_normal((m, n_features))
    return Sample(as_rows(X), np.empty((m, 0)), np.ones(m) if weights is None else weights), X


def check_against_projection(found, K, w, atol):
    """R, d, τ and the path are those of the projection on the chosen rows."""
    S = found.pool.index
    E = oracles.nystroem_residual(K, S) if len(S) else K
    np.testing.assert_allclose(found.factor @ found.factor.T, K[np.ix_(S, S)], atol=atol)
    assert np.array_equal(found.factor, np.tril(found.factor))
    np.testing.assert_allclose(found.diagonal, np.diag(E), atol=atol)
    assert found.residual == pytest.approx(w @ np.diag(E), abs=atol * w.sum())
    assert found.trace == pytest.approx(w @ np.diag(K))
    for step, value in enumerate(found.path.value, 1):
        left = np.diag(oracles.nystroem_residual(K, S[:step]))
        assert value == pytest.approx(w @ left, abs=10 * atol * w.sum())
    assert np.all(np.diff(found.path.value) <= 0)


@pytest.mark.parametrize("greedy", [True, False])
@given(task=tasks(kernels=ALL_KERNELS), n=st.integers(1, 20), seed=st.integers(0, 99))
def test_what_is_left_is_what_a_projection_leaves(greedy, task, n, seed):
    found = choose(task.sample, task.kernel, n, greedy=greedy, seed=seed)
    K = task.K
    assert len(set(found.pool.index.tolist())) == len(found.pool) <= n
    check_against_projection(found, K, task.w, 1e-6 * np.abs(np.diag(K)).max())
    if found.path.stop_reason == "rank":
        assert found.residual <= 1e-8 * found.trace


@pytest.mark.parametrize("greedy", [True, False])
def test_features_formed_anew_are_those_held(greedy, monkeypatch):
    """Beyond the budget V is computed again in every round; only rounding may differ."""
    sample, _ = cloud(700)
    kernel = compile_kernel(RBF(1.0))[0]
    held = choose(sample, kernel, 60, greedy=greedy)
    monkeypatch.setattr(limits, "STORED_NUMBERS", 0)
    streamed = choose(sample, kernel, 60, greedy=greedy)
    assert streamed.features is None
    np.testing.assert_array_equal(held.pool.index, streamed.pool.index)
    np.testing.assert_allclose(held.diagonal, streamed.diagonal, atol=1e-11)
    np.testing.assert_allclose(held.factor, streamed.factor, atol=1e-9)
    R = held.factor
    expected = np.linalg.solve(R, kernel.tile(held.pool.items, sample.rows.take(np.arange(700))))
    np.testing.assert_allclose(held.features, expected.T, atol=1e-9)


@pytest.mark.parametrize("greedy", [True, False])
def test_threads_do_not_change_a_bit(greedy):
    sample, _ = cloud(3000)
    kernel = compile_kernel(RBF(1.0))[0]
    one = choose(sample, kernel, 120, greedy=greedy)
    for n_jobs in (2, 3):
        other = choose(sample, kernel, 120, greedy=greedy, n_jobs=n_jobs)
        np.testing.assert_array_equal(one.pool.index, other.pool.index)
        np.testing.assert_array_equal(one.diagonal, other.diagonal)
        np.testing.assert_array_equal(one.factor, other.factor)


def test_the_same_seed_gives_the_same_choice():
    sample, _ = cloud(900)
    kernel = compile_kernel(RBF(1.0))[0]
    first, again = (choose(sample, kernel, 50, seed=3).pool.index for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, choose(sample, kernel, 50, seed=4).pool.index)


def test_greedy_leaves_less_than_random_and_random_less_than_uniform():
    """Rows with outliers, where the order shows at any seed."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((2000, 4)), 4 * rng.standard_normal((60, 4))])
    sample = Sample(as_rows(X), np.empty((2060, 0)), np.ones(2060))
    kernel = compile_kernel(RBF(1.5))[0]

    def uniform(seed):
        index = np.random.default_rng(seed).choice(2060, 150, replace=False)
        with Workers(1) as workers:
            pool = Pool.of_rows(sample, index)
            return given_pivots(sample, kernel, pool, workers=workers).residual

    greedy = [choose(sample, kernel, 150, seed=seed).residual for seed in range(5)]
    random = [choose(sample, kernel, 150, seed=seed, greedy=False).residual for seed in range(5)]
    assert max(greedy) < min(random)
    assert max(random) < min(uniform(seed) for seed in range(5))


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("streamed", [True, False])
def test_it_stops_at_the_first_landmark_that_meets_the_tolerance(greedy, streamed, monkeypatch):
    if streamed:
        monkeypatch.setattr(limits, "STORED_NUMBERS", 0)
    sample, _ = cloud(90)
    found = choose(sample, compile_kernel(RBF(1.0))[0], 80, greedy=greedy, tol=0.05)
    assert found.path.stop_reason == "tol"
    assert found.residual <= 0.05 * found.trace < found.path.value[-2]
    K = np.exp(-0.5 * np.square(_differences(sample)).sum(axis=2))
    check_against_projection(found, K, np.ones(90), 1e-9)


def _differences(sample):
    X = sample.rows.take(np.arange(sample.n_rows))
    return X[:, None] - X[None]


def test_a_reason_to_stop_is_asked_for_after_every_round():
    sample, _ = cloud(500)
    seen = []

    def stop(n):
        seen.append(n)
        return "interrupted" if n >= 40 else None

    found = choose(sample, compile_kernel(RBF(1.0))[0], 100, stop=stop)
    assert seen == [20, 40]
    assert found.path.stop_reason == "interrupted"
    assert len(found.pool) == 40


@pytest.mark.parametrize("greedy", [True, False])
def test_the_rank_ends_it(greedy):
    sample, X = cloud(50)
    found = choose(sample, compile_kernel(DotProduct(0.0))[0], 20, greedy=greedy)
    assert (len(found.pool), found.path.stop_reason) == (3, "rank")
    assert found.residual <= 1e-10 * found.trace
    copies = Sample(as_rows(np.repeat(X[:6], 4, axis=0)), np.empty((24, 0)), np.ones(24))
    found = choose(copies, compile_kernel(RBF(1.0))[0], 24, greedy=greedy)
    assert sorted(found.pool.index // 4) == list(range(6))
    nothing = Sample(as_rows(np.zeros((4, 2))), np.empty((4, 0)), np.ones(4))
    found = choose(nothing, compile_kernel(DotProduct(0.0))[0], 2, greedy=greedy)
    assert (len(found.pool), found.path.stop_reason, found.residual) == (0, "rank", 0.0)


def test_pivots_thinned_in_blocks_are_distributed_as_pivots_one_at_a_time(size):
    """Pairs (i, j) have probability w_i k_ii/τ · w_j d_j/τ', whatever the blocks."""
    w = np.array([1.0, 2.0, 0.5, 1.0])
    sample, X = cloud(4, n_features=2, weights=w)
    kernel = compile_kernel(RBF(1.2))[0]
    K = kernel.tile(X, X)
    pairs = list(itertools.permutations(range(4), 2))
    expected = []
    for i, j in pairs:
        d = np.diag(K) - K[i] ** 2 / K[i, i]
        expected.append(w[i] * K[i, i] / (w @ np.diag(K)) * w[j] * d[j] / (w @ d))
    n_draws = size(1500, 20_000)
    counts = dict.fromkeys(pairs, 0)
    with Workers(1) as workers:
        for seed in range(n_draws):
            rng = np.random.default_rng(seed)
            found = block_pivots(sample, kernel, 2, workers=workers, rng=rng, greedy=False)
            counts[tuple(found.pool.index.tolist())] += 1
    test = stats.chisquare(list(counts.values()), n_draws * np.array(expected))
    assert test.pvalue > 1e-3


def test_a_weight_is_a_number_of_copies():
    """Given landmarks leave of weighted rows what they leave of as many copies."""
    _, X = cloud(60)
    w = np.random.default_rng(1).integers(1, 4, 60)
    kernel = compile_kernel(RBF(1.0))[0]
    copies = np.repeat(X, w, axis=0)
    with Workers(1) as workers:
        pool = Pool.of_points(X[:10])
        once = Sample(as_rows(X), np.empty((60, 0)), w.astype(float))
        often = Sample(as_rows(copies), np.empty((len(copies), 0)), np.ones(len(copies)))
        weighted = given_pivots(once, kernel, pool, workers=workers)
        repeated = given_pivots(often, kernel, pool, workers=workers)
    np.testing.assert_allclose(weighted.path.value, repeated.path.value, rtol=1e-12)
    assert weighted.residual == pytest.approx(repeated.residual)


def test_rows_of_large_weight_are_preferred():
    w = np.where(np.arange(800) < 40, 1e6, 1e-6)
    sample, _ = cloud(800, weights=w)
    for greedy in (True, False):
        found = choose(sample, compile_kernel(RBF(0.5))[0], 20, greedy=greedy)
        assert np.mean(found.pool.index < 40) > 0.9


def test_given_points_that_depend_on_earlier_ones_are_left_out():
    sample, X = cloud(30)
    points = np.concatenate([X[:4], X[1:2], X[7:8] + 0.1])
    with Workers(1) as workers:
        found = given_pivots(
            sample, compile_kernel(RBF(1.0))[0], Pool.of_points(points), workers=workers
        )
    np.testing.assert_array_equal(found.pool.items, points[[0, 1, 2, 3, 5]])
    assert np.all(found.diagonal[:4] < 1e-12)


def test_rearranged_landmarks_are_those_a_pursuit_among_them_takes():
    """Same span, same residual; every landmark lowers τ more than any later one would have."""
    task = make_task(np.random.default_rng(0), 20, name="exponential", weighted=True)
    kernel = task.kernel
    with Workers(1) as workers:
        pool = Pool.of_rows(task.sample, np.arange(0, 20, 2))
        given = given_pivots(task.sample, kernel, pool, workers=workers)
        found = rearranged(given, task.sample, kernel, workers=workers, meter=CostMeter(kernel))
    order = found.pool.index.tolist()
    assert sorted(order) == pool.index.tolist()
    assert found.residual == pytest.approx(given.residual)

    def left(S):
        return task.w @ np.diag(oracles.nystroem_residual(task.K, S))

    for step in range(len(order)):
        best = min(left([*order[:step], i]) for i in order[step:])
        assert left(order[: step + 1]) == pytest.approx(best, rel=1e-8)


def test_an_indefinite_matrix_is_reported_with_its_row():
    K = np.eye(30)
    K[4, 9] = K[9, 4] = 1.5
    sample = Sample(IndexRows(30), np.empty((30, 0)), np.ones(30))
    with pytest.raises(NotPositiveDefiniteError) as error:
        choose(sample, CountingKernel(PrecomputedKernel(K)), 30)
    assert error.value.index in (4, 9)
