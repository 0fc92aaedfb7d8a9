"""The fit whose basis may hold every row."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, DotProduct

from pursuit import SparseGPRegressor
from pursuit.greedy import Pool
from pursuit.greedy.all_rows import AllRows
from pursuit.linalg import extended_cholesky, full_cholesky
from pursuit.rows import Sample, as_rows


def sample(X, y, w=None):
    w = np.ones(len(X)) if w is None else w
    return Sample(as_rows(np.asarray(X, float)), np.asarray(y, float)[:, None], w)


def fitted(kernel, X, y, noise):
    return SparseGPRegressor(
        kernel,
        noise=noise,
        n_basis=len(X),
        optimizer=None,
        calibration=None,
        refine=0,
        normalize_y=False,
        certificate=None,
        random_state=0,
    ).fit(X, y)


def test_sums_over_rows_are_sums_over_points():
    X, y, w = [[0.0], [1.0], [0.0], [2.0]], [1.0, 2.0, 3.0, 4.0], np.array([1.0, 2.0, 3.0, 4.0])
    seen = sample(X, y, w)
    owners = Pool.of_rows(seen, np.array([3, 0, 1])).owners(seen)
    assert owners.tolist() == [1, 2, 1, 0]
    rows = AllRows.of(owners, 3, seen)
    assert rows.weights.tolist() == [4.0, 4.0, 2.0]
    assert rows.sums[:, 0].tolist() == [16.0, 10.0, 4.0]
    K = np.array([[2.0, 0.5, 1.0], [0.5, 3.0, 0.2], [1.0, 0.2, 1.0]])
    k = K[[1, 2, 1, 0]]
    found = rows.statistics(K)
    np.testing.assert_allclose(found.gram, k.T @ np.diag(w) @ k)
    np.testing.assert_allclose(found.cross, k.T @ (w * y)[:, None])
    assert found.trace == pytest.approx(w @ np.diag(K)[[1, 2, 1, 0]])


@pytest.mark.parametrize("index", [[0, 1], [0, 1, -1, 3], [0, 1, 1, 3], []])
def test_some_row_is_none_of_the_points(index):
    X = np.arange(4.0)[:, None]
    pool = Pool(X[: len(index)], np.array(index, dtype=int))
    assert pool.owners(sample(X, X[:, 0])) is None


def test_the_case_that_stopped_by_rank():
    """A smooth kernel and little noise: rank in double precision is far below the rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (44, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(44)
    new = np.linspace(-5, 5, 50)[:, None]
    model = fitted(RBF(1.0), X, y, 1e-5)
    full = GaussianProcessRegressor(RBF(1.0), alpha=1e-5, optimizer=None).fit(X, y)
    mean, std = full.predict(new, return_std=True)
    found = model.predict(new, return_std=True, include_noise=False)
    np.testing.assert_allclose(found[0], mean, atol=1e-6 * y.std())
    np.testing.assert_allclose(found[1], std, atol=1e-6 * y.std())


@pytest.mark.parametrize("noise", [1.0, 1e-2, 1e-4])
def test_rows_that_depend_on_others_are_left_out(noise):
    rng = np.random.default_rng(0)
    # Of drawn rows the last direction may get one that lies in the others' span but for rounding:
    # all have the same gain. On a grid, rows that are independent are far from dependent.
    grid = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 4), axis=-1).reshape(-1, 4)
    X, y = rng.permutation(grid)[:60], rng.standard_normal(60)
    model = fitted(DotProduct(1.0), X, y, noise)
    assert (model.n_basis_, model.path_.stop_reason) == (5, "rank")


def test_points_that_cannot_be_moved_are_kept_to_rounding():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2))
    X[10:] = X[:10] + 1e-5 * rng.standard_normal((10, 2))
    y = rng.standard_normal(20)
    K = RBF(1.0)(X)
    model = fitted("precomputed", K, y, 1e-3)
    assert model.n_basis_ == 20, "pivots of 1e-10 are not rounding"
    exact = K @ np.linalg.solve(K + 1e-3 * np.eye(20), y)
    np.testing.assert_allclose(model.predict(K), exact, atol=1e-8)


def test_the_factor_continues_by_the_largest_pivots():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((12, 5))
    K = A @ A.T
    V, order = extended_cholesky(K, np.linalg.cholesky(K[:2, :2]))
    assert V.shape == (12, 5)
    assert order[:2].tolist() == [0, 1]
    assert sorted(order) == list(range(12))
    np.testing.assert_allclose(V @ V.T, K[np.ix_(order, order)], atol=1e-12)
    left = 1 - (V[2:, :2] ** 2).sum(axis=1) / np.diag(K)[order[2:]]
    assert left.argmax() == 0


def test_a_full_factor_of_dependent_rows():
    x = np.linspace(0, 1, 30)[:, None]
    K = np.outer(np.arange(1, 31), np.arange(1, 31)) * RBF(1.0)(x)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(K)
    R = full_cholesky(K)
    np.testing.assert_allclose(R @ R.T, K, rtol=1e-12)
    assert full_cholesky(K - 1e-3 * np.diag(np.diag(K))) is None
