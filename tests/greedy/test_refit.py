"""The final fit: order, values, truncations and digits."""

import itertools

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF
from tasks import make_task, tasks

from pursuit.gram import gram_statistics
from pursuit.greedy import (
    Choice,
    CostMeter,
    MaxSize,
    Path,
    Pool,
    PooledSearch,
    Problem,
    refit,
    solve_in_span,
    span_fit,
)
from pursuit.kernels import CountingKernel, PrecomputedKernel, compile_kernel
from pursuit.linalg import NotPositiveDefiniteError, PredictiveVariance, SpanSolution, Workers
from pursuit.rows import BLOCK_ROWS, IndexRows, Sample, as_rows


@pytest.fixture(scope="module")
def workers():
    with Workers(1) as pool:
        yield pool


@pytest.fixture
def task():
    return make_task(np.random.default_rng(0), 40, n_outputs=2, weighted=True, parameter=0.6)


def chosen(problem, index, stop_reason="n_basis"):
    """A choice of these rows by somebody who has not seen all rows."""
    n = len(index)
    arrays = {
        name: np.zeros(n) for name in ("index", "value", "gap", "seconds", "entries", "passes")
    }
    pool = Pool.of_rows(problem.sample, np.array(index, dtype=np.intp))
    return Choice(pool, Path(**arrays, stop_reason=stop_reason), None)


def fitted_values(K, fit):
    return K[:, fit.pool.index] @ fit.solution.coefficients()


def test_the_order_is_that_of_a_greedy_choice_on_all_rows(task, workers):
    index = [31, 4, 17, 8, 25, 12, 39]
    problem = task.problem(workers)
    fit = refit(chosen(problem, index), problem)
    order, values = oracles.greedy(task.K, task.Y, task.w, task.noise, 7, [index] * 7)
    assert fit.pool.index.tolist() == fit.path.index.tolist() == order
    np.testing.assert_array_equal(fit.pool.items, task.X[order])
    np.testing.assert_allclose(fit.path.value, values, rtol=1e-9)
    assert fit.path.stop_reason == "n_basis"
    assert fit.trace == pytest.approx(task.w @ np.diag(task.K))
    assert problem.meter.passes == 1


def test_the_first_n_are_the_model_of_size_n(task, workers):
    problem = task.problem(workers)
    fit = refit(chosen(problem, range(0, 40, 4)), problem)
    for n in (1, 4, 10):
        small = fit.truncated(n, "tol")
        S = small.pool.index.tolist()
        assert fit.pool.index[:n].tolist() == S
        beta = oracles.span_fit(task.K[:, S], task.K[np.ix_(S, S)], task.Y, task.w, task.noise)
        np.testing.assert_allclose(fitted_values(task.K, small), task.K[:, S] @ beta, atol=1e-8)
        assert len(small.path) == small.solution.size == n
        assert small.path.stop_reason == "tol"
        assert small.trace == fit.trace


@given(tasks(kernels=("gaussian", "exponential", "inner product")), st.data())
def test_values_and_predictions_against_least_squares(task, data):
    m = len(task.X)
    index = data.draw(st.lists(st.integers(0, m - 1), min_size=1, max_size=m))
    with Workers(1) as workers:
        problem = task.problem(workers)
        fit = refit(chosen(problem, index), problem)
    K, S = task.K, fit.pool.index.tolist()
    start = oracles.span_value(K, [], task.Y, task.w, task.noise)
    assert set(S) <= set(index)
    for n in range(1, len(S) + 1):
        expected = oracles.span_value(K, S[:n], task.Y, task.w, task.noise)
        # Statistics that have lost fewer digits than the ridge has are used as they are.
        digits = max(1e-8, oracles.digits_lost(fit.truncated(n, "tol").solution))
        assert fit.path.value[n - 1] == pytest.approx(expected, abs=digits * start)
    left = np.setdiff1d(index, S)
    V = np.linalg.solve(np.linalg.cholesky(K[np.ix_(S, S)]), K[np.ix_(S, left)])
    missed = np.diag(K)[left] - (V**2).sum(axis=0)
    assert np.all(missed <= 1.1e-8 * np.diag(K)[left]), "what was left out was dependent"
    assert np.all(np.diff(fit.path.value) <= 0)


