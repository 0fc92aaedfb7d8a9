"""Distances and their profiles, against loops over pairs."""

from dataclasses import replace
from math import exp, gamma, log1p, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import kv

from pursuit.kernels.base import PAGE, CountingKernel, n_items
from pursuit.kernels.matern import Matern
from pursuit.kernels.stationary import (
    PIECE,
    Gaussian,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    Stationary,
)


def matern(nu, r):
    a = sqrt(2 * nu) * r
    return 2 ** (1 - nu) / gamma(nu) * a**nu * float(kv(nu, a)) if r > 0 else 1.0


FORMULAS = {
    "gaussian": (Gaussian(), lambda r: exp(-(r**2) / 2)),
    "matern12": (Matern12(), lambda r: exp(-r)),
    "matern32": (Matern32(), lambda r: (1 + sqrt(3) * r) * exp(-sqrt(3) * r)),
    "matern52": (Matern52(), lambda r: (1 + sqrt(5) * r + 5 * r**2 / 3) * exp(-sqrt(5) * r)),
    "rational": (RationalQuadratic(0.7), lambda r: (1 + r**2 / 1.4) ** -0.7),
    "matern 0.7": (Matern(0.7), lambda r: matern(0.7, r)),
    "matern 1.2": (Matern(1.2), lambda r: matern(1.2, r)),
    "matern 4": (Matern(4.0), lambda r: matern(4.0, r)),
    "rational, nearly gaussian": (
        RationalQuadratic(1e5),
        lambda r: exp(-1e5 * log1p(r**2 / 2e5)),
    ),
    "cauchy": (RationalQuadratic(1.0), lambda r: 1 / (1 + r**2 / 2)),
}
TOLERANCE = {np.float64: 1e-10, np.float32: 1e-4}

families = pytest.mark.parametrize("family", FORMULAS)


def naive(family, A, B, length_scale=1.0, variance=1.0):
    formula = FORMULAS[family][1]
    A, B = np.asarray(A, dtype=float), np.asarray(B, dtype=float)
    return np.array(
        [[variance * formula(np.linalg.norm((a - b) / length_scale)) for b in B] for a in A]
    ).reshape(len(A), len(B))


def kernel_of(family, length_scale=1.0, variance=1.0):
    return Stationary(FORMULAS[family][0], length_scale, variance)


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@families
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("length_scale", [1.7, np.array([0.5, 2.0, 30.0])])
@pytest.mark.parametrize("variance", [1.0, 0.03, 40.0])
def test_tile_is_the_formula(rng, family, dtype, length_scale, variance):
    A, Z = rng.standard_normal((7, 3)), rng.standard_normal((5, 3))
    kernel = kernel_of(family, length_scale, variance)
    block = kernel.columns(Z, dtype)(A)
    assert block.dtype == dtype
    assert block.flags.c_contiguous
    expected = naive(family, A, Z, length_scale, variance)
    np.testing.assert_allclose(block, expected, rtol=0, atol=TOLERANCE[dtype] * variance)
    np.testing.assert_array_equal(kernel.diag(A), np.full(7, variance))


@families
@given(
    n_rows=st.integers(1, 9),
    n_columns=st.integers(1, 9),
    n_features=st.integers(1, 6),
    spread=st.floats(1e-3, 30.0),
    offset=st.floats(-1e3, 1e3),
    seed=st.integers(0, 2**16),
)
def test_any_shape_and_scale(family, n_rows, n_columns, n_features, spread, offset, seed):
    rng = np.random.default_rng(seed)
    A = offset + spread * rng.standard_normal((n_rows, n_features))
    Z = offset + spread * rng.standard_normal((n_columns, n_features))
    Z[0] = A[0]
    length_scale = rng.uniform(0.5, 3.0, n_features)
    block = kernel_of(family, length_scale).tile(A, Z)
    np.testing.assert_allclose(block, naive(family, A, Z, length_scale), rtol=0, atol=1e-10)


