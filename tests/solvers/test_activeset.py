"""Bounded least squares against its optimality conditions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.solvers import bounded_least_squares


def problem(seed, n, dependent=False):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(3 * n, n))
    if dependent:
        A[:, -1] = A[:, 0]
    y = A @ rng.normal(size=n) + rng.normal(size=3 * n)
    return A.T @ A / len(A), A.T @ y / len(A)


@pytest.mark.parametrize("fixed", [False, True])
@given(seed=st.integers(0, 2**31), n=st.integers(1, 12), total=st.floats(0.05, 20))
def test_optimality_conditions(fixed, seed, n, total):
    """Feasible, one multiplier for all positive coefficients, none above it for the others."""
    G, b = problem(seed, n)
    start = np.full(n, total / n) if fixed else np.zeros(n)
    u = bounded_least_squares(G, b, start, total, fixed=fixed)
    assert np.all(u >= 0)
    assert u.sum() <= total * (1 + 1e-9)
    gradient = b - G @ u
    if fixed:
        assert u.sum() == pytest.approx(total, rel=1e-9)
    multiplier = gradient[u > 0].mean() if np.any(u > 0) else max(gradient.max(), 0.0)
    if not fixed:
        assert multiplier >= -1e-8
        if u.sum() < total * (1 - 1e-9):
            assert multiplier == pytest.approx(0.0, abs=1e-8)
    assert gradient[u > 0] == pytest.approx(multiplier, abs=1e-8)
    assert np.all(gradient <= multiplier + 1e-7)


@given(seed=st.integers(0, 2**31))
def test_never_worse_than_the_start(seed):
    G, b = problem(seed, 8, dependent=True)
    rng = np.random.default_rng(seed)
    start = rng.dirichlet(np.ones(8))
    u = bounded_least_squares(G, b, start, 1.0)

    def value(x):
        return 0.5 * x @ G @ x - b @ x

    assert value(u) <= value(start) + 1e-12
