"""Kernels of categories, against loops over pairs of rows and against differences."""

import itertools
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from pursuit import Categorical, on_columns
from pursuit.kernels import (
    ColumnNames,
    compared_columns,
    compile_kernel,
    kernel_gradient,
    resolve_columns,
)

RNG = np.random.default_rng(0)
U = RNG.standard_normal((5, 2))
LEVELS = [np.array([0.0, 1.0, 2.0, 5.0, 9.0]), np.array([-1.0, 0.0, 3.0])]
KERNELS = {
    "one": Categorical([2], correlation=0.3),
    "one, two columns": Categorical([3, 2], correlation=[0.3, 0.8]),
    "pairs": Categorical([2], factors=[U], levels=LEVELS[:1]),
    "both": Categorical([2, 3], correlation=[0.5, 0.2], factors=[U, None], levels=LEVELS),
    "pairs of two": Categorical([2, 3], factors=[U, 2.0 * U[:3, :1]], levels=LEVELS),
}
EVERY = [pytest.param(kernel, id=name) for name, kernel in KERNELS.items()]


def rows(n, seed, new=False):
    """Two numbers and two categories; with ``new`` some codes are no levels."""
    rng = np.random.default_rng(seed)
    columns = [rng.choice(np.append(levels, 7.0) if new else levels, n) for levels in LEVELS]
    return np.column_stack([rng.standard_normal((n, 2)), *columns])


def correlation(kernel, column, a, b):
    """R[a, b] of one column, from the formula."""
    if a == b:
        return 1.0
    u = None if kernel.factors is None else kernel.factors[column]
    if u is None:
        return np.broadcast_to(kernel.correlation, len(kernel.columns))[column]
    known = list(kernel.levels[column])
    v = [row / np.sqrt(1 + row @ row) for row in np.asarray(u)]
    x, z = (v[known.index(code)] if code in known else np.mean(v, axis=0) for code in (a, b))
    return x @ z


def looped(kernel, A, B):
    K = np.ones((len(A), len(B)))
    for (i, a), (j, b) in itertools.product(enumerate(A), enumerate(B)):
        for number, column in enumerate(kernel.columns):
            K[i, j] *= correlation(kernel, number, a[column], b[column])
    return K


@pytest.mark.parametrize("kernel", EVERY)
@pytest.mark.parametrize("new", [False, True])
def test_values(kernel, new):
    A, B = rows(23, 1, new), rows(17, 2, new)
    expected = looped(kernel, A, B)
    node = compile_kernel(kernel, n_features=4)[0]
    np.testing.assert_allclose(kernel(A, B), expected, rtol=1e-13)
    np.testing.assert_allclose(node.tile(A, B), expected, rtol=1e-13)
    np.testing.assert_allclose(
        node.columns(B, np.float32)(A.astype(np.float32)), expected, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(node.tile(sparse.csr_array(A), B), expected, rtol=1e-13)
    np.testing.assert_array_equal(node.diag(A), np.ones(23))
    blocks = node.among(A[:20], 5)
    for number, group in enumerate(np.split(A[:20], 4)):
        np.testing.assert_allclose(blocks[number], looped(kernel, group, group), rtol=1e-13)


@pytest.mark.parametrize("kernel", EVERY)
def test_positive_semi_definite(kernel):
    every = np.array(
        [[0, 0, a, b] for a in [*LEVELS[0], 7.0] for b in [*LEVELS[1], 7.0]], dtype=float
    )
    assert np.linalg.eigvalsh(kernel(every)).min() > -1e-12
    assert compile_kernel(kernel, n_features=4)[0].positive_definite


@pytest.mark.parametrize("kernel", EVERY)
@pytest.mark.parametrize("new", [False, True])
def test_derivatives_by_hyper_parameters(kernel, new):
    product = ConstantKernel(1.3) * (on_columns(RBF([0.7, 1.5]), [0, 1]) * kernel)
    A, B = rows(12, 3, new), rows(9, 4, new)
    W = np.random.default_rng(5).standard_normal((12, 9))

    def value(theta):
        return float(np.vdot(W, product.clone_with_theta(theta)(A, B)))

    expected = [
        (value(product.theta + step) - value(product.theta - step)) / 2e-5
        for step in 1e-5 * np.eye(len(product.theta))
    ]
    found = kernel_gradient(product).theta(A, B, W)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)
    slopes = product(A, eval_gradient=True)[1]
    square = np.random.default_rng(6).standard_normal((12, 12))
    np.testing.assert_allclose(
        kernel_gradient(product).theta(A, A, square),
        np.einsum("ij,ijp->p", square, slopes),
        rtol=1e-11,
    )


