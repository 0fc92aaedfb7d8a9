"""ONNX graphs give what the models give, run by onnxruntime."""

import builtins

import numpy as np
import pytest
from scipy import sparse
from scipy.special import erf, expit
from sklearn.exceptions import NotFittedError
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
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from user_kernels import Cauchy

import pursuit
from pursuit import (
    ExactGPRegressor,
    FullScaleGPClassifier,
    FullScaleGPRegressor,
    GreedyFeatureMap,
    HullMixture,
    KernelMatchingPursuitClassifier,
    KernelMatchingPursuitRegressor,
    LowRankOneClassSVM,
    LowRankSVC,
    LowRankSVR,
    LPMachineClassifier,
    LPMachineRegressor,
    SparseGPClassifier,
    SparseGPRegressor,
    SparseKernelGLM,
    SparseKernelPCA,
    SparseKernelRidge,
    on_columns,
)
from pursuit.estimators.onnx_export.answers import erf as erf_of
from pursuit.estimators.onnx_export.graph import Graph, block
from pursuit.kernels import compile_kernel
from pursuit.objectives import PoissonRows

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

KERNELS = {
    "rbf": RBF(1.3),
    "rbf, scales": ConstantKernel(2.5) * RBF([0.7, 1.5, 20.0]),
    "matern 1/2": ConstantKernel(0.3) * Matern([1.0, 2.0, 3.0], nu=0.5),
    "matern 3/2": Matern(1.5, nu=1.5),
    "matern 5/2": ConstantKernel(3.0) * Matern([1.5, 1.0, 2.0], nu=2.5),
    "matern ∞": Matern(1.5, nu=np.inf),
    "rational quadratic": ConstantKernel(1.7) * RationalQuadratic(1.2, alpha=0.6),
    "dot": DotProduct(0.5),
    "polynomial": (DotProduct(1.0) ** 3) * ConstantKernel(0.01),
    "sum": RBF(1.0) + 0.1 * DotProduct() + ConstantKernel(0.2) + WhiteKernel(0.05),
    "matern 9/2": ConstantKernel(1.7) * Matern([1.5, 1.0, 2.0], nu=4.5),
    "periodic": ConstantKernel(1.7) * on_columns(ExpSineSquared(1.1, 2.5), [1]) + RBF(1.3),
    "periodic, three features": RBF(1.5) * ExpSineSquared(1.4, 6.0) + RBF(1.5),
    "columns": on_columns(RBF([1.0, 2.0]), [2, 0]) * on_columns(Matern(1.3), 1) + 0.2,
    "laplacian": ConstantKernel(1.7) * PairwiseKernel(0.3, metric="laplacian"),
    "cosine": PairwiseKernel(metric="cosine") + ConstantKernel(0.4) * RBF(1.2),
    "sigmoid": 0.1 * PairwiseKernel(0.05, metric="sigmoid") + RBF(1.2),
    "cubic": ConstantKernel(0.1) * PairwiseKernel(0.3, metric="poly"),
    "product": RBF([1.0, 2.0, 3.0]) * (Matern(2.0, nu=1.5) + 0.5 * DotProduct()) * 2.0,
}


def rows(m=150, seed=0, shift=0.0):
    return np.random.default_rng(seed).standard_normal((m, 3)) + shift


def targets(X):
    X = X - np.round(X.mean())
    rng = np.random.default_rng(1)
    return 5 + np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(len(X))


def run(graph, X):
    """Outputs by name."""
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": X}), strict=True))


def near_and_far(X):
    """New rows, training rows themselves, rows next to them, and one far away."""
    return np.vstack([rows(40, seed=5, shift=X.mean()), X[:20], X[:20] + 1e-7, X[:1] + 30.0])


