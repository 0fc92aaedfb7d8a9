"""Our objectives keep the contract, and the check notices every way to break it."""

import numpy as np
import pytest
from tasks import make_task

from pursuit.gram import gram_statistics
from pursuit.greedy import kernel_matrix
from pursuit.linalg import Workers
from pursuit.objectives import SpanPursuit, dual_pursuit, gram_pursuit
from pursuit.testing import check_objective

DUPLICATES = 2, 9


@pytest.fixture(scope="module")
def workers():
    with Workers(2) as pool:
        yield pool


@pytest.fixture(scope="module", params=[1, 3], ids=["one output", "three outputs"])
def task(request):
    made = make_task(np.random.default_rng(0), 14, n_outputs=request.param, weighted=True)
    made.X[DUPLICATES[1]] = made.X[DUPLICATES[0]]
    return made


def test_gram_pursuit(task, workers):
    points = task.X
    statistics = gram_statistics(task.sample, task.kernel, points, workers=workers)

    def make():
        K = kernel_matrix(task.kernel, points, workers)
        return gram_pursuit(statistics, K, task.noise, capacity=5, workers=workers)

    check_objective(make, DUPLICATES, n_steps=6)


def test_span_pursuit(task, workers):
    check_objective(
        lambda: SpanPursuit(task.sample, task.kernel, task.noise, capacity=5, workers=workers),
        DUPLICATES,
        n_steps=6,
    )


def test_dual_pursuit_over_rows_of_any_weight(task, workers):
    """K + σ²W⁻¹ has no dependent rows, so only as much noise as rounding makes copies of them."""

    def make():
        return dual_pursuit(
            task.sample.rows,
            task.Y,
            np.full(14, 1e12),
            task.kernel,
            task.noise,
            capacity=5,
            workers=workers,
        )

    check_objective(make, DUPLICATES, n_steps=6)


class Squares:
    """Take number i off a sum of squares; 0 and 1 are the same. Right, and then made wrong."""

    size = np.array([2.0, 2.0, 3.0, 5.0])

    def __init__(self):
        self.available = np.ones(4, bool)
        self.value = 10.0

    def score(self, candidates):
        return self.size[candidates]

    def add(self, candidate):
        if not self.available[candidate]:
            return False
        self.available[candidate] = False
        if candidate < 2:
            self.available[:2] = False
        self.value -= self.size[candidate]
        return True


class NumbersForMask(Squares):
    def __init__(self):
        super().__init__()
        self.available = np.ones(4)


class OneScoreForAll(Squares):
    def score(self, candidates):
        return super().score(candidates).sum(keepdims=True)


class ScoresNothing(Squares):
    def score(self, candidates):
        return np.full(len(candidates), np.nan)


class ScoresInItsOwnOrder(Squares):
    def score(self, candidates):
        return super().score(np.sort(candidates))


class ScoresByCompany(Squares):
    def score(self, candidates):
        return super().score(candidates) / len(candidates)


class ScoreMovesTheValue(Squares):
    def score(self, candidates):
        self.value -= 1
        return super().score(candidates)


class ScoreWithdraws(Squares):
    def score(self, candidates):
        self.available[3] = False
        return super().score(candidates)


class ScoreIsNotTheDecrease(Squares):
    def score(self, candidates):
        return 2 * super().score(candidates)


class ScoreIsStale(Squares):
    def add(self, candidate):
        self.value += 0.1 * np.sum(~self.available)
        return super().add(candidate)


class RefusalMovesTheValue(Squares):
    def add(self, candidate):
        taken = super().add(candidate)
        self.value -= not taken
        return taken


class RefusesButTakes(Squares):
    def add(self, candidate):
        super().add(candidate)
        return candidate != 3


class TakenStaysAvailable(Squares):
    def add(self, candidate):
        taken = super().add(candidate)
        self.available[candidate] |= taken
        return taken


class TakesCopies(Squares):
    def add(self, candidate):
        super().add(candidate)
        return True


class RefusedStaysAvailable(Squares):
    def add(self, candidate):
        taken = super().add(candidate)
        self.available[candidate] |= not taken
        return taken


class DiffersFromCallToCall(Squares):
    made = 0

    def __init__(self):
        super().__init__()
        type(self).made += 1
        self.number = self.made

    def add(self, candidate):
        return super().add(candidate) and self.number < 6


def test_a_right_objective_passes():
    check_objective(Squares, (0, 1), n_steps=10)


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (NumbersForMask, r"available must be a 1-D mask, got float64 of shape \(4,\)"),
        (OneScoreForAll, "score must give one finite number per candidate"),
        (ScoresNothing, "score must give one finite number per candidate"),
        (ScoresInItsOwnOrder, "candidates score otherwise in another order"),
        (ScoresByCompany, "candidates score otherwise alone"),
        (ScoreMovesTheValue, "score changes the objective"),
        (ScoreWithdraws, "score changes the objective"),
        (ScoreIsNotTheDecrease, "candidate 0 lowers the value by 2, expected 4"),
        (ScoreIsStale, r"candidate 0 lowers the value by 1\.9, expected 2"),
        (RefusalMovesTheValue, "refusing candidate 1 changes the value"),
        (RefusesButTakes, "candidate 3 lowers the value by 5, expected 0"),
        (TakenStaysAvailable, "candidate 0 is still available"),
        (TakesCopies, "candidate 1 is taken though it is a copy of 0"),
        (RefusedStaysAvailable, "candidate 1 is refused, yet available"),
        (DiffersFromCallToCall, "a second objective refuses candidate 3"),
    ],
)
def test_a_wrong_objective_is_named(objective, message):
    with pytest.raises(AssertionError, match=message):
        check_objective(objective, (0, 1))
