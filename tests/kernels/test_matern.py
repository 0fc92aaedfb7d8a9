"""The Matérn profile of any order, against the integral of its Bessel function in long double."""

import numpy as np
import pytest
from oracles import matern_correlation, needs_long_double

from pursuit.kernels.matern import LARGE_ORDER, Matern, correlation
from pursuit.kernels.stationary import Matern32, Matern52, Stationary

ORDERS = [0.05, 0.3, 0.5, 0.9, 1.0, 1.01, 1.2, 1.5, 2.0, 2.5, 3.5, 4.2, 9.5, 17.3, 29.5, 29.9]
LARGE = [30.0, 33.3, 60.5, 120.0]
SQUARES = np.concatenate([[0.0], np.geomspace(1e-10, 300.0, 60)])


def exact(nu, D):
    return matern_correlation(nu, D.astype(np.longdouble))


@pytest.mark.parametrize("nu", ORDERS + LARGE)
def test_values(nu):
    u = 2.0 * nu * SQUARES
    Matern(nu).apply(u, 1.7)
    np.testing.assert_allclose(u, 1.7 * exact(nu, SQUARES).astype(float), rtol=2e-12)


@needs_long_double
@pytest.mark.parametrize("nu", ORDERS + LARGE)
def test_fall(nu):
    """-2 times the derivative by r², where differences have enough digits."""
    D = SQUARES[SQUARES > 1e-6].astype(np.longdouble)
    step = 1e-3 * np.minimum(D, 0.3)
    coarse = (exact(nu, D + 2 * step) - exact(nu, D - 2 * step)) / (4 * step)
    fine = (exact(nu, D + step) - exact(nu, D - step)) / (2 * step)
    slopes = -2 * (4 * fine - coarse) / 3
    found = Matern(nu).fall(D.astype(float))
    np.testing.assert_allclose(found, slopes.astype(float), rtol=1e-7)


@pytest.mark.parametrize("nu", ORDERS + LARGE)
def test_no_distance(nu):
    limit = nu / (nu - 1.0) if nu > 1.0 else 0.0
    np.testing.assert_allclose(Matern(nu).fall(np.zeros(2)), limit, rtol=1e-12)
    assert correlation(nu, np.zeros(1))[0] == 1.0


@pytest.mark.parametrize("nu", ORDERS + LARGE)
def test_far_away(nu):
    """Distances that would overflow parts of the formula."""
    far = np.array([1e8, 1e100, np.finfo(float).max / 1e4])
    u = 2.0 * nu * far
    Matern(nu).apply(u, 2.0)
    np.testing.assert_array_equal(u, 0.0)
    np.testing.assert_array_equal(Matern(nu).fall(far), 0.0)


@needs_long_double
@pytest.mark.parametrize("nu", [0.05, 0.3, 1.0])
def test_tiny_distances_of_rough_functions(nu):
    """They are not near 1 until the distance is very small, and rounding must not show."""
    D = np.array([1e-30, 1e-24, 1e-16])
    u = 2.0 * nu * D
    Matern(nu).apply(u, 1.0)
    assert np.all(np.diff(u) <= 0.0)
    np.testing.assert_allclose(1.0 - u, 1.0 - exact(nu, D).astype(float), rtol=1e-3, atol=1e-15)
    assert np.all(np.isfinite(Matern(nu).fall(np.array([0.0, 1e-300, 1e-30]))))


def test_known_orders_are_the_same_functions():
    for closed, nu in ((Matern32(), 1.5), (Matern52(), 2.5)):
        u, v = closed.slope * SQUARES, 2.0 * nu * SQUARES
        closed.apply(u, 1.0)
        Matern(nu).apply(v, 1.0)
        np.testing.assert_allclose(v, u, rtol=1e-13)
        np.testing.assert_allclose(Matern(nu).fall(SQUARES), closed.fall(SQUARES), rtol=1e-13)


def test_methods_meet():
    """The last orders of one method and the first of the next."""
    a = np.linspace(0.0, 60.0, 200)
    below, above = correlation(np.nextafter(LARGE_ORDER, 0.0), a), correlation(LARGE_ORDER, a)
    np.testing.assert_allclose(above, below, rtol=1e-11)
    whole = correlation(3.5, a)
    np.testing.assert_allclose(correlation(np.nextafter(3.5, 4.0), a), whole, rtol=1e-11)


def test_very_large_orders_are_gaussian():
    u = 2e8 * SQUARES
    Matern(1e8).apply(u, 1.0)
    np.testing.assert_allclose(u, np.exp(-0.5 * SQUARES), rtol=1e-3)
    near = SQUARES < 10.0
    np.testing.assert_allclose(u[near], np.exp(-0.5 * SQUARES[near]), rtol=1e-6)


@pytest.mark.parametrize("nu", [0.3, 1.2, 3.5, 40.0])
def test_float32_tiles(nu):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((7, 3)), rng.standard_normal((5, 3))
    kernel = Stationary(Matern(nu), 1.3, 0.6)
    single = kernel.columns(B, np.float32)(A)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, kernel.tile(A, B), rtol=1e-5, atol=1e-6)
