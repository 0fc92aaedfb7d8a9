"""Users' own kernel classes: called for values, learned by their `eval_gradient`."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, DotProduct, PairwiseKernel
from user_kernels import Cauchy

from pursuit import SparseGPRegressor
from pursuit.kernels import compile_kernel, kernel_gradient


class Without(Cauchy):
    """Does not know eval_gradient."""

    def __call__(self, X, Y=None):
        return super().__call__(X, Y)


class ValuesOnly(Cauchy):
    def __call__(self, X, Y=None, eval_gradient=False):
        return super().__call__(X, Y)


class Flat(Cauchy):
    """Derivatives of the wrong shape."""

    def __call__(self, X, Y=None, eval_gradient=False):
        found = super().__call__(X, Y, eval_gradient)
        return (found[0], found[1][:, :, 0]) if eval_gradient else found


class Broken(Cauchy):
    def __call__(self, X, Y=None, eval_gradient=False):
        if eval_gradient:
            raise ZeroDivisionError("no slope here")
        return super().__call__(X, Y)


class Infinite(Cauchy):
    def __call__(self, X, Y=None, eval_gradient=False):
        found = super().__call__(X, Y, eval_gradient)
        return (found[0], np.full_like(found[1], np.inf)) if eval_gradient else found


class Shifted(DotProduct):
    """A subclass that changed the formula must not be taken for its parent."""

    def __call__(self, X, Y=None, eval_gradient=False):
        found = super().__call__(X, Y, eval_gradient)
        return (1.0 + found[0], found[1]) if eval_gradient else 1.0 + found

    def diag(self, X):
        return 1.0 + super().diag(X)


def blocks():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((6, 2)), rng.standard_normal((4, 2))
    return A, B, rng.standard_normal((6, 4))


def scaled_product(a, b, gamma=1.0):
    return float(np.squeeze(gamma) * (a @ b))  # gamma is an array where its slope is taken


@pytest.mark.parametrize(
    "kernel",
    [Cauchy(1.3, 0.7), Shifted(0.8), PairwiseKernel(0.4, metric=scaled_product)],
    ids=["Cauchy", "Shifted", "PairwiseKernel"],
)
def test_values_and_derivatives(kernel):
    A, B, W = blocks()
    node = kernel_gradient(kernel)
    assert node.has_theta
    assert not node.has_points
    assert not node.in_blocks
    assert kernel_gradient(kernel, "points") is None
    np.testing.assert_allclose(node.tile(A, B), kernel(A, B))
    np.testing.assert_allclose(node.diag(A), kernel.diag(A))
    slopes = kernel(np.vstack([A, B]), eval_gradient=True)[1]
    np.testing.assert_allclose(node.theta(A, B, W), np.einsum("ij,ijp->p", W, slopes[:6, 6:]))
    square = np.random.default_rng(1).standard_normal((6, 6))
    expected = np.einsum("ij,ijp->p", square, slopes[:6, :6])
    np.testing.assert_allclose(node.theta(A, A, square), expected)
    assert kernel_gradient(kernel + RBF()).in_blocks is False
    assert kernel_gradient(RBF() ** 2 * kernel).in_blocks is False


def test_nothing_is_asked_of_fixed_hyper_parameters():
    A, B, W = blocks()
    node = kernel_gradient(Broken(1.3, 0.7, "fixed", "fixed"))
    assert node.theta(A, B, W).shape == (0,)
    values, pullback = node.evaluated(A)
    np.testing.assert_allclose(values, Cauchy(1.3, 0.7)(A))
    assert pullback(np.ones((6, 6))).shape == (0,)


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (Without(), "it failed: .*eval_gradient"),
        (ValuesOnly(), "it failed: "),
        (Flat(), r"not \(10, 10\)"),
        (Broken(), "it failed: no slope here"),
        (Infinite(), "NaN or infinite"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_wrong_with_a_class(kernel, reason):
    A, B, W = blocks()
    message = rf"{type(kernel).__name__}.__call__.*shape \(10, 10\).*\(10, 10, 2\).*{reason}.*fixed"
    with pytest.raises(TypeError, match=message):
        kernel_gradient(kernel).theta(A, B, W)
    np.testing.assert_allclose(compile_kernel(kernel)[0].tile(A, B), Cauchy()(A, B))


def test_a_fit_says_so():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    y = np.sin(X[:, 0])
    with pytest.raises(TypeError, match=r"Flat.__call__\(X, eval_gradient=True\) must return"):
        SparseGPRegressor(Flat(), n_basis=10).fit(X, y)
    kept = SparseGPRegressor(Flat(), n_basis=10, optimizer=None).fit(X, y)
    assert kept.kernel_.theta == pytest.approx(Flat().theta)


def test_a_fit_learns_it():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.05 * rng.standard_normal(200)
    model = SparseGPRegressor(Cauchy(20.0, 1.0), n_basis=40, random_state=0).fit(X, y)
    assert model.kernel_.width < 10.0
    assert model.score(X, y) > 0.9
