"""What pivots of a kernel matrix say of v'Kv, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.linalg import cholesky, solve_triangular

from pursuit import SparseGPRegressor
from pursuit.estimators.span.certify import PivotSpan, _spread, _to_pivots
from pursuit.rounding import gamma


def exact_spread(R, sizes):
    """|R⁻¹|s by substitution in fractions."""
    n = len(R)
    rows = [[Fraction(float(value)) for value in row] for row in R]
    inverse = [[Fraction(0)] * n for _ in range(n)]
    for j in range(n):
        for i in range(j, n):
            rest = Fraction(int(i == j)) - sum(rows[i][k] * inverse[k][j] for k in range(j, i))
            inverse[i][j] = rest / rows[i][i]
    s = [Fraction(float(size)) for size in sizes]
    return [sum((abs(a) * b for a, b in zip(row, s, strict=True)), Fraction(0)) for row in inverse]


@pytest.mark.parametrize("length", [0.3, 1.0, 3.0])
def test_the_spread_of_a_triangle_is_not_below_the_exact_one(length):
    x = np.linspace(0.0, 1.0, 10)
    K = np.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + 1e-13 * np.eye(10)
    R, sizes = cholesky(K, lower=True), np.ones(10)
    found, truth = _spread(R, sizes), exact_spread(R, sizes)
    known = np.isfinite(found)
    assert known[:4].all()
    for bound, exact in zip(found[known], np.array(truth)[known], strict=True):
        assert exact <= Fraction(float(bound))
        assert float(bound) <= 2.0 * float(exact)
    # As computed it may be below: it is the bound that is proved, not the inverse.
    plain = np.abs(np.linalg.inv(R)) @ sizes
    assert any(exact > Fraction(float(one)) for one, exact in zip(plain, truth, strict=True))


def test_distances_to_pivots_are_not_below_the_exact_ones():
    rng = np.random.default_rng(0)
    F = np.concatenate([1000 * rng.integers(-9, 9, size=(6, 8)), rng.integers(-99, 99, (6, 8))])
    F[6:9] = F[:3] + np.eye(8, dtype=int)[:3]  # next to a pivot each
    K = (F @ F.T).astype(float)  # whole numbers without rounding
    pivots = np.arange(6)
    R = cholesky(K[:6, :6], lower=True)
    V, unit = solve_triangular(R, K[:6], lower=True), 4.0 * gamma(9)
    found = _to_pivots(V, pivots, np.diag(K), unit)
    exact = ((F[:, None] - F[:6]) ** 2).sum(axis=2).min(axis=1)
    assert (found >= exact).all()
    np.testing.assert_allclose(found, exact, rtol=1e-8, atol=16 * unit * K.max())
    # Rounding moves them below, but for the part that is added.
    assert (_to_pivots(V, pivots, np.diag(K), 0.0) < exact).any()
    # A row next to a pivot gains by it: a bound that is spoilt otherwise.
    spoilt = np.full(6, 1e3 / np.sqrt(K.max()))
    span = PivotSpan.of(V, spoilt, pivots, np.arange(12), np.diag(K), 0.0, unit)
    assert (span.most_missed[6:9] < 1.1).all()
    assert (span.most_missed[:6] == 0.0).all()


def test_equal_rows_cost_two_levels_nothing():
    """Far from the origin kernel values have few digits; a row and its equal are one function."""
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(12, 2)), 1) + 1e6
    y = rng.normal(size=24)
    twice = np.concatenate([X, X])
    model = SparseGPRegressor(
        "rbf", gamma=0.5, noise=1e-3, n_basis=12, optimizer=None, refine=False, random_state=0
    ).fit(twice, y)
    equal = model.certify(twice, y, kind="two-level")
    # Rows that are not equal, but differ by less than values resolve, are not known to be inside.
    near = model.certify(np.concatenate([X, X + 2.0**-30]), y, kind="two-level")
    assert near.upper == pytest.approx(equal.upper, rel=1e-6)
    assert 10.0 * equal.rounding < near.rounding
