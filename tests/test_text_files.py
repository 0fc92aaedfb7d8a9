"""Text files are read and written in a named encoding: on Windows the default is not UTF-8."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = "benchmarks docs examples peers src tests tools torture".split()
SCRIPTS = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
    if not {"_build", "auto_examples", "generated"} & set(path.relative_to(ROOT).parts)
)


def without_encoding(code):
    """Line numbers of calls that open text in the encoding of the system."""
    return [node.lineno for node in ast.walk(ast.parse(code)) if is_one(node)]


def is_one(node):
    if not isinstance(node, ast.Call) or {"encoding", None} & {k.arg for k in node.keywords}:
        return False
    owner = getattr(getattr(node.func, "value", None), "id", "")
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if name in ("read_text", "write_text"):
        return len(node.args) < 1 + (name == "write_text")
    if name != "open" or owner in ("Image", "os", "tarfile", "worker"):
        return False
    given = [*node.args, *(k.value for k in node.keywords if k.arg == "mode")]
    texts = [each.value for each in given if isinstance(each, ast.Constant)]
    is_method_without_mode = owner == "self" and not given
    return not is_method_without_mode and not any("b" in str(text) for text in texts[-1:])


@pytest.mark.skipif(
    not all((ROOT / folder).exists() for folder in FOLDERS),
    reason="a source distribution has not all of the folders",
)
def test_every_text_file_has_a_named_encoding():
    assert len(SCRIPTS) > 500
    found = {path: without_encoding(path.read_text(encoding="utf-8")) for path in SCRIPTS}
    assert [f"{path}, lines {lines}" for path, lines in found.items() if lines] == []


def test_a_call_without_an_encoding_is_found():
    code = """
open(path)
open(path, "w")
path.open(mode="a")
gzip.open(path, "wt")
path.read_text()
path.write_text("x")
"""
    assert without_encoding(code) == [2, 3, 4, 5, 6, 7]
    code = """
open(path, "rb")
path.open(mode="wb")
open(path, encoding="utf-8")
path.read_text("utf-8")
path.write_text("x", "utf-8")
open(path, **options)
os.open(path, flags)
"""
    assert without_encoding(code) == []