def fitted_gp(kernel, X, y, **options):
    noise = {} if "White" in repr(kernel) else {"noise": 0.05}
    model = SparseGPRegressor(kernel, n_basis=40, optimizer=None, random_state=0, **noise)
    return model.set_params(**options).fit(X, y)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_mean_and_standard_deviation(name, shift):
    X = rows(shift=shift)
    if shift and any(part in repr(KERNELS[name]) for part in ("Dot", "cosine", "sigm", "poly")):
        X = X - shift + 1.0  # an inner product far from 0 has no digits left in any arithmetic
    model = fitted_gp(KERNELS[name], X, targets(X))
    new = near_and_far(X)
    mean, std = model.predict(new, return_std=True)
    found = run(pursuit.to_onnx(model, return_std=True), new)
    assert list(found) == ["y", "std"]
    assert found["y"].dtype == np.float64
    np.testing.assert_allclose(found["y"], mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["std"], std, rtol=1e-5)


def test_a_learned_and_calibrated_model():
    X = rows(400)
    model = SparseGPRegressor(n_basis=60, random_state=0).fit(X, targets(X))
    new = near_and_far(X)
    mean, std = model.predict(new, return_std=True)
    found = run(pursuit.to_onnx(model, return_std=True), new)
    np.testing.assert_allclose(found["y"], mean, rtol=1e-5)
    np.testing.assert_allclose(found["std"], std, rtol=1e-5)


def test_calibrated_spread_far_from_the_basis():
    """Below 1 the factor of what the basis misses rises to 1 where it misses everything."""
    X = rows()
    model = fitted_gp(RBF(1.0), X, targets(X))
    model._spread = pursuit.linalg.PredictiveVariance(0.04, 0.3)
    new = np.vstack([near_and_far(X), 3 * rows(40, seed=8)])
    std = model.predict(new, return_std=True)[1]
    found = run(pursuit.to_onnx(model, return_std=True), new)["std"]
    np.testing.assert_allclose(found, std, rtol=1e-5)


def test_one_feature_and_one_basis_function():
    """The sizes at which constants have a single entry."""
    X = rows()[:, :1]
    for n in (1, 40):
        model = fitted_gp(ConstantKernel(1000.3) * RBF(0.7), X, targets(rows()), n_basis=n)
        mean, std = model.predict(X, return_std=True)
        found = run(pursuit.to_onnx(model, return_std=True), X)
        np.testing.assert_allclose(found["y"], mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found["std"], std, rtol=1e-5)


def test_several_outputs_and_truncation():
    X = rows()
    Y = np.column_stack([targets(X), 100 * X[:, 0]])
    model = fitted_gp(RBF(1.0), X, Y).truncated(13)
    mean, std = model.predict(X, return_std=True)
    found = run(pursuit.to_onnx(model, return_std=True), X)
    assert found["y"].shape == (len(X), 2)
    np.testing.assert_allclose(found["y"], mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["std"], std, rtol=1e-5)


def test_float32_rows_are_computed_in_float64():
    X = rows().astype(np.float32)
    model = fitted_gp(RBF(1.0), X, targets(X), dtype=np.float32)
    mean, std = model.predict(X, return_std=True)
    found = run(pursuit.to_onnx(model, return_std=True, dtype=np.float32), X)
    assert found["y"].dtype == found["std"].dtype == np.float32
    np.testing.assert_allclose(found["y"], mean, rtol=1e-6)
    np.testing.assert_allclose(found["std"], std, rtol=1e-6)


