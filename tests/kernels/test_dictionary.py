"""Dictionaries: several kernels at fixed centres, known by number."""

import numpy as np
import oracles
import pytest
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, DotProduct

from pursuit import pairwise
from pursuit.kernels import AtomKernel, PrecomputedKernel, compile_kernel


@pytest.fixture
def points():
    rng = np.random.default_rng(0)
    return rng.normal(size=(6, 2)), rng.normal(size=(4, 2))


@pytest.fixture
def dictionary(points):
    kernels = tuple(compile_kernel(k)[0] for k in (RBF(0.7), DotProduct(2.0)))
    return AtomKernel(kernels, points[1])


@pytest.mark.parametrize("atoms", [range(8), [7, 0, 5, 2], [3], [4, 6], [1, 1, 5]])
def test_tiles(dictionary, points, atoms):
    X, Z = points
    names = [("gaussian", 0.7), ("inner product", 2.0)]
    blocks = [oracles.kernel_matrix(name, parameter, X, Z) for name, parameter in names]
    expected = np.column_stack(blocks)[:, list(atoms)]
    columns = dictionary.columns(np.array(atoms))
    assert columns.n_columns == len(atoms)
    np.testing.assert_allclose(columns(X), expected, rtol=1e-12, atol=1e-14)
    out = np.empty(expected.shape)
    assert columns(X, out=out) is out
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-14)


def test_sparse_items(dictionary, points):
    X, Z = points
    kernels = dictionary.kernels
    thin = AtomKernel(kernels, sparse.csr_array(Z))
    got = thin.columns(np.array([6, 1]))(sparse.csr_array(X))
    np.testing.assert_allclose(got, dictionary.columns(np.array([6, 1]))(X), rtol=1e-12)


def test_strings_and_row_numbers():
    same = compile_kernel(pairwise(lambda a, b: float(len(set(a) & set(b)))))[0]
    longer = compile_kernel(pairwise(lambda a, b: float(len(a) + len(b))))[0]
    words = AtomKernel((same, longer), ["ab", "c"])
    assert words.columns(np.array([2, 0]))(["abc", "d"]).tolist() == [[5.0, 2.0], [3.0, 0.0]]
    K = np.arange(12.0).reshape(3, 4)
    numbers = AtomKernel((PrecomputedKernel(K),), np.array([3, 1]))
    assert numbers.columns(np.array([1, 0]))(np.array([0, 2])).tolist() == [[1.0, 3.0], [9.0, 11.0]]


def test_rounding_is_that_of_its_worst_kernel(points):
    exact = compile_kernel(RBF())[0]
    rough = PrecomputedKernel(np.eye(3, dtype=np.float32))
    assert AtomKernel((exact, rough), points[1]).rounding == rough.rounding
    assert rough.rounding >= np.finfo(np.float32).eps > 1e8 * exact.rounding
    assert AtomKernel((exact,), points[1]).n_atoms == 4
