"""The record of a pursuit."""

import dataclasses

import numpy as np
import pytest
from tasks import make_task

from pursuit.greedy import CostMeter, MaxSize, Path, Pursuit
from pursuit.linalg import Workers
from pursuit.objectives import SpanPursuit

ARRAYS = ("index", "value", "gap", "seconds", "entries", "passes")


@pytest.fixture
def path():
    task = make_task(np.random.default_rng(0), 20)
    kernel = task.kernel
    meter = CostMeter(kernel)
    with Workers(1) as workers:
        objective = SpanPursuit(task.sample, kernel, task.noise, capacity=5, workers=workers)
        return Pursuit(objective, meter).run([MaxSize(5)])


def test_fields(path):
    assert len(path) == 5
    assert all(len(getattr(path, name)) == 5 for name in ARRAYS)
    assert path.index.dtype == np.intp
    assert path.entries.dtype == np.int64
    assert path.stop_reason == "n_basis"
    assert np.all(np.diff(path.seconds) >= 0)
    # A diagonal, then all rows against those still free.
    assert path.entries.tolist() == np.cumsum([20 + 20 * 20, 380, 360, 340, 320]).tolist()
    with pytest.raises(dataclasses.FrozenInstanceError):
        path.stop_reason = "tol"


def test_truncated(path):
    short = path.truncated(2)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(short, name), getattr(path, name)[:2])
    assert short.stop_reason == "n_basis"
    assert len(path) == 5


def test_says_what_it_did():
    numbers = {name: np.array([3.0]) for name in ARRAYS}
    path = Path(**numbers, stop_reason="tol")
    assert str(path) == (
        "Path of 1 basis functions, stopped by tol: value 3 after 3 s, "
        "3 kernel entries and 3 passes over the rows"
    )
    empty = Path(**{name: np.array([]) for name in ARRAYS}, stop_reason="rank")
    assert str(empty) == "Path of 0 basis functions, stopped by rank"


def test_meter_counts_what_its_kernel_evaluates():
    task = make_task(np.random.default_rng(1), 6)
    kernel = task.kernel
    meter = CostMeter(kernel)
    kernel.tile(task.X, task.X[:2])
    assert meter.entries == 12
    assert meter.passes == 0
    before = meter.seconds
    assert 0 <= before <= meter.seconds


def test_extended_costs_nothing_more(path):
    longer = path.extended(np.array([7, -1]))
    assert longer.index.tolist() == [*path.index.tolist(), 7, -1]
    for name in ("seconds", "entries", "passes"):
        column = getattr(path, name)
        assert getattr(longer, name).tolist() == [*column.tolist(), column[-1], column[-1]]
        assert getattr(longer, name).dtype == column.dtype
    assert np.isnan(longer.value[-2:]).all()
    assert longer.stop_reason == path.stop_reason
    empty = path.truncated(0).extended(np.array([3]))
    assert empty.seconds.tolist() == [0.0]
    assert empty.entries.dtype == np.int64


def test_columns_that_not_every_fit_has():
    """Rounds of a linear programme, and iterations of a solver, are described and truncated."""
    numbers = {name: np.arange(3.0) for name in ARRAYS}
    rounds = Path(
        **numbers,
        stop_reason="tol",
        sizes=np.array([0, 4, 9]),
        lower=np.array([0.0, 0.5, 1.5]),
        iterations=np.array([0, 10, 12]),
    )
    assert str(rounds) == (
        "Path of 3 rounds, stopped by tol: value 2, at least 1.5, after 2 s, 2 kernel entries and "
        "2 passes over the rows; 9 kernel functions tried, 12 iterations"
    )
    unpassed = dataclasses.replace(rounds, passes=np.zeros(3))
    assert "after 2 s and 2 kernel entries;" in str(unpassed)
    short = rounds.truncated(2)
    assert short.sizes.tolist() == [0, 4]
    assert short.residual is None
    solved = Path(
        **numbers, stop_reason="direct", iterations=np.array([0, 0, 0]), residual=np.full(3, 1e-9)
    )
    assert str(solved).startswith("Path of 0 iterations, stopped by direct: value 2 after 2 s")
    assert str(solved).endswith("; relative residual 1e-09, relative gap 2")