OTHERS = {
    "ridge": lambda X, y: SparseKernelRidge(n_basis=20, random_state=0).fit(X, y),
    "ridge, polynomial": lambda X, y: SparseKernelRidge(
        "poly", degree=2, gamma=0.5, coef0=2.0, n_basis=20, method="subspace", random_state=0
    ).fit(X, y),
    "ridge, several outputs": lambda X, y: SparseKernelRidge(
        "linear", n_basis=3, method="subspace", random_state=0
    ).fit(X, np.column_stack([y, X])),
    "exact": lambda X, y: ExactGPRegressor(RBF(), noise=0.1, optimizer=None).fit(X, y),
    "matching": lambda X, y: KernelMatchingPursuitRegressor(n_basis=12).fit(X, y),
    "matching, several kernels": lambda X, y: KernelMatchingPursuitRegressor(
        [RBF(0.5), RBF(5.0), "linear"], n_basis=12
    ).fit(X, y),
    "matching, no constant": lambda X, y: KernelMatchingPursuitRegressor(
        n_basis=12, fit_intercept=False
    ).fit(X, np.column_stack([y, -y])),
    "matching, classes": lambda X, y: KernelMatchingPursuitClassifier(n_basis=8).fit(X, y > 6),
    "matching, three classes": lambda X, y: KernelMatchingPursuitClassifier(n_basis=8).fit(
        X, np.digitize(y, [5, 6])
    ),
    "lp": lambda X, y: LPMachineRegressor(random_state=0).fit(X, y),
    "lp, classes": lambda X, y: LPMachineClassifier(random_state=0).fit(X, y > 6),
    "svc": lambda X, y: LowRankSVC(n_basis=20, random_state=0).fit(X, y > 6),
    "svc, scaled, three classes": lambda X, y: LowRankSVC(
        n_basis=20, gamma="scale", random_state=0
    ).fit(X, np.digitize(y, [5, 6])),
    "one class": lambda X, y: LowRankOneClassSVM(n_basis=20, random_state=0).fit(X),
    "svr": lambda X, y: LowRankSVR(n_basis=20, random_state=0).fit(X, y),
    "gp, classes": lambda X, y: SparseGPClassifier(
        RBF(), optimizer=None, n_basis=20, random_state=0
    ).fit(X, y > 6),
    "map": lambda X, y: GreedyFeatureMap(n_components=20, random_state=0).fit(X),
    "pca": lambda X, y: SparseKernelPCA(n_basis=20, n_components=3, random_state=0).fit(X),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_models(name):
    X = rows(100)
    model = OTHERS[name](X, targets(X))
    new = near_and_far(X)
    outputs = run(pursuit.to_onnx(model), new)
    assert ("probabilities" in outputs) == hasattr(model, "predict_proba")
    methods = {
        "y": "predict",
        "decision": "decision_function",
        "probabilities": "predict_proba",
        "features": "transform",
        "scores": "transform",
    }
    for output, found in outputs.items():
        expected = getattr(model, methods[output])(new)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7 * np.abs(expected).max())


def probability_cases():
    X = rows(300)
    y = targets(X)
    three = np.array(["low", "middle", "high"])[np.digitize(y, [5.3, 6.3])]
    plain = {"optimizer": None, "n_basis": 25, "random_state": 0}
    return {
        "two classes, calibrated": SparseGPClassifier(RBF(), **plain).fit(X, y > 6),
        "two classes, as it stands": SparseGPClassifier(RBF(), calibration=None, **plain).fit(
            X, y > 6
        ),
        "one function": SparseGPClassifier(RBF(), **plain).fit(X, y > 6).truncated(1),
        "three classes": SparseGPClassifier(
            ConstantKernel(7.3) * Matern([0.5, 1.0, 2.0], nu=1.5) + 0.1 * DotProduct(), **plain
        ).fit(X, three),
        "learned": SparseGPClassifier(n_basis=25, random_state=0).fit(X, three),
        "global part": FullScaleGPClassifier(n_basis=25, random_state=0)
        .fit(X, three)
        .without_neighbors(),
        "matching, three classes": KernelMatchingPursuitClassifier(loss="logistic", n_basis=8).fit(
            X, three
        ),
        "matching, two classes": KernelMatchingPursuitClassifier(loss="logistic", n_basis=8).fit(
            X, y > 6
        ),
    }


def test_probabilities_of_classes():
    """Near the rows and far from them, where the share of the prior that is missed grows to 1."""
    new = np.vstack([near_and_far(rows(300)), 3.0 * rows(60, seed=9)])
    for name, model in probability_cases().items():
        found = run(pursuit.to_onnx(model), new)
        assert list(found) == ["decision", "probabilities"], name
        expected = model.predict_proba(new)
        assert found["probabilities"].shape == expected.shape
        np.testing.assert_allclose(
            found["probabilities"], expected, rtol=1e-8, atol=1e-10, err_msg=name
        )
        np.testing.assert_allclose(found["probabilities"].sum(axis=1), 1.0, rtol=1e-14)
        np.testing.assert_array_equal(
            model.classes_[found["probabilities"].argmax(axis=1)], model.predict(new)
        )


