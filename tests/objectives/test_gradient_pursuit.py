"""Matching pursuit by gradients: the choice of a naive loop, and refits when they are due."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from pursuit.greedy import CostMeter, MaxSize, Pursuit
from pursuit.kernels import CountingKernel, compile_kernel
from pursuit.linalg import Workers
from pursuit.objectives import GradientPursuit, LogisticRows

RIDGE = 1e-6


def task(seed, m=60, P=8, n_outputs=1):
    rng = np.random.default_rng(seed)
    G = (rng.normal(size=(m, P)) + 0.5 * rng.normal(size=(m, 1))) * rng.uniform(0.3, 3.0, P)
    signal = G @ (rng.normal(size=(P, n_outputs)) * (rng.random((P, 1)) < 0.5))
    Y = np.where(signal + 4 * rng.logistic(size=(m, n_outputs)) > 0, 1.0, -1.0)
    return G, Y, rng.uniform(0.5, 2.0, m)


def best_fit(F, Y, w):
    """Logistic coefficients, column by column, by a general minimiser with the exact gradient."""

    def objective(beta, y):
        f = F @ beta
        slope = -w * y * expit(-y * f)
        value = w @ np.logaddexp(0, -y * f) + 0.5 * RIDGE * beta @ beta
        return value, F.T @ slope + RIDGE * beta

    start = np.zeros(F.shape[1])
    found = [minimize(objective, start, y, jac=True, method="BFGS", tol=1e-9).x for y in Y.T]
    return np.column_stack(found)


def build(G, Y, w, workers, every=1):
    return GradientPursuit(
        np.ascontiguousarray(G.T),
        Y,
        w,
        LogisticRows(),
        refit=lambda chosen, start: best_fit(G[:, chosen], Y, w),
        refit_every=every,
        workers=workers,
    )


def losses(f, Y, w):
    return float(np.sum(w @ np.logaddexp(0, -Y * f)))


@given(st.integers(0, 10**6), st.integers(1, 2))
def test_the_choice_of_a_naive_loop(seed, n_outputs):
    G, Y, w = task(seed, n_outputs=n_outputs)
    with Workers(1) as workers:
        objective = build(G, Y, w, workers)
        meter = CostMeter(CountingKernel(compile_kernel("linear")[0]))
        path = Pursuit(objective, meter).run([MaxSize(3)])
    S, f = [], np.zeros_like(Y)
    for _ in range(3):
        slope = -w[:, None] * Y * expit(-Y * f)
        free = [j for j in range(G.shape[1]) if j not in S]
        S.append(max(free, key=lambda j: np.sum((G[:, j] @ slope) ** 2) / (w @ G[:, j] ** 2)))
        f = G[:, S] @ best_fit(G[:, S], Y, w)
    assert objective.chosen.tolist() == S
    assert path.value[-1] == pytest.approx(losses(f, Y, w), rel=1e-6)


@given(st.integers(0, 10**6), st.sampled_from([1, 3]))
def test_a_score_never_promises_too_much(seed, every):
    G, Y, w = task(seed)
    with Workers(1) as workers:
        objective = build(G, Y, w, workers, every)
        for _ in range(4):
            free = np.flatnonzero(objective.available)
            scores = objective.score(free)
            before = objective.value
            objective.add(int(free[scores.argmax()]))
            assert before - objective.value >= scores.max() * (1 - 1e-6) - 1e-6 * before


def test_coefficients_of_every_size_and_when_they_are_refitted():
    G, Y, w = task(3)
    with Workers(1) as workers:
        objective = build(G, Y, w, workers, every=3)
        for candidate in (5, 1, 6, 2):
            objective.add(candidate)
    table = objective.coefficient_path(1, 4)
    assert table.shape == (4, 4, 1)
    assert table[0, 0] == table[0, 1]
    np.testing.assert_allclose(table[:3, 2], best_fit(G[:, [5, 1, 6]], Y, w), rtol=1e-4)
    assert np.array_equal(table[:3, 2], table[:3, 3])
    assert table[3, 3] != 0
    f = G[:, [5, 1, 6, 2]] @ table[:, 3]
    assert objective.value == pytest.approx(losses(f, Y, w), rel=1e-10)


def test_copies_and_zeros_are_refused():
    G, Y, w = task(4)
    G[:, 6], G[:, 7] = G[:, 2], 0.0
    with Workers(1) as workers:
        objective = build(G, Y, w, workers)
        assert not objective.available[7]
        assert objective.add(2)
        value = objective.value
        assert not objective.add(6)
    assert objective.value == value
    assert not objective.available[6]
    assert objective.chosen.tolist() == [2]
