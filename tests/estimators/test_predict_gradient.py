"""Gradients of predictions: the derivatives of what `predict` returns, by central differences."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

from pursuit import (
    Additive,
    Categorical,
    ExactGPRegressor,
    FullScaleGPRegressor,
    HullRegressor,
    KernelMatchingPursuitRegressor,
    LowRankSVR,
    LPMachineRegressor,
    Search,
    SparseGPRegressor,
    SparseKernelRidge,
    on_columns,
    pairwise,
)
from pursuit.linalg import PredictiveVariance

KERNELS = {
    "rbf": RBF(1.2),
    "ard": ConstantKernel(2.0) * RBF([0.8, 1.5, 3.0]),
    "matern12": 1.3 * Matern([1.0, 2.0, 3.0], nu=0.5),
    "matern32": Matern(1.4, nu=1.5),
    "matern52": Matern([1.0, 2.0, 1.5], nu=2.5),
    "rational": RationalQuadratic(1.5, 0.7),
    "dot": DotProduct(0.5),
    "sum": RBF(1.0) + 0.3 * DotProduct() + WhiteKernel(0.1),
    "product": RBF(1.5) * (DotProduct(0.7) + Matern(2.0, nu=1.5)),
    "power": (0.4 * DotProduct(1.0) + 0.2 * RBF(1.0)) ** 2,
    "columns": on_columns(RBF([1.0, 2.0]), [0, 2]) + on_columns(Matern(1.0, nu=2.5), [1]),
    "additive": Additive(RBF(1.0), order=2),
    "any order": Matern([1.0, 2.0, 3.0], nu=0.8),
    "periodic": on_columns(ExpSineSquared(1.5, 3.0), [0]) + on_columns(RBF([1.0, 2.0]), [1, 2]),
    "laplacian": PairwiseKernel(0.4, metric="laplacian"),
    "polynomial": PairwiseKernel(0.3, metric="polynomial") + RBF(1.0),
    "columns product": on_columns(RBF(1.0), [0, 1]) * on_columns(DotProduct(1.0), [1, 2]),
}


STEPS = {"laplacian": 1e-6}
"""Steps of differences that cross no kink."""


def table(m=200, seed=0, n_outputs=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3))
    signals = (np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 2.0, 40.0 * np.cos(X[:, 1]) - X[:, 0])
    Y = np.column_stack(signals) + np.array([0.1, 4.0]) * rng.normal(size=(m, 2))
    return X, Y[:, 0] if n_outputs is None else Y[:, :n_outputs], rng.normal(size=(12, 3))


def differences(function, X, step=1e-3, columns=None):
    """Central differences of order h⁴, one column after the other: (rows, features, ...)."""
    slopes = []
    for j in range(X.shape[1]) if columns is None else columns:
        shift = np.zeros(X.shape[1])
        shift[j] = step
        near = function(X + shift) - function(X - shift)
        far = function(X + 2 * shift) - function(X - 2 * shift)
        slopes.append((8.0 * near - far) / (12.0 * step))
    return np.stack(slopes, axis=1)


def check(model, X, std=True, step=1e-3, **options):
    """Both gradients against differences, to 1e-6 of the largest entry; and their shapes."""

    def deviation(A):
        return model.predict(A, return_std=True, **options)[1]

    expected = differences(model.predict, X, step)
    if not std:
        found = model.predict_gradient(X)
    else:
        found, of_std = model.predict_gradient(X, return_std=True, **options)
        numeric = differences(deviation, X, step)
        assert of_std.shape == numeric.shape
        np.testing.assert_allclose(of_std, numeric, rtol=1e-6, atol=1e-6 * np.abs(numeric).max())
        np.testing.assert_array_equal(model.predict_gradient(X), found)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("n_outputs", [None, 2])
@pytest.mark.parametrize("name", KERNELS)
def test_sparse_process(name, n_outputs):
    X, y, new = table(n_outputs=n_outputs)
    model = SparseGPRegressor(
        KERNELS[name], noise=0.05, n_basis=25, optimizer=None, random_state=0
    ).fit(X, y)
    check(model, new, step=STEPS.get(name, 1e-3))


@pytest.mark.parametrize("name", KERNELS)
def test_exact_process(name):
    X, y, new = table(n_outputs=2)
    weights = np.random.default_rng(1).uniform(0.0, 2.0, size=len(X))
    weights[:5] = 0.0
    model = ExactGPRegressor(KERNELS[name], noise=0.05, optimizer=None).fit(X, y, weights)
    assert model.solver_ == "cholesky"
    check(model, new, step=STEPS.get(name, 1e-3))


@pytest.mark.parametrize("name", ["ard", "product"])
@pytest.mark.parametrize("missed", [0.2, 0.7, 1.6])
def test_calibrated_error_bars_near_and_far_from_the_data(name, missed):
    X, y, new = table()
    model = SparseGPRegressor(
        KERNELS[name], noise=0.05, n_basis=25, optimizer=None, random_state=0
    ).fit(X, y)
    model._spread = PredictiveVariance(0.2, missed)
    # Far rows miss nearly all of the prior's variance, where the guard of the factor acts.
    far = np.concatenate([new, 2.0 * new, 3.0 * new])
    check(model, far)
    check(model, far, include_noise=False)


def test_learned_moved_and_calibrated_model():
    X, y, new = table(2300, seed=3)
    model = SparseGPRegressor(n_basis=12, refine=20, random_state=0).fit(X, y)
    assert (model.basis_indices_ < 0).all()
    assert model.calibration_ is not None
    check(model, new)


def test_conjugate_gradients_have_the_gradient_of_the_mean():
    X, y, new = table()
    options = {"noise": 0.05, "optimizer": None, "residual_tol": 1e-10, "random_state": 0}
    direct = ExactGPRegressor(KERNELS["ard"], solver="cholesky", **options).fit(X, y)
    model = ExactGPRegressor(KERNELS["ard"], solver="cg", **options).fit(X, y)
    check(model, new, std=False)
    np.testing.assert_allclose(
        model.predict_gradient(new), direct.predict_gradient(new), rtol=1e-6, atol=1e-8
    )
    with pytest.raises(ValueError, match=r"fit with solver='cholesky', or use SparseGPRegressor"):
        model.predict_gradient(new, return_std=True)


MODELS = {
    "ridge": SparseKernelRidge(RBF(1.2), n_basis=30, random_state=0),
    "ridge, refitted": SparseKernelRidge("rbf", gamma=0.3, refit=True, n_basis=30),
    "ridge, l1": SparseKernelRidge(RBF(1.2), penalty="l1", alpha=2.0, n_basis=30),
    "matching": KernelMatchingPursuitRegressor("poly", degree=2, n_basis=15, random_state=0),
    "matching, two kernels": KernelMatchingPursuitRegressor(
        [RBF(0.8), RBF(3.0)], n_basis=15, random_state=0
    ),
    "machine": LowRankSVR(Matern(2.0, nu=1.5), n_basis=30, random_state=0),
    "programme": LPMachineRegressor(RBF(1.5), random_state=0),
    "hull": HullRegressor(kernel=RBF(1.2), radius=20.0, n_terms=20, random_state=0),
    "hull, two kernels": HullRegressor(
        kernel=[RBF(0.8), RBF(2.0)], radius=20.0, n_terms=20, random_state=0
    ),
    "hull, features": HullRegressor("features", radius=2.0),
}


@pytest.mark.parametrize("name", MODELS)
def test_other_regressors(name):
    X, y, new = table()
    check(MODELS[name].fit(X, y), new, std=False)


@pytest.mark.parametrize("name", ["ridge, refitted", "matching", "machine", "programme"])
def test_other_regressors_of_several_outputs(name):
    X, y, new = table(n_outputs=2)
    check(MODELS[name].fit(X, y), new, std=False)


def test_both_kernels_of_a_list_are_used():
    X, y, _ = table()
    assert set(MODELS["matching, two kernels"].fit(X, y).basis_kernels_) == {0, 1}
    assert set(MODELS["hull, two kernels"].fit(X, y).kernel_indices_) == {0, 1}


def test_matern12_at_a_basis_point_leaves_out_the_term_with_the_kink():
    points, beta = np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([3.0, 5.0])
    model = ExactGPRegressor(Matern(1.0, nu=0.5), noise=0.1, optimizer=None, normalize_y=False)
    model.fit(points, beta)
    r = np.sqrt(5.0)
    other = -model.dual_coef_[1] * np.exp(-r) * (points[0] - points[1]) / r
    np.testing.assert_allclose(model.predict_gradient(points[:1])[0], other, rtol=1e-12)


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_rows(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6)) * (rng.uniform(size=(120, 6)) < 0.3)
    y = np.sin(X[:, 0]) + X[:, 1]
    model = SparseGPRegressor(RBF(1.0), noise=0.05, n_basis=20, optimizer=None, random_state=0)
    dense = model.fit(X, y).predict_gradient(X, return_std=True)
    found = model.fit(make(X), y).predict_gradient(make(X), return_std=True)
    for ours, expected in zip(found, dense, strict=True):
        assert isinstance(ours, np.ndarray)
        np.testing.assert_allclose(ours, expected, rtol=1e-7, atol=1e-9)


def test_blocks_and_threads_change_nothing():
    X, y, _ = table()
    many = np.random.default_rng(5).normal(size=(9000, 3))
    model = SparseGPRegressor(RBF(1.0), noise=0.05, n_basis=100, optimizer=None, random_state=0)
    model.fit(X, y)
    whole = model.set_params(n_jobs=1).predict_gradient(many, return_std=True)
    threads = model.set_params(n_jobs=2).predict_gradient(many, return_std=True)
    parts = [
        model.predict_gradient(many[rows], return_std=True)
        for rows in (slice(50), slice(8990, 9000))
    ]
    for place in (0, 1):
        np.testing.assert_array_equal(whole[place], threads[place])
        ends = np.concatenate([whole[place][:50], whole[place][8990:]])
        ours = np.concatenate([part[place] for part in parts])
        np.testing.assert_allclose(ours, ends, rtol=1e-9, atol=1e-11)


def test_data_frames_by_name():
    pandas = pytest.importorskip("pandas")
    X, y, new = table()
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    kernel = on_columns(RBF(1.0), ["c", "a"]) + on_columns(DotProduct(), ["b"])
    model = SparseGPRegressor(kernel, noise=0.05, n_basis=20, optimizer=None, random_state=0)
    named = model.fit(frame, y).predict_gradient(pandas.DataFrame(new, columns=["a", "b", "c"]))
    kernel = on_columns(RBF(1.0), [2, 0]) + on_columns(DotProduct(), [1])
    plain = SparseGPRegressor(kernel, noise=0.05, n_basis=20, optimizer=None, random_state=0)
    np.testing.assert_allclose(named, plain.fit(X, y).predict_gradient(new), rtol=1e-12)


def test_columns_of_categories_have_none():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(150, 2)), rng.integers(0, 4, size=150)])
    y = X[:, 0] * (1.0 + X[:, 2]) + X[:, 1]
    kernel = on_columns(RBF([1.0, 2.0]), [0, 1]) * Categorical([2])
    model = SparseGPRegressor(kernel, noise=0.05, n_basis=30, optimizer=None, random_state=0)
    new = X[:10] + np.array([0.05, 0.05, 0.0])
    gradient, std = model.fit(X, y).predict_gradient(new, return_std=True)
    np.testing.assert_array_equal(gradient[:, 2], np.zeros(10))
    np.testing.assert_array_equal(std[:, 2], np.zeros(10))
    expected = differences(model.predict, new, columns=[0, 1])
    np.testing.assert_allclose(gradient[:, :2], expected, rtol=1e-6, atol=1e-6)


def test_dask_rows_stay_lazy():
    da = pytest.importorskip("dask.array")
    X, y, new = table(n_outputs=2)
    model = SparseGPRegressor(RBF(1.0), noise=0.05, n_basis=20, optimizer=None).fit(X, y)
    lazy, lazy_std = model.predict_gradient(da.from_array(new, chunks=(5, 3)), return_std=True)
    assert lazy.shape == lazy_std.shape == (12, 3, 2)
    gradient, std = model.predict_gradient(new, return_std=True)
    np.testing.assert_allclose(lazy.compute(), gradient, rtol=1e-10)
    np.testing.assert_allclose(lazy_std.compute(), std, rtol=1e-8, atol=1e-12)


def test_a_model_without_functions_is_flat():
    X = np.zeros((30, 3))
    model = SparseGPRegressor("linear", noise=0.1, optimizer=None).fit(X, np.arange(30.0))
    assert model.n_basis_ == 0
    for gradient in model.predict_gradient(X[:4], return_std=True):
        np.testing.assert_array_equal(gradient, np.zeros((4, 3)))


def laplacian(A, B):
    return np.exp(-np.abs(A[:, None] - B).sum(axis=2))


class OwnRBF(RBF):
    """A subclass may have changed the formula."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return super().__call__(X, Y, eval_gradient) if eval_gradient else super().__call__(X, Y)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [(laplacian, "laplacian"), (OwnRBF(1.0), "OwnRBF")],
)
def test_kernels_without_derivatives_are_refused_by_name(kernel, name):
    X, y, new = table(60)
    model = SparseGPRegressor(kernel, noise=0.1, optimizer=None, n_basis=10).fit(X, y)
    with pytest.raises(ValueError, match=rf"kernel {name}.* by its inputs is not known: fit with"):
        model.predict_gradient(new)


