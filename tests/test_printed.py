"""Names that give orders to a terminal are escaped wherever they are printed."""

import json
import os

import numpy as np
import pytest

from pursuit import SparseGPRegressor, load, make_table_pipeline
from pursuit.printed import printable
from pursuit.rows import open_table

EVIL = "size\x1b[31m\u202eezis\x9b2J\r"
"""Colours, reverses and clears."""
ESCAPED = "size\\x1b[31m\\u202eezis\\x9b2J\\r"


def hostile(text):
    """Characters of a text that are no visible ones, line breaks between lines aside."""
    return [one for one in text if not one.isprintable() and one != "\n"]


@pytest.mark.parametrize(
    ("name", "shown"), [(EVIL, ESCAPED), ("Größe  日本 😀", "Größe  日本 😀"), ("a\nb", "a\\nb")]
)
def test_what_cannot_be_seen_is_escaped(name, shown):
    assert printable(name) == shown
    assert printable(name, keep="\n") == shown.replace("\\n", "\n")


@pytest.fixture(scope="module")
def table():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((60, 2)), columns=[EVIL, "b\nwarning: all is lost"])
    X["kind"] = np.where(X[EVIL] > 0, "up\x1b[5m", "down")
    return X, X[EVIL].to_numpy() + (X["kind"] == "down")


@pytest.fixture(scope="module")
def model(table):
    X, y = table
    return make_table_pipeline(SparseGPRegressor(n_basis=8, random_state=0)).fit(X, y)


def test_reports_of_a_model(model, table, tmp_path):
    inner = model.steps[-1][1]
    for text in (str(inner.learning_report_), str(model.importance(*table[:1]))):
        assert not hostile(text)
        assert "\nwarning: all is lost" not in text
    model.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    # Scripts hold data, which browsers put into texts; all else is read as it is.
    text = page.split("<script", 1)[0]
    assert not [one for one in hostile(text) if one != "\t"]


@pytest.mark.parametrize("as_json", [False, True])
def test_inspect(model, tmp_path, capsys, as_json):
    commands = pytest.importorskip("pursuit.cli.inspect")
    model.save(tmp_path / "model.pursuit")
    commands.inspect(tmp_path / "model.pursuit", as_json=as_json)
    said = capsys.readouterr().out
    assert not hostile(said)
    assert "\nwarning: all is lost" not in said
    if as_json:
        assert EVIL in json.loads(said)["columns"]
    else:
        assert ESCAPED in said


def test_errors(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    # Windows has no control characters in names of files.
    name = EVIL if os.name == "posix" else "size\u202eezis\x9b2J"
    path = tmp_path / f"{name}.parquet"
    parquet.write_table(pa.table({EVIL: [1.0, None]}), path)
    table = open_table(path)
    for call in (lambda: table.select(["other"]), lambda: list(table.blocks(5))):
        with pytest.raises(ValueError, match="size") as caught:
            call()
        assert not hostile(str(caught.value))
    with pytest.raises((OSError, ValueError), match="size") as caught:
        load(tmp_path / f"{name}.pursuit")
    assert not hostile(str(caught.value))
