"""Interior point against weak duality, which no wrong answer passes, and against LIBSVM."""

import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import linprog, lsq_linear
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC, SVR, OneClassSVM

from pursuit.linalg import Workers
from pursuit.solvers import interior_point, ridge_start
from pursuit.solvers.barrier import NewtonSystem, Programme, largest_eigenvalue


def solve(V, *args, n_jobs=1, **options):
    with Workers(n_jobs) as workers:
        return interior_point(V, *args, workers=workers, **options)


def primal(a, V, diagonal, linear):
    V = np.asarray(V, dtype=np.float64)
    return 0.5 * a @ (V @ (V.T @ a)) + 0.5 * np.sum(diagonal * a * a) + linear @ a


def dual(found, V, diagonal, linear, lower, upper, E, e):
    """The Lagrangian's minimum over the box, a variable at a time; V'a and λ as returned."""
    V = np.asarray(V, dtype=np.float64)
    u, multipliers = V.T @ found.a, found.multipliers
    slope = V @ u + linear + E.T @ multipliers
    total = -0.5 * u @ u - multipliers @ e
    for h, d, low, high in zip(slope, diagonal, lower, upper, strict=True):
        ends = [t for t in (low, high) if np.isfinite(t)]
        ends += [min(max(-h / d, low), high)] if d > 0 else []
        total += min(0.5 * d * t * t + h * t for t in ends)
    return total


