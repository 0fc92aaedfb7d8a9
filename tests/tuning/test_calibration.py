"""Leave-one-out, against fits without the row; what it chooses, and the curve of sizes."""

from dataclasses import replace

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from pursuit.linalg import PredictiveVariance, SpanSolution
from pursuit.tuning import HeldOut, calibrate, error_curve, flat_size


class Fit:
    """Rows, some of them identical, fitted in the span of a few functions.

    With ``of_rows`` these are those of the last rows, which are all different.
    """

    def __init__(
        self, seed=0, m=24, n=6, n_outputs=2, noise=0.2, n_copies=0, weighted=True, of_rows=False
    ):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((m, 2))
        X[:n_copies] = X[rng.integers(n_copies, m, n_copies)]
        Z = X[m - n :] if of_rows else rng.standard_normal((n, 2))
        self.K = oracles.kernel_matrix("gaussian", 0.9, X, Z)
        self.K_ZZ = oracles.kernel_matrix("gaussian", 0.9, Z, Z) + 1e-8 * np.eye(n)
        self.Y = np.sin(X @ rng.standard_normal((2, n_outputs)))
        self.Y += 0.4 * rng.standard_normal((m, n_outputs))
        self.w = rng.uniform(0.3, 3.0, m) if weighted else np.ones(m)
        self.group = np.unique(X, axis=0, return_inverse=True)[1].ravel()
        self.point_group = self.group[m - n :] if of_rows else np.full(n, -1)
        self.noise = noise
        R = np.linalg.cholesky(self.K_ZZ)
        gram = self.K.T @ (self.w[:, None] * self.K)
        cross = self.K.T @ (self.w[:, None] * self.Y)
        self.solution = SpanSolution.from_gram(R, gram, cross, noise)

    def held_out(self, rows=slice(None)):
        own = self.point_group[:, None] == self.group[rows]
        leaving = self.solution.features(own.T.astype(float)) if own.any() else None
        return HeldOut(
            self.solution.features(self.K[rows]),
            self.Y[rows],
            self.w[rows],
            np.ones(len(self.Y[rows])),
            np.unique(self.group[rows], return_inverse=True)[1],
            leaving,
        )

    def functions(self, i, n=None):
        """The first n functions, but not that of row i."""
        return np.flatnonzero(self.point_group[:n] != self.group[i])

    def without(self, rows, n=None, noise=None, functions=None):
        """V (n functions) and B of the fit that does not see some rows, with its coefficients."""
        n, noise = n or len(self.K_ZZ), noise or self.noise
        functions = np.arange(n) if functions is None else functions
        kept = np.setdiff1d(np.arange(len(self.K)), rows)
        K, w = self.K[np.ix_(kept, functions)], self.w[kept]
        K_ZZ = self.K_ZZ[np.ix_(functions, functions)]
        beta = oracles.span_fit(K, K_ZZ, self.Y[kept], w, noise)
        inner = np.linalg.inv(K.T @ (w[:, None] * K) + noise * K_ZZ)
        return beta, inner

    def left_out(self, which=None, n=None, noise=None):
        """Error and k'(K'WK + σ²K_ZZ)⁻¹k of every row by the fit without it and its like.

        Its basis function, if it has one, is left out as well.
        """
        n = n or len(self.K_ZZ)
        which = np.arange(len(self.K)) if which is None else which
        errors, spreads = [], []
        for i in which:
            like = which[self.group[which] == self.group[i]]
            functions = self.functions(i, n)
            beta, inner = self.without(like, n, noise, functions)
            k = self.K[i, functions]
            errors.append(self.Y[i] - k @ beta)
            spreads.append(k @ inner @ k)
        return np.array(errors), np.array(spreads)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0, 6]),
    st.booleans(),
    st.sampled_from([0.05, 0.5, 5.0]),
    st.integers(1, 3),
    st.booleans(),
)
def test_leave_out_is_a_fit_without_the_group(seed, n_copies, weighted, noise, n_outputs, of_rows):
    fit = Fit(
        seed,
        n_copies=n_copies,
        weighted=weighted,
        noise=noise,
        n_outputs=n_outputs,
        of_rows=of_rows,
    )
    found = fit.held_out().leave_out(fit.solution)
    for got, expected in zip(found, fit.left_out(), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 6]))
