"""The noise variance by evidence, against a search on the evidence formed densely."""

import numpy as np
import oracles
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF

from pursuit.kernels import compile_kernel
from pursuit.linalg import Workers
from pursuit.rows import Sample, as_rows
from pursuit.tuning import evidence, learn_noise

KERNEL = compile_kernel(RBF(0.8))[0]


def make(m=60, variance=0.2, n_outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, 2))
    K = oracles.kernel_matrix("gaussian", 0.8, X, X)
    function = np.linalg.cholesky(K + 1e-9 * np.eye(m)) @ rng.standard_normal((m, n_outputs))
    return X, function + np.sqrt(variance) * rng.standard_normal((m, n_outputs)), K


def learned(X, Y, w=None, **options):
    w = np.ones(len(X)) if w is None else np.asarray(w, dtype=float)
    options = {"all_rows_up_to": 2000, "rng": np.random.default_rng(0)} | options
    with Workers(1) as workers:
        return learn_noise(Sample(as_rows(X), Y, w), KERNEL, workers=workers, **options)


@pytest.mark.parametrize("variance", [0.02, 0.5, 2.0])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_maximises_the_density(variance, n_outputs):
    X, Y, K = make(variance=variance, n_outputs=n_outputs)

    def surprise(log_noise):
        density = multivariate_normal(cov=K + np.exp(log_noise) * np.eye(len(K)))
        return -sum(density.logpdf(y) for y in Y.T)

    best = minimize_scalar(surprise, bounds=np.log([1e-4, 20]), method="bounded")
    assert np.log(learned(X, Y)) == pytest.approx(best.x, abs=1e-3)


def test_weights_are_copies():
    X, Y, _ = make(40)
    w = np.random.default_rng(1).integers(1, 4, 40)
    copies = learned(np.repeat(X, w, axis=0), np.repeat(Y, w, axis=0))
    assert learned(X, Y, w) == pytest.approx(copies, rel=1e-3)


def test_exact_targets_stop_at_the_floor():
    X, _, K = make(40)
    Y = K @ np.random.default_rng(2).standard_normal((40, 1))
    assert learned(X, Y) == pytest.approx(1e-4 * np.mean(Y**2), rel=1e-2)


def test_zero_targets_have_some_noise():
    X = make(30)[0]
    assert 0 < learned(X, np.zeros((30, 1))) < np.inf


def test_many_rows_are_sampled_by_seed(monkeypatch):
    monkeypatch.setattr(evidence, "EVIDENCE_ROWS", 100)
    X, Y, _ = make(160)
    one, again, other = (
        learned(X, Y, all_rows_up_to=150, rng=np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    assert one == again
    assert one != other
    assert one == pytest.approx(0.2, rel=0.5)
    assert learned(X, Y) != one, "up to the limit all rows are used"
