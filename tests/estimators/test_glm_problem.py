"""The problem of a generalised linear model in a span, against solvers that are not ours."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from certificates.glms import LOSSES, minimum, objective
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import RBF, Matern

from pursuit.estimators.glm import certify
from pursuit.estimators.glm.certify import glm_certificate
from pursuit.estimators.glm.problem import GLMProblem, interior_in_span
from pursuit.estimators.span.features import Span, SpanFeatures, StoredFunction, exact_certificate
from pursuit.greedy import CostMeter, Pool, Problem
from pursuit.kernels import CountingKernel, compile_kernel
from pursuit.linalg import TallMatrix, Workers
from pursuit.objectives import PinballRows, PoissonRows, RowLoss
from pursuit.rounding import Rounded
from pursuit.rows import Sample, as_rows

SMOOTH = [name for name in LOSSES if name not in ("absolute", "quantile")]


class Setting:
    """A drawn problem on m rows, with its dense kernel matrix."""

    def __init__(self, name, seed, m=None, alpha=None, kernel=None):
        self.rng = rng = np.random.default_rng([seed, list(LOSSES).index(name)])
        m = int(rng.integers(8, 46)) if m is None else m
        self.X = rng.normal(size=(m, int(rng.integers(1, 4))))
        smooth = RBF(float(rng.uniform(0.4, 1.5)))
        rough = Matern(float(rng.uniform(0.4, 1.5)), nu=float(rng.choice([0.5, 1.5, 2.5])))
        self.kernel = kernel or (smooth if rng.random() < 0.4 else rough)
        self.K = self.kernel(self.X)
        self.case = LOSSES[name](rng)
        signal = np.sin(2.0 * self.X[:, 0]) + 0.5 * self.X[:, -1]
        self.o = rng.normal(size=m) * 0.4 if rng.random() < 0.5 else np.zeros(m)
        self.y = self.case.draw(rng, signal + self.o)
        self.y[0] = max(self.y[0], 0.5)  # counts of 0 alone have no best constant
        self.w = 10.0 ** rng.uniform(-1, 1, m) if rng.random() < 0.5 else np.ones(m)
        self.alpha = float(10.0 ** rng.uniform(-2, 1)) if alpha is None else alpha
        self.problem = GLMProblem((self.case.rows,), self.y[:, None], self.w, self.o, self.alpha)
        self.workers = Workers(1)
        self.counted = CountingKernel(compile_kernel(self.kernel, n_features=self.X.shape[1])[0])
        self.sample = Sample(as_rows(self.X), self.y[:, None], self.w)

    @property
    def truth(self):
        return minimum(self.case, self.K, self.y, self.w, self.o, self.alpha)

    def features(self, rows, dtype="auto"):
        """The span of some rows."""
        chooser = Problem(
            self.sample, self.counted, 1.0, self.workers, CostMeter(self.counted), self.rng
        )
        self.span = Span.of(Pool.of_rows(self.sample, np.asarray(rows)), chooser)
        return SpanFeatures(self.sample.rows, self.counted, self.span, self.workers, dtype)

    def solve(self, rows):
        return self.problem.solve(self.features(rows), self.workers)

    def certificates(self, solution):
        """The plain one, and the one that is improved with the full kernel."""
        function = StoredFunction.of(
            self.span.pool.items,
            self.span.coefficients(solution.coordinates),
            solution.intercepts,
            self.sample.rows,
            self.counted,
            self.workers,
        )
        arguments = self.problem, function, solution.dual
        return exact_certificate(*arguments)[0], glm_certificate(*arguments)[0]

    def scale(self, value):
        """The objective counted from what every row alone would have at best."""
        f = np.linspace(-30.0, 30.0, 6001)
        best = [self.case.value(f, np.full_like(f, y)).min() for y in self.y]
        return value - float(self.w @ np.array(best))


def by_scipy(setting):
    """The minimum over all functions in coordinates of K's eigenvectors, by trust regions."""
    case, w, y, o, alpha = setting.case, setting.w, setting.y, setting.o, setting.alpha
    values, vectors = np.linalg.eigh(setting.K)
    F = np.column_stack([vectors * np.sqrt(np.maximum(values, 0.0)), np.ones(len(y))])
    ridge = np.append(np.full(len(y), alpha), 0.0)

    def value(u):
        with np.errstate(over="ignore"):
            return float(w @ case.value(F @ u + o, y)) + 0.5 * float(ridge @ u**2)

    def slope(u):
        return F.T @ (w * case.slope(F @ u + o, y)) + ridge * u

    def bend(u):
        return (F.T * (w * case.bend(F @ u + o, y))) @ F + np.diag(ridge)

    start = np.append(np.zeros(len(y)), setting.problem.constants()[0])
    rough = minimize(value, start, jac=slope, method="L-BFGS-B", options={"maxiter": 500})
    options = {"gtol": 1e-9, "maxiter": 500}
    return minimize(value, rough.x, jac=slope, hess=bend, method="trust-exact", options=options).fun


