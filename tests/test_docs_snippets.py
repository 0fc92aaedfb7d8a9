"""The Python code of the README and the guides runs, prints what they say, and quotes truly."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", "CONTRIBUTING.md", "docs/getting_started.md"]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
SOURCE_NAME = re.compile(r"# (src/\S+\.py)\n")
DEFINITION = re.compile(r"^@dataclass.*", re.MULTILINE | re.DOTALL)


def blocks(page):
    """Language, text and first line number of each fenced block."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        yield match[1], match[2], text.count("\n", 0, match.start()) + 2


def run(page):
    """Run the blocks of a page in one namespace, as a reader would.

    Gives each ```text block with its line number, and what the code before it printed.
    """
    namespace = {"__name__": "snippets"}
    printed = io.StringIO()
    shown = []
    for language, text, line in blocks(page):
        if language == "python":
            # The line numbers of a traceback are then those of the page.
            code = compile("\n" * (line - 1) + text, str(ROOT / page), "exec")
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code, namespace)
        elif language == "text":
            shown.append((line, text, printed.getvalue()))
    return shown


@pytest.mark.parametrize("page", PAGES)
def test_the_code_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line, said, printed in run(page):
        place = f"{page}, line {line}"
        assert NUMBER.sub("#", printed) == NUMBER.sub("#", said), place
        # Rounding differs between machines, and may lead to another choice of basis.
        numbers = [[float(number) for number in NUMBER.findall(text)] for text in (printed, said)]
        assert numbers[0] == pytest.approx(numbers[1], rel=0.05), place


@pytest.mark.parametrize("page", PAGES)
def test_every_page_has_code(page):
    assert sum(language == "python" for language, _, _ in blocks(page)) >= 1


def test_what_is_quoted_from_the_source_is_in_the_source():
    quoted = [
        (SOURCE_NAME.match(text), DEFINITION.search(text))
        for page in PAGES
        for language, text, _ in blocks(page)
        if language == "python" and SOURCE_NAME.match(text)
    ]
    assert quoted
    for name, definition in quoted:
        assert definition[0] in (ROOT / name[1]).read_text(encoding="utf-8")
