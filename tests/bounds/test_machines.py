"""Dual bounds of support vector machines: feasible points, and the best multiple of one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.bounds import balanced, diagonal_quadratic, scaled_machine_bound


@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(1, 3))
def test_a_balanced_point_sums_to_zero_and_shrinks(seed, m, o):
    a = np.random.default_rng(seed).normal(size=(m, o))
    found = balanced(a)
    np.testing.assert_allclose(found.sum(axis=0), 0.0, atol=1e-12 * np.abs(a).sum())
    assert np.all(np.abs(found) <= np.abs(a))
    assert np.all(found * a >= 0)


def test_a_point_on_one_side_only_becomes_zero():
    assert np.all(balanced(np.array([[1.0], [2.0]])) == 0.0)
    assert np.all(balanced(np.array([[-1.0], [0.0]])) == 0.0)


@given(
    st.floats(-5, 5),
    st.one_of(st.just(0.0), st.floats(1e-3, 10)),
    st.sampled_from([0.3, 1.0, np.inf]),
)
def test_no_other_multiple_is_better(linear, quadratic, limit):
    bound = scaled_machine_bound(np.array([linear]), np.array([quadratic]), np.array([limit]))[0]
    if quadratic == 0.0 and limit == np.inf:
        assert bound == 0.0  # an infinite bound is never claimed
        return
    best = linear / quadratic if quadratic > 0 else np.inf
    t = np.linspace(0.0, min(limit, max(best, 0.0) + 1.0), 10_001)
    values = t * (linear - 0.5 * t * quadratic)
    assert bound >= values.max() - 1e-12 * (1 + abs(bound))
    assert bound <= values.max() * (1 + 1e-6) + 1e-6


@given(st.integers(0, 10**6))
def test_the_diagonal_bounds_the_quadratic_form(seed):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(12, 12))
    K = F @ F.T
    V = np.linalg.cholesky(K)[:, :4]
    a = rng.normal(size=(12, 2))
    residual = np.diag(K) - (V**2).sum(axis=1)
    bound = diagonal_quadratic(((V.T @ a) ** 2).sum(axis=0), a, residual)
    exact = np.einsum("io,io->o", a, K @ a)
    assert np.all(bound >= exact - 1e-9 * np.abs(exact))


def test_the_diagonal_is_exact_for_a_full_basis():
    rng = np.random.default_rng(0)
    V, a = rng.normal(size=(6, 6)), rng.normal(size=(6, 1))
    inner = ((V.T @ a) ** 2).sum(axis=0)
    assert diagonal_quadratic(inner, a, np.zeros(6)) == pytest.approx(inner)
