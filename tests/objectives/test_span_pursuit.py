"""The V-form against least squares on the rows, and against the Gram form."""

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tasks import make_task, tasks

from pursuit.greedy import CostMeter, FreshSubset, MaxSize, Pursuit
from pursuit.linalg import Workers
from pursuit.objectives import SpanPursuit

ALL_KERNELS = ("gaussian", "exponential", "inner product")


class Listed:
    """Candidates written down for every step."""

    def __init__(self, steps):
        self.steps = iter(steps)

    def draw(self, available):
        wanted = np.array(next(self.steps))
        return wanted[available[wanted]]


def pursue(task, n, candidates=None, n_jobs=1):
    kernel = task.kernel
    with Workers(n_jobs) as workers:
        objective = SpanPursuit(task.sample, kernel, task.noise, capacity=n, workers=workers)
        pursuit = Pursuit(
            objective, CostMeter(kernel), candidates=candidates, scale=objective.value
        )
        return objective, pursuit.run([MaxSize(n)])


@given(tasks(kernels=ALL_KERNELS), st.data())
def test_takes_what_the_definition_takes(task, data):
    n = data.draw(st.integers(1, min(7, len(task.X))))
    objective, path = pursue(task, n)
    K, Y, w, s2 = task.K, task.Y, task.w, task.noise
    start = oracles.span_value(K, [], Y, w, s2)
    S = []
    for row, value in zip(path.index.tolist(), path.value, strict=True):
        free = [i for i in range(len(K)) if i not in S]
        gains = oracles.span_gains(K, S, Y, w, s2, free)
        assert gains[free.index(row)] >= gains.max() * (1 - 1e-6) - 1e-10 * start
        assert not [i for i in free if i < row and np.array_equal(task.X[i], task.X[row])]
        S.append(row)
        assert value == pytest.approx(oracles.span_value(K, S, Y, w, s2), abs=1e-9 * start)
    assert np.all(np.diff(path.value) <= 0)
    assert objective.chosen.tolist() == S
    f = K[:, S] @ objective.coefficients()
    beta = oracles.span_fit(K[:, S], K[np.ix_(S, S)], Y, w, s2)
    np.testing.assert_allclose(f, K[:, S] @ beta, atol=1e-6 * np.abs(Y).max())


@pytest.mark.parametrize("seed", range(3))
def test_any_candidates_at_any_step(seed, size):
    rng = np.random.default_rng(seed)
    m, n = size(30, 60), size(9, 20)
    task = make_task(rng, m, n_outputs=2, weighted=True, parameter=0.6)
    lists = [np.sort(rng.choice(m, 8, replace=False)) for _ in range(n)]
    objective, path = pursue(task, n, Listed(lists))
    order, values = oracles.greedy(task.K, task.Y, task.w, task.noise, n, lists)
    assert path.index.tolist() == order
    np.testing.assert_allclose(path.value, values, rtol=1e-9)
    solution = objective.solution()
    V = solution.features(task.K[:, order])
    np.testing.assert_allclose(V, objective.factor.rows, atol=1e-8)
    B = V @ (task.w[:, None] * V.T) + task.noise * np.eye(n)
    np.testing.assert_allclose(solution.L @ solution.L.T, B, atol=1e-8)


