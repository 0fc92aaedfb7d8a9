"""Nearest rows against a full sort by distance and row number."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise as successive

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF

from pursuit import pairwise
from pursuit.gram import nearest, nearest_in_features, nearest_in_space, space
from pursuit.gram.nearest import RowsInSpace, local_dimension
from pursuit.gram.space import Cells, Scan, Tree
from pursuit.kernels import compile_kernel
from pursuit.linalg import Workers
from pursuit.rows import as_rows

METHODS = ("scan", "tree", "cells")


def squared_distances(Q, X):
    """Sums of squared differences in double precision, from the first column to the last."""
    total = np.zeros((len(Q), len(X)))
    for q, x in zip(np.asarray(Q, float).T, np.asarray(X, float).T, strict=True):
        total = total + (q[:, None] - x[None, :]) ** 2
    return total


def full_sort(D, k, *, own=None, before=None, last_first=False):
    """The k smallest entries of each row of D; ``last_first`` breaks ties the wrong way."""
    numbers = np.arange(D.shape[1])
    allowed = np.ones(D.shape, dtype=bool)
    if own is not None:
        allowed &= numbers != np.asarray(own)[:, None]
    if before is not None:
        allowed &= numbers < np.asarray(before)[:, None]
    ties = np.broadcast_to(-numbers if last_first else numbers, D.shape)
    first = np.lexsort((ties, D, ~allowed))[:, :k]
    found = np.full((len(D), k), -1)
    found[:, : first.shape[1]] = np.where(np.take_along_axis(allowed, first, 1), first, -1)
    return found


def method(name, X):
    """A method by name; cells without a limit, so that all are exact."""
    X = np.asarray(X, dtype=np.float64)
    if name == "cells":
        return RowsInSpace(Cells(X, X[:: max(1, len(X) // 12)], None, Workers()))
    return RowsInSpace(Scan(X) if name == "scan" else Tree(Scan(X)))


@pytest.fixture
def small_tasks(monkeypatch):
    """Tiles, tasks and waiting lists so small that a few hundred rows need many of them."""
    for name, value in {
        "_QUERIES": 16,
        "_TILE_ROWS": 64,
        "_WAITING": 64,
        "_DIFFERENCES": 64,
    }.items():
        monkeypatch.setattr(space, name, value)


@st.composite
def clouds(draw):
    """Rows and queries: any size, columns, type and scale, with copies or on a lattice."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m, d = draw(st.integers(1, 400)), draw(st.integers(1, 12))
    n_queries = draw(st.integers(0, 30))
    X, Q = rng.standard_normal((m, d)), rng.standard_normal((n_queries, d))
    if draw(st.booleans()):
        X, Q = np.round(X), np.round(Q)
    if draw(st.booleans()):
        X = X[rng.integers(0, m, m)]
    if draw(st.booleans()):
        Q *= draw(st.sampled_from([1e3, 1e9, 1e17]))
    scale = draw(st.sampled_from([1e-8, 1.0, 1e8]))
    columns = scale * 10.0 ** rng.uniform(-draw(st.sampled_from([0, 6])), 0, d)
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    k = draw(st.one_of(st.integers(1, min(m, 20)), st.just(m)))
    shift = draw(st.sampled_from([0.0, 100.0]))
    return ((X + shift) * columns).astype(dtype), ((Q + shift) * columns).astype(dtype), k


@pytest.mark.parametrize("name", METHODS)
@given(cloud=clouds())
def test_methods_agree_with_a_full_sort(name, cloud):
    X, Q, k = cloud
    rows, workers = method(name, X), Workers()
    D = squared_distances(Q, X)
    np.testing.assert_array_equal(rows.nearest(Q, k, workers), full_sort(D, k))
    D = squared_distances(X, X)
    numbers = np.arange(len(X))
    np.testing.assert_array_equal(rows.preceding(k, workers), full_sort(D, k, before=numbers))
    if len(X) > 1:
        k = min(k, len(X) - 1)
        own = np.where(numbers % 3, numbers, -1)
        expected = full_sort(D, k, own=own)
        np.testing.assert_array_equal(rows.nearest(X, k, workers, own=own), expected)


