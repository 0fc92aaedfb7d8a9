"""Plain pivoted Cholesky of the kernel matrix, against projections formed from scratch."""

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF, DotProduct
from tasks import make_task, tasks

from pursuit.greedy import CostMeter, MaxSize, Pursuit
from pursuit.kernels import CountingKernel, compile_kernel
from pursuit.linalg import Workers
from pursuit.objectives import DiagonalPursuit
from pursuit.rows import as_rows

ALL_KERNELS = ("gaussian", "exponential", "inner product")


def run(rows, kernel, n, n_jobs=1):
    with Workers(n_jobs) as workers:
        objective = DiagonalPursuit(rows, kernel, capacity=n, workers=workers)
        path = Pursuit(objective, CostMeter(CountingKernel(kernel))).run([MaxSize(n)])
    return objective, path


@given(tasks(kernels=ALL_KERNELS), st.integers(1, 20))
def test_each_pivot_is_the_row_that_is_missed_most(task, n):
    objective, path = run(task.sample.rows, task.kernel, n)
    K, pivots = task.K, objective.factor.pivots
    scale = np.abs(np.diag(K)).max()
    for step, pivot in enumerate(pivots):
        missed = np.diag(oracles.nystroem_residual(K, pivots[:step])) if step else np.diag(K)
        assert missed[pivot] >= missed.max() - 1e-6 * scale
    residual = oracles.nystroem_residual(K, pivots)
    np.testing.assert_allclose(objective.factor.residual, np.diag(residual), atol=1e-6 * scale)
    np.testing.assert_allclose(path.value[-1], np.trace(residual), atol=1e-6 * scale * len(K))
    V = objective.factor.rows
    np.testing.assert_allclose(K - V.T @ V, residual, atol=1e-6 * scale)


def test_ties_go_to_the_lowest_row():
    """Every row of a Gaussian kernel is missed alike before the first choice."""
    X = np.array([[0.0], [5.0], [-5.0], [10.0]])
    objective, _ = run(as_rows(X), compile_kernel(RBF(0.1))[0], 4)
    assert objective.factor.pivots == [0, 1, 2, 3]


def test_the_trace_falls_by_what_the_column_explains():
    """‖e_i‖²/d_i, which is at least the score d_i."""
    task = make_task(np.random.default_rng(0), 15, name="exponential")
    objective, path = run(task.sample.rows, task.kernel, 10)
    before = np.trace(task.K)
    for step, pivot in enumerate(objective.factor.pivots):
        E = oracles.nystroem_residual(task.K, objective.factor.pivots[:step]) if step else task.K
        decrease = before - path.value[step]
        assert decrease == pytest.approx(E[:, pivot] @ E[:, pivot] / E[pivot, pivot], rel=1e-7)
        assert decrease >= E[pivot, pivot] * (1 - 1e-9)
        before = path.value[step]


def test_scores_are_residual_diagonals():
    task = make_task(np.random.default_rng(1), 12, name="exponential")
    objective, _ = run(task.sample.rows, task.kernel, 4)
    E = oracles.nystroem_residual(task.K, objective.factor.pivots)
    index = np.array([7, 2, 2, 11])
    np.testing.assert_allclose(objective.score(index), np.diag(E)[index], atol=1e-12)


def test_copies_are_refused_and_the_rank_ends_it():
    rng = np.random.default_rng(2)
    X = np.repeat(rng.standard_normal((5, 2)), 3, axis=0)
    objective, path = run(as_rows(X), compile_kernel(RBF(0.7))[0], 15)
    assert path.stop_reason == "rank"
    assert sorted(pivot // 3 for pivot in objective.factor.pivots) == [0, 1, 2, 3, 4]
    assert not objective.available.any()
    assert abs(objective.value) < 1e-10
    _, path = run(as_rows(rng.standard_normal((20, 3))), compile_kernel(DotProduct(0.0))[0], 9)
    assert (len(path), path.stop_reason) == (3, "rank")


def test_a_copy_added_by_hand_changes_nothing():
    X = np.array([[0.0], [1.0], [1.0]])
    with Workers(1) as workers:
        objective = DiagonalPursuit(
            as_rows(X), compile_kernel(RBF(1.0))[0], capacity=3, workers=workers
        )
        assert objective.add(1)
        value = objective.value
        assert not objective.add(2)
    assert objective.value == value
    np.testing.assert_array_equal(objective.available, [True, False, False])


def test_rows_at_the_origin_of_a_linear_kernel_are_never_taken():
    X = np.array([[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]])
    objective, path = run(as_rows(X), compile_kernel(DotProduct(0.0))[0], 3)
    assert objective.factor.pivots == [1]
    assert path.stop_reason == "rank"


def test_threads_do_not_change_a_bit():
    X = np.random.default_rng(3).standard_normal((1500, 3))
    kernel = compile_kernel(RBF(1.0))[0]
    one, _ = run(as_rows(X), kernel, 40)
    for n_jobs in (2, 3):
        other, _ = run(as_rows(X), kernel, 40, n_jobs)
        assert other.factor.pivots == one.factor.pivots
        np.testing.assert_array_equal(other.factor.rows, one.factor.rows)
        np.testing.assert_array_equal(other.factor.residual, one.factor.residual)