def test_what_the_other_functions_miss(seed, n_copies):
    fit = Fit(seed, n_copies=n_copies, of_rows=True)
    missed = fit.held_out().missed()
    for i in range(24):
        others = fit.functions(i)
        k = fit.K[i, others]
        expected = 1.0 - k @ np.linalg.solve(fit.K_ZZ[np.ix_(others, others)], k)
        assert missed[i] == pytest.approx(expected, abs=1e-6)
    assert np.all(missed[-6:] > 0), "each point is missed by the others"


@pytest.mark.parametrize("noise", [0.05, 0.5])
def test_a_basis_of_all_rows_is_the_exact_process(noise):
    """With C = K + σ²W⁻¹: errors C⁻¹y/diag C⁻¹, variances 1/diag C⁻¹ (GPML 5.12)."""
    fit = Fit(14, m=20, n=20, of_rows=True, noise=noise)
    rows = fit.held_out()
    error, q = rows.leave_out(fit.solution)
    inverse = np.linalg.inv(fit.K + noise * np.diag(1 / fit.w))
    pivots = np.diag(inverse)
    np.testing.assert_allclose(error, inverse @ fit.Y / pivots[:, None], rtol=1e-4, atol=1e-5)
    variance = noise * (1 / fit.w + q) + rows.missed()
    np.testing.assert_allclose(variance, 1 / pivots, rtol=1e-4)


def test_some_of_the_rows_are_left_out():
    fit = Fit(1, n_copies=6)
    some = np.arange(0, 24, 2)
    found = fit.held_out(some).leave_out(fit.solution)
    for got, expected in zip(found, fit.left_out(some), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-8)


def test_a_weight_is_left_out_as_its_copies_are():
    fit = Fit(2)
    w = np.random.default_rng(0).integers(1, 4, 24)
    fit.w = w.astype(float)
    gram, cross = fit.K.T @ (w[:, None] * fit.K), fit.K.T @ (w[:, None] * fit.Y)
    fit.solution = SpanSolution.from_gram(np.linalg.cholesky(fit.K_ZZ), gram, cross, fit.noise)
    weighted = fit.held_out()
    each = np.repeat(np.arange(24), w)
    copies = HeldOut(
        weighted.features[:, each], fit.Y[each], np.ones(len(each)), np.ones(len(each)), each
    )
    for one, many in zip(
        weighted.leave_out(fit.solution), copies.leave_out(fit.solution), strict=True
    ):
        np.testing.assert_allclose(one[each], many, rtol=1e-9, atol=1e-12)
    first, second = (calibrate(fit.solution, rows)[1] for rows in (weighted, copies))
    assert first.noise == second.noise
    assert first.spread.noise == pytest.approx(second.spread.noise, rel=1e-2)
    assert first.nlpd == pytest.approx(second.nlpd, abs=1e-4)


@pytest.mark.parametrize("of_rows", [False, True])
def test_truncated_rows(of_rows):
    fit = Fit(3, of_rows=of_rows)
    small = fit.held_out().truncated(3)
    found = small.leave_out(fit.solution.truncated(3))
    for got, expected in zip(found, fit.left_out(n=3), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-8)
    assert np.all(small.missed() >= fit.held_out().missed() - 1e-12)


def mean_square(error, w):
    return float((w @ error**2).mean() / w.sum())


def density(fit, rows, solution, spread):
    """Mean weighted negative log density of left-out targets, from the normal distribution."""
    error, q = rows.leave_out(solution)
    missed = np.maximum(1.0 - (rows.features**2).sum(axis=0), 0)
    factor = spread.missed
    if factor < 1:
        factor = factor + (1 - factor) * missed**16
    deviation = np.sqrt(spread.noise * (1 + q) + factor * missed)
    surprise = -norm(scale=deviation[:, None]).logpdf(error).mean(axis=1)
    return float(np.average(surprise, weights=fit.w))