def test_fresh_subsets_repeat_with_their_seed():
    task = make_task(np.random.default_rng(3), 80, parameter=0.6)
    first, again, other = (
        pursue(task, 10, FreshSubset(6, np.random.default_rng(seed)))[1].index for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_threads_do_not_change_a_bit(size):
    task = make_task(np.random.default_rng(4), size(4500, 20_000), n_outputs=2, weighted=True)
    found = []
    for n_jobs in (1, 2, 3):
        objective, path = pursue(task, 6, FreshSubset(10, np.random.default_rng(0)), n_jobs)
        found.append((path.index, path.value, objective.coefficients()))
    for other in found[1:]:
        for got, want in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(got, want)


def test_copies_of_chosen_rows_are_never_taken():
    rng = np.random.default_rng(5)
    task = make_task(rng, 12, parameter=0.5)
    task.X[6:] = task.X[:6]
    objective, path = pursue(task, 12)
    assert path.stop_reason == "rank"
    assert sorted(path.index.tolist()) == list(range(6))
    assert not objective.available.any()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("noise", [1e-6, 1.0])
@pytest.mark.parametrize(("n_features", "length_scale"), [(1, 1.0), (2, 5.0), (2, 50.0)])
def test_smooth_kernels_run_out_of_rank_without_an_error(n_features, length_scale, noise, seed):
    """Rows that lie in the span of the chosen but for rounding are left alone, not divided by."""
    task = make_task(
        np.random.default_rng(seed),
        60,
        n_features=n_features,
        parameter=length_scale,
        noise=noise,
    )
    objective, path = pursue(task, 60)
    assert path.stop_reason in ("rank", "no gain")
    S = path.index.tolist()
    K, K_SS, R = task.K, task.K[np.ix_(S, S)], objective.factor.triangle()
    np.testing.assert_allclose(R @ R.T, K_SS, atol=1e-9)
    low, high = oracles.span_value_range(K, S, task.Y, task.w, noise)
    assert (1 - 1e-3) * low <= path.value[-1] <= (1 + 1e-3) * high


def test_inputs_are_not_changed(read_only):
    task = make_task(np.random.default_rng(7), 15, weighted=True)
    for array in (task.X, task.Y, task.w):
        array.setflags(write=False)
    pursue(task, 4)


@given(tasks(kernels=ALL_KERNELS), st.data())
def test_restarted_with_other_targets(task, data):
    """The same choice for other targets: as if they had been there from the beginning."""
    n = data.draw(st.integers(0, min(5, len(task.X))))
    other = np.cos(3 * task.Y) + 0.1
    with Workers(1) as workers:
        objective = SpanPursuit(task.sample, task.kernel, task.noise, capacity=4, workers=workers)
        pursuit = Pursuit(objective, CostMeter(task.kernel))
        if n:
            pursuit.run([MaxSize(n)])
        chosen, value = objective.chosen.tolist(), objective.value
        again = objective.restarted(other)
        scale = 0.5 * float(np.sum(task.w[:, None] * other**2))
        expected = oracles.span_value(task.K, chosen, other, task.w, task.noise)
        assert again.value == pytest.approx(expected, abs=1e-8 * scale)
        assert again.primal == pytest.approx(expected, abs=1e-8 * scale)
        further = Pursuit(again, CostMeter(task.kernel))
        further.step()
    assert objective.chosen.tolist() == chosen
    assert objective.value == value
    expected = oracles.span_value(task.K, again.chosen.tolist(), other, task.w, task.noise)
    assert again.value == pytest.approx(expected, abs=1e-8 * scale)


def test_the_primal_keeps_the_digits_that_a_difference_loses():
    """Of targets that are a kernel function little is left: P_min in extended precision."""
    noise = 1e-8
    task = make_task(np.random.default_rng(0), 40, parameter=3.0, noise=noise)
    Y = oracles.kernel_matrix("gaussian", 3.0, task.X, task.X[:1] + 0.3)
    with Workers(1) as workers:
        objective = SpanPursuit(task.sample, task.kernel, noise, capacity=40, workers=workers)
        objective = objective.restarted(Y)
        Pursuit(objective, CostMeter(task.kernel)).run([MaxSize(40)])
    half = oracles.long_forward(oracles.long_cholesky(task.K + noise * np.eye(40)), Y)
    least = 0.5 * noise * float((half**2).sum())
    assert np.all(task.w == 1)
    assert objective.primal == pytest.approx(least, rel=1e-9, abs=0)
    # ½y'Wy - ½‖z‖² is known to the rounding of y'Wy, a part of 1e-7 of what is left.
    assert objective.value != pytest.approx(least, rel=1e-9, abs=0)
