"""Saved models: the same model back, whatever it is made of, in a file that does not grow."""

import dataclasses
import errno
import functools
import inspect
import os
import pathlib

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Kernel,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.preprocessing import PolynomialFeatures
from sklearn.tree import DecisionTreeClassifier

import pursuit
from pursuit import (
    Evidence,
    ExactGPRegressor,
    FullScaleGPClassifier,
    FullScaleGPRegressor,
    GreedyFeatureMap,
    HullBoostClassifier,
    HullMixture,
    HullRegressor,
    KernelMatchingPursuitClassifier,
    KernelMatchingPursuitRegressor,
    LowRankOneClassSVM,
    LowRankSVC,
    LowRankSVR,
    LPMachineClassifier,
    LPMachineRegressor,
    Search,
    SigmoidAtoms,
    SpanNeighbors,
    SparseGPClassifier,
    SparseGPRegressor,
    SparseKernelCCA,
    SparseKernelGLM,
    SparseKernelPCA,
    SparseKernelRidge,
    TableEncoder,
    make_table_pipeline,
)
from pursuit.estimators.records import KERNELS, conforms, decode, encode, records
from pursuit.store import StoreError, read, write

EVERYTHING = (
    ConstantKernel(2.0) * RBF([1.0, 2.0, 3.0])
    + Matern(1.5, nu=2.5) * RationalQuadratic(alpha=0.7)
    + DotProduct() ** 2
    + WhiteKernel(0.1)
)


def rows(m=120, seed=0):
    return np.random.default_rng(seed).standard_normal((m, 3))


def targets(X):
    rng = np.random.default_rng(1)
    return np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(len(X))


def classes(X, names=("no", "yes")):
    return np.array(names)[np.digitize(targets(X), np.linspace(0, 2, len(names) - 1))]


def regress(model, m=120):
    X = rows(m)
    return model.fit(X, targets(X))


def classify(model, m=120, names=("no", "yes")):
    X = rows(m)
    return model.fit(X, classes(X, names))


def describe(model, m=120):
    return model.fit(rows(m))


def answers(model):
    """Everything a model says about new rows."""
    X = rows(40, seed=9)
    if isinstance(model, SparseKernelCCA):
        return model.transform(X, X[:, :2])
    if isinstance(model, SpanNeighbors):
        return [*model.kneighbors(X, 3), model.component_indices_]
    if isinstance(model, ExactGPRegressor):
        return model.predict(X, return_std=True)
    if isinstance(model, SparseGPRegressor | FullScaleGPRegressor):
        return [*model.predict(X, return_std=True), model.predict(X, return_cov=True)[1]]
    if isinstance(model, SparseKernelPCA):
        return [model.transform(X), model.score_samples(X), model.generalization_bound_.value]
    names = ("predict", "decision_function", "predict_proba", "transform", "score_samples")
    return [getattr(model, name)(X) for name in names if hasattr(model, name)]


