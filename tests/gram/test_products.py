"""Products with a kernel matrix that is never stored, against the stored one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF
from tasks import tasks

from pursuit.gram import kernel_features, kernel_product, kernel_times
from pursuit.kernels import CountingKernel, PrecomputedKernel, compile_kernel
from pursuit.linalg import Workers
from pursuit.rows import IndexRows, as_rows

ALL_KERNELS = ("gaussian", "exponential", "inner product")


def times(rows, kernel, points, coefficients, n_jobs=1):
    with Workers(n_jobs) as workers:
        return kernel_times(rows, kernel, points, coefficients, workers)


def product(rows, kernel, vectors, n_jobs=1, after_block=None, dtype=np.float64):
    with Workers(n_jobs) as workers:
        return kernel_product(rows, kernel, vectors, workers, after_block, dtype)


def features(rows, kernel, points, n_jobs=1, **options):
    with Workers(n_jobs) as workers:
        return kernel_features(rows, kernel, points, workers, **options)


@given(tasks(kernels=ALL_KERNELS), st.integers(0, 2**32 - 1))
def test_small_products(task, seed):
    rng = np.random.default_rng(seed)
    index = rng.integers(0, len(task.X), 5)
    K, rows = task.K, task.sample.rows
    scale = np.abs(K).max()
    beta, v = rng.standard_normal((5, 2)), rng.standard_normal((len(K), 3))
    found = times(rows, task.kernel, rows.take(index), beta)
    np.testing.assert_allclose(found, K[:, index] @ beta, atol=1e-10 * scale)
    np.testing.assert_allclose(product(rows, task.kernel, v), K @ v, atol=1e-9 * scale)


@pytest.fixture(scope="module")
def tall(size):
    """Three blocks of the product, the last with a ragged tile."""
    rng = np.random.default_rng(0)
    m = size(2 * 1024 + 256 + 3, 8192 + 1024 + 5)
    X = rng.standard_normal((m, 3))
    kernel = CountingKernel(compile_kernel(RBF(1.2))[0])
    return X, kernel, rng.standard_normal((m, 2))


def test_a_large_product_against_the_stored_matrix(tall):
    X, kernel, v = tall
    K = kernel.tile(X, X)
    expected = K @ v
    many = np.random.default_rng(1).standard_normal((len(X), 12))
    np.testing.assert_allclose(product(as_rows(X), kernel, many, 2), K @ many, atol=1e-9)
    np.testing.assert_allclose(product(as_rows(X), kernel, v, 2), expected, atol=1e-9)
    np.testing.assert_allclose(times(as_rows(X), kernel, X, v, 2), expected, atol=1e-9)


def test_each_tile_below_the_diagonal_serves_twice(tall):
    X, kernel, v = tall
    before = kernel.entries
    product(as_rows(X), kernel, v)
    blocks = [min(1024, len(X) - start) for start in range(0, len(X), 1024)]
    left = [len(X) - start for start in range(0, len(X), 1024)]
    assert kernel.entries - before == sum(b * r for b, r in zip(blocks, left, strict=True))
    assert kernel.entries - before < 0.8 * len(X) ** 2


def test_threads_do_not_change_a_bit(tall):
    X, kernel, v = tall
    rows = as_rows(X)
    one = product(rows, kernel, v, 1)
    first = times(rows, kernel, X[:40], v[:40], 1)
    for n_jobs in (2, 3):
        np.testing.assert_array_equal(product(rows, kernel, v, n_jobs), one)
        np.testing.assert_array_equal(times(rows, kernel, X[:40], v[:40], n_jobs), first)


def test_progress_is_told_block_by_block(tall):
    X, kernel, v = tall
    seen = []
    product(as_rows(X), kernel, v, after_block=seen.append)
    assert seen == [*range(1024, len(X), 1024), len(X)]


def test_many_points_in_many_row_blocks():
    """kernel_times over more than one block of rows, with tiles of its least height."""
    rng = np.random.default_rng(1)
    X, Z = rng.standard_normal((8192 + 33, 2)), rng.standard_normal((50, 2))
    beta = rng.standard_normal((50, 1))
    kernel = compile_kernel(RBF(1.0))[0]
    expected = kernel.tile(X, Z) @ beta
    np.testing.assert_allclose(times(as_rows(X), kernel, Z, beta, 2), expected, atol=1e-12)


def test_sparse_rows_and_row_numbers():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, 6)) * (rng.random((40, 6)) < 0.4)
    kernel = compile_kernel(RBF(1.0))[0]
    K, v = kernel.tile(X, X), rng.standard_normal((40, 2))
    csr = sparse.csr_array(X)
    np.testing.assert_allclose(product(as_rows(csr), kernel, v), K @ v, atol=1e-12)
    np.testing.assert_allclose(times(as_rows(csr), kernel, csr, v), K @ v, atol=1e-12)
    stored = PrecomputedKernel(K)
    np.testing.assert_allclose(product(IndexRows(40), stored, v), K @ v, atol=1e-12)


def test_no_rows():
    rows, kernel = as_rows(np.empty((0, 2))), compile_kernel(RBF(1.0))[0]
    assert product(rows, kernel, np.empty((0, 3))).shape == (0, 3)
    assert times(rows, kernel, np.zeros((4, 2)), np.ones((4, 3))).shape == (0, 3)


def test_float32_tiles(tall):
    """Rounded tiles, sums in float64; vectors of any size, a zero one included."""
    X, kernel, v = tall
    v = np.column_stack([v * [1e-60, 1e60], np.zeros(len(v))])
    expected = kernel.tile(X, X) @ v
    found = product(as_rows(X), kernel, v, 2, dtype=np.float32)
    assert found.dtype == np.float64
    error = np.abs(found - expected).max(axis=0)
    scale = np.abs(expected).max(axis=0)
    assert np.all(error <= 1e-5 * scale)
    assert np.all(error[:2] > 1e-12 * scale[:2])  # they are float32
    np.testing.assert_array_equal(product(as_rows(X), kernel, v, 1, dtype=np.float32), found)


def test_many_vectors_at_once(tall):
    """More than one wave of tiles has to be added up for each block."""
    X, kernel, _ = tall
    v = np.random.default_rng(3).standard_normal((len(X), 600))
    expected = kernel.tile(X, X) @ v
    found = product(as_rows(X), kernel, v, 2)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_allclose(found[:, :1], product(as_rows(X), kernel, v[:, :1]), atol=1e-9)


@given(tasks(kernels=ALL_KERNELS), st.integers(0, 2**32 - 1))
def test_features(task, seed):
    rng = np.random.default_rng(seed)
    index = rng.integers(0, len(task.X), 5)
    K, rows = task.K[:, index], task.sample.rows
    points, tolerance = rows.take(index), {"atol": 1e-10 * np.abs(task.K).max()}
    whitener, scale = np.tril(rng.standard_normal((5, 5))), rng.random(len(task.X))
    np.testing.assert_allclose(features(rows, task.kernel, points), K, **tolerance)
    found = features(rows, task.kernel, points, whitener=whitener, scale=scale)
    np.testing.assert_allclose(found, scale[:, None] * K @ whitener.T, **tolerance)


def test_features_of_many_points_in_float32(tall):
    X, kernel, _ = tall
    Z = X[:700]
    whitener = np.tril(np.random.default_rng(4).standard_normal((700, 700)))
    expected = kernel.tile(X, Z) @ whitener.T
    found = features(as_rows(X), kernel, Z, 2, whitener=whitener, dtype=np.float32)
    assert found.dtype == np.float32
    # Rounded once, at the end.
    np.testing.assert_allclose(found, expected, rtol=2.0**-23, atol=1e-11)
    one = features(as_rows(X), kernel, Z, 1, whitener=whitener, dtype=np.float32)
    np.testing.assert_array_equal(one, found)
