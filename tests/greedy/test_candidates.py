"""Who may be chosen at a step."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.greedy import AllCandidates, FreshSubset, subset_size

masks = st.lists(st.booleans(), max_size=40).map(lambda bits: np.array(bits, dtype=bool))


@given(masks)
def test_everyone(available):
    assert AllCandidates().draw(available).tolist() == np.flatnonzero(available).tolist()


@given(masks, st.integers(1, 45), st.integers(0, 2**32 - 1))
def test_a_fresh_subset(available, size, seed):
    drawn = FreshSubset(size, np.random.default_rng(seed)).draw(available)
    assert len(drawn) == min(size, available.sum())
    assert np.all(np.diff(drawn) > 0), "increasing, so without replacement"
    assert available[drawn].all()


def test_subsets_are_fresh_and_uniform(size):
    available = np.ones(20, bool)
    available[3] = False
    subset = FreshSubset(5, np.random.default_rng(0))
    n = size(2000, 20_000)
    counts = np.zeros(20)
    for _ in range(n):
        counts[subset.draw(available)] += 1
    assert counts[3] == 0
    expected = n * 5 / 19
    assert np.abs(counts[available] - expected).max() < 5 * math.sqrt(expected)


def test_the_seed_decides():
    available = np.ones(50, bool)
    a, b = (FreshSubset(6, np.random.default_rng(1)) for _ in range(2))
    draws = [a.draw(available).tolist() for _ in range(3)]
    assert draws == [b.draw(available).tolist() for _ in range(3)]
    assert draws[0] != draws[1]


@pytest.mark.parametrize(
    ("quantile", "delta", "size"), [(0.05, 0.05, 59), (0.01, 0.05, 299), (0.5, 0.5, 1)]
)
def test_subset_size(quantile, delta, size):
    assert subset_size(quantile, delta) == size
    assert subset_size() == 59


@given(st.floats(0.001, 0.9), st.floats(0.001, 0.9))
def test_subset_size_is_the_smallest_that_keeps_the_promise(quantile, delta):
    size = subset_size(quantile, delta)
    assert (1 - quantile) ** size <= delta * (1 + 1e-9)
    assert size == 1 or (1 - quantile) ** (size - 1) > delta * (1 - 1e-9)


@pytest.mark.parametrize("name", ["quantile", "delta"])
@pytest.mark.parametrize("number", [0, 1, -0.1, 1.5])
def test_probabilities_are_between_0_and_1(name, number):
    with pytest.raises(ValueError, match=f"{name} must lie strictly between 0 and 1, got {number}"):
        subset_size(**{name: number})
