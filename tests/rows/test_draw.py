"""Drawing row numbers: uniform, without replacement, in little memory."""

import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.rows import draw_rows


@given(
    n_rows=st.integers(0, 300),
    size=st.integers(0, 320),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
def test_sorted_unique_in_range_and_never_excluded(n_rows, size, seed, data):
    some_rows = st.lists(st.integers(0, n_rows - 1), max_size=20) if n_rows else st.just([])
    exclude = data.draw(st.none() | some_rows)
    drawn = draw_rows(n_rows, size, np.random.default_rng(seed), exclude)
    allowed = sorted(set(range(n_rows)) - set(exclude or []))
    assert drawn.dtype == np.intp
    assert len(drawn) == min(size, len(allowed))
    assert np.all(np.diff(drawn) > 0)
    assert set(drawn.tolist()) <= set(allowed)
    if size >= len(allowed):
        assert drawn.tolist() == allowed


def test_every_subset_is_equally_likely():
    rng = np.random.default_rng(0)
    counts = dict.fromkeys(combinations([0, 2, 3, 5, 6], 2), 0)
    draws = 5000
    for _ in range(draws):
        counts[tuple(draw_rows(7, 2, rng, exclude=[4, 1]).tolist())] += 1
    expected = draws / len(counts)
    assert max(abs(c - expected) for c in counts.values()) < 5 * np.sqrt(expected)


@pytest.mark.parametrize("size", [100, 5000])  # either side of a fiftieth of the rows
def test_every_row_is_equally_likely_on_many_rows(size):
    rng = np.random.default_rng(1)
    n_rows, draws = 20_000, 200
    deciles = np.zeros(10)
    for _ in range(draws):
        drawn = draw_rows(n_rows, size, rng)
        deciles += np.bincount(drawn * 10 // n_rows, minlength=10)
    expected = draws * size / 10
    assert np.max(np.abs(deciles - expected)) < 5 * np.sqrt(expected)


def test_same_seed_same_rows():
    first, second = (draw_rows(10**6, 50, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_memory_does_not_grow_with_the_number_of_rows():
    rng = np.random.default_rng(0)
    tracemalloc.start()
    try:
        drawn = draw_rows(10**8, 2000, rng, exclude=np.arange(0, 10**8, 10**5))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(drawn) == 2000
    assert peak < 10**6


def test_refuses():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="size must not be negative, got -1"):
        draw_rows(5, -1, rng)
    with pytest.raises(ValueError, match=r"index must lie in \[0, 5\)"):
        draw_rows(5, 2, rng, exclude=[5])
