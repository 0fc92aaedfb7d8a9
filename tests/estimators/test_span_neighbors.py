"""SpanNeighbors: the neighbours of brute force, for fewer kernel values."""

from __future__ import annotations

import pickle
from collections import Counter
from functools import cache
from itertools import pairwise as successive

import numpy as np
import oracles
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, WhiteKernel
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer, NearestNeighbors
from sklearn.pipeline import make_pipeline

from pursuit import SpanNeighbors, limits, pairwise
from pursuit.datasets import load_usps

EPS = np.finfo(float).eps


def brute_force(K_qz, k_qq, k_zz, *, k=None, radius=None, itself=False):
    """Neighbours of each query by loops: distance first, then row number.

    Squared distances that rounding cannot tell apart, nor from 0, are taken as equal.
    """
    found = []
    for q, row in enumerate(K_qz):
        near = []
        for z, value in enumerate(row):
            if itself and z == q:
                continue
            total = k_qq[q] + k_zz[z]
            squared = total - 2 * value
            near.append([0.0 if squared <= 16 * EPS * total else squared, z, 16 * EPS * total])
        near.sort()
        first = 0
        for place in range(1, len(near)):
            if near[place][0] - near[place - 1][0] > near[place][2]:
                first = place
            near[place].append(first)
        near[0].append(0)
        ties = sorted(near, key=lambda entry: (entry[3], entry[1]))
        distances = [np.sqrt(near[entry[3]][0]) for entry in ties]
        indices = [entry[1] for entry in ties]
        if radius is not None:
            k = sum(distance <= radius for distance in distances)
        found.append((distances[:k], indices[:k]))
    return found


def assert_same(found, expected):
    distances, indices = found
    assert len(indices) == len(expected)
    for q, (expected_distances, expected_indices) in enumerate(expected):
        np.testing.assert_array_equal(indices[q], expected_indices)
        # A root of rounding is what is left where two features almost meet.
        np.testing.assert_allclose(distances[q], expected_distances, rtol=1e-10, atol=1e-7)


@cache
def pair_counts(word):
    return Counter(successive(word))


def shared_pairs(a, b):
    """How often two strings have a pair of letters in common: an inner product of counts."""
    here, there = pair_counts(a), pair_counts(b)
    return float(sum(count * there[pair] for pair, count in here.items()))


def words(n, seed=0):
    """Misspelt copies of a few words, with many duplicates and ties."""
    rng = np.random.default_rng(seed)
    roots = ["gaussian", "process", "landmark", "neighbour", "distance"]
    made = []
    for _ in range(n):
        letters = list(roots[rng.integers(len(roots))])
        for _ in range(rng.integers(3)):
            letters[rng.integers(len(letters))] = "abcde"[rng.integers(5)]
        made.append("".join(letters))
    return made


def clusters(m, seed=0, d=3, spread=0.05):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(6, d))
    return centres[rng.integers(6, size=m)] + spread * rng.normal(size=(m, d))


KERNELS = {
    "rbf": (RBF(0.8), lambda A, B: oracles.kernel_matrix("gaussian", 0.8, A, B)),
    "narrow rbf": (RBF(0.05), lambda A, B: oracles.kernel_matrix("gaussian", 0.05, A, B)),
    "wide rbf": (RBF(40.0), lambda A, B: oracles.kernel_matrix("gaussian", 40.0, A, B)),
    "matern": (Matern(0.8, nu=0.5), lambda A, B: oracles.kernel_matrix("exponential", 0.8, A, B)),
    "dot": (DotProduct(0.5), lambda A, B: oracles.kernel_matrix("inner product", 0.5, A, B)),
}