# One entry an estimator and way of being fitted.
MODELS = {
    "gp": lambda m=120: regress(SparseGPRegressor(n_basis=15, random_state=0), m),
    "gp, kernel given": lambda m=120: regress(
        SparseGPRegressor(EVERYTHING, optimizer=None, n_basis=15, random_state=0), m
    ),
    "full scale": lambda m=120: regress(
        FullScaleGPRegressor(RBF(), noise=0.1, n_basis=8, n_neighbors=6, optimizer=None), m
    ),
    "full scale, whitened": lambda m=120: regress(
        FullScaleGPRegressor(
            RBF(), noise=0.1, n_basis=8, n_neighbors=6, coupling="full", optimizer=None
        ),
        m,
    ),
    "exact gp": lambda m=120: regress(ExactGPRegressor(RBF(), noise=0.1, optimizer=None), m),
    "exact gp, cg": lambda m=120: regress(
        ExactGPRegressor(RBF(), noise=0.1, optimizer=None, solver="cg", random_state=0), m
    ),
    "ridge": lambda m=120: regress(SparseKernelRidge(n_basis=15, random_state=0), m),
    "ridge, refit": lambda m=120: regress(
        SparseKernelRidge(n_basis=15, method="subspace", gamma=0.3, random_state=0), m
    ),
    "map": lambda m=120: describe(GreedyFeatureMap(n_components=15, random_state=0), m),
    "map, columns": lambda m=120: describe(
        GreedyFeatureMap(n_components=15, projection="column", dtype=np.float32, random_state=0), m
    ),
    "neighbours": lambda m=120: describe(SpanNeighbors(n_components=15, random_state=0), m),
    "matching": lambda m=120: regress(KernelMatchingPursuitRegressor(n_basis=15), m),
    "matching, several": lambda m=120: regress(
        KernelMatchingPursuitRegressor([RBF(0.5), "linear"], n_basis=15), m
    ),
    "matching, classes": lambda m=120: classify(KernelMatchingPursuitClassifier(n_basis=15), m),
    "pca": lambda m=120: describe(SparseKernelPCA(n_basis=15, random_state=0), m),
    "cca": lambda m=120: SparseKernelCCA(n_basis=15, random_state=0).fit(rows(m), rows(m)[:, :2]),
    "hull": lambda m=120: regress(HullRegressor(n_terms=10, radius=5.0, random_state=0), m),
    "hull, features": lambda m=120: regress(HullRegressor("features", radius=5.0), m),
    "hull, huber": lambda m=120: regress(
        HullRegressor(n_terms=10, radius=5.0, loss="huber", random_state=0), m
    ),
    "hull, quantile of sigmoids": lambda m=120: regress(
        HullRegressor(SigmoidAtoms(20, random_state=0), radius=5.0, loss="quantile"), m
    ),
    "hull, cv": lambda m=120: regress(HullRegressor(n_terms=10, random_state=0), m),
    "boosting": lambda m=120: classify(HullBoostClassifier(n_terms=10, random_state=0), m),
    "boosting, classes": lambda m=120: classify(
        HullBoostClassifier(n_terms=5, random_state=0), m, ("a", "b", "c")
    ),
    "svc": lambda m=120: classify(LowRankSVC(n_basis=15, random_state=0), m),
    "svc, hinge": lambda m=120: classify(
        LowRankSVC(n_basis=15, loss="hinge", random_state=0), m, ("a", "b", "c")
    ),
    "svr": lambda m=120: regress(LowRankSVR(n_basis=15, random_state=0), m),
    "one class": lambda m=120: describe(LowRankOneClassSVM(n_basis=15, random_state=0), m),
    "lp": lambda m=120: regress(LPMachineRegressor(n_basis=15, tol=0.1, random_state=0), m),
    "lp, classes": lambda m=120: classify(
        LPMachineClassifier(n_basis=15, tol=0.1, random_state=0), m
    ),
    "gp, classes": lambda m=120: classify(
        SparseGPClassifier(RBF(), optimizer=None, n_basis=15, random_state=0), m, ("a", "b", "c")
    ),
    "full scale, classes": lambda m=120: classify(
        FullScaleGPClassifier(RBF(), optimizer=None, n_basis=8, n_neighbors=5, random_state=0),
        m,
        ("a", "b", "c"),
    ),
    "glm": lambda m=120: SparseKernelGLM(n_basis=15, optimizer=None, random_state=0).fit(
        rows(m), np.exp(targets(rows(m)))
    ),
    "glm, huber": lambda m=120: regress(
        SparseKernelGLM(RBF(), loss="huber", alpha=0.1, n_basis=15, random_state=0), m
    ),
    "glm, quantiles": lambda m=120: regress(
        SparseKernelGLM("rbf", loss="quantile", quantile=[0.1, 0.9], n_basis=15, random_state=0), m
    ),
    "encoder": lambda m=120: TableEncoder().fit(rows(m)),
    "pipeline": lambda m=120: regress(
        make_table_pipeline(SparseKernelRidge(n_basis=15, random_state=0)), m
    ),
    "mixture": lambda m=120: HullMixture(n_terms=2, random_state=0).fit(
        rows(m) + 8.0 * (np.arange(m) % 2)[:, None]
    ),
}
# They compare with their training rows, so they have to keep them.
KEEP_ROWS = {
    *("exact gp", "exact gp, cg", "neighbours"),
    *("full scale", "full scale, classes", "full scale, whitened"),
}


