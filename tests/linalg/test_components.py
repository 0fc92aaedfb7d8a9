"""Principal components and canonical pairs from moments, and the bordered factor."""

import numpy as np
import pytest
from scipy.linalg import eigh

from pursuit.linalg import PrincipalComponents, bordered_cholesky, canonical_pairs


@pytest.mark.parametrize("center", [True, False])
def test_components_are_those_of_the_points(center):
    rng = np.random.default_rng(0)
    V, w = rng.normal(size=(30, 4)) * [3, 2, 1, 0.5] + 1, rng.uniform(0.1, 2, 30)
    found = PrincipalComponents.from_moments(V.T @ (w[:, None] * V), w @ V, w.sum(), center=center)
    Z = found.scores(V)
    mean = np.average(V, axis=0, weights=w) if center else np.zeros(4)
    np.testing.assert_allclose(found.mean, mean, atol=1e-14)
    second = Z.T @ (w[:, None] * Z) / w.sum()
    np.testing.assert_allclose(second, np.diag(found.variances), atol=1e-12)
    assert np.all(np.diff(found.variances) <= 0)
    np.testing.assert_allclose(found.scores(V, 1, 3), Z[:, 1:3], atol=1e-14)
    U = found.directions
    assert np.all(U[np.abs(U).argmax(axis=0), np.arange(4)] > 0)


def covariances(seed=0, n=3, p=4):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(200, n + p)) @ rng.normal(size=(n + p, n + p))
    Z -= Z.mean(axis=0)
    return Z[:, :n], Z[:, n:], Z.T @ Z / 200


@pytest.mark.parametrize("ridges", [(0.0, 0.0), (0.3, 0.1)])
def test_pairs_solve_the_generalised_eigenproblem(ridges):
    n, p = 3, 4
    X, Y, C = covariances()
    A, B = C[:n, :n] + ridges[0] * np.eye(n), C[n:, n:] + ridges[1] * np.eye(p)
    cross = C[:n, n:]
    found = canonical_pairs(C[:n, :n], cross, C[n:, n:], ridges, 3)
    strengths = np.sqrt(eigh(cross @ np.linalg.solve(B, cross.T), A)[0][::-1])
    for j in range(3):
        a, b = found.left[:, j], found.right[:, j]
        strength = a @ cross @ b / np.sqrt((a @ A @ a) * (b @ B @ b))
        assert strength == pytest.approx(strengths[j], rel=1e-10)
        assert found.correlations[j] == pytest.approx(np.corrcoef(X @ a, Y @ b)[0, 1], rel=1e-10)
        assert np.var(X @ a) == pytest.approx(1)
        assert np.var(Y @ b) == pytest.approx(1)


def test_directions_without_variance_are_left_out():
    C = covariances(n=3, p=3)[2]
    wide = np.zeros((4, 4))
    wide[:3, :3] = C[:3, :3]
    cross = np.vstack([C[:3, 3:], np.zeros(3)])
    found = canonical_pairs(wide, cross, C[3:, 3:], (0.0, 0.0), 5)
    plain = canonical_pairs(C[:3, :3], C[:3, 3:], C[3:, 3:], (0.0, 0.0), 5)
    assert len(found.correlations) == 3
    np.testing.assert_allclose(found.correlations, plain.correlations, rtol=1e-10)


def test_a_view_without_variance_has_no_pairs():
    found = canonical_pairs(np.zeros((2, 2)), np.zeros((2, 3)), np.eye(3), (0.0, 0.0), 2)
    assert found.left.shape == (2, 0)
    assert found.right.shape == (3, 0)


def test_bordered_factor_is_that_of_the_whole_matrix():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(9, 9))
    K = A @ A.T
    whole = np.linalg.cholesky(K)
    grown, kept = bordered_cholesky(whole[:5, :5], K[:5, 5:], K[5:, 5:], 1e-11)
    np.testing.assert_allclose(grown, whole, atol=1e-10)
    assert kept.tolist() == [0, 1, 2, 3]
    alone, _ = bordered_cholesky(np.empty((0, 0)), np.empty((0, 9)), K, 1e-11)
    np.testing.assert_allclose(alone, whole, atol=1e-10)


def test_bordered_factor_leaves_out_dependent_rows():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(6, 8))
    F[3], F[5] = F[0] - F[1], F[4]
    K = F @ F.T
    grown, kept = bordered_cholesky(np.linalg.cholesky(K[:3, :3]), K[:3, 3:], K[3:, 3:], 1e-11)
    assert kept.tolist() == [1]
    rows = [0, 1, 2, 4]
    np.testing.assert_allclose(grown @ grown.T, K[np.ix_(rows, rows)], atol=1e-10)
