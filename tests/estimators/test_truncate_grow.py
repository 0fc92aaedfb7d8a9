"""Smaller and larger models from a fitted one: the first n functions, or more of them."""

import signal
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import digits_lost
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, Matern

from pursuit import Search, SparseGPRegressor, pairwise

fixed_gp = partial(SparseGPRegressor, optimizer=None)
"""The kernel is used as given."""


def common_letters(a, b):
    return float(len(set(a) & set(b)))


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(0)
    items = ["".join(rng.choice(list("abcdefgh"), 4)) for _ in range(40)]
    return items, np.array([word.count("a") + 0.1 * rng.normal() for word in items])


def fitted(data, kernel, weights=None, **arguments):
    settings = {"noise": 0.2, "n_basis": 12, "random_state": 0, **arguments}
    return fixed_gp(kernel, **settings).fit(data.X, data.y, weights)


def stored(model):
    """Copies of everything that a change of the model would show in."""
    return {
        "basis": None if model.basis_ is None else np.array(model.basis_),
        "index": model.basis_indices_.copy(),
        "coef": model.dual_coef_.copy(),
        "value": model.path_.value.copy(),
        "gap": model.path_.gap.copy(),
        "certificate": model.certificate_,
    }


def assert_unchanged(model, before):
    for name, now in stored(model).items():
        if name == "certificate":
            assert now is before[name]
        else:
            np.testing.assert_array_equal(now, before[name])


def same_points(points, among):
    """Whether each point is one of the others."""
    return all((np.asarray(among) == point).all(axis=1).any() for point in points)


# The first n


@given(
    st.integers(0, 10_000),
    st.sampled_from([RBF(0.3), RBF(2.0), Matern(1.0, nu=0.5)]),
    st.sampled_from(["pooled", "fresh", "full", "foreign"]),
    st.floats(-2, 1).map(lambda power: 10.0**power),
    st.integers(2, 30),
    st.integers(1, 3),
    st.booleans(),
    st.floats(0, 1),
)
def test_the_first_n_are_the_model_fitted_to_them(
    seed, kernel, search, noise, m, n_outputs, weighted, part
):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(m, 2)), 2)
    Y = np.sin(2 * X[:, :1]) + rng.normal(size=(m, n_outputs))
    weights = rng.choice([0.0, 0.5, 3.0], m) if weighted else np.ones(m)
    weights[:2] = 1.0
    where = {
        "search": Search(candidates=rng.normal(size=(20, 2))) if search == "foreign" else search
    }
    whole = fixed_gp(kernel, noise=noise, n_basis=15, random_state=0, **where)
    whole.fit(X, Y, weights)
    n = 1 + int(part * (whole.n_basis_ - 1))
    short = whole.truncated(n)
    again = fixed_gp(
        kernel, noise=noise, n_basis=n, search=Search(candidates=np.asarray(whole.basis_)[:n])
    ).fit(X, Y, weights)
    assert short.n_basis_ == again.n_basis_ == n
    new = rng.normal(size=(8, 2))
    # Statistics that have lost fewer digits than the ridge has are used as they are.
    lost = max(digits_lost(short._solution), digits_lost(again._solution))
    digits = max(1e-7, lost)
    for got, expected in zip(
        short.predict(new, return_std=True), again.predict(new, return_std=True), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=digits, atol=digits)
    assert short.path_.value[-1] == pytest.approx(again.path_.value[-1], rel=max(1e-8, lost))
    np.testing.assert_allclose(short.path_.value, whole.path_.value[:n], rtol=1e-12)
    bounds, expected = short.log_evidence_bounds_, again.log_evidence_bounds_
    assert bounds.lower == pytest.approx(expected.lower, rel=digits)
    # Pivots go down to 1e-8, so tr(WK) - tr A is known to about 1e-7 of tr(WK), and the upper bound
    # moves by at most ½y'Wy/σ⁴ a unit of it.
    total = weights.sum()
    slack = 1e-7 * total * 0.5 * n_outputs * total / noise**2
    assert bounds.upper == pytest.approx(expected.upper, rel=1e-7, abs=slack)


@pytest.mark.parametrize("n_outputs", [None, 2])
def test_a_truncated_model_can_do_everything(waves, rough_kernel, n_outputs):
    data = waves(80, n_outputs=n_outputs)
    whole = fitted(data, rough_kernel)
    before = stored(whole)
    short = whole.truncated(5)
    assert type(short) is SparseGPRegressor
    assert short.get_params() == whole.get_params()
    assert short.certificate_ is None
    assert (short.n_basis_, len(short.path_), len(short.basis_)) == (5, 5, 5)
    np.testing.assert_array_equal(short.basis_indices_, whole.basis_indices_[:5])
    np.testing.assert_array_equal(short.basis_, whole.basis_[:5])
    assert short.dual_coef_.shape == (5, *whole.dual_coef_.shape[1:])
    mean, std = short.predict(data.new, return_std=True)
    assert mean.shape == std.shape == data.y[:25].shape
    assert short.certify(data.X, data.y).upper == pytest.approx(whole.path_.value[4])
    lower, upper = short.std_bounds(data.new, data.X)
    assert np.all(lower <= upper)
    assert short.sample_y(data.new[:3]).shape[0] == 3
    assert_unchanged(whole, before)


