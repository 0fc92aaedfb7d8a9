"""Variances of predictions in a span: split, joint, and far from the basis."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.linalg import PredictiveVariance, SpanSolution

SPREADS = [
    PredictiveVariance(0.1),
    PredictiveVariance(0.03, 0.2),
    PredictiveVariance(0.5, 1e-4),
    PredictiveVariance(0.2, 7.0),
    PredictiveVariance(1e-8, 0.5),
]
each_spread = pytest.mark.parametrize("spread", SPREADS, ids=repr)


def kernel(A, B, width=1.0, variance=1.7):
    squares = ((A[:, None] - B[None]) ** 2).sum(axis=2)
    return variance * np.exp(-squares / (2 * width**2))


def fitted(seed=0, n=8, m=40, noise=0.1, width=1.0):
    """Rows, basis points and the solution in their span."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, 2))
    Z = rng.standard_normal((n, 2))
    R = np.linalg.cholesky(kernel(Z, Z, width) + 1e-10 * np.eye(n))
    V = np.linalg.solve(R, kernel(Z, X, width)).T
    y = rng.standard_normal((m, 1))
    return X, Z, SpanSolution.from_whitened(R, V.T @ V, V.T @ y, noise)


def naive_variance(spread, solution, k, prior):
    """One row: what the basis misses and what it fits, by dense solves."""
    V = np.linalg.solve(solution.R, k)
    missed = max(prior - V @ V, 0.0)
    factor = spread.missed
    if factor < 1:
        factor += (1 - factor) * (missed / prior) ** 16
    B = solution.L @ solution.L.T
    return spread.noise * V @ np.linalg.solve(B, V) + factor * missed


@each_spread
def test_variance(spread):
    _, Z, solution = fitted()
    new = 2 * np.random.default_rng(1).standard_normal((30, 2))
    k, prior = kernel(new, Z), np.full(30, 1.7)
    expected = [naive_variance(spread, solution, *row) for row in zip(k, prior, strict=True)]
    np.testing.assert_allclose(spread.variance(solution, k, prior), expected, rtol=1e-8)


def test_uncalibrated_is_the_sparse_process():
    """σ² V'B⁻¹V + k(x,x) - V'V, with both factors as the model has them."""
    X, Z, solution = fitted(noise=0.3)
    k = kernel(X, Z)
    K_ZZ = kernel(Z, Z)
    inner = np.linalg.inv(k.T @ k + 0.3 * K_ZZ)
    expected = (
        1.7
        - np.einsum("ij,jk,ik->i", k, np.linalg.inv(K_ZZ), k)
        + 0.3 * np.einsum("ij,jk,ik->i", k, inner, k)
    )
    found = PredictiveVariance(0.3).variance(solution, k, np.full(len(X), 1.7))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 12),
    st.sampled_from([0.1, 1.0, 5.0]),
    st.sampled_from([1e-6, 0.1, 10.0]),
    st.sampled_from(SPREADS),
)
def test_never_negative_and_joint(seed, n, width, noise, spread):
    X, Z, solution = fitted(seed, n, noise=noise, width=width)
    rows = np.vstack([Z, X[:15], X[:2], 50 + X[:2]])
    k, block = kernel(rows, Z, width), kernel(rows, rows, width)
    variance = spread.variance(solution, k, np.diag(block))
    assert np.all(variance >= 0)
    covariance = spread.covariance(solution, k, block)
    np.testing.assert_array_equal(covariance, covariance.T)
    np.testing.assert_allclose(np.diag(covariance), variance, rtol=1e-9, atol=1e-12)
    assert np.linalg.eigvalsh(covariance)[0] > -1e-7 * max(variance.max(), 1.0)


@each_spread
def test_far_from_the_basis_the_prior_is_given_back(spread):
    _, Z, solution = fitted()
    far = np.array([[40.0, 0.0], [0.0, -1e6]])
    variance = spread.variance(solution, kernel(far, Z), np.full(2, 1.7))
    np.testing.assert_allclose(variance, 1.7 * max(spread.missed, 1.0), rtol=1e-12)


@each_spread
def test_on_the_basis_nothing_is_missed(spread):
    _, Z, solution = fitted()
    k = kernel(Z, Z)
    U = np.linalg.solve(solution.L, np.linalg.solve(solution.R, k.T))
    found = spread.variance(solution, k, np.full(len(Z), 1.7))
    np.testing.assert_allclose(found, spread.noise * (U**2).sum(axis=0), atol=1e-7)


@each_spread
def test_slope_of_the_factor(spread):
    missed, prior, step = np.linspace(0, 2.0, 20), np.full(20, 2.0), 1e-6
    further = PredictiveVariance(spread.noise, spread.missed * np.exp(step))
    expected = (further.factor(missed, prior) - spread.factor(missed, prior)) / step
    np.testing.assert_allclose(spread.slope(missed, prior), expected, rtol=1e-5, atol=1e-12)


def test_the_guard_grows_with_the_share_that_is_missed():
    prior = np.full(50, 2.0)
    factor = PredictiveVariance(0.1, 0.01).factor(np.linspace(0, 2.0, 50), prior)
    assert factor[0] == pytest.approx(0.01)
    assert factor[-1] == pytest.approx(1.0)
    assert np.all(np.diff(factor) >= 0)
    assert factor[25] < 0.02, "half the variance missed is still calibrated"


def test_a_kernel_that_vanishes_has_no_variance():
    solution = fitted()[2]
    rows, zeros = np.zeros((3, solution.size)), np.zeros(3)
    for spread in SPREADS:
        np.testing.assert_array_equal(spread.variance(solution, rows, zeros), zeros)
