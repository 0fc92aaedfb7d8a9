"""Primitive A against dense solves: values, order, coefficients."""

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tasks import make_task, tasks

from pursuit.gram import gram_statistics
from pursuit.greedy import CostMeter, MaxSize, Pursuit, kernel_matrix
from pursuit.linalg import Workers
from pursuit.objectives import QuadraticPursuit, dual_pursuit, gram_pursuit

ALL_KERNELS = ("gaussian", "exponential", "inner product")


def quadratic(H, b, workers, look_ahead=True, offset=0.0):
    return QuadraticPursuit(
        np.diag(H),
        b,
        H.__getitem__,
        capacity=4,
        workers=workers,
        look_ahead=look_ahead,
        offset=offset,
    )


def pursue(objective, n, scale=0.0):
    """Run the loop; nothing here costs kernel entries."""
    return Pursuit(
        objective, CostMeter(make_task(np.random.default_rng(0), 3).kernel), scale=scale
    ).run([MaxSize(n)])


def well_conditioned(rng, P, n_outputs):
    A = rng.standard_normal((P, 2 * P))
    return A @ A.T / P + 0.1 * np.eye(P), rng.standard_normal((P, n_outputs))


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 14), st.integers(1, 3), st.booleans(), st.floats(0, 5)
)
def test_value_order_and_coefficients(seed, P, n_outputs, look_ahead, offset):
    H, b = well_conditioned(np.random.default_rng(seed), P, n_outputs)
    with Workers(1) as workers:
        objective = quadratic(H, b, workers, look_ahead, offset)
        path = pursue(objective, P)
    order, values = oracles.quadratic_greedy(H, b, P)
    assert path.index.tolist() == order == objective.chosen.tolist()
    np.testing.assert_allclose(path.value, offset + np.array(values), rtol=1e-9)
    assert np.all(np.diff(path.value) <= 0)
    assert objective.value == path.value[-1]
    np.testing.assert_allclose(
        objective.coefficients(), np.linalg.solve(H[np.ix_(order, order)], b[order]), rtol=1e-6
    )
    np.testing.assert_allclose(0.5 * (objective.z**2).sum(axis=1), -np.diff(values, prepend=0))


@given(tasks(kernels=ALL_KERNELS), st.data())
def test_gram_form_takes_what_the_definition_takes(task, data):
    """Every choice is the best one by least squares on the rows, copies go to the lowest row."""
    n = data.draw(st.integers(1, min(6, len(task.X))))
    with Workers(1) as workers:
        statistics = gram_statistics(
            task.sample, task.kernel, task.sample.rows.take(np.arange(len(task.X))), workers=workers
        )
        K_fast = kernel_matrix(task.kernel, task.sample.rows.take(np.arange(len(task.X))), workers)
        objective = gram_pursuit(statistics, K_fast, task.noise, capacity=n, workers=workers)
        start = objective.value
        path = pursue(objective, n, scale=start)
    K, Y, w, s2 = task.K, task.Y, task.w, task.noise
    assert start == pytest.approx(oracles.span_value(K, [], Y, w, s2), rel=1e-12)
    S = []
    for row, value in zip(path.index.tolist(), path.value, strict=True):
        free = [i for i in range(len(K)) if i not in S]
        gains = oracles.span_gains(K, S, Y, w, s2, free)
        mine = gains[free.index(row)]
        assert mine >= gains.max() - 1e-6 * gains.max() - 1e-10 * start
        earlier_copies = [i for i in free if i < row and np.array_equal(task.X[i], task.X[row])]
        assert not earlier_copies
        S.append(row)
        assert value == pytest.approx(oracles.span_value(K, S, Y, w, s2), abs=1e-9 * start)
    assert np.all(np.diff(path.value) <= 0)


