"""Values and derivatives of random kernels of all kinds, against scikit-learn and differences.

The oracle is each kernel's formula in long double, where central differences, extrapolated once,
have errors near 1e-12. So every entry of a derivative can be held to 1e-6 of itself.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from oracles import matern_correlation, needs_long_double
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    Product,
    RationalQuadratic,
    Sum,
)
from user_kernels import Cauchy

from pursuit.kernels import ColumnsKernel, compile_kernel, kernel_gradient, on_columns

DRAWS = [pytest.param(i, marks=[pytest.mark.verify] if i >= 60 else []) for i in range(500)]
LONG = np.longdouble
RELATIVE = 1e-6
CANCELLED = 1e-10
"""Part of Σ|W||∂k| that a sum may lose to cancellation."""


# The formulas


def squares(A, B, scale=1.0):
    difference = (A[:, None, :] - B[None, :, :]) / np.asarray(scale, LONG)
    return (difference**2).sum(axis=2)


def chi(A, B):
    total = A[:, None, :] + B[None, :, :]
    square = (A[:, None, :] - B[None, :, :]) ** 2
    return -np.where(total > 0, square / np.where(total > 0, total, 1), 0).sum(axis=2)


def metric(kernel, A, B):
    rate, options = LONG(kernel.gamma), kernel.pairwise_kernels_kwargs or {}
    coef0, degree = LONG(options.get("coef0", 1)), LONG(options.get("degree", 3))
    norms = [np.sqrt((X**2).sum(axis=1)) for X in (A, B)]
    return {
        "rbf": lambda: np.exp(-rate * squares(A, B)),
        "linear": lambda: A @ B.T,
        "poly": lambda: (rate * (A @ B.T) + coef0) ** degree,
        "sigmoid": lambda: np.tanh(rate * (A @ B.T) + coef0),
        "laplacian": lambda: np.exp(-rate * np.abs(A[:, None] - B[None]).sum(axis=2)),
        "cosine": lambda: A @ B.T / np.outer(*norms),
        "chi2": lambda: np.exp(rate * chi(A, B)),
        "additive_chi2": lambda: chi(A, B),
    }[kernel.metric]()


def formula(kernel, A, B):
    """The kernel's values in long double."""
    match kernel:
        case Sum():
            return formula(kernel.k1, A, B) + formula(kernel.k2, A, B)
        case Product():
            return formula(kernel.k1, A, B) * formula(kernel.k2, A, B)
        case Exponentiation():
            return formula(kernel.kernel, A, B) ** LONG(kernel.exponent)
        case ColumnsKernel():
            return formula(kernel.kernel, A[:, kernel.columns], B[:, kernel.columns])
        case ConstantKernel():
            return np.full((len(A), len(B)), LONG(kernel.constant_value))
        case DotProduct():
            return A @ B.T + LONG(kernel.sigma_0) ** 2
        case RationalQuadratic():
            r2 = squares(A, B, kernel.length_scale)
            return (1 + r2 / (2 * LONG(kernel.alpha))) ** -LONG(kernel.alpha)
        case Matern():
            return matern_correlation(kernel.nu, squares(A, B, kernel.length_scale))
        case RBF():
            return np.exp(-squares(A, B, kernel.length_scale) / 2)
        case ExpSineSquared():
            angle = LONG("3.14159265358979323846264338327950288") * np.sqrt(squares(A, B))
            sine = np.sin(angle / LONG(kernel.periodicity))
            return np.exp(-2 * (sine / LONG(kernel.length_scale)) ** 2)
        case PairwiseKernel():
            return metric(kernel, A, B)
        case Cauchy():
            return LONG(kernel.height) / (1 + squares(A, B, kernel.width))
    raise AssertionError(kernel)


# Random kernels and blocks


