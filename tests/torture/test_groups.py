"""The certificate by groups of rows, against 50 digits: each group's minimum, and that of all."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from pursuit import SparseGPRegressor
from pursuit.estimators.span.certify import Certifier, StarSystem
from torture.exact_kernels import MP, exact
from torture.exact_truth import LeastSquares, enough_digits

M, NOISE = 7, 0.05


def problem(dtype, weighted, far, n_outputs):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((M, 2)).astype(dtype)
    X[5] = X[2]
    Y = np.sin(2.0 * X[:, :1]) + rng.standard_normal((M, n_outputs)) + far
    w = 10.0 ** rng.uniform(-3, 3, M) if weighted else np.ones(M)
    return X, Y, w


def certified(monkeypatch, X, Y, w, size, bound=Certifier._group_bound):
    """The certificate, and the groups with their noise."""
    model = SparseGPRegressor(
        RBF(1.5, "fixed"),
        noise=NOISE,
        n_basis=3,
        optimizer=None,
        refine=False,
        calibration=None,
        normalize_y=False,
        dtype="float32" if X.dtype == np.float32 else "float64",
        random_state=0,
    ).fit(X, Y, w)
    groups, noises = [], []

    def recorded(self, rows, items, buffer):
        groups.append(rows)
        return bound(self, rows, items, buffer)

    def factored(cls, rows, items, sample, noise, out):
        noises.append(noise)
        return original(cls, rows, items, sample, noise, out)

    original = StarSystem.factored.__func__
    with monkeypatch.context() as patch:
        patch.setattr(Certifier, "_group_bound", recorded)
        patch.setattr(StarSystem, "factored", classmethod(factored))
        found = model.certify(X, Y, w, kind="grouped", group_rows=size)
    return found, groups, noises, model._compiled(X).kernel


def minima(kernel, X, Y, w, rows, share):
    """P_min of some rows with a share of the noise, in many digits."""
    # A float cannot hold a share such as 3/7.
    noise = MP.mpf(NOISE) * share
    return LeastSquares(exact(kernel, X[rows]), Y[rows], w[rows], noise).minimum


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("weighted", "far", "n_outputs"), [(False, 0.0, 1), (True, 1e3, 2)])
def test_groups_stay_below_the_sum_of_their_minima(
    monkeypatch, size, dtype, weighted, far, n_outputs
):
    X, Y, w = problem(dtype, weighted, far, n_outputs)
    found, groups, noises, kernel = certified(monkeypatch, X, Y, w, size)
    assert len(groups) == -(-M // size)
    np.testing.assert_array_equal(np.sort(np.concatenate(groups)), np.arange(M))
    with enough_digits(float(M), NOISE, float(w.max())):
        assert sum(MP.mpf(noise) for noise in noises) <= MP.mpf(NOISE)
        whole = minima(kernel, X, Y, w, np.arange(M), MP.one)
        parts = [minima(kernel, X, Y, w, g, MP.mpf(len(g)) / M) for g in groups]
        total = sum(parts)
        for lower, best, least in zip(found.lower_per_output, total, whole, strict=True):
            assert MP.mpf(float(lower)) <= best <= least
            assert lower >= float(best) * (1.0 - 1e-8)


@pytest.mark.parametrize("share", ["whole", "a billionth more"])
def test_groups_with_more_noise_than_their_share_are_caught(monkeypatch, share):
    X, Y, w = problem(np.float64, False, 0.0, 1)
    if share == "whole":
        # A function that all groups have to pay for.
        Y = np.ones_like(Y)

    def bound(self, rows, items, buffer):
        factor = M / len(rows) if share == "whole" else 1.0 + 1e-9
        more = replace(self.problem, noise=self.problem.noise * factor)
        return original(Certifier(more), rows, items, buffer)

    original = Certifier._group_bound
    found, groups, noises, kernel = certified(monkeypatch, X, Y, w, 3, bound)
    with enough_digits(float(M), NOISE):
        assert sum(MP.mpf(noise) for noise in noises) > MP.mpf(NOISE)
        best = sum(minima(kernel, X, Y, w, g, MP.mpf(len(g)) / M) for g in groups)[0]
        assert MP.mpf(found.lower) > best
        if share == "whole":
            assert MP.mpf(found.lower) > minima(kernel, X, Y, w, np.arange(M), MP.one)[0]
