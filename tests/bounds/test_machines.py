"""Dual bounds of support vector machines: feasible points, and the best multiple of one."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.bounds import balanced, diagonal_quadratic, scaled_machine_bound
from pursuit.rounding import Rounded


@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(1, 3))
def test_a_balanced_point_sums_to_zero_and_shrinks(seed, m, o):
    a = np.random.default_rng(seed).normal(size=(m, o))
    found = balanced(a)
    assert all(sum(map(Fraction, column)) == 0 for column in found.T)
    assert np.all(np.abs(found) <= np.abs(a))
    assert np.all(found * a >= 0)


@given(st.integers(0, 10**6), st.integers(2, 20), st.booleans())
def test_a_balanced_point_stays_in_its_box(seed, m, around_zero):
    rng = np.random.default_rng(seed)
    lower = rng.normal(size=(m, 1)) * 10.0 ** rng.uniform(-8, 8, (m, 1))
    upper = lower + np.abs(rng.normal(size=(m, 1))) * 10.0 ** rng.uniform(-8, 8, (m, 1))
    if around_zero:
        lower, upper = np.minimum(lower, 0.0), np.maximum(upper, 0.0)
    a = np.clip(rng.normal(size=(m, 1)), lower, upper)
    found = balanced(a, lower, upper)
    if np.isnan(found).any():
        # Only where there is no such point, or none with as few digits.
        slack = 1e-12 * np.abs(np.hstack([lower, upper])).sum()
        assert not around_zero
        assert lower.sum() > -slack or upper.sum() < slack or np.any(upper - lower < slack)
        return
    assert sum(map(Fraction, found[:, 0])) == 0
    assert np.all((lower <= found) & (found <= upper))


def test_scaling_alone_does_not_balance():
    """The control: the sums of points that were scaled only are not exactly zero."""
    a = np.random.default_rng(0).normal(size=1000)
    up, down = a[a > 0].sum(), -a[a < 0].sum()
    scaled = np.where(a > 0, a * min(1.0, down / up), a * min(1.0, up / down))
    assert sum(map(Fraction, scaled)) != 0
    assert sum(map(Fraction, balanced(a[:, None])[:, 0])) == 0


def test_a_point_on_one_side_only_becomes_zero():
    assert np.all(balanced(np.array([[1.0], [2.0]])) == 0.0)
    assert np.all(balanced(np.array([[-1.0], [0.0]])) == 0.0)


@given(
    st.floats(-5, 5),
    st.one_of(st.just(0.0), st.floats(1e-3, 10)),
    st.sampled_from([0.3, 1.0, np.inf]),
)
def test_no_other_multiple_is_better(linear, quadratic, limit):
    known = (Rounded.of(np.array([number])) for number in (linear, quadratic))
    bound = scaled_machine_bound(*known, np.array([limit])).low[0]
    if quadratic == 0.0 and limit == np.inf:
        assert bound <= 0.0  # an infinite bound is never claimed
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
