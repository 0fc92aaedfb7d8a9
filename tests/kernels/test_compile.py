"""What a user may pass as kernel, against scikit-learn's own values."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
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
from sklearn.metrics.pairwise import pairwise_kernels

from pursuit.kernels import compile_kernel, on_columns
from pursuit.kernels.stationary import Gaussian, Stationary

SCALES = [0.5, 2.0, 7.0]


class HalvedRBF(RBF):
    """A user's kernel, which must not be taken for its parent."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return super().__call__(X, Y) / 2

    def diag(self, X):
        return super().diag(X) / 2


def label(kernel):
    """The same in every process: functions print their addresses."""
    return repr(kernel).split(" at 0x")[0]


def shifted_product(a, b, gamma=1.0):
    """A metric that is a function of two rows."""
    return 1.0 + gamma * float(a @ b)


KERNELS = [
    ConstantKernel(2.0),
    RBF(1.3),
    RBF(SCALES),
    RBF([1.3]),
    2.5 * RBF(1.3),
    RBF(1.3) * 2.5,
    2.0 * (3.0 * RBF(SCALES)),
    *(Matern(SCALES, nu=nu) for nu in (0.5, 1.5, 2.5, np.inf)),
    0.3 * Matern(2.0, nu=0.5),
    *(Matern(SCALES, nu=nu) for nu in (0.3, 0.8, 1.0, 1.2, 2.0, 3.5, 6.5, 12.3, 30.5, 80.0)),
    *(PairwiseKernel(0.3, metric=metric) for metric in ("rbf", "linear", "poly", "cosine")),
    PairwiseKernel(0.3, metric="polynomial", pairwise_kernels_kwargs={"degree": 2, "coef0": 0.5}),
    PairwiseKernel(0.3, metric="laplacian"),
    RationalQuadratic(1.3, alpha=0.4),
    2.0 * RationalQuadratic(),
    DotProduct(0.7),
    DotProduct(0.0) ** 2,
    Exponentiation(RBF(1.3), 3),
    Exponentiation(ConstantKernel(2.0), 3) * RBF(),
    RBF(1.3) + 2.0 * Matern(SCALES, nu=1.5) + ConstantKernel(0.5),
    RBF(1.3) * DotProduct(1.0) * RationalQuadratic(),
    (RBF(1.3) + DotProduct()) * (Matern(nu=2.5) + 1.0),
    (ConstantKernel(2.0) + ConstantKernel(3.0)) * RBF(1.3),
]
NOT_DEFINITE = [
    ExpSineSquared(1.1, 2.0),
    2.0 * ExpSineSquared() * RBF(),
    PairwiseKernel(metric="sigmoid", gamma=0.3),
    PairwiseKernel(metric="poly", pairwise_kernels_kwargs={"coef0": -1.0}),
    HalvedRBF(1.3),
    HalvedRBF(1.3) + RBF(),
    PairwiseKernel(metric=shifted_product),
]


@pytest.fixture
def points():
    rng = np.random.default_rng(7)
    return rng.standard_normal((9, 3)), rng.standard_normal((5, 3))


