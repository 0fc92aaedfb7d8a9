"""Statistics of a pool, against a loop over rows."""

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF
from tasks import make_task, tasks

from pursuit.gram import GramStatistics, gram_statistics, matrix_statistics
from pursuit.kernels import PrecomputedKernel, compile_kernel
from pursuit.linalg import Workers
from pursuit.rows import IndexRows, ListRows, Sample, as_rows

FIELDS = ("gram", "cross", "target_norms", "trace", "weight")
ALL_KERNELS = ("gaussian", "exponential", "inner product")


def pass_over(sample, kernel, points, n_jobs=1, **options):
    with Workers(n_jobs) as workers:
        return gram_statistics(sample, kernel, points, workers=workers, **options)


def assert_close(found, expected, tolerance):
    for name, want in zip(FIELDS, expected, strict=True):
        got = getattr(found, name)
        assert np.shape(got) == np.shape(want)
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * np.abs(want).max())


def fields(statistics):
    return [getattr(statistics, name) for name in FIELDS]


@st.composite
def tasks_with_points(draw):
    task = draw(tasks(kernels=ALL_KERNELS))
    m = len(task.X)
    index = np.array(draw(st.lists(st.integers(0, m - 1), min_size=1, max_size=m)))
    return task, index


@given(tasks_with_points())
def test_one_pass_equals_the_loop(drawn):
    task, index = drawn
    found = pass_over(task.sample, task.kernel, task.sample.rows.take(index))
    K = task.K
    assert_close(found, oracles.statistics(K[:, index], np.diag(K), task.Y, task.w), 1e-10)
    assert found.n_rows == len(task.X)
    np.testing.assert_array_equal(found.gram, found.gram.T)


@given(tasks_with_points())
def test_float32_tiles_keep_four_digits(drawn):
    task, index = drawn
    points = task.sample.rows.take(index)
    found = pass_over(task.sample, task.kernel, points, dtype=np.float32)
    K = task.K
    assert_close(found, oracles.statistics(K[:, index], np.diag(K), task.Y, task.w), 1e-4)
    assert found.gram.dtype == found.cross.dtype == np.float64


@given(tasks_with_points(), st.data())
def test_parts_add_up(drawn, data):
    task, index = drawn
    sample, points = task.sample, task.sample.rows.take(index)
    m = len(task.X)
    cuts = sorted(data.draw(st.lists(st.integers(0, m), max_size=3)))
    parts = [
        pass_over(sample.take(np.arange(a, b)), task.kernel, points)
        for a, b in zip([0, *cuts], [*cuts, m], strict=True)
    ]
    total = sum(parts[1:], parts[0])
    assert_close(total, fields(pass_over(sample, task.kernel, points)), 1e-12)
    assert total.n_rows == m


@given(tasks_with_points(), st.data())
def test_a_weight_is_so_many_copies(drawn, data):
    task, index = drawn
    m = len(task.X)
    copies = np.array(data.draw(st.lists(st.integers(0, 4), min_size=m, max_size=m)))
    sample, points = task.sample, task.sample.rows.take(index)
    weighted = Sample(sample.rows, task.Y, copies.astype(np.float64))
    repeated = Sample(sample.rows, task.Y, np.ones(m)).take(np.repeat(np.arange(m), copies))
    found = pass_over(weighted, task.kernel, points)
    assert_close(found, fields(pass_over(repeated, task.kernel, points)), 1e-12)


@given(tasks_with_points(), st.sampled_from([np.float64, np.float32]))
def test_whitened_statistics_are_those_of_the_whitened_functions(drawn, dtype):
    task, _ = drawn
    index = np.unique(task.X, axis=0, return_index=True)[1][:5]
    K = task.K
    K_ZZ = K[np.ix_(index, index)] + 0.1 * np.diag(K).max() * np.eye(len(index))
    whitener = np.linalg.inv(np.linalg.cholesky(K_ZZ))
    points = task.sample.rows.take(index)
    found = pass_over(task.sample, task.kernel, points, whitener=np.tril(whitener), dtype=dtype)
    V = K[:, index] @ whitener.T
    expected = oracles.statistics(V, np.diag(K), task.Y, task.w)
    assert_close(found, expected, 1e-10 if dtype == np.float64 else 1e-4)


@pytest.fixture(scope="module")
def wide(size):
    """More than one block, buffer and panel, and a ragged end of each."""
    rng = np.random.default_rng(0)
    m, P = size(8192 + 2048 + 7, 30_000), size(300, 900)
    X = rng.standard_normal((m, 3))
    Y, w = rng.standard_normal((m, 2)), rng.uniform(0.5, 2.0, m)
    return Sample(as_rows(X), Y, w), compile_kernel(RBF(1.5))[0], rng.standard_normal((P, 3))


def test_many_blocks_against_one_product(wide):
    sample, kernel, points = wide
    found = pass_over(sample, kernel, points, n_jobs=2)
    K = kernel.tile(sample.rows.take(np.arange(sample.n_rows)), points)
    w, Y = sample.weights, sample.targets
    expected = (
        K.T @ (w[:, None] * K),
        K.T @ (w[:, None] * Y),
        w @ Y**2,
        w.sum(),
        w.sum(),
    )
    assert_close(found, expected, 1e-12)
    np.testing.assert_array_equal(found.gram, found.gram.T)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("whiten", [False, True])
