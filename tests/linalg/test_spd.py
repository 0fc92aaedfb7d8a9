"""Inverse and log-determinant by panels, against NumPy, whatever the number of threads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.linalg import Workers, invert_spd
from pursuit.linalg.cholesky import _INVERSE_PANEL as PANEL

SIZES = [1, 2, 17, PANEL - 1, PANEL, PANEL + 1, 2 * PANEL - 1, 2 * PANEL, 2 * PANEL + 1]


def positive_definite(n, seed=0, smallest=0.1, scale=1.0):
    """Eigenvalues from ``smallest`` to 10, times ``scale``."""
    U = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    C = (U * np.geomspace(smallest, 10.0, n)) @ U.T
    return scale * 0.5 * (C + C.T)


def inverted(C, n_jobs=1):
    with Workers(n_jobs) as workers:
        return invert_spd(C.copy(), workers)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_inverse_and_log_determinant(n, n_jobs):
    C = positive_definite(n)
    inverse, log_determinant = inverted(C, n_jobs)
    np.testing.assert_allclose(inverse, np.linalg.inv(C), rtol=1e-10, atol=1e-11)
    assert log_determinant == pytest.approx(np.linalg.slogdet(C)[1], rel=1e-11, abs=1e-10)
    np.testing.assert_array_equal(inverse, inverse.T)


@pytest.mark.parametrize("n", SIZES)
def test_threads_change_no_bit(n):
    C = positive_definite(n, seed=1)
    inverse, log_determinant = inverted(C, 1)
    for n_jobs in (2, 3):
        again, log_again = inverted(C, n_jobs)
        np.testing.assert_array_equal(again, inverse)
        assert log_again == log_determinant


@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.sampled_from([1e-150, 1e-6, 1.0, 1e150]))
def test_any_scale(n, seed, scale):
    C = positive_definite(n, seed, scale=scale)
    inverse, log_determinant = inverted(C)
    np.testing.assert_allclose(inverse * scale, np.linalg.inv(C / scale), rtol=1e-9, atol=1e-10)
    expected = np.linalg.slogdet(C / scale)[1] + n * np.log(scale)
    assert log_determinant == pytest.approx(expected, rel=1e-10, abs=1e-9)


def test_ill_conditioned():
    """The residual stays small where the inverse itself is known to few digits only."""
    C = positive_definite(PANEL + 30, seed=2, smallest=1e-8)
    inverse, log_determinant = inverted(C)
    np.testing.assert_allclose(C @ inverse, np.eye(len(C)), atol=1e-5)
    assert log_determinant == pytest.approx(np.linalg.slogdet(C)[1], rel=1e-7)


def test_the_inverse_takes_the_place_of_the_matrix():
    C = positive_definite(PANEL + 5)
    with Workers(1) as workers:
        inverse, _ = invert_spd(C, workers)
    assert inverse is C


@pytest.mark.parametrize("n", [1, 5, PANEL, PANEL + 1, 2 * PANEL + 7])
@pytest.mark.parametrize("where", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_indefinite_is_none(n, where, n_jobs):
    C = positive_definite(n)
    bad = round(where * (n - 1))
    C[bad, bad] = -1.0
    assert inverted(C, n_jobs) is None


def test_singular_is_none():
    assert inverted(np.zeros((3, 3))) is None
    assert inverted(np.diag([1.0, 0.0, 1.0])) is None


@pytest.mark.parametrize("n", SIZES)
def test_float32_stays_float32(n):
    """Rounding of float32 times the condition number, and no bit by the number of threads."""
    C = positive_definite(n, seed=3)
    inverse, log_determinant = inverted(C.astype(np.float32))
    assert inverse.dtype == np.float32
    np.testing.assert_allclose(inverse, np.linalg.inv(C), atol=1e-4)
    assert log_determinant == pytest.approx(np.linalg.slogdet(C)[1], rel=1e-4, abs=1e-4)
    again, log_again = inverted(C.astype(np.float32), 2)
    np.testing.assert_array_equal(again, inverse)
    assert log_again == log_determinant


def test_float32_refuses_what_only_float64_resolves():
    C = positive_definite(PANEL + 30, seed=2, smallest=1e-8)
    assert inverted(C) is not None
    assert inverted(C.astype(np.float32)) is None