@pytest.mark.parametrize("kernel", KERNELS + NOT_DEFINITE, ids=label)
def test_gp_kernels_agree_with_scikit_learn(points, kernel):
    A, Z = points
    compiled, noise = compile_kernel(kernel, n_features=3)
    assert noise == 0.0
    np.testing.assert_allclose(compiled.tile(A, Z), kernel(A, Z), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(compiled.tile(A, A), kernel(A), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(compiled.diag(A), kernel.diag(A), rtol=1e-12)
    single = compiled.columns(Z, np.float32)(A)
    np.testing.assert_allclose(single, kernel(A, Z), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS, ids=label)
def test_known_kernels_are_compiled(points, kernel):
    A, Z = points
    compiled, _ = compile_kernel(kernel)
    assert compiled.positive_definite
    block = compiled.tile(sparse.csr_matrix(A), sparse.csr_matrix(Z))
    np.testing.assert_allclose(block, kernel(A, Z), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kernel", NOT_DEFINITE, ids=label)
def test_kernels_that_may_be_indefinite(kernel):
    assert not compile_kernel(kernel, n_features=3)[0].positive_definite


def test_periods_of_one_feature_are_definite():
    kernel = ExpSineSquared(1.1, 2.0)
    assert compile_kernel(kernel, n_features=1)[0].positive_definite
    assert compile_kernel(on_columns(kernel, [2]) + RBF(), n_features=3)[0].positive_definite
    assert not compile_kernel(kernel)[0].positive_definite


@pytest.mark.parametrize("metric", ["chi2", "additive_chi2"])
def test_histograms_agree_with_scikit_learn(points, metric):
    A, Z = (np.abs(X) for X in points)
    A[0] = Z[1] = 0.0
    kernel = PairwiseKernel(0.3, metric=metric)
    compiled, _ = compile_kernel(kernel, n_features=3)
    assert compiled.positive_definite == (metric == "chi2")
    np.testing.assert_allclose(compiled.tile(A, Z), kernel(A, Z), rtol=1e-12)
    np.testing.assert_allclose(compiled.diag(A), kernel.diag(A), rtol=1e-12)
    with pytest.raises(ValueError, match="negative values"):
        compiled.tile(-A, Z)


@pytest.mark.parametrize("kernel", KERNELS + NOT_DEFINITE, ids=label)
def test_compiled_kernels_travel(points, kernel):
    A, Z = points
    compiled, _ = compile_kernel(kernel)
    copy = pickle.loads(pickle.dumps(compiled))
    np.testing.assert_array_equal(copy.tile(A, Z), compiled.tile(A, Z))


def test_a_constant_factor_is_a_variance():
    compiled, _ = compile_kernel(2.0 * (3.0 * RBF(1.5)))
    assert isinstance(compiled, Stationary)
    assert compiled.variance == pytest.approx(6.0)
    assert compiled.profile == Gaussian()


leaves = st.sampled_from(
    [RBF(0.8), RBF(SCALES), Matern(1.1, nu=1.5), DotProduct(0.5), ConstantKernel(0.7)]
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] * pair[1]),
        inner.map(lambda kernel: kernel**2),
    ),
    max_leaves=5,
)


@given(kernel=trees, seed=st.integers(0, 1000))
def test_any_tree_agrees_with_scikit_learn(kernel, seed):
    rng = np.random.default_rng(seed)
    A, Z = rng.uniform(-1, 1, (4, 3)), rng.uniform(-1, 1, (3, 3))
    compiled, noise = compile_kernel(kernel + WhiteKernel(0.25), n_features=3)
    assert noise == 0.25
    np.testing.assert_allclose(compiled.tile(A, Z), kernel(A, Z), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(compiled.diag(A), kernel.diag(A), rtol=1e-9)


@pytest.mark.parametrize(
    ("kernel", "plain", "noise"),
    [
        (RBF() + WhiteKernel(0.3), RBF(), 0.3),
        (WhiteKernel(0.3) + RBF() + WhiteKernel(0.2), RBF(), 0.5),
        (RBF() + 2.0 * WhiteKernel(0.3), RBF(), 0.6),
        (RBF() + WhiteKernel(0.3) * 2.0 * ConstantKernel(3.0), RBF(), 1.8),
        (2.0 * (RBF() + WhiteKernel(0.3)), 2.0 * RBF(), 0.6),
        (ConstantKernel(2.0) + WhiteKernel(0.3), ConstantKernel(2.0), 0.3),
        (2.0 * (ConstantKernel(1.5) + WhiteKernel(0.3)), ConstantKernel(3.0), 0.6),
        (RBF() + ExpSineSquared() + WhiteKernel(0.1), RBF() + ExpSineSquared(), 0.1),
    ],
    ids=label,
)
def test_white_is_noise(points, kernel, plain, noise):
    A, Z = points
    compiled, read = compile_kernel(kernel)
    assert read == pytest.approx(noise)
    np.testing.assert_allclose(compiled.tile(A, Z), plain(A, Z), rtol=1e-10)
    np.testing.assert_allclose(compiled.diag(A) + read, kernel.diag(A), rtol=1e-10)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF() * WhiteKernel(),
        WhiteKernel() * RBF(),
        WhiteKernel() * WhiteKernel(),
        (ConstantKernel() + WhiteKernel()) * RBF(),
        Exponentiation(RBF() + WhiteKernel(), 2),
        Exponentiation(WhiteKernel(), 2),
        ConstantKernel(2.0) + RBF() * (RBF() + WhiteKernel()),
    ],
    ids=label,
)
def test_white_elsewhere_is_refused(kernel):
    with pytest.raises(ValueError, match=r"WhiteKernel is read as noise .* as a separate term"):
        compile_kernel(kernel)