def test_threads_do_not_change_a_bit(wide, dtype, whiten):
    sample, kernel, points = wide
    whitener = np.tril(np.random.default_rng(1).standard_normal((len(points),) * 2))
    options = {"dtype": dtype, "whitener": whitener if whiten else None}
    one, *others = [pass_over(sample, kernel, points, n, **options) for n in (1, 2, 3)]
    for other in others:
        for got, want in zip(fields(other), fields(one), strict=True):
            np.testing.assert_array_equal(got, want)


def test_whitening_many_panels(wide):
    sample, kernel, points = wide
    sample = sample.take(np.arange(2500))
    whitener = np.tril(np.random.default_rng(2).standard_normal((len(points),) * 2))
    found = pass_over(sample, kernel, points, n_jobs=2, whitener=whitener)
    plain = pass_over(sample, kernel, points)
    assert_close(
        found,
        (whitener @ plain.gram @ whitener.T, whitener @ plain.cross, *fields(plain)[2:]),
        1e-10,
    )


def test_progress_is_told_block_by_block(wide):
    sample, kernel, points = wide
    seen = []
    pass_over(sample, kernel, points[:2], after_block=seen.append)
    assert seen == [*range(8192, sample.n_rows, 8192), sample.n_rows]


def test_sparse_rows_give_what_dense_rows_give():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((90, 12)) * (rng.random((90, 12)) < 0.2)
    Y, w = rng.standard_normal((90, 1)), rng.uniform(0.5, 2, 90)
    kernel = compile_kernel(RBF(2.0))[0]
    dense = pass_over(Sample(as_rows(X), Y, w), kernel, X[:20])
    X_csr = sparse.csr_array(X)
    found = pass_over(Sample(as_rows(X_csr), Y, w), kernel, X_csr[:20])
    assert_close(found, fields(dense), 1e-12)


def test_lists_and_row_numbers_are_rows_too():
    rng = np.random.default_rng(4)
    words = ["".join(rng.choice(list("abc"), 4)) for _ in range(30)]
    Y, w = rng.standard_normal((30, 1)), rng.uniform(0.5, 2, 30)

    def shared(A, B):
        return np.array([[float(len(set(a) & set(b))) for b in B] for a in A])

    K = shared(words, words)
    index = np.array([3, 0, 7])
    expected = oracles.statistics(K[:, index], np.diag(K), Y, w)
    strings = Sample(ListRows(words), Y, w)
    assert_close(
        pass_over(strings, compile_kernel(shared)[0], strings.rows.take(index)), expected, 1e-12
    )
    numbers = Sample(IndexRows(30), Y, w)
    assert_close(pass_over(numbers, PrecomputedKernel(K), index), expected, 1e-12)


def test_inputs_are_not_changed(read_only):
    task = make_task(np.random.default_rng(5), 20, weighted=True)
    sample = Sample(as_rows(read_only(task.X)), read_only(task.Y), read_only(task.w))
    pass_over(sample, task.kernel, read_only(task.X[:4]))


def test_restriction_is_a_pass_over_fewer_points():
    task = make_task(np.random.default_rng(6), 25, n_outputs=2, weighted=True)
    whole = pass_over(task.sample, task.kernel, task.X[:8])
    index = np.array([5, 1, 6])
    part = whole.restricted(index)
    assert_close(part, fields(pass_over(task.sample, task.kernel, task.X[index])), 1e-12)
    assert part.n_rows == 25


@pytest.mark.parametrize(
    ("points", "outputs", "message"),
    [
        (3, 1, "2 points and 1 outputs cannot be added to those of 3 points and 1 outputs"),
        (2, 2, "2 points and 1 outputs cannot be added to those of 2 points and 2 outputs"),
    ],
)
def test_statistics_of_different_things_do_not_add(points, outputs, message):
    def empty(P, o):
        return GramStatistics(np.zeros((P, P)), np.zeros((P, o)), np.zeros(o), 0.0, 0.0, 0)

    with pytest.raises(ValueError, match=f"{message}: compute both with the same points"):
        empty(2, 1) + empty(points, outputs)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_values_at_all_rows_give_the_statistics_of_some_functions(dtype, tolerance):
    task, P = make_task(np.random.default_rng(1), 400, n_outputs=2, weighted=True), 300
    V = task.K[:, :P]
    with Workers(1) as workers:
        found = matrix_statistics(V, task.Y, task.w, workers, dtype)
    assert found.gram.dtype == dtype
    assert found.n_rows == 400
    want = V.T @ (task.w[:, None] * V)
    np.testing.assert_allclose(found.gram, want, rtol=0, atol=tolerance * np.abs(want).max())
    np.testing.assert_allclose(found.cross, V.T @ (task.w[:, None] * task.Y), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("writeable", [True, False])
def test_sums_in_the_memory_of_the_second_one_have_the_same_bits(writeable):
    rng = np.random.default_rng(0)

    def some(P=300):
        gram = rng.standard_normal((P, P))
        return GramStatistics(gram, rng.standard_normal((P, 2)), rng.random(2), 1.5, 7.0, 7)

    left, right = some(), some()
    expected, before = left + right, left.gram.copy()
    right.gram.flags.writeable = writeable
    with Workers(2) as workers:
        found = left.into(right, workers)
        with pytest.raises(ValueError, match="cannot be added"):
            left.into(some(299), workers)
    np.testing.assert_array_equal(found.gram, expected.gram)
    np.testing.assert_array_equal(found.cross, expected.cross)
    np.testing.assert_array_equal(left.gram, before)
    assert np.shares_memory(found.gram, right.gram) == writeable
    assert (found.trace, found.weight, found.n_rows) == (3.0, 14.0, 14)
