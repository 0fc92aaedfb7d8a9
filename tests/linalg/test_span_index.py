"""Bounds on distances in feature space: true ones whatever rounding does, and close ones."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.linalg import EPS, NotPositiveDefiniteError, SpanPoints, trusted_size


def long_gaussian(A, B, length_scale):
    """The Gaussian kernel and the squared distances of its features, in extended precision."""
    A, B = (np.asarray(X, dtype=np.longdouble) for X in (A, B))
    r2 = ((A[:, None] - B[None]) ** 2).sum(axis=2) / (2 * np.longdouble(length_scale) ** 2)
    return np.exp(-r2), -2 * np.expm1(-r2)


def placed(X, S, length_scale):
    """Points placed by the landmarks X[S], with everything in float64 as the library has it."""
    K = np.asarray(long_gaussian(X, X, length_scale)[0], dtype=float)
    R = np.linalg.cholesky(K[np.ix_(S, S)])
    n, error = trusted_size(R, 0.0)
    V = np.linalg.solve(R[:n, :n], K[S[:n]]).T
    return SpanPoints.place(V, np.diag(K).copy(), error), n


def independent(K, most, pivot):
    """Landmarks in the order of their residual, as long as it is above ``pivot``."""
    residual, S = K.copy(), []
    while len(S) < most and np.diag(residual).max() > pivot:
        i = int(np.diag(residual).argmax())
        residual = residual - np.outer(residual[:, i], residual[i]) / residual[i, i]
        S.append(i)
    return S


@given(
    seed=st.integers(0, 2**32 - 1),
    m=st.integers(2, 30),
    d=st.integers(1, 4),
    length_scale=st.sampled_from([0.1, 1.0, 10.0, 300.0]),
    pivot=st.sampled_from([1e-2, 1e-6, 1e-10, 1e-13]),
)
def test_bounds_hold_however_dependent_the_landmarks_are(seed, m, d, length_scale, pivot):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d))
    X[rng.integers(m)] = X[rng.integers(m)]
    X[rng.integers(m)] = X[rng.integers(m)] + 1e-6
    K, squared = long_gaussian(X, X, length_scale)
    S = independent(K, m, pivot)
    try:
        points, _ = placed(X, S, length_scale)
    except np.linalg.LinAlgError:
        return  # numerically dependent already for the factor of float64
    lower, upper = points.bounds(points)
    exact = np.sqrt(squared)
    assert np.all(lower <= exact)
    assert np.all(exact <= upper)


def test_bounds_are_those_of_the_inequality():
    rng = np.random.default_rng(0)
    X, length_scale = rng.normal(size=(40, 3)), 1.0
    K = oracles.kernel_matrix("gaussian", length_scale, X, X)
    S = np.arange(8)
    points, n = placed(X, S, length_scale)
    assert n == 8
    assert points.radius.max() < 1e-5
    queries, others = range(8, 13), range(13, 30)  # no landmarks: their d is all rounding
    lower, upper = points[13:30].bounds(points[8:13])
    V = np.linalg.solve(np.linalg.cholesky(K[:8, :8]), K[:8]).T
    root = np.sqrt(1 - (V[8:30] ** 2).sum(axis=1))
    for i in queries:
        for j in others:
            inside, x, z = ((V[i] - V[j]) ** 2).sum(), root[i - 8], root[j - 8]
            slack = points.radius[i] + points.radius[j]
            below, above = lower[i - 8, j - 13], upper[i - 8, j - 13]
            assert below + slack == pytest.approx(np.sqrt(inside + (x - z) ** 2), rel=1e-10)
            assert above - slack == pytest.approx(np.sqrt(inside + (x + z) ** 2), rel=1e-10)


def test_landmarks_close_to_the_span_of_others_are_left_out():
    X = np.array([[0.0], [1.0], [1.0 + 1e-7], [2.0]])
    K = np.asarray(long_gaussian(X, X, 1.0)[0], dtype=float)
    R = np.linalg.cholesky(K)
    size, error = trusted_size(R, 0.0)
    assert size == 2
    assert error < 1e-12
    apart, smaller = trusted_size(R[:2, :2], 0.0)
    assert (apart, smaller) == (2, error)


def test_a_factor_known_to_be_coarse_gives_a_larger_error():
    R = np.linalg.cholesky(np.eye(3) + 0.1)
    size, fine = trusted_size(R, 0.0)
    again, coarse = trusted_size(R, 1e-9)
    assert size == again == 3
    assert coarse > 1e-9 > 1e3 * fine
    assert trusted_size(R, 0.0, rounding=1e-7)[1] == pytest.approx(fine * 1e-7 / EPS)


def test_no_landmarks_leave_the_lengths():
    points = SpanPoints.place(
        np.empty((2, 0)), np.array([4.0, 9.0]), trusted_size(np.empty((0, 0)), 0.0)[1]
    )
    lower, upper = points.bounds(points)
    assert lower[0, 1] == pytest.approx(1.0)
    assert upper[0, 1] == pytest.approx(5.0)


def test_a_row_longer_inside_the_span_than_it_is_has_no_kernel():
    V = np.array([[0.5], [1.1], [0.2]])
    with pytest.raises(NotPositiveDefiniteError) as caught:
        SpanPoints.place(V, np.ones(3), 1e-12)
    assert caught.value.index == 1
    assert caught.value.pivot == pytest.approx(1 - 1.1**2)
