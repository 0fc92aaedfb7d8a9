"""Decompositions and solutions give the same bits whatever number of threads BLAS has."""

from functools import cache

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from pursuit.linalg import (
    LowRankPlusDiagonal,
    PredictiveVariance,
    PrincipalComponents,
    RowCholesky,
    SpanPoints,
    SpanSolution,
    Workers,
    bordered_cholesky,
    canonical_pairs,
    damped_cholesky,
    invert_spd,
    low_rank_inverse,
    low_rank_operator,
    reordered,
    robust_cholesky,
    trusted_size,
)

SIZE = 400


# Inputs are computed once: only what is tested may see another number of threads.


@cache
def psd(seed=0, n=SIZE):
    A = np.random.default_rng(seed).standard_normal((n, n + 50))
    return A @ A.T / n


@cache
def lower(n=SIZE):
    return np.linalg.cholesky(psd()[:n, :n])


@cache
def tall(seed=0, m=3000, n=SIZE):
    return np.random.default_rng(seed).standard_normal((m, n))


@cache
def block():
    return tall(3, 700) @ tall(3, 700).T + 700.0 * np.eye(700)


def half_dependent():
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(SIZE // 2), 2))
    return psd(n=SIZE // 2)[np.ix_(order, order)]


def solution():
    rng = np.random.default_rng(2)
    return SpanSolution.from_gram(lower(), psd(1), rng.standard_normal((SIZE, 3)), 0.1)


def spread():
    return PredictiveVariance(0.1, 0.5).covariance(solution(), tall(3, 700), block())


def grown():
    factor = RowCholesky()
    for i, row in enumerate(lower()):
        factor.append(row[:i], row[i] ** 2)
    return factor.solve(tall(4, SIZE, 500))


def inverse(V):
    return LowRankPlusDiagonal(V, 0.3, Workers(1, hold_blas=False)).refined(tall(5, n=20), 0, 2)


def bounds():
    V = tall(6, 900, 200) / 20
    points = SpanPoints.place(V, np.full(len(V), 2.0), 1e-12)
    return points.bounds(points[:300])


CALLS = {
    "robust": lambda: robust_cholesky(psd()),
    "robust, dependent rows": lambda: robust_cholesky(half_dependent()),
    "damped": lambda: damped_cholesky(psd()),
    "bordered": lambda: bordered_cholesky(lower(200), psd()[:200, 200:], psd()[200:, 200:], 1e-11),
    "reordered": lambda: reordered(psd(), lower(), np.arange(SIZE)[::-1]),
    "inverse": lambda: invert_spd(psd().copy(), Workers(1, hold_blas=False)),
    "row by row": grown,
    "span": lambda: (solution().L, solution().z),
    "coefficients": lambda: solution().coefficients(),
    "whitened": lambda: solution().whitened(),
    "inner": lambda: solution().solve_inner(tall(7, SIZE, 60)),
    "rounding": lambda: solution().statistics_rounding(1e-12),
    "covariance": spread,
    "low rank": lambda: inverse(tall()),
    "low rank, float32": lambda: inverse(tall().astype(np.float32)),
    "operators": lambda: [f(tall(8), *a) @ tall(9, n=5) for f, a in OPERATORS],
    "principal": lambda: vars(
        PrincipalComponents.from_moments(psd(), np.ones(SIZE), 2.0, center=True)
    ).values(),
    "scores": lambda: PrincipalComponents(np.zeros(SIZE), np.ones(SIZE), psd()).scores(tall()),
    "canonical": lambda: vars(
        canonical_pairs(psd(), 0.1 * psd(1)[:, :300], psd(2, 300), (0.1, 0.1), 5)
    ).values(),
    "bounds": bounds,
    "trusted": lambda: trusted_size(lower(), 1e-15),
}
OPERATORS = [(low_rank_operator, ()), (low_rank_inverse, (0.3,))]


def arrays(call, threads):
    """What the call returns when BLAS has so many threads."""
    with ThreadpoolController().select(user_api="blas").limit(limits=threads):
        result = call()
    return [np.asarray(x) for x in (result if np.iterable(result) else [result])]


@pytest.mark.parametrize("name", CALLS)
def test_same_bits(name):
    one, two = (arrays(CALLS[name], threads) for threads in (1, 2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
