"""Low rank plus a multiple of the identity, against the dense matrix."""

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


@given(st.integers(0, 2**32 - 1), st.floats(1e-9, 1.0))
def test_slack_covers_the_rounding_of_v(seed, diagonal):
    rng = np.random.default_rng(seed)
    U = rng.standard_normal((20, 6)) * np.geomspace(100, 0.01, 6)
    V = U.astype(np.float32)
    with Workers(1) as workers:
        slack = LowRankPlusDiagonal(V, diagonal, workers).slack
    # As long double, because what is checked is far below the rounding of UU'.
    wide, stored = U.astype(np.longdouble), V.astype(np.longdouble)
    room = (1 + slack) * (wide @ wide.T) - stored @ stored.T
    room = room.astype(np.float64) + slack * diagonal * np.eye(20)
    assert np.linalg.eigvalsh(room)[0] >= -1e-12 * diagonal


def test_slack_is_no_larger_than_it_must_be():
    """(1 + 1/ε)e² = εσ² with e² = u² tr VV'."""
    V = np.random.default_rng(1).standard_normal((50, 4)).astype(np.float32)
    with Workers(1) as workers:
        slack = LowRankPlusDiagonal(V, 1e-6, workers).slack
    squares = 2.0**-48 * np.sum(V.astype(np.float64) ** 2)
    np.testing.assert_allclose((1 + 1 / slack) * squares, slack * 1e-6, rtol=1e-6)


def test_no_columns_leave_the_diagonal():
    with Workers(1) as workers:
        M = LowRankPlusDiagonal(np.empty((5, 0), np.float32), 4.0, workers)
        np.testing.assert_array_equal(M.solve(np.ones((5, 2))), 0.25)
        assert M.slack == 0.0