@pytest.mark.parametrize("name", LOSSES)
def test_the_full_basis_has_the_minimum_over_all_functions(name, size):
    for seed in range(size(5, 30)):
        setting = Setting(name, seed)
        solution = setting.solve(np.arange(len(setting.X)))
        assert solution.converged
        value = float(setting.problem.value(solution.fitted, solution.squared_norms).value[0])
        truth = setting.truth
        small = 1e-7 * setting.scale(truth.upper)
        assert truth.upper - truth.lower <= small, seed
        assert truth.lower - small <= value <= truth.upper + small, seed
        if name in SMOOTH:
            assert abs(value - by_scipy(setting)) <= small, seed


@pytest.mark.parametrize("name", LOSSES)
def test_the_solution_is_what_it_says(name):
    """P, ‖f‖², fitted values and dual point, from coefficients on the kernel functions."""
    setting = Setting(name, 3, m=30)
    rows = np.arange(0, 30, 3)
    features = setting.features(rows)
    solution = setting.problem.solve(features, setting.workers)
    V = features(slice(0, 30))[:, :-1]
    np.testing.assert_allclose(V @ V.T, nystroem(setting.K, rows), atol=1e-9)
    f = V @ solution.coordinates[:, 0]
    np.testing.assert_allclose(solution.fitted[:, 0], f + solution.intercepts[0], atol=1e-12)
    a = solution.dual[:, 0]
    size = np.abs(a).sum()
    u = setting.alpha * solution.coordinates[:, 0]
    np.testing.assert_allclose(V.T @ a, u, atol=1e-6 * size)
    assert abs(a.sum()) <= 1e-6 * size
    by_hand = setting.w @ setting.case.value(f + solution.intercepts[0] + setting.o, setting.y)
    by_hand += 0.5 * setting.alpha * (solution.coordinates**2).sum()
    found = setting.problem.value(solution.fitted, solution.squared_norms).value
    assert found[0] == pytest.approx(by_hand, rel=1e-12)


def nystroem(K, rows):
    return K[:, rows] @ np.linalg.solve(K[np.ix_(rows, rows)], K[rows])


@pytest.mark.parametrize("name", LOSSES)
def test_a_span_has_no_better_function(name):
    """Random directions in the span, and the intercept, do not lower P."""
    setting = Setting(name, 5, m=40)
    features = setting.features(np.arange(0, 40, 4))
    solution = setting.problem.solve(features, setting.workers)
    V = features(slice(0, 40))
    u = np.vstack([solution.coordinates, solution.intercepts])

    def value(u):
        return setting.problem.value(V @ u, (u[:-1] ** 2).sum(axis=0)).value[0]

    least = value(u)
    slack = 1e-9 * setting.scale(least)
    for length in (1e-4, 1e-2, 1.0):
        for _ in range(20):
            step = setting.rng.normal(size=u.shape) * length
            assert value(u + step) >= least - slack


@pytest.mark.parametrize("name", LOSSES)
def test_the_best_constant_is_the_empty_span(name):
    setting = Setting(name, 7)
    constant = setting.problem.constants()[0]
    zero = setting.problem.zero_value()[0]
    none = np.zeros_like(setting.K)
    c = np.zeros(len(setting.y))
    at = [
        objective(setting.case, none, setting.y, setting.w, setting.o, 1.0, c, constant + d)
        for d in (-1e-3, 0.0, 1e-3)
    ]
    assert zero == pytest.approx(at[1], rel=1e-12)
    assert at[1] <= min(at) + 1e-12 * abs(at[1])


