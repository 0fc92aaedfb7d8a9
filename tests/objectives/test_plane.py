"""Steps in a plane: the closed form, the algorithm, the refit, and where greedy is optimal."""

import itertools

import numpy as np
import oracles
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tasks import make_task, tasks

from pursuit.gram import InnerProducts, KernelMatrix, MatrixProducts, StreamedProducts
from pursuit.greedy import AllCandidates, FreshSubset, MaxSize, Pursuit, Stalled
from pursuit.linalg import Workers
from pursuit.objectives import PlanePursuit, RefittedPlanePursuit, SpanPursuit
from pursuit.objectives.plane import plane_step


@pytest.fixture(scope="module")
def workers():
    with Workers(1) as pool:
        yield pool


def products_of(task, workers, streamed):
    if streamed:
        return StreamedProducts(task.sample, task.kernel, workers)
    return MatrixProducts(task.sample, KernelMatrix(task.sample.rows, task.kernel, workers))


def plane(task, workers, streamed=False):
    norm = float(task.sample.target_norms()[0])
    products = products_of(task, workers, streamed)
    return PlanePursuit(products, np.diag(task.K).copy(), norm, task.noise)


def refitted(task, workers, streamed=False):
    span = SpanPursuit(task.sample, task.kernel, task.noise, capacity=8, workers=workers)
    return RefittedPlanePursuit(products_of(task, workers, streamed), span, task.noise)


def value(task, a):
    return oracles.primal(task.K, task.K, a[:, None], task.Y, task.w, task.noise)[0]


def on_all_rows(task, objective):
    a = np.zeros(len(task.X))
    a[objective.chosen] = objective.coefficients()[:, 0]
    return a


one_output = tasks().filter(lambda task: task.Y.shape[1] == 1)


@given(task=one_output, seed=st.integers(0, 2**16), start=st.booleans())
def test_the_closed_form_is_the_minimum_over_alpha_and_beta(task, seed, start):
    """P at the closed form equals P at the least-squares solution, to 1e-12 of P(0)."""
    rng = np.random.default_rng(seed)
    m = len(task.X)
    # A function of the size of the targets, so that neither of the two directions is negligible.
    a = rng.standard_normal(m) * (rng.random(m) < 0.4) if start else np.zeros(m)
    p = task.K @ a
    a *= np.abs(task.Y).max() / max(float(np.abs(p).max()), 1e-300) if np.any(p) else 0.0
    p, w, y = task.K @ a, task.w, task.Y[:, 0]
    inner = InnerProducts(
        (task.K @ (w * p))[:, None],
        (task.K @ (w * y))[:, None],
        w @ task.K**2,
        p[:, None],
        np.array([w @ p**2]),
        np.array([w @ (p * y)]),
    )
    step = plane_step(inner, np.diag(task.K), np.array([a @ p]), task.noise)
    zero = value(task, np.zeros(m))
    for i in range(m):
        beta, alpha = oracles.plane_fit(task.K, a, i, y, w, task.noise)
        best = value(task, beta * a + alpha * np.eye(m)[i])
        ours = value(task, step.beta[i, 0] * a + step.alpha[i, 0] * np.eye(m)[i])
        # Where k_i is nearly parallel to f, the two terms cancel, and values have their rounding.
        alpha, gain = step.alpha[i, 0], step.gain[i, 0]
        s = 2 * gain / alpha**2 if gain > 0 else np.inf
        parallel = (w @ task.K[:, i] ** 2 + task.noise * task.K[i, i]) / s
        eps = np.finfo(float).eps
        assert abs(ours - best) <= 1e-12 * zero + 16 * eps * np.sqrt(zero * gain * parallel)
        # What the step says of itself loses more digits: ½t²/s has the rounding of a₂₂ - a₁₂²/a₁₁,
        # divided by s.
        told = zero - step.before[0] - step.gain[i, 0]
        assert abs(told - best) <= 1e-12 * zero + 16 * eps * gain * parallel


@given(task=one_output, streamed=st.booleans(), n_steps=st.integers(1, 12))
def test_algorithm_1_step_by_step(task, streamed, n_steps):
    """The same functions as a search that tries every row by brute force, re-selection included."""
    taken, functions = oracles.plane_greedy(task.K, task.Y[:, 0], task.w, task.noise, n_steps)
    with Workers(1) as workers:
        objective = plane(task, workers, streamed)
        zero = objective.value
        for expected in functions:
            gains = objective.score(np.flatnonzero(objective.available))
            assume(gains.max() > 1e-9 * zero)  # below, brute force cannot tell rows apart
            before = objective.value
            row = int(np.flatnonzero(objective.available)[gains.argmax()])
            objective.score(np.flatnonzero(objective.available))
            assert objective.add(row)
            a = on_all_rows(task, objective)
            # What rounding leaves where large coefficients cancel each other.
            size = np.abs(task.Y[:, 0]) + np.abs(task.K) @ np.abs(a)
            rounding = 16 * np.finfo(float).eps * (task.w @ size**2)
            gained = before - objective.value
            assert gained == pytest.approx(gains.max(), abs=1e-12 * zero + rounding)
            assert abs(value(task, a) - value(task, expected)) <= 1e-10 * zero
            assert abs(objective.value - value(task, a)) <= 1e-12 * zero + rounding
    assert len(objective.chosen) == len(set(objective.chosen.tolist())) <= n_steps
    assert len(set(taken)) <= n_steps


