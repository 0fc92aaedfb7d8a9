"""Pullbacks of kernels, against finite differences of scikit-learn's own values."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

from pursuit.kernels import PrecomputedKernel, compile_kernel, kernel_gradient, without_white
from pursuit.kernels.stationary import Gaussian

ARD = np.array([0.7, 1.5, 3.0])

LEAVES = {
    "constant": ConstantKernel(2.5),
    "gaussian": RBF(0.8),
    "gaussian, a scale each": RBF(ARD),
    "matern 1/2": Matern(1.3, nu=0.5),
    "matern 1/2, a scale each": Matern(ARD, nu=0.5),
    "matern 3/2": Matern(1.3, nu=1.5),
    "matern 3/2, a scale each": Matern(ARD, nu=1.5),
    "matern 5/2": Matern(1.3, nu=2.5),
    "matern 5/2, a scale each": Matern(ARD, nu=2.5),
    "matern infinity": Matern(ARD, nu=np.inf),
    "rational quadratic": RationalQuadratic(1.2, alpha=0.6),
    "periodic": ExpSineSquared(1.1, 2.3),
    "inner product": DotProduct(1.4),
}

NUMERIC = {
    "matern 0.3": Matern(1.3, nu=0.3),
    "matern 0.8, a scale each": Matern(ARD, nu=0.8),
    "matern 1": Matern(1.3, nu=1.0),
    "matern 1.2, a scale each": Matern(ARD, nu=1.2),
    "matern 7/2": Matern(1.3, nu=3.5),
    "metric rbf": PairwiseKernel(0.4, metric="rbf"),
    "metric linear": PairwiseKernel(0.4, metric="linear"),
    "metric poly": PairwiseKernel(0.4, metric="poly", pairwise_kernels_kwargs={"degree": 2}),
    "metric sigmoid": PairwiseKernel(0.4, metric="sigmoid"),
    "metric laplacian": PairwiseKernel(0.4, metric="laplacian"),
    "metric cosine": PairwiseKernel(0.4, metric="cosine"),
}
"""Kernels whose derivatives scikit-learn takes by differences, to few digits."""

COMPOSED = {
    "constant times": ConstantKernel(2.0) * RBF(ARD),
    "times constant": Matern(ARD, nu=1.5) * ConstantKernel(0.3),
    "constants times": ConstantKernel(2.0) * ConstantKernel(0.5) * RBF(ARD),
    "sum": RBF(ARD) + Matern(0.7, nu=0.5),
    "sum of many": ConstantKernel(2.0) * RBF(ARD) + 0.5 * DotProduct(0.6) + ConstantKernel(0.2),
    "product": RBF(ARD) * Matern(2.0, nu=2.5),
    "product with inner product": DotProduct(0.6) * RationalQuadratic(1.1, alpha=2.0),
    "product of sums": (RBF(0.9) + DotProduct(0.4)) * (Matern(ARD, nu=1.5) + ConstantKernel(0.5)),
    "power": Exponentiation(RBF(ARD), 1.5),
    "root": Exponentiation(ConstantKernel(0.7) * RBF(ARD), 0.5),
    "damped periods": RBF(2.0) * ExpSineSquared(0.8, 1.7),
    "power of inner product": DotProduct(1.1) ** 3,
    "power of a sum": (ConstantKernel(0.7) * RBF(ARD) + DotProduct(0.8)) ** 2,
    "constant times power": ConstantKernel(1.7) * RationalQuadratic(0.9, alpha=1.5) ** 2,
}

FIXED = {
    "scales": ConstantKernel(2.0) * RBF(ARD, "fixed"),
    "constant": ConstantKernel(2.0, "fixed") * RBF(ARD),
    "constant on the right": RBF(ARD) * ConstantKernel(2.0, "fixed"),
    "alpha": RationalQuadratic(1.2, 0.6, alpha_bounds="fixed"),
    "scale of rational quadratic": RationalQuadratic(1.2, 0.6, length_scale_bounds="fixed"),
    "offset": DotProduct(0.5, "fixed") + Matern(0.8, nu=0.5),
    "one term": Matern(ARD, "fixed", nu=2.5) + ConstantKernel(0.5) * RBF(0.9),
    "one factor": Matern(ARD, "fixed", nu=2.5) * RBF(0.9),
    "all": ConstantKernel(2.0, "fixed") * RBF(ARD, "fixed"),
    "in a power": (ConstantKernel(2.0, "fixed") * RBF(0.8)) ** 2,
    "width": ExpSineSquared(1.1, 2.3, length_scale_bounds="fixed"),
    "period": ExpSineSquared(1.1, 2.3, periodicity_bounds="fixed"),
    "gamma": PairwiseKernel(0.4, "fixed", metric="laplacian"),
}

KERNELS = LEAVES | COMPOSED | NUMERIC
EVERY = [pytest.param(kernel, id=name) for name, kernel in (KERNELS | FIXED).items()]


def blocks(seed=0, n_rows=7, n_points=5, offset=0.0):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((n_rows, 3)) + offset, rng.standard_normal((n_points, 3)) + offset
    return A, B, rng.standard_normal((n_rows, n_points))


def difference(function, x, step=1e-5):
    """Central differences of a number in every entry of x, extrapolated to fourth order."""
    slopes = np.empty(x.shape)
    for entry in np.ndindex(x.shape):

        def along(h, entry=entry):
            moved = x.copy()
            moved[entry] += h
            return function(moved)

        coarse = (along(2 * step) - along(-2 * step)) / (4 * step)
        fine = (along(step) - along(-step)) / (2 * step)
        slopes[entry] = (4 * fine - coarse) / 3
    return slopes


def theta_difference(kernel, A, B, W):
    def value(theta):
        return np.vdot(W, kernel.clone_with_theta(theta)(A, B))

    return difference(value, np.asarray(kernel.theta, dtype=float), step=1e-4)


def point_difference(kernel, A, B, W):
    return difference(lambda moved: np.vdot(W, kernel(A, moved)), B)


def assert_close(found, expected, tolerance):
    """Relative to the largest entry, since small ones are differences of large ones."""
    assert found.shape == expected.shape
    scale = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("kernel", EVERY)
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_theta(kernel, offset):
    A, B, W = blocks(offset=0.0 if has_inner_product(kernel) else offset)
    found = kernel_gradient(kernel).theta(A, B, W)
    assert len(found) == len(kernel.theta)
    assert_close(found, theta_difference(kernel, A, B, W), 1e-5)


@pytest.mark.parametrize("kernel", EVERY)
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_points(kernel, offset):
    A, B, W = blocks(1, offset=0.0 if has_inner_product(kernel) else offset)
    found = kernel_gradient(kernel).points(A, B, W)
    assert_close(found, point_difference(kernel, A, B, W), 1e-5)


@pytest.mark.parametrize("kernel", EVERY)
def test_points_in_single_precision(kernel):
    A, B, W = blocks(6)
    found = kernel_gradient(kernel).points(A, B, W.astype(np.float32))
    assert_close(found, kernel_gradient(kernel).points(A, B, W), 1e-3)


STATIONARY = [
    ConstantKernel(2.0) * kernel
    for kernel in (
        RBF(ARD),
        *(Matern(ARD, nu=nu) for nu in (0.5, 1.5, 2.5)),
        RationalQuadratic(1.2, alpha=0.6),
        RationalQuadratic(1.2, alpha=50.0),
    )
]


@pytest.mark.parametrize("kernel", STATIONARY, ids=repr)
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_points_from_the_tile_of_values(kernel, far, dtype):
    """Values and slopes from the same distances; one row is a point, another out of range."""
    A, B, _ = blocks(6)
    A[0] = B[0]
    if far:
        A[1] = 1e20
    rng = np.random.default_rng(7)
    left, right = rng.standard_normal((len(A), 2)), rng.standard_normal((len(B), 2))
    columns = compile_kernel(kernel)[0].columns(B, dtype)
    out = np.empty((len(A), len(B)), dtype)
    fall = columns.with_fall(A, out)
    tolerance = 1e-5 if dtype == np.float64 else 1e-3
    assert columns.knows_fall(2)
    assert_close(out, kernel(A, B), tolerance)
    apart = slice(1, None)  # differences of a kinked kernel at a point itself mean nothing
    found = columns.pull(A[apart], fall[apart], left[apart].astype(dtype), right)
    expected = point_difference(kernel, A[apart], B, left[apart] @ right.T)
    assert_close(found, expected, tolerance)
    whole = kernel_gradient(kernel).points(A, B, left @ right.T)
    assert_close(columns.pull(A, fall, left.astype(dtype), right), whole, tolerance)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(ARD),
        RBF(0.8),
        Matern(ARD, nu=0.5),
        ConstantKernel(2.0) * Matern(ARD, nu=1.5),
        Matern(1.3, nu=2.5) * ConstantKernel(0.3),
        ConstantKernel(2.0, "fixed") * RBF(ARD),
        ConstantKernel(2.0) * (ConstantKernel(0.5) * RBF(ARD)),
    ],
    ids=repr,
)
def test_derivatives_times_a_vector(kernel):
    """Entry i is the slope of the i-th row of values times the vector."""
    A, B, _ = blocks(6)
    v, node = np.random.default_rng(7).standard_normal(len(B)), kernel_gradient(kernel)
    assert node.has_theta_times
    expected = [theta_difference(kernel, A, B, np.outer(row, v)) for row in np.eye(len(A))]
    assert_close(node.theta_times(A, B, v), np.array(expected), 1e-5)
    thin = node.theta_times(A, B, v.astype(np.float32))
    assert_close(thin, np.array(expected), 1e-3)


@pytest.mark.parametrize(
    "kernel",
    [RBF(ARD, "fixed"), RationalQuadratic(1.2, alpha=0.6), RBF(ARD) + DotProduct(1.4)],
    ids=repr,
)
def test_other_derivatives_are_not_known_times_a_vector(kernel):
    node = kernel_gradient(kernel)
    assert not node.has_theta_times


def has_inner_product(kernel):
    """Values of such a kernel grow with an offset, and their differences lose digits."""
    names = "DotProduct", "linear", "poly", "sigmoid", "cosine"
    return any(name in repr(kernel) for name in names)


@pytest.mark.parametrize("kernel", EVERY)
def test_theta_is_in_the_order_of_scikit_learn(kernel):
    A = blocks(2)[0]
    gradient = kernel_gradient(kernel)
    W = np.random.default_rng(3).standard_normal((len(A), len(A)))
    expected = np.einsum("ij,ijp->p", W, kernel(A, eval_gradient=True)[1])
    tolerance = 1e-3 if kernel in NUMERIC.values() else 1e-9
    assert_close(gradient.theta(A, A, W), expected, tolerance)


@pytest.mark.parametrize("name", FIXED)
def test_fixed_parameters_drop_out(name):
    kernel = FIXED[name]
    A, B, W = blocks()
    free = sum(h.n_elements for h in kernel.hyperparameters if not h.fixed)
    assert free < sum(h.n_elements for h in kernel.hyperparameters)
    assert len(kernel_gradient(kernel).theta(A, B, W)) == free


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_points_that_coincide_with_rows(name, offset):
    """Where x = z the Matérn 1/2 kernel has a corner, on whose two sides the slopes cancel."""
    kernel = KERNELS[name]
    A, B, W = blocks(4, offset=0.0 if has_inner_product(kernel) else offset)
    B[:3] = A[:3]
    B[4] = B[3]
    gradient = kernel_gradient(kernel)
    assert_close(gradient.points(A, B, W), point_difference(kernel, A, B, W), 1e-5)
    assert_close(gradient.theta(A, B, W), theta_difference(kernel, A, B, W), 1e-5)


@pytest.mark.parametrize("name", KERNELS)
def test_all_points_the_same(name):
    A = np.ones((4, 3))
    W = np.random.default_rng(0).standard_normal((4, 4))
    gradient = kernel_gradient(KERNELS[name])
    found = gradient.theta(A, A, W)
    assert_close(found, theta_difference(KERNELS[name], A, A, W), 1e-5)
    assert np.all(np.isfinite(gradient.points(A, A, W)))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("coincide", [False, True])
def test_float32_tiles(name, coincide):
    A, B, W = blocks(5, 40, 9)
    if coincide:
        B[:5] = A[:5]
    thin = [array.astype(np.float32) for array in (A, B, W)]
    gradient = kernel_gradient(KERNELS[name])
    wide = [array.astype(np.float64) for array in thin]
    assert_close(np.asarray(gradient.points(*thin), np.float64), gradient.points(*wide), 2e-4)


def test_inputs_are_left_alone(read_only):
    A, B, W = map(read_only, blocks())
    for kernel in KERNELS.values():
        gradient = kernel_gradient(kernel)
        gradient.theta(A, B, W)
        gradient.points(A, B, W)


@pytest.mark.parametrize(
    "kernel",
    [
        CompoundKernel([RBF(), RBF(2.0)]),
        WhiteKernel(),
        "rbf",
        np.dot,
    ],
    ids=lambda kernel: getattr(kernel, "__name__", str(kernel)),
)
def test_unknown_kernels_have_none(kernel):
    assert kernel_gradient(kernel) is None
    if hasattr(kernel, "theta") and not isinstance(kernel, CompoundKernel):
        assert kernel_gradient(kernel + RBF()) is None
        assert kernel_gradient(RBF() * kernel) is None
        assert kernel_gradient(kernel**2) is None


@pytest.mark.parametrize("name", KERNELS)
def test_nodes_that_are_simplified_know_their_derivatives_too(name):
    """Constants are then a variance, a factor or an offset."""
    kernel = 1.7 * KERNELS[name] * RBF(2.0) + 0.3
    A, B, W = blocks(6)
    node, _ = compile_kernel(kernel)
    assert node.has_theta
    assert node.has_points
    assert_close(node.points(A, B, W), point_difference(kernel, A, B, W), 1e-5)


def test_a_weighted_inner_product():
    A, B, W = blocks(7)
    node, _ = compile_kernel("poly", gamma=0.4, coef0=0.7, degree=3)
    expected = difference(lambda moved: np.vdot(W, (0.4 * A @ moved.T + 0.7) ** 3), B)
    assert_close(node.points(A, B, W), expected, 1e-5)


def test_a_node_without_derivatives_says_so():
    A, B, W = blocks()
    for node in (compile_kernel(np.dot)[0], PrecomputedKernel(np.eye(3))):
        assert not node.has_theta
        assert not node.has_points
        for derivative in (node.theta, node.points):
            with pytest.raises(NotImplementedError, match=f"{type(node).__name__} has no deriv"):
                derivative(A, B, W)
    with pytest.raises(NotImplementedError, match="Gaussian has no hyper-parameter alpha"):
        Gaussian().by_parameter("alpha", W)


def test_without_white():
    core = ConstantKernel(2.0) * RBF(ARD)
    first, second = WhiteKernel(0.1), WhiteKernel(0.2, "fixed")
    assert without_white(core) == (core, [])
    assert without_white(core + first) == (core, [first])
    assert without_white(first + core) == (core, [first])
    left, whites = without_white((first + core) + (DotProduct() + second))
    assert left == core + DotProduct()
    assert whites == [first, second]
    assert without_white(first + second) == (None, [first, second])
    assert without_white(first) == (None, [first])
    assert without_white("rbf") == ("rbf", [])


def test_white_terms_have_no_entry_in_theta():
    kernel, whites = without_white(ConstantKernel(2.0) * RBF(ARD) + WhiteKernel(0.1))
    A, B, W = blocks()
    assert len(whites) == 1
    assert_close(kernel_gradient(kernel).theta(A, B, W), theta_difference(kernel, A, B, W), 1e-5)


FALLS = {
    "gaussian": (RBF, {}, lambda r2: np.exp(-r2 / 2)),
    "matern 1/2": (Matern, {"nu": 0.5}, lambda r2: np.exp(-np.sqrt(r2)) / np.sqrt(r2)),
    "matern 3/2": (Matern, {"nu": 1.5}, lambda r2: 3 * np.exp(-np.sqrt(3 * r2))),
    "rational quadratic": (RationalQuadratic, {"alpha": 2.0}, lambda r2: (1 + r2 / 4) ** -3.0),
}
"""Kernels, and -2 times their derivative by r²."""


@pytest.mark.parametrize("name", FALLS)
@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("n_features", [1, 3])
def test_length_scales_that_are_tiny_or_huge_beside_the_data(name, scale, n_features):
    kind, parameters, fall = FALLS[name]
    kernel = kind(scale, **parameters)
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, n_features))
    B = A[:5] + 0.5 * min(scale, 1.0) * rng.standard_normal((5, n_features))
    W = rng.standard_normal((6, 5))
    differences = A.astype(np.longdouble)[:, None] - B.astype(np.longdouble)
    squares = (differences**2).sum(axis=2) / np.longdouble(scale) ** 2
    M = W * fall(squares)
    node = kernel_gradient(kernel)
    by_points = np.einsum("ij,ijf->jf", M, differences) / np.longdouble(scale) ** 2
    found = node.points(A, B, W)
    assert np.abs(found - by_points).max() <= 1e-9 * np.abs(by_points).max()
    by_scale = node.theta(A, B, W)[node.free.index("length_scale")]
    assert abs(by_scale - (M * squares).sum()) <= 1e-9 * np.abs(M * squares).sum()
