"""Newton's method in a span, against other solvers and against its own optimality conditions."""

import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from pursuit.linalg import Workers
from pursuit.objectives import (
    ExpectileRows,
    LogisticRows,
    PoissonRows,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from pursuit.solvers import newton


def problem(seed, m=60, n=4, n_outputs=2, scale=1.0):
    rng = np.random.default_rng(seed)
    F = np.column_stack([np.ones(m), rng.normal(size=(m, n - 1)) * scale])
    noise = rng.logistic(size=(m, n_outputs))
    Y = np.where(F @ rng.normal(size=(n, n_outputs)) + noise > 0, 1.0, -1.0)
    return F, Y, rng.uniform(0.2, 3.0, m)


def solve(F, Y, w, ridge, n_jobs=1, start=None, loss=None, **options):
    start = np.zeros((F.shape[1], Y.shape[1])) if start is None else start
    with Workers(n_jobs) as workers:
        return newton(
            F.__getitem__,
            loss or LogisticRows(),
            Y,
            w,
            start=start,
            ridge=ridge,
            workers=workers,
            **options,
        )


def objective(beta, F, y, w, ridge):
    """Value and gradient, written out."""
    odds = np.exp(-y * (F @ beta))
    value = w @ np.log1p(odds) + 0.5 * ridge @ beta**2
    return float(value), F.T @ (-w * y * odds / (1 + odds)) + ridge * beta


@given(st.integers(0, 10**6), st.sampled_from([1e-3, 0.1, 10.0]))
def test_a_general_minimiser_finds_nothing_better(seed, ridge):
    F, Y, w = problem(seed)
    rho = np.full(F.shape[1], ridge)
    found = solve(F, Y, w, rho)
    assert found.converged
    for column in range(Y.shape[1]):
        y = Y[:, column]
        other = minimize(objective, np.zeros(len(rho)), (F, y, w, rho), jac=True, tol=1e-12)
        at, _ = objective(found.coefficients[:, column], F, y, w, rho)
        assert at <= other.fun * (1 + 1e-9) + 1e-9
        assert found.value[column] == pytest.approx(at, rel=1e-10)


def test_scikit_learn_agrees():
    F, Y, w = problem(3, m=200, n_outputs=1)
    peer = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-12, max_iter=10_000)
    peer.fit(F, Y[:, 0], sample_weight=w)
    found = solve(F, Y, w, np.full(F.shape[1], 2.0))
    np.testing.assert_allclose(found.coefficients[:, 0], peer.coef_[0], atol=1e-5)


def test_another_step_promises_nothing():
    F, Y, w = problem(5, m=3000, n=20, n_outputs=3)
    rho = np.full(20, 1e-3)
    beta = solve(F, Y, w, rho).coefficients
    loss = LogisticRows()
    bends = w[:, None] * loss.curvature(F @ beta, Y)
    slopes = F.T @ (w[:, None] * loss.gradient(F @ beta, Y)) + rho[:, None] * beta
    for slope, bend in zip(slopes.T, bends.T, strict=True):
        decrement = slope @ np.linalg.solve(F.T @ (bend[:, None] * F) + np.diag(rho), slope)
        assert 0.5 * decrement <= 1e-10 * np.log(2) * w.sum()


def test_columns_know_nothing_of_each_other():
    F, Y, w = problem(7, n_outputs=3)
    rho = np.full(F.shape[1], 0.1)
    together = solve(F, Y, w, rho).coefficients
    for column in range(3):
        alone = solve(F, Y[:, [column]], w, rho).coefficients[:, 0]
        np.testing.assert_allclose(together[:, column], alone, rtol=1e-6, atol=1e-8)


def test_a_weight_of_two_is_two_rows():
    F, Y, _ = problem(9)
    w = np.where(np.arange(len(F)) % 3 == 0, 2.0, 1.0)
    rho = np.full(F.shape[1], 0.1)
    twice = np.repeat(np.arange(len(F)), w.astype(int))
    one = solve(F, Y, w, rho).coefficients
    two = solve(F[twice], Y[twice], np.ones(len(twice)), rho).coefficients
    np.testing.assert_allclose(one, two, rtol=1e-8)


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e-4])
def test_separable_classes_have_an_answer_with_a_ridge(scale):
    rng = np.random.default_rng(0)
    F = rng.normal(size=(40, 2))
    y = np.sign(F[:, :1])
    F[:, :1] += y
    F *= scale
    found = solve(F, y, np.ones(40), 1e-3 * (F**2).mean(axis=0))
    assert found.converged
    assert np.all(np.sign(F @ found.coefficients) == y)
    assert np.isfinite(found.coefficients).all()


def test_a_start_far_away_is_walked_back_from():
    F, Y, w = problem(11)
    rho = np.full(F.shape[1], 1e-2)
    near, far = solve(F, Y, w, rho), solve(F, Y, w, rho, start=np.full((4, 2), 500.0))
    assert far.converged
    np.testing.assert_allclose(far.value, near.value, rtol=1e-8)


