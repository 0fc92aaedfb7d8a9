"""The loop: who is taken, who wins a tie, and how it ends."""

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tasks import make_task

from pursuit.gram import gram_statistics
from pursuit.greedy import CostMeter, MaxSize, Pursuit, best_candidate, kernel_matrix
from pursuit.kernels import CountingKernel, PrecomputedKernel, compile_kernel
from pursuit.linalg import NotPositiveDefiniteError, Workers
from pursuit.objectives import DiagonalPursuit, SpanPursuit, gram_pursuit
from pursuit.rows import IndexRows, Sample


class Gains:
    """Candidates with fixed gains; some are found dependent only when they are taken."""

    def __init__(self, gains, dependent=()):
        self.gains = np.array(gains, dtype=float)
        self.available = np.ones(len(gains), bool)
        self.value = 100.0
        self.dependent = set(dependent)

    def score(self, candidates):
        return self.gains[candidates]

    def add(self, candidate):
        self.available[candidate] = False
        if candidate in self.dependent:
            return False
        self.value -= self.gains[candidate]
        return True


def meter():
    return CostMeter(CountingKernel(compile_kernel("rbf", gamma=1.0)[0]))


def run(objective, rules=(), **options):
    return Pursuit(objective, meter(), **options).run(list(rules))


# best_candidate


def test_scores_that_are_not_numbers():
    with pytest.raises(
        ValueError, match=r"scores of these rows overflow: bring the features of X, y"
    ):
        best_candidate(np.arange(3), np.array([1.0, np.nan, 2.0]))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20), st.integers(0, 50))
def test_the_largest_gain_wins(gains, first):
    candidates = first + 2 * np.arange(len(gains))
    best, gain = best_candidate(candidates, np.array(gains))
    assert gain == max(gains)
    position = int(np.flatnonzero(candidates == best)[0])
    assert gains[position] >= max(gains) * (1 - 1e-10)
    assert all(g < max(gains) * (1 - 1e-10) for g in gains[:position])


@pytest.mark.parametrize(
    ("gains", "winner"),
    [
        ([1.0, 1.0, 1.0], 5),
        ([1.0 - 1e-11, 1.0, 1.0 - 1e-11], 5),
        ([1.0 - 1e-9, 1.0, 1.0], 7),
        ([0.0, 0.0, 0.0], 5),
        ([-2.0, -1.0, -1.0 - 1e-12], 7),
    ],
)
def test_ties_go_to_the_lowest_number(gains, winner):
    assert best_candidate(np.array([5, 7, 9]), np.array(gains))[0] == winner


# The loop


def test_takes_the_best_first_and_writes_down_what_it_did():
    told = []
    pursuit = Pursuit(Gains([1, 4, 2, 3]), meter())
    path = pursuit.run([MaxSize(3)], told.append)
    assert path.index.tolist() == [1, 3, 2]
    assert path.value.tolist() == [96, 93, 91]
    assert np.isnan(path.gap).all()
    assert path.stop_reason == "n_basis"
    assert told == [1, 2, 3]
    assert pursuit.size == 3


def test_labels_name_candidates():
    path = run(Gains([1, 4, 2]), labels=np.array([70, -1, 30]))
    assert path.index.tolist() == [-1, 30, 70]


def test_ends_when_nothing_is_left():
    path = run(Gains([1, 2]), [MaxSize(5)])
    assert path.stop_reason == "rank"
    assert path.index.tolist() == [1, 0]


def test_dependent_candidates_are_passed_over():
    path = run(Gains([1, 4, 2, 3], dependent=[1, 2]))
    assert path.index.tolist() == [3, 0]
    assert path.stop_reason == "rank"


def test_nothing_to_choose_from():
    path = run(Gains([]), [MaxSize(2)])
    assert len(path) == 0
    assert path.stop_reason == "rank"


@pytest.mark.parametrize(("scale", "expected"), [(1.0, [2, 1]), (1e-9, [2, 1, 0])])
def test_gains_that_are_rounding_end_it(scale, expected):
    path = run(Gains([1e-16, 1e-3, 1.0]), scale=scale)
    assert path.index.tolist() == expected
    assert path.stop_reason == ("no gain" if len(expected) < 3 else "rank")


