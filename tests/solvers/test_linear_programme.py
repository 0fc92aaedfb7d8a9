"""Losses with two slopes, and masters that grow by columns."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import oracles
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import linprog

from pursuit.solvers import HighsMaster, LinearLosses, LinprogMaster, make_master
from pursuit.solvers import linear_programme as programmes

SOLVERS = ["highs", "linprog"]
EPSILON = {"hinge": 0.0, "tube": 0.2, "deviations": 0.0}
KINDS = list(EPSILON)


def task(m, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 2))
    K = np.exp(-np.sum((X[:, None] - X) ** 2, axis=2))
    z = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=m)
    return K, z, rng.uniform(0.1, 1.0, m)


def losses_of(kind, z, costs):
    if kind == "hinge":
        return LinearLosses.hinge(np.sign(z), costs)
    return LinearLosses.tube(z, costs, EPSILON[kind])


def naive_loss(kind, z, costs, f):
    epsilon = EPSILON[kind]
    if kind == "hinge":
        return sum(c * max(0.0, 1 - np.sign(t) * v) for c, t, v in zip(costs, z, f, strict=True))
    return sum(c * max(0.0, abs(t - v) - epsilon) for c, t, v in zip(costs, z, f, strict=True))


def full_programme(kind, K, z, costs):
    if kind == "hinge":
        return oracles.hinge_programme(K, np.sign(z), costs)
    return oracles.tube_programme(K, z, costs, EPSILON[kind])


# Losses


@given(kind=st.sampled_from(KINDS), m=st.integers(1, 30), seed=st.integers(0, 999))
def test_losses_are_those_of_a_loop_over_rows(kind, m, seed):
    _, z, costs = task(m, seed)
    f = np.random.default_rng(seed).normal(size=m)
    losses = losses_of(kind, z, costs)
    expected = naive_loss(kind, z, costs, f)
    assert losses.value(f) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert losses.times(3.0).value(f) == pytest.approx(3 * expected, rel=1e-12, abs=1e-12)


@example(kind="hinge", m=2, seed=394)  # one class only: any large b will do
@given(kind=st.sampled_from(KINDS), m=st.integers(1, 30), seed=st.integers(0, 999))
def test_the_intercept_has_the_least_loss(kind, m, seed):
    _, z, costs = task(m, seed)
    f = np.random.default_rng(seed).normal(size=m)
    losses = losses_of(kind, z, costs)
    # A piecewise linear function has its minimum at a kink.
    kinks = (losses.gain - f).ravel()
    least = min(naive_loss(kind, z, costs, f + b) for b in kinks)
    value = losses.value(f + losses.intercept(f))
    assert value == pytest.approx(least, rel=1e-12, abs=1e-12)


def test_of_equally_good_intercepts_the_middle_is_taken():
    # Any b from -0.5 to 1.5 leaves all margins at 1 or more.
    losses = LinearLosses.hinge(np.array([1.0, 1.0, -1.0]), np.array([1.0, 2.0, 3.0]))
    assert losses.intercept(np.array([1.5, 4.0, -2.5])) == pytest.approx(0.5)
    tube = LinearLosses.tube(np.array([1.0, 3.0]), np.ones(2), 1.5)
    assert tube.intercept(np.zeros(2)) == pytest.approx(2.0)


@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 999))
def test_a_dual_point_is_made_feasible(kind, seed):
    _, z, costs = task(20, seed)
    losses = losses_of(kind, z, costs)
    rng = np.random.default_rng(seed)
    given_point = rng.normal(size=losses.gain.shape)
    v = losses.feasible(given_point)
    assert np.all((v >= losses.lower) & (v <= losses.upper))
    assert abs(v.sum()) <= 1e-11 * np.abs(v).sum()
    np.testing.assert_allclose(losses.feasible(v), v, rtol=1e-11)


@given(
    kind=st.sampled_from(KINDS),
    m=st.integers(2, 12),
    seed=st.integers(0, 999),
    heavy=st.sampled_from([1.0, 1e3, 1e6]),
)
def test_slopes_that_no_other_rows_can_match_are_not_needed(kind, m, seed, heavy):
    K, z, costs = task(m, seed)
    z[:2] = 1.0, -1.0
    costs[0] *= heavy
    losses = losses_of(kind, z, costs)
    fewer = losses.balanced()
    assert np.all((losses.lower <= fewer.lower) & (fewer.upper <= losses.upper))
    for i in range(m):
        others = np.arange(m) != i
        assert np.all(fewer.upper[:, i] <= -losses.lower[:, others].sum() * (1 + 1e-12))
        assert np.all(-fewer.lower[:, i] <= losses.upper[:, others].sum() * (1 + 1e-12))
    minimum, _ = full_programme(kind, K, z, costs)
    master = make_master("linprog", fewer)
    master.add(K)
    assert losses.dual_value(master.solve().dual) == pytest.approx(minimum, rel=1e-6, abs=1e-9)


# Masters


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_master_with_all_columns_solves_the_full_programme(solver, kind):
    K, z, costs = task(60)
    losses = losses_of(kind, z, costs)
    master = make_master(solver, losses)
    master.add(K)
    found = master.solve()
    minimum, _ = full_programme(kind, K, z, costs)
    f = K @ found.coefficients
    primal = np.abs(found.coefficients).sum() + losses.value(f + losses.intercept(f))
    assert primal == pytest.approx(minimum, rel=1e-8)
    assert losses.dual_value(found.dual) == pytest.approx(minimum, rel=1e-8)
    assert np.abs(K.T @ found.dual.sum(axis=0)).max() <= 1 + 1e-8
    assert found.iterations > 0


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", KINDS)
def test_columns_may_come_one_after_the_other(solver, kind):
    K, z, costs = task(50)
    losses = losses_of(kind, z, costs)
    growing = make_master(solver, losses)
    assert growing.solve().coefficients.shape == (0,)
    for n in range(5, 31, 5):
        growing.add(K[:, n - 5 : n])
        found = growing.solve()
        minimum, _ = full_programme(kind, K[:, :n], z, costs)
        assert losses.dual_value(found.dual) == pytest.approx(minimum, rel=1e-8)
        assert len(found.coefficients) == n


def test_without_columns_the_best_constant_is_found():
    _, z, costs = task(40)
    losses = losses_of("tube", z, costs)
    for solver in SOLVERS:
        found = make_master(solver, losses).solve()
        constant = losses.value(np.array(losses.intercept(np.zeros(40))))
        assert losses.dual_value(found.dual) == pytest.approx(constant, rel=1e-9)


def test_a_hot_start_saves_iterations(size):
    m = size(400, 2000)
    K, z, _ = task(m)
    losses = LinearLosses.hinge(np.sign(z), np.full(m, 0.05))
    hot = make_master("highs", losses)
    steps = {"hot": 0, "cold": 0}
    for n in range(10, 151, 10):
        hot.add(K[:, n - 10 : n])
        steps["hot"] += hot.solve().iterations
        cold = make_master("highs", losses)
        cold.add(K[:, :n])
        steps["cold"] += cold.solve().iterations
    assert steps["hot"] <= 0.7 * steps["cold"]


# What can go wrong


def test_without_highspy(monkeypatch):
    losses = losses_of("hinge", np.array([1.0, -1.0]), np.ones(2))
    assert isinstance(make_master("auto", losses), HighsMaster)
    monkeypatch.setitem(sys.modules, "highspy", None)
    assert isinstance(make_master("auto", losses), LinprogMaster)
    with pytest.raises(ImportError, match=r'highspy.*pip install "pursuit\[lp\]"'):
        make_master("highs", losses)


def test_what_cannot_happen_is_explained(monkeypatch):
    losses = losses_of("hinge", np.array([1.0, -1.0]), np.ones(2))
    failed = SimpleNamespace(status=4, x=None, message="numerical difficulties")
    monkeypatch.setattr(programmes, "linprog", lambda *args, **options: failed)
    with pytest.raises(ValueError, match=r"numerical difficulties.*v = 0 is feasible.*smaller C"):
        make_master("linprog", losses).solve()


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_master_that_goes_in_circles_is_given_up(solver, monkeypatch):
    monkeypatch.setattr(programmes, "_CYCLING", (1, 0))
    K, z, costs = task(40)
    master = make_master(solver, losses_of("hinge", z, costs))
    master.add(K)
    with pytest.raises(ValueError, match=r"(?i)iteration limit.*numbers are too unequal"):
        master.solve()


def test_beside_another_use_of_highs_with_threads_of_its_own():
    code = (
        "import highspy, numpy as np\n"
        "other = highspy.Highs()\n"
        "other.setOptionValue('output_flag', False)\n"
        "other.setOptionValue('threads', 2)\n"
        "other.maximize(other.addVariable(lb=0, ub=1))\n"
        "from pursuit.solvers import LinearLosses, make_master\n"
        "losses = LinearLosses.hinge(np.array([1.0, -1.0]), np.ones(2))\n"
        "print(make_master('highs', losses).solve().dual)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[[ 1. -1.]]"


def test_numbers_beyond_the_solver_are_refused():
    losses = losses_of("hinge", np.array([1.0, -1.0]), np.ones(2))
    with pytest.raises(ValueError, match=r"more than 1e15.*scale the features"):
        make_master("highs", losses).add(np.full((2, 1), 1e20))


def test_highs_tries_a_fresh_start_before_it_gives_up():
    pytest.importorskip("highspy")
    losses = losses_of("hinge", np.array([1.0, -1.0]), np.ones(2))
    master = make_master("highs", losses)
    master.highs.setOptionValue("simplex_iteration_limit", 0)
    with pytest.raises(ValueError, match="the linear programme was not solved"):
        master.solve()


# Over a ball


@pytest.mark.parametrize("solver", SOLVERS)
@given(m=st.integers(3, 25), n=st.integers(1, 8), seed=st.integers(0, 999))
def test_a_ball_has_the_optimum_of_the_primal_programme(solver, m, n, seed):
    rng = np.random.default_rng(seed)
    P, y, weights = rng.normal(size=(m, n)), rng.normal(size=m), rng.uniform(0.1, 1.0, m)
    low, high, radius = -rng.uniform(0.1, 1), rng.uniform(0.1, 1), rng.uniform(0.1, 3)
    losses = LinearLosses.pinball(y, weights, low, high)
    master = make_master(solver, losses, radius)
    for part in np.array_split(np.arange(n), 2):
        master.add(P[:, part])
        found = master.solve()
    # w = a - b and y - Pw = u - v, all of them at least 0.
    expected = linprog(
        np.concatenate([np.zeros(2 * n), high * weights, -low * weights]),
        A_ub=np.append(np.ones(2 * n), np.zeros(2 * m))[None],
        b_ub=[radius],
        A_eq=np.hstack([P, -P, np.eye(m), -np.eye(m)]),
        b_eq=y,
    ).fun
    a = found.coefficients
    assert np.abs(a).sum() <= radius * (1 + 1e-9)
    assert losses.value(P @ a) == pytest.approx(expected, rel=1e-7, abs=1e-9)
    v = found.dual[0]
    assert np.all((v >= low * weights - 1e-9) & (v <= high * weights + 1e-9))
    bound = v @ y - radius * np.abs(P.T @ v).max()
    assert bound == pytest.approx(expected, rel=1e-7, abs=1e-7)