class TestAgainstBruteForce:
    @pytest.mark.parametrize("name", KERNELS)
    @pytest.mark.parametrize("form", ["float64", "float32", "csr"])
    def test_numbers(self, name, form):
        kernel, oracle = KERNELS[name]
        X, new = clusters(40), clusters(7, seed=1)
        X[17] = X[3]
        new[4] = X[3]
        if form == "float32":
            X, new = X.astype(np.float32), new.astype(np.float32)
        given_X, given_new = (
            (sparse.csr_matrix(X), sparse.csr_matrix(new)) if form == "csr" else (X, new)
        )
        search = SpanNeighbors(kernel, n_components=10, random_state=0).fit(given_X)
        X, new = X.astype(float), new.astype(float)
        K, cross = oracle(X, X), oracle(new, X)
        inside, outside = np.diag(K), np.diag(oracle(new, new))
        for k in (1, 4, 39):
            assert_same(
                search.kneighbors(n_neighbors=k), brute_force(K, inside, inside, k=k, itself=True)
            )
        for k in (1, 4, 40):
            assert_same(search.kneighbors(given_new, k), brute_force(cross, outside, inside, k=k))
        for radius in (0.0, 0.3, 10.0):
            expected = brute_force(cross, outside, inside, radius=radius)
            assert_same(search.radius_neighbors(given_new, radius, sort_results=True), expected)

    @given(
        seed=st.integers(0, 2**32 - 1),
        m=st.integers(1, 40),
        d=st.integers(1, 3),
        n_components=st.integers(1, 45),
        k=st.integers(1, 40),
        name=st.sampled_from(sorted(KERNELS)),
    )
    def test_grids_full_of_ties_and_duplicates(self, seed, m, d, n_components, k, name):
        kernel, oracle = KERNELS[name]
        rng = np.random.default_rng(seed)
        X = rng.integers(-2, 3, size=(m, d)).astype(float)
        new = rng.integers(-2, 3, size=(3, d)).astype(float)
        K, cross, outside = oracle(X, X), oracle(new, X), np.diag(oracle(new, new))
        inside = np.diag(K)
        search = SpanNeighbors(kernel, n_components=n_components, random_state=0).fit(X)
        k = min(k, m)
        assert_same(search.kneighbors(new, k), brute_force(cross, outside, inside, k=k))
        radius = float(np.sqrt(K[0, 0]))
        assert_same(
            search.radius_neighbors(new, radius, sort_results=True),
            brute_force(cross, outside, inside, radius=radius),
        )
        if m > 1:
            k = min(k, m - 1)
            assert_same(
                search.kneighbors(n_neighbors=k), brute_force(K, inside, inside, k=k, itself=True)
            )

    def test_strings(self):
        rows, new = words(80), words(8, seed=1)
        K = np.array([[shared_pairs(a, b) for b in rows] for a in rows])
        cross = np.array([[shared_pairs(a, b) for b in rows] for a in new])
        inside, outside = np.diag(K), np.array([shared_pairs(a, a) for a in new])
        search = SpanNeighbors(pairwise(shared_pairs), n_components=30, random_state=0).fit(rows)
        for k in (1, 5, 79):
            assert_same(
                search.kneighbors(n_neighbors=k), brute_force(K, inside, inside, k=k, itself=True)
            )
        assert_same(search.kneighbors(new, 7), brute_force(cross, outside, inside, k=7))
        for radius in (0.0, 2.0, np.sqrt(6.0)):
            assert_same(
                search.radius_neighbors(new, radius, sort_results=True),
                brute_force(cross, outside, inside, radius=radius),
            )

    def test_precomputed_is_the_same_search(self):
        rows, new = words(80), words(5, seed=1)
        kernel = pairwise(shared_pairs)
        K, cross, outside = kernel(rows, rows), kernel(new, rows), kernel.diag(new)
        by_items = SpanNeighbors(kernel, n_components=20, random_state=0).fit(rows)
        by_matrix = SpanNeighbors("precomputed", n_components=20, random_state=0).fit(K)
        for got, expected in (
            (by_matrix.kneighbors(), by_items.kneighbors()),
            (by_matrix.kneighbors(cross, diagonal=outside), by_items.kneighbors(new)),
            (by_matrix.kneighbors(K), by_items.kneighbors(rows)),
        ):
            np.testing.assert_array_equal(got[0], expected[0])
            np.testing.assert_array_equal(got[1], expected[1])

    def test_a_single_matrix_of_float32(self):
        X = clusters(50)
        K = oracles.kernel_matrix("gaussian", 0.8, X, X).astype(np.float32)
        D2 = np.diag(K)[:, None] + np.diag(K) - 2.0 * K.astype(float)
        np.fill_diagonal(D2, np.inf)
        search = SpanNeighbors("precomputed", n_components=20, random_state=0).fit(K)
        distances, indices = search.kneighbors(n_neighbors=3)
        # Distances of float32 values are ties in float64's eyes: compare them, not their rows.
        expected = np.sort(D2, axis=1)[:, :3]
        tolerance = 50 * np.finfo(np.float32).eps
        np.testing.assert_allclose(distances**2, expected, atol=tolerance)
        found = np.take_along_axis(D2, indices, axis=1)
        np.testing.assert_allclose(found, expected, atol=tolerance)

    def test_features_that_are_all_the_same(self):
        search = SpanNeighbors(lambda A, B: np.zeros((len(A), len(B))), n_neighbors=3)
        distances, indices = search.fit(np.ones((5, 2))).kneighbors()
        np.testing.assert_array_equal(distances, 0.0)
        np.testing.assert_array_equal(indices[0], [1, 2, 3])
        assert search.n_components_ == 0

    def test_white_terms_are_left_out(self):
        X = clusters(30)
        with_noise = SpanNeighbors(RBF(0.8) + WhiteKernel(0.5), random_state=0).fit(X)
        without = SpanNeighbors(RBF(0.8), random_state=0).fit(X)
        np.testing.assert_array_equal(with_noise.kneighbors()[0], without.kneighbors()[0])

    def test_coordinates_not_held_while_choosing_are_formed_afterwards(self, monkeypatch):
        X = clusters(60)
        held = SpanNeighbors(RBF(0.8), n_components=10, random_state=0).fit(X).kneighbors()
        monkeypatch.setattr(limits, "STORED_NUMBERS", 100)
        formed = SpanNeighbors(RBF(0.8), n_components=10, random_state=0).fit(X).kneighbors()
        np.testing.assert_array_equal(held, formed)