def test_statistics_of_the_search_are_used_again(task, workers):
    problem = task.problem(workers)
    pool = Pool.of_rows(problem.sample, np.arange(40))
    choice = PooledSearch(problem, pool).run(9, [MaxSize(9)])
    entries = problem.meter.entries
    fit = refit(choice, problem)
    assert problem.meter.passes == 1
    assert problem.meter.entries - entries == 9 * 9
    assert fit.pool.index.tolist() == choice.pool.index.tolist()
    np.testing.assert_allclose(fit.path.value, choice.path.value, rtol=1e-9)
    assert fit.path.stop_reason == choice.path.stop_reason


def test_copies_are_left_out_and_named_as_lack_of_rank(task, workers):
    task.X[7] = task.X[3]
    problem = task.problem(workers)
    fit = refit(chosen(problem, [3, 7, 20, 7]), problem)
    assert sorted(fit.pool.index.tolist()) == [3, 20]
    assert fit.path.stop_reason == "rank"


def test_progress_is_told(task, workers):
    problem = task.problem(workers)
    seen = []
    refit(chosen(problem, [1, 2]), problem, after_block=seen.append)
    assert seen == [40]


def test_float32_tiles_keep_four_digits(task, workers):
    problem = task.problem(workers)
    fit = refit(chosen(problem, range(0, 40, 4)), problem, dtype=np.float32)
    S = fit.pool.index.tolist()
    beta = oracles.span_fit(task.K[:, S], task.K[np.ix_(S, S)], task.Y, task.w, task.noise)
    np.testing.assert_allclose(fitted_values(task.K, fit), task.K[:, S] @ beta, atol=1e-4)
    assert len(S) == 10


def test_solving_in_a_given_span_keeps_its_order(task, workers):
    task.X[7] = task.X[3]
    points, solution = solve_in_span(task.problem(workers), task.X[[9, 3, 7, 1]])
    np.testing.assert_array_equal(points, task.X[[9, 3, 1]])
    S = [9, 3, 1]
    beta = oracles.span_fit(task.K[:, S], task.K[np.ix_(S, S)], task.Y, task.w, task.noise)
    np.testing.assert_allclose(solution.coefficients(), beta, rtol=1e-7)


def test_an_indefinite_kernel_is_refused_by_row_number(workers):
    K = np.eye(12)
    K[10, 4] = K[4, 10] = 1.5
    kernel = CountingKernel(PrecomputedKernel(K))
    sample = Sample(IndexRows(12), np.ones((12, 1)), np.ones(12))
    base = make_task(np.random.default_rng(0), 3).problem(workers)
    problem = type(base)(sample, kernel, 0.1, workers, base.meter, base.rng)
    with pytest.raises(NotPositiveDefiniteError) as caught:
        refit(chosen(problem, [2, 4, 6, 10]), problem)
    assert caught.value.index in (4, 10)


# Digits


def smooth(seed=0, n_features=2, m=150, length_scale=50.0, noise=1e-6):
    return make_task(
        np.random.default_rng(seed),
        m,
        n_features=n_features,
        parameter=length_scale,
        noise=noise,
        weighted=True,
    )


@pytest.mark.parametrize(("n_features", "length_scale"), [(2, 50.0), (5, 50.0), (2, 5.0), (3, 3.0)])
def test_ill_conditioned_fits_keep_their_digits(workers, n_features, length_scale):
    """Where K_S'WK_S would lose the ridge to rounding, a whitened pass gives the answer."""
    task = smooth(n_features=n_features, length_scale=length_scale)
    problem = task.problem(workers)
    # One row is no candidate: where all rows are, none of the passes is needed.
    pool = Pool.of_rows(problem.sample, np.arange(149))
    choice = PooledSearch(problem, pool).run(150, [MaxSize(150)])
    assert choice.statistics is None, "the Gram form has no digits left for these points"
    before = problem.meter.passes
    fit = refit(choice, problem)
    assert problem.meter.passes == before + 1, "whitened at once"
    S = fit.pool.index.tolist()
    K = task.K
    exact = oracles.long_span_fit(K[:, S], K[np.ix_(S, S)], task.Y, task.w, task.noise)
    scale = np.abs(task.Y).max()
    error = np.abs(fitted_values(K, fit) - exact).max()
    assert error < 1e-7 * scale

    plain = gram_statistics(task.sample, task.kernel, task.X[S], workers=workers)
    try:
        R = np.linalg.cholesky(K[np.ix_(S, S)])
        solution = SpanSolution.from_gram(R, plain.gram, plain.cross, task.noise)
        plain_error = np.abs(K[:, S] @ solution.coefficients() - exact).max()
    except ArithmeticError:
        plain_error = np.inf
    assert plain_error > 100 * error, "otherwise the whitened pass is wasted"
    n = len(S) // 2
    first = oracles.long_span_fit(K[:, S[:n]], K[np.ix_(S[:n], S[:n])], task.Y, task.w, task.noise)
    half = fitted_values(K, fit.truncated(n, "n_basis"))
    assert np.abs(half - first).max() < 1e-7 * scale


