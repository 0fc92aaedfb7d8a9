"""Functions as kernels: checked blocks, diagonals, and items that are not numbers."""

import pickle

import numpy as np
import pytest
from scipy import sparse

from pursuit.kernels import compile_kernel, pairwise
from pursuit.kernels.callable import DIAGONAL_TILE, CallableKernel

WORDS = ["cat", "act", "dog", "", "doge"]


def shared_letters(a, b, weight=1.0):
    return weight * len(set(a) & set(b))


def cubic(A, B):
    return np.asarray((A @ B.T) ** 3)


@pytest.mark.parametrize("make", [list, lambda words: np.array(words, dtype=object)])
def test_strings(make):
    kernel, noise = compile_kernel(pairwise(shared_letters))
    block = kernel.tile(make(WORDS), make(WORDS[:3]))
    expected = [[len(set(a) & set(b)) for b in WORDS[:3]] for a in WORDS]
    np.testing.assert_array_equal(block, expected)
    np.testing.assert_array_equal(kernel.diag(make(WORDS)), [3, 3, 3, 0, 4])
    assert noise == 0.0
    assert not kernel.positive_definite
    half = kernel.columns(make(WORDS[:3]), np.float32)(make(WORDS))
    assert half.dtype == np.float32
    np.testing.assert_array_equal(half, expected)


def test_pairwise_keeps_its_name_and_travels():
    kernel = pairwise(shared_letters)
    assert repr(kernel) == "pairwise(shared_letters)"
    copy = pickle.loads(pickle.dumps(kernel))
    np.testing.assert_array_equal(copy(WORDS, WORDS), kernel(WORDS, WORDS))
    assert kernel([], WORDS).shape == (0, 5)


def test_pairwise_of_nonsense():
    with pytest.raises(TypeError, match="fn must be a function of two items, got int"):
        pairwise(3)


def test_parameters_reach_the_function():
    kernel, _ = compile_kernel(pairwise(shared_letters), kernel_params={"weight": 2.0})
    np.testing.assert_array_equal(kernel.tile(["ab"], ["bc", "ab"]), [[2.0, 4.0]])
    np.testing.assert_array_equal(kernel.diag(["ab", "c"]), [4.0, 2.0])


def test_out_is_filled_and_returned():
    A = np.random.default_rng(0).standard_normal((5, 2))
    columns = compile_kernel(cubic)[0].columns(A[:3])
    out = np.full((5, 3), np.nan)
    assert columns(A, out) is out
    assert columns.n_columns == 3
    np.testing.assert_array_equal(out, cubic(A, A[:3]))
    with pytest.raises(ValueError, match="out must be"):
        columns(A, np.empty((5, 2)))


def test_sparse_blocks_are_made_dense():
    A = sparse.csr_array(np.eye(4))
    kernel, _ = compile_kernel(lambda A, B: A @ B.T)
    np.testing.assert_array_equal(kernel.tile(A, A), np.eye(4))
    np.testing.assert_array_equal(kernel.diag(A), np.ones(4))


@pytest.mark.parametrize("n", [0, 1, DIAGONAL_TILE, DIAGONAL_TILE + 1, 3 * DIAGONAL_TILE - 1])
def test_diagonal_of_arrays_comes_from_small_tiles(n):
    sizes = []

    def recorded(A, B):
        sizes.append((len(A), len(B)))
        return cubic(A, B)

    A = np.random.default_rng(1).standard_normal((n, 2))
    diagonal = compile_kernel(recorded)[0].diag(A)
    np.testing.assert_allclose(diagonal, [(a @ a) ** 3 for a in A])
    assert len(sizes) == -(-n // DIAGONAL_TILE)
    assert all(size <= (DIAGONAL_TILE, DIAGONAL_TILE) for size in sizes)


def test_diagonal_of_objects_is_taken_one_by_one():
    sizes = []

    def recorded(A, B):
        sizes.append((len(A), len(B)))
        return pairwise(shared_letters)(A, B)

    np.testing.assert_array_equal(compile_kernel(recorded)[0].diag(WORDS), [3, 3, 3, 0, 4])
    assert sizes == [(1, 1)] * 5


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda A, B: 1.0, ValueError, r"shape \(\) where \(3, 2\) .*pursuit.pairwise"),
        (lambda A, B: np.ones((2, 3)), ValueError, r"shape \(2, 3\) where \(3, 2\) was expected"),
        (lambda A, B: np.full((3, 2), np.nan), ValueError, r"NaN or infinite .*shape \(3, 2\)"),
        (lambda A, B: np.full((3, 2), np.inf), ValueError, "NaN or infinite"),
        (lambda A, B: np.ones((3, 2), complex), TypeError, "dtype complex128: it must be real"),
        (lambda A, B: np.full((3, 2), "a"), TypeError, "dtype <U1: it must be real"),
    ],
)
def test_bad_blocks_are_refused(function, error, message):
    function.__name__ = "my_kernel"
    kernel, _ = compile_kernel(function)
    with pytest.raises(error, match=f"kernel my_kernel returned .*{message}"):
        kernel.tile(np.zeros((3, 1)), np.zeros((2, 1)))


def test_a_function_of_two_items_that_fails_on_blocks_is_told():
    kernel, _ = compile_kernel(lambda a, b: float(a @ b))
    with pytest.raises(ValueError, match="matmul") as caught:
        kernel.tile(np.zeros((3, 2)), np.zeros((4, 2)))
    [note] = caught.value.__notes__
    assert note == (
        "kernel <lambda> was called with blocks of 3 and 4 items: if it is a function of two "
        "items, wrap it in pursuit.pairwise."
    )


def test_bad_diagonals_are_refused():
    kernel = CallableKernel(cubic, "odd", diagonal=lambda A: np.ones(7))
    with pytest.raises(ValueError, match=r"kernel odd returned shape \(7,\) where \(3,\)"):
        kernel.diag(np.zeros((3, 1)))