@families
def test_a_tile_of_many_pieces_is_the_tile_of_one(rng, family):
    Z = rng.standard_normal((PIECE // 4 + 1, 2))
    A = rng.standard_normal((11, 2))
    kernel = kernel_of(family)
    whole = kernel.tile(A, Z)
    some = rng.choice(len(Z), 20, replace=False)
    np.testing.assert_allclose(whole[:, some], naive(family, A, Z[some]), rtol=0, atol=1e-10)


@families
def test_a_tile_wider_than_a_piece(rng, family):
    Z = rng.standard_normal((PIECE + 3, 1))
    A = rng.standard_normal((2, 1))
    block = kernel_of(family).tile(A, Z)
    np.testing.assert_allclose(block[:, -5:], naive(family, A, Z[-5:]), rtol=0, atol=1e-10)


@families
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_out_is_filled_and_returned(rng, family, dtype):
    A, Z = rng.standard_normal((6, 4)), rng.standard_normal((3, 4))
    columns = kernel_of(family, variance=2.0).columns(Z, dtype)
    out = np.full((6, 3), np.nan, dtype)
    assert columns(A, out) is out
    np.testing.assert_array_equal(out, columns(A))
    assert columns.n_columns == 3


@families
def test_far_from_the_origin(rng, family):
    A, Z = 1e6 + rng.standard_normal((8, 3)), 1e6 + rng.standard_normal((6, 3))
    # The differences themselves are exact, so the oracle loses nothing to the offset.
    block = kernel_of(family).tile(A, Z)
    np.testing.assert_allclose(block, naive(family, A, Z), rtol=0, atol=1e-10)
    near = kernel_of(family).columns(Z, np.float32)(A)
    np.testing.assert_allclose(near, naive(family, A, Z), rtol=0, atol=1e-4)


@families
@pytest.mark.parametrize(
    ("offset", "make"), [(0.0, np.asarray), (1e6, np.asarray), (0.0, sparse.csr_array)]
)
def test_duplicates_are_at_distance_zero(rng, family, offset, make):
    A = offset + 5 * rng.standard_normal((30, 4))
    items = make(A)
    block = kernel_of(family).tile(items, items)
    np.testing.assert_allclose(np.diagonal(block), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(block, naive(family, A, A), rtol=0, atol=1e-10)


@families
@pytest.mark.parametrize("variance", [0.6, 1.0, 3.0])
@pytest.mark.parametrize("n_columns", [30, PAGE // 8])
def test_no_value_is_above_the_variance(rng, family, variance, n_columns):
    # Rounding leaves some squares of duplicates below 0; the other pieces have no duplicates.
    Z = 3 * rng.standard_normal((n_columns, 4))
    A = np.vstack([Z[:30], Z[:30] + 0.1, Z[:30]])
    bound = kernel_of(family, variance=variance).columns(Z)
    pieces = np.vstack([tile.copy() for _, tile in bound.pieces(A, 30)])
    for block in (bound(A), pieces):
        assert block.max() <= variance * (1.0 + 1e-15)
        np.testing.assert_allclose(block, naive(family, A, Z, 1.0, variance), rtol=0, atol=1e-10)


@families
@pytest.mark.parametrize("gap", [1e-12, 1e-9, 1e-7, 1e-5, 1e-3])
def test_near_duplicates(rng, family, gap):
    A = 5 * rng.standard_normal((20, 4))
    Z = A + gap * rng.standard_normal((20, 4))
    mixtures = [(A, Z), (sparse.csr_array(A), sparse.csr_array(Z))]
    mixtures += [(sparse.csr_array(A), Z), (A, sparse.csr_array(Z))]
    for left, right in mixtures:
        block = kernel_of(family).tile(left, right)
        np.testing.assert_allclose(block, naive(family, A, Z), rtol=0, atol=1e-10)


def test_kink_is_restored_in_float32(rng):
    A = 5 * rng.standard_normal((20, 4))
    block = kernel_of("matern12").columns(A, np.float32)(A)
    np.testing.assert_array_equal(np.diagonal(block), np.ones(20, np.float32))


@families
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("n_features", [1, 3])
@pytest.mark.parametrize("far", ["A", "B", "both"])
def test_squares_beyond_float32(rng, family, make, n_features, far):
    A, B = rng.standard_normal((2, 7, n_features))
    B[:3] = A[:3]
    for name, each in (("A", A), ("B", B)):
        if far in (name, "both"):
            each[[1, 5]] = [[1e25], [1e30]]
    with np.errstate(over="raise", invalid="raise"):
        block = kernel_of(family).columns(make(B), np.float32)(make(A))
    assert block.dtype == np.float32
    np.testing.assert_allclose(block, naive(family, A, B), rtol=0, atol=1e-4)


def test_derivatives_of_squares_beyond_float32(rng):
    A, B = rng.standard_normal((2, 7, 3))
    A[1] = 1e30
    W = rng.standard_normal((7, 7))
    kernel = kernel_of("gaussian")
    with np.errstate(over="raise", invalid="raise"):
        found = kernel.points(A, B, W.astype(np.float32))
    np.testing.assert_allclose(found, kernel.points(A, B, W), rtol=0, atol=1e-5)


def test_one_far_point_costs_the_others_few_digits(rng):
    A = rng.standard_normal((10, 2))
    A[0] = 1e5
    block = kernel_of("matern12").tile(A, A)
    np.testing.assert_allclose(block, naive("matern12", A, A), rtol=0, atol=1e-9)


@families
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "spread",
    [
        lambda A: 1e9 * A,
        lambda A: 1e15 * A,
        lambda A: np.vstack([A, [1e9, 0, 0]]),
        lambda A: A + [0, 1e8, 0],
    ],
    ids=["1e9", "1e15", "outlier", "offset"],
)
def test_thousands_of_length_scales(rng, family, make, dtype, spread):
    """Far from the mean, equal rows are still equal and neighbours still neighbours."""
    A = np.round(rng.standard_normal((6, 3)), 6)
    A[1] = A[0]
    A = spread(A)
    block = kernel_of(family).columns(make(A), dtype)(make(A))
    exact = 1e-7 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(np.diagonal(block), 1.0, rtol=0, atol=exact)
    np.testing.assert_allclose(block, naive(family, A, A), rtol=0, atol=exact)


@families
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.csr_array])
def test_sparse_equals_dense(rng, family, dtype, make):
    A = rng.standard_normal((9, 12)) * (rng.random((9, 12)) < 0.3)
    Z = rng.standard_normal((7, 12)) * (rng.random((7, 12)) < 0.3)
    Z[0] = A[0]
    length_scale = rng.uniform(0.5, 3.0, 12)
    kernel = kernel_of(family, length_scale, 3.0)
    expected = naive(family, A, Z, length_scale, 3.0)
    for left in (A, make(A), make(A.astype(np.float32))):
        for right in (Z, make(Z)):
            block = kernel.columns(right, dtype)(left)
            assert isinstance(block, np.ndarray)
            assert block.dtype == dtype
            rounded = left.dtype == np.float32
            tolerance = 1e-4 if rounded else TOLERANCE[dtype]
            np.testing.assert_allclose(block, expected, rtol=0, atol=3 * tolerance)
    np.testing.assert_array_equal(kernel.diag(make(A)), np.full(9, 3.0))


def test_entries_stored_twice_are_added(rng):
    twice = sparse.csr_matrix(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 3))
    unsummed = sparse.csr_matrix(
        (np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3)
    )
    Z = rng.standard_normal((4, 3))
    kernel = kernel_of("gaussian")
    expected = kernel.tile(twice.toarray(), Z)
    np.testing.assert_allclose(kernel.tile(unsummed, Z), expected, atol=1e-14)
    assert unsummed.nnz == 2, "the user's matrix is left as it was"


@families
def test_float32_data_in_float64_tiles(rng, family):
    A = rng.standard_normal((5, 3)).astype(np.float32)
    block = kernel_of(family).tile(A, A[:2])
    assert block.dtype == np.float64
    np.testing.assert_allclose(block, naive(family, A, A[:2]), rtol=0, atol=1e-10)


def test_whole_numbers_are_numbers():
    A = np.arange(6).reshape(3, 2)
    block = kernel_of("gaussian").tile(A, A)
    np.testing.assert_allclose(block, naive("gaussian", A, A), atol=1e-14)


@families
@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (1, 1)])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_few_rows(rng, family, sizes, make):
    A, Z = rng.standard_normal((sizes[0], 2)), rng.standard_normal((sizes[1], 2))
    block = kernel_of(family).tile(make(A), make(Z))
    np.testing.assert_allclose(block, naive(family, A, Z), rtol=0, atol=1e-12)


