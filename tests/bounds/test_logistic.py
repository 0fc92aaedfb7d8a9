"""The dual of penalised logistic regression, against general maximisers and direct values."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize, minimize_scalar
from scipy.special import entr, expit

from pursuit.bounds import logistic_lower_bound
from pursuit.rounding import Rounded

SEEDS = st.integers(0, 2**32 - 1)


def problem(seed, m=12):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(m, 5))
    y = np.where(rng.random(m) < 0.5, 1.0, -1.0)
    return F @ F.T, y, rng.uniform(0.1, 3.0, m), rng


def dual(t, q, w, quadratic):
    return w @ (entr(t * q) + entr(1 - t * q)) - 0.5 * t**2 * quadratic


@given(seed=SEEDS, s=st.sampled_from([1e-3, 1.0, 1e3]), certain=st.sampled_from([1.0, 1e-3]))
def test_it_is_the_best_multiple(seed, s, certain):
    K, y, w, rng = problem(seed)
    q = certain * rng.random((len(y), 2))
    a = w[:, None] * y[:, None] * q
    quadratic = s * np.einsum("ij,ij->j", a, K @ a)
    found = logistic_lower_bound(q, w, Rounded.of(quadratic)).low
    for column in range(2):
        top = min(2.0, 1.0 / q[:, column].max())
        best = minimize_scalar(
            lambda t, c=column: -dual(t, q[:, c], w, quadratic[c]),
            bounds=(0.0, top),
            method="bounded",
            options={"xatol": 1e-12},
        )
        # That method never looks at the ends.
        expected = max(-best.fun, dual(top, q[:, column], w, quadratic[column]))
        assert_allclose(found[column], expected, rtol=1e-9, atol=1e-12)
        assert found[column] >= dual(1.0, q[:, column], w, quadratic[column]) - 1e-12


@given(seed=SEEDS, s=st.sampled_from([0.1, 1.0, 30.0]))
def test_it_is_below_every_value_and_meets_the_least(seed, s):
    K, y, w, rng = problem(seed)

    def value(c):
        return w @ np.logaddexp(0.0, -y * (K @ c)) + 0.5 * c @ K @ c / s

    def slope(c):
        return K @ (c / s - w * y * expit(-y * (K @ c)))

    best = minimize(value, np.zeros(len(y)), jac=slope, method="BFGS", options={"gtol": 1e-9})
    for q in (rng.random(len(y)), expit(-y * (K @ best.x))):
        a = w * y * q
        found = logistic_lower_bound(q[:, None], w, Rounded.of(np.array([s * a @ K @ a]))).low
        assert found[0] <= best.fun * (1 + 1e-9)
    assert_allclose(found[0], best.fun, rtol=1e-6)


def test_certain_rows_and_rows_without_a_say():
    q = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.0]])
    w = np.array([1.0, 2.0, 3.0])
    free = logistic_lower_bound(q, w, Rounded.of(np.zeros(2))).low
    # Without a kernel the entropies alone are to be made large.
    t = np.linspace(1e-6, 1.0, 200_001)
    expected = (2 * (entr(t) + entr(1 - t)) + 3 * (entr(t / 2) + entr(1 - t / 2))).max()
    assert_allclose(free, [expected, 0.0], rtol=1e-8, atol=1e-300)
    assert np.all(logistic_lower_bound(q, w, Rounded.of(np.full(2, 1e300))).low <= free)
