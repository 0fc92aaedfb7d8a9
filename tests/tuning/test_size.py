"""Curves of error and log loss over sizes, against fits of each size."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import log_softmax

from pursuit.greedy import size_grid
from pursuit.linalg import SpanSolution
from pursuit.tuning import HeldOut, flat_size, loss_curve

M, N, NOISE = 14, 6, 0.3


def case(seed, n_columns):
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(M, N))
    Y = np.where(rng.random((M, n_columns)) < 0.5, 1.0, -1.0)
    if n_columns > 1:
        Y = np.where(rng.integers(n_columns, size=M)[:, None] == np.arange(n_columns), 1.0, -1.0)
    w = rng.uniform(0.3, 2.0, M)
    solution = SpanSolution.from_whitened(
        np.eye(N), V.T @ (w[:, None] * V), V.T @ (w[:, None] * Y), NOISE
    )
    return V, Y, w, solution


def ridge(V, Y, w, n):
    V = V[:, :n]
    return np.linalg.solve(V.T @ (w[:, None] * V) + NOISE * np.eye(n), V.T @ (w[:, None] * Y))


def least_loss(mean, Y, w):
    """Over a fine grid of slopes."""
    a = np.exp(np.linspace(-3, 6, 801))[:, None, None]
    if Y.shape[1] == 1:
        each = np.logaddexp(0.0, -a * Y * mean)[:, :, 0]
    else:
        each = -log_softmax(a * mean, axis=2)[:, np.arange(len(Y)), Y.argmax(axis=1)]
    return (each @ w).min() / w.sum()


@given(seed=st.integers(0, 2**32 - 1), n_columns=st.sampled_from([1, 3]), in_fit=st.booleans())
def test_log_loss_is_that_of_fits_of_each_size(seed, n_columns, in_fit):
    V, Y, w, solution = case(seed, n_columns)
    if in_fit:
        judged = V, Y, w
        rows = HeldOut(V.T, Y, w, np.full(M, 100.0), np.arange(M))
    else:
        new, targets, weights, _ = case(seed + 1, n_columns)
        judged = new, targets, weights
        rows = HeldOut(new.T, targets, weights, np.full(M, 100.0), np.arange(M))
    curve = loss_curve(solution, rows, in_fit=in_fit)
    for n in range(1, N + 1):
        if n not in size_grid(N):
            assert curve[n - 1] == np.inf
            continue
        if in_fit:
            keep = ~np.eye(M, dtype=bool)
            mean = np.stack(
                [V[i, :n] @ ridge(V[keep[i]], Y[keep[i]], w[keep[i]], n) for i in range(M)]
            )
        else:
            mean = judged[0][:, :n] @ ridge(V, Y, w, n)
        assert_allclose(curve[n - 1], least_loss(mean, *judged[1:]), atol=1e-4)


def test_flat_is_within_a_percent_or_next_to_nothing():
    curve = np.array([2.0, 1.02, 1.009, 1.0, 1.5])
    assert flat_size(curve) == 3
    assert flat_size(curve, nothing=0.03) == 2
    assert flat_size(np.array([1e-4, 1e-9, 0.0]), nothing=1e-3) == 1
    assert flat_size(np.array([np.inf, 1e-4, np.inf, 0.0])) == 4