def test_probabilities_are_not_those_of_the_mean():
    """The control: without the variances, the logistic function of ``decision`` is far off."""
    X = rows()
    model = SparseGPClassifier(RBF(), optimizer=None, n_basis=20, random_state=0)
    model.fit(X, targets(X) > 6)
    new = near_and_far(X)
    plain = expit(run(pursuit.to_onnx(model), new)["decision"])
    assert np.abs(plain - model.predict_proba(new)[:, 1]).max() > 1e-3


def test_the_error_function():
    x = np.concatenate([np.linspace(-9, 9, 4001), [0.0, 1.0, -1.0, 1e-300, 1e300, -np.inf, np.inf]])
    graph = Graph()
    graph.output("erf", erf_of(graph, graph.input()), np.float64, 1)
    found = run(graph.model(1, np.float64, "erf"), x[:, None])["erf"][:, 0]
    np.testing.assert_allclose(found, erf(x), rtol=4e-15, atol=0)


LOSSES = ["poisson", "gamma", "tweedie", "negative-binomial", "logistic", "huber", "absolute"]


@pytest.mark.parametrize("loss", [*LOSSES, "expectile", "quantile", "quantiles"])
def test_predictions_of_generalised_linear_models(loss):
    X = rows()
    f = 0.5 * np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]
    y = np.random.default_rng(2).poisson(3.0 * np.exp(f)) + (loss == "gamma")
    y = y > 3 if loss == "logistic" else y
    level = {"quantiles": (0.1, 0.5, 0.9), "quantile": 0.3, "expectile": 0.8}.get(loss, 0.5)
    model = SparseKernelGLM(
        RBF(1.2),
        loss=loss.removesuffix("s") if loss == "quantiles" else loss,
        quantile=level,
        optimizer=None,
        n_basis=20,
        random_state=0,
    ).fit(X, y)
    new = np.vstack([near_and_far(X), 3.0 * rows(200, seed=9)])
    found = run(pursuit.to_onnx(model), new)
    assert list(found) == ["y", "decision"]
    for name, expected in (
        ("y", model.predict(new)),
        ("decision", model.decision_function(new)),
    ):
        assert found[name].shape == expected.shape
        np.testing.assert_allclose(found[name], expected, rtol=1e-8, atol=1e-9)
    if loss == "quantiles":
        assert np.any(found["decision"] != found["y"])


def test_offsets_are_added_to_the_decision():
    X = rows()
    exposure = np.random.default_rng(3).uniform(1, 20, len(X))
    y = np.random.default_rng(2).poisson(exposure * np.exp(0.3 * X[:, 0]))
    model = SparseKernelGLM(RBF(), loss="poisson", optimizer=None, n_basis=20, random_state=0)
    model.fit(X, y, offset=np.log(exposure))
    found = run(pursuit.to_onnx(model), X)["decision"]
    expected = model.predict(X, offset=np.log(exposure))
    np.testing.assert_allclose(np.exp(found + np.log(exposure)), expected, rtol=1e-9)


class SquareRoot(PoissonRows):
    """Counts, of which the root is predicted."""

    def predicted(self, f):
        return np.exp(0.5 * f)


def test_a_link_in_python_leaves_the_decision():
    X = rows()
    y = np.random.default_rng(2).poisson(np.exp(0.3 * X[:, 0]))
    model = SparseKernelGLM(RBF(), loss=SquareRoot(), optimizer=None, n_basis=20).fit(X, y)
    with pytest.warns(UserWarning, match=r"SquareRoot.predicted is a Python .* decision alone"):
        graph = pursuit.to_onnx(model)
    assert list(run(graph, X)) == ["decision"]


def test_float32_probabilities():
    X = rows().astype(np.float32)
    model = SparseGPClassifier(RBF(), optimizer=None, n_basis=20, random_state=0)
    model.fit(X, targets(X) > 6)
    found = run(pursuit.to_onnx(model, dtype=np.float32), X)["probabilities"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=1e-6)


