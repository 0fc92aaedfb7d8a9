"""Life inside scikit-learn: copies, pickles, pipelines, searches over parameters, displays."""

import pickle
import warnings
from functools import partial

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pursuit import (
    ExactGPRegressor,
    FullScaleGPRegressor,
    GreedyFeatureMap,
    HullMixture,
    HullRegressor,
    KernelMatchingPursuitRegressor,
    Search,
    SpanNeighbors,
    SparseGPRegressor,
    SparseKernelPCA,
    SparseKernelRidge,
)

fixed_gp = partial(SparseGPRegressor, optimizer=None)
"""The kernel is used as given."""


def test_constructor_takes_the_kernel_and_keywords():
    assert SparseGPRegressor(RBF()).kernel == RBF()
    with pytest.raises(TypeError):
        SparseGPRegressor(RBF(), 0.1)


def test_parameters_round_trip():
    model = SparseGPRegressor(RBF(0.5), noise=0.1, n_basis=7, kernel_params={"a": 1})
    copy = clone(model)
    assert copy is not model
    assert {name: repr(value) for name, value in copy.get_params().items()} == {
        name: repr(value) for name, value in model.get_params().items()
    }
    model.set_params(n_basis=9, kernel__length_scale=2.0)
    assert model.n_basis == 9
    assert model.kernel.length_scale == 2.0
    with pytest.raises(ValueError, match="n_bases"):
        model.set_params(n_bases=3)


def test_fit_leaves_every_parameter_alone(waves):
    data = waves(60)
    points = np.array(data.new)
    model = SparseGPRegressor(RBF(0.5), search=Search(candidates=points), kernel_params=None)
    before = {name: repr(value) for name, value in model.get_params().items()}
    model.fit(data.X, data.y)
    assert {name: repr(value) for name, value in model.get_params().items()} == before
    assert model.search.candidates is points


def test_html_and_repr(waves):
    data = waves(40)
    model = SparseGPRegressor(RBF(0.5), n_basis=7)
    assert repr(model) == "SparseGPRegressor(kernel=RBF(length_scale=0.5), n_basis=7)"
    assert "SparseGPRegressor" in model._repr_html_()
    assert "SparseGPRegressor" in model.fit(data.X, data.y)._repr_html_()


ANYTHING = [
    SparseGPRegressor(n_basis=5),
    FullScaleGPRegressor(n_basis=5, n_neighbors=3),
    ExactGPRegressor(kernel="rbf", noise=0.1),
    SparseKernelRidge(n_basis=5),
    SparseKernelRidge(n_basis=5, method="kappa", refit=True),
    GreedyFeatureMap(n_components=5, search="full", projection="kronecker"),
    SpanNeighbors(n_components=5),
    SparseKernelPCA(n_basis=5),
    KernelMatchingPursuitRegressor(n_basis=5),
    HullRegressor(radius=1.0, n_terms=5),
    HullMixture(n_terms=3),
]


@pytest.mark.parametrize("model", ANYTHING, ids=repr)
def test_a_notebook_can_show_any_fitted_model(waves, model):
    """scikit-learn's page reads every attribute, those without a trailing underscore too."""
    data = waves(30)
    fitted = clone(model).fit(data.X, data.y)
    assert "predict" in dir(fitted) or "transform" in dir(fitted)
    assert type(model).__name__ in fitted._repr_html_()


