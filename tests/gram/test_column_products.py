"""Inner products of kernel columns, from the whole matrix and from passes over the rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.gaussian_process.kernels import DotProduct
from tasks import make_task, tasks

from pursuit.gram import KernelMatrix, MatrixProducts, StreamedProducts
from pursuit.kernels import CountingKernel, as_dot, compile_kernel
from pursuit.linalg import Workers
from pursuit.rows import Sample, as_rows

KERNELS = ("gaussian", "exponential", "inner product")
STORED, NOTHING = 1 << 30, 0


def assert_near(got, expected):
    scale = max(float(np.abs(expected).max(initial=0.0)), 1e-300)
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-10 * scale)


@given(task=tasks(kernels=KERNELS), budget=st.sampled_from([STORED, NOTHING]))
def test_the_matrix_as_an_operator(task, budget):
    v = np.random.default_rng(0).standard_normal((len(task.X), 2))
    with Workers(1) as workers:
        matrix = KernelMatrix(task.sample.rows, task.kernel, workers, budget)
        assert_near(matrix.times(v), task.K @ v)
        assert_near(matrix.column(1), task.K[:, 1])
        assert_near(matrix.squared_columns(task.w), task.w @ task.K**2)


def test_a_linear_kernel_is_never_evaluated_for_a_product():
    """Sparse rows of many features: products read the features and nothing else."""
    rng = np.random.default_rng(0)
    entries = rng.random(60_000), (rng.integers(0, 3000, 60_000), rng.integers(0, 20_000, 60_000))
    X = sparse.csr_array(entries, shape=(3000, 20_000))
    kernel = CountingKernel(compile_kernel(DotProduct(0.5))[0])
    v = np.random.default_rng(0).standard_normal((3000, 1))
    with Workers(1) as workers:
        matrix = KernelMatrix(as_rows(X), kernel, workers, NOTHING)
        product = matrix.times(v)
    assert kernel.entries == 0
    assert_near(product, X @ (X.T @ v) + 0.25 * v.sum())


def test_only_inner_products_are_linear():
    assert as_dot(compile_kernel("rbf", gamma=1.0)[0]) is None
    assert as_dot(CountingKernel(compile_kernel("linear")[0])) is not None


def naive(task, p, candidates):
    k, w = task.K[:, candidates], task.w
    return {
        "cross": k.T @ (w[:, None] * p),
        "targets": k.T @ (w[:, None] * task.Y),
        "squares": w @ k**2,
        "fitted": p[candidates],
        "fitted_squares": w @ p**2,
        "fitted_targets": w @ (p * task.Y),
    }


def providers(task, workers):
    matrix = KernelMatrix(task.sample.rows, task.kernel, workers)
    return [
        MatrixProducts(task.sample, matrix),
        StreamedProducts(task.sample, task.kernel, workers),
    ]


@given(task=tasks(kernels=KERNELS))
def test_products_follow_the_function(task):
    rng = np.random.default_rng(1)
    m, single = len(task.X), task.Y.shape[1] == 1
    with Workers(1) as workers:
        for source in providers(task, workers):
            p = np.zeros_like(task.Y)
            for step in range(4):
                candidates = np.sort(rng.choice(m, rng.integers(1, m + 1), replace=False))
                for _ in range(2):  # asking twice changes nothing
                    found = source.products(candidates)
                    for name, expected in naive(task, p, candidates).items():
                        assert_near(getattr(found, name), expected)
                if single and step % 2:
                    i, alpha, beta = int(rng.integers(m)), *rng.standard_normal(2)
                    source.advance(i, alpha, beta)
                    p = beta * p + alpha * task.K[:, [i]]
                else:
                    p = task.K @ rng.standard_normal(task.Y.shape)
                    source.replace(p.copy())


@pytest.mark.parametrize("weighted", [False, True])
def test_threads_do_not_change_a_bit(weighted, size):
    task = make_task(np.random.default_rng(0), size(20_000, 60_000), weighted=weighted)
    candidates = np.array([3, 5, 11, 12_345])
    found = []
    for n_jobs in (1, 3):
        with Workers(n_jobs) as workers:
            source = StreamedProducts(task.sample, task.kernel, workers)
            source.products(candidates)
            source.advance(5, 0.3, 0.0)
            found.append(source.products(candidates))
    for name in ("cross", "targets", "squares", "fitted", "fitted_squares", "fitted_targets"):
        assert np.array_equal(getattr(found[0], name), getattr(found[1], name))


def test_a_list_of_strings():
    words = ["a", "ab", "abc", "b", "cab"]

    def shared(A, B):
        return np.array([[float(len(set(a) & set(b))) for b in B] for a in A])

    kernel = compile_kernel(shared)[0]
    K = shared(words, words)
    sample = Sample(as_rows(words), np.arange(5.0)[:, None], np.ones(5))
    with Workers(1) as workers:
        found = StreamedProducts(sample, kernel, workers).products(np.array([1, 4]))
        np.testing.assert_allclose(found.squares, (K**2).sum(axis=0)[[1, 4]])
        whole = KernelMatrix(sample.rows, kernel, workers, NOTHING).times(sample.targets)
        np.testing.assert_allclose(whole, K @ sample.targets)