@dataclass
class Draw:
    """Random kernels of points with a given number of features and typical differences."""

    rng: np.random.Generator
    unit: float

    def number(self, low=0.3, high=3.0):
        return float(np.exp(self.rng.uniform(np.log(low), np.log(high))))

    def bounds(self):
        return "fixed" if self.rng.random() < 0.15 else (1e-9, 1e9)

    def scales(self, n_features, low=0.7):
        each = n_features > 1 and self.rng.random() < 0.5
        width = self.unit * np.sqrt(n_features)
        numbers = [self.number(low) * width for _ in range(n_features if each else 1)]
        return np.array(numbers) if each else numbers[0]

    def makers(self, n_features):
        """A function per kind of leaf."""
        rate = self.number() / (self.unit**2 * n_features)
        return {
            "constant": lambda: ConstantKernel(self.number(), self.bounds()),
            "rbf": lambda: RBF(self.scales(n_features), self.bounds()),
            "matern": lambda: Matern(
                self.scales(n_features),
                self.bounds(),
                nu=self.rng.choice(
                    [0.1, 0.4, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 2.5, 3.5, 4.3, 7.5, 15.0, 42.0, np.inf]
                ),
            ),
            "rational": lambda: RationalQuadratic(
                self.number() * self.unit, self.number(), self.bounds(), self.bounds()
            ),
            "periodic": lambda: ExpSineSquared(
                self.number(), self.number() * self.unit, self.bounds(), self.bounds()
            ),
            "dot": lambda: DotProduct(self.number() * self.unit, self.bounds()),
            "metric rbf": lambda: PairwiseKernel(rate, self.bounds(), "rbf"),
            "metric linear": lambda: PairwiseKernel(rate, self.bounds(), "linear"),
            "metric poly": lambda: PairwiseKernel(
                rate, self.bounds(), "poly", {"degree": int(self.rng.integers(1, 4)), "coef0": 0.7}
            ),
            "metric sigmoid": lambda: PairwiseKernel(
                rate, self.bounds(), "sigmoid", {"coef0": -0.3}
            ),
            "metric laplacian": lambda: PairwiseKernel(
                self.number() / (self.unit * n_features), self.bounds(), "laplacian"
            ),
            "metric cosine": lambda: PairwiseKernel(rate, self.bounds(), "cosine"),
            "metric chi2": lambda: PairwiseKernel(
                self.number() / (self.unit * n_features), self.bounds(), "chi2"
            ),
            "metric additive_chi2": lambda: PairwiseKernel(rate, self.bounds(), "additive_chi2"),
            "user's": lambda: Cauchy(
                self.number() * self.unit, self.number(), self.bounds(), self.bounds()
            ),
        }

    def leaf(self, n_features, kind=None):
        makers = self.makers(n_features)
        return makers[kind or self.rng.choice(list(makers))]()

    def tree(self, n_features, depth, kind=None):
        shape = self.rng.random()
        if depth == 0 or shape < 0.2:
            return self.leaf(n_features, kind)
        inner = self.tree(n_features, depth - 1, kind)
        if shape < 0.4:
            return inner + self.tree(n_features, depth - 1)
        if shape < 0.6:
            return inner * self.tree(n_features, depth - 1)
        if shape < 0.75:
            return Exponentiation(inner, float(self.rng.choice(self.exponents(inner))))
        if shape < 0.9 and n_features > 1:
            columns = self.rng.permutation(n_features)[: self.rng.integers(1, n_features)]
            return on_columns(self.tree(len(columns), depth - 1, kind), [int(j) for j in columns])
        return ConstantKernel(self.number(), self.bounds()) * inner

    @staticmethod
    def exponents(kernel):
        """Whole ones, and others where the base is positive."""
        text = repr(kernel)
        signed = any(name in text for name in ("Dot", "linear", "poly", "sigm", "cos", "additive"))
        return [2.0, 3.0] if signed else [0.5, 1.0, 1.7, 2.0]


def drawn(seed):
    """A kernel that has the seed's kind of leaf, blocks and weights."""
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(1, 6))
    draw = Draw(rng, float(10.0 ** rng.uniform(-3, 3)))
    kinds = list(draw.makers(n_features))
    kernel = draw.tree(n_features, int(rng.integers(0, 3)), kinds[seed % len(kinds)])
    sizes = rng.integers(1, 8, 2)
    A, B = (draw.unit * rng.standard_normal((size, n_features)) for size in sizes)
    if "chi2" in repr(kernel):
        A, B = np.abs(A), np.abs(B)
    elif any(name in repr(kernel) for name in ("Dot", "linear", "poly", "sigm", "cos")):
        pass  # an offset would make these kernels nearly constant
    elif rng.random() < 0.3:
        shift = 20.0 * draw.unit
        A, B = A + shift, B + shift
    return kernel, A, B, rng.standard_normal(sizes)


