"""SS00 again: small problems against dense oracles, and with --verify the paper's own figures.

Random subsets of 59 rows hold all of a smaller problem, so that a full search is their oracle.
"""

import numpy as np
import oracles
import pytest

from pursuit.papers import ss00


def small(m, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 2)) * [1.0, 50.0] + [3.0, 0.0]
    return X, 10 + np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=m)


def kernel_matrix(X, width):
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    return oracles.kernel_matrix("gaussian", np.sqrt(width / 2), Z, Z)


def greedy_traces(K, n):
    """Shares of the trace after each step of SS00 Algorithm 2 with every row a candidate."""
    S, traces = [], []
    for _ in range(n):
        left = {
            i: np.trace(oracles.nystroem_residual(K, [*S, i])) for i in range(len(K)) if i not in S
        }
        best = min(left, key=left.get)
        S.append(best)
        traces.append(left[best] / np.trace(K))
    return np.array(traces)


def test_figure1_follows_a_naive_search():
    X, y = small(16)
    found = ss00.figure1((X, y), subsets=[2, 59], n_basis=4, n_train=16, n_runs=2)
    expected = greedy_traces(kernel_matrix(X, 1.0), 4)
    np.testing.assert_allclose(found.arrays["trace"][1], [expected, expected], rtol=1e-8)
    assert np.all(found.arrays["trace"][0, :, -1] >= expected[-1] * (1 - 1e-9))


def test_section6_3_counts_as_a_naive_search_does():
    X, y = small(24)
    found = ss00.section6_3((X, y), share=0.4, n_train=24, n_runs=2)
    expected = 1 + int(np.flatnonzero(greedy_traces(kernel_matrix(X, 1.0), 6) <= 0.4)[0])
    assert found.arrays["kernels"].tolist() == [expected, expected]
    assert found.verdict == "not reproduced"


def test_figure3_has_the_tail_of_the_spectrum():
    X, y = small(20)
    found = ss00.figure3((X, y), sizes=[2, 4], n_train=20)
    K = kernel_matrix(X, 1.0)
    spectrum = np.sort(np.linalg.eigvalsh(K))[::-1]
    np.testing.assert_allclose(
        found.arrays["pca"], [spectrum[2:].sum() / 20, spectrum[4:].sum() / 20], rtol=1e-9
    )
    np.testing.assert_allclose(found.arrays["greedy"], greedy_traces(K, 4)[[1, 3]], rtol=1e-8)
    assert found.criteria["never below the optimum"] is True


def test_figures2_and_5_minimise_the_regularised_risk():
    X, y = small(40)
    found = ss00.figures2_and_5("abalone", (X, y), n_basis=5, n_train=30)
    K = kernel_matrix(X, 2.0)
    order = np.random.default_rng(0).permutation(40)
    train, test = order[:30], order[30:]
    z = y - y.mean()
    a = np.linalg.solve(K[np.ix_(train, train)] + 0.1 * np.eye(30), z[train])
    f = K[:, train] @ a
    risk = 0.5 * (np.sum((z - f)[train] ** 2) + 0.1 * a @ f[train]) / 30
    assert found.arrays["risk"][0] == pytest.approx(risk, rel=1e-7)
    assert found.arrays["error"][0] == pytest.approx(np.mean((z - f)[test] ** 2), rel=1e-6)
    assert found.criteria["no risk below the full system's"] is True
    with pytest.raises(ValueError, match="dataset must be 'abalone' or 'boston', got 'iris'"):
        ss00.figures2_and_5("iris")


def test_figure4_counts_classes():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 6)) * 5
    labels = np.repeat(np.arange(4), [60, 3, 3, 3])
    X = centres[labels] + 0.1 * rng.normal(size=(69, 6))
    found = ss00.figure4((X, labels), n_patterns=4, n_runs=3)
    assert found.arrays["classes"].tolist() == [4, 4, 4]
    assert found.arrays["uniform"].mean() < 4
    assert found.criteria["more classes than random rows have"] is True


@pytest.mark.verify
def test_the_figures_of_the_paper(data_dir):
    assert ss00.figure1(n_runs=2).verdict == "reproduced"
    counted = ss00.section6_3()
    assert counted.verdict == "reproduced"
    assert counted.arrays["kernels"].mean() <= 180
    assert ss00.figure3().verdict == "reproduced"
    assert ss00.figures2_and_5("abalone").verdict == "reproduced"
    assert ss00.figures2_and_5("boston").verdict == "reproduced"
    patterns = ss00.figure4().arrays["classes"]
    assert 6.5 <= patterns.mean() <= 8.5
