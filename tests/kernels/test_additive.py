"""Additive kernels beside sums over all sets of features, written out."""

from itertools import combinations
from math import comb

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)

from pursuit import Additive, SparseGPRegressor, on_columns
from pursuit.kernels import (
    ColumnNames,
    compile_kernel,
    expanded,
    parts_of,
    resolve_columns,
    sum_of_terms,
    terms_of,
)

rng = np.random.default_rng(0)
A, B = rng.standard_normal((7, 4)), rng.standard_normal((5, 4))
BASE = RationalQuadratic(0.7, 1.3)


def written_out(base, order, A, B, columns=range(4)):
    sets = [S for size in range(1, order + 1) for S in combinations(columns, size)]
    products = [np.prod([base(A[:, [j]], B[:, [j]]) for j in S], axis=0) for S in sets]
    return np.sum(products, axis=0) / len(sets)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_kernel_is_the_sum_over_all_sets_of_features(order):
    kernel = Additive(BASE, order)
    np.testing.assert_allclose(kernel(A, B), written_out(BASE, order, A, B), rtol=1e-13)
    np.testing.assert_allclose(kernel(A), written_out(BASE, order, A, A), rtol=1e-13)
    np.testing.assert_allclose(kernel.diag(A), np.diag(kernel(A)), rtol=1e-13)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_plain_sum_and_its_tiles_have_the_same_values(order):
    resolved = resolve_columns(Additive(BASE, order), ColumnNames(4))
    plain = expanded(resolved)
    want = written_out(BASE, order, A, B)
    np.testing.assert_allclose(plain(A, B), want, rtol=1e-13)
    assert len(terms_of(plain)) == sum(comb(4, size) for size in range(1, order + 1))
    for kernel in (plain, Additive(BASE, order)):
        np.testing.assert_allclose(
            compile_kernel(kernel, n_features=4)[0].tile(A, B), want, rtol=1e-12
        )


def test_the_gradient_is_that_of_the_one_base():
    kernel = Additive(BASE, 2)
    _, slopes = kernel(A, eval_gradient=True)
    for p, step in enumerate(1e-6 * np.eye(2)):
        up, down = (kernel.clone_with_theta(kernel.theta + sign * step)(A) for sign in (1, -1))
        np.testing.assert_allclose(slopes[..., p], (up - down) / 2e-6, atol=1e-8)


def test_columns_and_names():
    frame = pd.DataFrame(A, columns=list("abcd"))
    kernel = Additive(RBF(), columns=["d", "b"])
    np.testing.assert_allclose(
        kernel(frame), written_out(RBF(), 1, A, A, columns=(3, 1)), rtol=1e-13
    )
    resolved = resolve_columns(kernel + DotProduct(), ColumnNames.of(frame))
    names = [part.name for part in parts_of(expanded(resolved))]
    assert names == ["RBF(d)", "RBF(b)", "DotProduct"]
    assert [part.columns for part in parts_of(expanded(resolved))] == [[3], [1], None]


def test_it_is_a_kernel_object_like_others():
    kernel = Additive(RBF(2.0), 2)
    assert clone(kernel) == kernel
    assert kernel != Additive(RBF(2.0), 1)
    assert kernel.get_params()["base__length_scale"] == 2.0
    assert [parameter.name for parameter in kernel.hyperparameters] == ["base__length_scale"]
    assert kernel.clone_with_theta(np.log([3.0])).base.length_scale == pytest.approx(3.0)
    assert repr(kernel) == "Additive(RBF(length_scale=2), order=2)"
    assert kernel.is_stationary()
    assert not Additive(DotProduct()).is_stationary()


def test_too_many_terms_are_refused_with_their_number():
    X = rng.standard_normal((5, 1000))
    message = r"order=3\) on 1000 features has 166,667,500 terms.*lower order, or give fewer"
    with pytest.raises(ValueError, match=message):
        SparseGPRegressor(Additive(RBF(), 3)).fit(X, X[:, 0])


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (Additive(RBF(), 0), ValueError, "at least 1"),
        (Additive(RBF(), 1.5), TypeError, "whole number"),
        (Additive("rbf"), TypeError, "kernel object"),
        (Additive(RBF([1.0, 2.0])), ValueError, "several length scales"),
        (Additive(RBF() + WhiteKernel()), ValueError, r"Additive\(...\) \+ WhiteKernel\(\)"),
        (Additive(on_columns(RBF(), [0])), ValueError, "columns of its own"),
        (Additive(RBF(), columns=[9]), ValueError, "there are 4"),
    ],
)
def test_what_is_no_kernel_of_one_feature_is_refused(kernel, error, message):
    with pytest.raises(error, match=message):
        SparseGPRegressor(kernel).fit(A, A[:, 0])


def test_a_long_sum_is_not_deep():
    kernel = sum_of_terms([ConstantKernel(0.1)] * 5000)
    assert len(terms_of(kernel)) == 5000
    assert kernel(A, B)[0, 0] == pytest.approx(500.0)

    def depth(node):
        return 1 + max(depth(node.k1), depth(node.k2)) if isinstance(node, Sum) else 0

    assert depth(kernel) == 13


def test_terms_are_told_apart():
    season = ConstantKernel(2.0) * (RBF() + Matern(nu=1.5)) * on_columns(RBF(), [2])
    kernel = RBF() + 2.0 * RBF() + season + 0.5 * WhiteKernel() + ConstantKernel(3.0)
    kernel = kernel + ConstantKernel(2.0) * ConstantKernel(3.0) + RBF() ** 2
    assert [part.name for part in parts_of(kernel)] == [
        "RBF",
        "RBF (2)",
        "(RBF + Matern32) * RBF(x2)",
        "(RBF) ** 2",
    ]
