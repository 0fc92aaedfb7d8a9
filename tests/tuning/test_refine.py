"""Moving the basis: the slope against differences of the objective formed densely."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import oracles
import pytest
from scipy import sparse
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
)

from pursuit.greedy import CostMeter, Problem
from pursuit.kernels import CountingKernel, compile_kernel, kernel_gradient
from pursuit.linalg import Workers
from pursuit.rows import Sample, as_rows
from pursuit.tuning import Mover, refine
from pursuit.tuning.refine import DAMPED, DOUBLE, SINGLE

SCALES = np.array([0.8, 1.5, 2.5])
KERNELS = {
    "rbf": ConstantKernel(1.4) * RBF(SCALES),
    "matern 5/2": ConstantKernel(1.4) * Matern(SCALES, nu=2.5),
    "matern 3/2": ConstantKernel(1.4) * Matern(SCALES, nu=1.5),
    "matern 1/2": ConstantKernel(1.4) * Matern(SCALES, nu=0.5),
    "rational quadratic": RationalQuadratic(1.2, alpha=0.9),
    "with inner product": ConstantKernel(1.4) * RBF(SCALES) + 0.3 * DotProduct(0.5),
    "times inner product": DotProduct(1.5) * RBF(SCALES),
    "polynomial": DotProduct(1.5) ** 2 + Matern(SCALES, nu=1.5),
}
each_kernel = pytest.mark.parametrize("name", KERNELS)


class Task:
    """Rows, points to move, and the objective of a batch."""

    def __init__(self, name, m=60, n=5, n_outputs=1, seed=0, offset=0.0, is_sparse=False):
        rng = np.random.default_rng(seed)
        self.kernel = KERNELS[name]
        self.X = rng.standard_normal((m, 3)) + offset
        self.Y = np.sin(self.X @ rng.standard_normal((3, n_outputs)))
        self.Y += 0.1 * rng.standard_normal(self.Y.shape)
        self.w = rng.uniform(0.3, 2.0, m)
        self.Z = rng.standard_normal((n, 3)) + offset
        self.noise = 0.4
        self.batch = np.sort(rng.choice(m, m // 2, replace=False))
        items = sparse.csr_array(self.X) if is_sparse else self.X
        self.sample = Sample(as_rows(items), self.Y, self.w)

    def mover(self, workers, rows=None, seed=0):
        kernel = CountingKernel(compile_kernel(self.kernel)[0])
        rng = np.random.default_rng(seed)
        problem = Problem(self.sample, kernel, self.noise, workers, CostMeter(kernel), rng)
        rows = np.arange(len(self.X)) if rows is None else rows
        return Mover(problem, kernel_gradient(self.kernel), SCALES, rows)

    def slope(self, way=DOUBLE, n_jobs=1):
        with Workers(n_jobs) as workers:
            return self.mover(workers).slope(self.Z, self.sample.take(self.batch), way)

    def objective(self, Z):
        """P on the batch, its ridge in proportion to the batch."""
        rows = self.batch
        ridge = self.noise * len(rows) / len(self.X)
        given = (self.kernel(self.X[rows], Z), self.kernel(Z))
        beta = oracles.span_fit(*given, self.Y[rows], self.w[rows], ridge)
        return float(oracles.primal(*given, beta, self.Y[rows], self.w[rows], ridge).sum())

    def differences(self, step=1e-5):
        slopes = np.empty_like(self.Z)
        for entry in np.ndindex(self.Z.shape):
            move = np.zeros_like(self.Z)
            move[entry] = step
            slopes[entry] = self.objective(self.Z + move) - self.objective(self.Z - move)
        return slopes / (2 * step)


def assert_close(found, expected, tolerance):
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=tolerance * scale)


@each_kernel
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_slope(name, n_outputs):
    task = Task(name, n_outputs=n_outputs)
    assert_close(task.slope(), task.differences(), 1e-6)


@pytest.mark.parametrize("name", ["rbf", "matern 1/2", "with inner product"])
def test_slope_where_points_are_rows(name):
    task = Task(name)
    task.Z = task.X[task.batch[:5]].copy()
    assert_close(task.slope(), task.differences(), 1e-5)


@pytest.mark.parametrize(
    "name", [name for name in KERNELS if "DotProduct" not in repr(KERNELS[name])]
)
@pytest.mark.parametrize("at_rows", [False, True])
def test_float32_slope(name, at_rows):
    task = Task(name, m=200, n=12)
    if at_rows:
        task.Z = task.X[task.batch[:12]].copy()
    assert_close(task.slope(SINGLE), task.slope(), 1e-3)


@pytest.mark.parametrize("stretch", [0.7, 1.0, 1.2, 1.5, 2.0])
def test_float32_says_where_it_would_be_wrong(stretch):
    """Longer scales: a factor of H may exist in float32 and be worth nothing."""
    task = Task("rbf", m=2000, n=20)
    task.kernel = ConstantKernel(1.4) * RBF(stretch * SCALES)
    task.noise = 0.01
    task.Z = task.X[task.batch[:20]].copy()
    found, expected = task.slope(SINGLE), task.slope()
    if found is None:
        assert stretch > 1, "these scales need no float64"
    else:
        cosine = np.vdot(found, expected) / np.linalg.norm(found) / np.linalg.norm(expected)
        assert cosine > 0.99


@pytest.mark.parametrize("name", ["rbf", "matern 1/2"])
def test_offsets_cost_no_digits(name):
    """Raw features of 10⁴ would leave float32 two digits of a difference."""
    task = Task(name, offset=1e4)
    assert_close(task.slope(SINGLE), task.slope(), 1e-2)
    assert_close(task.slope(), task.differences(), 1e-4)


def test_csr_rows():
    dense, packed = Task("rbf"), Task("rbf", is_sparse=True)
    np.testing.assert_allclose(packed.slope(), dense.slope(), rtol=1e-10)


@pytest.mark.parametrize("way", [SINGLE, DAMPED, DOUBLE])
def test_threads_change_no_bit(way):
    task = Task("matern 3/2", m=3000, n=20)
    one = task.slope(way, n_jobs=1)
    for n_jobs in (2, 3):
        np.testing.assert_array_equal(task.slope(way, n_jobs), one)


@pytest.mark.parametrize("least", [1e-7, 1e-8])
def test_small_pivots_are_restored(least, monkeypatch):
    """A damped factor in float32 and few products come near the minimum of ½v'Hv - b'v."""
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    H = (U * np.geomspace(least, 1.0, 40)) @ U.T
    b = H @ rng.standard_normal((40, 2))

    def value(v):
        return 0.5 * np.vdot(v, H @ v) - np.vdot(b, v)

    def gap(way):
        with Workers(1) as workers:
            v = way.solve(H.astype(way.factor), b, lambda v: H @ v, workers)
        return None if v is None else (value(v) - least_value) / abs(least_value)

    least_value = value(np.linalg.solve(H, b))
    assert gap(SINGLE) is None, "float32 sums do not resolve its pivots"
    assert abs(gap(DOUBLE)) < 1e-9
    restored = gap(DAMPED)
    assert 0.0 <= restored < 1e-6
    monkeypatch.setattr(refine, "_RESTORING", (0, len(H) + 1))
    assert gap(DAMPED) > 10.0 * restored


def moved(task, steps, seed=0, rows=None, n_jobs=1):
    with Workers(n_jobs) as workers:
        return task.mover(workers, rows, seed).move(task.Z, steps)[0]


def on_all_rows(task):
    task.batch = np.arange(len(task.X))
    return task.objective


@each_kernel
def test_moving_lowers_the_objective(name):
    task = Task(name, m=150, n=6)
    before = task.Z.copy()
    objective = on_all_rows(task)
    after = moved(task, 30)
    np.testing.assert_array_equal(task.Z, before, "the points passed are left alone")
    assert objective(after) < 0.95 * objective(before)


def test_steps_are_measured_in_length_scales():
    task = Task("rbf", m=150)
    jump = np.abs(moved(task, 1) - task.Z) / SCALES
    np.testing.assert_allclose(jump, 0.1, rtol=1e-6)
    np.testing.assert_array_equal(moved(task, 0), task.Z)


def test_units_of_the_features_do_not_matter(monkeypatch):
    plain, stretched = Task("rbf", m=150), Task("rbf", m=150)
    units = np.array([2.0**-20, 1.0, 2.0**20])
    stretched.X *= units
    stretched.Z = stretched.Z * units
    stretched.sample = Sample(as_rows(stretched.X), stretched.Y, stretched.w)
    stretched.kernel = ConstantKernel(1.4) * RBF(SCALES * units)
    with Workers(1) as workers:
        mover = stretched.mover(workers)
        mover = Mover(mover.problem, mover.gradient, SCALES * units, mover.rows)
        found = mover.move(stretched.Z, 20)[0]
    np.testing.assert_allclose(found / units, moved(plain, 20), rtol=1e-4, atol=1e-5)


def test_only_the_rows_allowed_are_drawn(monkeypatch):
    monkeypatch.setattr(refine, "BATCH_ROWS", 16)
    task = Task("rbf", m=150)
    allowed = np.arange(0, 150, 3)
    before = moved(task, 5, rows=allowed)
    task.sample.targets[np.setdiff1d(np.arange(150), allowed)] = 1e6
    np.testing.assert_array_equal(moved(task, 5, rows=allowed), before)


def test_batches_are_seeded(monkeypatch):
    monkeypatch.setattr(refine, "BATCH_ROWS", 16)
    move = partial(moved, Task("rbf", m=150), 5)
    np.testing.assert_array_equal(move(seed=1), move(seed=1))
    assert not np.array_equal(move(seed=1), move(seed=2))
    np.testing.assert_array_equal(move(seed=1), move(seed=1, n_jobs=2))


@pytest.mark.parametrize(
    ("seconds", "reserve", "steps"), [(5.5, 0, 5), (5.5, 2, 3), (0.5, 0, 2), (np.inf, 9, 8)]
)
def test_as_many_steps_as_there_is_time_for(monkeypatch, seconds, reserve, steps):
    """With a second a step."""
    task, now = Task("rbf", m=150), 0.0
    slope, objective = Mover.slope, on_all_rows(task)

    def slow(self, *arguments):
        nonlocal now
        now += 1.0
        return slope(self, *arguments)

    monkeypatch.setattr(Mover, "slope", slow)
    monkeypatch.setattr(refine, "time", SimpleNamespace(perf_counter=lambda: now))
    with Workers(1) as workers:
        found, taken, cut = task.mover(workers).move(task.Z, 8, seconds, reserve)
    assert taken == now == steps
    assert cut == (steps < 8)
    assert objective(found) < objective(task.Z)
    if steps == 8:
        np.testing.assert_array_equal(found, moved(task, steps))


@pytest.mark.parametrize(("steps", "trial"), [(30, 20), (150, 30), (20, None), (7, None)])
def test_moves_that_promise_nothing_end(steps, trial):
    task, seen = Task("rbf", m=40, n=3), []
    with Workers(1) as workers:

        def move(answer):
            return task.mover(workers).move(
                task.Z, steps, promising=lambda Z: seen.append(Z.copy()) or answer
            )

        found, taken, cut = move(False)
        assert taken == (trial or steps)
        assert not cut
        assert len(seen) == (trial is not None)
        if trial is not None:
            np.testing.assert_array_equal(seen[0], found)
        whole = task.mover(workers).move(task.Z, steps)[0]
        np.testing.assert_array_equal(move(True)[0], whole)


def test_points_that_have_run_into_each_other():
    task = Task("rbf", m=150)
    task.Z[1] = task.Z[0]
    task.noise = 1e-9
    found = moved(task, 10)
    assert np.all(np.isfinite(found))


def test_where_float32_does_not_suffice_another_way_goes_on(monkeypatch):
    task, ways = Task("rbf", m=150), []
    slope = Mover.slope

    def fussy(self, Z, batch, way=DOUBLE):
        ways.append(way)
        fails = (way is SINGLE and len(ways) > 2) or (way is DAMPED and len(ways) > 5)
        return None if fails else slope(self, Z, batch, way)

    monkeypatch.setattr(refine, "_SINGLE_FROM", 1)
    monkeypatch.setattr(Mover, "slope", fussy)
    moved(task, 6)
    assert ways == [SINGLE] * 3 + [DAMPED] * 3 + [DOUBLE] * 2


def test_smooth_kernels_with_close_points_are_too_much_for_float32_alone():
    """Long scales: H is singular to float32, and the slope says so instead of being wrong."""
    task = Task("rbf", m=200, n=20)
    task.kernel = RBF(np.full(3, 20.0))
    task.noise = 1e-6
    assert task.slope(SINGLE) is None
    assert np.all(np.isfinite(task.slope(DAMPED)))
    assert np.all(np.isfinite(task.slope()))


def test_targets_that_are_zero_move_nothing():
    task = Task("rbf")
    task.sample.targets[:] = 0.0
    np.testing.assert_array_equal(moved(task, 5), task.Z)
