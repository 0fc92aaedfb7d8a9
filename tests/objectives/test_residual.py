"""Primitive B with every rule, against matrices deflated as a whole."""

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF
from tasks import make_task, tasks

from pursuit.gram import KernelMatrix
from pursuit.gram import kernel_matrix as matrix
from pursuit.greedy import CostMeter, FreshSubset, MaxSize, Pursuit, RandomPivot
from pursuit.kernels import compile_kernel
from pursuit.linalg import Workers
from pursuit.objectives import ResidualPursuit
from pursuit.rows import as_rows
from pursuit.testing import check_objective

RULES = ("function", "frobenius", "column", "diagonal", "feature-analysis")


@pytest.fixture(scope="module")
def workers():
    with Workers(2) as pool:
        yield pool


def objective_of(task, workers, *, capacity=30, **options):
    K = KernelMatrix(task.sample.rows, task.kernel, workers)
    return ResidualPursuit(K, task.w, capacity=capacity, workers=workers, **options)


def deflated_scores(K, w, S, rule, projection="function"):
    """The score of every row, from a residual matrix and coefficients formed from scratch."""
    S, free = list(S), np.setdiff1d(np.arange(len(K)), S)
    T = np.zeros((len(K), len(S)))
    if S and projection == "function":
        T = np.linalg.solve(K[np.ix_(S, S)], K[S]).T
    elif S and projection == "column":
        root = np.sqrt(w)[:, None]
        T = np.linalg.lstsq(root * K[:, S], root * K, rcond=None)[0].T
    elif S:
        T[S, range(len(S))] = 1.0
    E = K - K[:, S] @ T.T
    squares = w @ E**2
    if rule == "function":
        squares[free] /= np.diag(E)[free]
    elif rule == "frobenius":
        squares[free] = (w @ (E.T @ (w[:, None] * E)) ** 2)[free] / squares[free]
    elif rule == "feature-analysis":
        squares /= (1 + np.abs(T).sum(axis=1)) ** 2
    return np.diag(E) if rule == "diagonal" else squares


CASES = [(rule, "function") for rule in RULES]
CASES += [(rule, kind) for rule in RULES[:3] for kind in ("column", "kronecker")]


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize(("rule", "projection"), CASES)
def test_scores_are_those_of_the_deflated_matrix(rule, projection, running, workers):
    rng = np.random.default_rng(0)
    task = make_task(rng, 16, name="exponential", weighted=True)
    objective = objective_of(task, workers, rule=rule, projection=projection, running=running)
    for _ in range(6):
        free = np.flatnonzero(objective.available)
        expected = deflated_scores(task.K, task.w, objective.chosen, rule, projection)[free]
        # What is not positive by (31) in column space is never picked, and scores 0.
        expected = np.maximum(expected, 0.0)
        np.testing.assert_allclose(objective.score(free), expected, rtol=1e-6)
        assert objective.add(int(rng.choice(free)))


@pytest.mark.parametrize("running", [False, True])
def test_the_function_rule_keeps_the_contract(running, workers):
    """The score is the decrease of τ."""
    task = make_task(np.random.default_rng(1), 12, weighted=True, name="exponential")
    task.X[9] = task.X[2]
    check_objective(lambda: objective_of(task, workers, running=running), (2, 9), n_steps=5)


@pytest.mark.parametrize("running", [False, True])
def test_the_frobenius_rule_is_the_decrease_of_the_norm_in_column_space(running, workers):
    task = make_task(np.random.default_rng(1), 12, weighted=True, name="exponential")
    objective = objective_of(task, workers, rule="frobenius", projection="column", running=running)
    for pick in (3, 7, 1, 10):
        [score], before = objective.score(np.array([pick])), objective.space.total()
        assert objective.add(pick)
        assert before - objective.space.total() == pytest.approx(score, rel=1e-8)


@given(tasks(), st.integers(1, 12))
def test_a_full_search_is_the_kernel_pca_of_hussain_and_shawe_taylor(task, n):
    """HS08 Algorithm 1 on the deflated matrix; weights are copies there."""
    with Workers(1) as workers:
        objective = objective_of(task, workers, running=True)
        path = Pursuit(objective, CostMeter(), scale=objective.value).run([MaxSize(n)])
    K, w = task.K.copy(), task.w
    # Running sums of squares keep the rounding that they began with.
    rounding = 64 * np.finfo(float).eps * (w @ K**2).max()
    for step, i in enumerate(path.index):
        left = np.diag(K) > 1e-6
        scores = np.where(left, (w @ K**2) / np.where(left, np.diag(K), 1.0), 0.0)
        # Deflation has no digits left for rows of which so little is left.
        if scores.max() <= 1e-6 * w.sum() or not left[i]:
            break
        best = scores.argmax()
        slack = rounding / min(K[i, i], K[best, best])
        assert scores[i] >= scores[best] * (1 - 1e-6) - slack
        before = w @ np.diag(K)
        K -= np.outer(K[:, i], K[i]) / K[i, i]
        assert before - path.value[step] == pytest.approx(scores[i], rel=1e-5, abs=1e-7 * w.sum())


