"""Low rank plus a diagonal, against the dense matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.linalg import LowRankPlusDiagonal, Workers

TYPES = [np.float32, np.float64]


def matrix(V, diagonal):
    V = V.astype(np.float64)
    return V @ V.T + diagonal * np.eye(len(V))


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 30),
    st.integers(0, 12),
    st.integers(1, 3),
    st.sampled_from(TYPES),
)
def test_solve_is_the_inverse(seed, m, n, columns, dtype):
    rng = np.random.default_rng(seed)
    V, rhs = rng.standard_normal((m, n)).astype(dtype), rng.standard_normal((m, columns))
    with Workers(1) as workers:
        M = LowRankPlusDiagonal(V, 0.3, workers)
        found = M.solve(rhs)
    assert M.rank == n
    np.testing.assert_allclose(found, np.linalg.solve(matrix(V, 0.3), rhs), atol=1e-10)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("columns", [1, 40])
def test_more_than_one_panel_and_chunk(dtype, columns):
    rng = np.random.default_rng(0)
    V, rhs = rng.standard_normal((2500, 300)).astype(dtype), rng.standard_normal((2500, columns))
    found = []
    for n_jobs in (1, 2, 3):
        with Workers(n_jobs) as workers:
            found.append(LowRankPlusDiagonal(V, 2.0, workers).solve(rhs))
    np.testing.assert_allclose(matrix(V, 2.0) @ found[0], rhs, atol=1e-9)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_coordinates_minimise_what_the_inverse_stands_for():
    rng = np.random.default_rng(1)
    V, rhs = rng.standard_normal((50, 4)), rng.standard_normal((50, 3))
    with Workers(1) as workers:
        M = LowRankPlusDiagonal(V, 0.2, workers)
        p, x = M.coordinates(rhs), M.solve(rhs)
    least = ((rhs - V @ p) ** 2).sum(axis=0) / 0.2 + (p**2).sum(axis=0)
    np.testing.assert_allclose(least, (rhs * x).sum(axis=0), rtol=1e-12)


def test_no_columns_leave_the_diagonal():
    with Workers(1) as workers:
        M = LowRankPlusDiagonal(np.empty((5, 0), np.float32), 4.0, workers)
        np.testing.assert_array_equal(M.solve(np.ones((5, 2))), 0.25)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(0, 12), st.sampled_from(TYPES))
def test_a_diagonal_of_its_own_for_every_row(seed, m, n, dtype):
    rng = np.random.default_rng(seed)
    V, rhs = rng.standard_normal((m, n)).astype(dtype), rng.standard_normal((m, 2))
    D = 10.0 ** rng.uniform(-2, 2, m)
    dense = V.astype(np.float64) @ V.T.astype(np.float64) + np.diag(D)
    with Workers(1) as workers:
        M = LowRankPlusDiagonal(V, D, workers)
        x, seen, share = M.refined(rhs, 1e-12, 3)
        np.testing.assert_allclose(M.solve(rhs), np.linalg.solve(dense, rhs), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(dense @ x, rhs, atol=1e-10)
    np.testing.assert_allclose(seen, V.T.astype(np.float64) @ x, atol=1e-9 * (1 + np.abs(x).max()))
    assert share <= 1e-9


def test_an_infinite_entry_keeps_a_row_out():
    rng = np.random.default_rng(2)
    V, rhs = rng.standard_normal((12, 3)), rng.standard_normal((12, 1))
    D = np.where(np.arange(12) < 5, np.inf, 2.0)
    with Workers(1) as workers:
        found = LowRankPlusDiagonal(V, D, workers).solve(rhs)
    assert not found[:5].any()
    np.testing.assert_allclose(found[5:], np.linalg.solve(matrix(V[5:], 2.0), rhs[5:]), atol=1e-12)


@given(st.integers(0, 2**32 - 1))
def test_a_diagonal_over_many_orders_of_magnitude(seed):
    """What is left of an equation is rounding, though entries of D differ by 24 orders."""
    rng = np.random.default_rng(seed)
    V, rhs = rng.standard_normal((200, 20)), rng.standard_normal((200, 1))
    D = 10.0 ** rng.uniform(-12, 12, (200, 1))
    D[:12] = 1e-12
    with Workers(1) as workers:
        x, seen, _ = LowRankPlusDiagonal(V, D[:, 0], workers).refined(rhs, 1e-12, 4)
    left = rhs - (V @ (V.T @ x) + D * x)
    terms = np.abs(V) @ (np.abs(V).T @ np.abs(x)) + D * np.abs(x) + np.abs(rhs)
    assert np.all(np.abs(left) <= 1e-13 * terms)
    np.testing.assert_allclose(seen, V.T @ x, atol=1e-14 * np.abs(x).sum())


def test_refinement_mends_float32_sums():
    rng = np.random.default_rng(3)
    V, rhs = rng.standard_normal((300, 20)), rng.standard_normal((300, 1))
    D = 10.0 ** rng.uniform(-2, 2, 300)
    exact = np.linalg.solve(V @ V.T + np.diag(D), rhs)
    with Workers(1) as workers:
        M = LowRankPlusDiagonal(V, D, workers, np.float32)
        rough = np.abs(M.solve(rhs) - exact).max()
        x, _, _ = M.refined(rhs, 1e-12, 4)
    assert np.abs(x - exact).max() < 1e-4 * rough