def surprise(fit, rows, solution, spread):
    """Negative log density, and what the spread has against it before rows are seen."""
    logs = np.log([spread.noise / solution.noise, spread.missed]) / np.log(10)
    n_groups = len(np.unique(rows.group))
    return density(fit, rows, solution, spread) + 0.5 * float(logs @ logs) / n_groups


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 0.2, 30.0]), st.integers(0, 6))
def test_what_calibration_promises(seed, noise, n_copies):
    fit = Fit(seed, noise=noise, n_copies=n_copies)
    rows = fit.held_out()
    chosen, found = calibrate(fit.solution, rows)
    # The ridge never costs error.
    assert found.rmse <= found.rmse_before * (1 + 1e-12)
    before, after = rows.leave_out(fit.solution)[0], rows.leave_out(chosen)[0]
    assert found.rmse_before == pytest.approx(np.sqrt(mean_square(before, fit.w)))
    assert found.rmse == pytest.approx(np.sqrt(mean_square(after, fit.w)))
    assert (found.noise_before, found.noise) == (noise, chosen.noise)
    assert found.noise / noise in 4.0 ** np.arange(-4, 5)
    # The spread is better than that of the ridge itself, and than the errors' own size.
    assert found.nlpd_before == pytest.approx(
        density(fit, rows, fit.solution, PredictiveVariance(noise))
    )
    assert found.nlpd == pytest.approx(density(fit, rows, chosen, found.spread))
    error, q = rows.leave_out(chosen)
    scale = mean_square(error, fit.w) / float(np.average(1 + q, weights=fit.w))
    best = surprise(fit, rows, chosen, found.spread)
    assert best <= surprise(fit, rows, chosen, PredictiveVariance(scale)) + 1e-6
    if 1e-6 * scale <= chosen.noise <= 1e4 * scale:
        assert best <= surprise(fit, rows, chosen, PredictiveVariance(chosen.noise)) + 1e-6
    assert found.n_rows == 24


def test_the_solution_is_that_of_the_ridge():
    fit = Fit(4, noise=40.0)
    chosen, found = calibrate(fit.solution, fit.held_out())
    assert found.noise < 40.0, "the ridge given is far too strong"
    beta = oracles.span_fit(fit.K, fit.K_ZZ, fit.Y, fit.w, found.noise)
    np.testing.assert_allclose(chosen.coefficients(), beta, rtol=1e-5, atol=1e-6)


def test_the_spread_is_the_best():
    """No other pair on a grid is better."""
    fit = Fit(5, m=60, n=5, noise=0.3)
    rows = fit.held_out()
    chosen, found = calibrate(fit.solution, rows)
    noises = found.spread.noise * np.geomspace(0.1, 10, 15)
    grid = [
        PredictiveVariance(noise, missed)
        for noise in noises
        for missed in np.geomspace(1e-4, 100, 15)
    ]
    best = min(surprise(fit, rows, chosen, spread) for spread in grid)
    assert surprise(fit, rows, chosen, found.spread) <= best + 1e-5


def test_what_no_row_tells_stays():
    """The basis misses nothing of the rows: nothing is known of what it misses of others."""
    fit = Fit(13, m=40)
    rows = replace(fit.held_out(), prior=(fit.held_out().features ** 2).sum(axis=0))
    _, found = calibrate(fit.solution, rows)
    assert found.spread.missed == pytest.approx(1.0, rel=0.05)
    error, q = rows.leave_out(fit.solution.with_noise(found.noise))
    scale = np.average((error**2).mean(axis=1) / (1 + q), weights=fit.w)
    assert found.spread.noise == pytest.approx(scale, rel=1e-2)