def test_matrices_and_objects_are_refused():
    X, y, _ = table(60)
    K = RBF(1.0)(X)
    model = SparseGPRegressor("precomputed", noise=0.1).fit(K, y)
    with pytest.raises(ValueError, match="kernel 'precomputed' by its inputs is not known"):
        model.predict_gradient(K)

    def shared(a, b):
        return float(len(set(a) & set(b)))

    words = ["cat", "dog", "cow", "goat"]
    ridge = SparseKernelRidge(pairwise(shared), n_basis=3).fit(words, [1.0, 2.0, 3.0, 4.0])
    with pytest.raises(ValueError, match=r"kernel pairwise\(shared\) by its inputs"):
        ridge.predict_gradient(words)


def test_a_transformer_is_refused():
    from sklearn.preprocessing import PolynomialFeatures

    X, y, new = table(60)
    model = HullRegressor(PolynomialFeatures(2), radius=2.0).fit(X, y)
    with pytest.raises(ValueError, match=r"PolynomialFeatures by its inputs is not known"):
        model.predict_gradient(new)


def test_near_rows_have_no_gradient():
    X, y, new = table(300)
    options = {"kernel": RBF(0.5), "noise": 0.05, "optimizer": None, "n_basis": 20}
    model = FullScaleGPRegressor(**options, n_neighbors=8, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"model.without_neighbors\(\).predict_gradient\(X\)"):
        model.predict_gradient(new)
    check(model.without_neighbors(), new)
    none = FullScaleGPRegressor(**options, n_neighbors=0, random_state=0).fit(X, y)
    check(none, new)


def test_truncated_and_loaded_models(tmp_path):
    import pursuit

    X, y, new = table()
    model = SparseGPRegressor(KERNELS["product"], noise=0.05, n_basis=30, optimizer=None).fit(X, y)
    check(model.truncated(12), new)
    model.save(tmp_path / "model.pursuit")
    loaded = pursuit.load(tmp_path / "model.pursuit")
    for ours, expected in zip(
        loaded.predict_gradient(new, return_std=True),
        model.predict_gradient(new, return_std=True),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, expected)


def test_points_of_the_users_own():
    X, y, new = table()
    search = Search("pooled", candidates=np.random.default_rng(2).normal(size=(40, 3)))
    model = SparseGPRegressor(
        KERNELS["matern52"], noise=0.05, n_basis=20, search=search, optimizer=None, random_state=0
    ).fit(X, y)
    assert (model.basis_indices_ == -1).all()
    check(model, new)
