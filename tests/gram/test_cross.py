"""Sums over rows that pair basis functions with vectors or other points, against stored ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF
from tasks import make_task, tasks

from pursuit.gram import cross_statistics, kernel_transpose_times, residual_squares
from pursuit.kernels import PrecomputedKernel, compile_kernel
from pursuit.linalg import Workers
from pursuit.rows import IndexRows, Sample, as_rows

ALL_KERNELS = ("gaussian", "exponential", "inner product")


def transposed(rows, kernel, points, vectors, n_jobs=1):
    with Workers(n_jobs) as workers:
        return kernel_transpose_times(rows, kernel, points, vectors, workers)


def statistics(sample, kernel, points, queries, n_jobs=1):
    """K_S'WK_T, and the squares that nothing explains: the diagonal of K_T'WK_T."""
    with Workers(n_jobs) as workers:
        cross = cross_statistics(sample, kernel, points, queries, workers)
        nothing = np.zeros(cross.shape)
        return cross, residual_squares(sample, kernel, points, nothing, queries, workers)


def naive_statistics(K_points, K_queries, w):
    """K_S'WK_T and diag K_T'WK_T, added up row by row."""
    cross = np.zeros((K_points.shape[1], K_queries.shape[1]))
    squares = np.zeros(K_queries.shape[1])
    for i, weight in enumerate(w):
        cross += weight * np.outer(K_points[i], K_queries[i])
        squares += weight * K_queries[i] ** 2
    return cross, squares


@given(tasks(kernels=ALL_KERNELS), st.integers(0, 2**32 - 1))
def test_small_sums(task, seed):
    rng = np.random.default_rng(seed)
    m, rows = len(task.X), task.sample.rows
    S, T = rng.integers(0, m, 5), rng.integers(0, m, 4)
    K, v = task.K, rng.standard_normal((m, 3))
    scale = m * np.abs(K).max() ** 2 * task.w.max()
    found = transposed(rows, task.kernel, rows.take(S), v)
    np.testing.assert_allclose(found, K[:, S].T @ v, atol=1e-10 * np.abs(K).max() * m)
    cross, squares = statistics(task.sample, task.kernel, rows.take(S), rows.take(T))
    expected_cross, expected_squares = naive_statistics(K[:, S], K[:, T], task.w)
    np.testing.assert_allclose(cross, expected_cross, atol=1e-10 * scale)
    np.testing.assert_allclose(squares, expected_squares, atol=1e-10 * scale)


@pytest.fixture(scope="module")
def tall():
    """Two blocks of rows, the second ragged."""
    rng = np.random.default_rng(0)
    m = 8192 + 1024 + 7
    X = rng.standard_normal((m, 2))
    sample = Sample(as_rows(X), np.zeros((m, 1)), rng.uniform(0.1, 3.0, m))
    points, queries = rng.standard_normal((30, 2)), rng.standard_normal((11, 2))
    return sample, X, points, queries, rng.standard_normal((m, 2))


def test_many_rows_against_the_stored_matrix(tall):
    sample, X, points, queries, v = tall
    kernel = compile_kernel(RBF(0.8))[0]
    K_S, K_T = RBF(0.8)(X, points), RBF(0.8)(X, queries)
    np.testing.assert_allclose(transposed(sample.rows, kernel, points, v, 2), K_S.T @ v, atol=1e-9)
    cross, squares = statistics(sample, kernel, points, queries, 2)
    W = sample.weights[:, None]
    np.testing.assert_allclose(cross, K_S.T @ (W * K_T), rtol=1e-10)
    np.testing.assert_allclose(squares, (W * K_T**2).sum(axis=0), rtol=1e-10)


def test_threads_do_not_change_a_bit(tall):
    sample, _, points, queries, v = tall
    kernel = compile_kernel(RBF(0.8))[0]
    one = (transposed(sample.rows, kernel, points, v), *statistics(sample, kernel, points, queries))
    for n_jobs in (2, 3):
        other = (
            transposed(sample.rows, kernel, points, v, n_jobs),
            *statistics(sample, kernel, points, queries, n_jobs),
        )
        for got, expected in zip(other, one, strict=True):
            np.testing.assert_array_equal(got, expected)


def test_sparse_rows_and_row_numbers():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 6)) * (rng.random((40, 6)) < 0.4)
    kernel, w = compile_kernel(RBF(1.0))[0], rng.uniform(0.5, 2.0, 40)
    K, v, csr = RBF(1.0)(X), rng.standard_normal((40, 2)), sparse.csr_array(X)
    np.testing.assert_allclose(transposed(as_rows(csr), kernel, csr[:9], v), K[:9] @ v, atol=1e-12)
    sample = Sample(as_rows(csr), v, w)
    cross, squares = statistics(sample, kernel, csr[:9], csr[9:14])
    expected = naive_statistics(K[:, :9], K[:, 9:14], w)
    np.testing.assert_allclose(cross, expected[0], atol=1e-12)
    np.testing.assert_allclose(squares, expected[1], atol=1e-12)
    index = np.arange(9)
    found = transposed(IndexRows(40), PrecomputedKernel(K), index, v)
    np.testing.assert_allclose(found, K[:9] @ v, atol=1e-12)


def test_points_may_be_queries():
    """The diagonal of the cross products is then what the squares are."""
    task = make_task(np.random.default_rng(2), 12, weighted=True)
    cross, squares = statistics(task.sample, task.kernel, task.X[:5], task.X[:5])
    np.testing.assert_allclose(np.diag(cross), squares, rtol=1e-12)
    np.testing.assert_allclose(cross, cross.T, rtol=1e-12)


def test_residuals_of_a_fit(tall):
    sample, X, points, queries, _ = tall
    K_S, K_T = RBF(0.8)(X, points), RBF(0.8)(X, queries)
    beta = np.random.default_rng(3).standard_normal((30, 11))
    with Workers(2) as workers:
        kernel = compile_kernel(RBF(0.8))[0]
        found = residual_squares(sample, kernel, points, beta, queries, workers)
    expected = (sample.weights[:, None] * (K_T - K_S @ beta) ** 2).sum(axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