def test_truncation_is_nested(waves, rough_kernel):
    data = waves(80)
    whole = fitted(data, rough_kernel)
    direct, twice = whole.truncated(4), whole.truncated(9).truncated(4)
    np.testing.assert_array_equal(twice.basis_indices_, direct.basis_indices_)
    np.testing.assert_array_equal(twice.predict(data.new), direct.predict(data.new))
    all_of_it = whole.truncated(12)
    np.testing.assert_allclose(all_of_it.predict(data.new), whole.predict(data.new), rtol=1e-12)


def test_truncated_words_and_matrices(words, waves, rough_kernel):
    items, y = words
    model = fixed_gp(pairwise(common_letters), noise=0.1, n_basis=6).fit(items, y)
    assert model.truncated(2).basis_ == model.basis_[:2]
    assert model.truncated(2).predict(items[:3]).shape == (3,)
    data = waves(50)
    K = rough_kernel(data.X)
    given_matrix = fixed_gp("precomputed", noise=0.2, n_basis=12).fit(K, data.y)
    short = given_matrix.truncated(4)
    assert short.basis_ is None
    expected = fitted(data, rough_kernel).truncated(4).predict(data.X)
    np.testing.assert_allclose(short.predict(K), expected, rtol=1e-8)


@pytest.mark.parametrize("n", [0, -1, 13, 2.0, "3", None])
def test_truncating_to_nonsense(waves, rough_kernel, n):
    with pytest.raises(ValueError, match=r"n must be a whole number from 1 to 12, got"):
        fitted(waves(60), rough_kernel).truncated(n)


def test_before_fit():
    model = SparseGPRegressor()
    for call in (lambda: model.truncated(1), lambda: model.grow(2, [[0.0]], [0.0])):
        with pytest.raises(NotFittedError):
            call()


# More of them

GROWN = {
    "plain": {},
    "fresh": {"search": "fresh"},
    "full": {"search": "full"},
    "foreign points": {"search": Search(candidates=np.random.default_rng(4).normal(size=(30, 2)))},
    "raw targets": {"normalize_y": False},
}


@pytest.mark.parametrize("situation", GROWN)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_outputs", [None, 2])
def test_growing_keeps_the_basis_and_improves(waves, rough_kernel, situation, weighted, n_outputs):
    data = waves(90, n_outputs=n_outputs)
    weights = np.random.default_rng(3).integers(0, 4, 90) / 2 if weighted else None
    small = fitted(data, rough_kernel, weights, n_basis=8, **GROWN[situation])
    before = stored(small)
    large = small.grow(20, data.X, data.y, weights)
    assert large.n_basis_ == len(large.path_) == len(large.basis_) == 20
    assert same_points(small.basis_, large.basis_)
    assert large.path_.value[-1] < small.path_.value[-1]
    assert large.noise_ == small.noise_
    rows = large.basis_indices_ >= 0
    np.testing.assert_array_equal(large.basis_[rows], data.X[large.basis_indices_[rows]])
    np.testing.assert_array_equal(large.path_.index, large.basis_indices_)
    if weighted:
        assert np.all(weights[large.basis_indices_[rows]] > 0)
    assert_unchanged(small, before)
    found = large.certify(data.X, data.y, weights)
    assert large.certificate_.upper == pytest.approx(found.upper, rel=1e-8)
    assert large.certificate_.upper == pytest.approx(large.path_.value[-1], rel=1e-8)
    assert large.path_.gap[-1] == large.certificate_.relative_gap
    assert large.certificate_.relative_gap < small.certificate_.relative_gap


def test_growing_is_fitting_in_the_span(waves, rough_kernel):
    data = waves(80)
    large = fitted(data, rough_kernel, n_basis=5).grow(15, data.X, data.y)
    again = fitted(data, rough_kernel, search=Search(candidates=large.basis_), n_basis=15)
    np.testing.assert_allclose(large.predict(data.new), again.predict(data.new), rtol=1e-8)
    np.testing.assert_allclose(large.path_.value, again.path_.value, rtol=1e-8)


def test_growing_many_rows(waves, rough_kernel, size):
    """A sketch chooses, all rows fit."""
    data = waves(size(2500, 6000))
    small = fitted(data, rough_kernel, n_basis=10, search=Search(pool_size=40), certificate=None)
    large = small.grow(30, data.X, data.y)
    assert large.n_basis_ == len(set(large.basis_indices_)) == 30
    assert set(small.basis_indices_) <= set(large.basis_indices_)
    assert large.path_.value[-1] < small.path_.value[-1]
    assert large.certificate_ is None
    residual = (data.y - large.predict(data.X)) / np.std(data.y)
    norm = large.dual_coef_ @ rough_kernel(large.basis_) @ large.dual_coef_
    assert large.path_.value[-1] == pytest.approx(0.5 * residual @ residual + 0.1 * norm, rel=1e-8)


