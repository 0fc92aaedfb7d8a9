"""The commands as a shell user sees them: files in, files out, one line when something is wrong."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import subprocess
import sys
import sysconfig
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import pursuit
from pursuit.cli import main
from pursuit.cli.commands import app
from pursuit.estimators.table import choice

SMALL = ["--model", "sparse", "--n-basis", "12", "--quiet"]


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
        with open(folder / name, "w", encoding="utf-8", newline="") as file:
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


def test_fit_says_what_it_did(houses, tmp_path):
    path = tmp_path / "m.pursuit"
    words = ["fit", houses / "houses.csv", "--target", "price", "--drop", "kind", "-o", path]
    result = run(*words, "--n-basis", 12)
    assert result.exit_code == 0
    first, error, certificate, following = result.stdout.splitlines()
    assert first.startswith(f"{path}: ")
    assert "basis functions for 200 rows" in first
    assert error.startswith("error on rows left out: ")
    assert "captures at least" in certificate
    assert following.startswith("next: pursuit predict")
    # Progress goes where a pipe does not carry it, in plain lines without a terminal.
    rows, task, kind, *progress = result.stderr.splitlines()
    assert rows.startswith("200 rows, ")
    assert task == (
        "predicting numbers: 'price' has 200 different values, not all of them whole numbers; "
        "--task classification to predict classes"
    )
    assert kind.startswith("model: ")
    assert "learn: " in progress[0]


def test_the_pipeline_is_what_python_would_make(houses, model):
    """The command adds nothing to the encoder and the model but their settings."""
    loaded = pursuit.load(model)
    assert isinstance(loaded, pursuit.TablePipeline)
    assert list(loaded.feature_names_in_) == ["area", "city", "built", "garden"]
    table = pa.csv.read_csv(houses / "houses.csv").drop_columns(["kind"])
    made = type(loaded.steps[-1][1])(n_basis=12, random_state=0)
    by_hand = pursuit.make_table_pipeline(made).fit(table, target="price")
    np.testing.assert_array_equal(by_hand.predict(table), loaded.predict(table))


def test_predictions_are_those_of_the_model(houses, model, tmp_path):
    loaded, data = pursuit.load(model), houses / "houses.csv"
    mean, std = loaded.predict(data, return_std=True)
    for suffix, read in ((".csv", pa.csv.read_csv), (".parquet", pa.parquet.read_table)):
        out = tmp_path / f"out{suffix}"
        words = ["predict", model, data, "--std", "--interval", 0.9, "-o", out]
        assert run(*words).exit_code == 0
        found = read(out)
        assert found.column_names == ["prediction", "std", "lower", "upper"]
        np.testing.assert_array_equal(found["prediction"].to_numpy(), mean)
        np.testing.assert_array_equal(found["std"].to_numpy(), std)
        np.testing.assert_allclose(found["upper"].to_numpy(), mean + 1.6448536 * std, rtol=1e-6)
    truth = pa.csv.read_csv(data).column("price").to_numpy()
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 20.0


def test_bounds_are_guaranteed_if_rows_were_set_aside(houses, tmp_path):
    path, out = tmp_path / "model.pursuit", tmp_path / "out.csv"
    data = houses / "houses.csv"
    done = run("fit", data, "-t", "price", "--drop", "kind", "-o", path, "--conformal", *SMALL[:-1])
    assert done.exit_code == 0, done.output
    assert "split conformal on 100 rows" in done.stdout
    loaded = pursuit.load(path)
    assert run("predict", path, data, "--interval", 0.8, "-o", out).exit_code == 0
    lower, upper = loaded.predict_interval(data, 0.8)
    found = pa.csv.read_csv(out)
    assert found.column_names == ["prediction", "lower", "upper"]
    np.testing.assert_array_equal(found["lower"].to_numpy(), lower)
    np.testing.assert_array_equal(found["upper"].to_numpy(), upper)
    facts = json.loads(run("inspect", path, "--json").stdout)
    certificate = pursuit.load(path).certificate_
    assert facts["captured"] == certificate.captured
    assert facts["relative gap"] == certificate.relative_gap
    assert "\ncaptured " not in run("inspect", path).stdout
    assert facts["coverage"] == str(loaded.coverage_guarantee_)
    page = tmp_path / "report.html"
    assert run("report", path, data, "-o", page).exit_code == 0
    assert "Guaranteed coverage" in page.read_text(encoding="utf-8")
    assert run("predict", path, data, "--interval", 0.999, "-o", tmp_path / "no.csv").exit_code == 2


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
    command = [sys.executable, "-m", "pursuit", "predict", model, houses / "houses.csv"]
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
    line = refused(*words, *SMALL, "--task", "regression")
    assert "add --task classification to predict classes" in line
    result = run(*words, "--auto", "--model", "sparse", "--checkpoint", tmp_path / "run")
    assert result.exit_code == 0
    assert "predicting classes: 'kind' holds text\n" in result.stderr
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
    assert "is for --model sparse" in refused(*words, "--outliers", "--near-rows")


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
    assert isinstance(loaded.steps[-1][1], pursuit.FullScaleGPRegressor)
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
        np.testing.assert_array_equal(table[name].to_numpy(), expected)
    assert run("report", path, tmp_path / "new.csv", "-o", page).exit_code == 0
    assert "What near rows brought, by region" in page.read_text(encoding="utf-8")
    words = [
        "fit",
        houses / "houses.csv",
        "-t",
        "kind",
        "--drop",
        "price",
        "--near-rows",
        *SMALL[2:],
    ]
    assert run(*words, "-o", tmp_path / "c").exit_code == 0
    assert isinstance(pursuit.load(tmp_path / "c").steps[-1][1], pursuit.FullScaleGPClassifier)


def test_missing_values(houses, tmp_path):
    words = ["fit", houses / "gaps.csv", "-t", "price", "--drop", "kind", *SMALL]
    out = tmp_path / "out.csv"
    assert run(*words, "-o", tmp_path / "filled").exit_code == 0
    assert run(*words, "--impute", "median", "-o", tmp_path / "median").exit_code == 0
    assert run(*words, "--impute", "drop", "-o", tmp_path / "drop").exit_code == 0
    filled, median, whole = (pursuit.load(tmp_path / each) for each in ("filled", "median", "drop"))
    [area] = [column for column in filled.steps[0][1].columns_ if column.name == "area"]
    full = pa.csv.read_csv(houses / "gaps.csv").column("area").to_numpy()
    assert (area.fill, area.indicator) == (np.nanmedian(full), True)
    data = houses / "gaps.csv"
    np.testing.assert_array_equal(filled.predict(data), median.predict(data))
    assert whole.steps[-1][1]._sums["n_rows"] == 193
    result = run("predict", tmp_path / "drop", data, "-o", out)
    assert result.exit_code == 0
    assert "Values are missing in columns that had none missing: 'area' (7)" in result.stderr


def test_inspect(houses, model):
    found = json.loads(run("inspect", model, "--json").stdout)
    assert (found["model"], found["target"], found["rows"]) == ("SparseGPRegressor", "price", 200)
    assert found["columns"] == ["area", "city", "built", "garden"]
    assert max(found["importance"], key=found["importance"].get) in ("area", "city")
    plain = run("inspect", model).stdout
    assert "target" in plain
    assert "kernel" in plain


def test_report(houses, model, tmp_path):
    page = tmp_path / "page.html"
    assert run("report", model, houses / "houses.csv", "-o", page).exit_code == 0
    assert "city" in page.read_text(encoding="utf-8")
    assert "exists: add --force" in refused("report", model, "-o", page)


def test_unseen_categories_are_counted(houses, model, tmp_path):
    table = pa.csv.read_csv(houses / "houses.csv").slice(0, 3)
    city = table.column_names.index("city")
    pa.csv.write_csv(table.set_column(city, "city", [["Linz", "Wien", "Linz"]]), tmp_path / "n.csv")
    result = run("predict", model, tmp_path / "n.csv", "-o", tmp_path / "out.csv", "--quiet")
    assert result.exit_code == 0
    assert result.stderr == (
        "warning: 2 values of column 'city' did not occur in training ('Linz').\n"
    )


@pytest.fixture(scope="module")
def model_of_many_scripts(tmp_path_factory):
    """A model whose columns have names that Windows' Western encoding does not have."""
    path = tmp_path_factory.mktemp("scripts") / "m.pursuit"
    table = {"价格": np.arange(20.0), "Łódź": np.arange(20.0) % 3, "Größe": np.arange(20.0) % 5}
    pipeline = pursuit.make_table_pipeline(pursuit.SparseKernelRidge(n_basis=5))
    pipeline.fit(pa.table({**table, "y": np.arange(20.0)}), target="y").save(path)
    return path


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_pipes_get_what_their_encoding_has(model_of_many_scripts, encoding, monkeypatch, capfd):
    """Names of columns are the user's, and on Windows pipes are seldom in UTF-8."""

    def said(*words):
        pipe = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr(sys, "stdout", pipe)
        monkeypatch.setattr(sys, "argv", ["pursuit", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        pipe.flush()
        assert (ended.value.code, capfd.readouterr().err) == (0, "")
        return pipe.buffer.getvalue().decode(encoding)

    names = ["价格", "Łódź", "Größe"]
    shown = said("inspect", model_of_many_scripts)
    for name in names:
        assert name.encode(encoding, "backslashreplace").decode(encoding) in shown
    assert json.loads(said("inspect", model_of_many_scripts, "--json"))["columns"] == names
    assert "--target" in said("fit", "--help")
    assert said("papers", "list").startswith("name")


@pytest.mark.parametrize(
    ("platform", "shown"),
    [("linux", "'C:\\my models\\m.pursuit'"), ("win32", '"C:\\my models\\m.pursuit"')],
)
def test_words_are_quoted_as_the_shell_of_the_system_takes_them(monkeypatch, platform, shown):
    from pursuit.cli import console

    monkeypatch.setattr(console.sys, "platform", platform)
    assert console.quoted("C:\\my models\\m.pursuit") == shown
    assert console.quoted("m.pursuit") == "m.pursuit"


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
        [os.path.join(sysconfig.get_path("scripts"), "pursuit")],
        env={**environment, "COMP_CWORD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "inspect" in done.stdout


def test_without_pyarrow_one_line_names_the_extra(houses, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "pursuit.cli.tables", raising=False)
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


def test_what_is_read_is_never_replaced(houses, model, tmp_path):
    table = written(tmp_path / "t.csv", (houses / "houses.csv").read_text(encoding="utf-8"))
    link = tmp_path / "link.csv"
    try:
        link.symlink_to(table)
    except OSError:  # Windows asks for a privilege
        link = table
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
    assert mine.read_text(encoding="utf-8") == "x,y\n1,2\n"
    assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]


def test_the_demo_runs_every_command_and_compares(tmp_path, monkeypatch):
    for name, value in (("ROWS", 400), ("NEW", 50), ("BASIS", 16)):
        monkeypatch.setattr(f"pursuit.cli.demo._{name}", value)
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
    header, *rows = (houses / "houses.csv").read_text(encoding="utf-8").splitlines()
    place = header.split(",").index("price")

    def without(row):
        cells = row.split(",")
        return ",".join([*cells[:place], "", *cells[place + 1 :]])

    some = [*rows[:20], *map(without, rows[20:25])]
    table = written(tmp_path / "n.csv", "\n".join([header, *some]))
    page = tmp_path / "page.html"
    result = run("report", model, table, "-o", page)
    said = "note: 5 rows are left out: their target 'price' is missing.\n"
    assert (result.exit_code, result.stderr) == (0, said)
    assert "<dt>Rows it is judged by</dt><dd>20</dd>" in page.read_text(encoding="utf-8")
    table = written(tmp_path / "n.csv", "\n".join([header, *map(without, rows)]))
    line = refused("report", model, table, "-o", page, "--force")
    assert "its target 'price': it is missing in every row: name a table with targets" in line


def test_ctrl_c_leaves_the_model_so_far(houses, model, tmp_path, monkeypatch):
    whole = pursuit.SparseGPRegressor.fit
    path, out = tmp_path / "m", tmp_path / "out.csv"
    words = ["fit", houses / "houses.csv", "-t", "price", "--drop", "kind", "-o", path]
    words += SMALL[:2]

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
    assert pursuit.load(path).steps[-1][1].verbose == 0
    assert pursuit.load(path).target_.name == "price"
    assert run("predict", path, houses / "houses.csv", "-o", out).exit_code == 0
    expected = run("predict", model, houses / "houses.csv", "-o", "-").stdout
    assert out.read_text(encoding="utf-8") == expected


def test_fit_tells_what_was_cut_short(tmp_path):
    """A shell user sees the notes that learning_report_ holds, when fitting and later."""
    table, path = written(tmp_path / "t.csv", lines(n=300)), tmp_path / "m"
    result = run("fit", table, "-t", "y", "--max-time", 0.001, "--n-basis", 4, "-o", path)
    assert result.exit_code == 0
    notes = pursuit.load(path).learning_report_.warnings
    assert any("no time for a certificate" in note for note in notes)
    # What Python would write is told as an option.
    python, option = "SparseGPRegressor(noise='varying')", "pursuit fit --varying-noise"
    notes = [note.replace(python, option) for note in notes]
    told = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    assert told == [f"note: {note}" for note in notes]
    assert json.loads(run("inspect", path, "--json").stdout)["notes"] == notes
    assert run("inspect", path).stdout.splitlines()[-1].endswith("; ".join(notes))


def test_an_output_is_written_whole_or_not_at_all(houses, model, tmp_path, monkeypatch):
    out = written(tmp_path / "out.csv", "before")
    with_prediction = pa.csv.read_csv(houses / "houses.csv")
    with_prediction = with_prediction.append_column("prediction", [[1.0] * 200])
    pa.csv.write_csv(with_prediction, tmp_path / "n.csv")
    words = ["predict", model, tmp_path / "n.csv", "--with-input", "-o", out, "--force"]
    assert "has a column 'prediction' itself: leave out --with-input" in refused(*words)
    assert out.read_text(encoding="utf-8") == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n.csv", "out.csv"]
    pa.csv.write_csv(with_prediction.slice(0, 0), tmp_path / "n.csv")
    assert "has no rows to predict" in refused(*words)

    def full(**_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    line = refused("fit", houses / "houses.csv", "-t", "price", "-o", tmp_path / "m", code=1)
    assert "cannot write there: No space left on device: " in line


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
        found = pursuit.load(model).predict(pa.table({"x": [1.0, 2.0], "city": ["Graz", "Wien"]}))
        expected = found if expected is None else expected
        np.testing.assert_array_equal(found, expected)


def test_a_column_is_what_it_was_in_the_fitted_table(tmp_path):
    """Codes are texts even where the new ones all look like numbers."""
    model, out = tmp_path / "m", tmp_path / "out.csv"
    table = written(tmp_path / "t.csv", lines(code=lambda i: ("007", "12", "A")[i % 3]))
    assert run("fit", table, "-t", "y", "-o", model, *SMALL).exit_code == 0
    new = written(tmp_path / "n.csv", lines(code=lambda i: ("007", "12")[i % 2]))
    result = run("predict", model, new, "-o", out)
    assert (result.exit_code, result.stderr) == (0, f"{out}: 30 rows\n")
    texts = {"x": list(range(30)), "code": [("007", "12")[i % 2] for i in range(30)]}
    expected = pursuit.load(model).predict(pa.table(texts))
    np.testing.assert_array_equal(pa.csv.read_csv(out)["prediction"].to_numpy(), expected)


def test_pieces_give_the_bits_of_the_whole(houses, model, tmp_path, monkeypatch):
    """A table of any size is read in pieces, here of one block."""
    from pursuit.cli import tables
    from pursuit.rows import BLOCK_ROWS

    monkeypatch.setattr(tables, "_PIECE_ROWS", BLOCK_ROWS)
    long = pa.concat_tables([pa.csv.read_csv(houses / "houses.csv")] * 90)
    pa.parquet.write_table(long, tmp_path / "long.parquet", row_group_size=3_000)
    words = ["predict", model, tmp_path / "long.parquet", "--std", "-o", tmp_path / "out.parquet"]
    assert run(*words).exit_code == 0
    found = pa.parquet.read_table(tmp_path / "out.parquet")
    mean, std = pursuit.load(model).predict(tmp_path / "long.parquet", return_std=True)
    assert len(mean) > 2 * BLOCK_ROWS
    np.testing.assert_array_equal(found["prediction"].to_numpy(), mean)
    np.testing.assert_array_equal(found["std"].to_numpy(), std)
    linz = long.set_column(1, "city", [["Linz"] * len(long)])
    pa.parquet.write_table(linz, tmp_path / "linz.parquet")
    result = run("predict", model, tmp_path / "linz.parquet", "--std", "-o", os.devnull)
    assert result.stderr == (
        f"warning: {BLOCK_ROWS:,} values of column 'city' did not occur in training ('Linz'). It "
        "is so in 2 further parts of the table.\n"
    )


def test_models_of_python(houses, tmp_path):
    """A pipeline, and a plain estimator that knows the names of its columns."""
    table = pa.csv.read_csv(houses / "houses.csv")
    numbers, out = table.select(["area"]), tmp_path / "out.csv"
    y = table["price"].to_numpy()
    ridge = pursuit.SparseKernelRidge(n_basis=8).fit(numbers, y)
    machine = pursuit.LowRankSVC(n_basis=8, random_state=0)
    classes = pursuit.make_table_pipeline(machine).fit(table.drop_columns("price"), target="kind")
    for fitted, expected in ((ridge, ridge.predict(numbers)), (classes, classes.predict(table))):
        fitted.save(tmp_path / "m.pursuit")
        words = ["predict", tmp_path / "m.pursuit", houses / "houses.csv", "-o", out, "--force"]
        assert run(*words).exit_code == 0
        assert pa.csv.read_csv(out)["prediction"].to_pylist() == expected.tolist()
        inspected = json.loads(run("inspect", tmp_path / "m.pursuit", "--json").stdout)
        assert "area" in inspected["columns"]
        assert "leave --" in refused(*words, "--std" if fitted is ridge else "--proba")


def test_pipes(houses, model, tmp_path):
    """Tables and models go through standard input and output."""
    table = (houses / "houses.csv").read_bytes()
    words = ["-t", "price", "--drop", "kind", *SMALL]
    made = CliRunner().invoke(app, ["fit", "-", *words, "-o", "-"], input=table)
    assert (made.exit_code, made.stderr) == (0, "")
    (tmp_path / "piped.pursuit").write_bytes(made.stdout_bytes)
    loaded = pursuit.load(tmp_path / "piped.pursuit")
    expected = pursuit.load(model).predict(houses / "houses.csv")
    np.testing.assert_array_equal(loaded.predict(houses / "houses.csv"), expected)
    told = CliRunner().invoke(app, ["predict", str(model), "-"], input=table)
    assert told.stdout == run("predict", model, houses / "houses.csv").stdout
    again = ["predict", "-", str(houses / "houses.csv")]
    assert CliRunner().invoke(app, again, input=made.stdout_bytes).stdout == told.stdout
    page = CliRunner().invoke(app, ["report", str(model), "-o", "-"]).stdout
    assert page.lower().startswith("<!doctype html>")


def test_nothing_is_kept_in_dev_null(houses, model):
    words = ["fit", houses / "houses.csv", "-t", "price", "--drop", "kind", *SMALL[:-1]]
    result = run(*words, "-o", os.devnull)
    assert result.exit_code == 0
    assert result.stdout.startswith("model: ")
    assert "next:" not in result.stdout
    assert run("predict", model, houses / "houses.csv", "-o", os.devnull).exit_code == 0
    assert run("report", model, "-o", os.devnull).exit_code == 0
    assert not os.path.isfile(os.devnull)


def test_json_is_one_object_on_standard_output(houses, model, tmp_path):
    words = ["fit", houses / "houses.csv", "-t", "kind", "--drop", "price", *SMALL]
    done = run(*words, "-o", tmp_path / "m.pursuit", "--json")
    facts = json.loads(done.stdout)
    assert (facts["task"], facts["target"], facts["classes"], facts["rows"]) == (
        "classification",
        "kind",
        ["cheap", "dear"],
        200,
    )
    assert done.stderr == ""
    out = tmp_path / "out.csv"
    done = run("predict", model, houses / "houses.csv", "--std", "-o", out, "--json", "-q")
    assert json.loads(done.stdout) == {
        "output": str(out),
        "rows": 200,
        "columns": ["prediction", "std"],
    }
    done = run("predict", model, houses / "houses.csv", "--with-input", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    np.testing.assert_array_equal(
        [row["prediction"] for row in rows], pursuit.load(model).predict(houses / "houses.csv")
    )
    assert {row["city"] for row in rows} == {"Graz", "Wien"}
    done = run("report", model, "-o", tmp_path / "page.html", "--json")
    assert json.loads(done.stdout) == {"output": str(tmp_path / "page.html")}


def test_unusable_columns_are_left_out_when_asked(tmp_path):
    text = lines(a=lambda i: "inf" if i == 3 else str(i % 7), day=lambda i: f"0{1 + i % 9}/02/2024")
    words = ["fit", written(tmp_path / "t.csv", text), "-t", "y", "-o", tmp_path / "m", *SMALL[:-1]]
    line = refused(*words)
    assert line.endswith("add --drop-unusable, or --drop a --drop day.")
    result = run(*words, "--drop-unusable")
    assert result.exit_code == 0
    assert "note: column 'a' is left out: it holds infinity, in 1 of 30 rows." in result.stderr
    assert list(pursuit.load(tmp_path / "m").steps[0][1].get_feature_names_out()) == ["x"]


def test_counts_get_a_model_of_counts(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 120).round(3)
    table = pa.table({"x": x, "y": rng.poisson(np.exp(1 + x))})
    pa.csv.write_csv(table, tmp_path / "t.csv")
    words = ["fit", tmp_path / "t.csv", "-t", "y", "--n-basis", 6, "-o", tmp_path / "m"]
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert isinstance(pursuit.load(tmp_path / "m").steps[-1][1], pursuit.SparseKernelGLM)
    [said] = [line for line in result.stderr.splitlines() if line.startswith("model: ")]
    assert said.startswith("model: Poisson counts: ")
    assert run("predict", tmp_path / "m", tmp_path / "t.csv").exit_code == 0
    assert "leave --std" in refused("predict", tmp_path / "m", tmp_path / "t.csv", "--std")
    # A guarantee takes a model with intervals, whichever is best without one.
    chosen = choice.Choice("Poisson counts", pursuit.SparseKernelGLM(), "Poisson counts", {})
    monkeypatch.setattr(choice, "choose_model", lambda *_, **__: chosen)
    result = run(*words, "--conformal", "--force")
    assert "model: small process, for --conformal; else Poisson counts" in result.stderr
    assert pursuit.load(tmp_path / "m").coverage_guarantee_ is not None


def test_tables_beyond_memory_are_encoded_whenever_they_are_read(houses, tmp_path, monkeypatch):
    """Texts, gaps and all: the model of a stream is that of the table in memory."""
    words = ["fit", houses / "gaps.csv", "-t", "price", "--drop", "kind", *SMALL]
    assert run(*words, "-o", tmp_path / "held").exit_code == 0
    monkeypatch.setattr("pursuit.estimators.table.encoder.IN_MEMORY_BYTES", 0)
    assert run(*words, "-o", tmp_path / "streamed").exit_code == 0
    streamed = run("predict", tmp_path / "streamed", houses / "gaps.csv", "--std").stdout
    monkeypatch.undo()
    assert streamed == run("predict", tmp_path / "held", houses / "gaps.csv", "--std").stdout
