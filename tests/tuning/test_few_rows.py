"""Hyper-parameters from few rows: priors, the number of length scales, and the factor."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from pursuit import ExactGPRegressor, SparseGPClassifier, SparseGPRegressor
from pursuit.linalg import Workers
from pursuit.tuning import Evidence, NoiseRange, are_few, learn_few
from pursuit.tuning.few_rows import curvature, left_out
from pursuit.tuning.optimiser import Learned

pytest.importorskip("benchmarks", reason="a source distribution has no benchmarks")

from benchmarks.few_rows import LEVEL, SHAPES, few_rows, intervals


def evidence(m, d, seed=0, weights=None, outputs=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (m, d))
    y = np.sin(2 * X[:, :1]) + 0.2 * rng.standard_normal((m, outputs))
    return Evidence(X, y, np.ones(m) if weights is None else weights, Workers(1))


def learned_scales(shape, m, d, seed=0):
    """Length scales over those of the priors' centres."""
    X, y, _, _ = few_rows(shape, m, d, seed)
    model = ExactGPRegressor(random_state=0).fit(X, y)
    return model.kernel_.k2.length_scale / (X.std(axis=0) * np.sqrt(d))


def test_few_is_by_rows_and_by_rows_per_feature():
    assert [are_few(*n) for n in ((199, 1), (200, 20), (200, 21), (300, 30))] == [1, 0, 1, 0]


def test_a_row_left_out_is_a_fit_without_it():
    # One of its copies leaves, or the whole row where it is lighter than one.
    weights = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
    data, kernel, noise = evidence(6, 2, weights=weights, outputs=2), RBF(1.3), 0.1
    mean, variance = left_out(data, kernel, noise)
    for i in range(6):
        rest = weights.copy()
        rest[i] = max(weights[i] - 1.0, 0.0)
        some = rest > 0
        C = kernel(data.X[some]) + np.diag(noise / rest[some])
        k = kernel(data.X[some], data.X[i : i + 1])
        assert_allclose(mean[i], (k.T @ np.linalg.solve(C, data.y[some]))[0], rtol=1e-7)
        assert_allclose(variance[i], 1 + noise - (k.T @ np.linalg.solve(C, k))[0, 0], rtol=1e-7)


def test_the_curvature_is_that_of_the_evidence():
    data, kernel = evidence(15, 2), ConstantKernel(0.8) * RBF([1.0, 2.0])
    learned = Learned(kernel, 0.1, 0.0)
    point, h, axes = np.append(kernel.theta, np.log(0.1)), 1e-3, np.eye(4)

    def value(at):
        return data.value_and_gradient(kernel.clone_with_theta(at[:-1]), np.exp(at[-1]))[0]

    H = curvature(data, learned, axes)
    for i in range(4):
        for j in range(4):
            signs = ((1, 1), (1, -1), (-1, 1), (-1, -1))
            twice = [a * b * value(point + h * (a * axes[i] + b * axes[j])) for a, b in signs]
            assert_allclose(H[i, j], -sum(twice) / (4 * h**2), atol=0.02 * np.abs(H).max())


def test_the_factor_widens_and_moves_no_prediction():
    X, y, new, _ = few_rows("smooth", 12, 2, 0)
    model = ExactGPRegressor(random_state=0).fit(X, y)
    data = Evidence(X, ((y - y.mean()) / y.std())[:, None], np.ones(12), Workers(1))
    scales = X.std(axis=0) * np.sqrt(2)
    found = learn_few(data, scales, 1.0, NoiseRange(0.1, 1e-4, 10.0))
    assert 1.1 < found.factor < 4.0
    constant = found.kernel.k1.constant_value / found.factor
    narrow = ExactGPRegressor(
        ConstantKernel(constant) * found.kernel.k2, noise=found.noise / found.factor, optimizer=None
    ).fit(X, y)
    (mean, std), (same, less) = (one.predict(new, return_std=True) for one in (model, narrow))
    assert_allclose(mean, same, atol=1e-6 * np.abs(same).max())
    assert_allclose(std, np.sqrt(found.factor) * less, rtol=1e-6)


def test_the_factor_falls_with_the_rows_and_given_noise_has_none():
    factors = []
    for m in (10, 40, 160):
        data = evidence(m, 1)
        found = learn_few(data, np.array([1.2]), 0.5, NoiseRange(0.05, 5e-5, 5.0))
        factors.append(found.factor)
    assert factors[0] > factors[1] > factors[2] > 1.0
    assert factors[2] < 1.1
    fixed = learn_few(data, np.array([1.2]), 0.5, NoiseRange(0.04, 0.04, 0.04, fixed=True))
    assert (fixed.factor, fixed.noise) == (1.0, pytest.approx(0.04))