@functools.cache
def fitted(name):
    return MODELS[name]()


def assert_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.pursuit"


def again(model, path, **given):
    """The model, saved and loaded; saving what was loaded gives the same bytes."""
    model.save(path)
    loaded = pursuit.load(path, **given)
    first = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == first
    assert type(loaded) is type(model)
    return loaded


def test_every_estimator_is_tried():
    public = [getattr(pursuit, name) for name in pursuit.__all__]
    estimators = {c for c in public if inspect.isclass(c) and issubclass(c, BaseEstimator)}
    estimators.remove(pursuit.SigmoidAtoms)  # part of a HullRegressor, which is saved with it
    assert {type(fitted(name)) for name in MODELS} == estimators


@pytest.mark.parametrize("name", MODELS)
def test_the_same_model_comes_back(name, path):
    model = fitted(name)
    loaded = again(model, path)
    assert_same(answers(loaded), answers(model))
    assert repr(loaded) == repr(model)


@pytest.mark.parametrize("name", sorted(MODELS.keys() - KEEP_ROWS))
def test_the_file_does_not_grow_with_the_rows(name, path, size):
    """But for the square of the basis, which a bound may choose larger for more rows."""
    sizes, terms = [], []
    for m in (150, size(600, 5000)):
        model = MODELS[name](m)
        model.save(path)
        sizes.append(path.stat().st_size)
        terms.append(getattr(model, "n_basis_", getattr(model, "n_terms_", 1)))
    grown = max(1.0, np.sum(terms[1]) / np.sum(terms[0])) ** 2
    assert sizes[1] < 1.1 * grown * sizes[0] + 1000


@pytest.mark.parametrize("name", ["gp", "ridge", "ridge, refit"])
def test_a_loaded_model_goes_on(name, path):
    """Truncate, certify and grow give what they give on the model itself."""
    X = rows()
    y = targets(X)
    model = fitted(name)
    loaded = again(model, path)
    pairs = [(loaded.truncated(7), model.truncated(7))]
    if name != "ridge":
        pairs.append((loaded.grow(20, X, y), model.grow(20, X, y)))
    for one, other in pairs:
        assert_same(answers(one), answers(other))
        np.testing.assert_array_equal(one.basis_indices_, other.basis_indices_)
    for kind in ("hybrid", "published"):
        assert loaded.certify(X, y, kind=kind).gap == model.certify(X, y, kind=kind).gap
    assert str(loaded.certificate_) == str(model.certificate_)
    assert str(loaded.path_) == str(model.path_)


def test_a_truncated_model_can_be_saved(path):
    model = fitted("gp").truncated(5)
    loaded = again(model, path)
    assert_same(answers(loaded), answers(model))
    assert loaded.certificate_ is None


def test_a_loaded_map_needs_its_rows_for_what_is_about_them(path):
    X = rows()
    model = fitted("map, columns")
    loaded = again(model, path)
    assert loaded.residual_bound().value == model.residual_bound().value
    with pytest.raises(ValueError, match="pass the training rows as X="):
        loaded.as_linear_operator()
    product = loaded.as_linear_operator(X) @ np.ones(len(X))
    np.testing.assert_array_equal(product, model.as_linear_operator(X) @ np.ones(len(X)))


def test_a_loaded_booster_has_no_margins(path):
    loaded = again(fitted("boosting"), path)
    assert not hasattr(loaded, "margins_")
    assert len(list(loaded.staged_predict(rows()))) == 10


