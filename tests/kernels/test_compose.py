"""Inner products, constants, sums, products and powers, against loops over pairs."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from pursuit.kernels.compose import (
    Constant,
    Power,
    Product,
    Sum,
    Tanh,
    power_of,
    product_of,
    sum_of,
)
from pursuit.kernels.linear import Dot
from pursuit.kernels.stationary import Gaussian, Matern12, Matern32, Stationary

RBF = Stationary(Gaussian(), 1.5, 2.0)
MATERN = Stationary(Matern32(), 0.7)


def rbf(a, b):
    return 2.0 * np.exp(-np.sum((a - b) ** 2) / 4.5)


def matern(a, b):
    r = np.sqrt(3) * np.linalg.norm(a - b) / 0.7
    return (1 + r) * np.exp(-r)


KERNELS = {
    "constant": (Constant(2.5), lambda a, b: 2.5),
    "dot": (Dot(), lambda a, b: a @ b),
    "affine": (Dot(0.5, 2.0), lambda a, b: 0.5 * (a @ b) + 2),
    "sum": (sum_of([RBF, MATERN, Dot()]), lambda a, b: rbf(a, b) + matern(a, b) + a @ b),
    "sum and number": (sum_of([RBF, Constant(3)]), lambda a, b: rbf(a, b) + 3),
    "product": (product_of([RBF, MATERN, Dot()]), lambda a, b: rbf(a, b) * matern(a, b) * (a @ b)),
    "number times dot": (product_of([Constant(3), Dot()]), lambda a, b: 3 * (a @ b)),
    "number times sum": (
        product_of([sum_of([RBF, Dot()]), Constant(0.5)]),
        lambda a, b: (rbf(a, b) + a @ b) / 2,
    ),
    "negative times rbf": (product_of([Constant(-3), RBF]), lambda a, b: -3 * rbf(a, b)),
    "zero times rbf": (product_of([Constant(0), RBF]), lambda a, b: 0.0),
    "square": (power_of(MATERN, 2), lambda a, b: matern(a, b) ** 2),
    "cube": (power_of(Dot(0.5, 1.0), 3), lambda a, b: (0.5 * (a @ b) + 1) ** 3),
    "seventh": (power_of(Dot(0.1, 1.0), 7), lambda a, b: (0.1 * (a @ b) + 1) ** 7),
    "root": (power_of(RBF, 0.5), lambda a, b: rbf(a, b) ** 0.5),
    "inverse": (power_of(RBF, -1), lambda a, b: 1 / rbf(a, b)),
    "nested": (
        sum_of([product_of([RBF, power_of(sum_of([MATERN, Constant(1)]), 2)]), Constant(4)]),
        lambda a, b: rbf(a, b) * (matern(a, b) + 1) ** 2 + 4,
    ),
}


@pytest.fixture
def points():
    rng = np.random.default_rng(5)
    return rng.standard_normal((6, 3)), rng.standard_normal((4, 3))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 2e-5)])
def test_tile_and_diagonal_are_the_formula(points, name, make, dtype, tolerance):
    A, Z = points
    kernel, formula = KERNELS[name]
    expected = np.array([[formula(a, z) for z in Z] for a in A])
    columns = kernel.columns(make(Z), dtype)
    block = columns(make(A))
    assert block.dtype == dtype
    assert columns.n_columns == 4
    np.testing.assert_allclose(block, expected, rtol=tolerance, atol=tolerance)
    out = np.full((6, 4), np.nan, dtype)
    assert columns(make(A), out) is out
    np.testing.assert_array_equal(out, block)
    diagonal = kernel.diag(make(A))
    assert diagonal.dtype == np.float64
    np.testing.assert_allclose(diagonal, [formula(a, a) for a in A], rtol=1e-12, atol=1e-12)


def test_dense_against_sparse_dot(points):
    A, Z = points
    np.testing.assert_allclose(Dot().tile(A, sparse.csr_array(Z)), A @ Z.T, atol=1e-14)
    np.testing.assert_allclose(Dot().tile(sparse.csr_array(A), Z), A @ Z.T, atol=1e-14)


def test_dot_checks_its_input(points):
    with pytest.raises(ValueError, match="same features: 3 columns against 2"):
        Dot().tile(points[0], np.zeros((2, 2)))
    with pytest.raises(TypeError, match="callable kernel"):
        Dot().tile(["a"], points[0])


def test_bound_points_may_change(points):
    A, Z = points
    columns = Dot().columns(Z)
    before = columns(A)
    Z += 1.0
    np.testing.assert_array_equal(columns(A), before)


def test_smallest_trees():
    scaled = product_of([Constant(3.0), RBF])
    assert isinstance(scaled, Stationary)
    assert scaled.variance == 6.0
    assert sum_of([RBF]) is RBF
    dot = Dot()
    assert product_of([dot]) is dot
    assert power_of(RBF, 1.0) is RBF
    assert sum_of([Constant(1.0), Constant(2.0)]) == Constant(3.0)
    assert product_of([Constant(2.0), Constant(4.0)]) == Constant(8.0)
    assert power_of(Constant(2.0), 3) == Constant(8.0)
    flat = sum_of([sum_of([RBF, Constant(1.0)]), sum_of([MATERN, Dot()])])
    assert isinstance(flat, Sum)
    assert flat.terms == (RBF, MATERN, Dot())
    assert flat.offset == 1.0
    product = product_of([product_of([Dot(), Dot()]), Constant(2.0), MATERN])
    assert isinstance(product, Product)
    assert product.factor == 1.0
    assert product.factors[2].variance == 2.0
    negative = product_of([Constant(-1.0), RBF])
    assert isinstance(negative, Product)
    assert negative.factor == -1.0


def test_kink_survives_composition():
    A = 5 * np.random.default_rng(0).standard_normal((20, 3))
    kernel = sum_of([Stationary(Matern12()), product_of([Stationary(Matern12()), RBF])])
    np.testing.assert_allclose(np.diagonal(kernel.tile(A, A)), 3.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "known"),
    [
        (Constant(0.0), True),
        (Constant(-1.0), False),
        (Dot(), True),
        (Dot(-1.0), False),
        (Dot(1.0, -1.0), False),
        (Sum((RBF, MATERN)), True),
        (Sum((RBF, Dot(-1.0))), False),
        (Sum((RBF,), -1.0), False),
        (Product((RBF, MATERN)), True),
        (Product((RBF, Dot(-1.0))), False),
        (Product((RBF,), -2.0), False),
        (Power(RBF, 3), True),
        (Power(RBF, 0.5), False),
        (Power(RBF, -1), False),
        (Power(Dot(-1.0), 2), False),
    ],
)
def test_what_is_known_positive_definite(kernel, known):
    assert kernel.positive_definite is known


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5, 2.0])
def test_powers_where_the_base_is_zero(exponent):
    """Far away a Gaussian underflows: its power has no slope there, and no NaN."""
    kernel = Power(replace(RBF, free=("length_scale",)), exponent)
    A, B = np.array([[0.0, 0.0], [1e4, 0.0]]), np.array([[0.5, 0.0]])
    W = np.ones((2, 1))
    near = kernel.theta(A[:1], B, W[:1]), kernel.points(A[:1], B, W[:1])
    np.testing.assert_allclose(kernel.theta(A, B, W), near[0], rtol=1e-12)
    np.testing.assert_allclose(kernel.points(A, B, W), near[1], rtol=1e-9)
    origin = Power(Dot(), exponent)
    assert np.isfinite(origin.diag_points(np.zeros((1, 2)), np.ones(1))).all()


def test_tanh_far_from_zero():
    """Slopes fall like exp(-2|x|), and do not overflow."""
    kernel = Tanh(Dot())
    A, B = np.array([[1.0], [-1.0]]), np.array([[20.0], [1000.0]])
    gradient = kernel.points(A, B, np.array([[1.0, 1.0], [0.0, 0.0]]))
    np.testing.assert_allclose(gradient[:, 0], [4.0 * np.exp(-40.0), 0.0], rtol=1e-12)
    np.testing.assert_array_equal(kernel.tile(A, B), [[np.tanh(20.0), 1.0], [-np.tanh(20.0), -1.0]])
    assert not kernel.positive_definite
