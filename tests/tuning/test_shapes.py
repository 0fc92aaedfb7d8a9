"""One length scale or many: what is chosen, and what it is judged by."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from pursuit.linalg import Workers
from pursuit.tuning import Evidence, NoiseRange, class_shapes, learn_shape, learning
from pursuit.tuning.class_shapes import class_losses
from pursuit.tuning.optimiser import Learned

NOISE = NoiseRange(0.1, 0.01, 10.0)
FIRST = 150


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Families are compared on fewer rows than in earnest, and judged by fewer."""
    monkeypatch.setattr(learning, "FIRST_ROWS", FIRST)
    monkeypatch.setattr(class_shapes, "_JUDGING_ROWS", FIRST)


@pytest.fixture(scope="module")
def workers():
    with Workers(1) as pool:
        yield pool


def evidence(X, labels, workers, weights=None):
    classes = np.unique(labels)
    columns = classes[1:] if len(classes) == 2 else classes
    y = np.where(labels[:, None] == columns, 1.0, -1.0)
    return Evidence(X, y, np.ones(len(X)) if weights is None else weights, workers)


def one_matters(m, seed=0):
    """Six features, of which one decides."""
    X = np.random.default_rng(seed).normal(size=(m, 6))
    return X, (np.sin(4 * X[:, 0]) > 0).astype(int)


def all_matter(m, seed=0):
    """Thirty features of two very different units, all of them alike."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, m)
    units = np.where(np.arange(30) < 15, 1.0, 100.0)
    centres = np.random.default_rng(99).normal(size=(4, 30))
    return (centres[labels] + 1.5 * rng.normal(size=(m, 30))) * units, labels


def test_one_feature_that_decides_has_a_length_scale_of_its_own(workers):
    X, labels = one_matters(350)
    found = learn_shape(evidence(X, labels, workers), X.std(axis=0), 1.0, NOISE)
    scales = found.kernel.k2.length_scale
    assert scales.shape == (6,)
    assert scales[0] < 0.2 * scales[1:].min()
    assert found.stages[-1].n_rows == 350


def test_features_that_are_alike_share_one_in_units_of_their_deviations(workers):
    X, labels = all_matter(350)
    data = evidence(X, labels, workers)
    deviations = X.std(axis=0)
    found = learn_shape(data, deviations, 1.0, NOISE)
    scales = found.kernel.k2.length_scale
    assert_allclose(scales / deviations, scales[0] / deviations[0])
    # The kernel of the features themselves has the evidence that was reported.
    value = data.value_and_gradient(found.kernel, found.noise)[0]
    assert_allclose(value / len(X), found.evidence_per_row, rtol=1e-6)
    low, high = found.kernel.k2.length_scale_bounds.T
    assert np.all((low <= scales) & (scales <= high))


def test_few_rows_are_judged_by_penalised_evidence_and_each_other(workers):
    X, labels = all_matter(60)
    found = learn_shape(evidence(X, labels, workers), X.std(axis=0), 1.0, NOISE)
    scales = np.broadcast_to(found.kernel.k2.length_scale, 30)
    assert len(np.unique(np.round(scales / X.std(axis=0), 6))) == 1 or np.ptp(scales) == 0
    X, labels = one_matters(150)
    found = learn_shape(evidence(X, labels, workers), X.std(axis=0), 1.0, NOISE)
    assert found.kernel.k2.length_scale.shape == (6,)


@pytest.mark.parametrize("better", [True, False])
def test_rows_left_out_overrule_the_evidence(workers, monkeypatch, better):
    X, labels = one_matters(150)
    deviations = X.std(axis=0)

    def losses(shape, data, folds):
        common, varied = shape.units[0] != 1.0, 0.5 * (np.arange(len(folds)) % 2)
        return (0.9 if better else 1.1) + varied if common else np.ones(len(folds)) + varied[::-1]

    monkeypatch.setattr(class_shapes, "_folded_losses", losses)
    found = learn_shape(evidence(X, labels, workers), deviations, 1.0, NOISE)
    ratios = found.kernel.k2.length_scale / deviations
    assert (np.ptp(ratios) < 1e-6 * ratios[0]) == better


def test_losses_of_rows_left_out_are_those_of_other_fits(workers):
    X, labels = all_matter(60)
    X[1], labels[1] = X[0], labels[0]
    data = evidence(X, labels, workers)
    folds = class_shapes._folds(data)
    assert folds[0] == folds[1]
    assert np.bincount(folds).min() >= 18
    learned_from = []

    def learn(some):
        learned_from.append(len(some.X))
        return Learned(ConstantKernel(1.0) * RBF(3.0 + len(learned_from)), 0.1, 0.0)

    units = X.std(axis=0)
    shape = class_shapes.Shape(units, learn(data), learn)
    losses = class_shapes._folded_losses(shape, data, folds)
    assert learned_from[1:] == [60 - n for n in np.bincount(folds)]
    for part in range(3):
        others, own = folds != part, folds == part
        kernel = ConstantKernel(1.0) * RBF(5.0 + part)
        Z = X / units
        dual = np.linalg.solve(kernel(Z[others]) + 0.1 * np.eye(others.sum()), data.y[others])
        mean = kernel(Z[own], Z[others]) @ dual
        own_mean = mean[np.arange(own.sum()), labels[own]]

        def loss(slope, mean=mean, own_mean=own_mean):
            return np.mean(logsumexp(slope * mean, axis=1) - slope * own_mean)

        best = min(loss(slope) for slope in np.geomspace(0.05, 400, 4000))
        assert_allclose(losses[own].mean(), best, rtol=1e-4)


def test_a_single_feature(workers):
    X = np.random.default_rng(0).normal(size=(100, 1))
    found = learn_shape(evidence(X, (X[:, 0] > 0).astype(int), workers), X.std(axis=0), 1.0, NOISE)
    assert len(found.stages) == 4


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_loss_of_rows_left_over(workers, n_classes):
    rng = np.random.default_rng(0)
    m = FIRST + 80
    X = rng.normal(size=(m, 2))
    labels = np.clip(np.floor(X[:, 0] + 1.5), 0, n_classes - 1).astype(int)
    weights = rng.uniform(0.5, 2.0, m)
    data = evidence(X, labels, workers, weights)
    kernel = ConstantKernel(2.0) * RBF(0.9)
    first, rest = np.arange(m) < FIRST, np.arange(m) >= FIRST
    C = kernel(X[first]) + np.diag(0.2 / weights[first])
    mean = kernel(X[rest], X[first]) @ np.linalg.solve(C, data.y[first])
    if n_classes == 2:
        mean = np.hstack([np.zeros_like(mean), mean])

    def loss(slope):
        own = mean[np.arange(80), labels[rest]]
        return np.average(logsumexp(slope * mean, axis=1) - slope * own, weights=weights[rest])

    best = min(loss(slope) for slope in np.geomspace(0.05, 400, 4000))
    fitted, judged = data.take(slice(FIRST)), data.take(slice(FIRST, None))
    losses = class_losses(Learned(kernel, 0.2, 0.0), fitted, judged)
    assert_allclose(np.average(losses, weights=weights[rest]), best, rtol=1e-4)
