"""The residual process of a basis, against dense algebra."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern

from pursuit.gram import ResidualProcess, condition, noisy
from pursuit.kernels import compile_kernel
from pursuit.linalg import Workers
from pursuit.rows import as_rows

KERNELS = [1.5 * RBF([0.5, 0.8]), Matern(0.4, nu=0.5), RBF(0.5) + Matern(0.1, nu=1.5)]


def process(kernel, X, n=6, dtype=np.float64, *, stored):
    compiled, _ = compile_kernel(kernel, n_features=X.shape[1])
    R = np.linalg.cholesky(kernel(X[:n]))
    made = ResidualProcess(compiled, X[:n], np.linalg.inv(R), as_rows(X), dtype)
    if not stored:
        return made
    with Workers(1) as workers:
        features = made.features(X, workers, dtype)
    return ResidualProcess(compiled, X[:n], np.linalg.inv(R), as_rows(X), dtype, features)


def residual(kernel, X, n=6):
    """K - K_Z K_ZZ⁻¹ K_Z' of all rows."""
    return kernel(X) - kernel(X, X[:n]) @ np.linalg.solve(kernel(X[:n]), kernel(X[:n], X))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_groups_hold_the_residual(kernel, stored, n_threads):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (80, 2))
    queries = rng.uniform(-1, 1, (70, 2))
    near = rng.permuted(np.tile(np.arange(80), (70, 1)), axis=1)[:, :5]
    near[3, 3:], near[40] = -1, -1
    rotation = np.tril(rng.standard_normal((6, 6)))
    made = process(kernel, X, stored=stored)
    with Workers(n_threads) as workers:
        parts = made.each(queries, near, lambda groups: groups, workers, rotation=rotation)
    assert [part.where.start for part in parts] == [0, 32, 64]
    V = np.linalg.solve(np.linalg.cholesky(kernel(X[:6])), kernel(X[:6], queries)).T
    for part in parts:
        for i, q in enumerate(range(part.where.start, part.where.stop)):
            there = np.flatnonzero(near[q] >= 0)
            rows = np.concatenate([X[:6], queries[q : q + 1], X[near[q][there]]])
            expected = residual(kernel, rows)[6:, 6:]
            at = np.concatenate([[0], 1 + there])
            np.testing.assert_allclose(part.residual[i][np.ix_(at, at)], expected, atol=1e-11)
            gone = np.setdiff1d(np.arange(6), at)
            assert not part.residual[i][gone].any()
            assert not part.residual[i][:, gone].any()
            np.testing.assert_allclose(part.own[i], V[q], atol=1e-11)
            np.testing.assert_allclose(part.rotated[i][0], rotation @ V[q], atol=1e-10)
            if len(there):
                np.testing.assert_allclose(
                    part.rotated[i][at[1:]], part.near[i][there] @ rotation.T, atol=1e-10
                )
            np.testing.assert_allclose(part.prior[i], kernel(queries[q : q + 1])[0, 0], rtol=1e-12)


def test_single_precision_features_are_near():
    X = np.random.default_rng(0).uniform(-1, 1, (80, 2))
    near = np.tile(np.arange(20), (80, 1))
    with Workers(1) as workers:
        found = [
            process(KERNELS[0], X, dtype=dtype, stored=True).each(
                X, near, lambda groups: groups.residual, workers
            )
            for dtype in (np.float32, np.float64)
        ]
    difference = np.abs(np.concatenate(found[0]) - np.concatenate(found[1])).max()
    assert 1e-9 < difference < 1e-5


def test_conditioning_is_that_of_a_gaussian():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((9, 6, 8))
    matrix = root @ root.swapaxes(1, 2)
    noise = rng.uniform(0.1, 1, (9, 5))
    found = condition(matrix, noise)
    own, near = rng.standard_normal((9, 3)), rng.standard_normal((9, 5, 3))
    left = found.left(own, near)
    for i in range(9):
        inner = matrix[i, 1:, 1:] + np.diag(noise[i])
        A = matrix[i, 0, 1:] @ np.linalg.inv(inner)
        np.testing.assert_allclose(found.weights[i], A, rtol=1e-9)
        np.testing.assert_allclose(
            found.missed[i], matrix[i, 0, 0] - A @ matrix[i, 1:, 0], rtol=1e-8
        )
        np.testing.assert_allclose(left[i], own[i] - A @ near[i], rtol=1e-9, atol=1e-12)


def test_exact_copies_without_noise_have_an_inverse():
    """Two equal near rows and no noise: the answer is that of one of them."""
    both = np.array([[1.0, 0.6, 0.6], [0.6, 1.0, 1.0], [0.6, 1.0, 1.0]])[None]
    one = both[:, :2, :2]
    twice = condition(both, np.zeros((1, 2)), rounding=1e-15)
    once = condition(one, np.zeros((1, 1)), rounding=1e-15)
    np.testing.assert_allclose(twice.missed, once.missed, atol=1e-6)
    assert np.isfinite(twice.weights).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [8, 64])
@pytest.mark.parametrize(
    ("kernel", "n"),
    [
        (RBF(0.1), 20),
        (RBF(0.1), 150),
        (RBF(0.03), 150),
        (RBF(0.3), 60),
        (Matern(0.5, nu=0.5), 150),
        (DotProduct(1.0) ** 3 + 0.1 * RBF(0.3), 20),
    ],
    ids=str,
)
def test_without_noise_rounding_leaves_near_rows_an_inverse(kernel, n, k, dtype):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1500, 2))
    queries = rng.uniform(-1, 1, (200, 2))
    near = np.argsort(((queries[:, None] - X) ** 2).sum(axis=2), axis=1)[:, :k]
    with Workers(1) as workers:
        parts = process(kernel, X, n, dtype, stored=True).each(
            queries, near, lambda groups: noisy(groups.residual, 0.0, groups.rounding), workers
        )
    assert min(np.linalg.eigvalsh(part).min() for part in parts) > 0


def test_rounding_is_that_of_the_largest_row():
    """k(x, x) is 1 at the query, and 1e6 times as large at its near rows."""
    X = np.random.default_rng(0).uniform(9, 11, (40, 2))
    made = process(DotProduct(1.0) ** 3, X, stored=True, dtype=np.float32)
    with Workers(1) as workers:
        (rounding,) = made.each(
            np.zeros((1, 2)), np.arange(40)[None], lambda groups: groups.rounding, workers
        )
    assert rounding[0] > 1e6 * np.finfo(np.float32).eps