def test_the_learning_report_is_kept(path):
    model = fitted("gp")
    assert str(again(model, path).learning_report_) == str(model.learning_report_)


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_rows(path, form):
    X = form(np.maximum(rows(), 0))
    model = SparseKernelRidge(n_basis=10, random_state=0).fit(X, targets(rows()))
    loaded = again(model, path)
    assert type(loaded.basis_) is type(model.basis_)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_float32_rows_and_several_outputs(path):
    X = rows().astype(np.float32)
    Y = np.column_stack([targets(X), X[:, 0]])
    model = SparseGPRegressor(n_basis=10, random_state=0, dtype=np.float32).fit(X, Y)
    loaded = again(model, path)
    assert loaded.basis_.dtype == np.float32
    assert loaded.dtype is np.float32
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_precomputed_kernels(path):
    K = np.exp(-((rows()[:, None] - rows()[None]) ** 2).sum(axis=2))
    model = SparseKernelRidge("precomputed", n_basis=10, random_state=0).fit(K, targets(rows()))
    loaded = again(model, path)
    assert loaded.basis_ is None
    np.testing.assert_array_equal(loaded.predict(K), model.predict(K))


def test_names_of_features_and_of_classes(path):
    X = pd.DataFrame(rows(), columns=["längs", "quer", "hoch"])
    y = pd.Series(classes(rows()), dtype=object)
    model = KernelMatchingPursuitClassifier(n_basis=5).fit(X, y)
    loaded = again(model, path)
    assert loaded.feature_names_in_.tolist() == ["längs", "quer", "hoch"]
    assert loaded.feature_names_in_.dtype == object
    assert loaded.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(X[["quer", "längs", "hoch"]])


def test_the_output_of_transform_stays_set(path):
    model = MODELS["pca"]().set_output(transform="pandas")
    assert isinstance(again(model, path).transform(rows()), pd.DataFrame)


def test_no_two_classes_that_files_name_are_called_the_same():
    assert not KERNELS.keys() & records().keys()


def test_every_frozen_dataclass_of_the_list_is_saved_by_its_fields():
    for value in (Search("pooled", rows="all", candidates=rows(3)), Evidence(restarts=2)):
        tree, arrays = encode(value)
        assert tree["class"] == type(value).__name__
        found = decode(tree, arrays)
        assert type(found) is type(value)
        assert_same(
            [getattr(found, field.name) for field in dataclasses.fields(found)],
            [getattr(value, field.name) for field in dataclasses.fields(value)],
        )
        forged = {**tree, "fields": {**tree["fields"], "more": 1}}
        with pytest.raises(StoreError, match="the value is not what it must be"):
            decode(forged, arrays)
    forged = {"!": "object", "class": "Evidence", "fields": {"restarts": -1, "rows": 5}}
    with pytest.raises(StoreError, match=r"cannot be a Evidence \(Evidence\(restarts=...\) must"):
        decode(forged, {})


def test_items_of_tuples_are_checked_against_their_annotations():
    assert conforms((1, "a"), tuple[int, str])
    assert conforms((1.0, 2), tuple[float, ...])
    assert not conforms((1, 2), tuple[int, str])
    assert not conforms((1,), tuple[int, str])
    assert not conforms((1.0, "a"), tuple[float, ...])


def test_own_candidates_are_kept(path):
    own = {
        "search": Search(candidates=rows(20, seed=3)),
        "kernel": RBF(),
        "noise": 0.1,
        "optimizer": None,
    }
    model = regress(SparseGPRegressor(n_basis=5, **own))
    loaded = again(model, path)
    np.testing.assert_array_equal(loaded.search.candidates, model.search.candidates)


@pytest.mark.parametrize("name", MODELS)
def test_skops_takes_the_models_too(name):
    io = pytest.importorskip("skops.io")
    model = fitted(name)
    dumped = io.dumps(model)
    assert set(io.get_untrusted_types(data=dumped)) <= set(pursuit.trusted_types())
    assert_same(answers(io.loads(dumped, trusted=pursuit.trusted_types())), answers(model))


# What files do not hold


def shared_letters(A, B):
    return np.array([[float(len(set(a) & set(b))) for b in B] for a in A])


def tanimoto(A, B):
    return 1.0 / (1.0 + np.abs(A[:, None] - B[None]).sum(axis=2))


