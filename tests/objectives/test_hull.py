"""Losses, atoms and steps over a convex hull: rates, gaps and closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from pursuit import minimize_over_hull
from pursuit.bounds import hull_rate, hull_rate_from
from pursuit.objectives import (
    ExponentialLoss,
    HuberLoss,
    HullLoss,
    KernelAtoms,
    LearnedAtoms,
    LogExpLoss,
    LogisticLoss,
    NegativeLogLikelihood,
    SquaredLoss,
)

STEPS = ["corrective", "joint", "frank-wolfe"]
THREE = DummyRegressor(strategy="constant", constant=3.0)
LOSSES = ["squared", "scaled", "huber", "logexp", "exponential", "logistic", "likelihood"]


def problem(name, seed, m=25, P=8):
    """A loss with weights, and atoms it likes unequally well."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.2, 2.0, m)
    if name == "likelihood":
        return NegativeLogLikelihood(m, weights), rng.uniform(0.2, 1.0, (m, P))
    atoms = rng.uniform(-1, 1, (m, P))
    y = atoms @ rng.dirichlet(np.ones(P)) + 0.3 * rng.normal(size=m)
    signs = np.where(y > 0, 1.0, -1.0)
    losses = {
        "squared": lambda: SquaredLoss(y, weights),
        "scaled": lambda: SquaredLoss(y, weights, 1.7),
        "exponential": lambda: ExponentialLoss(signs, 1.5, weights),
        "huber": lambda: HuberLoss(y, 0.2, weights),
        "logexp": lambda: LogExpLoss(signs, 2.5, weights),
        "logistic": lambda: LogisticLoss(signs, 4.0, weights),
    }
    return losses[name](), atoms


def least_value(loss, atoms):
    """The minimum over the hull by a general-purpose solver, from several starts."""
    P = atoms.shape[1]
    found = minimize(
        lambda a: loss.value(atoms @ a),
        np.full(P, 1 / P),
        jac=lambda a: atoms.T @ loss.gradient(atoms @ a),
        bounds=[(0, 1)] * P,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1, "jac": lambda a: np.ones(P)},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    weights = np.maximum(found.x, 0)
    return loss.value(atoms @ (weights / weights.sum()))


@pytest.mark.parametrize("name", LOSSES)
@given(seed=st.integers(0, 2**31))
def test_derivatives_are_those_of_the_value(name, seed):
    loss, atoms = problem(name, seed)
    rng = np.random.default_rng(seed)
    v, d = atoms @ rng.dirichlet(np.ones(8)), atoms[:, 0] - atoms[:, 1]
    h = 1e-6
    central = (loss.value(v + h * d) - loss.value(v - h * d)) / (2 * h)
    first, second = loss.slope(v, d, 0.0)
    assert loss.gradient(v) @ d == pytest.approx(central, rel=1e-5, abs=1e-7)
    assert first == pytest.approx(loss.gradient(v) @ d, rel=1e-9, abs=1e-12)
    if second is not None:
        change = (loss.gradient(v + h * d) - loss.gradient(v - h * d)) @ d / (2 * h)
        assert second == pytest.approx(change, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("name", LOSSES)
@given(seed=st.integers(0, 2**31))
def test_curvature_bounds_the_second_derivative_on_the_hull(name, seed):
    """v'∇²f(v')v ≤ M at random points of the hull, by differences of the gradient."""
    loss, atoms = problem(name, seed)
    rng = np.random.default_rng(seed)
    M = loss.curvature(atoms)
    for _ in range(5):
        v, point = (atoms @ rng.dirichlet(np.full(8, 0.3)) for _ in range(2))
        h = 1e-6
        second = v @ (loss.gradient(point + h * v) - loss.gradient(point - h * v)) / (2 * h)
        assert second <= M * (1 + 1e-5)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", LOSSES)
@given(seed=st.integers(0, 2**31), n_steps=st.integers(1, 8))
def test_rate_gap_and_decrease(name, step, seed, n_steps):
    """Δf ≤ 8M/(k + 3) in both forms, gap ≥ Δf, and the value falls at every step."""
    loss, atoms = problem(name, seed)
    # A start far from the optimum, so that the rates have something to say.
    start = atoms[:, int(np.argmax([loss.value(p) for p in atoms.T]))]
    minimum = least_value(loss, atoms)
    found = minimize_over_hull(
        loss, atoms, step=step, tol=None, start=start, max_iter=n_steps, n_terms=100
    )
    least = min(minimum, found.value)
    excess = found.value - least
    M, k = loss.curvature(atoms), np.array([len(found.path)])
    slack = 1e-9
    assert excess <= hull_rate(k, M)[0] + slack
    assert excess <= hull_rate_from(k, M, loss.value(start) - least)[0] + slack
    assert excess <= found.rate_bound.value[-1] + slack
    assert found.certificate.gap >= excess - slack
    assert np.all(np.diff(found.path.value) < 0)
    assert found.point == pytest.approx(_combination(found, atoms, start), rel=1e-12, abs=1e-12)


def _combination(found, atoms, start):
    columns = [start if j == -1 else atoms[:, j] for j in found.terms]
    assert np.all(found.weights > 0)
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-12)
    return np.column_stack(columns) @ found.weights


