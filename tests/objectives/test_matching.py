"""Matching pursuits with squared loss, against loops that solve least squares from scratch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.greedy import CostMeter, MaxSize, Pursuit
from pursuit.kernels import CountingKernel, compile_kernel
from pursuit.linalg import Workers
from pursuit.objectives import BackfitPursuit, BasicPursuit, PrefitPursuit
from pursuit.testing import check_objective


def make_dictionary(seed, m=30, P=9, n_outputs=1):
    """Correlated columns of different lengths, and targets that a few of them explain."""
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(m, P)) + rng.normal(size=(m, 1))
    G *= rng.uniform(0.2, 5.0, P)
    Y = G @ (rng.normal(size=(P, n_outputs)) * (rng.random((P, 1)) < 0.5))
    return G, Y + rng.normal(size=(m, n_outputs))


def best_fit(G, Y, S):
    """Least-squares coefficients on the columns S, the residual, and half its square."""
    beta = np.linalg.lstsq(G[:, S], Y, rcond=None)[0]
    residual = Y - G[:, S] @ beta
    return beta, residual, 0.5 * float(np.sum(residual**2))


def naive_prefit(G, Y, n, S=()):
    S = list(S)
    while len(S) < n:
        free = [j for j in range(G.shape[1]) if j not in S]
        S.append(min(free, key=lambda j: best_fit(G, Y, [*S, j])[2]))
    return S


def alignment(G, r, j):
    return float(np.sum((G[:, j] @ r) ** 2) / (G[:, j] @ G[:, j]))


def naive_backfit(G, Y, n, every, S=()):
    """Choice by the residual, which is refitted at every ``every``-th step only."""
    S, held = list(S), len(S)
    r = best_fit(G, Y, S)[1] if S else Y.copy()
    while len(S) < n:
        free = [j for j in range(G.shape[1]) if j not in S]
        j = max(free, key=lambda j: alignment(G, r, j))
        S.append(j)
        if (len(S) - held) % every == 0:
            r = best_fit(G, Y, S)[1]
        else:
            g = G[:, [j]]
            r = r - g @ (g.T @ r) / np.sum(g**2)
    return S


def naive_basic(G, Y, n, held=None):
    """Columns as they are first taken, and the coefficients at these times."""
    r, beta, S, seen = Y.copy(), np.zeros((G.shape[1], Y.shape[1])), [], []

    def take(j):
        nonlocal r
        step = G[:, [j]].T @ r / np.sum(G[:, j] ** 2)
        beta[j] += step[0]
        r = r - G[:, [j]] @ step

    if held is not None:
        take(held)
    while len(S) < n:
        free = [j for j in range(G.shape[1]) if j != held]
        j = max(free, key=lambda j: alignment(G, r, j))
        take(j)
        if held is not None:
            take(held)
        if j not in S:
            S.append(j)
            seen.append(beta.copy())
    return S, seen


@pytest.fixture(scope="module")
def workers():
    with Workers(2) as pool:
        yield pool


def build(kind, G, Y, workers, **options):
    H, b = G.T @ G, G.T @ Y
    offset = 0.5 * float(np.sum(Y**2))
    if kind is BasicPursuit:
        return kind(np.diag(H), b, H.__getitem__, offset=offset)
    return kind(
        np.diag(H),
        b,
        H.__getitem__,
        capacity=len(H),
        workers=workers,
        look_ahead=True,
        offset=offset,
        **options,
    )


def run(objective, n):
    meter = CostMeter(CountingKernel(compile_kernel("linear")[0]))
    return Pursuit(objective, meter).run([MaxSize(n)])


seeds = st.integers(0, 10**6)


@given(seeds, st.integers(1, 3), st.booleans())
def test_prefit(seed, n_outputs, hold):
    G, Y = make_dictionary(seed, n_outputs=n_outputs)
    with Workers(1) as workers:
        objective = build(PrefitPursuit, G, Y, workers)
        if hold:
            objective.force_in(4)
        path = run(objective, 5)
    S = naive_prefit(G, Y, 5 + hold, [4] if hold else [])
    assert objective.chosen.tolist() == S
    assert path.value == pytest.approx(
        [best_fit(G, Y, S[: k + hold])[2] for k in range(1, 6)], rel=1e-8
    )


@given(seeds, st.integers(1, 2), st.sampled_from([1, 2, 3]), st.booleans())
def test_backfit(seed, n_outputs, every, hold):
    G, Y = make_dictionary(seed, n_outputs=n_outputs)
    with Workers(1) as workers:
        objective = build(BackfitPursuit, G, Y, workers, refit_every=every)
        if hold:
            objective.force_in(4)
        path = run(objective, 6)
    S = naive_backfit(G, Y, 6 + hold, every, [4] if hold else [])
    assert objective.chosen.tolist() == S
    assert path.value[-1] == pytest.approx(best_fit(G, Y, S)[2], rel=1e-8)


@given(seeds, st.integers(1, 2), st.booleans())
def test_basic(seed, n_outputs, hold):
    G, Y = make_dictionary(seed, n_outputs=n_outputs)
    objective = build(BasicPursuit, G, Y, None)
    if hold:
        objective.force_in(4)
    run(objective, 5)
    S, seen = naive_basic(G, Y, 5, held=4 if hold else None)
    chosen = ([4] if hold else []) + S
    assert objective.chosen.tolist() == chosen
    table = objective.coefficient_path(1 + hold, 5 + hold)
    for k, beta in enumerate(seen):
        np.testing.assert_allclose(table[:, k], beta[chosen], rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("kind", [PrefitPursuit, BackfitPursuit])
@pytest.mark.parametrize(("first", "last"), [(1, 6), (3, 5), (6, 6), (1, 1)])
def test_coefficients_of_some_sizes(kind, first, last, workers):
    G, Y = make_dictionary(1, n_outputs=2)
    objective = build(kind, G, Y, workers)
    run(objective, 6)
    S = objective.chosen.tolist()
    table = objective.coefficient_path(first, last)
    assert table.shape == (last, last - first + 1, 2)
    for size in range(first, last + 1):
        np.testing.assert_allclose(
            table[:size, size - first], best_fit(G, Y, S[:size])[0], rtol=1e-8, atol=1e-10
        )
        assert not table[size:, size - first].any()


def test_prefit_keeps_the_contract(workers):
    G, Y = make_dictionary(2, n_outputs=2)
    G[:, 7] = G[:, 2]
    check_objective(lambda: build(PrefitPursuit, G, Y, workers), (2, 7), n_steps=5)


@given(seeds)
def test_a_backfit_score_never_promises_too_much(seed):
    G, Y = make_dictionary(seed)
    with Workers(1) as workers:
        objective = build(BackfitPursuit, G, Y, workers)
        for _ in range(5):
            free = np.flatnonzero(objective.available)
            scores = objective.score(free)
            before = objective.value
            objective.add(int(free[scores.argmax()]))
            assert before - objective.value >= scores.max() * (1 - 1e-9)


def test_a_basic_score_is_the_decrease():
    G, Y = make_dictionary(3, n_outputs=2)
    objective = build(BasicPursuit, G, Y, None)
    for candidate in (2, 5, 2, 0):
        before = objective.value
        (score,) = objective.score(np.array([candidate]))
        assert objective.add(candidate)
        assert before - objective.value == pytest.approx(score, rel=1e-10)
        assert objective.available[candidate]


def test_a_zero_column_is_never_available(workers):
    G, Y = make_dictionary(4)
    G[:, 3] = 0.0
    for kind in (PrefitPursuit, BackfitPursuit, BasicPursuit):
        assert not build(kind, G, Y, workers).available[3]
