"""Blocks among consecutive items against scikit-learn, and length scales of composed kernels."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
)

from pursuit.kernels import CountingKernel, compile_kernel, pairwise

KERNELS = [
    2.0 * RBF([0.5, 1.0, 2.0]),
    Matern(0.7, nu=0.5),
    Matern([0.7, 1.0, 3.0], nu=1.5),
    Matern(0.7, nu=2.5),
    RationalQuadratic(0.8, alpha=0.6),
    RBF(0.5) + 0.3 * Matern(2.0, nu=1.5) + ConstantKernel(0.2),
    RBF(0.5) * RationalQuadratic(1.0, alpha=2.0) * 0.7,
    RBF(0.5) ** 2 + DotProduct(1.5),
]


def groups(rows, size):
    return [rows[start : start + size] for start in range(0, len(rows), size)]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_blocks_are_those_of_the_kernel(kernel, size, offset):
    X = np.random.default_rng(0).standard_normal((4 * size, 3))
    X[-1] = X[0]
    shifted = X + offset
    compiled, _ = compile_kernel(kernel, n_features=3)
    found = compiled.among(shifted, size)
    # A kernel of the distance does not see the offset, but for what rounding took from the rows.
    rows = X if "Dot" not in str(kernel) else shifted
    tolerance = 1e-12 if offset == 0 else 1e-8
    for block, group in zip(found, groups(rows, size), strict=True):
        np.testing.assert_allclose(block, kernel(group), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kernel", KERNELS[:-1], ids=str)
def test_nearly_equal_items_keep_their_small_distances(kernel):
    """A kinked profile shows the square root of what cancellation leaves of r²."""
    rng = np.random.default_rng(0)
    X = 1e3 + 1e-6 * rng.standard_normal((8, 3))
    compiled, _ = compile_kernel(kernel, n_features=3)
    np.testing.assert_allclose(compiled.among(X, 8)[0], kernel(X - X[0]), rtol=0, atol=1e-14)


def test_other_items_are_taken_as_they_are():
    def shared(a, b):
        return float(len(set(a) & set(b)))

    words = ["cat", "act", "dog", "god", "cow", "owl"]
    compiled, _ = compile_kernel(pairwise(shared))
    expected = [[[shared(a, b) for b in group] for a in group] for group in groups(words, 3)]
    np.testing.assert_array_equal(compiled.among(words, 3), expected)
    X = sparse.random_array((12, 3), density=0.5, format="csr", random_state=0)
    compiled, _ = compile_kernel(KERNELS[0], n_features=3)
    dense = compiled.among(X.toarray(), 4)
    np.testing.assert_allclose(compiled.among(X, 4), dense, rtol=1e-12)


def test_no_items_are_no_blocks():
    for kernel in (KERNELS[0], KERNELS[-1]):
        compiled, _ = compile_kernel(kernel, n_features=3)
        assert compiled.among(np.empty((0, 3)), 4).shape == (0, 4, 4)


def test_entries_are_counted():
    counter = CountingKernel(compile_kernel(KERNELS[0], n_features=3)[0])
    counter.among(np.zeros((12, 3)), 4)
    assert counter.entries == 3 * 16


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (2.0 * RBF([0.5, 1.0, 2.0]), [0.5, 1.0, 2.0]),
        (RBF(0.5) + Matern([1.0, 0.1, 1.0]) * 3.0, [0.5, 0.1, 0.5]),
        (RBF(0.5) ** 2 + DotProduct(1.5), 0.5),
        (RBF(3.0) * Matern(2.0), 2.0),
        (DotProduct(1.0), None),
    ],
)
def test_length_scales_are_the_shortest(kernel, expected):
    found = CountingKernel(compile_kernel(kernel, n_features=3)[0]).length_scales
    if expected is None:
        assert found is None
    else:
        np.testing.assert_array_equal(found, expected)