def test_features_have_one_length_scale_unless_more_pay():
    for seed in range(2):
        common = learned_scales("pure noise", 40, 30, seed)
        assert_allclose(common, common[0], rtol=1e-9)
        own = learned_scales("step", 80, 5, seed)
        assert own[0] < 0.4 * own[1:].min()


def test_a_given_kernel_has_the_largest_evidence():
    X, y, _, _ = few_rows("smooth", 30, 1, 0)
    given = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(1.0, (1e-2, 1e2))
    model = ExactGPRegressor(given, random_state=0).fit(X, y)
    data = Evidence(X, ((y - y.mean()) / y.std())[:, None], np.ones(30), Workers(1))
    _, slope = data.value_and_gradient(model.kernel_, model.noise_)
    assert np.abs(slope).max() < 0.02
    free = ExactGPRegressor(random_state=0).fit(X, y)
    _, slope = data.value_and_gradient(free.kernel_, free.noise_)
    assert np.abs(slope).max() > 0.2


@pytest.mark.parametrize("kind", [SparseGPRegressor, ExactGPRegressor])
@pytest.mark.parametrize(("m", "d"), [(10, 1), (40, 30)])
def test_intervals_of_few_rows_cover(kind, m, d, size):
    seeds, shapes = size(1, 10), list(SHAPES)[: size(8 if d == 1 else 4, 12)]
    covered = [
        intervals(kind(random_state=seed), few_rows(shape, m, d, seed))[0]
        for shape in shapes
        for seed in range(seeds)
    ]
    # A single data set of 10 rows covers with a deviation of about .12.
    slack = 0.3 / np.sqrt(len(covered))
    assert 0.86 - slack < np.mean(covered) < 0.96 + slack / 3


@pytest.mark.filterwarnings("ignore:The optimal value found")
def test_the_largest_evidence_covers_too_little():
    scales = np.full(30, 5.0)
    kernel = ConstantKernel(1.0) * RBF(scales)
    covered = [
        intervals(ExactGPRegressor(kernel), few_rows("smooth", 40, 30, seed))[0]
        for seed in range(3)
    ]
    assert np.mean(covered) < 0.8


def test_normal_intervals_are_those_of_the_deviation():
    X, y, new, _ = few_rows("fan", 20, 5, 0)
    model = SparseGPRegressor(random_state=0).fit(X, y)
    mean, std = model.predict(new, return_std=True)
    interval = model.predict_interval(new, level=LEVEL, method="gaussian")
    ends = np.transpose(interval) if np.shape(interval)[0] != 2 else interval
    assert_allclose(np.asarray(ends[0]), mean - 1.6448536269514722 * std, rtol=1e-6)
    assert_allclose(np.asarray(ends[1]), mean + 1.6448536269514722 * std, rtol=1e-6)


def test_few_rows_of_noise_have_no_sure_classes():
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(40, 10)), rng.integers(2, size=40)
        model = SparseGPClassifier(random_state=0).fit(X, y)
        assert model.predict_proba(rng.normal(size=(200, 10))).max() < 0.9


@pytest.mark.parametrize("estimator", [SparseGPRegressor, ExactGPRegressor])
def test_exact_targets_of_few_rows_have_little_noise(estimator):
    """A deviation of .001 is known to a factor of two, and error bars are not those of a floor."""
    X, y, X_new, y_new = few_rows("low noise", 80, 1, seed=0)
    model = estimator(random_state=0).fit(X, y)
    mean, std = model.predict(X_new, return_std=True)
    assert 0.0005 < np.median(std) < 0.002
    assert np.sqrt(np.mean((mean - y_new) ** 2)) < 0.002


def test_the_floor_of_the_noise_is_said_only_where_it_was_reached():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (60, 1))
    exact = np.sin(X[:, 0])
    at_floor = ExactGPRegressor(random_state=0).fit(X, exact).learning_report_.warnings
    assert any("sits at its floor of 1e-08" in note for note in at_floor)
    for y, noise in ((exact + 0.01 * rng.normal(size=60), "learn"), (exact, 1e-6)):
        model = ExactGPRegressor(noise=noise, random_state=0).fit(X, y)
        assert not any("floor" in note for note in model.learning_report_.warnings)


def test_copies_do_not_pass_for_exact_targets():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (60, 1))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=60)
    w = rng.integers(1, 4, 60)
    weighted = SparseGPRegressor(random_state=0).fit(X, y, w)
    copies = SparseGPRegressor(random_state=0).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert weighted.noise_ == pytest.approx(copies.noise_, rel=1e-6)
    assert weighted.noise_ >= 1e-4