class TestResults:
    def test_neither_threads_nor_seed_change_a_bit(self):
        X, new = clusters(700), clusters(150, seed=1)
        first = SpanNeighbors(RBF(0.8), n_components=20, n_jobs=1, random_state=0).fit(X)
        expected = first.kneighbors(new)
        for options in ({"n_jobs": 3, "random_state": 0}, {"n_jobs": 1, "random_state": 7}):
            again = SpanNeighbors(RBF(0.8), n_components=20, **options).fit(X)
            for got, wanted in zip(again.kneighbors(new), expected, strict=True):
                np.testing.assert_array_equal(got, wanted)
            if options["n_jobs"] > 1:
                np.testing.assert_array_equal(again.component_indices_, first.component_indices_)
                assert again.cost_ == first.cost_

    def test_order_of_the_rows_is_irrelevant(self):
        X = clusters(80)
        order = np.random.default_rng(1).permutation(80)
        distances, indices = SpanNeighbors(RBF(0.8), random_state=0).fit(X).kneighbors()
        shuffled = SpanNeighbors(RBF(0.8), random_state=0).fit(X[order])
        same_distances, numbers = shuffled.kneighbors()
        np.testing.assert_array_equal(same_distances, distances[order])
        np.testing.assert_array_equal(order[numbers], indices[order])

    def test_what_is_returned_by_default(self):
        X = clusters(30)
        search = SpanNeighbors(RBF(0.8), n_neighbors=3, radius=0.2, random_state=0).fit(X)
        distances, indices = search.kneighbors(X[:4])
        assert distances.shape == indices.shape == (4, 3)
        assert indices.dtype == np.intp
        np.testing.assert_array_equal(indices[:, 0], range(4))
        np.testing.assert_array_equal(distances[:, 0], 0.0)
        np.testing.assert_array_equal(search.kneighbors(X[:4], return_distance=False), indices)
        near, numbers = search.radius_neighbors(X[:4])
        assert near.dtype == numbers.dtype == object
        for q in range(4):
            assert np.all(np.diff(numbers[q]) > 0)
            assert np.all(near[q] <= 0.2)
        assert all(q not in found for q, found in enumerate(search.radius_neighbors()[1]))

    def test_graphs_hold_what_the_searches_find(self):
        X = clusters(40)
        X[7] = X[2]
        search = SpanNeighbors(RBF(0.8), n_neighbors=4, radius=0.15, random_state=0).fit(X)
        distances, indices = search.kneighbors()
        graph = search.kneighbors_graph(mode="distance")
        assert graph.shape == (40, 40)
        assert graph.nnz == 160  # the zero between rows 2 and 7 is stored
        np.testing.assert_array_equal(graph.indices.reshape(40, 4), indices)
        np.testing.assert_array_equal(graph.data.reshape(40, 4), distances)
        ones = search.kneighbors_graph()
        np.testing.assert_array_equal(ones.indices, graph.indices)
        np.testing.assert_array_equal(ones.data, 1.0)
        near, numbers = search.radius_neighbors(X[:9], sort_results=True)
        graph = search.radius_neighbors_graph(X[:9], mode="distance", sort_results=True)
        np.testing.assert_array_equal(graph.indices, np.concatenate(list(numbers)))
        np.testing.assert_array_equal(graph.data, np.concatenate(list(near)))
        ones = search.radius_neighbors_graph(X[:9])
        np.testing.assert_array_equal(ones.indptr, graph.indptr)
        for q in range(9):
            np.testing.assert_array_equal(ones[q].indices, np.sort(numbers[q]))
        assert search.radius_neighbors_graph(X[:3], 0.0).toarray()[2].nonzero()[0].tolist() == [
            2,
            7,
        ]