@pytest.mark.parametrize("kernel", EVERY)
def test_levels_do_not_move(kernel):
    product = on_columns(RBF([0.7, 1.5]), [0, 1]) * kernel
    A, B = rows(6, 7), rows(5, 8)
    slope = kernel_gradient(product, "points").points(A, B, np.ones((6, 5)))
    assert np.all(slope[:, 2:] == 0)
    assert np.any(slope[:, :2] != 0)


def test_length_scales_say_which_columns_have_none():
    node = compile_kernel(on_columns(RBF([0.7, 1.5]), [0, 1]) * KERNELS["one"], n_features=4)[0]
    np.testing.assert_array_equal(node.length_scales, [0.7, 1.5, np.nan, np.inf])


@pytest.mark.parametrize("kernel", EVERY)
def test_an_object_like_those_of_scikit_learn(kernel):
    again = kernel.clone_with_theta(kernel.theta)
    assert again == clone(kernel)
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    np.testing.assert_allclose(again(rows(5, 0)), kernel(rows(5, 0)), rtol=1e-12)
    assert clone(kernel).set_params(rank=3) != kernel
    assert len(kernel.theta) == len(kernel.bounds) == kernel.n_dims
    assert not kernel.is_stationary()
    inside = (kernel.theta >= kernel.bounds[:, 0]) & (kernel.theta <= kernel.bounds[:, 1])
    assert inside.all()
    changed = clone(kernel)
    changed.theta = kernel.theta + 0.1
    np.testing.assert_allclose(changed.theta, kernel.theta + 0.1)
    assert changed != kernel
    fixed = clone(kernel).set_params(correlation_bounds="fixed")
    assert fixed.theta.size == 0
    assert fixed.bounds.shape == (0, 2)
    assert fixed(rows(5, 0), eval_gradient=True)[1].shape == (5, 5, 0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_learns_it():
    X = rows(80, 0)
    y = np.sin(X[:, 0]) * X[:, 2] + 0.1 * RNG.standard_normal(80)
    kernel = 1.0 * on_columns(RBF([1.0, 1.0]), [0, 1]) * KERNELS["pairs"] + WhiteKernel()
    model = GaussianProcessRegressor(kernel, n_restarts_optimizer=0).fit(X, y)
    assert model.log_marginal_likelihood_value_ > model.log_marginal_likelihood(kernel.theta) + 10


def test_printed():
    assert repr(Categorical(["city"])) == "Categorical(['city'], correlation=0.5)"
    assert repr(KERNELS["both"]) == "Categorical([2, 3], pairs of levels of 2)"


def test_columns_become_positions_and_levels():
    known = ColumnNames(3, ["a", "b", "c"], None, {0: np.arange(3.0), 2: np.arange(2.0)})
    kernel = resolve_columns(RBF() * Categorical(["c", "a"]), known).k2
    assert kernel.columns == [2, 0]
    assert kernel.names == ["c", "a"]
    assert [len(levels) for levels in kernel.levels] == [2, 3]
    assert repr(kernel) == "Categorical(['c', 'a'], correlation=[0.5, 0.5])"
    inside = resolve_columns(on_columns(Categorical(["c"]), ["b", "c"]), known)
    assert inside.columns == [1, 2]
    assert inside.kernel.columns == [1]
    assert len(inside.kernel.levels[0]) == 2


def test_compared_columns():
    known = ColumnNames(4, list("abcd"))
    kernel = ConstantKernel() * on_columns(RBF(), ["a", "d"]) * Categorical("c") + WhiteKernel()
    assert compared_columns(kernel, known) == ({2}, {0, 3})
    nested = on_columns(RBF() * Categorical([1]), ["b", "a"]) ** 2
    assert compared_columns(nested, known) == ({0}, {0, 1})
    assert compared_columns("rbf", known) == (set(), {0, 1, 2, 3})


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Categorical(["x"]), "names column 'x', and the columns have no names"),
        (Categorical([4]), "has column 4, and there are 4"),
        (Categorical([1, 1]), "more than once"),
        (Categorical([]), "names no columns"),
        (Categorical([1], correlation=1.0), "must lie between 0 and 1"),
        (Categorical([1], correlation_bounds=(0.5, 2.0)), "two numbers between 0 and 1"),
        (Categorical([1], "three"), "correlations must be one of"),
        (Categorical([1], rank=0), "rank must be a whole number"),
        (Categorical([1], factors=[U], levels=LEVELS[1:]), "each of its 3 levels"),
    ],
)
def test_bad_input(kernel, message):
    with pytest.raises(ValueError, match=message):
        compile_kernel(kernel, n_features=4)
