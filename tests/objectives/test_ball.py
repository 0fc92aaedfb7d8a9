"""Least squares over an l1 ball: the triangle, the steps, and the sums they rest on."""

from types import SimpleNamespace

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.bounds import hull_rate, hull_rate_from
from pursuit.greedy import CostMeter, Pursuit
from pursuit.objectives import L1BallRegression, triangle_step
from pursuit.solvers import bounded_least_squares

STEPS = ["corrective", "joint", "frank-wolfe"]


def sums(A, y):
    """What the objective needs, straight from the rows."""
    G, b = A.T @ A / len(y), A.T @ y / len(y)
    return SimpleNamespace(
        linear=b,
        diagonal=np.diag(G).copy(),
        square=float(y @ y / len(y)),
        image=lambda w: G @ w,
        block=lambda left, right: G[np.ix_(left, right)],
    )


def least_error(A, y, radius):
    """min mean (y - Aw)² over ‖w‖₁ ≤ r by projected gradient steps, accelerated."""
    m = len(y)
    L = 2 * np.linalg.norm(A, 2) ** 2 / m
    w = z = np.zeros(A.shape[1])
    t = 1.0
    for _ in range(20_000):
        new = oracles.onto_ball(z + 2 * A.T @ (y - A @ z) / m / L, radius)
        following = (1 + np.sqrt(1 + 4 * t * t)) / 2
        z = new + (t - 1) / following * (new - w)
        if np.abs(new - w).max() < 1e-14:
            break
        w, t = new, following
    return np.mean((y - A @ w) ** 2)


@given(seed=st.integers(0, 2**31), radius=st.floats(0.1, 5.0))
def test_the_triangle_step_equals_a_grid_search(seed, radius):
    rng = np.random.default_rng(seed)
    P = rng.normal(size=(6, 4))
    # v must lie in the ball, as it does in every step.
    v = P @ oracles.onto_ball(rng.normal(size=4), radius)
    y = rng.normal(size=6) * rng.uniform(0.1, 5)
    beta, c, decrease = triangle_step(
        float(v @ v), v @ P, np.einsum("ij,ij->j", P, P), float(v @ y), P.T @ y, radius
    )
    grid = np.linspace(0, 1, 201)
    b, share = np.meshgrid(grid, np.linspace(-1, 1, 401))
    for j in range(4):
        assert 0 <= beta[j] <= 1
        assert abs(c[j]) <= radius * (1 - beta[j]) * (1 + 1e-12) + 1e-15

        def error(beta, c, j=j):
            residual = y[:, None] - np.outer(v, beta) - np.outer(P[:, j], c)
            return np.einsum("ij,ij->j", residual, residual)

        on_grid = error(b.ravel(), (share * radius * (1 - b)).ravel()).min()
        found = error(beta[j : j + 1], c[j : j + 1])[0]
        assert found <= on_grid + 1e-10
        assert np.sum((y - v) ** 2) - found == pytest.approx(decrease[j], abs=1e-9)


@pytest.mark.parametrize("step", STEPS)
@given(seed=st.integers(0, 2**31), radius=st.floats(0.2, 10.0), n_steps=st.integers(1, 12))
def test_rate_gap_and_decrease(step, seed, radius, n_steps):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(30, 12))
    y = A @ (rng.normal(size=12) * (rng.random(12) < 0.4)) + rng.normal(size=30)
    objective = L1BallRegression(sums(A, y), radius, step=step, solve=bounded_least_squares)
    pursuit = Pursuit(objective, CostMeter(), scale=objective.start_value, every_step=True)
    values = [objective.value]
    for _ in range(n_steps):
        if pursuit.step():
            break
        values.append(objective.value)
    objective.refresh()
    w = objective.coefficients
    assert np.abs(w).sum() <= radius * (1 + 1e-9)
    assert objective.value == pytest.approx(np.mean((y - A @ w) ** 2), rel=1e-9, abs=1e-12)
    assert np.all(np.diff(values) < 0)
    least = min(least_error(A, y, radius), objective.value)
    excess, k, M = objective.value - least, np.array([len(values) - 1]), objective.curvature
    assert pytest.approx(2 * radius**2 * (A**2).mean(axis=0).max()) == M
    assert excess <= hull_rate(k, M)[0] + 1e-9
    assert excess <= hull_rate_from(k, M, values[0] - least)[0] + 1e-9
    assert objective.gap >= excess - 1e-9


def test_corrective_steps_pass_over_the_rows_once_a_shortlist():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(300, 120))
    y = A[:, :30].sum(axis=1) + rng.normal(size=300)
    known, passes = sums(A, y), []
    counted = SimpleNamespace(
        **{**vars(known), "image": lambda w: passes.append(1) or known.image(w)}
    )
    objective = L1BallRegression(counted, 20.0, step="corrective", solve=bounded_least_squares)
    path = Pursuit(objective, CostMeter(), scale=objective.start_value, every_step=True).run([])
    assert objective.gap < 1e-9
    assert len(passes) < 0.5 * len(path)


def test_a_wider_ball_goes_on_from_the_smaller_one():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(100, 40))
    y = A[:, :5].sum(axis=1) + 0.1 * rng.normal(size=100)
    objective = L1BallRegression(sums(A, y), 1.0, step="corrective", solve=bounded_least_squares)
    for radius in (1.0, 2.0, 4.0):
        objective.widen(radius)
        Pursuit(objective, CostMeter(), scale=1.0).run([])
        objective.refresh()
        assert objective.value == pytest.approx(least_error(A, y, radius), abs=1e-8)
        assert objective.gap <= 1e-8


def test_looking_at_what_is_available_makes_no_pass():
    """Passes belong to steps: reading a property may not cost one."""
    rng = np.random.default_rng(5)
    A = rng.normal(size=(60, 50))
    y = A[:, :10] @ rng.normal(size=10)
    G, passes = A.T @ A / 60, []

    class Sums:
        linear, diagonal, square = A.T @ y / 60, np.diag(G), float(y @ y / 60)

        def image(self, w):
            passes.append(w)
            return G @ w

        def block(self, left, right):
            return G[np.ix_(left, right)]

    objective = L1BallRegression(Sums(), 2.0, step="corrective", solve=bounded_least_squares)
    assert not passes
    for _ in range(40):
        before = len(passes)
        free = np.flatnonzero(objective.available)
        gains = objective.score(free)
        assert len(passes) == before
        if not len(free) or gains.max() <= 1e-12 * objective.start_value:
            break
        objective.add(int(free[gains.argmax()]))
    objective.refresh()
    known = len(passes)
    objective.refresh()
    assert len(passes) == known
    assert objective.gap <= 1e-9 * objective.start_value