@pytest.mark.parametrize("name", METHODS)
def test_many_tiles_and_tasks(name, small_tasks):
    rng = np.random.default_rng(3)
    X = np.round(rng.standard_normal((700, 4)), 1)
    Q = np.round(rng.standard_normal((50, 4)), 1)
    with Workers(2) as workers:
        rows = method(name, X)
        np.testing.assert_array_equal(
            rows.nearest(Q, 9, workers), full_sort(squared_distances(Q, X), 9)
        )
        np.testing.assert_array_equal(
            rows.preceding(9, workers),
            full_sort(squared_distances(X, X), 9, before=np.arange(len(X))),
        )


@pytest.mark.parametrize("name", METHODS)
def test_ties_on_a_lattice_go_to_the_lower_row_number(name):
    """Also shows that the oracle sees ties: broken the other way it gives other rows."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 8, (3000, 3)).astype(float)
    Q = rng.integers(0, 8, (40, 3)) + 0.5
    D = squared_distances(Q, X)
    found = method(name, X).nearest(Q, 10, Workers())
    np.testing.assert_array_equal(found, full_sort(D, 10))
    wrong = full_sort(D, 10, last_first=True)
    assert (found != wrong).any(axis=1).all()
    np.testing.assert_array_equal(  # the same distances, so only ties differ
        np.take_along_axis(D, found, 1), np.take_along_axis(D, wrong, 1)
    )


@pytest.mark.parametrize("name", METHODS)
def test_copies_of_one_row(name):
    X = np.ones((500, 3))
    rows = method(name, X)
    own = np.arange(500)
    found = rows.nearest(X, 4, Workers(), own=own)
    np.testing.assert_array_equal(found, full_sort(np.zeros((500, 500)), 4, own=own))
    np.testing.assert_array_equal(
        rows.preceding(4, Workers()), full_sort(np.zeros((500, 500)), 4, before=own)
    )


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("k", [1, 7, 599, 800])
def test_all_preceding_rows(name, k):
    """With k at least the number of rows before, all of them come; the rest is -1."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((600, 3))[np.argsort(rng.random(600))]
    X = X[np.argsort(X[:, 0])] if k == 7 else X
    found = method(name, X).preceding(k, Workers())
    assert found.shape == (600, k)
    for i in range(600):
        n = min(i, k)
        assert (found[i, n:] == -1).all()
        assert (found[i, :n] < i).all()
        assert len(set(found[i, :n])) == n
    numbers = np.arange(600)
    expected = full_sort(squared_distances(X, X), k, before=numbers)
    np.testing.assert_array_equal(found, expected)


def test_tiny_distances_far_from_the_origin_and_from_each_other():
    """Clusters 1e8 apart whose rows are 1e-8 apart: rounding of products would reorder all."""
    rng = np.random.default_rng(2)
    X = np.repeat(np.arange(1, 5) * 1e8, 100)[:, None] * [1.0, 0.0, 0.0]
    X = X + np.column_stack([np.zeros(400), 1e-8 * rng.random((400, 2))])
    expected = full_sort(squared_distances(X, X), 5, own=np.arange(400))
    product = (X**2).sum(axis=1) - 2 * X @ X.T
    reordered = full_sort(product, 5, own=np.arange(400)) != expected
    assert reordered.any(axis=1).all()
    for name in METHODS:
        found = method(name, X).nearest(X, 5, Workers(), own=np.arange(400))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", [*METHODS, "limited cells"])
def test_threads_change_nothing(name):
    rng = np.random.default_rng(4)
    X, Q = rng.standard_normal((5000, 6)), rng.standard_normal((700, 6))
    rows = method(name, X)
    if name == "limited cells":
        rows = RowsInSpace(Cells(X, X[:100], 5, Workers()))
    results = []
    for n_jobs in (1, 2):
        with Workers(n_jobs) as workers:
            results.append((rows.nearest(Q, 12, workers), rows.preceding(12, workers)))
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


