"""Bounds on the rounding error of kernel values, against 60 digits and against derivatives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.gaussian_process import kernels as gp

from pursuit.kernels import (
    AtomKernel,
    CountingKernel,
    Extent,
    Kernel,
    PrecomputedKernel,
    compile_kernel,
    kernel_gradient,
    pairwise,
)
from pursuit.kernels import stationary as nodes
from pursuit.kernels.matern import Matern
from torture.exact_kernels import exact, values
from torture.kernel_errors import LEAVES, ROWS, judged, problem


@pytest.mark.parametrize("kernel", LEAVES)
def test_every_kernel_is_within_its_bound_on_rows_of_every_kind(kernel: str, size: Any) -> None:
    for seed, kind in enumerate(ROWS * size(1, 20)):
        given = problem(seed, kernel, kind)
        result = judged(given)
        assert result, given.name
        assert result.holds, (seed, given.name, result)


def test_random_compositions_are_within_their_bounds(size: Any) -> None:
    for seed in range(size(40, 2000)):
        given = problem(seed)
        result = judged(given)
        assert result is None or result.holds, (seed, given.name, result)


@pytest.mark.parametrize(
    "kernel", "gaussian matern12 matern32 matern52 rational dot poly laplacian cosine".split()
)
def test_bounds_of_ordinary_data_are_not_far_from_errors(kernel: str) -> None:
    results = [judged(problem(seed, kernel, "near")) for seed in range(9)]
    shares = [result.worst / result.bound for result in results if result]
    assert np.median(shares) >= 3e-5
    standard = [problem(seed, kernel, "standard") for seed in range(9)]
    assert max(given.kernel.error(given.extent) for given in standard) < 1e-10


class Perturbed(Kernel):
    """A kernel that is wrong by some share of √(k(a, a) k(b, b)) in one entry of a tile."""

    positive_definite = True

    def __init__(self, kernel: Kernel, share: float) -> None:
        self.kernel, self.share = kernel, share

    def error(self, extent: Extent) -> float:
        return self.kernel.error(extent)

    def diag(self, A: Any) -> Any:
        return self.kernel.diag(A)

    def tile(self, A: Any, B: Any) -> Any:
        tile = self.kernel.tile(A, B)
        root = np.sqrt(self.diag(A)[0] * self.diag(B)[0])
        tile[0, 0] += self.share * root
        return tile


@values.register
def _(kernel: Perturbed, A: Any, B: Any) -> Any:
    return values(kernel.kernel, A, B)


@pytest.mark.parametrize("kernel", ["gaussian", "matern12", "poly", "periodic"])
def test_an_error_of_a_few_times_the_bound_is_detected(kernel: str) -> None:
    given = problem(3, kernel, "standard")
    bound = given.kernel.error(given.extent)
    for times, holds in ((0.0, True), (3.0, False)):
        result = judged(replace(given, kernel=Perturbed(given.kernel, times * bound)))
        assert result
        assert result.holds == holds


def test_far_rows_have_bounds_that_are_worth_something() -> None:
    X = 1e9 * np.random.default_rng(0).standard_normal((50, 3))
    for kernel in (gp.RBF(), gp.Matern(nu=0.5), gp.Matern(nu=1.5), gp.RationalQuadratic(alpha=1e3)):
        assert compile_kernel(kernel, n_features=3)[0].error(Extent.of(X)) < 1e-10


@pytest.mark.parametrize(
    "profile",
    [
        nodes.Gaussian(),
        nodes.Matern12(),
        nodes.Matern32(),
        nodes.Matern52(),
        nodes.RationalQuadratic(0.2),
        nodes.RationalQuadratic(50.0),
        nodes.Periodic(0.1),
        nodes.Periodic(3.0),
        *map(Matern, (0.2, 0.6, 0.99, 1.1, 3.0, 6.5, 40.0)),
    ],
)
def test_sensitivities_are_largest_derivatives(profile: Any) -> None:
    r = np.concatenate([[1e-12], np.geomspace(1e-9, 1e-3, 30), np.linspace(1e-3, 20.0, 20_001)])
    D, slope = np.square(r), abs(profile.slope)
    by_square = np.abs(profile.fall(D)) / (2.0 * slope)
    t = slope * D
    found = profile.sensitivity(1.0, float(np.sqrt(t.max())))
    for bound, largest in (
        (found.by_square, by_square.max()),
        (found.by_root, (2.0 * np.sqrt(t) * by_square).max()),
        (found.by_share, (t * by_square).max()),
    ):
        assert largest <= bound * (1.0 + 1e-12)
    assert profile.kinked == np.isinf(found.by_square)
    if not profile.kinked:
        assert found.by_square <= 1.01 * by_square.max()


def test_a_profile_without_sensitivity_has_no_bound() -> None:
    class Bare(nodes.Gaussian):
        def sensitivity(self, variance: float, farthest: float) -> nodes.Sensitivity:
            return nodes.Profile.sensitivity(self, variance, farthest)

    assert nodes.Stationary(Bare()).error(Extent.of(np.eye(3))) == np.inf


@pytest.mark.parametrize(
    "kernel",
    [
        compile_kernel("sigmoid", n_features=2)[0],
        compile_kernel("additive_chi2", n_features=2)[0],
        compile_kernel("poly", n_features=2, coef0=-1.0)[0],
        compile_kernel("poly", n_features=2, degree=-1.0)[0],
        compile_kernel(gp.RBF() + gp.PairwiseKernel(metric="sigmoid"), n_features=2)[0],
        compile_kernel(gp.RBF() * gp.PairwiseKernel(metric="sigmoid"), n_features=2)[0],
        compile_kernel(gp.RBF() + gp.ConstantKernel(-1.0), n_features=2)[0],
        compile_kernel(gp.DotProduct() * gp.ConstantKernel(-1.0), n_features=2)[0],
    ],
)
def test_what_is_no_kernel_has_no_bound(kernel: Kernel) -> None:
    assert kernel.error(Extent.of(np.eye(2))) == np.inf


@pytest.mark.parametrize(
    "kernel", [gp.RBF(), gp.DotProduct(), gp.PairwiseKernel(metric="cosine"), gp.Matern(nu=0.5)]
)
def test_rows_of_which_nothing_is_known_have_no_bound(kernel: Any) -> None:
    assert compile_kernel(kernel, n_features=2)[0].error(Extent()) == np.inf


def test_values_of_users_are_taken_as_exact() -> None:
    letters = compile_kernel(pairwise(lambda a, b: float(len(set(a) & set(b)))))[0]
    assert letters.error(Extent.of(["cat", "dog"])) == 0.0
    assert PrecomputedKernel(np.eye(3)).error(Extent.of(np.arange(3))) == 0.0


def test_kernels_around_a_kernel_have_its_bound() -> None:
    X = np.random.default_rng(0).standard_normal((20, 3))
    narrow, wide = (compile_kernel("rbf", n_features=3, gamma=gamma)[0] for gamma in (9.0, 0.1))
    extent = Extent.of(X)
    assert CountingKernel(narrow).error(extent) == narrow.error(extent)
    atoms = AtomKernel((wide, narrow), 2.0 * X)
    assert atoms.error(extent) == narrow.error(extent.joined(Extent.of(2.0 * X)))


def test_mirrored_and_simplified_trees_are_within_their_bounds() -> None:
    X = np.random.default_rng(0).standard_normal((8, 2))
    user = 3.0 * (2.0 * gp.RBF() + gp.DotProduct() ** 2) * gp.Matern() + gp.ConstantKernel(0.1)
    mirror = kernel_gradient(user)
    assert mirror is not None
    for node in (mirror, mirror.simplified()):
        error = abs(exact(node, X) - node.tile(X, X)) / np.sqrt(np.outer(*[node.diag(X)] * 2))
        assert 0.0 < error.max() <= node.error(Extent.of(X))


def test_extent_of_dense_and_sparse_rows() -> None:
    X = np.array([[1.0, 0.0, -3.0], [2.0, 5.0, 0.0], [4.0, 0.0, 0.0]])
    dense = Extent.of(X)
    np.testing.assert_array_equal(dense.low, [1.0, 0.0, -3.0])
    np.testing.assert_array_equal(dense.high, [4.0, 5.0, 0.0])
    assert (dense.sparse, dense.n_terms, dense.n_features) == (False, 3, 3)
    for kind in (sparse.csr_array, sparse.csr_matrix):
        rows = Extent.of(kind(X[:, [1, 2]]))
        np.testing.assert_array_equal(rows.low, [0.0, -3.0])
        np.testing.assert_array_equal(rows.high, [5.0, 0.0])
        assert (rows.sparse, rows.n_terms) == (True, 1)


@pytest.mark.parametrize(
    "items", [["a", "b"], np.arange(4), np.empty((0, 2)), np.array([["a"]], dtype=object)]
)
def test_extent_of_other_items_knows_nothing(items: Any) -> None:
    extent = Extent.of(items)
    assert (extent.low, extent.high, extent.n_features) == (None, None, 0)
    known = Extent.of(np.eye(2))
    assert extent.joined(known) is known.joined(extent) is known


def test_extents_join_and_split() -> None:
    X = np.random.default_rng(0).standard_normal((30, 4))
    joined = Extent.of(X[:10]).joined(Extent.of(X[10:]))
    np.testing.assert_array_equal(joined.low, X.min(axis=0))
    np.testing.assert_array_equal(joined.high, X.max(axis=0))
    some = joined.of_columns(np.array([2, 0]))
    np.testing.assert_array_equal(some.low, X.min(axis=0)[[2, 0]])
    assert some.n_terms == 2
    mixed = Extent.of(sparse.csr_array(np.eye(4))).joined(joined)
    assert (mixed.sparse, mixed.n_terms) == (True, 4)