def test_inputs_are_left_alone(rng):
    A, Z = rng.standard_normal((4, 2)), rng.standard_normal((3, 2))
    A.flags.writeable = Z.flags.writeable = False
    before = A.copy(), Z.copy()
    kernel_of("matern12").tile(A, Z)
    np.testing.assert_array_equal(A, before[0])
    np.testing.assert_array_equal(Z, before[1])


def test_bound_points_may_change(rng):
    Z = rng.standard_normal((3, 2))
    A = rng.standard_normal((4, 2))
    columns = kernel_of("gaussian").columns(Z)
    before = columns(A)
    Z += 1.0
    np.testing.assert_array_equal(columns(A), before)


@families
def test_positive_definite(rng, family):
    A = rng.standard_normal((25, 2))
    assert kernel_of(family).positive_definite
    assert np.linalg.eigvalsh(kernel_of(family).tile(A, A)).min() > -1e-12


ITEMS = np.zeros((2, 3))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Stationary(Gaussian(), 0.0), "length_scale must be positive and finite"),
        (lambda: Stationary(Gaussian(), np.array([1.0, np.nan])), "length_scale must be positive"),
        (lambda: Stationary(Gaussian(), 1.0, -1.0), "variance must be positive and finite"),
        (lambda: RationalQuadratic(0.0), "alpha must be positive and finite"),
        (
            lambda: Stationary(Gaussian(), np.ones(2)).columns(ITEMS),
            "length_scale has 2 entries but n_features is 3",
        ),
        (
            lambda: Stationary(Gaussian(), np.ones(2)).diag(ITEMS),
            "length_scale has 2 entries but n_features is 3",
        ),
        (
            lambda: Stationary(Gaussian()).tile(np.zeros((2, 4)), ITEMS),
            "same features: 4 columns against 3",
        ),
        (lambda: Stationary(Gaussian()).tile(np.zeros(3), ITEMS), r"2-D array.*reshape\(-1, 1\)"),
        (lambda: Stationary(Gaussian()).columns(ITEMS, np.int64), "dtype must be float32 or"),
        (
            lambda: Stationary(Gaussian()).columns(ITEMS)(ITEMS, np.empty((2, 3))),
            r"out must be a C-contiguous float64 array of shape \(2, 2\), got float64 of shape",
        ),
        (
            lambda: Stationary(Gaussian()).columns(ITEMS)(ITEMS, np.empty((2, 2), np.float32)),
            "out must be a C-contiguous float64 array",
        ),
        (
            lambda: Stationary(Gaussian()).columns(ITEMS)(ITEMS, np.empty((2, 2), order="F")),
            "out must be a C-contiguous float64 array",
        ),
    ],
)
def test_nonsense_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    "items",
    [["a", "b"], np.array(["a", "b"]), np.array([[1, "a"]], dtype=object), [[1.0, 2.0]]],
)
def test_objects_need_a_callable(items):
    kernel = Stationary(Gaussian())
    for call in (lambda: kernel.columns(items), lambda: kernel.diag(items)):
        with pytest.raises(TypeError, match="callable kernel for strings and other objects"):
            call()