def test_limited_cells_find_the_nearest_rows_of_the_cells_they_look_into():
    rng = np.random.default_rng(5)
    X, Q = rng.standard_normal((2000, 5)), rng.standard_normal((60, 5))
    centres = X[:40]
    cell = squared_distances(X, centres).argmin(axis=1)
    numbers, k = np.arange(len(X)), 15
    rows = RowsInSpace(Cells(X, centres, 3, Workers()))
    for queries, before in ((Q, np.full(len(Q), len(X))), (X, numbers)):
        D, order = (
            squared_distances(queries, X),
            squared_distances(queries, centres).argsort(axis=1),
        )
        for i in range(len(queries)):
            n = 3
            while n < 40 and (np.isin(cell, order[i, :n]) & (numbers < before[i])).sum() < k:
                n += 1
            D[i, ~np.isin(cell, order[i, :n])] = np.inf
        found = rows.nearest(Q, k, Workers()) if queries is Q else rows.preceding(k, Workers())
        np.testing.assert_array_equal(found, full_sort(D, k, before=before))


def test_a_query_that_is_a_row_looks_for_k_other_rows():
    """Its cell holds k rows, itself included: one short."""
    X = np.concatenate([start + np.arange(4.0) for start in (0, 100, 200)])[:, None]
    rows = RowsInSpace(Cells(X, X[1::4], 1, Workers()))
    own = np.arange(12)
    found = rows.nearest(X, 4, Workers(), own=own)
    np.testing.assert_array_equal(found[:4], full_sort(squared_distances(X, X), 4, own=own)[:4])
    assert (found >= 0).all()


def test_cells_skip_what_is_too_far(monkeypatch):
    """Without a limit, separate clusters are still not looked into."""
    rng = np.random.default_rng(6)
    centres = 100.0 * rng.standard_normal((30, 4))
    X = np.repeat(centres, 50, axis=0) + rng.standard_normal((1500, 4))
    compared = []
    compare = space.compare

    def counting(shortlist, queries, points, part, rows):
        compared.append(len(queries) * len(rows))
        compare(shortlist, queries, points, part, rows)

    monkeypatch.setattr(space, "compare", counting)
    rows = RowsInSpace(Cells(X, centres, None, Workers()))
    found = rows.nearest(X, 8, Workers(), own=np.arange(1500))
    np.testing.assert_array_equal(found, full_sort(squared_distances(X, X), 8, own=np.arange(1500)))
    assert sum(compared) < 0.2 * 1500**2


def test_method_depends_on_columns_dimension_and_number(monkeypatch):
    rng = np.random.default_rng(7)
    few, many = rng.standard_normal((4000, 8)), rng.standard_normal((4000, 25))
    flat = rng.standard_normal((4000, 3)) @ rng.standard_normal((3, 25))
    kinds = [type(nearest_in_space(X, X[:50]).method) for X in (few, many, flat, few[:900])]
    assert kinds == [Tree, Scan, Tree, Scan]
    monkeypatch.setattr(nearest, "_SCANNED_ROWS", 3999)
    assert type(nearest_in_space(many, many[:50]).method) is Cells
    assert type(nearest_in_space(many).method) is Scan
    assert type(nearest_in_space(flat, flat[:50]).method) is Tree


@pytest.mark.parametrize("d", [1, 3, 6])
def test_local_dimension(d):
    rng = np.random.default_rng(8)
    X = rng.standard_normal((6000, d)) @ np.linalg.qr(rng.standard_normal((20, d)))[0].T
    assert local_dimension(Scan(X), Workers()) == pytest.approx(d, rel=0.15)
    assert local_dimension(Scan(np.ones((50, 3))), Workers()) == 0.0


