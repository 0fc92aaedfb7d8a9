"""The page of a pipeline has the columns of the raw table, and predicts what the pipeline does."""

from __future__ import annotations

import warnings
from html import escape

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF

import pursuit
from pursuit import Categorical, make_table_pipeline
from pursuit.estimators.reporting import describe


def rents(m=260, seed=0):
    rng = np.random.default_rng(seed)
    day = pd.Timestamp("2019-03-01") + pd.to_timedelta(rng.integers(0, 1500, m), "D")
    frame = pd.DataFrame(
        {
            "area": rng.uniform(20, 200, m),
            "rooms": rng.integers(1, 7, m),
            "city": rng.choice(["Bonn", "Köln", "Lund", "Oslo"], m),
            "share": [f"{value},5 %" for value in rng.integers(0, 99, m)],
            "built": day,
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 9999, m), "min"),
            "lift": rng.choice(["yes", "no"], m),
            "street": [f"street {value}" for value in rng.integers(0, 60, m)],
        }
    )
    frame.loc[rng.random(m) < 0.2, "area"] = np.nan
    frame.loc[rng.random(m) < 0.1, "built"] = pd.NaT
    frame.loc[rng.random(m) < 0.1, "city"] = None
    frame["rent"] = (
        5.0 * frame["area"].fillna(100.0)
        + 100.0 * (frame["city"] == "Oslo")
        + 50.0 * np.cos(2 * np.pi * frame["built"].dt.day_of_year.fillna(0) / 365.25)
        + rng.standard_normal(m)
    )
    return frame


GP = {"optimizer": None, "noise": 0.05, "n_basis": 40, "random_state": 0, "certificate": None}
PIPELINES = {
    "codes": lambda: make_table_pipeline(
        pursuit.SparseGPRegressor(
            pursuit.on_columns(RBF(50.0), ["area", "rooms", "built (year, sin)"])
            * Categorical(["city"]),
            **GP,
        ),
        max_levels=20,
    ),
    "zeros and ones": lambda: make_table_pipeline(
        pursuit.SparseGPRegressor(RBF(60.0), **GP), categories="one-hot", max_levels=9
    ),
    "statistics": lambda: make_table_pipeline(
        pursuit.SparseGPRegressor(RBF(60.0), **GP), categories="target", min_rows=3
    ),
    "codes as numbers": lambda: make_table_pipeline(
        pursuit.LowRankSVR(gamma=1e-4, C=1e3, n_basis=20)
    ),
}