def test_models_of_sparse_rows():
    X = sparse.csr_array(np.maximum(rows(), 0))
    model = SparseKernelRidge(n_basis=20, random_state=0).fit(X, targets(rows()))
    found = run(pursuit.to_onnx(model), X.toarray())["y"]
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-5)


def test_a_loaded_model_can_be_exported_to_a_file(tmp_path):
    X = rows()
    fitted_gp(RBF(1.0), X, targets(X)).save(tmp_path / "model")
    model = pursuit.load(tmp_path / "model")
    pursuit.to_onnx(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    np.testing.assert_allclose(session.run(None, {"X": X})[0], model.predict(X), rtol=1e-5)


def test_an_export_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    X = rows()
    model, path = fitted_gp(RBF(1.0), X, targets(X)), tmp_path / "model.onnx"
    pursuit.to_onnx(model, path)
    before = path.read_bytes()

    def too_large(self):
        raise ValueError("the graph exceeds 2 GiB")

    monkeypatch.setattr(onnx.ModelProto, "SerializeToString", too_large)
    with pytest.raises(ValueError, match="2 GiB"):
        pursuit.to_onnx(model, path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


def test_no_rows_and_one_row():
    X = rows()
    graph = pursuit.to_onnx(fitted_gp(Matern(nu=0.5), X, targets(X)), return_std=True)
    assert run(graph, X[:0])["std"].shape == (0,)
    assert run(graph, X[:1])["y"].shape == (1,)


# What cannot be exported


def test_a_kernel_that_is_called():
    X = rows()[:, :1]
    for kernel in (
        RBF() + Cauchy(),
        lambda A, B: np.exp(-((A[:, None] - B[None]) ** 2).sum(2)),
    ):
        model = SparseKernelRidge(kernel, n_basis=5).fit(X, targets(rows()))
        with pytest.raises(ValueError, match="is a Python function, which ONNX cannot call"):
            pursuit.to_onnx(model)


def test_a_kernel_with_bessel_functions():
    X = rows()
    model = SparseKernelRidge(2.0 * Matern(nu=1.2), n_basis=5).fit(X, targets(X))
    with pytest.raises(ValueError, match=r"Matern with nu=1\.2 needs Bessel functions, which ONNX"):
        pursuit.to_onnx(model)


def test_histograms():
    X = np.abs(rows())
    X[0] = X[3] = 0.0
    model = SparseKernelRidge("chi2", alpha=0.5, n_basis=20).fit(X, targets(X))
    new = np.abs(rows(30, seed=4))
    new[0] = 0.0
    found = run(pursuit.to_onnx(model), new)["y"]
    np.testing.assert_allclose(found, model.predict(new), rtol=1e-7)
    graph, kernel = Graph(), compile_kernel("additive_chi2")[0]
    values, factor = block(graph, graph.input(), kernel, X)
    graph.output("k", values, np.float64, len(X))
    block_of_new = factor * run(graph.model(3, np.float64, "k"), new)["k"]
    np.testing.assert_allclose(block_of_new, kernel.tile(new, X), rtol=1e-12)


def test_periods_far_apart():
    """A million periods away the graph keeps the digits that the model keeps."""
    t = np.linspace(0.0, 3.0, 97)[:, None]
    model = fitted_gp(ExpSineSquared(1.0, 1.0), t, np.sin(2 * np.pi * t[:, 0]))
    found = run(pursuit.to_onnx(model), t + 2.0**20)["y"]
    np.testing.assert_allclose(found, model.predict(t + 2.0**20), rtol=1e-9, atol=1e-9)


def test_errors_name_what_to_do(tmp_path):
    X = rows()
    y = targets(X)
    with pytest.raises(NotFittedError):
        pursuit.to_onnx(SparseGPRegressor())
    with pytest.raises(TypeError, match="HullMixture cannot be exported to ONNX; these can: Ex"):
        pursuit.to_onnx(HullMixture(n_terms=2).fit(X))
    precomputed = SparseKernelRidge("precomputed", n_basis=5).fit(X @ X.T, y)
    with pytest.raises(ValueError, match="kernel='precomputed' leaves the kernel"):
        pursuit.to_onnx(precomputed)
    words = ["a", "ab", "b"]
    letters = SparseKernelRidge(pursuit.pairwise(lambda a, b: len(set(a) & set(b)))).fit(
        words, [1.0, 2.0, 3.0]
    )
    with pytest.raises(ValueError, match="needs rows of numbers"):
        pursuit.to_onnx(letters)
    ridge = SparseKernelRidge(n_basis=5).fit(X, y)
    with pytest.raises(ValueError, match="return_std=True needs a SparseGPRegressor"):
        pursuit.to_onnx(ridge, return_std=True)
    with pytest.raises(ValueError, match="dtype must be float32 or float64, got float16"):
        pursuit.to_onnx(ridge, dtype=np.float16)


def named_table(m=120):
    X = rows(m)
    cities = np.array(["Köln", "Lund", "Ulm"], dtype=object)[np.arange(m) % 3]
    return {"a": X[:, 0], "b": X[:, 1], "city": cities}, targets(X) + (cities == "Ulm")


@pytest.mark.parametrize("columns", [["a", "b"], ["a", "b", "city"]])
@pytest.mark.parametrize("estimator", [SparseGPRegressor, SparseKernelRidge])
def test_of_a_pipeline_the_model_is_exported(columns, estimator):
    """The error names what to call, and that gives the pipeline's predictions."""
    pandas = pytest.importorskip("pandas")
    table, y = named_table()
    frame = pandas.DataFrame(table)[columns]
    pipeline = pursuit.make_table_pipeline(estimator(n_basis=20, random_state=0)).fit(frame, y)
    with pytest.raises(TypeError, match=r"export its model, to_onnx\(pipeline\[-1\]\)") as error:
        pursuit.to_onnx(pipeline)
    call = str(error.value).split("is then ")[1].removesuffix(".")
    encoded = eval(call, {"np": np, "pipeline": pipeline, "rows": frame})
    found = run(pursuit.to_onnx(pipeline[-1]), encoded)["y"]
    np.testing.assert_allclose(found, pipeline.predict(frame), rtol=1e-8)


def test_of_a_pipeline_of_scikit_learn_too():
    X = rows()
    pipeline = make_pipeline(StandardScaler(), SparseKernelRidge(n_basis=9)).fit(X, targets(X))
    with pytest.raises(TypeError, match=r"np\.asarray\(pipeline\[:-1\]\.transform\(rows\)\)\.$"):
        pursuit.to_onnx(pipeline)


def test_votes_of_pairs_are_no_sum():
    X = rows()
    model = LowRankSVC(n_basis=9, multi_class="ovo").fit(X, np.digitize(targets(X), [5, 6]))
    with pytest.raises(ValueError, match="fit with multi_class='ovr' to export"):
        pursuit.to_onnx(model)


def test_a_missing_package_is_named(monkeypatch):
    real = builtins.__import__

    def without_onnx(name, *args, **kwargs):
        if name == "onnx":
            raise ImportError("No module named 'onnx'")
        return real(name, *args, **kwargs)

    model = SparseKernelRidge(n_basis=5).fit(rows(), targets(rows()))
    monkeypatch.setattr(builtins, "__import__", without_onnx)
    with pytest.raises(ImportError, match=r'pip install "pursuit\[onnx\]"'):
        pursuit.to_onnx(model)


def test_near_rows_are_no_graph_and_the_global_part_is():
    X = rows(80)
    model = FullScaleGPRegressor(
        RBF(0.3), optimizer=None, noise=0.05, n_basis=10, n_neighbors=4, random_state=0
    ).fit(X, targets(X))
    with pytest.raises(
        TypeError, match=r"nearest training rows .* export model\.without_neighbors"
    ):
        pursuit.to_onnx(model)
    new = near_and_far(X)
    small = model.without_neighbors()
    found = run(pursuit.to_onnx(small, return_std=True), new)
    mean, std = model.global_.predict(new, return_std=True)
    np.testing.assert_allclose(found["y"], mean, rtol=1e-5)
    np.testing.assert_allclose(found["std"], std, rtol=1e-5)
