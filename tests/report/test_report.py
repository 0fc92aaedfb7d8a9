"""The page holds the model's numbers, escapes what people name, and stands alone."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF

import pursuit
from pursuit.estimators.reporting import describe
from pursuit.plots.parts import global_part
from pursuit.plots.report import Curve, Report, Table, precise, render
from pursuit.store import StoreError, read

VOID = {"meta", "link", "input"}


class Balanced(HTMLParser):
    """Fails on tags that are not closed in their order; collects ids and references."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.references = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)
        found = dict(attributes)
        self.ids += [found["id"]] if "id" in found else []
        for name in ("for", "aria-labelledby"):
            self.references += [found[name]] if name in found else []

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def checked(page):
    parser = Balanced()
    parser.feed(page)
    assert not parser.open
    assert len(set(parser.ids)) == len(parser.ids)
    assert set(parser.references) <= set(parser.ids)
    # No address but that of the SVG name space, which is never fetched.
    assert set(re.findall(r"https?://[^\"' ]*", page)) <= {"http://www.w3.org/2000/svg"}
    return page


def numbers(page):
    return json.loads(re.search(r'id="numbers">(.*?)</script>', page, re.S).group(1))


def waves(m=300):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (m, 3))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(m)


MODELS = {
    "SparseGPRegressor": {"n_basis": 20},
    "SparseKernelRidge": {"n_basis": 10},
    "SparseKernelGLM": {"loss": "huber", "n_basis": 10},
    "FullScaleGPRegressor": {"n_basis": 20, "n_neighbors": 8},
    "ExactGPRegressor": {"kernel": RBF(1.0), "noise": 0.1, "solver": "cg"},
    "KernelMatchingPursuitRegressor": {"n_basis": 10},
    "KernelMatchingPursuitClassifier": {"n_basis": 10},
    "GreedyFeatureMap": {"n_components": 10},
    "SparseKernelPCA": {"n_basis": 10},
    "HullRegressor": {"n_terms": 10},
    "LowRankSVC": {"n_basis": 20},
    "LowRankSVR": {"n_basis": 20},
    "LowRankOneClassSVM": {"n_basis": 20},
    "SparseGPClassifier": {"n_basis": 20},
    "FullScaleGPClassifier": {"n_basis": 20, "n_neighbors": 8},
    "LPMachineClassifier": {},
    "LPMachineRegressor": {},
}


def fitted(name):
    X, y = waves()
    model = getattr(pursuit, name)(**MODELS[name])
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    target = np.where(y > 0, "up", "down") if "Classifier" in name or name == "LowRankSVC" else y
    return model.fit(X, target), X, target


def test_every_estimator_that_offers_a_report_is_tried():
    offered = {name for name in pursuit.__all__ if hasattr(getattr(pursuit, name), "report")} - {
        "SparseKernelCCA",  # two views
        "TablePipeline",  # test_what_if_table.py
    }
    assert offered == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_a_page_for_every_estimator(name, tmp_path):
    model, X, y = fitted(name)
    path = tmp_path / "report.html"
    model.report(path)
    checked(path.read_text(encoding="utf-8"))
    if hasattr(model, "predict") and name != "LowRankOneClassSVM":
        model.report(path, X, y)
        page = checked(path.read_text(encoding="utf-8"))
        error = numbers(page)["curves"][0]
        predicted = global_part(model).predict(X)
        if hasattr(model, "classes_"):
            assert error["values"][-1] == pytest.approx(np.mean(predicted != y))
        else:
            expected = np.sqrt(np.mean((predicted - y) ** 2))
            assert error["values"][-1] == pytest.approx(expected)
    assert path.stat().st_size < 3e6


@pytest.mark.parametrize("name", ["FullScaleGPClassifier", "FullScaleGPRegressor"])
def test_a_full_scale_model_tells_its_basis_and_its_near_rows(name):
    model, X, y = fitted(name)
    report = describe(model, X, y)
    assert report.summary.startswith("20 basis functions and 8 near rows, fitted to 300 rows")
    assert f"Near rows: {model.learning_report_.near_rows}." in report.notes
    assert len(report.basis.rows) == 20


def test_the_numbers_in_the_model_are_those_of_its_file(tmp_path):
    X, y = waves()
    for model in (
        pursuit.SparseGPRegressor(n_basis=20, random_state=0).fit(X, y),
        pursuit.LowRankSVC(n_basis=20, random_state=0).fit(X, y > 0),
    ):
        model.save(tmp_path / "model")
        [curve] = [
            curve for curve in describe(model).curves if curve.name == "Numbers in the model"
        ]
        size = sum(array.nbytes for array in read(tmp_path / "model")[1].values())
        assert curve.values[-1] == pytest.approx(size / 1e3)
        assert np.all(np.diff(curve.values) > 0)


def test_numbers_of_every_size_are_those_of_the_path():
    X, y = waves()
    model = pursuit.SparseGPRegressor(n_basis=20, random_state=0).fit(X, y)
    report = describe(model, X, y, certify=True)
    curves = {curve.name: curve for curve in report.curves}
    at = np.array(report.sizes) - 1
    np.testing.assert_array_equal(curves["Objective"].values, model.path_.value[at])
    certified = model.certify_path(X, y, sizes=report.sizes)
    np.testing.assert_allclose(
        curves["Relative gap to the exact solution"].values,
        [each.relative_gap for each in certified.certificates],
    )
    some = report.sizes[3]
    error = np.sqrt(np.mean((model.truncated(some).predict(X) - y) ** 2))
    assert curves["Root mean square error"].values[3] == pytest.approx(error)
    mean, std = model.predict(X, return_std=True)
    within = dict(report.coverage)[0.95]
    assert within == pytest.approx(np.mean(np.abs(y - mean) <= 1.959964 * std), abs=1e-3)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(35130.4, "35,130"), (0.123456, "0.1235"), (-7.0, "-7"), (0, "0"), (4.4e-8, "4.400e-8")],
)
def test_numbers_keep_the_digits_before_their_point(value, shown):
    assert precise(value) == shown