def test_steps_run_out():
    F, Y, w = problem(13)
    found = solve(F, Y, w, np.full(F.shape[1], 1e-3), max_steps=1)
    assert (found.steps, found.converged) == (1, False)


def test_threads_do_not_change_a_bit():
    F, Y, w = problem(15, m=5000, n=30, n_outputs=2)
    rho = np.full(30, 1e-2)
    one, three = (solve(F, Y, w, rho, n_jobs=n).coefficients for n in (1, 3))
    assert np.array_equal(one, three)


LOSSES = {
    "logistic": LogisticRows(),
    "squared hinge": SquaredHinge(),
    "squared epsilon-insensitive": SquaredEpsilonInsensitive(0.3),
}


@given(st.floats(-30, 30), st.sampled_from([-1.0, 1.0]), st.sampled_from(sorted(LOSSES)))
def test_slopes_and_curvatures(f, y, name):
    loss, h = LOSSES[name], 1e-4
    corners = [y, y - 0.3, y + 0.3]
    if name != "logistic" and min(abs(f - corner) for corner in corners) < 2 * h:
        return  # the curvature jumps here
    here, target = np.array([f]), np.array([y])
    below, above = loss.value(here - h, target), loss.value(here + h, target)
    assert loss.gradient(here, target)[0] == pytest.approx(
        (above - below)[0] / (2 * h), abs=1e-7, rel=1e-7
    )
    slopes = loss.gradient(here - h, target), loss.gradient(here + h, target)
    bend = loss.curvature(here, target)[0]
    assert bend == pytest.approx((slopes[1] - slopes[0])[0] / (2 * h), abs=1e-7)
    assert 0 <= bend <= loss.most_curved


def machine_objective(beta, F, y, w, ridge, epsilon):
    """A squared hinge, or a squared tube of half width epsilon: value and gradient."""
    f = F @ beta
    if epsilon is None:
        slack = y * np.maximum(1 - y * f, 0)
    else:
        slack = np.sign(y - f) * np.maximum(np.abs(y - f) - epsilon, 0)
    return w @ slack**2 + 0.5 * ridge @ beta**2, -2 * F.T @ (w * slack) + ridge * beta


@given(st.integers(0, 10**6), st.sampled_from([None, 0.3]), st.sampled_from([1e-2, 1.0, 1e3]))
def test_of_machines_a_general_minimiser_finds_nothing_better(seed, epsilon, cost):
    F, Y, w = problem(seed)
    w = cost * w
    loss = SquaredHinge() if epsilon is None else SquaredEpsilonInsensitive(epsilon)
    rho = np.array([0.0, 1.0, 1.0, 1.0])
    found = solve(F, Y, w, rho, loss=loss)
    assert found.converged
    np.testing.assert_allclose(found.fitted, F @ found.coefficients, rtol=1e-9, atol=1e-9)
    for column, y in enumerate(Y.T):
        arguments = (F, y, w, rho, epsilon)
        other = minimize(machine_objective, np.zeros(4), arguments, jac=True, tol=1e-12)
        at, slope = machine_objective(found.coefficients[:, column], *arguments)
        assert at <= other.fun * (1 + 1e-8) + 1e-9
        assert np.abs(slope).max() <= 1e-4 * w.sum()


@pytest.mark.parametrize("cost", [1e2, 1e4, 1e6, 1e8, 1e10])
@pytest.mark.parametrize("flips", [0.0, 0.1])
def test_of_machines_the_minimum_is_met_however_large_the_costs(cost, flips):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    y = np.where(X[:, 0] + 0.3 * X[:, 1] ** 2 > 0, 1.0, -1.0)
    y[rng.random(200) < flips] *= -1
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    F = np.column_stack([np.linalg.cholesky(K + 1e-10 * np.eye(200)), np.ones(200)])
    rho = np.append(np.ones(200), 0.0)
    found = solve(F, y[:, None], np.full(200, cost), rho, loss=SquaredHinge())
    assert found.converged
    # Weak duality, at the dual point of the slacks with its heavier side scaled down.
    a = 2.0 * cost * y * np.maximum(1.0 - y * found.fitted[:, 0], 0.0)
    light = min(a[a > 0].sum(), -a[a < 0].sum())
    a *= np.where(a > 0, light / a[a > 0].sum(), -light / a[a < 0].sum())
    dual = y @ a - 0.5 * np.sum((F[:, :-1].T @ a) ** 2) - 0.25 * a @ a / cost
    assert found.value[0] - dual <= 1e-6 * found.value[0]


def test_rows_of_no_cost_in_a_column_are_not_there():
    F, Y, _ = problem(17, n_outputs=2)
    costs = np.ones(Y.shape)
    costs[::3, 0], costs[1::2, 1] = 0.0, 0.0
    rho = np.full(F.shape[1], 0.1)
    found = solve(F, Y, costs, rho, loss=SquaredHinge()).coefficients
    for column in range(2):
        seen = costs[:, column] > 0
        alone = solve(F[seen], Y[seen][:, [column]], np.ones(seen.sum()), rho, loss=SquaredHinge())
        np.testing.assert_allclose(found[:, column], alone.coefficients[:, 0], atol=1e-9)