def test_wrong_counts_are_refused():
    X = np.arange(6.0)[:, None]
    kernel = compile_kernel(RBF())[0]
    for rows in (nearest_in_space(X), nearest_in_features(as_rows(X), kernel, X[:1], np.eye(1))):
        with pytest.raises(ValueError, match="k=7 is more than the 6 rows"):
            rows.nearest(X, 7, Workers())
        with pytest.raises(ValueError, match="k=6 is more than the 5 rows"):
            rows.nearest(X, 6, Workers(), own=np.arange(6))
        with pytest.raises(ValueError, match="k must be at least 1"):
            rows.preceding(0, Workers())


# In features


@cache
def pair_counts(word):
    return Counter(successive(word))


def shared_pairs(a, b):
    """How often two strings have a pair of letters in common: an inner product of counts."""
    first, second = pair_counts(a), pair_counts(b)
    return float(sum(count * second[pair] for pair, count in first.items()))


def words(n, seed):
    """Short words of few letters, with copies and ties."""
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list("abc"), rng.integers(2, 7))) for _ in range(n)]


def feature_distances(A, B):
    """Squared distances of strings; whole numbers, so they have no rounding."""
    return np.array(
        [[shared_pairs(a, a) + shared_pairs(b, b) - 2 * shared_pairs(a, b) for b in B] for a in A]
    )


def independent(strings):
    """Strings whose features are independent, and the factor of their kernel matrix."""
    chosen = []
    for string in strings:
        K = pairwise(shared_pairs)([*chosen, string], [*chosen, string])
        if np.linalg.matrix_rank(K) == len(K):
            chosen.append(string)
    K = pairwise(shared_pairs)(chosen, chosen)
    return chosen, np.linalg.cholesky(K) if chosen else np.empty((0, 0))


@pytest.mark.parametrize("n_landmarks", [0, 1, 6])
@pytest.mark.parametrize("k", [1, 5, 59])
def test_strings(n_landmarks, k):
    W, Q = words(60, 0), words(25, 1)
    landmarks, R = independent(W)
    landmarks, R = landmarks[:n_landmarks], R[:n_landmarks, :n_landmarks]
    kernel = compile_kernel(pairwise(shared_pairs))[0]
    rows = nearest_in_features(as_rows(W), kernel, landmarks, R)
    assert rows.n_rows == 60
    D, numbers = feature_distances(W, W), np.arange(60)
    for n_jobs in (1, 2):
        with Workers(n_jobs) as workers:
            np.testing.assert_array_equal(
                rows.nearest(Q, k, workers), full_sort(feature_distances(Q, W), k)
            )
            np.testing.assert_array_equal(
                rows.nearest(W[::-1], k, workers, own=numbers[::-1]),
                full_sort(D[::-1], k, own=numbers[::-1]),
            )
            own = np.where(numbers % 2, numbers, -1)
            np.testing.assert_array_equal(
                rows.nearest(W, k, workers, own=own), full_sort(D, k, own=own)
            )
            np.testing.assert_array_equal(
                rows.preceding(k, workers), full_sort(D, k, before=numbers)
            )
    np.testing.assert_array_equal(rows.nearest(W, 60, Workers()), full_sort(D, 60))


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 30))
def test_a_stationary_kernel_orders_rows_as_space_does(seed, k):
    rng = np.random.default_rng(seed)
    X, Q = rng.standard_normal((80, 3)), rng.standard_normal((20, 3))
    kernel = compile_kernel(RBF(2.0))[0]
    landmarks = X[::8]
    R = np.linalg.cholesky(kernel.tile(landmarks, landmarks))
    features, rows = nearest_in_features(as_rows(X), kernel, landmarks, R), nearest_in_space(X)
    workers, numbers = Workers(), np.arange(80)
    for a, b in (
        (features.nearest(Q, k, workers), rows.nearest(Q, k, workers)),
        (features.nearest(X, k, workers, own=numbers), rows.nearest(X, k, workers, own=numbers)),
        (features.preceding(k, workers), rows.preceding(k, workers)),
    ):
        np.testing.assert_array_equal(a, b)
