"""Hashes of rows: any change gives another, where rows lie and how they are cut plays no part."""

import numpy as np
import pytest
from scipy import sparse

from pursuit.rows import as_rows, row_hashes, source_hashes
from pursuit.rows.hashing import Witness


def numbers(m=300, d=7, dtype=np.float64):
    return np.random.default_rng(0).standard_normal((m, d)).astype(dtype)


def plain(X):
    """The formula with Python's own whole numbers."""

    def factor(j):
        z = (j + 1) * 0x9E3779B97F4A7C15 % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return (z ^ (z >> 31)) | 1

    def bits(x):
        return int.from_bytes(np.asarray(x).astype(X.dtype.newbyteorder("<")).tobytes(), "little")

    return [
        sum(factor(j) * (bits(x) ^ (bits(x) >> 32)) for j, x in enumerate(row)) % 2**64 for row in X
    ]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8, np.int64])
def test_the_formula(dtype):
    X = (10 * numbers(20)).astype(dtype)
    assert row_hashes(X).tolist() == plain(X)
    assert row_hashes(np.asfortranarray(X)[:, :]).tolist() == plain(X)


def test_every_change_of_one_or_two_values_is_noticed():
    X = numbers()
    rng = np.random.default_rng(1)
    before = row_hashes(X)
    for change in ("ulp", "sign", "two signs", "swap", "zero"):
        for _ in range(50):
            Z, row = X.copy(), rng.integers(len(X))
            i, j = rng.choice(X.shape[1], 2, replace=False)
            if change == "ulp":
                Z[row, i] = np.nextafter(Z[row, i], np.inf)
            elif change == "sign":
                Z[row, i] *= -1
            elif change == "two signs":
                Z[row, [i, j]] *= -1
            elif change == "swap":
                Z[row, [i, j]] = Z[row, [j, i]]
            else:
                Z[row, i] = 0.0
            assert np.flatnonzero(row_hashes(Z) != before).tolist() == [row]


def test_sparse_rows_have_the_hashes_of_dense_ones():
    X = np.maximum(numbers(), 0.0)
    X[[0, 5, 299]] = 0.0
    np.testing.assert_array_equal(row_hashes(sparse.csr_array(X)), row_hashes(X))


def test_objects_are_hashed_by_what_they_hold():
    class Thing:
        pass

    long = np.zeros(5000)
    items = ["a", "b", ("a", 1), [long], {"x": long}, 1, 1.0, None, b"a", Thing()]
    same = ["a", "b", ("a", 1), [long.copy()], {"x": long.copy()}, 1, 1.0, None, b"a", Thing()]
    hashes = row_hashes(items)
    assert len(set(hashes.tolist())) == len(items)
    np.testing.assert_array_equal(row_hashes(same), hashes)
    same[3][0][2500], same[4]["x"][2500] = 1.0, 1.0  # where NumPy prints three dots
    assert np.flatnonzero(row_hashes(same) != hashes).tolist() == [3, 4]


def test_sources_have_the_hashes_of_their_rows(tmp_path):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    X = numbers(20_000, 2)
    np.save(tmp_path / "X.npy", X)
    for source in (X, tmp_path / "X.npy", da.from_array(X, chunks=((9000, 1, 10_999), 2))):
        np.testing.assert_array_equal(source_hashes(as_rows(source)), row_hashes(X))


def test_a_witness_knows_what_it_has_seen():
    witness, hashes = Witness(), np.arange(10, dtype=np.uint64)
    assert witness.changed(np.array([7, 3]), hashes[[7, 3]]) is None
    assert witness.changed(np.arange(10), hashes) is None
    hashes[[4, 8]] += np.uint64(1)
    assert witness.changed(np.array([9, 8, 4]), hashes[[9, 8, 4]]) == 8
    assert witness.changed(np.empty(0, int), np.empty(0, np.uint64)) is None