@pytest.mark.parametrize("cost", [1.0, 1e4])
def test_float32_features_have_their_own_minimum_found_in_float64(cost):
    F, Y, w = problem(19, m=3000, n=40, n_outputs=2)
    F = F.astype(np.float32)
    rho = np.ones(40)
    single = solve(F, Y, cost * w, rho, loss=SquaredHinge())
    double = solve(F.astype(np.float64), Y, cost * w, rho, loss=SquaredHinge())
    assert single.converged
    np.testing.assert_allclose(single.value, double.value, rtol=1e-9)
    np.testing.assert_allclose(single.coefficients, double.coefficients, rtol=1e-5, atol=1e-6)


def test_float32_products_that_are_too_coarse_are_replaced():
    rng = np.random.default_rng(2)
    common = rng.normal(size=(2000, 1))
    F = (common + 1e-4 * rng.normal(size=(2000, 10))).astype(np.float32)
    Y = np.where(F @ rng.normal(size=(10, 1)) > 0, 1.0, -1.0)
    found = solve(F, Y, np.full(2000, 1e6), np.ones(10), loss=SquaredHinge())
    exact = solve(F.astype(np.float64), Y, np.full(2000, 1e6), np.ones(10), loss=SquaredHinge())
    assert found.converged
    np.testing.assert_allclose(found.value, exact.value, rtol=1e-8)
    assert found.steps <= 2 * exact.steps + 5


def test_columns_may_be_done_a_few_at_a_time(monkeypatch):
    F, Y, w = problem(21, n_outputs=5)
    rho = np.full(F.shape[1], 0.1)
    together = solve(F, Y, w, rho)
    module = importlib.import_module("pursuit.solvers.newton")
    monkeypatch.setattr(module, "_HELD_MATRICES", 2 * F.shape[1] ** 2)
    apart = solve(F, Y, w, rho)
    np.testing.assert_allclose(apart.coefficients, together.coefficients, atol=1e-12)
    np.testing.assert_allclose(apart.fitted, together.fitted, atol=1e-12)


def test_features_are_asked_for_by_slices_only():
    F, Y, w = problem(23)
    asked = []

    def features(rows):
        asked.append(rows)
        return F[rows]

    with Workers(1) as workers:
        newton(
            features,
            SquaredHinge(),
            Y,
            w,
            start=np.zeros((4, 2)),
            ridge=np.ones(4),
            workers=workers,
        )
    assert asked
    assert all(isinstance(rows, slice) for rows in asked)


def counts(seed, m=60, n=4):
    rng = np.random.default_rng(seed)
    F = np.column_stack([np.ones(m), rng.normal(size=(m, n - 1))])
    o = rng.normal(size=m)
    y = rng.poisson(np.exp(F @ rng.normal(size=n) * 0.5 + o)).astype(float)
    return F, y[:, None], o


@given(st.integers(0, 10**6))
def test_an_offset_is_a_feature_with_coefficient_one(seed):
    """Poisson regression with an offset, against a general minimiser; the objective is negative."""
    F, Y, o = counts(seed)
    w, rho = np.ones(len(Y)), np.full(F.shape[1], 0.1)
    found = solve(F, Y, w, rho, loss=PoissonRows(), offset=o)
    assert found.converged

    def value(beta):
        f = F @ beta + o
        gradient = F.T @ (np.exp(f) - Y[:, 0]) + rho * beta
        return float((np.exp(f) - Y[:, 0] * f).sum() + 0.5 * rho @ beta**2), gradient

    other = minimize(value, found.coefficients[:, 0] + 0.1, jac=True, tol=1e-12)
    at, gradient = value(found.coefficients[:, 0])
    assert at <= other.fun + 1e-9 * abs(other.fun)
    assert np.abs(gradient).max() <= 1e-3 * Y.sum()
    np.testing.assert_allclose(found.fitted[:, 0], F @ found.coefficients[:, 0] + o, atol=1e-12)


@pytest.mark.parametrize("intercept", [-700.0, -40.0, 40.0, 300.0])
def test_a_start_where_an_exponential_is_flat_or_huge(intercept):
    F, Y, o = counts(1)
    w, rho = np.ones(len(Y)), np.full(F.shape[1], 0.1)
    good = solve(F, Y, w, rho, loss=PoissonRows(), offset=o)
    start = np.zeros((F.shape[1], 1))
    start[0] = intercept
    far = solve(F, Y, w, rho, loss=PoissonRows(), offset=o, start=start)
    assert far.converged
    np.testing.assert_allclose(far.coefficients, good.coefficients, atol=1e-4)


def test_an_objective_of_zero_is_reached():
    """Where the minimum is 0 no decrease is small beside it; what rounding leaves is enough."""
    F = np.random.default_rng(0).normal(size=(30, 3))
    Y = np.zeros((30, 1))
    w, rho = np.ones(30), np.full(3, 1e-3)
    start = np.full((3, 1), 5.0)
    found = solve(F, Y, w, rho, loss=ExpectileRows(0.3), start=start)
    assert found.converged
    assert found.steps < 20
    assert found.value[0] < 1e-25