class TestInScikitLearn:
    def test_transform_is_that_of_their_transformer(self):
        """RBF distances grow with Euclidean ones, so both find the same rows."""
        X, new = clusters(50), clusters(6, seed=1)
        ours = SpanNeighbors(RBF(0.8), n_neighbors=4, random_state=0)
        theirs = KNeighborsTransformer(n_neighbors=4, mode="distance")
        for got, expected in (
            (ours.fit_transform(X), theirs.fit_transform(X)),
            (ours.transform(new), theirs.transform(new)),
        ):
            np.testing.assert_array_equal(got.indices, expected.indices)
            np.testing.assert_array_equal(got.indptr, expected.indptr)
            features = np.sqrt(-2 * np.expm1(-(expected.data**2) / (2 * 0.8**2)))
            np.testing.assert_allclose(got.data, features, rtol=1e-7, atol=1e-7)
        assert ours.get_feature_names_out()[-1] == "spanneighbors49"

    def test_classifier_of_strings_in_a_pipeline(self):
        rows, new = words(150), words(30, seed=1)
        labels = [word[-1] for word in rows]
        pipeline = make_pipeline(
            SpanNeighbors(pairwise(shared_pairs), n_neighbors=5, random_state=0),
            KNeighborsClassifier(n_neighbors=5, metric="precomputed"),
        ).fit(rows, labels)
        kernel = pairwise(shared_pairs)
        D2 = kernel.diag(new)[:, None] + kernel.diag(rows) - 2 * kernel(new, rows)
        nearest = np.argsort(D2, axis=1, kind="stable")[:, :5]
        expected = []
        for found in nearest:
            votes = [labels[i] for i in found]
            expected.append(min(set(votes), key=lambda label: (-votes.count(label), label)))
        np.testing.assert_array_equal(pipeline.predict(new), expected)

    def test_copies_and_data_frames(self):
        X = pd.DataFrame(clusters(40), columns=["a", "b", "c"])
        search = SpanNeighbors(RBF(0.8), random_state=0).fit(X)
        assert list(search.feature_names_in_) == ["a", "b", "c"]
        expected = search.kneighbors(X[:5])
        for copy in (pickle.loads(pickle.dumps(search)), clone(search).fit(X)):
            np.testing.assert_array_equal(copy.kneighbors(X[:5]), expected)

    def test_says_what_it_costs_only_when_asked(self, capsys):
        X = clusters(30)
        SpanNeighbors(random_state=0).fit(X).kneighbors()
        assert capsys.readouterr().out == ""
        SpanNeighbors(random_state=0, verbose=1).fit(X).kneighbors()
        assert "of 870 pairs evaluated" in capsys.readouterr().out


class Counted:
    """A kernel on blocks that counts its values."""

    def __init__(self):
        self.entries = 0

    def __call__(self, A, B):
        self.entries += len(A) * len(B)
        return pairwise(shared_pairs)(A, B)