def test_number_of_items():
    assert n_items(np.zeros((3, 2))) == 3
    assert n_items(sparse.csr_matrix((4, 2))) == 4
    assert n_items(["a", "b"]) == 2


# Periods, and one feature


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("n_features", [1, 3])
def test_periods_are_the_formula(rng, n_features, make):
    A, Z = rng.standard_normal((7, n_features)), rng.standard_normal((5, n_features))
    Z[:2] = A[:2]
    kernel = Stationary(Periodic(0.9), 0.6, 1.3, n_features=n_features)
    distances = np.sqrt(((A[:, None] - Z[None]) ** 2).sum(axis=2))
    expected = 1.3 * np.exp(-2.0 * (np.sin(np.pi * distances / 0.6) / 0.9) ** 2)
    np.testing.assert_allclose(kernel.tile(make(A), make(Z)), expected, rtol=1e-11)
    single = kernel.columns(make(Z), np.float32)(make(A))
    np.testing.assert_allclose(single, expected, rtol=1e-4)
    np.testing.assert_array_equal(kernel.diag(make(A)), 1.3)
    assert kernel.positive_definite == (n_features == 1)
    assert kernel.length_scales is None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_periods_far_apart(dtype):
    """A million periods away values are those of the same phases nearby, to the last digits."""
    phases = np.arange(16) / 16.0
    Z = np.array([[0.0], [0.25], [0.625]])
    far = (phases + 2.0**20)[:, None]
    kernel = Stationary(Periodic(0.7), 1.0, 1.3)
    expected = 1.3 * np.exp(-2.0 * (np.sin(np.pi * (phases[:, None] - Z[:, 0])) / 0.7) ** 2)
    tolerance = 1e-13 if dtype == np.float64 else 1e-6
    np.testing.assert_allclose(kernel.columns(Z, dtype)(far), expected, rtol=tolerance)
    blocks = kernel.among(np.vstack([far[:4], Z[:1], far[4:7]]), 4)
    np.testing.assert_allclose(blocks[1, 1:, 0], expected[4:7, 0], rtol=1e-13)