def test_rows_are_taken_again_and_counted_once(workers):
    task = make_task(np.random.default_rng(0), 40, noise=0.01)
    objective = plane(task, workers)
    pursuit = Pursuit(objective, task.problem(workers).meter, scale=objective.value)
    path = pursuit.run([MaxSize(12)])
    assert path.stop_reason == "n_basis"
    assert pursuit.n_steps > pursuit.size == len(path) == 12
    assert len(set(path.index.tolist())) == 12
    assert np.all(np.diff(path.value) < 0)
    solution = objective.solution()
    assert len(solution.term) == pursuit.n_steps
    for n in (1, 5, 12):
        a = np.zeros(40)
        a[path.index[:n]] = solution.truncated(n).coefficients()[:, 0]
        assert value(task, a) == pytest.approx(path.value[n - 1], rel=1e-12)
        assert a @ task.K @ a == pytest.approx(solution.truncated(n).squared_norms()[0], rel=1e-10)


def test_where_all_is_taken_it_converges_and_stops(workers):
    """With every row in, steps go on to the minimum over all functions until they are rounding."""
    task = make_task(np.random.default_rng(1), 6, noise=1.0, parameter=0.5)
    objective = plane(task, workers)
    pursuit = Pursuit(objective, task.problem(workers).meter, scale=objective.value)
    path = pursuit.run([MaxSize(100), Stalled(1000)])
    assert path.stop_reason == "no gain"
    least = oracles.least_primal(task.K, task.Y, task.w, task.noise).sum()
    assert objective.value == pytest.approx(least, rel=1e-12)


def test_it_stops_when_it_only_takes_rows_again(workers):
    task = make_task(np.random.default_rng(1), 6, noise=0.01, parameter=3.0)
    objective = plane(task, workers)
    pursuit = Pursuit(objective, task.problem(workers).meter, scale=objective.value)
    path = pursuit.run([MaxSize(100), Stalled(7)])
    assert path.stop_reason == "no gain"
    term = objective.solution().term
    assert len(term) - 1 - int(np.argmax(term == term.max())) == 7


@pytest.mark.parametrize("streamed", [False, True])
def test_refitting_gives_the_best_in_the_span(workers, streamed):
    task = make_task(np.random.default_rng(2), 30, n_outputs=2, weighted=True)
    objective = refitted(task, workers, streamed)
    path = Pursuit(objective, task.problem(workers).meter, scale=objective.value).run([MaxSize(8)])
    for n in range(1, 9):
        expected = oracles.span_value(task.K, path.index[:n], task.Y, task.w, task.noise)
        assert path.value[n - 1] == pytest.approx(expected, rel=1e-9)


def test_refitting_chooses_by_the_step_in_the_plane(workers):
    task = make_task(np.random.default_rng(2), 25, n_outputs=2)
    objective = refitted(task, workers)
    for _ in range(5):
        free = np.flatnonzero(objective.available)
        gains = objective.score(free)
        S = objective.chosen
        beta = objective.coefficients() if len(S) else np.zeros((0, 2))
        for i, gain in zip(free.tolist(), gains.tolist(), strict=True):
            total = 0.0
            for output in range(2):
                a = np.zeros(25)
                a[S] = beta[:, output]
                y = task.Y[:, output]
                b, c = oracles.plane_fit(task.K, a, i, y, task.w, task.noise)
                pair = np.column_stack([a, b * a + c * np.eye(25)[i]])
                before, after = oracles.primal(
                    task.K, task.K, pair, np.column_stack([y, y]), task.w, task.noise
                )
                total += before - after
            assert gain == pytest.approx(total, abs=1e-10 * objective.value)
        before = objective.value
        assert objective.add(int(free[gains.argmax()]))
        assert before - objective.value >= gains.max() * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_a_single_candidate_without_gain_does_not_end_the_pursuit(workers, seed):
    """κ = 1 draws rows that are taken already; the next draw may bring a new one."""
    task = make_task(np.random.default_rng(seed), 4, noise=0.1)
    objective = plane(task, workers, streamed=True)
    candidates = FreshSubset(1, np.random.default_rng(0))
    pursuit = Pursuit(
        objective, task.problem(workers).meter, candidates=candidates, scale=objective.value
    )
    assert pursuit.run([MaxSize(4)]).stop_reason == "n_basis"


def test_all_rows_and_a_subset_of_all_rows_are_the_same(workers):
    task = make_task(np.random.default_rng(4), 50, weighted=True)
    paths = []
    for streamed, candidates in (
        (False, AllCandidates()),
        (True, FreshSubset(50, np.random.default_rng(0))),
    ):
        objective = plane(task, workers, streamed)
        meter = task.problem(workers).meter
        pursuit = Pursuit(objective, meter, candidates=candidates, scale=objective.value)
        paths.append(pursuit.run([MaxSize(15)]))
    assert np.array_equal(paths[0].index, paths[1].index)
    np.testing.assert_allclose(paths[0].value, paths[1].value, rtol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_greedy_is_optimal_when_functions_are_orthogonal(workers, seed):
    """Z03 Proposition 6.1: with x_i'x_j = 0 no other n functions are better."""
    rng = np.random.default_rng(seed)
    X = np.diag(rng.uniform(0.5, 2.0, 8))
    y = rng.standard_normal((8, 1))
    task = make_task(rng, 8, n_features=8, name="inner product", parameter=0.0)
    task = type(task)(X, y, rng.uniform(0.5, 2, 8), 0.3, "inner product", 0.0, is_sparse=False)
    for objective in (plane(task, workers), refitted(task, workers)):
        meter = task.problem(workers).meter
        path = Pursuit(objective, meter, scale=objective.value).run([MaxSize(6)])
        for n in range(1, 7):
            subsets = itertools.combinations(range(8), n)
            best = min(oracles.span_value(task.K, S, y, task.w, task.noise) for S in subsets)
            assert path.value[n - 1] == pytest.approx(best, rel=1e-12)