class TestCost:
    def test_every_kernel_value_is_in_the_account(self):
        rows, new = words(100), words(10, seed=1)
        kernel = Counted()
        search = SpanNeighbors(kernel, n_components=20, random_state=0).fit(rows)
        cost = search.cost_
        assert cost.index_entries == kernel.entries
        assert np.isnan(cost.share)
        kernel.entries = 0
        before = dict(vars(search))
        *_, cost = search.kneighbors(return_cost=True)
        assert (cost.evaluated, cost.query_entries) == (kernel.entries, 0)
        assert cost.pairs == 100 * 99
        kernel.entries = 0
        *_, cost = search.radius_neighbors(new, 1.0, return_cost=True)
        assert vars(search) == before
        assert cost.query_entries == 10 * search.n_components_ + 10
        assert cost.evaluated + cost.query_entries == kernel.entries
        assert cost.share == cost.evaluated / 1000
        assert f"{cost.evaluated} of 1000 pairs" in str(cost)

    def test_few_pairs_are_left_in_doubt(self):
        search = SpanNeighbors(RBF(0.8), n_components=30, random_state=0).fit(clusters(600))
        *_, cost = search.kneighbors(return_cost=True)
        assert cost.share < 0.1

    def test_more_landmarks_leave_fewer(self):
        X = clusters(400, spread=0.3)
        shares = []
        for n in (5, 20, 80):
            search = SpanNeighbors(RBF(0.8), n_components=n, random_state=0).fit(X)
            assert search.n_components_ == n == len(set(search.component_indices_))
            *_, cost = search.kneighbors(return_cost=True)
            shares.append(cost.share)
        assert shares[0] > shares[1] > shares[2]

    def test_rows_surely_within_the_radius_are_not_evaluated(self):
        X = clusters(200)
        search = SpanNeighbors(RBF(0.8), n_components=30, random_state=0).fit(X)
        _, indices, full = search.radius_neighbors(radius=0.5, return_cost=True)
        again, cost = search.radius_neighbors(radius=0.5, return_distance=False, return_cost=True)
        assert cost.evaluated < 0.1 * full.evaluated
        for found, expected in zip(again, indices, strict=True):
            np.testing.assert_array_equal(found, expected)

    def test_digits(self, data_dir, size):
        X, _, new, _ = load_usps(split=0, return_X_y=True)
        new = new[: size(200, 2007)]
        search = SpanNeighbors("rbf", gamma=1 / 128, n_components=200, random_state=0).fit(X)
        _, indices, cost = search.kneighbors(new, return_cost=True)
        peer = NearestNeighbors(algorithm="brute").fit(X.astype(float))
        np.testing.assert_array_equal(indices, peer.kneighbors(new, return_distance=False))
        assert cost.share < 0.05


