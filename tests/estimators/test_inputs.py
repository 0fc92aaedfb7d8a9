"""What a user may pass as rows and kernels: the same answer in every dress."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.gaussian_process.tests._mini_sequence_kernel import MiniSeqKernel
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel

from pursuit import (
    Additive,
    Categorical,
    Search,
    SparseGPRegressor,
    SparseKernelPCA,
    on_columns,
    pairwise,
)
from pursuit.estimators.inputs import feature_deviations
from pursuit.rows import Sample, as_rows

fixed_gp = partial(SparseGPRegressor, optimizer=None)
"""The kernel is used as given."""


def letter_counts(word):
    return np.array([word.count(letter) for letter in "abcd"], dtype=float)


def word_similarity(a, b, width=3.0):
    return float(np.exp(-np.sum((letter_counts(a) - letter_counts(b)) ** 2) / width))


def word_block(A, B, width=3.0):
    return np.array([[word_similarity(a, b, width) for b in B] for a in A])


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(0)
    items = ["".join(rng.choice(list("abcd"), rng.integers(1, 7))) for _ in range(60)]
    y = np.array([w.count("a") - 0.5 * w.count("b") for w in items]) + 0.1 * rng.normal(size=60)
    return items, y


def assert_same_predictions(one, other, rows_one, rows_other=None, rtol=1e-8):
    rows_other = rows_one if rows_other is None else rows_other
    for got, expected in zip(
        one.predict(rows_one, return_std=True),
        other.predict(rows_other, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(got, expected, rtol=rtol)


# Arrays, sparse matrices, frames


def test_float32_rows_give_the_float64_answer(waves, rough_kernel):
    data = waves(120)
    X, new = data.X.astype(np.float32), data.new.astype(np.float32)
    single = fixed_gp(rough_kernel, noise=0.1, n_basis=30).fit(X, data.y)
    double = fixed_gp(rough_kernel, noise=0.1, n_basis=30).fit(X.astype(np.float64), data.y)
    np.testing.assert_array_equal(single.basis_indices_, double.basis_indices_)
    assert_same_predictions(single, double, new, new.astype(np.float64), rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", np.float32])
def test_float32_tiles_are_close(waves, rough_kernel, dtype):
    data = waves(2300)
    arguments = {"noise": 0.1, "n_basis": 40, "random_state": 0}
    double = fixed_gp(rough_kernel, **arguments).fit(data.X, data.y)
    single = fixed_gp(rough_kernel, dtype=dtype, **arguments).fit(data.X, data.y)
    assert set(single.basis_indices_) == set(double.basis_indices_)
    assert_same_predictions(single, double, data.new, rtol=1e-3)


@pytest.mark.parametrize(
    "container",
    [sparse.csr_matrix, sparse.csr_array, sparse.csc_array, sparse.coo_array],
    ids=lambda c: c.__name__,
)
@pytest.mark.parametrize("kernel", [None, RBF(0.7), "linear", "laplacian"], ids=str)
@pytest.mark.parametrize("search", ["pooled", "fresh", "full"])
def test_sparse_rows_give_the_dense_answer(waves, container, kernel, search):
    data = waves(80)
    X = np.where(np.abs(data.X) > 0.7, data.X, 0.0)
    arguments = {"noise": 0.1, "n_basis": 12, "search": search, "random_state": 0}
    dense = fixed_gp(kernel, **arguments).fit(X, data.y)
    thin = fixed_gp(kernel, **arguments).fit(container(X), data.y)
    np.testing.assert_array_equal(thin.basis_indices_, dense.basis_indices_)
    assert_same_predictions(thin, dense, container(data.new), data.new)
    assert_same_predictions(thin, dense, data.new, container(data.new))
    assert thin.certificate_.lower == pytest.approx(dense.certificate_.lower, rel=1e-6)


def test_sparse_candidates(waves):
    data = waves(80)
    points = np.where(np.abs(data.new) > 0.7, data.new, 0.0)
    arguments = {"noise": 0.1, "n_basis": 10}
    dense = fixed_gp(RBF(0.7), search=Search(candidates=points), **arguments).fit(data.X, data.y)
    thin = fixed_gp(RBF(0.7), search=Search(candidates=sparse.csr_array(points)), **arguments)
    thin.fit(sparse.csr_array(data.X), data.y)
    assert_same_predictions(thin, dense, data.new)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames(waves, frame):
    data = waves(80)
    train = frame({"height": data.X[:, 0], "width": data.X[:, 1]})
    new = frame({"height": data.new[:, 0], "width": data.new[:, 1]})
    series = pd.Series(data.y) if frame is pd.DataFrame else pl.Series(data.y)
    model = SparseGPRegressor(n_basis=20, random_state=0).fit(train, series)
    assert list(model.feature_names_in_) == ["height", "width"]
    assert model.n_features_in_ == 2
    plain = SparseGPRegressor(n_basis=20, random_state=0).fit(data.X, data.y)
    assert_same_predictions(model, plain, new, data.new, rtol=1e-12)
    assert model.certify(train, series).upper == pytest.approx(model.certificate_.upper)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame({"width": data.new[:, 1], "height": data.new[:, 0]}))


def test_a_frame_of_targets_is_multi_output(waves):
    data = waves(50, n_outputs=2)
    model = SparseGPRegressor(n_basis=10).fit(data.X, pd.DataFrame(data.y, columns=["a", "b"]))
    assert model.predict(data.new).shape == (25, 2)


def test_lists_and_integers(waves):
    data = waves(40)
    X = np.round(3 * data.X).astype(int)
    model = SparseGPRegressor(n_basis=10, random_state=0)
    from_array = model.fit(X, data.y).predict(X)
    from_lists = model.fit(X.tolist(), data.y.tolist()).predict(X.tolist())
    np.testing.assert_array_equal(from_array, from_lists)


# Kernels


@pytest.mark.parametrize(
    ("name", "parameters", "function"),
    [
        ("rbf", {}, rbf_kernel),
        ("rbf", {"gamma": 0.7}, rbf_kernel),
        ("laplacian", {"gamma": 0.3}, laplacian_kernel),
        ("poly", {"degree": 2, "coef0": 0.5, "gamma": 0.2}, polynomial_kernel),
    ],
    ids=["rbf", "gamma", "laplacian", "poly"],
)
def test_named_kernels_are_those_of_scikit_learn(waves, name, parameters, function):
    data = waves(60)
    named = SparseGPRegressor(name, noise=0.1, n_basis=15, **parameters).fit(data.X, data.y)
    by_dict = SparseGPRegressor(name, noise=0.1, n_basis=15, kernel_params=parameters)
    called = SparseGPRegressor(function, noise=0.1, n_basis=15, kernel_params=parameters)
    assert_same_predictions(named, called.fit(data.X, data.y), data.new)
    assert_same_predictions(named, by_dict.fit(data.X, data.y), data.new)


@pytest.mark.parametrize("search", ["pooled", "fresh", "full"])
def test_a_precomputed_matrix_is_the_kernel_it_holds(waves, rough_kernel, search):
    data = waves(90)
    arguments = {"noise": 0.1, "n_basis": 20, "search": search, "random_state": 0}
    formula = fixed_gp(rough_kernel, **arguments).fit(data.X, data.y)
    matrix = SparseGPRegressor("precomputed", **arguments).fit(rough_kernel(data.X), data.y)
    assert matrix.basis_ is None
    np.testing.assert_array_equal(matrix.basis_indices_, formula.basis_indices_)
    np.testing.assert_allclose(
        matrix.predict(rough_kernel(data.new, data.X)), formula.predict(data.new), rtol=1e-8
    )
    assert matrix.certificate_.lower == pytest.approx(formula.certificate_.lower, rel=1e-8)


def test_a_precomputed_matrix_with_absent_rows(waves, rough_kernel):
    data = waves(60)
    w = np.where(np.arange(60) % 4 == 0, 0.0, 1.0)
    formula = fixed_gp(rough_kernel, noise=0.1, n_basis=15).fit(data.X, data.y, w)
    matrix = SparseGPRegressor("precomputed", noise=0.1, n_basis=15)
    matrix.fit(rough_kernel(data.X), data.y, w)
    np.testing.assert_allclose(
        matrix.predict(rough_kernel(data.new, data.X)), formula.predict(data.new), rtol=1e-8
    )


def test_a_precomputed_matrix_in_single_precision(waves):
    data = waves(150)
    K = RBF(0.5)(data.X)
    double = SparseGPRegressor("precomputed", noise=0.1, n_basis=10).fit(K, data.y)
    single = SparseGPRegressor("precomputed", noise=0.1, n_basis=10)
    single.fit(K.astype(np.float32), data.y)
    np.testing.assert_allclose(single.predict(K), double.predict(K), atol=1e-4)


@pytest.mark.parametrize("n_basis", [20, 40])
def test_rounding_of_a_single_precision_matrix_is_not_fitted(waves, n_basis, exact_minimum):
    """Pivots below the rounding of the matrix are no basis functions."""
    data = waves(150)
    K, Y = RBF(2.0)(data.X), (data.y - data.y.mean())[:, None] / data.y.std()
    model = SparseGPRegressor("precomputed", noise=0.1, n_basis=n_basis)
    model.fit(K.astype(np.float32), data.y)
    S, beta = model.basis_indices_, model.dual_coef_
    value = 0.5 * np.sum((Y[:, 0] - K[:, S] @ beta) ** 2) + 0.05 * beta @ K[np.ix_(S, S)] @ beta
    found = model.certificate_
    assert found.lower <= found.upper
    assert found.upper == pytest.approx(value, rel=0.02)
    assert found.lower <= exact_minimum(K, Y, 0.1)[0] * 1.001


# Items that are not numbers


@pytest.mark.parametrize("search", ["pooled", "fresh", "full"])
@pytest.mark.parametrize("kernel", [word_block, pairwise(word_similarity)], ids=["block", "pair"])
def test_strings_end_to_end(words, kernel, search):
    items, y = words
    train, new = items[:45], items[45:]
    model = SparseGPRegressor(kernel, noise=0.05, n_basis=15, search=search, random_state=0)
    model.fit(train, y[:45])
    assert not hasattr(model, "n_features_in_")
    assert model.basis_ == [train[i] for i in model.basis_indices_]
    assert model.score(new, y[45:]) > 0.5
    matrix = SparseGPRegressor(
        "precomputed", noise=0.05, n_basis=15, search=search, random_state=0
    ).fit(word_block(train, train), y[:45])
    np.testing.assert_allclose(
        model.predict(new), matrix.predict(word_block(new, train)), rtol=1e-8
    )
    mean, std = model.predict(new, return_std=True)
    _, cov = model.predict(new, return_cov=True)
    np.testing.assert_allclose(std**2, np.diag(cov), rtol=1e-8)
    found = model.certify(train, y[:45])
    assert found.upper == pytest.approx(model.path_.value[-1], rel=1e-8)
    assert found.lower <= found.upper
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(new), mean)
    assert model.sample_y(new[:3], 4).shape == (3, 4)


@pytest.mark.parametrize(
    "dress",
    [tuple, np.array, lambda items: np.array(items, dtype=object), pd.Series],
    ids=["tuple", "array", "object array", "series"],
)
def test_strings_in_other_containers(words, dress):
    items, y = words
    listed = SparseGPRegressor(word_block, noise=0.05, n_basis=10).fit(items, y)
    dressed = SparseGPRegressor(word_block, noise=0.05, n_basis=10).fit(dress(items), y)
    np.testing.assert_array_equal(dressed.predict(dress(items)), listed.predict(items))


def test_parameters_of_a_string_kernel(words):
    items, y = words
    narrow = SparseGPRegressor(word_block, noise=0.05, kernel_params={"width": 0.5})
    wide = SparseGPRegressor(word_block, noise=0.05)
    pair = SparseGPRegressor(pairwise(word_similarity), noise=0.05, kernel_params={"width": 0.5})
    got = narrow.fit(items, y).predict(items)
    np.testing.assert_allclose(got, pair.fit(items, y).predict(items), rtol=1e-10)
    assert np.any(np.abs(got - wide.fit(items, y).predict(items)) > 1e-3)


def test_a_kernel_object_on_strings():
    items = ["AGCT", "AGC", "AACT", "TAA", "AAA", "GAACA"]
    y = np.array([4.0, 3.0, 4.0, 3.0, 3.0, 5.0])
    model = SparseGPRegressor(MiniSeqKernel(0.1), noise=0.1).fit(items, y)
    assert np.all(np.isfinite(model.predict(["GATTACA"])))
    assert isinstance(model.basis_[0], str)


def test_own_strings_as_candidates(words):
    items, y = words
    model = SparseGPRegressor(
        word_block, noise=0.05, search=Search(candidates=["a", "ab", "cd", "bbb"])
    )
    model.fit(items, y)
    assert set(model.basis_) <= {"a", "ab", "cd", "bbb"}
    assert np.all(model.basis_indices_ == -1)


def test_items_without_order_or_hash():
    rng = np.random.default_rng(1)
    sets = [set(rng.choice(8, 3, replace=False).tolist()) for _ in range(30)]
    y = np.array([float(sum(s)) for s in sets])
    model = SparseGPRegressor(pairwise(lambda a, b: float(len(a & b))), noise=0.1).fit(sets, y)
    assert model.n_basis_ <= 8
    assert model.score(sets, y) > 0.9


def test_an_estimator_can_change_from_numbers_to_words(words, waves):
    data, (items, y) = waves(40), words
    model = SparseGPRegressor(n_basis=10).fit(data.X, data.y)
    model.set_params(kernel=word_block).fit(items, y)
    assert not hasattr(model, "n_features_in_")
    assert model.predict(items).shape == (60,)


def test_numbers_for_a_callable_are_rows(waves):
    data = waves(50)
    called = SparseGPRegressor(lambda A, B: rbf_kernel(A, B, gamma=0.5), noise=0.1, n_basis=20)
    named = SparseGPRegressor("rbf", gamma=0.5, noise=0.1, n_basis=20).fit(data.X, data.y)
    assert_same_predictions(called.fit(data.X, data.y), named, data.new)
    assert_same_predictions(called.fit(data.X.tolist(), data.y), named, data.new.tolist())
    assert called.n_features_in_ == 2


# Scales of features


def deviations_of(X, w=None):
    w = np.ones(len(X)) if w is None else w
    sample = Sample(as_rows(X), np.zeros((len(X), 1)), w)
    return feature_deviations(sample, np.random.default_rng(0))


def test_a_code_for_missing_values_does_not_set_the_scale():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 4))
    X[:, 1] = X[:, 1] ** 3  # long tails are no codes
    X[:, 2] = rng.random(1000) < 0.005  # nor are rare events where there is nothing else
    plain = deviations_of(X)
    np.testing.assert_allclose(plain, X.std(axis=0), rtol=1e-12)
    X[3, 0] = X[4, 0] = 1e9
    X[5, 3] = -99_999
    coded = deviations_of(X)
    np.testing.assert_allclose(coded[[0, 3]], plain[[0, 3]], rtol=0.1)
    np.testing.assert_array_equal(coded[[1, 2]], plain[[1, 2]])


def test_scales_take_weights_for_copies():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 2))
    X[:2, 0] = 1e9
    w = rng.integers(0, 4, 300)
    copies = deviations_of(np.repeat(X, w, axis=0))
    np.testing.assert_allclose(deviations_of(X[w > 0], w[w > 0].astype(float)), copies, rtol=1e-12)


def test_a_far_outlier_leaves_the_learned_kernel_alone(waves):
    data = waves(200)
    X = np.array(data.X)
    X[7, 1] = 1e9
    coded = SparseGPRegressor(n_basis=30, random_state=0).fit(X, data.y)
    plain = SparseGPRegressor(n_basis=30, random_state=0).fit(data.X, data.y)
    np.testing.assert_allclose(coded.predict(data.new), plain.predict(data.new), atol=0.2)


def _readings(n=120):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    frame["kind"] = rng.choice(["u", "v"], n)
    return frame, np.sin(frame.a) + frame.b + 2.0 * (frame.kind == "u")


def test_an_additive_kernel_of_some_columns_stands_beside_categories():
    X, y = _readings()
    kernel = Additive(RBF(), columns=["a", "b"]) + ConstantKernel() * Categorical("kind")
    model = SparseGPRegressor(kernel + WhiteKernel(0.01), random_state=0).fit(X, y)
    assert sorted(model.part_names_) == ["Categorical(kind)", "RBF(a)", "RBF(b)", "constant"]
    assert model.part_columns_[model.part_names_.index("Categorical(kind)")] == [2]
    assert model.score(X, y) > 0.99


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("beside", [[], ["a"], ["a", "kind"]])
def test_dates_are_refused_by_name(frame, beside):
    X, y = _readings()
    X["day"] = pd.date_range("2020-01-01", periods=len(X))
    X["late"] = X.day - X.day.min()
    X = X[[*beside, "day", "late"]]
    X = X if frame is pd.DataFrame else pl.from_pandas(X)
    with pytest.raises(ValueError, match="'day', 'late'\\. Turn them into numbers in a unit"):
        SparseGPRegressor().fit(X, y)
    with pytest.raises(ValueError, match="'day', 'late'\\. Turn them into numbers in a unit"):
        SparseKernelPCA().fit(X)


@pytest.mark.parametrize("columns", [None, 0.5, [0.5]])
def test_columns_are_names_or_positions(columns):
    X, y = _readings()
    with pytest.raises(TypeError, match="on_columns takes names or positions of columns, got"):
        SparseGPRegressor(on_columns(RBF(), columns)).fit(X[["a", "b"]], y)