@pytest.mark.parametrize("name", LOSSES)
def test_a_span_without_functions(name):
    """The best constant is found and certified."""
    setting = Setting(name, 1, m=30)
    solution = setting.solve(np.arange(0))
    truth = setting.truth
    assert solution.squared_norms[0] == 0.0
    for found in setting.certificates(solution):
        assert found.upper == pytest.approx(setting.problem.zero_value()[0], rel=1e-9)
        assert found.lower <= truth.upper + truth.slack


def test_columns_have_losses_and_alphas_of_their_own():
    setting = Setting("quantile", 1, m=40)
    features = setting.features(np.arange(0, 40, 3))
    losses = tuple(PinballRows.of_quantile(q) for q in (0.1, 0.5, 0.9))
    alphas = np.array([0.1, 1.0, 0.3])
    targets = np.column_stack([setting.y, setting.y, 2.0 * setting.y])
    together = GLMProblem(losses, targets, setting.w, setting.o, alphas)
    found = together.solve(features, setting.workers)
    for j in range(3):
        alone = together.column(j).solve(features, setting.workers)
        np.testing.assert_array_equal(found.coordinates[:, [j]], alone.coordinates)
        np.testing.assert_array_equal(found.dual[:, [j]], alone.dual)
        assert together.column(j).alpha == alphas[j]


def test_a_weight_is_a_number_of_copies():
    setting = Setting("poisson", 2, m=30)
    counts = setting.rng.integers(1, 4, 30)
    weighted = replace(setting.problem, weights=counts.astype(float))
    rows = np.repeat(np.arange(30), counts)
    features = setting.features(np.arange(0, 30, 3))
    V = features(slice(0, 30))
    found = weighted.solve(features, setting.workers)
    copies = replace(setting.problem.take(rows), weights=np.ones(len(rows)))
    u = np.vstack([found.coordinates, found.intercepts])
    value = copies.value(V[rows] @ u, found.squared_norms).value
    assert value == pytest.approx(
        weighted.value(found.fitted, found.squared_norms).value, rel=1e-12
    )


def test_huge_and_tiny_counts():
    """Newton's method does not overflow on its way, from whatever constant."""
    for unit in (1e-9, 1e9):
        setting = Setting("poisson", 4, m=40, alpha=1e-3)
        y = unit * (setting.y + 0.1)
        problem = replace(setting.problem, targets=y[:, None], weights=setting.w / unit)
        solution = problem.solve(setting.features(np.arange(0, 40, 2)), setting.workers)
        assert solution.converged
        assert solution.steps < 40
        assert problem.value(solution.fitted, solution.squared_norms).value < problem.zero_value()


def test_a_bad_start_does_not_matter():
    setting = Setting("poisson", 6, m=40)
    features = setting.features(np.arange(0, 40, 2))
    good = setting.problem.solve(features, setting.workers)
    for shift in (-40.0, 30.0):
        start = np.zeros((features.n + 1, 1))
        start[-1] = shift
        other = setting.problem.solve(features, setting.workers, start)
        np.testing.assert_allclose(other.fitted, good.fitted, atol=1e-4)


@pytest.mark.parametrize("name", LOSSES)
def test_any_vector_becomes_a_feasible_dual_point(name):
    """Noise of any size is clipped and balanced, and its bound is below the minimum."""
    setting = Setting(name, 9)
    truth = setting.truth
    for size in (1e-3, 1.0, 1e3):
        a = setting.problem.feasible(setting.rng.normal(size=(len(setting.y), 1)) * size)
        assert sum(map(Fraction, a[:, 0])) == 0
        quadratic = Rounded.of(np.einsum("io,io->o", a, setting.K @ a))
        assert setting.problem.lower_bound(a, quadratic).low[0] <= truth.upper + truth.slack


