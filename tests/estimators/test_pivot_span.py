"""What pivots of a kernel matrix say of v'Kv, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.linalg import cholesky

from pursuit import SparseGPRegressor
from pursuit.estimators.span.certify import _spread


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