def test_the_first_is_taken_even_at_no_gain():
    path = run(Gains([0, 0]), scale=1.0)
    assert path.index.tolist() == [0]
    assert path.stop_reason == "no gain"


def test_the_first_rule_with_a_reason_gives_it():
    path = run(Gains([1, 2, 3]), [lambda p: None, lambda p: "bound", MaxSize(1)])
    assert path.stop_reason == "bound"
    assert len(path) == 1


def test_taking_by_name_then_choosing():
    pursuit = Pursuit(Gains([1, 4, 2, 3], dependent=[2]), meter())
    pursuit.take([0, 2])
    path = pursuit.run([MaxSize(2)])
    assert path.index.tolist() == [0, 1]
    assert path.value.tolist() == [99, 95]


# Ties and rank with real objectives


def mirrored(n=8):
    """Rows that come in pairs ±x with one target: every pair has one gain."""
    rng = np.random.default_rng(0)
    half = rng.uniform(0.5, 4, (n, 1))
    X = np.concatenate([half, -half])
    task = make_task(rng, 2 * n, n_features=1, parameter=0.4)
    task.X[:], task.Y[:] = X, np.cos(X)
    return task, X[:, 0]


@pytest.mark.parametrize("form", ["gram", "span"])
def test_of_two_equal_gains_the_lower_row_is_taken(form):
    task, x = mirrored()
    kernel = task.kernel
    with Workers(1) as workers:
        if form == "gram":
            statistics = gram_statistics(task.sample, kernel, task.X, workers=workers)
            K = kernel_matrix(kernel, task.X, workers)
            objective = gram_pursuit(statistics, K, task.noise, capacity=9, workers=workers)
        else:
            objective = SpanPursuit(task.sample, kernel, task.noise, capacity=9, workers=workers)
        path = Pursuit(objective, CostMeter(kernel)).run([MaxSize(2)])
    first, second = path.index
    assert first < 8, "the positive one of the pair has the lower number"
    assert second < 8 or x[second] == -x[first]
    order, _ = oracles.greedy(task.K, task.Y, task.w, task.noise, 2)
    assert path.index.tolist() == order


def test_copies_end_the_gram_form_by_rank():
    task = make_task(np.random.default_rng(1), 12, parameter=0.5)
    task.X[6:] = task.X[:6]
    with Workers(1) as workers:
        statistics = gram_statistics(task.sample, task.kernel, task.X, workers=workers)
        K = kernel_matrix(task.kernel, task.X, workers)
        objective = gram_pursuit(statistics, K, task.noise, capacity=12, workers=workers)
        path = run(objective, [MaxSize(12)], scale=objective.value)
    assert path.stop_reason == "rank"
    assert sorted(path.index.tolist()) == list(range(6))


def test_no_target_no_gain():
    task = make_task(np.random.default_rng(2), 10)
    task.Y[:] = 0
    kernel = task.kernel
    with Workers(1) as workers:
        objective = SpanPursuit(task.sample, kernel, task.noise, capacity=5, workers=workers)
        path = run(objective, [MaxSize(5)], scale=objective.value)
    assert path.index.tolist() == [0]
    assert path.stop_reason == "no gain"
    assert path.value.tolist() == [0]


@pytest.mark.parametrize("form", ["diagonal", "span"])
def test_an_indefinite_kernel_is_named_by_its_label(form):
    K = np.eye(5)
    K[1, 4] = K[4, 1] = 2.0
    kernel, rows = CountingKernel(PrecomputedKernel(K)), IndexRows(5)
    targets = np.array([[0.0], [3.0], [0.0], [0.0], [6.0]])
    with Workers(1) as workers:
        if form == "diagonal":
            objective = DiagonalPursuit(rows, kernel, capacity=5, workers=workers)
        else:
            sample = Sample(rows, targets, np.ones(5))
            objective = SpanPursuit(sample, kernel, 0.1, capacity=5, workers=workers)
        pursuit = Pursuit(objective, CostMeter(kernel), labels=np.arange(10, 15))
        with pytest.raises(NotPositiveDefiniteError, match=r"pivot -3 at index 1[14]") as caught:
            pursuit.run([MaxSize(5)])
    assert caught.value.index in (11, 14)
