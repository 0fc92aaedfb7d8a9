"""SS00 again: small problems against dense oracles, and with --verify the paper's own figures.

Random subsets of 59 rows hold all of a smaller problem, so that a full search is their oracle.
"""

import itertools

import numpy as np
import oracles
import pytest

from pursuit.papers import ss00, ss00_regression


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
    X, _ = small(16)
    sets = {"first": (X - X.mean(axis=0)) / X.std(axis=0), "second": X / 30}
    found = ss00.figure1(sets, subsets=[2, 59], n_basis=4, n_runs=2)
    for name, rows in sets.items():
        K = oracles.kernel_matrix("gaussian", np.sqrt(0.5), rows, rows)
        expected = greedy_traces(K, 4)
        traces = found.arrays[f"trace_{name}"]
        np.testing.assert_allclose(traces[1], [expected, expected], rtol=1e-8)
        # No single row leaves less than the best of all.
        assert np.all(traces[0, :, 0] >= expected[0] * (1 - 1e-9))
    assert all(
        name.endswith("within 10 % of each other, the smallest not") for name in found.criteria
    )
    assert [panel.title for panel in found.panels] == ["first", "second"]


def test_section6_3_counts_as_a_naive_search_does():
    X, y = small(24)
    found = ss00.section6_3((X, y), share=0.4, n_train=24, n_runs=2)
    expected = 1 + int(np.flatnonzero(greedy_traces(kernel_matrix(X, 1.0), 6) <= 0.4)[0])
    assert found.arrays["kernels"].tolist() == [expected, expected]
    printed = abs(expected / 24 - 200 / 3000) <= 50 / 3000
    assert found.verdict == ("reproduced" if printed else "not reproduced")


def test_figure3_has_the_tail_of_the_spectrum():
    X, y = small(20)
    found = ss00.figure3((X, y), sizes=[2, 4], n_train=20, n_runs=2)
    K = kernel_matrix(X, 1.0)
    spectrum = np.sort(np.linalg.eigvalsh(K))[::-1]
    np.testing.assert_allclose(
        found.arrays["pca"], [spectrum[2:].sum() / 20, spectrum[4:].sum() / 20], rtol=1e-9
    )
    for run in found.arrays["greedy"]:
        np.testing.assert_allclose(run, greedy_traces(K, 4)[[1, 3]], rtol=1e-8)
    assert found.checks["never below the optimum"] is True


@pytest.mark.parametrize(("shift", "falls"), [(1.05, True), (1.6, True), (1.05, False)])
def test_figure3_asks_for_size_and_slope(monkeypatch, shift, falls):
    """Traces made up: a little above the optimum or much, and falling alike or not."""
    size = np.arange(1, 201)
    pca = size**-1.5
    greedy = shift * (pca if falls else pca / pca[49] * pca[49] * (size / 50) ** 0.5)
    monkeypatch.setattr(ss00, "traces_beside_pca", lambda *_: (greedy[None], pca))
    found = ss00.figure3(small(20))
    as_large, as_steep = found.criteria.values()
    assert as_large is (shift < 1.1 and falls)
    assert as_steep is falls
    verdict = {0: "not reproduced", 1: "partly reproduced", 2: "reproduced"}[as_large + as_steep]
    assert found.verdict == verdict


def span_fit(K, S, y, noise):
    """Risk over the rows, and coefficients, in the span of some columns."""
    a = np.linalg.solve(K[:, S].T @ K[:, S] + noise * K[np.ix_(S, S)], K[:, S].T @ y)
    f = K[:, S] @ a
    return 0.5 * (np.sum((y - f) ** 2) + noise * a @ K[np.ix_(S, S)] @ a) / len(y), a