def machine(m, n, C, seed=0):
    """Classes that overlap, features of a Gaussian kernel on n of the rows, and the box."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, 20))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * X[:, 4] > 0, 1.0, -1.0)
    y[rng.random(m) < 0.05] *= -1
    R = np.linalg.cholesky(rbf_kernel(X[:n], gamma=0.05) + 1e-10 * np.eye(n))
    V = np.linalg.solve(R, rbf_kernel(X[:n], X, gamma=0.05)).T.copy()
    return V, y, np.where(y > 0, 0.0, -C), np.where(y > 0, C, 0.0)


def full_rank(seed, m=120, gamma=0.3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, 3))
    values, U = np.linalg.eigh(rbf_kernel(X, gamma=gamma))
    return X, U * np.sqrt(np.maximum(values, 0.0)), rng


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 40),
    st.integers(0, 12),
    st.sampled_from([1e-3, 1.0, 100.0, 1e6]),
    st.sampled_from(["none", "some", "all"]),
    st.sampled_from(["zero", "some", "positive"]),
    st.integers(0, 2),
    st.booleans(),
)
# With all of Mehrotra's corrector after short predictors these go round in circles.
@example(732459369, 21, 11, 1e6, "none", "positive", 0, True)
@example(1441286525, 18, 14, 1e4, "none", "positive", 0, True)
@example(3687333962, 14, 8, 1e4, "none", "positive", 0, True)
def test_primal_and_dual_meet(seed, m, n, C, fixed, bent, equalities, duplicates):
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((m, n))
    linear = rng.standard_normal(m)
    if duplicates:
        V[m // 2 :], linear[m // 2 :] = V[: m - m // 2], linear[: m - m // 2]
    diagonal = (
        rng.uniform(0.01, 1.0, m)
        * {
            "zero": 0.0,
            "some": rng.integers(0, 2, m),
            "positive": 1.0,
        }[bent]
        * np.ones(m)
    )
    lower = rng.choice([0.0, -C], m)
    upper = lower + C * rng.uniform(0.5, 1.0, m)
    still = rng.random(m) < {"none": 0.0, "some": 0.3, "all": 1.0}[fixed]
    upper[still] = lower[still]
    upper[~still & (diagonal > 0) & (rng.random(m) < 0.3)] = np.inf
    E = rng.choice([-1.0, 1.0], (equalities, m))
    inner = np.where(np.isinf(upper), lower + C, 0.5 * (lower + upper))
    e = E @ inner
    found = solve(V, diagonal, linear, lower, upper, equality=E, equality_value=e, tol=1e-7)
    assert found.converged
    assert np.all((found.a >= lower) & (found.a <= upper))
    assert np.all(found.a[still] == lower[still])
    # No size counts as less than 1e-8 of that at the start.
    size = max(np.abs(found.a).sum(), 1e-8 * C)
    np.testing.assert_allclose(E @ found.a, e, atol=1e-6 * size)
    top = primal(found.a, V, diagonal, linear)
    bottom = dual(found, V, diagonal, linear, lower, upper, E, e)
    # What rounding may leave of sums of such terms, and of a minimum that is zero.
    terms = np.abs(linear) @ np.abs(found.a) + np.sum((np.abs(V).T @ np.abs(found.a)) ** 2)
    terms += diagonal @ found.a**2 + np.abs(found.multipliers) @ (np.abs(E) @ np.abs(found.a))
    rounding = 1e-12 * terms + 1e-14 * C * np.abs(linear).sum()
    tied = top + found.multipliers @ (E @ found.a - e)
    assert -rounding <= tied - bottom
    # A minimum of zero has no relative gap: no value counts as less than 1e-8 of that at the start.
    scale = max(abs(top), 1e-8 * abs(found.log.primal[0]))
    assert abs(top - bottom) <= 1.1e-7 * scale + rounding
    assert found.primal == pytest.approx(top, rel=1e-9, abs=rounding)
    assert found.dual == pytest.approx(bottom, rel=1e-9, abs=rounding)


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_classifier_is_that_of_libsvm(C):
    X, V, rng = full_rank(0)
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(len(X)) > 0, 1.0, -1.0)
    peer = SVC(C=C, gamma=0.3, tol=1e-8).fit(X, y)
    a = np.zeros(len(X))
    a[peer.support_] = peer.dual_coef_[0]
    lower, upper = np.where(y > 0, 0.0, -C), np.where(y > 0, C, 0.0)
    found = solve(V, 0.0, -y, lower, upper, equality=np.ones(len(y)), tol=1e-9)
    assert found.primal == pytest.approx(primal(a, V, 0.0, -y), rel=1e-6)
    machine = V @ found.coordinates + found.multipliers
    np.testing.assert_allclose(machine, peer.decision_function(X), atol=1e-4)
    np.testing.assert_allclose(found.coordinates, V.T @ found.a, atol=1e-9 * C)


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_regression_is_that_of_libsvm(C):
    X, V, rng = full_rank(1)
    y, epsilon, m = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(len(X)), 0.1, len(X)
    peer = SVR(C=C, gamma=0.3, epsilon=epsilon, tol=1e-8).fit(X, y)
    found = solve(
        lambda rows: np.vstack([V, -V])[rows],
        0.0,
        np.concatenate([epsilon - y, epsilon + y]),
        0.0,
        C,
        equality=np.repeat([1.0, -1.0], m),
        tol=1e-9,
    )
    a = np.zeros(m)
    a[peer.support_] = peer.dual_coef_[0]
    value = primal(a, V, 0.0, -y) + epsilon * np.abs(a).sum()
    assert found.primal == pytest.approx(value, rel=1e-6)
    predictions = V @ found.coordinates + found.multipliers
    np.testing.assert_allclose(predictions, peer.predict(X), atol=1e-4)


def test_a_tube_of_huge_cost_has_the_least_loss_there_is():
    """What remains of the machine for C → ∞ is a linear programme in u, b and the losses."""
    X, V, rng = full_rank(1)
    V, epsilon, C, m = V[:, -60:], 0.1, 1e10, len(X)
    y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(m)
    both = np.column_stack([V, np.ones(m)])
    least = linprog(
        np.repeat([0.0, 1.0], [61, m]),
        A_ub=np.block([[both, -np.eye(m)], [-both, -np.eye(m)]]),
        b_ub=np.concatenate([epsilon + y, epsilon - y]),
        bounds=[(None, None)] * 61 + [(0.0, None)] * m,
    )
    length = 0.5 * np.sum(least.x[:60] ** 2)
    assert length < 1e-5 * C * least.fun
    found = solve(
        np.vstack([V, -V]),
        0.0,
        np.concatenate([epsilon - y, epsilon + y]),
        0.0,
        C,
        equality=np.repeat([1.0, -1.0], m),
        tol=1e-4,
    )
    assert found.converged
    assert found.primal == pytest.approx(-C * least.fun, rel=1.2e-4)
    short = np.maximum(np.abs(V @ found.coordinates + found.multipliers - y) - epsilon, 0.0)
    assert short.sum() == pytest.approx(least.fun, rel=1.2e-4)


def test_one_class_is_that_of_libsvm():
    X, V, _ = full_rank(2)
    nu, m = 0.2, len(X)
    peer = OneClassSVM(nu=nu, gamma=0.3, tol=1e-8).fit(X)
    a = np.zeros(m)
    a[peer.support_] = peer.dual_coef_[0] / (nu * m)
    found = solve(
        V, 0.0, np.zeros(m), 0.0, 1 / (nu * m), equality=np.ones(m), equality_value=1.0, tol=1e-9
    )
    assert found.primal == pytest.approx(primal(a, V, 0.0, np.zeros(m)), rel=1e-6)


@pytest.mark.parametrize("C", [1.0, 10.0])
def test_steps_to_a_gap_of_1e_5(C, size):
    m, n = size(2000, 20_000), size(200, 500)
    V, y, lower, upper = machine(m, n, C)
    ones = np.ones(m)
    cold = solve(V, 0.0, -y, lower, upper, equality=ones)
    with Workers(1) as workers:
        start = ridge_start(V, y, lower, upper, workers=workers)
    warm = solve(V, 0.0, -y, lower, upper, equality=ones, start=start)
    for found in (cold, warm):
        assert found.converged
        assert found.steps <= 30
        assert found.steps == len(found.log.primal) - 1
        assert abs(found.log.gap[-1]) <= 1e-5 * abs(found.primal)
        assert (found.log.primal[-1], found.log.dual[-1]) == (found.primal, found.dual)
        assert np.all(np.diff(found.log.complementarity) < 0)
        assert np.all((found.log.step > 0) & (found.log.step <= 1))
    assert warm.steps < cold.steps
    assert warm.primal == pytest.approx(cold.primal, rel=2e-5)


def test_ridge_start_is_half_the_box_times_the_residual():
    V, y, lower, upper = machine(300, 20, 4.0)
    with Workers(2) as workers:
        start = ridge_start(V, y, lower, upper, workers=workers)
        computed = ridge_start(V.__getitem__, y, lower, upper, workers=workers)
    residual = y - V @ np.linalg.solve(V.T @ V + np.eye(20), V.T @ y)
    np.testing.assert_allclose(start, 2.0 * residual, atol=1e-12)
    np.testing.assert_array_equal(computed, start)


def test_weak_duality_at_every_step_where_nothing_ties_the_variables():
    V, y, lower, upper = machine(400, 30, 1.0)
    log = solve(V, 0.0, -y, lower, upper, tol=1e-10).log
    assert len(log.gap) > 5
    assert np.all(log.gap >= -1e-9 * np.abs(log.primal))
    assert np.all(log.infeasibility == 0.0)


@pytest.mark.parametrize("stored", [np.float32, np.float64])
def test_float32_products_reach_1e_4(stored):
    V, y, lower, upper = machine(2000, 100, 10.0)
    V = V.astype(stored)
    ones = np.ones(len(y))
    found = solve(V, 0.0, -y, lower, upper, equality=ones, tol=1e-4, dtype=np.float32)
    exact = solve(V, 0.0, -y, lower, upper, equality=ones, tol=1e-10)
    assert found.converged
    assert found.steps <= 30
    assert found.primal == pytest.approx(exact.primal, rel=1e-4)
    assert -found.dual == pytest.approx(-exact.primal, rel=1e-4)


def test_float32_products_give_way_to_float64():
    V, y, lower, upper = machine(1500, 100, 10.0)
    ones = np.ones(len(y))
    found = solve(V, 0.0, -y, lower, upper, equality=ones, tol=1e-10, dtype=np.float32)
    assert found.converged
    exact = solve(V, 0.0, -y, lower, upper, equality=ones, tol=1e-10)
    assert found.primal == pytest.approx(exact.primal, rel=1e-9)


def test_neither_threads_nor_the_place_of_the_rows_change_a_bit(tmp_path):
    V, y, lower, upper = machine(3000, 40, 1.0)
    np.save(tmp_path / "V.npy", V)
    places = [V, np.load(tmp_path / "V.npy", mmap_mode="r"), lambda rows: V[rows].copy()]
    found = [
        solve(place, 0.0, -y, lower, upper, equality=np.ones(3000), n_jobs=n_jobs).a
        for place in places
        for n_jobs in (1, 2, 3)
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_a_start_from_a_neighbouring_problem_is_no_trap():
    V, y, lower, upper = machine(1000, 60, 1.0)
    ones = np.ones(1000)
    before = solve(V, 0.0, -y, lower, upper, equality=ones).a
    found = solve(V, 0.0, -y, 1.2 * lower, 1.2 * upper, equality=ones, start=before)
    cold = solve(V, 0.0, -y, 1.2 * lower, 1.2 * upper, equality=ones)
    assert found.converged
    assert found.steps <= cold.steps
    assert found.primal == pytest.approx(cold.primal, rel=2e-5)


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_bounds_next_to_the_minimum_and_far_from_it(seed):
    """½a'(VV' + δ)a + c'a = ½‖Aa - b‖² + const with A = [V'; √δ], b = [0; -c/√δ]."""
    rng = np.random.default_rng(seed)
    V, linear = rng.standard_normal((20, 4)), 1e-4 * rng.standard_normal(20)
    diagonal, lower = rng.uniform(0.01, 1.0, 20), rng.choice([0.0, -1e8], 20)
    found = solve(V, diagonal, linear, lower, np.inf, tol=1e-7)
    assert found.converged
    A = np.vstack([V.T, np.diag(np.sqrt(diagonal))])
    b = np.concatenate([np.zeros(4), -linear / np.sqrt(diagonal)])
    expected = lsq_linear(A, b, (np.where(lower < 0, -np.inf, 0.0), np.inf), method="bvls").x
    np.testing.assert_allclose(found.a, expected, atol=1e-3 * np.abs(expected).max())
    assert found.steps <= 30


def test_no_bounds_at_all_is_one_linear_system():
    rng = np.random.default_rng(0)
    V, linear = rng.standard_normal((30, 4)), rng.standard_normal(30)
    found = solve(V, 0.5, linear, -np.inf, np.inf)
    assert found.converged
    expected = -np.linalg.solve(V @ V.T + 0.5 * np.eye(30), linear)
    np.testing.assert_allclose(found.a, expected, atol=1e-10)


def test_minimum_zero_and_a_single_feasible_point():
    V = np.random.default_rng(1).standard_normal((20, 4))
    nothing = solve(V, 0.0, np.ones(20), 0.0, 1.0)
    assert nothing.converged
    assert np.all(nothing.a < 1e-9)
    corner = solve(V, 0.0, -np.ones(20), 0.0, 1.0, equality=np.ones(20), equality_value=20.0)
    assert corner.converged
    np.testing.assert_allclose(corner.a, 1.0, atol=1e-6)
    twice = np.ones((2, 20))
    same = solve(V, 0.0, -np.ones(20), 0.0, 1.0, equality=twice, equality_value=3.0)
    assert same.converged
    assert same.a.sum() == pytest.approx(3.0, rel=1e-6)


def test_what_cannot_be_solved_does_not_converge():
    V = np.random.default_rng(1).standard_normal((20, 4))
    endless = solve(np.zeros((5, 2)), 0.0, -np.ones(5), 0.0, np.inf)
    assert not endless.converged
    assert np.all(np.isfinite(endless.a))
    impossible = solve(V, 0.0, -np.ones(20), 0.0, 1.0, equality=np.ones(20), equality_value=50.0)
    assert not impossible.converged
    hurried = solve(V, 0.0, -np.ones(20), 0.0, 1.0, max_steps=1)
    assert not hurried.converged
    assert hurried.steps == 1


def test_a_floor_that_is_too_low_is_raised(monkeypatch):
    """Nearly without a floor I + V'D⁻¹V is not factored well enough to the end of this."""
    X, V, _ = full_rank(4, gamma=0.01)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    y[::7] *= -1
    lower, upper = np.where(y > 0, 0.0, -1e6), np.where(y > 0, 1e6, 0.0)
    usual = solve(V, 0.0, -y, lower, upper, equality=np.ones(len(y)), tol=1e-9)
    module = sys.modules["pursuit.solvers.interior_point"]
    floors = []

    def watched(programme, here, floor, *rest):
        floors.append(floor)
        return NewtonSystem(programme, here, floor, *rest)

    monkeypatch.setattr(module, "_LEAST_CURVATURE", 1e-30)
    monkeypatch.setattr(module, "NewtonSystem", watched)
    found = solve(V, 0.0, -y, lower, upper, equality=np.ones(len(y)), tol=1e-9)
    assert floors[-1] > floors[0]
    assert found.converged
    assert found.primal == pytest.approx(usual.primal, rel=1e-8)