@pytest.mark.parametrize("seed", range(4))
def test_gram_form_gives_the_order_of_the_definition(seed, size):
    task = make_task(
        np.random.default_rng(seed), size(25, 60), n_outputs=2, weighted=True, parameter=0.6
    )
    n = size(8, 20)
    with Workers(1) as workers:
        statistics = gram_statistics(task.sample, task.kernel, task.X, workers=workers)
        objective = gram_pursuit(
            statistics,
            kernel_matrix(task.kernel, task.X, workers),
            task.noise,
            capacity=n,
            workers=workers,
        )
        path = pursue(objective, n)
    order, values = oracles.greedy(task.K, task.Y, task.w, task.noise, n)
    assert path.index.tolist() == order
    np.testing.assert_allclose(path.value, values, rtol=1e-9)
    beta = oracles.span_fit(
        task.K[:, order], task.K[np.ix_(order, order)], task.Y, task.w, task.noise
    )
    np.testing.assert_allclose(objective.coefficients(), beta, rtol=1e-6, atol=1e-8)


@given(tasks(), st.data())
def test_the_second_pursuit(task, data):
    n = data.draw(st.integers(1, min(6, len(task.X))))
    with Workers(1) as workers:
        objective = dual_pursuit(
            task.sample.rows,
            task.Y,
            task.w,
            task.kernel,
            task.noise,
            capacity=n,
            workers=workers,
        )
        path = pursue(objective, n)
    H = task.K + task.noise * np.diag(1 / task.w)
    scale = np.sum(task.w @ task.Y**2)
    S = []
    for row, value in zip(path.index.tolist(), path.value, strict=True):
        free = [i for i in range(len(H)) if i not in S]
        before = oracles.quadratic_value(H, task.Y, S)
        gains = np.array([before - oracles.quadratic_value(H, task.Y, [*S, i]) for i in free])
        assert gains[free.index(row)] >= gains.max() * (1 - 1e-6) - 1e-12 * scale
        S.append(row)
        expected = oracles.quadratic_value(H, task.Y, S)
        assert value == pytest.approx(expected, rel=1e-8, abs=1e-12 * scale)


