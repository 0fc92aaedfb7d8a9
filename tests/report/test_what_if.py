"""The model in the page predicts what the model in Python predicts, in a real browser."""

from __future__ import annotations

import base64
import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

import pursuit
from pursuit import Additive, Categorical, on_columns
from pursuit.estimators.page.numbers import packed, packed_triangle
from pursuit.plots.report import precise

KERNELS = {
    "rbf": lambda: 2.0 * RBF([1.0, 2.0, 0.7]),
    "matern12": lambda: Matern([1.0, 2.0, 3.0], nu=0.5),
    "matern32": lambda: 0.5 * Matern(1.5, nu=1.5),
    "matern52": lambda: Matern([1.0, 2.0, 0.7], nu=2.5) + WhiteKernel(0.01),
    "matern72": lambda: Matern(1.5, nu=3.5),
    "rational": lambda: RationalQuadratic(1.2, alpha=0.6),
    "linear": lambda: DotProduct(0.5) + 0.1 * RBF(1.0),
    "periodic": lambda: on_columns(ExpSineSquared(1.0, 1.3), [0]) * RBF(4.0) + ConstantKernel(0.3),
    "categories": lambda: on_columns(Matern([1.0, 2.0], nu=2.5), [0, 1]) * Categorical([2], "one"),
    "pairs": lambda: 2.0 * on_columns(RBF([1.0, 2.0]), [0, 1]) * pairs(),
    "additive": lambda: Additive(RBF(0.8), order=2),
    "power": lambda: (DotProduct(1.0) ** 2) * RBF(3.0) + on_columns(RBF(0.5), [1]),
}
WITH_LEVELS = {"categories", "pairs"}
LEVELS = ["Bonn", "Köln", "Lund", "Oslo"]


def pairs():
    factor = np.array([[1.0], [0.4], [-0.8], [2.0]])
    return Categorical([2], "pairs", factors=[factor], levels=[np.arange(4.0)])


def table(with_levels, m=150):
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, (m, 3))
    y = 5.0 + np.sin(3.0 * X[:, 0]) + X[:, 1] + 0.3 * X[:, 2] + 0.1 * rng.standard_normal(m)
    if not with_levels:
        return X, y
    level = rng.integers(0, 4, m)
    frame = pd.DataFrame(X[:, :2], columns=["first", "second"])
    return frame.assign(city=np.array(LEVELS, dtype=object)[level]), y + 0.5 * level


def fitted(name, n_basis=40, **options):
    X, y = table(name in WITH_LEVELS)
    parameters = {"noise": 0.02, "optimizer": None, "random_state": 0, "certificate": None}
    model = pursuit.SparseGPRegressor(KERNELS[name](), n_basis=n_basis, **parameters, **options)
    return model.fit(X, y), X, y


def written(model, folder, *judged):
    path = folder / "page.html"
    model.report(path, *judged)
    return path


# Set every control at random, as a reader would, and collect what the page makes of it.
MOVE = """(positions) => positions.map((each) => {
  each.forEach((share, i) => {
    const control = document.getElementById(`input${i}`);
    const last = control.options ? control.options.length - 1 : Number(control.max);
    control.value = String(Math.round(share * last));
    control.dispatchEvent(new Event("input", { bubbles: true }));
  });
  const values = each.map((_, i) => Number(
    (document.getElementById(`exact${i}`) ?? document.getElementById(`input${i}`)).value));
  const shown = document.querySelector("#prediction strong").textContent;
  return { values, shown, ...window.pursuit.predict(values) };
})"""


def settings(page, n, n_inputs, seed=0):
    shares = np.random.default_rng(seed).uniform(size=(n, n_inputs))
    return page.evaluate(MOVE, shares.tolist())


def rows_of(found, model):
    """The settings as rows that the model takes in Python."""
    values = np.array([one["values"] for one in found])
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return values
    frame = pd.DataFrame(values, columns=names)
    for name, levels in getattr(model, "categories_", {}).items():
        known = [*levels, "Paris"]
        frame[name] = [known[int(at)] for at in frame[name]]
    return frame