@pytest.mark.parametrize(
    ("figure", "per_feature", "noise"),
    [(ss00_regression.figure2, 1.0, 0.1), (ss00_regression.figure5, 10.0, 0.01)],
)
def test_figures_2_and_5_minimise_the_regularised_risk(figure, per_feature, noise):
    X, y = small(40)
    found = figure((X, y), sizes=[3, 5], n_train=30, n_runs=2)
    K = kernel_matrix(X, 2 * per_feature)
    z = y - y.mean()
    for run in range(2):
        order = np.random.default_rng(run).permutation(40)
        train, test = order[:30], order[30:]
        inner = K[np.ix_(train, train)]
        a = np.linalg.solve(inner + noise * np.eye(30), z[train])
        risk = 0.5 * noise * z[train] @ a / 30
        assert found.arrays["risk"][run, 0] == pytest.approx([risk, risk], rel=1e-7)
        error = np.mean((z[test] - K[np.ix_(test, train)] @ a) ** 2)
        assert found.arrays["error"][run, 0] == pytest.approx([error, error], rel=1e-6)
        for i, n in enumerate((3, 5)):
            S = []
            for _ in range(n):
                left = [
                    np.inf if j in S else np.trace(oracles.nystroem_residual(inner, [*S, j]))
                    for j in range(30)
                ]
                S.append(int(np.argmin(left)))
            risk, a = span_fit(inner, S, z[train], noise)
            assert found.arrays["risk"][run, 2, i] == pytest.approx(risk, rel=1e-6)
            error = np.mean((z[test] - K[np.ix_(test, train[S])] @ a) ** 2)
            assert found.arrays["error"][run, 2, i] == pytest.approx(error, rel=1e-6)
            lam, U = np.linalg.eigh(inner)
            V = (U * np.sqrt(np.maximum(lam, 0)))[:, -n:]
            u = np.linalg.solve(V.T @ V + noise * np.eye(n), V.T @ z[train])
            risk = 0.5 * (np.sum((z[train] - V @ u) ** 2) + noise * u @ u) / 30
            assert found.arrays["risk"][run, 1, i] == pytest.approx(risk, rel=1e-8)
    assert found.checks["no risk below the full system's"] is True


def test_criteria_of_figure_2_can_fail():
    """With a single basis function the risk is far above that of the full system."""
    X, y = small(40)
    criteria = ss00_regression.figure2((X, y), sizes=[1], n_train=30, n_runs=1).criteria
    assert criteria["risk with 1 within 5 % of the full system's"] is False


def test_figure4_counts_classes():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 6)) * 5
    labels = np.repeat(np.arange(4), [60, 3, 3, 3])
    X = centres[labels] + 0.1 * rng.normal(size=(69, 6))
    found = ss00.figure4((X, labels), n_patterns=4, n_runs=3)
    assert found.arrays["classes"].tolist() == [4, 4, 4]
    assert found.arrays["expected"] < 2
    assert found.criteria["more classes than random rows have, by two standard errors"] is True
    assert found.table()["series"] == ["greedy"] * 3 + ["random rows, expected"] * 2


def test_the_expected_number_of_classes_is_exact():
    """Counted over all subsets of a few rows, and 6.39 for ten of the digits of USPS."""
    labels = np.array([0, 0, 0, 1, 1, 2, 2])
    subsets = list(itertools.combinations(labels, 3))
    expected = np.mean([len(set(subset)) for subset in subsets])
    assert ss00.expected_classes(labels, 3) == pytest.approx(expected, rel=1e-14)


def test_the_expected_number_of_digits(data_dir):
    assert ss00.expected_classes(ss00._usps()[1], 10) == pytest.approx(6.39, abs=0.005)


def test_figure4_shows_square_patterns():
    X = np.random.default_rng(0).random((40, 9))
    pictures = ss00.figure4((X, np.arange(40) % 7), n_runs=3).pictures
    assert [image.shape for _, image in pictures] == [(3, 3)] * 20
    assert all(np.any(np.all(image.ravel() == X, axis=1)) for _, image in pictures)


@pytest.mark.verify
def test_the_figures_of_the_paper(data_dir):
    assert ss00.figure1(n_runs=2).verdict == "reproduced"
    counted = ss00.section6_3()
    assert counted.verdict == "reproduced"
    assert counted.arrays["kernels"].mean() <= 180
    assert ss00.figure3().verdict == "not reproduced"
    assert ss00_regression.figure2().verdict == "reproduced"
    assert ss00_regression.figure5().verdict == "reproduced"
    patterns = ss00.figure4().arrays["classes"]
    assert 6.5 <= patterns.mean() <= 8.5
