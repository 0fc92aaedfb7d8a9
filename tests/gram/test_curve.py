"""Sums over rows for models of many sizes, against a loop over sizes and rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tasks import tasks

from pursuit.gram import sum_along_path
from pursuit.linalg import Workers


def growing(rng, n, n_sizes, n_outputs):
    """Coefficients in which the model of size s has s points."""
    beta = rng.normal(size=(n, n_sizes, n_outputs))
    return beta * (np.arange(n)[:, None] <= np.arange(n_sizes))[:, :, None]


@given(tasks(), st.integers(1, 5))
def test_every_size_is_judged_at_every_row(task, n):
    rng = np.random.default_rng(0)
    n = min(n, len(task.X))
    beta, c = growing(rng, n, n, task.Y.shape[1]), rng.normal(size=(n, task.Y.shape[1]))
    points = task.sample.rows.take(np.arange(n))

    def measure(F, Y, w):
        miss = np.abs(F - Y[:, None]).sum(axis=2)
        return np.stack([w @ miss, miss.sum(axis=0)])

    with Workers(2) as workers:
        got = sum_along_path(
            task.sample.rows, task.kernel, points, beta, c, measure, (task.Y, task.w), workers
        )
    K = task.between(task.X, task.X[:n])
    for size in range(n):
        miss = np.abs(K @ beta[:, size] + c[size] - task.Y).sum(axis=1)
        expected = [float(task.w @ miss), float(miss.sum())]
        assert got[:, size] == pytest.approx(expected, rel=1e-9)


def test_blocks_and_threads_do_not_change_a_bit():
    from pursuit.kernels import compile_kernel
    from pursuit.rows import ArrayRows

    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, 3))
    rows, Y = ArrayRows(X), rng.normal(size=(20_000, 1))
    kernel, _ = compile_kernel("rbf", n_features=3)
    beta, c = growing(rng, 40, 40, 1), np.zeros((40, 1))
    seen = []

    def measure(F, Y):
        return ((F - Y[:, None]) ** 2).sum(axis=2).sum(axis=0)[None]

    for n_jobs in (1, 3):
        with Workers(n_jobs) as workers:
            seen.append(sum_along_path(rows, kernel, X[:40], beta, c, measure, (Y,), workers))
    assert np.array_equal(*seen)
    F = kernel.tile(X, X[:40]) @ beta[:, :, 0]
    expected = ((F - Y) ** 2).sum(axis=0)
    np.testing.assert_allclose(seen[0][0], expected, rtol=1e-10)
