"""Passes over rows in parts are passes over the rows, and count what they cost."""

import pickle
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tasks import make_task
from threadpoolctl import ThreadpoolController

from pursuit.gram import (
    SpannedView,
    StreamedProducts,
    cross_statistics,
    gram_statistics,
    kernel_diagonal,
    kernel_features,
    kernel_product,
    kernel_times,
    kernel_transpose_times,
    paired_moments,
    residual_squares,
    sum_along_path,
)
from pursuit.greedy import block_pivots
from pursuit.kernels import CountingKernel
from pursuit.kernels.stationary import StationaryColumns
from pursuit.linalg import Workers
from pursuit.rows import BLOCK_ROWS, ArrayRows, DistributedRows, Sample


class Parts(ArrayRows):
    """Rows cut at given places, each part sent away and back by pickle as to another process."""

    def __init__(self, X, cuts, level=0):
        super().__init__(X)
        self.level = level
        self.spans = [slice(*pair) for pair in pairwise(cuts)]

    def map(self, task, *aligned):
        away = pickle.loads(pickle.dumps(task))
        return [
            away(self._cut(self, span), *(self._cut(other, span) for other in aligned))
            for span in self.spans
        ]

    def sums(self, task, *aligned, start=0):
        assert start == 0
        return ([(self.level, value)] for value in self.map(task, *aligned))

    def restrict(self, index):
        raise NotImplementedError

    @staticmethod
    def _cut(other, span):
        whole = other._X if isinstance(other, ArrayRows) else other
        return ArrayRows(whole[span]) if isinstance(other, ArrayRows) else whole[span].copy()


M = 40
CUTS = st.lists(st.integers(1, M - 1), max_size=5).map(lambda c: sorted({0, M, *c}))


@pytest.fixture(scope="module")
def task():
    return make_task(np.random.default_rng(0), M, n_outputs=2, weighted=True)


def passes(task, rows, kernel, workers):
    """What every pass gives, by name."""
    yield "product", kernel_product(rows, kernel, task.Y, workers)
    yield from sums(task, rows, kernel, workers)


def sums(task, rows, kernel, workers):
    """What every pass gives that adds up blocks of rows or says something of each row."""
    X, sample = task.X, Sample(rows, task.Y, task.w)
    points, queries = X[:6], X[10:14]
    rng = np.random.default_rng(1)
    whitener, beta = np.tril(rng.normal(size=(6, 6))), rng.normal(size=(6, 4))
    out = np.empty((len(X), 6), dtype=np.float32)
    plain = gram_statistics(sample, kernel, points, workers=workers)
    white = gram_statistics(sample, kernel, points, workers=workers, whitener=whitener)
    yield "gram", plain.gram
    yield "cross", plain.cross
    yield "sums", np.append(plain.target_norms, [plain.trace, plain.weight, plain.n_rows])
    yield "whitened", white.gram
    yield "times", kernel_times(rows, kernel, points, beta, workers)
    yield "diagonal", kernel_diagonal(rows, kernel)
    yield "features", kernel_features(rows, kernel, points, workers, whitener=whitener)
    yield "scaled", kernel_features(rows, kernel, points, workers, scale=task.w, out=out)
    yield "transposed", kernel_transpose_times(rows, kernel, points, task.Y, workers)
    yield "statistics", cross_statistics(sample, kernel, points, queries, workers)
    yield "squares", residual_squares(sample, kernel, points, beta, queries, workers)
    path = beta.reshape(6, 2, 2)
    yield (
        "path",
        sum_along_path(
            rows, kernel, points, path, np.ones((2, 2)), total, (task.Y, task.w), workers
        ),
    )
    view = SpannedView(rows, kernel, points, whitener)
    other = SpannedView(ArrayRows(-X), kernel, queries, np.eye(4))
    yield "views", paired_moments([view, other], task.w, workers)
    products = StreamedProducts(Sample(rows, task.Y[:, :1], task.w), kernel, workers)
    products.products(np.arange(3))
    products.advance(2, 0.5, 0.9)
    found = products.products(np.arange(4))
    yield "streamed", np.hstack([found.cross, found.targets, found.squares[:, None], found.fitted])


def total(F, Y, w):
    return np.einsum("iso,io,i->s", F, Y, w)[None]


@given(CUTS)
def test_every_pass_over_parts_is_the_pass_over_the_rows(task, cuts):
    parts = Parts(task.X, cuts)
    assert isinstance(parts, DistributedRows)
    with Workers(1) as workers:
        there = dict(passes(task, parts, task.kernel, workers))
        here = dict(passes(task, ArrayRows(task.X), task.kernel, workers))
    for name, expected in here.items():
        scale = np.abs(expected).max()
        np.testing.assert_allclose(there[name], expected, rtol=0, atol=1e-12 * scale, err_msg=name)


