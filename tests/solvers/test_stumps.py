"""Stumps on bins against a search over every threshold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.greedy import CostMeter, Pursuit
from pursuit.linalg import Workers
from pursuit.objectives import (
    ExponentialLoss,
    HullObjective,
    LogExpLoss,
    LogisticLoss,
    SquaredLoss,
)
from pursuit.solvers import Bins, StumpAtoms
from pursuit.solvers.stump_bounds import LogisticCurves, lower_bounds
from pursuit.solvers.stump_search import JointSearch, StumpStep


def all_stumps(X):
    """Values of every stump with leaf values ±1, by every threshold between two values."""
    for column in X.T:
        for value in np.unique(column):
            for left in (-1.0, 1.0):
                for right in (-1.0, 1.0):
                    yield np.where(column <= value, left, right)


def task(seed, m=30, d=3):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(m, d)), 1)
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=m) > 0, 1.0, -1.0)
    y[0], y[1] = 1.0, -1.0
    return X, y, rng


LOSSES = {
    "log-exp": LogExpLoss,
    "exponential": ExponentialLoss,
    "logistic": LogisticLoss,
    "squared": lambda y, scale, weights: SquaredLoss(y, weights, scale),
}


@pytest.mark.parametrize("name", LOSSES)
@given(seed=st.integers(0, 2**31))
def test_the_vertex_is_the_steepest_of_all_stumps(name, seed):
    X, y, rng = task(seed)
    loss = LOSSES[name](y, 3.0, rng.uniform(0.5, 2, len(y)))
    with Workers(1) as workers:
        atoms = StumpAtoms(loss, Bins(X), workers)
        for v in (np.zeros(len(y)), rng.uniform(-1, 1, len(y))):
            gradient = loss.gradient(v)
            (number,) = atoms.propose(gradient)
            best = min(p @ gradient for p in all_stumps(X))
            assert atoms.edges(gradient, [number])[0] == pytest.approx(best)
            assert atoms.values(number) @ gradient == pytest.approx(best)
            assert np.array_equal(atoms.stumps[number](X), atoms.values(number))


def search_at(loss, X, v, workers):
    """A search that has moved to v, and the sums of the gradient there."""
    atoms = StumpAtoms(loss, Bins(X), workers)
    gradient = loss.gradient(v)
    atoms.propose(gradient)
    return atoms, gradient


@pytest.mark.parametrize("name", LOSSES)
@given(seed=st.integers(0, 2**31), scale=st.sampled_from([0.5, 4.0, 60.0]))
def test_bounds_lie_below_every_step_of_every_stump(name, seed, scale):
    """f at random α and leaf values, on the rows, against bounds from sums at another step."""
    X, y, rng = task(seed, m=20, d=2)
    loss = LOSSES[name](y, scale, rng.uniform(0.5, 2, len(y)))
    v = rng.uniform(-1, 1, len(y)) * rng.choice([0.1, 1.0])
    with Workers(1) as workers:
        atoms, gradient = search_at(loss, X, v, workers)
        search, sums = atoms.search, atoms._sums
        search._move(v, gradient, atoms._leaves)
        numbers = np.arange(atoms._leaves.shape[-1])
        away = rng.uniform()
        step = StumpStep(0, away, away * rng.uniform(-1, 1, 2), 0.0)
        for curves in (search._curves_here(), search._curves_at(step, numbers)):
            alpha = rng.uniform(size=len(numbers))
            bound, first, _ = curves(alpha)
            for number in numbers:
                feature, edge = sums.place(int(number))
                side = atoms.bins.codes[feature] <= edge
                for _ in range(3):
                    other = rng.uniform()
                    c = other * rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], 2)
                    value = search._derivatives((1 - other) * v + np.where(side, *c))[0]
                    tangent = bound[number] + first[number] * (other - alpha[number])
                    assert tangent <= value + 1e-9 * (abs(value) + abs(tangent))


@pytest.mark.parametrize("name", LOSSES)
def test_bounds_touch_the_loss_where_their_sums_were_taken(name):
    """So they cannot be low for no reason: at that step the bound of its own stump is its value."""
    X, y, rng = task(3, m=40, d=2)
    loss = LOSSES[name](y, 20.0, rng.uniform(0.5, 2, len(y)))
    v = np.zeros(len(y))
    with Workers(1) as workers:
        for _ in range(4):
            atoms, gradient = search_at(loss, X, v, workers)
            found = atoms.search(v, gradient, atoms._leaves)
            curves = atoms.search._curves_at(found, np.array([found.stump]))
            feature, edge = atoms._sums.place(found.stump)
            c = np.where(atoms.bins.codes[feature] <= edge, *found.c)
            v = (1 - found.alpha) * v + c
        bound, slope, _ = curves.take(np.array([found.stump]))(np.array([found.alpha]))
    assert bound[0] == pytest.approx(found.value, rel=1e-7)
    assert 0 < found.alpha < 1
    assert slope[0] == pytest.approx(0.0, abs=1e-2)


@pytest.mark.parametrize(("name", "most"), [("log-exp", 3), ("squared", 1), ("logistic", 8)])
def test_few_stumps_are_solved_on_the_rows(name, most, monkeypatch):
    """The bounds do the work: of some 200 stumps, a few at each of six steps."""
    X, y, _ = task(0, m=400, d=4)
    loss = LOSSES[name](y, 8.0, None)
    solved, solve = [], JointSearch._solve

    def counted(self, *arguments):
        solved.append(arguments)
        return solve(self, *arguments)

    monkeypatch.setattr(JointSearch, "_solve", counted)
    with Workers(1) as workers:
        atoms = StumpAtoms(loss, Bins(X), workers)
        objective = HullObjective(loss, atoms, np.zeros(len(y)), step="joint")
        pursuit = Pursuit(objective, CostMeter(), every_step=True)
        for _ in range(6):
            assert pursuit.step() is None
    assert objective.n_steps == 6
    assert len(atoms.bins.edges[0]) > 40
    assert len(solved) <= 6 * most


def test_lower_bounds_hold_for_curves_that_are_hard_to_follow():
    """Kinks and flat parts: max(1 - 3α, ε, kα - 2)."""

    class Kinked:
        def __init__(self, k, least):
            self.k, self.least = k, least

        def take(self, index):
            return Kinked(self.k[index], self.least[index])

        def __call__(self, alpha):
            lines = np.array([1 - 3 * alpha, self.least, self.k * alpha - 2])
            slopes = np.array([np.full(len(alpha), -3.0), np.zeros(len(alpha)), self.k])
            top = lines.argmax(axis=0)
            at = np.arange(len(alpha))
            return lines[top, at], slopes[top, at], np.zeros(len(alpha))

    rng = np.random.default_rng(0)
    flat, k = rng.uniform(0.1, 0.5, 50), rng.uniform(3, 100, 50)
    curves = Kinked(k, flat)
    least = np.maximum(flat, 1 - 9 / (k + 3))  # the outer lines meet at α = 3/(k + 3)
    slopes = np.full(50, -3.0)
    lower, _ = lower_bounds(curves, rng.uniform(size=50), 1.0, slopes, np.inf, 1e-6)
    assert np.all(lower <= least + 1e-12)
    assert lower == pytest.approx(least, rel=1e-5)
    rising, _ = lower_bounds(curves, rng.uniform(size=50), 1.0, np.ones(50), None, 1e-6)
    assert np.array_equal(rising, np.ones(50))


def test_many_values_share_at_most_255_bins():
    X = np.random.default_rng(0).normal(size=(5000, 2))
    bins = Bins(X)
    assert all(len(edges) <= 255 for edges in bins.edges)
    counts = np.bincount(bins.codes[0])
    assert counts.max() < 3 * 5000 / 255


def test_neighbouring_floats_are_told_apart():
    values = np.array([[1.0], [np.nextafter(1.0, 2.0)], [5.0]])
    assert list(Bins(values).codes[0]) == [0, 1, 2]


def test_a_newton_step_beyond_all_floats_ends_at_the_rim():
    # force/stiff is 1e310 where all rows are far from the boundary of the classes.
    slope, bend = np.full((2, 2, 1), 0.5), np.full((2, 2, 1), 1e-282)
    slope[:, 0] = 0.2
    sums = np.array([slope, 0.1 * np.ones_like(slope), bend, 0.5 * bend])
    curves = LogisticCurves.of(700.0, 0.3, np.zeros((2, 1)), np.ones(1), sums)
    with np.errstate(all="raise", under="ignore"):
        values, slopes, _ = curves(np.array([0.5]))
    # The loss is linear there: A(α - α₀)Σpyv - Ac(Σp₁ - Σp₋₁) in both leaves with c = -α.
    np.testing.assert_allclose(values, 1.0 + 140.0 * 0.4 - 2 * 700 * 0.5 * 0.3)
    np.testing.assert_allclose(slopes, 700.0 * 0.4 - 2 * 700 * 0.3)


@pytest.mark.parametrize("scale", [1e14, 1e98])
def test_a_step_is_as_small_as_the_scale_is_large(scale):
    """A stump that makes errors has its best α near 1/scale, far below any fixed smallest α."""
    X, y, _ = task(0)
    values = []
    for each in (1.0, scale):
        loss = LogExpLoss(y, each, None)
        with Workers(1) as workers:
            atoms = StumpAtoms(loss, Bins(X), workers)
            objective = HullObjective(loss, atoms, np.zeros(len(y)), step="joint")
            pursuit = Pursuit(objective, CostMeter(), every_step=True)
            assert pursuit.step() is None
        values.append(objective.value)
    assert values[1] <= values[0] + 1e-6 * abs(values[0])
    assert values[1] < 0.0