def test_a_function_has_to_be_passed_again(path):
    words = ["cat", "act", "dog", "god", "cow", "bat", "tab", "owl"]
    lengths = np.arange(8.0)
    model = SparseKernelRidge(shared_letters, alpha=0.1, n_basis=6).fit(words, lengths)
    loaded = again(model, path, kernel=shared_letters)
    assert loaded.basis_ == model.basis_
    np.testing.assert_array_equal(loaded.predict(words), model.predict(words))
    with pytest.raises(StoreError, match=r"is the function shared_letters.*kernel=\.\.\."):
        pursuit.load(path)
    with pytest.raises(StoreError, match="must be the function shared_letters again, got 'rbf'"):
        pursuit.load(path, kernel="rbf")
    with pytest.raises(StoreError, match=r"alpha= cannot be changed.*it needs kernel"):
        pursuit.load(path, kernel=shared_letters, alpha=3)


def test_many_strings(path):
    words = [f"{i:b}é" + "\ud800" * (i % 2) for i in range(300)]
    model = SpanNeighbors(shared_letters, n_components=3).fit(words)
    loaded = again(model, path, kernel=shared_letters)
    assert words == loaded._X
    header, arrays = read(path)
    where = header["state"]["_X"]
    for key, array in [
        ("ends", -arrays[where["ends"]]),
        ("ends", arrays[where["ends"]][:-1]),
        ("data", np.full_like(arrays[where["data"]], 255)),
        ("data", arrays[where["data"]].astype(float)),
    ]:
        write(path, header, {**arrays, where[key]: array})
        with pytest.raises(StoreError, match="_X is not what it must be"):
            pursuit.load(path, kernel=shared_letters)


def test_bytes_and_wrapped_functions(path):
    items = [b"abc", b"\xff\x00", b"ab", b"c"] * 3
    kernel = pursuit.pairwise(lambda a, b: float(len(set(a) & set(b))))
    model = SpanNeighbors(kernel, n_components=3).fit(items)
    loaded = again(model, path, kernel=kernel)
    assert_same(loaded.kneighbors(items[:4], 2), model.kneighbors(items[:4], 2))


def test_one_function_among_several_kernels(path):
    kernels = ["rbf", tanimoto]
    model = regress(KernelMatchingPursuitRegressor(kernels, n_basis=12))
    loaded = again(model, path, kernel=kernels)
    assert_same(answers(loaded), answers(model))
    with pytest.raises(StoreError, match="kernel must be made like the one"):
        pursuit.load(path, kernel=tanimoto)


def test_two_views_with_functions(path):
    X = rows()
    model = SparseKernelCCA(tanimoto, "linear", n_basis=5, random_state=0).fit(X, X[:, :2])
    loaded = again(model, path, kernel_x=tanimoto)
    assert_same(answers(loaded), answers(model))


def test_other_parameters_that_are_objects(path):
    generator = np.random.RandomState(0)
    model = regress(HullRegressor(n_terms=5, random_state=generator))
    message = r"random_state of the .* is of type RandomState.*load\(path, random_state=\.\.\.\)"
    with pytest.raises(StoreError, match=message):
        again(model, path)
    loaded = pursuit.load(path, random_state=0)
    assert loaded.random_state == 0
    assert_same(answers(loaded), answers(model))


class OwnKernel(RBF):
    """Unknown to files."""


class OwnModel(SparseKernelRidge):
    """Unknown to files."""


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (HullBoostClassifier(DecisionTreeClassifier(max_depth=1), n_terms=3), "learners"),
        (HullRegressor(PolynomialFeatures(2), radius=2.0), "transformer_"),
        (SparseKernelRidge(OwnKernel(), n_basis=3), "kernel_ is of type OwnKernel"),
        (OwnModel(n_basis=3), "OwnModel is a class of your own"),
    ],
)
def test_what_others_have_written_is_refused(model, message, path):
    fit = classify if isinstance(model, HullBoostClassifier) else regress
    with pytest.raises(StoreError, match=rf"(?s){message}.*skops or pickle"):
        fit(model).save(path)
    assert not path.exists()


# What can go wrong


def test_an_unfitted_model_is_not_saved(path):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        SparseGPRegressor().save(path)


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(StoreError, match="is a folder"):
        fitted("ridge").save(tmp_path)
    with pytest.raises(StoreError, match="is a folder"):
        pursuit.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        pursuit.load(tmp_path / "missing")