@pytest.mark.parametrize("dumps", [pickle.dumps, None], ids=["pickle", "joblib"])
def test_a_fitted_model_survives_storage(waves, dumps, tmp_path):
    data = waves(80, n_outputs=2)
    model = SparseGPRegressor(n_basis=15, random_state=0).fit(data.X, data.y)
    if dumps is None:
        joblib.dump(model, tmp_path / "model")
        copy = joblib.load(tmp_path / "model")
    else:
        copy = pickle.loads(dumps(model))
    for got, expected in zip(
        copy.predict(data.new, return_std=True),
        model.predict(data.new, return_std=True),
        strict=True,
    ):
        np.testing.assert_array_equal(got, expected)
    assert copy.path_.stop_reason == model.path_.stop_reason
    assert copy.certify(data.X, data.y).upper == pytest.approx(model.certificate_.upper)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"search": "fresh"},
        {"search": "full"},
        {"search": Search(candidates="kmeans", pool_size=100)},
        {"kernel": "precomputed"},
        {"certificate": "published"},
    ],
    ids=str,
)
def test_a_stored_model_does_not_grow_with_the_rows(waves, arguments):
    sizes = []
    for m in (200, 1600):
        data = waves(m)
        X = RBF(0.5)(data.X) if arguments.get("kernel") == "precomputed" else data.X
        settings = {"kernel": RBF(0.5), "noise": 0.1, "n_basis": 20, "random_state": 0, **arguments}
        sizes.append(len(pickle.dumps(fixed_gp(**settings).fit(X, data.y))))
    assert abs(sizes[1] - sizes[0]) < 200


def test_grid_search_over_the_size(waves):
    data = waves(150)
    search = GridSearchCV(
        SparseGPRegressor(random_state=0), {"n_basis": [1, 3, 30], "noise": ["learn", 0.1]}, cv=3
    ).fit(data.X, data.y)
    assert search.best_params_["n_basis"] == 30
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


def test_a_precomputed_kernel_is_cut_by_cross_validation(waves, rough_kernel):
    data = waves(90)
    arguments = {"noise": 0.1, "n_basis": 20}
    matrix = cross_val_score(
        SparseGPRegressor("precomputed", **arguments), rough_kernel(data.X), data.y, cv=3
    )
    formula = cross_val_score(fixed_gp(rough_kernel, **arguments), data.X, data.y, cv=3)
    np.testing.assert_allclose(matrix, formula, rtol=1e-8)


def test_in_a_pipeline(waves):
    data = waves(100)
    X = data.X * np.array([1e3, 1e-3]) + 50.0
    pipeline = make_pipeline(StandardScaler(), SparseGPRegressor(n_basis=30, random_state=0))
    assert pipeline.fit(X, data.y).score(X, data.y) > 0.8
    mean, std = pipeline.predict(X, return_std=True)
    assert mean.shape == std.shape == (100,)
    assert cross_val_predict(pipeline, X, data.y, cv=3).shape == (100,)


def test_inside_a_meta_estimator(waves):
    data = waves(60, n_outputs=2)
    many = MultiOutputRegressor(SparseGPRegressor(n_basis=10, random_state=0)).fit(data.X, data.y)
    alone = SparseGPRegressor(n_basis=10, random_state=0).fit(data.X, data.y[:, 1])
    np.testing.assert_array_equal(many.predict(data.new)[:, 1], alone.predict(data.new))


def test_a_second_fit_forgets_the_first(waves):
    data, other = waves(60), waves(90, seed=1, n_outputs=2)
    model = SparseGPRegressor(n_basis=12, random_state=0).fit(other.X, other.y)
    model.fit(data.X, data.y)
    fresh = SparseGPRegressor(n_basis=12, random_state=0).fit(data.X, data.y)
    np.testing.assert_array_equal(model.predict(data.new), fresh.predict(data.new))
    assert model.dual_coef_.shape == (12,)


@pytest.mark.parametrize("method", ["predict", "sample_y", "certify"])
def test_an_unfitted_model_says_so(waves, method):
    data = waves(10)
    arguments = (data.X, data.y) if method == "certify" else (data.X,)
    with pytest.raises(NotFittedError):
        getattr(SparseGPRegressor(), method)(*arguments)


def test_an_ordinary_fit_warns_of_nothing(waves):
    data = waves(100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for search in ("pooled", "fresh", "full"):
            model = SparseGPRegressor(search=search).fit(data.X, data.y)
            model.predict(data.new, return_std=True)
            model.sample_y(data.new)
            model.certify(data.X, data.y)
