"""Kernels that are a matrix, and the counter."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pursuit.kernels import CountingKernel, PrecomputedKernel, compile_kernel


@pytest.fixture
def matrix():
    return np.random.default_rng(2).standard_normal((6, 6))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_blocks_are_read_off(matrix, dtype):
    rows, numbers = np.array([4, 0, 4]), np.array([5, 1])
    columns = PrecomputedKernel(matrix).columns(numbers, dtype)
    expected = matrix[rows][:, numbers].astype(dtype)
    block = columns(rows)
    assert block.dtype == dtype
    np.testing.assert_array_equal(block, expected)
    out = np.full((3, 2), np.nan, dtype)
    assert columns(rows, out) is out
    np.testing.assert_array_equal(out, expected)
    assert columns.n_columns == 2


def test_diagonal(matrix):
    kernel = PrecomputedKernel(matrix)
    np.testing.assert_array_equal(kernel.diag([2, 2, 0]), matrix[[2, 2, 0], [2, 2, 0]])
    assert not kernel.positive_definite


def test_rows_of_a_wide_matrix(matrix):
    kernel = PrecomputedKernel(matrix[:2])
    np.testing.assert_array_equal(kernel.tile([1], [5, 0]), matrix[[1]][:, [5, 0]])
    with pytest.raises(ValueError, match=r"diagonal needs a square matrix, got shape \(2, 6\)"):
        kernel.diag([0])


def test_no_items(matrix):
    assert PrecomputedKernel(matrix).tile([], [1, 2]).shape == (0, 2)
    assert PrecomputedKernel(matrix).diag([]).shape == (0,)


def test_the_matrix_is_not_copied(matrix):
    assert PrecomputedKernel(matrix).matrix is matrix


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda k: k.tile([6], [0]), ValueError, r"row numbers must lie in 0..5, got 6..6"),
        (lambda k: k.tile([0], [-1]), ValueError, r"row numbers must lie in 0..5, got -1..-1"),
        (lambda k: k.tile([0.0], [0]), TypeError, "takes row numbers.*got dtype float64"),
        (
            lambda k: k.diag(np.zeros((2, 2), int)),
            TypeError,
            r"takes row numbers.*2 dimension\(s\)",
        ),
        (lambda k: PrecomputedKernel(np.ones(3)), ValueError, "matrix must be a 2-D array"),
        (lambda k: PrecomputedKernel([["a"]]), ValueError, "matrix must be a 2-D array of real"),
    ],
)
def test_nonsense_is_refused(matrix, call, error, message):
    with pytest.raises(error, match=message):
        call(PrecomputedKernel(matrix))


def test_entries_are_counted_and_nothing_else_changes():
    A = np.random.default_rng(3).standard_normal((8, 2))
    plain, _ = compile_kernel("rbf", n_features=2)
    kernel = CountingKernel(plain)
    assert kernel.entries == 0
    columns = kernel.columns(A[:3], np.float32)
    assert kernel.entries == 0, "binding evaluates nothing"
    out = np.empty((8, 3), np.float32)
    assert columns(A, out) is out
    assert columns.n_columns == 3
    np.testing.assert_array_equal(out, plain.columns(A[:3], np.float32)(A))
    assert kernel.entries == 24
    np.testing.assert_array_equal(kernel.tile(A, A), plain.tile(A, A))
    assert kernel.entries == 24 + 64
    np.testing.assert_array_equal(kernel.diag(A), plain.diag(A))
    assert kernel.entries == 24 + 64 + 8
    assert kernel.positive_definite
    assert not CountingKernel(PrecomputedKernel(np.eye(2))).positive_definite


@pytest.mark.parametrize("name", ["rbf", "poly", "laplacian"])
def test_threads_share_columns_and_counter(name):
    A = np.random.default_rng(4).standard_normal((400, 3))
    kernel = CountingKernel(compile_kernel(name, n_features=3)[0])
    columns = kernel.columns(A[:50])
    whole = np.empty((400, 50))
    starts = range(0, 400, 5)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda s: columns(A[s : s + 5], whole[s : s + 5]), starts))
    assert kernel.entries == 400 * 50
    np.testing.assert_allclose(whole, kernel.tile(A, A[:50]), rtol=1e-12)