class TestBadInput:
    def test_counts(self):
        search = SpanNeighbors(random_state=0).fit(clusters(6))
        with pytest.raises(
            ValueError, match="n_neighbors=6 is more than the 5 training rows other"
        ):
            search.kneighbors(n_neighbors=6)
        with pytest.raises(ValueError, match="n_neighbors=7 is more than the 6 training rows:"):
            search.kneighbors(clusters(2), 7)
        for wrong in (0, -1, 2.5, True, "3"):
            with pytest.raises(ValueError, match="n_neighbors must be a whole number, at least 1"):
                search.kneighbors(n_neighbors=wrong)
        with pytest.raises(ValueError, match="itself and n_neighbors=6 others, but there are"):
            search.set_params(n_neighbors=6).transform(clusters(2))

    @pytest.mark.parametrize("wrong", [-0.1, np.nan, -np.inf, "1"])
    def test_radius(self, wrong):
        search = SpanNeighbors(random_state=0).fit(clusters(6))
        with pytest.raises(ValueError, match="radius must be a number, at least 0"):
            search.radius_neighbors(radius=wrong)

    def test_mode(self):
        search = SpanNeighbors(random_state=0).fit(clusters(6))
        for graph in (search.kneighbors_graph, search.radius_neighbors_graph):
            with pytest.raises(ValueError, match="mode must be 'connectivity' or 'distance'"):
                graph(mode="distances")

    def test_constructor(self):
        for wrong in ({"n_components": 0}, {"n_neighbors": 0}, {"radius": -1.0}):
            with pytest.raises(ValueError, match=next(iter(wrong))):
                SpanNeighbors(**wrong).fit(clusters(6))

    def test_a_single_string(self):
        search = SpanNeighbors(pairwise(shared_pairs), random_state=0).fit(words(10))
        with pytest.raises(TypeError, match="X is a single string: pass a list of items"):
            search.kneighbors("gaussian", 1)

    def test_queries_of_another_width(self):
        search = SpanNeighbors(random_state=0).fit(clusters(6))
        with pytest.raises(ValueError, match="X has 2 features"):
            search.kneighbors(np.zeros((3, 2)))

    def test_matrices_that_are_no_kernel(self):
        K = np.eye(5)
        K[1, 3] = 0.5
        with pytest.raises(ValueError, match=r"not symmetric: k\(row 1, row 3\) = 0.5"):
            SpanNeighbors("precomputed").fit(K)
        with pytest.raises(ValueError, match="needs a square kernel matrix"):
            SpanNeighbors("precomputed").fit(K[:4])
        with pytest.raises(ValueError, match=r"positive semi-definite: row 2 .*\(-1\)"):
            SpanNeighbors("precomputed").fit(np.diag([1.0, 1.0, -1.0]))
        K = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]])
        with pytest.raises(ValueError, match=r"positive semi-definite: row [012] "):
            SpanNeighbors("precomputed").fit(K)

    def test_an_indefinite_kernel_shows_at_a_row_of_many(self):
        m = 300
        K = np.eye(m)
        K[200, 250] = K[250, 200] = 1.5
        search = SpanNeighbors("precomputed", n_components=m, random_state=0)
        with pytest.raises(ValueError, match=r"positive semi-definite: row (200|250) "):
            search.fit(K)

    def test_an_indefinite_kernel_that_shows_in_a_search(self):
        X = np.arange(200.0).reshape(-1, 1)

        def kernel(A, B):
            return np.exp(-((A - B.T) ** 2)) + 2.0 * ((A == 7.5) | (B.T == 7.5)) * (A != B.T)

        search = SpanNeighbors(kernel, n_components=5, random_state=0).fit(X)
        with pytest.raises(ValueError, match="positive semi-definite: query 1 has k"):
            search.kneighbors(np.array([[3.0], [7.5]]))

    def test_two_rows_more_alike_than_each_is_to_itself(self):
        X = np.arange(200.0).reshape(-1, 1)

        def kernel(A, B):
            return np.exp(-((A - B.T) ** 2)) + 0.8 * ((A + B.T == 101.0) & (abs(A - B.T) == 1.0))

        search = SpanNeighbors(kernel, n_components=2, random_state=0).fit(X)
        with pytest.raises(ValueError, match=r"positive semi-definite: row (50|51) "):
            search.kneighbors(n_neighbors=1)

    def test_an_asymmetric_function(self):
        with pytest.raises(ValueError, match="kernel is not symmetric"):
            SpanNeighbors(lambda A, B: 1.0 + (A[:, :1] > B[:, :1].T)).fit(clusters(10))

    def test_new_rows_of_a_matrix_need_their_diagonal(self):
        X, new = clusters(20), clusters(4, seed=1)
        K, cross = X @ X.T, new @ X.T
        search = SpanNeighbors("precomputed", random_state=0).fit(K)
        with pytest.raises(ValueError, match="pass it as diagonal="):
            search.kneighbors(cross)
        with pytest.raises(ValueError, match="a finite number for each of the 4 rows"):
            search.kneighbors(cross, diagonal=np.ones(3))
        with pytest.raises(ValueError, match="numbers in diagonal"):
            search.kneighbors(cross, diagonal=np.zeros(4))
        with pytest.raises(ValueError, match="diagonal is for new rows"):
            search.kneighbors(diagonal=np.diag(K))
        expected = SpanNeighbors("linear", random_state=0).fit(X).kneighbors(new)
        found = search.kneighbors(cross, diagonal=(new**2).sum(axis=1))
        np.testing.assert_array_equal(found[1], expected[1])
        np.testing.assert_allclose(found[0], expected[0], atol=1e-7)

    def test_a_constant_diagonal_is_that_of_new_rows(self):
        X, new = clusters(20), clusters(4, seed=1)
        K, cross = (oracles.kernel_matrix("gaussian", 0.8, A, X) for A in (X, new))
        search = SpanNeighbors("precomputed", random_state=0).fit(K)
        expected = SpanNeighbors(RBF(0.8), random_state=0).fit(X).kneighbors(new)
        np.testing.assert_array_equal(search.kneighbors(cross)[1], expected[1])

    def test_not_fitted(self):
        from sklearn.exceptions import NotFittedError

        for call in ("kneighbors", "radius_neighbors", "kneighbors_graph"):
            with pytest.raises(NotFittedError):
                getattr(SpanNeighbors(), call)()