def drawn(inputs, n, seed=1):
    """Random values of the inputs of a panel."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        row = []
        for one in inputs:
            if one.missing and rng.random() < 0.3:
                row.append(None)
            elif one.kind == "category":
                row.append(int(rng.integers(0, len(one.levels) + one.other)))
            elif one.kind == "number":
                row.append(float(rng.uniform(one.low, one.high)))
            else:
                first, last = (np.datetime64(end).astype("datetime64[m]") for end in
                               (one.low, one.high))  # fmt: skip
                value = first + rng.integers(0, (last - first).astype(int) + 1)
                row.append(str(value if one.clock else value.astype("datetime64[D]")))
        rows.append(row)
    return rows


def raw_frame(inputs, rows, encoder):
    """The same as a raw table."""
    columns = {}
    used = [column for column in encoder.columns_ if column.kind != "dropped"]
    for at, (one, column) in enumerate(zip(inputs, used, strict=True)):
        values = [row[at] for row in rows]
        if one.kind == "category":
            named = [*one.levels, "elsewhere"]
            values = [None if value is None else named[value] for value in values]
            values = [None if value == "missing" else value for value in values]
            # One of the rare levels stands for all of them.
            values = [column.merged[0] if value == "(other)" else value for value in values]
        if column.format is not None and column.format.unit:
            values = [f"{value!r} %".replace(".", ",") for value in values]
        columns[column.name] = values
        if one.kind == "date":
            columns[column.name] = pd.to_datetime(pd.Series(values), format="ISO8601")
    return pd.DataFrame(columns)


def quietly(called, *args, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "[0-9]+ values? of column")
        return called(*args, **options)


@pytest.mark.parametrize("name", PIPELINES)
def test_the_page_encodes_as_python_does(name, opened, tmp_path, size):
    frame = rents()
    pipeline = PIPELINES[name]().fit(frame, target="rent")
    path = tmp_path / "page.html"
    pipeline.report(path, frame)
    page, complaints = opened(path)
    encoder = pipeline.steps[0][1]
    inputs = what_if_of(pipeline).inputs
    assert [one.name.removesuffix(" (%)") for one in inputs] == [
        column.name for column in encoder.columns_ if column.kind != "dropped"
    ]
    rows = drawn(inputs, size(25, 200))
    found = page.evaluate("rows => rows.map(values => window.pursuit.predict(values))", rows)
    raw = raw_frame(inputs, rows, encoder)
    expected = quietly(pipeline.predict, raw)
    np.testing.assert_allclose([one["mean"][0] for one in found], expected, rtol=1e-9, atol=1e-7)
    assert np.ptp(expected) > 1.0
    if found[0]["lower"] is not None:
        lower, upper = quietly(pipeline.predict_interval, raw, method="gaussian")
        np.testing.assert_allclose([one["lower"][0] for one in found], lower, rtol=1e-6)
        np.testing.assert_allclose([one["upper"][0] for one in found], upper, rtol=1e-6)
    off = [abs(one["mean"][0] - value) for one, value in zip(found[1:], expected, strict=False)]
    assert np.median(off) > 0.1, "other rows have other predictions"
    assert complaints == []


def what_if_of(pipeline):
    from pursuit.estimators.page import what_if

    (_, encoder), (_, model) = pipeline.steps
    return what_if(model, None, encoder)


def test_missing_values_and_dates_are_set_in_the_page(opened, tmp_path):
    frame = rents()
    pipeline = PIPELINES["zeros and ones"]().fit(frame, target="rent")
    path = tmp_path / "page.html"
    pipeline.report(path)
    page, complaints = opened(path)
    status = page.locator("#prediction")
    assert status.inner_text().startswith("rent: ")
    names = page.evaluate("window.pursuit.description.inputs.map(one => one.name)")
    area, built = names.index("area"), names.index("built")
    first = status.inner_text()
    page.locator(f"#exact{area}").fill("180")
    before = status.inner_text()
    page.locator(f"#missing{area}").check()
    assert page.locator(f"#exact{area}").is_disabled()
    missing = status.inner_text()
    page.locator(f"#missing{area}").uncheck()
    assert page.locator(f"#exact{area}").is_enabled()
    assert status.inner_text() == before
    assert missing != before
    page.locator(f"#input{built}").fill("2023-12-24")
    assert "Beyond the range of the rows in the page: built." in status.inner_text()
    assert status.inner_text().splitlines()[0] != before.splitlines()[0]
    page.locator(f"#input{built}").fill("")
    page.locator(f"#input{built}").blur()
    assert page.locator(f"#input{built}").input_value() == "2023-12-24"
    page.hover(f"[data-input='{built}']")
    page.evaluate("new Promise(requestAnimationFrame)")
    assert "along built, all other inputs" in page.locator("#along-text").inner_text()
    assert page.locator("#along polyline").count() == 1
    page.locator(f"#missing{area}").check()
    page.locator("button").click()
    page.wait_for_function("text => document.all.prediction.innerText === text", arg=first)
    assert page.locator(f"#exact{area}").is_enabled()
    assert complaints == []


@pytest.mark.parametrize(
    ("days", "shown"),
    [(60, "all other inputs as they are set, at 09:30 of each day"), (2, "all other inputs")],
)
def test_the_curve_of_times_goes_through_what_is_set(days, shown, opened, tmp_path):
    times = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.linspace(0, days, 400), "D").round(
        "min"
    )
    hours = 24 * (np.linspace(0, days, 400) % 1)
    frame = pd.DataFrame({"time": times, "load": 10 + 3 * np.sin(2 * np.pi * hours / 24)})
    gp = pursuit.SparseGPRegressor(n_basis=20, certificate=None, random_state=0)
    pipeline = make_table_pipeline(gp).fit(frame, target="load")
    pipeline.report(tmp_path / "page.html")
    page, complaints = opened(tmp_path / "page.html")
    page.locator("#input0").fill("2024-01-02T09:30")
    page.evaluate("new Promise(requestAnimationFrame)")
    assert shown in page.locator("#along-text").inner_text()
    points = [
        [float(number) for number in pair.split(",")]
        for pair in page.locator("#along polyline").get_attribute("points").split()
    ]
    x, y = (float(page.locator("#along circle.now").get_attribute(name)) for name in ("cx", "cy"))
    assert len(points) == 61 - (days == 60)
    assert y == pytest.approx(np.interp(x, *np.transpose(points)), abs=3.0)
    assert complaints == []


def test_rows_predicted_worst_are_raw(tmp_path):
    frame = rents()
    pipeline = PIPELINES["codes"]().fit(frame, target="rent")
    frame.loc[11, "rent"] += 3000.0
    frame.to_csv(tmp_path / "rents.csv", index=False)
    for X in (frame, tmp_path / "rents.csv"):
        page = tmp_path / "page.html"
        pipeline.report(page, X)
        text = page.read_text(encoding="utf-8")
        worst = text[text.index("Rows predicted worst") :]
        row = worst[worst.index("<tbody>") : worst.index("</tr>", worst.index("<tbody>"))]
        assert row.split("<td>")[1].startswith("11<")
        assert f"<td>{frame['street'][11]}</td>" in row
        assert f"<td>{frame['share'][11]}</td>" in row
        assert f"<td>{frame['seen'][11]:%Y-%m-%d %H:%M}</td>" in row
    assert len(pipeline.notes_) == 2
    assert all(escape(note) in text for note in pipeline.notes_)


def test_other_rows_predicted_worst_are_shown(tmp_path):
    """Tables of Arrow, sparse rows and lists have rows, too."""
    import pyarrow as pa
    from scipy import sparse

    rng = np.random.default_rng(0)
    X = np.round(rng.uniform(size=(60, 3)), 3)
    y = X[:, 0] + 0.01 * rng.standard_normal(60)
    y[5] += 1.0
    names = ["a", "b", "c"]
    model = pursuit.SparseGPRegressor(RBF(1.0), **GP).fit(pd.DataFrame(X, columns=names), y)
    table = pa.table({name: X[:, j] for j, name in reversed(list(enumerate(names)))})
    plain = pursuit.SparseGPRegressor(RBF(1.0), **GP).fit(X, y)
    for one, rows in ((model, table), (plain, sparse.csr_array(X)), (plain, X.tolist())):
        [panel] = describe(one, rows, y).panels
        assert panel.table.rows[0][0] == "5"
        assert panel.table.rows[0][-3:] == [f"{value:.4g}" for value in X[5]]
