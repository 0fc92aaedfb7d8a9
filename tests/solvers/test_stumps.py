"""Stumps on bins against a search over every threshold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.linalg import Workers
from pursuit.objectives import LogExpLoss
from pursuit.solvers import Bins, StumpAtoms


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


@given(seed=st.integers(0, 2**31))
def test_the_vertex_is_the_steepest_of_all_stumps(seed):
    X, y, rng = task(seed)
    loss = LogExpLoss(y, 3.0, rng.uniform(0.5, 2, len(y)))
    with Workers(1) as workers:
        atoms = StumpAtoms(X, False, workers)
        for v in (np.zeros(len(y)), rng.uniform(-1, 1, len(y))):
            gradient = loss.gradient(v)
            (number,) = atoms.propose(gradient)
            best = min(p @ gradient for p in all_stumps(X))
            assert atoms.edges(gradient, [number])[0] == pytest.approx(best)
            assert atoms.values(number) @ gradient == pytest.approx(best)
            assert np.array_equal(atoms.stumps[number](X), atoms.values(number))


@given(seed=st.integers(0, 2**31))
def test_the_joint_stump_has_the_least_mean_exponential(seed):
    """min over stump and leaf values of mean q exp(-y c) is 2Σ√(PN), over all thresholds."""
    X, y, rng = task(seed)
    loss = LogExpLoss(y, 3.0)
    v = rng.uniform(-0.5, 0.5, len(y))
    with Workers(1) as workers:
        atoms = StumpAtoms(X, True, workers)
        atoms.propose(loss.gradient(np.zeros(len(y))))
        number = atoms.propose(loss.gradient(v))[0]
    q = np.exp(-3 * y * v)

    def Z(side):
        leaves = [q * side, q * ~side]
        return sum(np.sqrt(leaf[y > 0].sum() * leaf[y < 0].sum()) for leaf in leaves)

    stump = atoms.stumps[number]
    side = X[:, stump.feature] <= stump.threshold
    least = min(Z(column <= t) for column in X.T for t in column)
    assert Z(side) == pytest.approx(least, rel=1e-9, abs=1e-12)
    assert max(abs(stump.left), abs(stump.right)) == 1.0
    assert atoms.edges(None, [number])[0] == pytest.approx(
        atoms.values(number) @ loss.gradient(v), rel=1e-9, abs=1e-12
    )


def test_many_values_share_at_most_255_bins():
    X = np.random.default_rng(0).normal(size=(5000, 2))
    bins = Bins(X)
    assert all(len(edges) <= 255 for edges in bins.edges)
    counts = np.bincount(bins.codes[0])
    assert counts.max() < 3 * 5000 / 255


def test_neighbouring_floats_are_told_apart():
    values = np.array([[1.0], [np.nextafter(1.0, 2.0)], [5.0]])
    assert list(Bins(values).codes[0]) == [0, 1, 2]
