"""The commands as a shell user sees them: files in, files out, one line when something is wrong."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import pursuit
from pursuit.cli.app import app
from pursuit.cli.columns import Encoding, learn_encoding

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
    assert "certificate" in certificate
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
    assert run(*words, *SMALL, "--task", "classification").exit_code == 0
    assert run("predict", path, houses / "houses.csv", "--proba", "-o", out).exit_code == 0
    found = pa.csv.read_csv(out)
    assert found.column_names == ["prediction", "p(cheap)", "p(dear)"]
    truth = pa.csv.read_csv(houses / "houses.csv").column("kind").to_pylist()
    right = np.mean([a == b for a, b in zip(found["prediction"].to_pylist(), truth, strict=True)])
    assert right > 0.9
    line = refused("predict", path, houses / "houses.csv", "--std", "-o", out, "--force")
    assert line.endswith("predicts classes: ask for --proba.")


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
    words = ["fit", data, "-t", "kind", "-o", out, "--task", "classification"]
    assert "--auto is for --task regression" in refused(*words, "--auto")
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
    monkeypatch.setattr("pursuit.cli.fit._STREAMED_BYTES", 0)
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


def test_without_typer_one_line_names_the_extra():
    code = (
        "import sys; sys.modules['typer'] = None\n"
        "from pursuit.cli import main; sys.argv = ['pursuit']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert 'pip install "pursuit[cli]"' in line