@pytest.mark.parametrize("name", LOSSES)
def test_certified_is_at_most_twice_the_true_gap(name, size):
    """At the first size with a gap of 1 %; plain dual points may say several times as much."""
    for seed in range(size(2, 10)):
        setting = Setting(name, seed, m=120)
        truth = setting.truth
        order = setting.rng.permutation(120)
        for n in (2, 4, 6, 8, 11, 15, 20, 27, 36, 48, 64, 85, 112):
            solution = setting.solve(order[:n])
            plain, better = setting.certificates(solution)
            assert better.lower <= truth.upper + truth.slack, seed
            assert better.gap <= plain.gap + better.rounding, seed
            if better.relative_gap <= 0.01:
                break
        exact, unsure = better.upper - truth.upper, truth.slack + truth.upper - truth.lower
        assert better.gap <= 2.0 * (exact + unsure), seed
        assert better.gap_at_least <= exact + unsure, seed


def test_improving_matters_where_the_span_misses_much():
    """Without the full kernel the same certificate is many times too large."""
    setting = Setting("poisson", 11, m=150, alpha=1e-3, kernel=RBF(1.0))
    truth = setting.truth
    solution = setting.solve(np.arange(5))
    plain, better = setting.certificates(solution)
    exact = better.upper - truth.upper
    assert plain.gap > 3.0 * exact
    assert better.gap <= certify._TIGHT * exact


def test_two_equal_rows_of_a_loss_with_a_kink():
    """Only the intercept counts: 1'c = 0 makes V'c rounding, which is no size of the minimum."""
    setting = Setting("absolute", 0, m=2, alpha=0.1)
    y = np.array([0.4, -0.3])
    problem = replace(setting.problem, targets=y[:, None], weights=np.ones(2), offset=np.zeros(2))
    V = np.full((2, 3), [0.3, 0.7, 0.1])
    V[0] *= 1.0 + 1e-15
    with Workers(1) as workers:
        solution = interior_in_span(problem, TallMatrix(V, 2, workers), workers, np.float64)
    assert solution.converged
    assert np.allclose(solution.dual[:, 0], [1.0, -1.0], atol=1e-8)


@pytest.mark.parametrize("name", LOSSES)
def test_extreme_problems_are_certified_as_well(name, size):
    """Weights from 1e-6 to 1e6, large offsets, equal targets, few rows: bounds stay in order."""
    for seed in range(size(8, 100)):
        setting = Setting(name, seed, m=(2, 3, 5, 20, 60)[seed % 5])
        m, rng = len(setting.y), setting.rng
        if name == "logistic":
            setting.y[:] = np.clip(setting.y, 0.01, 0.99)  # ones alone have no best constant
        y, w, o = [
            (setting.y, 10.0 ** rng.uniform(-6, 6, m), setting.o),
            (setting.y, setting.w, 5.0 * rng.normal(size=m)),
            (np.full(m, setting.y[0]), setting.w, setting.o),
            (setting.y, np.full(m, 1e-8), setting.o),
        ][seed % 4]
        problem = replace(setting.problem, targets=y[:, None], weights=w, offset=o)
        setting.problem = replace(problem, alpha=float(10.0 ** rng.uniform(-4, 3)))
        solution = setting.solve(rng.permutation(m)[: int(rng.integers(1, m + 1))])
        assert solution.converged, seed
        zero = float(setting.problem.zero_value()[0])
        # Equal targets have an objective of 0, up to rounding of the values.
        scale = w @ np.abs(setting.case.value(solution.fitted[:, 0] + o, y)) + abs(zero)
        rounding = 1e-9 * scale + 1e-15 * float(w @ (np.abs(y) + np.abs(o)))
        for found in setting.certificates(solution):
            assert np.isfinite(found.lower), seed
            assert found.lower <= found.upper + rounding, seed
            assert found.upper <= zero + rounding, seed


