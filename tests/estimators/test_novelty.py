"""Residuals as novelty scores, beside OneClassSVM with the same kernel."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, make_moons
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from pursuit import SparseKernelPCA
from pursuit.datasets import load_boston


def digits(rng):
    X, y = load_digits(return_X_y=True)
    normal = rng.permutation(np.flatnonzero(y == 3))
    half = len(normal) // 2
    return X[normal[:half]] / 16, X[normal[half:]] / 16, X[y != 3] / 16


def breast_cancer(rng):
    X, y = load_breast_cancer(return_X_y=True)
    benign = rng.permutation(np.flatnonzero(y == 1))
    part = 2 * len(benign) // 3
    scaler = StandardScaler().fit(X[benign[:part]])
    sets = X[benign[:part]], X[benign[part:]], X[y == 0]
    return tuple(scaler.transform(rows) for rows in sets)


def moons(rng):
    X = make_moons(1500, noise=0.08, random_state=0)[0]
    noise = rng.uniform(-2, 3, (575, 2))
    return np.vstack([X[:1000], noise[:75]]), X[1000:], noise[75:]


def housing(rng):
    X = StandardScaler().fit_transform(load_boston(return_X_y=True)[0])
    order = rng.permutation(len(X))
    shuffled = np.column_stack([rng.permutation(column) for column in X.T])
    return X[order[:300]], X[order[300:]], shuffled[:200]


def areas(task, seed):
    """Area under the ROC curve: ours, and the best of three one-class SVMs."""
    train, normal, novel = task(np.random.default_rng(seed))
    gamma = 1 / (train.shape[1] * train.var())
    test = np.vstack([normal, novel])
    truth = np.arange(len(test)) < len(normal)
    ours = SparseKernelPCA(gamma=gamma, n_basis=len(train) // 2).fit(train).score_samples(test)
    theirs = [
        roc_auc_score(truth, OneClassSVM(gamma=gamma, nu=nu).fit(train).decision_function(test))
        for nu in (0.05, 0.1, 0.5)
    ]
    return roc_auc_score(truth, ours), max(theirs)


@pytest.mark.parametrize("task", [digits, moons])
def test_at_least_as_good_as_one_class_svm(task):
    ours, theirs = areas(task, 0)
    assert ours >= theirs


def test_on_three_of_four_data_sets(data_dir, size):
    wins = 0
    for task in (digits, breast_cancer, moons, housing):
        ours, theirs = np.mean([areas(task, seed) for seed in range(size(2, 5))], axis=0)
        wins += ours >= theirs
        assert ours > theirs - 0.01
    assert wins >= 3