@pytest.mark.parametrize(
    ("patient", "first", "second"), [(1, 2, 2), (2, 3, 3), (4, 3, 1), (5, 3, 2), (9, 3, 3)]
)
def test_a_second_pass_may_read_what_the_first_did(workers, monkeypatch, patient, first, second):
    """``enough`` is asked after three blocks, before the second pass, and after its blocks."""
    monkeypatch.setattr(span_fit, "_MARGIN", 0.0)  # as if sums over rows were expected to be 0
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (2 * BLOCK_ROWS + 100, 1))
    y, w = np.sin(X) + 0.1 * rng.normal(size=X.shape), rng.uniform(0.5, 2.0, len(X))
    kernel = CountingKernel(compile_kernel(RBF(2.0))[0])
    problem = Problem(Sample(as_rows(X), y, w), kernel, 1e-3, workers, CostMeter(kernel), rng)
    asked = itertools.count()
    fit = refit(chosen(problem, range(6)), problem, enough=lambda: next(asked) >= patient)
    read = [min(blocks * BLOCK_ROWS, len(X)) for blocks in (first, second)]
    assert problem.meter.passes == pytest.approx(sum(read) / len(X))
    whole = read[1] == len(X)
    assert fit.n_rows == (None if whole else read[1])
    assert fit.path.stop_reason == ("n_basis" if whole else "interrupted")
    here, R = slice(read[1]), fit.solution.R
    K = RBF(2.0)(X[here], fit.pool.items)
    V = np.linalg.solve(R, K.T).T
    H = V.T @ (w[here, None] * V) + 1e-3 * np.eye(len(R))
    best = V @ np.linalg.solve(H, V.T @ (w[here, None] * y[here]))
    np.testing.assert_allclose(V @ (R.T @ fit.solution.coefficients()), best, atol=1e-7)


@pytest.mark.parametrize("noise", [1e-6, 1e-2, 1.0])
def test_rounding_never_breaks_a_fit(workers, noise):
    for seed in range(10):
        task = smooth(seed, n_features=1, m=100, length_scale=1.0, noise=noise)
        problem = task.problem(workers)
        index = np.random.default_rng(seed).choice(100, 30, replace=False)
        fit = refit(chosen(problem, index), problem)
        K, S = problem.kernel.tile(task.X, task.X), fit.pool.index
        beta, R = fit.solution.coefficients(), fit.solution.R
        np.testing.assert_allclose(R @ R.T, K[np.ix_(S, S)], atol=1e-13)
        # ‖R'β‖² and not β'Kβ, which loses all its digits to coefficients of 1e9.
        found = 0.5 * task.w @ (task.Y - K[:, S] @ beta) ** 2 + 0.5 * noise * np.sum(
            (R.T @ beta) ** 2
        )
        assert fit.path.value[-1] == pytest.approx(found.sum(), rel=1e-4)