def test_large_values_of_the_basis_and_rows_of_classes_are_readable():
    X = 10_000.0 * np.arange(1.0, 21.0)[:, None] + 7.0
    found = describe(pursuit.SparseGPClassifier(n_basis=3, random_state=0).fit(X, X[:, 0] > 1e5))
    assert ("Rows fitted", "20") in found.data.rows
    assert ", fitted to 20 rows" in found.summary
    for _, row, value in found.basis.rows:
        assert value == f"{X[int(row), 0]:,.0f}"


def test_levels_of_the_basis_have_their_names():
    X, y = waves()
    frame = pd.DataFrame({"x": X[:, 0], "city": np.where(X[:, 1] > 0, "Lund", "Oslo")})
    kernel = pursuit.on_columns(RBF(), ["x"]) * pursuit.Categorical(["city"])
    model = pursuit.SparseGPRegressor(kernel, optimizer=None, noise=0.1, n_basis=6).fit(frame, y)
    basis = describe(model).basis
    assert basis.columns[2:] == ["x", "city"]
    for _, row, x, city in basis.rows:
        assert (x, city) == (precise(frame["x"][int(row)]), frame["city"][int(row)])


def test_names_are_escaped(tmp_path):
    X, y = waves()
    frame = pd.DataFrame(X, columns=["<script>alert(1)</script>", "a&b", '"c"'])
    model = pursuit.SparseGPRegressor(n_basis=5, random_state=0).fit(frame, y)
    model.report(tmp_path / "page.html")
    page = checked((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    hostile = Report(
        "</title><b>", "x", Table([], []), Table([], []), [1], [Curve("</script><i>", "", [1.0])]
    )
    page = checked(render(hostile, "0"))
    assert "<b>" not in page
    assert "<i>" not in page
    assert numbers(page)["curves"][0]["name"] == "</script><i>"


def test_what_is_not_known_is_said():
    curve = Curve("gap", "", [None, float("nan"), 0.5])
    page = render(Report("t", "s", Table([], []), Table([], []), [1, 2, 3], [curve]), "0")
    assert numbers(page)["curves"][0]["values"] == [None, None, 0.5]
    unknown = Curve("gap", "", [1.0, None])
    page = render(Report("t", "s", Table([], []), Table([], []), [1, 2], [unknown]), "0")
    assert ">not computed</output>" in page


def test_wrong_calls(tmp_path):
    X, y = waves()
    path = tmp_path / "page.html"
    with pytest.raises(NotFittedError):
        pursuit.SparseGPRegressor().report(path)
    model = pursuit.SparseKernelRidge(n_basis=3).fit(X, y)
    with pytest.raises(ValueError, match="pass both or neither"):
        model.report(path, X)
    with pytest.raises(ValueError, match="X has 300 rows and y has 299"):
        model.report(path, X, y[1:])
    with pytest.raises(TypeError, match=r"rows in memory, and X is the path 'new\.csv': read"):
        model.report(path, "new.csv", y)
    assert not path.exists()
    path.write_text("before", encoding="utf-8")
    with pytest.raises(StoreError, match="is a folder"):
        model.report(tmp_path)
    assert [found.read_text(encoding="utf-8") for found in tmp_path.iterdir()] == ["before"]


def test_the_sizes_of_a_glm_end_with_its_basis():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (120, 2))
    y = rng.poisson(np.exp(1.0 + X[:, 0]))
    model = pursuit.SparseKernelGLM(RBF(4.0), loss="poisson", optimizer=None, random_state=0)
    report = describe(model.fit(X, y), X, y)
    assert report.sizes[-1] == model.n_basis_ < len(model.path_)
    gap = next(curve for curve in report.curves if "gap" in curve.name)
    assert gap.values[-1] == model.certificate_.relative_gap


def test_sizes_are_certified_when_asked_for(tmp_path):
    X, y = waves()
    model = pursuit.SparseGPRegressor(RBF(1.0), noise=0.1, n_basis=9, optimizer=None).fit(X, y)
    gap = {
        certify: next(
            curve for curve in describe(model, X, y, certify=certify).curves if "gap" in curve.name
        )
        for certify in (True, False)
    }
    assert np.isfinite(gap[True].values).all()
    assert np.isnan(gap[False].values[:-1]).all()
    with pytest.raises(ValueError, match="certify=True needs the training rows"):
        model.report(tmp_path / "page.html", certify=True)
    svm = pursuit.LowRankSVC(n_basis=5, random_state=0).fit(X, y > 0)
    with pytest.raises(ValueError, match="certify=True is not for LowRankSVC"):
        svm.report(tmp_path / "page.html", X, y > 0, certify=True)


def test_what_is_said_of_models_is_true_of_them():
    X, y = waves()
    ridge = describe(pursuit.SparseKernelRidge(n_basis=3, random_state=0).fit(X, y + 9.0))
    assert not any("Target" in name for name, _ in ridge.data.rows), "y is not normalised"
    exact = pursuit.ExactGPRegressor(RBF(1.0), noise=0.1, optimizer=None, solver="cholesky")
    assert describe(exact.fit(X, y)).summary == "1 iteration; stopped by direct."
    wide = np.hstack([X, X, X, X])
    basis = describe(pursuit.GreedyFeatureMap(n_components=4, random_state=0).fit(wide)).basis
    assert basis.columns[2:] == [*(f"x{j}" for j in range(8)), "and 4 more"]
    assert {len(row) for row in basis.rows} == {len(basis.columns)}
