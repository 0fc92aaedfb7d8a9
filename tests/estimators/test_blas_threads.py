"""The number of threads that BLAS has changes no bit of a model, from the first line of fit on."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_info, threadpool_limits

from pursuit import (
    GreedyFeatureMap,
    HullBoostClassifier,
    HullRegressor,
    KernelMatchingPursuitRegressor,
    LowRankSVC,
    LowRankSVR,
    Search,
    SparseGPClassifier,
    SparseGPRegressor,
    SparseKernelPCA,
    SparseKernelRidge,
)

ROWS = 30_000
"""So many that BLAS splits a product of a vector with the rows."""

MODELS = [
    SparseGPRegressor(RBF(1.0), noise=0.1, n_basis=8, optimizer=None, certificate=None),
    SparseGPClassifier(RBF(1.0), n_basis=5, optimizer=None, certificate=None),
    SparseKernelRidge(method="random", n_basis=8, certificate=None),
    KernelMatchingPursuitRegressor(n_basis=4, search=Search(pool_size=50, rows=500)),
    LowRankSVR(n_basis=8, refine=False, certificate=None),
    LowRankSVC(n_basis=8, refine=False, certificate=None),
    SparseKernelPCA(n_basis=8, n_components=2),
    GreedyFeatureMap(n_components=8),
    HullRegressor("features", radius=2.0, n_terms=3),
    HullBoostClassifier(n_terms=2),
]


def blas_threads():
    return max(library["num_threads"] for library in threadpool_info())


needs_blas = pytest.mark.skipif(
    all(library["user_api"] != "blas" for library in threadpool_info()),
    reason="nobody can set the number of threads of this BLAS, such as Apple's Accelerate",
)


class WatchedRows:
    """Rows that note how many threads BLAS has while they are read."""

    def __init__(self, X, seen):
        self.X, self.seen, self.n_rows = X, seen, len(X)

    def blocks(self, size):
        for start in range(0, self.n_rows, size):
            self.seen.append(blas_threads())
            yield start, self.X[start : start + size]

    def take(self, index):
        return self.X[index]


@needs_blas
def test_blas_is_released_while_rows_are_read():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, 2))
    reading, computing = [], []

    def kernel(A, B):
        computing.append(blas_threads())
        return RBF(1.0)(A, B)

    model = SparseGPRegressor(kernel, noise=0.1, n_basis=5, certificate=None, random_state=0)
    with threadpool_limits(2, user_api="blas"):
        model.fit(WatchedRows(X, reading), X[:, 0])
        assert blas_threads() == 2
    assert set(computing) == {1}
    assert set(reading) == {2}


def numbers(model, X):
    """What the model says, to the last bit."""
    said = model.transform(X) if hasattr(model, "transform") else model.predict(X)
    if hasattr(model, "decision_function"):
        said = model.decision_function(X)
    return np.asarray(said)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_threads_of_blas_change_no_bit(model):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, 3))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(ROWS)
    targets = y > 0 if "Classifier" in type(model).__name__ or "SVC" in repr(model) else y
    said = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads, user_api="blas"):
            before = [library["num_threads"] for library in threadpool_info()]
            model.set_params(random_state=0, n_jobs=1).fit(X, targets)
            assert [library["num_threads"] for library in threadpool_info()] == before
        said.append(numbers(model, X[:500]))
    np.testing.assert_array_equal(said[1], said[0])
    np.testing.assert_array_equal(said[2], said[0])
