"""The formulas of duality, against dense algebra."""

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tasks import tasks

from pursuit import rounding
from pursuit.bounds import (
    dense_lower_bound,
    evidence_bounds,
    hybrid_step,
    l1_lower_bound,
    minimum_upper_bound,
    primal_value,
    scaled_lower_bound,
    sparse_lower_bound,
)

seeds = st.integers(0, 2**32 - 1)


def dots(a, b):
    return np.einsum("io,io->o", a, b)


def random_dual_point(task, seed, near):
    """Some v; ``near`` 0 is anything, 1 is the optimum."""
    rng = np.random.default_rng(seed)
    A = task.K + task.noise * np.diag(1 / task.w)
    optimum = np.linalg.solve(A, task.Y)
    anything = rng.standard_normal(task.Y.shape) * np.abs(optimum).max()
    v = near * optimum + (1 - near) * anything
    return A, v


@given(tasks(), seeds)
def test_primal_value(task, seed):
    K, S = task.K, list(range(len(task.X) // 2 + 1))
    beta = np.random.default_rng(seed).standard_normal((len(S), task.Y.shape[1]))
    norms = dots(beta, K[np.ix_(S, S)] @ beta)
    found = primal_value(task.w @ (task.Y - K[:, S] @ beta) ** 2, norms, task.noise)
    expected = oracles.primal(K[:, S], K[np.ix_(S, S)], beta, task.Y, task.w, task.noise)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@given(tasks(), seeds, st.sampled_from([0.0, 0.5, 0.99, 1.0]))
def test_lower_bounds_lie_below_the_minimum_and_each_other(task, seed, near):
    A, v = random_dual_point(task, seed, near)
    Y, s2 = task.Y, task.noise
    Av = A @ v
    minimum = oracles.least_primal(task.K, Y, task.w, s2)
    slack = 1e-9 * np.abs(minimum)
    dense = dense_lower_bound(dots(Y, v), dots(v, Av), s2)
    np.testing.assert_allclose(
        dense, oracles.dual(task.K, v, Y, task.w, s2), atol=1e-9 * np.abs(dense).max()
    )
    scaled = scaled_lower_bound(rounding.dots(Y, v), rounding.dots(v, Av), s2).value
    assert np.all(dense <= scaled + slack)
    assert np.all(scaled <= minimum + slack)
    for c in (0.5, 0.9, 1.1, 2.0):
        best = dots(Y, v) / dots(v, Av)
        assert np.all(oracles.dual(task.K, c * best * v, Y, task.w, s2) <= scaled + slack)

    chosen = list(range(0, len(Y), 2))
    C = np.linalg.cholesky(A[np.ix_(chosen, chosen)])
    z = np.linalg.solve(C, Y[chosen])
    sparse = sparse_lower_bound(z, s2)
    a = np.zeros_like(Y)
    a[chosen] = np.linalg.solve(A[np.ix_(chosen, chosen)], Y[chosen])
    np.testing.assert_allclose(sparse, oracles.dual(task.K, a, Y, task.w, s2), rtol=1e-7)
    border = np.linalg.solve(C, Av[chosen])
    step = hybrid_step(dots(Y, v), dots(v, Av), border, z)
    point = step * v
    point[chosen] += np.linalg.solve(C.T, z - border * step)
    hybrid = oracles.dual(task.K, point, Y, task.w, s2)
    assert np.all(sparse <= hybrid + slack)
    assert np.all(scaled <= hybrid + 1e-6 * np.abs(minimum))
    assert np.all(hybrid <= minimum + 1e-6 * np.abs(minimum))


@given(tasks(), seeds, st.sampled_from([0.0, 0.5, 0.99, 1.0]))
def test_the_upper_bound_on_the_minimum(task, seed, near):
    A, v = random_dual_point(task, seed, near)
    Y, w, s2 = task.Y, task.w[:, None], task.noise
    rho = Y - A @ v
    S = np.unique(task.X, axis=0, return_index=True)[1][:3]
    K_SS = task.K[np.ix_(S, S)] + 1e-8 * np.eye(len(S))
    V = np.linalg.solve(np.linalg.cholesky(K_SS), task.K[S]).T
    L = np.linalg.cholesky(V.T @ (w * V) + s2 * np.eye(len(S)))
    u = np.linalg.solve(L.T, np.linalg.solve(L, V.T @ (w * rho)))
    leftover = 0.5 * task.w @ (rho - V @ u) ** 2 + 0.5 * s2 * (u**2).sum(axis=0)
    found = minimum_upper_bound(dots(Y, v), dots(v, A @ v), leftover, s2)
    minimum = oracles.least_primal(task.K, Y, task.w, s2)
    assert np.all(found >= minimum * (1 - 1e-6))
    if near == 1:
        np.testing.assert_allclose(found, minimum, rtol=1e-6)


def test_no_dual_point_no_bound():
    nothing = np.zeros(2)
    exact = rounding.Rounded.of(nothing)
    np.testing.assert_array_equal(scaled_lower_bound(exact, exact, 0.1).value, [0, 0])
    z = np.array([[3.0, 4.0]])
    np.testing.assert_array_equal(hybrid_step(nothing, nothing, np.zeros((1, 2)), z), [0, 0])


@given(tasks(), st.data())
def test_evidence_lies_between_its_bounds(task, data):
    m, o = task.Y.shape
    K, s2 = task.K, task.noise
    n = data.draw(st.integers(1, m))
    S = np.unique(task.X, axis=0, return_index=True)[1][:n]
    K_SS = K[np.ix_(S, S)] + 1e-10 * np.eye(len(S))
    V = np.linalg.solve(np.linalg.cholesky(K_SS), K[S]).T
    w = task.w[:, None]
    L = np.linalg.cholesky(V.T @ (w * V) + s2 * np.eye(len(S)))
    bounds = evidence_bounds(
        L,
        np.linalg.solve(L, V.T @ (w * task.Y)),
        task.w @ task.Y**2,
        float(task.w @ np.diag(K)),
        s2,
        m,
        float(np.log(task.w).sum()),
    )
    A = K + s2 * np.diag(1 / task.w)
    quadratic = dots(task.Y, np.linalg.solve(A, task.Y)).sum()
    exact = -0.5 * quadratic - 0.5 * o * (np.linalg.slogdet(A)[1] + m * np.log(2 * np.pi))
    slack = 1e-7 * (abs(exact) + quadratic)
    assert bounds.lower - slack <= exact <= bounds.upper + slack
    assert bounds.n_values == m * o
    if len(S) == len(np.unique(task.X, axis=0)):
        # Nothing is missed, so both bounds are the evidence itself.
        assert bounds.lower == pytest.approx(exact, abs=1e-5 * (abs(exact) + quadratic))
        assert bounds.upper == pytest.approx(exact, abs=1e-5 * (abs(exact) + quadratic))


def test_huge_targets_do_not_overflow():
    """(y'v)² may overflow where the bound does not."""
    linear, quadratic = (rounding.Rounded.of(np.array([one])) for one in (1e160, 1e170))
    np.testing.assert_allclose(scaled_lower_bound(linear, quadratic, 1.0).value, [0.5e150])


def test_the_l1_bound_is_the_best_feasible_multiple():
    """By a fine grid of s, and never above the value of any coefficients."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        K, y, w = rng.normal(size=(8, 8)), rng.normal(size=8), rng.uniform(0.1, 2, 8)
        alpha = float(10.0 ** rng.uniform(-1, 1))
        a = rng.normal(size=8)
        r = y - K @ a
        largest = float(np.abs(K.T @ (w * r)).max())
        linear, quadratic = (rounding.Rounded.of(one @ (w * r)) for one in (y, r))
        found = float(l1_lower_bound(linear, quadratic, largest, alpha).value)
        s = np.linspace(-alpha / largest, alpha / largest, 20_001)
        grid = s * (y @ (w * r)) - 0.5 * s**2 * (r @ (w * r))
        assert grid.max() - 1e-12 <= found <= grid.max() + 1e-6
        for other in (a, np.zeros(8), 0.1 * rng.normal(size=8)):
            value = 0.5 * w @ (y - K @ other) ** 2 + alpha * np.abs(other).sum()
            assert found <= value + 1e-12
    nothing = rounding.Rounded.of(0.0)
    assert l1_lower_bound(nothing, nothing, 0.0, 1.0).low == 0.0
