"""The line search against a fine grid and closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.linalg import line_search

HARD = {
    "parabola": (lambda t: 2 * (t - 0.3), lambda t: 2.0, 0.3),
    "flat then steep": (
        lambda t: -1 + np.exp(40 * (t - 0.9)),
        lambda t: 40 * np.exp(40 * (t - 0.9)),
        0.9,
    ),
    "quartic": (lambda t: 4 * (t - 0.5) ** 3, lambda t: 12 * (t - 0.5) ** 2, 0.5),
    "minimum at the end": (lambda t: t - 2.0, lambda t: 1.0, 1.0),
    "minimum at the start": (lambda t: t + 1.0, lambda t: 1.0, 0.0),
    "linear": (lambda t: -1.0, lambda t: 0.0, 1.0),
}


@pytest.mark.parametrize("second", [True, False])
@pytest.mark.parametrize("name", HARD)
def test_known_minima(name, second):
    first, curvature, least = HARD[name]
    t = line_search(lambda t: (first(t), curvature(t) if second else None))
    assert t == pytest.approx(least, abs=0.01 if name == "quartic" else 1e-7)


@given(seed=st.integers(0, 2**31), guess=st.floats(0.001, 0.999), end=st.floats(0.01, 1.0))
def test_sums_of_exponentials(seed, guess, end):
    """ln Σ exp is what boosting searches along, over ranges where Newton alone would leap away."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 20)) * 30

    def slope(t):
        q = np.exp(a + b * t - (a + b * t).max())
        q /= q.sum()
        return float(q @ b), float(q @ b**2 - (q @ b) ** 2)

    found = line_search(slope, end=end, guess=guess)
    assert 0 <= found <= end
    values = [np.logaddexp.reduce(a + b * t) for t in np.linspace(0, end, 501)]
    assert np.logaddexp.reduce(a + b * found) <= min(values) + 1e-9