def test_derivatives_of_periods_far_apart():
    kernel = Stationary(Periodic(0.7), 1.0, free=("width", "length_scale"))
    A, B = np.array([[2.0**20 + 0.125]]), np.array([[0.0]])
    sine, cosine = np.sin(np.pi / 8), np.cos(np.pi / 8)
    k = np.exp(-2.0 * (sine / 0.7) ** 2)
    slope = k * 4.0 * np.pi * sine * cosine / 0.7**2
    width, period = kernel.theta(A, B, np.ones((1, 1)))
    assert width == pytest.approx(4.0 * sine**2 / 0.7**2 * k, rel=1e-12)
    assert period == pytest.approx(slope * A[0, 0], rel=1e-12)
    assert kernel.points(A, B, np.ones((1, 1)))[0, 0] == pytest.approx(slope, rel=1e-12)


@pytest.mark.parametrize("family", FORMULAS)
def test_one_feature_is_exact(family):
    """Differences are taken before they are squared: a common shift changes nothing."""
    rng = np.random.default_rng(0)
    A, B = (np.round(rng.standard_normal((size, 1)), 2) for size in (6, 4))
    A, B = np.round(A * 64) / 64, np.round(B * 64) / 64
    kernel = kernel_of(family, 0.9, 1.3)
    np.testing.assert_array_equal(kernel.tile(A + 2.0**30, B + 2.0**30), kernel.tile(A, B))
    twice = np.hstack([A, np.zeros_like(A)]), np.hstack([B, np.zeros_like(B)])
    np.testing.assert_allclose(kernel.tile(A, B), kernel.tile(*twice), rtol=1e-12)
    thin = kernel.tile(sparse.csr_matrix(A), sparse.csr_matrix(B))
    np.testing.assert_allclose(kernel.tile(A, B), thin, rtol=1e-12)


@pytest.mark.parametrize("family", FORMULAS)
def test_an_outlier_does_not_spoil_derivatives(family):
    """Cancellation near one row says nothing about the others."""
    rng = np.random.default_rng(1)
    A, B = rng.standard_normal((5, 2)), rng.standard_normal((4, 2))
    W = rng.standard_normal((5, 4))
    kernel = replace(kernel_of(family, 0.9, 1.3), free=("length_scale",))
    far = np.vstack([A, [[1e5, 0.0]]]), np.vstack([W, np.zeros((1, 4))])
    np.testing.assert_allclose(kernel.theta(far[0], B, far[1]), kernel.theta(A, B, W), rtol=1e-4)
    np.testing.assert_allclose(kernel.points(far[0], B, far[1]), kernel.points(A, B, W), rtol=1e-4)


@families
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_pieces_are_the_rows_of_the_block(family, dtype):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((25, 3))
    for n_columns in (7, PAGE // np.dtype(dtype).itemsize):
        Z = rng.standard_normal((n_columns, 3))
        Z[:3] = A[:3]
        bound = kernel_of(family, length_scale=1.3, variance=0.6).columns(Z, dtype)
        found = np.vstack([tile.copy() for _, tile in bound.pieces(A, 10)])
        assert [rows for rows, _ in bound.pieces(A, 10)] == [
            slice(0, 10),
            slice(10, 20),
            slice(20, 25),
        ]
        assert found.dtype == dtype
        few = TOLERANCE[dtype]
        np.testing.assert_allclose(found, bound(A), atol=few)
        np.testing.assert_allclose(found[:, :7], naive(family, A, Z[:7], 1.3, 0.6), atol=few)


@pytest.mark.parametrize(
    "place",
    [sparse.csr_array, lambda X: 1e19 * X, lambda X: X[:, :1], lambda X: X + 1e6],
    ids=["sparse", "out of range", "line", "cancelled"],
)
def test_pieces_of_rows_that_are_not_one_product(place):
    X = place(np.random.default_rng(1).standard_normal((30, 3)))
    kernel = kernel_of("matern12" if np.max(X) > 1e9 else "gaussian")
    for dtype in (np.float64, np.float32):
        bound = kernel.columns(X[:9], dtype)
        found = np.vstack([tile.copy() for _, tile in bound.pieces(X, 8)])
        np.testing.assert_allclose(found, bound(X), atol=TOLERANCE[dtype])


def test_pieces_are_counted():
    kernel = CountingKernel(kernel_of("gaussian"))
    X = np.random.default_rng(2).standard_normal((30, 3))
    for _ in kernel.columns(X[:9]).pieces(X, 8):
        pass
    assert kernel.entries == 30 * 9