def test_growing_words(words):
    items, y = words
    small = fixed_gp(pairwise(common_letters), noise=0.1, n_basis=3).fit(items, y)
    large = small.grow(6, items, y)
    assert large.n_basis_ == 6
    assert set(small.basis_) <= set(large.basis_)
    assert [items[i] for i in large.basis_indices_] == large.basis_
    assert large.path_.value[-1] < small.path_.value[-1]


@pytest.mark.parametrize("weighted", [False, True])
def test_growing_a_given_matrix_is_growing_its_kernel(waves, rough_kernel, weighted):
    data = waves(60)
    weights = np.random.default_rng(3).integers(0, 3, 60) if weighted else None
    K = rough_kernel(data.X)
    arguments = {"noise": 0.2, "n_basis": 8, "random_state": 0}
    called = fixed_gp(rough_kernel, **arguments).fit(data.X, data.y, weights)
    given_matrix = fixed_gp("precomputed", **arguments).fit(K, data.y, weights)
    called, given_matrix = (
        called.grow(20, data.X, data.y, weights),
        given_matrix.grow(20, K, data.y, weights),
    )
    assert given_matrix.basis_ is None
    np.testing.assert_array_equal(given_matrix.basis_indices_, called.basis_indices_)
    np.testing.assert_allclose(given_matrix.predict(K), called.predict(data.X), rtol=1e-7)


def test_growing_past_the_rank_stops_there(waves, rough_kernel):
    data = waves(30)
    large = fitted(data, rough_kernel, n_basis=5).grow(1000, data.X, data.y)
    assert large.n_basis_ == 30
    assert large.path_.stop_reason == "rank"


def test_growing_twice_and_cutting_back(waves, rough_kernel):
    data = waves(60)
    grown = fitted(data, rough_kernel, n_basis=5).grow(10, data.X, data.y)
    twice = grown.grow(20, data.X, data.y)
    assert set(grown.basis_indices_) <= set(twice.basis_indices_)
    short = grown.truncated(3).grow(10, data.X, data.y)
    assert set(grown.basis_indices_[:3]) <= set(short.basis_indices_)


def test_a_row_that_lost_its_weight_stays_a_basis_point(waves, rough_kernel):
    data = waves(60)
    small = fitted(data, rough_kernel, n_basis=6)
    weights = np.ones(60)
    weights[small.basis_indices_[:3]] = 0.0
    large = small.grow(15, data.X, data.y, weights)
    assert same_points(small.basis_, large.basis_)
    chosen = large.basis_indices_[large.basis_indices_ >= 0]
    assert np.all(weights[chosen] > 0)


def test_rows_that_are_not_the_training_rows_get_no_false_number(waves, rough_kernel):
    """A point keeps its number only where the row of that number is the point."""
    data, other = waves(60), waves(40, seed=1)
    large = fitted(data, rough_kernel, n_basis=6).grow(12, other.X, other.y)
    rows = large.basis_indices_ >= 0
    np.testing.assert_array_equal(large.basis_[rows], other.X[large.basis_indices_[rows]])


@pytest.mark.parametrize("n", [12, 0, -3, 20.0, "20", None])
def test_growing_to_nonsense(waves, rough_kernel, n):
    data = waves(60)
    with pytest.raises(ValueError, match=r"n must be a whole number above 12, got"):
        fitted(data, rough_kernel).grow(n, data.X, data.y)


def test_growing_wants_targets_and_features_of_the_fit(waves, rough_kernel):
    data = waves(60)
    model = fitted(data, rough_kernel)
    with pytest.raises(ValueError, match="y is None"):
        model.grow(20, data.X, None)
    with pytest.raises(ValueError, match=r"2 outputs.*fitted with 1"):
        model.grow(20, data.X, np.column_stack([data.y, data.y]))
    with pytest.raises(ValueError, match=r"3 features.*expecting 2 features"):
        model.grow(20, np.ones((60, 3)), data.y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.grow(20, data.X, data.y[:10])


def test_an_interrupt_is_not_swallowed(waves, rough_kernel):
    """There is nothing to return then, and the model at hand stays as it is."""
    data, calls, kernel = waves(60), [], rough_kernel
    outside = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupting(A, B):
        calls.append(len(A))
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return kernel(A, B)

    try:
        model = fixed_gp(interrupting, noise=0.2, n_basis=5)
        calls.extend([0, 0])
        model.fit(data.X, data.y)
        calls.clear()
        with pytest.raises(KeyboardInterrupt):
            model.grow(40, data.X, data.y)
        assert model.n_basis_ == 5
    finally:
        signal.signal(signal.SIGINT, outside)