NAMED = [
    ("rbf", {}),
    ("rbf", {"gamma": 0.4}),
    ("linear", {}),
    ("poly", {}),
    ("polynomial", {"gamma": 0.4, "coef0": 0.5, "degree": 2}),
    ("poly", {"coef0": 3.0, "degree": 1.5, "gamma": 0.01}),
    ("laplacian", {}),
    ("laplacian", {"gamma": 0.4}),
    ("cosine", {}),
    ("sigmoid", {"gamma": 0.1, "coef0": 0.2}),
    ("chi2", {}),
    ("chi2", {"gamma": 0.4}),
    ("additive_chi2", {}),
]


@pytest.mark.parametrize(("name", "params"), NAMED)
def test_names_agree_with_scikit_learn(points, name, params):
    A, Z = (np.abs(X) for X in points)
    expected = pairwise_kernels(A, Z, metric=name, **params)
    for compiled, noise in (
        compile_kernel(name, n_features=3, **params),
        compile_kernel(name, n_features=3, kernel_params=params),
    ):
        assert noise == 0.0
        np.testing.assert_allclose(compiled.tile(A, Z), expected, rtol=1e-12, atol=1e-14)
        diagonal = np.diagonal(pairwise_kernels(A, metric=name, **params))
        np.testing.assert_allclose(compiled.diag(A), diagonal, rtol=1e-10, atol=1e-12)


def test_which_names_are_definite():
    for name in ("rbf", "linear", "poly", "laplacian", "cosine", "chi2"):
        assert compile_kernel(name, n_features=3)[0].positive_definite
    for name in ("sigmoid", "additive_chi2"):
        assert not compile_kernel(name, n_features=3)[0].positive_definite


@pytest.mark.parametrize("name", ["laplacian", "cosine", "sigmoid"])
def test_names_take_sparse_rows_and_travel(points, name):
    A, Z = points
    kernel = pickle.loads(pickle.dumps(compile_kernel(name, n_features=3)[0]))
    expected = pairwise_kernels(A, Z, metric=name)
    thin_A, thin_Z = sparse.csr_matrix(A), sparse.csr_matrix(Z)
    for left, right in ((thin_A, thin_Z), (A, thin_Z), (thin_A, Z)):
        np.testing.assert_allclose(kernel.tile(left, right), expected, rtol=1e-10)
    np.testing.assert_allclose(kernel.diag(thin_A), kernel.diag(A), rtol=1e-12)


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_names_do_not_compare_strings(name):
    kernel, _ = compile_kernel(name, gamma=1.0)
    with pytest.raises(TypeError, match="callable kernel for strings"):
        kernel.tile(["a"], ["b"])


@pytest.mark.parametrize("name", ["linear", "rbf", "poly", "sigmoid", "laplacian", "cosine"])
def test_a_named_kernel_ignores_parameters_of_others(name):
    """As scikit-learn's `pairwise_kernels` does with ``filter_params``."""
    A = np.random.default_rng(0).standard_normal((4, 2))
    params = {"gamma": 0.3, "coef0": 0.7, "degree": 2}
    kernel, _ = compile_kernel(name, n_features=2, **params)
    expected = pairwise_kernels(A, metric=name, filter_params=True, **params)
    np.testing.assert_allclose(kernel.tile(A, A), expected, rtol=1e-12)


def block_function(A, B):
    return A @ B.T


