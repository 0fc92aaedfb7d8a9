"""Scores of distributions, intervals and quantiles agree with integrals, and reward the truth."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from sklearn.dummy import DummyRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge, LinearRegression, QuantileRegressor
from sklearn.metrics import mean_pinball_loss
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pursuit import SparseGPRegressor, metrics

GAUSSIAN = [metrics.log_density, metrics.crps, metrics.calibration_error]


@pytest.fixture(scope="module")
def predictions():
    """Targets, means, standard deviations and weights of 40 rows and two outputs."""
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(40, 2))
    std = rng.uniform(0.2, 3.0, (40, 2))
    return mean + 2.0 * rng.normal(size=(40, 2)), mean, std, rng.uniform(0.0, 2.0, 40)


def crps_by_integration(y, distribution):
    low, high = min(y, distribution.ppf(1e-15)), max(y, distribution.isf(1e-15))
    below, _ = integrate.quad(lambda t: distribution.cdf(t) ** 2, low, y, epsabs=1e-12)
    above, _ = integrate.quad(lambda t: distribution.sf(t) ** 2, y, high, epsabs=1e-12)
    return below + above


def area_by_grid(values, weights):
    """∫ |F(p) - p| dp by the midpoint rule, with F a weighted distribution function."""
    p = (np.arange(20_000) + 0.5) / 20_000
    below = (values[:, None] <= p) * weights[:, None]
    return np.mean(np.abs(below.sum(axis=0) / weights.sum() - p))


def test_log_density_is_that_of_scipy(predictions):
    y, mean, std, _ = predictions
    truth = stats.norm(mean, std).logpdf(y).mean(axis=0)
    found = metrics.log_density(y, mean, std, multioutput="raw_values")
    np.testing.assert_allclose(found, truth, rtol=1e-13)


@pytest.mark.parametrize(("y", "mean", "std"), [(0.0, 0.0, 1.0), (3.0, 1.0, 0.2), (-9.0, 2.0, 4.0)])
def test_crps_is_the_integral_of_its_definition(y, mean, std):
    truth = crps_by_integration(y, stats.norm(mean, std))
    assert metrics.crps([y], [mean], std) == pytest.approx(truth, rel=1e-9)


def test_crps_of_a_narrow_prediction_is_the_absolute_error():
    y, mean = np.array([1.0, -2.0, 5.0]), np.zeros(3)
    assert metrics.crps(y, mean, 1e-9) == pytest.approx(np.abs(y).mean(), rel=1e-8)
    assert metrics.crps([1e6], [0.0], 1.0) == pytest.approx(1e6 - 1.0 / np.sqrt(np.pi), rel=1e-12)


def test_quantiles_of_an_ensemble_have_its_crps():
    rng = np.random.default_rng(1)
    members, y = np.sort(rng.normal(size=(30, 9)), axis=1), rng.normal(size=30)
    apart = np.abs(members - y[:, None]).mean(axis=1)
    between = np.abs(members[:, :, None] - members[:, None]).mean(axis=(1, 2))
    levels = (np.arange(9) + 0.5) / 9
    found = metrics.crps_from_quantiles(y, members, levels)
    assert found == pytest.approx(np.mean(apart - between / 2.0), rel=1e-12)


def test_many_quantiles_have_the_crps_of_their_distribution(predictions):
    y, mean, std, weights = predictions
    # Levels need not be equally far apart: these are denser towards 0.
    levels = ((np.arange(20_000) + 0.5) / 20_000) ** 1.5
    quantiles = stats.norm(mean[..., None], std[..., None]).ppf(levels)
    found = metrics.crps_from_quantiles(
        y, quantiles, levels, sample_weight=weights, multioutput="raw_values"
    )
    truth = metrics.crps(y, mean, std, sample_weight=weights, multioutput="raw_values")
    np.testing.assert_allclose(found, truth, rtol=1e-4)


def test_pinball_is_that_of_scikit_learn(predictions):
    y, mean, std, weights = predictions
    levels = np.array([0.1, 0.5, 0.8])
    quantiles = stats.norm(mean[..., None], std[..., None]).ppf(levels)
    single = [
        mean_pinball_loss(y, quantiles[..., k], alpha=level, sample_weight=weights)
        for k, level in enumerate(levels)
    ]
    assert metrics.pinball(y, quantiles[..., 1], 0.5, sample_weight=weights) == pytest.approx(
        single[1], rel=1e-13
    )
    several = metrics.pinball(y, quantiles, levels, sample_weight=weights)
    assert several == pytest.approx(np.mean(single), rel=1e-13)


def test_interval_score_and_coverage_by_hand():
    y = np.array([0.0, 5.0, -3.0, 1.0])
    lower, upper = np.array([-1.0, 0.0, -1.0, 1.0]), np.array([1.0, 3.0, 1.0, 2.0])
    # Widths 2, 3, 2, 1, and 2 / 0.2 times the distances 0, 2, 2, 0.
    assert metrics.interval_score(y, lower, upper, level=0.8) == pytest.approx((8 + 40) / 4)
    assert metrics.coverage(y, lower, upper) == 0.5
    many = np.zeros(1000)
    assert metrics.coverage(many, many, many) == 1.0, "not a bit more"
    assert metrics.coverage(y, lower, upper, sample_weight=[1, 3, 0, 4]) == pytest.approx(5 / 8)


def test_an_interval_score_is_two_pinball_losses(predictions):
    y, mean, std, weights = predictions
    width = stats.norm.ppf(0.95) * std
    ends = mean - width, mean + width
    losses = [
        mean_pinball_loss(y, end, alpha=alpha, sample_weight=weights)
        for end, alpha in zip(ends, (0.05, 0.95), strict=True)
    ]
    found = metrics.interval_score(y, *ends, 0.9, sample_weight=weights)
    assert found == pytest.approx(2.0 / 0.1 * sum(losses), rel=1e-12)


def test_ends_may_be_infinite():
    y = np.array([0.0, 9.0])
    assert metrics.coverage(y, [-np.inf, 0.0], [np.inf, 8.0]) == 0.5
    assert metrics.interval_score(y, [-np.inf, 0.0], [1.0, 8.0]) == np.inf
    inside = metrics.interval_score(y, [-np.inf, 0.0], [1.0, 10.0], sample_weight=[0.0, 1.0])
    assert inside == pytest.approx(10.0)


def test_pit_and_calibration_error_are_those_of_their_definition(predictions):
    y, mean, std, weights = predictions
    values = metrics.pit(y, mean, std)
    np.testing.assert_allclose(values, stats.norm(mean, std).cdf(y), rtol=1e-12)
    found = metrics.calibration_error(y, mean, std, sample_weight=weights, multioutput="raw_values")
    truth = [area_by_grid(column, weights) for column in values.T]
    np.testing.assert_allclose(found, truth, atol=1e-4)
    assert metrics.pit(y[:, 0], mean[:, 0], std[:, 0]).shape == (40,)


def test_calibration_error_of_the_truth_and_of_wrong_spreads():
    rng = np.random.default_rng(2)
    y = rng.normal(size=(400, 500))
    errors = metrics.calibration_error(y, np.zeros_like(y), 1.0, multioutput="raw_values")
    # The integral of the mean absolute value of a Brownian bridge.
    assert errors.mean() == pytest.approx(np.sqrt(2 / np.pi) * np.pi / 8 / np.sqrt(400), rel=0.05)
    limits = metrics.calibration_error(y[:, 0], np.full(400, 1e3), 1.0)
    assert limits == pytest.approx(0.5)
    for wrong in (0.5, 2.0):
        found = metrics.calibration_error(y, np.zeros_like(y), wrong, multioutput="raw_values")
        assert found.min() > errors.max()


@pytest.fixture(scope="module")
def simulated():
    """100 000 targets with means and standard deviations that vary."""
    rng = np.random.default_rng(3)
    mean, std = rng.normal(size=100_000), rng.uniform(0.5, 2.0, 100_000)
    return mean + std * rng.normal(size=100_000), mean, std


WRONG = [(0.2, 1.0), (-0.2, 1.0), (0.0, 0.8), (0.0, 1.25)]


def losses(y, mean, std):
    normal = stats.norm(mean, std)
    levels = np.array([0.05, 0.3, 0.5, 0.9])
    quantiles = mean[:, None] + std[:, None] * stats.norm.ppf(levels)
    return {
        "log_density": -metrics.log_density(y, mean, std),
        "crps": metrics.crps(y, mean, std),
        "pinball": metrics.pinball(y, quantiles, levels),
        "crps_from_quantiles": metrics.crps_from_quantiles(y, quantiles, levels),
        "interval_score": metrics.interval_score(y, normal.ppf(0.1), normal.ppf(0.9), 0.8),
    }


def test_the_truth_has_the_best_score(simulated):
    y, mean, std = simulated
    truth = losses(y, mean, std)
    for shift, factor in WRONG:
        other = losses(y, mean + shift, factor * std)
        assert all(other[name] > truth[name] for name in truth), (shift, factor)


def test_a_score_that_is_not_proper_is_noticed(simulated):
    """Negative control: the error in standard deviations prefers error bars that are too wide."""
    y, mean, std = simulated
    scores = [np.mean(np.abs(y - mean) / (factor * std)) for factor in (1.0, 1.25)]
    assert scores[1] < scores[0]
    narrow, wide = (metrics.coverage(y, mean - w * std, mean + w * std) for w in (1.645, 3.0))
    assert narrow < wide, "coverage alone prefers wide intervals"


@pytest.mark.parametrize("score", GAUSSIAN)
def test_weights_count_rows(score, predictions):
    y, mean, std, _ = predictions
    times = np.arange(40) % 3
    rows = np.repeat(np.arange(40), times)
    weighted = score(y, mean, std, sample_weight=times)
    assert weighted == pytest.approx(score(y[rows], mean[rows], std[rows]), rel=1e-12)
    assert weighted != pytest.approx(score(y, mean, std), rel=1e-3)


@pytest.mark.parametrize("score", GAUSSIAN)
def test_outputs_are_averaged_as_asked(score, predictions):
    y, mean, std, _ = predictions
    each = [score(y[:, j], mean[:, j], std[:, j]) for j in range(2)]
    raw = score(y, mean, std, multioutput="raw_values")
    np.testing.assert_allclose(raw, each, rtol=1e-13)
    assert score(y, mean, std) == pytest.approx(np.mean(each))
    assert score(y, mean, std, multioutput=[1, 3]) == pytest.approx((each[0] + 3 * each[1]) / 4)
    assert type(score(y, mean, std)) is float


def test_other_containers_and_one_column():
    y = pd.Series([1.0, 2.0], index=[7, 3])
    assert metrics.crps(y, [1.0, 2.0], 1.0) == metrics.crps([1, 2], np.array([1, 2]), [1, 1])
    assert metrics.crps([[1.0], [2.0]], [1.0, 2.0], 1.0) == metrics.crps(y, [1.0, 2.0], 1.0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.crps([1.0], [1.0], 0.0), "std must be positive .* include_noise=True"),
        (lambda: metrics.crps([1.0], [1.0], [np.nan]), "std contains NaN"),
        (lambda: metrics.crps([np.nan], [1.0], 1.0), "y contains NaN"),
        (lambda: metrics.crps(["a"], [1.0], 1.0), "could not convert string"),
        (lambda: metrics.crps([1.0, 2.0], [[1.0, 2.0]], 1.0), r"mean must have the shape of y, 2"),
        (lambda: metrics.crps([1.0], [1.0], 1.0, sample_weight=[0.0]), "zero"),
        (lambda: metrics.crps([1.0], [1.0], 1.0, sample_weight=[-1.0]), "[Nn]egative"),
        (lambda: metrics.crps([1.0], [1.0], 1.0, multioutput="mean"), "multioutput must be one"),
        (lambda: metrics.crps([1.0], [1.0], 1.0, multioutput=[1, 2]), "each of 1 outputs"),
        (lambda: metrics.interval_score([1.0], [0.0], [2.0], 90), "between 0 and 1, got 90"),
        (lambda: metrics.coverage([1.0], [2.0], [0.0]), "lower must not be above upper"),
        (lambda: metrics.coverage([1.0], [np.nan], [0.0]), "neither may be NaN"),
        (lambda: metrics.pinball([1.0], [[1.0, 2.0]], [0.9, 0.1]), "levels must increase"),
        (lambda: metrics.pinball([1.0], [1.0], 1.0), "levels must be numbers between 0 and 1"),
        (lambda: metrics.pinball([1.0], [[1.0, 2.0]], 0.5), r"quantiles must have shape \(1,\)"),
        (lambda: metrics.crps_from_quantiles([1.0], [[1.0]], []), "levels must be numbers"),
        (lambda: metrics.coverage_scorer(0.0), "level must be a number between 0 and 1"),
        (lambda: metrics.quantile_scorer([0.5, 1.5]), "levels must be numbers"),
    ],
)
def test_wrong_calls(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(4)
    X = rng.uniform(0.0, 6.0, (300, 1))
    return X, np.sin(X[:, 0]) + 0.3 * rng.normal(size=300)


def test_scorers_agree_with_the_scores(rows):
    X, y = rows
    model = GaussianProcessRegressor(RBF(1.0), alpha=0.1, optimizer=None).fit(X[:200], y[:200])
    mean, std = model.predict(X[200:], return_std=True)
    new, weights = (X[200:], y[200:]), np.arange(100.0)
    width = stats.norm.ppf(0.9) * std
    expected = {
        metrics.log_density_scorer: metrics.log_density(new[1], mean, std),
        metrics.crps_scorer: -metrics.crps(new[1], mean, std),
        metrics.calibration_scorer: -metrics.calibration_error(new[1], mean, std),
        metrics.interval_scorer(0.8): -metrics.interval_score(
            new[1], mean - width, mean + width, 0.8
        ),
        metrics.coverage_scorer(0.8): metrics.coverage(new[1], mean - width, mean + width),
    }
    for scorer, value in expected.items():
        assert scorer(model, *new) == pytest.approx(value, rel=1e-12)
        assert pickle.loads(pickle.dumps(scorer)) == scorer
    weighted = metrics.crps_scorer(model, *new, sample_weight=weights)
    assert weighted == pytest.approx(-metrics.crps(new[1], mean, std, sample_weight=weights))


def test_scorers_choose_in_a_grid_search(rows):
    """Length scales that are far too short or too long lose by every proper score."""
    X, y = rows
    model = GaussianProcessRegressor(optimizer=None)
    # Without a white kernel the standard deviations are those of the function, not of new targets.
    grid = {"kernel": [RBF(scale) + WhiteKernel(0.09) for scale in (0.02, 1.5, 40.0)]}
    for scorer in (metrics.log_density_scorer, metrics.crps_scorer, metrics.interval_scorer()):
        found = GridSearchCV(model, grid, scoring=scorer, cv=3, n_jobs=1).fit(X, y)
        assert found.best_params_["kernel"].k1.length_scale == 1.5
    scores = cross_validate(
        make_pipeline(StandardScaler(), SparseGPRegressor(n_basis=20, random_state=0)),
        X,
        y,
        cv=3,
        scoring={"density": metrics.log_density_scorer, "coverage": metrics.coverage_scorer(0.9)},
    )
    assert scores["test_density"].mean() == pytest.approx(
        stats.norm(0, 0.3).entropy() * -1, abs=0.1
    )
    assert 0.8 < scores["test_coverage"].mean() < 0.97


class WithIntervals(DummyRegressor):
    """Intervals and quantiles of its own."""

    def predict_interval(self, X, level=0.9, method="conformal"):
        width = {"conformal": 1.0, "gaussian": 2.0}[method] * level
        return self.predict(X) - width, self.predict(X) + width

    def predict_quantile(self, X, q, method="conformal"):
        return self.predict(X)[:, None] + {"conformal": 1.0, "gaussian": 2.0}[method] * (q - 0.5)


def test_scorers_use_the_intervals_and_quantiles_of_an_estimator(rows):
    X, y = rows
    model = WithIntervals().fit(X, y)
    for method, width in (("conformal", 0.5), ("gaussian", 1.0)):
        ends = y.mean() - width, y.mean() + width
        inside = np.mean((ends[0] <= y) & (y <= ends[1]))
        assert metrics.coverage_scorer(0.5, method)(model, X, y) == pytest.approx(inside)
    quantiles = y.mean() + 2.0 * np.tile([-0.25, 0.25], (300, 1))
    found = metrics.quantile_scorer([0.25, 0.75])(model, X, y)
    assert found == pytest.approx(-metrics.crps_from_quantiles(y, quantiles, [0.25, 0.75]))


def test_quantiles_may_be_what_an_estimator_predicts(rows):
    X, y = rows

    class Quantiles(QuantileRegressor):
        def predict(self, X):
            return super().predict(X)[:, None]

    scores = cross_val_score(
        Quantiles(quantile=0.5, alpha=0.0), X, y, cv=3, scoring=metrics.quantile_scorer([0.5])
    )
    plain = cross_val_score(
        QuantileRegressor(quantile=0.5, alpha=0.0), X, y, cv=3, scoring="neg_mean_absolute_error"
    )
    np.testing.assert_allclose(scores, plain)

    class Both(WithIntervals):
        def predict(self, X):
            return super().predict(X)[:, None] + [0.0, 1.0]

    quantiles = np.tile([y.mean(), y.mean() + 1.0], (300, 1))
    found = metrics.quantile_scorer([0.4, 0.9], "predict")(Both().fit(X, y), X, y)
    assert found == pytest.approx(-metrics.crps_from_quantiles(y, quantiles, [0.4, 0.9]))


def test_a_scorer_says_what_an_estimator_lacks(rows):
    X, y = rows
    model = LinearRegression().fit(X, y)
    with pytest.raises(TypeError, match=r"LinearRegression has no predict\(X, return_std=True\)"):
        metrics.crps_scorer(model, X, y)
    with pytest.raises(TypeError, match="needs an estimator with predict_interval"):
        metrics.coverage_scorer(0.9, "conformal")(BayesianRidge().fit(X, y), X, y)
    with pytest.raises(TypeError, match="MultiOutputRegressor has no predict"):
        metrics.crps_scorer(MultiOutputRegressor(model).fit(X, np.c_[y, y]), X, np.c_[y, y])


def test_scores_far_out_and_scorers_of_what_is_not_known():
    assert metrics.log_density([1e200], [0.0], 1.0) == -np.inf
    assert metrics.crps([1e200], [0.0], 1.0) == pytest.approx(1e200)
    assert metrics.crps([1e200], [0.0], 1e-200) == pytest.approx(1e200)
    for level in ("high", None, 90):
        with pytest.raises(ValueError, match="level must be a number between 0 and 1"):
            metrics.interval_scorer(level)
    for scorer in (metrics.interval_scorer, metrics.coverage_scorer):
        with pytest.raises(ValueError, match="method must be one of"):
            scorer(0.9, "predict")
    with pytest.raises(ValueError, match="method must be one of"):
        metrics.quantile_scorer([0.1, 0.9], "normal")
