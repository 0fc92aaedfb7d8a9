"""Tables as people have them: fit, inspect, predict and report take one command each.

Python reads the same files to the same bits.
"""

from __future__ import annotations

import csv
import datetime
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import pursuit
from pursuit.cli.commands import app

N = 120


def run(*words, given=None):
    return CliRunner().invoke(app, [str(word) for word in words], input=given)


class Maker:
    """Columns of texts, and the target that follows from some of them."""

    def __init__(self, n=N, seed=0):
        self.n, self.rng = n, np.random.default_rng(seed)
        self.columns, self.signal = {}, np.zeros(n)

    def number(self, name, write=lambda value: f"{value:.3f}", low=0.0, high=10.0, gaps=0.0):
        values = self.rng.uniform(low, high, self.n).round(3)
        self.signal += (values - low) / (high - low)
        missing = self.rng.uniform(size=self.n) < gaps
        self.columns[name] = [
            "" if gap else write(value) for value, gap in zip(values, missing, strict=True)
        ]
        return self

    def text(self, name, levels):
        codes = self.rng.integers(len(levels), size=self.n)
        self.signal += codes / len(levels)
        self.columns[name] = [levels[code] for code in codes]
        return self

    def date(self, name, form, years=3):
        days = self.rng.integers(365 * years, size=self.n)
        self.signal += days / (365 * years)
        start = datetime.date(2021, 1, 1)
        self.columns[name] = [
            (start + datetime.timedelta(days=int(day))).strftime(form) for day in days
        ]
        return self

    def fixed(self, name, values):
        self.columns[name] = list(values)
        return self

    def target(self, name, write=lambda value: f"{value:.4f}"):
        noise = 0.05 * self.rng.standard_normal(self.n)
        self.columns[name] = [write(value) for value in 3 * self.signal + noise]
        return self

    def write(self, path, separator=",", encoding="utf-8", header=None):
        with open(path, "w", newline="", encoding=encoding) as file:
            writer = csv.writer(file, delimiter=separator)
            writer.writerow(header or list(self.columns))
            writer.writerows(zip(*self.columns.values(), strict=True))
        return path


def comma(value):
    return f"{value:.3f}".replace(".", ",")


def _bom(path):
    return (
        Maker()
        .number("x")
        .text("city", ["Graz", "Wien"])
        .target("y")
        .write(path, encoding="utf-8-sig")
    )


def _unicode(path):
    made = Maker().number("größe (m²)").text("città", ["Köln", "São Paulo", "Łódź"])
    return made.number("价格").target("y €").write(path)


def _percent(path):
    made = Maker().number("share", lambda value: f"{value:.1f} %", high=100.0)
    made.number("cost", lambda value: f"€ {value:,.2f}", high=5000.0)
    return made.target("y", lambda value: f"{value:.2f} %").write(path)


def _decimal_comma(path):
    made = Maker().number("breite", comma).number("höhe", lambda v: f"{v:.0f}", high=1000)
    return made.target("y", comma).write(path, separator=";")


def _dates(path):
    made = Maker().date("verkauft", "%d.%m.%Y").date("sold", "%m/%d/%Y").number("x")
    return made.target("y").write(path)


def _gaps(path):
    made = Maker()
    for share in (0.0, 0.1, 0.3, 0.6):
        made.number(f"x{share:.0%}", gaps=share)
    made.text("kind", ["a", "b", "", "n/a"])
    made.target("y")
    made.columns["y"][:5] = ["", "NA", "", "", "?"]
    return made.write(path)


def _constants(path):
    made = Maker().number("x").fixed("unit", ["kg"] * N).fixed("zero", ["0"] * N)
    return made.fixed("empty", [""] * N).target("y").write(path)


def _ids(path):
    made = (
        Maker().fixed("id", range(1, N + 1)).fixed("customer", [f"C-{7 * i:05}" for i in range(N)])
    )
    return made.number("x").target("y").write(path)


def _levels(path):
    """3,000 shops, of which a few have most of the 5,000 rows."""
    n, rng = 5000, np.random.default_rng(1)
    popular = (300 * rng.uniform(size=n - 3000) ** 2).astype(int)
    shops = np.concatenate([np.arange(3000), popular])
    made = Maker(n).fixed("shop", [f"shop {shop}" for shop in shops])
    made.signal += shops % 7
    return made.number("x").target("y").write(path)


def _duplicate(path):
    made = Maker().number("x").number("x again").text("city", ["Graz", "Wien"]).target("y")
    return made.write(path, header=["x", "x", "city", "y"])