def test_the_second_pursuit_in_the_order_of_the_definition():
    task = make_task(np.random.default_rng(5), 25, weighted=True)
    with Workers(1) as workers:
        objective = dual_pursuit(
            task.sample.rows, task.Y, task.w, task.kernel, task.noise, capacity=3, workers=workers
        )
        path = pursue(objective, 8)
    order, values = oracles.dual_greedy(task.K, task.Y, task.w, task.noise, 8)
    assert path.index.tolist() == order
    np.testing.assert_allclose(path.value, values, rtol=1e-9)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_looking_ahead_changes_nothing(n_outputs, size):
    rng = np.random.default_rng(6)
    P = size(400, 1500)
    A = rng.standard_normal((P, P // 2))
    H, b = A @ A.T + np.eye(P), rng.standard_normal((P, n_outputs))
    with Workers(1) as workers:
        ahead, plain = quadratic(H, b, workers), quadratic(H, b, workers, look_ahead=False)
        path, plain_path = pursue(ahead, 300), pursue(plain, 300)
    assert path.index.tolist() == plain_path.index.tolist()
    np.testing.assert_allclose(path.value, plain_path.value, rtol=1e-12)
    np.testing.assert_allclose(ahead.coefficients(), plain.coefficients(), rtol=1e-6, atol=1e-9)


def one_at_a_time(H, b, n):
    """Picks and values, each pivot eliminated from all of H before the next is scored."""
    H, g, picks, values = H.copy(), b.copy(), [], []
    for _ in range(n):
        gains = 0.5 * (g**2).sum(axis=1) / np.where(np.diag(H) > 1e-9, np.diag(H), np.inf)
        pick = int(gains.argmax())
        row = H[pick] / np.sqrt(H[pick, pick])
        g = g - np.outer(row, g[pick] / row[pick])
        H = H - np.outer(row, row)
        picks.append(pick)
        values.append(gains[pick])
    return picks, -np.cumsum(values)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_a_stored_matrix_gives_the_choice_of_one_step_after_the_other(n_outputs, size):
    """Across several panels of rows and a product of 128 pivots."""
    rng = np.random.default_rng(11)
    P, n = size(530, 1500), size(280, 600)
    A = rng.standard_normal((P, 2 * P)) * np.exp(-np.arange(2 * P) / P)
    H, b = A @ A.T + np.eye(P), rng.standard_normal((P, n_outputs))
    with Workers(1) as workers:
        stored = QuadraticPursuit(np.diag(H), b, H.copy(), capacity=n, workers=workers)
        path, restart = pursue(stored, n // 2), stored.restarted(2.0 * b)
        more, again = pursue(stored, n - n // 2), pursue(restart, n - n // 2)
    picks, values = one_at_a_time(H, b, n)
    assert [*path.index, *more.index] == picks
    np.testing.assert_allclose([*path.value, *more.value], values, rtol=1e-9)
    solution = np.linalg.solve(H[np.ix_(picks, picks)], b[picks])
    np.testing.assert_allclose(stored.coefficients(), solution, rtol=1e-6, atol=1e-9)
    assert [*path.index, *again.index] == picks
    np.testing.assert_allclose(restart.coefficients(), 2.0 * solution, rtol=1e-6, atol=1e-9)


def test_looking_ahead_asks_for_columns_together_and_otherwise_for_one():
    rng = np.random.default_rng(7)
    H, b = well_conditioned(rng, 100, 1)
    asked = {True: [], False: []}
    with Workers(1) as workers:
        for look_ahead, calls in asked.items():

            def columns(index, calls=calls):
                calls.append(len(index))
                return H[index]

            objective = QuadraticPursuit(
                np.diag(H), b, columns, capacity=9, workers=workers, look_ahead=look_ahead
            )
            pursue(objective, 40)
    assert asked[False] == [1] * 40
    assert set(asked[True]) == {16}
    assert len(asked[True]) < 20


@pytest.mark.parametrize("stored", [False, True])
def test_threads_do_not_change_a_bit(stored, size):
    rng = np.random.default_rng(8)
    P = size(1500, 4000)
    A = rng.standard_normal((P, 60))
    H, b = A @ A.T + np.eye(P), rng.standard_normal((P, 2))
    found = []
    for n_jobs in (1, 2, 3):
        with Workers(n_jobs) as workers:
            columns = H.copy() if stored else H.__getitem__
            objective = QuadraticPursuit(
                np.diag(H), b, columns, capacity=80, workers=workers, look_ahead=True
            )
            path = pursue(objective, 80)
        found.append((path.index, path.value, objective.coefficients()))
    for other in found[1:]:
        for got, want in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(got, want)


def test_rounds_out_dependent_candidates():
    rng = np.random.default_rng(9)
    A = rng.standard_normal((30, 6))
    H, b = A @ A.T, A @ rng.standard_normal((6, 1))
    with Workers(1) as workers:
        objective = quadratic(H, b, workers)
        path = pursue(objective, 30, scale=1.0)
    assert path.stop_reason in ("rank", "no gain")
    assert len(path) <= 6
    best = -0.5 * float(np.sum(b * np.linalg.lstsq(H, b, rcond=None)[0]))
    assert path.value[-1] == pytest.approx(best, rel=1e-9)


def test_candidates_without_size_are_not_available():
    H = np.diag([1.0, 0.0, 2.0])
    with Workers(1) as workers:
        objective = quadratic(H, np.ones((3, 1)), workers)
        assert objective.available.tolist() == [True, False, True]
        assert pursue(objective, 3).index.tolist() == [0, 2]


def test_no_candidate_yet_means_no_coefficients():
    H, b = well_conditioned(np.random.default_rng(10), 4, 2)
    with Workers(1) as workers:
        objective = quadratic(H, b, workers, offset=7.0)
    assert objective.value == 7.0
    assert objective.z.shape == (0, 2)
    assert objective.chosen.shape == (0,)


def test_inputs_are_not_changed(read_only):
    H, b = well_conditioned(np.random.default_rng(11), 8, 2)
    with Workers(1) as workers:
        pursue(quadratic(read_only(H), read_only(b), workers), 8)


# Scaling


@given(tasks(max_rows=14), st.sampled_from([0.25, 3.0, 1e6]), st.sampled_from([-2.0, 1e-5, 1e3]))
def test_scaling_the_kernel_with_its_noise_or_the_targets(task, c, t):
    K, s2 = task.K, task.noise
    n = min(5, len(K))

    def run(K, s2, Y):
        G = K.T @ (task.w[:, None] * K)
        with Workers(1) as workers:
            objective = quadratic(G + s2 * K, K.T @ (task.w[:, None] * Y), workers)
            path = pursue(objective, n)
        return path, K[:, path.index] @ objective.coefficients()

    path, f = run(K, s2, task.Y)
    for factor, (other, g) in ((1.0, run(c * K, c * s2, task.Y)), (t, run(K, s2, t * task.Y))):
        # Scores nearer to a tie than rounding may be taken in another order.
        if other.index.tolist() == path.index.tolist():
            np.testing.assert_allclose(g, factor * f, atol=1e-6 * np.abs(factor * f).max())
        np.testing.assert_allclose(other.value[: len(path)], factor**2 * path.value, rtol=1e-6)


@pytest.mark.parametrize("c", [2.0**-20, 2.0**15])
def test_powers_of_two_scale_without_rounding(c):
    H, b = well_conditioned(np.random.default_rng(12), 20, 2)
    with Workers(1) as workers:
        plain, larger, louder = (
            quadratic(H, b, workers),
            quadratic(c**2 * H, c * b, workers),
            quadratic(H, c * b, workers),
        )
        paths = [pursue(objective, 20) for objective in (plain, larger, louder)]
    for path in paths[1:]:
        np.testing.assert_array_equal(path.index, paths[0].index)
    np.testing.assert_array_equal(paths[1].value, paths[0].value)
    np.testing.assert_array_equal(paths[2].value, c**2 * paths[0].value)
    np.testing.assert_array_equal(larger.coefficients() * c, plain.coefficients())


@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.booleans())
def test_restarted_with_another_linear_part(seed, P, some):
    rng = np.random.default_rng(seed)
    H, b = well_conditioned(rng, P, 2)
    other = rng.standard_normal((P, 2))
    with Workers(1) as workers:
        objective = quadratic(H, b, workers)
        if some:
            pursue(objective, max(P // 2, 1))
        before = objective.chosen.tolist()
        again = objective.restarted(other)
        assert again.chosen.tolist() == before
        pursue(again, P - len(before))
    order = again.chosen.tolist()
    assert objective.chosen.tolist() == before
    assert order[: len(before)] == before
    expected = -0.5 * np.sum(other * np.linalg.solve(H, other))
    assert again.value == pytest.approx(expected, rel=1e-8)
    np.testing.assert_allclose(again.coefficients(), np.linalg.solve(H, other)[order], rtol=1e-6)


def test_a_diagonal_read_when_it_is_needed():
    H, b = well_conditioned(np.random.default_rng(0), 12, 1)
    asked = []

    def entries(index):
        asked.extend(index.tolist())
        return np.diag(H)[index]

    with Workers(1) as workers:
        objective = QuadraticPursuit(
            entries, b, H.__getitem__, capacity=12, workers=workers, look_ahead=False
        )
        assert objective.available.all()
        objective.score(np.array([3, 4]))
        assert asked == [3, 4]
        path = pursue(objective, 6)
    assert sorted(asked) == list(range(12))
    assert path.index.tolist() == oracles.quadratic_greedy(H, b, 6)[0]
