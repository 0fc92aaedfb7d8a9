"""Numbers of any size: scaled, or refused by name."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from pursuit import (
    ExactGPRegressor,
    FullScaleGPRegressor,
    HullMixture,
    KernelMatchingPursuitRegressor,
    LowRankSVC,
    LowRankSVR,
    LPMachineRegressor,
    SpanNeighbors,
    SparseGPClassifier,
    SparseGPRegressor,
    SparseKernelGLM,
    SparseKernelPCA,
    SparseKernelRidge,
    minimize_over_hull,
    minimize_quadratic,
)
from pursuit.estimators.inputs import TargetScale
from pursuit.estimators.scales import binary_sizes, in_range
from pursuit.objectives import SquaredLoss


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(40)


PROCESSES = [
    SparseGPRegressor(n_basis=10, random_state=0),
    SparseGPRegressor(RBF(), noise=0.1, optimizer=None, n_basis=10, random_state=0),
    ExactGPRegressor(RBF(), noise=0.1, optimizer=None, random_state=0),
    FullScaleGPRegressor(RBF(), noise=0.1, optimizer=None, n_basis=10, random_state=0),
]


@pytest.mark.parametrize("exponent", [600, 980, -600, -900])
@pytest.mark.parametrize("model", PROCESSES, ids=["learned", "sparse", "exact", "full-scale"])
def test_targets_of_any_size_give_the_same_process(data, model, exponent):
    X, y = data
    plain = model.fit(X, y).predict(X, return_std=True)
    scaled = model.fit(X, np.ldexp(y, exponent)).predict(X, return_std=True)
    for got, expected in zip(scaled, plain, strict=True):
        np.testing.assert_array_equal(got, np.ldexp(expected, exponent))


def test_targets_of_ordinary_size_are_not_touched(data):
    assert not binary_sizes(np.array([[1e139, 1e-139, 0.0, np.nan]])).any()
    assert binary_sizes(np.array([[1e141, 1e-141]])).all()
    y = data[1][:, None]
    ordinary = TargetScale.fit(y, np.ones(40), normalize=True)
    huge = TargetScale.fit(np.ldexp(y, 700), np.ones(40), normalize=True)
    np.testing.assert_array_equal(huge.normalize(np.ldexp(y, 700)), ordinary.normalize(y))


@pytest.mark.parametrize("factor", [1e160, 1e-160])
@pytest.mark.parametrize(
    "model",
    [
        SparseKernelRidge(),
        SparseGPRegressor(RBF(), noise=0.1, optimizer=None, normalize_y=False),
        ExactGPRegressor(RBF(), noise=0.1, optimizer=None, normalize_y=False),
        KernelMatchingPursuitRegressor(n_basis=5),
        LowRankSVR(),
        LPMachineRegressor(),
        SparseKernelGLM(RBF(), loss="huber", alpha=1.0, optimizer=None),
    ],
    ids=lambda model: type(model).__name__,
)
def test_targets_that_cannot_be_squared_are_refused_by_name(data, model, factor):
    X, y = data
    told = "^y has values up to .* divide y by" if factor > 1 else "^y has no value above.*multiply"
    with pytest.raises(ValueError, match=told):
        model.fit(X, factor * y)


@pytest.mark.parametrize("factor", [1e300, 1e-300])
@pytest.mark.parametrize(
    "model", [LowRankSVC(), SparseGPClassifier(RBF(), scale=1.0, optimizer=None)]
)
def test_weights_beyond_all_measure_are_refused_by_name(data, model, factor):
    X, y = data
    with pytest.raises(ValueError, match=r"^sample_weight has .* sample_weight by a constant"):
        model.fit(X, y > 0, sample_weight=np.full(40, factor))


@pytest.mark.parametrize(
    "model",
    [SparseKernelPCA(), SpanNeighbors(), HullMixture(), SparseKernelRidge(), SparseGPRegressor()],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("size", [1e150, 1e307])
def test_rows_beyond_all_measure_are_refused_by_name(data, model, size):
    X, y = data
    with pytest.raises(ValueError, match=r"^X has values up to .* divide X by a constant"):
        model.fit(size * X, y)


def test_one_wild_row_of_a_linear_programme_is_survived_or_named(data):
    X, y = data
    X[3, 0] = 1e9
    assert np.isfinite(LPMachineRegressor("rbf").fit(X, y).predict(X)).all()
    pytest.importorskip("highspy")
    with pytest.raises(ValueError, match=r"not solved.*scale the features of X or the kernel"):
        LPMachineRegressor("linear", solver="highs").fit(X, y)


def test_arguments_that_overflow_together_are_all_named(data):
    X, y = data
    model = SparseKernelRidge("poly", degree=5, gamma=1.0, coef0=1.0, alpha=1e-90)
    told = r"fit leaves the range of float64, with alpha=1e-90, X of .*: bring alpha and X nearer"
    with pytest.raises(ValueError, match=told):
        model.fit(1e40 * X, y)


def test_threads_overflow_by_name_too(data):
    X, y = data
    X, y = np.tile(X, (400, 1)), np.tile(y, 400)
    model = SparseKernelRidge("poly", degree=3, n_jobs=2, method="random", certificate=None)
    with pytest.raises(ValueError, match=r"leaves the range of float64, with X of"):
        model.fit(1e60 * X, y)


def test_predictions_that_overflow_name_the_rows(data):
    X, y = data
    model = SparseKernelRidge("poly", degree=3, gamma=1.0, coef0=1.0).fit(X, y)
    with pytest.raises(ValueError, match=r"predict leaves the range of float64, with X of"):
        model.predict(1e120 * X)


@pytest.mark.parametrize("model", [SparseGPRegressor, FullScaleGPRegressor])
def test_further_targets_far_beyond_the_fitted_ones_are_refused_by_name(data, model):
    X, y = data
    fitted = model(kernel="rbf", optimizer=None, noise=0.1, random_state=0).fit(X, 1e-200 * y)
    with pytest.raises(ValueError, match=r"y is up to .* deviations of the targets of fit"):
        fitted.partial_fit(X, y)


def test_functions_name_their_arguments(data):
    with pytest.raises(ValueError, match=r"leaves the range of float64.*H of|^H "):
        minimize_quadratic(1e200 * np.eye(3), 1e200 * np.ones(3), n_terms=2)
    with pytest.raises(ValueError, match=r"^loss.y has values up to"):
        minimize_over_hull(SquaredLoss(1e200 * np.ones(3)), np.eye(3))


def test_a_warning_on_ordinary_data_stays_a_warning(data):
    X, y = data

    def sinc(A, B):
        D = A[:, :1] - B[:, 0]
        return np.where(D == 0, 1.0, np.sin(D) / D)

    model = SparseKernelRidge(sinc, random_state=0)
    with pytest.warns(RuntimeWarning, match="invalid value encountered"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="leaves the range of float64, with X of"):
        model.fit(1e20 * X, y)


def test_overflow_is_named_and_results_of_ordinary_size_are_kept():
    @in_range
    def squared(x, y=1.0):
        return np.square(x) * y

    assert squared(np.array([3.0])) == 9.0
    with pytest.raises(ValueError, match=r"squared leaves the range.*x of 1e\+200"):
        squared(np.array([1e200]))
    with pytest.raises(ValueError, match=r"y=1e\+300: bring x and y nearer to 1"):
        squared(np.array([1e10]), 1e300)


def test_models_without_functions_say_so():
    X, y = np.zeros((40, 2)), np.ones(40)
    given = {"noise": 0.1, "optimizer": None, "n_basis": 5, "normalize_y": False}
    model = SparseGPRegressor("linear", **given).fit(X, y)
    assert model.n_basis_ == 0
    for call in (lambda: model.truncated(1), lambda: model.certify_path(X, y)):
        with pytest.raises(ValueError, match="the model has no basis functions: y is constant"):
            call()


def test_narrow_mixtures_do_not_depend_on_the_unit():
    X = np.random.default_rng(0).standard_normal((60, 2))
    plain = HullMixture(random_state=0).fit(X).score_samples(X)
    small = HullMixture(random_state=0).fit(np.ldexp(X, -200)).score_samples(np.ldexp(X, -200))
    np.testing.assert_allclose(small - 2 * 200 * np.log(2), plain, rtol=1e-9)


def test_a_mixture_of_rows_that_come_twice_ends():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((12, 3))[rng.integers(0, 12, 25)]
    model = HullMixture(covariance_type="diag", refine=False, n_terms=2, random_state=0)
    assert np.isfinite(model.fit(1e-120 * X).score_samples(1e-120 * X)).all()


def test_the_importance_of_a_column_does_not_depend_on_its_unit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = X[:, 0] + X[:, 2]
    figures = []
    for unit in (1.0, 2.0**-500):
        kernel = RBF([1.0, 1.0, unit])
        model = SparseGPRegressor(kernel, noise=0.1, optimizer=None, n_basis=20)
        with np.errstate(all="raise", under="ignore"):
            model.fit(X * [1.0, 1.0, unit], y)
        figures.append(model.learning_report_.importance)
    np.testing.assert_allclose(figures[1], figures[0], rtol=1e-12)