@pytest.mark.parametrize("name", LOSSES)
def test_corrective_steps_reach_the_minimum(name):
    loss, atoms = problem(name, 3)
    found = minimize_over_hull(loss, atoms, tol=1e-10)
    assert found.path.stop_reason == "tol"
    assert found.value == pytest.approx(least_value(loss, atoms), abs=1e-9)


@pytest.mark.parametrize("name", LOSSES)
def test_a_joint_step_is_the_best_of_all_atoms_and_steps(name):
    loss, atoms = problem(name, 5)
    start = atoms.mean(axis=1)
    found = minimize_over_hull(loss, atoms, step="joint", tol=None, start=start, max_iter=1)
    grid = np.linspace(0, 1, 2001)
    best = min(
        loss.value((1 - t) * start + t * atoms[:, j]) for j in range(atoms.shape[1]) for t in grid
    )
    assert best - 1e-5 * abs(best) <= found.value <= best


@pytest.mark.parametrize("step", STEPS)
def test_an_oracle_finds_what_the_matrix_finds(step):
    loss, atoms = problem("logexp", 1)
    start = atoms[:, 0]
    options = {"step": step, "tol": 1e-4, "start": start}
    matrix = minimize_over_hull(loss, atoms, **options)
    oracle = minimize_over_hull(loss, lambda g: atoms[:, np.argmin(g @ atoms)], bound=1, **options)
    assert oracle.certificate.relative_gap <= 1e-4
    assert oracle.value == pytest.approx(matrix.value, abs=matrix.certificate.gap + 1e-4)
    if step != "joint":  # an oracle gives one atom to search, a matrix all
        assert np.array_equal(oracle.path.value, matrix.path.value)
    assert matrix.path.step == step
    assert oracle.path.step == ("frank-wolfe" if step == "joint" else step)
    assert oracle.rate_bound.value[0] >= matrix.rate_bound.value[0]


def test_joint_steps_with_an_oracle_are_frank_wolfe_steps_and_say_so():
    loss, atoms = problem("logistic", 10)

    def oracle(gradient):
        return atoms[:, np.argmin(gradient @ atoms)]

    asked, plain = (
        minimize_over_hull(loss, oracle, step=step, start=atoms[:, 0], tol=None, max_iter=6)
        for step in ("joint", "frank-wolfe")
    )
    assert asked.path.step == plain.path.step == "frank-wolfe"
    assert np.array_equal(asked.path.value, plain.path.value)
    matrix = minimize_over_hull(loss, atoms, step="joint", start=atoms[:, 0], tol=None, max_iter=6)
    assert matrix.path.step == "joint"
    assert not np.array_equal(matrix.path.value, asked.path.value)
    assert matrix.path.truncated(2).step == matrix.path.extended(np.array([1])).step == "joint"


@pytest.mark.parametrize(
    ("make", "where", "towards"),
    [
        (lambda y: LogExpLoss(y, 3.0), lambda y: 0.0 * y, lambda y: y * np.tile([1, -1], 8)),
        (lambda y: ExponentialLoss(y, 3.0), lambda y: -y, lambda y: np.ones(16)),
        (lambda y: LogisticLoss(y, 3.0), lambda y: 0.0 * y, lambda y: np.ones(16)),
        (lambda y: SquaredLoss(y, scale=3.0), lambda y: 0.0 * y, lambda y: np.ones(16)),
    ],
)
def test_curvature_is_attained_by_functions_with_values_in_minus_one_to_one(make, where, towards):
    """M for the constant 1 is the largest second derivative over that range, not only a bound."""
    y = np.repeat([1.0, -1.0], 8)
    loss, h = make(y), 1e-5
    v, point = towards(y), where(y)
    second = v @ (loss.gradient(point + h * v) - loss.gradient(point - h * v)) / (2 * h)
    assert second == pytest.approx(loss.curvature(np.ones((16, 1))), rel=1e-6)


def test_a_point_changed_in_place_is_a_new_point():
    loss, atoms = problem("logexp", 0)
    point = atoms[:, 0].copy()
    loss.gradient(point)
    point[:] = atoms[:, 1]
    fresh, _ = problem("logexp", 0)
    assert loss.value(point) == fresh.value(point)
    assert np.array_equal(loss.gradient(point), fresh.gradient(point))


def test_without_a_bound_an_oracle_has_no_rate():
    loss, atoms = problem("squared", 1)
    found = minimize_over_hull(loss, lambda g: atoms[:, np.argmin(g @ atoms)])
    assert found.rate_bound is None
    assert found.certificate.relative_gap <= 1e-6


