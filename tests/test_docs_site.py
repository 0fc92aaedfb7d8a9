"""The documentation names all there is, and what is drawn or written from data is current."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

import pursuit
from pursuit import estimators

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
pytestmark = pytest.mark.skipif(
    not DOCS.exists(), reason="a source distribution has no documentation"
)
ESTIMATORS = sorted(
    name
    for name in set(pursuit.__all__) - {"TableEncoder", "TablePipeline"}  # before any of them
    if hasattr(getattr(estimators, name, None), "fit")
)


def text(path):
    return (ROOT / path).read_text(encoding="utf-8")


def script(name):
    """A script of the documentation, as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_line_of_the_site_ends_within_a_number():
    pytest.importorskip("sphinx", reason="sphinx is not installed")
    from docutils import nodes

    code = nodes.literal("", "1 000 000")
    words = nodes.paragraph("", "", nodes.Text("10 000 000 rows of 2025 1234 and 99 rows"), code)
    script("conf").keep_numbers_whole(None, words)
    assert words.astext() == "10\xa0000\xa0000 rows of 2025 1234 and 99 rows1 000 000"


def test_the_api_page_lists_every_public_name():
    listed = re.findall(r"^   ([\w.]+)$", text("docs/api.rst"), re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(pursuit.__all__) - {"__version__"} <= set(listed)


@pytest.mark.parametrize("page", ["docs/choose.rst", "docs/images/choose.svg", "README.md"])
def test_every_estimator_can_be_chosen(page):
    assert ESTIMATORS
    assert [name for name in ESTIMATORS if not re.search(rf"\b{name}\b", text(page))] == []


def test_the_architecture_page_names_every_room_of_the_contract():
    contract = tomllib.loads(text("pyproject.toml"))["tool"]["importlinter"]["contracts"][0]
    rooms = re.findall(r"\w+", " ".join(contract["layers"]))
    found = re.findall(r"^``(\w+)`` ", text("docs/architecture.rst"), re.MULTILINE)
    assert sorted(found) == sorted(rooms)


def test_the_charts_are_those_that_the_script_draws():
    charts = script("make_charts")
    assert text("docs/images/choose.svg") == charts.choose()
    assert text("docs/images/rooms.svg") == charts.rooms()


def test_the_gallery_has_a_place_for_every_example():
    pytest.importorskip("sphinx_gallery")
    examples = {path.stem for path in (ROOT / "examples").glob("plot_*.py")}
    assert sorted(script("gallery_order").BY_TASK) == sorted(examples)


def test_the_tables_of_the_benchmarks_are_those_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    tables = script("make_benchmarks").tables()
    assert text("docs/benchmarks/tables.inc") == tables, "run python docs/make_benchmarks.py"


def test_the_tables_of_the_fuzzers_are_those_of_the_results():
    tables = script("make_torture").current()
    assert text("docs/torture.inc") == tables, "run python docs/make_torture.py"


def test_the_tables_of_the_peers_are_those_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    tables = script("make_peers").current()
    assert text("docs/peers.inc") == tables, "run python docs/make_peers.py"


def test_every_work_in_the_bibliography_is_cited():
    works = re.findall(r"^@\w+\{(\w+),", text("docs/references.bib"), re.MULTILINE)
    pages = [path for path in DOCS.rglob("*") if path.suffix in (".rst", ".md")]
    pages += [*(ROOT / "examples").glob("*.py"), *(ROOT / "src").rglob("*.py")]
    cited = "".join(
        path.read_text(encoding="utf-8") for path in pages if "_build" not in path.parts
    )
    assert [work for work in works if not re.search(rf"[`,]{work}[`,]", cited)] == []


def test_broken_links_are_found(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "index.html").write_text(
        '<a href="below/page.html#here">1</a> <a href="below/page.html#there">2</a>'
        '<a href="gone.html">3</a> <a href="https://example.org/x">4</a> <a href="#top">5</a>'
        '<h1 id="top"></h1> <img src="gone%20too.png"> <a href="../outside.html">6</a>'
        '<a href="#top">7 <b><a href="below/page.html">8</a></b></a>',
        encoding="utf-8",
    )
    (tmp_path / "below" / "page.html").write_text(
        '<p id="here"><a href="../">up</a>', encoding="utf-8"
    )
    assert list(script("check_links").broken_links(tmp_path)) == [
        ("index.html", "below/page.html", "inside another link"),
        ("index.html", "below/page.html#there", "no such anchor"),
        ("index.html", "gone.html", "no such file"),
        ("index.html", "gone%20too.png", "no such file"),
        ("index.html", "../outside.html", "no such file"),
    ]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_to_files_of_the_repository_are_there(page):
    links = re.findall(r"\]\(([^)#:]+)\)", text(page))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
