"""Theorem 3 of Hussain and Shawe-Taylor, in print and with exact counts."""

import math
from math import comb, e, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.bounds import matching_pursuit_bound


def printed(m, k, t, delta):
    """The formula of the paper, letter by letter, with logarithms to base 2."""
    M = m - k - t
    errors = t * log2(e * (m - k) / t) if t else 0.0
    return 2 / M * ((k + 1) * log2(4 * e * M / (k + 1)) + k * log2(e * m / k)) + 2 / M * (
        errors + log2(2 * m**2 / delta)
    )


def counted(m, k, t, delta, dimension, hyperplanes, atoms):
    """The union bound of its proof, with whole numbers."""
    M = m - k - t
    labelings = sum(comb(2 * M * hyperplanes, i) for i in range(dimension + 1))
    ways = comb(atoms, k) * comb(m - k, t) * labelings * 2 * m**2
    return 2 / M * (log2(ways) - log2(delta))


@st.composite
def cases(draw):
    m = draw(st.integers(20, 400))
    k = draw(st.integers(1, m // 4))
    t = draw(st.integers(0, m // 4))
    return m, k, t, draw(st.sampled_from([0.01, 0.05, 0.5]))


@given(cases())
def test_the_printed_form(case):
    m, k, t, delta = case
    got = matching_pursuit_bound([k], [t], m, delta, printed=True)
    assert got[0] == pytest.approx(printed(m, k, t, delta), rel=1e-12)


@pytest.mark.parametrize(("m", "k", "t"), [(100, 60, 10), (100, 70, 12), (40, 25, 8)])
def test_the_printed_form_of_large_bases(m, k, t):
    """As long as there are no more dimensions than hyperplanes, k + 1 ≤ 4M: nothing is cut off."""
    got = matching_pursuit_bound([k], [t], m, 0.05, printed=True)
    assert got[0] == pytest.approx(printed(m, k, t, 0.05), rel=1e-12)


def test_more_dimensions_than_hyperplanes():
    """The printed count falls below 1 there; all 2^(4M) labelings are counted instead."""
    m, k, t = 100, 90, 8
    M = m - k - t
    assert (k + 1) * log2(4 * e * M / (k + 1)) < 0
    bits = 4 * M + k * log2(e * m / k) + t * log2(e * (m - k) / t) + log2(2 * m**2 / 0.05)
    got = matching_pursuit_bound([k], [t], m, 0.05, printed=True)
    assert got[0] == pytest.approx(2 / M * bits, rel=1e-12)


@given(cases(), st.booleans(), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3))
def test_the_exact_counts(case, intercept, n_columns, n_hyperplanes, n_kernels):
    m, k, t, delta = case
    got = matching_pursuit_bound(
        [k],
        [t],
        m,
        delta,
        n_atoms=n_kernels * m,
        n_hyperplanes=n_hyperplanes,
        n_columns=n_columns,
        intercept=intercept,
    )
    dimension = n_columns * (k + intercept)
    expected = counted(m, k, t, delta, dimension, n_hyperplanes, n_kernels * m)
    assert got[0] == pytest.approx(expected, rel=1e-9)


@given(cases(), st.booleans())
def test_exact_counts_are_never_looser(case, intercept):
    m, k, t, delta = case
    both = [
        matching_pursuit_bound([k], [t], m, delta, intercept=intercept, printed=form)[0]
        for form in (False, True)
    ]
    assert both[0] <= both[1]


def test_where_it_begins_to_say_something():
    """450 rows, δ = .05: below 1 for 12 functions without an error, or 5 with 14."""
    k, t = np.array([12, 13, 5, 5]), np.array([0, 0, 14, 15])
    assert (matching_pursuit_bound(k, t, 450, 0.05, printed=True) < 1).tolist() == [
        True,
        False,
        True,
        False,
    ]


def test_no_row_left():
    got = matching_pursuit_bound([1, 2, 1], [9, 8, 8], 10, 0.05)
    assert got[:2].tolist() == [math.inf, math.inf]
    assert np.isfinite(got[2])


def test_centres_fixed_beforehand_take_no_rows():
    """All rows then judge, and only the centres are chosen from."""
    got = matching_pursuit_bound([3], [2], 100, 0.1, n_atoms=20, rows_used=[0])
    labelings = sum(comb(4 * 98, i) for i in range(5))
    ways = comb(20, 3) * comb(100, 2) * labelings * 2 * 100**2
    assert got[0] == pytest.approx(2 / 98 * (log2(ways) - log2(0.1)), rel=1e-9)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 2.0, math.nan])
def test_delta_outside_the_unit_interval(delta):
    with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1"):
        matching_pursuit_bound([1], [0], 10, delta)


def test_hyperplanes_cut_the_plane_into_no_more_regions_than_counted():
    """Labelings |f - y| > α of 7 points by f in a 2-dimensional span, seen in a dense sweep."""
    rng = np.random.default_rng(0)
    F, y = rng.normal(size=(7, 2)), rng.normal(size=7)
    beta = rng.normal(size=(2, 50_000)) * rng.uniform(0.1, 5, 50_000)
    seen = np.unique(np.abs(F @ beta - y[:, None]) > 0.5, axis=1).shape[1]
    assert 20 < seen <= sum(comb(14, i) for i in range(3))
