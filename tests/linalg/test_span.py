"""The solution in a span, against dense solves."""

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit import limits
from pursuit.linalg import PredictiveVariance, SpanSolution


def random_span(seed, n=6, m=25, n_outputs=2):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((m, n + 4))
    K = features @ features.T
    K_S, K_SS = K[:, :n], K[:n, :n]
    Y = rng.standard_normal((m, n_outputs))
    w = rng.uniform(0.2, 2.0, m)
    return K, K_S, K_SS, Y, w


def solve(K_S, K_SS, Y, w, noise):
    R = np.linalg.cholesky(K_SS)
    gram = K_S.T @ (w[:, None] * K_S)
    return SpanSolution.from_gram(R, gram, K_S.T @ (w[:, None] * Y), noise)


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.sampled_from([1e-3, 0.1, 10.0]))
def test_minimises_the_objective(seed, n, noise):
    _, K_S, K_SS, Y, w = random_span(seed, n)
    solution = solve(K_S, K_SS, Y, w, noise)
    beta = oracles.span_fit(K_S, K_SS, Y, w, noise)
    np.testing.assert_allclose(solution.coefficients(), beta, rtol=1e-6, atol=1e-8)
    value = 0.5 * (w @ Y**2) - solution.gains().sum(axis=0)
    np.testing.assert_allclose(value, oracles.primal(K_S, K_SS, beta, Y, w, noise), rtol=1e-9)
    f = solution.features(K_S).T @ solution.coordinates()
    np.testing.assert_allclose(f, K_S @ beta, rtol=1e-6, atol=1e-8)
    assert solution.size == n


@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_truncations_are_the_solutions_in_smaller_spans(seed, n):
    _, K_S, K_SS, Y, w = random_span(seed, 7)
    whole = solve(K_S, K_SS, Y, w, 0.3)
    small = whole.truncated(n)
    alone = solve(K_S[:, :n], K_SS[:n, :n], Y, w, 0.3)
    for name in ("R", "L", "z"):
        np.testing.assert_allclose(getattr(small, name), getattr(alone, name), atol=1e-10)
    np.testing.assert_allclose(small.coefficients(), alone.coefficients(), rtol=1e-8, atol=1e-10)
    assert small.noise == whole.noise
    small.z[:] = 0
    assert np.all(whole.z[:n] != 0), "a truncation shares no memory"


def test_whitened_statistics_give_the_same_solution():
    _, K_S, K_SS, Y, w = random_span(1)
    R = np.linalg.cholesky(K_SS)
    V = np.linalg.solve(R, K_S.T).T
    gram, cross = V.T @ (w[:, None] * V), V.T @ (w[:, None] * Y)
    whitened = SpanSolution.from_whitened(R, gram, cross, 0.2)
    plain = solve(K_S, K_SS, Y, w, 0.2)
    np.testing.assert_allclose(whitened.L, plain.L, atol=1e-10)
    np.testing.assert_allclose(whitened.z, plain.z, atol=1e-10)


def test_the_statistics_given_are_not_changed(read_only):
    _, K_S, K_SS, Y, w = random_span(2)
    R = read_only(np.linalg.cholesky(K_SS))
    gram, cross = read_only(K_S.T @ (w[:, None] * K_S)), read_only(K_S.T @ (w[:, None] * Y))
    SpanSolution.from_gram(R, gram, cross, 0.1)
    SpanSolution.from_whitened(R, gram, cross, 0.1)


def test_rounding_that_eats_the_ridge_is_said():
    with pytest.raises(ArithmeticError, match=r"V'WV \+ 0\.1 I lost positive.*at column 1"):
        SpanSolution.from_whitened(np.eye(2), np.diag([1.0, -1.0]), np.ones((2, 1)), 0.1)


def test_another_noise_is_another_solution():
    _, K_S, K_SS, Y, w = random_span(4)
    changed = solve(K_S, K_SS, Y, w, 0.2).with_noise(3.0)
    expected = solve(K_S, K_SS, Y, w, 3.0)
    assert changed.noise == 3.0
    np.testing.assert_allclose(changed.coefficients(), expected.coefficients(), rtol=1e-8)


def test_products_with_the_inverse():
    _, K_S, K_SS, Y, w = random_span(5)
    solution = solve(K_S, K_SS, Y, w, 0.2)
    cross = np.random.default_rng(0).standard_normal((6, 3))
    H = K_S.T @ (w[:, None] * K_S) + 0.2 * K_SS
    inside = np.linalg.solve(H, cross)
    beta, squares = solution.solve_inner(cross)
    np.testing.assert_allclose(beta, inside, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(squares, (inside * (K_SS @ inside)).sum(axis=0), rtol=1e-8)
    V = solution.features(K_S)
    f = solution.rotated(V).T @ solution.z
    np.testing.assert_allclose(f, K_S @ solution.coefficients(), atol=1e-9)


# Spread


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-2, 1.0]))
def test_variance_and_covariance_against_their_formula(seed, noise):
    K, K_S, K_SS, Y, w = random_span(seed, n=5)
    solution = solve(K_S, K_SS, Y, w, noise)
    # Posterior of f = k_S'K_SS⁻¹g + rest, with g seen through y and the rest unseen (Formulas §11).
    inner = K_SS + K_S.T @ (w[:, None] * K_S) / noise
    nystroem = K_S @ np.linalg.solve(K_SS, K_S.T)
    covariance = K - nystroem + K_S @ np.linalg.solve(inner, K_S.T)
    spread = PredictiveVariance(noise)
    np.testing.assert_allclose(spread.covariance(solution, K_S, K), covariance, atol=1e-7)
    variance = spread.variance(solution, K_S, np.diag(K))
    np.testing.assert_allclose(variance, np.diag(covariance), atol=1e-7)