@pytest.mark.parametrize("level", [0, 1])
def test_parts_of_whole_blocks_do_not_change_a_bit(level):
    m = 9 * BLOCK_ROWS + 77
    task = make_task(np.random.default_rng(2), m, n_outputs=2, weighted=True)
    cuts = [*range(0, m, BLOCK_ROWS * 8**level), m]
    with Workers(1) as workers:
        there = dict(sums(task, Parts(task.X, cuts, level), task.kernel, workers))
        here = dict(sums(task, ArrayRows(task.X), task.kernel, workers))
    for name, expected in here.items():
        np.testing.assert_array_equal(there[name], expected, err_msg=name)


def test_entries_that_were_evaluated_elsewhere_are_counted(task):
    kernels = [CountingKernel(task.kernel.kernel) for _ in range(2)]
    for kernel, rows in zip(kernels, (ArrayRows(task.X), Parts(task.X, [0, 7, M])), strict=True):
        with Workers(1) as workers:
            gram_statistics(Sample(rows, task.Y, task.w), kernel, task.X[:6], workers=workers)
            kernel_times(rows, kernel, task.X[:3], np.ones((3, 1)), workers)
    assert kernels[0].entries == kernels[1].entries == M * 6 + M + M * 3


@pytest.mark.parametrize("cuts", [[0, M], [0, 1, 30, M]])
def test_landmarks_are_the_same_and_their_features_are_not_held(task, cuts):
    found = []
    for rows in (ArrayRows(task.X), Parts(task.X, cuts)):
        sample = Sample(rows, np.empty((M, 0)), task.w)
        with Workers(1) as workers:
            rng = np.random.default_rng(3)
            found.append(block_pivots(sample, task.kernel, 12, workers=workers, rng=rng))
    here, there = found
    np.testing.assert_array_equal(there.pool.index, here.pool.index)
    np.testing.assert_allclose(there.diagonal, here.diagonal, atol=1e-12)
    np.testing.assert_allclose(there.factor, here.factor, atol=1e-12)
    assert here.features is not None
    assert there.features is None


def test_a_pass_tells_its_ledger_and_its_progress_part_by_part(task):
    seen = []

    class PassCheckpoint:
        def resume(self):
            return []

        def record(self, sums):
            seen.append(sum(part.n_rows for part in sums))

    sample = Sample(Parts(task.X, [0, 9, M]), task.Y, task.w)
    with Workers(1) as workers:
        gram_statistics(
            sample,
            task.kernel,
            task.X[:2],
            workers=workers,
            ledger=PassCheckpoint(),
            after_block=lambda done: seen.append(-done),
        )
    assert seen == [9, -9, -M, M]


def blas_threads():
    return {lib["num_threads"] for lib in ThreadpoolController().select(user_api="blas").info()}


def test_blas_has_one_thread_in_every_block_and_is_released_between_them():
    """So no bit of a pass depends on the number of threads, whatever the workers hold."""
    task = make_task(np.random.default_rng(2), 2 * BLOCK_ROWS + 77, n_outputs=2, weighted=True)
    kernel, names, results = CountingKernel(task.kernel), [], []
    between = []
    for threads in (1, 2):
        limit = ThreadpoolController().select(user_api="blas").limit(limits=threads)
        with limit, Workers(2, hold_blas=False) as workers:
            gram_statistics(
                task.sample,
                kernel,
                task.X[:9],
                workers=workers,
                after_block=lambda rows: between.append(blas_threads()),
            )
            named = dict(sums(task, task.sample.rows, kernel, workers))
        names.append(list(named))
        results.append(list(named.values()))
    # Of Apple's Accelerate nobody knows the number of threads.
    assert between == ([{1}] * 3 + [{2}] * 3 if blas_threads() else [set()] * 6)
    assert names[0] == names[1]
    for name, one, two in zip(names[0], *results, strict=True):
        np.testing.assert_array_equal(one, two, err_msg=name)


def test_few_calls_from_the_statistics_to_the_kernel(task, monkeypatch):
    """From `gram_statistics` to the bound kernel, which multiplies, there are five calls."""
    stacks, write = [], StationaryColumns.__call__

    def traced(self, A, out=None):
        frame, names = sys._getframe(1), []
        while frame.f_code.co_name != "gram_statistics":
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        stacks.append(names[::-1])
        return write(self, A, out)

    monkeypatch.setattr(StationaryColumns, "__call__", traced)
    with Workers(1) as workers:
        gram_statistics(task.sample, task.kernel, task.X[:6], workers=workers)
    assert stacks == [["block_values", "__call__", "map", "_part"]]
