"""The check of kernels: ours pass it, and each kind of fault is found."""

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
)
from user_kernels import Cauchy

from pursuit import on_columns, pairwise
from pursuit.kernels import compile_kernel
from pursuit.kernels.linear import Dot
from pursuit.kernels.stationary import Gaussian, Stationary
from pursuit.testing import check_kernel

ITEMS = np.random.default_rng(0).standard_normal((9, 2))


@pytest.mark.parametrize(
    "kernel",
    [
        ConstantKernel(0.7) * RBF([0.5, 1.0]),
        Matern(0.8, nu=0.5) + Matern(1.2, nu=1.7),
        RationalQuadratic(0.9, 0.6) ** 2,
        on_columns(ExpSineSquared(1.1, 2.0), [1]) * RBF(2.0),
        DotProduct(0.4) ** 3,
        *(PairwiseKernel(0.4, metric=name) for name in ("laplacian", "cosine", "sigmoid", "poly")),
        Cauchy(1.1, 0.7) + RBF(1.0),
        Stationary(Gaussian(), 0.8, 1.4),
    ],
    ids=repr,
)
def test_kernels_pass(kernel):
    check_kernel(kernel, ITEMS)


def test_items_of_any_kind():
    words = ["cat", "act", "dog", "", "doge"]
    kernel, _ = compile_kernel(pairwise(lambda a, b: float(len(set(a) & set(b)))))
    check_kernel(kernel, words)
    with pytest.raises(AssertionError, match="at least four items"):
        check_kernel(kernel, words[:3])


@dataclass(frozen=True)
class Faulty(Dot):
    """An inner product with one fault."""

    fault: str = ""

    def tile(self, A, B):
        values = super().tile(A, B)
        if self.fault == "lopsided" and len(A) == len(B):
            values[0, 1] += 1e-3
        return values

    def diag(self, A):
        return super().diag(A) + (1e-3 if self.fault == "diag" else 0.0)

    def among(self, items, size):
        return super().among(items, size) + (1e-3 if self.fault == "among" else 0.0)

    def points(self, A, B, W):
        return super().points(A, B, W) * (1.0 + 1e-4 * (self.fault == "points"))

    def diag_points(self, B, weights):
        return super().diag_points(B, weights) * (1.0 + 1e-4 * (self.fault == "diag_points"))

    def evaluated(self, X):
        values, pullback = super().evaluated(X)
        return values + 1e-3 * (self.fault == "evaluated"), pullback


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("lopsided", r"k\(a, b\) differs"),
        ("diag", "diag differs from the tile"),
        ("among", "blocks among items differ"),
        ("points", "^points differs from differences"),
        ("diag_points", "diag_points differs from differences"),
        ("evaluated", "evaluated differs from the tile"),
    ],
)
def test_faults_are_found(fault, message):
    check_kernel(Faulty(), ITEMS)
    with pytest.raises(AssertionError, match=message):
        check_kernel(Faulty(fault=fault), ITEMS)


class Overclaiming(Dot):
    positive_definite = True


def test_a_negative_eigenvalue_is_found():
    check_kernel(Dot(1.0, -10.0), ITEMS)
    with pytest.raises(AssertionError, match="positive_definite is True, and an eigenvalue is -"):
        check_kernel(Overclaiming(1.0, -10.0), ITEMS)


class WrongSlope(Cauchy):
    def __call__(self, X, Y=None, eval_gradient=False):
        found = super().__call__(X, Y, eval_gradient)
        return (found[0], 1.0001 * found[1]) if eval_gradient else found


def test_a_wrong_slope_is_found():
    with pytest.raises(AssertionError, match="theta differs from differences of the values"):
        check_kernel(WrongSlope(), ITEMS)
