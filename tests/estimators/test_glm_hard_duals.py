"""Certificates where dual points are hard: slopes that exclude 0, and targets far from 0."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from pursuit import RowLoss, SparseKernelGLM
from pursuit.estimators.glm.certify import glm_certificate, seen_from_intercepts
from pursuit.estimators.glm.problem import GLMProblem
from pursuit.estimators.span.features import Span, SpanFeatures, StoredFunction, exact_certificate
from pursuit.gram.arithmetic import RowArithmetic
from pursuit.greedy import CostMeter, Pool, Problem
from pursuit.kernels import CountingKernel, compile_kernel
from pursuit.linalg import Workers
from pursuit.objectives import HuberRows
from pursuit.rounding import Rounded
from pursuit.rows import Sample, as_rows
from pursuit.testing import check_loss


class Tilted(RowLoss):
    """Huber's function of f, less 2yf: slopes are between -2y - 1 and -2y + 1."""

    most_curved = 1.0

    def value(self, f, y):
        size = np.abs(f)
        return np.where(size < 1, 0.5 * f * f, size - 0.5) - 2.0 * y * f

    def gradient(self, f, y):
        return np.clip(f, -1.0, 1.0) - 2.0 * y

    def curvature(self, f, y):
        return np.where(np.abs(f) < 1, 1.0, 0.0)

    def slopes(self, y):
        return -2.0 * y - 1.0, -2.0 * y + 1.0

    def conjugate(self, slope, y):
        inner = np.abs(slope + 2.0 * y) <= 1.0 + 1e-15
        return np.where(inner, 0.5 * np.square(slope + 2.0 * y), np.inf)


def test_the_loss_is_convex():
    check_loss(Tilted(), [-1.0, 1.0, 1.0, -1.0, -1.0, 1.0])


def stored(solution, span, sample, kernel):
    """The function as a model keeps it, and its dual point."""
    beta, items = span.coefficients(solution.coordinates), span.pool.items
    known = sample.rows, kernel, Workers(1)
    return StoredFunction.of(items, beta, solution.intercepts, *known), solution.dual


@pytest.mark.parametrize("seed", range(6))
def test_bounds_hold_though_zero_is_no_dual_point(seed):
    rng = np.random.default_rng(seed)
    m, workers, kernel = 20, Workers(1), RBF(1.0)
    X, y = rng.normal(size=(m, 2)), np.where(np.arange(m) % 2, 1.0, -1.0)
    problem = GLMProblem((Tilted(),), y[:, None], np.ones(m), np.zeros(m), 1.0)
    counted = CountingKernel(compile_kernel(kernel, n_features=2)[0])
    sample = Sample(as_rows(X), y[:, None], np.ones(m))

    def solve(rows):
        chooser = Problem(sample, counted, 1.0, workers, CostMeter(counted), rng)
        span = Span.of(Pool.of_rows(sample, rows), chooser)
        features = SpanFeatures(sample.rows, counted, span, workers, "auto")
        return stored(problem.solve(features, workers), span, sample, counted)

    # Any value of the objective is above the minimum; that of the full basis is next to it.
    everything, few = solve(np.arange(m)), solve(np.arange(6))
    least = float(problem.value(everything[0].fitted, everything[0].squared_norms).value[0])
    for dual in (few[1], everything[1], 3.0 * rng.normal(size=(m, 1))):
        for certify in (exact_certificate, glm_certificate):
            assert certify(problem, few[0], dual)[0].lower <= least + 1e-12 * abs(least)
    assert np.isfinite(glm_certificate(problem, *few)[0].lower)


@pytest.mark.parametrize("seed", range(10))
def test_bounds_hold_to_the_last_digit_for_targets_far_from_zero(seed):
    """y = 2²⁷ + noise: terms of the dual are 1e8 times their sum; the minimum is that of noise."""
    rng = np.random.default_rng(seed)
    m, workers = 12, Workers(1)
    X = rng.normal(size=(m, 1))
    y = np.round(np.sin(2.0 * X[:, 0]) + rng.normal(size=m), 3)
    far = y + 2.0**27
    near = far - 2.0**27  # exact: what is left of y
    counted = CountingKernel(compile_kernel(RBF(1.0), n_features=1)[0])
    lower = {}
    for name, targets in (("near", near), ("far", far)):
        problem = GLMProblem((HuberRows(1.0),), targets[:, None], np.ones(m), np.zeros(m), 300.0)
        sample = Sample(as_rows(X), targets[:, None], np.ones(m))
        chooser = Problem(sample, counted, 1.0, workers, CostMeter(counted), rng)
        span = Span.of(Pool.of_rows(sample, np.arange(m)), chooser)
        features = SpanFeatures(sample.rows, counted, span, workers, "auto")
        best, dual = stored(problem.solve(features, workers), span, sample, counted)
        found = glm_certificate(problem, best, dual)[0]
        lower[name] = found.lower
        if name == "near":
            least = float(problem.value(best.fitted, best.squared_norms).value[0])
    assert lower["far"] <= least
    # Slopes are at most 1, so that all terms together are at most m 2²⁷. Each is known to 8 units
    # of rounding, and their sum to m more.
    assert lower["far"] >= least - 12.0 * np.finfo(float).eps * m * 2.0**27


@pytest.mark.parametrize("loss", ["absolute", "quantile", "huber", "expectile"])
def test_targets_far_from_zero_cost_no_digits(loss):
    """Neither the minimum nor the allowance changes with the origin of the targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1))
    # Multiples of 2⁻³⁰ to which 2²⁰ is added without rounding.
    y = np.round(np.sin(3.0 * X[:, 0]) * 2.0**30 + rng.normal(size=60) * 2.0**28) * 2.0**-30
    near, far = (
        SparseKernelGLM(
            "rbf", gamma=2.0, loss=loss, quantile=0.3, alpha=0.1, n_basis=20, random_state=0
        )
        .fit(X, targets)
        .certificate_
        for targets in (y, y + 2.0**20)
    )
    assert far.rounding < 4.0 * near.rounding
    assert far.upper == pytest.approx(near.upper, rel=1e-5)
    assert far.lower == pytest.approx(near.lower, rel=1e-5)


def test_an_intercept_is_taken_from_targets_only_where_that_is_exact():
    targets = np.array([[1.0, 3.0], [1.5, 0.1]])
    problem = GLMProblem((HuberRows(1.0),) * 2, targets, np.ones(2), np.zeros(2), 1.0)
    known = RowArithmetic.of(
        as_rows(np.zeros((2, 1))), compile_kernel(RBF(1.0), n_features=1)[0], Workers(1)
    )
    zeros = Rounded.of(np.zeros((2, 2)))
    function = StoredFunction(zeros, np.array([1.25, 1e9]), Rounded.of(np.zeros(2)), known)
    moved, seen = seen_from_intercepts(problem, function)
    np.testing.assert_array_equal(moved.targets, [[-0.25, 3.0], [0.25, 0.1]])
    np.testing.assert_array_equal(seen.shifts, [0.0, 1e9])
    tilted = replace(problem, losses=(Tilted(),) * 2)
    assert seen_from_intercepts(tilted, function)[1].shifts[0] == 1.25