def slope(values, step):
    """The derivative at 0 of an array-valued function of a number."""
    coarse = (values(2 * step) - values(-2 * step)) / (4 * step)
    fine = (values(step) - values(-step)) / (2 * step)
    return (4 * fine - coarse) / 3


def assert_sums(found, terms):
    """Every entry is the sum of its terms to 1e-6, and to what they lose by cancellation."""
    assert found.shape == (len(terms),)
    for entry, parts in zip(found, terms, strict=True):
        limit = RELATIVE * abs(np.sum(parts)) + CANCELLED * np.sum(np.abs(parts))
        assert abs(entry - np.sum(parts)) <= limit


@pytest.mark.parametrize("seed", DRAWS)
def test_values(seed):
    kernel, A, B, _ = drawn(seed)
    node, _ = compile_kernel(kernel, n_features=A.shape[1])
    exact = formula(kernel, A.astype(LONG), B.astype(LONG)).astype(float)
    scale = np.abs(exact).max()
    np.testing.assert_allclose(node.tile(A, B), exact, rtol=1e-9, atol=1e-11 * scale)
    np.testing.assert_allclose(kernel(A, B), exact, rtol=1e-9, atol=1e-11 * scale)
    np.testing.assert_allclose(node.diag(A), kernel.diag(A), rtol=1e-11)


@needs_long_double
@pytest.mark.parametrize("seed", DRAWS)
def test_theta(seed):
    kernel, A, B, W = drawn(seed)

    def along(entry):
        def values(step):
            theta = kernel.theta.copy()
            theta[entry] += step
            return formula(kernel.clone_with_theta(theta), A.astype(LONG), B.astype(LONG))

        return slope(values, 1e-4)

    terms = [W * along(entry) for entry in range(len(kernel.theta))]
    assert_sums(kernel_gradient(kernel).theta(A, B, W), terms)


@pytest.mark.parametrize("seed", DRAWS)
def test_evaluated(seed):
    """The same from values and derivatives of all rows at once."""
    kernel, A, B, W = drawn(seed)
    rows = np.vstack([A, B])
    weights = np.zeros((len(rows), len(rows)))
    weights[: len(A), len(A) :] = W
    node = kernel_gradient(kernel)
    values, pullback = node.evaluated(rows)
    np.testing.assert_allclose(values, node.tile(rows, rows), rtol=1e-10, atol=1e-300)
    expected = node.theta(A, B, W)
    scale = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(pullback(weights), expected, rtol=1e-7, atol=1e-8 * scale)


@needs_long_double
@pytest.mark.parametrize("seed", DRAWS)
def test_points(seed):
    kernel, A, B, W = drawn(seed)
    node = kernel_gradient(kernel, "points")
    if "Cauchy" in repr(kernel):
        assert node is None
        return
    step = LONG(1e-6) * np.ptp(np.vstack([A, B]))
    assert node.points(A, B, W).shape == B.shape
    for feature in range(B.shape[1]):

        def moved(h, feature=feature):
            points = B.astype(LONG)
            points[:, feature] += h
            return points

        slopes = slope(lambda h: formula(kernel, A.astype(LONG), moved(h)), step)
        assert_sums(node.points(A, B, W)[:, feature], (W * slopes).T)


@needs_long_double
@pytest.mark.parametrize("seed", DRAWS)
def test_diag_points(seed):
    kernel, A, B, W = drawn(seed)
    if "Cauchy" in repr(kernel):
        return
    node = kernel_gradient(kernel, "points")
    found = node.diag_points(B, W[0])
    assert found.shape == B.shape
    step = LONG(1e-6) * np.ptp(np.vstack([A, B]))
    for feature in range(B.shape[1]):

        def diagonal(h, feature=feature):
            points = B.astype(LONG)
            points[:, feature] += h
            return np.diag(formula(kernel, points, points))

        expected = W[0] * slope(diagonal, step)
        scale = np.abs(W[0] * np.diag(formula(kernel, B, B))).max() / np.abs(B).max()
        np.testing.assert_allclose(
            found[:, feature], expected.astype(float), rtol=RELATIVE, atol=1e-11 * scale
        )
