"""The model in the page predicts what the model in Python predicts, in a real browser."""

from __future__ import annotations

import base64
import json
import re
import warnings
from pathlib import Path

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
from pursuit.estimators.page import what_if
from pursuit.estimators.page.numbers import packed, packed_triangle
from pursuit.estimators.reporting import describe
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
    return model.fit(X[:200], y[:200]).conformalize(X[200:], y[200:])


GP = {"optimizer": None, "certificate": None, "n_basis": 30, "random_state": 0}
MODELS = {
    "calibrated": lambda X, y: pursuit.SparseGPRegressor(RBF(2.0), calibration="loo", **GP).fit(
        X, y
    ),
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
    "constant target": lambda X, y: pursuit.SparseGPRegressor(RBF(1.0), noise=0.1, **GP).fit(
        X, 0.0 * y
    ),
    "ridge": lambda X, y: conformal(pursuit.SparseKernelRidge(n_basis=20), X, y),
    "svr": lambda X, y: pursuit.LowRankSVR(n_basis=20, random_state=0).fit(X, y),
    "matching": lambda X, y: pursuit.KernelMatchingPursuitRegressor(
        [RBF(1.0), DotProduct()], n_basis=12
    ).fit(X, y),
    "poisson": lambda X, y: conformal(
        pursuit.SparseKernelGLM(RBF(1.0), alpha=1.0, optimizer=None, n_basis=20), X, np.rint(y)
    ),
    "negative-binomial": lambda X, y: conformal(
        pursuit.SparseKernelGLM(
            RBF(1.0), loss="negative-binomial", alpha=1.0, optimizer=None, n_basis=20
        ),
        X,
        np.rint(y),
    ),
    "quantiles": lambda X, y: conformal(
        pursuit.SparseKernelGLM(
            RBF(1.0),
            loss="quantile",
            quantile=[0.1, 0.5, 0.9],
            alpha=1.0,
            optimizer=None,
            n_basis=9,
        ),
        X,
        y,
    ),
    "two classes": lambda X, y: pursuit.SparseGPClassifier(
        RBF(1.0), optimizer=None, calibration="loo", n_basis=20, random_state=0
    ).fit(X, np.where(y > 5, "up", "down")),
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


@pytest.fixture(scope="module")
def blank(browser):
    """An empty page: ``what_if.js`` needs nothing but a block of numbers."""
    page = browser.new_page()
    yield page
    page.close()


RUN = """([numbers, script, rows]) => {
  document.body.innerHTML = '<script type="application/json" id="model"></' + 'script>';
  document.getElementById("model").textContent = numbers;
  new Function(script)();
  return rows.map((values) => ({ values, ...window.pursuit.predict(values) }));
}"""


@pytest.mark.parametrize("name", MODELS)
def test_other_models_run_in_the_page(name, blank, size):
    X, y = table(False, m=300)
    model = MODELS[name](X, y)
    panel = what_if(model)
    lows, highs = np.array([(one.low, one.high) for one in panel.inputs]).T
    rows = np.random.default_rng(0).uniform(lows, highs, (size(10, 200), 3))
    numbers = {"features": panel.features, "model": panel.model}
    script = Path(pursuit.__file__).parent.joinpath("plots", "what_if.js").read_text("utf-8")
    found = blank.evaluate(RUN, [json.dumps(numbers), script, rows.tolist()])
    decides = hasattr(model, "decision_function") and not hasattr(model, "predict_interval")
    (of_classes if decides else of_numbers)(model, found)


@pytest.fixture(scope="module")
def large():
    """512 basis functions of 50 features."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((700, 50))
    y = X[:, 7] + np.sin(X[:, 1]) + 0.1 * rng.standard_normal(700)
    kernel = 1.0 * RBF([5.0] * 50)
    model = pursuit.SparseGPRegressor(kernel, noise=0.01, **{**GP, "n_basis": 512}).fit(X, y)
    assert model.n_basis_ == 512
    return model, X, y


def test_a_large_model_makes_a_small_page(large, opened, tmp_path, record_property):
    model, X, y = large
    path = written(model, tmp_path, X, y)
    assert path.stat().st_size < 3e6
    page, complaints = opened(path)
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    record_property("bytes", path.stat().st_size)
    record_property("first paint, ms", paint)
    print(f"{path.stat().st_size:,} bytes, first paint after {paint:.0f} ms")
    # The most important inputs are open, the others one step away, and all of them are set.
    shown = page.eval_on_selector_all("form > .control", "all => all.map(c => c.dataset.input)")
    assert len(shown) == 12
    assert set(shown[:2]) == {"1", "7"}
    assert page.locator("details .control").count() == 38
    assert not page.locator("details .control").first.is_visible()
    page.locator("summary").press("Enter")
    assert page.locator("details .control").first.is_visible()
    check(settings(page, 3, 50), model)
    assert complaints == []


def test_controls_are_in_the_order_of_importance():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (120, 3))
    model = pursuit.LowRankSVR(n_basis=20, random_state=0).fit(X, 3.0 * X[:, 2] + X[:, 0])
    assert "learning_report_" not in vars(model)
    weights = [one.weight for one in what_if(model, X).inputs]
    assert weights[2] > weights[0] > weights[1] > 0
    assert [one.weight for one in what_if(model).inputs] == [0, 0, 0], "nothing is known"


def test_a_model_too_large_for_intervals_says_so(opened, tmp_path, monkeypatch):
    monkeypatch.setattr("pursuit.estimators.page.models._MOST_FACTORS", 2 * 40 * 41 // 2 - 1)
    model, X, y = fitted("rbf")
    page, _ = opened(written(model, tmp_path, X, y))
    assert "No intervals: with 40 basis functions" in page.locator(".remark").inner_text()
    [found] = settings(page, 1, 3)
    assert found["std"] is found["lower"] is None
    assert found["mean"][0] == pytest.approx(model.predict([found["values"]])[0], rel=1e-9)
    assert page.locator("#prediction").inner_text().startswith("Prediction: ")
    monkeypatch.undo()
    assert what_if(model).remarks == []
    labels = pursuit.SparseGPClassifier(RBF(), optimizer=None, n_basis=20).fit(X, y > 5)
    monkeypatch.setattr("pursuit.estimators.page.models._MOST_FACTORS", 400)
    panel = what_if(labels)
    assert panel.model["answer"]["kind"] == "decision"
    assert "mean log-odds, without probabilities: with 20 basis functions" in panel.remarks[0]


def similarity(A, B):
    return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (pursuit.SparseKernelRidge(similarity, n_basis=5), "similarity is a Python function"),
        (
            pursuit.SparseGPRegressor(Matern(nu=1.1), noise=0.1, optimizer=None, n_basis=5),
            "Matern with nu=1.1 needs Bessel functions",
        ),
        (pursuit.HullRegressor(n_terms=3), "HullRegressor is not a sum of kernel functions"),
    ],
)
def test_a_model_that_cannot_travel_says_why(model, reason, opened, tmp_path):
    X, y = table(False)
    page, complaints = opened(written(model.fit(X, y), tmp_path))
    text = page.locator("section:has(#what-if)").inner_text()
    assert "This model cannot run in the page: " in text
    assert reason in text
    assert page.locator("#controls, #model").count() == 0
    assert complaints == []


def test_other_reasons():
    X, y = table(False)
    K = similarity(X, X)
    given = pursuit.SparseKernelRidge("precomputed", n_basis=5).fit(K, y)
    assert "kernel='precomputed' leaves the kernel" in what_if(given).reason
    words = pursuit.SparseKernelRidge(
        pursuit.pairwise(lambda a, b: float(a[0] == b[0])), n_basis=3
    ).fit([str(i) for i in range(30)], np.arange(30.0))
    assert "fitted to items that are not rows of numbers" in what_if(words).reason
    wide = pursuit.SparseKernelRidge(n_basis=2).fit(np.eye(301), np.arange(301.0))
    assert "it has 301 features, and the panel has controls for at most 300" in what_if(wide).reason
    votes = pursuit.LowRankSVC(n_basis=5, multi_class="ovo").fit(X, np.digitize(y, [4.5, 5.5]))
    assert "counts votes of pairs" in what_if(votes).reason
    assert what_if(pursuit.GreedyFeatureMap(n_components=3).fit(X)) is None


def test_a_page_without_the_model(tmp_path):
    model, _, _ = fitted("rbf")
    path = tmp_path / "page.html"
    model.report(path, what_if=False)
    assert 'id="model"' not in path.read_text(encoding="utf-8")


def test_a_full_scale_model_runs_without_its_neighbors(opened, tmp_path):
    X, y = table(False)
    model = pursuit.FullScaleGPRegressor(
        RBF(0.5), optimizer=None, noise=0.05, n_basis=20, n_neighbors=8, random_state=0
    ).fit(X, y)
    page, _ = opened(written(model, tmp_path))
    assert "The page runs without_neighbors()" in page.locator(".remark").inner_text()
    assert "by the model itself" not in page.locator("body").inner_text()
    found = settings(page, 5, 3)
    check(found, model.without_neighbors())
    values = np.array([one["values"] for one in found])
    assert np.abs(model.predict(values) - np.array([one["mean"][0] for one in found])).max() > 1e-3
    model.set_params(n_neighbors=0).fit(X, y)
    assert what_if(model).remarks == []


def curve(page):
    page.evaluate("new Promise(requestAnimationFrame)")
    return page.locator("#along").inner_html(), page.locator("#along-text").inner_text()


def test_it_works_by_key_and_by_pointer(opened, tmp_path):
    model, _, _ = fitted("categories")
    page, complaints = opened(written(model, tmp_path))
    order = []
    for _ in range(6):
        page.keyboard.press("Tab")
        order.append(page.evaluate("document.activeElement.id || document.activeElement.type"))
    assert order == ["input0", "exact0", "input1", "exact1", "input2", "reset"]
    status = page.locator("#prediction")
    assert status.get_attribute("aria-live") == "polite"
    for control in page.locator("form :is(input, select)").all():
        named = control.get_attribute("aria-label") is not None
        assert named or page.locator(f"label[for={control.get_attribute('id')}]").count() == 1
    # A key on the slider moves the number, the prediction and the curve.
    before, (drawn, _) = status.inner_text(), curve(page)
    page.locator("#input0").focus()
    page.keyboard.press("ArrowRight")
    assert status.inner_text() != before
    assert page.locator("#input0").get_attribute("aria-valuetext") == precise(
        float(page.locator("#exact0").input_value())
    )
    moved, text = curve(page)
    assert moved != drawn
    assert text.startswith("The prediction along first, all other inputs as they are set")
    # Focus and pointer choose the feature of the curve.
    page.locator("#input2").focus()
    assert "along city" in curve(page)[1]
    assert page.locator("#along circle.level").count() == len(LEVELS) + 1
    page.hover("[data-input='1']")
    assert "along second" in curve(page)[1]
    # A number may be typed, also beyond the range, which is said.
    page.locator("#exact1").fill("7")
    assert "Beyond the range of the rows in the page: second." in status.inner_text()
    assert page.locator("#input1").input_value() == page.locator("#input1").get_attribute("max")
    known = status.inner_text()
    page.locator("#exact1").fill("")
    assert status.inner_text() == known, "nothing is predicted for an empty box"
    page.locator("#exact1").blur()
    assert page.locator("#exact1").input_value() == "7", "the box shows what is predicted"
    page.locator("button").click()
    page.wait_for_function(
        "text => document.querySelector('#prediction').innerText === text", arg=before
    )
    assert complaints == []


def test_it_fits_a_small_screen_and_the_dark(opened, tmp_path):
    model, X, y = fitted("pairs")
    page, _ = opened(written(model, tmp_path, X, y))
    page.set_viewport_size({"width": 380, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    page.emulate_media(color_scheme="dark")
    paper = page.evaluate("getComputedStyle(document.querySelector('#exact0')).backgroundColor")
    assert paper == "rgb(13, 17, 23)"


def test_names_and_levels_are_escaped(opened, tmp_path):
    X, y = table(True)
    hostile = "</script><script>alert(1)</script>"
    X = X.rename(columns={"first": hostile}).replace({"city": {"Bonn": "<b>&\"'"}})
    kernel = on_columns(RBF([1.0, 1.0]), [0, 1]) * Categorical([2])
    model = pursuit.SparseGPRegressor(kernel, noise=0.1, **GP).fit(X, y)
    page, complaints = opened(written(model, tmp_path))
    assert complaints == []
    assert page.evaluate("window.pursuit.description.inputs[0].name") == hostile
    options = page.eval_on_selector_all("#input2 option", "all => all.map(o => o.text)")
    assert options == ["<b>&\"'", "Köln", "Lund", "Oslo", "another level"]
    assert len(settings(page, 1, 3)) == 1


def test_rows_predicted_worst():
    model, X, y = fitted("pairs")
    y = y.copy()
    y[17] += 9.0
    [panel] = [one for one in describe(model, X, y).panels if one.title == "Rows predicted worst"]
    assert panel.table.columns[:3] == ["row", "truth", "prediction"]
    assert panel.table.columns[-3:] == ["first", "second", "city"]
    mean, std = model.predict(X, return_std=True)
    worst = np.argsort(-np.abs(y - mean) / std)[:10]
    assert worst[0] == 17
    assert [int(row[0]) for row in panel.table.rows] == worst.tolist()
    row = panel.table.rows[0]
    assert row[1:3] == [precise(y[17]), precise(mean[17])]
    assert row[-1] == X["city"][17]
    many = np.repeat(np.arange(150), 20)
    [panel] = describe(model, X.iloc[many], y[many]).panels
    assert {many[int(row[0])] for row in panel.table.rows} == {17}, "numbers are those of X"
    labels = np.where(y > 6, "high", "low")
    classifier = pursuit.SparseGPClassifier(
        on_columns(RBF([1.0, 1.0]), [0, 1]), optimizer=None, n_basis=15
    ).fit(X, labels)
    [panel] = describe(classifier, X, labels).panels
    own = classifier.predict_proba(X)[np.arange(150), np.searchsorted(["high", "low"], labels)]
    assert [int(row[0]) for row in panel.table.rows] == np.argsort(own, kind="stable")[:10].tolist()


def test_parts_are_those_of_predict_parts():
    X, y = table(True)
    kernel = (
        on_columns(RBF(1.0), ["first"]) + 0.5 * on_columns(Matern(nu=2.5), ["second"])
        + Categorical(["city"]) + on_columns(RBF([3.0, 3.0]), ["first", "second"])
    )  # fmt: skip
    model = pursuit.SparseGPRegressor(kernel, noise=0.05, **GP).fit(X, y)
    parts = {part.name: part for part in describe(model, X, y).parts}
    assert sorted(parts) == sorted(model.part_names_[:-1])
    found, std = model.predict_parts(X, return_std=True, center=X)
    for t, name in enumerate(model.part_names_[:-1]):
        part = parts[name]
        assert part.share == pytest.approx(found[:, t].std(), rel=1e-9)
        columns = model.part_columns_[t]
        if len(columns) > 1:
            assert not len(part.values)
            continue
        own = X.iloc[:, columns[0]]
        if columns == [2]:
            expected = [found[np.flatnonzero(own == level)[0], t] for level in part.values]
            np.testing.assert_allclose(part.mean, expected, atol=1e-9)
        else:
            at = int(own.argmax())
            assert part.mean[-1] == pytest.approx(found[at, t], abs=1e-9)
            assert part.width[-1] == pytest.approx(1.6448536 * std[at, t], rel=1e-6)
    plain, _, _ = fitted("rbf")
    assert describe(plain).parts == []
    assert len(describe(model).parts) == 4, "without rows, over the basis points"
