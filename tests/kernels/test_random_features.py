"""Random features against the kernels they stand for: means over many draws, with their errors."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
)

from pursuit import Categorical
from pursuit.kernels import NoFunctionsError, compile_kernel, on_columns, random_features

N_COLUMNS = 3
SCALES = [0.7, 2.0, 1.3]

FACTORS = np.array([[0.5, 1.0], [-2.0, 0.3], [0.1, 0.1]])

EXACT = {
    "constant": ConstantKernel(2.5),
    "linear": DotProduct(0.7),
    "linear and constant": DotProduct(0.7) + 2.0,
    "square of linear": DotProduct(1.0) ** 2,
    "periodic": on_columns(ExpSineSquared(0.8, 1.7), [1]),
    "periodic times periodic": on_columns(ExpSineSquared(2.0, 1.7), [1])
    * on_columns(ExpSineSquared(3.0, 0.6), [1]),
    "periodic times linear": on_columns(ExpSineSquared(2.0, 1.7), [1]) * DotProduct(1.0),
    "pairs of levels": Categorical([2], factors=[FACTORS], levels=[[0.0, 1.0, 4.0]]),
    "product of linear": on_columns(DotProduct(0.0), [0]) * on_columns(DotProduct(1.0), [1, 2]),
}

RANDOM = {
    "rbf": RBF(SCALES),
    "matern 1/2": Matern(1.5, nu=0.5),
    "matern 3/2": Matern(SCALES, nu=1.5),
    "matern 5/2": Matern(1.0, nu=2.5),
    "matern of another order": Matern(SCALES, nu=0.8),
    "narrow periodic": on_columns(ExpSineSquared(0.02, 2.5), [0]),
    "decaying periodic": on_columns(ExpSineSquared(0.8, 1.7), [1]) * RBF(2.0),
    "levels": Categorical([2], correlation=0.4),
    "levels of columns": on_columns(Categorical([1]), [0, 2]) * on_columns(RBF(1.0), [0]),
    "pairs of levels times stationary": RBF(1.0)
    * Categorical([2], factors=[FACTORS], levels=[[0.0, 1.0, 4.0]]),
    "rational quadratic": RationalQuadratic(1.2, alpha=0.6),
    "scaled": 3.0 * RBF(1.0),
    "sum": 0.5 * RBF(1.0) + Matern(2.0) + DotProduct(1.0) + 1.5,
    "product of stationary": RBF(2.0) * Matern(1.5, nu=2.5),
    "stationary times linear": RBF(2.0) * DotProduct(1.0),
    "power of stationary": RBF(1.5) ** 3,
    "power of a sum": (RBF(1.5) + DotProduct(0.5)) ** 2,
    "columns": on_columns(RBF(1.0), [1]) + on_columns(Matern(SCALES[:2]), [2, 0]),
    "product of columns": on_columns(RBF(1.0), [0]) * on_columns(DotProduct(1.0), [0, 2]),
}


def compiled(kernel):
    return compile_kernel(kernel, n_features=N_COLUMNS)[0]


@pytest.fixture
def points():
    X = np.random.default_rng(0).standard_normal((12, N_COLUMNS))
    X[:, 2] = np.arange(12) % 5  # a category for some kernels; 2 and 3 may be unknown levels
    return X


def products(kernel, X, n_draws, n_features=128):
    """φ(x)·φ(z) of many draws: shape (n_draws, n_points, n_points)."""
    rng = np.random.default_rng(1)
    features = (random_features(kernel, N_COLUMNS, n_features, rng)(X) for _ in range(n_draws))
    return np.array([phi @ phi.T for phi in features])


def worst_error(found, expected):
    """Largest error of a mean over draws, in units of its standard error."""
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    rounding = 1e-10 * np.abs(expected).max()
    return np.max(np.abs(found.mean(axis=0) - expected) / (error + rounding))


@pytest.mark.parametrize("name", EXACT)
def test_finite_kernels_are_exact(points, name):
    kernel = compiled(EXACT[name])
    [found] = products(kernel, points, 1, n_features=1024)
    np.testing.assert_allclose(found, kernel.tile(points, points), rtol=1e-12, atol=1e-12)


def test_a_periodic_kernel_at_the_lower_bound_of_its_length_scale():
    kernel = compile_kernel(ExpSineSquared(1e-5, 2.5), n_features=1)[0]
    X = 2.5 * 2e-6 * np.arange(6.0)[:, None]
    phi = random_features(kernel, 1, 4096, np.random.default_rng(0))(X)
    # Standard error at most .02; values between .3 and 1.
    np.testing.assert_allclose(phi @ phi.T, kernel.tile(X, X), rtol=0, atol=0.05)


@pytest.mark.parametrize("name", RANDOM)
def test_the_mean_over_draws_is_the_kernel(points, name):
    kernel = compiled(RANDOM[name])
    expected = kernel.tile(points, points)
    found = products(kernel, points, 400)
    # 78 pairs: a standard normal exceeds 4 in one of them with a probability of .005.
    assert worst_error(found, expected) < 4.0
    # Control: the same draws tell a kernel that is 10 % off.
    assert worst_error(found, 1.1 * expected) > 4.0


@pytest.mark.parametrize("kernel", [RBF(1.0), Matern(1.0, nu=0.5), RBF(2.0) * DotProduct(1.0)])
def test_error_falls_with_the_root_of_the_number_of_features(points, kernel):
    kernel = compiled(kernel)
    scale = np.sqrt(np.outer(kernel.diag(points), kernel.diag(points)))
    few, many = (
        np.mean((products(kernel, points, 40, n) - kernel.tile(points, points)) ** 2 / scale**2)
        for n in (64, 1024)
    )
    assert few / many > 8.0  # 16 were they independent
    assert many < 4.0 / 1024


def test_one_column_converges_faster():
    """Stratified frequencies of one column have an error far below 1/√n."""
    kernel = compile_kernel(RBF(1.0), n_features=1)[0]
    X = np.linspace(-2, 2, 20)[:, None]
    phi = random_features(kernel, 1, 1024, np.random.default_rng(0))(X)
    np.testing.assert_allclose(phi @ phi.T, kernel.tile(X, X), atol=2e-3)


def test_waves_are_cosines_and_sines(points):
    features = random_features(compiled(Matern(0.01, nu=0.5)), N_COLUMNS, 256, rng())
    [waves] = features.parts
    phase = points @ waves.frequencies.T
    expected = np.hstack([np.cos(phase), np.sin(phase)]) * np.tile(waves.weights, 2)
    # The fastest waves turn 1e8 times between two points, which costs as many digits.
    rounding = np.finfo(float).eps * np.tile(np.abs(phase).max(axis=0) + 1.0, 2)
    assert np.all(np.abs(features(points) - expected) <= 8 * rounding)


def rng():
    return np.random.default_rng(0)


def test_terms_share_the_features(points):
    n_terms = 5
    kernel = compiled(sum((RBF(float(j + 1)) for j in range(1, n_terms)), RBF(1.0)))
    features = random_features(kernel, N_COLUMNS, 500, rng())
    assert len(features.parts) == n_terms
    assert features.n_features == features(points).shape[1] == 500


def test_many_linear_columns_stay_exact():
    X = np.random.default_rng(0).standard_normal((5, 300))
    kernel = compile_kernel(DotProduct(1.0), n_features=300)[0]
    phi = random_features(kernel, 300, 64, rng())(X)
    np.testing.assert_allclose(phi @ phi.T, kernel.tile(X, X), rtol=1e-12)


def test_a_high_power_of_linear_is_drawn():
    X = np.random.default_rng(0).standard_normal((6, 3))
    kernel = compiled(DotProduct(2.0) ** 4)
    assert random_features(kernel, 3, 128, rng()).n_features == 128
    assert random_features(kernel, 3, 256, rng()).n_features == 4**4
    found = products(kernel, X, 400, 128)
    assert worst_error(found, kernel.tile(X, X)) < 4.0


def test_sparse_and_float32_rows(points):
    features = random_features(compiled(RBF(1.0) * DotProduct(1.0)), N_COLUMNS, 64, rng())
    expected = features(points)
    np.testing.assert_allclose(features(sparse.csr_array(points)), expected, atol=1e-12)
    np.testing.assert_allclose(features(points.astype(np.float32)), expected, atol=1e-5)


def test_pickled_features_are_the_same(points):
    features = random_features(compiled(RANDOM["sum"]), N_COLUMNS, 64, rng())
    again = pickle.loads(pickle.dumps(features))
    np.testing.assert_array_equal(again(points), features(points))


@pytest.mark.parametrize(
    ("kernel", "named"),
    [
        ("cosine", "Cosine"),
        ("chi2", "ChiSquared"),
        ("laplacian", "Laplacian"),
        (ExpSineSquared(), "ExpSineSquared of 3 columns"),
        (lambda A, B: A @ B.T, "<lambda>"),
        (RBF(1.0) ** 1.5, r"the power 1\.5"),
        (RBF(1.0) ** 0.5 + DotProduct(), r"the power 0\.5"),
    ],
)
def test_others_are_refused_by_name(kernel, named):
    with pytest.raises(NoFunctionsError, match=rf"{named}.*RBF, Matern"):
        random_features(compile_kernel(kernel, n_features=N_COLUMNS)[0], N_COLUMNS, 64, rng())


def test_negative_constants_are_refused():
    kernel = compile_kernel("poly", n_features=N_COLUMNS, coef0=-1.0)[0]
    with pytest.raises(NoFunctionsError, match="-1"):
        random_features(kernel, N_COLUMNS, 64, rng())


def test_too_many_terms_are_refused():
    kernel = compiled((RBF(1.0) + RBF(2.0) + Matern(1.0)) ** 9)
    with pytest.raises(NoFunctionsError, match="19683 terms"):
        random_features(kernel, N_COLUMNS, 64, rng())