@pytest.mark.parametrize("name", ["poisson", "huber", "absolute"])
def test_a_factor_of_few_columns_is_enough(name, monkeypatch):
    """More functions matter than the factor of K has columns: Newton's steps find the rest."""
    monkeypatch.setattr(certify, "_FACTOR_COLUMNS", 25)
    setting = Setting(name, 3, m=120, alpha=2.0, kernel=Matern(1.0, nu=1.5))
    truth = setting.truth
    solution = setting.solve(np.arange(10))
    plain, better = setting.certificates(solution)
    exact = better.upper - truth.upper
    assert plain.gap > 1.3 * exact
    assert better.gap <= certify._TIGHT * exact
    assert better.lower <= truth.upper + truth.slack


def test_a_preconditioner_stays_definite():
    """Curvatures of many sizes and a small alpha leave no digits to I + V'D⁻¹V."""
    for seed in range(10):
        setting = Setting("poisson", seed, m=60, alpha=1e-4)
        offset = 5.0 * setting.rng.normal(size=60)
        setting.problem = replace(setting.problem, offset=offset)
        for found in setting.certificates(setting.solve(np.arange(0, 60, 5))):
            assert np.isfinite(found.lower)
            assert found.lower <= found.upper


def test_many_rows_keep_the_plain_point(monkeypatch):
    monkeypatch.setattr(certify, "IMPROVED_ROWS", 20)
    setting = Setting("gamma", 1, m=40)
    plain, same = setting.certificates(setting.solve([0, 7, 20]))
    assert same == plain


def test_slopes_that_are_never_zero():
    """exp(f) - yf for y < 0 falls for ever on its own: its dual variables have boxes without 0."""
    for seed in range(5):
        setting = Setting("poisson", seed, m=40)
        setting.y[::4] -= 1.5
        setting.y[1] += 40.0
        setting.problem = replace(setting.problem, targets=setting.y[:, None])
        truth = setting.truth
        for n in (3, 40):
            solution = setting.solve(np.arange(n))
            assert solution.converged
            for found in setting.certificates(solution):
                assert found.lower <= truth.upper + truth.slack
                assert found.upper >= truth.lower - truth.slack
        assert found.relative_gap <= 1e-6
        a = setting.problem.feasible(setting.rng.normal(size=(40, 1)))
        lower, upper = setting.problem.bounds(0)
        assert np.all((lower <= a[:, 0]) & (a[:, 0] <= upper))
        assert sum(map(Fraction, a[:, 0])) == 0
        quadratic = Rounded.of(np.einsum("io,io->o", a, setting.K @ a))
        bound = setting.problem.lower_bound(a, quadratic).low[0]
        assert -np.inf < bound <= truth.upper + truth.slack


class WrongConjugate(PoissonRows):
    """Its conjugate is too small, so that its bounds are too high."""

    def conjugate(self, slope, y):
        return super().conjugate(slope, y) - 0.01


class OwnLoss(RowLoss):
    """log cosh(y - f), as a user would write it: no conjugate, no link."""

    most_curved = 1.0

    def value(self, f, y):
        return np.logaddexp(f - y, y - f) - np.log(2.0)

    def gradient(self, f, y):
        return np.tanh(f - y)

    def curvature(self, f, y):
        return 1.0 / np.cosh(np.clip(f - y, -300.0, 300.0)) ** 2

    def slopes(self, y):
        return np.full_like(y, -1.0), np.full_like(y, 1.0)


def test_a_wrong_conjugate_is_caught():
    setting = Setting("poisson", 1, m=40)
    truth = setting.truth
    setting.problem = replace(setting.problem, losses=(WrongConjugate(),))
    plain, better = setting.certificates(setting.solve(np.arange(40)))
    assert plain.lower > truth.upper + truth.slack
    assert better.lower > truth.upper + truth.slack


def test_a_loss_of_ones_own():
    """Solved and certified from values and derivatives alone."""
    setting = Setting("huber", 2, m=60)
    own = OwnLoss()
    setting.case = replace(
        setting.case, rows=own, value=own.value, slope=own.gradient, bend=own.curvature
    )
    setting.problem = replace(setting.problem, losses=(own,))
    truth = setting.truth
    plain, better = setting.certificates(setting.solve(np.arange(0, 60, 3)))
    for found in (plain, better):
        assert found.lower <= truth.upper + truth.slack
        assert found.upper >= truth.lower - truth.slack
    assert better.gap <= 2.0 * (better.upper - truth.upper)
