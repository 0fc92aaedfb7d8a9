"""The rates of Theorem 3.1 and the margin bounds, as numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.bounds import (
    hull_rate,
    hull_rate_bound,
    hull_rate_from,
    margin_bound,
    margin_scale,
    margin_tail,
)


@given(M=st.floats(0.01, 1e4), share=st.floats(0.001, 1.0))
def test_rates_follow_the_recursion_of_the_lemma(M, share):
    """Δ ← Δ - Δ²/8M, which every step guarantees, stays below both forms."""
    steps = np.arange(1, 30)
    excess = start = 4 * M * share
    reached = []
    for _ in steps:
        excess -= excess**2 / (8 * M)
        reached.append(excess)
    reached = np.array(reached)
    assert np.all(reached <= hull_rate(steps, M) * (1 + 1e-12))
    assert np.all(reached <= hull_rate_from(steps, M, start) * (1 + 1e-12))


def test_the_second_form_needs_a_start_below_4M():
    steps = np.array([1, 2])
    assert np.all(np.isinf(hull_rate_from(steps, 1.0, 4.1)))
    assert hull_rate_from(steps, 1.0, 4.0) == pytest.approx([8 / 3, 2.0])
    assert np.all(hull_rate_from(steps, 1.0, 0.0) == 0.0)
    assert np.isinf(hull_rate(np.array([0]), 1.0)[0])


def test_the_bound_takes_the_smaller_form_and_says_where_it_is_vacuous():
    bound = hull_rate_bound(100, curvature=10.0, excess=0.5)
    assert np.all(bound.value <= hull_rate(bound.size, 10.0))
    assert not bound.vacuous[-1]
    assert hull_rate_bound(5, curvature=10.0, excess=50.0).vacuous.sum() == 0
    assert "Theorem 3.1" in str(bound)


def test_the_margin_rule_gives_equation_8():
    k, gamma = 5000, 0.1
    A = margin_scale(k, gamma)
    assert margin_tail(np.array([k]), A, gamma)[0] == pytest.approx(
        np.exp(-(gamma**2) * (k + 3) / 32)
    )
    # No other scale does better at k rounds.
    assert all(
        margin_tail(np.array([k]), A * c, gamma)[0] >= margin_tail(np.array([k]), A, gamma)[0]
        for c in (0.5, 0.9, 1.1, 2.0)
    )


def test_a_large_scale_is_named_vacuous():
    assert "vacuous" in str(margin_bound(200, scale=128.0, margin=0.1))
    assert not margin_bound(5000, margin_scale(5000, 0.1), 0.1).vacuous[-1]