def _no_target(path):
    return Maker().number("x").fixed("y", [""] * N).write(path)


def _single(path):
    return Maker(1).number("x").target("y").write(path)


# The table, its target, and what `fit` says of it.
FITTED = {
    "bom": (_bom, "y", "predicting numbers: 'y' has 120 different values"),
    "unicode": (_unicode, "y €", "predicting numbers: 'y €' has 120 different values"),
    "percent": (_percent, "y", "column 'share' is read as numbers in %"),
    "decimal comma": (
        _decimal_comma,
        "y",
        "column 'breite' is read as numbers with a decimal comma",
    ),
    "dates": (_dates, "y", "column 'sold' is read as dates, %m/%d/%Y"),
    "gaps": (_gaps, "y", "5 rows are left out: their target 'y' is missing"),
    "constants": (_constants, "y", "column 'unit' is left out: all its values are equal"),
    "ids": (_ids, "y", "column 'customer' is left out"),
    "levels": (_levels, "y", "column 'shop': its 3,000 levels become statistics of the target"),
    "duplicate": (_duplicate, "y", "120 rows, 4 features"),
}
REFUSED = {
    "no target": (
        _no_target,
        "the target 'y': it is missing in every row: name another with --target",
    ),
    "single": (_single, "table.csv has 1 row to learn from, and 2 are the least: add rows."),
}


@pytest.fixture(scope="module", params=FITTED)
def fitted(request, tmp_path_factory):
    """A table, the model that one command makes of it, and what the command says."""
    make, target, said = FITTED[request.param]
    folder = tmp_path_factory.mktemp("messy")
    table, model = make(folder / "table.csv"), folder / "m.pursuit"
    # Without a limit the table of 5,000 rows takes a minute.
    short = request.param == "levels" and not request.config.getoption("--verify")
    more = ["--max-time", 1] if short else []
    done = run("fit", table, "--target", target, "-o", model, *more)
    assert done.exit_code == 0, done.output
    assert said in done.stderr
    return table, target, model


def _numbers(path, name):
    with open(path, newline="", encoding="utf-8") as file:
        return [float(row[name]) for row in csv.DictReader(file)]


def test_inspect_and_report_take_one_command(fitted, tmp_path):
    table, target, model = fitted
    facts = json.loads(run("inspect", model, "--json").stdout)
    assert facts["target"] == target
    assert run("inspect", model).exit_code == 0
    done = run("report", model, table, "-o", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "page.html").stat().st_size > 10_000


def test_predictions_are_python_s_to_the_last_bit(fitted, tmp_path):
    table, _, model = fitted
    done = run("predict", model, table, "--std", "--interval", "0.8", "-o", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    loaded = pursuit.load(model)
    mean, std = loaded.predict(table, return_std=True)
    lower, upper = loaded.predict_interval(table, 0.8, "gaussian")
    for name, values in {"prediction": mean, "std": std, "lower": lower, "upper": upper}.items():
        # Texts that read back as the same numbers: nothing is rounded.
        assert _numbers(tmp_path / "out.csv", name) == values.tolist()


def test_a_data_frame_of_the_texts_gives_the_same_bits(fitted):
    pandas = pytest.importorskip("pandas")
    table, _, model = fitted
    separator = max(",;", key=table.read_text(encoding="utf-8").count)
    texts = pandas.read_csv(table, dtype=str, sep=separator, keep_default_na=False)
    loaded = pursuit.load(model)
    np.testing.assert_array_equal(loaded.predict(texts), loaded.predict(table))
    # A frame whose numbers are numbers is another reading of the same file.
    typed = pandas.read_csv(table, sep=separator)
    np.testing.assert_array_equal(loaded.predict(typed), loaded.predict(table))


def test_the_same_command_gives_the_same_model(tmp_path):
    table = _gaps(tmp_path / "table.csv")
    files = [tmp_path / "one.pursuit", tmp_path / "other.pursuit"]
    for file in files:
        assert run("fit", table, "-t", "y", "-o", file, "-q").exit_code == 0
    one, other = (pursuit.load(file).predict(table) for file in files)
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", REFUSED)
def test_tables_without_anything_to_learn_are_refused_in_one_line(name, tmp_path):
    make, says = REFUSED[name]
    table = make(tmp_path / "table.csv")
    done = run("fit", table, "-t", "y", "-o", tmp_path / "m.pursuit")
    assert done.exit_code == 2
    [line] = done.stderr.splitlines()
    assert says in line
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]
