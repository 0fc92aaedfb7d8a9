"""The 50-digit truth itself: against NumPy and scikit-learn, and with bounds that are false."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, SVR

from pursuit import SparseGPRegressor
from torture import exact_losses
from torture.certified_spans import Span
from torture.exact_kernels import MP, exact, numbers
from torture.exact_losses import Machine, of_hinges
from torture.exact_truth import LeastSquares, cholesky, enough_digits
from torture.hard_problems import Problem, difficulty, draw
from torture.ledger import Ledger


@pytest.fixture(scope="module")
def easy():
    """Rows, targets, noise and a kernel that float64 can handle."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=12), 0.3, RBF(0.7)


def test_least_squares_is_that_of_scikit_learn(easy):
    X, y, noise, kernel = easy
    found = LeastSquares(exact(kernel, X), y[:, None], np.ones(12), noise)
    process = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(X, y)
    assert float(found.log_evidence()) == pytest.approx(process.log_marginal_likelihood_value_)
    new = X[:3] + 0.1
    _, std = process.predict(new, return_std=True)
    variance = found.variance(exact(kernel, X, new), numbers(np.ones(3)))
    np.testing.assert_allclose(variance.astype(float), std**2 + noise, rtol=1e-9)
    A = kernel(X) + noise * np.eye(12)
    assert float(found.minimum[0]) == pytest.approx(0.5 * noise * y @ np.linalg.solve(A, y))
    f = kernel(X) @ y
    value = found.value(numbers(f[:, None]), numbers([y @ f]))
    assert float(value[0]) == pytest.approx(0.5 * (y - f) @ (y - f) + 0.5 * noise * y @ f)


def test_weights_are_copies(easy):
    X, y, noise, kernel = easy
    twice = np.r_[np.arange(12), 3, 3]
    once = LeastSquares(exact(kernel, X), y[:, None], 1.0 + 2.0 * (np.arange(12) == 3), noise)
    copies = LeastSquares(exact(kernel, X[twice]), y[twice][:, None], np.ones(14), noise)
    assert abs(once.minimum[0] - copies.minimum[0]) < 1e-50


def test_too_few_digits_are_noticed():
    """Twelve near rows and noise of 1e-30 need more than 20 digits."""
    X = 1e-4 * np.arange(12.0)[:, None]
    y = np.arange(12.0)[:, None] % 3
    with enough_digits(1.0, 1e-30):
        LeastSquares(exact(RBF(1.0), X), y, np.ones(12), 1e-30)
    with MP.workdps(20), pytest.raises(ArithmeticError, match="more digits are needed"):
        LeastSquares(exact(RBF(1.0), X), y, np.ones(12), 1e-30)
    with pytest.raises(ArithmeticError, match="pivot 1"):
        cholesky(numbers(np.array([[1.0, 2.0], [2.0, 1.0]])))


def test_a_bound_that_is_wrong_by_a_billionth_is_reported(easy):
    """The negative control: every end of every claim, moved across the truth."""
    X, y, noise, kernel = easy
    model = SparseGPRegressor(
        kernel, noise=noise, n_basis=12, optimizer=None, normalize_y=False, certificate="hybrid"
    ).fit(X, y)
    problem = Problem("rbf", X, kernel, {}, None, y, noise, X, np.random.default_rng(0))
    span = Span(problem, model, y[:, None], noise)
    values, minimum = span.values(model), span.truth.minimum
    found = model.certificate_
    true = replace(
        found,
        lower_per_output=np.array([float(minimum[0]) * (1 - 1e-13)]),
        upper_per_output=np.array([float(values[0]) * (1 + 1e-13)]),
        minimum_upper_per_output=np.array([float(minimum[0]) * (1 + 1e-13)]),
    )
    for name, factor in [
        ("lower_per_output", 1 + 1e-9),
        ("upper_per_output", 1 - 1e-9),
        ("minimum_upper_per_output", 1 - 1e-9),
    ]:
        ledger = Ledger("model", "easy", "")
        ledger.certificate(true, "hybrid", values, minimum)
        assert not ledger.report.failures
        assert ledger.report.counts["checks, easy"] == 3
        ledger.certificate(
            replace(true, **{name: factor * getattr(true, name)}), "hybrid", values, minimum
        )
        [said] = ledger.report.failures
        assert "wrong by 1e-09 of it" in said
        assert ledger.report.counts["violations, easy"] == 1


def test_infinite_bounds_say_nothing_and_nan_is_false():
    ledger = Ledger("model", "hopeless", "")
    ledger.at_most(-np.inf, MP.one, "a")
    ledger.at_least(np.inf, MP.one, "b")
    ledger.at_most(0.0, MP.zero, "c")
    assert not ledger.report.failures
    for lower in (np.nan, np.inf, 1.1):
        ledger.at_most(lower, MP.one, "d")
    assert len(ledger.report.failures) == 3


def _machine(easy, y, alpha, intercept):
    X, _, _, kernel = easy
    ones = np.ones(len(y))
    return Machine(
        exact(kernel, X), numbers(y), numbers(ones), numbers(0 * ones), MP.mpf(alpha), intercept
    )


