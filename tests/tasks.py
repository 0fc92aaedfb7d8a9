"""Small regression problems for hypothesis: kernels, sizes, duplicates, scales, types, weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import oracles
from hypothesis import strategies as st
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern

from pursuit.greedy import CostMeter, Problem
from pursuit.kernels import CountingKernel, compile_kernel
from pursuit.rows import Sample, as_rows

COMPILED = {
    "gaussian": lambda parameter: RBF(parameter),
    "exponential": lambda parameter: Matern(parameter, nu=0.5),
    "inner product": lambda parameter: DotProduct(parameter),
}


@dataclass(frozen=True)
class Task:
    """Rows X, targets Y, weights w, a kernel known to the oracles, and σ²."""

    X: np.ndarray
    Y: np.ndarray
    w: np.ndarray
    noise: float
    name: str
    parameter: float
    is_sparse: bool

    @property
    def kernel(self):
        return CountingKernel(compile_kernel(COMPILED[self.name](self.parameter))[0])

    @property
    def sample(self):
        X = sparse.csr_array(self.X) if self.is_sparse else self.X
        return Sample(as_rows(X), self.Y, self.w)

    def problem(self, workers, seed=0):
        """The task as the greedy room knows it, nothing spent yet."""
        kernel, rng = self.kernel, np.random.default_rng(seed)
        return Problem(self.sample, kernel, self.noise, workers, CostMeter(kernel), rng)

    @property
    def K(self):
        return self.between(self.X, self.X)

    def between(self, A, B):
        """k(A, B) by the oracle."""
        exact = (np.asarray(A, np.float64), np.asarray(B, np.float64))
        return oracles.kernel_matrix(self.name, self.parameter, *exact)


def make_task(
    rng,
    m,
    *,
    n_features=2,
    n_outputs=1,
    name="gaussian",
    parameter=1.0,
    noise=0.1,
    weighted=False,
    n_duplicates=0,
    scale=1.0,
    target_scale=1.0,
    dtype=np.float64,
    is_sparse=False,
):
    """A task with these properties; ``scale`` stretches X and the kernel alike."""
    X = rng.standard_normal((m, n_features)) * scale
    if dtype == np.int64:
        X = np.round(2 * X)
    X = X.astype(dtype)
    if n_duplicates:
        X[rng.choice(m, n_duplicates)] = X[rng.choice(m, n_duplicates)]
    X64 = X.astype(np.float64) / scale
    signal = np.sin(X64 @ rng.standard_normal((n_features, n_outputs)))
    Y = target_scale * (signal + 0.3 * rng.standard_normal((m, n_outputs)))
    w = rng.uniform(0.2, 3.0, m) if weighted else np.ones(m)
    return Task(X, Y, w, noise, name, parameter * scale, is_sparse)


@st.composite
def tasks(draw, *, min_rows=3, max_rows=18, kernels=("gaussian", "exponential"), noise=None):
    """Any small task. Noise is kept away from 0 unless a range is given."""
    m = draw(st.integers(min_rows, max_rows))
    dtype = draw(st.sampled_from([np.float64, np.float32, np.int64]))
    return make_task(
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
        m,
        n_features=draw(st.integers(1, 3)),
        n_outputs=draw(st.integers(1, 3)),
        name=draw(st.sampled_from(kernels)),
        parameter=draw(st.sampled_from([0.5, 1.0, 2.0])),
        noise=draw(noise if noise is not None else st.sampled_from([0.01, 0.1, 1.0, 10.0])),
        weighted=draw(st.booleans()),
        n_duplicates=draw(st.integers(0, m // 2)),
        scale=1.0 if dtype == np.int64 else draw(st.sampled_from([1e-3, 1.0, 1e3])),
        target_scale=draw(st.sampled_from([1e-3, 1.0, 1e4])),
        dtype=dtype,
        is_sparse=draw(st.booleans()),
    )