def quietly(method, *args, **options):
    """Levels that did not occur in training are a warning in Python."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "column 'city' holds values that did not occur")
        return method(*args, **options)


def check(found, model, method="gaussian"):
    """Means to 1e-9 of Σ|c_i k_i|, standard deviations and intervals to 1e-6."""
    rows = rows_of(found, model)
    mean, std = quietly(model.predict, rows, return_std=True)
    lower, upper = quietly(model.predict_interval, rows, 0.9, method)
    points = np.array([one["values"] for one in found])
    sizes = np.abs(model.kernel_(points, model.basis_)) @ np.abs(model.dual_coef_)
    sizes *= model._scale.scale[0]
    in_page = {key: np.array([one[key][0] for one in found]) for key in ("mean", "std")}
    ends = {key: np.array([one[key][0] for one in found]) for key in ("lower", "upper")}
    assert np.all(np.abs(in_page["mean"] - mean) <= 1e-9 * sizes)
    assert np.all(np.abs(in_page["std"] - std) <= 1e-6 * std)
    width = upper - lower
    assert np.all(np.abs(ends["lower"] - lower) <= 1e-6 * width)
    assert np.all(np.abs(ends["upper"] - upper) <= 1e-6 * width)
    assert [one["shown"] for one in found] == [precise(value) for value in mean]


@pytest.mark.parametrize("name", KERNELS)
def test_the_page_predicts_what_python_predicts(name, opened, tmp_path, size):
    model, _, _ = fitted(name)
    page, complaints = opened(written(model, tmp_path))
    check(settings(page, size(8, 200), 3), model)
    assert complaints == []


def changed(path, change):
    """The page with other numbers of the model."""
    text = path.read_text(encoding="utf-8")
    before = re.search(r'id="model">(.*?)</script>', text, re.S).group(1)
    numbers = json.loads(before)
    change(numbers["model"])
    path.write_text(text.replace(before, json.dumps(numbers)), encoding="utf-8")
    return path


def scaled(numbers, entry, factor):
    """An array whose entry is multiplied by a number."""
    raw = np.frombuffer(base64.b64decode(numbers["data"]), "<f8").copy()
    raw[entry] *= factor
    numbers["data"] = base64.b64encode(raw.tobytes()).decode()


def largest(model):
    return int(np.argmax(np.abs(model.dual_coef_)))


@pytest.mark.parametrize(
    "change",
    [
        lambda model, numbers: scaled(
            numbers["parts"][0]["coefficients"], largest(model), 1 + 1e-7
        ),
        lambda model, numbers: scaled(numbers["answer"]["spread"]["R"], 0, 1 + 1e-4),
        lambda model, numbers: numbers["answer"]["spread"].update(observed=0.0201),
    ],
    ids=["coefficient", "factor", "noise"],
)
def test_a_number_that_is_a_little_wrong_is_noticed(change, opened, tmp_path):
    model, _, _ = fitted("rbf")
    path = changed(written(model, tmp_path), lambda numbers: change(model, numbers))
    page, _ = opened(path)
    with pytest.raises(AssertionError):
        check(settings(page, 20, 3), model)


def test_numbers_travel_exactly():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.standard_normal(50) * 10.0 ** rng.integers(-200, 200, 50), [0.0]])
    whole = packed(values)
    assert np.array_equal(np.frombuffer(base64.b64decode(whole["data"]), "<f8"), values)
    short = packed(values, short=True)
    bytes_ = np.frombuffer(base64.b64decode(short["data"]), "u1").reshape(-1, 6)
    kept = np.hstack([np.zeros((len(values), 2), "u1"), bytes_]).copy().view("<f8")[:, 0]
    assert np.all(np.abs(kept - values) <= 2.0**-37 * np.abs(values))
    triangle = packed_triangle(np.array([[1.0, 9.0], [2.0, 3.0]]))
    assert np.array_equal(np.frombuffer(base64.b64decode(triangle["data"]), "<f8"), [1.0, 2.0, 3.0])


def of_numbers(model, found):
    rows = rows_of(found, model)
    np.testing.assert_allclose(
        np.squeeze([one["mean"] for one in found]), model.predict(rows), rtol=1e-9, atol=1e-9
    )
    if found[0]["lower"] is None:
        return
    method = "conformal" if model.coverage_guarantee_ is not None else "gaussian"
    for key, ends in zip(
        ("lower", "upper"), model.predict_interval(rows, 0.9, method), strict=True
    ):
        np.testing.assert_allclose(
            np.squeeze([one[key] for one in found]), ends, rtol=1e-7, atol=1e-7
        )


def of_classes(model, found):
    rows = rows_of(found, model)
    values = np.squeeze([one["mean"] for one in found])
    np.testing.assert_allclose(values, model.decision_function(rows), rtol=1e-9, atol=1e-9)
    labels = [one["label"] for one in found]
    if not hasattr(model, "classes_"):
        assert np.array_equal(np.array([-1, 1])[labels], model.predict(rows))
        return
    assert np.array_equal(model.classes_[labels], model.predict(rows))
    if hasattr(model, "predict_proba"):
        chances = np.array([one["probabilities"] for one in found])
        np.testing.assert_allclose(chances, model.predict_proba(rows), rtol=0, atol=1e-8)


def conformal(model, X, y):
    return model.fit(X[:300], y[:300]).conformalize(X[300:], y[300:])


GP = {"optimizer": None, "certificate": None, "n_basis": 30, "random_state": 0}
MODELS = {
    "calibrated": lambda X, y: pursuit.SparseGPRegressor(
        **{**GP, "optimizer": "evidence"}, calibration="loo"
    ).fit(X, y),
    "conformal": lambda X, y: pursuit.SparseGPRegressor(
        Matern(nu=1.5), noise=0.05, calibration="conformal", **GP
    ).fit(X, y),
    "student": lambda X, y: pursuit.SparseGPRegressor(
        RBF(1.0), noise=0.05, likelihood="student-t", **GP
    ).fit(X, y),
    "varying": lambda X, y: pursuit.SparseGPRegressor(RBF(1.0), noise="varying", **GP).fit(
        X, y + np.random.default_rng(0).standard_normal(len(y)) * np.exp(X[:, 0])
    ),
    "outputs": lambda X, y: pursuit.SparseGPRegressor(RBF(1.0), noise=0.05, **GP).fit(
        X, np.column_stack([y, 3.0 * X[:, 0]])
    ),
    "gaps": lambda X, y: pursuit.SparseGPRegressor(RBF(1.0), noise=0.05, **GP).fit(
        X, np.column_stack([np.where(X[:, 0] > 1.5, np.nan, y), 3.0 * X[:, 0]])
    ),
    "exact": lambda X, y: pursuit.ExactGPRegressor(
        RBF(1.0), noise=0.1, optimizer=None, solver="cholesky"
    ).fit(X, y, np.linspace(0.5, 2.0, len(y))),
    "ridge": lambda X, y: conformal(pursuit.SparseKernelRidge(n_basis=20), X, y),
    "svr": lambda X, y: pursuit.LowRankSVR(n_basis=20, random_state=0).fit(X, y),
    "matching": lambda X, y: pursuit.KernelMatchingPursuitRegressor(
        [RBF(1.0), DotProduct()], n_basis=12
    ).fit(X, y),
    "poisson": lambda X, y: conformal(
        pursuit.SparseKernelGLM(n_basis=20, random_state=0), X, np.rint(y)
    ),
    "negative-binomial": lambda X, y: conformal(
        pursuit.SparseKernelGLM(loss="negative-binomial", n_basis=20, random_state=0),
        X,
        np.rint(y),
    ),
    "quantiles": lambda X, y: conformal(
        pursuit.SparseKernelGLM(
            loss="quantile", quantile=[0.1, 0.5, 0.9], n_basis=12, random_state=0
        ),
        X,
        y,
    ),
    "two classes": lambda X, y: pursuit.SparseGPClassifier(n_basis=20, random_state=0).fit(
        X, np.where(y > 5, "up", "down")
    ),
    "three classes": lambda X, y: pursuit.SparseGPClassifier(
        Matern(nu=1.5), optimizer=None, n_basis=20, random_state=0
    ).fit(X, np.digitize(y, [4.5, 5.5])),
    "svc": lambda X, y: pursuit.LowRankSVC(n_basis=20, random_state=0).fit(
        X, np.digitize(y, [4.5, 5.5])
    ),
    "one class": lambda X, y: pursuit.LowRankOneClassSVM(n_basis=20, random_state=0).fit(X),
    "laplacian": lambda X, y: pursuit.SparseKernelRidge("laplacian", gamma=0.3, n_basis=9).fit(
        X, y
    ),
    "chi2": lambda X, y: pursuit.SparseKernelRidge("chi2", gamma=0.3, n_basis=9).fit(np.abs(X), y),
    "cosine": lambda X, y: pursuit.SparseKernelRidge("cosine", n_basis=3).fit(X, y),
    "sigmoid": lambda X, y: pursuit.KernelMatchingPursuitRegressor(
        "sigmoid", gamma=0.1, n_basis=9
    ).fit(X, y),
}


@pytest.mark.parametrize("name", MODELS)
def test_other_models_run_in_the_page(name, opened, tmp_path, size):
    X, y = table(False, m=400)
    model = MODELS[name](X, y)
    page, complaints = opened(written(model, tmp_path))
    found = settings(page, size(6, 60), 3)
    decides = hasattr(model, "decision_function") and not hasattr(model, "predict_interval")
    (of_classes if decides else of_numbers)(model, found)
    assert complaints == []