def test_paths_of_any_kind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fitted("ridge").save("here")
    assert pursuit.load(pathlib.Path("here")).n_basis_ == 15


def test_a_full_disk_leaves_the_old_model(path, monkeypatch):
    model = fitted("ridge")
    model.save(path)
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        model.truncated(3).save(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({}, "holds no model"),
        ({"content": "model"}, "header is not that of a model"),
        ({"model": "Popen"}, "holds a 'Popen', which this version"),
        ({"model": "BaseEstimator"}, "which this version"),
        ({"params": {"shell": True}}, "no parameter 'shell': install a newer pursuit"),
        ({"state": {"predict": 3}}, "SparseKernelRidge.predict is not"),
        ({"state": {"__class__": 3}}, "SparseKernelRidge.__class__ is not"),
        ({"state": {"not a name": 3}}, "not a name is not"),
        ({"state": {"alpha": 3}}, "a parameter is among the fitted attributes"),
        ({"state": {"noise_": "loud"}}, "SparseKernelRidge.noise_ is not"),
        ({"state": {"x": {"!": "object", "class": "Path", "fields": {}}}}, "x is not"),
        ({"state": {"x": {"!": "object", "class": "Popen", "fields": {}}}}, "x is not"),
        ({"state": {"x": {"!": "object", "class": "RBF", "fields": {"k": 1}}}}, "cannot be a RBF"),
        ({"state": {"x": {"!": "type", "name": "object"}}}, "x is not"),
        ({"state": {"x": {"!": "dtype", "name": "O"}}}, "x is not"),
        ({"state": {"x": {"!": "array", "at": "0"}}}, "x is not"),
        ({"state": {"x": {"!": "import", "name": "os"}}}, "x is not"),
        ({"state": {"x": {"!": "given", "name": "kernel"}}}, "x is not"),
        ({"state": {"x": {}}}, "x is not"),
        ({"state": 3}, "SparseKernelRidge is not"),
        ({"state": {"n_basis_": 3, "basis_": [1.0]}}, "basis_ and the size of the basis"),
    ],
)
def test_headers_that_no_model_has(path, header, message):
    whole = {"content": "model", "model": "SparseKernelRidge", "given": {}, "params": {}}
    if header not in ({}, {"content": "model"}):
        header = {**whole, "state": {}, **header}
    write(path, header, {})
    with pytest.raises(StoreError, match=message):
        pursuit.load(path)


def test_sparse_indices_are_checked_before_compiled_code_trusts_them(path):
    X = sparse.csr_array(np.maximum(rows(), 0))
    SparseKernelRidge(n_basis=10, random_state=0).fit(X, targets(rows())).save(path)
    header, arrays = read(path)
    at = header["state"]["basis_"]["indices"]
    write(path, header, {**arrays, at: arrays[at] + 1000})
    with pytest.raises(StoreError, match="basis_ is no sparse matrix"):
        pursuit.load(path)


def test_parameters_that_are_not_in_an_old_file_have_their_default(path):
    fitted("ridge").save(path)
    header, arrays = read(path)
    del header["params"]["max_time"]
    write(path, header, arrays)
    assert pursuit.load(path).max_time is None


def test_fields_that_are_not_in_an_old_file_have_their_default(path):
    fitted("ridge").save(path)
    header, arrays = read(path)
    fields = header["state"]["certificate_"]["fields"]
    del fields["baseline"], fields["reference"]
    write(path, header, arrays)
    found = pursuit.load(path).certificate_
    assert (found.reference, found.baseline) == (None, "f = 0")
    del fields["kind"]
    write(path, header, arrays)
    with pytest.raises(StoreError, match="certificate_ is not"):
        pursuit.load(path)


def test_every_kernel_of_scikit_learn_can_be_saved():
    abstract = {"Kernel", "KernelOperator", "Hyperparameter"}
    module = inspect.getmodule(Kernel)
    own = {
        name
        for name, one in vars(module).items()
        if inspect.isclass(one) and issubclass(one, Kernel) and one.__module__ == module.__name__
    }
    ours = {"Additive", "Categorical", "ColumnsKernel"}
    assert set(KERNELS) == (own - abstract) | ours