def test_bad_input():
    V = np.ones((5, 2))
    with pytest.raises(ValueError, match="lower must not exceed upper"):
        solve(V, 0.0, np.ones(5), 1.0, 0.0)
    with pytest.raises(ValueError, match="V has 5 rows, but linear has 4"):
        solve(V, 0.0, np.ones(4), 0.0, 1.0)
    with pytest.raises(ValueError, match="diagonal must not be negative"):
        solve(V, -1.0, np.ones(5), 0.0, 1.0)
    with pytest.raises(ValueError, match="positive for variables without bounds"):
        solve(V, 0.0, np.ones(5), -np.inf, np.inf)


@pytest.mark.parametrize("size", [1e-150, 1e-95, 1e-40, 1e40])
def test_without_a_linear_term_the_size_of_v_changes_nothing(size):
    # Squares of VV' underflow where it is 1e-190.
    _, V, _ = full_rank(3, m=30)
    V = np.concatenate([V, V])
    m = len(V)
    box = 0.0, np.zeros(m), 0.0, np.ones(m)
    rule = {"equality": np.ones(m), "equality_value": 0.3 * m}
    expected, found = solve(V, *box, **rule), solve(size * V, *box, **rule)
    assert found.converged
    np.testing.assert_allclose(found.coordinates / size, expected.coordinates, atol=1e-3)
    np.testing.assert_allclose(found.primal / size / size, expected.primal, rtol=1e-4)
    with Workers(1) as workers:
        first, second = (
            largest_eigenvalue(Programme.build(rows, *box, np.ones(m), 0.3 * m, workers))
            for rows in (V, size * V)
        )
    np.testing.assert_allclose(second / size / size, first, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_systems_that_cannot_be_factored_end_the_method(monkeypatch, dtype):
    tried = []

    def lost(*args):
        tried.append(args)
        raise ArithmeticError("lost positive definiteness")

    monkeypatch.setattr(sys.modules["pursuit.solvers.interior_point"], "NewtonSystem", lost)
    V = np.random.default_rng(0).standard_normal((6, 2))
    for rows in (V, 0.0 * V):
        tried.clear()
        found = solve(rows, 0.0, -np.ones(6), 0.0, np.ones(6), dtype=dtype)
        assert not found.converged
        assert 1 <= len(tried) < 20
        assert np.all((found.a >= 0.0) & (found.a <= 1.0))
