"""SS00 §5.4 again: stopping by the trace against dense solves, and operations against counters."""

import numpy as np
import oracles
import pytest

from pursuit.papers import ss00_regression
from pursuit.papers.ss00 import algorithm2
from pursuit.papers.ss00_regression import Setting, full_operations, greedy_operations


def smooth(m=60, seed=0):
    """A smooth target on the line, which few functions describe."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(m, 1))
    return Setting(X, 5 + np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=m), m - 20, 1.0, 0.1)


def test_trace_is_stopped_where_a_naive_search_stops():
    """Subsets of 59 rows hold all 40 training rows, so that every run is a full search."""
    setting = smooth()
    found = ss00_regression.section5_4_trace({"line": setting}, shares=[1e-3], n_runs=2)
    for run in range(2):
        order = np.random.default_rng(run).permutation(60)
        train, test = order[:40], order[40:]
        K = oracles.kernel_matrix("gaussian", np.sqrt(0.5), setting.X, setting.X)
        inner, z = K[np.ix_(train, train)], setting.y - setting.y.mean()
        S = []
        while not S or np.trace(oracles.nystroem_residual(inner, S)) > 1e-3 * 40:
            left = [
                np.inf if j in S else np.trace(oracles.nystroem_residual(inner, [*S, j]))
                for j in range(40)
            ]
            S.append(int(np.argmin(left)))
        assert found.arrays["kernels_line"][run, 0] == len(S)
        A, B = inner[:, S], inner[np.ix_(S, S)]
        a = np.linalg.solve(A.T @ A + 0.1 * B, A.T @ z[train])
        risk = 0.5 * np.sum((z[train] - A @ a) ** 2) + 0.05 * a @ B @ a
        full = np.linalg.solve(inner + 0.1 * np.eye(40), z[train])
        expected = risk / (0.05 * z[train] @ full)
        assert found.arrays["risk_line"][run, 0] == pytest.approx(expected, rel=1e-6)
        errors = [
            np.mean((z[test] - K[np.ix_(test, train[rows])] @ b) ** 2)
            for rows, b in ((S, a), (np.arange(40), full))
        ]
        assert found.arrays["error_line"][run, 0] == pytest.approx(errors[0] / errors[1], rel=1e-6)


def test_the_share_that_is_judged_must_be_there():
    with pytest.raises(ValueError, match="shares must have 1/1000 among them"):
        ss00_regression.section5_4_trace({"line": smooth()}, shares=[1e-2])


def counted_greedy(m, d, n, kappa):
    """Algorithm 2 step by step, an operation at a time."""
    count = 0
    for t in range(n):
        for _ in range(kappa):
            count += m * (3 * d + 1)  # a column of the kernel matrix
            count += m * 2 * t  # its product with the coefficients found so far
            count += m * 3  # difference, square, sum
    return count + m * n**2 + n**3 / 3


@pytest.mark.parametrize(("m", "d", "n", "kappa"), [(7, 2, 1, 3), (30, 4, 5, 2), (100, 3, 20, 59)])
def test_operations_of_the_greedy_choice_are_counted(m, d, n, kappa):
    assert greedy_operations(m, d, n, kappa) == pytest.approx(counted_greedy(m, d, n, kappa))


def test_an_inverse_is_six_cholesky_factors():
    ratio = full_operations(10**6, 3, "an inverse") / full_operations(10**6, 3, "a Cholesky factor")
    assert ratio == pytest.approx(6, rel=1e-4)


def test_kernel_entries_are_those_of_the_formula():
    """κ columns of m entries in each step, and little besides."""
    X = np.random.default_rng(0).normal(size=(300, 3))
    entries = algorithm2(X, 12, 20, 0).path_.entries[-1]
    assert entries == pytest.approx(12 * 20 * 300, rel=0.02)


def test_speed_is_judged_by_operations_and_by_the_clock(monkeypatch):
    monkeypatch.setattr(
        ss00_regression, "cpu_seconds", lambda tasks, times: np.array([14.0, 3.0, 2.0])
    )
    found = ss00_regression.section5_4_speed({"line": smooth()})
    n = int(found.arrays["kernels"][0])
    sparse = greedy_operations(40, 1, n, 59)
    expected = [full_operations(40, 1, how) / sparse for how in ss00_regression.BASELINES]
    np.testing.assert_allclose(found.arrays["operations"], [expected])
    np.testing.assert_allclose(found.arrays["seconds"], [[7.0, 1.5]])
    holds = dict(zip(("inverse", "Cholesky"), (True, False), strict=True))
    for how, as_printed in holds.items():
        [holds_here] = [
            value for name, value in found.criteria.items() if how in name and "clock" in name
        ]
        assert holds_here is as_printed