@pytest.mark.parametrize("missed", [0.1, 1.0])
def test_the_diagonal_of_the_covariance_is_the_variance(missed):
    K, K_S, K_SS, Y, w = random_span(6)
    solution, spread = solve(K_S, K_SS, Y, w, 0.3), PredictiveVariance(0.2, missed)
    covariance = spread.covariance(solution, K_S, K)
    np.testing.assert_allclose(
        np.diag(covariance), spread.variance(solution, K_S, np.diag(K)), rtol=1e-12
    )
    np.testing.assert_array_equal(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance).min() > -1e-9


def test_far_from_the_basis_the_prior_is_given_back():
    _, K_S, K_SS, Y, w = random_span(7)
    solution = solve(K_S, K_SS, Y, w, 0.3)
    nothing = np.zeros((2, 6))
    prior = np.array([3.0, 0.0])
    np.testing.assert_allclose(
        PredictiveVariance(0.3, 0.01).variance(solution, nothing, prior), prior
    )


@pytest.mark.parametrize("lie", [0.0, 1e-9, 1e-3])
def test_variance_is_never_negative(lie):
    """At the basis points k(x,x) - ‖V_x‖² is 0 but for rounding; here it is pushed below."""
    _, K_S, K_SS, Y, w = random_span(3)
    solution, spread = solve(K_S, K_SS, Y, w, 1e-12), PredictiveVariance(1e-12)
    prior = np.diag(K_SS) * (1 - lie)
    variance = spread.variance(solution, K_SS, prior)
    assert np.all(variance >= 0)
    assert np.all(variance <= 1e-9 * np.diag(K_SS))
    covariance = spread.covariance(solution, K_SS, K_SS - lie * np.diag(np.diag(K_SS)))
    assert np.all(np.diag(covariance) >= 0)


def solve_features(K_S, K_SS, y, w, noise):
    """As `solve`, from features: sums of products of kernel values would lose small pivots."""
    R = np.linalg.cholesky(K_SS)
    V = np.linalg.solve(R, K_S.T)
    return SpanSolution.from_whitened(R, (V * w) @ V.T, V @ (w[:, None] * y), noise)


@pytest.mark.parametrize("distance", [1e-7, 1e-5])
def test_a_damped_solution_bounds_the_coefficients_of_points_that_nearly_coincide(distance):
    X = np.random.default_rng(0).standard_normal((20, 2))
    X[5] = X[2] + distance
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    K_S, K_SS, y, w = K[:, :6], K[:6, :6], X[:, :1] ** 3, np.linspace(0.5, 2.0, 20)
    plain = solve_features(K_S, K_SS, y, w, 0.1)
    damped = plain.damped()
    tau = 2.0 * limits.ADDED_TOLERANCE
    if distance > 1e-6:
        # Its pivot is above the tolerance, and nothing changes.
        assert damped is plain
        return
    expected = oracles.span_fit(K_S, K_SS + tau * np.diag(np.diag(K_SS)), y, w, 0.1)
    np.testing.assert_allclose(K_S @ damped.coefficients(), K_S @ expected, atol=1e-6)
    assert np.abs(damped.coefficients()).max() < 1e-2 * np.abs(plain.coefficients()).max()
    assert damped.damped() is damped
    # The sum that is minimised is bounded by its value at f = 0.
    penalty = 0.1 * tau * (damped.coefficients() ** 2).sum()
    assert penalty <= float(w @ y[:, 0] ** 2)
    value = 0.5 * float(w @ y[:, 0] ** 2) - float(damped.gains().sum())
    own = oracles.primal(K_S, K_SS, damped.coefficients(), y, w, 0.1)[0]
    assert value == pytest.approx(own + 0.5 * penalty, rel=1e-6)


def test_a_damped_solution_is_the_same_before_and_after_rows_are_added():
    X = np.random.default_rng(0).standard_normal((20, 2))
    X[5] = X[2] + 1e-7
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    first = solve_features(K[:10, :6], K[:6, :6], X[:10, :1], np.ones(10), 0.1)
    later = first.emptied().damped()
    V = later.features(K[10:, :6])
    later = later.plus(V @ V.T, V @ X[10:, :1])
    both = first.damped().plus(*later.whitened())
    np.testing.assert_array_equal(both.R, later.R)
    W = first.damped().features(K[:, :6])
    whole = SpanSolution.from_whitened(both.R, W @ W.T, W @ X[:, :1], 0.1)
    np.testing.assert_allclose(both.z, whole.z, atol=1e-8)
