"""The commands as a shell user sees them: files in, files out, one line when something is wrong."""

from __future__ import annotations

import csv
import errno
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import pursuit
from pursuit.cli.columns import Encoding, learn_encoding
from pursuit.cli.commands import app
from pursuit.cli.console import WrongCallError

SMALL = ["--n-basis", "12", "--quiet"]


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def refused(*words, code=2):
    """The one line that a wrong call gets."""
    result = run(*words)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith("pursuit: ")
    return line


@pytest.fixture(scope="module")
def houses(tmp_path_factory):
    """A table with numbers, texts, dates and truth values, and one with gaps."""
    folder = tmp_path_factory.mktemp("houses")
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(200):
        area, city = rng.uniform(30.0, 200.0), rng.choice(["Graz", "Wien"])
        date = f"{rng.integers(1950, 2020)}-03-01"
        price = 3.0 * area + (90.0 if city == "Wien" else 0.0) + rng.normal()
        dear = "dear" if price > 350 else "cheap"
        rows.append(
            [f"{area:.2f}", city, date, rng.choice(["true", "false"]), f"{price:.2f}", dear]
        )
    names = ["area", "city", "built", "garden", "price", "kind"]
    for name, gaps in (("houses.csv", 0), ("gaps.csv", 7)):
        with open(folder / name, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            for i, row in enumerate(rows):
                writer.writerow(["" if i < gaps and j == 0 else cell for j, cell in enumerate(row)])
    return folder


@pytest.fixture(scope="module")
def model(houses):
    path = houses / "price.pursuit"
    result = run("fit", houses / "houses.csv", "-t", "price", "--drop", "kind", "-o", path, *SMALL)
    assert (result.exit_code, result.output) == (0, "")
    return path


def encoded(houses, target="price", drop="kind"):
    table = pa.csv.read_csv(houses / "houses.csv").drop_columns([drop])
    return learn_encoding(table, target, None), table


def test_fit_says_what_it_did(houses, tmp_path):
    path = tmp_path / "m.pursuit"
    words = ["fit", houses / "houses.csv", "--target", "price", "--drop", "kind", "-o", path]
    result = run(*words, "--n-basis", 12)
    assert result.exit_code == 0
    first, error, certificate, following = result.stdout.splitlines()
    assert first.startswith(f"{path}: ")
    assert "basis functions for 200 rows" in first
    assert error.startswith("error on rows left out: ")
    assert certificate.startswith("captures at least ")
    assert "% of what the full Gaussian process with this kernel could gain over" in certificate
    assert following.startswith("next: pursuit predict")
    # Progress goes where a pipe does not carry it, in plain lines without a terminal.
    assert result.stderr.splitlines()[0] == "200 rows, 5 features"
    assert "[SparseGPRegressor] learn: " in result.stderr


def test_features_are_what_the_columns_become(houses, model):
    loaded = pursuit.load(model)
    names = ["area", "city=Graz", "city=Wien", "built", "garden"]
    assert list(loaded.feature_names_in_) == names
    encoding, table = encoded(houses)
    X, unseen = encoding.encode(table)
    assert (encoding.features, unseen) == (names, 0)
    built = table.column("built").to_pylist()
    np.testing.assert_array_equal(X[:, 1], [c == "Graz" for c in table.column("city").to_pylist()])
    days = [(day - type(day)(1970, 1, 1)).days for day in built]
    np.testing.assert_array_equal(X[:, 3], days)
    assert Encoding.from_json(json.loads(json.dumps(encoding.as_json()))) == encoding


def test_predictions_are_those_of_the_model(houses, model, tmp_path):
    encoding, table = encoded(houses)
    X, _ = encoding.encode(table)
    loaded = pursuit.load(model)
    named = pa.table({name: X[:, j] for j, name in enumerate(encoding.features)})
    mean, std = loaded.predict(named, return_std=True)
    for suffix, read in ((".csv", pa.csv.read_csv), (".parquet", pa.parquet.read_table)):
        out = tmp_path / f"out{suffix}"
        words = ["predict", model, houses / "houses.csv", "--std", "--interval", 0.9, "-o", out]
        assert run(*words).exit_code == 0
        found = read(out)
        assert found.column_names == ["prediction", "std", "lower", "upper"]
        np.testing.assert_allclose(found["prediction"].to_numpy(), mean, rtol=1e-12)
        np.testing.assert_allclose(found["std"].to_numpy(), std, rtol=1e-12)
        np.testing.assert_allclose(found["upper"].to_numpy(), mean + 1.6448536 * std, rtol=1e-6)
    assert np.sqrt(np.mean((mean - table.column("price").to_numpy()) ** 2)) < 20.0


def test_bounds_are_guaranteed_if_rows_were_set_aside(houses, tmp_path):
    path, out = tmp_path / "model.pursuit", tmp_path / "out.csv"
    data = houses / "houses.csv"
    done = run(
        "fit", data, "-t", "price", "--drop", "kind", "-o", path, "--n-basis", 12, "--conformal"
    )
    assert done.exit_code == 0, done.output
    assert "split conformal on 100 rows" in done.stdout
    loaded = pursuit.load(path)
    encoding = Encoding.from_json(loaded.table_)
    table = pa.csv.read_csv(data)
    X, _ = encoding.encode(table)
    named = pa.table({name: X[:, j] for j, name in enumerate(encoding.features)})
    assert run("predict", path, data, "--interval", 0.8, "-o", out).exit_code == 0
    lower, upper = loaded.predict_interval(named, 0.8)
    found = pa.csv.read_csv(out)
    assert found.column_names == ["prediction", "lower", "upper"]
    np.testing.assert_allclose(found["lower"].to_numpy(), lower, rtol=1e-12)
    np.testing.assert_allclose(found["upper"].to_numpy(), upper, rtol=1e-12)
    facts = json.loads(run("inspect", path, "--json").stdout)
    assert facts["coverage"] == str(loaded.coverage_guarantee_)
    page = tmp_path / "report.html"
    assert run("report", path, data, "-o", page).exit_code == 0
    assert "Guaranteed coverage" in page.read_text(encoding="utf-8")
    assert run("predict", path, data, "--interval", 0.999, "-o", tmp_path / "no.csv").exit_code == 1


def test_sets_of_classes(houses, tmp_path):
    path, plain, out = (tmp_path / name for name in ("kind.pursuit", "plain.pursuit", "out.csv"))
    words = ["fit", houses / "houses.csv", "-t", "kind", "--drop", "price"]
    words += ["--task", "classification", *SMALL]
    assert run(*words, "-o", path, "--conformal").exit_code == 0
    assert run(*words, "-o", plain).exit_code == 0
    predict = ["predict", path, houses / "houses.csv", "--set", 0.99, "--proba", "-o", out]
    assert run(*predict).exit_code == 0
    found = pa.csv.read_csv(out)
    assert found.column_names == ["prediction", "set", "p(cheap)", "p(dear)"]
    sets, kinds = found["set"].to_pylist(), pa.csv.read_csv(houses / "houses.csv")["kind"]
    assert {"cheap", "dear"} <= set(sets) <= {"cheap", "dear", "cheap dear"}
    assert (
        np.mean([kind.as_py() in one.split() for one, kind in zip(sets, kinds, strict=True)]) > 0.9
    )
    predict[1] = plain
    assert refused(*predict, "--force").endswith("use pursuit fit --conformal.")
    predict[4] = 90
    assert "--set must be between 0 and 1" in refused(*predict, "--force")


def test_predict_to_standard_output_and_beside_the_input(houses, model, tmp_path):
    command = [sys.executable, "-m", "pursuit.cli", "predict", model, houses / "houses.csv"]
    done = subprocess.run([*command, "-o", "-"], capture_output=True, text=True, check=True)
    header, *lines = done.stdout.splitlines()
    assert header == '"prediction"'
    assert len(lines) == 200
    assert done.stderr == ""
    out = tmp_path / "out.csv"
    run("predict", model, houses / "houses.csv", "--with-input", "-o", out)
    assert pa.csv.read_csv(out).column_names[-2:] == ["kind", "prediction"]


def test_classes(houses, tmp_path):
    path, out = tmp_path / "kind.pursuit", tmp_path / "out.csv"
    words = ["fit", houses / "houses.csv", "-t", "kind", "--drop", "price", "-o", path]
    line = refused(*words, *SMALL)
    assert "the target 'kind' holds string, not numbers: add --task classification" in line
    result = run(*words, "--auto", "--task", "classification", "--checkpoint", tmp_path / "run")
    assert result.exit_code == 0
    assert (tmp_path / "run" / "learn.pursuit").exists()
    error = pursuit.load(path).calibration_.log_loss
    assert f"log loss on rows left out: {error:.4g}" in result.stdout.splitlines()
    assert json.loads(run("inspect", path, "--json").stdout)["rows"] == 200
    assert run("predict", path, houses / "houses.csv", "--proba", "-o", out).exit_code == 0
    found = pa.csv.read_csv(out)
    assert found.column_names == ["prediction", "p(cheap)", "p(dear)"]
    truth = pa.csv.read_csv(houses / "houses.csv").column("kind").to_pylist()
    right = np.mean([a == b for a, b in zip(found["prediction"].to_pylist(), truth, strict=True)])
    assert right > 0.9
    line = refused("predict", path, houses / "houses.csv", "--std", "-o", out, "--force")
    assert line.endswith("predicts classes: ask for --proba or --set.")


def test_noise_of_other_kinds(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, 400)
    y = np.sin(6 * x) + np.where(x < 0.5, 0.02, 0.4) * rng.standard_normal(400)
    np.savetxt(tmp_path / "t.csv", np.c_[x, y], delimiter=",", header="x,y", comments="")
    words = ["fit", tmp_path / "t.csv", "-t", "y", "--n-basis", 15, "-o", tmp_path / "m", "--force"]
    run(*words, "--varying-noise")
    new = pyarrow.table({"x": [0.2, 0.8]}).to_pandas()
    low, high = pursuit.load(tmp_path / "m").noise_at(new)
    assert high > 5 * low
    assert "noise" in run("inspect", tmp_path / "m").stdout
    y[::40] += 50.0
    np.savetxt(tmp_path / "t.csv", np.c_[x, y], delimiter=",", header="x,y", comments="")
    run(*words, "--outliers")
    assert set(range(0, 400, 40)) <= set(pursuit.load(tmp_path / "m").outliers_)
    assert "exclude each other" in refused(*words, "--outliers", "--varying-noise")
    assert "without --near-rows" in refused(*words, "--outliers", "--near-rows")


def test_near_rows(houses, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(700, 2))
    y = np.sin(12 * X[:, 0]) + np.sin(15 * X[:, 1]) + 0.05 * rng.standard_normal(700)
    for name, some in (("rough.csv", slice(0, 500)), ("new.csv", slice(500, 700))):
        columns = {"a": X[some, 0], "b": X[some, 1], "y": y[some]}
        pa.csv.write_csv(pa.table(columns), tmp_path / name)
    path, out, page = tmp_path / "m.pursuit", tmp_path / "out.csv", tmp_path / "page.html"
    words = ["fit", tmp_path / "rough.csv", "-t", "y", "--near-rows", "--n-basis", 15, "-o", path]
    result = run(*words)
    assert result.exit_code == 0, result.output
    loaded = pursuit.load(path)
    assert isinstance(loaded, pursuit.FullScaleGPRegressor)
    assert loaded.n_neighbors_ > 0
    first, error, *_ = result.stdout.splitlines()
    assert f"15 basis functions and {loaded.n_neighbors_} near rows for 500 rows" in first
    assert error == f"error on rows left out: {loaded.calibration_.rmse * np.std(y[:500]):.4g} " + (
        "(root mean square)"
    )
    facts = json.loads(run("inspect", path, "--json").stdout)
    assert (facts["basis functions"], facts["near rows"]) == (15, loaded.n_neighbors_)
    assert (facts["rows"], facts["stopped by"], facts["noise"]) == (500, "n_basis", loaded.noise_)
    assert set(facts["relevance"]) == {"a", "b"}
    assert run("predict", path, tmp_path / "new.csv", "--std", "-o", out).exit_code == 0
    table = pa.csv.read_csv(out)
    new = pa.table({"a": X[500:, 0], "b": X[500:, 1]})
    for name, expected in zip(
        table.column_names, loaded.predict(new, return_std=True), strict=True
    ):
        np.testing.assert_allclose(table[name].to_numpy(), expected, rtol=1e-12)
    assert run("report", path, tmp_path / "new.csv", "-o", page).exit_code == 0
    assert "What near rows brought, by region" in page.read_text(encoding="utf-8")
    words = ["fit", houses / "houses.csv", "-t", "kind", "--task", "classification", "--near-rows"]
    assert "--near-rows is for --task regression" in refused(*words, "-o", tmp_path / "c")


def test_missing_values(houses, tmp_path):
    words = ["fit", houses / "gaps.csv", "-t", "price", "--drop", "kind", *SMALL]
    line = refused(*words, "-o", tmp_path / "a")
    assert "7 values are missing, in columns area (7): add --impute median" in line
    assert run(*words, "--impute", "median", "-o", tmp_path / "median").exit_code == 0
    assert run(*words, "--impute", "drop", "-o", tmp_path / "drop").exit_code == 0
    assert pursuit.load(tmp_path / "drop")._sums["n_rows"] == 193
    out = tmp_path / "out.csv"
    assert run("predict", tmp_path / "median", houses / "gaps.csv", "-o", out).exit_code == 0
    line = refused("predict", tmp_path / "drop", houses / "gaps.csv", "-o", out, "--force")
    assert "the model was fitted to columns without gaps: fill them" in line


def test_inspect(houses, model):
    found = json.loads(run("inspect", model, "--json").stdout)
    assert (found["model"], found["target"], found["rows"]) == ("SparseGPRegressor", "price", 200)
    assert found["columns"] == ["area", "city", "built", "garden"]
    assert max(found["relevance"], key=found["relevance"].get) in ("area", "city=Wien")
    plain = run("inspect", model).stdout
    assert "target" in plain
    assert "kernel" in plain


def test_report(houses, model, tmp_path):
    page = tmp_path / "page.html"
    assert run("report", model, houses / "houses.csv", "-o", page).exit_code == 0
    assert "city=Wien" in page.read_text(encoding="utf-8")
    assert "exists: add --force" in refused("report", model, "-o", page)


def test_unseen_categories_are_counted(houses, model, tmp_path):
    table = pa.csv.read_csv(houses / "houses.csv").slice(0, 3)
    city = table.column_names.index("city")
    pa.csv.write_csv(table.set_column(city, "city", [["Linz", "Wien", "Linz"]]), tmp_path / "n.csv")
    result = run("predict", model, tmp_path / "n.csv", "-o", tmp_path / "out.csv", "--quiet")
    assert result.exit_code == 0
    assert result.stderr == ("warning: 2 values are of categories that the model has not seen\n")


def test_wrong_calls(houses, model, tmp_path):
    data, out = houses / "houses.csv", tmp_path / "m"
    assert "no column 'prise' (did you mean 'price'?)" in refused(
        "fit", data, "-t", "prise", "-o", out
    )
    assert "no column 'knd'" in refused("fit", data, "-t", "price", "--drop", "knd", "-o", out)
    assert "exists: add --force" in refused("fit", data, "-t", "price", "-o", model)
    assert "there is no file" in refused("fit", tmp_path / "no.csv", "-t", "y", "-o", out)
    assert "there is no folder" in refused("fit", data, "-t", "price", "-o", tmp_path / "a" / "b")
    (tmp_path / "notes.txt").write_text("hello")
    assert "a table must be a .csv or .parquet" in refused(
        "fit", tmp_path / "notes.txt", "-t", "y", "-o", out
    )
    assert "not a" in refused("inspect", tmp_path / "notes.txt", code=1)
    assert "must be between 0 and 1" in refused(
        "predict", model, data, "-o", tmp_path / "o.csv", "--interval", 95
    )
    assert "must end in .csv or .parquet" in refused("predict", model, data, "-o", tmp_path / "o.x")
    assert "leave --n-basis out" in refused(
        "fit", data, "-t", "price", "-o", out, "--auto", "--n-basis", 9
    )
    assert run("fit", data).exit_code == 2, "missing options are typer's own business"
    assert not out.exists()


def test_too_many_categories(tmp_path):
    table = pa.table({"name": [f"n{i}" for i in range(60)], "y": np.arange(60.0)})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    line = refused("fit", tmp_path / "t.parquet", "-t", "y", "-o", tmp_path / "m", *SMALL)
    assert (
        "column 'name' has 60 different texts, more than 50: leave it out with --drop name" in line
    )


def test_a_damaged_parquet_file(tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"PAR1 nonsense")
    refused("fit", tmp_path / "t.parquet", "-t", "y", "-o", tmp_path / "m", code=1)


def test_large_files_are_streamed(tmp_path, monkeypatch):
    monkeypatch.setattr("pursuit.cli.commands._STREAMED_BYTES", 0)
    rng = np.random.default_rng(0)
    table = pa.table({"a": rng.normal(size=300), "b": rng.normal(size=300), "id": np.arange(300)})
    table = table.append_column("y", [table.column("a").to_numpy() * 2.0])
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    words = ["fit", tmp_path / "t.parquet", "-t", "y", "--drop", "id", "-o", tmp_path / "m", *SMALL]
    assert run(*words).exit_code == 0
    assert list(pursuit.load(tmp_path / "m").feature_names_in_) == ["a", "b"]
    assert (
        run("predict", tmp_path / "m", tmp_path / "t.parquet", "-o", tmp_path / "o.csv").exit_code
        == 0
    )
    texts = table.append_column("t", [["x"] * 300])
    pa.parquet.write_table(texts, tmp_path / "t.parquet")
    assert "column 't' does not hold numbers" in refused(*words, "--force")


def test_debug_shows_where(houses, tmp_path):
    result = run("fit", houses / "houses.csv", "-t", "prise", "-o", tmp_path / "m", "--debug")
    assert "Traceback" in result.stderr
    assert result.exit_code == 2


def test_help_names_every_command():
    text = run("--help").stdout
    for name in ("fit", "predict", "inspect", "report", "papers", "demo"):
        assert name in text
    assert run("--version").stdout.startswith("pursuit ")


def test_completion_is_offered():
    environment = {**os.environ, "_PURSUIT_COMPLETE": "complete_bash", "COMP_WORDS": "pursuit in"}
    done = subprocess.run(
        [os.path.join(os.path.dirname(sys.executable), "pursuit")],
        env={**environment, "COMP_CWORD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "inspect" in done.stdout


def test_without_pyarrow_one_line_names_the_extra(houses, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("columns", "files"):
        monkeypatch.delitem(sys.modules, f"pursuit.cli.{name}")
    line = refused("fit", houses / "houses.csv", "-t", "price", "-o", tmp_path / "m", code=1)
    assert line.endswith('needs pyarrow: install it with `pip install "pursuit[cli]"`')


def test_without_typer_one_line_names_the_extra():
    code = (
        "import sys; sys.modules['typer'] = None\n"
        "from pursuit.cli import main; sys.argv = ['pursuit']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert 'pip install "pursuit[cli]"' in line


def written(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def lines(separator=",", n=30, **more):
    """A table as text, with a column for y = 2 x."""
    rows = [["x", *more, "y"]]
    rows += [[str(i), *(f(i) for f in more.values()), str(2 * i)] for i in range(n)]
    return "\n".join(separator.join(row) for row in rows) + "\n"


def test_tables_as_other_programs_write_them(tmp_path):
    same = lines(city=lambda i: ("Graz", "Wien")[i % 2])
    expected = None
    for name, text in (
        ("plain.csv", same),
        ("semicolons.csv", same.replace(",", ";")),
        ("tabs.tsv", same.replace(",", "\t")),
        ("UPPER.CSV", same.replace("\n", "\r\n")),
        ("bom.csv", "\ufeff" + same),
    ):
        model = tmp_path / f"{name}.pursuit"
        table = written(tmp_path / name, text)
        assert run("fit", table, "-t", "y", "-o", model, *SMALL).exit_code == 0
        X, _ = Encoding.from_json(pursuit.load(model).table_).encode(
            pa.table({"x": [1.0, 2.0], "city": ["Graz", "Wien"]})
        )
        named = pa.table({n: X[:, j] for j, n in enumerate(("x", "city=Graz", "city=Wien"))})
        found = pursuit.load(model).predict(named)
        expected = found if expected is None else expected
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("name", "text", "encoding", "message"),
    [
        ("t.csv", lines() + "1,2,3\n", "utf-8", "t.csv, line 32: 3 values where the header has 2"),
        ("t.csv", "", "utf-8", "t.csv is empty"),
        ("t.csv", lines(Größe=str), "latin-1", "t.csv is not in UTF-8: convert it"),
        ("t.csv", lines(city=lambda i: "Köln"), "latin-1", "t.csv is not in UTF-8: convert it"),
        ("t.csv", lines() + "Köln,2,3\n", "latin-1", "t.csv is not in UTF-8: convert it"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, text, encoding, message):
    table = written(tmp_path / name, text, encoding)
    assert message in refused("fit", table, "-t", "y", "-o", tmp_path / "m", code=1)


def test_columns_that_cannot_be_used(tmp_path):
    out = tmp_path / "m"

    def told(text, *words):
        return refused("fit", written(tmp_path / "t.csv", text), "-t", "y", "-o", out, *words)

    decimal = lines(";", **{"floor area": lambda i: f"{i},5"})
    assert "'floor area' holds numbers with a comma, such as 0,5: write them" in told(decimal)
    assert "leave the column out with --drop 'floor area'." in told(decimal)
    gaps = lines(a=lambda i: "")
    assert "column 'a' is empty: leave it out with --drop a." in told(gaps, "--impute", "median")
    texts = lines(w=lambda i: "heavy")
    assert "--weight: column 'w' holds string, not numbers" in told(texts, "--weight", "w")
    weights = lines(w=lambda i: "" if i < 3 else "1.5")
    line = told(weights, "--weight", "w", "--impute", "median")
    assert "3 values are missing, in columns w (3): a row without a weight" in line
    assert "has too few rows to learn from: 1" in told(lines(n=1))
    assert "--feature: t.csv has no column 'xx' (did you mean 'x'?)" in told(
        lines(), "--feature", "xx"
    )


def test_every_column_that_cannot_be_used_is_told_at_once(tmp_path):
    text = lines(id=lambda i: f"H{i}", day=lambda i: f"{1 + i}/01/2024", note=lambda i: "", n=60)
    line = refused("fit", written(tmp_path / "t.csv", text), "-t", "y", "-o", tmp_path / "m")
    assert "column 'id' has 60 different texts, more than 50: leave it out with --drop id" in line
    assert "'day' holds dates such as 1/01/2024: write them as 2025-01-31, or leave" in line
    assert "column 'note' is empty: leave it out with --drop note." in line


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1.200,50", "7", "-3,5"], "holds numbers with a comma, such as -3,5: write them with"),
        (["1,200", "2,300,000", "900.5"], "holds numbers with a comma, such as 1,200: write them"),
        (["31.12.2024", "1.2.2025"], "holds dates such as 1.2.2025: write them as 2025-01-31."),
        (["3 EUR", "4 EUR"], "holds string, not numbers: add --task classification"),
        (["1.2.3", "1.10.4"], "holds string, not numbers: add --task classification"),
    ],
)
def test_a_target_of_texts_is_told_what_it_was_meant_to_be(tmp_path, values, message):
    table = pa.table({"x": np.arange(float(len(values))), "y": values})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    line = refused("fit", tmp_path / "t.parquet", "-t", "y", "-o", tmp_path / "m")
    assert f"the target 'y' {message}" in line


def test_values_that_cannot_be_used(tmp_path):
    def told(text, *words):
        table = written(tmp_path / "t.csv", text)
        return refused("fit", table, "-t", "y", "-o", tmp_path / "m", *words)

    infinite = lines(a=lambda i: "inf" if i == 3 else "1")
    assert "column 'a' holds infinity, in 1 of 30 rows: write nothing there" in told(infinite)
    assert "column 'y' holds infinity, in 1 of 31 rows" in told(lines() + "1,inf\n")
    weights = lines(w=lambda i: str(i - 2))
    assert "--weight: column 'w' holds -2, and the least weight is 0" in told(
        weights, "--weight", "w"
    )
    assert "--weight: 'y' is the target: name another column" in told(lines(), "--weight", "y")
    gaps = lines(a=lambda i: "1" if i % 2 else "", b=lambda i: "")
    assert (
        "45 values are missing, in columns a (15), b (30): 0 of 30 rows are without gaps"
        in told(gaps, "--impute", "drop")
    )


def test_what_is_read_is_never_replaced(houses, model, tmp_path):
    table = written(tmp_path / "t.csv", (houses / "houses.csv").read_text())
    link = tmp_path / "link.csv"
    link.symlink_to(table)
    before = {path: path.read_bytes() for path in (table, model)}
    for words in (
        ["fit", table, "-t", "price", "-o", table],
        ["fit", table, "-t", "price", "-o", link],
        ["predict", model, table, "-o", table],
        ["report", model, table, "-o", model],
        ["report", model, "-o", model],
    ):
        assert "is what is read: name another file" in refused(*words, "--force")
    assert before == {path: path.read_bytes() for path in before}


def test_the_demo_replaces_nothing_of_yours(tmp_path):
    mine = written(tmp_path / "new.csv", "x,y\n1,2\n")
    assert "new.csv exists: add --force to replace it" in refused("demo", tmp_path)
    assert mine.read_text() == "x,y\n1,2\n"
    assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]


def test_the_demo_runs_every_command_and_compares(tmp_path, monkeypatch):
    for name, value in (("ROWS", 400), ("NEW", 50), ("BASIS", 16)):
        monkeypatch.setattr(f"pursuit.cli.commands._DEMO_{name}", value)
    done = run("demo", tmp_path)
    assert done.exit_code == 0, done.output
    files = {"arm.csv", "new.csv", "arm.pursuit", "out.csv", "report.html"}
    assert {path.name for path in tmp_path.iterdir()} == files
    for command in ("fit", "inspect", "predict", "report"):
        assert f"$ pursuit {command} " in done.stdout
    predicted = pa.csv.read_csv(tmp_path / "out.csv")
    truth = pa.csv.read_csv(tmp_path / "new.csv").column("distance").to_numpy()
    error = np.sqrt(np.mean((predicted["prediction"].to_numpy() - truth) ** 2))
    ours, *peers = [line for line in done.stdout.splitlines() if "kernel " in line][-3:]
    assert float(ours.split()[-1]) == pytest.approx(error, rel=1e-3)
    assert [line.split()[-3] for line in (ours, *peers)] == ["16", "16", "32"]
    lower, upper = (predicted[name].to_numpy() for name in ("lower", "upper"))
    covered = 100 * np.mean((lower <= truth) & (truth <= upper))
    assert f"95 % intervals contain {covered:.1f} % of the new rows." in done.stdout


def test_rows_without_a_target_do_not_judge(houses, model, tmp_path):
    header, *rows = (houses / "houses.csv").read_text().splitlines()
    place = header.split(",").index("price")

    def without(row):
        cells = row.split(",")
        return ",".join([*cells[:place], "", *cells[place + 1 :]])

    some = [*rows[:20], *map(without, rows[20:25])]
    table = written(tmp_path / "n.csv", "\n".join([header, *some]))
    page = tmp_path / "page.html"
    result = run("report", model, table, "-o", page)
    assert (result.exit_code, result.stderr) == (0, "5 rows without 'price' are left out\n")
    assert "<dt>Rows it is judged by</dt><dd>20</dd>" in page.read_text(encoding="utf-8")
    table = written(tmp_path / "n.csv", "\n".join([header, *map(without, rows)]))
    line = refused("report", model, table, "-o", page, "--force")
    assert "has no row with a value of 'price' to judge by" in line


def test_ctrl_c_leaves_the_model_so_far(houses, model, tmp_path, monkeypatch):
    whole = pursuit.SparseGPRegressor.fit
    path, out = tmp_path / "m", tmp_path / "out.csv"
    words = ["fit", houses / "houses.csv", "-t", "price", "--drop", "kind", "-o", path]

    def interrupted(self, *arguments, **named):
        whole(self, *arguments, **named)
        raise KeyboardInterrupt

    def killed(self, *arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(pursuit.SparseGPRegressor, "fit", killed)
    assert refused(*words, "--quiet", code=130) == "pursuit: interrupted"
    assert not path.exists()
    monkeypatch.setattr(pursuit.SparseGPRegressor, "fit", interrupted)
    result = run(*words, "--n-basis", 12)
    assert (result.exit_code, result.stdout) == (130, "")
    said = result.stderr.splitlines()[-2:]
    size = pursuit.load(path).n_basis_
    assert said == [f"{path}: the model so far, {size} basis functions", "pursuit: interrupted"]
    assert pursuit.load(path).verbose == 0
    assert run("predict", path, houses / "houses.csv", "-o", out).exit_code == 0
    expected = run("predict", model, houses / "houses.csv", "-o", "-").stdout
    assert out.read_text() == expected


def test_fit_tells_what_was_cut_short(tmp_path):
    """A shell user sees the notes that learning_report_ holds, when fitting and later."""
    table, path = written(tmp_path / "t.csv", lines(n=300)), tmp_path / "m"
    result = run("fit", table, "-t", "y", "--max-time", 0.001, "--n-basis", 4, "-o", path)
    assert result.exit_code == 0
    notes = pursuit.load(path).learning_report_.warnings
    assert any("no time for a certificate" in note for note in notes)
    told = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    assert told == [f"note: {note}" for note in notes]
    assert json.loads(run("inspect", path, "--json").stdout)["notes"] == notes
    assert run("inspect", path).stdout.splitlines()[-1].endswith("; ".join(notes))


def test_a_column_is_what_it_was_in_the_fitted_table(tmp_path):
    """Codes are texts even where the new ones all look like numbers, and dates are dates."""
    codes = lines(
        code=lambda i: ("007", "12", "A")[i % 3], day=lambda i: f"2025-01-{1 + i % 28:02}"
    )
    model, out = tmp_path / "m", tmp_path / "out.csv"
    table = written(tmp_path / "t.csv", codes)
    assert run("fit", table, "-t", "y", "-o", model, *SMALL).exit_code == 0
    numeric = lines(code=lambda i: ("007", "12")[i % 2], day=lambda i: "2025-01-05")
    result = run("predict", model, written(tmp_path / "n.csv", numeric), "-o", out)
    assert (result.exit_code, result.stderr) == (0, f"{out}: 30 rows\n")
    texts = pa.table({"x": [1, 2], "code": ["A", "12"], "day": ["2025-01-02", "2025-01-03"]})
    encoding = Encoding.from_json(pursuit.load(model).table_)
    X, _ = encoding.encode(texts)
    np.testing.assert_array_equal(X[:, -1], [20_090.0, 20_091.0])
    for column, values in (("x", ["much", "more"]), ("day", [1, 2]), ("day", ["soon", "later"])):
        place = texts.column_names.index(column)
        with pytest.raises(
            WrongCallError, match=f"column '{column}' holds .*, but .*s in the table"
        ):
            encoding.encode(texts.set_column(place, column, [values]))


def test_gaps_are_filled_wherever_they_are_and_are_no_categories(houses, tmp_path):
    words = ["fit", houses / "gaps.csv", "-t", "price", "--drop", "kind", *SMALL]
    model = tmp_path / "m"
    result = run(*words, "--impute", "median", "-o", model)
    assert (result.exit_code, result.output) == (0, "")
    header, first, *_ = (houses / "gaps.csv").read_text().splitlines()
    _, _, _, garden, *rest = first.split(",")
    new = written(tmp_path / "n.csv", "\n".join([header, ",".join(["", "", "?", garden, *rest])]))
    result = run("predict", model, new, "-o", "-", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    encoding = Encoding.from_json(pursuit.load(model).table_)
    medians = [column.fill for column in encoding.columns]
    gaps = pa.table({column.name: pa.nulls(1) for column in encoding.columns})
    X, unseen = encoding.encode(gaps)
    assert unseen == 0
    np.testing.assert_array_equal(X, [[medians[0], 0.0, 0.0, medians[2], medians[3]]])
    full = pa.csv.read_csv(houses / "gaps.csv")
    assert medians[0] == np.nanmedian(full.column("area").to_numpy())


def test_an_output_is_written_whole_or_not_at_all(houses, model, tmp_path, monkeypatch):
    out = written(tmp_path / "out.csv", "before")
    with_prediction = pa.csv.read_csv(houses / "houses.csv")
    with_prediction = with_prediction.append_column("prediction", [[1.0] * 200])
    pa.csv.write_csv(with_prediction, tmp_path / "n.csv")
    words = ["predict", model, tmp_path / "n.csv", "--with-input", "-o", out, "--force"]
    assert "has a column 'prediction' itself: leave out --with-input" in refused(*words)
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n.csv", "out.csv"]
    pa.csv.write_csv(with_prediction.slice(0, 0), tmp_path / "n.csv")
    assert "has no rows to predict" in refused(*words)
    assert "is not a plain file" in refused(
        "predict", model, houses / "houses.csv", "-o", os.devnull, "--force"
    )

    def full(**_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    line = refused("fit", houses / "houses.csv", "-t", "price", "-o", tmp_path / "m", code=1)
    assert "cannot write there: No space left on device: " in line
