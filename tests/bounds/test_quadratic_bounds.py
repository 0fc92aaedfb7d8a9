"""Lower bounds on the minimum of ½x'Hx - b'x against dense solves."""

import numpy as np
import pytest

from pursuit.bounds import circle_shift, companion_lower_bound, residual_lower_bound
from pursuit.rounding import Rounded


def residual(value, rest, shift):
    return residual_lower_bound(Rounded.of(value), Rounded.of(rest), shift).value


def random_problem(rng, n):
    A = rng.normal(size=(n, n))
    d = rng.uniform(0.1, 2.0, n)
    return A @ A.T + np.diag(d), rng.normal(size=n), d


@pytest.mark.parametrize("seed", range(20))
def test_any_vector_gives_a_lower_bound_and_the_minimiser_the_minimum(seed):
    rng = np.random.default_rng(seed)
    H, b, d = random_problem(rng, 7)
    x = np.linalg.solve(H, b)
    least = -0.5 * b @ x
    for v in (rng.normal(size=7), np.zeros(7), x + 0.01 * rng.normal(size=7)):
        assert residual(0.5 * v @ H @ v - b @ v, b - H @ v, d) <= least
    assert residual(least, b - H @ x, d) == pytest.approx(least, rel=1e-12)
    # Negative control: a d that H does not exceed proves something false.
    v = rng.normal(size=7)
    assert residual(0.5 * v @ H @ v - b @ v, b - H @ v, 1e3 * d) > least


@pytest.mark.parametrize("seed", range(20))
def test_theorem_1_of_smola_and_bartlett(seed):
    """Both halves, (7) and (8), are these bounds; any vectors will do."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(9, 6))
    K, y, s = A @ A.T, rng.normal(size=9), 0.3
    plus = K + s * np.eye(9)
    a, z = rng.normal(size=9), rng.normal(size=9)
    Q = -y @ K @ a + 0.5 * a @ K @ plus @ a
    Q_star = -y @ z + 0.5 * z @ plus @ z
    Q_min = -0.5 * y @ K @ np.linalg.solve(plus, y)
    assert companion_lower_bound(Q_star, s, 0.5 * y @ y) <= Q_min <= Q
    value = 0.5 * a @ plus @ a - y @ a
    eight = (-0.5 * y @ y - Q) / s
    assert residual(value, y - plus @ a, s) == pytest.approx(eight, rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_circles(seed):
    rng = np.random.default_rng(seed)
    H = rng.normal(size=(8, 8))
    H = H + H.T
    off = np.abs(H).sum(axis=1) - np.abs(np.diag(H))
    np.fill_diagonal(H, off + rng.uniform(0.1, 1.0, 8))
    d = circle_shift(np.diag(H), np.abs(H).sum(axis=1))
    assert np.linalg.eigvalsh(H - np.diag(d))[0] >= -1e-12
    H[3, 3] = 0.5 * off[3]
    assert circle_shift(np.diag(H), np.abs(H).sum(axis=1)) is None
