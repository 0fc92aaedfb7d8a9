"""Stopping behind the minimum of a curve, whenever one looks at it."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.greedy import Patience


def stopped_at(curve, patience):
    """Size at which a look after every step stops, or None; and the best size by then."""
    best = 0
    for at, value in enumerate(curve):
        if value < curve[best]:
            best = at
        if at - best >= max(patience, best + 1):
            return at + 1, best + 1
    return None, best + 1


def watch(curve, patience):
    """Drive the rule as the loop does."""
    asked = []

    def values(first, last):
        asked.extend(range(first, last + 1))
        return np.array(curve[first - 1 : last])

    rule = Patience(values, patience, "bound")
    for size in range(1, len(curve) + 1):
        reason = rule(SimpleNamespace(size=size))
        if reason:
            break
    rule.look(size)
    return rule, reason, size, asked


@given(st.lists(st.integers(0, 20), min_size=1, max_size=120), st.integers(1, 12))
def test_the_outcome_is_that_of_a_look_at_every_step(curve, patience):
    rule, reason, size, asked = watch([float(v) for v in curve], patience)
    stop, best = stopped_at(curve, patience)
    assert rule.best_size == best
    assert asked == list(range(1, len(asked) + 1))
    if stop is not None:
        assert rule.values == [float(v) for v in curve[:stop]]
        assert size >= stop or reason is None
    else:
        assert reason is None
        assert len(rule.values) == len(curve)


def test_it_stops():
    curve = [5.0, 4.0, 3.0] + [6.0] * 300
    rule, reason, size, _ = watch(curve, 10)
    assert reason == "bound"
    assert size < 40
    assert rule.best_size == 3
    assert len(rule.values) == 13


def test_a_large_best_size_is_given_as_many_further_ones():
    curve = [*np.linspace(9, 1, 40), *[2.0] * 30, 0.5, *[2.0] * 400]
    rule, reason, _, _ = watch(curve, 10)
    assert reason == "bound"
    assert rule.best_size == 71


@pytest.mark.parametrize("value", [np.inf, 1.0])
def test_a_flat_curve_ends_at_its_first_size(value):
    rule, reason, _, _ = watch([value] * 60, 10)
    assert reason == "bound"
    assert rule.best_size == 1
