"""The kernel matrix of all rows: stored or not, its parts are those of the dense matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tasks import make_task, tasks

from pursuit.gram import KernelMatrix
from pursuit.kernels import CountingKernel
from pursuit.linalg import Workers

KERNELS = ("gaussian", "exponential", "inner product")
STORED, NOTHING = 1 << 30, 0


@given(task=tasks(kernels=KERNELS), budget=st.sampled_from([STORED, NOTHING]))
def test_diagonal_and_columns(task, budget):
    index = np.arange(len(task.X))[::-2]
    with Workers(2) as workers:
        matrix = KernelMatrix(task.sample.rows, task.kernel, workers, budget)
        columns = matrix.columns(index)
    scale = float(np.abs(task.K).max())
    np.testing.assert_allclose(columns, task.K[index], rtol=0, atol=2e-10 * scale)
    np.testing.assert_allclose(matrix.diagonal, np.diag(task.K), rtol=1e-12)
    assert columns.flags.c_contiguous
    assert matrix.positive_definite == task.kernel.positive_definite
    assert matrix.rounding == task.kernel.rounding


def test_the_matrix_is_evaluated_at_the_first_product_only():
    task = make_task(np.random.default_rng(0), 60, weighted=True)
    kernel, passes = CountingKernel(task.kernel), []
    with Workers(1) as workers:
        matrix = KernelMatrix(
            task.sample.rows, kernel, workers, after_pass=lambda: passes.append(1)
        )
        assert kernel.entries == 0
        assert matrix.diagonal is matrix.diagonal
        matrix.columns(np.arange(3))
        assert (kernel.entries, len(passes)) == (60 + 3 * 60, 0)
        matrix.times(task.sample.targets)
        matrix.squared_columns(task.sample.weights)
        matrix.column(5)
    assert (kernel.entries, len(passes)) == (240 + 3600, 1)


@pytest.mark.parametrize("budget", [STORED, NOTHING])
def test_threads_change_no_bit(budget):
    task = make_task(np.random.default_rng(0), 1300, weighted=True)
    results = []
    for n_jobs in (1, 2, 3):
        with Workers(n_jobs) as workers:
            matrix = KernelMatrix(task.sample.rows, task.kernel, workers, budget)
            results.append(
                [
                    matrix.columns(np.array([3, 1200])),
                    matrix.times(task.sample.targets),
                    matrix.squared_columns(task.sample.weights),
                ]
            )
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
