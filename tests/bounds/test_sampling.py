"""Totals from samples: closed forms, and how often the bound fails."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.bounds import (
    finite_mean_deviation,
    least_deviation,
    sample_needed,
    sampled_look,
    sampled_total,
)


@given(
    n=st.integers(2, 10_000),
    share=st.floats(0.01, 0.99),
    spread=st.floats(0.1, 1e3),
    delta=st.floats(1e-6, 0.5),
)
def test_the_deviation_solves_the_tail_of_corollary_3(n, share, spread, delta):
    k = max(1, min(n - 1, int(share * n)))
    epsilon = finite_mean_deviation(n, k, spread, delta)
    share_unseen = 1 - (k - 1) / n
    assert np.exp(-2 * k * epsilon**2 / (share_unseen * spread**2)) == pytest.approx(delta)


def test_the_published_example_says_nothing():
    """m=3000, m'=59, b=1, δ=.05: 473 of a trace of 3000 is added (Formulas §6)."""
    assert 3000 * finite_mean_deviation(3000, 59, 1.0, 0.05) == pytest.approx(473.4, abs=1)
    bound = sampled_total(np.full(59, 0.9), 3000, 1.0, 0.05, size=3, quantity="t", trivial=3000.0)
    assert bound.vacuous.all()
    assert "vacuous" in str(bound)
    assert bound.confidence == 0.95
    useful = sampled_total(np.full(59, 0.1), 3000, 1.0, 0.05, size=3, quantity="t", trivial=3000.0)
    assert not useful.vacuous.any()


def test_all_values_seen_leave_nothing_to_chance():
    values = np.random.default_rng(0).random(20)
    bound = sampled_total(values, 20, 1.0, 0.05, size=1, quantity="total")
    assert bound.value[0] == pytest.approx(values.sum())
    assert bound.confidence == 1.0


@pytest.mark.parametrize("k", [2, 20, 150])
def test_the_bound_fails_no_more_often_than_it_may(k, size):
    """Values at both ends of the interval, where Hoeffding's inequality is least slack."""
    rng = np.random.default_rng(k)
    values = (rng.random(200) < 0.3).astype(float)
    delta, n_draws = 0.2, size(400, 2000)
    failures = 0
    for _ in range(n_draws):
        drawn = rng.choice(values, k, replace=False)
        bound = sampled_total(drawn, 200, 1.0, delta, size=1, quantity="total")
        failures += bound.value[0] < values.sum()
    assert failures <= delta * n_draws


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((10, 0, 1.0, 0.1), "n_sampled must lie between 1 and n=10, got 0"),
        ((10, 11, 1.0, 0.1), "n_sampled must lie between 1 and n=10, got 11"),
        ((10, 5, 1.0, 0.0), "delta must lie strictly between 0 and 1, got 0"),
        ((10, 5, 1.0, 1.0), "delta must lie strictly between 0 and 1, got 1"),
        ((10, 5, -1.0, 0.1), "spread must be a finite number, not negative, got -1"),
        ((10, 5, np.inf, 0.1), "spread must be a finite number, not negative, got inf"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        finite_mean_deviation(*arguments)


def test_the_least_deviation_and_the_sample_it_needs_are_those_of_a_plain_search():
    n, b, delta, n_looks = 60, 1.5, 0.1, 7

    def least(size):
        deviations = []
        for t in range(1, n_looks + 1):
            left = n - t + 1
            k = min(size, left)
            share = 0.0 if k == left else 1 - (k - 1) / left
            deviations.append(left * b * np.sqrt(share * np.log(t * (t + 1) / delta) / (2 * k)))
        return min(deviations)

    for size in (1, 10, 53, 54, 60):
        assert least_deviation(n, size, b, delta, n_looks) == pytest.approx(least(size))
    for target in (0.0, 1.0, 9.0, 20.0, 1000.0):
        expected = next(size for size in range(1, n + 1) if least(size) <= target)
        assert sample_needed(n, target, b, delta, n_looks) == expected


def test_a_look_adds_what_was_not_sampled():
    values = np.array([0.2, 0.4, 0.1])
    bound = sampled_look(values, 10, 0.5, 1.0, 0.1, 3, size=4, quantity="what is left", trivial=9.0)
    deviation = np.sqrt((1 - 2 / 10) * np.log(12 / 0.1) / 6)
    assert bound.value[0] == pytest.approx(10 * (values.mean() + deviation) + 0.5)
    assert bound.confidence == 0.9