@pytest.mark.parametrize(
    ("m", "length_scale", "noise", "seed"),
    [(100, 0.5, 1.0, 26), (100, 1.0, 0.1, 24), (150, 1.0, 10.0, 6), (100, 1.0, 100.0, 9)],
)
def test_a_basis_at_the_edge_of_its_rank_can_be_fitted(workers, m, length_scale, noise, seed):
    """The last functions the search takes are independent by little more than rounding."""
    task = make_task(
        np.random.default_rng(seed), m, n_features=1, parameter=length_scale, noise=noise
    )
    problem = task.problem(workers)
    pool = Pool.of_rows(problem.sample, np.arange(m))
    fit = refit(PooledSearch(problem, pool).run(100, [MaxSize(100)]), problem)
    K, S = task.K, fit.pool.index.tolist()
    low, high = oracles.span_value_range(K, S, task.Y, task.w, noise)
    assert (1 - 1e-4) * low <= fit.path.value[-1] <= (1 + 1e-4) * high


@pytest.mark.parametrize("reorder", [True, False])
def test_coefficients_of_float32_tiles_are_refined(workers, reorder):
    """Predictions are those of float64; what rests on the sums has errors below 1e-6."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (400, 2))
    Y = 100.0 * np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 1])])
    Y += rng.standard_normal(Y.shape)
    kernel = CountingKernel(compile_kernel(RBF(0.5))[0])
    w = rng.uniform(0.5, 2.0, 400)
    problem = Problem(Sample(as_rows(X), Y, w), kernel, 2e3, workers, CostMeter(kernel), rng)
    choice = chosen(problem, range(12))
    before = problem.meter.passes
    fit = refit(choice, problem, dtype=np.float32, reorder=reorder)
    passes = problem.meter.passes - before
    assert 2 <= passes <= 4, "one of sums, and some of residuals"
    assert not fit.exact
    double = refit(choice, problem, reorder=reorder)
    assert fit.pool.index.tolist() == double.pool.index.tolist()
    assert np.abs(fit.solution.L - double.solution.L).max() > 1e-12 * double.solution.L.max()
    tile = kernel.tile(X, fit.pool.items)
    expected = tile @ double.solution.coefficients()
    scale = np.abs(expected).max()
    found = tile @ fit.solution.coefficients()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * scale)
    few = [tile[:, :5] @ f.solution.truncated(5).coefficients() for f in (fit, double)]
    np.testing.assert_allclose(*few, rtol=0, atol=1e-6 * scale)
    bars = [
        PredictiveVariance(2e3).variance(f.solution, tile, np.ones(len(X))) for f in (fit, double)
    ]
    np.testing.assert_allclose(*bars, rtol=1e-6)


@pytest.mark.parametrize(("spread", "noise"), [(2.0, 0.01), (8.0, 20.0)])
def test_float32_tiles_are_refused_where_they_would_cost_digits(workers, spread, noise):
    """Decided before the pass, of which there is one: the fit is that of float64, bit by bit.

    Digits are lost to sums that the ridge is small beside, or to distances of far points.
    """
    rng = np.random.default_rng(1)
    X = rng.uniform(-spread, spread, (400, 2))
    kernel = CountingKernel(compile_kernel(RBF(0.5))[0])
    sample = Sample(as_rows(X), rng.standard_normal((400, 1)), np.ones(400))
    problem = Problem(sample, kernel, noise, workers, CostMeter(kernel), rng)
    choice = chosen(problem, range(12))
    fit = refit(choice, problem, dtype=np.float32)
    assert problem.meter.passes == 1
    assert fit.exact
    double = refit(choice, problem)
    np.testing.assert_array_equal(fit.solution.L, double.solution.L)
    np.testing.assert_array_equal(fit.solution.z, double.solution.z)


@pytest.mark.parametrize("length_scale", [1.0, 5.0, 50.0])
def test_float32_tiles_never_break_a_fit(workers, length_scale):
    """float32 must not decide what is dependent; it may only cost digits."""
    for seed in range(4):
        task = smooth(seed, length_scale=length_scale, m=100, noise=1e-2)
        problem = task.problem(workers)
        pool = Pool.of_rows(problem.sample, np.arange(60))
        choice = PooledSearch(problem, pool, sketch_rows=60).run(40, [MaxSize(40)])
        fit = refit(choice, problem, dtype=np.float32)
        exact = refit(choice, problem)
        start = oracles.span_value(np.eye(100), [], task.Y, task.w, task.noise)
        assert fit.path.value[-1] == pytest.approx(exact.path.value[-1], abs=1e-3 * start)