def test_kernel_columns_are_a_matrix_of_atoms():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = np.exp(-0.5 * ((X - X[3]) ** 2).sum(axis=1))
    found = minimize_over_hull(SquaredLoss(y), KernelAtoms("rbf", X, gamma=0.5))
    assert found.value < 1e-10
    assert found.terms[np.argmax(found.weights)] == 3


def test_weak_learners_lower_the_loss_without_a_certificate():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.5, 1.0, -1.0)
    atoms = LearnedAtoms(DecisionTreeClassifier(max_depth=1), X)
    found = minimize_over_hull(LogExpLoss(y, 10.0), atoms, 20, start=np.zeros(200))
    assert found.certificate is None
    assert found.rate_bound is None
    assert np.all(np.diff(found.path.value) < 0)
    assert np.mean(np.sign(found.point) == y) > 0.9
    rebuilt = sum(
        w * atoms.learners[j].predict(X)
        for j, w in zip(found.terms, found.weights, strict=True)
        if j >= 0
    )
    assert rebuilt == pytest.approx(found.point, abs=1e-12)


def test_a_loss_of_your_own_needs_three_methods():
    class Quartic(HullLoss):
        def value(self, v):
            return float(np.mean((v - 0.3) ** 4))

        def gradient(self, v):
            return 4 * (v - 0.3) ** 3 / len(v)

        def curvature(self, vertices):
            return 12.0 * float(np.mean(np.abs(vertices).max(axis=1) ** 2)) * 1.3**2

    rng = np.random.default_rng(0)
    atoms = rng.uniform(-1, 1, (6, 30))
    found = minimize_over_hull(Quartic(), atoms, tol=1e-8)
    assert found.certificate.relative_gap <= 1e-8
    assert found.rate_bound.value[-1] > 0


def test_the_result_does_not_depend_on_threads():
    loss, atoms = problem("logistic", 2, m=3000, P=200)
    one, two = (minimize_over_hull(loss, atoms, 10, n_jobs=n) for n in (1, 2))
    assert np.array_equal(one.point, two.point)
    assert np.array_equal(one.path.value, two.path.value)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda f, P: minimize_over_hull("squared", P), TypeError, "must be a HullLoss"),
        (lambda f, P: minimize_over_hull(f, P, step="greedy"), ValueError, "step must be one of"),
        (lambda f, P: minimize_over_hull(f, P, 0), ValueError, "must be at least 1"),
        (lambda f, P: minimize_over_hull(f, P[:5]), ValueError, "atoms have 5 rows"),
        (lambda f, P: minimize_over_hull(f, P * np.nan), ValueError, "finite numbers"),
        (lambda f, P: minimize_over_hull(f, P, bound=2), ValueError, "leave it out for a matrix"),
        (lambda f, P: minimize_over_hull(f, P, start=[1.0]), ValueError, "start must be a vector"),
        (lambda f, P: minimize_over_hull(f, lambda g: P[:5, 0]), ValueError, "one per row"),
        (
            lambda f, P: minimize_over_hull(f, lambda g: 3 * P[:, 0], bound=1e-3),
            ValueError,
            "outside the stated range",
        ),
        (lambda f, P: minimize_over_hull(f, LinearRegression()), TypeError, "LearnedAtoms"),
        (
            lambda f, P: LearnedAtoms(KNeighborsClassifier(), P),
            ValueError,
            "does not take sample_weight",
        ),
        (lambda f, P: LearnedAtoms("stump", P), TypeError, "classifier or regressor"),
        (lambda f, P: LearnedAtoms(LinearRegression, P), TypeError, "classifier or regressor"),
        (
            lambda f, P: minimize_over_hull(
                f, LearnedAtoms(DummyRegressor(strategy="constant", constant=3.0), P)
            ),
            ValueError,
            r"outside the stated range \[-1, 1\]",
        ),
        (lambda f, P: LogExpLoss([0, 1]), ValueError, "-1 and 1 only"),
        (lambda f, P: ExponentialLoss([1, -1], scale=800), ValueError, "at most 700"),
        (lambda f, P: LogExpLoss([1, -1], scale=0), ValueError, "scale must be a positive"),
        (lambda f, P: HuberLoss([1, -1], delta=-1), ValueError, "delta must be a positive"),
        (lambda f, P: SquaredLoss([[1.0]]), ValueError, "y must be a vector"),
        (lambda f, P: SquaredLoss([1.0], [-1.0]), ValueError, "non-negative"),
    ],
)
def test_wrong_calls_say_what_to_do(call, error, message):
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(25, 8))
    with pytest.raises(error, match=message):
        call(SquaredLoss(3 * rng.normal(size=25)), atoms)


def test_a_loss_infinite_at_every_atom_needs_a_start():
    atoms = np.eye(3)
    with pytest.raises(ValueError, match="pass a start"):
        minimize_over_hull(NegativeLogLikelihood(3), atoms)
    found = minimize_over_hull(NegativeLogLikelihood(3), atoms, start=np.full(3, 0.1))
    assert found.point == pytest.approx(np.full(3, 1 / 3), rel=1e-6)