@pytest.mark.parametrize(
    ("kernel", "options", "error", "message"),
    [
        (
            "rfb",
            {},
            ValueError,
            r"kernel='rfb' is not a known name \(did you mean 'rbf'\?\): use one of ",
        ),
        ("RBF", {}, ValueError, r"did you mean 'rbf'\?"),
        ("gaussian", {}, ValueError, r"did you mean 'rbf'\?"),
        ("matern", {}, ValueError, r"did you mean Matern\(\) of sklearn.gaussian_process.kernels"),
        ("haversine", {}, ValueError, "'haversine' is not a known name: use one of"),
        ("precomputed", {}, ValueError, r"no formula to compile: .*PrecomputedKernel\(matrix\)"),
        ("rbf", {}, ValueError, "kernel='rbf' needs gamma, or n_features"),
        ("rbf", {"gamma": -1.0}, ValueError, "gamma must be positive and finite, got -1.0"),
        ("poly", {"gamma": 0.0}, ValueError, "gamma must be positive and finite, got 0.0"),
        (
            "linear",
            {"kernel_params": {"gamma": 1.0}},
            ValueError,
            "gamma is not a parameter .*takes no parameters",
        ),
        (
            "rbf",
            {"kernel_params": {"degree": 2}},
            ValueError,
            "degree is not a parameter of kernel='rbf'.*takes gamma",
        ),
        (
            "sigmoid",
            {"kernel_params": {"wdith": 2}},
            ValueError,
            "wdith is not a parameter of kernel='sigmoid', which takes coef0, gamma",
        ),
        (
            "rbf",
            {"gamma": 1.0, "kernel_params": {"gamma": 2.0}},
            ValueError,
            "gamma is given twice: drop it from kernel_params",
        ),
        (RBF(), {"gamma": 1.0}, ValueError, r"gamma belongs to kernels given by name, not to RBF"),
        (block_function, {"coef0": 1.0}, ValueError, "coef0 belongs to .*not to block_function"),
        (RBF(), {"kernel_params": {"a": 1}}, ValueError, "kernel_params does not apply to RBF"),
        (RBF, {}, TypeError, r"got the class RBF \(did you mean RBF\(\)\?\)"),
        (3, {}, TypeError, "kernel must be a scikit-learn kernel object.*got 3"),
        (None, {}, TypeError, "kernel must be a scikit-learn kernel object.*got None"),
        (WhiteKernel(), {}, ValueError, "is noise only: add a kernel to the WhiteKernel"),
        (RBF() + WhiteKernel(-1.0), {}, ValueError, "add up to -1.0: make noise_level positive"),
        (CompoundKernel([RBF()]), {}, ValueError, "CompoundKernel returns several kernels"),
        (
            RBF(SCALES),
            {"n_features": 4},
            ValueError,
            "length_scale has 3 entries but n_features is 4",
        ),
        (
            2.0 * RBF() + Matern(SCALES),
            {"n_features": 2},
            ValueError,
            "length_scale has 3 entries but n_features is 2",
        ),
        (RBF(-1.0), {}, ValueError, "length_scale must be positive and finite"),
        (Matern(nu=0.0), {}, ValueError, "nu must be positive, got 0.0"),
        (ExpSineSquared(-1.0), {}, ValueError, "length_scale of ExpSineSquared must be positive"),
        (ExpSineSquared(1.0, 0.0), {}, ValueError, "periodicity must be positive and finite"),
        (PairwiseKernel(-1.0, metric="chi2"), {}, ValueError, "gamma must be positive and finite"),
        ("laplacian", {}, ValueError, "kernel='laplacian' needs gamma, or n_features"),
    ],
)
def test_nonsense_is_refused(kernel, options, error, message):
    with pytest.raises(error, match=message):
        compile_kernel(kernel, **options)


@pytest.mark.parametrize("kernel", ["rbf", np.dot, RBF])
def test_on_columns_takes_kernel_objects(kernel):
    with pytest.raises(TypeError, match="on_columns takes a kernel object"):
        on_columns(kernel, [0])