@given(tasks(kernels=("exponential",), min_rows=6), st.integers(1, 5))
def test_column_space_leaves_the_frobenius_norm_of_a_projection(task, n):
    with Workers(1) as workers:
        objective = objective_of(task, workers, rule="frobenius", projection="column", running=True)
        Pursuit(objective, CostMeter()).run([MaxSize(n)])
    root = np.sqrt(task.w)[:, None]
    columns = root * task.K
    Q, _ = np.linalg.qr(columns[:, objective.chosen])
    left = columns - Q @ (Q.T @ columns)
    frobenius = float(task.w @ np.square(left).sum(axis=0))
    # Norms of all columns are differences of sums of squares: rounding is relative to the start.
    start = float(task.w @ np.square(columns).sum(axis=0))
    assert objective.space.total() == pytest.approx(frobenius, rel=1e-6, abs=1e-12 * start)


@given(tasks(), st.integers(1, 10), st.sampled_from(RULES))
def test_residuals_stay_positive_semi_definite(task, n, rule):
    with Workers(1) as workers:
        objective = objective_of(task, workers, rule=rule)
        Pursuit(objective, CostMeter()).run([MaxSize(n)])
    V = objective.factor.rows
    E = task.K - V.T @ V
    assert np.linalg.eigvalsh(E).min() >= -1e-6
    np.testing.assert_allclose(objective.factor.triangle(), V[:, objective.chosen].T, atol=1e-6)
    assert objective.value == pytest.approx(task.w @ np.diag(E), abs=1e-6)


def test_a_matrix_too_large_to_hold_gives_the_same(workers, monkeypatch):
    task = make_task(np.random.default_rng(3), 60, weighted=True, name="exponential")

    def chosen(rule):
        objective = objective_of(task, workers, rule=rule, running=True)
        Pursuit(objective, CostMeter()).run([MaxSize(20)])
        return objective.chosen, objective.value

    held = [chosen("function"), chosen("frobenius")]
    original = matrix.KernelMatrix.__init__
    monkeypatch.setattr(
        matrix.KernelMatrix, "__init__", lambda *a, **k: original(*a, **{**k, "stored_bytes": 0})
    )
    for (before, value), (after, again) in zip(
        held, [chosen("function"), chosen("frobenius")], strict=True
    ):
        np.testing.assert_array_equal(before, after)
        assert value == pytest.approx(again)


def test_a_fresh_subset_is_worse_than_a_full_search_and_better_than_random_pivots(workers):
    task = make_task(np.random.default_rng(4), 300, n_features=3)

    def left(kind, seed):
        rng = np.random.default_rng(seed)
        objective = objective_of(
            task,
            workers,
            rule="diagonal" if kind == "random" else "function",
            running=kind == "full",
        )
        candidates = {
            "full": None,
            "fresh": FreshSubset(20, rng),
            "random": RandomPivot(lambda: objective.weighted_residual, rng),
        }[kind]
        Pursuit(objective, CostMeter(), candidates=candidates).run([MaxSize(25)])
        return objective.value

    full = left("full", 0)
    fresh = np.mean([left("fresh", seed) for seed in range(5)])
    random = np.mean([left("random", seed) for seed in range(5)])
    assert full < fresh < random


def test_random_pivots_are_drawn_by_weight_and_residual(workers, size):
    rng = np.random.default_rng(5)
    share = np.array([0.0, 1.0, 3.0, 0.0, 6.0])
    pivots = RandomPivot(lambda: share, rng)
    n = size(4000, 40_000)
    counts = np.bincount([pivots.draw(np.ones(5, bool))[0] for _ in range(n)], minlength=5)
    np.testing.assert_allclose(counts / n, share / 10, atol=4 * np.sqrt(0.25 / n))
    available = np.array([False, True, False, False, False])
    np.testing.assert_array_equal(pivots.draw(available), [1])
    assert len(pivots.draw(np.zeros(5, bool))) == 0


def test_threads_do_not_change_a_bit():
    X = np.random.default_rng(6).standard_normal((2500, 3))
    kernel = compile_kernel(RBF(1.0))[0]

    def run(n_jobs, **options):
        with Workers(n_jobs) as workers:
            H = KernelMatrix(as_rows(X), kernel, workers)
            objective = ResidualPursuit(H, np.ones(2500), capacity=15, workers=workers, **options)
            subset = FreshSubset(30, np.random.default_rng(0))
            Pursuit(objective, CostMeter(), candidates=subset).run([MaxSize(15)])
        return objective.factor.pivots, objective.factor.rows

    for options in (
        {},
        {"running": True},
        {"rule": "feature-analysis"},
        {"rule": "frobenius", "projection": "column"},
        {"rule": "column", "projection": "column", "running": True},
    ):
        pivots, rows = run(1, **options)
        other, other_rows = run(3, **options)
        assert pivots == other
        np.testing.assert_array_equal(rows, other_rows)


def test_oracle_of_the_residual_is_a_projection():
    """The deflation used above and the oracle by projections are two routes to one matrix."""
    task = make_task(np.random.default_rng(7), 10, name="exponential")
    K, S = task.K, [3, 1, 8]
    np.testing.assert_allclose(
        deflated_scores(K, task.w, S, "diagonal"),
        np.diag(oracles.nystroem_residual(K, S)),
        atol=1e-12,
    )
