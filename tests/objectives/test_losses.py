"""Row losses against differences and brute force; hull losses are weighted means of them."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from pursuit import HuberLoss, LogisticLoss
from pursuit.linalg import line_search
from pursuit.objectives import (
    Exponential,
    HuberRows,
    LogisticRows,
    PinballRows,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    SquaredRows,
)

MARGIN = [LogisticRows(), Exponential(), SquaredHinge()]
RESIDUAL = [
    SquaredRows(),
    HuberRows(0.7),
    PinballRows.absolute(),
    PinballRows.of_quantile(0.2),
    SquaredEpsilonInsensitive(0.3),
]


def name_of(loss):
    return repr(loss) if loss in RESIDUAL else type(loss).__name__


def case(loss, seed, n=40):
    rng = np.random.default_rng(seed)
    f, y = rng.normal(size=(2, n)) * 2
    return f, np.sign(y) if loss in MARGIN else y


@pytest.mark.parametrize("loss", MARGIN + RESIDUAL, ids=name_of)
@given(seed=st.integers(0, 2**31))
def test_derivatives_are_those_of_the_value(loss, seed):
    f, y = case(loss, seed)
    h = 1e-5
    ahead, behind = loss.value(f + h, y), loss.value(f - h, y)
    values = loss.value(f, y)
    # Away from kinks, of the loss or of its slope.
    left, right = (values - behind) / h, (ahead - values) / h
    third = np.abs(right - left - h * loss.curvature(f, y)) < 0.1 * h + 1e-9 * np.abs(values)
    assert third.mean() > 0.9
    first = ((ahead - behind) / (2 * h))[third]
    np.testing.assert_allclose(loss.gradient(f, y)[third], first, rtol=1e-5, atol=1e-7)
    both = loss.derivatives(f, y)
    np.testing.assert_allclose(both[0], loss.gradient(f, y), rtol=1e-13)
    np.testing.assert_allclose(both[1], loss.curvature(f, y), rtol=1e-9)


@pytest.mark.parametrize("loss", MARGIN + RESIDUAL, ids=name_of)
def test_no_curvature_exceeds_the_largest(loss):
    f, y = case(loss, 0, 2000)
    for reach in (0.5, 2.0, 9.0):
        inside = np.abs(f) <= reach
        largest = loss.largest_curvature(reach)
        assert loss.curvature(f, y)[inside].max() <= largest * (1 + 1e-12)
    assert loss.curvature(f, y).max() <= loss.most_curved


@pytest.mark.parametrize("loss", RESIDUAL[:4], ids=name_of)
@given(seed=st.integers(0, 2**31))
def test_conjugates_are_largest_differences(loss, seed):
    """max_f sf - ℓ(f, y) by a scalar search, for slopes that the loss has."""
    f, y = case(loss, seed, 6)
    slopes = loss.gradient(f, y)
    found = loss.conjugate(slopes, y)
    for s, target, value in zip(slopes, y, found, strict=True):
        at = np.array([target])

        def short(f, s=s, at=at):
            return loss.value(np.array([f]), at)[0] - s * f

        search = minimize_scalar(short, bracket=(target - 1, target + 1.5))
        assert value == pytest.approx(-search.fun, rel=1e-6, abs=1e-6)


def test_targets_are_checked_by_the_loss():
    with pytest.raises(ValueError, match="-1 and 1 only"):
        LogisticRows().checked([0.0, 1.0])
    with pytest.raises(ValueError, match="finite"):
        SquaredRows().checked([np.nan])


@given(seed=st.integers(0, 2**31))
def test_a_hull_loss_is_the_weighted_mean_of_its_row_loss(seed):
    rng = np.random.default_rng(seed)
    v, y, w = rng.normal(size=20), np.sign(rng.normal(size=20)), rng.uniform(0, 1, 20)
    loss = LogisticLoss(y, 2.5, w)
    rows = np.log1p(np.exp(-2.5 * y * v))
    assert loss.value(v) == pytest.approx(np.average(rows, weights=w), rel=1e-12)


@given(seed=st.integers(0, 2**31), delta=st.floats(0.05, 2.0))
def test_the_line_minimum_of_huber_is_exact_and_soon_found(seed, delta):
    """Newton's method on a piecewise linear slope: the zero itself, after a few evaluations."""
    rng = np.random.default_rng(seed)
    v, direction, y = rng.normal(size=(3, 30))
    loss = HuberLoss(y, delta)
    asked = []

    def slope(t):
        asked.append(t)
        return loss.slope(v, direction, t)

    t = line_search(slope)
    reference = minimize_scalar(
        lambda t: loss.value(v + t * direction),
        bounds=(0, 1),
        method="bounded",
        options={"xatol": 1e-11},
    )
    best = min(reference.fun, loss.value(v), loss.value(v + direction))
    assert loss.value(v + t * direction) <= best + 1e-13
    assert len(asked) <= 15
    assert partial(loss.slope, v, direction)(0.3)[1] is not None