def test_newton_is_that_of_scikit_learn(easy):
    """Logistic loss on features with F F' = K."""
    X, y, _, kernel = easy
    labels = (y > 0).astype(float)
    low, high = _machine(easy, labels, 0.5, True).minimum(exact_losses.logistic())
    assert abs(high - low) < 1e-30
    F = np.linalg.cholesky(kernel(X) + 1e-14 * np.eye(12))
    model = LogisticRegression(C=2.0, tol=1e-10, max_iter=1000).fit(F, labels)
    f = model.decision_function(F)
    value = np.logaddexp(0, f).sum() - labels @ f + 0.25 * float((model.coef_**2).sum())
    assert float(high) == pytest.approx(value, rel=1e-8)
    assert float(high) <= value * (1 + 1e-12)


@pytest.mark.parametrize("regression", [False, True])
def test_kinks_are_those_of_libsvm(easy, regression):
    X, y, _, kernel = easy
    target = y if regression else np.where(y > 0, 1.0, -1.0)
    loss = exact_losses.tube(0.1) if regression else exact_losses.hinge
    K = kernel(X)
    options = {"kernel": "precomputed", "C": 1.5, "tol": 1e-10}
    model = (SVR(epsilon=0.1, **options) if regression else SVC(**options)).fit(K, target)
    a = np.zeros(12)
    a[model.support_] = model.dual_coef_[0]
    machine = _machine(easy, target, 1.0, True)
    machine.w = machine.w * MP.mpf(1.5)
    low, high = machine.minimum(loss)
    assert abs(high - low) < 1e-24
    f = numbers(K @ a)
    value = machine.value(of_hinges(loss), f, numbers(a) @ f, MP.mpf(float(model.intercept_[0])))
    assert float(high) == pytest.approx(float(value), rel=1e-7)


@pytest.mark.parametrize(
    ("name", "loss", "targets"),
    [
        ("poisson", exact_losses.poisson(), [0, 1, 3]),
        ("gamma", exact_losses.gamma(), [0.5, 1, 3]),
        ("tweedie", exact_losses.tweedie(1.3), [0, 1, 3]),
        ("negative binomial", exact_losses.negative_binomial(2.5), [0, 1, 3]),
        ("logistic", exact_losses.logistic(), [0, 0.3, 1]),
        ("huber", exact_losses.huber(0.5), [-1, 0.2, 2]),
        ("expectile", exact_losses.expectile(0.3), [-1, 0.2, 2]),
        ("squared hinge", exact_losses.squared_hinge(), [-1, 1, 1]),
        ("squared tube", exact_losses.squared_tube(0.1), [-1, 0.2, 2]),
        ("rounded pinball", of_hinges(exact_losses.pinball(-0.7, 0.3), MP.mpf("0.2")), [-1, 0, 2]),
    ],
)
def test_slopes_and_curvatures_are_differences(name, loss, targets):
    y, h = numbers(np.array(targets, dtype=float)), MP.mpf(10) ** -20
    for f in numbers(np.array([-1.7, -0.31, 0.05, 1.23])):
        F = 0 * y + f
        slope = (loss.value(F + h, y) - loss.value(F - h, y)) / (2 * h)
        bend = (loss.slope(F + h, y) - loss.slope(F - h, y)) / (2 * h)
        assert max(abs(slope - loss.slope(F, y))) < 1e-15
        assert max(abs(bend - loss.bend(F, y))) < 1e-15


def test_a_programme_in_float64_is_a_point_for_the_truth():
    """Σ|a| + Σc max(0, 1 - y(Ka + b)) of a vertex is the optimum of the programme."""
    from torture.certified_losses import _vertices

    rng = np.random.default_rng(1)
    K, y = RBF(0.5)(rng.normal(size=(6, 2))), np.array([1.0, -1, 1, -1, 1, 1])
    costs = np.full(6, 0.8)
    [(a, b)] = _vertices(numbers(K), y, costs, None)
    slack = np.maximum(1 - y * (K @ a.astype(float) + float(b)), 0)
    signed = y[:, None] * K
    truth = linprog(
        np.r_[np.ones(12), costs, 0.0],
        A_ub=-np.hstack([signed, -signed, np.eye(6), y[:, None]]),
        b_ub=-np.ones(6),
        bounds=[(0, None)] * 18 + [(None, None)],
    )
    assert np.abs(a.astype(float)).sum() + costs @ slack == pytest.approx(truth.fun)


def test_problems_are_of_all_classes():
    """Of 300 problems none of the three classes has fewer than a sixth."""
    found = {"easy": 0, "hard": 0, "hopeless": 0}
    names = set()
    for seed in range(300):
        problem = draw(np.random.default_rng(seed))
        names.add(problem.name)
        largest = 1.0 if not problem.precomputed else float(problem.X.max())
        found[difficulty(len(problem.X), largest, float(problem.w.max()), problem.noise)] += 1
    assert len(names) == 11
    assert min(found.values()) >= 50, found
