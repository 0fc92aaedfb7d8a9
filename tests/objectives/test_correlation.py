"""Greedy pairs for CCA: the quotient on matrices deflated by hand."""

import numpy as np
import pytest

from pursuit.gram import KernelMatrix
from pursuit.greedy import CostMeter, FreshSubset, MaxSize, Pursuit
from pursuit.kernels import PrecomputedKernel
from pursuit.linalg import Workers
from pursuit.objectives import CorrelationPursuit
from pursuit.rows import IndexRows


def views(m=40, seed=0, widths=(1.0, 2.0)):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=m)
    X = np.column_stack([z + 0.3 * rng.normal(size=m), rng.normal(size=m)])
    Y = np.column_stack([np.sin(z) + 0.3 * rng.normal(size=m), rng.normal(size=m)])
    return [
        np.exp(-((A[:, None] - A) ** 2).sum(axis=2) / width)
        for A, width in zip((X, Y), widths, strict=True)
    ]


def deflate(E, i):
    return E - np.outer(E[:, i], E[:, i]) / E[i, i]


def naive(Kx, Ky, w, n):
    """Indices and quotients, from matrices that are deflated whole."""
    Ex, Ey, chosen, quotients = Kx.copy(), Ky.copy(), [], []
    for _ in range(n):
        rho = np.array(
            [
                abs(np.sum(w * Ex[:, i] * Ey[:, i]))
                / np.sqrt(np.sum(w * Ex[:, i] ** 2) * np.sum(w * Ey[:, i] ** 2))
                if i not in chosen
                else -1.0
                for i in range(len(w))
            ]
        )
        i = int(rho.argmax())
        chosen.append(i)
        quotients.append(rho[i])
        Ex, Ey = deflate(Ex, i), deflate(Ey, i)
    return chosen, quotients


@pytest.fixture(scope="module")
def workers():
    with Workers(2) as pool:
        yield pool


def objective(matrices, w, workers, capacity=12, running=True):
    columns = tuple(
        KernelMatrix(IndexRows(len(K)), PrecomputedKernel(K), workers) for K in matrices
    )
    return CorrelationPursuit(columns, w, capacity=capacity, workers=workers, running=running)


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_choices_are_those_of_whole_deflated_matrices(workers, running, weighted):
    matrices = views()
    w = np.random.default_rng(1).uniform(0.2, 2, 40) if weighted else np.ones(40)
    found = objective(matrices, w, workers, running=running)
    pursuit = Pursuit(found, CostMeter())
    scores = []
    while len(found.chosen) < 12:
        scores.append(found.score(np.flatnonzero(found.available)).max())
        assert pursuit.step() is None
    chosen, quotients = naive(*matrices, w, 12)
    assert found.chosen.tolist() == chosen
    np.testing.assert_allclose(scores, quotients, rtol=1e-8)
    assert found.value == pytest.approx(
        sum(
            np.sum(
                w
                * np.diag(K - K[:, chosen] @ np.linalg.solve(K[np.ix_(chosen, chosen)], K[chosen]))
            )
            / np.sum(w * np.diag(K))
            for K in matrices
        ),
        rel=1e-9,
    )


def test_a_subset_sees_the_same_scores(workers):
    matrices = views()
    found = objective(matrices, np.ones(40), workers, running=False)
    subset = FreshSubset(5, np.random.default_rng(0))
    Pursuit(found, CostMeter(), candidates=subset).run([MaxSize(6)])
    whole = objective(matrices, np.ones(40), workers)
    Pursuit(whole, CostMeter()).take(found.chosen)
    free = np.flatnonzero(whole.available)
    np.testing.assert_allclose(found.score(free), whole.score(free), rtol=1e-8)


def test_when_one_view_is_exhausted_the_other_goes_on_by_its_trace(workers):
    rng = np.random.default_rng(0)
    Kx = views()[0]
    Y = rng.normal(size=(40, 2))
    found = objective((Kx, Y @ Y.T), np.ones(40), workers)
    Pursuit(found, CostMeter()).run([MaxSize(6)])
    assert found.factors[0].rank == 6
    assert found.factors[1].rank == 2
    E = Kx
    for i in found.chosen[:2]:
        E = deflate(E, i)
    for i in found.chosen[2:]:
        gain = (E**2).sum(axis=0) / np.where(np.diag(E) > 1e-12, np.diag(E), np.inf)
        assert gain.argmax() == i
        E = deflate(E, i)


def test_copies_and_zero_columns_are_never_taken(workers):
    matrices = [K.copy() for K in views()]
    for K in matrices:
        K[5], K[:, 5] = 0.0, 0.0
        K[7], K[:, 7] = K[3], K[:, 3]
        K[7, 7] = K[3, 3]
    found = objective(matrices, np.ones(40), workers, capacity=40)
    path = Pursuit(found, CostMeter()).run([MaxSize(40)])
    # What is left after the last column of its own is rounding: none of it, or too little.
    assert path.stop_reason in ("rank", "no gain")
    assert 5 not in found.chosen
    assert not {3, 7} <= set(found.chosen.tolist())
