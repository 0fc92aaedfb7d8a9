"""The residual trace in Gram form gives the order and the gains of the direct algorithm."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tasks import make_task, tasks

from pursuit.greedy import CostMeter, MaxSize, Pursuit
from pursuit.linalg import Workers
from pursuit.objectives import GramResidual
from pursuit.testing import check_objective


def direct(K, rows, w, n):
    """Choose among the columns of K by residual columns on the rows, deflated as a whole."""
    K, rows = K.copy(), rows.copy()
    chosen, gains = [], []
    for _ in range(n):
        d = np.diag(K).copy()
        usable = d > 1e-6
        usable[chosen] = False
        scores = np.where(usable, (w @ rows**2) / np.where(usable, d, 1.0), 0.0)
        i = int(scores.argmax())
        if scores[i] <= 0:
            break
        chosen.append(i)
        gains.append(scores[i])
        rows -= np.outer(rows[:, i], K[i]) / d[i]
        K -= np.outer(K[:, i], K[i]) / d[i]
    return chosen, np.array(gains)


def statistics(task, n_rows):
    pool, others = task.X[::2], task.X[:n_rows]
    rows = task.between(others, pool)
    w = task.w[:n_rows]
    return task.between(pool, pool), rows, w, rows.T @ (w[:, None] * rows)


@given(tasks(kernels=("exponential",), min_rows=8), st.integers(1, 6), st.booleans())
def test_same_order_and_gains_as_the_direct_algorithm(task, n, sketched):
    K, rows, w, G = statistics(task, len(task.X) // 2 if sketched else len(task.X))
    expected, gains = direct(K, rows, w, n)
    with Workers(1) as workers:
        objective = GramResidual(K, G, 100.0, capacity=n, workers=workers)
        path = Pursuit(objective, CostMeter()).run([MaxSize(n)])
    found = -np.diff(path.value, prepend=100.0)
    shared = min(len(gains), len(found))
    np.testing.assert_allclose(found[:shared], gains[:shared], rtol=1e-6, atol=1e-9)
    R = objective.factor.triangle()
    S = objective.chosen
    np.testing.assert_allclose(R @ R.T, K[np.ix_(S, S)], atol=1e-9)
    # The order itself may differ where duplicates tie.
    if len(np.unique(task.X, axis=0)) == len(task.X) and not sketched:
        np.testing.assert_array_equal(S[:shared], expected[:shared])


def test_it_keeps_the_contract():
    task = make_task(np.random.default_rng(0), 16, weighted=True, name="exponential")
    task.X[8] = task.X[2]
    K, _, _, G = statistics(task, 16)
    with Workers(1) as workers:
        check_objective(
            lambda: GramResidual(K, G, 7.0, capacity=8, workers=workers), (1, 4), n_steps=4
        )


def test_candidates_below_their_rounding_are_not_available():
    K = np.diag([1.0, 1e-3, 2.0])
    with Workers(1) as workers:
        objective = GramResidual(
            K, K @ K, 3.0, capacity=3, workers=workers, rounding=np.array([1e-16, 0.1, 1e-16])
        )
        np.testing.assert_array_equal(objective.available, [True, False, True])
        assert objective.add(2)
    assert objective.value == pytest.approx(1.0)