def test_noise_and_what_is_missed_are_alike_for_rows_far_from_each_other():
    """All rows have the same variance: both factors stay near what was known, and it is right."""
    fit = Fit(14, m=200, n_outputs=1, weighted=False)
    rows = replace(fit.held_out(), prior=(fit.held_out().features ** 2).sum(axis=0) + 1.0)
    solution = fit.solution.with_noise(0.05)
    _, found = calibrate(solution, rows, keep_ridge=True)
    assert 0.005 <= found.spread.noise <= 0.5
    error, q = rows.leave_out(solution)
    spread = found.spread
    variance = spread.noise * (1 + q) + spread.factor(rows.missed(), rows.prior) * rows.missed()
    assert np.average(error[:, 0] ** 2 / variance) == pytest.approx(1.0, rel=0.02)


def test_tails_are_reported():
    fit = Fit(6, m=400, n=3, n_outputs=1, weighted=False)
    _, calm = calibrate(fit.solution, fit.held_out())
    assert calm.tails == ""
    fit.Y[:4] += 1000.0
    rows = fit.held_out()
    _, found = calibrate(fit.solution, rows)
    assert "1.00% of the errors are beyond 5 standard deviations" in found.tails
    assert "too wide elsewhere" in found.tails
    assert str(found).endswith(found.tails)


def test_text():
    text = str(calibrate(Fit(7).solution, Fit(7).held_out())[1])
    assert text.startswith("leave-one-out on 24 rows: ridge 0.2 -> ")
    for part in ("noise variance", "missed variance times", "RMSE", "negative log density"):
        assert part in text


def test_exact_targets():
    """Errors of zero have no scale; the variance stays positive."""
    fit = Fit(8)
    fit.Y[:] = 0.0
    solution = SpanSolution(fit.solution.R, fit.solution.L, 0 * fit.solution.z, fit.noise)
    _, found = calibrate(solution, fit.held_out())
    assert found.spread.noise > 0
    assert np.isfinite(found.nlpd)
    assert found.rmse == 0.0


# Sizes


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("of_rows", [False, True])
def test_curve_of_rows_in_the_fit(weighted, n_outputs, of_rows):
    fit = Fit(9, weighted=weighted, n_outputs=n_outputs, of_rows=of_rows)
    curve = error_curve(fit.solution, fit.held_out(), in_fit=True)
    for n in range(1, 7):
        error, _ = fit.left_out(n=n)
        assert curve[n - 1] == pytest.approx(float((fit.w @ error**2).sum() / fit.w.sum()))


def test_curve_of_rows_outside_the_fit():
    fit, new = Fit(10), Fit(10, m=50)
    features = fit.solution.features(new.K)
    rows = HeldOut(features, new.Y, new.w, np.ones(50), np.arange(50))
    curve = error_curve(fit.solution, rows, in_fit=False)
    for n in range(1, 7):
        beta, _ = fit.without([], n)
        error = new.Y - new.K[:, :n] @ beta
        assert curve[n - 1] == pytest.approx(float((new.w @ error**2).sum() / new.w.sum()))


def test_copies_in_the_fit_leave_together():
    """Else a row is told by its copy, and every function more seems to help."""
    fit = Fit(11, n_copies=8)
    curve = error_curve(fit.solution, fit.held_out(), in_fit=True)
    for n in range(1, 7):
        error, _ = fit.left_out(n=n)
        assert curve[n - 1] == pytest.approx(float((fit.w @ error**2).sum() / fit.w.sum()))


@pytest.mark.parametrize(
    ("curve", "size"),
    [
        ([1.0], 1),
        ([4.0, 2.0, 1.0], 3),
        ([4.0, 1.005, 1.0, 1.2], 2),
        ([4.0, 1.02, 1.0, 1.0], 3),
        ([1.0, 1.0, 1.0], 1),
        ([1.0, 3.0, 0.995], 1),
        ([0.0, 0.0], 1),
    ],
)
def test_flat_size(curve, size):
    assert flat_size(np.array(curve)) == size
