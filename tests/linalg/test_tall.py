"""A tall matrix read block by block, against the array it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.linalg import TallMatrix, Workers

TYPES = [np.float32, np.float64]


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 2500),
    st.integers(0, 12),
    st.integers(1, 3),
    st.sampled_from(TYPES),
    st.floats(0.0, 1.0),
)
def test_products(seed, m, n, columns, dtype, share):
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((m, n)).astype(dtype)
    weights = rng.uniform(0.0, 5.0, m) * (rng.random(m) < share)
    X, U = rng.standard_normal((m, columns)), rng.standard_normal((n, columns))
    wide = V.astype(np.float64)
    with Workers(2) as workers:
        tall = TallMatrix(V, m, workers)
        assert (tall.n_rows, tall.n_columns, tall.dtype) == (m, n, dtype)
        np.testing.assert_allclose(tall.times(U), wide @ U, atol=1e-10)
        np.testing.assert_allclose(tall.transposed_times(X), wide.T @ X, atol=1e-9)
        gram = wide.T @ (weights[:, None] * wide)
        np.testing.assert_allclose(tall.gram(weights), gram, atol=1e-9)
        rough = tall.gram(weights, np.float32)
        np.testing.assert_allclose(rough, gram, atol=1e-5 * max(m, 1))


@pytest.mark.parametrize("dtype", TYPES)
def test_neither_threads_nor_the_place_of_the_rows_change_a_bit(dtype, tmp_path):
    rng = np.random.default_rng(0)
    V = rng.standard_normal((5000, 70)).astype(dtype)
    weights, X = rng.uniform(size=5000), rng.standard_normal((5000, 2))
    np.save(tmp_path / "V.npy", V)
    places = [V, np.load(tmp_path / "V.npy", mmap_mode="r"), lambda rows: V[rows].copy()]
    found = []
    for n_jobs in (1, 2, 3):
        for place in places:
            with Workers(n_jobs) as workers:
                tall = TallMatrix(place, 5000, workers)
                parts = tall.gram(weights), tall.transposed_times(X), tall.times(X[:70])
                found.append(np.concatenate([part.ravel() for part in parts]))
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
